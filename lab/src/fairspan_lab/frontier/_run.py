"""Compute the missing cells, then write the table and the report."""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from fairspan.plotting import require_pyplot
from fairspan_lab.frontier import _problems
from fairspan_lab.frontier._cells import Cell, finished, is_stored, plan, run
from fairspan_lab.frontier._methods import CRITERIA, METHODS, QUICK_METHODS
from fairspan_lab.frontier._problems import PROBLEMS, find_problem
from fairspan_lab.frontier._report import write_report
from fairspan_lab.frontier._tables import write_csv

__all__ = ["FailedCellsError", "frontier"]

QUICK_SETS, QUICK_SPLITS = ("Adult", "Communities"), 2

Track = Callable[[Sequence[Cell]], Iterable[Cell]]


class FailedCellsError(RuntimeError):
    """Some cells could not be computed; the others are kept and reported.

    Attributes
    ----------
    failures : list of str
        One line per cell.
    written : list of Path
        Files of what is finished.
    """

    def __init__(self, failures: list[str], n_cells: int, written: list[Path]) -> None:
        self.failures, self.written = failures, written
        super().__init__(f"{len(failures)} of {n_cells} cells failed: {'; '.join(failures)}")


def frontier(
    data: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    splits: int | str | None = None,
    out: str | os.PathLike[str] = "frontier-output",
    *,
    data_home: str | os.PathLike[str] | None = None,
    quick: bool = False,
    jobs: int = 1,
    criteria: Sequence[str] | None = None,
    track: Track | None = None,
    say: Callable[[str], None] = print,
) -> list[Path]:
    """Error against parity for every method, data set and split.

    Parameters
    ----------
    data : sequence of str, optional
        Data sets, by name or short key (adult, compas, compas-paper, communities, nlsy79, law-school,
        health, happiness). Those whose files or packages are absent are named and left out.
    methods : sequence of str, optional
        Some of ``METHODS``. Those whose packages are absent are named and left out.
    splits : int or str, optional
        Number of random splits, 10 if not given, or a range of their seeds such as ``"5:10"``.
    out : path, default="frontier-output"
        Folder for the results. Finished cells are kept in it: a stopped run goes on where it was, and
        a run in pieces (by data set, method or split) is put together by a last one.
    data_home : path, optional
        Folder of the data files; see :mod:`fairspan.datasets`.
    quick : bool, default=False
        Two splits, 1,200 rows of Adult and Communities, four methods and nine dial values, unless
        others are named: under a minute, and rough.
    jobs : int, default=1
        Processes; each computes on one thread.
    criteria : sequence of str, optional
        Some of "sp", "eop", "eo". Methods that are not fitted by criterion are run in any case.
    track : callable, optional
        Wraps the list of cells to show progress.
    say : callable, default=print
        Takes what a user should read.

    Returns
    -------
    list of Path
        Files written, from everything that is finished in the folder: ``frontier.csv`` and the report.
        Those of ``quick`` have it in their names.

    Raises
    ------
    FailedCellsError
        After everything else is done and written, if some cells failed.
    """
    names = _names(data, quick)
    seeds = _seeds(splits, quick)
    wanted = _known(methods, METHODS, "Method") or list(QUICK_METHODS if quick else METHODS)
    asked = _known(criteria, dict.fromkeys(CRITERIA), "Criterion") or list(CRITERIA)
    if jobs < 1:
        msg = f"jobs={jobs} is not allowed; give 1 or more."
        raise ValueError(msg)
    for key in wanted:
        if METHODS[key].missing is not None:
            say(f"{key} is left out: it needs {METHODS[key].missing}.")
    present = [key for key in wanted if METHODS[key].missing is None]
    require_pyplot()  # before any work
    for name in names:
        if (missing_data := PROBLEMS[name].missing()) is not None:
            say(f"{name} is left out: it needs {missing_data}.")
    names = [name for name in names if PROBLEMS[name].missing() is None]
    problems = [_problems.load(name, data_home) for name in names]
    cells = list(plan(problems, seeds, present, asked, quick=quick))
    if not cells:
        msg = f"Nothing to run: none of {', '.join(wanted)} is here and fits {', '.join(names)}."
        raise ValueError(msg)
    folder = Path(out)
    cache = folder / "cells"
    cache.mkdir(parents=True, exist_ok=True)
    missing = [cell for cell in cells if not is_stored(cell, cache)]
    failures = _compute(missing, data_home, cache, jobs, track)
    rows = finished(cache, quick=quick)
    written: list[Path] = []
    if rows:
        written.append(write_csv(rows, folder / f"frontier{'-quick' if quick else ''}.csv"))
        written += write_report(rows, folder, quick)
    if failures:
        raise FailedCellsError(failures, len(cells), written)
    return written


def _compute(
    cells: Sequence[Cell], data_home: Any, folder: Path, jobs: int, track: Track | None
) -> list[str]:
    """Run cells in order; what went wrong, one line per cell."""
    failures: list[str] = []

    def attempt(cell: Cell, call: Callable[..., None], *args: Any) -> None:
        try:
            call(*args)
        except Exception as error:  # whatever one method raises must not lose the others
            text = " ".join(str(error).split())
            failures.append(f"{cell.title}: {type(error).__name__}: {text}")

    followed = cells if track is None else track(cells)
    if jobs == 1 or len(cells) < 2:
        for cell in followed:
            attempt(cell, run, cell, data_home, folder)
        return failures
    # Spawned: a fork would copy the state of BLAS and OpenMP threads.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(cells)), mp_context=spawn) as pool:
        futures = {cell: pool.submit(run, cell, data_home, folder) for cell in cells}
        try:
            for cell in followed:
                attempt(cell, futures[cell].result)
        except BaseException:  # stopped by the user: what has not begun shall not begin
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failures


def _names(data: Sequence[str] | None, quick: bool) -> list[str]:
    if not data:
        return list(QUICK_SETS if quick else PROBLEMS)
    return list(dict.fromkeys(find_problem(text) for text in data))


def _seeds(splits: int | str | None, quick: bool) -> range:
    """Seeds from a number, or from a range "first:end"."""
    if splits is None:
        return range(QUICK_SPLITS if quick else 10)
    found = re.fullmatch(r"(?:(\d+):)?(\d+)", str(splits).strip())
    seeds = range(int(found[1] or 0), int(found[2])) if found else range(0)
    if not seeds:
        msg = f"splits={splits!r} is not allowed; give a number, or a range such as '0:5'."
        raise ValueError(msg)
    return seeds


def _known(given: Sequence[str] | None, allowed: Iterable[str], what: str) -> list[str]:
    allowed = list(allowed)
    for key in given or ():
        if key not in allowed:
            msg = f"{what} {key!r} is unknown. Allowed: {', '.join(allowed)}."
            raise ValueError(msg)
    return list(dict.fromkeys(given or ()))
