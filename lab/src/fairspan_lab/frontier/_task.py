"""What a method is asked, and what it answers with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
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
_Classifier: Any = FairRidgeClassifier
_Regressor: Any = FairRidge


@dataclass(frozen=True)
class Point:
    """One dial value: what it took, and the scores of the rows not learnt from."""

    value: float | None  # None: there is no dial
    seconds: float  # CPU time to this model
    validation: Array
    test: Array
    random: bool = False  # the scores are probabilities of deciding for class 1


@dataclass(frozen=True)
class Task:
    """Rows, criterion, effort."""

    split: Split
    criterion: str  # "sp", "eop" or "eo"
    quick: bool = False

    @property
    def fit(self) -> Part:
        """Rows to learn from."""
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
        """Rows that span a kernel's coordinates: as many as our own estimators take by themselves."""
        return min(QUICK_LANDMARKS if self.quick else 1000, len(self.fit))

    @property
    def kinds(self) -> dict[str, str]:
        """How our own estimators read the attributes: two values are groups, others numbers."""
        binary = self.split.binary
        return {name: "categorical" if name in binary else "continuous" for name in self.fit.S}

    @property
    def s(self) -> Array:
        """The one attribute of a method that takes no more."""
        (values,) = self.fit.S.values()
        return values

    @property
    def signs(self) -> Array:
        """The target of a method for numbers: classes as -1 and 1."""
        return self._as_numbers(self.fit.y)

    @property
    def new_signs(self) -> Array:
        """The same of :attr:`new`."""
        return self._as_numbers(self.new.y)

    def _as_numbers(self, y: Array) -> Array:
        return 2.0 * y - 1.0 if self.classifies else y

    @cached_property
    def new(self) -> Part:
        """Validation and test rows together: most methods predict both in one pass."""
        a, b = self.split.validation, self.split.test
        S = {name: np.concatenate([a.S[name], b.S[name]]) for name in a.S}
        return Part(np.concatenate([a.X, b.X]), np.concatenate([a.y, b.y]), S)

    def halves(self, scores: Array) -> tuple[Array, Array]:
        """Scores of :attr:`new` as those of validation and of test rows."""
        n = len(self.split.validation)
        return scores[:n], scores[n:]

    @cached_property
    def gamma(self) -> float:
        """The kernel width that our own cross-validation chooses on the fit rows.

        The paper's method, HSIC ridge, fair PCA and NCFR's random features get it, so that none of them
        loses by its width; the others search their own. Its time is not charged to them.
        """
        cls = _Classifier if self.classifies else _Regressor
        few = min(200, len(self.fit))  # the width does not depend on their number
        model = cls(n_components=few, sensitive_kind=self.kinds, random_state=0)
        model.prepare(self.fit.X, self.fit.y, sensitive_features=self.fit.S)
        return float(model.pilot_.gamma)


def timed(make: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> tuple[_T, float]:
    """What a call returns, and its CPU seconds."""
    start = time.process_time()
    made = make(*args, **kwargs)
    return made, time.process_time() - start
