"""Sources in memory or mapped from disk: arrays, and iterables of blocks."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from fairspan.inputs.columns import align_rows, as_frame, named_columns_of
from fairspan.inputs.sparse import is_sparse_input
from fairspan.streaming.arrow import frame_of
from fairspan.streaming.rows import ARGUMENTS, Rows, Span, take_rows
from fairspan.streaming.sources import FileState, GivenRoles, Part, Roles, Source, as_json

_READ_ROWS = 2**16


@dataclass(kw_only=True)
class ArrayPart(Part):
    """A matrix, read in slices, with the other arguments as arrays beside it or columns of it."""

    X: Any
    features: list[int] | None  # None: all columns
    beside: tuple[Any, ...]  # y, S, control, weight, groups: column numbers of X, or arrays
    files: dict[str, FileState]  # state of memory-mapped files when the source was opened

    def read(self) -> Iterator[Rows]:
        """Read slices in order."""
        n = len(self.X)
        self._check_unchanged()
        for start in range(0, n, _READ_ROWS):
            rows = slice(start, min(start + _READ_ROWS, n))
            block = self.X[rows]
            X = block if self.features is None else block[:, self.features]
            others = (_beside(block, given, rows) for given in self.beside)
            yield Rows.of((X, *others), (Span(self.name, start, rows.stop - start),))
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        for path, state in self.files.items():
            state.check(path)


def _mapped_files(arrays: Iterable[Any]) -> dict[str, FileState]:
    """State of the files under read-only memory maps; the user may write to the others."""
    maps = [array for array in arrays if isinstance(array, np.memmap) and array.mode in ("r", "c")]
    paths = [os.fspath(array.filename) for array in maps if array.filename is not None]
    return {path: FileState.of(path) for path in paths if os.path.exists(path)}


def _beside(block: Any, given: Any, rows: slice) -> Any:
    if _is_index(given):
        return block[:, given]
    if _are_indices(given):
        return {f"column {j}": block[:, j] for j in given}
    return take_rows(given, rows)


def _is_index(given: Any) -> bool:
    return isinstance(given, int | np.integer) and not isinstance(given, bool)


def _are_indices(given: Any) -> bool:
    return isinstance(given, list | tuple) and bool(given) and all(map(_is_index, given))


class ArraySource(Source):
    """A matrix, on disk or in memory, with y and S as arrays of the same rows or as columns of it."""

    def __init__(self, X: Any, given: GivenRoles) -> None:
        if X.ndim != 2:
            msg = f"An array to stream from must be a matrix; got shape {tuple(X.shape)}."
            raise ValueError(msg)
        roles = {
            role: values_or_numbers(value, len(X)) for role, value in given.beside_features.items()
        }
        features = feature_columns(X.shape[1], given.features, roles)
        for role, value in roles.items():
            _check_rows(value, len(X), role)
        roles = align_rows(X=X, **roles)
        roles.pop("X")
        beside = tuple(roles.values())
        files = _mapped_files([X, *beside])
        part = ArrayPart("array", len(X), X=X, features=features, beside=beside, files=files)
        self.parts = [part]
        self._identity = {
            "kind": "array",
            "shape": list(X.shape),
            "dtype": str(X.dtype),
            "features": features,
            "roles": as_json(roles, describe),
        }

    def identity(self) -> dict[str, Any]:
        """Shape, type and roles."""
        return self._identity


def refuse_sparse(X: Any) -> None:
    """Raise if rows are sparse: blocks are cut and joined as dense rows."""
    if is_sparse_input(X):
        raise TypeError(
            "Streams take dense rows, and X is sparse. Use fit, which keeps sparse rows as they are, or call "
            "prepare on some rows and partial_fit on the blocks."
        )


def values_or_numbers(given: Any, n: int) -> Any:
    """Read a list of integers as column numbers, unless it has a value per row or repeats one."""
    if _are_indices(given) and (len(given) == n or len(set(given)) < len(given)):
        return np.asarray(given)
    return given


def feature_columns(width: int, features: Any, roles: Mapping[str, Any]) -> list[int] | None:
    """Numbers of the feature columns; None if all columns are features."""
    taken: dict[int, str] = {}
    for role, given in {**roles, "features": features}.items():
        names = [given] if isinstance(given, str) else given
        if isinstance(names, list | tuple) and names and all(isinstance(v, str) for v in names):
            msg = f"{role}={given!r} names columns, but an array has none. Give their numbers, from 0."
            raise ValueError(msg)
        listed = [given] if _is_index(given) else list(given) if _are_indices(given) else []
        for j in listed:
            if not 0 <= j < width:
                msg = f"{role}={given!r}: {j} is not one of the {width} columns, counted from 0."
                raise ValueError(msg)
            if role != "features":
                taken[int(j)] = role
    if features is None:
        return [j for j in range(width) if j not in taken] if taken else None
    if not _are_indices(features):
        msg = f"features={features!r} is not allowed with an array; give a list of column numbers."
        raise ValueError(msg)
    for j in features:
        if (given_as := taken.get(int(j))) in ("target", "sample_weight", "groups"):
            raise ValueError(f"Column {j} is given as {given_as}, so it cannot be a feature.")
    return [int(j) for j in features]


def describe(given: Any) -> Any:
    """A role for the header of a checkpoint: column numbers, or whether an array was given."""
    if _is_index(given):
        return int(given)
    return [int(j) for j in given] if _are_indices(given) else given is not None


def _check_rows(given: Any, n: int, role: str) -> None:
    """Raise unless there is a value per row; a number is for all rows, or that of a column."""
    if given is None or isinstance(given, numbers.Real) or _are_indices(given):
        return
    if isinstance(given, Mapping):
        for column in given.values():
            _check_rows(column, n, role)
        return
    n_given = _num_samples(given)
    if n_given != n:
        raise ValueError(f"{role} has {n_given} rows, and the features have {n}.")


def _take_named_columns(rows: Rows) -> Rows:
    """Move the columns that S or control features name from X to their role."""
    frame = as_frame(rows.X, "X")
    moved: dict[str, Any] = {}
    taken: list[str] = []
    for role in ("sensitive", "control"):
        given = getattr(rows, role)
        names = None if given is None else named_columns_of(frame, given, f"{role}_features")
        if names is not None and frame is not None:
            moved[role] = frame.select(names).to_native()
            taken += names
    if not moved or frame is None:
        return rows
    return replace(rows, X=frame.drop(taken).to_native(), **moved)


def _shape_of(given: Any) -> str:
    """Describe the type and columns of an argument, which must be the same in all blocks."""
    if given is None or isinstance(given, numbers.Real):
        return "nothing" if given is None else "a number"
    if isinstance(given, Mapping):
        return f"a dict of {sorted(map(str, given))}"
    frame = as_frame(given, "block")
    if frame is not None:
        return f"a frame of {list(frame.columns)}"
    shape = np.shape(given)[1:]
    return f"an array with {shape[0]} columns" if shape else "an array"


@dataclass(kw_only=True)
class IterablePart(Part):
    """Blocks of an iterable: frames with named columns, (X, y, S), or dicts of fit's arguments."""

    make: Callable[[], Iterable[Any]]
    given: GivenRoles
    source: IterableSource

    def read(self) -> Iterator[Rows]:
        """Read and check the blocks one by one."""
        first_shapes = None
        for number, block in enumerate(self.make()):
            name = f"block {number}"
            rows = self._rows(block, name)
            n = len(rows)
            try:
                refuse_sparse(rows.X)
                for role, given in list(rows.by_argument.items())[1:]:
                    _check_rows(given, n, role)
                # Match by index here, because blocks are cut and joined by position.
                rows = Rows.of(align_rows(**rows.by_argument).values())
                shapes = [_shape_of(given) for given in rows.arguments]
            except (TypeError, ValueError) as error:
                raise ValueError(f"{name}: {error}") from error
            first_shapes = shapes if first_shapes is None else first_shapes
            for role, first, now in zip(ARGUMENTS, first_shapes, shapes, strict=True):
                if first != now:
                    msg = f"{name}: {role} is {now}, and that of the first block is {first}."
                    raise ValueError(msg)
            if n:
                yield Rows.of(rows.arguments, (Span(name, 0, n),))

    def _rows(self, block: Any, name: str) -> Rows:
        if type(block).__module__.startswith("pyarrow") and hasattr(block, "to_pandas"):
            block = frame_of(block)
        if not isinstance(block, tuple | list | Mapping):
            frame = as_frame(block, name)
            if frame is not None:
                if self.source.roles is None:
                    self.source.roles = Roles.of(list(frame.columns), self.given)
                return self.source.roles.split(block, (Span(name, 0, len(frame)),))
        roles = [role for role, value in vars(self.given).items() if value is not None]
        if roles and not (roles == ["features"] and self.source.allow_unnamed):
            raise ValueError(
                f"{name} has no column names, so {roles[0]} cannot name one. Give blocks (X, y, S), or dicts "
                f"of fit's arguments, and leave target, sensitive_features and the like out."
            )
        if isinstance(block, Mapping):
            if unknown := sorted(set(block) - set(ARGUMENTS)):
                msg = f"{name} has {unknown[0]!r}; a dict has the arguments of fit: {', '.join(ARGUMENTS)}."
                raise ValueError(msg)
            return _take_named_columns(Rows.of(block.get(role) for role in ARGUMENTS))
        if isinstance(block, tuple | list) and len(block) == 3:
            return Rows(block[0], block[1], block[2], None, None)
        if getattr(block, "ndim", 0) == 2:
            return Rows(block, None, None, None, None)
        raise ValueError(
            f"{name} is a {type(block).__name__}; give data frames, (X, y, sensitive_features), or dicts of "
            f"fit's arguments."
        )


class IterableSource(Source):
    """An iterator, which is read once, or a list or function that gives a new one each time."""

    def __init__(self, source: Any, given: GivenRoles, *, allow_unnamed: bool = False) -> None:
        self.allow_unnamed = allow_unnamed  # `features` may be given although blocks have no names
        self.single_pass = isinstance(source, Iterator)
        make = source if callable(source) and not self.single_pass else lambda: source
        self.parts = [IterablePart("blocks", None, make=make, given=given, source=self)]
        self._given = given

    def identity(self) -> dict[str, Any]:
        """The given roles: nothing else is known before the blocks are read."""
        return {"kind": "blocks", "names": as_json(vars(self._given), repr)}
