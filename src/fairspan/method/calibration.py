"""From latents to probabilities that mean what they say, without moving any decision.

Least-squares directions make scores that are no exact log odds, and scores of training rows are too
sure of themselves. So the log odds of every class against the most probable one pass a monotone,
piecewise linear link that is fitted on held-out latents.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from fairspan.method.data import Codes
from fairspan.method.linalg import Array

__all__ = ["Link", "fit_link"]

_N_SEGMENTS = 5
# Pull of every slope to 1, and of neighbours to each other, in units of one row's log likelihood.
_PULL, _SMOOTH = 1.0, 10.0
_LEAST_SLOPE = 1e-3


@dataclass(frozen=True)
class Link:
    """``p_k ~ exp(-h_k(t_k))``, where ``t_k = max f - f_k`` and h_k rises from 0.

    h_k = 0 only for the most probable class, so the link never changes which one that is.
    """

    knots: Array  # (K, segments), ascending from 0: where each segment begins
    slopes: Array  # (K, segments), positive

    def probabilities(self, latents: Array) -> Array:
        """Probabilities of (n, K) latents."""
        gaps = latents.max(axis=1, keepdims=True) - latents
        rise = (_lengths(gaps, self.knots) * self.slopes).sum(axis=2)
        out = np.exp(-rise)
        return np.asarray(out / out.sum(axis=1, keepdims=True))


def fit_link(latents: Array, codes: Codes, weight: Array | None) -> Link:
    """The slopes of largest penalised likelihood: a convex problem in K * segments unknowns.

    Parameters
    ----------
    latents : ndarray of shape (n, K)
        Of rows that had no part in them.
    codes : ndarray of shape (n,)
        Class numbers.
    weight : ndarray of shape (n,), optional
    """
    n, K = latents.shape
    gaps = latents.max(axis=1, keepdims=True) - latents
    knots = np.stack([_quantiles(gaps[:, k]) for k in range(K)])
    lengths = _lengths(gaps, knots)  # (n, K, segments)
    w = np.ones(n) if weight is None else weight
    likelihood = _of_two(lengths, codes, w) if K == 2 else _of_many(lengths, codes, w)

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

    found = scipy.optimize.minimize(
        objective, np.ones(knots.size), jac=True, method="L-BFGS-B",
        bounds=[(_LEAST_SLOPE, None)] * knots.size, options={"maxiter": 500, "ftol": 1e-12},
    )  # fmt: skip
    return Link(knots, found.x.reshape(K, -1))


_Likelihood = Callable[[Array], tuple[float, Array]]


def _of_many(lengths: Array, codes: Codes, weight: Array) -> _Likelihood:
    """Minus the log likelihood of (K, segments) slopes, and its gradient."""
    n, K, _ = lengths.shape
    rows = np.arange(n)

    def likelihood(slopes: Array) -> tuple[float, Array]:
        rise = np.stack([lengths[:, k] @ slopes[k] for k in range(K)], axis=1)
        p = np.exp(-rise)
        total = p.sum(axis=1)  # at least 1: the largest latent has no gap
        value = float(weight @ (rise[rows, codes] + np.log(total)))
        pull = -p / total[:, None]
        pull[rows, codes] += 1.0
        pull *= weight[:, None]
        return value, np.stack([pull[:, k] @ lengths[:, k] for k in range(K)])

    return likelihood


def _of_two(lengths: Array, codes: Codes, weight: Array) -> _Likelihood:
    """The same for two classes, of which each row has a gap to one: a third of the work."""
    has_gap = np.any(lengths > 0.0, axis=2)
    parts = [
        (lengths[below, k], codes[below] == k, weight[below]) for k, below in enumerate(has_gap.T)
    ]
    tied = float(weight[~np.any(has_gap, axis=1)].sum())

    def likelihood(slopes: Array) -> tuple[float, Array]:
        value, gradient = tied * math.log(2.0), np.empty_like(slopes)
        for k, (inside, own, w) in enumerate(parts):
            rise = inside @ slopes[k]
            p = np.exp(-rise)
            value += float(w @ (rise * own + np.log1p(p)))
            gradient[k] = (w * (own - p / (1.0 + p))) @ inside
        return value, gradient

    return likelihood


def _quantiles(gaps: Array) -> Array:
    """Segments that hold equally many rows; fewer, and the rest empty, where gaps repeat."""
    seen = gaps[gaps > 0.0]
    if len(seen) == 0:
        return np.zeros(_N_SEGMENTS)
    inner = np.quantile(seen, np.arange(1, _N_SEGMENTS) / _N_SEGMENTS)
    return np.concatenate([[0.0], inner])


def _lengths(gaps: Array, knots: Array) -> Array:
    """How much of each gap lies in each segment, (n, K, segments); the last one has no end."""
    ends = np.concatenate([np.diff(knots, axis=1), np.full((len(knots), 1), np.inf)], axis=1)
    return np.clip(gaps[:, :, None] - knots, 0.0, ends)
