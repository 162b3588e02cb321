"""Blocks of rows in order, read ahead in a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from typing import Any, TypeVar

from fairspan.streaming.rows import Rows, join
from fairspan.streaming.sources import Part

__all__ = ["blocks", "prefetch"]

Item = TypeVar("Item")
_POLL_SECONDS = 0.1


def blocks(
    parts: Iterable[Part], size: int, *, start: int = 0, first: int = 0
) -> Iterator[tuple[int, Rows]]:
    """Place of the first row, and rows, cut at multiples of ``size``.

    Counts of parts become known on the way.

    Parameters
    ----------
    parts : iterable of Part
        In order.
    size : int
        Rows of a block; the first and the last may have fewer.
    start : int, default=0
        Rows before this place are passed over, whole parts of them unread.
    first : int, default=0
        Place of the parts' first row among all rows.

    Yields
    ------
    place : int
    rows : Rows
    """
    place, kept = first, []
    held, begin = 0, max(start, first)
    for part in parts:
        if part.n_rows is not None and place + part.n_rows <= start:
            place += part.n_rows
            continue
        seen = 0
        for rows in part.read():
            n = len(rows)
            skip = min(max(start - place, 0), n)
            place, seen = place + n, seen + n
            if skip == n:
                continue
            kept.append(rows if skip == 0 else rows.cut(skip, n))
            held += n - skip
            while held and held >= (room := size - begin % size):
                whole = join(kept)
                yield begin, whole if held == room else whole.cut(0, room)
                kept = [] if held == room else [whole.cut(room, held)]
                begin, held = begin + room, held - room
        _settle(part, seen)
    if held:
        yield begin, join(kept)


def _settle(part: Part, seen: int) -> None:
    if part.n_rows is not None and part.n_rows != seen:
        msg = (
            f"{part.name} had {part.n_rows} rows and now has {seen}: it changed while it was read."
        )
        raise ValueError(msg)
    part.n_rows = seen


def prefetch(items: Iterable[Item], depth: int = 2) -> Generator[Item, None, None]:
    """The same items, made in a thread ahead of their use: reading overlaps computing.

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
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(depth)
    stop = threading.Event()

    def put(kind: str, item: Any) -> bool:
        while not stop.is_set():
            try:
                ready.put((kind, item), timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
        except BaseException as error:  # it belongs to whoever waits for the items
            put("error", error)
        else:
            put("end", None)

    thread = threading.Thread(target=work, name="fairspan-reader", daemon=True)
    thread.start()
    try:
        while True:
            kind, item = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise item
            yield item
    finally:
        stop.set()
        thread.join()
