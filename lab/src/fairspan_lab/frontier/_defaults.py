"""Our defaults: removal for new rows, three learners, decision rules, and limits that are promised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fairspan.estimators import FairClassifier, FairGPClassifier, FairGPRegressor, FairRegressor
from fairspan.estimators.dial_predictor import score_rows
from fairspan_lab.frontier._heads import best_c, boosted, logistic
from fairspan_lab.frontier._price import LIMITS
from fairspan_lab.frontier._task import Point, Task, timed

_CONFIDENCE = 0.95  # confidence of a promise


def new_rows(task: Task) -> Iterator[Point]:
    """The kernel model with removal for new rows."""
    few = {"n_components": task.landmarks} if task.quick else {}
    cls: Any = FairGPClassifier if task.classifies else FairGPRegressor
    model = cls(criterion=task.criterion, sensitive_kind=task.kinds, random_state=0, **few)
    return _along(task, model)


def auto(task: Task) -> Iterator[Point]:
    """Boosted trees, kernel and linear model together."""
    return _along(task, _learners(task, "auto"))


def rule(task: Task) -> Iterator[Point]:
    """Decision rule over the three learners."""
    return _rule(task, "auto")


def rule_boosting(task: Task) -> Iterator[Point]:
    """Decision rule over the boosted trees that LinearPost has."""
    return _rule(task, boosted())


def rule_logistic(task: Task) -> Iterator[Point]:
    """Decision rule over the logistic regressions that LinearPost has."""
    return _rule(task, logistic(best_c(task.fit.X, task.fit.y)))


def promise(task: Task) -> Iterator[Point]:
    """Three learners at the cheapest dial value that keeps a limit on |corr| with confidence .95."""
    limits = [{"max_correlation": limit} for limit in LIMITS]
    return _promised(task, _learners(task, "auto"), limits)


def rule_promise(task: Task) -> Iterator[Point]:
    """Decision rule at the cheapest limit that keeps a gap with confidence .95."""
    limits = [{"max_gap": limit} for limit in LIMITS]
    return _promised(task, _learners(task, "auto", equalize="decisions"), limits)


def _learners(task: Task, estimator: Any, **params: Any) -> Any:
    cls: Any = FairClassifier if task.classifies else FairRegressor
    return cls(
        estimator,
        criterion=task.criterion,
        sensitive_kind=task.kinds,
        encoder=None,
        random_state=0,
        **params,
    )


def _rule(task: Task, estimator: Any) -> Iterator[Point]:
    model = _learners(task, estimator, equalize="decisions")
    return _along(task, model)


def _along(task: Task, model: Any) -> Iterator[Point]:
    """Fit once; the rows are scored once for all dial values."""
    fit = task.fit
    fitted, seconds = timed(model.fit, fit.X, fit.y, sensitive_features=fit.S)
    rows = score_rows(fitted, fitted._read_new(task.new.X))
    for value in np.linspace(0.0, 1.0, task.points):
        at = fitted.at(fairness=float(value))
        yield Point(float(value), seconds, *task.halves(_scores(task, at, rows)))


def _promised(task: Task, model: Any, limits: list[dict[str, float]]) -> Iterator[Point]:
    fit = task.fit
    fitted, seconds = timed(model.fit, fit.X, fit.y, sensitive_features=fit.S)
    rows = score_rows(fitted, fitted._read_new(task.new.X))
    for limit in limits:
        # Where the limit cannot be promised, this is the fair end.
        at = fitted.at(**limit, confidence=_CONFIDENCE)
        (value,) = limit.values()
        yield Point(value, seconds, *task.halves(_scores(task, at, rows)))


def _scores(task: Task, model: Any, rows: Any) -> Any:
    return model.decision_function(rows) if task.classifies else model.predict(rows)
