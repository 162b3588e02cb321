"""Learners beside their limits: ``make acceptance-learners``.

The tables are made by ``python -m tools.learners_tables`` and read from benchmarks/results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.acceptance_promise import enough_draws, read, shown
from tools.table import Measurement, at_least, at_most

# Largest error of "auto" at fairness 1.
MOST_ERROR = {"Adult sex": 0.141, "loans race": 0.072, "wide(1500, 50)": 0.34}
MOST_DEPENDENCE = 0.02


def measurements() -> Iterator[Measurement]:
    """Rows of all tables."""
    rows = read("fair", "learners")
    yield at_least("rows of the table of errors", len(rows), 20)
    yield from enough_draws("errors", rows, 10)
    by_name = {row["name"]: row for row in rows}
    for name, limit in MOST_ERROR.items():
        if (row := by_name.get(f"{name}, auto")) is not None:
            yield at_most(f"error at fairness 1, {row['name']}", row["error"], limit)
            yield at_most(f"|dependence|, {row['name']}", abs(row["signed"]), MOST_DEPENDENCE)
    yield from _law_school(by_name)
    for row in rows:
        for key in ("error", "signed", "free_error"):
            yield shown(f"{key.replace('_', ' ')}, {row['name']}", row[key])
    for row in read("refit", "learners"):
        more = abs(row["signed_more"])
        yield at_most(f"|dependence| of refitted learners, {row['name']}", more, MOST_DEPENDENCE)
    for row in read("time", "learners"):
        yield at_most(f"fit over plain boosting, {row['name']}", row["share"], 12.0)


def _law_school(by_name: dict[str, dict[str, Any]]) -> Iterator[Measurement]:
    names = [f"law school race, {learner}" for learner in ("auto", "ridge")]
    if all(name in by_name for name in names):
        auto, kernel = (by_name[name]["error"] for name in names)
        yield at_most("error over that of the kernel, law school race", auto / kernel, 1.01)
