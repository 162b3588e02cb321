"""Erasure: the least change of vectors that leaves no linear predictor of S (METHOD 17).

Vectors x have mean mu, covariance Sig and covariances Delta with whitened codes of S. A linear predictor
of the codes from Ax does no better than a constant if and only if ``A Delta = 0`` (Belrose et al., LEACE:
perfect linear concept erasure in closed form, NeurIPS 2023, theorem 3.4). Whiten: ``W Sig W' = I`` on the
range of Sig, with inverse ``W^-``. With Q an orthonormal basis of ``W Delta`` the map

    A = I - W^- Q Q' W

changes x least among all such maps, in every norm: the change ``(A - I) W^-`` has to send ``W Delta`` to
``-Delta``, and this one is zero on everything orthogonal to it. Two constraints can be added.

*The target keeps its covariance* ``Gamma = Cov(x, y)``, so that ``A Gamma = Gamma`` (Holstege, Ravfogel and
Wouters, SPLINCE, 2025). With P = I - QQ' and G an orthonormal basis of ``W Gamma``, the least change is

    A = I - W^- Q (Q' W - Q'G (P G)^+ W),

which has the functions of ``P W x`` too, so an unpenalised linear model predicts the same from both.

*Second order.* A function ``v'PWx`` has the same variance in all groups if ``v'(S_h - S)v = 0`` with
``S_h = W Sig_h W'``. No affine map that does not read S makes different covariances of full rank equal: it
must remove directions. For two groups let ``S_1 - S_0 = sum_i l_i v_i v_i'``. One direction is enough for
two eigenvalues of opposite sign: without ``sqrt(l_i) v_i - sqrt(-l_j) v_j`` only
``sqrt(-l_j) v_i + sqrt(l_i) v_j`` is left of both, whose variance is the same in both groups. With more
groups, or several attributes, the leading eigenvectors of ``sum_h p_h (S_h - S)^2`` are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.stats
from numpy.typing import NDArray

from fairspan.exceptions import NumericalWarning, warn_user
from fairspan.method.codes import CrossedCoder
from fairspan.method.linalg import Array, orthonormal_columns, psd_eigh
from fairspan.method.moments import ColumnStats, LevelStats, Moments, Pooled, kish
from fairspan.method.pilot import Pilot
from fairspan.method.problem import MIN_ROWS, FitConfig
from fairspan.method.removal import refuse_attribute
from fairspan.method.sdr import CodeBlock, column_block, level_block, target_covariance

__all__ = ["Erasure", "ErasureBlock", "ErasureCertificate", "Whitening", "solve_erasure"]

# Smallest part of a direction that predicts y, outside of those that are erased.
_SMALLEST_KEPT = 1e-6
# Stretching of vectors by keep_target from which a warning is given.
_LARGE_STRETCH = 10.0
# Differences of variances below this are rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Whitening:
    """W with ``W Sig W' = I`` on the range of Sig, and its inverse there.

    Columns are scaled to variance 1 first, so that the rank does not depend on their units.
    """

    scale: Array  # (D,)
    factor: Array  # lower Cholesky factor of the correlations, or their eigenvectors (D, rank)
    roots: Array | None  # roots of the eigenvalues; None with a Cholesky factor

    @classmethod
    def of(cls, cov: Array) -> Whitening:
        """Whiten a covariance."""
        scale = np.sqrt(np.maximum(cov.diagonal(), 0.0))
        scale = np.where(scale > 0.0, scale, 1.0)
        correlation = cov / scale / scale[:, None]
        smallest = 10.0 * len(cov) * np.finfo(np.float64).eps
        try:
            factor = scipy.linalg.cholesky(correlation, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            factor = np.zeros((1, 1))
        if factor.diagonal().min() ** 2 > smallest:
            return cls(scale, factor, None)
        values, vectors = psd_eigh(correlation)
        keep = values > smallest * values[0]
        return cls(scale, vectors[:, keep], np.sqrt(values[keep]))

    @property
    def rank(self) -> int:
        """Rank of the covariance."""
        return int(self.factor.shape[1])

    def whiten(self, vectors: Array) -> Array:
        """Compute ``W v`` of column vectors."""
        scaled = vectors / self.scale[:, None]
        if self.roots is not None:
            return np.asarray(self.factor.T @ scaled / self.roots[:, None])
        return self._solve(scaled, "N")

    def functions(self, white: Array) -> Array:
        """Compute ``W' u``: functions of x that have the whitened coordinates u."""
        if self.roots is not None:
            out = self.factor @ (white / self.roots[:, None])
        else:
            out = self._solve(white, "T")
        return np.asarray(out / self.scale[:, None])

    def vectors(self, white: Array) -> Array:
        """Compute ``W^- u``: vectors with the whitened coordinates u."""
        rooted = white if self.roots is None else self.roots[:, None] * white
        return np.asarray(self.factor @ rooted * self.scale[:, None])

    def both_sides(self, cov: Array) -> Array:
        """Compute ``W C W'`` of a symmetric matrix."""
        return self.whiten(self.whiten(cov).T)

    def _solve(self, columns: Array, trans: str) -> Array:
        return np.asarray(
            scipy.linalg.solve_triangular(
                self.factor, columns, lower=True, trans=trans, check_finite=False
            )
        )


@dataclass(frozen=True, kw_only=True)
class ErasureBlock:
    """What linear predictors find out about one attribute from the vectors.

    Correlations are multiple ones: the root of the sum of squared canonical correlations of the vectors
    with the codes, at most 1. Those of new rows are what the best linear predictor reaches that is trained
    on any number of new vectors; NaN if there are too few rows to estimate it.
    """

    attribute: str
    coding: str  # "levels", "slices" or "value"
    n_rows: int
    before: float  # of the original vectors, on new rows
    training_rows: float  # of the transformed training rows
    new_rows: float  # of transformed new rows, estimated out of fold
    low: float  # interval of ``new_rows``
    high: float


@dataclass(frozen=True, kw_only=True)
class ErasureCertificate:
    """What is left about S in transformed vectors, for linear predictors."""

    fairness: float
    confidence: float
    blocks: tuple[ErasureBlock, ...]
    # Largest difference of a group's variance from that within groups, in units of a direction's variance,
    # on the training rows; NaN where group covariances were not computed.
    covariance_gap_before: float
    covariance_gap: float

    def table(self) -> str:
        """The blocks as text, one line each."""
        head = (
            "attribute",
            "compared by",
            "before",
            "training rows",
            "new rows",
            "interval",
            "rows",
        )
        lines = [head]
        for b in self.blocks:
            coding = {"levels": "group means", "slices": "means of slices", "value": "correlation"}
            interval = "unknown" if np.isnan(b.high) else f"{b.low:.3f} to {b.high:.3f}"
            lines.append(
                (
                    b.attribute,
                    coding[b.coding],
                    _shown(b.before),
                    _shown(b.training_rows),
                    _shown(b.new_rows),
                    interval,
                    str(b.n_rows),
                )
            )
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def __str__(self) -> str:
        """The table."""
        return self.table()


def _shown(correlation: float) -> str:
    if np.isnan(correlation):
        return "unknown"
    return "<1e-10" if correlation < 1e-10 else f"{correlation:.3f}"


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """The map ``x -> x - t left right'(x - mean)`` at fairness t, and what it leaves."""

    mean: Array  # (D,)
    left: Array  # (D, q)
    right: Array  # (D, q)
    n_means: int  # directions removed because of means of groups
    n_covariances: int  # and because of their covariances
    blocks: tuple[ErasureBlock, ...]  # at fairness 1
    blocks_before: tuple[ErasureBlock, ...]  # at lower values
    confidence: float
    covariance_gap_before: float
    covariance_gap: float

    def certificate(self, fairness: float) -> ErasureCertificate:
        """What holds at a dial value.

        Below 1 the map is invertible, so a linear predictor that may rescale the vectors undoes it.
        """
        whole = fairness == 1.0
        return ErasureCertificate(
            fairness=fairness,
            confidence=self.confidence,
            blocks=self.blocks if whole else self.blocks_before,
            covariance_gap_before=self.covariance_gap_before,
            covariance_gap=self.covariance_gap if whole else self.covariance_gap_before,
        )


@dataclass(frozen=True, kw_only=True)
class _Codes:
    """Covariances of the vectors with the codes of one attribute."""

    attribute: str
    coding: str
    block: CodeBlock


def _codes(pooled: Pooled, pilot: Pilot, config: FitConfig) -> list[_Codes]:
    """Codes that are erased: levels; of continuous attributes their slices and their values."""
    out, column = [], 0
    for j, coder in enumerate(pilot.coders):
        ordered = coder.kind == "continuous"
        found: list[tuple[str, CodeBlock | None]] = []
        if not config.removes_correlation_only(coder.kind):
            block = level_block(
                pooled.levels[j], pooled.weight, ordered=ordered, min_rows=config.variant.min_rows
            )
            found.append(("slices" if ordered else "levels", block))
        if ordered:
            found.append(("value", column_block(pooled.columns[column], pooled.weight)))
            column += 1
        out += [
            _Codes(attribute=coder.name, coding=coding, block=block)
            for coding, block in found
            if block is not None
        ]
    return out


@dataclass(frozen=True, kw_only=True)
class _Removed:
    """Directions to remove, in whitened coordinates, from the moments of some of the folds."""

    pooled: Pooled
    white: Whitening
    codes: list[_Codes]
    basis: Array  # Q, (rank, q)
    n_means: int
    gap_before: float
    gap: float


def solve_erasure(
    moments: Moments,
    pilot: Pilot,
    config: FitConfig,
    *,
    order: int,
    keep_target: bool,
    n_directions: int | str,
    confidence: float = 0.95,
) -> Erasure:
    """Solve for the map from the moments, and estimate out of fold what it leaves on new rows."""
    total = _removed(moments, pilot, config, order, n_directions, None)
    names = {codes.attribute for codes in total.codes}
    for coder in pilot.coders:
        if coder.name not in names:
            refuse_attribute(coder.name, pilot.cells, MIN_ROWS)
    white, Q = total.white, total.basis
    if Q.shape[1] == white.rank:
        warn_user(
            f"Nothing is left of the vectors: all {white.rank} directions in which they vary are removed. Use "
            f"fewer n_directions or n_slices, or vectors of more numbers.",
            NumericalWarning,
        )
    before, after = _blocks(moments, pilot, config, total, order, n_directions, confidence)
    right = white.functions(Q)
    if keep_target:
        target = total.pooled.stats(pilot.target_position())
        right = right - white.functions(_kept_target(total, target))
    return Erasure(
        mean=total.pooled.mean,
        left=white.vectors(Q),
        right=right,
        n_means=total.n_means,
        n_covariances=Q.shape[1] - total.n_means,
        blocks=after,
        blocks_before=before,
        confidence=confidence,
        covariance_gap_before=total.gap_before,
        covariance_gap=total.gap,
    )


def _kept_target(total: _Removed, target: LevelStats | ColumnStats) -> Array:
    """Compute ``(Q'G (PG)^+)'``, with which vectors keep their covariance with y."""
    gamma, _, _ = target_covariance(total.pooled, target)
    Q = total.basis
    G = orthonormal_columns(total.white.whiten(gamma))
    inside = Q.T @ G
    outside = G - Q @ inside
    smallest = float(np.linalg.svd(outside, compute_uv=False).min(initial=1.0))
    if smallest < _SMALLEST_KEPT:
        raise ValueError(
            "keep_target=True is not possible: a direction that predicts y is one that is erased, because "
            "y and the protected attributes have the same linear predictor. Use keep_target=False, or "
            "another y."
        )
    kept = np.linalg.pinv(outside).T @ inside.T
    stretch = float(np.linalg.norm(kept, 2)) if kept.size else 0.0
    if stretch > _LARGE_STRETCH:
        warn_user(
            f"keep_target=True stretches vectors up to {stretch:.2g} times along directions that predict y, "
            f"because the predictors of y and of the protected attributes are nearly the same. Compare "
            f"with keep_target=False.",
            NumericalWarning,
        )
    return np.asarray(kept)


def _removed(
    moments: Moments,
    pilot: Pilot,
    config: FitConfig,
    order: int,
    n_directions: int | str,
    folds: NDArray[np.bool_] | None,
) -> _Removed:
    pooled = moments.pool(folds=folds)
    white = Whitening.of(pooled.cov)
    codes = _codes(pooled, pilot, config)
    deltas = [white.whiten(each.block.group_delta) for each in codes]
    # Each attribute counts alike in the rank, unless X does not predict it at all.
    lengths = [float(np.linalg.norm(delta)) for delta in deltas]
    deltas = [
        delta / length for delta, length in zip(deltas, lengths, strict=True) if length > _ROUNDING
    ]
    Q = orthonormal_columns(np.concatenate(deltas, axis=1) if deltas else np.zeros((white.rank, 0)))
    n_means, before, after = Q.shape[1], float("nan"), float("nan")
    if order == 2:
        differences = _differences(moments, pilot, white, folds)
        before = _largest([d.matrix for d in differences], None)
        wanted = None if isinstance(n_directions, str) else n_directions
        Q = np.concatenate([Q, _covariance_directions(differences, Q, wanted)], axis=1)
        after = _largest([d.matrix for d in differences], Q)
    return _Removed(
        pooled=pooled,
        white=white,
        codes=codes,
        basis=Q,
        n_means=n_means,
        gap_before=before,
        gap=after,
    )


# ------------------------------------------------------------------ second order


@dataclass(frozen=True, kw_only=True)
class _Difference:
    """Difference of a group's whitened covariance from that within the groups of its attribute."""

    matrix: Array
    attribute: int
    share: float  # p_h
    n_effective: float


def _differences(
    moments: Moments, pilot: Pilot, white: Whitening, folds: NDArray[np.bool_] | None
) -> list[_Difference]:
    cells = [moments.pool(cell=c, folds=folds) for c in range(pilot.cells.n_groups)]
    out: list[_Difference] = []
    for j, levels in enumerate(levels_of_cells(pilot)):
        groups = [
            [cell for cell, level in zip(cells, levels, strict=True) if level == h and cell.rows]
            for h in range(pilot.coders[j].n_levels)
        ]
        groups = [group for group in groups if sum(cell.rows for cell in group) >= MIN_ROWS]
        covs = [white.both_sides(_joint_cov(group)) for group in groups]
        weights = np.array([sum(cell.weight for cell in group) for group in groups])
        shares = weights / weights.sum()
        within = sum(p * cov for p, cov in zip(shares, covs, strict=True))
        for group, cov, p in zip(groups, covs, shares, strict=True):
            size = kish(sum(c.weight for c in group), sum(c.weight2 for c in group))
            out.append(
                _Difference(matrix=cov - within, attribute=j, share=float(p), n_effective=size)
            )
    return out


def levels_of_cells(pilot: Pilot) -> list[NDArray[np.intp]]:
    """Level of each attribute in every cell, when cells are combinations of all attributes."""
    strata = pilot.cells.strata
    assert strata is not None
    names = [part.name for part in strata.parts]
    out = []
    for coder in pilot.coders:
        if isinstance(coder, CrossedCoder):
            positions = [names.index(part.name) for part in coder.parts]
            known = {tuple(row): h for h, row in enumerate(coder.combinations.tolist())}
            rows = strata.combinations[:, positions].tolist()
            out.append(np.array([known.get(tuple(row), -1) for row in rows], dtype=np.intp))
        else:
            out.append(strata.combinations[:, names.index(coder.name)])
    return out


def _joint_cov(cells: Sequence[Pooled]) -> Array:
    """Covariance of the rows of several cells together."""
    weight = np.array([cell.weight for cell in cells])
    means = np.stack([cell.mean for cell in cells])
    spread = (means - weight @ means / weight.sum()) * np.sqrt(weight)[:, None]
    scatter = spread.T @ spread
    for cell in cells:
        scatter += cell.scatter
    return np.asarray(scatter / weight.sum())


def _largest(matrices: list[Array], removed: Array | None) -> float:
    """Largest eigenvalue, in absolute value, outside of the removed directions."""
    out = 0.0
    for matrix in matrices:
        inside = matrix if removed is None else _outside(matrix, removed)
        if len(inside):
            ends = scipy.linalg.eigvalsh(inside, check_finite=False)
            out = max(out, float(np.abs(ends).max()))
    return out


def _outside(matrix: Array, removed: Array) -> Array:
    """Compute ``P M P`` with the projector P on the complement of orthonormal columns."""
    half = matrix - removed @ (removed.T @ matrix)
    return np.asarray(half - (half @ removed) @ removed.T)


def _covariance_directions(
    differences: list[_Difference], means: Array, wanted: int | None
) -> Array:
    """Orthonormal directions to remove, outside of those of the means.

    Without a number, as many are removed as have differences beyond chance: with equal normal covariances,
    the eigenvalues of S_1 - S_0 reach about ``2 sqrt(D (1/n_1 + 1/n_0))`` (the edge of a Wigner matrix).
    """
    size = len(means) - means.shape[1]
    of = {difference.attribute for difference in differences}
    if len(of) == 1 and len(differences) == 2:
        one, other = differences
        noise = 2.0 * np.sqrt(size * (1.0 / one.n_effective + 1.0 / other.n_effective))
        return _paired_directions(_outside(one.matrix - other.matrix, means), size, noise, wanted)
    total = np.zeros((len(means), len(means)))
    chance = 0.0
    for j in of:
        part = [difference for difference in differences if difference.attribute == j]
        for difference in part:
            outside = _outside(difference.matrix, means)
            total += difference.share * outside @ outside
        n = sum(difference.n_effective for difference in part)
        chance += 4.0 * size * (len(part) - 1) / n
    values, vectors = psd_eigh(total)
    found = int((values[:size] > max(chance, _ROUNDING)).sum()) if wanted is None else wanted
    return vectors[:, : min(found, size)]


def _paired_directions(matrix: Array, size: int, noise: float, wanted: int | None) -> Array:
    """Directions to remove for two groups: each takes two eigenvalues of opposite sign, if there are."""
    values, vectors = scipy.linalg.eigh(matrix, check_finite=False)
    # The directions of the means have the eigenvalue 0.
    order = np.argsort(-np.abs(values), kind="stable")[:size].tolist()
    out: list[Array] = []
    while order and (wanted is None or len(out) < wanted):
        i = order[0]
        if abs(values[i]) <= (noise if wanted is None else _ROUNDING):
            break
        order.remove(i)
        j = next((k for k in order if values[k] * values[i] < 0.0), None)
        if j is None or abs(values[j]) <= _ROUNDING:
            out.append(vectors[:, i])
            continue
        order.remove(j)
        a, b = np.sqrt(abs(values[i])), np.sqrt(abs(values[j]))
        out.append((a * vectors[:, i] - b * vectors[:, j]) / np.hypot(a, b))
    return np.stack(out, axis=1) if out else np.zeros((len(matrix), 0))


# ------------------------------------------------------------------ what is left


def _blocks(
    moments: Moments,
    pilot: Pilot,
    config: FitConfig,
    total: _Removed,
    order: int,
    n_directions: int | str,
    confidence: float,
) -> tuple[tuple[ErasureBlock, ...], tuple[ErasureBlock, ...]]:
    """Blocks of the original and of the transformed vectors, on training rows and out of fold."""
    before: dict[tuple[str, str], list[_FoldSum]] = {}
    after: dict[tuple[str, str], list[_FoldSum]] = {}
    for fold in range(moments.n_folds if moments.n_folds > 1 else 0):
        held_out = np.arange(moments.n_folds) == fold
        train = moments.pool(folds=~held_out, scatter=False)
        size = kish(train.weight, train.weight2)
        if size <= total.white.rank + 3.0 or not moments.pool(folds=held_out, scatter=False).rows:
            before, after = {}, {}
            break
        removed = _removed(moments, pilot, config, order, n_directions, ~held_out)
        if removed.white.rank != total.white.rank:
            before, after = {}, {}
            break
        test = moments.pool(folds=held_out)
        # The inverse of a covariance of normal rows is too large by this factor.
        shrink = (size - removed.white.rank - 2.0) / size
        white_cov = removed.white.both_sides(test.cov)
        for each in _codes(test, pilot, config):
            key = (each.attribute, each.coding)
            for basis, sums in ((removed.basis[:, :0], before), (removed.basis, after)):
                found = _fold_sum(each, removed.white, basis, white_cov, shrink)
                sums.setdefault(key, []).append(found)
    out: tuple[list[ErasureBlock], list[ErasureBlock]] = ([], [])
    for each in total.codes:
        key = (each.attribute, each.coding)
        intervals = [_interval(sums.get(key, []), confidence) for sums in (before, after)]
        delta = total.white.whiten(each.block.delta_known)
        left = delta - total.basis @ (total.basis.T @ delta)
        parts = zip(out, (delta, left), intervals, strict=True)
        for blocks, covariance, (estimate, low, high) in parts:
            blocks.append(
                ErasureBlock(
                    attribute=each.attribute,
                    coding=each.coding,
                    n_rows=each.block.n_rows,
                    before=intervals[0][0],
                    training_rows=min(float(np.linalg.norm(covariance)), 1.0),
                    new_rows=estimate,
                    low=low,
                    high=high,
                )
            )
    return tuple(out[0]), tuple(out[1])


@dataclass(frozen=True)
class _FoldSum:
    """Squared covariance of held-out rows with the codes, and what of it is noise."""

    n: float
    squared: float
    noise: float  # expectation without any dependence, from n rows
    degrees: float


def _fold_sum(
    codes: _Codes, white: Whitening, removed: Array, white_cov: Array, shrink: float
) -> _FoldSum:
    """Measure what is left on the rows of a fold, by directions of the other folds.

    The covariance of n held-out rows with r whitened codes has a variance of r tr(Sig_within) / n in
    whitened coordinates if groups have the same covariance.
    """
    delta = white.whiten(codes.block.delta_known)
    delta -= removed @ (removed.T @ delta)
    squared = float((delta**2).sum())
    variance = float(np.trace(white_cov) - (removed * (white_cov @ removed)).sum()) - squared
    rank = codes.block.rank
    return _FoldSum(
        n=codes.block.n_effective,
        squared=shrink * squared,
        noise=shrink * rank * max(variance, 0.0) / codes.block.n_effective,
        degrees=float(rank * (white.rank - removed.shape[1])),
    )


def _interval(sums: list[_FoldSum], confidence: float) -> tuple[float, float, float]:
    """Estimate a correlation on new rows and its interval: n times the sum is noncentral chi-squared."""
    degrees = sum(each.degrees for each in sums)
    n = sum(each.n for each in sums)
    unknown = float("nan")
    if not sums:
        return unknown, unknown, unknown
    noise = sum(each.n * each.noise for each in sums)
    if degrees == 0.0 or noise <= 0.0:
        return 0.0, 0.0, 0.0  # no direction is left
    scale = noise / degrees
    statistic = sum(each.n * each.squared for each in sums) / scale
    estimate = max(statistic - degrees, 0.0)
    tail = (1.0 - confidence) / 2.0
    low, high = (_noncentrality(statistic, degrees, q) for q in (1.0 - tail, tail))

    def correlation(noncentrality: float) -> float:
        return float(min(np.sqrt(noncentrality * scale / n), 1.0))

    return correlation(estimate), correlation(low), correlation(high)


def _noncentrality(statistic: float, degrees: float, probability: float) -> float:
    """Find the noncentrality with which a statistic is below the observed one with this probability."""

    def gap(value: float) -> float:
        below = scipy.stats.chi2.cdf(statistic, degrees)
        if value > 0.0:
            below = scipy.stats.ncx2.cdf(statistic, degrees, value)
        return float(below - probability)

    if gap(0.0) <= 0.0:
        return 0.0
    top = max(statistic, 1.0)
    while gap(top) > 0.0:
        top *= 2.0
    return float(scipy.optimize.brentq(gap, 0.0, top, xtol=1e-6 * top))
