"""Directions that an erasure removes: those of means, and those in which covariances differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fairspan.method.codes import CrossedCoder
from fairspan.method.linalg import Array, orthonormal_columns, psd_eigh
from fairspan.method.moments import Moments, Pooled, kish
from fairspan.method.pilot import Pilot
from fairspan.method.problem import MIN_ROWS, FitConfig
from fairspan.method.sdr import CodeBlock, column_block, level_block, usable_levels

__all__ = ["ErasedCodes", "Removed", "Whitening", "erased_codes", "find_removed"]

# Correlations and differences of variances below this are rounding.
_ROUNDING = 1e-12
# A column is constant if its standard deviation is at most this share of its mean: that is rounding.
_CONSTANT = 1e-13
# Of a Wigner matrix of size D, .65 D^(-2/3) of its edge is exceeded in about one of twenty cases.
_FLUCTUATION = 0.65


@dataclass(frozen=True)
class Whitening:
    """W with ``W Sig W' = I`` on the range of Sig, and its inverse there.

    Columns are scaled to variance 1 first, so that the rank does not depend on their units. Those of a
    constant are left out; their variance is zero up to rounding, which must not be scaled to 1.
    """

    scale: Array  # (D,)
    factor: Array  # lower Cholesky factor of the correlations, or their eigenvectors (D, rank)
    roots: Array | None  # roots of the eigenvalues; None with a Cholesky factor

    @classmethod
    def of(cls, cov: Array, mean: Array) -> Whitening:
        """Whiten the covariance of rows with this mean."""
        spread = np.sqrt(np.maximum(cov.diagonal(), 0.0))
        varies = spread > _CONSTANT * np.abs(mean)
        scale = np.where(varies, spread, 1.0)
        correlation = np.where(np.outer(varies, varies), cov / scale / scale[:, None], 0.0)
        smallest = 10.0 * len(cov) * np.finfo(np.float64).eps
        try:
            factor = scipy.linalg.cholesky(correlation, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            factor = np.zeros((1, 1))
        if factor.diagonal().min() ** 2 > smallest:
            return cls(scale, factor, None)
        values, vectors = psd_eigh(correlation)
        keep = values > smallest * values[0]
        return cls(scale, vectors[:, keep] * varies[:, None], np.sqrt(values[keep]))

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
class ErasedCodes:
    """Covariances of the vectors with the codes of one attribute."""

    attribute: str
    coding: str
    block: CodeBlock


def kept_levels(pooled: Pooled, pilot: Pilot, config: FitConfig) -> tuple[NDArray[np.bool_], ...]:
    """Levels of each attribute that have enough rows to be erased; slices always have, when merged."""
    out = []
    for coder, stats in zip(pilot.coders, pooled.levels, strict=False):  # after them: classes of y
        kept = stats.rows > 0
        if coder.kind == "categorical":
            kept[:] = False
            groups = usable_levels(
                stats.rows.tolist(),
                stats.weight.tolist(),
                ordered=False,
                min_rows=config.variant.min_rows,
            )
            kept[[h for group in groups for h in group]] = True
        out.append(kept)
    return tuple(out)


def erased_codes(
    pooled: Pooled,
    pilot: Pilot,
    config: FitConfig,
    kept: tuple[NDArray[np.bool_], ...] | None = None,
) -> list[ErasedCodes]:
    """Codes that are erased: levels; of continuous attributes their slices and their values.

    Of some of the rows all ``kept`` levels are erased, which have enough rows among all rows.
    """
    out, column = [], 0
    for j, coder in enumerate(pilot.coders):
        ordered = coder.kind == "continuous"
        found: list[tuple[str, CodeBlock | None]] = []
        if not config.removes_correlation_only(coder.kind):
            stats, min_rows = pooled.levels[j], config.variant.min_rows
            if kept is not None and coder.kind != "probabilities":
                rows, weight = (np.where(kept[j], part, 0) for part in (stats.rows, stats.weight))
                stats, min_rows = replace(stats, rows=rows, weight=weight), 1
            block = level_block(stats, pooled.weight, ordered=ordered, min_rows=min_rows)
            found.append(("slices" if ordered else "levels", block))
        if ordered:
            found.append(("value", column_block(pooled.columns[column], pooled.weight)))
            column += 1
        out += [
            ErasedCodes(attribute=coder.name, coding=coding, block=block)
            for coding, block in found
            if block is not None
        ]
    return out


@dataclass(frozen=True, kw_only=True)
class Removed:
    """Directions to remove, in whitened coordinates, from the moments of some of the folds."""

    pooled: Pooled
    white: Whitening
    codes: list[ErasedCodes]
    levels: tuple[NDArray[np.bool_], ...]  # of each attribute, those that are erased
    basis: Array  # Q, (rank, q)
    n_means: int
    gap_before: float
    gap: float


def find_removed(
    moments: Moments,
    pilot: Pilot,
    config: FitConfig,
    order: int,
    n_directions: int | str,
    folds: NDArray[np.bool_] | None,
    kept: tuple[NDArray[np.bool_], ...] | None = None,
) -> Removed:
    """Find the directions from the moments of the folds in a mask (of all rows if None)."""
    pooled = moments.pool(folds=folds)
    white = Whitening.of(pooled.cov, pooled.mean)
    codes = erased_codes(pooled, pilot, config, kept)
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
    return Removed(
        pooled=pooled,
        white=white,
        codes=codes,
        levels=kept_levels(pooled, pilot, config) if kept is None else kept,
        basis=Q,
        n_means=n_means,
        gap_before=before,
        gap=after,
    )


# ------------------------------------------------------------------ covariances


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

    Without a number, as many are removed as have differences beyond chance, with equal normal covariances.
    The eigenvalues of S_1 - S_0 then reach about ``2 sqrt(D (1/n_1 + 1/n_0))``, the edge of a Wigner matrix,
    plus fluctuations of the order ``D^(-2/3)`` of it. With k groups, ``sum_h p_h (S_h - S)^2`` is like the
    product of a Gaussian matrix of k - 1 blocks with its transpose: ``(1 + sqrt(k - 1))^2 D / n``.
    """
    size = len(means) - means.shape[1]
    of = {difference.attribute for difference in differences}
    if len(of) == 1 and len(differences) == 2:
        one, other = differences
        noise = 2.0 * np.sqrt(size * (1.0 / one.n_effective + 1.0 / other.n_effective))
        noise *= _beyond_edge(size, 2)
        return _paired_directions(_outside(one.matrix - other.matrix, means), size, noise, wanted)
    total = np.zeros((len(means), len(means)))
    chance = 0.0
    for j in of:
        part = [difference for difference in differences if difference.attribute == j]
        for difference in part:
            outside = _outside(difference.matrix, means)
            total += difference.share * outside @ outside
        n = sum(difference.n_effective for difference in part)
        edge = (1.0 + np.sqrt(len(part) - 1.0)) * np.sqrt(size / n) * _beyond_edge(size, len(part))
        chance += edge**2
    values, vectors = psd_eigh(total)
    found = int((values[:size] > max(chance, _ROUNDING)).sum()) if wanted is None else wanted
    return vectors[:, : min(found, size)]


def _beyond_edge(size: int, groups: int) -> float:
    """Largest singular value that chance gives, relative to its limit for large D.

    Its fluctuations are those of a Gaussian matrix with k - 1 blocks of D rows and D columns.
    """
    root = np.sqrt(max(groups - 1.0, 1.0))
    relative = 2.0 ** (2.0 / 3.0) * (1.0 + 1.0 / root) ** (1.0 / 3.0) / (1.0 + root)
    return float(1.0 + _FLUCTUATION * relative * max(size, 1) ** (-2.0 / 3.0))


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
