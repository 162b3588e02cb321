"""Files as people have them, and what models, threads and imports cost: ``make acceptance-files``.

Sizes and times are those of ``python -m tools.model_sizes --write``, ``python -m benchmarks.threads
--write`` and ``python -m benchmarks.imports --write``, which take minutes and a machine without other work.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

from tools import model_sizes
from tools.table import ROOT, Measurement, at_least, at_most
from tools.ugly_files import CASES, outcomes

RESULTS = ROOT / "benchmarks" / "results"


def measurements() -> Iterator[Measurement]:
    """All rows."""
    yield from tables()
    yield from costs()


def tables() -> Iterator[Measurement]:
    """Files that give a page or one line with a remedy, and the slowest of them."""
    results = list(outcomes())
    for case, outcome in results:
        if not outcome.passed:
            print(f"{case.name}: {outcome.outcome}")
    yield at_least("files", len(CASES), 40)
    yield at_most(
        "files without a page or one line with a remedy", sum(not o.passed for _, o in results), 0
    )
    pages = sum(o.passed and case.page for case, o in results)
    yield at_least("files with a page", pages, sum(case.page for case in CASES))
    yield at_most("seconds of the slowest file", max(o.seconds for _, o in results), 120.0)


def costs() -> Iterator[Measurement]:
    """What models, threads and imports cost."""
    yield from model_sizes.stored()
    with (RESULTS / "threads.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name = f"fairspan explore loans, default threads / one ({row['machine']})"
            yield at_most(name, float(row["ratio"]), 1.2)
    with (RESULTS / "imports.csv").open(newline="", encoding="utf-8") as file:
        seconds = {row["name"]: float(row["seconds"]) for row in csv.DictReader(file)}
    ratio = seconds["fairspan.FairRidge"] / seconds["sklearn.linear_model.Ridge"]
    yield at_most("import of FairRidge / import of Ridge", ratio, 1.3)
    for name in ("fairspan --help", "usage error"):
        ratio = seconds[name] / seconds[f"{name} before"]
        yield at_most(f"{name} / the same before", ratio, 0.5)
