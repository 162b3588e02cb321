"""The dial: one model of the path, with its head and its certificate (METHOD 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan._linalg import Array
from fairspan.certificates import BlockCertificate, Certificate, supremum
from fairspan.estimators._blocks import BlockReport
from fairspan.estimators._solve import MOST_EXTRA, Solution
from fairspan.exceptions import NumericalWarning, warn_user
from fairspan.heads import (
    PathMoments,
    correlation_dial,
    multiple_correlation,
    on_basis,
    ridge_head,
)
from fairspan.limits import keep_limits
from fairspan.subspaces import (
    accuracy_gap,
    alive_directions,
    blend,
    containment_gap,
    dial_angles,
    warn_lost_directions,
)


@dataclass(frozen=True)
class Position:
    """One model on the path."""

    fairness: float  # on the angle scale
    directions: Array  # E in psi coordinates, (D, d')
    offset: Array  # E'mu
    coef: Array  # head on the scores, (d', outputs)
    intercept: Array  # (outputs,)
    blend: Array  # C with E = B C, (2d, d')
    certificate: Certificate


# From functions, as columns of coefficients on the basis B, to coefficients on them and intercepts.
Head = Callable[[Array], tuple[Array, Array]]


def ridge_of(solution: Solution) -> Head:
    """The head of METHOD 9 that needs no rows: penalised least squares."""

    def head(C: Array) -> tuple[Array, Array]:
        return ridge_head(solution.path, C, solution.eta_y), solution.target_mean

    return head


def locate(solution: Solution, est: Any, criterion: str, head: Head | None = None) -> Position:
    """The model at the estimator's dial value, with the ridge head unless another is given."""
    head = ridge_of(solution) if head is None else head
    if isinstance(est.fairness, Mapping):
        return _within_limits(solution, est, criterion, head)
    fairness, dial = float(est.fairness), est.dial
    constrained = [i for i, r in enumerate(solution.reports) if r.constrained]
    if dial == "correlation":
        fairness, reached = correlation_dial(
            solution.path, solution.pair, lambda C: head(C)[0], constrained, 1.0 - fairness
        )
        warn_unreachable(1.0 - est.fairness, reached)
        dial = "angle"
    angles = dial_angles(solution.pair, fairness, dial)
    if dial == "cosine":
        widest = float(solution.pair.angles.max(initial=0.0))
        fairness = 1.0 - float(angles.max()) / widest if widest > 0.0 else 1.0
    if solution.n_removed < len(solution.mean):  # else `solve` has said that nothing is left
        warn_lost_directions(solution.pair, angles)
    C = on_basis(solution.path, blend(solution.pair, angles))
    C = C * _signs(solution.path, C, paper=est.method == "paper")
    coef, intercept = head(C)
    kept = angles[alive_directions(solution.pair, angles)]
    certificate = Certificate(
        criterion, float(est.fairness), est.dial, certify(solution.path, solution.reports, C, coef),
        solution.pair.cosines, kept, containment_gap(kept), accuracy_gap(solution.pair, angles),
        C.shape[1],
    )  # fmt: skip
    return Position(
        fairness, solution.basis @ C, C.T @ solution.centre, coef, intercept, C, certificate
    )


def _within_limits(solution: Solution, est: Any, criterion: str, head: Head) -> Position:
    """Build the model for separate limits: the function nearest to g that keeps them all (METHOD 6)."""
    pair, path = solution.pair, solution.path
    blocks = [i for i, report in enumerate(solution.reports) if report.constrained]
    _check_limits(solution, est, [solution.reports[i] for i in blocks])
    limits = [1.0 - est.fairness.get(solution.reports[i].attribute, 0.0) for i in blocks]
    C = np.zeros((len(path.cov), 0))
    outside, lost, angle = 0.0, 0.0, 0.0
    if len(pair.angles):  # else y is constant
        g = on_basis(path, blend(pair, pair.angles))[:, 0]
        found = keep_limits(
            g, [path.block_delta[i] for i in blocks], [path.block_cov[i] for i in blocks], limits
        )
        length, lost = float(np.linalg.norm(found.function)), 1.0
        if length:
            C = found.function[:, None] / length
            C = C * _signs(path, C, paper=False)
            outside = min(float(np.linalg.norm(solution.outside @ C)), 1.0)
            lost = float(np.sqrt(max(1.0 - float((C.T @ g).sum()) ** 2, 0.0)))
            angle = float(np.arcsin(outside))
        else:
            warn_lost_directions(pair, np.zeros(1), left=0)
    coef, intercept = head(C)
    theta = float(pair.angles.max(initial=0.0))
    fairness = 1.0 - angle / theta if theta > 0.0 else 1.0
    certificate = Certificate(
        criterion, fairness, "angle", certify(path, solution.reports, C, coef), pair.cosines,
        np.full(C.shape[1], angle), outside, lost, C.shape[1],
        {name: 1.0 - float(value) for name, value in est.fairness.items()},
    )  # fmt: skip
    return Position(
        fairness, solution.basis @ C, C.T @ solution.centre, coef, intercept, C, certificate
    )


def _check_limits(solution: Solution, est: Any, reports: list[BlockReport]) -> None:
    d, instead = len(solution.pair.angles), "Give one number for all attributes instead."
    known = list(dict.fromkeys(report.attribute for report in reports))
    if unknown := [name for name in est.fairness if name not in known]:
        msg = f"A limit was given for {unknown[0]!r}, which is no attribute here. Attributes: {known}."
        raise ValueError(msg)
    if d > 1:
        msg = (
            f"Separate limits for attributes are for one predictive direction (a numeric y, or two "
            f"classes); this model has {d}. {instead}"
        )
        raise ValueError(msg)
    n_codes = sum(report.rank for report in reports)
    if d == 1 and n_codes > 1 and len(solution.path.cov) == 2 and n_codes > MOST_EXTRA:
        msg = (
            f"The attributes have {n_codes} codes in all cells, too many for separate limits, which keep "
            f"a score per row for each (at most {MOST_EXTRA}). Use fewer groups or n_slices, or "
            f"dependence='correlation'. {instead}"
        )
        raise ValueError(msg)


def warn_unreachable(limit: float, reached: float) -> None:
    """Say that even the fairest model exceeds the correlation asked for."""
    if reached > limit + 1e-12:
        warn_user(
            f"A correlation of {limit:.3g} cannot be reached: the fairest model of the path has "
            f"{reached:.3g}, because fewer sensitive directions are removed than the codes have. "
            f"Using it; n_sensitive_directions='all' reaches 0.",
            NumericalWarning,
        )


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
                report.n_directions,
                report.rank,
                report.left_out,
                report.n_slices,
                report.n_merged,
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
