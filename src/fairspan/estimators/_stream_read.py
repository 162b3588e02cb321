"""Blocks as clean rows; a row that cannot be used is named by file and number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fairspan._validation import Data
from fairspan.exceptions import RowError
from fairspan.streams import Rows, Source, blocks, prefetch

__all__ = ["LazyBlocks", "naming_new_rows", "naming_rows"]

# Rows at which an error is looked for before it counts as that of all rows: one more than this.
_LOOKS = 8


@contextmanager
def naming_rows(est: Any, rows: Rows, place: int, *, coded: bool) -> Iterator[None]:
    """Errors inside say which row it was: it is found by reading ever smaller parts of the block."""

    def read(some: Rows) -> None:
        data: Data = est._read(*some.arguments, reset=False)
        if coded:
            est.pilot_.encode(data)  # categories never seen are found here

    try:
        yield
    except RowError:
        raise
    except ValueError as error:
        raise located(rows, place, read, error) from error


def located(rows: Rows, place: int, read: Any, error: Exception) -> Exception:
    """The error of the first row that cannot be read alone; the error itself if no row is at fault."""
    first, last = 0, len(rows)
    whole = _fails(rows, read)
    if whole is None or _of_every_row(rows, read, str(whole)):
        return error
    while last - first > 1:  # the first bad row is in [first, last)
        middle = (first + last) // 2
        if _fails(rows.cut(first, middle), read):
            last = middle
        else:
            first = middle
    bad = _fails(rows.cut(first, last), read)
    if bad is None:
        return error
    name, row = rows.place(first)
    why = str(bad) if place + first == row else f"{bad} (Row {place + first} of all.)"
    return RowError(name, row, why)


def _of_every_row(rows: Rows, read: Any, text: str) -> bool:
    """Whether rows all over the block give the block's own error: a setting is wrong, and no row."""
    n = len(rows)
    some = sorted({i * (n - 1) // _LOOKS for i in range(_LOOKS + 1)})
    return n > 1 and all(str(_fails(rows.cut(i, i + 1), read)) == text for i in some)


def _fails(rows: Rows, read: Any) -> Exception | None:
    try:
        read(rows)
    except ValueError as error:
        return error
    return None


@contextmanager
def naming_new_rows(est: Any, rows: Rows, place: int) -> Iterator[None]:
    """The same for rows to predict."""
    try:
        yield
    except ValueError as error:
        raise located(rows, place, lambda some: est._read_new(some.X), error) from error


class LazyBlocks:
    """Blocks of a source as arguments of ``fit``, read anew by every ``iter()``."""

    def __init__(self, source: Source, size: int) -> None:
        self._source, self._size = source, size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = ("X", "y", "sensitive_features", "control_features", "sample_weight")
        for _, rows in prefetch(blocks(self._source.parts, self._size)):
            yield dict(zip(names, rows.arguments, strict=True))
