"""The most accurate decision under a limit on rates is a threshold on the line of theorem 3."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy.optimize

from tools.table import Measurement, at_least, at_most

N_POPULATIONS = 200
N_VALUES = 30  # of x
LIMITS = (0.0, 0.05)


@dataclass(frozen=True)
class Decision:
    """The best randomised decision of one population, by a linear program."""

    wrong: float  # how far it is from the threshold, where the score is not on it
    randomised: int  # values of x on the threshold
    place: float  # on the line: 0 is g, 1 the fair end


def decision(seed: int, limit: float) -> Decision:
    """A population of N_VALUES values of x; h(x) in [0, 1] is the chance of a positive decision."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.ones(N_VALUES))
    s = rng.random(N_VALUES)  # P(S = 1 | x)
    p = np.clip(rng.random(N_VALUES) + rng.uniform(-0.5, 0.5) * (s - 0.5), 0.0, 1.0)  # P(y = 1 | x)
    pi, mean = share @ s, share @ p
    gap = share * (s - pi) / (pi * (1.0 - pi))
    found = scipy.optimize.linprog(
        share * (1.0 - 2.0 * p), A_ub=np.stack([gap, -gap]), b_ub=[limit, limit], bounds=(0, 1)
    )
    up, down = found.ineqlin.marginals
    c = (down - up) / (2.0 * pi * (1.0 - pi))
    score = (p - mean) - c * (s - pi) - (0.5 - mean)
    certain = np.abs(score) > 1e-9
    wrong = np.abs(found.x - (score > 0.0))[certain].max()
    fair = (share * (p - mean)) @ (s - pi) / (share @ (s - pi) ** 2)
    return Decision(float(wrong), int((~certain).sum()), float(c / fair))


@cache
def decisions(limit: float) -> tuple[Decision, ...]:
    """All populations."""
    return tuple(decision(seed, limit) for seed in range(N_POPULATIONS))


def table() -> list[str]:
    """Where on the line the optimal decisions lie."""
    lines = [
        "| limit on the difference of rates | populations | between g and the fair end | past the fair "
        "end | beyond g |",
        "|---|---|---|---|---|",
    ]
    for limit in LIMITS:
        places = np.array([x.place for x in decisions(limit)])
        past, before = int((places > 1.0).sum()), int((places < 0.0).sum())
        lines.append(
            f"| {limit:g} | {len(places)} | {len(places) - past - before} | {past} | {before} |"
        )
    return lines


def claims() -> Iterator[Measurement]:
    """A threshold, with at most one value of x at which it is randomised."""
    found = [x for limit in LIMITS for x in decisions(limit)]
    yield at_most("decisions off the threshold, most", max(x.wrong for x in found), 1e-7)
    yield at_most("values of x on the threshold, most", max(x.randomised for x in found), 1)
    beyond = sum(not 0.0 <= x.place <= 1.0 for x in found)
    yield at_least("optima beyond either end of the dial", beyond, 1)
