"""Compare a written file with its model, on given or generated rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from fairspan.deployment import read_npz_model
from fairspan.deployment.generated import as_dates, as_table, generated_rows
from fairspan.deployment.program import Input, Program
from fairspan.encoding import category_label, column_days, date_columns
from fairspan.estimators import BoostedLeaves
from fairspan.exceptions import DataWarning, ExportError, NumericalWarning, warn_user
from fairspan.inputs.columns import as_frame
from fairspan.inputs.units import UNITS
from fairspan.method.linalg import Array
from fairspan.unseen import collect_unseen

__all__ = [
    "Difference",
    "check_npz",
    "check_onnx",
    "rows_to_check",
    "run_onnx",
    "tells_rows_apart",
]

# Largest difference, relative to the largest number (at least 1).
TOLERANCES = {"float32": 1e-5, "float64": 1e-9}
# Kernel matrices that are close to singular make predictions that differ by more than that from themselves
# if sums are taken in another order. Such a difference is a warning up to here.
_SENSITIVE = 1e-6
# Rows that a file reads at a time.
_BLOCK = 1000


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Differences between a file and its model."""

    rows: int
    largest: float | None
    labels: int
    rounding: float | None


def rows_to_check(model: Any, program: Program, check: Any) -> Any:
    """Rows in the type that the model reads."""
    if check is not None:
        if _count(check) == 0:
            raise ValueError("check has no rows. Give rows to compare, or leave check out.")
        model._read_new(check)  # raises in the words of predict
        return check
    return generated_rows(model, program)


def tells_rows_apart(model: Any, rows: Any) -> bool:
    """Whether the model gives rows different outputs, so that a comparison on them says something."""
    return any(
        values.size and bool((values != values[:1]).any())
        for values in expected(model, rows).values()
    )


# ------------------------------------------------------------------ what the model says


def expected(model: Any, rows: Any) -> dict[str, np.ndarray]:
    """Outputs of the model under the names of the program."""
    with collect_unseen():  # generated rows have unknown categories on purpose
        if not hasattr(model, "predict"):
            return {"variable": model.transform(rows)}
        if getattr(model, "classes_", None) is None:
            return {"variable": model.predict(rows)[:, None]}
        out = {"label": model.predict(rows), "decision_function": model.decision_function(rows)}
        if hasattr(model, "predict_proba"):
            out["probabilities"] = model.predict_proba(rows)
        return out


def _compare(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[float, int]:
    """Largest difference relative to the largest number, and the number of other labels."""
    largest, labels = 0.0, 0
    for name, values in wanted.items():
        if name == "label":
            labels = int(np.sum(np.asarray(found[name]) != np.asarray(values)))
        elif np.size(values):
            size = max(1.0, float(np.abs(values).max()))
            difference = np.abs(np.asarray(found[name], dtype=np.float64) - values) / size
            largest = max(largest, float(np.nan_to_num(difference, nan=np.inf).max()))
    return largest, labels


def _judge(model: Any, largest: float, labels: int, tolerance: float) -> None:
    """Raise if a file does not predict as its model does."""
    if largest <= tolerance and labels == 0:
        return
    if largest <= _SENSITIVE and labels == 0:
        warn_user(
            f"Numbers of the file differ from those of the model by up to {largest:.2g}: predictions depend "
            f"on the order of sums, because landmarks are nearly equal or the ridge is small.",
            NumericalWarning,
        )
        return
    other = f", and {labels} labels differ" if labels else ""
    remedy = "Please report this, with the model."
    if isinstance(getattr(model._pilot.features, "transformer", None), BoostedLeaves):
        remedy = (
            "BoostedLeaves gives rows of its fit the leaves of trees that did not see them, and a file "
            "treats all rows as new. Check with other rows than those of the fit."
        )
    raise ExportError(
        f"The file was not written, because it does not predict as the model does: numbers differ by "
        f"{largest:.2g}{other}; {tolerance:g} and 0 are allowed. {remedy}"
    )


# ------------------------------------------------------------------ npz


def check_npz(model: Any, path: Path, rows: Any) -> Difference:
    """Compare what the numpy reader computes from a file."""
    frame = as_frame(rows, "X")
    if not _named(model):
        given = rows if frame is None else frame.to_numpy()
        given = given.toarray() if hasattr(given, "toarray") else given
    elif frame is None:
        given = dict(zip(model.feature_names_in_.tolist(), np.asarray(rows).T, strict=True))
    else:
        given = _columns(frame, date_columns(model._schema.encoder))
    read, wanted = read_npz_model.load(path), expected(model, rows)
    ways = [read(given)]
    if frame is not None:
        try:
            ways.append(read(rows))  # as a service may give them
        except (TypeError, ValueError) as error:
            warn_user(
                f"The reader of npz files refuses these rows as they are, so give it numbers for numbers and "
                f"dates as datetime64 or as days since 1970-01-01: {error}",
                DataWarning,
            )
    largest, labels = 0.0, 0
    for found in ways:
        size, differ = _compare(found, wanted)
        _judge(model, size, _beyond_rounding(found, wanted, differ), TOLERANCES["float64"])
        largest, labels = max(largest, size), max(labels, differ)
    return Difference(rows=_count(rows), largest=largest, labels=labels, rounding=None)


def _named(model: Any) -> bool:
    return getattr(model, "feature_names_in_", None) is not None


def _columns(frame: nw.DataFrame[Any], dates: list[str]) -> dict[str, Any]:
    """Columns of a table as the reader takes them."""
    out: dict[str, Any] = {}
    for name in frame.columns:
        column = frame.get_column(name)
        out[name] = _days(column) if name in dates else _objects(column)
    return out


def _objects(column: nw.Series[Any]) -> list[Any]:
    missing = column.is_null().to_list()
    return [None if gap else v for v, gap in zip(column.to_list(), missing, strict=True)]


def _days(column: nw.Series[Any]) -> Array:
    return column_days(column, str(column.name))


def _count(rows: Any) -> int:
    return int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)


# ------------------------------------------------------------------ ONNX


def check_onnx(
    model: Any, program: Program, path: Path, names: Mapping[str, str], rows: Any, dtype: str
) -> Difference | None:
    """Compare what onnxruntime computes from a file; None if it is not installed."""
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return None
    feed = onnx_feed(program, rows, dtype)
    found = run_onnx(path, feed)
    found = {name: found[shown] for name, shown in names.items()}
    wanted = expected(model, _rounded(program, rows, feed))
    largest, labels = _compare(found, wanted)
    labels = _beyond_rounding(found, wanted, labels)
    _judge(model, largest, labels, TOLERANCES[dtype])
    rounding, moved = largest, 0
    if dtype == "float32":
        rounding, moved = _compare(found, expected(model, rows))
        if rounding > 10 * TOLERANCES[dtype] or moved:
            warn_user(
                f"Rounding these rows to float32 moves numbers by up to {rounding:.2g} and changes {moved} "
                f"labels. If this matters, use dtype='float64'.",
                DataWarning,
            )
    return Difference(rows=_count(rows), largest=largest, labels=labels, rounding=rounding)


def _beyond_rounding(found: Mapping[str, Any], wanted: Mapping[str, Any], labels: int) -> int:
    """Rows with another label, without those whose two classes are equal up to rounding."""
    if not labels:
        return 0
    margin = np.asarray(wanted["decision_function"], dtype=np.float64)
    size = max(1.0, float(np.abs(margin).max()))
    if margin.ndim == 2:
        margin = -np.sort(-margin, axis=1)
        margin = margin[:, 0] - margin[:, 1]
    differs = np.asarray(found["label"]) != np.asarray(wanted["label"])
    return int((differs & (np.abs(margin) > 1e-12 * size)).sum())


def run_onnx(path: Any, feed: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs of a file by name, on one thread, for a block of rows at a time."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        Path(path).read_bytes(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    n = len(next(iter(feed.values())))
    parts = [
        session.run(names, {name: v[start : start + _BLOCK] for name, v in feed.items()})
        for start in range(0, max(n, 1), _BLOCK)
    ]
    return {name: np.concatenate([part[j] for part in parts]) for j, name in enumerate(names)}


def onnx_feed(program: Program, rows: Any, dtype: str) -> dict[str, Any]:
    """Inputs of a file from rows as the model reads them."""
    frame = as_frame(rows, "X")
    if program.inputs[0].kind == "matrix":
        X = rows if frame is None else frame.to_numpy()
        X = X.toarray() if hasattr(X, "toarray") else X
        return {"X": np.ascontiguousarray(X, dtype=dtype)}
    if frame is None:
        X = np.asarray(rows, dtype=dtype)
        return {g.name: X[:, [j]] for j, g in enumerate(program.inputs)}
    return {given.name: _tensor(given, frame, dtype) for given in program.inputs}


def _tensor(given: Input, frame: nw.DataFrame[Any], dtype: str) -> Any:
    column = frame.get_column(given.name)
    if given.kind == "date":
        return _days(column).astype(dtype)[:, None]
    if given.kind == "number" and column.dtype.is_numeric() and not column.is_null().any():
        return column.to_numpy().astype(dtype)[:, None]
    values = _objects(column)
    if given.kind == "number":
        return np.array([np.nan if v is None else v for v in values], dtype=dtype)[:, None]
    texts = ["missing" if v is None or v != v else category_label(v) for v in values]
    return np.array(texts, dtype=object)[:, None]


def _rounded(program: Program, rows: Any, feed: Mapping[str, Any]) -> Any:
    """Rows as the file reads them: numbers are rounded to its type."""
    frame = as_frame(rows, "X")
    if program.inputs[0].kind == "matrix":
        return np.asarray(feed["X"], dtype=np.float64)
    columns = {}
    if frame is not None:  # the encoder may leave columns out
        columns = {name: np.array(_objects(frame.get_column(name))) for name in frame.columns}
    for given in program.inputs:
        values = feed[given.name][:, 0]
        if given.kind == "text":
            assert frame is not None
            columns[given.name] = np.array(_objects(frame.get_column(given.name)), dtype=object)
        elif given.kind == "date":
            columns[given.name] = as_dates(values.astype(np.float64))
        else:
            columns[given.name] = values.astype(np.float64)
    if frame is None:
        return np.column_stack(list(columns.values()))
    out = as_table(columns)
    if UNITS in getattr(rows, "attrs", {}):
        out.attrs[UNITS] = rows.attrs[UNITS]
    return out
