"""Columns of sources that have types, such as Parquet and databases, as pandas columns for a model."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Collection
from typing import Any

import numpy as np

from fairspan.tables.numbers import Converted, Decimal, convert_texts


def from_arrow(table: Any) -> Any:
    """Return an Arrow table as a pandas data frame; decimals are floats."""
    import pyarrow

    for j, field in enumerate(table.schema):
        if pyarrow.types.is_decimal(field.type):
            column = table.column(j).cast(pyarrow.float64())
            table = table.set_column(j, field.name, column)
    # Arrow's own rule would make objects of dates, and nanoseconds of all timestamps.
    return table.to_pandas(date_as_object=False)


def column_of(values: list[Any]) -> Any:
    """Return values with None for missing ones as a pandas column of their common type."""
    import pandas as pd

    if all(value is None for value in values):
        return pd.Series(np.full(len(values), np.nan))
    return pd.Series(values)  # numbers with None are floats, not objects


def tidy(
    frame: Any, *, text: Collection[str] = (), decimal_mark: Decimal | None = None
) -> tuple[Any, Converted]:
    """Return the table with decimals as floats, and with dates and amounts that were text.

    Parameters
    ----------
    frame : pandas DataFrame
    text : columns of text that stay text.
    decimal_mark : the decimal mark, if it is given.
    """
    plain = {
        name: floats for name in frame.columns if (floats := _decimals(frame[name])) is not None
    }
    plain |= {name: d for name in frame.columns if (d := _dates(frame[name])) is not None}
    frame = frame.assign(**plain)
    texts = {
        name: frame[name]
        for name in frame.columns
        if frame[name].dtype.kind == "O"
        and str(frame[name].dtype) != "category"
        and name not in text
    }
    converted = convert_texts(texts, decimal=decimal_mark, only_with_unit=True)
    return frame.assign(**converted.columns), converted


def _dates(column: Any) -> Any:
    """Return a column of datetime.date or datetime, as databases give them, as datetimes in UTC."""
    import pandas as pd

    if column.dtype.kind != "O":
        return None
    known = column.dropna()
    if known.empty or not all(isinstance(value, datetime.date) for value in known):
        return None
    missing = column.isna().tolist()
    values = [
        np.datetime64("NaT") if gap else _utc(value)
        for value, gap in zip(column.tolist(), missing, strict=True)
    ]
    return pd.Series(np.array(values, dtype="datetime64[us]"), column.index, name=column.name)


def _utc(value: datetime.date) -> np.datetime64:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(value, "us")


def _decimals(column: Any) -> Any:
    """Return a column of decimal.Decimal as floats; None for another column."""
    if column.dtype.kind != "O":
        return None
    known = column.dropna()
    if known.empty or not all(isinstance(value, decimal.Decimal) for value in known):
        return None
    return column.map(float, na_action="ignore").astype(np.float64)
