"""Text that users give: made harmless where it is shown, and what kind of values it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

__all__ = ["is_formula", "kind_of_texts", "printable", "printable_json", "refuse_bytes"]


def printable(text: str, keep: str = "\n") -> str:
    """Spaces for control characters and marks of direction, which steer terminals and readers."""
    return "".join(c if c.isprintable() or c in keep else " " for c in text)


def printable_json(text: str) -> str:
    """JSON with letters as they are; what steers a terminal, or is no UTF-8, as JSON escapes it."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would run a text as a formula; a lone sign and a number are none."""
    return (
        len(text) > 1 and text.startswith(("=", "+", "-", "@", "\t", "\r")) and not _is_number(text)
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def refuse_bytes(values: Any, what: str) -> None:
    """Raise if an array holds bytes: they are text only once somebody has chosen an encoding."""
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    if kind == "S":
        held: Any = values.flat
    elif kind == "O":
        held = (value for value in values.flat if isinstance(value, bytes | bytearray))
    else:
        return
    first = next(iter(held), None)
    if first is not None:
        msg = (
            f"{what} holds bytes, such as {bytes(first)!r:.60}; give text or numbers. Decode them first, "
            f'e.g. column.str.decode("utf-8") in pandas or numpy.char.decode(array, "utf-8"), or give '
            f"the encoding where the file is read."
        )
        raise ValueError(msg)


# With decimal commas, thousands, a percent or currency sign. An integer that begins with 0 is a code.
_NUMBER = r"(?!0\d+$)[-+]?[$€£]?\s?\d[\d.,'\s]*(?:[eE][-+]?\d+)?\s?[%$€£]?"
# Days in the usual orders.
_DATE = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2}))(?:[T ].*)?"
# Words that often stand for a missing value, although CSV files are not read that way.
_NO_VALUE = frozenset(
    {"?", "-", "--", ".", "*", "n/a", "na", "#n/a", "none", "null", "nan", "unknown"}
)
_NEARLY_ALL = 0.9


def kind_of_texts(values: Iterable[str]) -> str | None:
    """What texts look like: "numbers", "dates", or None if they are neither.

    Words that often stand for a missing value, such as "?", do not count. Fewer than three different
    texts are never numbers or dates.
    """
    texts = [text.strip() for text in values]
    texts = [text for text in texts if text.casefold() not in _NO_VALUE]
    if len(set(texts)) < 3:
        return None
    for kind, pattern in (("dates", _DATE), ("numbers", _NUMBER)):
        matches = sum(re.fullmatch(pattern, text) is not None for text in texts)
        if matches >= _NEARLY_ALL * len(texts):
            return kind
    return None
