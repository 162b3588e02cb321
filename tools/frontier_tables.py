"""Put a finished run of the frontier benchmark into the documentation.

``python -m tools.frontier_tables [folder] [--commit COMMIT]`` reads the cells of ``fairspan bench
frontier`` and writes the page, the pictures and the summary tables to docs/frontier. The tables are
all that the price tables of the documentation, ``make acceptance-price`` and the page are made of.
Each begins with a line that names this command, the commit the cells were computed with and the
version of the benchmark. Curves of single splits, and so the pictures, need the cells again.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from fairspan_lab.frontier._cells import Cell, finished
from fairspan_lab.frontier._price import Runs
from fairspan_lab.frontier._report import write_report
from fairspan_lab.frontier._tables import Tables, read_tables, tabulate, write_tables
from tools.table import ROOT

# Where `fairspan bench frontier` keeps its cells.
OUT = ROOT / "frontier-output"
COMMITTED = ROOT / "docs" / "frontier"


def benchmark_version() -> str:
    """Version of methods, measures and sizes; a change of it makes earlier results obsolete."""
    return Cell("Adult", 0, "fairspan", "sp", quick=False).made_by()


def committed_tables(folder: Path = COMMITTED) -> Tables | None:
    """Read the committed tables; None if there are none, or if the benchmark has changed since."""
    if not (folder / "price.csv").exists():
        return None
    tables, note = read_tables(folder)
    return tables if note.endswith(f"version {benchmark_version()}") else None


def tables_of(folder: Path) -> Tables:
    """Compute the tables from the cells of a folder."""
    return tabulate(Runs(finished(folder / "cells", quick=False)))


def main() -> None:
    """Write page, pictures and tables to docs/frontier."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=OUT)
    parser.add_argument("--commit", help="commit the cells were computed with (default: HEAD)")
    options = parser.parse_args()
    commit = (
        options.commit
        or subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    )
    rows = finished(options.folder / "cells", quick=False)
    if not rows:
        raise SystemExit(f"{options.folder}: no finished cells; run `make frontier` first.")
    note = (
        "Written by `python -m tools.frontier_tables` from cells computed with commit "
        f"{commit}, version {benchmark_version()}"
    )
    written = [
        *write_report(rows, COMMITTED, quick=False),
        *write_tables(tabulate(Runs(rows)), COMMITTED, note),
    ]
    for path in dict.fromkeys(written):
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
