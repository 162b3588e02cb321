"""Model files, threads and imports beside their limits: ``make acceptance-files``.

Sizes and times are those of ``python -m tools.model_sizes --write``, ``python -m benchmarks.threads
--write`` and ``python -m benchmarks.imports --write``, which take minutes and a machine without other work.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

from tools import model_sizes
from tools.table import ROOT, Measurement, at_most

RESULTS = ROOT / "benchmarks" / "results"


def measurements() -> Iterator[Measurement]:
    """All rows."""
    yield from costs()


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
