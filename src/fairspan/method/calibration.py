"""Calibration: a link from latents to probabilities that does not change the predicted class.

Scores of least-squares directions are not exact log odds, and on training rows they are too extreme. So
a monotone, piecewise linear link is fitted on held-out latents. It maps the log odds of every class
against the most probable one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.optimize
import scipy.special

from fairspan.method.linalg import Array
from fairspan.method.problem import Codes

_N_SEGMENTS = 5
# Penalties on (slope - 1)^2 and on squared differences of neighbouring slopes, in units of one row's log
# likelihood.
_PULL, _SMOOTH = 1.0, 10.0
_LEAST_SLOPE = 1e-3


@dataclass(frozen=True)
class Link:
    """Probabilities ``p_k ~ exp(-h_k(t_k))`` of the gaps ``t_k = max f - f_k``, with h_k rising from 0.

    h_k is 0 only for the class with the largest latent, so this class stays the most probable one.
    """

    knots: Array  # (K, segments): start of each segment, ascending from 0
    slopes: Array  # (K, segments): slope of h_k in each segment, positive

    def probabilities(self, latents: Array) -> Array:
        """Compute the class probabilities of latents (n, K)."""
        gaps = latents.max(axis=1, keepdims=True) - latents
        rise = (_lengths(gaps, self.knots) * self.slopes).sum(axis=2)
        out = np.exp(-rise)
        return np.asarray(out / out.sum(axis=1, keepdims=True))


def fit_link(latents: Array, codes: Codes, weight: Array | None) -> Link:
    """Fit the slopes by penalised maximum likelihood, a convex problem in K * segments unknowns.

    Parameters
    ----------
    latents : ndarray of shape (n, K)
        Latents from functions g_k that were fitted without the row; the coefficients of the head use
        all rows.
    codes : ndarray of shape (n,)
        Class numbers.
    weight : ndarray of shape (n,), optional
    """
    n, K = latents.shape
    gaps = latents.max(axis=1, keepdims=True) - latents
    knots = np.stack([_quantiles(gaps[:, k]) for k in range(K)])
    lengths = _lengths(gaps, knots)  # (n, K, segments)
    w = np.ones(n) if weight is None else weight
    make = _likelihood_of_two_classes if K == 2 else _likelihood_of_classes
    likelihood = make(lengths, codes, w)

    def objective(slopes: Array) -> tuple[float, Array]:
        s = slopes.reshape(K, -1)
        value, slope = likelihood(s)
        steps = np.diff(s, axis=1)
        value += 0.5 * _PULL * float(((s - 1.0) ** 2).sum())
        value += 0.5 * _SMOOTH * float((steps**2).sum())
        slope += _PULL * (s - 1.0)
        slope[:, 1:] += _SMOOTH * steps
        slope[:, :-1] -= _SMOOTH * steps
        return value, slope.ravel()

    bounds, options = [(_LEAST_SLOPE, None)] * knots.size, {"maxiter": 500, "ftol": 1e-12}
    result = scipy.optimize.minimize(
        objective, np.ones(knots.size), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return Link(knots, result.x.reshape(K, -1))


_Likelihood = Callable[[Array], tuple[float, Array]]


def _likelihood_of_classes(lengths: Array, codes: Codes, weight: Array) -> _Likelihood:
    """Return minus the log likelihood of slopes (K, segments), as a function with its gradient."""
    n, K, _ = lengths.shape
    rows = np.arange(n)

    def likelihood(slopes: Array) -> tuple[float, Array]:
        rise = np.stack([lengths[:, k] @ slopes[k] for k in range(K)], axis=1)
        p = np.exp(-rise)
        total = p.sum(axis=1)  # at least 1, because the gap of the largest latent is 0
        value = float(weight @ (rise[rows, codes] + np.log(total)))
        pull = -p / total[:, None]
        pull[rows, codes] += 1.0
        pull *= weight[:, None]
        return value, np.stack([pull[:, k] @ lengths[:, k] for k in range(K)])

    return likelihood


def _likelihood_of_two_classes(lengths: Array, codes: Codes, weight: Array) -> _Likelihood:
    """Return the same for two classes in a third of the time: each row has only one positive gap."""
    has_gap = np.any(lengths > 0.0, axis=2)
    parts = [
        (lengths[below, k], codes[below] == k, weight[below]) for k, below in enumerate(has_gap.T)
    ]
    tied = float(weight[~np.any(has_gap, axis=1)].sum())

    def likelihood(slopes: Array) -> tuple[float, Array]:
        value, gradient = tied * math.log(2.0), np.empty_like(slopes)
        for k, (inside, is_k, w) in enumerate(parts):
            rise = inside @ slopes[k]
            p = np.exp(-rise)
            value += float(w @ (rise * is_k + np.log1p(p)))
            gradient[k] = (w * (is_k - p / (1.0 + p))) @ inside
        return value, gradient

    return likelihood


def _quantiles(gaps: Array) -> Array:
    """Return the knots of segments with equally many positive gaps; equal gaps make segments empty."""
    positive = gaps[gaps > 0.0]
    if len(positive) == 0:
        return np.zeros(_N_SEGMENTS)
    inner = np.quantile(positive, np.arange(1, _N_SEGMENTS) / _N_SEGMENTS)
    return np.concatenate([[0.0], inner])


def _lengths(gaps: Array, knots: Array) -> Array:
    """Compute the length of each gap in each segment, (n, K, segments); the last segment has no end."""
    ends = np.concatenate([np.diff(knots, axis=1), np.full((len(knots), 1), np.inf)], axis=1)
    return np.clip(gaps[:, :, None] - knots, 0.0, ends)


def one_slope(
    latents: Array, codes: Codes, weight: Array | None, shares: Array
) -> tuple[float, Array]:
    """Softmax regression with one slope of at least 0 for all classes, and intercepts that sum to 0."""
    w = np.ones(len(codes)) if weight is None else weight
    scale = max(float(latents.std()), 1e-300)
    hot = codes[:, None] == np.arange(latents.shape[1])

    def loss(theta: Array) -> tuple[float, Array]:
        f = theta[0] / scale * latents + theta[1:]
        log_p = f - scipy.special.logsumexp(f, axis=1, keepdims=True)
        pull = (np.exp(log_p) - hot) * (w / w.sum())[:, None]
        slope = float(np.sum(pull * latents)) / scale
        return -float((w / w.sum()) @ log_p[hot]), np.concatenate([[slope], pull.sum(axis=0)])

    start = np.concatenate([[0.0], np.log(shares)])
    bounds = [(0.0, None)] + [(None, None)] * len(shares)
    found = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return float(found.x[0]) / scale, found.x[1:] - found.x[1:].mean()
