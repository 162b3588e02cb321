"""The path's functions fitted without a fold, from moments: honest scores for training rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fairspan._linalg import Array
from fairspan.moments import Moments, Pooled
from fairspan.subspaces import Metric, removed_basis

# What the basis may miss of its own functions before it is no basis of them, as a share.
_MISSED = 1e-6


@dataclass(frozen=True)
class HeldOut:
    """A basis like B for the rows of each fold, learnt from the rows of the others."""

    bases: Array  # (folds, D, 2d)
    centres: Array  # (folds, 2d)


def held_out_bases(
    moments: Moments,
    target: Callable[[Pooled], Array],
    covectors: list[Array],
    eta_y: float,
    basis: Array,
    metric: Metric | None,
) -> HeldOut | None:
    """``B_k = [P_F g_k, (I - P_F) g_k]`` in the scale of B; None where B is not made of g alone.

    With all rows ``P_F g`` is B's fair half times some matrix, and so is the rest; the same matrices
    turn the ridge functions g_k of a fold into columns that the head's coefficients fit. F stays
    that of all rows: it knows S, and of the labels only what the criterion's cells are made of.
    ``metric`` None is the correlation geometry, of each fold's own rows.
    """
    d = basis.shape[1] // 2
    if moments.n_folds < 2 or d == 0:
        return None

    def halves(pooled: Pooled) -> tuple[Array, Array]:
        ridge = Metric.correlation(pooled.cov, eta_y)
        g = ridge.solve(target(pooled))
        coordinates = ridge if metric is None else metric
        Q, u = removed_basis(coordinates, covectors), coordinates.functions(g)
        outside = coordinates.back(Q @ (Q.T @ u))
        return g - outside, outside

    unmix, parts = [], halves(moments.pool())
    size = max(float(np.linalg.norm(parts[0] + parts[1])), 1e-300)
    for half, whole in zip((basis[:, :d], basis[:, d:]), parts, strict=True):
        mix = scipy.linalg.lstsq(half, whole, cond=1e-12)[0]
        if np.linalg.norm(whole - half @ mix) > _MISSED * size:
            return None
        unmix.append(scipy.linalg.pinv(mix, rtol=1e-9))
    bases, centres = [], []
    for fold in range(moments.n_folds):
        others = moments.pool(folds=np.arange(moments.n_folds) != fold)
        if others.rows == 0:
            return None
        found = [part @ mix for part, mix in zip(halves(others), unmix, strict=True)]
        bases.append(np.concatenate(found, axis=1))
        centres.append(bases[-1].T @ others.mean)
    return HeldOut(np.array(bases), np.array(centres))
