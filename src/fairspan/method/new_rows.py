"""Cross-fitted removal: zero dependence on S is expected on new rows (METHOD 12).

A model without covariance with S on its training rows keeps a bias on new rows, because both of its
regressions, of y and of the codes of S, explain their own rows too well. Here both are fitted without
fold k and compared with the codes on fold k. All of it is computed from the moments of the folds.

Notation: g_k and H_k are the ridge regressions of y and of the codes, fitted without fold k; A and b
are their out-of-fold predictions; ``u = b lambda`` is the part of A that S explains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.linalg

from fairspan.exceptions import DataWarning, warn_user
from fairspan.method.attribute_parts import AttributeParts, parts_of_codes
from fairspan.method.certificates import Direction
from fairspan.method.directions import ROUNDING, find_removal, noise_size
from fairspan.method.fold_codes import CodeSums, FoldCodes, Outputs, make_codes
from fairspan.method.fold_systems import FoldSystems
from fairspan.method.laplace import RowCurvature
from fairspan.method.limits import keep_limits
from fairspan.method.linalg import Array, psd_eigh
from fairspan.method.moments import Moments, Pooled, kish
from fairspan.method.pilot import Pilot
from fairspan.method.problem import FitConfig
from fairspan.method.removal import BlockReport
from fairspan.method.sdr import ridge_factor, ridge_grid

__all__ = [
    "CrossFit",
    "FoldMoments",
    "MeasuredCodes",
    "NewRowsBlock",
    "cross_fit",
    "damped",
    "fold_regressions",
    "remove_out_of_fold",
]

# Rows that every fold needs.
MIN_FOLD_ROWS = 10
# Spread of a model on the training rows that is tolerated, in standard deviations of y.
_MOST_SPREAD = 2.0
# Directions that separate limits may use.
MOST_EXTRA = 32


@dataclass(frozen=True, kw_only=True)
class NewRowsBlock:
    """Out-of-fold moments of one attribute in one cell."""

    index: int  # of the block among all reports
    codes: FoldCodes
    cov: Array  # covariance of the codes with the basis, (r, m), within the cell
    removed: Array  # orthonormal combinations of the codes removed in part or whole, (r, a)
    n_effective: float  # Kish size of the rows with a code
    eta: float
    directions: tuple[Direction, ...]
    # E[c c' f f'] over the rows with a code, (r, r, m, m); None: not known, so take c and f as
    # independent.
    spread: Array | None = None
    # Covariance of the noise that was added to each row of ``cov``, (m, m); None: none was.
    noise: Array | None = None


@dataclass(frozen=True, kw_only=True)
class MeasuredCodes:
    """Covariances of the codes that were measured elsewhere, one entry per block."""

    cross: list[Array]  # with the functions of y and of the codes, over all rows, (r, L + q)
    code_cov: list[Array]  # (r, r)
    noise: list[Array]  # covariance of the noise in each row of ``cross``, (L + q, L + q)
    n_effective: float  # number of rows whose sampling alone would be as uncertain


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
    # Predictions of the constrained codes, (K, D, q), for decisions; None in files.
    code_functions: Array | None = None
    # Functions of the basis after A as combinations of the code functions, (q, m - L); None: they are not.
    code_mix: Array | None = None
    # Mean over out-of-fold rows of (psi - mu)'(Sig + eta_y I)^-1 (psi - mu) / T, of the other folds;
    # only for Gaussian processes.
    leverage: float | None = None
    # For Gaussian processes with rows in memory: the 90 % quantile of out-of-fold errors over that of normal
    # errors with the same mean square, at equally spaced shares from 0 to 1. None: normal errors.
    tails: Array | None = None
    # Covariance of the averaged functions on new rows, over all rows and in the cell of every block;
    # None: that of the training rows.
    averaged_cov: tuple[Array, tuple[Array, ...]] | None = None
    # What belongs to each attribute; None in files of earlier versions.
    parts: AttributeParts | None = None
    spread_by_fold: ClassVar[bool] = False  # one model has the same coefficients in all folds

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

    def tail(self, share: float) -> float:
        """Quantile of the errors over that of normal errors of this mean square; heavy tails: below 1."""
        if self.tails is None:
            return 1.0
        return float(np.interp(share, np.linspace(0.0, 1.0, len(self.tails)), self.tails))

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
        # A and u have the units of y, the directions of the codes have none.
        sd = np.sqrt(np.maximum(np.diag(self.cov), 0.0))
        unit = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0.0)
        values, vectors = psd_eigh((self.cov + self.cov.T) / 2.0 * unit * unit[:, None])
        keep = values > ROUNDING * max(float(values[0]), 1e-300)
        # Functions of out-of-fold variance 1.
        Z = unit[:, None] * vectors[:, keep] / np.sqrt(values[keep])
        start = np.sqrt(values[keep]) * (vectors[:, keep].T @ (sd * self.first[:, 0]))
        start = start / (float(np.linalg.norm(start)) or 1.0)  # the length is that of y
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
class FoldMoments:
    """Moments of the rows of one fold, and the means that its predictions are taken about."""

    test: Pooled
    train_mean: Array  # of psi, (D,)
    shift: Array  # means of the contrasts of y in the fold, about those of the others, (L,)
    leverage: float | None  # mean squared length of its rows in the metric of the others, over T
    test_codes: list[tuple[Array, Array]]  # sums of each block in the fold
    target: Array  # Cov(psi, y) in the fold, (D, L)


@dataclass(frozen=True, kw_only=True)
class _Fold(FoldMoments):
    """One fold, and regressions fitted on the others."""

    functions: Array  # g, (D, L)
    regressions: list[Array]  # H of each block, (etas, D, r)
    train_shares: Array  # means of the outputs of y in the other folds
    train_codes: list[
        Array
    ]  # covariance of psi with the codes of each block, in the other folds, (D, r)


def cross_fit(
    by_cell: Moments,
    moments: Moments,
    pilot: Pilot,
    config: FitConfig,
    reports: list[BlockReport],
    eta_y: float,
    systems: FoldSystems,
    curvature: RowCurvature | None = None,
) -> CrossFit:
    """Fit the removal for new rows from the moments of the folds.

    Parameters
    ----------
    by_cell : moments per cell and fold, in the coordinates of the pass.
    moments : moments per fold, in the coordinates of psi.
    reports : of the blocks of all cells and attributes.
    eta_y : ridge of the regression of y.
    systems : with the covariances without each fold.
    curvature : metric of a likelihood, in which the codes are regressed on psi; None: least squares.
    """
    sums, target = CodeSums(by_cell, pilot), Outputs(pilot)
    every = make_codes(reports, pilot, sums, config.variant.min_rows)
    blocks = [codes for codes in every if codes is not None]
    total = moments.pool()
    grid = (
        ridge_grid(float(np.trace(total.cov)))
        if isinstance(config.eta, str)
        else np.array([float(config.eta)])
    )
    constrained = [i for i, codes in enumerate(blocks) if codes.report.constrained]
    leverages = config.ridge_by_evidence
    folds = list(fold_regressions(moments, sums, blocks, target, eta_y, grid, systems, leverages))
    # The ridge of least out-of-fold squared error of the codes, for each block.
    best = [_best_ridge(folds, i, codes.information) for i, codes in enumerate(blocks)]
    H = [np.stack([fold.regressions[i][best[i]] for fold in folds]) for i in range(len(blocks))]
    g = np.stack([fold.functions for fold in folds])  # (K, D, L)
    both = np.concatenate([g, *(H[i] for i in constrained)], axis=2)  # (K, D, L + q)
    etas = [float(grid[i]) for i in best]
    codes = None
    if curvature is not None:
        codes, L = both[:, :, g.shape[2] :], g.shape[2]
        bent = _in_the_metric(folds, constrained, etas, target.contrasts, curvature)
        both = np.concatenate([both[:, :, :L], bent], axis=2)
    return remove_out_of_fold(
        both, folds, every, etas, sums, target, total, pilot, config, code_functions=codes
    )


def _in_the_metric(
    folds: Sequence[_Fold],
    constrained: list[int],
    etas: list[float],
    contrasts: Array,
    curvature: RowCurvature,
) -> Array:
    """Functions ``(Sig_v + eta I)^-1 N`` without each fold, (K, D, q), at the ridges of least squares.

    They take the place of the regressions of the codes. Their covariances with the codes are compared
    out of fold like those, so the dependence that is expected is the same, whatever the metric.
    """
    covs = curvature.without_folds(
        np.stack([fold.train_mean for fold in folds]),
        np.stack([fold.functions @ contrasts.T for fold in folds]),
        np.stack([fold.train_shares for fold in folds]),
    )
    out = []
    for cov, fold in zip(covs, folds, strict=True):
        parts = [
            scipy.linalg.cho_solve((ridge_factor(cov, etas[i]), True), fold.train_codes[i])
            for i in constrained
        ]
        out.append(np.concatenate(parts, axis=1))
    return np.stack(out)


def remove_out_of_fold(
    functions: Array,
    folds: Sequence[FoldMoments],
    every: list[FoldCodes | None],
    etas: list[float],
    sums: CodeSums,
    target: Outputs,
    total: Pooled,
    pilot: Pilot,
    config: FitConfig,
    *,
    code_functions: Array | None = None,
    measured: MeasuredCodes | None = None,
) -> CrossFit:
    """Remove the dependence of out-of-fold predictions on the codes, whatever learner made them.

    Parameters
    ----------
    functions : (K, D, L + q), predictions of the contrasts of y and of the constrained codes, as functions
        of psi; those of fold k were fitted without its rows.
    folds : moments of psi in every fold.
    every : codes of every block, None for a block without any.
    etas : ridge of the regression of each block with codes.
    sums, target, total : moments of the codes, of y, and of all rows.
    code_functions : (K, D, q), predictions of the constrained codes for decisions; those of ``functions``
        if not given.
    measured : covariances of the codes, where the folds do not have them.
    """
    blocks = [codes for codes in every if codes is not None]
    constrained = [i for i, codes in enumerate(blocks) if codes.report.constrained]
    L, leverages = target.contrasts.shape[1], folds[0].leverage is not None
    share = np.array([fold.test.weight for fold in folds]) / total.weight
    both = functions * _reaches_new_rows(functions, folds, share, total.cov)
    for_decisions = both[:, :, L:]
    if code_functions is not None:
        reaches = _reaches_new_rows(code_functions, folds, share, total.cov)
        for_decisions = code_functions * reaches
    # Out-of-fold moments of [A, b], of these with y, and of the codes with them.
    products = [both[k].T @ fold.test.cov @ both[k] for k, fold in enumerate(folds)]
    cov = np.einsum("k,kij->ij", share, products)
    cov_target = np.einsum(
        "k,kij->ij", share, [b.T @ f.target for b, f in zip(both, folds, strict=True)]
    )
    cross, code_cov = ([], []) if measured is None else (measured.cross, measured.code_cov)
    for i in range(len(blocks) if measured is None else 0):
        products = [fold.test_codes[i][0].T @ both[k] for k, fold in enumerate(folds)]
        cross.append(np.sum(products, axis=0) / total.weight)
        code_cov.append(np.sum([fold.test_codes[i][1] for fold in folds], axis=0) / total.weight)
    sizes, with_code = [], []
    for codes in blocks:
        weight, weight2 = codes.weight(sums.pool(codes.cell))
        n_effective = kish(weight, weight2) * pilot.clusters_per_row(codes.report.attribute)
        with_code.append((n_effective, weight / total.weight))
        sizes.append(noise_size(*with_code[-1]) if measured is None else measured.n_effective)
    lam, directions, removed, active = find_removal(
        [blocks[i] for i in constrained],
        [cross[i] for i in constrained],
        [code_cov[i] for i in constrained],
        cov,
        L,
        [sizes[i] for i in constrained],
        config.n_sensitive_directions,
    )
    # From [A, b] to [A, u], and for separate limits to the single directions.
    extra = active if L == 1 and 2 <= active.shape[1] <= MOST_EXTRA else active[:, :0]
    mix = scipy.linalg.block_diag(np.eye(L), np.concatenate([lam, extra], axis=1))
    path_cov, path_target = mix.T @ cov @ mix, mix.T @ cov_target
    fold_bases = both @ mix
    gaps = np.stack([fold.test.mean - fold.train_mean for fold in folds])
    target_cov = sum(s * target.cov(fold.test) for s, fold in zip(share, folds, strict=True))
    basis = np.einsum("k,kdm->dm", share, fold_bases)
    first, last = _ends(path_cov, path_target, L, warns=config.equalize == "scores")
    unit, on_train = float(np.sqrt(np.trace(np.asarray(target_cov)))), basis.T @ total.cov @ basis
    first, last = (damped(end, on_train, path_cov, unit) for end in (first, last))
    by_block = dict(zip(constrained, directions, strict=True))
    reported = []
    numbers = [i for i, codes in enumerate(every) if codes is not None]
    for i, codes in enumerate(blocks):
        n_effective, code_share = with_code[i]
        reported.append(
            NewRowsBlock(
                index=numbers[i],
                codes=codes,
                cov=cross[i] @ mix / code_share,
                removed=removed.get(id(codes), np.zeros((codes.rank, 0))),
                n_effective=n_effective,
                eta=etas[i],
                directions=tuple(by_block.get(i, ())),
                noise=None if measured is None else mix.T @ measured.noise[i] @ mix / code_share**2,
            )
        )
    return CrossFit(
        contrasts=target.contrasts,
        basis=basis,
        fold_bases=fold_bases,
        fold_means=np.stack([fold.train_mean for fold in folds]),
        share=share,
        cov=path_cov,
        cov_target=path_target,
        target_cov=np.asarray(target_cov),
        shift=np.einsum("kd,kdm->km", gaps, fold_bases),
        target_shift=np.stack([fold.shift for fold in folds]),
        first=first,
        last=last,
        blocks=tuple(reported),
        n_folds=len(folds),
        code_functions=for_decisions,
        code_mix=mix[L:, L:] if code_functions is None else None,
        leverage=float(share @ [fold.leverage or 0.0 for fold in folds]) if leverages else None,
        parts=parts_of_codes(
            np.einsum("k,kdq->dq", share, both[:, :, L:]),
            mix[L:, L:],
            [blocks[i].report.attribute for i in constrained],
            [blocks[i].rank for i in constrained],
        ),
    )


def _reaches_new_rows(
    functions: Array, folds: Sequence[FoldMoments], share: Array, cov: Array
) -> Array:
    """Mark the functions of the folds whose values out of fold are more than rounding, (m,).

    With a very narrow kernel every function is 0 but at the rows it was fitted on. ``cov`` is the
    covariance of psi over all rows.
    """
    on_test, on_train = np.zeros(functions.shape[2]), np.zeros(functions.shape[2])
    for s, f, fold in zip(share, functions, folds, strict=True):
        on_test += s * np.einsum("dm,dm->m", f, fold.test.cov @ f)
        on_train += s * np.einsum("dm,dm->m", f, cov @ f)
    return np.asarray(on_test > ROUNDING * on_train)


def damped(C: Array, on_train: Array, out_of_fold: Array, unit: float) -> Array:
    """Shrink functions that vary much more on the training rows than y does and than they do out of fold.

    The slope of y on the out-of-fold values of a narrow kernel can be as large as those values are
    small, and then predicts absurd values near the training rows. ``on_train`` and ``out_of_fold`` are
    the covariances of the basis, ``unit`` is the standard deviation of y.
    """
    sd, sd_out = (
        float(np.sqrt(max(np.trace(C.T @ cov @ C), 0.0))) for cov in (on_train, out_of_fold)
    )
    most = _MOST_SPREAD * max(unit, sd_out)
    return C * (most / sd) if sd > most else C


def _leverage(test: Pooled, train: Pooled, eta_y: float) -> float:
    """Mean squared length of rows of a fold in the metric of the others, over the weight of these."""
    off = test.mean - train.mean
    second = test.cov + np.outer(off, off)
    solved = scipy.linalg.cho_solve((ridge_factor(train.cov, eta_y), True), second)
    return float(np.trace(solved)) / train.weight


def fold_regressions(
    moments: Moments,
    sums: CodeSums,
    blocks: list[FoldCodes],
    target: Outputs,
    eta_y: float,
    grid: Array,
    systems: FoldSystems,
    leverages: bool,
) -> Iterator[_Fold]:
    """Regressions of y and of the codes for every fold; those of the codes for all ridges of the grid."""
    for k in range(moments.n_folds):
        mask = np.arange(moments.n_folds) == k
        test, train = moments.pool(folds=mask), moments.pool(folds=~mask)
        on_train = [codes.sums(sums.pool(codes.cell, k, others=True))[0] for codes in blocks]
        right = [target.cross(train), *(products / train.weight for products in on_train)]
        tri = systems.without(k, train.cov)
        rotated = tri.rotate(np.concatenate(right, axis=1))
        ends = np.cumsum([part.shape[1] for part in right])
        g = tri.rotate_back(tri.solve_rotated(rotated[:, : ends[0]], eta_y))
        solved = tri.solve_all(rotated[:, ends[0] :], grid)
        H = tri.rotate_back(solved).reshape(len(rotated), len(grid), -1)
        yield _Fold(
            test=replace(test, scatter=moments.scatter[k]),  # shared with the moments
            train_mean=train.mean,
            shift=target.mean(test) - target.mean(train),
            leverage=_leverage(test, train, eta_y) if leverages else None,
            test_codes=[codes.sums(sums.pool(codes.cell, k)) for codes in blocks],
            target=target.cross(test),
            functions=g,
            train_shares=target.shares(train),
            train_codes=right[1:],
            regressions=[
                np.ascontiguousarray(np.moveaxis(part, 1, 0))
                for part in np.split(H, ends[1:-1] - ends[0], axis=2)
            ],
        )


def _best_ridge(folds: list[_Fold], block: int, of_codes: Array | None) -> int:
    """Index of the ridge with the least out-of-fold squared error of the codes of a block.

    ``of_codes`` are reciprocal variances of the codes, 1 if not given.
    """
    errors = 0.0
    for fold in folds:
        H = fold.regressions[block]  # (etas, D, r)
        cross, _ = fold.test_codes[block]
        flat = np.moveaxis(H, 0, 1).reshape(H.shape[1], -1)
        square = np.einsum("ij,ij->j", flat, fold.test.scatter @ flat).reshape(len(H), -1)
        by_code = square - 2.0 * np.einsum("edr,dr->er", H, cross)
        # In units of the variance of each code.
        errors = errors + (by_code if of_codes is None else by_code * of_codes).sum(axis=1)
    return int(np.argmin(errors))


def _ends(path_cov: Array, path_target: Array, L: int, *, warns: bool) -> tuple[Array, Array]:
    """Coefficients on the basis of both ends of the dial, (m, L) each.

    The first end is the least-squares regression of y on A and u; the last is A - u times the slope of y
    on it, if that is positive.
    """
    cov, cov_target = path_cov[: 2 * L, : 2 * L], path_target[: 2 * L]
    values, vectors = psd_eigh((cov + cov.T) / 2.0)
    keep = values > ROUNDING * max(float(values[0]), 1e-300)
    first = vectors[:, keep] @ ((vectors[:, keep].T @ cov_target) / values[keep, None])
    difference = np.concatenate([np.eye(L), -np.eye(L)])
    variance = float(np.trace(difference.T @ cov @ difference))
    along = float(np.trace(difference.T @ cov_target))
    rounding = ROUNDING * float(np.abs(difference * cov_target).sum())
    slope = along / variance if variance > 0.0 and along > rounding else 0.0
    if slope == 0.0 and warns:
        warn_user(
            "Nothing that predicts y is left at fairness 1: the fairest model predicts the mean of y.",
            DataWarning,
        )
    rest = ((0, len(path_cov) - 2 * L), (0, 0))
    return np.pad(first, rest), np.pad(slope * difference, rest)
