"""Methods of fairlearn: reductions, thresholds by group, removal of correlations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from fairspan.estimators import FairRidgeClassifier
from fairspan.method.linalg import Array
from fairspan_lab.frontier._heads import best_c, head, head_scores, logistic
from fairspan_lab.frontier._task import Point, Task, timed

# Names of fairlearn's moments and of ThresholdOptimizer's constraints.
_MOMENTS = {"sp": "DemographicParity", "eop": "TruePositiveRateParity", "eo": "EqualizedOdds"}
_CONSTRAINTS = {
    "sp": "demographic_parity",
    "eop": "true_positive_rate_parity",
    "eo": "equalized_odds",
}
# Principal axes of psi below this share of the total variance are dropped: 140 to 330 are left. With
# twice as many the error of a plain logistic regression is the same within its noise, and one
# reduction takes three times as long.
_AXIS = 1e-4
# Leaves per tree.
_LEAVES = (4, 8, 15)
# Estimators in scikit-learn's style have no types.
_Kernel: Any = partial(FairRidgeClassifier, removal="training_rows")


def eg_logistic(task: Task) -> Iterator[Point]:
    """Exponentiated gradient over logistic regressions on the columns."""
    X, y = task.fit.X, task.fit.y
    return _reduction(task, logistic(best_c(X, y)), X, task.new.X)


def eg_psi(task: Task) -> Iterator[Point]:
    """Exponentiated gradient over logistic regressions on our own kernel's coordinates.

    They are rotated to their principal axes, which leaves a ridge penalty what it is, and axes with
    little variance are dropped: 31 reductions of some 30 logistic regressions each have to end.
    """
    fit = task.fit

    def coordinates() -> tuple[Any, Array, Array]:
        few = {"n_components": task.landmarks} if task.quick else {}
        est = _Kernel(random_state=0, **few).fit(fit.X, fit.y, sensitive_features=fit.S)
        psi = est._coordinates(fit.X)
        values, vectors = np.linalg.eigh(np.cov(psi, rowvar=False))
        axes = vectors[:, values > _AXIS * values.sum()][:, ::-1]
        return est, axes, psi @ axes

    (est, axes, psi), seconds = timed(coordinates)
    new = est._coordinates(task.new.X) @ axes
    return _reduction(task, logistic(best_c(psi, fit.y)), psi, new, before=seconds)


def eg_boosting(task: Task) -> Iterator[Point]:
    """Exponentiated gradient over boosted trees, of the size that is best on the validation rows.

    Forty trees: with more, a curve of 31 reductions takes longer than three minutes.
    """
    validation = task.split.validation

    def trees(n_leaves: int) -> Any:
        return HistGradientBoostingClassifier(
            max_iter=40,
            max_leaf_nodes=n_leaves,
            learning_rate=0.2,
            early_stopping=False,
            random_state=0,
        )

    def accuracy(n_leaves: int) -> float:
        model = trees(n_leaves).fit(task.fit.X, task.fit.y)
        return float(model.score(validation.X, validation.y))

    return _reduction(task, trees(max(_LEAVES, key=accuracy)), task.fit.X, task.new.X)


def _reduction(
    task: Task, estimator: Any, X: Array, new: Array, *, before: float = 0.0
) -> Iterator[Point]:
    from fairlearn import reductions

    for bound in np.geomspace(0.3, 0.001, task.points):
        moment = getattr(reductions, _MOMENTS[task.criterion])(difference_bound=float(bound))
        model = reductions.ExponentiatedGradient(estimator, moment)
        fitted, seconds = timed(model.fit, X, task.fit.y, sensitive_features=task.s)
        p = np.zeros(len(new))
        for k, weight in fitted.weights_.items():
            if weight > 0.0:
                p += weight * fitted.predictors_[k].predict(new)
        yield Point(float(bound), before + seconds, *task.halves(np.clip(p, 0.0, 1.0)), random=True)


def threshold(task: Task) -> Iterator[Point]:
    """A threshold for each group, with a draw between two of them, on a logistic regression."""
    from fairlearn.postprocessing import ThresholdOptimizer

    X, y = task.fit.X, task.fit.y
    C = best_c(X, y)

    def make() -> Any:
        return ThresholdOptimizer(
            estimator=logistic(C),
            constraints=_CONSTRAINTS[task.criterion],
            predict_method="predict_proba",
        ).fit(X, y, sensitive_features=task.s)

    fitted, seconds = timed(make)
    s = task.group(task.new)
    rule = fitted.interpolated_thresholder_
    scores = rule.estimator_.predict_proba(task.new.X)[:, 1]
    p = np.full(len(scores), np.nan)  # a group without a rule would show
    # `predict` draws; the rule that it draws by is public, and gives the probabilities.
    for group, parts in rule.interpolation_dict.items():
        mine = s == group
        drawn = parts.p0 * parts.operation0(scores[mine]) + parts.p1 * parts.operation1(
            scores[mine]
        )
        ignored = parts.get("p_ignore", 0.0)
        constant = parts.get("prediction_constant", 0.0)
        p[mine] = ignored * constant + (1.0 - ignored) * drawn
    yield Point(None, seconds, *task.halves(p), random=True)


def correlation_remover(task: Task) -> Iterator[Point]:
    """Columns less their regression on S, then ridge or logistic regression."""
    from fairlearn.preprocessing import CorrelationRemover

    fit = task.fit
    C = best_c(fit.X, fit.y) if task.classifies else None
    places = list(range(fit.X.shape[1], fit.X.shape[1] + len(fit.S)))
    both, both_new = (np.column_stack([part.X, *part.S.values()]) for part in (fit, task.new))
    for alpha in np.linspace(0.0, 1.0, task.points):
        remover = CorrelationRemover(sensitive_feature_ids=places, alpha=float(alpha))

        rows, before = timed(remover.fit_transform, both)
        model, seconds = timed(head, rows, fit.y, C)
        scores = head_scores(model, remover.transform(both_new))
        yield Point(float(alpha), before + seconds, *task.halves(scores))
