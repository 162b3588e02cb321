"""Evidence and posterior of the fair Gaussian process on d scores (METHOD 9).

The model is ``f(x) = b0 + Pi(x) b`` with a flat prior on b0, ``b ~ N(0, Lambda)`` and noise variance
s2 / w_i. All functions need only ``Mm = T E'Sig E``, ``b = T E'Cov(psi, y)``, ``v = T Var(y)`` and a
few sums. A *full* Lambda by maximum likelihood degenerates, see :func:`paper_em`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize

from fairspan.method.linalg import Array, Tridiagonal
from fairspan.method.sdr import ridge_grid

# With its default tolerances L-BFGS stops at the first small step: at a slope of 0.4 where a precision
# tends to infinity.
_TIGHT_TOLERANCES = {"ftol": 1e-14, "gtol": 1e-8, "maxiter": 1000}


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Sufficient statistics of the Gaussian likelihood on d scores, in the notation of METHOD 9."""

    gram: Array  # Mm, (d, d)
    cross: Array  # b, (d,)
    square: float  # v
    n: int  # number of rows
    weight: float  # T, sum of weights
    sum_log_weight: float


def log_evidence(
    stats: Evidence, prior_precision: Array, noise: float, *, gradient: bool = False
) -> tuple[float, Array | None]:
    """Compute the log marginal likelihood; with ``gradient``, also its gradient.

    ``-2 log p = (n-1) log(2 pi s2) + log T - sum log w + log det(I + Lambda Mm/s2)
    + (v - b'(Mm + s2 Lambda^-1)^-1 b)/s2``. The gradient has d + 1 elements, for the logarithms of the
    diagonal of a *diagonal* prior precision and of the noise.
    """
    if len(stats.gram) == 0:  # no scores: LAPACK does not accept matrices of size 0
        return _evidence_without_scores(stats, noise, gradient=gradient)
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


def _evidence_without_scores(
    stats: Evidence, noise: float, *, gradient: bool
) -> tuple[float, Array | None]:
    minus_two = (stats.n - 1) * np.log(2.0 * np.pi * noise) + stats.square / noise
    minus_two += np.log(stats.weight) - stats.sum_log_weight
    slope = np.array([-0.5 * ((stats.n - 1) - stats.square / noise)]) if gradient else None
    return -0.5 * float(minus_two), slope


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """Gaussian posterior of the coefficients b."""

    mean: Array  # (d,)
    cov: Array  # (d, d)


def posterior(stats: Evidence, prior_precision: Array, noise: float) -> Posterior:
    """Compute the posterior ``N((Mm + s2 Lambda^-1)^-1 b, (Mm/s2 + Lambda^-1)^-1)``."""
    if len(stats.gram) == 0:
        return Posterior(mean=np.zeros(0), cov=np.zeros((0, 0)))
    factor = scipy.linalg.cho_factor(stats.gram / noise + prior_precision, lower=True)
    cov = scipy.linalg.cho_solve(factor, np.eye(len(stats.gram)))
    mean = scipy.linalg.cho_solve(factor, stats.cross / noise)
    return Posterior(mean=mean, cov=(cov + cov.T) / 2.0)


@dataclass(frozen=True, kw_only=True)
class EvidenceRidge:
    """The ridge eta_y of largest evidence, see :func:`evidence_ridge`."""

    eta: float
    noise: Array  # (outputs,)
    minus_two: float  # -2 log evidence, up to a constant
    at_end: bool  # whether eta is at an end of the grid


def evidence_ridge(
    cov: Array, cross: Array, variance: Array, n: int, weight: float, *, deeper: float = 0.0
) -> EvidenceRidge:
    """Choose eta_y and s2 by the evidence of the unconstrained Gaussian process.

    With E = I and ``lam = T eta_y / s2`` the best noise for eta_y is
    ``s2 = (v - b'(Mm + T eta_y I)^-1 b)/(n-1)``, so the evidence is a function of eta_y alone.
    ``cross`` is (D, outputs) and ``variance`` (outputs,): the outputs are independent, share eta_y and
    have one noise variance each. ``deeper`` adds decades to the lower end of the grid.
    """
    tri = Tridiagonal.of(cov)
    spectrum = tri.eigenvalues()
    rotated = tri.rotate(cross)
    grid = ridge_grid(float(spectrum.sum()), deeper=deeper)
    minus_two, noises = np.empty(len(grid)), np.empty((len(grid), len(variance)))
    for i, eta in enumerate(grid):
        fitted = (rotated * tri.solve_rotated(rotated, eta)).sum(axis=0)
        # The fit may be exact up to rounding: a lower bound keeps log(s2) finite.
        unexplained = np.maximum(variance - fitted, 1e-12 * np.maximum(variance, 1e-300))
        noises[i] = weight * unexplained / (n - 1)
        minus_two[i] = (n - 1) * np.log(noises[i]).sum()
        minus_two[i] += len(variance) * np.log1p(spectrum / eta).sum()
    best = int(np.argmin(minus_two))
    return EvidenceRidge(
        eta=float(grid[best]),
        noise=noises[best],
        minus_two=float(minus_two[best]),
        at_end=best in (0, len(grid) - 1),
    )


def ard_prior(stats: Evidence, start: Array, noise: float) -> tuple[Array, float]:
    """Maximise the evidence over a diagonal prior precision (d,) and the noise, from given values."""

    def objective(theta: Array) -> tuple[float, Array]:
        value, slope = log_evidence(
            stats, np.diag(np.exp(theta[:-1])), float(np.exp(theta[-1])), gradient=True
        )
        assert slope is not None
        return -value, -slope

    best = _minimise_logs(objective, np.append(start, noise))
    return best[:-1], float(best[-1])


def evidence_noise(stats: Evidence, prior_precision: Array, start: float) -> float:
    """Maximise the evidence over the noise variance, for a given prior precision (d, d)."""

    def objective(theta: Array) -> tuple[float, Array]:
        value, slope = log_evidence(stats, prior_precision, float(np.exp(theta[0])), gradient=True)
        assert slope is not None
        return -value, -slope[-1:]

    return float(_minimise_logs(objective, np.array([start]))[0])


def _minimise_logs(objective: Callable[[Array], tuple[float, Array]], start: Array) -> Array:
    """Minimise a function of the logarithms of positive numbers, given with its gradient."""
    theta0 = np.log(start)
    # A precision may tend to infinity (a direction that is not needed); 1e12 times its start is enough.
    bounds = [(t - 28.0, t + 28.0) for t in theta0]
    result = scipy.optimize.minimize(
        objective, theta0, jac=True, method="L-BFGS-B", bounds=bounds, options=_TIGHT_TOLERANCES
    )
    return np.asarray(np.exp(result.x))


@dataclass(frozen=True, kw_only=True)
class PaperEM:
    """Result of the authors' EM, see :func:`paper_em`."""

    noise: float
    cov: Array  # V, (d, d): posterior covariance of the coefficients
    nlp: Array  # (n_steps,): negative log posterior per row after each step


def paper_em(stats: Evidence, target_mean: float, start_noise: float, n_steps: int = 20) -> PaperEM:
    """Run the authors' EM for a full Lambda; for reproduction only.

    The maximum over a full prior covariance degenerates. From the second step on the random effect is
    0 (their beta is 1e-16), the mean function is plain least squares, and the variance depends on
    stopping at 20 steps. Their n x n matrix G is needed only by its trace, so d x d matrices suffice.
    """
    d, n, gram = len(stats.gram), stats.n, stats.gram
    least_squares = scipy.linalg.solve(gram, stats.cross, assume_a="pos")
    residual = stats.square - float(stats.cross @ least_squares)
    noise, precision, trace_g = start_noise, np.zeros((d, d)), 0.0
    cross, square = (
        stats.cross,
        stats.square + n * target_mean**2,
    )  # in the first step r = y, not centred
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
        cross, square = np.zeros(d), residual  # then r = y - a - Pi alpha, orthogonal to the scores
    return PaperEM(noise=noise, cov=V, nlp=nlp)


def given_precision(prior: Any, d: int) -> Array:
    """Precision matrix of a prior that was given as d variances or a covariance."""
    try:
        covariance = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        msg = f"prior={prior!r} is not allowed; give 'isotropic', 'ard' or an array of numbers."
        raise ValueError(msg) from None
    if covariance.shape == (d,):
        covariance = np.diag(covariance)
    if covariance.shape != (d, d):
        raise ValueError(
            f"prior has shape {covariance.shape}; the model space has {d} functions: give ({d},) or "
            f"({d}, {d})."
        )
    try:
        factor = scipy.linalg.cho_factor((covariance + covariance.T) / 2.0, lower=True)
    except (np.linalg.LinAlgError, ValueError):  # not positive, not finite
        raise ValueError("prior is not a positive definite covariance matrix.") from None
    return np.asarray(scipy.linalg.cho_solve(factor, np.eye(d)))
