"""The interface between streams and estimators, and errors that name the row at fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from numpy.typing import NDArray

from fairspan.exceptions import RowError
from fairspan.method.moments import Moments
from fairspan.method.pilot import Pilot
from fairspan.method.problem import Data
from fairspan.streaming.rows import Rows

__all__ = [
    "PilotSample",
    "StreamedEstimator",
    "StreamedMoments",
    "StreamedPredictor",
    "locate_error",
    "naming_rows",
]

# An error counts as that of all rows if one more row than this, all over the block, fail with it.
_PROBES = 8


@dataclass(frozen=True, kw_only=True)
class PilotSample:
    """Sampled rows to prepare an estimator on, and what was decided about their columns."""

    rows: Rows
    seed: int  # replaces a random_state that is not a number, so that a resumed fit draws the same
    encoder: Any = None  # fitted transformer of a table into numbers
    text_features: list[str]  # features that are neither numbers nor booleans
    role_columns: (
        tuple[str, ...] | None
    )  # columns that are not features; None if blocks have no names


@dataclass(frozen=True, kw_only=True)
class StreamedMoments:
    """Moments of the rows before ``position``, and the pilot they were taken with."""

    pilot: Pilot
    moments: Moments
    position: int
    smallest_eigenvalue: float | None = None  # of their covariance, after a pass on a device


class StreamedEstimator(Protocol):
    """An estimator during ``fit_stream``; its methods are in the order of the calls."""

    name: str  # of the class
    params: Mapping[str, Any]  # hyper-parameters by name
    reads_rows_again: bool  # after the moments, as for a logistic likelihood
    n_features: int  # number of columns of X; known after `prepare`

    def copy(self) -> Self:
        """A copy that reads blocks, without pilot and moments: to send to workers, or to try rows on."""

    def read_columns(self, X: Any) -> None:
        """Learn the number and names of columns from a first block."""

    def read(self, rows: Rows) -> Data:
        """Validate rows and return them as clean arrays."""

    def prepare(self, sample: PilotSample) -> Pilot:
        """Freeze landmarks, bandwidth, slice edges and category lists on a sample."""

    def finish(
        self, total: StreamedMoments, blocks: Iterable[Mapping[str, Any]], device: Any
    ) -> None:
        """Solve for the model; ``blocks`` are for an estimator that reads the rows again."""


class StreamedPredictor(Protocol):
    """A fitted estimator during ``predict_stream``."""

    name: str  # of the class
    verbose: int
    methods: list[str]  # whose output can be written
    feature_names: list[str] | None  # None if the fit had none
    text_features: list[str]  # features that held text in the fit
    classes: list[
        Any
    ]  # in the order of the columns of `predict_proba`; empty if it is no classifier

    def read(self, X: Any) -> NDArray[Any]:
        """Validate new rows and return them as numbers."""

    def predict(self, method: str, X: Any, device: Any) -> NDArray[Any]:
        """Call the method on new rows, on a torch device if one is named."""


@contextmanager
def naming_rows(rows: Rows, offset: int, read: Callable[[Rows], object]) -> Iterator[None]:
    """Turn a ValueError inside into one that names the first row that ``read`` fails on."""
    try:
        yield
    except RowError:
        raise
    except ValueError as error:
        raise locate_error(rows, offset, read, error) from error


def locate_error(
    rows: Rows, offset: int, read: Callable[[Rows], object], error: Exception
) -> Exception:
    """The error of the first row that cannot be read alone; ``error`` itself if no row is at fault."""
    error_of_block = _error_of(rows, read)
    if error_of_block is None or _concerns_every_row(rows, read, str(error_of_block)):
        return error
    first, last = 0, len(rows)
    while last - first > 1:  # the first bad row is in [first, last)
        middle = (first + last) // 2
        if _error_of(rows.cut(first, middle), read):
            last = middle
        else:
            first = middle
    error_of_row = _error_of(rows.cut(first, last), read)
    if error_of_row is None:
        return error
    name, row = rows.place(first)
    number = offset + first
    return RowError(name, row, f"{error_of_row}" + f" (Row {number} of all.)" * (number != row))


def _concerns_every_row(rows: Rows, read: Callable[[Rows], object], text: str) -> bool:
    """True if rows all over the block fail with the error of the block: a setting is wrong, not a row."""
    n = len(rows)
    probes = sorted({i * (n - 1) // _PROBES for i in range(_PROBES + 1)})
    return n > 1 and all(str(_error_of(rows.cut(i, i + 1), read)) == text for i in probes)


def _error_of(rows: Rows, read: Callable[[Rows], object]) -> Exception | None:
    try:
        read(rows)
    except ValueError as error:
        return error
    return None
