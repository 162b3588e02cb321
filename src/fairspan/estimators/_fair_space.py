"""All of F as the model space: ``subspace="fair"`` (METHOD 9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from fairspan._arrays import is_tensor, to_float64
from fairspan._device import compute_dtype, exact_float32, row_blocks
from fairspan._linalg import Array, psd_eigh
from fairspan.certificates import Certificate, supremum
from fairspan.estimators._dial import Position, certify, warn_unreachable
from fairspan.estimators._solve import Solution, path_moments
from fairspan.heads import PathMoments, multiple_correlation, ridge_head, smallest_fairness
from fairspan.subspaces import blend

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
    certificate = Certificate(
        criterion, float(est.fairness), est.dial, claims, solution.pair.cosines, angles,
        *_gaps(solution, E, fairness, rkhs=est.method == "paper"), k,
    )  # fmt: skip
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
    return to_float64(out)


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
