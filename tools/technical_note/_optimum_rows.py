"""Instances for the theorems of section 3, and a generic optimiser as their opponent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.optimize

from tools.technical_note._rows import Array, Moments, centred, whitened


def instance(seed: int, n_codes: int = 1, ridge: float = 0.0) -> Moments:
    """Rows of five functions that S shifts, and y; S is binary, or has more levels."""
    rng = np.random.default_rng(seed)
    n, d = 80, 5
    s = rng.integers(0, n_codes + 1, n) if n_codes > 1 else (rng.random(n) < 0.4).astype(int)
    s[: n_codes + 1] = np.arange(n_codes + 1)
    shift = rng.normal(size=(n_codes + 1, d))
    psi = (rng.normal(size=(n, d)) + shift[s]) @ rng.normal(size=(d, d))
    y = psi @ rng.normal(size=d) + rng.normal(size=n)
    m = Moments(centred(psi), whitened(s.astype(float)), centred(y), 0.0)
    return Moments(m.psi, m.codes, m.y, ridge * float(np.trace(m.cov)))


def slsqp(
    objective: Callable[[Array], float],
    limits: Sequence[Callable[[Array], float]],
    starts: Sequence[Array],
    equal: Callable[[Array], float] | None = None,
) -> float:
    """Least value that scipy's SLSQP finds with every limit >= 0, to 1e-9; inf if it finds none.

    Four starts are used, and more only while none has led to a feasible point: which starts do
    differs between processors.
    """
    constraints = [{"type": "ineq", "fun": limit} for limit in limits]
    if equal is not None:
        constraints.append({"type": "eq", "fun": equal})
    best = np.inf
    for number, start in enumerate(starts):
        if number >= 4 and np.isfinite(best):
            break
        found = scipy.optimize.minimize(
            objective,
            start,
            method="SLSQP",
            constraints=constraints,
            options={"ftol": 1e-14, "maxiter": 500},
        )
        kept = all(limit(found.x) >= -1e-9 for limit in limits)
        if kept and (equal is None or abs(equal(found.x)) <= 1e-9):
            best = min(best, float(found.fun))
    return best


def starts(m: Moments, seed: int, number: int = 4, spare: int = 16) -> list[Array]:
    """Starting points: one near g, random ones, and spare ones for `slsqp` to fall back on."""
    rng, scale = np.random.default_rng(seed), float(np.sqrt(m.g @ m.metric @ m.g))
    near = [m.g + 0.1 * scale * rng.normal(size=len(m.g))]
    far = [rng.normal(size=len(m.g)) for _ in range(number - 1 + spare)]
    return near + [scale * v / np.sqrt(v @ m.metric @ v) for v in far]
