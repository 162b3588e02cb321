"""Equal decisions beside their limits: ``make acceptance-decisions``.

The tables are made by ``python -m tools.decisions_tables`` and read from benchmarks/results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tools.acceptance_promise import enough_draws, read, shown
from tools.table import Measurement, at_least, at_most, between


def measurements() -> Iterator[Measurement]:
    """Rows of all tables."""
    yield from _kept(read("kept", "decisions"))
    yield from _price(read("price", "decisions"))
    yield from _loans(read("loans", "decisions"))
    for row in read("time", "decisions"):
        yield shown(f"path of 31 rules over the fit, {row['name']}", row["share"])


def _kept(rows: list[dict[str, Any]]) -> Iterator[Measurement]:
    yield at_least("rows of the table of limits", len(rows), 48)
    yield from enough_draws("limits", [row for row in rows if "(8000" not in row["name"]], 300)
    yield from enough_draws("limits at 8,000 rows", [r for r in rows if "(8000" in r["name"]], 100)
    for row in rows:
        yield at_most(f"promised and broken, {row['name']}", row["promised_and_broken"], 0.07)
    for row in rows:
        name = f"promised, {row['name']}"
        if row["name"] == "people(8000, 0.3), gap <= 0.1":
            yield at_least(name, row["promised"], 0.6)
        else:
            yield shown(name, row["promised"])


def _price(rows: list[dict[str, Any]]) -> Iterator[Measurement]:
    yield at_least("rows of the table of prices", len(rows), 12)
    yield from enough_draws("prices", rows, 10)
    for row in rows:
        for key in ("gap", "error", "free_error", "score_error"):
            if not np.isnan(row[key]):
                yield shown(f"{key.replace('_', ' ')}, {row['name']}", row[key])


def _loans(rows: list[dict[str, Any]]) -> Iterator[Measurement]:
    yield from enough_draws("loans", rows, 20)
    for row in rows:
        yield between("loans: white minus black selection rate", row["gap"], -0.05, 0.05)
        yield at_most("loans: error", row["error"], 0.112)
