"""The interface between streams and estimators: rows by role, and the methods that read them.

Rows have the file or block that each is from, so that errors name the row at fault.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import narwhals as nw
import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from fairspan.exceptions import RowError
from fairspan.inputs.columns import is_categorical
from fairspan.method.known_rows import ClusterCounts
from fairspan.method.linalg import is_tensor
from fairspan.method.moments import Moments
from fairspan.method.pilot import Pilot
from fairspan.method.problem import Data

# Arguments of `fit`, in the order of the fields of `Rows`.
ARGUMENTS = ("X", "y", "sensitive_features", "control_features", "sample_weight", "groups")
# An error counts as that of all rows if one more row than this, all over the block, fail with it.
_PROBES = 8


@dataclass(frozen=True)
class Span:
    """Consecutive rows of one file, or of one block of an iterator.

    Attributes
    ----------
    name : str
        Of the file or block.
    first : int
        The first of the rows in it, counted from 0.
    n : int
        How many rows.
    """

    name: str
    first: int
    n: int


@dataclass(frozen=True)
class Rows:
    """Arguments of ``fit`` for some rows; nothing is checked yet.

    Attributes
    ----------
    X : array or data frame
        Features.
    y : array, series or None
        Target.
    sensitive : array, data frame or None
        Protected attributes.
    control : array, data frame or None
        Strata of a conditional criterion.
    weight : array, number or None
        Weight of each row, or one for all.
    spans : tuple of Span
        Files or blocks that the rows are from, in order; empty if that is not known.
    groups : array, series or None
        Labels of rows that belong together.
    given : Rows or None
        The same rows before they were moved to a device.
    """

    X: Any
    y: Any
    sensitive: Any
    control: Any
    weight: Any
    spans: tuple[Span, ...] = ()
    groups: Any = None
    given: Rows | None = None

    @classmethod
    def of(cls, arguments: Iterable[Any], spans: tuple[Span, ...] = ()) -> Rows:
        """Rows of X, y, sensitive and control features, weight and groups, in this order."""
        X, y, sensitive, control, weight, groups = arguments
        return cls(X, y, sensitive, control, weight, spans, groups)

    def __len__(self) -> int:
        return int(_num_samples(self.X))

    @property
    def arguments(self) -> tuple[Any, Any, Any, Any, Any, Any]:
        """X, y, sensitive and control features, weight and groups."""
        return self.X, self.y, self.sensitive, self.control, self.weight, self.groups

    @property
    def by_argument(self) -> dict[str, Any]:
        """The same, by the name of the argument of ``fit``."""
        return dict(zip(ARGUMENTS, self.arguments, strict=True))

    @property
    def as_given(self) -> Rows:
        """The rows as the source has them."""
        return self if self.given is None else self.given

    def moved(self, move: Callable[[str, Any], Any]) -> Rows:
        """The rows with arguments as ``move(name, values)`` gives them; none is moved without X."""
        X = move("X", self.X)
        if X is self.X:
            return self
        others = [move(name, values) for name, values in self.by_argument.items() if name != "X"]
        return replace(Rows.of((X, *others), self.spans), given=self)

    def take(self, rows: Any) -> Rows:
        """Rows by index, without their spans."""
        return Rows.of(take_rows(column, rows) for column in self.arguments)

    def cut(self, start: int, stop: int) -> Rows:
        """Consecutive rows, with their spans."""
        part = slice(start, stop)
        spans, before = [], 0
        for span in self.spans:
            a, b = max(start - before, 0), min(stop - before, span.n)
            if a < b:
                spans.append(Span(span.name, span.first + a, b - a))
            before += span.n
        return Rows.of((take_rows(column, part) for column in self.arguments), tuple(spans))

    def place(self, row: int) -> tuple[str, int]:
        """File (or block) of a row, and its number there, counted from 0."""
        for span in self.spans:
            if row < span.n:
                return span.name, span.first + row
            row -= span.n
        return "", row


def join(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows.

    Parameters
    ----------
    parts : sequence of Rows
        At least one, with the same columns.

    Returns
    -------
    Rows
        The rows of all parts in order, with their spans.
    """
    if len(parts) == 1:
        return parts[0]
    # Each part may have one weight for all of its rows.
    each = [replace(p, weight=_per_row(p.weight, len(p))) for p in parts]
    columns = zip(*(part.arguments for part in each), strict=True)
    spans = tuple(span for part in parts for span in part.spans)
    return Rows.of((_concatenate(column) for column in columns), spans)


def _concatenate(pieces: Sequence[Any]) -> Any:
    first = pieces[0]
    if any((piece is None) != (first is None) for piece in pieces):
        msg = "Some blocks have y, S, control features, weights or groups, others do not; give them in all."
        raise ValueError(msg)
    if first is None or isinstance(first, int | float):
        return first
    if any(_kind(piece) != _kind(first) for piece in pieces):
        raise ValueError(
            "y, S, control features, weights or groups differ in type between blocks; give one type in all."
        )
    if isinstance(first, Mapping):
        if any(set(piece) != set(first) for piece in pieces):
            other = next(piece for piece in pieces if set(piece) != set(first))
            raise ValueError(f"Blocks have different columns: {sorted(first)} and {sorted(other)}.")
        return {name: _concatenate([piece[name] for piece in pieces]) for name in first}
    if is_tensor(first):
        import torch

        return torch.cat(list(pieces))
    native = [
        nw.from_native(piece, eager_only=True, allow_series=True, pass_through=True)
        for piece in pieces
    ]
    if isinstance(native[0], nw.DataFrame):
        return _stack(native).to_native()
    if isinstance(native[0], nw.Series):
        name: Any = native[0].name  # pandas allows other names than text
        name = name if isinstance(name, str) and name else "column"
        frames = [piece.alias(name).to_frame() for piece in native]
        return _stack(frames)[name].alias(native[0].name or "").to_native()
    if isinstance(first, np.ma.MaskedArray):
        return np.ma.concatenate(pieces)  # type: ignore[no-untyped-call]
    arrays = [np.asarray(piece) for piece in pieces]
    kinds = {array.dtype.kind for array in arrays if len(array)}
    if "U" in kinds and kinds & set("biuf"):
        msg = "y, S, control features or X are numbers in some blocks and text in others; give one kind."
        raise ValueError(msg)
    return np.concatenate(arrays)


def _per_row(weight: Any, n: int) -> Any:
    return np.full(n, float(weight)) if isinstance(weight, numbers.Real) else weight


def _kind(piece: Any) -> str:
    """The kind of container: only pieces of one kind can be concatenated."""
    if isinstance(piece, Mapping):
        return "mapping"
    if is_tensor(piece):
        return "tensor"
    native = nw.from_native(piece, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.DataFrame):
        return "frame"
    return "series" if isinstance(native, nw.Series) else "array"


def plain_text(frame: Any) -> Any:
    """Turn categoricals into text, because their lists of categories differ from block to block."""
    categorical = (nw.Categorical, nw.Enum)
    names = [name for name, kind in frame.schema.items() if isinstance(kind, categorical)]
    if not names:
        return frame
    native = frame.to_native()
    if type(native).__module__.startswith("pandas"):
        text = {name: native[name].astype(object).map(str, na_action="ignore") for name in names}
        return nw.from_native(native.assign(**text), eager_only=True)
    return frame.with_columns(*(nw.col(name).cast(nw.String) for name in names))


def _refuse_text_and_numbers(frames: list[Any]) -> None:
    """Raise if a column is numbers in one frame and text in another, such as 1 and "01"."""
    for name in frames[0].columns:
        columns = [frame.get_column(name) for frame in frames if name in frame.columns]
        numeric = [column.dtype.is_numeric() for column in columns]
        if all(numeric) or not any(numeric):
            continue
        pairs = list(zip(columns, numeric, strict=True))
        numbers = (v for column, is_number in pairs if is_number for v in column.drop_nulls())
        texts = (v for column, is_number in pairs if not is_number for v in column)
        number = next(iter(numbers), None)
        text = next((value for value in texts if isinstance(value, str)), None)
        if number is not None and text is not None:
            raise ValueError(
                f"Column {name!r} holds numbers in one block and text in another, such as {number} and "
                f"{text!r}. Give text in all of them, e.g. pandas.read_csv(..., dtype={{{name!r}: str}})."
            )


def _stack(frames: list[Any]) -> Any:
    frames = [plain_text(frame) for frame in frames]
    _refuse_text_and_numbers(frames)
    schemas = [frame.schema for frame in frames]
    mixed = [
        name
        for name in schemas[0]
        if all(name in schema and schema[name].is_numeric() for schema in schemas)
        and len({str(schema[name]) for schema in schemas}) > 1
    ]
    if mixed:  # such as integers and floats
        floats = [nw.col(name).cast(nw.Float64) for name in mixed]
        frames = [frame.with_columns(*floats) for frame in frames]
    try:
        return nw.concat(frames, how="vertical")
    except Exception as error:  # each dataframe library raises its own class
        msg = f"Blocks cannot be joined, their columns differ in name or type: {error}"
        raise ValueError(msg) from error


def take_rows(raw: Any, rows: Any) -> Any:
    """Return some rows, given by their numbers or as a slice, in the container of ``raw``."""
    if raw is None or isinstance(raw, int | float):  # one weight for all rows
        return raw
    if isinstance(raw, Mapping):
        return {name: take_rows(values, rows) for name, values in raw.items()}
    if isinstance(raw, list | tuple):
        return list(raw[rows]) if isinstance(rows, slice) else [raw[i] for i in rows]
    native = nw.from_native(raw, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.DataFrame | nw.Series):
        return native[rows].to_native()
    if is_categorical(raw):
        return raw[rows] if isinstance(rows, slice) else raw.take(rows)
    if is_tensor(raw):
        import torch  # installed, because there is a tensor

        index = rows if isinstance(rows, slice) else torch.as_tensor(rows, device=raw.device)
        return raw[index]
    if scipy.sparse.issparse(raw):
        return raw.tocsr()[rows]
    return raw[rows] if isinstance(raw, np.ma.MaskedArray) else np.asarray(raw)[rows]


# --------------------------------------------------------------------------- estimators


@dataclass(frozen=True, kw_only=True)
class PilotSample:
    """Sampled rows to prepare an estimator on, and what was decided about their columns."""

    rows: Rows
    seed: int  # replaces a random_state that is not a number, so that a resumed fit draws the same
    encoder: Any = None  # fitted transformer of a table into numbers
    text_features: list[str]  # features that are neither numbers nor booleans
    role_columns: tuple[str, ...] | None  # not features; None if blocks have no names
    clusters: ClusterCounts | None = None  # groups of all rows of the stream
    column_types: tuple[tuple[str, str], ...] = ()  # of features of CSV files
    from_files: bool = False  # whose numbers have no signs
    fold_rule: str = "position"  # or "hash", see `fairspan.method.folds`; groups always have "hash"


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
    chooses_rules: bool  # for decisions, from rows that are read again after the moments
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
        self,
        total: StreamedMoments,
        blocks: Iterable[Mapping[str, Any]],
        device: Any,
        *,
        one_block: bool,
    ) -> None:
        """Solve for the model; ``blocks`` are for an estimator that reads the rows again.

        With ``one_block``, all rows are in the first block, and reading them again is cheap.
        """


class StreamedPredictor(Protocol):
    """A fitted estimator during ``predict_stream``."""

    name: str  # of the class
    verbose: int
    methods: list[str]  # whose output can be written
    feature_names: list[str] | None  # None if the fit had none
    text_features: list[str]  # features that held text in the fit
    column_types: dict[str, str]  # types that CSV files had in the fit
    dates: list[str]  # features that held dates in the fit
    units: dict[str, str] | None  # signs of features in the fit; None if they are unknown
    classes: list[Any]  # of the columns of `predict_proba`; empty if it is no classifier

    def read(self, X: Any) -> NDArray[Any]:
        """Validate new rows and return them as numbers."""

    def predict(self, method: str, X: Any, device: Any) -> NDArray[Any]:
        """Call the method on new rows, on a torch device if one is named."""

    def copy(self) -> Self:
        """A copy that predicts, without moments: to send to workers."""


# --------------------------------------------------------------------------- errors


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
