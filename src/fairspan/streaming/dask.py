"""Dask: collections as sources, and passes over parts on workers.

Parts become samples or moments on workers, which are then added up in a tree. The order of the parts
fixes which sums are taken, so the result does not depend on the workers. Parts are computed in waves:
this bounds the work in flight, and a checkpoint can be saved at the end of a wave. If a worker dies, Dask
runs its tasks again.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairspan._system import row_progress
from fairspan.exceptions import CheckpointError
from fairspan.streaming.checkpoint import SavedPass
from fairspan.streaming.engines import moments_of, sample_of
from fairspan.streaming.memory import describe, feature_columns, values_or_numbers
from fairspan.streaming.rows import Rows, Span, StreamedEstimator, StreamedMoments
from fairspan.streaming.sample import Sample
from fairspan.streaming.sources import GivenRoles, Part, Roles, Source, as_json, is_dask

# Parts in flight; the same for any number of workers, or sums would differ.
WAVE = 32
_ATTEMPTS = 3


def _import_dask(name: str = "dask") -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError('This needs Dask: pip install "fairspan[dask]".') from error


# --------------------------------------------------------------------------- collections


@dataclass
class DaskPart(Part):
    """One partition; ``pieces`` are tasks, or on a worker their results."""

    roles: Roles | None

    def read(self) -> Iterator[Rows]:
        """Compute the partition, unless that was done, and return its rows."""
        pieces = self.pieces or {}
        if any(map(is_dask, pieces.values())):
            pieces = dict(zip(pieces, _import_dask().compute(*pieces.values()), strict=True))
        if self.roles is not None:
            frame = pieces["frame"]
            yield self.roles.split(frame, (Span(self.name, 0, len(frame)),))
            return
        arguments = (pieces["X"], *(pieces.get(role) for role in GivenRoles().beside_features))
        yield Rows.of(arguments, (Span(self.name, 0, len(pieces["X"])),))


class DaskSource(Source):
    """A Dask data frame with named columns, or a Dask array with y and S as arrays beside it."""

    for_workers = True

    def __init__(self, source: Any, given: GivenRoles) -> None:
        pieces: list[dict[str, Any]]
        counts: list[int | None]
        if hasattr(source, "columns"):
            columns = list(source.columns)
            self.roles = Roles.of(columns, given)
            pieces = [{"frame": frame} for frame in source[self.roles.columns].to_delayed()]
            counts = [None] * len(pieces)
            about: dict[str, Any] = {"columns": columns, "roles": self.roles.as_json()}
        else:
            pieces, counts = _array_pieces(source, given)
            about = {
                "shape": [str(n) for n in source.shape],
                "features": repr(given.features),
                "roles": as_json(given.beside_features, describe),
            }
        self.parts = [
            DaskPart(f"partition {i}", n, self.roles, pieces=piece)
            for i, (piece, n) in enumerate(zip(pieces, counts, strict=True))
        ]
        self._identity = {"kind": "dask", "partitions": len(self.parts), **about}

    def identity(self) -> dict[str, Any]:
        """Partitions and columns."""
        return self._identity


def _array_pieces(X: Any, given: GivenRoles) -> tuple[list[dict[str, Any]], list[int | None]]:
    """Chunks of rows of a Dask array, with the same rows of the arrays beside it."""
    if not hasattr(X, "chunks") or X.ndim != 2:
        msg = "A Dask collection to stream from is a data frame, or a matrix (dask.array) of features."
        raise TypeError(msg)
    if any(n != n for n in X.chunks[0]):  # NaN: not known
        X = X.compute_chunk_sizes()
    beside = {
        role: values_or_numbers(value, len(X)) for role, value in given.beside_features.items()
    }
    all_columns, columns = X, feature_columns(X.shape[1], given.features, beside)
    if columns is not None:
        X = X[:, columns]
    X = X.rechunk({1: -1})
    sizes = [int(n) for n in X.chunks[0]]
    cut = {}
    for role, value in beside.items():
        if value is not None:
            is_array = isinstance(describe(value), bool)
            cut[role] = _chunks_like(value if is_array else all_columns[:, value], sizes, role)
    pieces = [
        {"X": chunk, **{role: chunks[i] for role, chunks in cut.items()}}
        for i, chunk in enumerate(X.to_delayed().ravel())
    ]
    return pieces, list(sizes)


def _chunks_like(array: Any, sizes: list[int], role: str) -> list[Any]:
    """Cut an array beside X into the same chunks of rows."""
    if not is_dask(array):
        chunks = (tuple(sizes), *array.shape[1:])
        array = _import_dask("dask.array").from_array(array, chunks=chunks)
    if len(array) != sum(sizes):
        raise ValueError(f"{role} has {len(array)} rows, the features have {sum(sizes)}.")
    layout = {0: tuple(sizes), 1: -1} if array.ndim == 2 else {0: tuple(sizes)}
    return list(array.rechunk(layout).to_delayed().ravel())


# --------------------------------------------------------------------------- passes on workers


class DaskEngine:
    """Dask, as an :class:`fairspan.streaming.engines.Engine`; with a client also for files."""

    name = "Dask"

    def recognises(self, source: Any) -> bool:
        """True for a Dask collection."""
        return is_dask(source)

    def open(self, source: Any, given: GivenRoles) -> Source:
        """Open a data frame, or an array."""
        return DaskSource(source, given)

    def computes(self, source: Source, client: Any) -> bool:
        """With a client, Dask computes the passes over any source that its workers can read."""
        return client is not None or source.parts[0].pieces is not None

    def check(
        self,
        source: Source,
        *,
        device: Any,
        checkpoint: Any,  # noqa: ARG002 - saved at the end of a wave
        client: Any,
    ) -> None:
        """Raise for a device, and for sources that only this process can read."""
        if device is not None and source.parts[0].pieces is not None:
            msg = "device is not for Dask collections, whose workers compute on their processors."
            raise ValueError(msg)
        if client is not None and not source.for_workers:
            raise ValueError(
                "client needs a source that workers can read by themselves: files, a pyarrow dataset of "
                "files, or a Dask collection (dask.array.from_array for an array)."
            )

    def sample(
        self,
        est: StreamedEstimator,
        source: Source,
        empty: Sample,
        client: Any,
        *,
        encoder: Any,
        digest: bool,
    ) -> Sample:
        """The sample of all parts, each of them sampled on a worker."""
        _count_rows(source, client)
        shared = (est.copy(), empty, encoder, digest)
        out = empty
        with row_progress("sample", source.n_rows, verbose=est.params["verbose"]) as count_rows:
            for _, n, sample in _waves(source, 0, sample_of, shared, client):
                out = out + sample
                count_rows(n)
        return out

    def moments(
        self,
        est: StreamedEstimator,
        source: Source,
        size: int,
        client: Any,
        saved: SavedPass | None,
        start: StreamedMoments,
    ) -> StreamedMoments:
        """Moments of all parts after those of ``start``, each of them computed on a worker."""
        shared, moments, position = (est.copy(), start.pilot, size), start.moments, start.position
        verbose = est.params["verbose"]
        with row_progress("moments", source.n_rows, verbose=verbose, done=position) as count_rows:
            for offset, n, more in _waves(source, position, moments_of, shared, client):
                moments, position = moments + more, offset + n
                count_rows(n)
                if saved is not None:
                    saved.save_if_due(lambda sums=moments: sums, position)  # type: ignore[misc]
        if saved is not None:
            saved.save(lambda: moments, position)
        return replace(start, moments=moments, position=position)


def _waves(
    source: Source, begin: int, function: Callable[..., Any], arguments: Any, client: Any
) -> Iterator[tuple[int, int, Any]]:
    """Offset, number of rows and sum of each wave of parts; those before ``begin`` are left out."""
    starts, shared = source.starts(), None
    for first in range(0, len(source.parts), WAVE):
        parts = source.parts[first : first + WAVE]
        n = sum(part.n_rows or 0 for part in parts)
        if starts[first] + n <= begin or n == 0:
            continue
        if starts[first] < begin:
            raise CheckpointError(
                f"The checkpoint ends at row {begin}, inside a wave of parts: the parts are others."
            )
        for attempt in range(_ATTEMPTS):
            try:
                shared = _share(arguments, client) if shared is None else shared
                total = _compute(parts, starts[first : first + WAVE], function, shared, client)
                break
            except Exception as error:
                # If all workers with the shared arguments died, these are lost: send them again.
                if "Cancelled" not in type(error).__name__ or attempt == _ATTEMPTS - 1:
                    raise
                shared = None
        yield starts[first], n, total


def _compute(
    parts: Sequence[Part],
    starts: Sequence[int],
    function: Callable[..., Any],
    shared: Any,
    client: Any,
) -> Any:
    """The sum of the function's results over parts: of neighbours, then of their sums, and so on."""
    run = _import_dask().delayed(_run, pure=False)
    add = _import_dask().delayed(operator.add, pure=False)
    tasks = [
        run(function, shared, replace(part, pieces=None), start, part.pieces)
        for part, start in zip(parts, starts, strict=True)
        if part.n_rows
    ]
    while len(tasks) > 1:
        pairs = [add(*tasks[i : i + 2]) for i in range(0, len(tasks) - 1, 2)]
        tasks = [*pairs, tasks[-1]] if len(tasks) % 2 else pairs
    return tasks[0].compute() if client is None else client.compute(tasks[0]).result()


def _share(arguments: tuple[Any, ...], client: Any) -> Any:
    """Send the arguments that all parts share to every worker once."""
    if client is None:
        return _import_dask().delayed(arguments, pure=False, traverse=False)
    return client.scatter([arguments], broadcast=True)[0]


def _run(
    function: Callable[..., Any], shared: tuple[Any, ...], part: Part, start: int, pieces: Any
) -> Any:
    if pieces is not None:
        part = replace(part, pieces=pieces)
    return function(*shared, part, start)


def _count_rows(source: Source, client: Any) -> None:
    """Count the rows of parts of unknown length: the folds depend on the offsets of rows."""
    unknown = [part for part in source.parts if part.n_rows is None]
    if not unknown:
        return
    dask = _import_dask()
    count = dask.delayed(_n_rows, pure=False)
    tasks = [count(replace(part, pieces=None), part.pieces) for part in unknown]
    counts = dask.compute(*tasks) if client is None else client.gather(client.compute(tasks))
    for part, n in zip(unknown, counts, strict=True):
        part.n_rows = int(n)


def _n_rows(part: Part, pieces: Any) -> int:
    if pieces is not None:
        return len(pieces["frame"] if "frame" in pieces else pieces["X"])
    return sum(len(rows) for rows in part.read())
