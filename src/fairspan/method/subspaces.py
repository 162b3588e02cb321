"""The fair subspace F, the geometry, and the model space between F and the predictive space G (METHOD 5-7).

The change of coordinates ``u = L'w``, where R = L L' is the metric, makes both geometries Euclidean. All
functions below :class:`Metric` work in these coordinates, so one version serves both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fairspan.exceptions import NumericalWarning, warn_user
from fairspan.method.linalg import Array, orthonormal_columns
from fairspan.method.sdr import ridge_factor

__all__ = [
    "Metric",
    "PrincipalPair",
    "accuracy_gap",
    "alive_directions",
    "blend",
    "containment_gap",
    "dial_angles",
    "principal_pair",
    "removed_basis",
    "warn_lost_directions",
]

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
    msg = f"unknown dial {dial!r}"
    raise ValueError(msg)


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
