"""Equal decisions beside their limits: ``make acceptance-decisions``.

The tables are made by ``python -m tools.decisions_tables`` and read from benchmarks/results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tools.acceptance_promise import enough_draws, read, shown
from tools.decisions_tables import LAPLACIAN
from tools.table import Measurement, at_least, at_most, between

# Errors on Adult with 5,600 training rows.
ADULT = {
    "statistical_parity <= 0.02": 0.158,
    "statistical_parity <= 0.05": 0.158,
    "equalized_odds <= 0.05": 0.142,
}
RIVALS = ("score_error", "linear_post_error", "eg_error", "reads_s_gap", "reads_s_error")


def measurements() -> Iterator[Measurement]:
    """Rows of all tables."""
    yield from _kept(read("kept", "decisions"))
    yield from _price(read("price", "decisions"))
    yield from _loans(read("loans", "decisions"))
    for row in read("time", "decisions"):
        yield at_most(f"path of 31 rules over the fit, {row['name']}", row["share"], 1.3)
        if not np.isnan(row["eg_share"]):
            name = f"path of 31 rules over reductions for 31 limits, {row['name']}"
            yield at_most(name, row["eg_share"], 0.1)


def _kept(rows: list[dict[str, Any]]) -> Iterator[Measurement]:
    real = [row for row in rows if not row["name"].startswith("people")]
    rows = [row for row in rows if row["name"].startswith("people")]
    yield at_least("rows of the table of limits", len(rows), 48)
    yield from enough_draws("limits", [row for row in rows if "(8000" not in row["name"]], 300)
    for row in real:  # splits of one table share rows, so a share of them is no error rate
        for key in ("promised", "promised_and_broken"):
            yield shown(
                f"{key.replace('_', ' ')}, {row['draws']:g} splits, {row['name']}", row[key]
            )
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
    yield at_least("rows of the table of prices", len(rows), 24)
    yield from enough_draws("prices", rows, 10)
    for rival in ("eg", "linear_post", "score"):
        cells = [row for row in rows if not np.isnan(row[f"{rival}_difference_se"])]
        difference = np.array([row[f"{rival}_difference"] for row in cells])
        se = np.maximum([row[f"{rival}_difference_se"] for row in cells], 1e-6)
        if len(cells):
            name = f"{rival.replace('_', ' ')}, {len(cells)} cells"
            mean = float(np.mean(difference / se))
            yield at_most(f"mean of paired differences in SE, {name}", mean, 1.0)
            above = float(np.mean(difference > 2.0 * se))
            yield at_most(f"share of cells above by 2 SE, {name}", above, 0.05)
    for name, limit in ADULT.items():
        names = [f"{table}, {name}" for table in ("Adult sex", "Adult sex, sample", LAPLACIAN)]
        for row in (row for row in rows if row["name"] in names):
            yield at_most(f"error, {row['name']}", row["error"], limit)
            if name.startswith("statistical"):
                today = f"error minus that of the path of scores, {row['name']}"
                yield at_most(today, row["score_difference"], 0.0)
    for row in rows:
        for key in ("gap", "error", "free_error", *RIVALS):
            if not np.isnan(row[key]):
                yield shown(f"{key.replace('_', ' ')}, {row['name']}", row[key])


def _loans(rows: list[dict[str, Any]]) -> Iterator[Measurement]:
    yield from enough_draws("loans", rows, 20)
    for row in rows:
        yield between("loans: white minus black selection rate", row["gap"], -0.05, 0.05)
        yield at_most("loans: error", row["error"], 0.112)
