"""Theorem 8: the largest correlation with S over a whole model space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy.linalg

from tools.table import Measurement, at_most
from tools.technical_note._page import zero
from tools.technical_note.gaps import PLACES, representation

N_FUNCTIONS = 10_000


@dataclass(frozen=True)
class Place:
    """The certificate at one dial value, and two ways to check it on the rows."""

    fairness: float
    certificate: float
    attained: float  # by the maximiser
    random: float  # best of N_FUNCTIONS


@cache
def places() -> tuple[Place, ...]:
    """Four functions between G and F."""
    (est, m), out = representation(), []
    for fairness in PLACES:
        at = est.at(fairness)
        E = at._position.directions
        cov, delta = E.T @ m.cov @ E, E.T @ m.delta
        top = scipy.linalg.eigh(delta @ delta.T, cov)[1][:, -1]
        f = m.psi @ E @ np.random.default_rng(0).normal(size=(E.shape[1], N_FUNCTIONS))
        random = np.linalg.norm(m.codes.T @ f, axis=0) / len(f) / f.std(axis=0)
        out.append(
            Place(fairness, at.certificate_.supremum, m.correlation(E @ top), float(random.max()))
        )
    return tuple(out)


def table() -> list[str]:
    """The certificate beside what functions of the space attain."""
    lines = [
        f"| fairness | certificate | its maximiser on the rows | best of {N_FUNCTIONS:,} random "
        "functions |",
        "|---|---|---|---|",
    ]
    return lines + [
        f"| {x.fairness:g} | {zero(x.certificate)} | {zero(x.attained)} | {zero(x.random)} |"
        for x in places()
    ]


def claims() -> Iterator[Measurement]:
    """Attained, never exceeded, zero at the fair end."""
    found = places()
    apart = max(abs(x.certificate - x.attained) for x in found)
    yield at_most("theorem 8: certificate less its maximiser", apart, 1e-8)
    yield at_most(
        "theorem 8: excess of a random function",
        max(x.random - x.certificate for x in found),
        1e-9,
    )
    yield at_most("theorems 2 and 8: certificate at fairness 1", found[-1].certificate, 1e-9)
