"""A limit of its own for every protected attribute (METHOD 6): pure functions.

On the line from the unconstrained function g to its fair projection all attributes give way together.
With separate limits on the covariances, ``|Delta_b'w| <= t_b`` for every block b, the least-squares
optimum has one multiplier per block,

    w = (R + sum_b mu_b Delta_b Delta_b')^-1 R g,   mu_b >= 0,   mu_b = 0 where b keeps its limit,

so it lies in ``g - R^-1 N lambda``: a problem of a few dimensions, on the same moments. Limits on
correlations are limits on covariances at the length that the solution has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize

from fairspan._linalg import Array
from fairspan.exceptions import NumericalWarning, warn_user
from fairspan.heads import multiple_correlation

__all__ = ["Limited", "keep_limits"]

# A limit is kept when the correlation exceeds it by no more than this.
_TOL = 1e-9
_MAX_ROUNDS = 500
# A limit below this is 0.
_REMOVED = 1e-6
# Multipliers in units of 1/|Delta_b|^2; beyond the last one a block is as good as removed.
_LOG_RANGE = (-30.0, 28.0)
# What is left of g, as a share, before nothing is left.
_NOTHING = 1e-7


@dataclass(frozen=True)
class Limited:
    """The function of separate limits, in coordinates in which R is the identity."""

    function: Array  # (m,); zero where nothing of g is left
    multipliers: Array  # one per block
    correlations: Array  # what it has with every block
    n_rounds: int


def keep_limits(
    g: Array, deltas: Sequence[Array], covs: Sequence[Array], limits: Sequence[float]
) -> Limited:
    """Cheapest function whose multiple correlation with every block is within the block's limit.

    One multiplier after the other is set so that its own block just keeps its limit, or to 0 where
    the block keeps it anyway, until none moves: Gauss and Seidel's iteration on the conditions of
    Karush, Kuhn and Tucker.

    Parameters
    ----------
    g : ndarray of shape (m,)
        The unconstrained function.
    deltas : sequence of ndarray of shape (m, r_b)
        Covariances of the basis with the whitened codes of each block.
    covs : sequence of ndarray of shape (m, m)
        Covariance of the basis in the cell of each block.
    limits : sequence of float
        Largest multiple correlation with each block; 0 removes it.
    """
    # A limit of 0 has no finite multiplier: these blocks are projected out.
    removed = [d for d, limit in zip(deltas, limits, strict=True) if limit <= _REMOVED]
    Z = np.eye(len(g))
    if removed:
        Z = scipy.linalg.null_space(np.concatenate(removed, axis=1).T, rcond=1e-10)
    inside = [d.T @ Z for d in deltas]  # (r_b, m')
    scale = np.array([max(float(np.linalg.norm(q, 2)) ** 2, 1e-300) for q in inside])
    free = [b for b, limit in enumerate(limits) if _REMOVED < limit < 1.0]
    mu = np.zeros(len(deltas))

    def function(mu: Array) -> Array:
        A = np.eye(Z.shape[1])
        for b in free:
            A += mu[b] / scale[b] * inside[b].T @ inside[b]
        return np.asarray(Z @ scipy.linalg.solve(A, Z.T @ g, assume_a="pos"))

    def correlation(b: int, w: Array) -> float:
        if np.linalg.norm(w) <= _NOTHING * np.linalg.norm(g):
            return 0.0
        return multiple_correlation(covs[b], deltas[b], w[:, None])

    def excess_of(b: int) -> Callable[[float], float]:
        def excess(value: float) -> float:
            trial = mu.copy()
            trial[b] = value
            return correlation(b, function(trial)) - limits[b]

        return excess

    n_rounds, excess = 0, np.inf
    while n_rounds < _MAX_ROUNDS:
        n_rounds += 1
        for b in free:
            mu[b] = _smallest(excess_of(b))
        w = function(mu)
        found = np.array([correlation(b, w) for b in range(len(deltas))])
        excess = max((_violation(found[b] - limits[b], mu[b]) for b in free), default=0.0)
        if excess <= _TOL:
            break
    if excess > _TOL:
        warn_user(
            f"The limits on correlations are kept up to {excess:.2g} only, after {_MAX_ROUNDS} rounds.",
            NumericalWarning,
        )
    if np.linalg.norm(w) <= _NOTHING * np.linalg.norm(g):
        w = np.zeros(len(g))
    return Limited(w, mu / scale, found, n_rounds)


def _violation(above: float, multiplier: float) -> float:
    """A limit is kept, and met where its multiplier works."""
    return abs(above) if multiplier > 0.0 else max(above, 0.0)


def _smallest(excess: Callable[[float], float]) -> float:
    """The smallest multiplier at which the block keeps its limit."""
    if excess(0.0) <= 0.0:
        return 0.0
    low, high = _LOG_RANGE

    def by_log(t: float) -> float:
        return excess(float(np.exp(t)))

    if by_log(low) <= 0.0:
        return float(np.exp(low))
    if by_log(high) > 0.0:
        return float(np.exp(high))
    return float(np.exp(scipy.optimize.brentq(by_log, low, high, xtol=1e-13, rtol=1e-14)))
