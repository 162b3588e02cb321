"""Logistic and softmax heads by Laplace's approximation, on d scores (METHOD 9).

Every class k has a latent function ``b0_k + Pi(x) b_k`` with a flat prior on ``b0_k`` and independent
priors ``b_k ~ N(0, P^-1)``. Probabilities depend only on differences between classes, so the latent
function of class 0 is set to zero. The other K - 1, called free, then have the prior precision
``(I - 11'/K) (x) P``. Two classes give logistic regression with the precision ``P/2``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.linalg

from fairspan.exceptions import NumericalWarning, warn_user
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes

__all__ = [
    "LEAST_CURVATURE",
    "Laplace",
    "RowCurvature",
    "ScoreBlock",
    "class_curvature",
    "fit_laplace",
    "moderate",
    "row_curvature",
    "softmax",
]


class RowCurvature(Protocol):
    """Covariances of psi with rows weighted by the curvature of the likelihood.

    Probabilities of the classes are ``shares + functions'(psi - mean)``.
    """

    def whole(self, mean: Array, functions: Array, shares: Array) -> Array:
        """Covariance over all rows, (D, D); shapes (D,), (D, classes), (classes,)."""

    def without_folds(self, means: Array, functions: Array, shares: Array) -> Array:
        """Covariances over the rows outside each fold, (folds, D, D); arguments have a row per fold."""


# Probabilities of least squares are not reliable below 5 and above 95 percent.
LEAST_CURVATURE = 2.0 * 0.05 * 0.95

# Newton's method converges quadratically: one more step from this decrement reaches rounding error.
_DECREMENT = 1e-5
_MAX_STEPS = 100
_MAX_HALVINGS = 40


@dataclass(frozen=True, kw_only=True)
class ScoreBlock:
    """A block of m rows, with one column per row, as the sums of Newton's method need them."""

    design: Array  # (1 + d, m): ones, then scores
    products: Array  # (pairs, m): design_i * design_j for i <= j
    counted: Array  # (K - 1, 1 + d): weighted sum of the design over the rows of each free class
    weight: Array | None  # (m,)

    @classmethod
    def of(cls, scores: Array, codes: Codes, weight: Array | None, n_classes: int) -> ScoreBlock:
        """Build a block from scores (m, d), class numbers (m,) and weights (m,)."""
        design = np.concatenate([np.ones((1, len(scores))), scores.T])
        first, second = np.triu_indices(len(design))
        indicators = (codes == np.arange(1, n_classes)[:, None]).astype(np.float64)
        indicators = indicators if weight is None else indicators * weight
        return cls(
            design=design,
            products=design[first] * design[second],
            counted=indicators @ design.T,
            weight=weight,
        )


@dataclass(frozen=True, kw_only=True)
class Laplace:
    """Laplace's approximation of the posterior of the K - 1 free latent functions."""

    coef: Array  # (d, K - 1), at the mode
    intercept: Array  # (K - 1,), at the mode
    cov: Array  # posterior covariance of (intercept_1, coef_1, intercept_2, ...)
    log_evidence: float | None  # None: not an approximation of a posterior
    n_steps: int  # of Newton's method

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.intercept) + 1

    def variance(self, scores: Array) -> Array:
        """Posterior variance (n,) of a class's latent minus the mean of the others, averaged over classes."""
        A = np.concatenate([np.ones((len(scores), 1)), scores], axis=1)
        return np.asarray(np.einsum("ni,ij,nj->n", A, self.variance_form, A, optimize=True))

    @property
    def variance_form(self) -> Array:
        """Matrix F of :meth:`variance`, which is ``a'Fa`` of ``a = (1, scores)``."""
        K, size = self.n_classes, 1 + len(self.coef)
        # f_k minus the mean of the others is K/(K-1) (f_k - mean of all). Its mean square over k is the
        # quadratic form (K/(K-1))^2 (I - 11'/K) / K in the free latents.
        form = (K / (K - 1)) ** 2 / K * _coupling(K)
        blocks = self.cov.reshape(K - 1, size, K - 1, size)
        return np.asarray(np.einsum("kl,kilj->ij", form, blocks))


def class_curvature(shares: Array) -> float:
    """Compute the curvature of the softmax likelihood, per class and row, at the class shares p (K,).

    ``(1 - sum p^2)/(K - 1)``: 1/K for balanced classes, 2 p (1 - p) for two classes. To second order,
    least squares on one-hot labels with penalty alpha is this likelihood with a prior precision of
    alpha times the curvature.
    """
    return float((1.0 - shares @ shares) / (len(shares) - 1))


def row_curvature(p: Array) -> Array:
    """Compute ``1 - sum p^2`` of the class probabilities p (n, K) of each row; ``2 p (1 - p)`` if K = 2.

    Up to a factor this is the curvature of the softmax likelihood, averaged over classes. p may come
    from least squares and lie outside [0, 1]; the result is at least that of a row at 95 percent.
    """
    return np.asarray(np.maximum(1.0 - np.einsum("ik,ik->i", p, p), LEAST_CURVATURE))


def fit_laplace(
    blocks: Callable[[], Iterable[ScoreBlock]], precision: Array, start: Array
) -> Laplace:
    """Fit Laplace's approximation by Newton's method, with one pass over the blocks per step.

    Parameters
    ----------
    blocks : callable
        Returns an iterable of all blocks; called once per pass.
    precision : ndarray of shape (d, d)
        P, prior precision of each class's coefficients.
    start : ndarray of shape (1 + d, K - 1)
        Intercepts and coefficients to start from.
    """
    K, d = start.shape[1] + 1, len(precision)
    class_prior = np.zeros((1 + d, 1 + d))
    class_prior[1:, 1:] = precision
    prior = np.asarray(np.kron(_coupling(K), class_prior), dtype=np.float64)
    theta, value, curvature, n_steps = _newton(blocks, start, prior)
    factor = _Factor(curvature)
    cov = factor.solve(np.eye(len(curvature)))
    # log Z = log p(y, mode) + log det(prior)/2 - log det(H)/2, plus log(2 pi)/2 for each flat intercept.
    # The prior is (I - 11'/K) (x) P, and det(I - 11'/K) = 1/K on the K - 1 free classes.
    evidence = value + 0.5 * (K - 1) * np.log(2.0 * np.pi) - 0.5 * factor.log_det
    if d:
        log_det = float(np.linalg.slogdet(precision)[1])
        evidence += 0.5 * ((K - 1) * log_det - d * np.log(K))
    return Laplace(
        coef=theta[1:],
        intercept=theta[0],
        cov=(cov + cov.T) / 2.0,
        log_evidence=float(evidence),
        n_steps=n_steps,
    )


def _newton(
    blocks: Callable[[], Iterable[ScoreBlock]], theta: Array, prior: Array
) -> tuple[Array, float, Array, int]:
    """Maximise the log posterior over theta (1 + d, K - 1): mode, value, curvature, number of steps."""
    K = theta.shape[1] + 1

    def log_posterior(theta: Array) -> float:
        flat = theta.T.ravel()
        value = sum(_probabilities(block, theta)[0] for block in blocks())
        return value - 0.5 * float(flat @ prior @ flat)

    def objective(theta: Array) -> tuple[float, Array, Array]:
        value, slope, curvature = _likelihood(blocks(), theta, K)
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
            warn_user(
                f"Newton's method for the labels stopped after {_MAX_STEPS} steps at a decrement of "
                f"{decrement:.2g}: the classes are nearly separated. Do not rely on probabilities near "
                f"0 and 1, or pass a larger `alpha`.",
                NumericalWarning,
            )
            return theta, value, curvature, n_steps
        n_steps += 1
        change, length = step.reshape(K - 1, -1).T, 1.0
        # Near the mode an increase is lost in rounding, so accept a value that is equal up to rounding.
        enough = value - 1e-12 * abs(value)
        # Only values are compared here, because the curvature is expensive.
        for _ in range(_MAX_HALVINGS):
            candidate = theta + length * change
            if log_posterior(candidate) >= enough:
                break
            length /= 2.0
        theta, (value, slope, curvature) = candidate, objective(candidate)


def moderate(latents: Array, variance: Array) -> Array:
    """Shrink latents (n, K) by their variance v (n,), ``f / (1 + pi v / 8)^1/2`` (MacKay 1992).

    All classes of a row have the same factor, so the most probable class stays the same.
    """
    return np.asarray(latents / np.sqrt(1.0 + np.pi / 8.0 * variance)[:, None])


def softmax(latents: Array) -> Array:
    """Compute the class probabilities of latents (n, K)."""
    out = np.exp(latents - latents.max(axis=1, keepdims=True))
    return np.asarray(out / out.sum(axis=1, keepdims=True))


def _coupling(n_classes: int) -> Array:
    """Return ``I - 11'/K`` on the K - 1 free classes: the precision that K independent priors give them."""
    return np.eye(n_classes - 1) - 1.0 / n_classes


def _likelihood(rows: Iterable[ScoreBlock], theta: Array, K: int) -> tuple[float, Array, Array]:
    """Compute the log likelihood, its gradient (1 + d, K - 1), and minus its Hessian."""
    size = len(theta)
    first, second = np.tril_indices(K - 1)
    value, slope = 0.0, np.zeros((K - 1, size))
    sums = np.zeros((len(first), size * (size + 1) // 2))
    for block in rows:
        log_likelihood, p = _probabilities(block, theta)
        pairs = zip(first, second, strict=True)
        second_derivatives = np.array([p[k] * (float(k == m) - p[m]) for k, m in pairs])
        if block.weight is not None:
            p, second_derivatives = p * block.weight, second_derivatives * block.weight
        value += log_likelihood
        slope += block.counted - p @ block.design.T
        sums += second_derivatives @ block.products.T
    curvature = np.empty((K - 1, K - 1, size, size))
    i, j = np.triu_indices(size)
    for k, m, entries in zip(first, second, sums, strict=True):
        curvature[k, m, i, j] = curvature[k, m, j, i] = entries
        curvature[m, k] = curvature[k, m]
    flat = curvature.transpose(0, 2, 1, 3).reshape((K - 1) * size, (K - 1) * size)
    return value, slope.T, flat


def _probabilities(block: ScoreBlock, theta: Array) -> tuple[float, Array]:
    """Compute the log likelihood of a block, and the probabilities of the free classes, (K - 1, m)."""
    free = theta.T @ block.design
    top = np.maximum(free.max(axis=0), 0.0)  # the latent of class 0 is 0
    p = np.exp(free - top)
    total = p.sum(axis=0) + np.exp(-top)
    p /= total
    logs = top + np.log(total)
    if block.weight is not None:
        logs = logs * block.weight
    return float((theta.T * block.counted).sum() - logs.sum()), p


class _Factor:
    """Factorised curvature, scaled to a unit diagonal so that the scale of the scores costs no digits."""

    def __init__(self, curvature: Array) -> None:
        self._scale = 1.0 / np.sqrt(np.maximum(np.diag(curvature), 1e-300))
        self._unit = curvature * self._scale[:, None] * self._scale
        try:
            self._cholesky = scipy.linalg.cho_factor(self._unit, lower=True)
        except np.linalg.LinAlgError:  # separated classes: the curvature is below rounding
            self._cholesky = None

    def solve(self, right: Array) -> Array:
        """Solve for a vector or for several columns."""
        right = (right.T * self._scale).T
        if self._cholesky is None:
            solution = scipy.linalg.lstsq(self._unit, right, cond=1e-12)[0]
        else:
            solution = scipy.linalg.cho_solve(self._cholesky, right)
        return np.asarray((solution.T * self._scale).T)

    @property
    def log_det(self) -> float:
        """Logarithm of the determinant's absolute value."""
        if self._cholesky is None:
            unit = float(np.linalg.slogdet(self._unit)[1])
        else:
            unit = 2.0 * float(np.log(np.diag(self._cholesky[0])).sum())
        return unit - 2.0 * float(np.log(self._scale).sum())
