"""Our estimators along their dial, and the paper's preset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fairspan.estimators import BoostedLeaves, FairGPClassifier, FairGPRegressor
from fairspan.estimators.path import FairnessPath
from fairspan.method.linalg import Array
from fairspan_lab.frontier._leaves import best_alpha
from fairspan_lab.frontier._problems import Part
from fairspan_lab.frontier._task import Point, Task, timed

# Estimators in scikit-learn's style have no types.
_Classifier: Any = partial(FairGPClassifier, removal="training_rows")
_Regressor: Any = partial(FairGPRegressor, removal="training_rows")


def fairspan(task: Task) -> Iterator[Point]:
    """The default model."""
    return _along_the_dial(task, _estimator(task))


def correlation(task: Task) -> Iterator[Point]:
    """Limit correlations with the attributes only, not the mean in every slice."""
    return _along_the_dial(task, _estimator(task, dependence="correlation"))


def past(task: Task) -> Iterator[Point]:
    """Continue past the fair end, against the dependence on S that remains on new rows."""
    return _along_the_dial(task, _estimator(task), max_fairness=1.5)


def limits(task: Task) -> Iterator[Point]:
    """Limit each correlation by the same value; such models are off the line of the dial."""
    model, fit, new = _estimator(task, dependence="correlation"), task.fit, task.new
    fitted, seconds = timed(lambda: model.fit(fit.X, fit.y, sensitive_features=fit.S))
    free = fitted.at(0.0).certificate_
    largest = max(block.score for block in free.blocks if block.constrained)
    for limit in np.linspace(largest, 0.0, task.points):
        at = fitted.at(max_correlation=dict.fromkeys(fit.S, float(limit)))
        scores = at.decision_function(new.X) if task.classifies else at.predict(new.X)
        yield Point(float(limit), seconds, *task.halves(scores))


def decisions(task: Task) -> Iterator[Point]:
    """Continue past the fair end of scores, to where selection rates are equal."""
    return _along_the_dial(task, _estimator(task, curvature="constant"), max_fairness=2.0)


def leaves(task: Task) -> Iterator[Point]:
    """Use a feature map of boosted leaves instead of a Gaussian kernel."""
    trees = BoostedLeaves(
        targets="y",
        cv=None,
        n_trees=40 if task.quick else 80,
        target_kind="categorical" if task.classifies else "continuous",
    )
    alpha, before = timed(best_alpha, trees, task.fit.X, task.fit.y)
    return _along_the_dial(task, _estimator(task, feature_map=trees, alpha=alpha), before=before)


def aware(task: Task) -> Iterator[Point]:
    """Add the protected attributes to the features, so S is read at prediction."""
    return _along_the_dial(task, _estimator(task), with_s=True)


def aware_correlation(task: Task) -> Iterator[Point]:
    """As `aware`, limiting correlations only."""
    return _along_the_dial(task, _estimator(task, dependence="correlation"), with_s=True)


def _estimator(task: Task, **params: Any) -> Any:
    if task.quick and "feature_map" not in params:
        params["n_components"] = task.landmarks
    cls = _Classifier if task.classifies else _Regressor
    return cls(criterion=task.criterion, sensitive_kind=task.kinds, random_state=0, **params)


def _along_the_dial(
    task: Task, model: Any, *, max_fairness: float = 1.0, with_s: bool = False, before: float = 0.0
) -> Iterator[Point]:
    """Fit once, and predict all dial values in one pass over the new rows."""
    fit, new = (_with_s(task, part) if with_s else part for part in (task.fit, task.new))
    fitted, seconds = timed(model.fit, fit.X, fit.y, sensitive_features=fit.S)
    path = FairnessPath.from_estimator(
        fitted,
        new.X,
        new.y,
        sensitive_features=new.S,
        n_points=task.points,
        max_fairness=max_fairness,
    )
    for i, value in enumerate(path.fairness):
        yield Point(float(value), before + seconds, *task.halves(path.outputs(i)[:, 0]))


def _with_s(task: Task, part: Part) -> Part:
    """Append the attributes as columns: two values as 0 and 1, others standardised."""

    def column(name: str) -> Array:
        if name in task.split.binary:
            return part.S[name]
        known = task.fit.S[name]
        return np.asarray((part.S[name] - known.mean()) / known.std())

    return replace(part, X=np.column_stack([part.X, *map(column, part.S)]))


def fgp(task: Task) -> Iterator[Point]:
    """Algorithms 1 and 2 as printed, with the settings of the reproduction."""
    directions = 1 if task.classifies else 4
    params: dict[str, Any] = {
        "gamma": task.gamma,
        "n_components": task.landmarks,
        "n_slices": "distinct",
        "n_sensitive_directions": directions,
        "n_predictive_directions": directions,
        "criterion": task.criterion,
        "eta": 1e-4,
        "dial": "cosine",
        "method": "paper",
        "random_state": 0,
    }
    if task.classifies:
        model = _Classifier(likelihood="gaussian", **params)
    else:
        model = _Regressor(inference="em-paper", **params)
    fit = task.fit
    fitted, seconds = timed(model.fit, fit.X, fit.y, sensitive_features=fit.S)
    for angle in np.linspace(float(fitted.angles_.max()), 0.0, task.points):
        epsilon = float(np.clip(np.cos(angle), 0.0, 1.0))
        at = fitted.at(epsilon)
        scores = at.decision_function(task.new.X) if task.classifies else at.predict(task.new.X)
        yield Point(epsilon, seconds, *task.halves(scores))
