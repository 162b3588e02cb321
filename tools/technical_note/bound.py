"""Proposition 4: how often the held-out bound holds the supremum of the population."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from tests.statistical.auditing_bounds import Coverage, coverage

from tools.table import Measurement, at_least

KINDS = {
    "independent": "1 function, 2 groups, none differs (400 rows)",
    "levels": "3 functions, 3 groups (600 rows)",
    "many": "40 functions, 2 groups, one differs (1,000 rows)",
    "rare": "1 skewed function, a group of 5 % (1,200 rows)",
}


N_DRAWS = 200


@cache
def drawn(kind: str) -> Coverage:
    """N_DRAWS samples of one population."""
    return coverage(kind, draws=N_DRAWS)


def table() -> list[str]:
    """How often the held-out bound holds the supremum of the population."""
    lines = [
        "| rows drawn from | truth | supremum in the rows, mean | 95 % bound, mean | covered |",
        "|---|---|---|---|---|",
    ]
    for kind, words in KINDS.items():
        x = drawn(kind)
        lines.append(
            f"| {words} | {x.truth:.3f} | {x.supremum:.3f} | {x.bound:.3f} | {100 * x.rate:.1f} % |"
        )
    return lines


def claims() -> Iterator[Measurement]:
    """Covered at least 95 % of the time, less three standard errors of N_DRAWS draws."""
    least = min(drawn(kind).rate for kind in KINDS)
    limit = 0.95 - 3.0 * float(np.sqrt(0.95 * 0.05 / N_DRAWS))
    yield at_least("proposition 4: least share covered, 95 % promised", least, round(limit, 3))
