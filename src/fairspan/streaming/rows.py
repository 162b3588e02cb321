"""Rows by role, as the user holds them, with the file or block that each one is from."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils.validation import _num_samples

from fairspan.inputs.columns import is_categorical
from fairspan.method.linalg import is_tensor

__all__ = ["Rows", "Span", "join", "take_rows"]


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
    """

    X: Any
    y: Any
    sensitive: Any
    control: Any
    weight: Any
    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, arguments: Iterable[Any], spans: tuple[Span, ...] = ()) -> Rows:
        """Rows of X, y, sensitive and control features and weight, in this order."""
        X, y, sensitive, control, weight = arguments
        return cls(X, y, sensitive, control, weight, spans)

    def __len__(self) -> int:
        return int(_num_samples(self.X))

    @property
    def arguments(self) -> tuple[Any, Any, Any, Any, Any]:
        """X, y, sensitive and control features and weight."""
        return self.X, self.y, self.sensitive, self.control, self.weight

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
        msg = "Some blocks have y, S, control features or weights and others do not; give them in all."
        raise ValueError(msg)
    if first is None or isinstance(first, int | float):
        return first
    if any(_kind(piece) != _kind(first) for piece in pieces):
        msg = (
            "y, S, control features or weights differ in type between blocks; give one type in all."
        )
        raise ValueError(msg)
    if isinstance(first, Mapping):
        if any(set(piece) != set(first) for piece in pieces):
            other = next(piece for piece in pieces if set(piece) != set(first))
            msg = f"Blocks have different columns: {sorted(first)} and {sorted(other)}."
            raise ValueError(msg)
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
        columns = [frame[name] for frame in frames if name in frame.columns]
        numeric = [column.dtype.is_numeric() for column in columns]
        if all(numeric) or not any(numeric):
            continue
        pairs = list(zip(columns, numeric, strict=True))
        numbers = (v for column, is_number in pairs if is_number for v in column.drop_nulls())
        texts = (v for column, is_number in pairs if not is_number for v in column)
        number = next(iter(numbers), None)
        text = next((value for value in texts if isinstance(value, str)), None)
        if number is not None and text is not None:
            msg = (
                f"Column {name!r} holds numbers in one block and text in another, such as {number} and "
                f"{text!r}. Give text in all of them, e.g. pandas.read_csv(..., dtype={{{name!r}: str}})."
            )
            raise ValueError(msg)


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
    return raw[rows] if isinstance(raw, np.ma.MaskedArray) else np.asarray(raw)[rows]
