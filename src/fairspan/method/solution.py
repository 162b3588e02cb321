"""Solve for everything that does not depend on the dial value (METHOD 5 to 8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from fairspan.exceptions import DataWarning, NumericalWarning, warn_user
from fairspan.method.attribute_parts import AttributeParts, parts_of_covectors
from fairspan.method.certificates import MissingSensitive
from fairspan.method.fold_systems import FoldSystems, Spectrum
from fairspan.method.gp import evidence_ridge
from fairspan.method.laplace import RowCurvature
from fairspan.method.linalg import Array, Tridiagonal, orthonormal_columns
from fairspan.method.missingness import describe_missing, missing_rows, warn_of_missing
from fairspan.method.moments import Moments, Pooled
from fairspan.method.new_rows import MOST_EXTRA, CrossFit, cross_fit
from fairspan.method.pilot import Pilot
from fairspan.method.problem import FitConfig
from fairspan.method.refits import Refits, refit_folds
from fairspan.method.removal import PAPER_ETA, BlockReport, build_blocks
from fairspan.method.sdr import (
    canonical_directions,
    kfold_ridge,
    level_block,
    n_directions_by_test,
    paper_directions,
    target_covariance,
    within_cov,
)
from fairspan.method.subspaces import (
    Metric,
    PathMoments,
    PrincipalPair,
    path_moments,
    principal_pair,
    removed_basis,
)

# Relative error above which the ridge functions are not in the span of the basis.
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
    """Compute ``B_k = [P_F g_k, (I - P_F) g_k]``, with g_k fitted without fold k, in the scale of B.

    Return None if the ridge functions g do not span the basis B. On all rows, ``P_F g`` is the fair half
    of B times a matrix, and ``(I - P_F) g`` the other half times another one. The inverses of these
    matrices bring the parts of g_k to the scale of B, so that the coefficients of the head fit them. F is
    fitted on all rows; it uses S, and labels only through the cells of the criterion. If ``metric`` is
    None, every fold has the correlation metric of its own rows.
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


# Variance lost to rounding that is tolerated, as a share of the ridge.
_LOST_SHARE = 1e-2
# Length below which a vector is regarded as a point of the line.
_ON_THE_LINE = 1e-8


@dataclass(frozen=True, kw_only=True)
class FairGeometry:
    """Matrices in all D coordinates that ``subspace="fair"`` needs at every dial value."""

    removed: Array  # N, (D, q), RKHS-orthonormal
    inner: Array  # N'R^-1N
    cov: Array
    cross: Array  # Cov(psi, y)
    block_cov: tuple[Array, ...]
    block_delta: tuple[Array, ...]
    factor: Array  # L of R = LL', used by every variance
    outside: Array  # orthonormal basis of L^-1 N


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Everything that does not depend on the dial value."""

    basis: Array  # B = [fair, removed, directions for separate limits] in psi coordinates
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
    held_out: HeldOut | None  # only for heads that are fitted on rows
    uses_likelihood_metric: bool
    outside: Array  # parts of the basis outside F, (q, 2d + extra), in metric coordinates
    new_rows: CrossFit | None = None  # cross-fitted removal, whose functions are then the basis
    factor: Array | None = None  # L of Sig + eta_y I = LL', for Gaussian processes on new rows
    refits: Refits | None = None  # fits without each fold, for removal on the training rows
    no_estimate: str = ""  # why nothing is estimated about new rows
    privacy: str = ""  # what holds about S, if its sums have noise
    missing: tuple[MissingSensitive, ...] = ()  # attributes that some rows do not have
    # What belongs to each attribute, for removal on the training rows in the metric of predictions.
    own_parts: AttributeParts | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from a file; version 0.1.0 called ``uses_likelihood_metric`` ``bent``."""
        vars(self).update({{"bent": "uses_likelihood_metric"}.get(k, k): state[k] for k in state})

    @property
    def angles(self) -> Array:
        """Angles of the predictive directions to the fair ones; on new rows, between the ends of the dial."""
        if self.new_rows is None:
            return self.pair.angles
        return np.full(self.new_rows.n_functions, self.new_rows.angle())

    @property
    def cosines(self) -> Array:
        """Cosines of the angles (the paper's sigma)."""
        return self.pair.cosines if self.new_rows is None else np.cos(self.angles)

    @property
    def parts(self) -> AttributeParts | None:
        """What belongs to each attribute in the functions of the basis; None if it is not known."""
        return self.own_parts if self.new_rows is None else self.new_rows.parts

    @property
    def constrained(self) -> list[int]:
        """Numbers of the blocks that the criterion constrains."""
        return [i for i, report in enumerate(self.reports) if report.constrained]


@dataclass(frozen=True)
class _Target:
    """First and second moments of y with the features."""

    cross: Array  # Cov(psi, y), (D, outputs)
    mean: Array
    variance: Array


def solve(
    moments: Moments,
    pilot: Pilot,
    config: FitConfig,
    curvature: RowCurvature | None = None,
    removal: Callable[..., CrossFit] = cross_fit,
) -> Solution:
    """Solve for removed covectors, predictive directions, principal pair and path moments.

    ``curvature`` computes the metric of a likelihood from the rows, instead of that of least squares.
    ``removal`` takes the place of :func:`cross_fit`, for sums of S with noise.
    """
    # Whitening costs O(D^3) per matrix, so pool first: once per fold and once per cell, instead of
    # once per combination.
    groups = moments
    moments, by_cell = _by_fold_and_cell(groups, pilot)
    total = moments.pool()
    whole = Spectrum(total.cov)
    cov, systems = whole.cov, FoldSystems(whole, total.rows)
    eta_y = _target_ridge(moments, pilot, config, total, systems)
    _warn_lost_functions(pilot, config, total, float(np.trace(cov)), eta_y)
    blocks = build_blocks(by_cell or moments, pilot, config, total, whole)
    covectors = [block.covectors for block in blocks if block.covectors is not None]
    # One factor of Sig + eta_y I serves the metric, the ridge direction and the head.
    ridge = Metric.correlation(cov, eta_y)
    metric = ridge if config.correlation_metric else Metric.rkhs()
    # None: the metric is made of moments, so every fold has its own.
    fold_metric = None if config.correlation_metric else metric
    removed = removed_basis(metric, covectors)
    target, predictive = _solve_target(total, pilot, config, cov, eta_y, ridge)
    pair = principal_pair(removed, metric.functions(predictive))
    # If a direction depends on S alone, the likelihood metric keeps only rounding noise of it, so
    # stay with the metric of the moments.
    likelihood_metric = curvature is not None and bool(pair.has_fair_partner.all())
    on_new_rows = config.removes_on_new_rows and len(pair.angles) > 0
    on_new_rows = on_new_rows and _has_full_folds(moments, pilot, config)
    new_rows, bent = None, curvature if likelihood_metric else None
    if bent is not None and not on_new_rows:
        functions = ridge.solve(target.cross)
        metric = Metric.correlation(bent.whole(total.mean, functions, target.mean), eta_y)
        fold_metric = metric
        removed = removed_basis(metric, covectors)
        pair = principal_pair(removed, metric.functions(predictive))
    if on_new_rows:
        reports = [block.report for block in blocks]
        new_rows = removal(groups, moments, pilot, config, reports, eta_y, systems, bent)
    nothing_left = new_rows is None or not np.any(new_rows.last)
    if removed.shape[1] >= len(cov) and nothing_left:
        warn_user(
            f"The protected attributes take up all {len(cov)} feature directions: nothing is left of "
            f"the fair subspace, and a fair model predicts the mean of y. A larger "
            f"`n_components`, a richer `kernel` or fewer `n_sensitive_directions` leave some.",
            NumericalWarning,
        )
    codes = [block.delta for block in blocks if block.report.constrained]
    u = _basis_coordinates(config, metric, codes, pair)
    basis = metric.back(u)
    own_parts = None
    if new_rows is None and config.correlation_metric and config.subspace == "model":
        d = len(pair.angles)
        own_parts = parts_of_covectors(
            metric,
            u[:, d : 2 * d],
            covectors,
            u[:, 2 * d :],
            codes,
            u[:, :d],
            [block.report.attribute for block in blocks if block.covectors is not None],
        )
    refits, no_estimate = None, ""
    if new_rows is None:
        no_estimate = _why_no_estimate(moments, pilot, config, pair)
    if new_rows is None and not no_estimate:

        def fit_rows(
            pooled: Pooled, metric_cov: Array | None, covectors: list[Array], codes: list[Array]
        ) -> tuple[Metric, PrincipalPair, Array]:
            """The same fit on other rows, at the same ridge."""
            ridge = Metric.correlation(pooled.cov, eta_y)
            metric = ridge if metric_cov is None else Metric.correlation(metric_cov, eta_y)
            cross = _target_moments(pooled, pilot).cross
            wanted = config.n_predictive_directions
            if not isinstance(wanted, str):  # a class may have no rows here
                present = int((pooled.levels[len(pilot.coders)].rows > 0).sum())
                wanted = max(min(int(wanted), present - 1), 1)
            same = replace(config, n_predictive_directions=wanted)
            G = _predictive(pooled, pilot, same, pooled.cov, cross, eta_y, ridge)
            pair = principal_pair(removed_basis(metric, covectors), metric.functions(G))
            return metric, pair, metric.back(_basis_coordinates(config, metric, codes, pair))

        refits = refit_folds(
            groups, moments, pilot, config, blocks, eta_y, basis, metric, fit_rows, bent
        )
    if new_rows is not None:
        basis, u = new_rows.basis, metric.functions(new_rows.basis)
    untested = not config.variant.exact or config.private  # private fits refuse missing S
    missing = () if untested else describe_missing(moments, pilot, eta_y)
    warn_of_missing(missing)
    block_cov = tuple(block.cov for block in blocks)
    block_delta = tuple(block.delta_known for block in blocks)
    first = moments.first_row - total.mean
    path = path_moments(basis, cov, target.cross, first, block_cov, block_delta)
    if new_rows is not None and config.private:
        # The sums that the removal was solved from have the least noise.
        known = {block.index: block.cov.T for block in new_rows.blocks}
        delta = tuple(known.get(i, part) for i, part in enumerate(path.block_delta))
        path = replace(path, block_delta=delta)
    fair = None
    if config.subspace == "fair":
        N = orthonormal_columns(np.concatenate(covectors, axis=1))
        assert ridge.factor is not None
        fair = FairGeometry(
            removed=N,
            inner=N.T @ ridge.solve(N),
            cov=cov,
            cross=target.cross,
            block_cov=block_cov,
            block_delta=block_delta,
            factor=ridge.factor,
            outside=orthonormal_columns(ridge.covectors(N)),
        )
    held_out = None
    if new_rows is not None:
        centres = np.einsum("kdm,kd->km", new_rows.fold_bases, new_rows.fold_means)
        held_out = HeldOut(new_rows.fold_bases, centres)
    elif config.needs_held_out_scores and pilot.target is not None:
        held_out = held_out_bases(
            moments,
            lambda pooled: _target_moments(pooled, pilot).cross,
            covectors,
            eta_y,
            basis[:, : 2 * len(pair.angles)],
            fold_metric,
        )
    return Solution(
        basis=basis,
        mean=total.mean,
        centre=basis.T @ total.mean,
        pair=pair,
        path=path,
        reports=tuple(block.report for block in blocks),
        eta_y=eta_y if config.variant.exact else 0.0,
        target_mean=target.mean,
        target_var=target.variance,
        n_removed=int(removed.shape[1]),
        n_rows=total.rows,
        weight=total.weight,
        sum_log_weight=moments.sum_log_weight,
        fair=fair,
        held_out=held_out,
        uses_likelihood_metric=likelihood_metric,
        outside=removed.T @ u,
        new_rows=new_rows,
        factor=ridge.factor if new_rows is not None and config.ridge_by_evidence else None,
        refits=refits,
        no_estimate=no_estimate,
        privacy=config.privacy,
        missing=missing,
        own_parts=own_parts,
    )


def _by_fold_and_cell(moments: Moments, pilot: Pilot) -> tuple[Moments, Moments | None]:
    """Moments of every fold and, if there are several, of every cell, in final coordinates."""
    by_fold = moments.over_cells()
    by_cell = moments.over_folds() if pilot.cells.n_groups > 1 else None
    if pilot.features.pending is not None:
        by_fold = by_fold.project(pilot.features.pending)
        by_cell = by_cell and by_cell.project(pilot.features.pending)
    return by_fold, by_cell


def cross_fit_kernel(moments: Moments, pilot: Pilot, config: FitConfig) -> CrossFit:
    """Kernel regressions of y and of the codes without each fold, with ridges of least out-of-fold error."""
    by_fold, by_cell = _by_fold_and_cell(moments, pilot)
    total = by_fold.pool()
    whole = Spectrum(total.cov)
    systems = FoldSystems(whole, total.rows)
    eta_y = _target_ridge(by_fold, pilot, config, total, systems)
    blocks = build_blocks(by_cell or by_fold, pilot, config, total, whole)
    reports = [block.report for block in blocks]
    return cross_fit(moments, by_fold, pilot, config, reports, eta_y, systems)


def _why_no_estimate(moments: Moments, pilot: Pilot, config: FitConfig, pair: PrincipalPair) -> str:
    """Why the dependence on new rows of removal on the training rows cannot be estimated; "" if it can."""
    for name, value in {"method": "optimal", "subspace": "model"}.items():
        if getattr(config, name) != value:
            return f"{name}={getattr(config, name)!r} has no out-of-fold form"
    if pilot.target is None or not len(pair.angles):
        return "there is no y, or it is constant"
    if moments.n_folds < 2:
        return "the fit keeps no folds (it does if it chooses alpha by cross-validation)"
    missing = missing_rows(moments, pilot)
    return f"it needs {missing}" if missing else ""


def _has_full_folds(moments: Moments, pilot: Pilot, config: FitConfig) -> bool:
    """Whether every fold has the rows that removal on new rows needs; else raise or warn."""
    missing = missing_rows(moments, pilot)
    if not missing:
        return True
    text = f"Removal on new rows needs {missing}."
    if config.private:
        raise ValueError(f"{text} A fit with epsilon_sensitive has no other form; pass more rows.")
    if config.removal == "new_rows":
        raise ValueError(f"{text} Pass removal='training_rows', or more rows.")
    warn_user(
        f"{text} The dependence on S is removed on the training rows only; new rows may show some. Pass "
        f"removal='training_rows' to do this without a warning.",
        DataWarning,
    )
    return False


def _basis_coordinates(
    config: FitConfig, metric: Metric, codes: list[Array], pair: PrincipalPair
) -> Array:
    """The basis B of the path, in metric coordinates; ``codes`` are those of all constrained blocks."""
    columns = [pair.fair, pair.removed]
    if config.correlation_metric and config.subspace == "model" and len(pair.angles) == 1:
        columns.append(_off_the_line(metric, codes, pair))
    return np.concatenate(columns, axis=1)


def _off_the_line(metric: Metric, codes: list[Array], pair: PrincipalPair) -> Array:
    """Orthonormal directions of ``g - R^-1 N lambda`` (METHOD 6) beyond the line, in metric coordinates.

    All codes of the blocks count, not only the directions that are removed, so that any limit can be
    kept.
    """
    line = np.concatenate([pair.fair, pair.removed], axis=1)
    if sum(delta.shape[1] for delta in codes) < 2:  # with one code the line contains every solution
        return np.zeros((len(line), 0))
    Q = orthonormal_columns(metric.covectors(np.concatenate(codes, axis=1)))
    for _ in range(2):
        Q = Q - line @ (line.T @ Q)
    left, length, _ = scipy.linalg.svd(Q, full_matrices=False)
    extra = left[:, length > _ON_THE_LINE]
    # A model stores one score per row and direction; with very many codes these would dominate it.
    return np.ascontiguousarray(extra if extra.shape[1] <= MOST_EXTRA else extra[:, :0])


def _target_moments(pooled: Pooled, pilot: Pilot) -> _Target:
    return _Target(*target_covariance(pooled, pooled.stats(pilot.target_position())))


def _solve_target(
    total: Pooled, pilot: Pilot, config: FitConfig, cov: Array, eta_y: float, ridge: Metric
) -> tuple[_Target, Array]:
    """Moments of y, and columns that span the predictive subspace G."""
    none = np.zeros((len(cov), 0))
    if pilot.target is None:
        return _Target(none, np.zeros(0), np.zeros(0)), none
    target = _target_moments(total, pilot)
    if not _is_constant(pilot, total):
        return target, _predictive(total, pilot, config, cov, target.cross, eta_y, ridge)
    warn_user(
        f"y is constant ({target.mean[0]:.6g}): there is nothing to predict, and the model gives that "
        f"number for every row.",
        DataWarning,
    )
    return replace(target, cross=np.zeros((len(cov), 1))), none


def _target_ridge(
    moments: Moments,
    pilot: Pilot,
    config: FitConfig,
    total: Pooled,
    systems: FoldSystems,
) -> float:
    if not config.variant.exact or pilot.target is None:
        return PAPER_ETA if isinstance(config.eta, str) else float(config.eta)
    if not isinstance(config.alpha, str):
        return float(config.alpha) / total.weight
    if float(np.trace(total.scatter)) <= 0.0 or _is_constant(pilot, total):
        return 1.0 / total.weight  # if X or y is constant, every ridge gives the mean
    if config.ridge_by_evidence:
        return _evidence_ridge(pilot, total)
    return kfold_ridge(moments, pilot.target_position(), systems)


def _warn_lost_functions(
    pilot: Pilot, config: FitConfig, total: Pooled, trace: float, eta_y: float
) -> None:
    """Warn if the ridge is so small that it would use functions that were cut off as rounding."""
    features = pilot.features
    if not config.variant.exact or pilot.target is None or not features.exact:
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
    """Whether a numeric y varies by no more than rounding."""
    if not pilot.target_is_numeric:
        return False
    target = _target_moments(total, pilot)
    return bool(target.variance[0] <= 1e-28 * target.mean[0] ** 2)


def _evidence_ridge(pilot: Pilot, total: Pooled) -> float:
    target = _target_moments(total, pilot)
    cross, variance = target.cross, target.variance
    if len(variance) == 2:  # two classes mirror each other
        cross, variance = cross[:, 1:], variance[1:]
    best = evidence_ridge(
        total.cov, cross, variance, total.rows, total.weight, deeper=pilot.features.trend_decades
    )
    if best.at_end:
        warn_user(
            f"The evidence chose a ridge at an end of its grid (alpha={best.eta * total.weight:.3g}). "
            f"Pass `alpha` to decide yourself.",
            NumericalWarning,
        )
    return best.eta


def _predictive(
    total: Pooled,
    pilot: Pilot,
    config: FitConfig,
    cov: Array,
    cross: Array,
    eta_y: float,
    ridge: Metric,
) -> Array:
    """Columns spanning G (METHOD 8)."""
    # With subspace="fair" the parameter counts fair components, not predictive directions.
    wanted = "auto" if config.subspace == "fair" else config.n_predictive_directions
    classes = not pilot.target_is_numeric
    if not config.variant.exact:
        stats = total.levels[len(pilot.coders)]
        d = int(wanted) if not isinstance(wanted, str) else len(stats.weight) - 1 if classes else 1
        return paper_directions(cov, within_cov(total, stats), eta_y, d)[1]
    if wanted == "auto" and not classes:
        return ridge.solve(cross)
    stats = total.levels[len(pilot.coders)]
    block = level_block(stats, total.weight, ordered=not classes, min_rows=1)
    if block is None:  # one slice only: y is constant
        return np.zeros((len(cov), 0))
    directions = canonical_directions(cov, block.delta, eta_y, ridge.factor)
    k = block.rank
    if wanted == "test":
        spectrum = Tridiagonal.of(cov).eigenvalues()
        k, _ = n_directions_by_test(
            directions, cov, spectrum, block.n_effective, factor=ridge.factor
        )
        k = max(k, 1)
    elif wanted != "auto":
        if int(wanted) > min(block.rank, len(cov)):
            levels = "classes" if classes else "slices of y"
            raise ValueError(
                f"n_predictive_directions={wanted} is more than exist: {block.rank + 1} {levels} have "
                f"{block.rank} directions. Give at most {block.rank}"
                + (" or 'auto'." if classes else ", raise n_slices, or use 'auto'.")
            )
        k = int(wanted)
    W = directions.functions[:, :k]
    return W if classes else np.concatenate([W, ridge.solve(cross)], axis=1)
