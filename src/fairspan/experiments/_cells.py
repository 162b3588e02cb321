"""Cells of the experiments: what is run once, kept in a file, and not run again."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairspan._linalg import Array
from fairspan.experiments._methods import METHODS, Task
from fairspan.experiments._problems import CRITERIA, FIGURES, Problem, split

__all__ = ["COLUMNS", "Cell", "plan", "run"]

# Raise when a method or a setting changes: kept cells of another version are run again.
VERSION = 1
COLUMNS = (
    *("figure", "data", "protocol", "split", "method", "reads_sensitive", "criterion"),
    *("parameter", "value", "error", "measure", "parity", "noise", "n_test"),
)
# Rows that --quick trains on.
_QUICK_TRAIN = 1000

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One method on one split of one data set, for one criterion."""

    figure: str
    data: str
    method: str
    criterion: str
    seed: int | None  # None: the paper's own split
    quick: bool

    @property
    def title(self) -> str:
        """For a progress bar."""
        where = "paper's split" if self.seed is None else f"split {self.seed}"
        return f"{self.data}, {METHODS[self.method].label}, {self.criterion}, {where}"

    def file(self, folder: Path) -> Path:
        """Where its rows are kept."""
        text = json.dumps([VERSION, *vars(self).values()])
        return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def plan(
    figures: list[str], methods: list[str], seeds: list[int | None], *, quick: bool
) -> Iterator[Cell]:
    """Every cell, data set by data set; a method without a criterion of its own once a split."""
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
    """Rows of a cell: from its file if it was finished before, else computed and kept."""
    path = cell.file(folder)
    if path.exists():
        return list(json.loads(path.read_text(encoding="utf-8")))
    rows = list(_compute(cell, problem))
    handle, name = tempfile.mkstemp(dir=folder, prefix=".cell-")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(rows, stream)
    os.replace(name, path)
    return rows


def _compute(cell: Cell, problem: Problem) -> Iterator[Row]:
    method = METHODS[cell.method]
    part = split(problem, cell.seed, _QUICK_TRAIN if cell.quick else None)
    criterion = cell.criterion if method.by_criterion else "sp"
    task = Task(part, criterion, cell.seed or 0, cell.quick)
    y = part.y[part.test]
    with warnings.catch_warnings():
        # The published settings ask for what warns: m beyond the levels, slices of one row.
        warnings.simplefilter("ignore")
        for value, scores in method.run(task):
            error, measures = judge(part, scores, y)
            noise = _noise(part)
            for measure, parity in measures.items():
                yield {
                    "figure": cell.figure, "data": cell.data,
                    "protocol": "paper" if cell.seed is None else "random",
                    "split": 0 if cell.seed is None else cell.seed,
                    "method": cell.method, "reads_sensitive": method.reads_sensitive,
                    "criterion": cell.criterion, "parameter": method.parameter,
                    "value": None if np.isnan(value) else value, "error": error,
                    "measure": measure, "parity": parity,
                    "noise": noise[measure[:3].strip()], "n_test": len(y),
                }  # fmt: skip


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
    everybody = of(lambda y: np.ones(len(y)))
    return {"SP": everybody, "EOP": positive, "EO": max(positive, negative)}


def _correlation(scores: Array, s: Array) -> float:
    """``|corr|``; a constant score has none."""
    if np.ptp(scores) <= 1e-12 * max(float(np.abs(scores).max()), 1e-300):
        return 0.0
    return float(abs(np.corrcoef(scores, s)[0, 1]))
