"""Tables, page and pictures of the frontier benchmark, from its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fairspan_lab.frontier._page import markdown
from fairspan_lab.frontier._paired import paired_table
from fairspan_lab.frontier._plot import draw_frontier, draw_prices
from fairspan_lab.frontier._price import (
    AWARE,
    BLIND,
    TABLES,
    Runs,
    has_measure,
    price_table,
)
from fairspan_lab.frontier._summary import hypervolume_table
from fairspan_lab.reproduce._kept import write_table, write_whole

__all__ = ["write_csv", "write_report"]

Row = dict[str, Any]


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
    tables = _tables(runs)
    price = [row for key in tables for row in price_table(runs, *key)]
    paired = [row for key in tables for row in paired_table(runs, *key, (*BLIND, *AWARE))]
    areas = hypervolume_table(runs)
    written = [
        write_csv(price, out / f"price{suffix}.csv"),
        write_csv(paired, out / f"paired{suffix}.csv"),
        write_csv(areas, out / f"hypervolume{suffix}.csv"),
    ]
    pictures = [
        draw_frontier(runs, criterion, out / f"frontier_{criterion}{suffix}.png")
        for criterion in dict.fromkeys(criterion for _, criterion, _ in tables)
    ]
    if any(runs.unconstrained(data) for data in runs.sets):
        pictures.append(draw_prices(runs, out / f"prices{suffix}.png"))
    page = out / f"frontier{suffix}.md"
    write_whole(page, markdown(runs, price, paired, areas, pictures, quick))
    return [*written, page, *pictures]


def _tables(runs: Runs) -> list[tuple[str, str, str]]:
    """Data set, criterion and measure of every table there are rows for."""
    out = []
    for data in runs.sets:
        for criterion, measure in TABLES:
            methods = runs.methods(data, criterion)
            # Methods without a criterion alone do not make a table.
            curves = (
                runs.of(data, methods[0], criterion) if criterion in runs.criteria(data) else {}
            )
            if curves and has_measure(next(iter(curves.values()))[0], measure):
                out.append((data, criterion, measure))
    return out


def write_csv(rows: Sequence[Row], path: Path) -> Path:
    """Rows under all columns that any of them has."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    if not rows:
        write_whole(path, "")
        return path
    plain = ({k: _plain(v) for k, v in row.items()} for row in rows)
    return write_table(path, columns, plain, "\n")


def _plain(value: Any) -> Any:
    """Numbers to ten digits, which any machine agrees on; what is not known stays empty."""
    if not isinstance(value, float):
        return value
    return "" if math.isnan(value) else f"{value:.10g}"
