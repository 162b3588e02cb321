"""Print the price tables of docs/choosing-the-dial.md.

``python -m tools.price_page [folder]`` prints, for each data set at its limit, the price of some
methods (test |corr|; splits that kept the limit), the ratio of our price to that of the paper's
method, and the dependence on age that remains on law school. It reads the committed tables of
docs/frontier, or the cells in a folder of ``fairspan bench frontier``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fairspan_lab.frontier import METHODS
from fairspan_lab.frontier._price import Row
from fairspan_lab.frontier._styles import compared_at
from fairspan_lab.frontier._tables import read_tables
from tools.frontier_tables import COMMITTED, tables_of

SHOWN = (  # one table each, so that a laptop shows it whole
    ("fairspan", "fairspan-past", "fairspan-correlation", "fgp"),
    ("hsic", "eg-logistic", "eg-psi"),
)


def main() -> None:
    """Print the tables."""
    tables = tables_of(Path(sys.argv[1])) if len(sys.argv) > 1 else read_tables(COMMITTED)[0]
    prices = {data: tables.prices(data, compared_at(data)) for data in tables.sets}
    for methods in SHOWN:
        names = " | ".join(METHODS[method].name for method in methods)
        print(f"| data, limit | unconstrained | {names} |")
        print("|---" * (2 + len(methods)) + "|")
        for data, rows in prices.items():
            free = tables.unconstrained(data) or (float("nan"), 0)
            cells = " | ".join(_shown(rows.get(method)) for method in methods)
            print(f"| {data}, {compared_at(data):g} | {free[0]:.3f} | {cells} |")
        print()
    print("price over FGP's")
    for data, rows in prices.items():
        for method in SHOWN[0][:3]:
            if method in rows and "fgp" in rows:
                ratio = rows[method]["price"] / rows["fgp"]["price"]
                print(f"{data:26} {method:22} {ratio:.2f}")
    print("\nlaw school, correlation ratio of deciles of age at both ends of the dial")
    ends = {(row["data"], row["attribute"], row["method"]): row for row in tables.ends}
    for method in ("fairspan", "fairspan-correlation"):
        if row := ends.get(("Law school", "age", method)):
            first, last = (row[f"correlation_ratio_{end}"] for end in ("first", "last"))
            print(f"{method:22} {first:.3f} {last:.3f}")


def _shown(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{row['price']:+.4f} ({row['test_measure']:.3f}; {row['met']}/{row['splits']})"


if __name__ == "__main__":
    main()
