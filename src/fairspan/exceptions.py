"""Warnings and errors that are ours; everything else is a plain ``ValueError`` or ``TypeError``."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fairspan._system import printable

__all__ = [
    "CheckpointError",
    "DataWarning",
    "DatasetError",
    "FairspanWarning",
    "IncompatibleMomentsError",
    "NumericalError",
    "NumericalWarning",
    "RowError",
    "each_warning_once",
    "warn_user",
]


class FairspanWarning(UserWarning):
    """Base class of every warning fairspan raises, so that one filter reaches them all."""


class DataWarning(FairspanWarning):
    """The data limit what can be promised: a tiny group, a skipped cell, S among the features."""


class NumericalWarning(FairspanWarning):
    """A numerical rescue took place; the message and a fitted attribute carry its amount."""


class NumericalError(ArithmeticError):
    """Rounding has eaten what was to be computed; the message carries its amount and the remedy."""


class IncompatibleMomentsError(ValueError):
    """Moments taken with another pilot (landmarks, edges, levels, folds) cannot be merged."""


class CheckpointError(ValueError):
    """A checkpoint is damaged, or belongs to another fit; the message names it and what differs."""


class RowError(ValueError):
    """A row of a stream cannot be used.

    Attributes
    ----------
    name : str
        File or block.
    row : int
        Row in it, counted from 0.
    """

    def __init__(self, name: str, row: int, why: str) -> None:
        self.name, self.row, self.why = name, row, why
        super().__init__(f"{name}, row {row}: {why}")

    def __reduce__(self) -> tuple[type, tuple[str, int, str]]:
        return type(self), (self.name, self.row, self.why)


class DatasetError(OSError):
    """A data file is absent, damaged or out of reach; the message names it and where it belongs."""


# Not warnings.catch_warnings, which threads share.
_said: ContextVar[set[str] | None] = ContextVar("said", default=None)


@contextmanager
def each_warning_once() -> Iterator[None]:
    """What one call has said it does not say again; inside another such call, that one counts."""
    token = _said.set(set()) if _said.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _said.reset(token)


def warn_user(message: str, category: type[FairspanWarning], *, key: str | None = None) -> None:
    """Warn at the line of the user's code: the first frame outside fairspan and what calls it.

    Inside :func:`each_warning_once` only the first warning with the same ``key`` is given; the key is
    the message if not given.
    """
    # Names of columns stand in messages; one with an escape sequence would steer the terminal.
    message = printable(message)
    said = _said.get()
    if said is not None:
        if (key or message) in said:
            return
        said.add(key or message)
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in ("fairspan", "sklearn", "joblib", "contextlib"):
            break
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
