"""What is expected of a score on new rows: correlations with S, with intervals (METHOD 12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.stats

from fairspan.method.certificates import ExpectedDependence, NewRowsCertificate
from fairspan.method.fold_codes import Flags
from fairspan.method.folds import PositionFolds
from fairspan.method.linalg import Array, psd_eigh, take, to_numpy
from fairspan.method.new_rows import CrossFit
from fairspan.method.pilot import Pilot
from fairspan.method.problem import Codes, Data
from fairspan.method.subspaces import supremum

__all__ = ["expect", "measure_spread"]

# Confidence of the intervals of a certificate.
CONFIDENCE = 0.95
# Rows from which the joint spread of codes and scores is measured.
SPREAD_ROWS = 10_000
# Of the order in which rows are drawn for it.
_SALT = 17
# Most entries of one spread.
_MOST_ENTRIES = 10**6


def measure_spread(fit: CrossFit, pilot: Pilot, data: Data) -> CrossFit:
    """Measure the joint spread of codes and out-of-fold scores on the training rows, or on some of them."""
    chosen: Any = slice(None)
    counter = pilot.counter()
    few = data.n > SPREAD_ROWS and data.clusters is None
    if few and isinstance(counter, PositionFolds):
        # The fold of a row does not depend on the other rows, so these need not be encoded.
        data = data.take(
            np.sort(np.random.default_rng(0).choice(data.n, SPREAD_ROWS, replace=False))
        )
    encoded = pilot.encode(data)
    folds = to_numpy(pilot.folds(data, encoded, counter))
    if few and len(folds) > SPREAD_ROWS:
        chosen = np.sort(pilot.row_keys(data, encoded).shuffled(_SALT)[:SPREAD_ROWS])
    folds, X = folds[chosen], take(data.X, chosen)
    K, D, m = fit.fold_bases.shape
    columns = pilot.features.scores(X, fit.fold_bases.transpose(1, 0, 2).reshape(D, K * m))
    scores = to_numpy(columns).reshape(len(folds), K, m)[np.arange(len(folds)), folds]
    cells, levels, values = (
        to_numpy(part)[chosen] for part in (encoded.cells, encoded.levels, encoded.values)
    )
    weight = np.ones(data.n) if data.weights is None else to_numpy(data.weights)
    codes = []
    for block in fit.blocks:
        cell = block.codes.cell
        inside = np.ones(len(folds), dtype=bool) if cell is None else cells == cell
        codes.append(
            (
                block.codes.of_rows(levels, values, inside),
                block.codes.has_code(levels, values, inside),
            )
        )
    scores = np.asarray(scores, dtype=np.float64)
    return with_spread(fit, scores, folds, weight[chosen], codes, data.clusters)


def with_spread(
    fit: CrossFit,
    scores: Array,
    folds: Array,
    weight: Array,
    codes: list[tuple[Array, Flags]],
    clusters: Codes | None = None,
) -> CrossFit:
    """Add ``E[c c' f f']`` of every block, measured on rows, or on sums over the rows of each cluster.

    Parameters
    ----------
    scores : out-of-fold values of the basis, (n, m).
    folds, weight, clusters : of the rows, (n,).
    codes : for every block the codes of the rows, (n, r), and which rows have one, (n,).
    """
    centred = _centred(scores, folds, weight)
    blocks = []
    for block, (values, known) in zip(fit.blocks, codes, strict=True):
        f, w = centred[known], weight[known]
        c = _centred(values[known], folds[known], w)
        spread = None
        if c.shape[1] ** 2 * f.shape[1] ** 2 <= _MOST_ENTRIES and w.sum() > 0.0:
            pairs = np.einsum("na,ni->nai", c, f).reshape(len(c), -1)
            if clusters is None:
                moments = (pairs * (w / w.sum())[:, None]).T @ pairs
            else:
                _, cluster = np.unique(clusters[known], return_inverse=True)
                sums = np.zeros((int(cluster.max()) + 1, pairs.shape[1]))
                np.add.at(sums, cluster, pairs * (w / w.sum())[:, None])
                moments = block.n_effective * (sums.T @ sums)
            r, m = c.shape[1], f.shape[1]
            spread = moments.reshape(r, m, r, m).transpose(0, 2, 1, 3)
        blocks.append(replace(block, spread=spread))
    return replace(fit, blocks=tuple(blocks))


def _centred(values: Array, folds: Array, weight: Array) -> Array:
    """Subtract the weighted mean of every fold."""
    out = values.copy()
    for fold in np.unique(folds):
        rows = folds == fold
        out[rows] -= weight[rows] @ values[rows] / weight[rows].sum()
    return out


def expect(
    fit: CrossFit,
    C: Array,
    path_cov: Array,
    block_cov: tuple[Array, ...],
    *,
    removal: str = "new_rows",
    confidence: float = CONFIDENCE,
    attribute: str | None = None,
) -> NewRowsCertificate:
    """Estimate the dependence on new rows of the functions with coefficients C on the basis.

    ``path_cov`` and ``block_cov`` are covariances of the averaged functions on the training rows, over all
    rows and in the cell of every block. With ``attribute``, only its blocks are used.
    """
    chosen = [b for b in fit.blocks if attribute in (None, b.codes.report.attribute)]
    n_constrained = max(sum(block.codes.report.constrained for block in chosen), 1)
    level = 1.0 - (1.0 - confidence) / n_constrained
    averaged, out_of_fold = (float(np.trace(C.T @ cov @ C)) for cov in (path_cov, fit.cov))
    # Functions of the folds vary more than their average; so does the estimate.
    kappa = out_of_fold / averaged if averaged > 0.0 else 1.0
    inflation = float(np.sqrt(1.0 + fit.n_folds * max(kappa - 1.0, 0.0)))
    blocks = []
    for block in chosen:
        report, r, L = block.codes.report, block.codes.rank, C.shape[1]
        within = C.T @ block_cov[block.index] @ C
        cov = block.cov @ C
        correlation, _ = supremum(within, cov.T)
        variance = float(np.trace(within)) / L
        error = 0.0
        if variance > 0.0:
            spread = out_of_fold / L
            if block.spread is not None and L == 1:
                spread = float(
                    psd_eigh(np.einsum("abij,i,j->ab", block.spread, C[:, 0], C[:, 0]))[0][0]
                )
            error = float(np.sqrt(spread / variance / block.n_effective)) * inflation
        z = float(np.sqrt(scipy.stats.chi2.ppf(level, r * L)))
        signed = None
        if r == 1 and L == 1 and variance > 0.0:
            at_zero = float((block.cov @ fit.first)[0, 0])
            signed = float(cov[0, 0]) / np.sqrt(variance) * (1.0 if at_zero >= 0.0 else -1.0)
        blocks.append(
            ExpectedDependence(
                cell=report.cell,
                attribute=report.attribute,
                coding=report.coding,
                constrained=report.constrained,
                correlation=correlation,
                signed=signed,
                standard_error=error,
                low=max(correlation - z * error, 0.0),
                high=min(correlation + z * error, 1.0),
                n_effective=block.n_effective,
                directions=block.directions,
                independent_spread=block.spread is None or L > 1,
            )
        )
    return NewRowsCertificate(
        removal=removal, blocks=tuple(blocks), confidence=confidence, n_folds=fit.n_folds
    )
