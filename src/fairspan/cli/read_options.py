"""Options of the commands about reading a table and about its columns."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from fairspan.cli import common

Keep = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns to learn from although they look like identifiers or free text, which are left out."
    ),
]
Dictionary = Annotated[
    Path | None,
    typer.Option(
        help="File with the columns name, label, description, kind: sets kinds, and the report shows "
        "labels."
    ),
]


@dataclass(kw_only=True)
class InputOptions:
    """DATA, and the options that say how to read it.

    Attributes
    ----------
    data : path of a file, "-" for standard input, or name of a data set.
    sep, decimal, encoding, sheet : how to read a file.
    unit : signs of columns whose numbers have none.
    sql, database : a query, and the file that it is for, instead of a file.
    data_home : folder of the data sets' files.
    """

    data: Annotated[
        str | None,
        typer.Argument(
            help="CSV, Excel, Parquet or Feather file, one row per person, also compressed; - is standard "
            "input. Or the name of a data set."
        ),
    ] = None
    sep: Annotated[
        str | None,
        typer.Option(
            help="Separator of a text file's fields, as ';' or tab; guessed if not given."
        ),
    ] = None
    decimal: Annotated[
        str | None,
        typer.Option(help="Decimal mark, . or , ; guessed if not given.", metavar="TEXT"),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(help="Encoding of a text file, as cp1252 or utf-16; guessed if not given."),
    ] = None
    sheet: Annotated[
        str | None,
        typer.Option(help="Sheet of an Excel file; the first with values if not given."),
    ] = None
    unit: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=%, NAME=€, ...: the sign of a column of numbers that DATA has without one; or "
            "NAME=none."
        ),
    ] = None
    sql: Annotated[
        str | None,
        typer.Option("--sql", help="Instead of DATA: query of --database, one row per person."),
    ] = None
    database: Annotated[
        str | None,
        typer.Option(help="File for --sql, opened read-only: sqlite:///FILE or duckdb:///FILE."),
    ] = None
    data_home: common.DataHome = None


@dataclass(kw_only=True)
class ColumnOptions:
    """The options about the columns of a table to train on."""

    target: common.Target = None
    protected: common.Protected = None
    control: common.Control = None
    weight: common.Weight = None
    features: common.Features = None
    drop: common.Drop = None
    keep: Keep = None
    kind: common.Kind = None
    dictionary: Dictionary = None
    date_parts: Annotated[
        list[str] | None,
        typer.Option(
            help="month or weekday: learn from these parts of dates, too. Dates are days since 1970."
        ),
    ] = None
    positive: common.Positive = None
    drop_missing: common.DropMissing = False
    missing_protected: common.MissingProtected = "raise"


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the records above, in place of its parameters of these types."""
    signature = inspect.signature(command, eval_str=True)
    records = {
        n: p.annotation for n, p in signature.parameters.items() if is_dataclass(p.annotation)
    }

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, record in records.items():
            given = {part.name: values.pop(part.name) for part in fields(record)}
            values[name] = typing.cast(Any, record)(**given)
        command(**values)

    parameters = [q for p in signature.parameters.values() for q in _expanded(p)]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def _expanded(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    record = parameter.annotation
    if not is_dataclass(record):
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        return
    hints = typing.get_type_hints(record, include_extras=True)
    for part in fields(record):
        assert part.default is not MISSING
        yield inspect.Parameter(
            part.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=part.default,
            annotation=hints[part.name],
        )
