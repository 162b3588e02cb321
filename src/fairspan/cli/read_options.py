"""Options of the commands about reading a table, and about columns that are left out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    str | None,
    typer.Argument(
        help="CSV, Excel, Parquet or Feather file, one row per person, also compressed; - is standard "
        "input. Or the name of a data set."
    ),
]
Sep = Annotated[
    str | None,
    typer.Option(help="Separator of a text file's fields, as ';' or tab; guessed if not given."),
]
Decimal = Annotated[
    str | None, typer.Option(help="Decimal mark, . or , ; guessed if not given.", metavar="TEXT")
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Encoding of a text file, as cp1252 or utf-16; guessed if not given."),
]
Sheet = Annotated[
    str | None, typer.Option(help="Sheet of an Excel file; the first with values if not given.")
]
Sql = Annotated[
    str | None,
    typer.Option("--sql", help="Instead of DATA: query of --database, one row per person."),
]
Database = Annotated[
    str | None,
    typer.Option(help="File for --sql, opened read-only: sqlite:///FILE or duckdb:///FILE."),
]
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
DateParts = Annotated[
    list[str] | None,
    typer.Option(
        help="month or weekday: learn from these parts of dates, too. Dates are days since 1970."
    ),
]
