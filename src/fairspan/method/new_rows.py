"""Cross-fitted removal: zero dependence on S is expected on new rows (METHOD 12).

A model without covariance with S on its training rows keeps a bias on new rows, because both of its
regressions, of y and of the codes of S, explain their own rows too well. Here both are fitted without
fold k and compared with the codes on fold k. All of it is computed from the moments of the folds.

Notation: g_k and H_k are the ridge regressions of y and of the codes, fitted without fold k; A and b
are their out-of-fold predictions; ``u = b lambda`` is the part of A that S explains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.stats
from numpy.typing import NDArray

from fairspan.exceptions import DataWarning, warn_user
from fairspan.method.certificates import (
    Direction,
    ExpectedDependence,
    NewRowsCertificate,
    supremum,
)
from fairspan.method.codes import Coder
from fairspan.method.config import FitConfig
from fairspan.method.data import Data
from fairspan.method.limits import keep_limits
from fairspan.method.linalg import Array, Tridiagonal, orthonormal_columns, psd_eigh, take, to_numpy
from fairspan.method.moments import Moments, Pooled, kish
from fairspan.method.pilot import Pilot
from fairspan.method.removal import BlockReport
from fairspan.method.sdr import ridge_factor, ridge_grid, target_covariance, usable_levels

Numbers = NDArray[np.intp]
Flags = NDArray[np.bool_]

__all__ = ["Codes", "CrossFit", "NewRowsBlock", "cross_fit", "expect", "measure_spread"]

# Rows that every fold needs.
MIN_FOLD_ROWS = 10
# Eigenvalues below this share of the largest are regarded as 0.
_ROUNDING = 1e-12
# Strength from which a direction of q codes is removed whole: 2 sqrt(q) + _RAMP.
_RAMP = 2.0
# Directions that separate limits may use.
MOST_EXTRA = 32


@dataclass(frozen=True, kw_only=True)
class Codes:
    """Whitened codes of one attribute in one cell, the same for all folds.

    For levels, a row of level ``used[h]`` has the codes ``whitening[h]``, less their mean over the rows
    under consideration. For the value of a number v, the code is ``v * whitening``. Rows outside the cell
    have the code 0.
    """

    report: BlockReport
    cell: int | None  # None: all rows
    level: int | None  # number of the coded variable, or
    column: int | None  # number of the numeric variable
    used: tuple[int, ...]
    names: tuple[str, ...]  # of the levels used
    whitening: Array  # (levels, codes) or (1, 1)

    @property
    def rank(self) -> int:
        """Number of codes."""
        return int(self.whitening.shape[1])

    def sums(self, pooled: Pooled) -> tuple[Array, Array]:
        """Sum of weighted products of the codes with psi, (D, r), and with each other, (r, r)."""
        if self.column is not None:
            stats = pooled.columns[self.column]
            scale = float(self.whitening[0, 0])
            return stats.cross[:, None] * scale, np.array([[stats.square * scale**2]])
        assert self.level is not None
        levels = pooled.levels[self.level]
        used = list(self.used)
        weight, mean = levels.weight[used], levels.mean[used]
        total = float(weight.sum())
        if total == 0.0:
            return np.zeros((mean.shape[1], self.rank)), np.zeros((self.rank, self.rank))
        p = weight / total
        spread = (mean - p @ mean) * weight[:, None]
        codes = self.whitening - p @ self.whitening
        return spread.T @ self.whitening, (codes * weight[:, None]).T @ codes

    def weight(self, pooled: Pooled) -> tuple[float, float]:
        """Sum of the weights, and of their squares, of the rows with a code."""
        if self.column is not None:
            stats = pooled.columns[self.column]
            return stats.weight, stats.weight2
        assert self.level is not None
        levels, used = pooled.levels[self.level], list(self.used)
        return float(levels.weight[used].sum()), float(levels.weight2[used].sum())

    def of_rows(self, levels: Numbers, values: Array, inside: Flags) -> Array:
        """Codes of rows, (n, r), not yet centred; 0 outside the cell and for missing values.

        ``levels`` and ``values`` are the encoded rows, ``inside`` marks the rows of the cell.
        """
        out = np.zeros((len(inside), self.rank))
        if self.column is not None:
            v = values[:, self.column]
            known = inside & np.isfinite(v)
            out[known, 0] = v[known] * self.whitening[0, 0]
            return out
        code = levels[:, self.level]
        for h, row in zip(self.used, self.whitening, strict=True):
            out[inside & (code == h)] = row
        return out

    def has_code(self, levels: Numbers, values: Array, inside: Flags) -> Flags:
        """Mark the rows that have a code."""
        if self.column is not None:
            return np.asarray(inside & np.isfinite(values[:, self.column]))
        return np.asarray(inside & np.isin(levels[:, self.level], self.used))


def _make_codes(
    report: BlockReport,
    pooled: Pooled,
    *,
    cell: int | None,
    level: int,
    column: int,
    labels: tuple[str, ...],
    min_rows: int,
) -> Codes:
    """Fix the codes of a block, with the whitening of the pooled rows of its cell."""
    if report.coding == "value":
        stats = pooled.columns[column]
        scale = np.array([[np.sqrt(stats.weight / stats.square)]])
        return Codes(
            report=report, cell=cell, level=None, column=column, used=(), names=(), whitening=scale
        )
    levels = pooled.levels[level]
    groups = usable_levels(
        levels.rows.tolist(),
        levels.weight.tolist(),
        ordered=report.coding == "slices",
        min_rows=min_rows,
    )
    weight = np.array([levels.weight[group].sum() for group in groups])
    root = np.sqrt(weight / weight.sum())
    by_group = scipy.linalg.null_space(root[None]) / root[:, None]
    used = tuple(h for group in groups for h in group)
    return Codes(
        report=report,
        cell=cell,
        level=level,
        column=None,
        used=used,
        names=tuple(labels[h] for h in used),
        whitening=np.concatenate(
            [np.tile(row, (len(group), 1)) for row, group in zip(by_group, groups, strict=True)]
        ),
    )


@dataclass(frozen=True, kw_only=True)
class NewRowsBlock:
    """Out-of-fold moments of one attribute in one cell."""

    index: int  # of the block among all reports
    codes: Codes
    cov: Array  # covariance of the codes with the basis, (r, m), within the cell
    removed: (
        Array  # orthonormal combinations of the codes that are removed in part or whole, (r, a)
    )
    n_effective: float  # Kish size of the rows with a code
    eta: float
    directions: tuple[Direction, ...]
    # E[c c' f f'] over the rows with a code, (r, r, m, m); None: not known, so take c and f as
    # independent.
    spread: Array | None = None


@dataclass(frozen=True, kw_only=True)
class CrossFit:
    """Cross-fitted removal: functions of the folds, out-of-fold moments, and both ends of the dial.

    The L functions of y are contrasts of its outputs: ``outputs = functions @ contrasts.T``. The basis
    has m functions: A and u, of L columns each, and for L = 1 with several removed directions of the codes
    the prediction of each, which only separate limits use.
    """

    contrasts: Array  # (outputs, L), orthonormal
    basis: Array  # averages over the folds, (D, m)
    fold_bases: Array  # the basis of each fold, (K, D, m)
    fold_means: Array  # mean of psi without the fold, (K, D)
    share: Array  # weight of each fold, (K,)
    cov: Array  # out-of-fold covariance of the basis, (m, m)
    cov_target: Array  # with the contrasts of y, (m, L)
    target_cov: Array  # (L, L)
    shift: Array  # means of the basis in the fold, about those without it, (K, m)
    target_shift: Array  # (K, L)
    first: Array  # coefficients of the unconstrained end on the basis, (m, L)
    last: Array  # of the fair end
    blocks: tuple[NewRowsBlock, ...]
    n_folds: int
    # Mean over out-of-fold rows of (psi - mu)'(Sig + eta_y I)^-1 (psi - mu) / T, of the other folds;
    # only for Gaussian processes.
    leverage: float | None = None

    def coefficients(self, share: float) -> Array:
        """Coefficients on the basis at which this share of the expected dependence is gone, (m, L)."""
        return (1.0 - share) * self.first + share * self.last

    def names_left(self) -> list[str]:
        """Directions that are not removed whole at fairness 1."""
        return [
            f"{block.codes.report.attribute} ({direction.name})"
            for block in self.blocks
            for direction in block.directions
            if direction.weight < 1.0
        ]

    def angle(self) -> float:
        """Out-of-fold angle between the two ends."""
        return float(
            np.arctan2(
                np.sqrt(max(self.variance(self.first - self.last), 0.0)),
                np.sqrt(max(self.variance(self.last), 0.0)),
            )
        )

    def error(self, share: float) -> float:
        """Out-of-fold squared error, summed over the contrasts."""
        return self.centred_error(share) + self._shift_error(self.coefficients(share))

    def centred_error(self, share: float) -> float:
        """Out-of-fold squared error about the means of the folds."""
        C = self.coefficients(share)
        return float(
            np.trace(self.target_cov)
            - 2.0 * np.sum(C * self.cov_target)
            + np.sum(C * (self.cov @ C))
        )

    def _shift_error(self, C: Array) -> float:
        off = self.target_shift - self.shift @ C
        return float(self.share @ (off**2).sum(axis=1))

    @property
    def n_functions(self) -> int:
        """Number of functions L."""
        return int(self.contrasts.shape[1])

    @property
    def path_size(self) -> int:
        """Number of functions of the basis that the dial uses."""
        return 2 * self.n_functions

    def variance(self, C: Array) -> float:
        """Out-of-fold variance of functions, summed."""
        return float(np.trace(C.T @ self.cov @ C))

    def nearest_share(self, C: Array) -> float:
        """Share of the model on the dial that is nearest to a function."""
        line = self.first - self.last
        length = float(np.sum(line * (self.cov @ line)))
        if length <= 0.0:
            return 1.0
        return float(np.clip(np.sum((self.first - C) * (self.cov @ line)) / length, 0.0, 1.0))

    def within_limits(self, limits: list[float], block_cov: list[Array]) -> Array:
        """The function nearest to the unconstrained one that keeps a limit in each constrained block.

        Limits apply to the directions that are removed, ``block_cov`` are covariances of the basis in the
        cells. Returns coefficients on the basis, (m, 1), scaled by the slope of y.
        """
        values, vectors = psd_eigh((self.cov + self.cov.T) / 2.0)
        keep = values > _ROUNDING * max(float(values[0]), 1e-300)
        Z = vectors[:, keep] / np.sqrt(values[keep])  # functions of out-of-fold variance 1
        start = np.sqrt(values[keep]) * (vectors[:, keep].T @ self.first[:, 0])
        blocks = [block for block in self.blocks if block.codes.report.constrained]
        nearest = keep_limits(
            start,
            [Z.T @ block.cov.T @ block.removed for block in blocks],
            [Z.T @ cov @ Z for cov in block_cov],
            limits,
        )
        C = Z @ nearest.function[:, None]
        length = float(nearest.function @ nearest.function)
        if length == 0.0:
            return np.asarray(C)
        return np.asarray(C * max(float(np.sum(C * self.cov_target)) / length, 0.0))

    def share_of_angle(self, fairness: float) -> float:
        """Share for a point of the angle scale."""
        theta = self.angle()
        if theta < 1e-8:
            return fairness
        if np.cos(theta) <= 1e-7:  # nothing is left at the fair end
            return float(fairness > 0.0)
        return 1.0 - float(np.tan((1.0 - fairness) * theta) / np.tan(theta))

    def share_of_cosine(self, eps: float) -> float:
        """Share for the paper's epsilon, the cosine of the angle to the fair end."""
        theta = self.angle()
        if theta < 1e-8:
            return 1.0
        if np.cos(theta) <= 1e-7:
            return float(eps >= 1.0)
        return 1.0 - float(np.tan(min(theta, np.arccos(eps))) / np.tan(theta))


# ------------------------------------------------------------------ fitting


@dataclass(frozen=True, kw_only=True)
class _Fold:
    """One fold: its rows, the rows of the others, and regressions fitted on the others."""

    test: Pooled
    train: Pooled
    test_codes: list[tuple[Array, Array]]  # sums of each block in the fold
    target: Array  # Cov(psi, y) in the fold, (D, L)
    functions: Array  # g, (D, L)
    regressions: list[Array]  # H of each block, (etas, D, r)


class _Target:
    """Moments of the outputs of y in pooled rows."""

    def __init__(self, pilot: Pilot) -> None:
        self._kind, self._index = pilot.target_position()
        assert pilot.target is not None
        K = pilot.target.n_levels
        # Orthonormal contrasts of the classes, whose shares add up to 1; two classes: the larger label.
        self.contrasts = np.ones((1, 1))
        if self._kind == "levels":
            two = np.array([[-1.0], [1.0]]) / np.sqrt(2.0)
            self.contrasts = two if K == 2 else scipy.linalg.null_space(np.ones((1, K)))

    def _stats(self, pooled: Pooled) -> tuple[Array, Array, Array]:
        stats = pooled.levels if self._kind == "levels" else pooled.columns
        return target_covariance(pooled, stats[self._index])

    def cross(self, pooled: Pooled) -> Array:
        """Covariance of psi with the contrasts, (D, L)."""
        return self._stats(pooled)[0] @ self.contrasts

    def mean(self, pooled: Pooled) -> Array:
        """Means of the contrasts, (L,)."""
        return self._stats(pooled)[1] @ self.contrasts

    def cov(self, pooled: Pooled) -> Array:
        """Covariance of the contrasts, (L, L)."""
        _, mean, variance = self._stats(pooled)
        cov = np.diag(mean) - np.outer(mean, mean) if self._kind == "levels" else variance[:, None]
        return np.asarray(self.contrasts.T @ cov @ self.contrasts)


class _CodeSums:
    """Moments of the codes by cell and fold, in the coordinates of psi, without second moments of psi."""

    def __init__(self, moments: Moments, pilot: Pilot) -> None:
        self._moments, self._pending = moments, pilot.features.pending
        self._known: dict[tuple[int | None, int, bool], Pooled] = {}

    def pool(self, cell: int | None, fold: int = -1, *, others: bool = False) -> Pooled:
        """Rows of a cell in a fold, or in the others; all rows of the cell for fold -1."""
        key = (cell, fold, others)
        if key not in self._known:
            mask = (np.arange(self._moments.n_folds) == fold) != (others or fold < 0)
            pooled = self._moments.pool(cell=cell, folds=mask, scatter=False)
            self._known[key] = pooled if self._pending is None else pooled.project(self._pending)
        return self._known[key]


def _all_codes(
    reports: list[BlockReport], pilot: Pilot, sums: _CodeSums, min_rows: int
) -> list[Codes | None]:
    """Codes of every block; None for a block without any."""
    columns, seen = {}, 0
    for j, coder in enumerate(pilot.coders):
        columns[coder.name] = (j, seen)
        seen += isinstance(coder, Coder) and coder.kind == "continuous"
    out: list[Codes | None] = []
    for report in reports:
        level, column = columns[report.attribute]
        cell = None if pilot.cells.rule == "all" else pilot.cells.names.index(report.cell)
        out.append(
            None
            if report.coding == "none"
            else _make_codes(
                report,
                sums.pool(cell),
                cell=cell,
                level=level,
                column=column,
                labels=tuple(pilot.coders[level].labels),
                min_rows=min_rows,
            )
        )
    return out


def cross_fit(
    by_cell: Moments,
    moments: Moments,
    pilot: Pilot,
    config: FitConfig,
    reports: list[BlockReport],
    eta_y: float,
) -> CrossFit:
    """Fit the removal for new rows from the moments of the folds.

    Parameters
    ----------
    by_cell : moments per cell and fold, in the coordinates of the pass.
    moments : moments per fold, in the coordinates of psi.
    reports : of the blocks of all cells and attributes.
    eta_y : ridge of the regression of y.
    """
    K = moments.n_folds
    sums, target = _CodeSums(by_cell, pilot), _Target(pilot)
    every = _all_codes(reports, pilot, sums, config.variant.min_rows)
    blocks = [codes for codes in every if codes is not None]
    trace = float(np.trace(moments.pool().scatter)) / moments.pool().weight
    grid = ridge_grid(trace) if isinstance(config.eta, str) else np.array([float(config.eta)])
    constrained = [i for i, codes in enumerate(blocks) if codes.report.constrained]
    folds = list(_folds(moments, sums, blocks, target, eta_y, grid))
    total = moments.pool()
    share = np.array([fold.test.weight for fold in folds]) / total.weight
    # The ridge of least out-of-fold squared error of the codes, for each block.
    best = [_best_ridge(folds, i) for i in range(len(blocks))]
    H = [np.stack([fold.regressions[i][best[i]] for fold in folds]) for i in range(len(blocks))]
    g = np.stack([fold.functions for fold in folds])  # (K, D, L)
    both = np.concatenate([g, *(H[i] for i in constrained)], axis=2)  # (K, D, L + q)
    # Out-of-fold moments of [A, b], of these with y, and of the codes with them.
    products = [both[k].T @ fold.test.cov @ both[k] for k, fold in enumerate(folds)]
    cov = np.einsum("k,kij->ij", share, products)
    cov_target = np.einsum(
        "k,kij->ij", share, [b.T @ f.target for b, f in zip(both, folds, strict=True)]
    )
    cross, code_cov = [], []
    for i in range(len(blocks)):
        products = [fold.test_codes[i][0].T @ both[k] for k, fold in enumerate(folds)]
        cross.append(np.sum(products, axis=0) / total.weight)
        code_cov.append(np.sum([fold.test_codes[i][1] for fold in folds], axis=0) / total.weight)
    L = g.shape[2]
    n = kish(total.weight, total.weight2)
    lam, directions, removed, active = _removal(
        [blocks[i] for i in constrained],
        [cross[i] for i in constrained],
        [code_cov[i] for i in constrained],
        cov,
        L,
        n,
        config.n_sensitive_directions,
    )
    # From [A, b] to [A, u], and for separate limits to the single directions.
    extra = active if L == 1 and 2 <= active.shape[1] <= MOST_EXTRA else active[:, :0]
    mix = scipy.linalg.block_diag(np.eye(L), np.concatenate([lam, extra], axis=1))
    path_cov, path_target = mix.T @ cov @ mix, mix.T @ cov_target
    fold_bases = both @ mix
    gaps = np.stack([fold.test.mean - fold.train.mean for fold in folds])
    target_gaps = np.stack([target.mean(fold.test) - target.mean(fold.train) for fold in folds])
    target_cov = sum(s * target.cov(fold.test) for s, fold in zip(share, folds, strict=True))
    first, last = _ends(path_cov, path_target, L)
    by_block = dict(zip(constrained, directions, strict=True))
    reported = []
    numbers = [i for i, codes in enumerate(every) if codes is not None]
    for i, codes in enumerate(blocks):
        weight, weight2 = codes.weight(sums.pool(codes.cell))
        reported.append(
            NewRowsBlock(
                index=numbers[i],
                codes=codes,
                cov=cross[i] @ mix * (total.weight / weight),
                removed=removed.get(id(codes), np.zeros((codes.rank, 0))),
                n_effective=kish(weight, weight2),
                eta=float(grid[best[i]]),
                directions=tuple(by_block.get(i, ())),
            )
        )
    return CrossFit(
        contrasts=target.contrasts,
        basis=np.einsum("k,kdm->dm", share, fold_bases),
        fold_bases=fold_bases,
        fold_means=np.stack([fold.train.mean for fold in folds]),
        share=share,
        cov=path_cov,
        cov_target=path_target,
        target_cov=np.asarray(target_cov),
        shift=np.einsum("kd,kdm->km", gaps, fold_bases),
        target_shift=target_gaps,
        first=first,
        last=last,
        blocks=tuple(reported),
        n_folds=K,
        leverage=_leverage(folds, share, eta_y) if config.ridge_by_evidence else None,
    )


def _leverage(folds: list[_Fold], share: Array, eta_y: float) -> float:
    """Mean over out-of-fold rows of their squared length in the metric of the other folds, over T."""
    mean = 0.0
    for s, fold in zip(share, folds, strict=True):
        off = fold.test.mean - fold.train.mean
        second = fold.test.cov + np.outer(off, off)
        solved = scipy.linalg.cho_solve((ridge_factor(fold.train.cov, eta_y), True), second)
        mean += float(s * np.trace(solved)) / fold.train.weight
    return mean


def _folds(
    moments: Moments,
    sums: _CodeSums,
    blocks: list[Codes],
    target: _Target,
    eta_y: float,
    grid: Array,
) -> Iterator[_Fold]:
    """Regressions of y and of the codes for every fold; those of the codes for all ridges of the grid."""
    for k in range(moments.n_folds):
        mask = np.arange(moments.n_folds) == k
        test, train = moments.pool(folds=mask), moments.pool(folds=~mask)
        on_train = [codes.sums(sums.pool(codes.cell, k, others=True))[0] for codes in blocks]
        right = [target.cross(train), *(products / train.weight for products in on_train)]
        tri = Tridiagonal.of(train.cov)
        rotated = tri.rotate(np.concatenate(right, axis=1))
        ends = np.cumsum([part.shape[1] for part in right])
        g = tri.rotate_back(tri.solve_rotated(rotated[:, : ends[0]], eta_y))
        solved = [tri.solve_rotated(rotated[:, ends[0] :], eta) for eta in grid]
        H = tri.rotate_back(np.concatenate(solved, axis=1)).reshape(len(rotated), len(grid), -1)
        yield _Fold(
            test=test,
            train=train,
            test_codes=[codes.sums(sums.pool(codes.cell, k)) for codes in blocks],
            target=target.cross(test),
            functions=g,
            regressions=[
                np.ascontiguousarray(np.moveaxis(part, 1, 0))
                for part in np.split(H, ends[1:-1] - ends[0], axis=2)
            ],
        )


def _best_ridge(folds: list[_Fold], block: int) -> int:
    """Index of the ridge with the least out-of-fold squared error of the codes of a block."""
    errors = 0.0
    for fold in folds:
        H = fold.regressions[block]  # (etas, D, r)
        cross, _ = fold.test_codes[block]
        flat = np.moveaxis(H, 0, 1).reshape(H.shape[1], -1)
        square = np.einsum("ij,ij->j", flat, fold.test.scatter @ flat).reshape(len(H), -1)
        errors = errors + square.sum(axis=1) - 2.0 * np.einsum("edr,dr->e", H, cross)
    return int(np.argmin(errors))


def _inverse_root(matrix: Array) -> Array:
    """``M^-1/2`` on the eigenvectors whose eigenvalue is not rounding."""
    values, vectors = psd_eigh((matrix + matrix.T) / 2.0)
    keep = values > _ROUNDING * max(float(values[0]), 1e-300)
    root = np.zeros(len(values))
    root[keep] = values[keep] ** -0.5
    return np.asarray((vectors * root) @ vectors.T)


def _removal(
    blocks: list[Codes],
    cross: list[Array],
    code_cov: list[Array],
    cov: Array,
    L: int,
    n: float,
    wanted: str | int,
) -> tuple[Array, list[list[Direction]], dict[int, Array], Array]:
    """Coefficients lambda, (q, L), of ``u = b lambda``, and the directions of every block.

    Also returned are the combinations of codes that are removed, by the identity of their block, and the
    combinations of b that predict them.

    A direction that cannot be predicted out of fold is kept: to remove it would cost much accuracy and
    gain nothing (its weight rises with the squared strength from 2 sqrt(q) to 2 sqrt(q) + 2).
    """
    starts = np.cumsum([0, *(codes.rank for codes in blocks)])
    q = int(starts[-1])
    left, right, weights, directions = np.zeros((q, q)), np.zeros((q, q)), np.zeros(q), []
    removed = {}
    for codes, cov_cb, cov_c, start in zip(blocks, cross, code_cov, starts, strict=False):
        part = slice(start, start + codes.rank)
        P = cov_cb[:, L + start : L + start + codes.rank]
        root_c = _inverse_root(cov_c)
        root_b = _inverse_root(
            cov[L + start : L + start + codes.rank, L + start : L + start + codes.rank]
        )
        U, rho, Vt = scipy.linalg.svd(root_c @ P @ root_b)
        combos = root_c @ U
        strength = np.sqrt(n) * rho
        weight = _weights(strength, codes.rank, wanted)
        failed = np.einsum("ij,ij->j", combos, P @ combos) <= 0.0
        weight[failed] = 0.0
        left[part, part], right[part, part], weights[part] = combos, root_b @ Vt.T, weight
        removed[id(codes)] = orthonormal_columns(combos[:, weight > 0.0])
        directions.append(
            [
                Direction(
                    name=_name(codes, combos[:, i]),
                    correlation=float(rho[i]),
                    strength=float(strength[i]),
                    weight=float(weight[i]),
                    reason=_reason(codes, float(strength[i]), float(weight[i]), bool(failed[i])),
                )
                for i in range(codes.rank)
            ]
        )
    # Covariance of the code combinations with A, and with the directions of b.
    all_cross = np.concatenate(cross)
    v = left.T @ all_cross[:, :L]
    M = left.T @ all_cross[:, L:] @ right
    active = weights > 0.0
    lam = np.zeros((q, L))
    if active.any():
        lam = right[:, active] @ _solve_joint(
            M[np.ix_(active, active)], weights[active, None] * v[active], len(blocks), n
        )
    return lam, directions, removed, right[:, active]


def _solve_joint(M: Array, wanted: Array, n_blocks: int, n: float) -> Array:
    """Solve ``M x = wanted``; with several blocks, leave out combinations that cannot be told apart."""
    if n_blocks == 1:  # M is diagonal
        return np.asarray(wanted / np.diag(M)[:, None])
    U, singular, Vt = scipy.linalg.svd(M)
    keep = np.sqrt(n) * singular > 2.0
    return np.asarray((Vt[keep].T / singular[keep]) @ (U[:, keep].T @ wanted))


def _weights(strength: Array, q: int, wanted: str | int) -> Array:
    if wanted == "all":
        return np.ones(len(strength))
    if not isinstance(wanted, str):
        return (np.arange(len(strength)) < int(wanted)).astype(np.float64)
    low = 2.0 * np.sqrt(q)
    ramp = (strength**2 - low**2) / ((low + _RAMP) ** 2 - low**2)
    return np.asarray(np.clip(ramp, 0.0, 1.0))


def _name(codes: Codes, combination: Array) -> str:
    """Groups that a combination of codes separates, e.g. "black against the others"."""
    if codes.column is not None:
        return codes.report.attribute
    values = codes.whitening @ combination
    if len(values) == 2:
        return f"{codes.names[0]} against {codes.names[1]}"
    top, bottom = int(np.argmax(values)), int(np.argmin(values))
    return f"{codes.names[top]} against {codes.names[bottom]}"


def _reason(codes: Codes, strength: float, weight: float, failed: bool) -> str:
    if weight == 1.0:
        return ""
    if failed:
        return "its out-of-fold prediction failed"
    need = 2.0 * np.sqrt(codes.rank) + _RAMP
    return f"X predicts it too weakly out of fold (strength {strength:.1f}, removed whole from {need:.1f})"


def _ends(path_cov: Array, path_target: Array, L: int) -> tuple[Array, Array]:
    """Coefficients on the basis of both ends of the dial, (m, L) each.

    The first end is the least-squares regression of y on A and u; the last is A - u times the slope of y
    on it, if that is positive.
    """
    cov, cov_target = path_cov[: 2 * L, : 2 * L], path_target[: 2 * L]
    values, vectors = psd_eigh((cov + cov.T) / 2.0)
    keep = values > _ROUNDING * max(float(values[0]), 1e-300)
    first = vectors[:, keep] @ ((vectors[:, keep].T @ cov_target) / values[keep, None])
    difference = np.concatenate([np.eye(L), -np.eye(L)])
    variance = float(np.trace(difference.T @ cov @ difference))
    along = float(np.trace(difference.T @ cov_target))
    slope = max(along / variance, 0.0) if variance > 0.0 else 0.0
    if slope == 0.0:
        warn_user(
            "Nothing that predicts y is left at fairness 1: the fairest model predicts the mean of y.",
            DataWarning,
        )
    rest = ((0, len(path_cov) - 2 * L), (0, 0))
    return np.pad(first, rest), np.pad(slope * difference, rest)


# ------------------------------------------------------------------ what is expected on new rows


# Rows from which the joint spread of codes and scores is measured.
SPREAD_ROWS = 20_000
# Most entries of one spread.
_MOST_ENTRIES = 10**6


def measure_spread(fit: CrossFit, pilot: Pilot, data: Data) -> CrossFit:
    """Measure the joint spread of codes and out-of-fold scores on the training rows, or on some of them."""
    encoded = pilot.encode(data)
    folds = to_numpy(pilot.counter().assign(encoded.strata, data.index, data.given))
    chosen: Any = slice(None)
    if data.n > SPREAD_ROWS:
        chosen = np.sort(np.random.default_rng(0).permutation(data.n)[:SPREAD_ROWS])
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
    return with_spread(fit, np.asarray(scores, dtype=np.float64), folds, weight[chosen], codes)


def with_spread(
    fit: CrossFit, scores: Array, folds: Array, weight: Array, codes: list[tuple[Array, Flags]]
) -> CrossFit:
    """Add ``E[c c' f f']`` of every block, measured on rows.

    Parameters
    ----------
    scores : out-of-fold values of the basis, (n, m).
    folds, weight : of the rows, (n,).
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
            moments = (pairs * (w / w.sum())[:, None]).T @ pairs
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
    confidence: float = 0.95,
) -> NewRowsCertificate:
    """Estimate the dependence on new rows of the functions with coefficients C on the basis.

    ``path_cov`` and ``block_cov`` are covariances of the averaged functions on the training rows, over all
    rows and in the cell of every block.
    """
    n_constrained = max(sum(block.codes.report.constrained for block in fit.blocks), 1)
    level = 1.0 - (1.0 - confidence) / n_constrained
    averaged, out_of_fold = (float(np.trace(C.T @ cov @ C)) for cov in (path_cov, fit.cov))
    # Functions of the folds vary more than their average; so does the estimate.
    kappa = out_of_fold / averaged if averaged > 0.0 else 1.0
    inflation = float(np.sqrt(1.0 + fit.n_folds * max(kappa - 1.0, 0.0)))
    blocks = []
    for block in fit.blocks:
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
