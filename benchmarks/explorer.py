"""Time of a report relative to its fit and its audit: ``python -m benchmarks.explorer``.

A synthetic table of mixed types; everything in CPU time of one process, so that a busy machine
changes little. The page's size is printed, too.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import pandas as pd

from fairspan.exceptions import FairspanWarning

ROWS = 50_000


@dataclass(frozen=True)
class Cost:
    """Seconds of CPU, and bytes."""

    fit: float
    audit: float
    whole: float  # from the CSV file to the page
    size: int

    @property
    def ratio(self) -> float:
        """Total time relative to fit and audit."""
        return self.whole / (self.fit + self.audit)


def make_people(n: int, seed: int = 0) -> pd.DataFrame:
    """Table with mixed types, missing values and different groups; `repaid` is the target."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2])
    sex = rng.choice(["f", "m"], n)
    shift = 0.8 * (region == "north") - 0.5 * (sex == "f")
    income = np.exp(10.0 + 0.5 * (rng.normal(size=n) + shift))
    table = pd.DataFrame(
        {
            "income": income.round(),
            "debt": rng.gamma(2.0, 4000.0, n).round(),
            "age": rng.integers(18, 80, n),
            "years": rng.integers(0, 40, n),
            "job": rng.choice(["clerk", "driver", "nurse", "teacher", "other"], n),
            "home": rng.choice(["rent", "own", "family"], n),
            "children": rng.integers(0, 5, n),
            "score": (600.0 + 60.0 * rng.normal(size=n) + 20.0 * shift).round(),
            "region": region,
            "sex": sex,
        }
    )
    logit = np.log(income) - 10.0 + (table["score"] - 600.0) / 80.0 + 0.3 * shift
    table["repaid"] = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-logit)), "yes", "no")
    for name in ("income", "job", "score"):
        table.loc[rng.random(n) < 0.03, name] = None
    return table


@contextmanager
def cpu_clock() -> Iterator[None]:
    """The report's own clock, as CPU time."""
    with mock.patch("fairspan.report.pipeline.time.perf_counter", time.process_time):
        yield


def measure(rows: int = ROWS) -> Cost:
    """From a CSV file to a page."""
    from fairspan.report import explore

    with TemporaryDirectory() as folder, cpu_clock(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FairspanWarning)  # the page shows them
        table, page = Path(folder) / "people.csv", Path(folder) / "report.html"
        make_people(rows).to_csv(table, index=False)
        start = time.process_time()
        report = explore(
            pd.read_csv(table),
            target="repaid",
            sensitive_features=["region", "sex"],
            pos_label="yes",
            name="people.csv",
        )
        report.to_html(page)
        whole = time.process_time() - start
        return Cost(report.seconds["fit"], report.seconds["audit"], whole, page.stat().st_size)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explorer", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    cost = measure(parser.parse_args(arguments).rows)
    print(f"fit {cost.fit:.1f} s, audit {cost.audit:.1f} s, all {cost.whole:.1f} s of CPU")
    print(f"ratio {cost.ratio:.2f}, page {cost.size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
