"""Warnings about columns that are probably not features: numbers or dates as text, identifiers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from fairspan._system import kind_of_texts
from fairspan.cli.tables import some

__all__ = ["LEADING_ZEROS", "doubtful_columns"]

# Entry of `frame.attrs`: numeric columns of a CSV file -> a value that begins with 0, such as "0123".
LEADING_ZEROS = "fairspan.leading_zeros"

_SAMPLE = 1000
# In a smaller table every value may differ by chance.
_MIN_ROWS = 20


def doubtful_columns(frame: Any, names: Sequence[str]) -> Iterator[str]:
    """A sentence for each kind of doubt: numbers or dates as text, codes as numbers, identifiers."""
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
    zeros = {name: frame.attrs.get(LEADING_ZEROS, {}).get(name) for name in names}
    if texts := [name for name, value in zeros.items() if value is not None]:
        kinds = some([f"--kind {shlex.quote(f'{name}=categorical')}" for name in texts], " ")
        yield (
            f"{_named(texts)}: read as numbers, although values begin with 0, as {zeros[texts[0]]!r}. If "
            f"they are codes, read them as text: {kinds}"
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
        few = values.iloc[:: max(len(values) // _SAMPLE, 1)].astype(str)
        if (kind := kind_of_texts(few)) is not None:
            return kind
    if len(values) >= _MIN_ROWS and (text or values.dtype.kind in "iu") and values.is_unique:
        return "identifiers"
    return None
