"""Read fields of a state file, which anybody may have written: types, ranges and lengths are checked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from fairspan._system import inert

# No count in a file is larger: integers up to here are exact as floats.
_MOST = 2**53
_LONGEST_TEXT = 10_000


class Fields:
    """A JSON object whose fields are checked as they are read.

    Parameters
    ----------
    value : what was read from the file.
    where : its name in messages.

    Raises
    ------
    ValueError
        Of every method: the message is the second half of a sentence about the file.
    """

    def __init__(self, value: Any, where: str = "it") -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{where} is no JSON object")
        self.value, self.where = value, where

    def get(self, name: str) -> Any:
        """Any field; it must be there."""
        if name not in self.value:
            raise ValueError(f"{self.where} has no field {name!r}")
        return self.value[name]

    def inner(self, name: str) -> Fields:
        """A field that is an object."""
        return Fields(self.get(name), f"{name!r}")

    def objects(self, name: str, most: int = _MOST) -> list[Fields]:
        """A field that is a list of objects."""
        return [Fields(value, f"an entry of {name!r}") for value in self.entries(name, most)]

    def by_name(self, name: str) -> Iterator[tuple[str, Fields]]:
        """Names and objects of a field that is an object of objects."""
        inner = self.inner(name)
        for key in inner.value:
            yield key, inner.inner(key)

    def entries(self, name: str, most: int = _MOST) -> list[Any]:
        """A field that is a list."""
        value = self.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise ValueError(f"{name!r} is no list of at most {most} entries")
        return value

    def whole(self, name: str, low: int = 0, high: int = _MOST) -> int:
        """A field that is a whole number."""
        return whole(self.get(name), name, low, high)

    def number(self, name: str, low: float, high: float) -> float:
        """A field that is a finite number."""
        return number(self.get(name), name, low, high)

    def numbers(
        self, name: str, count: int, *, low: float, high: float, gaps: bool = False
    ) -> list[Any]:
        """A field that is a list of so many numbers; with ``gaps`` also of null."""
        values = self.entries(name)
        if len(values) != count:
            raise ValueError(f"{name!r} has {len(values)} numbers in place of {count}")
        return [v if gaps and v is None else number(v, name, low, high) for v in values]

    def text(self, name: str) -> str:
        """A field that is text."""
        return text(self.get(name), name)

    def texts(self, name: str, most: int = _MOST) -> list[str]:
        """A field that is a list of different texts."""
        values = [text(value, name) for value in self.entries(name, most)]
        if len(set(values)) < len(values):
            raise ValueError(f"{name!r} has an entry twice")
        return values


def text(value: Any, name: str) -> str:
    """Return a value that must be text."""
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise ValueError(f"{name!r} is no text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name!r} is no valid Unicode") from None
    return value


def whole(value: Any, name: str, low: int = 0, high: int = _MOST) -> int:
    """Return a value that must be a whole number."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        shown = inert(repr(value)) if isinstance(value, str | float | bool | None) else "a value"
        raise ValueError(f"{name!r} holds {shown}, not a whole number from {low} to {high}")
    return value


def number(value: Any, name: str, low: float, high: float) -> float:
    """Return a value that must be a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name!r} holds something that is no number")
    if not low <= value <= high or not math.isfinite(value):
        raise ValueError(f"{name!r} holds a number that is not from {low:g} to {high:g}")
    return float(value)
