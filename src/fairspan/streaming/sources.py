"""Sources of rows: their parts, the roles of their columns, and blocks of rows in order."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, TypeVar

import narwhals as nw

from fairspan._system import row_progress
from fairspan.inputs.columns import require_columns
from fairspan.streaming.rows import Rows, Span, join, plain_text

Item = TypeVar("Item")
_END: Any = object()  # what `next` returns after the last item
# Arguments of `fit_stream` that give a role to columns, and those that name a single column.
_BESIDE = ("target", "sensitive_features", "control_features", "sample_weight", "groups")
_SINGLE = ("target", "sample_weight", "groups")


@dataclass(frozen=True)
class FileState:
    """Size and time of the last change of a file, to notice that it changes between two passes.

    A digest of the rows would also notice a change that keeps both, but costs a pass of its own.
    """

    size: int
    changed_ns: int

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> FileState:
        """Read the state of a file."""
        status = os.stat(path)
        return cls(status.st_size, status.st_mtime_ns)

    def check(self, path: str | os.PathLike[str]) -> None:
        """Raise if the file has changed since."""
        now = FileState.of(path)
        if now != self:
            change = "its size" if now.size != self.size else "its contents (it was written again)"
            raise OSError(
                f"{os.fspath(path)} changed {change} since it was opened, so rows read before and after do "
                f"not belong together. Call again while nothing writes to it, or give a copy of it."
            )


@dataclass(frozen=True, kw_only=True)
class GivenRoles:
    """Roles of columns as the user gives them: names, column numbers, or arrays beside an array."""

    target: Any = None
    sensitive: Any = None
    control: Any = None
    features: Any = None
    weight: Any = None
    groups: Any = None

    @property
    def beside_features(self) -> dict[str, Any]:
        """All roles but the features, by the name of the argument of ``fit_stream``."""
        values = (self.target, self.sensitive, self.control, self.weight, self.groups)
        return dict(zip(_BESIDE, values, strict=True))


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Names of the columns of a table, by role."""

    target: str | None
    sensitive: tuple[str, ...]
    control: tuple[str, ...]
    features: tuple[str, ...]
    weight: str | None
    groups: str | None = None

    @classmethod
    def of(cls, columns: Sequence[str], given: GivenRoles) -> Roles:
        """Check the names; columns without a role are the features, unless features are named."""
        named = {
            role: _names(role, value, single=role in _SINGLE)
            for role, value in given.beside_features.items()
        }
        check_one_role(named, may_share=("sensitive_features", "control_features"))
        chosen = None if given.features is None else _names("features", given.features)
        for role, names in {**named, "features": chosen or ()}.items():
            require_columns(names, columns, f"{role} names")
        used = {name for names in named.values() for name in names}
        features = tuple(c for c in columns if c not in used) if chosen is None else chosen
        if not features:
            raise ValueError("No column is left for the features; name some, or give more columns.")
        for role in _SINGLE:
            if set(named[role]) & set(features):
                msg = (
                    f"The column {named[role][0]!r} is given as {role}, so it cannot be a feature."
                )
                raise ValueError(msg)
        return cls(
            target=next(iter(named["target"]), None),
            sensitive=named["sensitive_features"],
            control=named["control_features"],
            features=features,
            weight=next(iter(named["sample_weight"]), None),
            groups=next(iter(named["groups"]), None),
        )

    @property
    def columns(self) -> list[str]:
        """All columns that must be read, once each."""
        single = [name for name in (self.target, self.weight, self.groups) if name is not None]
        return list(dict.fromkeys([*self.features, *self.sensitive, *self.control, *single]))

    def as_json(self) -> dict[str, Any]:
        """The roles for the header of a checkpoint."""
        return as_json(vars(self), lambda names: list(names) if isinstance(names, tuple) else names)

    def split(self, frame: Any, spans: tuple[Span, ...]) -> Rows:
        """Rows of a frame, by role."""
        table = plain_text(nw.from_native(frame, eager_only=True))
        existing = set(table.columns)
        missing = [name for name in self.columns if name not in existing]
        if missing:
            where = f"{spans[0].name}: " if spans else ""
            raise ValueError(
                f"{where}the column {missing[0]!r} is missing; every block needs the same columns."
            )

        def several(names: Sequence[str]) -> Any:
            return table.select(list(names)).to_native() if names else None

        def single(name: str | None) -> Any:
            return None if name is None else table[name].to_native()

        return Rows(
            several(self.features),
            single(self.target),
            several(self.sensitive),
            several(self.control),
            single(self.weight),
            spans,
            single(self.groups),
        )


def _names(role: str, given: Any, *, single: bool = False) -> tuple[str, ...]:
    if given is None:
        return ()
    listed = [given] if isinstance(given, str) else given
    named = isinstance(listed, list | tuple) and all(isinstance(name, str) for name in listed)
    if not named or (single and len(listed) != 1) or len(set(listed)) < len(listed):
        allowed = "a column name" if single else "a column name, or a list of different ones"
        raise ValueError(f"{role}={given!r} is not allowed with this source; give {allowed}.")
    return tuple(listed)


@dataclass
class Part(ABC):
    """A piece of a source that can be read by itself: a row group, a file, a partition.

    Attributes
    ----------
    name : str
        Name of the piece in errors, such as a file's path.
    n_rows : int or None
        Number of rows; None until the part has been read, if the source does not declare it.
    pieces : dict or None
        Dask tasks that compute the part; None for other sources.
    """

    name: str
    n_rows: int | None
    # Arguments of a Dask task: Dask finds them only there, not inside the part.
    pieces: dict[str, Any] | None = field(default=None, kw_only=True)

    @abstractmethod
    def read(self) -> Iterator[Rows]:
        """Read the rows in order, a moderate number at a time."""


class Source(ABC):
    """Rows in files, arrays, an iterable or a collection of an engine.

    Attributes
    ----------
    parts : list of Part
    single_pass : bool
        True if the rows can be read only once, as those of an iterator.
    for_workers : bool
        True if its parts can be sent to other processes, which read them there.
    ordered : bool
        True if rows have positions that stay the same; otherwise they are known by their content alone.
    roles : Roles or None
        Names of columns, if the rows have any.
    inferred : bool
        True if types of columns are guessed from their text, as in CSV files.
    """

    parts: list[Part]
    single_pass: bool = False
    for_workers: bool = False
    ordered: bool = True
    roles: Roles | None = None
    inferred: bool = False

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Describe the source as JSON; a checkpoint of a source with another identity is refused."""

    def files(self) -> list[str]:
        """Paths of the files that are read."""
        return []

    def types(self) -> dict[str, Any]:
        """Arrow types of the columns, if the source declares them."""
        return {}

    def leading_zeros(self) -> dict[str, str]:
        """Columns of inferred numbers with a value that begins with 0, such as "0123", and that value."""
        return {}

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if it is not known yet."""
        counts = [part.n_rows for part in self.parts]
        known = [n for n in counts if n is not None]
        return sum(known) if len(known) == len(counts) else None

    def starts(self) -> list[int]:
        """Offset of each part's first row among all rows; needs the counts of all parts."""
        out, before = [], 0
        for part in self.parts:
            assert part.n_rows is not None
            out.append(before)
            before += part.n_rows
        return out


def blocks(
    parts: Iterable[Part], size: int, *, start: int = 0, first: int = 0
) -> Iterator[tuple[int, Rows]]:
    """Cut the rows of parts into blocks at multiples of ``size``, counted over all rows.

    The blocks do not depend on how the rows are stored. The ``n_rows`` of parts are set on the way.

    Parameters
    ----------
    parts : iterable of Part
        In order.
    size : int
        Rows of a block; the first and the last may have fewer.
    start : int, default=0
        Rows before this offset are skipped; parts that end before it are not read.
    first : int, default=0
        Offset of the parts' first row among all rows.

    Yields
    ------
    offset : int
        Of the block's first row among all rows.
    rows : Rows
    """
    offset, waiting = first, []
    held, begin = 0, max(start, first)
    for part in parts:
        if part.n_rows is not None and offset + part.n_rows <= start:
            offset += part.n_rows
            continue
        n_read = 0
        for rows in part.read():
            n = len(rows)
            skip = min(max(start - offset, 0), n)
            offset, n_read = offset + n, n_read + n
            if skip == n:
                continue
            waiting.append(rows if skip == 0 else rows.cut(skip, n))
            held += n - skip
            while held and held >= (room := size - begin % size):
                joined = join(waiting)
                yield begin, joined if held == room else joined.cut(0, room)
                waiting = [] if held == room else [joined.cut(room, held)]
                begin, held = begin + room, held - room
        if part.n_rows is not None and part.n_rows != n_read:
            msg = f"{part.name} had {part.n_rows} rows and now has {n_read}: it changed while it was read."
            raise ValueError(msg)
        part.n_rows = n_read
    if held:
        yield begin, join(waiting)


def prefetch(items: Iterable[Item], depth: int = 2) -> Generator[Item, None, None]:
    """Make items in a thread ahead of their use, so that reading overlaps computing.

    Parameters
    ----------
    items : iterable
        An error in it is raised where the item would have been given.
    depth : int, default=2
        How many items may wait.

    Yields
    ------
    item
        In order.
    """
    iterator = iter(items)
    with ThreadPoolExecutor(1, "fairspan-reader") as reader:
        ahead = deque(reader.submit(next, iterator, _END) for _ in range(max(depth, 1)))
        try:
            while (item := ahead.popleft().result()) is not _END:
                ahead.append(reader.submit(next, iterator, _END))
                yield item
        finally:
            for future in ahead:
                future.cancel()


def read_blocks(
    source: Source,
    size: int,
    label: str,
    *,
    verbose: int,
    start: int = 0,
    move: Callable[[str, Any], Any] | None = None,
) -> Generator[tuple[int, Rows], None, None]:
    """The :func:`blocks` of a source from ``start`` on, read ahead in a thread, with progress.

    ``move(argument, values)`` is called in that thread too: it moves arrays to a device.
    """

    def read() -> Iterator[tuple[int, Rows]]:
        for offset, rows in blocks(source.parts, size, start=start):
            yield offset, rows if move is None else rows.moved(move)

    with (
        row_progress(label, source.n_rows, verbose=verbose, done=start) as count_rows,
        closing(prefetch(read())) as read_ahead,
    ):
        for offset, rows in read_ahead:
            yield offset, rows
            count_rows(len(rows))


def check_one_role(roles: Mapping[str, Sequence[str]], may_share: Collection[str] = ()) -> None:
    """Raise if a column has two roles, other than those in `may_share`."""
    first: dict[str, str] = {}
    for role, names in roles.items():
        for name in names:
            other = first.setdefault(name, role)
            if other != role and not {role, other} <= set(may_share):
                raise ValueError(f"The column {name!r} cannot be both {other} and {role}.")


def as_json(roles: Mapping[str, Any], describe: Callable[[Any], Any]) -> dict[str, Any]:
    """Roles for the header of a checkpoint; without groups as in checkpoints of version 0.1.0."""
    return {k: describe(v) for k, v in roles.items() if k != "groups" or v is not None}


def is_dask(obj: Any) -> bool:
    """True for a Dask collection; Dask is not imported to find out."""
    dask = sys.modules.get("dask")
    return dask is not None and bool(dask.is_dask_collection(obj))
