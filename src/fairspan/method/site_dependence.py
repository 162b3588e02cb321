"""Dependence of a fitted score on protected attributes at one site, from that site's moments alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairspan.method.linalg import Array
from fairspan.method.moments import LevelStats, Moments, kish
from fairspan.method.pilot import Pilot
from fairspan.method.problem import MIN_ROWS

__all__ = ["SiteDependence", "SiteSums", "site_dependence"]


@dataclass(frozen=True, kw_only=True)
class SiteSums:
    """Moments of a site, in the few functions that all models of the dial are made of."""

    site: str
    moments: Moments


@dataclass(frozen=True, kw_only=True)
class SiteDependence:
    """How the fitted score depends on one attribute at one site, on the rows that the site sent.

    Attributes
    ----------
    site, cell, attribute : str
        Names of the site, of the cell and of the attribute.
    n_rows : int
        Rows of the groups that are compared.
    correlation : float
        Multiple correlation of the score with the groups (the largest over outputs). The merged model has
        its dependence removed over all sites together, so a site can have some.
    by_chance : float
        What the correlation is about, if there is no dependence and the site's rows are new to the model.
    means : dict
        Mean score of each group less that of the cell, in standard deviations of the score in the cell;
        of the output with the largest correlation.
    left_out : tuple of str
        Groups with fewer than five rows in the cell.
    """

    site: str
    cell: str
    attribute: str
    n_rows: int
    correlation: float
    by_chance: float
    means: dict[str, float]
    left_out: tuple[str, ...] = ()


def site_dependence(sums: SiteSums, pilot: Pilot, functions: Array) -> list[SiteDependence]:
    """Compute the dependence of scores, the columns of ``functions``, in every constrained cell."""
    out = []
    for c, cell in enumerate(pilot.cells.names):
        pooled = sums.moments.pool(cell=c)
        if pooled.weight <= 0.0:
            continue
        variance = np.einsum("dk,de,ek->k", functions, pooled.cov, functions)
        centre = pooled.mean @ functions
        for j, coder in enumerate(pilot.coders):
            levels = pooled.levels[j]
            labels = [str(label) for label in coder.labels]
            out.append(
                _of_attribute(
                    sums.site, cell, coder.name, labels, levels, functions, centre, variance
                )
            )
    return out


def _of_attribute(
    site: str,
    cell: str,
    attribute: str,
    labels: list[str],
    levels: LevelStats,
    functions: Array,
    centre: Array,
    variance: Array,
) -> SiteDependence:
    used = np.flatnonzero(levels.rows >= MIN_ROWS)
    weight = levels.weight[used]
    means = levels.mean[used] @ functions
    share = weight / weight.sum() if len(used) else weight
    between = share @ (means - share @ means) ** 2
    sd = np.sqrt(np.maximum(variance, 0.0))
    safe = np.where(sd > 0.0, sd, 1.0)
    correlations = np.where(sd > 0.0, np.sqrt(between) / safe, 0.0)
    k = int(np.argmax(correlations))
    effective = kish(float(weight.sum()), float(levels.weight2[used].sum()))
    chance = np.sqrt(max(len(used) - 1, 0) / effective) if effective > 0.0 else 1.0
    return SiteDependence(
        site=site,
        cell=cell,
        attribute=attribute,
        n_rows=int(levels.rows[used].sum()),
        correlation=float(min(correlations[k], 1.0)),
        by_chance=float(min(chance, 1.0)),
        means={labels[h]: float((means[i, k] - centre[k]) / safe[k]) for i, h in enumerate(used)},
        left_out=tuple(label for h, label in enumerate(labels) if 0 < levels.rows[h] < MIN_ROWS),
    )
