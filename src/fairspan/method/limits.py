"""Separate limits on the correlation with each protected attribute (METHOD 6).

In coordinates in which the metric R is the identity, the penalised squared error of a function w is a
constant plus ``|w - g|^2``, where g is the unconstrained function. A block b (an attribute in a cell)
limits the multiple correlation to v_b, ``|Delta_b'w| <= v_b sqrt(w'Sig_b w)``, which is

    w'Q_b w <= 0,   Q_b = Delta_b Delta_b' / v_b^2 - Sig_b.

Q_b is indefinite, so the problem is not convex, but its dual is. For ``nu >= 0`` such that
``H = I + sum_b nu_b Q_b`` is positive definite, every function w within the limits satisfies

    |w - g|^2 >= |w - g|^2 + sum_b nu_b w'Q_b w >= |g|^2 - g'H^-1 g.

If ``w = H^-1 g`` is within the limits and ``nu_b w'Q_b w = 0`` for all b, both sides are equal, and no
function within the limits has a lower error. Without a ridge penalty and in one cell, such nu exist if a
part of g is uncorrelated with the limited attributes. With a ridge penalty or several cells they
nearly always exist, but not always (technical note, section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.linalg
import scipy.optimize

from fairspan.exceptions import NumericalWarning, warn_user
from fairspan.method.linalg import Array
from fairspan.method.subspaces import multiple_correlation

# A limit up to this is treated as 0, because rounding in Q_b would hide Sig_b.
_ZERO_LIMIT = 1e-6
# Largest excess over a limit, and largest gap (as a share of |g|^2), that is counted as rounding.
_EXACT = 1e-9
# Warn of a gap above this.
_WARN_GAP = 1e-6
# A function shorter than this share of |g| is rounding: only the zero function is within the limits.
_NOTHING = 1e-7
# Weights of the barrier log det H, as shares of |g|^2. They keep the first steps away from a singular H.
_BARRIERS = (1e-2, 1e-5, 0.0)
_MAX_STEPS = 100
_SMALLEST_STEP = 1e-6
_RESIDUAL = 1e-14


@dataclass(frozen=True, kw_only=True)
class Limited:
    """The function within separate limits, in coordinates in which R is the identity."""

    function: Array  # (m,); zero if only the zero function is within the limits
    multipliers: Array  # (blocks,): nu_b / v_b^2 of the lower bound; infinite for a limit of 0
    correlations: Array  # (blocks,): multiple correlation of the function with each block
    gap: float  # squared distance to g, at the best scale, minus its lower bound; a share of |g|^2


def keep_limits(
    g: Array, deltas: Sequence[Array], covs: Sequence[Array], limits: Sequence[float]
) -> Limited:
    """Find the function nearest to g whose multiple correlation with every block is within its limit.

    ``gap`` is 0 up to rounding if the multipliers prove that no function within the limits is nearer
    to g. Otherwise the function is that of a local search, ``gap`` bounds how much nearer another one
    could be, and a warning is given. The function is within the limits in both cases.

    Parameters
    ----------
    g : ndarray of shape (m,)
        The unconstrained function.
    deltas : sequence of ndarray of shape (m, r_b)
        Covariances of the basis with the whitened codes of each block.
    covs : sequence of ndarray of shape (m, m)
        Covariance of the basis in the cell of each block.
    limits : sequence of float
        Largest multiple correlation with each block: 0 removes the block, 1 is no limit.
    """
    v = np.asarray(limits, dtype=np.float64)
    multipliers = np.where(v <= _ZERO_LIMIT, np.inf, 0.0)
    # For limits of 0, restrict the problem to functions that are uncorrelated with their blocks.
    Z = _uncorrelated(
        [d for d, limit in zip(deltas, v, strict=True) if limit <= _ZERO_LIMIT], len(g)
    )
    bounded = [b for b in range(len(v)) if _ZERO_LIMIT < v[b] < 1.0 and deltas[b].size]
    w, gap, start = np.zeros(len(g)), 0.0, Z.T @ g
    if np.linalg.norm(start) > _NOTHING * np.linalg.norm(g):
        codes = [Z.T @ deltas[b] / v[b] for b in bounded]
        inside = [Z.T @ covs[b] @ Z for b in bounded]
        nearest, nu, gap = _nearest(start, codes, inside, v[bounded])
        gap *= float(start @ start) / float(g @ g)
        multipliers[bounded] = nu / v[bounded] ** 2
        w = Z @ nearest
    if np.linalg.norm(w) <= _NOTHING * np.linalg.norm(g):
        w = np.zeros(len(g))
    if gap > _WARN_GAP:
        warn_user(
            f"The limits on correlations are kept, but another model within them could be more accurate, "
            f"by at most {100.0 * gap:.2g} % of what the unconstrained model explains. Looser limits, a "
            f"smaller `alpha` or a richer kernel avoid this.",
            NumericalWarning,
        )
    pairs = zip(covs, deltas, strict=True)
    reached = np.array([multiple_correlation(cov, delta, w[:, None]) for cov, delta in pairs])
    return Limited(function=w, multipliers=multipliers, correlations=reached, gap=gap)


def _uncorrelated(deltas: list[Array], m: int) -> Array:
    """Compute an orthonormal basis of the functions that are uncorrelated with the codes of some blocks."""
    if not deltas:
        return np.eye(m)
    codes = np.concatenate(deltas, axis=1)
    return np.asarray(scipy.linalg.null_space(codes.T, rcond=1e-10))


def _nearest(
    g: Array, codes: list[Array], covs: list[Array], limits: Array
) -> tuple[Array, Array, float]:
    """Compute function, multipliers nu and gap for positive limits; ``codes`` are ``Delta_b / v_b``."""
    if not codes:
        return g, np.zeros(0), 0.0
    Q = np.stack([code @ code.T - cov for code, cov in zip(codes, covs, strict=True)])
    spread = np.array([np.linalg.norm(cov, 2) for cov in covs])
    # Start with multipliers proportional to the limits, as for small limits; H is positive definite.
    nu = 0.5 * limits / (len(Q) * np.where(spread > 0.0, spread, 1.0))
    w, total = g, float(g @ g)
    for barrier in _BARRIERS:  # maximise the lower bound |g|^2 - g'H^-1 g
        w, nu = _newton(g, Q, nu, barrier * total)
    if np.linalg.norm(w) <= _NOTHING * np.linalg.norm(g):
        return w, nu, 0.0
    bound = total - float(g @ w)

    def gap(f: Array) -> float:
        # Correlations do not depend on the scale of f, so take the best scale.
        explained = float(g @ f) ** 2 / float(f @ f) if f.any() else 0.0
        return max(total - explained - bound, 0.0) / total

    def within(f: Array) -> bool:
        return all(
            multiple_correlation(cov, limit * code, f[:, None]) <= limit + _EXACT
            for code, cov, limit in zip(codes, covs, limits, strict=True)
        )

    if within(w) and gap(w) <= _EXACT:
        return w, nu, gap(w)
    fair = _uncorrelated(codes, len(g))
    candidates = [np.zeros_like(g), fair @ (fair.T @ g), w, *_local_searches(g, Q, w, nu)]
    best = min((f for f in candidates if within(f)), key=gap)
    return best, nu, gap(best)


@dataclass(frozen=True, kw_only=True)
class _Point:
    """The objective and its derivatives at multipliers nu."""

    nu: Array
    w: Array  # H^-1 g
    value: float  # g'H^-1 g - weight log det H, which is minimised
    rows: Array  # (blocks, .): the second derivative of the value is rows @ rows.T
    target: Array  # (.,): minus the gradient of the value is rows @ target
    residual: float  # largest violation of the conditions of optimality, as a share of |w|^2


def _point(g: Array, Q: Array, nu: Array, weight: float) -> _Point | None:
    """Evaluate the objective at nu; None if H is not positive definite."""
    eye = np.eye(len(g))
    try:
        L = np.linalg.cholesky(eye + np.tensordot(nu, Q, 1))
    except np.linalg.LinAlgError:
        return None
    inverse = scipy.linalg.solve_triangular(L, eye, lower=True, check_finite=False)
    h = inverse @ g
    w = h @ inverse
    value, rows, target = float(h @ h), np.sqrt(2.0) * (Q @ w @ inverse.T), h / np.sqrt(2.0)
    if weight > 0.0:
        value -= 2.0 * weight * float(np.log(np.diag(L)).sum())
        whitened = (inverse @ Q @ inverse.T).reshape(len(Q), -1)
        rows = np.concatenate([rows, np.sqrt(weight) * whitened], axis=1)
        target = np.concatenate([target, np.sqrt(weight) * eye.ravel()])
    down = rows @ target
    violation = np.where(nu > 0.0, np.abs(down), np.maximum(down, 0.0))
    residual = float(violation.max()) / max(float(w @ w), 1e-300)
    return _Point(nu=nu, w=w, value=value, rows=rows, target=target, residual=residual)


def _newton(g: Array, Q: Array, nu: Array, weight: float) -> tuple[Array, Array]:
    """Minimise ``g'H^-1 g - weight log det H`` over ``nu >= 0`` by Newton's method."""
    point = _point(g, Q, nu, weight)
    assert point is not None  # H is positive definite at the start and after every step
    for _ in range(_MAX_STEPS):
        if point.residual <= _RESIDUAL or point.w @ point.w <= _NOTHING**2 * (g @ g):
            break
        step = _newton_step(point)
        gain = float(step @ point.rows @ point.target)
        new = _line_search(g, Q, point, step, gain, weight) if gain > 0.1 * weight else None
        if new is None:
            break
        point = new
    return point.w, point.nu


def _newton_step(point: _Point) -> Array:
    """Minimise the quadratic model under ``nu >= 0``: non-negative least squares."""
    length = np.linalg.norm(point.rows, axis=1)
    length = np.where(length > 0.0, length, 1.0)
    A = (point.rows / length[:, None]).T
    solved = scipy.optimize.lsq_linear(
        A, A @ (length * point.nu) + point.target, (0.0, np.inf), method="bvls", tol=1e-15
    )
    return np.asarray(solved.x / length - point.nu)


def _line_search(
    g: Array, Q: Array, point: _Point, step: Array, gain: float, weight: float
) -> _Point | None:
    """Shorten the step until it lowers the value; None if no step does."""
    t = 1.0
    while t > _SMALLEST_STEP:
        new = _point(g, Q, point.nu + t * step, weight)
        if new is not None and new.value < point.value - 1e-4 * t * gain:
            return new
        # Near the optimum the value changes by less than its rounding, so compare residuals.
        if new is not None and t == 1.0 and new.residual < 0.5 * point.residual:
            return new
        t /= 2.0
    return None


def _local_searches(g: Array, Q: Array, w: Array, nu: Array) -> list[Array]:
    """Search for functions within the limits if ``H^-1 g`` is not one of them.

    ``H = I + M`` is then singular up to rounding. If z is its null vector of unit length, ``w + l z`` has
    the same Lagrangian as w for every l. At an optimum without a gap its form in M is 0. So start where
    that is nearly so, at ``l^2 = w'M w``, with both signs of l.
    """
    M = np.tensordot(nu, Q, 1)
    z = scipy.linalg.eigh(M, subset_by_index=(0, 0))[1][:, 0]
    z = z * np.sqrt(max(float(w @ M @ w), 0.0))
    limits = {"type": "ineq", "fun": lambda f: -(Q @ f @ f), "jac": lambda f: -2.0 * (Q @ f)}

    def distance(f: Array) -> tuple[float, Array]:
        return float((f - g) @ (f - g)), 2.0 * (f - g)

    search = partial(
        scipy.optimize.minimize,
        distance,
        jac=True,
        method="SLSQP",
        constraints=[limits],
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return [search(start).x for start in (w + z, w - z)]
