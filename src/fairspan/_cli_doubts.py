"""Warnings about columns that are probably not features: numbers or dates as text, identifiers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from fairspan._cli_tables import some

__all__ = ["doubtful_columns"]

# With decimal commas, thousands, a percent or currency sign; and days in the usual orders.
_NUMBER = r"[-+]?[$€£]?\s?\d[\d.,'\s]*(?:[eE][-+]?\d+)?\s?[%$€£]?"
_DATE = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2}))(?:[T ].*)?"
_NEARLY_ALL = 0.9
_SAMPLE = 1000
# In a smaller table every value may differ by chance.
_MIN_ROWS = 20


def doubtful_columns(frame: Any, names: Sequence[str]) -> Iterator[str]:
    """A sentence for features that are numbers or dates as text, and one for identifiers."""
    found: dict[str, list[str]] = {"numbers": [], "dates": [], "identifiers": []}
    first: dict[str, str] = {}
    for name in names:
        kind = _doubt(frame[name])
        if kind is not None:
            found[kind].append(name)
            first.setdefault(kind, str(frame[name].dropna().iloc[0]))
    if texts := found["numbers"]:
        yield (
            f"{_named(texts)}: numbers as text, as {first['numbers']!r}; each different text is a category. "
            f"Write plain numbers (as 32.5) into the file, or leave them out: {_drop(texts)}"
        )
    if texts := found["dates"]:
        yield (
            f"{_named(texts)}: dates as text, as {first['dates']!r}; each different text is a category. "
            f"Turn them into numbers (an age, a month), or leave them out: {_drop(texts)}"
        )
    if texts := found["identifiers"]:
        yield (
            f"{_named(texts)}: a different value in every row, as identifiers have. Leave identifiers out: "
            f"{_drop(texts)}"
        )


def _named(names: Sequence[str]) -> str:
    return some([repr(name) for name in names])


def _drop(names: Sequence[str]) -> str:
    options = [f"--drop {shlex.quote(name)}" for name in names]
    return some(options, " ")


def _doubt(column: Any) -> str | None:
    """Why a column may not be meant as a feature, or None."""
    import pandas as pd  # the extra of the command line has it

    values = column.dropna()
    text = values.dtype.kind == "O" and not isinstance(values.dtype, pd.CategoricalDtype)
    if text:
        few = values.iloc[:: max(len(values) // _SAMPLE, 1)].astype(str).str.strip()
        if few.nunique() > 2:
            for kind, pattern in (("dates", _DATE), ("numbers", _NUMBER)):
                if few.str.fullmatch(pattern).mean() >= _NEARLY_ALL:
                    return kind
    if len(values) >= _MIN_ROWS and (text or values.dtype.kind in "iu") and values.is_unique:
        return "identifiers"
    return None
