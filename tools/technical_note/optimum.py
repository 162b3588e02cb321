"""Theorems 3 to 5 and the corollary: closed forms against a generic optimiser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import scipy.linalg
import scipy.optimize

from tools.table import Measurement, at_most
from tools.technical_note._optimum_rows import instance, slsqp, starts
from tools.technical_note._page import below
from tools.technical_note._rows import Array, Moments, pair


def covariance_limit(seed: int, share: float) -> tuple[float, float]:
    """Theorem 3: least loss with ``|Cov(f, S)| <= t``; closed form, then the optimiser."""
    m = instance(seed, ridge=0.05)
    p, delta = pair(m.g, m.delta, m.metric), m.delta[:, 0]
    limit = share * abs(float(delta @ m.g))
    w = p.length * (np.cos(p.theta) * p.u + share * np.sin(p.theta) * p.n)
    both = [lambda v: limit - delta @ v, lambda v: limit + delta @ v]
    return m.loss(w), slsqp(m.loss, both, starts(m, seed))


def correlation_limit(seed: int, share: float) -> tuple[float, float]:
    """Corollary: largest Corr(f, y) with ``|Corr(f, S)| <= c``, no ridge; both as minus it."""
    m = instance(seed)
    p, delta = pair(m.g, m.delta, m.metric), m.delta[:, 0]
    limit = share * m.correlation(m.g)
    rho = float(np.sqrt(delta @ np.linalg.solve(m.cov, delta)))
    w = p.at(float(np.arcsin(limit / rho)))
    cross, size = m.psi.T @ m.y / len(m.y), float(m.y.std())
    value = slsqp(
        lambda v: -float(cross @ v) / size,
        [lambda v: limit - delta @ v, lambda v: limit + delta @ v],
        [v / np.sqrt(v @ m.cov @ v) for v in starts(m, seed)],
        equal=lambda v: float(v @ m.cov @ v) - 1.0,
    )
    return -float(cross @ w) / size, value


def angle_limit(seed: int, share: float) -> tuple[float, float]:
    """Theorem 4 for three codes and a ridge: least loss at an angle of at most a to F."""
    m = instance(seed, n_codes=3, ridge=0.05)
    p = pair(m.g, m.delta, m.metric)
    a = share * p.theta
    lift = np.linalg.solve(m.metric, m.delta)
    removed = m.delta @ np.linalg.solve(m.delta.T @ lift, m.delta.T)  # w'removed w = |(I-P)w|_R^2
    most = np.sin(a) ** 2
    value = slsqp(m.loss, [lambda v: most * (v @ m.metric @ v) - v @ removed @ v], starts(m, seed))
    return m.loss(p.fitted(a)), value


def ridge_optimum(m: Moments, limit: float) -> Array:
    """Least loss with ``|Corr(f, S)| <= limit`` for one code and any ridge (Theorem 5)."""
    delta, R = m.delta[:, 0], m.metric
    Q = np.outer(delta, delta) - limit**2 * m.cov
    if m.g @ Q @ m.g <= 0.0:
        return m.g
    most = -1.0 / scipy.linalg.eigh(Q, R, eigvals_only=True)[0]

    def solution(mu: float) -> Array:
        return np.asarray(np.linalg.solve(R + mu * Q, R @ m.g))

    def excess(mu: float) -> float:
        w = solution(mu)
        return float(w @ Q @ w) / float(w @ R @ w)

    high = most * (1.0 - 1e-9)
    return solution(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-14 * most, rtol=1e-14))


def correlation_limit_with_ridge(seed: int, share: float) -> tuple[float, float]:
    """Theorem 5: least loss with ``|Corr(f, S)| <= c`` and a ridge."""
    m = instance(seed, ridge=0.05)
    limit, delta = share * m.correlation(m.g), m.delta[:, 0]
    both = [
        lambda v: limit * np.sqrt(v @ m.cov @ v) - delta @ v,
        lambda v: limit * np.sqrt(v @ m.cov @ v) + delta @ v,
    ]
    return m.loss(ridge_optimum(m, limit)), slsqp(m.loss, both, starts(m, seed))


OPTIMA: dict[str, tuple[Callable[[int, float], tuple[float, float]], str]] = {
    "loss, limit on the covariance, ridge": (covariance_limit, "theorem 3"),
    "correlation with y, limit on the correlation, no ridge": (correlation_limit, "corollary"),
    "loss, limit on the angle, three codes, ridge": (angle_limit, "theorem 4"),
    "loss, limit on the correlation, ridge": (correlation_limit_with_ridge, "theorem 5"),
}


SHARES = (0.1, 0.5, 0.9)


N_INSTANCES = 20


@cache
def advantage(problem: Callable[[int, float], tuple[float, float]]) -> tuple[float, float]:
    """Closed form less optimiser, the largest (positive would refute the theorem) and the median."""
    gaps = [np.subtract(*problem(seed, s)) for seed in range(N_INSTANCES) for s in SHARES]
    return float(np.max(gaps)), float(np.median(np.abs(gaps)))


def table() -> list[str]:
    """Closed forms against a generic optimiser."""
    lines = [
        "| problem | statement | instances | SLSQP is better by at most | median difference |",
        "|---|---|---|---|---|",
    ]
    for name, (problem, statement) in OPTIMA.items():
        most, median = advantage(problem)
        lines.append(
            f"| {name} | {statement} | {N_INSTANCES * len(SHARES)} | {below(most, 1e-6)} | "
            f"{below(median, 1e-6)} |"
        )
    return lines


def price_error() -> float:
    """Largest relative error of (7) on three codes and a ridge, over places on the dial."""
    worst = 0.0
    for seed in range(N_INSTANCES):
        m = instance(seed, n_codes=3, ridge=0.05)
        p = pair(m.g, m.delta, m.metric)
        for a in np.linspace(0.0, 0.9 * p.theta, 4):
            price = m.loss(p.fitted(a)) - m.loss(m.g)
            worst = max(worst, abs(price / (p.length * np.sin(p.theta - a)) ** 2 - 1.0))
    return worst


def claims() -> Iterator[Measurement]:
    """No optimiser is better, and it comes near."""
    for problem, statement in OPTIMA.values():
        most, median = advantage(problem)
        yield at_most(f"{statement}: SLSQP better by", most, 1e-6)
        yield at_most(f"{statement}: median difference", median, 1e-5)
    yield at_most("theorem 4: relative error of the price (7)", price_error(), 1e-6)
