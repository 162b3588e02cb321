"""Input and output of a method of the frontier."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ParamSpec, TypeVar

import numpy as np

from fairspan.estimators import FairRidge, FairRidgeClassifier
from fairspan.method.linalg import Array
from fairspan_lab.frontier._problems import Part, Split

__all__ = ["Point", "Task", "timed"]

# Dial values of every method that has a dial.
POINTS, QUICK_POINTS = 31, 9
# Landmarks of a quick run.
QUICK_LANDMARKS = 400

_P = ParamSpec("_P")
_T = TypeVar("_T")
# Estimators in scikit-learn's style have no types.
_Classifier: Any = partial(FairRidgeClassifier, removal="training_rows")
_Regressor: Any = partial(FairRidge, removal="training_rows")


@dataclass(frozen=True)
class Point:
    """One dial value: its fit time, and the scores of validation and test rows."""

    value: float | None  # None: the method has no dial
    seconds: float  # CPU time to this model
    validation: Array
    test: Array
    random: bool = False  # the scores are probabilities of deciding for class 1


@dataclass(frozen=True)
class Task:
    """Input of a method: rows, criterion and effort."""

    split: Split
    criterion: str  # "sp", "eop" or "eo"
    quick: bool = False

    @property
    def fit(self) -> Part:
        """Rows to fit on."""
        return self.split.fit

    @property
    def classifies(self) -> bool:
        """Whether y is 0 and 1."""
        return self.split.classifies

    @property
    def points(self) -> int:
        """Number of dial values."""
        return QUICK_POINTS if self.quick else POINTS

    @property
    def landmarks(self) -> int:
        """Number of landmarks: the default of our own estimators."""
        return min(QUICK_LANDMARKS if self.quick else 1000, len(self.fit))

    @property
    def kinds(self) -> dict[str, str]:
        """`sensitive_kind` of our estimators: categorical for two values, else continuous."""
        binary = self.split.binary
        return {name: "categorical" if name in binary else "continuous" for name in self.fit.S}

    @property
    def s(self) -> Array:
        """One attribute, for methods that take only one; see :meth:`group`."""
        return self.group(self.fit)

    def group(self, part: Part) -> Array:
        """The attribute of a part, or the number of the intersection if there are several."""
        columns = [np.unique(self.fit.S[name], return_inverse=True) for name in self.fit.S]
        if len(columns) == 1:
            return next(iter(part.S.values()))
        out = np.zeros(len(part))
        for (values, _), name in zip(columns, self.fit.S, strict=True):
            out = out * len(values) + np.searchsorted(values, part.S[name])
        return out

    @property
    def signs(self) -> Array:
        """Numeric target: classes become -1 and 1."""
        return self._as_numbers(self.fit.y)

    @property
    def new_signs(self) -> Array:
        """Numeric target of :attr:`new`."""
        return self._as_numbers(self.new.y)

    def _as_numbers(self, y: Array) -> Array:
        return 2.0 * y - 1.0 if self.classifies else y

    @cached_property
    def new(self) -> Part:
        """Validation and test rows together, since most methods predict both in one pass."""
        a, b = self.split.validation, self.split.test
        S = {name: np.concatenate([a.S[name], b.S[name]]) for name in a.S}
        return Part(np.concatenate([a.X, b.X]), np.concatenate([a.y, b.y]), S)

    def halves(self, scores: Array) -> tuple[Array, Array]:
        """Split scores of :attr:`new` into those of validation and of test rows."""
        n = len(self.split.validation)
        return scores[:n], scores[n:]

    @cached_property
    def gamma(self) -> float:
        """The bandwidth that our cross-validation chooses on the fit rows.

        The paper's method, HSIC ridge, fair PCA and NCFR's random features use it, so that the choice of
        a bandwidth does not decide the comparison; the other methods search their own. Its time is not
        counted.
        """
        cls = _Classifier if self.classifies else _Regressor
        few = min(200, len(self.fit))  # the bandwidth does not depend on their number
        model = cls(n_components=few, sensitive_kind=self.kinds, random_state=0)
        model.prepare(self.fit.X, self.fit.y, sensitive_features=self.fit.S)
        return float(model.pilot_.gamma)


def timed(make: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> tuple[_T, float]:
    """Return the result of a call and its CPU seconds."""
    start = time.process_time()
    made = make(*args, **kwargs)
    return made, time.process_time() - start
