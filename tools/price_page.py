"""The short numbers of docs/choosing-the-dial.md, from the cells of a folder.

``python -m tools.price_page [folder]`` prints, for each data set at its limit, the price of some
methods (test |corr|; splits that kept the limit), the price of ours over the paper's method, and what
is left of age on law school. The folder is that of ``fairspan bench frontier``, by default its own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from fairspan_lab.frontier import METHODS
from fairspan_lab.frontier._cells import finished
from fairspan_lab.frontier._price import Runs, price_table
from fairspan_lab.frontier._styles import compared_at
from tools.acceptance_price import OUT

SHOWN = (  # one table each, so that a laptop shows it whole
    ("fairspan", "fairspan-past", "fairspan-correlation", "fgp"),
    ("hsic", "eg-logistic", "eg-psi"),
)


def main() -> None:
    """Print the tables."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    runs = Runs(finished(folder / "cells", quick=False))
    found = {data: _prices(runs, data) for data in runs.sets}
    for methods in SHOWN:
        print(
            "| data, limit | unconstrained | " + " | ".join(METHODS[m].name for m in methods) + " |"
        )
        print("|---" * (2 + len(methods)) + "|")
        for data, rows in found.items():
            free = np.mean(list(runs.unconstrained(data).values()))
            cells = " | ".join(_shown(rows.get(method)) for method in methods)
            print(f"| {data}, {compared_at(data):g} | {free:.3f} | {cells} |")
        print()
    ratios = [
        (data, method, rows[method]["price"] / rows["fgp"]["price"])
        for data, rows in found.items()
        for method in SHOWN[0][:3]
        if method in rows and "fgp" in rows
    ]
    print("price over FGP's")
    for data, method, ratio in ratios:
        print(f"{data:26} {method:22} {ratio:.2f}")
    print("\nlaw school, correlation ratio of deciles of age at both ends of the dial")
    for method in ("fairspan", "fairspan-correlation"):
        curves = runs.of("Law school", method, "sp").values()
        ends = [[curve[i]["test_ratio[age]"] for i in (0, -1)] for curve in curves]
        if ends:
            print(f"{method:22}", *(f"{value:.3f}" for value in np.mean(ends, axis=0)))


def _prices(runs: Runs, data: str) -> dict[str, dict[str, Any]]:
    """The row of every method, at the limit of a data set."""
    table = price_table(runs, data, "sp", "sp", [compared_at(data)])
    return {row["method"]: row for row in table}


def _shown(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{row['price']:+.4f} ({row['test_measure']:.3f}; {row['met']}/{row['splits']})"


if __name__ == "__main__":
    main()
