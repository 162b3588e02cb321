"""Distance correlation with an interval, for numbers that may depend on each other in any way."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from fairspan.auditing._dependence import distance_correlation
from fairspan.method.linalg import Array

__all__ = ["distance_interval"]

# Distances among so many rows give the interval; its width is that of all rows.
_ROWS = 1_000


def distance_interval(
    f: Array, s: Array, weight: Array, level: float, n_boot: int, rng: np.random.Generator
) -> tuple[int, float, float, float]:
    """Distance correlation of scores with a number: rows used, estimate, low, high.

    The distance covariance is the length of ``nu = P_fs - P_f P_s`` in a Hilbert space, so the law of
    :func:`summarise` holds with ``|nu* - nu|``: a form in the distances, computed on some of the rows
    and scaled to all of them, as it falls with the square root of their number.
    """
    rows = rng.permutation(len(s))[:_ROWS]
    if f.shape[1] > 1:  # then every two rows are compared: the estimate is of these rows, too
        f, s, weight, rows = f[rows], s[rows], weight[rows], np.arange(len(rows))
    n = len(s)
    value = distance_correlation(f, s, weight)
    A, B = cdist(f[rows], f[rows]), np.abs(s[rows, None] - s[rows])
    w = weight[rows] / weight[rows].sum()
    m = len(rows)
    counts = np.stack([np.bincount(rng.integers(0, m, m), minlength=m) for _ in range(n_boot)], 1)
    W = counts * w[:, None]
    W /= W.sum(axis=0)
    own, draws = w[:, None], W
    both = _inner(A, B, draws, draws) - 2.0 * _inner(A, B, draws, own) + _inner(A, B, own, own)
    scale = _spread(A, w) * _spread(B, w)
    if scale <= 0.0:
        return n, value, value, value  # a constant tells nothing, and is known to
    reach = np.sqrt(np.maximum(both, 0.0) / scale)
    q = float(np.quantile(reach, level)) * np.sqrt(m / n)
    return n, value, max(value - q, 0.0), min(value + q, 1.0)


def _inner(A: Array, B: Array, U: Array, V: Array) -> Array:
    """``<nu(u), nu(v)>`` for the columns of U and V (V may be one column for all)."""
    if V.shape[1] < U.shape[1]:
        V = np.broadcast_to(V, U.shape)
    AU, BU, AV, BV = A @ U, B @ U, A @ V, B @ V
    joint = np.einsum("ib,ib->b", U, (A * B) @ V)
    mixed = np.einsum("ib,ib,ib->b", U, AV, BV) + np.einsum("ib,ib,ib->b", V, AU, BU)
    return np.asarray(joint - mixed + np.einsum("ib,ib->b", U, AV) * np.einsum("ib,ib->b", U, BV))


def _spread(D: Array, w: Array) -> float:
    """Distance variance."""
    inner = _inner(D, D, w[:, None], w[:, None])
    return float(np.sqrt(max(float(inner[0]), 0.0)))
