"""Generate rows to compare a file with its model, from what the model knows about its training rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairspan.deployment.program import Program
from fairspan.encoding import TableEncoder, date_columns
from fairspan.estimators.learner_columns import FoldModels, KernelModels, LearnerColumns
from fairspan.estimators.sparse_linear import LinearModels
from fairspan.method.features import LandmarkMap
from fairspan.method.linalg import Array
from fairspan.method.sparse_rows import dense

__all__ = ["as_dates", "as_table", "generated_rows"]

_ROWS = 64


def generated_rows(model: Any, program: Program) -> Any:
    """Random rows that are like those of the fit, as far as the model has this."""
    rng = np.random.default_rng(0)
    encoder = model._schema.encoder
    if isinstance(encoder, TableEncoder):
        return _table(encoder, rng)
    width = sum(given.width for given in program.inputs)
    X = _near_landmarks(model, rng)
    # With trees and a kernel, half of the rows are near the thresholds of the trees.
    at_thresholds = np.arange(0, _ROWS, 1 if X is None else 2)
    if X is None:
        X = rng.normal(size=(_ROWS, width)) * _linear_scale(model, width)
    for j, thresholds in _thresholds(program).items():
        X[at_thresholds, j] = _around(thresholds, len(at_thresholds), rng)
    if program.inputs[0].kind == "matrix":
        return X
    return as_table({given.name: X[:, j] for j, given in enumerate(program.inputs)})


def _learners(model: Any) -> tuple[Any, ...]:
    columns = getattr(model._pilot.features, "transformer", None)
    return columns.learners if isinstance(columns, LearnerColumns) else ()


def _near_landmarks(model: Any, rng: np.random.Generator) -> Array | None:
    """Rows on lines through two landmarks of the kernel, or of a kernel member; None without one."""
    features, centre, scale = model._pilot.features, np.zeros(1), np.ones(1)
    for learner in _learners(model):
        if isinstance(learner, KernelModels):
            features, centre, scale = learner.features, learner.centre, learner.scale
    if not isinstance(features, LandmarkMap) or features.kernel.name == "precomputed":
        return None
    drawn = rng.integers(0, len(features.landmarks), (2, _ROWS))
    first, second = (dense(features.landmarks[rows]) for rows in drawn)
    X: Array = first + rng.normal(size=(_ROWS, 1)) * (second - first)
    return np.abs(X) if features.kernel.name == "chi2" else X * scale + centre


def _linear_scale(model: Any, width: int) -> Array:
    """Size of each column at which it adds about 1 to a linear function of the model; 1 if none has it."""
    features, size = model._pilot.features, np.zeros(width)
    if getattr(features, "transformer", True) is None:
        size = np.abs(model._position.directions).max(axis=1, initial=0.0)
    for learner in _learners(model):
        if isinstance(learner, LinearModels):
            size = np.maximum(size, np.abs(learner.coef).max(axis=(0, 2)))
        elif isinstance(learner, FoldModels):
            for models in learner.models if learner.final is None else (learner.final,):
                for coef in (m.coef_ for m in models if hasattr(m, "coef_")):
                    size = np.maximum(size, np.abs(coef).reshape(-1, width).max(axis=0))
    used = size > 1e-9 * size.max(initial=0.0)
    return np.where(used, 1.0 / np.where(used, size, 1.0), 1.0)


def _thresholds(program: Program) -> dict[int, Array]:
    """Thresholds of all trees, by the column that they read."""
    out: dict[int, Array] = {}
    for step in program.steps:
        if step.operation != "trees":
            continue
        nodes = program.constants[step.arguments[3]]
        inner = nodes[(nodes[:, 2] != np.arange(len(nodes))) & (nodes[:, 4] < 0.0)]
        for j in np.unique(inner[:, 0]).astype(int):
            out[j] = np.unique(np.append(out.get(j, []), inner[inner[:, 0] == j, 1]))
    return out


def _around(thresholds: Array, n: int, rng: np.random.Generator) -> Array:
    """Numbers between neighbouring thresholds, and beside the first and the last one."""
    first, last = thresholds[0], thresholds[-1]
    beside = (last - first) / (len(thresholds) - 1) if last > first else abs(first) or 1.0
    ends = np.concatenate([[first - beside], thresholds, [last + beside]])
    at = rng.integers(0, len(ends) - 1, n)
    out: Array = ends[at] + rng.uniform(0.1, 0.9, n) * (ends[at + 1] - ends[at])
    return out


def _table(encoder: TableEncoder, rng: np.random.Generator) -> Any:
    columns: dict[str, Any] = {}
    dates = set(date_columns(encoder))
    for branch, step, names in encoder.transformers_:
        if branch == "numbers":
            scaler = step.named_steps["standardscaler"]
            for name, mean, scale in zip(names, scaler.mean_, scaler.scale_, strict=True):
                values = mean + scale * rng.normal(size=_ROWS)
                values[rng.random(_ROWS) < 0.1] = np.nan
                columns[name] = as_dates(values) if name in dates else values
        elif branch == "categories":
            for name, known in zip(names, step.categories_, strict=True):
                labels = np.array([*known.tolist(), "not in the training rows", None], dtype=object)
                columns[name] = labels[rng.integers(0, len(labels), _ROWS)]
    # Columns that the encoder leaves out are in the frame all the same.
    order = encoder.feature_names_in_.tolist()
    return as_table({name: columns.get(name, np.zeros(_ROWS)) for name in order})


def as_table(columns: dict[str, Any]) -> Any:
    """A data frame of pandas, or of polars where pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        import polars as pl

        return pl.DataFrame({k: list(v) if v.dtype == object else v for k, v in columns.items()})
    return pd.DataFrame(columns)


def as_dates(days: Array) -> Any:
    """Dates in microseconds from days since 1970-01-01."""
    out = np.full(len(days), np.datetime64("NaT"), dtype="datetime64[us]")
    known = np.isfinite(days)
    out[known] = np.datetime64(0, "us") + np.round(days[known] * 86400e6).astype("timedelta64[us]")
    return out
