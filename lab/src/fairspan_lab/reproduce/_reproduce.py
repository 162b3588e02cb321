"""Compute the missing cells, then write the table, the figures and the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from fairspan.plotting import require_pyplot
from fairspan_lab.cells import write_table, write_text
from fairspan_lab.reproduce._cells import COLUMNS, Cell, finished, plan, run
from fairspan_lab.reproduce._figures import draw
from fairspan_lab.reproduce._methods import METHODS
from fairspan_lab.reproduce._problems import FIGURES, load
from fairspan_lab.reproduce._report import markdown

__all__ = ["reproduce"]

Track = Callable[[Sequence[Cell]], Iterable[Cell]]


def reproduce(
    figure: str = "all",
    *,
    splits: int = 0,
    methods: Sequence[str] | None = None,
    out: str | os.PathLike[str] = "reproduction",
    data_home: str | os.PathLike[str] | None = None,
    quick: bool = False,
    track: Track | None = None,
    say: Callable[[str], None] = print,
) -> list[Path]:
    """Reproduce the figures of the paper.

    Parameters
    ----------
    figure : {"figure1", "figure2", "all"}, default="all"
        Figure 1: Adult and COMPAS, protected gender. Figure 2: Communities and Crime, NLSY79, law
        school, two protected attributes each.
    splits : int, default=0
        Random splits of the paper's sizes, beside the paper's own one.
    methods : sequence of str, optional
        Some of ``METHODS``; all if not given. Those whose packages are absent are named and left out.
    out : path, default="reproduction"
        Folder for the results. Finished cells are kept in it, so a stopped run goes on where it was.
    data_home : path, optional
        Folder of the data files; see :mod:`fairspan.datasets`.
    quick : bool, default=False
        At most 1,000 training rows, 400 landmarks and 9 settings per curve: under two minutes, and
        rough.
    track : callable, optional
        Wraps the list of cells to show progress.
    say : callable, default=print
        Called with each message for the user.

    Returns
    -------
    list of Path
        Files written: ``results.csv``, ``reproduction.md``, one PNG and one SVG per figure and
        protocol, with everything that is finished in the folder. Those of ``quick`` have it in their
        names.
    """
    figures, wanted = _check(figure, splits, methods)
    present = [key for key in wanted if METHODS[key].missing is None]
    left_out = [key for key in wanted if key not in present]
    for key in left_out:
        say(f"{METHODS[key].label} is left out: it needs {METHODS[key].missing}.")
    cells = list(plan(figures, present, [None, *range(splits)], quick=quick))
    if not cells:
        msg = f"Nothing to run: none of the methods {', '.join(wanted)} belongs to {figure} and is here."
        raise ValueError(msg)
    require_pyplot()  # before any work
    problems = {name: load(name, data_home) for name in dict.fromkeys(c.data for c in cells)}
    folder = Path(out)
    cache = folder / "cells"
    cache.mkdir(parents=True, exist_ok=True)
    # With few rows several threads are slower than one.
    with threadpool_limits(limits=1 if quick else None):
        for cell in cells if track is None else track(cells):
            run(cell, problems[cell.data], cache)
    # Everything that is finished in this folder, not only what this call asked for.
    rows = finished(cache, quick=quick)
    suffix = "-quick" if quick else ""
    written = [_write_csv(rows, folder / f"results{suffix}.csv")]
    figures = [part for part in FIGURES if any(r["figure"] == part for r in rows)]
    protocols = [p for p in ("paper", "random") if any(r["protocol"] == p for r in rows)]
    for part in figures:
        for protocol in protocols:
            own = [r for r in rows if r["figure"] == part and r["protocol"] == protocol]
            if own:
                written += draw(own, part, protocol, folder, suffix)
    page = folder / f"reproduction{suffix}.md"
    write_text(page, markdown(rows, figures, protocols, _note(quick, left_out), claims=not quick))
    return [*written, page]


def _check(figure: str, splits: int, methods: Sequence[str] | None) -> tuple[list[str], list[str]]:
    if figure not in (*FIGURES, "all"):
        msg = f"figure={figure!r} is unknown. Allowed: {', '.join(map(repr, FIGURES))}, 'all'."
        raise ValueError(msg)
    if splits < 0:
        msg = f"splits={splits} is not allowed; give 0 (the paper's split alone) or more."
        raise ValueError(msg)
    wanted = list(METHODS) if methods is None else list(methods)
    for key in wanted:
        if key not in METHODS:
            msg = f"Method {key!r} is unknown. Allowed: {', '.join(METHODS)}."
            raise ValueError(msg)
    return list(FIGURES) if figure == "all" else [figure], list(dict.fromkeys(wanted))


def _note(quick: bool, left_out: list[str]) -> str:
    text = "Written by `fairspan reproduce`."
    if quick:
        text += (
            " With `--quick`: at most 1,000 training rows and 400 landmarks, so rough; the paper's claims "
            "are judged by full runs only."
        )
    for key in left_out:
        text += f" {METHODS[key].label} was left out: {METHODS[key].missing} is not installed."
    return text


def _write_csv(rows: list[dict[str, Any]], path: Path) -> Path:
    return write_table(path, COLUMNS, rows, "\r\n")
