"""Distance correlation of scores with a number, and its bootstrap interval.

The distance correlation is 0 only for independent variables, whatever the form of their dependence.
"""

from __future__ import annotations

from math import nan, sqrt

import numpy as np
from scipy.spatial.distance import cdist

from fairspan.method.linalg import Array
from fairspan.metrics.groups import bootstrap_counts
from fairspan.metrics.scores import standardize

__all__ = [
    "distance_correlation",
    "distance_interval",
    "distances",
]

# The interval is computed from the distances among this many rows, and scaled to all rows.
_ROWS = 1_000
# Largest number of rows whose distances are all computed, for scores of several columns.
_DENSE_ROWS = 2000


def distance_interval(
    f: Array, s: Array, weight: Array, level: float, n_boot: int, rng: np.random.Generator
) -> tuple[int, float, float, float]:
    """Distance correlation of scores with a number: rows used, estimate, low, high.

    The distance covariance is the length of ``nu = P_fs - P_f P_s`` in a Hilbert space, so the
    inequality of :func:`summarise` holds with ``|nu* - nu|`` for a resample ``nu*``. This length is a
    form in the distances. It is computed on some of the rows and scaled to all of them, as it falls
    with the square root of their number.
    """
    rows = rng.permutation(len(s))[:_ROWS]
    if (
        f.shape[1] > 1
    ):  # several columns need all pairs of rows, so the estimate uses these rows too
        f, s, weight, rows = f[rows], s[rows], weight[rows], np.arange(len(rows))
    n = len(s)
    value = distance_correlation(f, s, weight)
    A, B = cdist(f[rows], f[rows]), np.abs(s[rows, None] - s[rows])
    w = weight[rows] / weight[rows].sum()
    m = len(rows)
    draws = bootstrap_counts(m, n_boot, rng) * w[:, None]
    draws /= draws.sum(axis=0)
    data = w[:, None]
    squared = (
        _inner(A, B, draws, draws) - 2.0 * _inner(A, B, draws, data) + _inner(A, B, data, data)
    )
    scale = _spread(A, w) * _spread(B, w)
    if scale <= 0.0:
        return n, value, value, value  # a constant has no sampling error
    reach = np.sqrt(np.maximum(squared, 0.0) / scale)
    q = float(np.quantile(reach, level)) * np.sqrt(m / n)
    return n, value, max(value - q, 0.0), min(value + q, 1.0)


def _inner(A: Array, B: Array, U: Array, V: Array) -> Array:
    """``<nu(u), nu(v)>`` for the columns of U and V (V may be a single column)."""
    if V.shape[1] < U.shape[1]:
        V = np.broadcast_to(V, U.shape)
    AU, BU, AV, BV = A @ U, B @ U, A @ V, B @ V
    joint = np.einsum("ib,ib->b", U, (A * B) @ V)
    mixed = np.einsum("ib,ib,ib->b", U, AV, BV) + np.einsum("ib,ib,ib->b", V, AU, BU)
    return np.asarray(joint - mixed + np.einsum("ib,ib->b", U, AV) * np.einsum("ib,ib->b", U, BV))


def _spread(D: Array, w: Array) -> float:
    """Square root of the distance variance of the rows under weights w."""
    inner = _inner(D, D, w[:, None], w[:, None])
    return float(np.sqrt(max(float(inner[0]), 0.0)))


def distance_correlation(
    f: Array, s: Array, weight: Array, rng: np.random.Generator | None = None
) -> float:
    """Distance correlation of f with the numbers s, in [0, 1]; 0 only if independent.

    The usual biased estimate (V-statistic): where the truth is 0 it is about ``n^(-1/2)``.

    Parameters
    ----------
    f : array of shape (n,) or (n, d)
        Scores, or a representation, with Euclidean distances between its rows as they are.
    s : array of shape (n,)
        A continuous attribute.
    weight : array of shape (n,)
        Weight k counts as k copies.
    rng : numpy Generator, default=None
        One column takes O(n log n) time for any n. For several columns all pairs of rows are
        compared, so at most 2,000 rows are used, drawn without replacement (None: the same rows
        every time).

    Returns
    -------
    float
        0.0 for a constant f, NaN for a constant s.
    """
    f = np.asarray(f, dtype=np.float64).reshape(len(s), -1)
    z = standardize(f, weight)
    t = standardize(np.asarray(s, dtype=np.float64)[:, None], weight)
    if not t.any():
        return nan
    if not z.any():
        return 0.0
    if f.shape[1] == 1:
        share = weight / weight.sum()
        ab, aa, bb = _distance_moments(z[:, 0], t[:, 0], share)
    else:  # several columns keep their proportions
        z = f - f.mean(axis=0)
        z /= np.abs(z).max()
        if len(s) > _DENSE_ROWS:
            rng = np.random.default_rng(0) if rng is None else rng
            rows = np.sort(rng.choice(len(s), _DENSE_ROWS, replace=False))
            z, t, weight = z[rows], t[rows], weight[rows]
        share = weight / weight.sum()
        a, b = (_mean_centred(distances(side), share) for side in (z, t))
        ab, aa, bb = (float(share @ (x * y) @ share) for x, y in ((a, b), (a, a), (b, b)))
    if min(aa, bb) <= 1e-20:  # rounding: the rows drawn may be equal
        return nan if bb <= 1e-20 else 0.0
    return min(sqrt(max(ab, 0.0) / sqrt(aa * bb)), 1.0)


def _mean_centred(matrix: Array, share: Array) -> Array:
    row = matrix @ share
    return np.asarray(matrix - row - row[:, None] + row @ share)


def _distance_moments(x: Array, y: Array, share: Array) -> tuple[float, float, float]:
    """Squared distance covariance of two columns, and their squared distance variances."""
    a, b = _mean_distances(x, share), _mean_distances(y, share)

    def centred(both: float, a: Array, b: Array) -> float:
        return both - 2.0 * float(share @ (a * b)) + float(share @ a) * float(share @ b)

    squares = [2.0 * (float(share @ v**2) - float(share @ v) ** 2) for v in (x, y)]
    both = _mean_product(x, y, share)
    return centred(both, a, b), centred(squares[0], a, a), centred(squares[1], b, b)


def _mean_distances(x: Array, share: Array) -> Array:
    """``sum_j p_j |x_i - x_j|`` of every row i."""
    order = np.argsort(x, kind="stable")
    mass, moment = (_sums_before(v[order]) for v in (share, share * x))
    out = np.empty_like(x)
    out[order] = x[order] * (2.0 * mass - 1.0) - 2.0 * moment + share @ x
    return out


def _mean_product(x: Array, y: Array, share: Array) -> float:
    """``sum_ij p_i p_j |x_i - x_j| |y_i - y_j|`` in O(n log n).

    In order of x, ``|y_j - y_i|`` is ``y_j - y_i`` times +1 where y grows and -1 elsewhere, so sums
    over earlier rows with a smaller y are sufficient.
    """
    order = np.argsort(x, kind="stable")
    x, y, p = x[order], y[order], share[order]
    columns = np.stack([p, p * x, p * y, p * x * y])
    mass, sum_x, sum_y, sum_xy = 2.0 * _sums_below(y, columns) - _sums_before(columns)
    return 2.0 * float(p @ (x * y * mass - y * sum_x - x * sum_y + sum_xy))


def _sums_before(columns: Array) -> Array:
    """Cumulative sums along the last axis over the entries before each entry."""
    return np.asarray(np.cumsum(columns, axis=-1) - columns)


def _sums_below(y: Array, columns: Array) -> Array:
    """Sums over the earlier entries with a smaller y, of (k, n) columns; ties may count or not.

    This is merge sort in reverse: the rows in order of y are split by halves of their positions, down
    to single rows. At every split, the sums of a row in the later half gain the preceding rows of the
    earlier half. Any two rows are separated by exactly one split.
    """
    n = y.shape[0]
    out = np.zeros_like(columns)
    row = np.argsort(y, kind="stable")
    index = np.arange(n)
    for bit in reversed(range((n - 1).bit_length())):
        start = row >> (bit + 1) << (bit + 1)  # first index of the part that contains the row
        early = (row >> bit & 1) == 0
        sums = _sums_before(np.where(early, columns[:, row], 0.0))
        late = np.flatnonzero(~early)
        out[:, row[late]] += sums[:, late] - sums[:, start[late]]
        n_early = np.cumsum(early) - early
        rank = n_early - n_early[start]
        target = np.where(early, start + rank, index - rank + (1 << bit))
        row[target] = row.copy()
    return out


def distances(values: Array) -> Array:
    """Euclidean distance of every two rows of (n, d)."""
    if values.shape[1] == 1:
        return np.abs(values - values[:, 0])
    squares = np.einsum("ij,ij->i", values, values)
    squared = squares[:, None] + squares - 2.0 * (values @ values.T)
    np.fill_diagonal(squared, 0.0)
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))
