"""Proposition 3: what the ridge leaves of S in the published form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from tests.golden.cases import load_case

from fairspan.method.sdr import canonical_directions, paper_directions
from tools.table import Measurement, at_least, at_most
from tools.technical_note._page import below
from tools.technical_note._rows import ETA, golden, within, worst_in

RIDGES = (1e-8, 1e-6, 1e-4, 1e-2, 1e-1)


@dataclass(frozen=True)
class Leak:
    """What the published removal leaves at "fully fair", for one ridge."""

    eta: float
    tau: float
    lam: float  # squared canonical correlation at the same ridge
    with_removed: float  # Corr(f, f_w): what it does make zero
    correlation: float  # Corr(f, S), measured
    formula: float  # eta <f, f_w>_H / (delta'w sd(f))
    supremum: float  # over all of the published F
    exact: float  # over all of F = {Delta'w = 0}


@cache
def leak(eta: float, name: str = "clf_sp") -> Leak:
    """Statistical parity, one binary attribute; g is the paper's at its own ridge."""
    case = load_case(name)
    m = golden(case, case.S_train[:, 0])
    n, delta = len(m.psi), m.delta[:, 0]
    tau, W = paper_directions(m.cov, m.psi.T @ within(case.S_train[:, 0]) @ m.psi / n, eta, 1)
    G = paper_directions(m.cov, m.psi.T @ within(case.y_train) @ m.psi / n, ETA, 1)[1][:, 0]
    w = W[:, 0]
    removed = m.cov @ w
    v = G - removed * (removed @ G) / (removed @ removed)
    f, h = m.psi @ v, m.psi @ w
    return Leak(
        eta,
        float(tau[0]),
        float(canonical_directions(m.cov, m.delta, eta).lam[0]),
        abs(float(np.mean(f * h)) / f.std() / h.std()),
        m.correlation(v),
        abs(eta * float(v @ w) / float(delta @ w) / f.std()),
        worst_in(m, removed[:, None]),
        worst_in(m, m.delta),
    )


def table() -> list[str]:
    """The leak by ridge."""
    lines = [
        "| eta | Corr(f, S) | the same by (5) | worst function of the published F | "
        "of the exact F | 1 - 1/tau | lambda |",
        "|---|---|---|---|---|---|---|",
    ]
    for eta in RIDGES:
        x = leak(eta)
        lines.append(
            f"| {eta:.0e} | {x.correlation:.1e} | {x.formula:.1e} | "
            f"{x.supremum:.4f} | {below(x.exact)} | {1.0 - 1.0 / x.tau:.3f} | {x.lam:.3f} |"
        )
    return lines


def claims() -> Iterator[Measurement]:
    """The closed form of the leak, and that exact removal has none."""
    found = [leak(eta) for eta in RIDGES]
    apart = max(abs(x.correlation / x.formula - 1.0) for x in found)
    yield at_most("proposition 3: relative error of (5)", apart, 1e-5)
    removed = max(x.with_removed for x in found)
    yield at_most("proposition 3: largest Corr(f, f_w)", removed, 1e-9)
    yield at_least("published form at 1e-4: Corr(f, S)", leak(ETA).correlation, 0.001)
    yield at_least("published form at 1e-4: worst function of F", leak(ETA).supremum, 0.1)
    yield at_most("theorem 2: worst function of the exact F", max(x.exact for x in found), 1e-9)
