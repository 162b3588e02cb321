"""Progress of long work on standard error: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")

_WIDTH = 24
_EVERY_SECONDS = 0.2
# Without a terminal: a line for each of so many parts, or every so often.
_LINES = 5
_LINE_SECONDS = 10.0


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


class _Quiet:
    """Progress that nobody asked for."""

    def advance(self, rows: int) -> None:
        """Nothing."""


class _Lines:
    """Progress without a terminal, or without rich: a line now and then."""

    def __init__(self, label: str, total: int | None, done: int) -> None:
        self._label, self._total, self._done, self._first = label, total, done, done
        self._began = self._shown = time.monotonic()

    def advance(self, rows: int) -> None:
        """Count rows."""
        self._done += rows
        now = time.monotonic()
        if now - self._shown >= _LINE_SECONDS or self._done == self._total:
            self._shown = now
            rate = (self._done - self._first) / max(now - self._began, 1e-9)
            of = "" if self._total is None else f" of {self._total:,}"
            left = (
                "" if self._total is None else f", {(self._total - self._done) / rate:.0f} s left"
            )
            text = f"[fairspan] {self._label}: {self._done:,}{of} rows, {rate:,.0f} rows/s{left}"
            print(text, file=sys.stderr, flush=True)


class _Bar:
    """A bar of rich's."""

    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task

    def advance(self, rows: int) -> None:
        """Count rows."""
        self._progress.advance(self._task, rows)


@contextmanager
def row_progress(
    label: str, total: int | None, *, verbose: int = 0, done: int = 0
) -> Iterator[_Quiet | _Lines | _Bar]:
    """Rows done, rows a second and time left, on standard error, if ``verbose``."""
    if not verbose:
        yield _Quiet()
        return
    try:
        from rich import progress as rich
        from rich.console import Console
    except ImportError:
        yield _Lines(label, total, done)
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(label, total, done)
        return

    class Rate(rich.ProgressColumn):
        def render(self, task: Any) -> Any:
            return f"{task.speed or 0.0:,.0f} rows/s"

    # Brackets are rich's markup, which would be followed rather than shown.
    columns = (
        rich.TextColumn("[fairspan] {task.description}", markup=False), rich.BarColumn(),
        rich.TaskProgressColumn(), rich.TextColumn("{task.completed:,.0f} rows"), Rate(),
        rich.TimeRemainingColumn(),
    )  # fmt: skip
    with rich.Progress(*columns, console=console) as shown:
        yield _Bar(shown, shown.add_task(label, total=total, completed=done))
