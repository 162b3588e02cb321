"""What the rivals share: base classes, clean X, y and S, kernels and feature coordinates."""

from __future__ import annotations

import importlib
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
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
from sklearn.utils import check_array, check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from fairspan._columns import as_frame, named_columns_of, read_attributes
from fairspan._linalg import Array
from fairspan._validation import read_features
from fairspan.codes import MAX_INTEGER_CATEGORIES, Attribute, Coder, infer_kind
from fairspan.features import (
    GAMMA_KERNELS,
    WIDTH_KERNELS,
    Kernel,
    LandmarkMap,
    TransformerMap,
    kernel_names,
    median_distance,
    width_to_gamma,
)

Labels = NDArray[Any]
FeatureMap = LandmarkMap | TransformerMap

AUTO_LANDMARKS = 1000
_MEDIAN_ROWS = 1000
_BLOCK_ROWS = 2048


# --------------------------------------------------------------------------- base classes


class Baseline(BaseEstimator):  # type: ignore[misc]
    """A rival method: one `fit` with S by keyword, routed by default as in our own estimators."""

    reads_sensitive_at_predict: ClassVar[bool] = False
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


class BaselineClassifier(ClassifierMixin, Baseline):  # type: ignore[misc]
    """A rival for two classes: the sign of `decision_function` decides."""

    classes_: Labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def decision_function(self, X: Any) -> Array:
        """The real-valued score; positive means ``classes_[1]``."""
        raise NotImplementedError

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
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def need(module: str, what: str) -> Any:
    """A module of the extra ``baselines``, imported when it is needed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = f'{what} needs {module}: pip install "fairspan[baselines]".'
        raise ImportError(msg) from error


# --------------------------------------------------------------------------- X and y


def read_rows(est: Baseline, X: Any) -> Array:
    """Training rows: numbers without gaps, at least two."""
    rows = read_features(est, X, reset=True)
    if len(rows) < 2:
        msg = f"n_samples={len(rows)}: {type(est).__name__} needs at least two rows."
        raise ValueError(msg)
    return rows


def _read_column(est: Baseline, y: Any, n: int) -> Labels:
    if y is None:
        msg = f"{type(est).__name__} requires y to be passed, but the target y is None."
        raise ValueError(msg)
    y = column_or_1d(y, warn=True)
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
    y = _read_column(est, y, n)
    try:
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        msg = f"y holds {y.dtype} values; {type(est).__name__} needs numbers."
        raise ValueError(msg) from None


def read_two_classes(est: Baseline, y: Any, n: int) -> tuple[Array, Labels]:
    """Labels as -1 and +1, and the two labels in sorted order: +1 is the second."""
    y = _read_column(est, y, n)
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


# --------------------------------------------------------------------------- S


_FIT_NEEDS_S = """\
{name}.fit needs the protected attributes: `sensitive_features` was not given. Pass values, one per \
row of X: fit(X, y, sensitive_features=s); in a pipeline, stepname__sensitive_features=s, or route \
it (sklearn.set_config(enable_metadata_routing=True))."""

_PREDICT_NEEDS_S = """\
{name} reads the protected attributes when it predicts: `sensitive_features` was not given. Call \
{method}(X, sensitive_features=s) with the same attributes as in fit. Where S is not known at \
prediction time this method cannot be used."""


def read_sensitive(
    est: Baseline, X: Any, sensitive_features: Any, n: int, method: str = "fit"
) -> dict[str, Attribute]:
    """Clean attributes by name, without gaps."""
    if sensitive_features is None:
        text = _FIT_NEEDS_S if method == "fit" else _PREDICT_NEEDS_S
        raise ValueError(text.format(name=type(est).__name__, method=method))
    if named_columns_of(as_frame(X, "X"), sensitive_features, "sensitive_features") is not None:
        msg = (
            f"sensitive_features={sensitive_features!r} names columns of X. {type(est).__name__} "
            f"takes the values, one per row, and X without them."
        )
        raise ValueError(msg)
    attributes = read_attributes(sensitive_features, n, "sensitive_features", "sensitive_feature")
    for attribute in attributes.values():
        if attribute.missing.any():
            msg = (
                f"sensitive_features {attribute.name!r} is missing (NaN or None) in "
                f"{int(attribute.missing.sum())} rows. Drop those rows, or give them a category of "
                f"their own."
            )
            raise ValueError(msg)
        if method == "fit" and len(np.unique(attribute.values)) < 2:
            msg = (
                f"sensitive_features {attribute.name!r} has one value only, "
                f"{attribute.values[0]!r}: there is nothing to be fair about. Leave it out."
            )
            raise ValueError(msg)
    return attributes


def align(attributes: dict[str, Attribute], names: tuple[str, ...]) -> dict[str, Attribute]:
    """The attributes of `predict` under the names of `fit`: by name, or an array's by position."""
    if set(attributes) == set(names):
        return {name: attributes[name] for name in names}
    unnamed = all(name.startswith("sensitive_feature_") for name in attributes)
    if unnamed and len(attributes) == len(names):
        return dict(zip(names, attributes.values(), strict=True))
    msg = (
        f"sensitive_features has the attributes {', '.join(map(repr, attributes))}; fit had "
        f"{', '.join(map(repr, names))}. Give the same ones."
    )
    raise ValueError(msg)


def read_two_groups(
    est: Baseline, attributes: Mapping[str, Attribute]
) -> tuple[NDArray[np.bool_], Labels]:
    """Membership of the second of two groups, and the two values."""
    if len(attributes) != 1:
        msg = (
            f"{type(est).__name__} handles one protected attribute; sensitive_features has "
            f"{len(attributes)}: {', '.join(map(repr, attributes))}. Give one of them."
        )
        raise ValueError(msg)
    attribute = next(iter(attributes.values()))
    values, codes = np.unique(attribute.values, return_inverse=True)
    if len(values) != 2:
        msg = (
            f"{type(est).__name__} handles two groups; sensitive_features {attribute.name!r} has "
            f"{len(values)} distinct value{'s' if len(values) != 1 else ''}. Make it binary first, e.g. one "
            f"group against the rest."
        )
        raise ValueError(msg)
    return codes == 1, values


@dataclass(frozen=True)
class SensitiveCoding:
    """Frozen rule that turns attributes into numeric columns.

    ``numbers`` are used as they are, the ``coders``' levels as 0/1 indicators (without the first
    level if ``drop_first``).
    """

    names: tuple[str, ...]
    coders: tuple[Coder, ...]
    drop_first: bool

    @classmethod
    def learn(
        cls, attributes: Mapping[str, Attribute], coding: str, *, drop_first: bool = False
    ) -> SensitiveCoding:
        """``linear``: numbers stay; ``one-hot``: levels of all; ``auto``: numbers with many values stay."""
        coders = tuple(
            Coder.learn(attribute, "categorical", None)
            for attribute in attributes.values()
            if not _stays_a_number(attribute, coding)
        )
        return cls(tuple(attributes), coders, drop_first)

    def columns(self, attributes: Mapping[str, Attribute]) -> Array:
        """One column per number, one per level, in the order of the attributes."""
        coders = {coder.name: coder for coder in self.coders}
        blocks = []
        for name in self.names:
            if name not in coders:
                blocks.append(attributes[name].values.astype(np.float64)[:, None])
                continue
            codes = coders[name].codes(attributes)
            levels = np.arange(int(self.drop_first), coders[name].n_levels)
            blocks.append((codes[:, None] == levels).astype(np.float64))
        return np.concatenate(blocks, axis=1)

    def is_number(self) -> NDArray[np.bool_]:
        """Which columns are numbers rather than indicators."""
        sizes = {coder.name: coder.n_levels - int(self.drop_first) for coder in self.coders}
        parts = [np.full(sizes.get(name, 1), name not in sizes) for name in self.names]
        return np.concatenate(parts)


def _stays_a_number(attribute: Attribute, coding: str) -> bool:
    if attribute.values.dtype.kind != "f":
        return False
    if coding == "auto":
        return infer_kind(attribute) == "continuous"
    if coding == "linear":
        return True
    if (size := len(np.unique(attribute.values))) > MAX_INTEGER_CATEGORIES:
        msg = (
            f"sensitive_features {attribute.name!r} has {size} distinct values, too many for "
            f"indicators ({MAX_INTEGER_CATEGORIES} at most). Use 'linear' or 'rbf', or make groups."
        )
        raise ValueError(msg)
    return False


# --------------------------------------------------------------------------- kernels


def make_kernel(
    kernel: Any, gamma: Any, kernel_params: Any, X: Array, rng: np.random.Generator
) -> Kernel:
    """The kernel of an estimator's parameters, with gamma resolved on the training rows."""
    params = dict(kernel_params or {})
    if callable(kernel):
        return Kernel.from_callable(kernel, params, X)
    names = tuple(name for name in kernel_names() if name != "precomputed")
    if not isinstance(kernel, str) or kernel not in names:
        raise refuse("kernel", kernel, f"one of {', '.join(map(repr, names))}, or a callable")
    if kernel in GAMMA_KERNELS:
        params["gamma"] = choose_gamma(kernel, gamma, X, rng)
    return Kernel(kernel, params)


def choose_gamma(kernel: str, gamma: Any, X: Array, rng: np.random.Generator) -> float:
    """A number as it is; "scale" as in scikit-learn; "median": the width is the median distance."""
    if not isinstance(gamma, str):
        return check_number("gamma", gamma, open_low=True)
    check_choice("gamma", gamma, ("scale", "median"))
    if gamma == "median" and kernel in WIDTH_KERNELS:
        rows = rng.permutation(len(X))[:_MEDIAN_ROWS]
        return width_to_gamma(median_distance(X[rows], kernel), kernel)
    variance = float(X.var())
    return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0


def check_landmarks(name: str, value: object) -> None:
    """Refuse anything but "auto", "all", or a number of rows."""
    if not (isinstance(value, str) and value in ("auto", "all")):
        try:
            check_count(name, value)
        except ValueError:
            raise refuse(name, value, "'auto', 'all' or a whole number of at least 1") from None


def feature_map(kernel: Kernel, X: Array, size: Any, rng: np.random.Generator) -> FeatureMap:
    """Coordinates psi with ``k(x, z) = psi(x).psi(z)``: exact, or Nystrom on ``size`` random rows."""
    if kernel.name == "linear" and kernel.function is None:
        return TransformerMap(None, X.shape[1])
    n = len(X)
    size = n if size == "all" else min(n, AUTO_LANDMARKS if size == "auto" else int(size))
    rows = X if size == n else X[rng.permutation(n)[:size]]
    # Sorted distinct rows: with all of them the map does not depend on the order of the data.
    return LandmarkMap.build(kernel, np.unique(rows, axis=0), None, exact=size == n)


def kernel_scores(kernel: Kernel, X: Array, rows: Array, coef: Array) -> Array:
    """``sum_i coef_i k(x_i, x)`` for each x, in blocks that keep the Gram matrix small."""
    out = np.empty((len(X), *coef.shape[1:]))
    for start in range(0, len(X), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        out[block] = kernel(X[block], rows) @ coef
    return out
