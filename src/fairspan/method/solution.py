"""Solve for everything that does not depend on the dial value (METHOD 5 to 8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from fairspan.exceptions import DataWarning, NumericalWarning, warn_user
from fairspan.method.gp import evidence_ridge
from fairspan.method.heads import PathMoments
from fairspan.method.laplace import RowCurvature
from fairspan.method.linalg import Array, Tridiagonal, orthonormal_columns
from fairspan.method.moments import Moments, Pooled
from fairspan.method.pilot import Pilot
from fairspan.method.removal import PAPER_ETA, Block, BlockReport, build_blocks
from fairspan.method.sdr import (
    canonical_directions,
    kfold_ridge,
    level_block,
    n_directions_by_test,
    paper_directions,
    target_covariance,
    within_cov,
)
from fairspan.method.subspaces import Metric, PrincipalPair, principal_pair, removed_basis

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


# Directions beyond the line that separate limits may have.
MOST_EXTRA = 32
# Variance lost to rounding that may count, as a share of the ridge.
_LOST_SHARE = 1e-2
# A unit vector nearer than this to the line is on it.
_ON_THE_LINE = 1e-8


@dataclass(frozen=True)
class FairGeometry:
    """What ``subspace="fair"`` needs at every dial value: all D coordinates, not only the path's."""

    removed: Array  # N, (D, q), RKHS-orthonormal
    inner: Array  # N'R^-1N
    cov: Array
    cross: Array  # Cov(psi, y)
    block_cov: tuple[Array, ...]
    block_delta: tuple[Array, ...]
    factor: Array  # L of R = LL', which every variance needs
    outside: Array  # orthonormal basis of L^-1 N


@dataclass(frozen=True)
class Solution:
    """Everything that does not depend on the dial."""

    basis: Array  # B = [fair, removed, what separate limits need] in psi coordinates
    mean: Array  # mu
    centre: Array  # B'mu
    pair: PrincipalPair
    path: PathMoments
    reports: tuple[BlockReport, ...]
    eta_y: float  # 0 for the paper's least squares
    target_mean: Array
    target_var: Array
    n_removed: int
    n_rows: int
    weight: float
    sum_log_weight: float
    fair: FairGeometry | None  # only for subspace="fair"
    held_out: HeldOut | None  # only where a head looks at rows
    bent: bool  # the geometry is that of a likelihood
    outside: Array  # parts of the basis outside F, (q, 2d + extra), in metric coordinates


def solve(
    moments: Moments, pilot: Pilot, est: Any, curvature: RowCurvature | None = None
) -> Solution:
    """Blocks, removed covectors, predictive directions, principal pair, path moments.

    ``curvature`` looks at rows and gives the geometry of a likelihood instead of least squares'.
    """
    # Whitening is cubic in D per matrix, so groups are brought together first: once per fold, and
    # once per cell, instead of once per both.
    by_cell = moments.over_folds() if pilot.cells.n_groups > 1 else None
    moments = moments.over_cells()
    if pilot.features.pending is not None:
        moments = moments.project(pilot.features.pending)
        by_cell = by_cell and by_cell.project(pilot.features.pending)
    total = moments.pool()
    cov = total.cov
    eta_y = _target_ridge(moments, pilot, est, total)
    _warn_lost_functions(pilot, est, total, float(np.trace(cov)), eta_y)
    blocks = build_blocks(by_cell or moments, pilot, est, total, cov)
    covectors = [block.covectors for block in blocks if block.covectors is not None]
    # One factor of Sig + eta_y I serves the metric, the ridge direction and the head.
    ridge = Metric.correlation(cov, eta_y)
    # All of F as a prior is derived in the correlation geometry (METHOD 9), whatever the method.
    optimal = est.method == "optimal" or (est.method == "rkhs" and est.subspace == "fair")
    metric = ridge if optimal else Metric.rkhs()
    own_metric = None if optimal else metric  # None: made of moments, so a fold has its own
    removed = removed_basis(metric, covectors)
    if removed.shape[1] >= len(cov):
        warn_user(
            f"The protected attributes take up all {len(cov)} feature directions: nothing is left of "
            f"the fair subspace, and a fair model predicts the mean of y. Use more components or a "
            f"richer kernel, or fewer sensitive directions.",
            NumericalWarning,
        )
    cross, mean, variance = np.zeros((len(cov), 0)), np.zeros(0), np.zeros(0)
    predictive = cross
    if pilot.target is not None and _is_constant(pilot, total):
        mean, variance = target_covariance(total, _target(total, pilot))[1:]
        cross = np.zeros((len(cov), 1))
        warn_user(
            f"y is constant ({mean[0]:.6g}): there is nothing to predict, and the model gives that "
            f"number for every row.",
            DataWarning,
        )
    elif pilot.target is not None:
        cross, mean, variance = target_covariance(total, _target(total, pilot))
        predictive = _predictive(total, pilot, est, cov, cross, eta_y, ridge)
    pair = principal_pair(removed, metric.functions(predictive))
    # Of a direction that is a function of S alone another geometry would leave noise.
    bent = curvature is not None and bool(pair.has_fair_partner.all())
    if curvature is not None and bent:
        metric = own_metric = Metric.correlation(
            curvature(total.mean, ridge.solve(cross), mean), eta_y
        )
        removed = removed_basis(metric, covectors)
        pair = principal_pair(removed, metric.functions(predictive))
    columns = [pair.fair, pair.removed]
    if optimal and est.subspace == "model" and len(pair.angles) == 1:
        columns.append(_off_the_line(metric, blocks, pair))
    u = np.concatenate(columns, axis=1)
    basis = metric.back(u)
    block_cov = tuple(block.cov for block in blocks)
    block_delta = tuple(block.delta for block in blocks)
    path = path_moments(basis, cov, cross, moments.first_row - total.mean, block_cov, block_delta)
    fair = None
    if est.subspace == "fair":
        N = orthonormal_columns(np.concatenate(covectors, axis=1))
        assert ridge.factor is not None
        fair = FairGeometry(
            N, N.T @ ridge.solve(N), cov, cross, block_cov, block_delta, ridge.factor,
            orthonormal_columns(ridge.covectors(N)),
        )  # fmt: skip
    held_out = None
    if getattr(est, "_cross_fit", False) and est.method != "paper" and pilot.target is not None:
        held_out = held_out_bases(
            moments, lambda pooled: target_covariance(pooled, _target(pooled, pilot))[0], covectors,
            eta_y, basis[:, : 2 * len(pair.angles)], own_metric,
        )  # fmt: skip
    return Solution(
        basis, total.mean, basis.T @ total.mean, pair, path, tuple(b.report for b in blocks),
        0.0 if est.method == "paper" else eta_y, mean, variance, int(removed.shape[1]),
        total.rows, total.weight, moments.sum_log_weight, fair, held_out, bent, removed.T @ u,
    )  # fmt: skip


def _off_the_line(metric: Metric, blocks: list[Block], pair: PrincipalPair) -> Array:
    """What ``g - R^-1 N lambda`` (METHOD 6) has beyond the line, orthonormal in metric coordinates.

    With all codes of the blocks, not only the directions that are removed: any limit can be kept.
    """
    line = np.concatenate([pair.fair, pair.removed], axis=1)
    codes = [block.delta for block in blocks if block.report.constrained]
    if sum(delta.shape[1] for delta in codes) < 2:  # one code: the line is all there is
        return np.zeros((len(line), 0))
    Q = orthonormal_columns(metric.covectors(np.concatenate(codes, axis=1)))
    for _ in range(2):
        Q = Q - line @ (line.T @ Q)
    left, length, _ = scipy.linalg.svd(Q, full_matrices=False)
    extra = left[:, length > _ON_THE_LINE]
    # Rows keep a score for each: with very many codes that would be most of what a model stores.
    return np.ascontiguousarray(extra if extra.shape[1] <= MOST_EXTRA else extra[:, :0])


def path_moments(
    basis: Array, cov: Array, cross: Array, first: Array, block_cov: tuple[Array, ...],
    block_delta: tuple[Array, ...],
) -> PathMoments:  # fmt: skip
    """Moments of the functions in the columns of ``basis``."""
    return PathMoments(
        gram=basis.T @ basis,
        cov=basis.T @ cov @ basis,
        cov_target=basis.T @ cross,
        first=basis.T @ first,
        block_cov=tuple(basis.T @ one @ basis for one in block_cov),
        block_delta=tuple(basis.T @ one for one in block_delta),
    )


def _target(pooled: Pooled, pilot: Pilot) -> Any:
    kind, index = pilot.target_position()
    return pooled.levels[index] if kind == "levels" else pooled.columns[index]


def _target_ridge(moments: Moments, pilot: Pilot, est: Any, total: Pooled) -> float:
    if est.method == "paper" or pilot.target is None:
        return PAPER_ETA if est.eta == "auto" else float(est.eta)
    if est.alpha != "auto":
        return float(est.alpha) / total.weight
    trace = float(np.trace(total.scatter))
    if trace <= 0.0 or _is_constant(pilot, total):
        return 1.0 / total.weight  # all rows alike, or all y: any ridge gives the mean
    if getattr(est, "_ridge_rule", "kfold") == "evidence":
        return _evidence_ridge(pilot, total)
    return kfold_ridge(moments, pilot.target_position())


def _warn_lost_functions(pilot: Pilot, est: Any, total: Pooled, trace: float, eta_y: float) -> None:
    """Of all rows as landmarks, functions below rounding are lost; a tiny ridge would have used them."""
    features = pilot.features
    if est.method == "paper" or pilot.target is None or not features.exact:
        return
    lost = features.dropped_mass * (trace + float(total.mean @ total.mean))
    if lost > _LOST_SHARE * eta_y:
        warn_user(
            f"The kernel is so wide that rounding hides functions which the ridge (alpha="
            f"{eta_y * total.weight:.3g}) would have used: {features.rank} are left. Raise `gamma` or "
            f"`alpha`, or use gamma='median'.",
            NumericalWarning,
        )


def _is_constant(pilot: Pilot, total: Pooled) -> bool:
    """A numeric y that does not vary beyond rounding."""
    if not pilot.target_is_numeric:
        return False
    _, mean, variance = target_covariance(total, _target(total, pilot))
    return bool(variance[0] <= 1e-28 * mean[0] ** 2)


def _evidence_ridge(pilot: Pilot, total: Pooled) -> float:
    cross, _, variance = target_covariance(total, _target(total, pilot))
    if len(variance) == 2:  # two classes mirror each other
        cross, variance = cross[:, 1:], variance[1:]
    found = evidence_ridge(
        total.cov, cross, variance, total.rows, total.weight, deeper=pilot.features.trend_decades
    )
    if found.at_end:
        warn_user(
            f"The evidence chose a ridge at an end of its grid (alpha={found.eta * total.weight:.3g}). "
            f"Pass `alpha` to decide yourself.",
            NumericalWarning,
        )
    return found.eta


def _predictive(
    total: Pooled,
    pilot: Pilot,
    est: Any,
    cov: Array,
    cross: Array,
    eta_y: float,
    ridge: Metric,
) -> Array:
    """Columns spanning G (METHOD 8)."""
    wanted = est.n_predictive_directions
    if est.subspace == "fair":
        wanted = "auto"  # there it is about fair components, not predictive directions
    classes = not pilot.target_is_numeric
    if est.method == "paper":
        stats = total.levels[len(pilot.coders)]
        block_rank = len(stats.weight) - 1
        d = block_rank if classes else 1
        if not isinstance(wanted, str):
            d = int(wanted)
        _, W = paper_directions(cov, within_cov(total, stats), eta_y, d)
        return W
    if wanted == "auto" and not classes:
        return ridge.solve(cross)
    stats = total.levels[len(pilot.coders)]
    block = level_block(stats, total.weight, ordered=not classes, min_rows=1)
    if block is None:  # one slice only: y is constant
        return np.zeros((len(cov), 0))
    found = canonical_directions(cov, block.delta, eta_y, ridge.factor)
    k = block.rank
    if wanted == "test":
        spectrum = Tridiagonal.of(cov).eigenvalues()
        k, _ = n_directions_by_test(found, cov, spectrum, block.n_effective, factor=ridge.factor)
        k = max(k, 1)
    elif wanted != "auto":
        if int(wanted) > min(block.rank, len(cov)):
            what = "classes" if classes else "slices of y"
            msg = (
                f"n_predictive_directions={wanted} is more than exist: {block.rank + 1} {what} have "
                f"{block.rank} directions. Give at most {block.rank}"
                + (" or 'auto'." if classes else ", raise n_slices, or use 'auto'.")
            )
            raise ValueError(msg)
        k = int(wanted)
    W = found.functions[:, :k]
    return W if classes else np.concatenate([W, ridge.solve(cross)], axis=1)
