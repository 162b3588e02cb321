"""Tables of the frontier benchmark: computed from its rows, or read from their CSV files.

The page, the price tables of the documentation and ``make acceptance-price`` need these tables
only. The pictures need every row.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from fairspan_lab.cells import write_table, write_text
from fairspan_lab.frontier._paired import paired, paired_table
from fairspan_lab.frontier._price import (
    AWARE,
    BLIND,
    LIMITS,
    TABLES,
    Row,
    Runs,
    has_measure,
    price_table,
)
from fairspan_lab.frontier._summary import (
    fit_times,
    hypervolume_table,
    over_correction,
)

__all__ = ["Tables", "read_tables", "tabulate", "write_csv", "write_tables"]

# Pairs of our models and rivals for statistical parity that `partner` does not name.
_OTHER_PAIRS = {
    "fairspan-past": [rival for rival in BLIND if "boosting" not in rival],
    "fairspan": ["hsic", "fair-pca"],
    "fairspan-aware": ["ncfr", "ncfr-rff"],
}
# Methods whose dependence at both ends of the dial is shown.
_ENDS = ("fairspan", "fairspan-correlation", "fgp", "ncfr")
_TableKey = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Summary tables over the splits.

    Attributes
    ----------
    price : list of dict
        Error and price per data set, criterion, measure, limit and method (`price_table`).
    paired : list of dict
        Every rival against the model of ours that it is compared with (`paired_table`).
    other_pairs : list of dict
        Further pairs, for statistical parity, in the same columns.
    hypervolume : list of dict
        Dominated area per data set and method.
    ends : list of dict
        Dependence on each attribute at the ends of the dial (`over_correction`).
    times : list of dict
        Fit time of fairspan relative to fairlearn's reductions (`fit_times`).
    """

    price: list[Row]
    paired: list[Row]
    other_pairs: list[Row]
    hypervolume: list[Row]
    ends: list[Row]
    times: list[Row]

    @cached_property
    def sets(self) -> list[str]:
        """Names of the data sets, in the order of the tables."""
        return list(dict.fromkeys(row["data"] for row in (*self.price, *self.hypervolume)))

    def unconstrained(self, data: str) -> tuple[float, int] | None:
        """Mean error of fairspan at its first dial value, and the number of splits."""
        for row in self.price:
            if (row["data"], row["method"]) == (data, "fairspan"):
                return row["error"] - row["own_price"], row["splits"]
        return None

    def prices(self, data: str, limit: float) -> dict[str, Row]:
        """Price rows for statistical parity by method."""
        key = (data, "sp", "sp", limit)
        columns = ("data", "criterion", "measure", "limit")
        return {row["method"]: row for row in self.price if tuple(row[c] for c in columns) == key}

    def pair(
        self, data: str, criterion: str, measure: str, limit: float, ours: str, rival: str
    ) -> Row | None:
        """Comparison of one of our models with a rival; None if they share no split."""
        return self._pairs.get((data, criterion, measure, limit, ours, rival))

    @cached_property
    def _pairs(self) -> dict[tuple[Any, ...], Row]:
        columns = ("data", "criterion", "measure", "limit", "ours", "rival")
        rows = (*self.paired, *self.other_pairs)
        return {tuple(row[c] for c in columns): row for row in rows}


def tabulate(runs: Runs) -> Tables:
    """Compute every table that the rows allow."""
    keys = _table_keys(runs)
    return Tables(
        price=[row for key in keys for row in price_table(runs, *key)],
        paired=[row for key in keys for row in paired_table(runs, *key, (*BLIND, *AWARE))],
        other_pairs=_other_pairs(runs),
        hypervolume=hypervolume_table(runs),
        ends=[row for method in _ENDS for row in over_correction(runs, method)],
        times=fit_times(runs),
    )


def _table_keys(runs: Runs) -> list[_TableKey]:
    """Data set, criterion and measure of every table that has rows."""
    out = []
    for data in runs.sets:
        for criterion, measure in TABLES:
            if criterion not in runs.criteria(data):
                continue  # only methods that take no criterion were run
            # Cells of before a measure was added do not have it.
            curves = [runs.of(data, key, criterion) for key in runs.methods(data, criterion)]
            if all(has_measure(next(iter(by.values()))[0], measure) for by in curves if by):
                out.append((data, criterion, measure))
    return out


def _other_pairs(runs: Runs) -> list[Row]:
    rows = (
        paired(runs, data, "sp", "sp", limit, ours, rival)
        for data in runs.sets
        for ours, rivals in _OTHER_PAIRS.items()
        for rival in rivals
        for limit in LIMITS
    )
    return [row for row in rows if row is not None]


def write_tables(tables: Tables, folder: Path, note: str) -> list[Path]:
    """Write every table to ``NAME.csv`` with six digits, under a first line ``# note``."""
    return [
        write_csv(getattr(tables, field.name), folder / f"{field.name}.csv", digits=6, note=note)
        for field in fields(tables)
    ]


def read_tables(folder: Path) -> tuple[Tables, str]:
    """Read the files of `write_tables`: the tables and the note."""
    rows: dict[str, list[Row]] = {}
    note = ""
    for field in fields(Tables):
        with (folder / f"{field.name}.csv").open(encoding="utf-8", newline="") as stream:
            note = stream.readline().removeprefix("#").strip()
            rows[field.name] = [
                {name: _value(text) for name, text in row.items()} for row in csv.DictReader(stream)
            ]
    return Tables(**rows), note


def _value(text: str) -> Any:
    if not text:
        return math.nan
    kinds: tuple[Callable[[str], Any], ...] = (int, float)
    for kind in kinds:
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def write_csv(rows: Sequence[Row], path: Path, *, digits: int = 10, note: str = "") -> Path:
    """Write rows under all columns that any of them has; numbers that are not known stay empty.

    Ten digits are the same on every machine. A `note` becomes a first line that starts with ``#``.
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    if not rows and not note:
        write_text(path, "")
        return path
    plain = ({name: _plain(value, digits) for name, value in row.items()} for row in rows)
    return write_table(path, columns, plain, "\n", note=note)


def _plain(value: Any, digits: int) -> Any:
    if not isinstance(value, float):
        return value
    return "" if math.isnan(value) else f"{value:.{digits}g}"
