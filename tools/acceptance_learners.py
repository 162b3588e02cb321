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
    yield from _post(read("post", "learners"))
    for row in read("refit", "learners"):
        more = abs(row["signed_more"])
        yield at_most(f"|dependence| of refitted learners, {row['name']}", more, MOST_DEPENDENCE)
    for row in read("time", "learners"):
        yield at_most(f"fit over plain boosting, {row['name']}", row["share"], 12.0)


def _post(rows: list[dict[str, Any]]) -> Iterator[Measurement]:
    """A frozen model that is corrected, beside a fair model over the same learner."""
    yield at_least("rows of the table of frozen models", len(rows), 2)
    yield from enough_draws("frozen models", rows, 10)
    for row in rows:
        name = f"frozen model, {row['name']}"
        yield at_most(f"|dependence|, {name}", abs(row["post_signed"]), MOST_DEPENDENCE)
        yield at_most(f"standard error of it, {name}", row["post_signed_se"], 0.015)
        for key, rows_of in (("difference", "all rows"), ("half_difference", "half of the rows")):
            yield at_most(
                f"error - FairClassifier's with {rows_of}, in SE, {row['name']}",
                row[key] / row[f"{key}_corrected_se"],
                2.0,
            )
            yield shown(f"the same, as it is, {row['name']}", row[key])
            yield shown(f"its plain standard error, {row['name']}", row[f"{key}_se"])
        for key in ("frozen_error", "frozen_signed", "post_error", "trained_error", "half_error"):
            yield shown(f"{key.replace('_', ' ')}, {row['name']}", row[key])


def _law_school(by_name: dict[str, dict[str, Any]]) -> Iterator[Measurement]:
    names = [f"law school race, {learner}" for learner in ("auto", "ridge")]
    if all(name in by_name for name in names):
        auto, kernel = (by_name[name]["error"] for name in names)
        yield at_most("error over that of the kernel, law school race", auto / kernel, 1.01)
