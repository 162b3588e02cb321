"""What the rivals share: base classes, parameters, clean X and y."""

from __future__ import annotations

import importlib
import numbers
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from fairspan.inputs.config import read_seed
from fairspan.inputs.rows import ColumnSchema, one_column, read_features
from fairspan.method.linalg import Array

Labels = NDArray[Any]


# --------------------------------------------------------------------------- base classes


class Baseline(BaseEstimator):  # type: ignore[misc]
    """A rival method: one `fit` with S by keyword, routed by default as in our own estimators."""

    reads_sensitive_at_predict: ClassVar[bool] = False
    _schema = ColumnSchema()
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def _read_new(self, X: Any) -> Array:
        """Rows to predict, after the check that there is a model."""
        check_is_fitted(self)
        return read_features(self, X, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class BaselineRegressor(RegressorMixin, Baseline):  # type: ignore[misc]
    """A rival that predicts numbers."""


class BaselineClassifier(ClassifierMixin, Baseline, ABC):  # type: ignore[misc]
    """A rival for two classes: the sign of `decision_function` decides."""

    classes_: Labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @abstractmethod
    def decision_function(self, X: Any) -> Array:
        """The real-valued score; positive means ``classes_[1]``."""

    def predict(self, X: Any) -> Labels:
        """The class on whose side the score lies; no protected attribute is read."""
        positive = self.decision_function(X) > 0.0
        return np.asarray(self.classes_[positive.astype(np.intp)])


class BaselineTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Baseline):  # type: ignore[misc]
    """A rival that changes X before any model sees it."""


# --------------------------------------------------------------------------- parameters


def refuse(name: str, value: object, allowed: str) -> ValueError:
    """The error for a hyper-parameter that cannot be."""
    return ValueError(f"{name}={value!r} is not allowed; give {allowed}.")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a word that is not one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise refuse(name, value, "one of " + ", ".join(map(repr, choices)))


def check_number(
    name: str, value: object, low: float = 0.0, high: float = np.inf, *, open_low: bool = False
) -> float:
    """The number as a float; refused outside ``[low, high]`` (or ``(low, high]``)."""
    ok = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    if ok:
        number = float(value)  # type: ignore[arg-type]
        if np.isfinite(number) and low <= number <= high and not (open_low and number == low):
            return number
    if np.isfinite(high):
        raise refuse(name, value, f"a number from {low:g} to {high:g}")
    raise refuse(name, value, f"a finite number {'above' if open_low else 'of at least'} {low:g}")


def check_count(name: str, value: object, low: int = 1) -> int:
    """The whole number; refused below ``low``."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= low:
        return int(value)
    raise refuse(name, value, f"a whole number of at least {low}")


def generator(random_state: Any) -> np.random.Generator:
    """A generator from scikit-learn's kinds of ``random_state``."""
    return np.random.default_rng(read_seed(random_state).randint(2**31 - 1))


def need(module: str, what: str, packages: str = "cvxpy clarabel") -> Any:
    """A module of another package, imported when it is needed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = f"{what} needs {module}: pip install {packages}."
        raise ImportError(msg) from error


# --------------------------------------------------------------------------- X and y


def read_rows(est: Baseline, X: Any) -> Array:
    """Training rows: numbers without gaps, at least two."""
    rows = read_features(est, X, reset=True)
    if len(rows) < 2:
        msg = f"n_samples={len(rows)}: {type(est).__name__} needs at least two rows."
        raise ValueError(msg)
    return rows


def read_column(est: Baseline, y: Any, n: int) -> Labels:
    if y is None:
        msg = f"{type(est).__name__} requires y to be passed, but the target y is None."
        raise ValueError(msg)
    y = one_column(y)
    y = check_array(y, ensure_2d=False, dtype=None, input_name="y", ensure_min_samples=0)
    if len(y) != n:
        msg = (
            f"Found input variables with inconsistent numbers of samples: y has {len(y)} rows, "
            f"X has {n}."
        )
        raise ValueError(msg)
    return np.asarray(y)


def read_numbers(est: Baseline, y: Any, n: int) -> Array:
    """The target of a regression."""
    y = read_column(est, y, n)
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        msg = f"y holds {y.dtype} values; {type(est).__name__} needs numbers."
        raise ValueError(msg) from None
    if np.isnan(values).any():  # None among objects
        msg = f"Input y contains NaN or None in {int(np.isnan(values).sum())} rows. Drop those rows first."
        raise ValueError(msg)
    return values


def _check_order(y: Labels) -> None:
    """Raise unless the labels can be sorted."""
    try:
        np.unique(y)
    except TypeError as error:
        kinds = sorted({type(value).__name__ for value in y.tolist()})
        msg = f"y mixes values that have no order ({', '.join(kinds)}); give labels of one type."
        raise ValueError(msg) from error


def read_two_classes(est: Baseline, y: Any, n: int) -> tuple[Array, Labels]:
    """Labels as -1 and +1, and the two labels in sorted order: +1 is the second."""
    y = read_column(est, y, n)
    _check_order(y)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) > 2:
        msg = (
            f"Only binary classification is supported. The type of the target is "
            f"{type_of_target(y)}. y has {len(classes)} classes: {classes[:5].tolist()}..."
        )
        raise ValueError(msg)
    if len(classes) < 2:
        msg = f"y holds one class only, {classes.tolist()}; two classes are needed to classify."
        raise ValueError(msg)
    return np.where(codes == 1, 1.0, -1.0), classes


def positive_rows(signs: Array, classes: Labels, pos_label: object) -> NDArray[np.bool_]:
    """Rows of the class that counts as the favourable outcome (the second label by default)."""
    if pos_label is None:
        return np.asarray(signs > 0.0)
    match = [label == pos_label for label in classes.tolist()]
    if not any(match):
        raise refuse("pos_label", pos_label, f"one of the labels {classes.tolist()}, or None")
    return np.asarray(signs > 0.0 if match[1] else signs < 0.0)
