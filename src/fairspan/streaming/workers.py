"""The passes on Dask: parts to samples or moments on workers, then a tree of sums.

Which sums are taken is fixed by the order of the parts, not by who is ready first, so the result does
not depend on workers. Parts are taken in waves: that bounds what is in flight, and the end of a wave is
where a checkpoint can be. A worker that dies costs the tasks it had, which Dask runs again.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from fairspan._system import row_progress
from fairspan.encoding import collect_unseen
from fairspan.exceptions import CheckpointError
from fairspan.method.accumulate import MomentsPass
from fairspan.method.moments import Moments
from fairspan.method.pilot import move_to
from fairspan.streaming.blocks import blocks
from fairspan.streaming.dask import dask_module
from fairspan.streaming.moments import naming_rows
from fairspan.streaming.sample import Sample
from fairspan.streaming.sources import Part, Source

__all__ = ["reduce_parts", "sample_parts"]

# Parts in flight; the same for any number of workers, or sums would differ.
WAVE = 32
_ATTEMPTS = 3


def sample_parts(est: Any, source: Source, empty: Sample, plan: Any) -> Sample:
    """The sample of all parts, each looked at where it is."""
    _count(source, plan)
    fixed = (_without_data(est), empty, _what_to_look_for(plan))
    out = empty
    with row_progress("sample", source.n_rows, verbose=est.verbose) as progress:
        for _, n, found in _waves(source, 0, _sample_of, fixed, plan):
            out = out + found
            progress.advance(n)
    return out


def reduce_parts(est: Any, source: Source, size: int, plan: Any, saved: Any) -> None:
    """Moments of all parts, from where a checkpoint ends."""
    fixed = (_without_data(est), size)
    begin = est._counter.position
    with row_progress("moments", source.n_rows, verbose=est.verbose, done=begin) as progress:
        for place, n, found in _waves(source, begin, _moments_of, fixed, plan):
            est.moments_ = est.moments_ + found
            move_to(est._counter, place + n)
            progress.advance(n)
            if saved is not None:
                saved.maybe(est, lambda: est.moments_, place + n)
    if saved is not None:
        saved.now(est, lambda: est.moments_, est._counter.position)


def _waves(
    source: Source, begin: int, function: Callable[..., Any], fixed: Any, plan: Any
) -> Iterator[tuple[int, int, Any]]:
    """Place, number of rows and sum of each wave of parts; those before ``begin`` are left out."""
    starts, shared = source.starts(), None
    for first in range(0, len(source.parts), WAVE):
        parts = source.parts[first : first + WAVE]
        n = sum(part.n_rows or 0 for part in parts)
        if starts[first] + n <= begin or n == 0:
            continue
        if starts[first] < begin:
            msg = (
                f"The checkpoint ends at row {begin}, inside a wave of parts: the parts are others."
            )
            raise CheckpointError(msg)
        for attempt in range(_ATTEMPTS):
            try:
                shared = _shared(fixed, plan) if shared is None else shared
                found = _compute(parts, starts[first : first + WAVE], function, shared, plan)
                break
            except Exception as error:
                # What was sent to workers is gone when all that had it have died; a wave can be repeated.
                if "Cancelled" not in type(error).__name__ or attempt == _ATTEMPTS - 1:
                    raise
                shared = None
        yield starts[first], n, found


def _compute(
    parts: Sequence[Part],
    starts: Sequence[int],
    function: Callable[..., Any],
    fixed: Any,
    plan: Any,
) -> Any:
    run = dask_module().delayed(_run, pure=False)
    tasks = [
        run(function, fixed, replace(part, pieces=None), start, part.pieces)
        for part, start in zip(parts, starts, strict=True)
        if part.n_rows
    ]
    total = _tree(tasks)
    if plan.client is not None:
        return plan.client.compute(total).result()
    return total.compute()


def _shared(fixed: tuple[Any, ...], plan: Any) -> Any:
    """The prepared estimator, sent to every worker once."""
    if plan.client is None:
        return dask_module().delayed(fixed, pure=False, traverse=False)
    return plan.client.scatter([fixed], broadcast=True)[0]


def _run(
    function: Callable[..., Any], fixed: tuple[Any, ...], part: Part, start: int, pieces: Any
) -> Any:
    if pieces is not None:
        part = replace(part, pieces=pieces)
    return function(*fixed, part, start)


def _tree(tasks: Sequence[Any]) -> Any:
    """Sums of neighbours, and of their sums."""
    add = dask_module().delayed(operator.add, pure=False)
    while len(tasks) > 1:
        pairs = [add(*tasks[i : i + 2]) for i in range(0, len(tasks) - 1, 2)]
        tasks = [*pairs, tasks[-1]] if len(tasks) % 2 else pairs
    return tasks[0]


def _moments_of(est: Any, size: int, part: Part, start: int) -> Moments:
    """Moments of one part, on a worker."""
    est = copy.copy(est)
    one, counter = MomentsPass(est.pilot_, est.pilot_.empty_moments()), est.pilot_.counter()
    for place, rows in blocks([part], size, first=start):
        move_to(counter, place)
        with naming_rows(est, rows, place, coded=True), collect_unseen():  # as in `fit_stream`
            one.add(est._read(*rows.arguments, reset=False), counter)
    return one.moments()


def _what_to_look_for(plan: Any) -> Any:
    """The plan without what cannot be sent: the client, and the source itself."""
    return replace(plan, client=None, source=None)


def _sample_of(est: Any, empty: Sample, plan: Any, part: Part, start: int) -> Sample:
    """The sample of one part, on a worker."""
    from fairspan.streaming.fit import Looker

    looker = Looker(est, copy.deepcopy(empty), plan)
    for place, rows in blocks([part], 2**16, first=start):
        looker.look(place, rows)
    return looker.sample


def _count(source: Source, plan: Any) -> None:
    """Rows of parts that do not know their number: places, and so folds, depend on it."""
    unknown = [part for part in source.parts if part.n_rows is None]
    if not unknown:
        return
    dask = dask_module()
    count = dask.delayed(_rows_of, pure=False)
    tasks = [count(replace(part, pieces=None), part.pieces) for part in unknown]
    counts = plan.client.gather(plan.client.compute(tasks)) if plan.client else dask.compute(*tasks)
    for part, n in zip(unknown, counts, strict=True):
        part.n_rows = int(n)


def _rows_of(part: Part, pieces: Any) -> int:
    if pieces is not None:
        return len(pieces["frame"] if "frame" in pieces else pieces["X"])
    return sum(len(rows) for rows in part.read())


def _without_data(est: Any) -> Any:
    """What a worker needs: parameters and the pilot."""
    out = copy.copy(est)
    for name in ("moments_", "_counter", "_solution", "_position", "_rows"):
        out.__dict__.pop(name, None)
    return out
