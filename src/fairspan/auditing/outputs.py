"""Features as a matrix of numbers, for those who try to recover S from them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

from fairspan.encoding import table_encoder
from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.columns import as_frame, is_temporal
from fairspan.method.data import Codes
from fairspan.method.linalg import Array
from fairspan.metrics.inputs import Labels, read_labels, read_scores

__all__ = [
    "Outputs",
    "ask",
    "codes_of",
    "looks_like",
    "plain",
    "read_numbers",
]


def read_numbers(X: Any, frame: Any, protected: Sequence[str]) -> Array:
    """Every column but the protected ones; text by :func:`table_encoder`.

    Parameters
    ----------
    X : what the user gave.
    frame : the same as a frame, if it is one.
    protected : names of columns that are left out.
    """
    if frame is None:
        table = _array(X)
        if table.dtype.kind == "f":
            return _filled(table)
        frame = _as_columns(table)
    rest = frame.drop([name for name in protected if name in frame.columns])
    strange = [
        name
        for name, dtype in rest.schema.items()
        if is_temporal(dtype) or "List" in str(dtype) or "Struct" in str(dtype)
    ]
    if strange:
        warn_user(
            f"Attackers do not see the columns {', '.join(map(repr, strange[:5]))} of X: neither numbers "
            f"nor text.",
            DataWarning,
        )
        rest = rest.drop(strange)
    if all(dtype.is_numeric() for dtype in rest.schema.values()):
        return _filled(rest.to_numpy().astype(np.float64))
    native = rest.to_native()
    encoder: Any = table_encoder(native)
    return np.asarray(encoder.fit_transform(native), dtype=np.float64)


def _array(X: Any) -> Any:
    """Numbers as floats; what is no number as it is."""
    table = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if table.ndim != 2:
        raise ValueError(f"X must be a table of features, got shape {table.shape}")
    try:
        return table.astype(np.float64)
    except (TypeError, ValueError):
        return table.astype(object)


def _as_columns(table: Any) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        msg = "X is an array that holds text; encoding it for the attackers needs pandas."
        raise ImportError(msg) from error
    columns = pd.DataFrame(table, columns=[f"x{j}" for j in range(table.shape[1])])
    return as_frame(columns.infer_objects(), "X")


def _filled(table: Array) -> Array:
    """Missing numbers by the column's median, and an indicator of each column that has any."""
    missing = ~np.isfinite(table)
    some = missing.any(axis=0)
    if not some.any():
        return table
    known = np.where(missing, np.nan, table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without any number
        middle = np.nan_to_num(np.nanmedian(known, axis=0))
    return np.concatenate([np.where(missing, middle, table), missing[:, some]], axis=1)


@dataclass(frozen=True)
class Outputs:
    """Everything as given; what is not known is None.

    Attributes
    ----------
    name : of the model, or "scores" / "decisions".
    scores : (n, k)
    decisions : (n,) labels.
    probabilities : (n, classes), in the order of ``classes``.
    classes : the model's own labels; rows audited may have others.
    """

    name: str
    scores: Array | None = None
    decisions: Labels | None = None
    probabilities: Array | None = None
    classes: Labels | None = None

    def take(self, keep: Any) -> Outputs:
        """Some of the rows."""

        def some(part: Any) -> Any:
            return None if part is None else part[keep]

        return replace(
            self, scores=some(self.scores), decisions=some(self.decisions),
            probabilities=some(self.probabilities),
        )  # fmt: skip

    def _column(self, classes: Labels | None, positive: tuple[int, ...]) -> int | None:
        """Place of the one positive class among the model's own."""
        if classes is None or self.classes is None or len(positive) != 1:
            return None
        found = np.flatnonzero(np.asarray(self.classes) == classes[positive[0]])
        return int(found[0]) if len(found) else None

    def oriented(self, classes: Labels | None, positive: tuple[int, ...]) -> Array | None:
        """Scores that grow towards the positive class; of decisions alone, their indicator."""
        if self.scores is None:
            if self.decisions is None or classes is None:
                return None
            codes = codes_of(self.decisions, classes, "decisions")
            each = codes[:, None] == np.arange(len(classes))
            return np.asarray(each[:, list(positive)], dtype=np.float64)
        column = self._column(classes, positive)
        if column is None or self.classes is None:
            return self.scores
        if self.scores.shape[1] == len(self.classes):  # one score for each class
            return self.scores[:, [column]]
        return -self.scores if column == 0 and self.scores.shape[1] == 1 else self.scores

    def probability(self, classes: Labels | None, positive: tuple[int, ...]) -> Array | None:
        """Of the one positive class."""
        column = self._column(classes, positive)
        if self.probabilities is not None:
            return None if column is None else np.asarray(self.probabilities[:, column])
        scores = self.scores
        if classes is None or len(positive) != 1 or self.classes is not None or scores is None:
            return None
        if scores.shape[1] > 1 or scores.min() < 0.0 or scores.max() > 1.0:
            return None
        if np.isin(scores, (0.0, 1.0)).all():  # decisions, not probabilities
            return None
        return scores[:, 0]


def looks_like(model: Any, kind: str) -> bool:
    """A classifier or a regressor, also if it is not built on scikit-learn."""
    try:
        asked = is_classifier(model) if kind == "classifier" else is_regressor(model)
    except (AttributeError, TypeError):
        asked = False
    has_classes = hasattr(model, "classes_") or hasattr(model, "predict_proba")
    return bool(asked) or (kind == "classifier" and has_classes)


def ask(model: Any, X: Any) -> Outputs:
    """Scores, decisions and probabilities of a model."""
    name = type(model[-1] if hasattr(model, "steps") else model).__name__
    if not hasattr(model, "predict"):
        if hasattr(model, "score_coef_") and len(model.score_coef_):
            return Outputs(name, read_scores(model._outputs(X)))
        return Outputs(name)
    predicted = model.predict(X)
    if not looks_like(model, "classifier"):
        return Outputs(name, read_scores(predicted, "predictions"))
    decisions = read_labels(predicted, "predictions")
    probabilities = None
    if hasattr(model, "predict_proba"):
        probabilities = read_scores(model.predict_proba(X), "predict_proba")
    scores: Any = probabilities
    if hasattr(model, "decision_function"):
        scores = model.decision_function(X)
    elif probabilities is not None and probabilities.shape[1] == 2:
        scores = probabilities[:, 1]
    classes = np.asarray(getattr(model, "classes_", np.unique(decisions)))
    scores = None if scores is None else read_scores(scores)
    return Outputs(name, scores, decisions, probabilities, classes)


def plain(given: Any) -> Outputs:
    """Scores, or decisions where they are no numbers."""
    labels = np.asarray(given)
    if labels.ndim == 1 and labels.dtype.kind in "OUSb":
        return Outputs("decisions", None, read_labels(given, "decisions"))
    return Outputs("scores", read_scores(given, "model_or_scores"))


def codes_of(labels: Labels, classes: Labels, what: str) -> Codes:
    """Place of each label among the classes."""
    codes = np.searchsorted(classes, labels)
    if (classes[np.minimum(codes, len(classes) - 1)] != labels).any():
        raise ValueError(f"{what} holds labels that are not among {classes[:5].tolist()}")
    return np.asarray(codes, dtype=np.intp)
