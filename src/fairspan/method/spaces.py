"""Model spaces at a dial value: the line between two functions, and all of F (METHOD 8 and 9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from fairspan.exceptions import NumericalWarning, warn_user
from fairspan.method.certificates import BlockCertificate, Certificate, supremum
from fairspan.method.heads import (
    PathMoments,
    correlation_dial,
    multiple_correlation,
    on_basis,
    ridge_head,
    smallest_fairness,
)
from fairspan.method.limits import keep_limits
from fairspan.method.linalg import Array, is_tensor, psd_eigh, to_float64
from fairspan.method.removal import BlockReport
from fairspan.method.solution import MOST_EXTRA, Solution, path_moments
from fairspan.method.subspaces import (
    accuracy_gap,
    alive_directions,
    blend,
    containment_gap,
    dial_angles,
    warn_lost_directions,
)
from fairspan.method.torch_columns import compute_dtype, exact_float32, row_blocks


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
        criterion=criterion,
        fairness=float(est.fairness),
        dial=est.dial,
        blocks=certify(solution.path, solution.reports, C, coef),
        cosines=solution.pair.cosines,
        angles=kept,
        containment_gap=containment_gap(kept),
        accuracy_gap=accuracy_gap(solution.pair, angles),
        n_functions=C.shape[1],
    )
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
        criterion=criterion,
        fairness=fairness,
        dial="angle",
        blocks=certify(path, solution.reports, C, coef),
        cosines=pair.cosines,
        angles=np.full(C.shape[1], angle),
        containment_gap=outside,
        accuracy_gap=lost,
        n_functions=C.shape[1],
        limits={name: 1.0 - float(value) for name, value in est.fairness.items()},
    )
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
                cell=report.cell,
                attribute=report.attribute,
                coding=report.coding,
                constrained=report.constrained,
                supremum=sup,
                score=score,
                n_rows=report.n_rows,
                n_removed=report.n_directions,
                n_codes=report.rank,
                left_out=report.left_out,
                n_slices=report.n_slices,
                n_merged=report.n_merged,
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


# Components of the fair subspace that "auto" keeps, as a share of its variance.
FAIR_VARIANCE = 0.99
# Places tried for dial="correlation": each costs an eigendecomposition here.
_N_SCAN = 41
# Rows whose coordinates are held at once: 16 MiB at D = 1000.
_BLOCK_ROWS = 2048


@dataclass(frozen=True)
class FairSpace:
    """All of F as a model space, METHOD 9's prior covariance ``C_t = I - N (S^-1 + I)^-1 N'``.

    Kept as its root ``C_t^1/2 = I - N half N'``, so that fair features are ``C_t^1/2 psi``.
    """

    removed: Array  # N, (D, q), RKHS-orthonormal
    half: Array  # (q, q)


def locate_fair(solution: Solution, est: Any, criterion: str) -> tuple[Position, FairSpace]:
    """Leading principal components of psi under the fair prior."""
    fairness = _angle_scale(solution, est)
    space, E, path, coef = _components(solution, est, fairness)
    angles = (1.0 - fairness) * solution.pair.angles
    k = E.shape[1]
    claims = certify(path, solution.reports, np.eye(k), coef)
    outside, lost = _gaps(solution, E, fairness, rkhs=est.method == "paper")
    certificate = Certificate(
        criterion=criterion,
        fairness=float(est.fairness),
        dial=est.dial,
        blocks=claims,
        cosines=solution.pair.cosines,
        angles=angles,
        containment_gap=outside,
        accuracy_gap=lost,
        n_functions=k,
    )
    place = Position(
        fairness, E, E.T @ solution.mean, coef, solution.target_mean, np.eye(k), certificate
    )
    return place, space


def _components(
    solution: Solution, est: Any, fairness: float
) -> tuple[FairSpace, Array, PathMoments, Array]:
    """The prior at a place on the angle scale, its components E, their moments and head."""
    fair = solution.fair
    assert fair is not None
    cov, N = fair.cov, fair.removed
    t = shrinkage(solution, est, fairness)
    space = FairSpace(N, fair_root(fair.inner, t, solution.eta_y))

    def root(columns: Array) -> Array:
        return columns - N @ (space.half @ (N.T @ columns))

    whitened = root(root(cov).T)
    variances, components = psd_eigh((whitened + whitened.T) / 2.0)
    variances = np.maximum(variances, 0.0)
    # Short of full fairness the removed directions are shrunk, not gone.
    k = _n_components(variances, est, len(cov) - (N.shape[1] if t == 1.0 else 0))
    E = root(components[:, :k])
    E = E * np.where(E[np.argmax(np.abs(E), axis=0), np.arange(k)] < 0.0, -1.0, 1.0)
    path = path_moments(E, cov, fair.cross, np.zeros(len(cov)), fair.block_cov, fair.block_delta)
    # The prior's own norm is Euclidean in the coordinates of the components.
    path = replace(path, gram=np.eye(k))
    return space, E, path, ridge_head(path, np.eye(k), solution.eta_y)


def _gaps(solution: Solution, E: Array, fairness: float, *, rkhs: bool) -> tuple[float, float]:
    """``|(I - P_F) P_M|`` and ``|(I - P_M) P_G|`` of the span of E, which is no blend of G and F."""
    fair, pair = solution.fair, solution.pair
    assert fair is not None

    def inner(a: Array, b: Array) -> Array:
        return a.T @ b if rkhs else a.T @ (fair.cov @ b + solution.eta_y * b)

    gram = inner(E, E)
    outside = 0.0
    if fairness < 1.0 and fair.removed.shape[1]:
        # The part of h outside F has the squared length h'N (N'R^-1N)^-1 N'h.
        factor = scipy.linalg.cholesky(fair.inner, lower=True)
        covectors = scipy.linalg.solve_triangular(factor, fair.removed.T @ E, lower=True).T
        outside, _ = supremum(gram, covectors)
    G = solution.basis @ blend(pair, pair.angles)
    if G.shape[1] == 0:
        return outside, 0.0
    if E.shape[1]:
        G = G - E @ scipy.linalg.lstsq(gram, inner(E, G), cond=1e-14)[0]
    lost = psd_eigh(inner(G, G))[0][0]
    return outside, float(np.sqrt(np.clip(lost, 0.0, 1.0)))


def fair_root(inner: Array, t: float, eta_y: float) -> Array:
    """The q x q middle of ``C_t^1/2 = I - N half N'``: ``half = I - (I - shrink)^1/2``."""
    q = len(inner)
    if t == 0.0:
        return np.zeros((q, q))
    ridge = (1.0 - t) / t * eta_y
    shrink = np.linalg.inv(np.eye(q) + ridge * inner)
    values, vectors = psd_eigh((shrink + shrink.T) / 2.0)
    return np.asarray((vectors * (1.0 - np.sqrt(np.clip(1.0 - values, 0.0, 1.0)))) @ vectors.T)


def _angle_scale(solution: Solution, est: Any) -> float:
    """The place on the angle scale that the dial asks for."""
    fairness = float(est.fairness)
    if fairness >= 1.0 or est.dial == "angle" or len(solution.pair.angles) == 0:
        return fairness
    if est.dial == "cosine":
        theta = float(solution.pair.angles.max())
        return 1.0 - min(theta, float(np.arccos(fairness))) / theta if theta > 0.0 else 1.0
    constrained = [i for i, r in enumerate(solution.reports) if r.constrained]

    def worst(place: float) -> float:
        # The head sees the components kept, not all of F, so the path of `_dial` is not its path.
        _, _, path, coef = _components(solution, est, place)
        return max(
            multiple_correlation(path.block_cov[i], path.block_delta[i], coef) for i in constrained
        )

    place, reached = smallest_fairness(worst, 1.0 - fairness, _N_SCAN, tol=1e-11)
    warn_unreachable(1.0 - fairness, reached)
    return place


def squared_lengths(est: Any, X: Array) -> Array:
    """``|u|^2`` and ``|Q'u|^2`` of ``u = L^-1 (psi - mu)``, (n, 2); Q is ``outside``.

    The posterior variance on all of F is ``(|u|^2 - t |Q'u|^2)/T`` in units of the noise.
    """
    fair = est._solution.fair
    if is_tensor(X):
        return _tensor_lengths(est, X)
    out = np.empty((len(X), 2))
    for start in range(0, len(X), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        u = scipy.linalg.solve_triangular(fair.factor, est._coordinates(X[rows]).T, lower=True).T
        out[rows, 0] = np.einsum("ij,ij->i", u, u)
        out[rows, 1] = ((u @ fair.outside) ** 2).sum(axis=1)
    return out


def _tensor_lengths(est: Any, X: Any) -> Array:
    """The same on the device of the rows, of which two numbers each come back."""
    import torch

    dtype, device = compute_dtype(X), X.device
    fair, psi_on = est._solution.fair, est.pilot_.features.psi_on(device, dtype)
    factor, outside, mean = (
        torch.tensor(v, dtype=dtype, device=device)
        for v in (fair.factor, fair.outside, est._solution.mean)
    )
    out = torch.empty((len(X), 2), dtype=dtype, device=device)
    with exact_float32(dtype):
        for rows in row_blocks(X, 2 * len(mean)):
            psi = psi_on(X[rows]).sub_(mean)
            u = torch.linalg.solve_triangular(factor, psi.T, upper=False)
            out[rows, 0] = u.square().sum(dim=0)
            out[rows, 1] = (outside.T @ u).square().sum(dim=0)
    lengths: Array = to_float64(out)
    return lengths


def shrinkage(solution: Solution, est: Any, fairness: float) -> float:
    """Shrinkage t of the prior that stands for a place on the angle scale."""
    if fairness >= 1.0:
        return 1.0
    if est.method == "paper":
        msg = (
            f"fairness={est.fairness} with subspace='fair' and method='paper': the paper has all of F "
            f"only at the fair end. Use fairness=1, or method='optimal'."
        )
        raise ValueError(msg)
    if len(solution.pair.angles) == 0:
        msg = (
            f"fairness={est.fairness} with subspace='fair' needs y: the dial is read on the angle "
            f"between the best predictor of y and the fair subspace. Pass y, or fairness=1."
        )
        raise ValueError(msg)
    # One prior for all outputs, so the widest angle decides.
    theta = float(solution.pair.angles.max())
    if theta < 1e-8:
        return fairness
    if np.cos(theta) <= 1e-7:
        return 1.0 if fairness > 0.0 else 0.0
    return 1.0 - float(np.tan((1.0 - fairness) * theta) / np.tan(theta))


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
