"""What every source of rows has in common, and the roles of its columns."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw

from fairspan.inputs.columns import check_one_role, require_columns
from fairspan.streaming.rows import Rows, Span, plain_text

__all__ = ["FileState", "Part", "Roles", "Source"]


@dataclass(frozen=True)
class FileState:
    """Size and time of the last change of a file, to notice that it changes between two passes.

    A digest of the rows would also notice a change that keeps both, but costs a pass of its own.
    """

    size: int
    changed_ns: int

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> FileState:
        """Look at a file."""
        found = os.stat(path)
        return cls(found.st_size, found.st_mtime_ns)

    def check(self, path: str | os.PathLike[str]) -> None:
        """Raise if the file is another one by now."""
        now = FileState.of(path)
        if now != self:
            what = "its size" if now.size != self.size else "its contents (it was written again)"
            msg = (
                f"{os.fspath(path)} changed {what} since it was opened, so rows read before and after do "
                f"not belong together. Call again while nothing writes to it, or give a copy of it."
            )
            raise OSError(msg)


@dataclass(frozen=True)
class Roles:
    """Columns by name: what they are to a model."""

    target: str | None
    sensitive: tuple[str, ...]
    control: tuple[str, ...]
    features: tuple[str, ...]
    weight: str | None

    @classmethod
    def of(
        cls, columns: Sequence[str], target: Any, sensitive: Any, control: Any, features: Any,
        weight: Any,
    ) -> Roles:  # fmt: skip
        """Check names against the columns there are; features are all others unless named."""
        given = {
            "target": _names("target", target, single=True),
            "sensitive_features": _names("sensitive_features", sensitive),
            "control_features": _names("control_features", control),
            "sample_weight": _names("sample_weight", weight, single=True),
        }
        check_one_role(given, may_share=("sensitive_features", "control_features"))
        wanted = None if features is None else _names("features", features)
        for role, names in {**given, "features": wanted or ()}.items():
            require_columns(names, columns, f"{role} names")
        used = {name for names in given.values() for name in names}
        rest = tuple(name for name in columns if name not in used) if wanted is None else wanted
        if not rest:
            msg = "No column is left for the features; name some, or give more columns."
            raise ValueError(msg)
        own = [name for name in (*given["target"], *given["sample_weight"]) if name in rest]
        if own:
            msg = f"The column {own[0]!r} is the target or the weight, so it cannot be a feature."
            raise ValueError(msg)
        target, weight = given["target"], given["sample_weight"]
        return cls(
            target[0] if target else None, given["sensitive_features"], given["control_features"],
            rest, weight[0] if weight else None,
        )  # fmt: skip

    @property
    def columns(self) -> list[str]:
        """All that must be read, once each."""
        single = [name for name in (self.target, self.weight) if name is not None]
        return list(dict.fromkeys([*self.features, *self.sensitive, *self.control, *single]))

    def split(self, frame: Any, spans: tuple[Span, ...]) -> Rows:
        """Rows of a frame, by role."""
        table = plain_text(nw.from_native(frame, eager_only=True))
        there = set(table.columns)
        missing = [name for name in self.columns if name not in there]
        if missing:
            where = f"{spans[0].name}: " if spans else ""
            msg = (
                f"{where}the column {missing[0]!r} is missing; every block needs the same columns."
            )
            raise ValueError(msg)

        def some(names: Sequence[str]) -> Any:
            return table.select(list(names)).to_native() if names else None

        def one(name: str | None) -> Any:
            return None if name is None else table[name].to_native()

        return Rows(
            some(self.features), one(self.target), some(self.sensitive), some(self.control),
            one(self.weight), spans,
        )  # fmt: skip


def _names(role: str, given: Any, *, single: bool = False) -> tuple[str, ...]:
    if given is None:
        return ()
    listed = [given] if isinstance(given, str) else given
    named = isinstance(listed, list | tuple) and all(isinstance(name, str) for name in listed)
    if not named or (single and len(listed) != 1) or len(set(listed)) < len(listed):
        what = "a column name" if single else "a column name, or a list of different ones"
        msg = f"{role}={given!r} is not allowed with this source; give {what}."
        raise ValueError(msg)
    return tuple(listed)


@dataclass
class Part(ABC):
    """A piece of a source that can be read by itself: a row group, a file, a partition.

    Attributes
    ----------
    name : str
        What errors call it, as a file's path.
    n_rows : int or None
        How many rows it has; None until it has been read, where nothing says so before.
    pieces : dict or None
        Tasks of Dask's that it is made of; None elsewhere.
    """

    name: str
    n_rows: int | None  # None: known when it has been read
    # Tasks of Dask's that it is made of, which must travel where Dask sees them.
    pieces: dict[str, Any] | None = field(default=None, kw_only=True)

    @abstractmethod
    def read(self) -> Iterator[Rows]:
        """Its rows, in order, a moderate number at a time."""


class Source(ABC):
    """Rows somewhere, in an order.

    Attributes
    ----------
    parts : list of Part
    once : bool
        Can be read only once, as an iterator.
    for_workers : bool
        Its parts can be sent to other processes, which read them there.
    roles : Roles or None
        Names of columns, where there are names.
    inferred : bool
        Types of columns are guessed from their text, as in CSV files.
    """

    parts: list[Part]
    once: bool = False
    for_workers: bool = False
    roles: Roles | None = None
    inferred: bool = False

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What it is, as JSON: a checkpoint of one source is refused with another."""

    def files(self) -> list[str]:
        """Paths that are read."""
        return []

    def types(self) -> dict[str, Any]:
        """Arrow types of columns, where they are declared."""
        return {}

    def leading_zeros(self) -> dict[str, str]:
        """Columns of inferred numbers with a value that begins with 0, such as "0123", and that value."""
        return {}

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if known by now."""
        counts = [part.n_rows for part in self.parts]
        known = [n for n in counts if n is not None]
        return sum(known) if len(known) == len(counts) else None

    def starts(self) -> list[int]:
        """Place of each part's first row among all; needs all counts."""
        out, before = [], 0
        for part in self.parts:
            assert part.n_rows is not None
            out.append(before)
            before += part.n_rows
        return out
