"""What a model gives on the audited rows: scores, decisions, probabilities, coordinates and features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.stats
from sklearn.base import is_classifier, is_regressor
from sklearn.impute import SimpleImputer

from fairspan._system import memory_bytes
from fairspan.encoding import is_date, table_encoder
from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.conformal import ConformalIntervals
from fairspan.estimators.gp_regressor import FairGPRegressor
from fairspan.estimators.private_fit import refuse_private
from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.columns import as_frame, is_temporal, read_attributes
from fairspan.inputs.sparse import dense_columns, is_sparse_input
from fairspan.method.linalg import Array, take
from fairspan.method.problem import Codes
from fairspan.metrics.inputs import Labels, Mask, read_labels, read_scores

# ------------------------------------------------------------------ scores and decisions


@dataclass(frozen=True)
class Outputs:
    """Scores, decisions and probabilities as given; None if unknown."""

    name: str  # of the model, or "scores" / "decisions"
    scores: Array | None = None  # (n, k)
    decisions: Labels | None = None  # (n,) labels
    probabilities: Array | None = None  # (n, classes), in the order of ``classes``
    classes: Labels | None = None  # labels of the model; the audited rows may have others
    method: str = ""  # of the model that gave the scores; empty for given scores

    def take(self, rows: Any) -> Outputs:
        """Select rows."""
        scores, decisions, probabilities = (
            None if part is None else part[rows]
            for part in (self.scores, self.decisions, self.probabilities)
        )
        return Outputs(self.name, scores, decisions, probabilities, self.classes, self.method)

    def _column(self, classes: Labels | None, positive: tuple[int, ...]) -> int | None:
        """Index of the single positive class among the classes of the model."""
        if classes is None or self.classes is None or len(positive) != 1:
            return None
        index = np.flatnonzero(np.asarray(self.classes) == classes[positive[0]])
        return int(index[0]) if len(index) else None

    def oriented(self, classes: Labels | None, positive: tuple[int, ...]) -> Array | None:
        """Scores that grow towards the positive class; for decisions alone, their indicators."""
        if self.scores is None:
            if self.decisions is None or classes is None:
                return None
            codes = codes_of(self.decisions, classes, "decisions")
            return np.asarray(codes[:, None] == np.array(positive), dtype=np.float64)
        column = self._column(classes, positive)
        if column is None or self.classes is None:
            return self.scores
        if self.scores.shape[1] == len(self.classes):  # one score for each class
            return self.scores[:, [column]]
        return -self.scores if self.negated(classes, positive) else self.scores

    def negated(self, classes: Labels | None, positive: tuple[int, ...]) -> bool:
        """Whether :meth:`oriented` changes the sign: one score, and the first class is the positive one."""
        if self.scores is None or self.classes is None or len(self.classes) < 2:
            return False
        return self.scores.shape[1] == 1 and self._column(classes, positive) == 0

    def score_text(self, classes: Labels | None, positive: tuple[int, ...]) -> str:
        """Which output the column of :meth:`oriented` is, before a change of its sign."""
        if self.scores is None:
            label = "" if classes is None or len(positive) != 1 else f" {classes[positive[0]]}"
            return f"1 for the decision{label} and 0 for others"
        text = f"{self.method} of {self.name}" if self.method else "the given scores"
        column = self._column(classes, positive)
        if self.classes is None or column is None:
            return text
        one = self.scores.shape[1] == 1  # it grows towards the last class
        return f"{text} for class {self.classes[-1 if one else column]}"

    def probability(self, classes: Labels | None, positive: tuple[int, ...]) -> Array | None:
        """Probability of the single positive class; plain scores in [0, 1] are probabilities."""
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
    """Whether a model is a "classifier" or a "regressor", also if it is not of scikit-learn."""
    try:
        tagged = is_classifier(model) if kind == "classifier" else is_regressor(model)
    except (AttributeError, TypeError):
        tagged = False
    has_classes = hasattr(model, "classes_") or hasattr(model, "predict_proba")
    return bool(tagged) or (kind == "classifier" and has_classes)


def model_outputs(model: Any, X: Any) -> Outputs:
    """Scores, decisions and probabilities of a model."""
    name = type(model[-1] if hasattr(model, "steps") else model).__name__
    if not hasattr(model, "predict"):
        if hasattr(model, "score_coef_") and len(model.score_coef_):
            return Outputs(name, read_scores(model._outputs(X)), method="the score")
        return Outputs(name)
    predicted = model.predict(X)
    if not looks_like(model, "classifier"):
        return Outputs(name, read_scores(predicted, "predictions"), method="predict")
    decisions = read_labels(predicted, "predictions")
    probabilities = None
    if hasattr(model, "predict_proba"):
        probabilities = read_scores(model.predict_proba(X), "predict_proba")
    scores: Any = probabilities
    method = "predict_proba"
    if hasattr(model, "decision_function"):
        scores, method = model.decision_function(X), "decision_function"
    elif probabilities is not None and probabilities.shape[1] == 2:
        scores = probabilities[:, 1]
    classes = np.asarray(getattr(model, "classes_", np.unique(decisions)))
    scores = None if scores is None else read_scores(scores)
    return Outputs(name, scores, decisions, probabilities, classes, method)


def plain_outputs(given: Any) -> Outputs:
    """Scores given as an array; text and booleans are decisions."""
    labels = np.asarray(given)
    if labels.ndim == 1 and labels.dtype.kind in "OUSb":
        return Outputs("decisions", decisions=read_labels(given, "decisions"))
    return Outputs("scores", read_scores(given, "model_or_scores"))


def codes_of(labels: Labels, classes: Labels, argument: str) -> Codes:
    """Index of each label among the sorted classes."""
    codes = np.searchsorted(classes, labels)
    if (classes[np.minimum(codes, len(classes) - 1)] != labels).any():
        raise ValueError(f"{argument} holds labels that are not among {classes[:5].tolist()}")
    return np.asarray(codes, dtype=np.intp)


# ------------------------------------------------------------------ intervals

# Nominal coverage of the intervals that are audited.
COVERAGE = 0.9


def prediction_intervals(model: Any, X: Any, sensitive_features: Any) -> Array | None:
    """90 % prediction intervals of a fairspan regressor, (n, 2); None if it has none.

    Intervals are those of ``conformalize`` if the model was calibrated, with the groups it was calibrated
    by, and otherwise those of a Gaussian process.
    """
    last = last_step(model)
    if not isinstance(last, ConformalIntervals):
        return None
    X = _before_last_step(model, X)
    conformal = last._fit_state.conformal
    if conformal is None:
        if not isinstance(last, FairGPRegressor):
            return None
        mean, std = last.predict(X, return_std=True)
        half = scipy.stats.norm.ppf((1.0 + COVERAGE) / 2.0) * std
        return np.stack([mean - half, mean + half], axis=1)
    if not conformal.attributes:
        return last.predict_interval(X, COVERAGE)
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    given = read_attributes(sensitive_features, n, "sensitive_features", "sensitive_feature")
    absent = [name for name in conformal.attributes if name not in given]
    if absent:
        warn_user(
            f"The coverage of intervals is not audited: the model was calibrated by {absent[0]!r}, which is "
            f"not among sensitive_features.",
            DataWarning,
        )
        return None
    by = {name: given[name].values for name in conformal.attributes}
    return last.predict_interval(X, COVERAGE, sensitive_features=by)


# ------------------------------------------------------------------ coordinates


@dataclass(frozen=True, kw_only=True)
class Representation:
    """Coordinates of the audited rows."""

    Z: Array  # (n, d)
    names: tuple[str, ...]  # of the coordinates
    # (d, k) coefficients of a score that is linear in them; None if there is no such score.
    coef: Array | None = None
    psi: _KernelRows | None = None  # (n, D) kernel coordinates of a fairspan model; None for others
    is_model_space: bool = False  # whether it is the model space of a fairspan model
    is_given: bool = False  # whether the user passed it
    cells: str = ""  # cells of the model's criterion: "", "target", "positive" or "strata"
    # Whether a rule equalizes decisions, so that no function of the space is made fair.
    decides: bool = False

    def take(self, rows: Any) -> Representation:
        """Select rows."""
        return replace(self, Z=self.Z[rows], psi=None if self.psi is None else self.psi.take(rows))


class _KernelRows:
    """Kernel coordinates of rows, computed when they are indexed."""

    def __init__(self, model: FairKernelEstimator, X: Array) -> None:
        self._model, self._X = model, X

    def take(self, rows: Any) -> _KernelRows:
        """Select rows without computing their coordinates."""
        return _KernelRows(self._model, self._X[rows])

    def __getitem__(self, rows: Any) -> Array:
        return self._model._coordinates(self._X[rows])


# Rule of a criterion in `fairspan.method` -> its cells in an audit.
_CELLS = {"all": "", "target": "target", "class": "positive", "strata": "strata"}


def last_step(model: Any) -> Any:
    """The estimator itself, inside a search or a pipeline."""
    model = getattr(model, "best_estimator_", model)  # of a search
    return model[-1] if hasattr(model, "steps") else model


def _before_last_step(model: Any, X: Any) -> Any:
    """X as the last step of a pipeline reads it."""
    model = getattr(model, "best_estimator_", model)  # of a search
    return model[:-1].transform(X) if hasattr(model, "steps") and len(model) > 1 else X


def find_representation(model: Any, X: Any, given: Any) -> Representation | None:
    """The representation that the user gave, or that of the model; None if there is neither."""
    if given is not None:
        Z = read_scores(given, "representation")
        return Representation(Z=Z, names=_names(Z), is_given=True)
    if model is None:
        return None
    last, X = last_step(model), _before_last_step(model, X)
    if isinstance(last, FairKernelEstimator):
        read = last._read_new(X)
        Z = last._scores(read)
        decides = last._config.equalize == "decisions"
        linear = len(last.score_coef_) == Z.shape[1] and not decides
        return Representation(
            Z=Z,
            names=_names(Z),
            coef=last.score_coef_ if linear else None,
            psi=_KernelRows(last, read),
            is_model_space=True,
            cells=_CELLS[last.pilot_.cells.rule],
            decides=decides,
        )
    coef = getattr(last, "coef_", None)
    if coef is not None:
        return _linear(X, np.asarray(coef, dtype=np.float64))
    if hasattr(last, "transform") and not hasattr(last, "predict"):
        Z = read_scores(_dense(last.transform(X)), "transform(X)")
        return Representation(Z=Z, names=_names(Z))
    return None


def _linear(X: Any, coef: Array) -> Representation | None:
    """Inputs of a linear model: X itself, or the output of the steps before it."""
    columns = getattr(X, "columns", None)
    try:
        Z = np.asarray(_dense(X), dtype=np.float64)
    except (TypeError, ValueError):  # the model encodes text itself, so it is not linear in X
        return None
    coef = np.atleast_2d(coef).T  # scikit-learn's shape is (outputs, features), or (features,)
    if Z.ndim != 2 or coef.shape[0] != Z.shape[1] or not np.isfinite(Z).all():
        return None
    names = _names(Z) if columns is None else tuple(map(str, columns))
    return Representation(Z=Z, names=names, coef=coef)


def _dense(X: Any) -> Any:
    """Sparse rows as an array, if there is memory for them; others as they are."""
    if not is_sparse_input(X):
        return X
    size, ram = 8 * X.shape[0] * X.shape[1], memory_bytes()
    if ram is not None and size > ram / 4:
        raise ValueError(
            f"This part of the audit needs X as a dense array, {X.shape} and {size / 2**30:,.1f} GiB, "
            f"more than a quarter of this machine's {ram / 2**30:.1f} GiB. Audit a sample of the rows, or "
            f"leave 'attacks' and 'kernel' out of parts."
        )
    return X.toarray() if hasattr(X, "toarray") else dense_columns(X)


def _names(Z: Array) -> tuple[str, ...]:
    return tuple(f"z{i}" for i in range(Z.shape[1]))


@dataclass(frozen=True, kw_only=True)
class FittedRows:
    """Rows that a fairspan model was fitted on, as far as its sketch of them shows.

    Attributes
    ----------
    share : share of the rows that were fitted on; None if none was recognised.
    known : (n,) rows that can be looked up.
    match : (n,) those of them that match a row of the fit.
    """

    share: float | None
    known: Mask
    match: Mask

    def take(self, rows: Any) -> FittedRows:
        """Select rows; the share stays."""
        return replace(self, known=self.known[rows], match=self.match[rows])


def _step_with_sketch(model: Any, X: Any) -> tuple[FairKernelEstimator | None, Any]:
    """The fairspan model inside a pipeline or a search, and the rows as it reads them; None if unknown.

    Other wrappers are not opened.
    """
    model = getattr(model, "best_estimator_", model)
    step = model if isinstance(model, FairKernelEstimator) else None
    for i, (_, part) in enumerate(getattr(model, "steps", ())):
        if isinstance(part, FairKernelEstimator):
            step, X = part, model[:i].transform(X) if i else X
            break
    if step is None or step._fitted_rows is None:  # without a sketch the rows need not be read
        return None, X
    return step, step._read_new(X)


def fitted_rows(model: Any, X: Any, rows: Any) -> FittedRows | None:
    """Which of the rows ``X[rows]`` a fairspan model was fitted on; None if unknown.

    A private model refuses rows of its fit.
    """
    step, read = _step_with_sketch(model, X)
    if step is None or step._fitted_rows is None:
        return None
    some = take(read, rows)
    share = step._fitted_share(some)
    if share is not None:
        reason = (
            "its numbers would count groups of the rows of the fit, without noise. Audit other rows"
        )
        refuse_private(step._config, "An audit of training rows", reason)
    known, match = step._looked_up(some)
    return FittedRows(share=share, known=known, match=match)


@dataclass(frozen=True, kw_only=True)
class NewRows:
    """Which rows a model was not fitted on.

    Attributes
    ----------
    new : (n,) True for rows that are new to the model.
    sampled : the model was fitted on some of the rows, and on so many others that only a sample of the
        rows can be looked up. Rows outside of the sample are then not called new.
    by_chance : number of new rows that are expected to match a training row by chance.
    """

    new: Mask
    sampled: bool
    by_chance: float

    @property
    def n_left_out(self) -> int:
        """Number of rows that are not new, or may not be."""
        return int(np.count_nonzero(~self.new))


def find_new_rows(model: Any, X: Any) -> NewRows | None:
    """The rows of X that a fairspan model was not fitted on; None if its training rows are unknown.

    A few new rows match a training row by chance, or have the same X; they are not called new.
    """
    step, read = _step_with_sketch(model, X)
    if step is None:
        return None
    assert step._fitted_rows is not None
    known, match = step._looked_up(read)
    by_chance = step._fitted_rows.chance * int(np.count_nonzero(known))
    sampled = not known.all() and step._fitted_share(read) is not None
    return NewRows(new=~match & (known | (not sampled)), sampled=sampled, by_chance=by_chance)


# ------------------------------------------------------------------ features


def read_numbers(X: Any, frame: Any, protected: Sequence[str]) -> Array:
    """Features as numbers, without the protected columns; text by :func:`table_encoder`.

    Parameters
    ----------
    X : the features as given.
    frame : the same as a frame; None if they are an array.
    protected : names of columns that are left out.
    """
    if frame is None:
        table = _array(X)
        if table.dtype.kind == "f":
            return _fill_missing(table)
        frame = _as_columns(table)
    elif is_sparse_input(X):
        frame = as_frame(_dense(X), "X")
    rest = frame.drop([name for name in protected if name in frame.columns])
    unsupported = [
        name
        for name, dtype in rest.schema.items()
        if (is_temporal(dtype) and not is_date(rest[name]))
        or "List" in str(dtype)
        or "Struct" in str(dtype)
    ]
    if unsupported:
        names = ", ".join(map(repr, unsupported[:5]))
        msg = f"Attackers do not see the columns {names} of X: neither numbers nor text."
        warn_user(msg, DataWarning)
        rest = rest.drop(unsupported)
    if all(dtype.is_numeric() for dtype in rest.schema.values()):
        return _fill_missing(rest.to_numpy().astype(np.float64))
    native = rest.to_native()
    encoder: Any = table_encoder(native)
    return np.asarray(encoder.fit_transform(native), dtype=np.float64)


def _array(X: Any) -> Any:
    """A table of floats, or of objects if it holds anything but numbers."""
    table = np.asarray(_dense(X))
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


def _fill_missing(table: Array) -> Array:
    """Replace missing numbers by the column's median; append an indicator of each such column."""
    finite = np.isfinite(table)
    if finite.all():
        return table
    imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    return np.asarray(imputer.fit_transform(np.where(finite, table, np.nan)))
