"""Rows about the switch of the explorer: the size of its page, its answers to limits, and time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd

from fairspan.exceptions import FairspanWarning
from fairspan.method.promises import keep_limit
from fairspan.report import Report, explore
from fairspan.report.page import for_page, to_text
from tools.table import Measurement, at_least, at_most, show

N_ROWS = 50_000
LIMITS = np.linspace(0.01, 0.5, 50)


def measurements() -> Iterator[Measurement]:
    """All rows; two minutes on one core."""
    began = time.perf_counter()
    large = report(large_table(), n_points=41)
    seconds = time.perf_counter() - began
    size = len(to_text(for_page(large.study)).encode()) / 1e6
    yield at_most("MB of the study of 50,000 rows, both sides of the switch", size, 1.5)
    sides = 1 + (large.study["other"] is not None)
    yield at_least("sides of the switch for 50,000 rows", sides, 2)
    yield at_least("positions of the slider for 50,000 rows", len(large.study["fairness"]), 41)
    yield at_most("seconds for 50,000 rows, both sides", seconds, 180)
    small = report(large_table(4_000), n_points=31)
    for measure, name in (("gap", "max_gap"), ("ratio", "min_ratio")):
        wrong = sum(differs(small, measure, name, float(limit)) for limit in LIMITS)
        yield at_most(f"limits on the {measure} with another answer than `at`, of 50", wrong, 0)


def large_table(n: int = N_ROWS) -> pd.DataFrame:
    """People of four groups, two sexes and many ages."""
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b", "c", "d"], n, p=[0.5, 0.3, 0.15, 0.05])
    X = rng.normal(size=(n, 10)) + 0.3 * (group == "a")[:, None]
    age = rng.integers(20, 70, n)
    table = pd.DataFrame(X.round(3), columns=[f"x{i}" for i in range(10)])
    score = X.sum(axis=1) + (age - 45) / 20 + 2 * rng.normal(size=n)
    return table.assign(
        group=group,
        sex=rng.choice(["f", "m"], n),
        age=age,
        repaid=np.where(score > 0.5, "yes", "no"),
    )


def report(table: pd.DataFrame, n_points: int) -> Report:
    """A report on both sides of the switch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        return explore(
            table,
            target="repaid",
            sensitive_features=["group", "sex", "age"],
            n_points=n_points,
            audit_parts=["scores", "decisions"],
        )


def differs(given: Report, measure: str, name: str, limit: float) -> bool:
    """Whether the page and the model disagree on the error or the bound at a limit."""
    wanted = limit if measure == "gap" else 1.0 - limit
    sign = 1.0 if measure == "gap" else -1.0
    ats = [at["promise"] for at in given.study["positions"]]
    upper = sign * np.array([at[measure]["bound"] for at in ats])
    errors, grid = np.array([at["error"] for at in ats]), np.array(given.study["fairness"])
    i, allowed = keep_limit(grid, errors, upper, sign * wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)
        rates = given.model.at(**{name: wanted}, confidence=0.95).certificate_.decisions
    if not len(allowed):
        return bool(rates.kept)
    bound = rates.gap_high if measure == "gap" else rates.ratio_low
    near = abs(ats[i]["error"] - rates.error) < 2e-6
    return not (rates.kept and near and abs(ats[i][measure]["bound"] - bound) < 2e-6)


if __name__ == "__main__":
    raise SystemExit(show(measurements()))
