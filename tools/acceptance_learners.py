"""Learners beside their limits: ``make acceptance-learners``.

The tables are made by ``python -m tools.learners_tables`` and read from benchmarks/results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tools.acceptance_promise import enough_draws, read, shown
from tools.table import Measurement, at_least, at_most

# Largest error of "auto" at fairness 1.
MOST_ERROR = {
    "Adult sex": 0.141,
    "Adult sex, sample": 0.141,
    "loans race": 0.072,
    "wide(1500, 50)": 0.34,
}
MOST_DEPENDENCE = 0.02
DIFFERENCES = {
    "auto and the member that training folds choose": (
        "error_difference",
        "error_0.03_difference",
        "error_0.05_difference",
        "error_0.1_difference",
    ),
    "auto and the better of plain boosting and members, unconstrained": ("free_difference",),
    "auto and reductions of boosting, decisions": ("eg_difference_0.02", "eg_difference_0.05"),
}
LIMITED = ("error_0.03", "error_0.05", "error_0.1", "rule_error_0.02", "rule_gap_0.02")
LIMITED += ("rule_error_0.05", "rule_gap_0.05")


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
    yield from _differences([row for row in rows if row["name"].endswith(", auto")])
    for row in rows:
        for key in ("error", "signed", "free_error", *LIMITED):
            if not np.isnan(row[key]):
                yield shown(f"{key.replace('_', ' ')}, {row['name']}", row[key])
    yield from _post(read("post", "learners"))
    for row in read("refit", "learners"):
        more = abs(row["signed_more"])
        yield at_most(f"|dependence| of refitted learners, {row['name']}", more, MOST_DEPENDENCE)
    for row in read("time", "learners"):
        yield at_most(f"fit over plain boosting, {row['name']}", row["share"], 12.0)
        if not np.isnan(row["share_of_reductions"]):
            share = row["share_of_reductions"]
            yield at_most(f"fit over reductions for one limit, {row['name']}", share, 1.0 / 3.0)


def _differences(rows: list[dict[str, Any]]) -> Iterator[Measurement]:
    """Paired differences of "auto"; standard errors of splits are corrected for 30 % test rows."""
    for what, keys in DIFFERENCES.items():
        cells = [
            (row[key], row[f"{key}_se"], row["draws"], row["name"])
            for row in rows
            for key in keys
            if not np.isnan(row[f"{key}_se"])
        ]
        if not cells:
            continue
        z = np.array(
            [
                mean / max(se * (1.0 if "wide" in name else np.sqrt(1.0 + n * 3.0 / 7.0)), 1e-9)
                for mean, se, n, name in cells
            ]
        )
        name = f"{what}, {len(cells)} cells"
        yield at_most(f"mean of paired differences in SE, {name}", float(z.mean()), 1.0)
        yield at_most(f"share of cells above by 2 SE, {name}", float(np.mean(z > 2.0)), 0.05)


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
