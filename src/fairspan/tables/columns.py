"""Columns of a table that need a decision before a model learns from them.

Identifiers and free text are no features. Dates have parts. A group of one person is no group.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from fairspan._system import kind_of_texts
from fairspan.inputs.columns import require_columns

__all__ = [
    "DATES",
    "NUMBERS",
    "date_parts_of",
    "is_dates",
    "join_single_rows",
    "unlearnable",
    "with_date_parts",
]

# Columns with fewer values may differ in every row by chance.
_MIN_ROWS = 20
# A text column with a larger share of different values is free text, not a category.
_TEXT_SHARE = 0.5
# Texts of so many words are sentences.
_SENTENCE = 4
# Different integers of one length with so many digits are numbers of accounts or people.
_LONG_NUMBER = 6
_ID_NAME = re.compile(
    r"(?:^|[_\W])(?:id|ids|uid|uuid|guid|key|index|nr|no|ssn|pk|rowid|number)(?:$|[_\W])|(?<=[a-z])I[dD]$"
)
OTHER = "other"
DATES = "dates in another form than 2024-05-31"
NUMBERS = "numbers in several forms"
# Values that are looked at to find such dates and numbers.
_SAMPLE = 1000
PARTS = ("month", "weekday")


def unlearnable(frame: Any, names: Iterable[str]) -> dict[str, str]:
    """Return the columns that are no features: by name, the reason, such as "identifiers" or "free text".

    Identifiers are text that differs in every row, and integers that differ in every row if they count
    rows, have long numbers of one length, or are named like identifiers. Free text differs in more than
    half of the rows, or consists of sentences; but dates and numbers that differ in so many rows are named
    as such. Categories and columns of fewer than 20 values are
    neither.

    Parameters
    ----------
    frame : pandas DataFrame
    names : columns to look at.
    """
    out = {}
    for name in names:
        reason = _reason(name, frame[name])
        if reason is not None:
            out[name] = reason
    return out


def _reason(name: str, column: Any) -> str | None:
    values = column.dropna()
    n = len(values)
    if n < _MIN_ROWS or str(values.dtype) == "category":
        return None
    if values.dtype.kind in "iu":
        if not values.is_unique or not _is_identifier(name, values):
            return None
        return DATES if _are_days(values) else "identifiers"
    if values.dtype.kind != "O" or not isinstance(values.iloc[0], str):
        return None
    try:
        levels = values.nunique()
    except TypeError:  # values that have no hash; the encoder refuses them
        return None
    if levels > max(_TEXT_SHARE * n, _MIN_ROWS) or levels == n:
        sample = values.iloc[:: max(n // _SAMPLE, 1)]
        kind = kind_of_texts(sample)
        if kind == "dates" or (kind == "numbers" and not sample.str.isdecimal().all()):
            return DATES if kind == "dates" else NUMBERS
    if levels == n:
        return "free text" if _mean_words(values) >= _SENTENCE else "identifiers"
    if levels > max(_TEXT_SHARE * n, _MIN_ROWS):
        return "free text"
    sentences = levels > _MIN_ROWS and levels > 0.1 * n and _mean_words(values) >= _SENTENCE
    return "free text" if sentences else None


def _are_days(values: Any) -> bool:
    """Whether integers are days as 20240531."""
    year, month, day = values // 10_000, values // 100 % 100, values % 100
    return bool((year.between(1900, 2100) & month.between(1, 12) & day.between(1, 31)).all())


def _mean_words(values: Any) -> float:
    return float(np.mean([len(str(v).split()) for v in values.iloc[:1000]]))


def _is_identifier(name: str, values: Any) -> bool:
    """Whether integers that differ in every row are identifiers rather than amounts."""
    low, high = int(values.min()), int(values.max())
    counts_rows = high - low == len(values) - 1
    long_numbers = low > 0 and len(str(low)) == len(str(high)) >= _LONG_NUMBER
    return counts_rows or long_numbers or _ID_NAME.search(name) is not None


# ------------------------------------------------------------------ dates


def is_dates(column: Any) -> bool:
    """Whether a pandas column holds dates or timestamps."""
    return bool(column.dtype.kind == "M")


def with_date_parts(
    frame: Any, parts: Collection[str], columns: Sequence[str] | None = None
) -> Any:
    """Add the month or the weekday of dates as columns of categories, such as "since (month)".

    A model gets dates as days since 1970-01-01. Months and weekdays are for what repeats every year or
    every week.

    Parameters
    ----------
    frame : pandas.DataFrame
    parts : collection of {"month", "weekday"}
    columns : sequence of str, optional
        Columns of dates; all of them if not given.

    Returns
    -------
    pandas.DataFrame

    Examples
    --------
    >>> import pandas as pd
    >>> from fairspan.tables import with_date_parts
    >>> table = pd.DataFrame({"since": pd.to_datetime(["2024-05-01", "2024-06-03"])})
    >>> with_date_parts(table, ["weekday"])["since (weekday)"].tolist()
    ['Wednesday', 'Monday']
    """
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise ValueError(f"parts={unknown[0]!r} is not allowed; give 'month' or 'weekday'.")
    if columns is not None:
        require_columns(columns, list(frame.columns), "columns names")
    dates = [name for name in frame.columns if is_dates(frame[name])]
    for name in columns or ():
        if name not in dates:
            raise ValueError(f"columns names {name!r}, which holds no dates ({frame[name].dtype}).")
    new = {}
    for name in dates if columns is None else columns:
        for part in parts:
            label = f"{name} ({part})"
            if label in frame.columns:
                raise ValueError(f"The table has a column {label!r} already; rename it.")
            new[label] = _part(frame[name], part)
    return frame.assign(**new)


def _part(column: Any, part: str) -> Any:
    names = column.dt.month_name() if part == "month" else column.dt.day_name()
    return names.astype(object).where(column.notna())


def date_parts_of(frame: Any, names: Iterable[str]) -> Any:
    """Return the table with the parts of dates among these names, where it has the dates."""
    for name in names:
        found = re.fullmatch(r"(.+) \((month|weekday)\)", name)
        if found is None or name in frame.columns or found[1] not in frame.columns:
            continue
        if is_dates(frame[found[1]]):
            frame = with_date_parts(frame, [found[2]], [found[1]])
    return frame


# ------------------------------------------------------------------ groups of one row


def join_single_rows(frame: Any, names: Iterable[str]) -> tuple[Any, list[str]]:
    """Return the table without groups of one row, and sentences about them.

    Values that occur in one row join the group "other". If there is only one of them, and no other
    group "other", the row is left out: its group would still be one row.

    Parameters
    ----------
    frame : pandas DataFrame
    names : columns of groups, without missing values.

    Raises
    ------
    ValueError
        Fewer than two groups are left, where there were two.
    """
    notes = []
    for name in names:
        counts = frame[name].value_counts()
        single = counts.index[counts == 1].tolist()
        if not single or len(counts) < 2:
            continue
        few = ", ".join(repr(_plain(value)) for value in single[:5])
        few += f" and {len(single) - 5} more" if len(single) > 5 else ""
        rows = frame[name].isin(single)
        has_other = any(str(value) == OTHER for value in counts.index[counts > 1])
        if len(single) == 1 and not has_other:
            frame = frame[~rows]
            notes.append(
                f"Left out 1 row: it is the only one of the group {few} of {name!r}. Give it the name of "
                f"another group to use it."
            )
        else:
            labels = frame[name].map(_label, na_action="ignore")
            frame = frame.assign(**{name: labels.where(~rows, OTHER)})
            notes.append(
                f"{name!r}: {len(single):,} groups of one row joined the group {OTHER!r}: {few}."
            )
        if frame[name].nunique() < 2:
            raise ValueError(
                f"The protected attribute {name!r} has a different value in nearly every row, such as {few}: "
                f"fewer than two groups of at least two rows are left. Put the values into groups, or read "
                f"numbers as amounts: --kind {name}=continuous (in Python, sensitive_kind)."
            )
    return frame, notes


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _label(value: Any) -> str:
    """Return a group as text: "1" also for 1.0."""
    plain = _plain(value)
    return str(int(plain)) if isinstance(plain, float) and plain.is_integer() else str(plain)
