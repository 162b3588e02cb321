"""Dependence of scores on protected attributes: correlations and distance correlation, with intervals.

Correlations with an attribute and the correlation ratio are functions of sums by group. The distance
correlation is a function of the distances of all pairs of rows. It is 0 only for independent
variables, whatever the form of their dependence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import nan, sqrt

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import norm

from fairspan.auditing.findings import Finding, Size, listed, summarise
from fairspan.auditing.reading import Audited, Protected
from fairspan.auditing.small_groups import student_factor
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.metrics.groups import (
    STRATA,
    TARGET,
    GroupSums,
    bootstrap_counts,
    renumbered,
    standardize,
)

# Variances are differences of sums of standardised squares; smaller ones are rounding.
_FLAT = 1e-12


def score_columns(data: Audited) -> dict[str, Array]:
    """Columns to sum for the correlations of every score with every attribute."""
    assert data.scores is not None
    f = standardize(data.scores, data.weight)
    out: dict[str, Array] = {}
    for j, column in enumerate(f.T):
        out[f"f{j}"], out[f"ff{j}"] = column, column**2
    for attribute in data.attributes:
        if attribute.values is None:
            continue
        s = standardize(attribute.values[:, None], data.weight)[:, 0]
        out[f"s {attribute.name}"], out[f"ss {attribute.name}"] = s, s**2
        for j, column in enumerate(f.T):
            out[f"f{j}s {attribute.name}"] = column * s
    return out


def score_findings(
    data: Audited, groupings: Sequence[Protected], sums: GroupSums, level: float, min_rows: int
) -> Iterator[Finding]:
    """Statistical parity, equal opportunity and equalized odds of scores; the correlation ratio."""
    for attribute in groupings:
        joint = sums.over(attribute.name, TARGET, STRATA)
        for where, some in data.in_strata(joint):
            large, note, fewest = _without_small(some, attribute, min_rows, data.unit)
            yield from _in_rows(data, large, note, attribute, where, level, fewest)


def compared_correlations(
    data: Audited, attribute: Protected, sums: GroupSums, metric: str, min_rows: int
) -> Iterator[Array]:
    """The signed correlations, (k, 1 + B), whose largest size is a correlation of the audit.

    None if fewer than two groups are large enough.
    """
    assert data.scores is not None
    large, _, fewest = _without_small(sums, attribute, min_rows, data.unit)
    if fewest is not None:
        return
    cells = [large]
    if metric != "statistical_parity_correlation" and data.target is not None:
        codes = range(len(data.target.labels))
        if metric == "equal_opportunity_correlation":
            codes = data.positive  # type: ignore[assignment]
        cells = [large.where(large.factors[TARGET] == code) for code in codes]
    for cell in cells:
        for j in range(data.scores.shape[1]) if cell.rows.sum() else ():
            parts = _correlations(cell, attribute, j)
            if parts is not None:
                yield parts


def _without_small(
    sums: GroupSums, attribute: Protected, min_rows: int, unit: str
) -> tuple[GroupSums, str, float | None]:
    """Drop levels that are too small for a statement, with a note; numbers need no levels.

    If fewer than two levels would be left, all stay, and the third value is the size of the smallest.
    """
    if attribute.values is not None:
        return sums, "", None
    n = sums.effective(attribute.name, len(attribute.labels))
    small = listed([attribute.labels[h] for h in np.flatnonzero((n > 0.0) & (n < min_rows))])
    if not small:
        return sums, "", None
    if (n >= min_rows).sum() < 2 <= (n > 0.0).sum():
        return sums, f"few {unit} in {small}: wide interval", float(n[n > 0.0].min())
    large = (n >= min_rows)[sums.factors[attribute.name]]
    return sums.where(large), f"without {small}: too few {unit}", None


def _in_rows(
    data: Audited,
    sums: GroupSums,
    left_out: str,
    attribute: Protected,
    where: str,
    level: float,
    fewest: float | None,
) -> Iterator[Finding]:
    assert data.scores is not None
    n, outputs = round(float(sums.rows.sum())), range(data.scores.shape[1])

    def finding(
        metric: str, parts: list[Array], size: Size = "largest", note: str = "", n_rows: int = n
    ) -> Finding:
        result = partial(Finding, "scores", metric, attribute.name, where=where, n_rows=n_rows)
        if not parts:
            reason = note or left_out or f"{attribute.name} is constant in these rows"
            return result(low=0.0, high=1.0, small=True, note=reason)
        joined = np.concatenate(parts)
        value, low, high = summarise(joined[:, 0], joined[:, 1:], size, level)
        if fewest is not None:
            # Resamples of few rows vary too little, and their quantiles are not normal.
            tail = (1.0 - level) / 2.0
            reach = max(value - low, high - value)
            reach = (
                1.0
                if fewest <= 1.0
                else reach * student_factor(fewest, tail) / float(norm.isf(tail))
            )
            low, high = max(value - reach, 0.0), min(value + reach, 1.0)
        note = "; ".join(filter(None, (left_out, note)))
        return result(value=value, low=low, high=high, small=fewest is not None, note=note)

    def correlations(cell: GroupSums) -> list[Array]:
        each = (_correlations(cell, attribute, j) for j in outputs)
        return [parts for parts in each if parts is not None]

    yield finding("statistical_parity_correlation", correlations(sums))
    ratios = [_ratio_parts(sums, attribute, j) for j in outputs]
    known = [parts for parts in ratios if parts is not None]
    if known:  # of several outputs, the one with the largest ratio
        known = [max(known, key=lambda parts: float((parts[:, 0] ** 2).sum()))]
    yield finding("correlation_ratio", known, "length")
    if data.target is None:
        return
    in_classes: list[Array] = []
    constant = []
    for code, label in enumerate(data.target.labels):
        cell = sums.where(sums.factors[TARGET] == code)
        n_cell = round(float(cell.rows.sum()))
        parts = correlations(cell) if n_cell else []
        if n_cell and not parts:
            constant.append(label)
        in_classes += parts
        if code in data.positive:
            extra = "" if len(data.positive) == 1 else f" ({label})"
            yield finding(f"equal_opportunity_correlation{extra}", parts, n_rows=n_cell)
    note = f"{attribute.name} is constant where y is {', '.join(constant)}" if constant else ""
    yield finding("equalized_odds_correlation", in_classes, note=note)


def _moments(sums: GroupSums, j: int) -> tuple[Array, Array, Array]:
    """Total weight, mean and variance of a score, (1 + B,) each."""
    total = sums.columns[""].sum(axis=0)
    safe = np.where(total > 0.0, total, 1.0)
    mean = sums.columns[f"f{j}"].sum(axis=0) / safe
    return safe, mean, _variance(sums.columns[f"ff{j}"].sum(axis=0) / safe, mean)


def _variance(square: Array, mean: Array) -> Array:
    """``square - mean^2``, and 0 where that is rounding."""
    variance = square - mean**2
    return np.where(variance > _FLAT * np.maximum(1.0, mean**2), variance, 0.0)


def _quotient(a: Array, b: Array) -> Array:
    """``a / sqrt(b)``, and 0 where b is 0: the correlation of a constant."""
    positive = b > 0.0
    return np.where(positive, a / np.sqrt(np.where(positive, b, 1.0)), 0.0)


def _correlations(sums: GroupSums, attribute: Protected, j: int) -> Array | None:
    """Signed correlations with the number, or with each level: (k, 1 + B); None if S is constant."""
    total, mean, variance = _moments(sums, j)
    if attribute.values is not None:
        name = attribute.name
        s = sums.columns[f"s {name}"].sum(axis=0) / total
        spread = _variance(sums.columns[f"ss {name}"].sum(axis=0) / total, s)
        joint = sums.columns[f"f{j}s {name}"].sum(axis=0) / total - mean * s
        if spread[0] <= 0.0:
            return None
        return np.clip(_quotient(joint, spread * variance), -1.0, 1.0)[None]
    cov, share = _level_covariances(sums, attribute, j, total, mean)
    varies = (share[:, 0] > 0.0) & (share[:, 0] < 1.0 - 1e-14)
    if not varies.any():
        return None
    cov, share = cov[varies], share[varies]
    return np.clip(_quotient(cov, share * (1.0 - share) * variance), -1.0, 1.0)


def _ratio_parts(sums: GroupSums, attribute: Protected, j: int) -> Array | None:
    """``Cov(f, 1[h]) / sqrt(p_h Var f)``, whose length is the correlation ratio."""
    total, mean, variance = _moments(sums, j)
    cov, share = _level_covariances(sums, attribute, j, total, mean)
    if (share[:, 0] > 0.0).sum() < 2:
        return None
    return _quotient(cov, share * variance)


def _level_covariances(
    sums: GroupSums, attribute: Protected, j: int, total: Array, mean: Array
) -> tuple[Array, Array]:
    """``Cov(f, 1[h])`` and ``p_h`` of every level h."""
    name, n_levels = attribute.name, len(attribute.labels)
    share = sums.by(name, n_levels) / total
    return sums.by(name, n_levels, f"f{j}") / total - mean * share, share


# The interval is computed from the distances among this many rows, and scaled to all rows.
_ROWS = 1_000
# Least number of clusters that the interval is computed from, if there are so many.
_CLUSTERS = 50
# Largest number of rows whose distances are all computed, for scores of several columns.
_DENSE_ROWS = 2000


def distance_interval(
    f: Array,
    s: Array,
    weight: Array,
    level: float,
    n_boot: int,
    rng: np.random.Generator,
    clusters: Codes | None = None,
) -> tuple[int, float, float, float]:
    """Distance correlation of scores with a number: rows used, estimate, low, high.

    The distance covariance is the length of ``nu = P_fs - P_f P_s`` in a Hilbert space, so the
    inequality of :func:`summarise` holds with ``|nu* - nu|`` for a resample ``nu*``. This length is a
    form in the distances. It is computed on some of the rows and scaled to all of them, as it falls
    with the square root of their number. With clusters, whole clusters are used, drawn and counted.
    """
    rows, drawn = _some_rows(len(s), clusters, rng)
    m, n = _count(len(rows), drawn), _count(len(s), clusters)
    if f.shape[1] > 1:
        # Several columns need all pairs of rows, so the estimate uses these rows too.
        f, s, weight, rows, n = f[rows], s[rows], weight[rows], np.arange(len(rows)), m
    value = distance_correlation(f, s, weight)
    A, B = cdist(f[rows], f[rows]), np.abs(s[rows, None] - s[rows])
    w = weight[rows] / weight[rows].sum()
    draws = bootstrap_counts(len(rows), n_boot, rng, clusters=drawn) * w[:, None]
    draws /= draws.sum(axis=0)
    data = w[:, None]
    squared = (
        _inner(A, B, draws, draws) - 2.0 * _inner(A, B, draws, data) + _inner(A, B, data, data)
    )
    scale = _spread(A, w) * _spread(B, w)
    if scale <= 0.0:
        return len(s), value, value, value  # a constant has no sampling error
    reach = np.sqrt(np.maximum(squared, 0.0) / scale)
    q = float(np.quantile(reach, level)) * np.sqrt(m / n)
    return len(s), value, max(value - q, 0.0), min(value + q, 1.0)


def _some_rows(
    n: int, clusters: Codes | None, rng: np.random.Generator
) -> tuple[Codes, Codes | None]:
    """At most ``_ROWS`` rows at random, of whole clusters, and their clusters.

    Rows of clusters so large that fewer than ``_CLUSTERS`` fit are thinned, which widens the interval.
    """
    if clusters is None:
        return rng.permutation(n)[:_ROWS], None
    order = rng.permutation(_count(n, clusters))
    fitting = int((np.cumsum(np.bincount(clusters)[order]) <= _ROWS).sum())
    position = np.argsort(order)[clusters]
    rows = np.argsort(position, kind="stable")
    rows = rows[position[rows] < max(fitting, _CLUSTERS)]
    if len(rows) > _ROWS:
        rows = rows[np.sort(rng.permutation(len(rows))[:_ROWS])]
    return rows, renumbered(clusters, rows)


def _count(n: int, clusters: Codes | None) -> int:
    """Number of clusters; without clusters, of rows."""
    return n if clusters is None else int(clusters.max()) + 1


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
