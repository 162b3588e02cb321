"""The fair Gaussian process in the model basis: evidence and posterior, pure functions (METHOD 9).

``f(x) = b0 + Pi(x) b``, flat prior on b0, ``b ~ N(0, Lambda)``, noise variance s2 / w_i. Everything
below needs only ``Mm = T E'Sig E``, ``b = T E'Cov(psi, y)``, ``v = T Var(y)`` and a few sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize

from fairspan.method.linalg import Array, Tridiagonal
from fairspan.method.sdr import ridge_grid

__all__ = [
    "Evidence",
    "PaperEM",
    "Posterior",
    "ard_prior",
    "evidence_noise",
    "evidence_ridge",
    "log_evidence",
    "paper_em",
    "posterior",
]


# By its default L-BFGS stops at the first small step, on a slope of 0.4 where a precision runs off.
_TIGHT = {"ftol": 1e-14, "gtol": 1e-8, "maxiter": 1000}


@dataclass(frozen=True)
class Evidence:
    """Sufficient statistics of the Gaussian likelihood on d scores."""

    gram: Array  # Mm, (d, d)
    cross: Array  # b, (d,)
    square: float  # v
    n: int
    weight: float  # T
    sum_log_weight: float


def log_evidence(
    stats: Evidence, prior_precision: Array, noise: float, *, gradient: bool = False
) -> tuple[float, Array | None]:
    """Log marginal likelihood, and its gradient in ``(log diag(precision), log noise)``.

    ``-2 log p = (n-1) log(2 pi s2) + log T - sum log w + log det(I + Lambda Mm/s2)
    + (v - b'(Mm + s2 Lambda^-1)^-1 b)/s2``. The gradient is for a *diagonal* prior precision.
    """
    if len(stats.gram) == 0:  # nothing left to predict by: LAPACK refuses matrices of size 0
        return _flat_evidence(stats, noise, gradient=gradient)
    A = stats.gram / noise + prior_precision
    factor = scipy.linalg.cholesky(A, lower=True)
    prior_factor = scipy.linalg.cholesky(prior_precision, lower=True)
    half = scipy.linalg.solve_triangular(factor, stats.cross / noise, lower=True)
    log_det = 2.0 * float(np.log(np.diag(factor)).sum() - np.log(np.diag(prior_factor)).sum())
    quad = stats.square / noise - float(half @ half)
    minus_two = (
        (stats.n - 1) * np.log(2.0 * np.pi * noise)
        + np.log(stats.weight)
        - stats.sum_log_weight
        + log_det
        + quad
    )
    value = -0.5 * float(minus_two)
    if not gradient:
        return value, None
    mean = scipy.linalg.solve_triangular(factor, half, lower=True, trans="T")
    inverse = scipy.linalg.cho_solve((factor, True), np.eye(len(A)))
    p = np.diag(prior_precision)
    # d/dlog p_j of (log det A - log det P) and of -b'A^-1 b / s2^2, which is +p_j mean_j^2.
    d_precision = p * np.diag(inverse) - 1.0 + p * mean**2
    residual = stats.square - 2.0 * mean @ stats.cross + mean @ stats.gram @ mean
    d_noise = (stats.n - 1) - float((inverse * stats.gram).sum()) / noise - residual / noise
    return value, -0.5 * np.append(d_precision, d_noise)


def _flat_evidence(stats: Evidence, noise: float, *, gradient: bool) -> tuple[float, Array | None]:
    minus_two = (stats.n - 1) * np.log(2.0 * np.pi * noise) + stats.square / noise
    minus_two += np.log(stats.weight) - stats.sum_log_weight
    slope = np.array([-0.5 * ((stats.n - 1) - stats.square / noise)]) if gradient else None
    return -0.5 * float(minus_two), slope


@dataclass(frozen=True)
class Posterior:
    """Coefficients b given the data: mean and covariance."""

    mean: Array
    cov: Array


def posterior(stats: Evidence, prior_precision: Array, noise: float) -> Posterior:
    """``N((Mm + s2 Lambda^-1)^-1 b, (Mm/s2 + Lambda^-1)^-1)``."""
    if len(stats.gram) == 0:
        return Posterior(np.zeros(0), np.zeros((0, 0)))
    factor = scipy.linalg.cho_factor(stats.gram / noise + prior_precision, lower=True)
    cov = scipy.linalg.cho_solve(factor, np.eye(len(stats.gram)))
    return Posterior(scipy.linalg.cho_solve(factor, stats.cross / noise), (cov + cov.T) / 2.0)


@dataclass(frozen=True)
class EvidenceRidge:
    """eta_y, the noise of each output, and -2 log evidence up to a constant."""

    eta: float
    noise: Array
    minus_two: float
    at_end: bool


def evidence_ridge(
    cov: Array, cross: Array, variance: Array, n: int, weight: float, *, deeper: float = 0.0
) -> EvidenceRidge:
    """eta_y and s2 by evidence of the unconstrained GP.

    ``cross`` is (D, outputs) and ``variance`` (outputs,): independent outputs share eta_y and have a
    noise each.
    With E = I and ``lam = T eta_y / s2`` the noise has a closed form,
    ``s2 = (v - b'(Mm + T eta_y I)^-1 b)/(n-1)``, so the evidence is a function of eta_y alone.
    """
    tri = Tridiagonal.of(cov)
    spectrum = tri.eigenvalues()
    rotated = tri.rotate(cross)
    grid = ridge_grid(float(spectrum.sum()), deeper=deeper)
    minus_two, noises = np.empty(len(grid)), np.empty((len(grid), len(variance)))
    for i, eta in enumerate(grid):
        fitted = (rotated * tri.solve_rotated(rotated, eta)).sum(axis=0)
        # y may be fitted to rounding: a floor keeps log(s2) finite.
        left = np.maximum(variance - fitted, 1e-12 * np.maximum(variance, 1e-300))
        noises[i] = weight * left / (n - 1)
        minus_two[i] = (n - 1) * np.log(noises[i]).sum()
        minus_two[i] += len(variance) * np.log1p(spectrum / eta).sum()
    best = int(np.argmin(minus_two))
    at_end = best in (0, len(grid) - 1)
    return EvidenceRidge(float(grid[best]), noises[best], float(minus_two[best]), at_end)


def ard_prior(stats: Evidence, start: Array, noise: float) -> tuple[Array, float]:
    """Diagonal prior precision and noise that maximise the evidence (L-BFGS from ``start``)."""

    def objective(theta: Array) -> tuple[float, Array]:
        value, slope = log_evidence(
            stats, np.diag(np.exp(theta[:-1])), float(np.exp(theta[-1])), gradient=True
        )
        assert slope is not None
        return -value, -slope

    theta0 = np.log(np.append(start, noise))
    # A precision may run off to infinity (the direction is not needed); 1e12 times its start is off.
    bounds = [(t - 28.0, t + 28.0) for t in theta0]
    found = scipy.optimize.minimize(
        objective, theta0, jac=True, method="L-BFGS-B", bounds=bounds, options=_TIGHT
    )
    return np.exp(found.x[:-1]), float(np.exp(found.x[-1]))


def evidence_noise(stats: Evidence, prior_precision: Array, start: float) -> float:
    """Noise variance that maximises the evidence under a given prior."""

    def objective(theta: Array) -> tuple[float, Array]:
        value, slope = log_evidence(stats, prior_precision, float(np.exp(theta[0])), gradient=True)
        assert slope is not None
        return -value, -slope[-1:]

    theta0 = np.log([start])
    bounds = [(theta0[0] - 28.0, theta0[0] + 28.0)]
    found = scipy.optimize.minimize(
        objective, theta0, jac=True, method="L-BFGS-B", bounds=bounds, options=_TIGHT
    )
    return float(np.exp(found.x[0]))


@dataclass(frozen=True)
class PaperEM:
    """What the authors' EM ends with after its 20 steps; see :func:`paper_em`."""

    noise: float
    cov: Array  # V
    nlp: Array  # one per step


def paper_em(stats: Evidence, target_mean: float, start_noise: float, n_steps: int = 20) -> PaperEM:
    """The authors' EM for a full Lambda, for reproduction only.

    It maximises over a full prior covariance, which degenerates: from the second step on the random
    effect is 0, the mean function is least squares, and the variance depends on stopping at 20 steps.
    Their n x n matrix G enters through its trace alone, so d x d algebra reproduces every number.
    """
    d, n, gram = len(stats.gram), stats.n, stats.gram
    least_squares = scipy.linalg.solve(gram, stats.cross, assume_a="pos")
    residual = stats.square - float(stats.cross @ least_squares)
    noise, precision, trace_g = start_noise, np.zeros((d, d)), 0.0
    cross, square = stats.cross, stats.square + n * target_mean**2  # first r = y, not centred
    nlp = np.empty(n_steps)
    for step in range(n_steps):
        V = scipy.linalg.inv(gram / noise + precision)
        b = V @ cross / noise
        B = np.outer(b, b) + V
        t2 = square - 2.0 * float(b @ cross) + float(b @ gram @ b)
        noise = noise + (t2 - noise**2 * trace_g) / n
        precision = scipy.linalg.inv(B)
        root = scipy.linalg.cholesky(B, lower=True)
        spectrum = scipy.linalg.eigvalsh(root.T @ gram @ root)
        trace_g = (n - d) / noise + float((1.0 / (noise + spectrum)).sum())
        nlp[step] = (
            (n + d) * np.log(2.0 * np.pi)
            + 2.0 * np.log(np.diag(root)).sum()
            + n * np.log(noise)
            + float(b @ precision @ b)
            + t2 / noise
        ) / (2.0 * n)
        cross, square = np.zeros(d), residual  # r = y - a - Pi alpha: orthogonal to the scores
    return PaperEM(noise, V, nlp)
