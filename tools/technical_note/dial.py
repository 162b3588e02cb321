"""The cosine dial: how many models an even grid of angles has."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tools.table import Measurement, at_least, at_most
from tools.technical_note._rows import Array
from tools.technical_note.cells import removal

CASES = ("clf_sp", "clf_eop", "multi_eo", "reg_sp_m2_d2")


def distinct_models(sigma: Array, n_angles: int = 30) -> int:
    """How many models an even grid of 30 angles gives, as the authors' scripts have it."""
    eps = np.cos(np.linspace(0.0, np.pi / 2, n_angles))
    gamma = np.maximum(sigma[:, None], eps).round(12)
    return len(np.unique(gamma, axis=1).T)


def table() -> list[str]:
    """The cosine dial."""
    lines = [
        "| rows, criterion | smallest sigma | distinct models among 30 angles |",
        "|---|---|---|",
    ]
    for name in CASES:
        sigma = removal(name).sigma
        lines.append(f"| {name} | {sigma.min():.3f} | {distinct_models(sigma)} |")
    return lines


def claims() -> Iterator[Measurement]:
    """Most of the dial does nothing where the cosines are near 1."""
    sigma = {name: removal(name).sigma for name in CASES}
    near = [s for s in sigma.values() if s.min() > 0.98]
    yield at_least("cases with every cosine above .98", len(near), 3)
    most = max(distinct_models(s) for s in near)
    yield at_most("distinct models of 30 there, most", most, 5)
