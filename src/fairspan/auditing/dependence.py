"""Distance correlation with an interval, for numbers that may depend on each other in any way."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, sqrt
from typing import Literal

import numpy as np
from scipy.spatial.distance import cdist

from fairspan.auditing.reading import Protected
from fairspan.auditing.test_blocks import (
    MIN_ROWS,
    Rows,
    Statistic,
    block_test,
    distances,
    normalised,
    permutation_test,
)
from fairspan.method.data import Codes
from fairspan.method.linalg import Array
from fairspan.metrics.scores import standardize

__all__ = [
    "Independence",
    "distance_correlation",
    "distance_interval",
    "holm",
    "independence_test",
]

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


_DENSE_ROWS = 2000  # rows of a distance correlation of several columns


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
        One column takes O(n log n) time for any n. Of several columns every two rows are compared,
        so of more than 2,000 rows that many are drawn, without replacement (None: the same rows
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
    if min(aa, bb) <= 1e-20:  # rounding: the rows drawn may be alike
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
    """``sum_ij p_i p_j |x_i - x_j| |y_i - y_j|``.

    In order of x, ``|y_j - y_i|`` is ``y_j - y_i`` times +1 where y grows and -1 elsewhere: sums
    over earlier rows with a smaller y are all it takes.
    """
    order = np.argsort(x, kind="stable")
    x, y, p = x[order], y[order], share[order]
    columns = np.stack([p, p * x, p * y, p * x * y])
    one, of_x, of_y, of_xy = 2.0 * _sums_below(y, columns) - _sums_before(columns)
    return 2.0 * float(p @ (x * y * one - y * of_x - x * of_y + of_xy))


def _sums_before(columns: Array) -> Array:
    """Cumulative sums along the last axis, of what comes before each entry."""
    return np.asarray(np.cumsum(columns, axis=-1) - columns)


def _sums_below(y: Array, columns: Array) -> Array:
    """Sums over the earlier entries with a smaller y (either way where equal), of (k, n) columns.

    Merge sort read backwards: all rows in order of y are split, by halves of their positions, down
    to single rows. At every split a row of the later half gains the rows of the earlier half that
    precede it; any two rows are parted once.
    """
    n = y.shape[0]
    out = np.zeros_like(columns)
    place = np.argsort(y, kind="stable")
    index = np.arange(n)
    for bit in reversed(range((n - 1).bit_length())):
        start = place >> (bit + 1) << (bit + 1)  # of the part a row is in: parts lie side by side
        early = (place >> bit & 1) == 0
        sums = _sums_before(np.where(early, columns[:, place], 0.0))
        late = np.flatnonzero(~early)
        out[:, place[late]] += sums[:, late] - sums[:, start[late]]
        n_early = np.cumsum(early) - early
        rank = n_early - n_early[start]
        target = np.where(early, start + rank, index - rank + (1 << bit))
        place[target] = place.copy()
    return out


@dataclass(frozen=True)
class Independence:
    """Result of a test of independence of f and one protected attribute.

    Attributes
    ----------
    statistic_name : "hsic" or "dcor"
    statistic : normalised and unbiased, at most 1, about 0 (of either sign) if independent: the
        bias-corrected squared distance correlation, or the same of kernels (a centred alignment).
        0.0 for a constant f, NaN where the attribute has one level.
    p_value : NaN where there is nothing to test, as ``note`` says.
    n_rows : rows used: fewer than given if they have weights, or are in strata too small.
    n_blocks : sets of rows that were compared among themselves (strata, or blocks of them).
    method : "permutation" or "blocks"
    note : what was left out, and why.
    """

    statistic_name: Statistic
    statistic: float
    p_value: float
    n_rows: int
    n_blocks: int
    method: Literal["permutation", "blocks"]
    note: str = ""


def independence_test(
    f: Array,
    protected: Protected,
    *,
    statistic: Statistic = "hsic",
    given: Codes | None = None,
    weight: Array,
    n_permutations: int = 499,
    max_rows: int = 1000,
    rng: np.random.Generator,
) -> Independence:
    """Test that f is independent of a protected attribute, or is so within strata.

    "hsic" compares kernels: Gaussian ones as wide as the median distance, 1[same level] for
    categories. "dcor" compares distances: between numbers, 1[other level] for categories. Both see
    any kind of dependence as rows become many, whether or not it shows as correlation.

    Parameters
    ----------
    f : array of shape (n,) or (n, d)
        Scores or a representation; its columns are standardised.
    protected : Protected
        The attribute.
    statistic : "hsic" or "dcor", default="hsic"
        What to compare.
    given : array of shape (n,), default=None
        Strata: rows are compared, and S permuted, inside each (class codes: equalized odds).
    weight : array of shape (n,)
        Rows are kept with probability weight / largest weight, which leaves unweighted rows of the
        weighted population.
    n_permutations : int, default=499
        Permutations of S; no p-value is below ``1 / (1 + n_permutations)``.
    max_rows : int, default=1000
        Up to this many rows the test permutes S and its level is exact. More rows are cut at random
        into blocks of at most this many (256 at 100,000 rows, never below 64), so that the cost is
        linear in n (Zaremba, Gretton and Blaschko 2013, "B-tests"). The sum over blocks is compared
        with a gamma distribution of the mean, variance and skewness it has over permutations of S
        inside blocks, which need not be drawn: the first two are exact, the third is that
        of some of the blocks. A level with few rows in a block says little there.
    rng : numpy Generator

    Returns
    -------
    Independence
    """
    if statistic not in ("hsic", "dcor"):
        msg = f'statistic must be "hsic" or "dcor", not {statistic!r}'
        raise ValueError(msg)
    notes: list[str] = []
    n = len(weight)
    f = np.asarray(f, dtype=np.float64).reshape(n, -1)
    rows = _thinned(weight, rng)
    if len(rows) < n:
        notes.append(f"{len(rows)} of {n} rows kept, by weight")
    strata, n_small = _strata(rows, given)
    if n_small:
        notes.append(f"{n_small} strata of fewer than {MIN_ROWS} rows left out")
    rows = np.concatenate([*strata, rows[:0]])
    method: Literal["permutation", "blocks"] = "permutation" if len(rows) <= max_rows else "blocks"

    def result(value: float, p: float, n_blocks: int, *more: str) -> Independence:
        note = "; ".join([*more, *notes])
        return Independence(statistic, value, p, len(rows), n_blocks, method, note)

    if not strata:
        return result(nan, nan, 0, "too few rows")
    z = np.zeros_like(f)
    z[rows] = standardize(f[rows], np.ones(len(rows)))
    s = _attribute_side(protected, rows)
    if np.all(s[rows] == s[rows[0]]):
        return result(nan, nan, 0, f"{protected.name} has one level")
    if not z.any():
        return result(0.0, nan, 0, "the score is constant")
    if method == "permutation":
        products, p = permutation_test(z, s, strata, statistic, n_permutations, rng)
    else:
        products, p = block_test(z, s, strata, statistic, max_rows, rng)
    value = normalised(products)
    if np.isnan(p):
        what = "the score or the attribute hardly varies among rows compared"
        return result(value, p, len(products), what)
    return result(value, p, len(products))


def _thinned(weight: Array, rng: np.random.Generator) -> Rows:
    """Rows kept with probability weight / largest weight."""
    share = weight / weight.max()
    if np.all(share == 1.0):
        return np.arange(len(weight))
    return np.flatnonzero(rng.random(len(weight)) < share)


def _strata(rows: Rows, given: Codes | None) -> tuple[list[Rows], int]:
    """Rows of each stratum with enough of them, and how many strata had too few."""
    codes = np.zeros(len(rows)) if given is None else given[rows]
    parts = [rows[codes == code] for code in np.unique(codes)]
    kept = [part for part in parts if len(part) >= MIN_ROWS]
    return kept, len(parts) - len(kept)


def _attribute_side(protected: Protected, rows: Rows) -> Array | Codes:
    """The levels, or the numbers as a column standardised over the rows used."""
    if protected.values is None:
        return protected.codes
    out = np.zeros((len(protected.values), 1))
    out[rows] = standardize(protected.values[rows, None].astype(np.float64), np.ones(len(rows)))
    return out


def holm(p_values: Array) -> Array:
    """P-values adjusted for how many there are (Holm's step-down); NaN is no test and stays NaN.

    An adjusted value of at most alpha may be rejected: the chance of any wrong rejection is then
    at most alpha, whatever the tests have to do with each other.

    Parameters
    ----------
    p_values : array of shape (n_tests,)

    Returns
    -------
    array of shape (n_tests,)
        In the order given.
    """
    p = np.asarray(p_values, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    out = np.full(p.shape, nan)
    out[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return out
