"""Tables, page and pictures of the frontier benchmark, from its rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fairspan_lab.cells import write_text
from fairspan_lab.frontier._page import markdown
from fairspan_lab.frontier._plot import draw_frontier, draw_prices
from fairspan_lab.frontier._price import Row, Runs
from fairspan_lab.frontier._tables import tabulate, write_csv

__all__ = ["write_report"]


def write_report(rows: Iterable[Row], out: Path, quick: bool) -> list[Path]:
    """Write every table and picture that the rows allow.

    Parameters
    ----------
    rows : iterable of dict
        Rows of the benchmark, one per model.
    out : Path
        Folder, which exists.
    quick : bool
        The rows are of a quick run: files have it in their names.

    Returns
    -------
    list of Path
        ``price.csv``, ``paired.csv``, ``hypervolume.csv``, ``frontier.md``, one
        ``frontier_CRITERION.png`` per criterion, and ``prices.png`` if fairspan was run.
    """
    runs = Runs(rows)
    if not runs.sets:
        msg = "There are no rows to report."
        raise ValueError(msg)
    suffix = "-quick" if quick else ""
    tables = tabulate(runs)
    written = [
        write_csv(table, out / f"{name}{suffix}.csv")
        for name, table in (
            ("price", tables.price),
            ("paired", tables.paired),
            ("hypervolume", tables.hypervolume),
        )
    ]
    pictures = [
        draw_frontier(runs, criterion, out / f"frontier_{criterion}{suffix}.png")
        for criterion in dict.fromkeys(row["criterion"] for row in tables.price)
    ]
    # Prices are shown for statistical parity, above the unconstrained error of fairspan.
    if any(runs.unconstrained(data) and runs.methods(data, "sp") for data in runs.sets):
        pictures.append(draw_prices(runs, out / f"prices{suffix}.png"))
    page = out / f"frontier{suffix}.md"
    write_text(page, markdown(tables, [path.name for path in pictures], quick))
    return [*written, page, *pictures]
