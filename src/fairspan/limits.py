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

# The search ends when no correlation is further from its limit than this.
_TOL = 1e-9
# Beyond its limit by more than this, a block is removed.
_OVER = 1e-6
# The same inside a search that needs it more exact than itself.
_TOL_INSIDE = 1e-12
_MAX_ROUNDS = 500
# Searches for a length, each with the proportions of cells that the last has found.
_MAX_SHAPES = 50
_SAME_LENGTH = 1e-9
_STEP = 0.1  # in the logarithm of a length
# Rounds without progress after which there will be none.
_PATIENCE = 25
# A limit below this is 0.
_REMOVED = 1e-6
# Logarithms of multipliers, in units of 1/|Delta_b|^2; beyond the last a block is as good as removed.
_LOG_RANGE = (-30.0, 28.0)
# A function this short, as a share of g, is rounding: what was there is gone.
_NOTHING = 1e-7


@dataclass(frozen=True)
class Limited:
    """The function of separate limits, in coordinates in which R is the identity."""

    function: Array  # (m,); zero where nothing of g is left
    multipliers: Array  # one per block; infinite where the block is projected out
    correlations: Array  # what it has with every block
    n_rounds: int


def keep_limits(
    g: Array, deltas: Sequence[Array], covs: Sequence[Array], limits: Sequence[float]
) -> Limited:
    """The function nearest to g whose multiple correlation with every block is within its limit.

    One multiplier after the other is set so that its own block just keeps its limit, or to 0 where
    the block keeps it anyway, until none moves: Gauss and Seidel's iteration on the conditions of
    Karush, Kuhn and Tucker. Every step changes the length of the function, and with it the limits of
    all others; where they therefore run in circles, the length is sought by itself, with a convex
    problem inside. Where no multipliers keep the limits (what predicts y is a function of the
    protected attributes alone), the blocks that are over theirs are projected out, with a warning: a
    function over a limit is never returned.

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
    blocks = range(len(deltas))
    removed = {b for b in blocks if limits[b] <= _REMOVED}
    over: list[int] = []
    n_rounds = 0
    while True:
        w, multipliers, rounds = _iterate(g, deltas, covs, limits, removed)
        n_rounds += rounds
        found = np.array([_correlation(g, w, covs[b], deltas[b]) for b in blocks])
        beyond = [b for b in blocks if b not in removed and found[b] > limits[b] + _OVER]
        if not beyond:
            break
        over += beyond
        removed |= set(beyond)
    if over:
        warn_user(
            f"The limits of {len(over)} blocks cannot be met by any mixture: what predicts y there is a "
            f"function of the protected attributes alone. These blocks are removed altogether.",
            NumericalWarning,
        )
    if np.linalg.norm(w) <= _NOTHING * np.linalg.norm(g):
        w, found = np.zeros(len(g)), np.zeros(len(deltas))
    return Limited(w, multipliers, found, n_rounds)


def _iterate(
    g: Array, deltas: Sequence[Array], covs: Sequence[Array], limits: Sequence[float],
    removed: set[int],
) -> tuple[Array, Array, int]:  # fmt: skip
    """Function, multipliers and rounds, with some blocks projected out: a limit of 0 has no multiplier."""
    Z = np.eye(len(g))
    if removed:
        codes = np.concatenate([deltas[b] for b in sorted(removed)], axis=1)
        Z = scipy.linalg.null_space(codes.T, rcond=1e-10)
    start = Z.T @ g
    free = [b for b, limit in enumerate(limits) if b not in removed and limit < 1.0]
    scale, outer = {}, {}
    for b in free:
        inside = deltas[b].T @ Z
        scale[b] = max(float(np.linalg.norm(inside, 2)) ** 2, 1e-300)
        outer[b] = inside.T @ inside / scale[b]
    mu = dict.fromkeys(free, 0.0)
    eye = np.eye(Z.shape[1])

    def function(A: Array) -> Array:
        if len(start) == 0:
            return np.zeros(len(g))
        return np.asarray(Z @ scipy.linalg.solve(A, start, assume_a="pos", check_finite=False))

    def settle(over: Callable[[int, Array], float], tol: float) -> tuple[Array, float, int]:
        """Gauss and Seidel on ``over``, what a block has beyond its limit; begins where mu is."""

        def excess_of(b: int) -> Callable[[float], float]:
            others = eye + sum((mu[c] * outer[c] for c in free if c != b), np.zeros_like(eye))
            return lambda value: over(b, function(others + value * outer[b]))

        w, worst, rounds, best, since = function(eye), np.inf, 0, np.inf, 0
        while rounds < _MAX_ROUNDS and since < _PATIENCE:
            rounds += 1
            for b in free:
                mu[b] = _smallest(excess_of(b), mu[b])
            w = function(eye + sum((mu[b] * outer[b] for b in free), np.zeros_like(eye)))
            worst = max(_violation(over(b, w), mu[b]) for b in free)
            if worst <= tol:
                break
            best, since = (worst, 0) if worst < 0.9 * best else (best, since + 1)
        return w, worst, rounds

    def over_limit(b: int, w: Array) -> float:
        return _correlation(g, w, covs[b], deltas[b]) - limits[b]

    w, rounds = function(eye), 0
    if free:
        w, worst, rounds = settle(over_limit, _TOL)
        if worst > _TOL:
            circled = w, mu.copy()
            mu.update(dict.fromkeys(free, 0.0))
            w, more = _at_own_length(function(eye), free, deltas, covs, limits, settle)
            rounds += more
            if max(over_limit(b, w) for b in free) > max(over_limit(b, circled[0]) for b in free):
                w, mu = circled
    multipliers = np.array(
        [np.inf if b in removed else mu.get(b, 0.0) / scale.get(b, 1.0) for b in range(len(deltas))]
    )
    return w, multipliers, rounds


def _at_own_length(
    start: Array, free: Sequence[int], deltas: Sequence[Array], covs: Sequence[Array],
    limits: Sequence[float], settle: Callable[..., tuple[Array, float, int]],
) -> tuple[Array, int]:  # fmt: skip
    """The function whose limits on covariances are those on correlations at the length it has.

    At a given length the problem is convex and has one solution, which is shorter than a great
    length and longer than none: in between is one that has the length it was given. Each cell
    measures length by itself; what they are to each other is taken from the last function.
    """
    rounds = 0

    def lengths(w: Array) -> Array:
        return np.array([np.sqrt(max(float(w @ covs[b] @ w), 0.0)) for b in free])

    def at(given: Array) -> Array:
        nonlocal rounds
        own: dict[int, float] = dict(zip(free, given.tolist(), strict=True))

        def over(b: int, w: Array) -> float:
            return float(np.linalg.norm(deltas[b].T @ w)) / own[b] - limits[b]

        w, _, more = settle(over, _TOL_INSIDE)
        rounds += more
        return w

    w = start
    if not lengths(w).all():
        return w, rounds
    # No function here is longer than the one it began as.
    longest = float(np.linalg.norm(start) * np.sqrt(np.linalg.norm(covs[free[0]], 2)))
    for _ in range(_MAX_SHAPES):
        shape = lengths(w)

        def longer(t: float, shape: Array = shape) -> float:
            found = at(np.exp(t) * shape)
            return float(lengths(found)[0] / shape[0] - np.exp(t))

        # Of several lengths the greatest, which gives up least: from above, step by step.
        below = float(np.log(longest / shape[0]))
        above = below + _STEP
        while longer(below) <= 0.0 and below > np.log(_NOTHING):
            below, above = below - _STEP, below
        if below <= np.log(_NOTHING):
            break
        t = float(scipy.optimize.brentq(longer, below, above, xtol=1e-13, rtol=1e-14))
        w = at(np.exp(t) * shape)
        if np.allclose(lengths(w), np.exp(t) * shape, rtol=_SAME_LENGTH, atol=0.0):
            break
    return w, rounds


def _correlation(g: Array, w: Array, cov: Array, delta: Array) -> float:
    """Multiple correlation with a block; 1 for a function that is all but gone, whose own is rounding."""
    if not delta.size or not w.any():
        return 0.0
    if np.linalg.norm(w) <= _NOTHING * np.linalg.norm(g):
        return 1.0
    return multiple_correlation(cov, delta, w[:, None])


def _violation(above: float, multiplier: float) -> float:
    """A limit is kept, and met where its multiplier works."""
    return abs(above) if multiplier > 0.0 else max(above, 0.0)


def _smallest(excess: Callable[[float], float], last: float) -> float:
    """The smallest multiplier at which the block keeps its limit; sought near the last one first."""
    if excess(0.0) <= 0.0:
        return 0.0
    low, high = _LOG_RANGE

    def by_log(t: float) -> float:
        return excess(float(np.exp(t)))

    near = np.log(last) if last > 0.0 else 0.0
    if low < near - 1.0 and near + 1.0 < high and by_log(near - 1.0) > 0.0 >= by_log(near + 1.0):
        low, high = near - 1.0, near + 1.0
    elif by_log(low) <= 0.0:
        return float(np.exp(low))
    elif by_log(high) > 0.0:
        return float(np.exp(high))
    return float(np.exp(scipy.optimize.brentq(by_log, low, high, xtol=1e-13, rtol=1e-14)))
