"""Warnings and errors of fairspan; other errors are plain ``ValueError`` or ``TypeError``."""

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
    "DecisionRuleError",
    "ExportError",
    "FairspanWarning",
    "IncompatibleMomentsError",
    "MomentsFileError",
    "NumericalError",
    "NumericalWarning",
    "RowError",
    "each_warning_once",
    "warn_user",
]


class FairspanWarning(UserWarning):
    """Base class of all warnings of fairspan, so that one filter is enough for them."""


class DataWarning(FairspanWarning):
    """The data limit what a model can promise: a tiny group, a skipped cell, S among the features."""


class NumericalWarning(FairspanWarning):
    """A computation was stabilised; the message and a fitted attribute contain by how much."""


class NumericalError(ArithmeticError):
    """A result would be mostly rounding error; the message contains its size and a remedy."""


class IncompatibleMomentsError(ValueError):
    """Moments taken with another pilot (landmarks, edges, levels, folds) cannot be merged."""


class DecisionRuleError(ValueError):
    """The rows do not allow decision rules; the message says what is missing."""


class ExportError(ValueError):
    """A model cannot be written as an ONNX or npz file, or the file does not predict as the model does."""


class CheckpointError(ValueError):
    """A checkpoint is damaged or belongs to another fit; the message names the file and the difference."""


class MomentsFileError(ValueError):
    """A file of a pilot or of a site's moments is damaged or contradicts itself; the message names it."""


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
    """A data file is absent, damaged or unreachable; the message names it and the folder for it."""


# Keys of the warnings that were given. Not warnings.catch_warnings, which threads share.
_given: ContextVar[set[str] | None] = ContextVar("given", default=None)


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Give each warning once in this block; a block inside another one belongs to the outer one."""
    token = _given.set(set()) if _given.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _given.reset(token)


def warn_user(message: str, category: type[FairspanWarning], *, key: str | None = None) -> None:
    """Warn at the line of the user's code: the first frame outside fairspan and its callers.

    Inside :func:`each_warning_once` only the first warning with the same ``key`` is given; the key is
    the message if not given.
    """
    # Messages contain column names, which may contain escape sequences for terminals.
    message = printable(message)
    given = _given.get()
    if given is not None:
        if (key or message) in given:
            return
        given.add(key or message)
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in ("fairspan", "sklearn", "joblib", "contextlib"):
            break
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
