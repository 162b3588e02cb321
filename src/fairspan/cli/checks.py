"""Warnings about columns that are probably not features: numbers or dates as text, identifiers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from fairspan._system import kind_of_texts
from fairspan.cli.output import first_few

__all__ = ["LEADING_ZEROS", "doubtful_columns"]

# Entry of `frame.attrs`: numeric columns of a CSV file -> a value that begins with 0, such as "0123".
LEADING_ZEROS = "fairspan.leading_zeros"

_SAMPLE = 1000
# In a smaller table every value may differ by chance.
_MIN_ROWS = 20


def doubtful_columns(frame: Any, names: Sequence[str]) -> Iterator[str]:
    """Yield one warning for each problem that some of the columns have."""
    columns: dict[str, list[str]] = {"numbers": [], "dates": [], "identifiers": []}
    for name in names:
        problem = _problem(frame[name])
        if problem is not None:
            columns[problem].append(name)
    remedies = {
        "numbers": "Write plain numbers (as 32.5) into the file",
        "dates": "Turn them into numbers (an age, a month)",
    }
    for problem, remedy in remedies.items():
        if doubtful := columns[problem]:
            example = str(frame[doubtful[0]].dropna().iloc[0])
            yield (
                f"{_quoted(doubtful)}: {problem} as text, as {example!r}; each different text is a category. "
                f"{remedy}, or leave them out: {_drop_options(doubtful)}"
            )
    zeros = {name: frame.attrs.get(LEADING_ZEROS, {}).get(name) for name in names}
    if doubtful := [name for name, value in zeros.items() if value is not None]:
        options = [f"--kind {shlex.quote(f'{name}=categorical')}" for name in doubtful]
        yield (
            f"{_quoted(doubtful)}: read as numbers, although values begin with 0, as "
            f"{zeros[doubtful[0]]!r}. If they are codes, read them as text: {first_few(options, ' ')}"
        )
    if doubtful := columns["identifiers"]:
        yield (
            f"{_quoted(doubtful)}: a different value in every row, as identifiers have. Leave identifiers "
            f"out: {_drop_options(doubtful)}"
        )


def _quoted(names: Sequence[str]) -> str:
    return first_few([repr(name) for name in names])


def _drop_options(names: Sequence[str]) -> str:
    return first_few([f"--drop {shlex.quote(name)}" for name in names], " ")


def _problem(column: Any) -> str | None:
    """Return why a column is probably not a feature: "numbers", "dates", "identifiers" or None."""
    import pandas as pd

    values = column.dropna()
    is_text = values.dtype.kind == "O" and not isinstance(values.dtype, pd.CategoricalDtype)
    if is_text:
        sample = values.iloc[:: max(len(values) // _SAMPLE, 1)].astype(str)
        if (kind := kind_of_texts(sample)) is not None:
            return kind
    if len(values) >= _MIN_ROWS and (is_text or values.dtype.kind in "iu") and values.is_unique:
        return "identifiers"
    return None
