"""Cells of the paper's experiments: computed once and stored in a file."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from fairspan.method.linalg import Array
from fairspan_lab.cells import StoredCell, read_cell, stored_rows
from fairspan_lab.reproduce._methods import METHODS, Task
from fairspan_lab.reproduce._problems import CRITERIA, FIGURES, Problem, settings_of, split

__all__ = ["COLUMNS", "Cell", "finished", "plan", "run"]

# Increase when a method changes; cells of other versions run again.
VERSION = 2
COLUMNS = (
    *("figure", "data", "protocol", "split", "method", "reads_sensitive", "criterion"),
    *("parameter", "value", "error", "measure", "parity", "noise", "n_test"),
)
# Rows that --quick trains on.
_QUICK_TRAIN = 1000

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell(StoredCell):
    """One method on one split of one data set, for one criterion."""

    figure: str
    data: str
    method: str
    criterion: str
    seed: int | None  # None: the paper's own split
    quick: bool

    @property
    def title(self) -> str:
        """Name for progress bars."""
        where = "fixed split" if self.seed is None else f"random split {self.seed}"
        return f"{self.data}, {METHODS[self.method].label}, {self.criterion}, {where}"

    @property
    def order(self) -> tuple[str, str, int, int, str]:
        """Sort key among the rows of a table."""
        seed = -1 if self.seed is None else self.seed
        return self.figure, self.data, seed, list(METHODS).index(self.method), self.criterion

    def made_by(self) -> str:
        """Text that names everything its rows depend on besides its fields."""
        return f"{VERSION} {metadata.version('fairspan')} {settings_of(self.data)}"


def plan(
    figures: list[str], methods: list[str], seeds: list[int | None], *, quick: bool
) -> Iterator[Cell]:
    """All cells by data set; methods that take no criterion run once per split."""
    for figure in figures:
        for data in FIGURES[figure]:
            criteria = CRITERIA if figure == "figure1" else ("sp",)
            for seed in seeds:
                for key in methods:
                    method = METHODS[key]
                    if method.figure in (None, figure):
                        own = criteria if method.by_criterion else ("none",)
                        yield from (Cell(figure, data, key, c, seed, quick) for c in own)


def run(cell: Cell, problem: Problem, folder: Path) -> list[Row]:
    """Rows of a cell: read from its file, or computed and stored."""
    stored = read_cell(cell.file(folder), _is_known)
    if stored is not None:
        return list(stored["rows"])
    rows = list(_compute(cell, problem))
    cell.store(folder, rows)
    return rows


def finished(folder: Path, *, quick: bool) -> list[Row]:
    """Rows of every cell in the folder that has the version of this code."""
    return stored_rows(folder, Cell, _is_known, quick=quick)


def _is_known(cell: Row) -> bool:
    return cell["method"] in METHODS


def _compute(cell: Cell, problem: Problem) -> Iterator[Row]:
    method = METHODS[cell.method]
    part = split(problem, cell.seed, _QUICK_TRAIN if cell.quick else None)
    criterion = cell.criterion if method.by_criterion else "sp"
    task = Task(part, criterion, cell.seed or 0, cell.quick)
    y = part.y[part.test]
    with warnings.catch_warnings():
        # The published settings cause warnings: more directions than levels, slices of one row.
        warnings.simplefilter("ignore")
        for value, scores in method.run(task):
            judged = [judge(part, row, y) for row in np.atleast_2d(scores)]
            error = float(np.mean([error for error, _ in judged]))
            measures = {
                name: float(np.mean([parity[name] for _, parity in judged]))
                for name in judged[0][1]
            }
            noise = _noise(part)
            for measure, parity in measures.items():
                yield {
                    "figure": cell.figure,
                    "data": cell.data,
                    "protocol": "paper" if cell.seed is None else "random",
                    "split": 0 if cell.seed is None else cell.seed,
                    "method": cell.method,
                    "reads_sensitive": method.reads_sensitive,
                    "criterion": cell.criterion,
                    "parameter": method.parameter,
                    "value": None if np.isnan(value) else value,
                    "error": error,
                    "measure": measure,
                    "parity": parity,
                    "noise": noise[measure[:3].strip()],
                    "n_test": len(y),
                }


def judge(problem: Problem, scores: Array, y: Array) -> tuple[float, dict[str, float]]:
    """The paper's metrics: error or RMSE; SP, EOP, EO, or SP per attribute."""
    S = {name: values[problem.test] for name, values in problem.S.items()}
    if not problem.classifies:
        rmse = float(np.sqrt(np.mean((scores - y) ** 2)))
        return rmse, {f"SP {name}": _correlation(scores, s) for name, s in S.items()}
    (s,) = S.values()
    positive, negative = y > 0.0, y <= 0.0
    eop = _correlation(scores[positive], s[positive])
    eo = max(eop, _correlation(scores[negative], s[negative]))
    error = float(np.mean(np.where(scores > 0.0, 1.0, -1.0) != y))
    return error, {"SP": _correlation(scores, s), "EOP": eop, "EO": eo}


def _noise(problem: Problem) -> dict[str, float]:
    """Sampling noise of a correlation, 1/sqrt(test rows) + 1/sqrt(training rows), by measure."""
    train, test = problem.y[problem.train], problem.y[problem.test]

    def of(part: Callable[[Array], Any]) -> float:
        return float(sum(1.0 / np.sqrt(max(np.sum(part(y)), 1)) for y in (train, test)))

    positive, negative = of(lambda y: y > 0.0), of(lambda y: y <= 0.0)
    all_rows = of(lambda y: np.ones(len(y)))
    return {"SP": all_rows, "EOP": positive, "EO": max(positive, negative)}


def _correlation(scores: Array, s: Array) -> float:
    """``|corr|``; 0 for a constant score."""
    if np.ptp(scores) <= 1e-12 * max(float(np.abs(scores).max()), 1e-300):
        return 0.0
    return float(abs(np.corrcoef(scores, s)[0, 1]))
