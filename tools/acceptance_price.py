"""What parity may cost: the frontier benchmark, run where it is not finished, and judged."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fairspan_lab.frontier import METHODS, FailedCellsError, frontier
from fairspan_lab.frontier._cells import finished
from fairspan_lab.frontier._paired import paired, paired_table
from fairspan_lab.frontier._price import (
    BLIND,
    LIMITS,
    OURS,
    SETS,
    Runs,
    attributes,
    choose,
    price_table,
)
from fairspan_lab.frontier._styles import compared_at
from fairspan_lab.frontier._summary import fit_time, over_correction
from tools.table import ROOT, Measurement, at_least, at_most

# Where `fairspan bench frontier` keeps its cells; those that are finished are not run again.
OUT = ROOT / "frontier-output"
# Finished cells of the committed page (numbers of models, no rows of data): a start for an empty folder.
KEPT = ROOT / "benchmarks" / "results" / "frontier-cells.tar.xz"
SHARED = Path(os.environ.get("FAIRSPAN_SHARED") or ROOT.parent / "shared")
CLASSES, NUMBERS = SETS[:3], SETS[3:]
# Attributes with more than two values, whose dependence a correlation alone does not show.
MANY_VALUED = {"Communities": ("race", "origin"), "NLSY79": ("age",), "Law school": ("age",)}
# Largest price of ours over that of the paper's method, correlations bound as the paper binds them.
CORRELATION = {
    "Law school": 0.25, "COMPAS (paper's columns)": 0.25, "NLSY79": 0.5, "Communities": 0.8,
    "Adult": 0.8,
}  # fmt: skip
# The same for the default, which binds more.
DEFAULT = dict.fromkeys(SETS, 0.85) | {"Law school": 0.5}
# Methods and the criterion that some bar looks at them for.
JUDGED = {
    (*OURS, *BLIND, "ncfr", "ncfr-rff"): "sp",
    ("fairspan-decisions", "eg-logistic", "eg-psi"): "eo",
}
MISSING = float("nan")  # no number keeps a limit with it

Row = dict[str, Any]


def measurements() -> Iterator[Measurement]:
    """Run what is missing of what is judged, from the kept cells where there are none, and judge it."""
    if not (OUT / "cells").exists() and KEPT.exists():
        print(f"cells from {KEPT.relative_to(ROOT)}")
        with tarfile.open(KEPT) as kept:
            kept.extractall(OUT, filter="data")
    beside = SHARED / "data"
    home = beside if beside.is_dir() and not os.environ.get("FAIRSPAN_DATA") else None
    failures = []
    for methods, criterion in JUDGED.items():
        try:
            frontier(
                None, list(methods), out=OUT, data_home=home, jobs=os.cpu_count() or 1,
                criteria=[criterion],
            )  # fmt: skip
        except FailedCellsError as error:
            failures += error.failures
    for line in failures:
        print(line)
    yield at_most("cells that failed", len(failures), 0)
    yield from judge(finished(OUT / "cells", quick=False))


def judge(rows: Iterable[Row]) -> Iterator[Measurement]:
    """Every bar on the rows of the benchmark; what has no rows is missed."""
    runs = Runs(rows)
    yield from complete_bars(runs)
    yield from price_bars(runs)
    yield from ratio_bars(runs)
    yield from paired_bars(runs)
    yield from decision_bars(runs)
    yield from aware_bars(runs)
    found = [row["ratio"] for row in over_correction(runs)]
    yield at_most("|corr| at the fair end / allowed, worst", max(found, default=MISSING), 1.0)


def complete_bars(runs: Runs) -> Iterator[Measurement]:
    """A count of losses means nothing if the rivals were not run."""
    splits = {
        (data, method): len(runs.of(data, method, "sp"))
        for data in SETS
        for method in (*OURS, *BLIND, "ncfr")
        if METHODS[method].cells(classifies=data in CLASSES, all_binary=data in CLASSES)
    }
    absent = [key for key, count in splits.items() if count == 0]
    for data, method in absent:
        print(f"not run: {method} on {data}")
    yield at_most("methods by data set that were not run", len(absent), 0)
    yield at_least("splits, fewest of any method", min(splits.values()), 3)


def price_bars(runs: Runs) -> Iterator[Measurement]:
    """Price of ours over the price of the paper's method, at the same limit on |corr|."""
    for kind, limits in (("correlation", CORRELATION), ("default", DEFAULT)):
        for data, limit in limits.items():
            # With two groups all dependence of the mean is correlation: one model.
            own = kind == "correlation" and data in NUMBERS
            at = compared_at(data)
            found = {
                row["method"]: row
                for row in (price_table(runs, data, "sp", "sp", [at]) if data in runs.sets else [])
            }
            ours, paper = found.get("fairspan-correlation" if own else "fairspan"), found.get("fgp")
            name = f"price / FGP's at |corr| <= {at:g}, {kind}, {short(data)}"
            yield at_most(name, _ratio(ours, paper, "price"), limit)
            if ours and paper:
                inform(
                    f"  own prices: ratio, {kind}, {short(data)}", _ratio(ours, paper, "own_price")
                )
                past = found.get("fairspan-past")
                if past is not None:
                    inform(
                        f"  ratio past the fair end (met {past['met']}/{past['splits']})",
                        _ratio(past, paper, "price"),
                    )
                for row in (ours, paper):
                    inform(
                        f"  price of {row['method']} (met {row['met']}/{row['splits']})",
                        row["price"],
                    )


def _ratio(ours: Row | None, rival: Row | None, price: str) -> float:
    # A rival that pays nothing leaves no ratio.
    if ours is None or rival is None or not rival[price] > 0.0:
        return MISSING
    return float(ours[price] / rival[price])


def ratio_bars(runs: Runs) -> Iterator[Measurement]:
    """Dependence of any shape on attributes with many values: correlation ratio over ten slices."""
    for data, names in MANY_VALUED.items():
        for name in names:
            for place in ("chosen", "fair end"):
                ratio, n_test = _slices(runs, data, name, "fairspan", place)
                title = f"correlation ratio of deciles, {place}, {data} {name}"
                yield at_most(title, ratio, 2.0 * float(np.sqrt(9.0 / n_test)))
                for rival in ("fgp", "ncfr"):
                    inform(f"  {rival}", _slices(runs, data, name, rival, place)[0])


def _slices(runs: Runs, data: str, name: str, method: str, place: str) -> tuple[float, float]:
    """Mean over the splits of one attribute's correlation ratio, and of the test rows."""
    curves = runs.of(data, method, "sp").values()
    at = compared_at(data)
    rows = [c[-1] if place == "fair end" else choose(c, "sp", at).row for c in curves]
    if not rows or name not in attributes(rows[0]):
        return MISSING, MISSING
    ratios = [row[f"test_ratio[{name}]"] for row in rows]
    return float(np.mean(ratios)), float(np.mean([row["n_test"] for row in rows]))


def paired_bars(runs: Runs) -> Iterator[Measurement]:
    """Losses to rivals that predict from X alone, split by split, each named."""
    cells = [r for data in runs.sets for r in paired_table(runs, data, "sp", "sp")]
    reached = [row for row in cells if row["verdict"] != "not reached"]
    inform("paired cells, |corr|", len(cells))
    yield at_least("paired cells that a rival reached", len(reached), 1)
    for times, allowed in ((1, 2), (2, 0)):
        worse = [row for row in reached if row["mean"] > times * row["se"]]
        for row in worse:
            inform(f"  {_cell(row)}, z", row["z"])
        yield at_most(f"paired cells, ours worse by > {times} SE", len(worse), allowed)
    for what, verdict in (("where both keep the limit", "both"), ("at equal parity", "reached")):
        worse = [row for row in cells if row[f"{verdict}_verdict"].startswith("worse")]
        inform_cells(f"{what}: ours worse by > 1 SE", worse, f"{verdict}_z")
    kernels = [rival for rival in BLIND if rival not in ("boosting", "eg-boosting")]
    past = losses(runs, runs.sets, kernels, "fairspan-past")
    inform_cells("a path past the fair end, worse by > 1 SE at the limit", past, "z")
    numbers = [data for data in NUMBERS if data in runs.sets]
    default = losses(runs, numbers, ["hsic", "fair-pca"], "fairspan")
    inform_cells(
        "the default, which binds more, against those that bind correlations", default, "z"
    )
    inform("cells with a split that the rival kept and ours did not",
           sum(row["ours_met"] < row["met"] for row in cells))  # fmt: skip


def losses(runs: Runs, sets: list[str], rivals: list[str], ours: str) -> list[Row]:
    """Cells in which one of our models is worse than a rival by more than a standard error."""
    found = (
        paired(runs, data, "sp", "sp", limit, ours, rival)
        for data in sets for rival in rivals for limit in LIMITS
    )  # fmt: skip
    return [row for row in found if row is not None and row["verdict"].startswith("worse")]


def inform_cells(name: str, rows: list[Row], z: str) -> None:
    """How many, and each of them."""
    inform(name, len(rows))
    for row in rows:
        inform(f"  {_cell(row)}, z", row[z])


def _cell(row: Row) -> str:
    return f"{short(row['data'])} <= {row['limit']:g}, {row['ours']} - {row['rival']}"


def decision_bars(runs: Runs) -> Iterator[Measurement]:
    """Decisions against fairlearn's reductions, at equal parity, and the time of a fit."""
    for data in CLASSES:
        for rival in ("eg-logistic", "eg-psi"):
            for criterion, measure, limit in (("sp", "dp", 0.02), ("eo", "eod", 0.05)):
                cell = (data, criterion, measure, limit, "fairspan-decisions", rival)
                yield _equal_parity(runs, cell)
                if row := paired(runs, *cell):
                    inform("  test gap of ours there", row["ours_measure"])
                    inform("  and of the rival's", row["rival_measure"])
            of = (runs, data, "sp", "fairspan", rival)
            yield at_most(f"fit time, whole dial / {rival}'s, {short(data)}", fit_time(*of), 0.1)
            inform("  of one value of the dial", fit_time(*of, dial=False))


def aware_bars(runs: Runs) -> Iterator[Measurement]:
    """Regression with S among the features, against NCFR, which reads S too."""
    for data in NUMBERS:
        for limit in LIMITS:
            yield _equal_parity(runs, (data, "sp", "sp", limit, "fairspan-aware", "ncfr"))
            for ours in ("fairspan-aware", "fairspan-aware-correlation"):
                row = paired(runs, data, "sp", "sp", limit, ours, "ncfr-rff")
                if row is not None:
                    inform(f"  {ours} - ncfr-rff, in standard errors", row["reached_z"])


def _equal_parity(runs: Runs, cell: tuple[str, str, str, float, str, str]) -> Measurement:
    """Error of ours less the rival's at the parity the rival has: no more than a standard error."""
    data, _, measure, limit, ours, rival = cell
    row = paired(runs, *cell)
    if row is None:
        row = {"reached_mean": MISSING, "reached_se": MISSING, "reached_ours_met": 0, "splits": 0}
    missed = row["splits"] - row["reached_ours_met"]
    if missed:
        inform(f"  splits on which {ours} missed that parity, {short(data)}", missed)
    mean, se = row["reached_mean"], row["reached_se"]
    name = f"{ours} - {rival}, {measure} <= {limit:g}, {short(data)}"
    return Measurement(name, mean, f"<= {se:.3g}", bool(mean <= se))


def short(data: str) -> str:
    """A name that fits the column."""
    return data.replace("(paper's columns)", "paper")


def inform(name: str, value: float) -> None:
    """A number without a limit, in the columns of the others."""
    print(f"{name:<64} {value:>11.4g}  information", flush=True)
