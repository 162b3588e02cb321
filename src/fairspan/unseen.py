"""Values that the encoder of a table has not seen in `fit`: counted by column, and reported once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from fairspan.exceptions import DataWarning, warn_user

READ_AS_TEXT = "in Python, pandas.read_csv(..., dtype={{{0!r}: str}})"
# Fewer rows or a single unseen value may well be a new category, and not a known one written
# differently.
_MIN_UNSEEN_ROWS, _MIN_UNSEEN_VALUES = 10, 2
SHOWN_VALUES, _SHOWN_COLUMNS = 3, 5


class UnseenValues:
    """Values of category columns that an encoder has not seen in `fit`, counted by column."""

    def __init__(self) -> None:
        # By column: number of values, number of unseen ones, some of these, all known ones.
        self._columns: dict[str, tuple[int, int, list[str], list[str]]] = {}
        # By column that was complete in training: number of rows, number of missing values.
        self._missing: dict[str, tuple[int, int]] = {}

    def add(
        self, name: str, n: int, n_unseen: int, unseen: Sequence[str], known: list[str]
    ) -> None:
        """Add `n` values of a column, of which `n_unseen` are unseen."""
        before = self._columns.get(name, (0, 0, [], known))
        some = list(dict.fromkeys([*before[2], *unseen]))[: SHOWN_VALUES + 1]
        self._columns[name] = (before[0] + n, before[1] + n_unseen, some, known)

    def add_missing(self, name: str, n: int, n_missing: int) -> None:
        """Add `n` rows of a column that was complete in training; `n_missing` of them lack a value."""
        before = self._missing.get(name, (0, 0))
        self._missing[name] = (before[0] + n, before[1] + n_missing)

    def update(self, other: UnseenValues) -> None:
        """Add the counts of other rows."""
        for name, missing in other._missing.items():
            self.add_missing(name, *missing)
        for name, counted in other._columns.items():
            self.add(name, *counted)

    def report(self) -> None:
        """Raise if all values of a column are unseen; otherwise warn once, with the counts."""
        empty = [
            repr(name)
            for name, (n, n_missing) in self._missing.items()
            if n_missing == n >= _MIN_UNSEEN_ROWS
        ]
        if empty:
            more = ", ..." if len(empty) > _SHOWN_COLUMNS else ""
            warn_user(
                f"No row has a value of {', '.join(empty[:_SHOWN_COLUMNS])}{more}, and training had one in "
                f"every row. Every row is treated like the median (or the rarest category) of training. Fill "
                f"the column in, or fit without it.",
                DataWarning,
            )
        parts = []
        for name, (n, n_unseen, unseen, known) in self._columns.items():
            enough = n >= _MIN_UNSEEN_ROWS and len(unseen) >= _MIN_UNSEEN_VALUES
            if n_unseen == n and enough and known:
                raise ValueError(
                    f"column {name!r}: none of its {n:,} values was in the training data. It holds "
                    f"{listed(unseen)}; known are {listed(known)}. Write the column as in training "
                    f"({READ_AS_TEXT.format(name)} keeps leading zeros), or, if new rows always have "
                    f"new values there, fit without it."
                )
            if n_unseen:
                parts.append(
                    f"column {name!r}: {n_unseen:,} of {n:,} values were not in the training data, e.g. "
                    f"{listed(unseen)}"
                )
        if parts:
            more = (
                f"; and {len(parts) - _SHOWN_COLUMNS} more" if len(parts) > _SHOWN_COLUMNS else ""
            )
            warn_user(
                f"{'; '.join(parts[:_SHOWN_COLUMNS])}{more}. They are encoded as a rare category, or as "
                f"none where training had no rare one. Check how they are written, or fit again with them.",
                DataWarning,
            )


def report_or_collect(unseen: UnseenValues) -> None:
    """Report unseen values now, or add them to those of an open `collect_unseen`."""
    collected = _collected.get()
    if collected is None:
        unseen.report()
    else:
        collected.update(unseen)


_collected: ContextVar[UnseenValues | None] = ContextVar("collected", default=None)


@contextmanager
def collect_unseen() -> Iterator[UnseenValues]:
    """Collect the unseen values of several encoders, instead of a report from each of them.

    Yields
    ------
    UnseenValues
        Call its `report` at the end; without it nothing is reported.
    """
    out = UnseenValues()
    token = _collected.set(out)
    try:
        yield out
    finally:
        _collected.reset(token)


def listed(labels: Sequence[str]) -> str:
    """Show a few of the labels."""
    shown = ", ".join(map(repr, map(str, labels[:SHOWN_VALUES])))
    return f"{shown}, ..." if len(labels) > SHOWN_VALUES else shown
