"""The fair subspace F, the model space between F and the predictive space G, and its heads (METHOD 5-9).

The change of coordinates ``u = L'w``, where R = L L' is the metric, makes both geometries Euclidean. The
functions from :class:`Metric` to :func:`accuracy_gap` work in these coordinates, so one version serves
both.

All models of a path lie in one space of 2d functions B. A model is given by coefficients C on B (its
basis is E = BC) and a head on the scores ``Pi(x) = E'(psi(x) - mu)``, so the functions below
:class:`PathMoments` need only the small moments of B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fairspan.exceptions import NumericalWarning, warn_user
from fairspan.method.linalg import Array, orthonormal_columns, psd_eigh
from fairspan.method.sdr import ridge_factor

# If sin(theta) is at most this, the predictive direction is fair already and is not blended.
_SINE_TOL = 1e-12
# If cos(theta) is at most this, the predictive direction has no fair part (METHOD 7).
_COSINE_TOL = 1e-7


@dataclass(frozen=True)
class Metric:
    """The metric R = L L' of a geometry, and its coordinates ``u = L'w``, in which it is Euclidean."""

    factor: Array | None  # L, (D, D); None for R = I

    @classmethod
    def rkhs(cls) -> Metric:
        """Return R = I: distance between functions in the RKHS, the paper's geometry."""
        return cls(None)

    @classmethod
    def correlation(cls, cov: Array, eta_y: float) -> Metric:
        """Return ``R = Sig + eta_y I``: distance between predictions, the optimal geometry."""
        return cls(ridge_factor(cov, eta_y))

    def solve(self, n: Array) -> Array:
        """Compute ``R^-1 N``."""
        return self.back(self.covectors(n))

    def functions(self, w: Array) -> Array:
        """Compute the coordinates ``u = L'w`` of functions w."""
        return w if self.factor is None else np.asarray(self.factor.T @ w)

    def covectors(self, n: Array) -> Array:
        """Compute the coordinates ``L^-1 N`` of covectors N (of constraints ``N'w = 0``)."""
        if self.factor is None:
            return n
        return np.asarray(
            scipy.linalg.solve_triangular(self.factor, n, lower=True, check_finite=False)
        )

    def back(self, u: Array) -> Array:
        """Compute the functions ``w = L^-T u`` with coordinates u."""
        if self.factor is None:
            return u
        return np.asarray(
            scipy.linalg.solve_triangular(self.factor, u, lower=True, trans="T", check_finite=False)
        )


def removed_basis(metric: Metric, covectors: list[Array]) -> Array:
    """Compute an orthonormal basis (D, q) of the complement of F = {w : N'w = 0}, in metric coordinates."""
    return orthonormal_columns(metric.covectors(np.concatenate(covectors, axis=1)))


@dataclass(frozen=True, kw_only=True)
class PrincipalPair:
    """Principal vectors and angles between the predictive space G and F, in metric coordinates.

    The principal directions of G are ``G V_i = cos(theta_i) u_i + sin(theta_i) n_i`` with u_i in F and
    n_i orthogonal to F, sorted by descending cosine. A column is zero if u_i or n_i does not exist.
    """

    fair: Array  # u_i, (D, d)
    removed: Array  # n_i, (D, d)
    angles: Array  # theta_i, (d,)
    cosines: Array  # the paper's sigma_i, (d,)

    @property
    def has_fair_partner(self) -> NDArray[np.bool_]:
        """Whether each direction has a part in F, and so remains in the model at any fairness."""
        return self.cosines > _COSINE_TOL


def principal_pair(removed: Array, predictive: Array) -> PrincipalPair:
    """Compute the angles between F and G without a basis of F (Theorem 1, METHOD 7).

    The paper needs an SVD with an orthonormal basis of F, which has n - m functions. The complement of
    F has only q. The sines are the singular values of ``N'G = P diag(s) V'``, and the cosines are the
    lengths of G V_i after N is projected out. This needs no null space and no small divisors.

    Parameters
    ----------
    removed : ndarray of shape (D, q)
        N, orthonormal basis of the complement of F.
    predictive : ndarray of shape (D, k)
        Columns that span G.
    """
    # Normalise the columns, so that their lengths do not influence the rank.
    norms = np.linalg.norm(predictive, axis=0)
    unit = predictive[:, norms > 0.0] / norms[norms > 0.0]
    G = orthonormal_columns(unit)
    d, q = G.shape[1], removed.shape[1]
    if d == 0:
        empty = np.zeros((len(G), 0))
        return PrincipalPair(fair=empty, removed=empty, angles=np.zeros(0), cosines=np.zeros(0))
    P, s, Vt = scipy.linalg.svd(removed.T @ G, full_matrices=True) if q else (None, [], np.eye(d))
    sines = np.zeros(d)
    sines[: len(s)] = s
    GV = G @ Vt.T
    rest = GV - removed @ (removed.T @ GV)
    rest -= removed @ (removed.T @ rest)  # projecting twice is enough (Kahan-Parlett)
    cosines = np.linalg.norm(rest, axis=0)
    fair = np.divide(rest, cosines, out=np.zeros_like(rest), where=cosines > _COSINE_TOL)
    paired = np.zeros_like(rest)
    k = min(q, d)
    if k:
        paired[:, :k] = removed @ P[:, :k]
    fair_already = sines <= _SINE_TOL
    fair[:, fair_already] = GV[:, fair_already]
    paired[:, fair_already] = 0.0
    angles = np.where(fair_already, 0.0, np.arctan2(sines, cosines))
    order = np.argsort(-cosines, kind="stable")
    return PrincipalPair(
        fair=fair[:, order],
        removed=paired[:, order],
        angles=angles[order],
        cosines=cosines[order],
    )


def dial_angles(pair: PrincipalPair, value: float, dial: str) -> Array:
    """Compute the angles a_i of the model's directions to F, for a dial value.

    With ``dial="angle"`` the value is the fairness in [0, 1]; path objects accept up to 2, past zero
    correlation. With ``dial="cosine"`` it is the paper's epsilon, gamma_i = max(sigma_i, epsilon).
    """
    if dial == "angle":
        return (1.0 - value) * pair.angles
    if dial == "cosine":
        return np.minimum(pair.angles, np.arccos(value))
    raise ValueError(f"unknown dial {dial!r}")


def blend(pair: PrincipalPair, angles: Array) -> Array:
    """Compute the coefficients C of the model basis ``E = [fair, removed] C`` (eq. model-basis).

    ``e_i = cos(a_i) u_i + sin(a_i) n_i`` is the paper's basis with gamma_i = cos a_i and
    rho_i = sin a_i / sin theta_i, without the division. A direction without a fair part is in the model
    only if a_i = theta_i. C has shape (2d, k), with one column per direction in the model.
    """
    d = len(pair.angles)
    C = np.zeros((2 * d, d))
    C[np.arange(d), np.arange(d)] = np.cos(angles)
    C[d + np.arange(d), np.arange(d)] = np.sin(angles)
    lost = np.flatnonzero(~pair.has_fair_partner)
    C[lost, lost] = 0.0  # e_i = n_i if u_i does not exist
    C[d + lost, lost] = 1.0
    alive = alive_directions(pair, angles)
    return C[:, alive]


def alive_directions(pair: PrincipalPair, angles: Array) -> NDArray[np.bool_]:
    """Return which directions the model at these angles contains, as a mask of shape (d,)."""
    return np.asarray(pair.has_fair_partner | (angles == pair.angles))


def warn_lost_directions(pair: PrincipalPair, angles: Array, left: int | None = None) -> None:
    """Warn if the model at these angles lacks predictive directions; ``left`` replaces their number."""
    d = len(pair.angles)
    left = int(alive_directions(pair, angles).sum()) if left is None else left
    if left < d:
        warn_user(
            f"{d - left} of {d} predictive directions have no fair part (they are functions of the "
            f"protected attributes alone): {left} left"
            + ("." if left else ", so the model predicts the mean of y."),
            NumericalWarning,
        )


def containment_gap(angles: Array) -> float:
    """Compute ``|(I - P_F) P_M| = max |sin a_i|``: how far the model space M reaches out of F."""
    return float(np.abs(np.sin(angles)).max(initial=0.0))


def accuracy_gap(pair: PrincipalPair, angles: Array) -> float:
    """Compute ``|(I - P_M) P_G| = max |sin(theta_i - a_i)|``: how much of G the model space M lost."""
    if not alive_directions(pair, angles).all():
        return 1.0  # a direction of G is orthogonal to the model space
    return float(np.abs(np.sin(pair.angles - angles)).max(initial=0.0))


@dataclass(frozen=True, kw_only=True)
class PathMoments:
    """Moments of the functions B, whose span ``span[P_F G, G]`` contains all models of the path.

    B has 2d columns, and some more for separate limits if there are several codes. The moments are
    small, so a whole path costs as much as one model. ``block_cov`` and ``block_delta`` have one entry
    per block of the certificate.
    """

    gram: Array  # B'B: RKHS inner products
    cov: Array  # B'Sig B
    cov_target: Array  # B'Cov(psi, y), (2d, outputs)
    first: Array  # B'(psi(first row) - mu), (2d,)
    block_cov: tuple[Array, ...]  # covariance of B in the cell
    block_delta: tuple[Array, ...]  # covariance of B with the codes in the cell


def path_moments(
    basis: Array,
    cov: Array,
    cross: Array,
    first: Array,
    block_cov: tuple[Array, ...],
    block_delta: tuple[Array, ...],
) -> PathMoments:
    """Moments of the functions in the columns of ``basis``."""
    return PathMoments(
        gram=basis.T @ basis,
        cov=basis.T @ cov @ basis,
        cov_target=basis.T @ cross,
        first=basis.T @ first,
        block_cov=tuple(basis.T @ part @ basis for part in block_cov),
        block_delta=tuple(basis.T @ part for part in block_delta),
    )


def ridge_head(path: PathMoments, C: Array, eta_y: float) -> Array:
    """Minimise the penalised squared error: ``beta = (E'(Sig + eta_y I)E)^-1 E'Cov(psi, y)``, E = BC.

    At fairness 0 this is kernel ridge regression in both geometries. At fairness 1 it is constrained
    kernel ridge regression, in the correlation geometry. ``eta_y = 0`` is least squares, the paper's
    head. C has shape (2d, k), beta (k, outputs).
    """
    if 0 in (C.shape[1], path.cov_target.shape[1]):
        return np.zeros((C.shape[1], path.cov_target.shape[1]))
    normal = C.T @ (path.cov + eta_y * path.gram) @ C
    if len(normal) == 1:  # the usual case, computed a hundred times along a path
        scale = normal[0, 0] if normal[0, 0] > 0.0 else np.inf
        return np.asarray(C.T @ path.cov_target / scale)
    beta, *_ = scipy.linalg.lstsq(normal, C.T @ path.cov_target, cond=1e-14)
    return np.asarray(beta)


def multiple_correlation(cov: Array, delta: Array, w: Array) -> float:
    """Compute the multiple correlation with the codes of a block: the largest over the columns of w.

    ``R_cj = |Delta'w| / sqrt(w'Sig_c w)``, and 0 if the function is constant in the cell.
    """
    variance = np.einsum("ij,ij->j", w, cov @ w)
    explained = ((delta.T @ w) ** 2).sum(axis=0)
    scale = float(np.abs(variance).max(initial=0.0))
    ok = variance > 1e-24 * max(scale, 1e-300)
    ratio = np.divide(explained, variance, out=np.zeros_like(variance), where=ok)
    return float(np.sqrt(np.clip(ratio, 0.0, 1.0).max(initial=0.0)))


def on_basis(path: PathMoments, C: Array) -> Array:
    """Pad coefficients on [fair, removed], (2d, k), with zeros for the further columns of B."""
    return np.pad(C, ((0, len(path.cov) - len(C)), (0, 0)))


def line_head(path: PathMoments, d: int, fairness: float) -> Array:
    """Compute the posterior mean ``P_F g + (1-t)(I-P_F) g`` of METHOD 9's prior on all of F.

    There is one t per output. Since B is orthonormal in the correlation geometry, the coordinates of g
    are ``B'Cov(psi, y)``. Returns coefficients on B, of shape (2d, outputs).
    """
    g = path.cov_target.copy()
    fair, removed = np.linalg.norm(g[:d], axis=0), np.linalg.norm(g[d:], axis=0)
    g[d:] *= line_keep(fair, removed, fairness)
    return g


def line_keep(fair: Array, removed: Array, fairness: float) -> Array:
    """Compute ``1 - t = tan((1-fairness) theta)/tan(theta)``, with theta the angle of a function to F.

    ``fair`` and ``removed``, of shape (outputs,), are the lengths of its parts inside and outside F.
    """
    theta = np.arctan2(removed, fair)
    keep = np.full(len(theta), 1.0 - fairness)
    wide = theta >= 1e-8
    keep[wide] = np.tan((1.0 - fairness) * theta[wide]) / np.tan(theta[wide])
    keep[np.cos(theta) <= 1e-7] = float(fairness == 0.0)  # without a fair part t is 0 or 1
    return keep


def smallest_fairness(
    worst: Callable[[float], float], limit: float, n_scan: int = 201, tol: float = 1e-14
) -> tuple[float, float]:
    """Find the smallest fairness f with ``worst <= limit`` on all of [f, 1]; return f and ``worst(f)``.

    Scan ``n_scan`` values down from 1 to the first violation, then bisect. If ``worst(1)`` exceeds the
    limit, f is 1.
    """
    at_one = worst(1.0)
    if at_one > limit:
        return 1.0, at_one
    good = 1.0
    for fairness in np.linspace(1.0, 0.0, n_scan)[1:]:
        if worst(float(fairness)) > limit:
            bad = float(fairness)
            break
        good = float(fairness)
    else:
        return 0.0, worst(0.0)
    while good - bad > tol:
        middle = (good + bad) / 2.0
        if worst(middle) > limit:
            bad = middle
        else:
            good = middle
    return good, worst(good)


def supremum(cov: Array, delta: Array) -> tuple[float, Array]:
    """Compute the largest multiple correlation with the codes over a space, and a function that has it.

    ``sup_h R(h)^2 = lambda_max(E'Delta Delta'E, E'Sig E)``, on the eigenspace of ``E'Sig E`` above
    1e-12 of its largest eigenvalue. ``cov`` is E'Sig E, of shape (d, d), and ``delta`` is E'Delta.
    """
    d = len(cov)
    if d == 0 or delta.shape[1] == 0:
        return 0.0, np.zeros(d)
    if d == 1:  # the usual case: the multiple correlation of one function
        variance = float(cov[0, 0])
        if variance <= 0.0:
            return 0.0, np.zeros(1)
        correlation = np.linalg.norm(delta) / np.sqrt(variance)
        return float(min(correlation, 1.0)), np.array([variance**-0.5])
    values, vectors = psd_eigh((cov + cov.T) / 2.0)
    keep = values > 1e-12 * values[0]
    if values[0] <= 0.0 or not keep.any():
        return 0.0, np.zeros(d)
    whiten = vectors[:, keep] / np.sqrt(values[keep])
    left, singular, _ = scipy.linalg.svd(whiten.T @ delta, full_matrices=False)
    return float(min(singular[0], 1.0)), np.asarray(whiten @ left[:, 0])
