"""Cross-fitted removal: zero dependence on S is expected on new rows (METHOD 12).

A model without covariance with S on its training rows keeps a bias on new rows, because both of its
regressions, of y and of the codes of S, explain their own rows too well. Here both are fitted without
fold k and compared with the codes on fold k. All of it is computed from the moments of the folds.

Notation: g_k and H_k are the ridge regressions of y and of the codes, fitted without fold k; A and b
are their out-of-fold predictions; ``u = b lambda`` is the part of A that S explains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fairspan.exceptions import DataWarning, warn_user
from fairspan.method.certificates import Direction
from fairspan.method.fold_codes import CodeSums, FoldCodes, Outputs, make_codes
from fairspan.method.limits import keep_limits
from fairspan.method.linalg import Array, Tridiagonal, orthonormal_columns, psd_eigh
from fairspan.method.moments import Moments, Pooled, kish
from fairspan.method.pilot import Pilot
from fairspan.method.problem import FitConfig
from fairspan.method.removal import BlockReport
from fairspan.method.sdr import ridge_factor, ridge_grid

__all__ = ["CrossFit", "NewRowsBlock", "cross_fit"]

# Rows that every fold needs.
MIN_FOLD_ROWS = 10
# Eigenvalues below this share of the largest are regarded as 0.
_ROUNDING = 1e-12
# Strength from which a direction of q codes is removed whole: 2 sqrt(q) + _RAMP.
_RAMP = 2.0
# Directions that separate limits may use.
MOST_EXTRA = 32


@dataclass(frozen=True, kw_only=True)
class NewRowsBlock:
    """Out-of-fold moments of one attribute in one cell."""

    index: int  # of the block among all reports
    codes: FoldCodes
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
    sums, target = CodeSums(by_cell, pilot), Outputs(pilot)
    every = make_codes(reports, pilot, sums, config.variant.min_rows)
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
    sums: CodeSums,
    blocks: list[FoldCodes],
    target: Outputs,
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
    blocks: list[FoldCodes],
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
    """Solve ``M x = wanted``; with several blocks, without combinations that the rows cannot distinguish."""
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


def _name(codes: FoldCodes, combination: Array) -> str:
    """Groups that a combination of codes separates, e.g. "black against the others"."""
    if codes.column is not None:
        return codes.report.attribute
    values = codes.whitening @ combination
    if len(values) == 2:
        return f"{codes.names[0]} against {codes.names[1]}"
    top, bottom = int(np.argmax(values)), int(np.argmin(values))
    return f"{codes.names[top]} against {codes.names[bottom]}"


def _reason(codes: FoldCodes, strength: float, weight: float, failed: bool) -> str:
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
