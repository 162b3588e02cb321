"""Read a sheet of an Excel file."""

from __future__ import annotations

import decimal
import importlib
import io
import re
import zipfile
from collections.abc import Collection
from typing import Any

from fairspan._system import first_line
from fairspan.inputs.units import UNITS
from fairspan.tables.numbers import PLACEHOLDERS
from fairspan.tables.typed import column_of

# Values that Excel shows for formulas without a result.
_ERRORS = ("#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!")

# Signs in the number format of a cell: of a locale, as [$€-407], or as they are.
_SIGN = re.compile(r"\[\$([^\]-]+)|\[[^\]]*\]|(%|[$€£¥₹])")


def read_workbook(
    data: bytes, sheet: str | None, text: Collection[str], most_bytes: int
) -> tuple[Any, str, list[str]]:
    """Return a sheet as a data frame, its name, and what was assumed.

    Numbers that are shown as percentages are read as shown, 12 for 12 %, as from other files.

    Parameters
    ----------
    data : content of an .xlsx file.
    sheet : name of the sheet; the first one with values if None.
    text : columns to read as text.
    most_bytes : largest size of the unpacked file.

    Raises
    ------
    ValueError
        The second half of a sentence about the file.
    """
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError as error:
        msg = 'it needs openpyxl to be read: pip install "fairspan[xlsx]", or save it as CSV.'
        raise ImportError(msg) from error
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(part.file_size for part in archive.infolist()) > most_bytes:
                raise ValueError("unpacked, it does not fit in memory; save it as CSV or Parquet.")
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    except ValueError:
        raise
    except Exception as error:  # openpyxl, zipfile and the XML parser have classes of their own
        msg = f"it is no Excel file that can be opened ({first_line(error)}); save it again, or as CSV."
        raise ValueError(msg) from error
    try:
        return _table(book, sheet, text)
    finally:
        book.close()


def _table(book: Any, sheet: str | None, text: Collection[str]) -> tuple[Any, str, list[str]]:
    names = [s.title for s in book.worksheets]
    if sheet is not None and sheet not in names:
        shown = ", ".join(map(repr, names))
        raise ValueError(f"sheet={sheet!r} is not one of its sheets: {shown}.")
    chosen = sheet or ""
    rows: list[tuple[Any, ...]] = []
    signs: dict[int, set[str]] = {}
    full = []
    for worksheet in book.worksheets:
        if sheet is None and worksheet.sheet_state != "visible":
            continue
        if sheet in (None, worksheet.title):
            values, found = _rows(worksheet)
            if values:
                full.append(worksheet.title)
                if not rows:
                    chosen, rows, signs = worksheet.title, values, found
    if not rows:
        raise ValueError("it has no rows." if sheet is None else f"its sheet {sheet!r} is empty.")
    frame, assumed = _frame(rows, text, signs)
    if sheet is None and len(full) > 1:
        assumed.insert(0, f"sheet {chosen!r} of {len(full)} sheets")
    return frame, chosen, assumed


def _rows(worksheet: Any) -> tuple[list[tuple[Any, ...]], dict[int, set[str]]]:
    """Return the rows of a sheet that are not empty, and the signs that its numbers are shown with."""
    rows = []
    signs: dict[int, set[str]] = {}
    known: dict[str, str] = {}
    for cells in worksheet.iter_rows():
        row = tuple(cell.value for cell in cells)
        if not any(value is not None and str(value).strip() for value in row):
            continue
        rows.append(row)
        for j, value in enumerate(row):
            if isinstance(value, int | float) and not isinstance(value, bool):
                number_format = cells[j].number_format
                if number_format not in known:
                    known[number_format] = _sign(number_format)
                if known[number_format]:
                    signs.setdefault(j, set()).add(known[number_format])
    return rows, signs


def _sign(number_format: str) -> str:
    """Return the percent or currency sign that a format shows; "" if there is none."""
    plain = (number_format or "").replace('"', "").replace("\\", "")
    return next(
        (found[1] or found[2] for found in _SIGN.finditer(plain) if found[1] or found[2]), ""
    )


def _percent(value: Any) -> Any:
    """Return a number of a column of percentages as it is shown, without an error of rounding."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return float(decimal.Decimal(repr(value)) * 100)


def _frame(
    rows: list[tuple[Any, ...]], text: Collection[str], signs: dict[int, set[str]]
) -> tuple[Any, list[str]]:
    import pandas as pd

    width = max(
        max(j for j, v in enumerate(row) if v is not None and str(v).strip()) + 1 for row in rows
    )
    header = [*rows[0], *[None] * width][:width]
    body = [([*row, *[None] * width])[:width] for row in rows[1:]]
    columns: dict[int, Any] = {}
    names: list[str] = []
    mixed, shares, several = [], [], []
    units: dict[str, str] = {}
    for j, cell in enumerate(header):
        values = [_value(row[j]) for row in body]
        blank = cell is None or not str(cell).strip()
        if blank and all(value is None for value in values):
            continue
        if blank:
            raise ValueError(
                f"its column {_letter(j)} has values and no name in the first row. Name it, or pass the "
                f"sheet that has the table, with the names in its first row (sheet=)."
            )
        name = str(cell).strip()
        if name in names:
            raise ValueError(f"it has two columns named {name!r}; give each its own name.")
        known = [value for value in values if value is not None]
        if name in text:
            values = [None if v is None else _label(v) for v in values]
        elif any(isinstance(v, str) for v in known) and any(not isinstance(v, str) for v in known):
            # Placeholders such as "n/a" among numbers are missing values.
            values = [
                None if isinstance(v, str) and v.casefold() in PLACEHOLDERS else v for v in values
            ]
            if any(isinstance(v, str) for v in values):
                values = [None if v is None else _label(v) for v in values]
                mixed.append(name)
        shown = signs.get(j, set())
        if name not in text and shown == {"%"}:
            values = [_percent(value) for value in values]
            shares.append(name)
        if name not in text and len(shown) == 1:
            units[name] = next(iter(shown))
        elif name not in text and shown:
            several.append(f"{name!r} ({', '.join(sorted(shown))})")
        names.append(name)
        columns[len(names) - 1] = column_of(values)
    frame = pd.DataFrame(columns)
    frame.columns = pd.Index(names, dtype=object)
    frame.attrs[UNITS] = units
    assumed = []
    if shares:
        assumed.append(f"percentages as shown, 12 for 12 %, in {_some(shares)}")
    if several:
        assumed.append(f"numbers with several signs in {', '.join(several[:3])}")
    if mixed:
        assumed.append(f"text in {_some(mixed)}, where text and other values are mixed")
    return frame, assumed


def _some(names: list[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (" and others" if len(names) > 3 else "")


def _value(value: Any) -> Any:
    """Return the value of a cell; None for blanks and errors of formulas."""
    if isinstance(value, str):
        value = value.strip()
        return None if not value or value in _ERRORS else value
    return value


def _label(value: Any) -> str:
    """Return a cell as text: "1" also for 1.0, because Excel has no integers."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _letter(j: int) -> str:
    """Name of the column as Excel writes it."""
    out = ""
    j += 1
    while j:
        j, rest = divmod(j - 1, 26)
        out = chr(65 + rest) + out
    return out
