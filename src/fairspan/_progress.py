"""Progress of long work on standard error: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

_WIDTH = 24
_EVERY_SECONDS = 0.2
# Without a terminal: a line for each of so many parts.
_LINES = 5


def track(items: Iterable[Item], total: int, label: str, *, verbose: int = 0) -> Iterator[Item]:
    """Pass items on and show how many of ``total`` are done, if ``verbose``."""
    if not verbose:
        yield from items
        return
    terminal, began, shown, lines = sys.stderr.isatty(), time.monotonic(), 0.0, 0
    for done, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if terminal and (now - shown >= _EVERY_SECONDS or done == total):
            shown = now
            _draw(label, done, total, now - began)
        elif not terminal and done * _LINES // total > lines:
            lines = done * _LINES // total
            print(f"[fairspan] {label}: {done:,} of {total:,}", file=sys.stderr, flush=True)
    if terminal:
        print(file=sys.stderr, flush=True)


def _draw(label: str, done: int, total: int, seconds: float) -> None:
    full = min(_WIDTH * done // max(total, 1), _WIDTH)
    left = seconds * (total - done) / done
    bar = "#" * full + "." * (_WIDTH - full)
    text = f"\r[fairspan] {label} [{bar}] {done:,}/{total:,}, {left:.0f} s left   "
    print(text, end="", file=sys.stderr, flush=True)
