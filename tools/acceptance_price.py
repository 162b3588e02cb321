"""What parity may cost: limits on the tables of the frontier benchmark.

The tables come from the cells in frontier-output, where missing ones are computed first. Without
that folder they are the committed ones of docs/frontier, if the benchmark has not changed since.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fairspan_lab.frontier import METHODS, FailedCellsError, frontier
from fairspan_lab.frontier._price import BLIND, LIMITS, OURS, SETS, Row
from fairspan_lab.frontier._styles import compared_at
from fairspan_lab.frontier._tables import Tables
from tools.frontier_tables import COMMITTED, OUT, committed_tables, tables_of
from tools.table import ROOT, Measurement, at_least, at_most

SHARED = Path(os.environ.get("FAIRSPAN_SHARED") or ROOT.parent / "shared")
CLASSES, NUMBERS = SETS[:3], SETS[3:6]
# Classes, with two attributes.
SEVERAL = SETS[6:]
# Attributes with more than two values, whose dependence a correlation alone does not show.
MANY_VALUED = {"Communities": ("race", "origin"), "NLSY79": ("age",), "Law school": ("age",)}
# Largest ratio of our price to that of the paper's method, when ours limits correlations as it does.
CORRELATION = {
    "Law school": 0.25,
    "COMPAS (paper's columns)": 0.25,
    "NLSY79": 0.5,
    "Communities": 0.8,
    "Adult": 0.8,
}
# The same for the default, which removes more dependence.
DEFAULT = dict.fromkeys((*CLASSES, *NUMBERS), 0.85) | {"Law school": 0.5}
# Methods that a limit needs, and the criterion they are fitted for.
JUDGED = {
    (*OURS, *BLIND, "ncfr", "ncfr-rff"): "sp",
    ("fairspan-decisions", "eg-logistic", "eg-psi"): "eo",
}
MISSING = float("nan")  # NaN is within no limit


def measurements() -> Iterator[Measurement]:
    """Check all limits, on the committed tables or on a run of the benchmark."""
    tables = None if (OUT / "cells").exists() else committed_tables(COMMITTED)
    if tables is not None:
        print(f"tables of {COMMITTED.relative_to(ROOT)}; `make frontier` computes them again")
    else:
        failures = _run_missing()
        for line in failures:
            print(line)
        yield at_most("cells that failed", len(failures), 0)
        tables = tables_of(OUT)
    yield from judge(tables)


def _run_missing() -> list[str]:
    """Compute the cells that are not in the folder; one line per failure."""
    local = SHARED / "data"
    home = local if local.is_dir() and not os.environ.get("FAIRSPAN_DATA") else None
    failures: list[str] = []
    for methods, criterion in JUDGED.items():
        try:
            frontier(
                None,
                list(methods),
                out=OUT,
                data_home=home,
                jobs=os.cpu_count() or 1,
                criteria=[criterion],
            )
        except FailedCellsError as error:
            failures += error.failures
    return failures


def judge(tables: Tables) -> Iterator[Measurement]:
    """Check every limit on the tables of the benchmark; a missing number misses its limit."""
    yield from completeness(tables)
    yield from prices(tables)
    yield from correlation_ratios(tables)
    yield from pairs(tables)
    yield from decisions(tables)
    yield from with_sensitive_features(tables)
    ratios = [row["ratio"] for row in tables.ends if row["method"] == "fairspan"]
    yield at_most("|corr| at the fair end / allowed, worst", max(ratios, default=MISSING), 1.0)


def completeness(tables: Tables) -> Iterator[Measurement]:
    """Check that every rival was run: a count of losses means nothing otherwise."""
    splits = {}
    for data in SETS:
        rows = tables.prices(data, LIMITS[0])
        for method in (*OURS, *BLIND, "ncfr"):
            classes, several = data not in NUMBERS, data not in CLASSES
            if METHODS[method].cells(classifies=classes, all_binary=classes, several=several):
                splits[data, method] = rows[method]["splits"] if method in rows else 0
    absent = [key for key, count in splits.items() if count == 0]
    for data, method in absent:
        print(f"not run: {method} on {data}")
    yield at_most("methods by data set that were not run", len(absent), 0)
    yield at_least("splits, fewest of any method", min(splits.values()), 3)


def prices(tables: Tables) -> Iterator[Measurement]:
    """Check the ratio of our price to the price of the paper's method, at the same |corr| limit."""
    for kind, limits in (("correlation", CORRELATION), ("default", DEFAULT)):
        for data, limit in limits.items():
            # With two groups correlation is all the dependence of the mean, so the default serves.
            correlation_model = kind == "correlation" and data in NUMBERS
            at = compared_at(data)
            rows = tables.prices(data, at)
            ours = rows.get("fairspan-correlation" if correlation_model else "fairspan")
            paper = rows.get("fgp")
            name = f"price / FGP's at |corr| <= {at:g}, {kind}, {short(data)}"
            yield at_most(name, _ratio(ours, paper, "price"), limit)
            if ours and paper:
                inform(
                    f"  own prices: ratio, {kind}, {short(data)}", _ratio(ours, paper, "own_price")
                )
                past = rows.get("fairspan-past")
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
    # The ratio is undefined if the rival's price is zero or negative.
    if ours is None or rival is None or not rival[price] > 0.0:
        return MISSING
    return float(ours[price] / rival[price])


def correlation_ratios(tables: Tables) -> Iterator[Measurement]:
    """Check dependence of any shape on attributes with many values, in ten slices."""
    rows = {(r["data"], r["attribute"], r["method"]): r for r in tables.ends}
    missing = {"n_test": MISSING}
    for data, names in MANY_VALUED.items():
        for name in names:
            for column, where in (("chosen", "chosen"), ("last", "fair end")):
                key = f"correlation_ratio_{column}"
                ours = rows.get((data, name, "fairspan"), missing)
                title = f"correlation ratio of deciles, {where}, {data} {name}"
                limit = 2.0 * float(np.sqrt(9.0 / ours["n_test"]))
                yield at_most(title, ours.get(key, MISSING), limit)
                for rival in ("fgp", "ncfr"):
                    inform(f"  {rival}", rows.get((data, name, rival), missing).get(key, MISSING))


def pairs(tables: Tables) -> Iterator[Measurement]:
    """Count losses, split by split, to rivals that predict from X alone, and name each."""
    cells = [
        row
        for row in tables.paired
        if (row["criterion"], row["measure"]) == ("sp", "sp") and row["rival"] in BLIND
    ]
    reached = [row for row in cells if row["verdict"] != "not reached"]
    inform("paired cells, |corr|", len(cells))
    yield at_least("paired cells that a rival reached", len(reached), 1)
    for times, allowed in ((1, 2), (2, 0)):
        worse = [row for row in reached if row["mean"] > times * row["se"]]
        for row in worse:
            inform(f"  {_cell(row)}, z", row["z"])
        yield at_most(f"paired cells, ours worse by > {times} SE", len(worse), allowed)
    for title, verdict in (("where both keep the limit", "both"), ("at equal parity", "reached")):
        worse = [row for row in cells if row[f"{verdict}_verdict"].startswith("worse")]
        inform_cells(f"{title}: ours worse by > 1 SE", worse, f"{verdict}_z")
    kernels = [rival for rival in BLIND if rival not in ("boosting", "eg-boosting")]
    past = losses(tables, tables.sets, kernels, "fairspan-past")
    inform_cells("a path past the fair end, worse by > 1 SE at the limit", past, "z")
    numbers = [data for data in NUMBERS if data in tables.sets]
    default = losses(tables, numbers, ["hsic", "fair-pca"], "fairspan")
    title = "the default, which removes more, against those that limit correlations"
    inform_cells(title, default, "z")
    inform(
        "cells with a split on which the rival kept the limit and ours did not",
        sum(row["ours_met"] < row["met"] for row in cells),
    )


def losses(tables: Tables, sets: list[str], rivals: list[str], ours: str) -> list[Row]:
    """Cells in which one of our models is worse than a rival by more than a standard error."""
    rows = (
        tables.pair(data, "sp", "sp", limit, ours, rival)
        for data in sets
        for rival in rivals
        for limit in LIMITS
    )
    return [row for row in rows if row is not None and row["verdict"].startswith("worse")]


def inform_cells(name: str, rows: list[Row], z: str) -> None:
    """Print the number of rows, and each of them."""
    inform(name, len(rows))
    for row in rows:
        inform(f"  {_cell(row)}, z", row[z])


def _cell(row: Row) -> str:
    return f"{short(row['data'])} <= {row['limit']:g}, {row['ours']} - {row['rival']}"


def decisions(tables: Tables) -> Iterator[Measurement]:
    """Check decisions against fairlearn's reductions at equal parity, and the fit time."""
    times = {(row["data"], row["rival"]): row for row in tables.times}
    for data in CLASSES:
        for rival in ("eg-logistic", "eg-psi"):
            for criterion, measure, limit in (("sp", "dp", 0.02), ("eo", "eod", 0.05)):
                cell = (data, criterion, measure, limit, "fairspan-decisions", rival)
                yield _equal_parity(tables, cell)
                if row := tables.pair(*cell):
                    inform("  our gap on test rows", row["ours_measure"])
                    inform("  the rival's gap on test rows", row["rival_measure"])
            time = times.get((data, rival), {"whole_dial": MISSING, "one_value": MISSING})
            name = f"fit time, whole dial / {rival}'s, {short(data)}"
            yield at_most(name, time["whole_dial"], 0.1)
            inform("  of one value of the dial", time["one_value"])


def with_sensitive_features(tables: Tables) -> Iterator[Measurement]:
    """Check regression with S among the features against NCFR, which reads S too."""
    for data in NUMBERS:
        for limit in LIMITS:
            yield _equal_parity(tables, (data, "sp", "sp", limit, "fairspan-aware", "ncfr"))
            for ours in ("fairspan-aware", "fairspan-aware-correlation"):
                row = tables.pair(data, "sp", "sp", limit, ours, "ncfr-rff")
                if row is not None:
                    inform(f"  {ours} - ncfr-rff, in standard errors", row["reached_z"])


def _equal_parity(tables: Tables, cell: tuple[str, str, str, float, str, str]) -> Measurement:
    """Our error minus the rival's at the rival's parity: at most one standard error."""
    data, _, measure, limit, ours, rival = cell
    row = tables.pair(*cell)
    if row is None:
        row = {"reached_mean": MISSING, "reached_se": MISSING, "reached_ours_met": 0, "splits": 0}
    missed = row["splits"] - row["reached_ours_met"]
    if missed:
        inform(f"  splits on which {ours} missed that parity, {short(data)}", missed)
    mean, se = row["reached_mean"], row["reached_se"]
    name = f"{ours} - {rival}, {measure} <= {limit:g}, {short(data)}"
    return Measurement(name, mean, f"<= {se:.3g}", bool(mean <= se))


def short(data: str) -> str:
    """Shorten a data set's name to fit the column."""
    return data.replace("(paper's columns)", "paper")


def inform(name: str, value: float) -> None:
    """Print a number without a limit, aligned with the others."""
    print(f"{name:<64} {value:>11.4g}  information", flush=True)
