"""The fair subspace, the geometry, and the model space between fair and predictive (METHOD 5-7).

One change of coordinates ``u = L'w`` (R = L L', the metric) makes both geometries Euclidean; after
it the code below does not know which one it is in.
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

# sin(theta) this small: the predictive direction is fair already, nothing to blend.
_SINE_TOL = 1e-12
# cos(theta) this small: no fair direction is left of it (METHOD 7).
_COSINE_TOL = 1e-7


@dataclass(frozen=True)
class Metric:
    """Coordinates in which the chosen geometry is Euclidean; ``factor`` None means R = I."""

    factor: Array | None

    @classmethod
    def rkhs(cls) -> Metric:
        """Distance between functions: the paper's geometry."""
        return cls(None)

    @classmethod
    def correlation(cls, cov: Array, eta_y: float) -> Metric:
        """``R = Sig + eta_y I``: distance between predictions, the optimal geometry."""
        return cls(ridge_factor(cov, eta_y))

    def solve(self, n: Array) -> Array:
        """``R^-1 N``."""
        return self.back(self.covectors(n))

    def functions(self, w: Array) -> Array:
        """``u = L'w`` for functions."""
        return w if self.factor is None else np.asarray(self.factor.T @ w)

    def covectors(self, n: Array) -> Array:
        """``L^-1 N`` for covectors (constraints ``N'w = 0``)."""
        if self.factor is None:
            return n
        return np.asarray(
            scipy.linalg.solve_triangular(self.factor, n, lower=True, check_finite=False)
        )

    def back(self, u: Array) -> Array:
        """``w = L^-T u``."""
        if self.factor is None:
            return u
        return np.asarray(
            scipy.linalg.solve_triangular(self.factor, u, lower=True, trans="T", check_finite=False)
        )


def removed_basis(metric: Metric, covectors: list[Array]) -> Array:
    """Orthonormal basis, in metric coordinates, of what ``F = {w : N'w = 0}`` leaves out."""
    return orthonormal_columns(metric.covectors(np.concatenate(covectors, axis=1)))


@dataclass(frozen=True)
class PrincipalPair:
    """Principal vectors of the predictive space G against the fair space F, in metric coordinates.

    ``fair`` holds the directions u_i in F, ``removed`` the directions n_i orthogonal to F;
    G V_i = cos(theta_i) u_i + sin(theta_i) n_i. Ordered by cosine, descending (the paper's sigma).
    A zero column stands for a partner that does not exist.
    """

    fair: Array  # (D, d)
    removed: Array  # (D, d)
    angles: Array  # theta_i
    cosines: Array  # sigma_i

    @property
    def has_fair_partner(self) -> NDArray[np.bool_]:
        """Directions that survive at any fairness above 0."""
        return self.cosines > _COSINE_TOL


def principal_pair(removed: Array, predictive: Array) -> PrincipalPair:
    """Angles between F and G without ever forming a basis of F (Theorem 1, METHOD 7).

    The paper takes an SVD against an orthonormal basis of F (n - m functions). F's complement has
    only q, so the sines come from ``N'G = P diag(s) V'`` and the cosines are the lengths of what is
    left of G V_i after projecting N out: no null space, no division by small eigenvalues.
    """
    # Unit columns first: directions of very different length must not decide each other's rank.
    norms = np.linalg.norm(predictive, axis=0)
    unit = predictive[:, norms > 0.0] / norms[norms > 0.0]
    G = orthonormal_columns(unit)
    d, q = G.shape[1], removed.shape[1]
    if d == 0:
        empty = np.zeros((len(G), 0))
        return PrincipalPair(empty, empty, np.zeros(0), np.zeros(0))
    P, s, Vt = scipy.linalg.svd(removed.T @ G, full_matrices=True) if q else (None, [], np.eye(d))
    sines = np.zeros(d)
    sines[: len(s)] = s
    GV = G @ Vt.T
    rest = GV - removed @ (removed.T @ GV)
    rest -= removed @ (removed.T @ rest)  # twice is enough (Kahan-Parlett)
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
    return PrincipalPair(fair[:, order], paired[:, order], angles[order], cosines[order])


def dial_angles(pair: PrincipalPair, value: float, dial: str) -> Array:
    """Angle a_i of the model's i-th direction to F, for a dial value.

    "angle": fairness in [0, 1] (path objects go to 2: past zero correlation). "cosine": the
    paper's epsilon, gamma_i = max(sigma_i, epsilon).
    """
    if dial == "angle":
        return (1.0 - value) * pair.angles
    if dial == "cosine":
        return np.minimum(pair.angles, np.arccos(value))
    msg = f"unknown dial {dial!r}"
    raise ValueError(msg)


def blend(pair: PrincipalPair, angles: Array) -> Array:
    """Coefficients C, (2d, d'), of the model basis E = [fair, removed] C (eq. model-basis).

    ``e_i = cos(a_i) u_i + sin(a_i) n_i`` equals the paper's gamma_i = cos a_i,
    rho_i = sin a_i / sin theta_i, without its division. A direction with no fair partner is in the
    model only while a_i = theta_i.
    """
    d = len(pair.angles)
    C = np.zeros((2 * d, d))
    C[np.arange(d), np.arange(d)] = np.cos(angles)
    C[d + np.arange(d), np.arange(d)] = np.sin(angles)
    lost = np.flatnonzero(~pair.has_fair_partner)
    C[lost, lost] = 0.0  # e_i = n_i where u_i does not exist
    C[d + lost, lost] = 1.0
    alive = alive_directions(pair, angles)
    return C[:, alive]


def alive_directions(pair: PrincipalPair, angles: Array) -> NDArray[np.bool_]:
    """Directions that the model at these angles contains."""
    return np.asarray(pair.has_fair_partner | (angles == pair.angles))


def warn_lost_directions(pair: PrincipalPair, angles: Array, left: int | None = None) -> None:
    """Say how many predictive directions the dial value leaves."""
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
    """``max |sin a_i|`` = |(I - P_F) P_M|: how far the model space reaches out of F."""
    return float(np.abs(np.sin(angles)).max(initial=0.0))


def accuracy_gap(pair: PrincipalPair, angles: Array) -> float:
    """``max |sin(theta_i - a_i)|`` = |(I - P_M) P_G|: how much of G the model space lost."""
    if not alive_directions(pair, angles).all():
        return 1.0  # a direction of G is not in the model at all
    return float(np.abs(np.sin(pair.angles - angles)).max(initial=0.0))
