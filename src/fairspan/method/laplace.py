"""Logistic and softmax heads by Laplace's approximation, on few scores (METHOD 9): pure functions.

Every class k has a latent function ``b0_k + Pi(x) b_k`` with a flat ``b0_k`` and independent priors
``b_k ~ N(0, P^-1)``. Only contrasts matter, so class 0 is held at zero: the other K - 1 then have the
prior precision ``(I - 11'/K) (x) P``, and two classes are the logistic model with precision ``P/2``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fairspan.exceptions import NumericalWarning, warn_user
from fairspan.method.data import Codes
from fairspan.method.linalg import Array

# From mu, functions of all classes (D, K) and shares of the classes to the D x D covariance.
RowCurvature = Callable[[Array, Array, Array], Array]

__all__ = [
    "Laplace",
    "ScoreBlock",
    "class_curvature",
    "fit_laplace",
    "moderate",
    "row_curvature",
    "softmax",
]

# Probabilities of least squares are not to be believed beyond 5 and 95 percent.
LEAST_CURVATURE = 2.0 * 0.05 * 0.95

# Newton squares its decrement: after a step of this one, rounding is left.
_DECREMENT = 1e-5
_MAX_STEPS = 100
_MAX_HALVINGS = 40


@dataclass(frozen=True)
class ScoreBlock:
    """Some rows, laid out for Newton's sums: every array has one column per row."""

    design: Array  # (1 + d, m): ones, then scores
    products: Array  # (pairs, m): design_i * design_j for i <= j
    counted: Array  # (K - 1, 1 + d): sum of the design over the rows of each class but the first
    weight: Array | None

    @classmethod
    def of(cls, scores: Array, codes: Codes, weight: Array | None, n_classes: int) -> ScoreBlock:
        """From scores (m, d) and class numbers."""
        design = np.concatenate([np.ones((1, len(scores))), scores.T])
        first, second = np.triu_indices(len(design))
        hit = (codes == np.arange(1, n_classes)[:, None]).astype(np.float64)
        hit = hit if weight is None else hit * weight
        return cls(design, design[first] * design[second], hit @ design.T, weight)


@dataclass(frozen=True)
class Laplace:
    """Mode and curvature of the posterior of K - 1 free latents; class 0 is zero."""

    coef: Array  # (d, K - 1)
    intercept: Array  # (K - 1,)
    cov: Array  # of (intercept_1, coef_1, intercept_2, ...)
    log_evidence: float
    n_steps: int

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.intercept) + 1

    def variance(self, scores: Array) -> Array:
        """Variance of a class's latent against the mean of the others, averaged over classes."""
        K, size = self.n_classes, 1 + len(self.coef)
        # f_k - mean of the others = K/(K-1) (f_k - mean of all); its mean square over k, in the
        # free latents, is the form (K/(K-1))^2 (I - 11'/K) / K.
        form = (K / (K - 1)) ** 2 / K * _coupling(K)
        blocks = self.cov.reshape(K - 1, size, K - 1, size)
        middle = np.einsum("kl,kilj->ij", form, blocks)
        A = np.concatenate([np.ones((len(scores), 1)), scores], axis=1)
        return np.asarray(np.einsum("ni,ij,nj->n", A, middle, A, optimize=True))


def _newton(
    blocks: Callable[[], Iterable[ScoreBlock]], theta: Array, prior: Array
) -> tuple[Array, float, Array, int]:
    """Mode, log posterior, curvature, number of steps."""
    K = theta.shape[1] + 1

    def log_posterior(theta: Array) -> float:
        flat = theta.T.ravel()
        value = sum(_probabilities(block, theta)[0] for block in blocks())
        return value - 0.5 * float(flat @ prior @ flat)

    def objective(theta: Array) -> tuple[float, Array, Array]:
        value, slope, curvature = _pass(blocks(), theta, K)
        flat = theta.T.ravel()
        return (
            value - 0.5 * float(flat @ prior @ flat),
            slope.T.ravel() - prior @ flat,
            curvature + prior,
        )

    value, slope, curvature = objective(theta)
    n_steps = 0
    while True:
        step = _Factor(curvature).solve(slope)
        decrement = float(np.sqrt(max(float(slope @ step), 0.0)))
        if decrement <= _DECREMENT:
            theta = theta + step.reshape(K - 1, -1).T
            return theta, value, curvature, n_steps
        if n_steps == _MAX_STEPS:
            _warn_separated(decrement)
            return theta, value, curvature, n_steps
        n_steps += 1
        change, length = step.reshape(K - 1, -1).T, 1.0
        # Near the mode an increase is lost in rounding, so such a step is accepted.
        enough = value - 1e-12 * abs(value)
        # Steps are compared by their value alone: the curvature is the costly part.
        for _ in range(_MAX_HALVINGS):
            candidate = theta + length * change
            if log_posterior(candidate) >= enough:
                break
            length /= 2.0
        theta, (value, slope, curvature) = candidate, objective(candidate)


def class_curvature(shares: Array) -> float:
    """Curvature of the softmax likelihood per class and row, at the class shares p.

    ``(1 - sum p^2)/(K - 1)``: 1/K for balanced classes, 2 p (1 - p) for two. Least squares on one-hot
    labels with penalty alpha is, to second order, this likelihood with prior precision alpha times it.
    """
    return float((1.0 - shares @ shares) / (len(shares) - 1))


def row_curvature(p: Array) -> Array:
    """``1 - sum p^2`` of each row's class probabilities, (n, K): ``2 p (1 - p)`` for two classes.

    Up to a factor the curvature of the softmax likelihood there, averaged over classes. Probabilities
    may be those of a regression, which leave [0, 1]; no row counts for less than one at 95 percent.
    """
    return np.asarray(np.maximum(1.0 - np.einsum("ik,ik->i", p, p), LEAST_CURVATURE))


def fit_laplace(
    blocks: Callable[[], Iterable[ScoreBlock]], precision: Array, start: Array
) -> Laplace:
    """Newton's method on the log posterior: one pass over the blocks per step.

    Parameters
    ----------
    blocks : callable
        Gives the rows, block by block, as often as it is called.
    precision : ndarray of shape (d, d)
        P, prior precision of each class's coefficients.
    start : ndarray of shape (1 + d, K - 1)
        Intercepts and coefficients to start from.
    """
    K, d = start.shape[1] + 1, len(precision)
    each = np.zeros((1 + d, 1 + d))
    each[1:, 1:] = precision
    prior = np.asarray(np.kron(_coupling(K), each), dtype=np.float64)
    theta, value, curvature, n_steps = _newton(blocks, start, prior)
    factor = _Factor(curvature)
    cov = factor.solve(np.eye(len(curvature)))
    # log Z = log p(y, mode) + log det(prior)/2 - log det(H)/2, and (2 pi)^1/2 for each flat
    # intercept. The prior is (I - 11'/K) (x) P, and det(I - 11'/K) = 1/K on the K - 1 free classes.
    evidence = value + 0.5 * (K - 1) * np.log(2.0 * np.pi) - 0.5 * factor.log_det
    if d:
        log_det = float(np.linalg.slogdet(precision)[1])
        evidence += 0.5 * ((K - 1) * log_det - d * np.log(K))
    return Laplace(theta[1:], theta[0], (cov + cov.T) / 2.0, float(evidence), n_steps)


def _warn_separated(decrement: float) -> None:
    warn_user(
        f"Newton's method for the labels stopped after {_MAX_STEPS} steps at a decrement of "
        f"{decrement:.2g}: the classes are all but separated. Probabilities near 0 and 1 are not to be "
        f"trusted; a larger alpha helps.",
        NumericalWarning,
    )


def moderate(latents: Array, variance: Array) -> Array:
    """Latents shrunk for their uncertainty (MacKay 1992), ``f / (1 + pi v / 8)^1/2``.

    One factor per row, so the most probable class stays the same.
    """
    return np.asarray(latents / np.sqrt(1.0 + np.pi / 8.0 * variance)[:, None])


def softmax(latents: Array) -> Array:
    """Class probabilities of (n, K) latents."""
    out = np.exp(latents - latents.max(axis=1, keepdims=True))
    return np.asarray(out / out.sum(axis=1, keepdims=True))


def _coupling(n_classes: int) -> Array:
    """``I - 11'/K`` on the K - 1 free classes: what is left of K independent priors."""
    return np.eye(n_classes - 1) - 1.0 / n_classes


def _pass(rows: Iterable[ScoreBlock], theta: Array, K: int) -> tuple[float, Array, Array]:
    """Log likelihood, its gradient (1 + d, K - 1), and minus its Hessian."""
    size = len(theta)
    first, second = np.tril_indices(K - 1)
    value, slope = 0.0, np.zeros((K - 1, size))
    sums = np.zeros((len(first), size * (size + 1) // 2))
    for block in rows:
        log_likelihood, p = _probabilities(block, theta)
        bend = np.array([p[k] * (float(k == m) - p[m]) for k, m in zip(first, second, strict=True)])
        if block.weight is not None:
            p, bend = p * block.weight, bend * block.weight
        value += log_likelihood
        slope += block.counted - p @ block.design.T
        sums += bend @ block.products.T
    curvature = np.empty((K - 1, K - 1, size, size))
    i, j = np.triu_indices(size)
    for k, m, one in zip(first, second, sums, strict=True):
        curvature[k, m, i, j] = curvature[k, m, j, i] = one
        curvature[m, k] = curvature[k, m]
    flat = curvature.transpose(0, 2, 1, 3).reshape((K - 1) * size, (K - 1) * size)
    return value, slope.T, flat


def _probabilities(block: ScoreBlock, theta: Array) -> tuple[float, Array]:
    """Log likelihood of a block, and the probabilities of the free classes, (K - 1, m)."""
    free = theta.T @ block.design
    top = np.maximum(free.max(axis=0), 0.0)  # class 0 has 0
    p = np.exp(free - top)
    total = p.sum(axis=0) + np.exp(-top)
    p /= total
    logs = top + np.log(total)
    if block.weight is not None:
        logs = logs * block.weight
    return float((theta.T * block.counted).sum() - logs.sum()), p


class _Factor:
    """A factorised curvature, scaled to a unit diagonal: lengths of scores cost no digits."""

    def __init__(self, curvature: Array) -> None:
        self._scale = 1.0 / np.sqrt(np.maximum(np.diag(curvature), 1e-300))
        self._unit = curvature * self._scale[:, None] * self._scale
        try:
            self._cholesky = scipy.linalg.cho_factor(self._unit, lower=True)
        except np.linalg.LinAlgError:  # separated classes: rounding leaves no curvature
            self._cholesky = None

    def solve(self, right: Array) -> Array:
        """Solution for a vector or for columns."""
        right = (right.T * self._scale).T
        if self._cholesky is None:
            found = scipy.linalg.lstsq(self._unit, right, cond=1e-12)[0]
        else:
            found = scipy.linalg.cho_solve(self._cholesky, right)
        return np.asarray((found.T * self._scale).T)

    @property
    def log_det(self) -> float:
        """Logarithm of the determinant's absolute value."""
        if self._cholesky is None:
            unit = float(np.linalg.slogdet(self._unit)[1])
        else:
            unit = 2.0 * float(np.log(np.diag(self._cholesky[0])).sum())
        return unit - 2.0 * float(np.log(self._scale).sum())
