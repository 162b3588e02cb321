"""Dask collections: a partition is a part."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fairspan.streaming.memory import describe, feature_columns, values_or_numbers
from fairspan.streaming.rows import Rows, Span
from fairspan.streaming.sources import Part, Roles, Source

__all__ = ["DaskSource", "dask_module", "is_dask"]


def is_dask(obj: Any) -> bool:
    """Is it a Dask collection? Dask is not imported to find out."""
    dask = sys.modules.get("dask")
    return dask is not None and bool(dask.is_dask_collection(obj))


def dask_module(name: str = "dask") -> Any:
    """Dask, if it is installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        msg = 'This needs Dask: pip install "fairspan[dask]".'
        raise ImportError(msg) from error


@dataclass
class DaskPart(Part):
    """One partition; ``pieces`` are tasks, or on a worker their results."""

    roles: Roles | None

    def read(self) -> Iterator[Rows]:
        """Its rows."""
        pieces = self.pieces or {}
        if any(map(is_dask, pieces.values())):
            pieces = dict(zip(pieces, dask_module().compute(*pieces.values()), strict=True))
        yield rows_of(self.name, pieces, self.roles)


def rows_of(name: str, pieces: dict[str, Any], roles: Roles | None) -> Rows:
    """Rows of a computed partition."""
    if roles is not None:
        frame = pieces["frame"]
        return roles.split(frame, (Span(name, 0, len(frame)),))
    X = pieces["X"]
    found = (pieces.get(role) for role in ("y", "sensitive", "control", "weight"))
    return Rows.of((X, *found), (Span(name, 0, len(X)),))


class DaskSource(Source):
    """A Dask data frame with named columns, or a Dask array with y and S as arrays beside it."""

    for_workers = True

    def __init__(
        self, source: Any, target: Any, sensitive: Any, control: Any, features: Any, weight: Any
    ) -> None:
        if hasattr(source, "columns"):
            self.roles = Roles.of(
                list(source.columns), target, sensitive, control, features, weight
            )
            pieces = [{"frame": one} for one in source[self.roles.columns].to_delayed()]
            counts: list[int | None] = [None] * len(pieces)
            self._what: dict[str, Any] = {
                "columns": list(source.columns),
                "roles": {
                    k: list(v) if isinstance(v, tuple) else v for k, v in vars(self.roles).items()
                },
            }
        else:
            pieces, counts = _array_pieces(source, target, sensitive, control, features, weight)
            given = {"y": target, "S": sensitive, "control": control, "weight": weight}
            self._what = {"shape": [str(n) for n in source.shape], "features": repr(features)}
            self._what["roles"] = {role: describe(one) for role, one in given.items()}
        self.parts = [
            DaskPart(f"partition {i}", n, self.roles, pieces=piece)
            for i, (piece, n) in enumerate(zip(pieces, counts, strict=True))
        ]

    def identity(self) -> dict[str, Any]:
        """Partitions and columns."""
        return {"kind": "dask", "partitions": len(self.parts), **self._what}


def _array_pieces(
    X: Any, target: Any, sensitive: Any, control: Any, features: Any, weight: Any
) -> tuple[list[dict[str, Any]], list[int | None]]:
    """Row blocks of a Dask array, with the same rows of the arrays beside it."""
    if not hasattr(X, "chunks") or X.ndim != 2:
        msg = "A Dask collection to stream from is a data frame, or a matrix (dask.array) of features."
        raise TypeError(msg)
    beside = {"y": target, "sensitive": sensitive, "control": control, "weight": weight}
    if any(n != n for n in X.chunks[0]):  # NaN: not known
        X = X.compute_chunk_sizes()
    beside = {role: values_or_numbers(one, len(X)) for role, one in beside.items()}
    whole, columns = X, feature_columns(X.shape[1], features, beside)
    if columns is not None:
        X = X[:, columns]
    X = X.rechunk({1: -1})
    sizes = [int(n) for n in X.chunks[0]]
    beside = {
        role: one if isinstance(describe(one), bool) else whole[:, one]
        for role, one in beside.items()
    }
    cut = {role: _like(one, sizes, role) for role, one in beside.items() if one is not None}
    pieces = [
        {"X": block, **{role: parts[i] for role, parts in cut.items()}}
        for i, block in enumerate(X.to_delayed().ravel())
    ]
    return pieces, list(sizes)


def _like(array: Any, sizes: list[int], role: str) -> list[Any]:
    """An array beside X in the same row blocks."""
    if not is_dask(array):
        array = dask_module("dask.array").from_array(array, chunks=(tuple(sizes), *array.shape[1:]))
    if len(array) != sum(sizes):
        msg = f"{role} has {len(array)} rows, the features have {sum(sizes)}."
        raise ValueError(msg)
    layout = {0: tuple(sizes), 1: -1} if array.ndim == 2 else {0: tuple(sizes)}
    return list(array.rechunk(layout).to_delayed().ravel())
