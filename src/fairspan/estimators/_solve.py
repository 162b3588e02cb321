"""From moments to a model: blocks, removed covectors, principal pair, place on the dial."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairspan._linalg import Array, Tridiagonal, orthonormal_columns, psd_eigh
from fairspan.certificates import BlockCertificate, Certificate, supremum
from fairspan.codes import Coder
from fairspan.estimators._pilot import Pilot, refuse_attribute
from fairspan.exceptions import DataWarning, NumericalWarning
from fairspan.heads import PathMoments, correlation_dial, multiple_correlation, ridge_head
from fairspan.moments import Moments, Pooled
from fairspan.sdr import (
    MIN_ROWS,
    CodeBlock,
    canonical_directions,
    column_block,
    gcv_ridge,
    kfold_ridge,
    level_block,
    n_directions_by_test,
    paper_directions,
    ridge_factor,
    target_covariance,
    within_cov,
)
from fairspan.subspaces import (
    Metric,
    PrincipalPair,
    accuracy_gap,
    blend,
    containment_gap,
    dial_angles,
    principal_pair,
    removed_basis,
    warn_lost_directions,
)

PAPER_ETA = 1e-4
FAIR_VARIANCE = 0.99


@dataclass(frozen=True)
class BlockReport:
    """One cell and attribute: what its codes are and what SDR found in them."""

    cell: str
    attribute: str
    coding: str  # "levels", "slices" or "value"
    constrained: bool
    n_rows: int
    rank: int
    n_directions: int = 0
    eta: float = float("nan")
    eigenvalues: Array = field(default_factory=lambda: np.zeros(0))
    p_values: tuple[float, ...] = ()


@dataclass(frozen=True)
class Solution:
    """Everything that does not depend on the dial."""

    basis: Array  # B = [fair, removed] in psi coordinates, (D, 2d)
    mean: Array  # mu
    centre: Array  # B'mu
    pair: PrincipalPair
    path: PathMoments
    reports: tuple[BlockReport, ...]
    eta_y: float  # 0 for the paper's least squares
    target_mean: Array
    n_removed: int
    weight: float


@dataclass(frozen=True)
class Position:
    """One model on the path."""

    fairness: float  # on the angle scale (or the dial's own for "cosine")
    directions: Array  # E in psi coordinates, (D, d')
    offset: Array  # E'mu
    coef: Array  # ridge head on the scores, (d', outputs)
    certificate: Certificate


@dataclass(frozen=True)
class FairSpace:
    """All of F as a model space, METHOD 9's prior covariance ``C_t = I - N (S^-1 + I)^-1 N'``.

    Kept as its root ``C_t^1/2 = I - N half N'``, so that fair features are ``C_t^1/2 psi``.
    """

    removed: Array  # N, (D, q), RKHS-orthonormal
    half: Array  # (q, q)


@dataclass(frozen=True)
class _Block:
    report: BlockReport
    cov: Array
    code: CodeBlock
    covectors: Array | None  # N_cj, None when reported only


def solve(
    moments: Moments, pilot: Pilot, est: Any, eta_y: float | None = None
) -> tuple[Solution, Moments]:
    """Solution for every dial value, and the moments in psi coordinates it came from."""
    if pilot.features.pending is not None:
        moments = moments.project(pilot.features.pending)
    total = moments.pool()
    cov = total.cov
    if eta_y is None:
        eta_y = _target_ridge(moments, pilot, est, total)
    blocks = _blocks(moments, pilot, est, cov)
    covectors = [block.covectors for block in blocks if block.covectors is not None]
    # One factor of Sig + eta_y I serves the metric, the ridge direction and the head.
    ridge = Metric.correlation(cov, eta_y)
    metric = ridge if est.method == "optimal" else Metric.rkhs()
    removed = removed_basis(metric, covectors) if covectors else np.zeros((len(cov), 0))
    if removed.shape[1] >= len(cov):
        warnings.warn(
            f"The protected attributes take up all {len(cov)} feature directions: nothing is left of "
            f"the fair subspace, and a fair model predicts the mean of y. Use more components or a "
            f"richer kernel, or fewer sensitive directions.",
            NumericalWarning,
            stacklevel=4,
        )
    cross, mean = np.zeros((len(cov), 0)), np.zeros(0)
    predictive = cross
    if pilot.target is not None:
        cross, mean, _ = target_covariance(total, _target(total, pilot))
        predictive = _predictive(total, pilot, est, cov, cross, eta_y, ridge)
    pair = principal_pair(removed, metric.functions(predictive))
    basis = np.concatenate([metric.back(pair.fair), metric.back(pair.removed)], axis=1)
    path = _path_moments(basis, moments, total, cov, cross, blocks)
    solution = Solution(
        basis, total.mean, basis.T @ total.mean, pair, path, tuple(b.report for b in blocks),
        0.0 if est.method == "paper" else eta_y, mean, int(removed.shape[1]), total.weight,
    )  # fmt: skip
    return solution, moments


def _target(pooled: Pooled, pilot: Pilot) -> Any:
    kind, index = pilot.target_position()
    return pooled.levels[index] if kind == "levels" else pooled.columns[index]


def _target_ridge(moments: Moments, pilot: Pilot, est: Any, total: Pooled) -> float:
    if est.method == "paper" or pilot.target is None:
        return PAPER_ETA if est.eta == "auto" else float(est.eta)
    if est.alpha != "auto":
        return float(est.alpha) / total.weight
    trace = float(np.trace(total.scatter))
    if trace <= 0.0:
        return 1.0 / total.weight  # all rows alike: any ridge gives the mean
    return kfold_ridge(moments, pilot.target_position())


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
    if est.subspace == "fair" and not isinstance(wanted, str):
        wanted = "auto"  # there the number counts fair components, not predictive directions
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
        if int(wanted) > block.rank:
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


# --------------------------------------------------------------------------- blocks


def _blocks(moments: Moments, pilot: Pilot, est: Any, total_cov: Array) -> list[_Block]:
    out: list[_Block] = []
    skipped: dict[str, list[str]] = {coder.name: [] for coder in pilot.coders}
    for c, cell in enumerate(pilot.cells.names):
        pooled = moments.pool(cell=c)
        if pooled.rows == 0:
            for name in skipped:
                skipped[name].append(cell)
            continue
        cov = total_cov if pilot.cells.rule == "all" else pooled.cov
        spectrum = _LazySpectrum(cov)
        column = 0
        for j, coder in enumerate(pilot.coders):
            made = _attribute_blocks(pooled, cov, spectrum, pilot, est, cell, j, column, total_cov)
            column += isinstance(coder, Coder) and coder.kind == "continuous"
            if not any(block.covectors is not None for block in made):
                skipped[coder.name].append(cell)
            out += made
    _report_skipped(skipped, pilot, est)
    return out


def _report_skipped(skipped: dict[str, list[str]], pilot: Pilot, est: Any) -> None:
    for name, cells in skipped.items():
        if len(cells) == pilot.cells.n_constrained:
            refuse_attribute(name, pilot.cells, 1 if est.method == "paper" else MIN_ROWS)
        if cells:
            warnings.warn(
                f"Attribute {name!r} is not constrained in {len(cells)} of "
                f"{pilot.cells.n_constrained} cells, which hold fewer than two levels of "
                f"{MIN_ROWS} rows: {', '.join(cells[:5])}{', ...' if len(cells) > 5 else ''}.",
                DataWarning,
                stacklevel=6,
            )


class _LazySpectrum:
    """One tridiagonal form per cell, made only if a ridge or a test asks for it."""

    def __init__(self, cov: Array) -> None:
        self._cov = cov
        self._tri: Tridiagonal | None = None
        self._values: Array | None = None

    @property
    def tri(self) -> Tridiagonal:
        if self._tri is None:
            self._tri = Tridiagonal.of(self._cov)
        return self._tri

    @property
    def values(self) -> Array:
        if self._values is None:
            self._values = self.tri.eigenvalues()
        return self._values


def _attribute_blocks(
    pooled: Pooled, cov: Array, spectrum: _LazySpectrum, pilot: Pilot, est: Any, cell: str,
    j: int, column: int, total_cov: Array,
) -> list[_Block]:  # fmt: skip
    coder = pilot.coders[j]
    ordered = coder.kind == "continuous"
    paper = est.method == "paper"
    level = level_block(
        pooled.levels[j], pooled.weight, ordered=ordered, min_rows=1 if paper else MIN_ROWS
    )
    value = column_block(pooled.columns[column], pooled.weight) if ordered else None
    by_value = ordered and est.dependence == "correlation" and not paper
    out: list[_Block] = []
    for coding, code in (("slices" if ordered else "levels", level), ("value", value)):
        if code is None:
            continue
        constrained = (coding == "value") == by_value
        report = BlockReport(cell, coder.name, coding, constrained, code.n_rows, code.rank)
        covectors = None
        if constrained and paper:
            m = (
                code.rank
                if isinstance(est.n_sensitive_directions, str)
                else int(est.n_sensitive_directions)
            )
            eta = PAPER_ETA if est.eta == "auto" else float(est.eta)
            tau, W = paper_directions(cov, within_cov(pooled, pooled.levels[j]), eta, m)
            covectors = total_cov @ W  # Alg. 1: the covariance over ALL rows, also for EO and EOP
            report = replace(report, n_directions=W.shape[1], eta=eta, eigenvalues=tau)
        elif constrained:
            report, covectors = _exact_covectors(report, code, cov, spectrum, est)
            _warn_left_out(code, coder.labels, report)
        out.append(_Block(report, cov, code, covectors))
    return out


def _warn_left_out(code: CodeBlock, labels: tuple[str, ...], report: BlockReport) -> None:
    if code.left_out:
        warnings.warn(
            f"Attribute {report.attribute!r}: {len(code.left_out)} levels have fewer than {MIN_ROWS} "
            f"rows in cell {report.cell!r} and are left out there: "
            f"{', '.join(repr(labels[h]) for h in code.left_out[:5])}.",
            DataWarning,
            stacklevel=7,
        )


def _exact_covectors(
    report: BlockReport, code: CodeBlock, cov: Array, spectrum: _LazySpectrum, est: Any
) -> tuple[BlockReport, Array]:
    """``N_cj = Delta_cj A_{1..m}`` (METHOD 5): with all directions every Cov_c(f, code) is 0."""
    wanted = est.n_sensitive_directions
    keep_all = wanted == "all" or (wanted == "auto" and report.coding == "levels")
    edge = False
    if est.eta == "auto":
        eta, edge = gcv_ridge(spectrum.tri, spectrum.values, code)
    else:
        eta = float(est.eta)
    factor = ridge_factor(cov, eta)
    found = canonical_directions(cov, code.delta, eta, factor)
    p_values: list[float] = []
    m = code.rank
    if wanted == "test" or (wanted == "auto" and not keep_all):
        m, p_values = n_directions_by_test(
            found, cov, spectrum.values, code.n_effective, factor=factor
        )
        m = max(m, 1) if wanted == "auto" else m
    elif not isinstance(wanted, str):
        if int(wanted) > code.rank:
            warnings.warn(
                f"n_sensitive_directions={wanted} is capped at {code.rank} for {report.attribute!r} in "
                f"cell {report.cell!r}: its codes have no more directions.",
                DataWarning,
                stacklevel=7,
            )
        m = min(int(wanted), code.rank)
    if edge and m < code.rank:
        # With all directions the model does not depend on eta, so its end of the grid is no news.
        warnings.warn(
            f"The ridge of {report.attribute!r} in cell {report.cell!r} is at an end of its grid "
            f"(eta={eta:.3g}); the choice of {m} of {code.rank} directions rests on it. Pass `eta`, or "
            f"n_sensitive_directions='all'.",
            NumericalWarning,
            stacklevel=7,
        )
    report = replace(
        report, n_directions=m, eta=eta, eigenvalues=found.lam, p_values=tuple(p_values)
    )
    return report, code.delta @ found.codes[:, :m]


def _path_moments(
    basis: Array, moments: Moments, total: Pooled, cov: Array, cross: Array, blocks: list[_Block]
) -> PathMoments:
    return PathMoments(
        basis.T @ basis,
        basis.T @ cov @ basis,
        basis.T @ cross,
        basis.T @ (moments.first_row - total.mean),
        tuple(basis.T @ block.cov @ basis for block in blocks),
        tuple(basis.T @ block.code.delta for block in blocks),
    )


# --------------------------------------------------------------------------- the dial


def locate(solution: Solution, est: Any, criterion: str) -> Position:
    """The model at the estimator's dial value."""
    fairness, dial = float(est.fairness), est.dial
    constrained = [i for i, r in enumerate(solution.reports) if r.constrained]
    if dial == "correlation":
        fairness, reached = correlation_dial(
            solution.path, solution.pair, solution.eta_y, constrained, 1.0 - fairness
        )
        if reached > 1.0 - est.fairness + 1e-12:
            warnings.warn(
                f"A correlation of {1.0 - est.fairness:.3g} cannot be reached: the fairest model of "
                f"the path has {reached:.3g}, because fewer sensitive directions are removed than the "
                f"codes have. Using it; n_sensitive_directions='all' reaches 0.",
                NumericalWarning,
                stacklevel=4,
            )
        dial = "angle"
    angles = dial_angles(solution.pair, fairness, dial)
    warn_lost_directions(solution.pair, angles)
    C = blend(solution.pair, angles)
    C = C * _signs(solution.path, C, paper=est.method == "paper")
    coef = ridge_head(solution.path, C, solution.eta_y)
    certificate = Certificate(
        criterion, float(est.fairness), est.dial, certify(solution.path, solution.reports, C, coef),
        solution.pair.cosines, angles, containment_gap(angles), accuracy_gap(solution.pair, angles),
    )  # fmt: skip
    return Position(fairness, solution.basis @ C, C.T @ solution.centre, coef, certificate)


def certify(
    path: PathMoments, reports: tuple[BlockReport, ...], C: Array, coef: Array
) -> tuple[BlockCertificate, ...]:
    """Supremum over the model space and value for the fitted score, block by block."""
    out = []
    for report, cov, delta in zip(reports, path.block_cov, path.block_delta, strict=True):
        sup, _ = supremum(C.T @ cov @ C, C.T @ delta)
        score = multiple_correlation(cov, delta, C @ coef)
        out.append(
            BlockCertificate(
                report.cell,
                report.attribute,
                report.coding,
                report.constrained,
                sup,
                score,
                report.n_rows,
            )
        )
    return tuple(out)


def _signs(path: PathMoments, C: Array, *, paper: bool) -> Array:
    """Paper: the first training row scores positive. Default: positive covariance with y."""
    if paper:
        reference = C.T @ path.first
    else:
        cross = C.T @ path.cov_target
        if cross.shape[1] == 0:
            return np.ones(C.shape[1])
        if cross.shape[1] == 2:
            reference = cross[:, 1]  # two classes mirror each other: the larger label scores higher
        else:
            reference = cross[np.arange(len(cross)), np.argmax(np.abs(cross), axis=1)]
    return np.where(reference < 0.0, -1.0, 1.0)


# --------------------------------------------------------------------------- all of F


def locate_fair(
    solution: Solution, moments: Moments, pilot: Pilot, est: Any, criterion: str
) -> tuple[Position, FairSpace]:
    """``subspace="fair"``: leading principal components of psi under the fair prior (METHOD 9)."""
    total = moments.pool()
    cov = total.cov
    blocks = _blocks(moments, pilot, est, cov)
    covectors = [b.covectors for b in blocks if b.covectors is not None]
    N = orthonormal_columns(np.concatenate(covectors, axis=1))
    t, fairness = _shrinkage(solution, est)
    if t == 0.0:
        shrink: Array = np.zeros((N.shape[1], N.shape[1]))
    else:
        ridge = (1.0 - t) / t * solution.eta_y
        inverse = (
            ridge * (N.T @ Metric.correlation(cov, solution.eta_y).solve(N)) if ridge > 0.0 else 0.0
        )
        shrink = np.asarray(np.linalg.inv(np.eye(N.shape[1]) + inverse), dtype=np.float64)
    # C_t^1/2 = I - N (I - (I - shrink)^1/2) N'
    values, vectors = psd_eigh((shrink + shrink.T) / 2.0)
    half = vectors * (1.0 - np.sqrt(np.clip(1.0 - values, 0.0, 1.0))) @ vectors.T

    def root(columns: Array) -> Array:
        return columns - N @ (half @ (N.T @ columns))

    variances, components = psd_eigh(_symmetric(root(root(cov).T)))
    variances = np.maximum(variances, 0.0)
    # Short of full fairness the removed directions are shrunk, not gone.
    k = _n_components(variances, est, len(cov) - (N.shape[1] if t == 1.0 else 0))
    E = root(components[:, :k])
    E = E * np.where(E[np.argmax(np.abs(E), axis=0), np.arange(k)] < 0.0, -1.0, 1.0)
    cross = (
        target_covariance(total, _target(total, pilot))[0]
        if pilot.target
        else np.zeros((len(cov), 0))
    )
    path = replace(_path_moments(E, moments, total, cov, cross, blocks), gram=np.eye(k))
    reports = tuple(b.report for b in blocks)
    coef = ridge_head(path, np.eye(k), solution.eta_y)
    gap = 0.0 if t == 1.0 else solution.pair.angles * (1.0 - fairness)
    angles = np.atleast_1d(np.asarray(gap, dtype=np.float64))
    certificate = Certificate(
        criterion, float(est.fairness), est.dial, certify(path, reports, np.eye(k), coef),
        solution.pair.cosines, angles, containment_gap(angles),
        accuracy_gap(solution.pair, angles) if len(solution.pair.angles) else 0.0,
    )  # fmt: skip
    return Position(fairness, E, E.T @ total.mean, coef, certificate), FairSpace(N, half)


def _shrinkage(solution: Solution, est: Any) -> tuple[float, float]:
    """T of the prior, and the fairness on the angle scale it stands for."""
    fairness = float(est.fairness)
    if est.dial == "correlation" and len(solution.pair.angles):
        constrained = [i for i, r in enumerate(solution.reports) if r.constrained]
        fairness, _ = correlation_dial(
            solution.path, solution.pair, solution.eta_y, constrained, 1.0 - fairness
        )
    elif est.dial == "cosine" and len(solution.pair.angles):
        theta = float(solution.pair.angles.max())
        fairness = 1.0 - min(theta, float(np.arccos(fairness))) / theta if theta > 0.0 else 1.0
    if fairness >= 1.0:
        return 1.0, 1.0
    if len(solution.pair.angles) == 0:
        msg = (
            f"fairness={est.fairness} with subspace='fair' needs y: the dial is read on the angle "
            f"between the best predictor of y and the fair subspace. Pass y, or fairness=1."
        )
        raise ValueError(msg)
    # One prior for all outputs, so the widest angle decides.
    theta = float(solution.pair.angles.max())
    if theta < 1e-8:
        return fairness, fairness
    if np.cos(theta) <= 1e-7:
        return (1.0 if fairness > 0.0 else 0.0), fairness
    return 1.0 - float(np.tan((1.0 - fairness) * theta) / np.tan(theta)), fairness


def _n_components(variances: Array, est: Any, limit: int) -> int:
    limit = min(limit, int((variances > 1e-12 * variances[0]).sum()))
    wanted = est.n_predictive_directions
    if isinstance(wanted, str):
        if limit == 0:  # nothing is left of F; `solve` has said so
            return 0
        share = np.cumsum(variances) / variances.sum()
        return min(limit, int(np.searchsorted(share, FAIR_VARIANCE)) + 1)
    if int(wanted) > limit:
        msg = (
            f"n_predictive_directions={wanted} is more than the {limit} components the fair subspace "
            f"has. Give at most {limit}, or 'auto'."
        )
        raise ValueError(msg)
    return int(wanted)


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2.0
