"""Arrays on disk, and rows that someone else hands over block by block."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from fairspan.inputs.alignment import align_rows
from fairspan.inputs.columns import as_frame, named_columns_of, take_rows
from fairspan.streaming.arrow import frame_of
from fairspan.streaming.rows import Rows, Span
from fairspan.streaming.sources import FileState, Part, Roles, Source

__all__ = ["ArraySource", "IterableSource"]

_READ_ROWS = 2**16
_ROLES = ("X", "y", "sensitive_features", "control_features", "sample_weight")


@dataclass
class ArrayPart(Part):
    """Slices of arrays; only what is sliced is read from disk."""

    X: Any
    features: list[int] | None  # None: all columns
    beside: tuple[Any, ...]  # y, S, control, weight: column numbers of X, or arrays
    files: dict[str, FileState]  # those of arrays on disk, when the source was opened

    def read(self) -> Iterator[Rows]:
        """Slices in order."""
        n = len(self.X)
        self._check_unchanged()
        for start in range(0, n, _READ_ROWS):
            rows = slice(start, min(start + _READ_ROWS, n))
            block = self.X[rows]
            X = block if self.features is None else block[:, self.features]
            found = (_beside(block, one, rows) for one in self.beside)
            yield Rows.of((X, *found), (Span(self.name, start, rows.stop - start),))
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        for path, state in self.files.items():
            state.check(path)


def _mapped_files(arrays: Iterable[Any]) -> dict[str, FileState]:
    """State of the files under memory maps; writable ones change under the user's own hand."""
    maps = [one for one in arrays if isinstance(one, np.memmap) and one.mode in ("r", "c")]
    paths = [os.fspath(one.filename) for one in maps if one.filename is not None]
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

    def __init__(
        self, X: Any, target: Any, sensitive: Any, control: Any, features: Any, weight: Any
    ) -> None:
        if X.ndim != 2:
            msg = f"An array to stream from must be a matrix; got shape {tuple(X.shape)}."
            raise ValueError(msg)
        roles = {
            "target": target, "sensitive_features": sensitive, "control_features": control,
            "sample_weight": weight,
        }  # fmt: skip
        roles = {role: values_or_numbers(given, len(X)) for role, given in roles.items()}
        features = feature_columns(X.shape[1], features, roles)
        for role, given in roles.items():
            _check_rows(given, len(X), role)
        roles = align_rows(X=X, **roles)
        roles.pop("X")
        files = _mapped_files([X, *roles.values()])
        self.parts = [ArrayPart("array", len(X), X, features, tuple(roles.values()), files)]
        self._what = {"shape": list(X.shape), "dtype": str(X.dtype), "features": features}
        self._what["roles"] = {role: describe(given) for role, given in roles.items()}

    def identity(self) -> dict[str, Any]:
        """Shape, type and roles."""
        return {"kind": "array", **self._what}


def values_or_numbers(given: Any, n: int) -> Any:
    """A list is numbers of columns if it can be; one value per row, or the same one twice, cannot."""
    if _are_indices(given) and (len(given) == n or len(set(given)) < len(given)):
        return np.asarray(given)
    return given


def feature_columns(width: int, features: Any, roles: Mapping[str, Any]) -> list[int] | None:
    """Numbers of the columns to learn from; None: all of them."""
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
        if taken.get(int(j)) in ("target", "y", "sample_weight", "weight"):
            msg = f"Column {j} is the target or the weight, so it cannot be a feature."
            raise ValueError(msg)
    return [int(j) for j in features]


def describe(given: Any) -> Any:
    """A role for a checkpoint's header: column numbers, or whether there was an array."""
    if _is_index(given):
        return int(given)
    return [int(j) for j in given] if _are_indices(given) else given is not None


def _check_rows(given: Any, n: int, role: str) -> None:
    """As many as the features have; a number is for all rows, or a column's."""
    if given is None or isinstance(given, numbers.Real) or _are_indices(given):
        return
    if isinstance(given, Mapping):
        for one in given.values():
            _check_rows(one, n, role)
        return
    found = _num_samples(given)
    if found != n:
        msg = f"{role} has {found} rows, and the features have {n}."
        raise ValueError(msg)


def _named_in(rows: Rows) -> Rows:
    """Columns of X that a block's S or control features name, apart from X."""
    frame = as_frame(rows.X, "X")
    found: dict[str, Any] = {}
    taken: list[str] = []
    for role in ("sensitive", "control"):
        given = getattr(rows, role)
        names = None if given is None else named_columns_of(frame, given, f"{role}_features")
        if names is not None and frame is not None:
            found[role] = frame.select(names).to_native()
            taken += names
    if not found or frame is None:
        return rows
    return replace(rows, X=frame.drop(taken).to_native(), **found)


def _look(given: Any) -> str:
    """What a block's argument looks like, which must be the same in all blocks."""
    if given is None or isinstance(given, numbers.Real):
        return "nothing" if given is None else "a number"
    if isinstance(given, Mapping):
        return f"a dict of {sorted(map(str, given))}"
    frame = as_frame(given, "block")
    if frame is not None:
        return f"a frame of {list(frame.columns)}"
    shape = np.shape(given)[1:]
    return f"an array with {shape[0]} columns" if shape else "an array"


@dataclass
class IterablePart(Part):
    """Blocks of an iterable: frames with named columns, (X, y, S), or dicts of fit's arguments."""

    make: Callable[[], Iterable[Any]]
    named: dict[str, Any]
    source: IterableSource

    def read(self) -> Iterator[Rows]:
        """Blocks as they come."""
        known = None
        for number, block in enumerate(self.make()):
            name = f"block {number}"
            rows = self._rows(block, name)
            n = len(rows)
            try:
                for role, given in zip(_ROLES[1:], rows.arguments[1:], strict=True):
                    _check_rows(given, n, role)
                # Here, because blocks are cut and joined by position.
                rows = Rows.of(
                    align_rows(**dict(zip(_ROLES, rows.arguments, strict=True))).values()
                )
                look = [_look(one) for one in rows.arguments]
            except (TypeError, ValueError) as error:
                msg = f"{name}: {error}"
                raise ValueError(msg) from error
            known = look if known is None else known
            for role, first, now in zip(_ROLES, known, look, strict=True):
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
                    self.source.roles = Roles.of(list(frame.columns), **self.named)
                return self.source.roles.split(block, (Span(name, 0, len(frame)),))
        roles = [role for role, given in self.named.items() if given is not None]
        if roles and not (roles == ["features"] and self.source.soft):
            role = roles[0]
            msg = (
                f"{name} has no column names, so {role} cannot name one. Give blocks (X, y, S), or dicts of "
                f"fit's arguments, and leave target, sensitive_features and the like out."
            )
            raise ValueError(msg)
        if isinstance(block, Mapping):
            if unknown := sorted(set(block) - set(_ROLES)):
                msg = f"{name} has {unknown[0]!r}; a dict has the arguments of fit: {', '.join(_ROLES)}."
                raise ValueError(msg)
            return _named_in(Rows.of(block.get(role) for role in _ROLES))
        if isinstance(block, tuple | list) and len(block) == 3:
            return Rows(block[0], block[1], block[2], None, None)
        if getattr(block, "ndim", 0) == 2:
            return Rows(block, None, None, None, None)
        msg = (
            f"{name} is a {type(block).__name__}; give data frames, (X, y, sensitive_features), or dicts of "
            f"fit's arguments."
        )
        raise ValueError(msg)


class IterableSource(Source):
    """An iterator (read once), or something that gives a new one each time: a list, a function."""

    def __init__(self, source: Any, *, soft: bool = False, **named: Any) -> None:
        self.soft = soft  # blocks without names need not have the features' names
        self.once = isinstance(source, Iterator)
        make = source if callable(source) and not isinstance(source, Iterator) else lambda: source
        self.parts = [IterablePart("blocks", None, make, named, self)]
        self._named = named

    def identity(self) -> dict[str, Any]:
        """Only the names are known before it is read."""
        return {"kind": "blocks", "names": {k: repr(v) for k, v in self._named.items()}}
