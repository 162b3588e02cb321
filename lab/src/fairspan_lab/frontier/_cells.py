"""Cells of the frontier: one method on one split for one criterion, computed once and stored."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from fairspan_lab.cells import StoredCell, read_cell, stored_rows
from fairspan_lab.frontier import _problems, _task
from fairspan_lab.frontier._measures import measure
from fairspan_lab.frontier._methods import METHODS
from fairspan_lab.frontier._problems import PROBLEMS, Problem, Split
from fairspan_lab.frontier._task import Point, Task

__all__ = ["Cell", "Row", "finished", "is_stored", "plan", "run"]

# Increase when a number of a stored cell would change; cells of other versions run again. Cells without a
# measure that was added later are left out of its tables.
VERSION = 1
# Version of fairspan that the models of the frontier are those of: `removal="training_rows"`.
MODELS_OF = "0.1.0"

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell(StoredCell):
    """One method on one split of one data set, for one criterion."""

    data: str
    split: int
    method: str
    criterion: str  # "none": the method is not fitted by criterion
    quick: bool

    @property
    def title(self) -> str:
        """Name for progress bars and messages."""
        suffix = "" if self.criterion == "none" else f", {self.criterion}"
        return f"{self.data}, split {self.split}, {self.method}{suffix}"

    @property
    def order(self) -> tuple[int, int, int, str]:
        """Sort key among the rows of a table."""
        order = list(PROBLEMS).index(self.data), list(METHODS).index(self.method)
        return order[0], self.split, order[1], self.criterion

    def made_by(self) -> str:
        """Text that names everything its rows depend on besides its fields."""
        if self.quick:
            size: tuple[int, ...] = (
                _problems.QUICK_ROWS,
                _task.QUICK_POINTS,
                _task.QUICK_LANDMARKS,
            )
        else:
            size = (_problems.MAX_TRAINING, _problems.MAX_TEST, _task.POINTS)
        return f"{VERSION} {MODELS_OF} {size}"


def plan(
    problems: Iterable[Problem],
    seeds: Sequence[int],
    methods: Sequence[str],
    criteria: Sequence[str],
    *,
    quick: bool,
) -> Iterator[Cell]:
    """Every cell, data set by data set and split by split."""
    for problem in problems:
        all_binary, several = len(problem.binary) == len(problem.S), len(problem.S) > 1
        for seed in seeds:
            for key in methods:
                own_criteria = METHODS[key].cells(
                    classifies=problem.classifies, all_binary=all_binary, several=several
                )
                yield from (
                    Cell(problem.name, seed, key, c, quick)
                    for c in own_criteria
                    if c in (*criteria, "none")
                )


def run(cell: Cell, data_home: Any, folder: Path) -> None:
    """Compute a cell and store it; one thread makes times comparable."""
    start = time.process_time()
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # The published settings cause warnings: more directions than levels, slices of one row.
        warnings.simplefilter("ignore")
        rows = compute(cell, _split(cell.data, cell.split, cell.quick, data_home))
    seconds = time.process_time() - start  # for planning a run
    cell.store(folder, rows, seconds=seconds)


# Cells of one split are consecutive, so caching one split suffices.
@lru_cache(maxsize=1)
def _split(data: str, seed: int, quick: bool, data_home: Any) -> Split:
    return _problems.split(_problems.load(data, data_home), seed, quick=quick)


def compute(cell: Cell, split: Split) -> list[Row]:
    """Rows of a cell, one per dial value."""
    task = Task(split, "sp" if cell.criterion == "none" else cell.criterion, cell.quick)
    points = METHODS[cell.method].run(task)
    return [_row(cell, split, i, point) for i, point in enumerate(points)]


def _row(cell: Cell, split: Split, index: int, point: Point) -> Row:
    row: Row = {
        "data": cell.data,
        "split": cell.split,
        "method": cell.method,
        "criterion": cell.criterion,
        "index": index,
        "value": point.value,
        "fit_seconds": point.seconds,
        "n_fit": len(split.fit),
        "n_validation": len(split.validation),
        "n_test": len(split.test),
    }
    for name, part, scores in (
        ("validation", split.validation, point.validation),
        ("test", split.test, point.test),
    ):
        measures = measure(scores, part.y, part.S, classifies=split.classifies, random=point.random)
        row |= {f"{name}_{key}": value for key, value in measures.items()}
    return row


def is_stored(cell: Cell, folder: Path) -> bool:
    """Whether the folder has the rows of a cell."""
    return read_cell(cell.file(folder), _is_known) is not None


def finished(folder: Path, *, quick: bool) -> list[Row]:
    """Rows of every cell in the folder that has the version of this code."""
    return stored_rows(folder, Cell, _is_known, quick=quick)


def _is_known(cell: Row) -> bool:
    return cell.get("method") in METHODS and cell.get("data") in PROBLEMS
