"""Tables about new rows: ``python -m tools.promise_tables dependence | limits | intervals``.

Each command writes a CSV file under benchmarks/results; every row names the command and the commit it was
made with. ``make acceptance-promise`` compares the files with their limits. A run that was stopped goes on:
rows of the same commit and number of draws stay, others of the same name are replaced. ``--only PATTERN``
makes some rows, ``--draws N`` fewer draws, ``--jobs 2`` uses two processes, ``--out`` writes elsewhere.
"""

from __future__ import annotations

import argparse
import csv
import re
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from tools import promise_dependence, promise_intervals, promise_limits
from tools.table import ROOT

RESULTS = ROOT / "benchmarks" / "results"
DRAWS = {"dependence": 20, "limits": 300, "intervals": 200}

Found = dict[
    str, dict[str, Any]
]  # columns of the rows of one draw: numbers, or lists for a summary


def means(columns: dict[str, Any]) -> dict[str, float]:
    """Mean of every column over draws."""
    return {key: float(np.mean(values)) for key, values in columns.items()}


@dataclass(frozen=True, kw_only=True)
class Part:
    """Rows of a table that are made from the same draws."""

    names: list[str]
    measure: Callable[[int], Found]  # of a seed
    draws: int
    summary: Callable[[dict[str, Any]], dict[str, float]] = means


def dependence(draws: int) -> Iterator[Part]:
    """Dependence that is left at fairness 1."""
    for name, draw, params in promise_dependence.rows_of_dependence():

        def measure(
            seed: int, name: str = name, draw: Any = draw, params: dict[str, Any] = params
        ) -> Found:
            return {name: promise_dependence.compare(draw(seed), params)}

        yield Part(names=[name], measure=measure, draws=draws, summary=promise_dependence.summary)


def limits(draws: int) -> Iterator[Part]:
    """Limits promised and kept; a third of the draws at 8,000 rows, and at most 20 splits of a real table."""
    for name, n, draw in promise_limits.populations():
        yield Part(
            names=promise_limits.row_names(name),
            measure=partial(promise_limits.planted_draw, name, draw),
            draws=draws if n < 8000 else max(draws // 3, 1),
        )
    for name, draw, metrics, params in promise_limits.tables():
        yield Part(
            names=promise_limits.row_names(name, metrics),
            measure=partial(promise_limits.real_draw, name, draw, metrics, params),
            draws=min(draws, 20),
        )


def intervals(draws: int) -> Iterator[Part]:
    """Coverage of intervals."""
    for n in promise_intervals.SIZES:
        for name in promise_intervals.NAMES:
            yield Part(
                names=promise_intervals.row_names(name, n),
                measure=partial(promise_intervals.coverage, name, n),
                draws=draws,
            )
    yield Part(
        names=["conformal, group 0", "conformal, group 1"],
        measure=promise_intervals.conformal,
        draws=promise_intervals.CONFORMAL_DRAWS,
    )


TABLES = {"dependence": dependence, "limits": limits, "intervals": intervals}


def run(part: Part, jobs: int) -> tuple[list[dict[str, Any]], float]:
    """Rows of a part, over all of its draws, and the processor seconds of a draw."""
    draws = (delayed(_quiet)(part.measure, seed) for seed in range(part.draws))
    found, seconds = zip(*Parallel(n_jobs=jobs)(draws), strict=True)
    rows = []
    for name in found[0]:
        columns = {key: np.array([one[name][key] for one in found]) for key in found[0][name]}
        rows.append({"name": name, "draws": part.draws, **part.summary(columns)})
    return rows, float(np.mean(seconds))


def _quiet(measure: Callable[[int], Found], seed: int) -> tuple[Found, float]:
    """One draw, without warnings and with one thread, and its processor seconds."""
    start = time.process_time()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return measure(seed), time.process_time() - start


def commit_name() -> str:
    """Short name of the commit, marked if code differs from it; the tables themselves may differ."""
    git = partial(subprocess.run, capture_output=True, text=True, cwd=ROOT, check=False)
    changed = git(["git", "diff", "--quiet", "HEAD", "--", "src", "tools"]).returncode != 0
    name = git(["git", "rev-parse", "--short", "HEAD"]).stdout.strip()
    return f"{name}-dirty" if changed else name


Tables = dict[str, Callable[[int], Iterator[Part]]]


def main(
    tables: Tables = TABLES,
    draws_of: dict[str, int] = DRAWS,
    prefix: str = "promise",
    text: str | None = __doc__,
    module: str | None = None,
) -> None:
    """Write a table; ``module`` is the one that runs, if its name is not that of the prefix."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("table", choices=tables)
    parser.add_argument("--draws", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    out = options.out or RESULTS / f"{prefix}_{options.table}.csv"
    draws = options.draws or draws_of[options.table]
    module = module or f"tools.{prefix}_tables"
    command = f"python -m {module} {options.table} --draws {draws}"
    commit = commit_name()
    rows: dict[str, dict[str, Any]] = {}
    if out.exists():
        with out.open(newline="", encoding="utf-8") as file:
            rows = {row["name"]: row for row in csv.DictReader(file)}
    for part in tables[options.table](draws):
        made = {
            n
            for n, row in rows.items()
            if (row["commit"], row["draws"]) == (commit, str(part.draws))
        }
        wanted = [name for name in part.names if re.search(options.only, name)]
        if not wanted or made.issuperset(wanted):
            continue
        found, seconds = run(part, options.jobs)
        for row in found:
            rows[row["name"]] = {
                **{k: f"{v:.6g}" if isinstance(v, float) else str(v) for k, v in row.items()},
                "commit": commit,
                "command": command,
            }
            print(
                "  ".join(
                    f"{k} {v:.4g}" if isinstance(v, float) else f"{v}" for k, v in row.items()
                )
            )
        print(f"  {seconds:.2f} s of processor time a draw", flush=True)
        fields = list(dict.fromkeys(key for row in rows.values() for key in row))
        with out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=fields)
            writer.writeheader()
            writer.writerows(rows.values())


if __name__ == "__main__":
    main()
