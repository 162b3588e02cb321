"""Rivals of 2018 to 2026, each along its own dial, the least constrained model first.

All have the number of settings of ours. Grids are fixed here, or end where a rule of the fit and validation
rows says; test rows are not opened for them.

- LinearPost: limits from 1, which binds nobody, to 0, close together below 0.1, where they bind.
- Penalties: 0, then a geometric grid over three decades, up to the weight with the least dependence on
  validation rows, of those tried. Beyond it the penalty overshoots.
- K-TOpt: tau = 1 - 10^-t. What is left of the covariance falls with 1 - tau.
- Barycentre: shares at equal distances, as its dependence falls linearly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from fairspan.method.linalg import Array
from fairspan_lab.baselines import (
    BarycentreRegression,
    KTOpt,
    LinearPost,
    PenalisedBoosting,
    PenalisedBoostingClassifier,
)
from fairspan_lab.frontier._heads import best_c, boosted, head, head_scores, logistic
from fairspan_lab.frontier._measures import measure
from fairspan_lab.frontier._rivals import LONG
from fairspan_lab.frontier._task import Point, Task, timed

# Weights that are tried for the end of the grid of a penalty.
_WEIGHTS = tuple(4.0**k for k in range(6))
# Ridges of K-TOpt on unit variances.
_RIDGES = tuple(10.0**k for k in range(-5, 0))


def linear_post(task: Task) -> Iterator[Point]:
    """Over boosted trees."""
    return _linear_post(task, boosted())


def linear_post_logistic(task: Task) -> Iterator[Point]:
    """Over logistic regressions."""
    return _linear_post(task, logistic(best_c(task.fit.X, task.fit.y)))


def _linear_post(task: Task, estimator: Any) -> Iterator[Point]:
    fit = task.fit
    model = LinearPost(1.0, criterion=LONG[task.criterion], estimator=estimator, random_state=0)
    fitted, before = timed(model.fit, fit.X, fit.y, sensitive_features=fit.S)
    for tolerance in [1.0, *np.geomspace(0.3, 0.001, task.points - 2), 0.0]:
        at, seconds = timed(fitted.at, float(tolerance))
        scores = at.decision_function(task.new.X)
        yield Point(float(tolerance), before + seconds, *task.halves(scores))


def penalised_boosting(task: Task) -> Iterator[Point]:
    """Boosted trees with a penalty on the covariance of the score."""
    cls: Any = PenalisedBoostingClassifier if task.classifies else PenalisedBoosting
    return _along_mu(task, partial(cls, criterion=LONG[task.criterion], random_state=0))


def penalised_network(task: Task) -> Iterator[Point]:
    """A network with the same penalty in each batch."""
    return _along_mu(task, _network(task))


def fairret(task: Task) -> Iterator[Point]:
    """The same network with the package's penalty on differences of rates."""
    return _along_mu(task, partial(_network(task), penalty="fairret"))


def _network(task: Task) -> Callable[..., Any]:
    import torch

    from fairspan_lab.baselines import PenalisedNetwork, PenalisedNetworkClassifier

    torch.set_num_threads(1)
    cls: Any = PenalisedNetworkClassifier if task.classifies else PenalisedNetwork
    short = {"max_epochs": 20} if task.quick else {}
    return partial(cls, criterion=LONG[task.criterion], random_state=0, **short)


def _along_mu(task: Task, make: Callable[..., Any]) -> Iterator[Point]:
    """0 and a geometric grid up to the weight with the least dependence on validation rows."""
    fit = task.fit

    def at(mu: float) -> tuple[Array, float]:
        model, seconds = timed(lambda: make(mu).fit(fit.X, fit.y, sensitive_features=fit.S))
        return head_scores(model, task.new.X), seconds

    most = min(_WEIGHTS, key=lambda mu: _dependence(task, at(mu)[0]))
    for mu in [0.0, *np.geomspace(most / 1000.0, most, task.points - 1)]:
        scores, seconds = at(float(mu))
        yield Point(float(mu), seconds, *task.halves(scores))


def _dependence(task: Task, scores: Array) -> float:
    """Largest correlation of the criterion on validation rows."""
    part = task.split.validation
    found = measure(task.halves(scores)[0], part.y, part.S, classifies=task.classifies)
    return max(float(found[f"{task.criterion}[{name}]"] or 0.0) for name in part.S)


def ktopt(task: Task) -> Iterator[Point]:
    """Kernel encoder, then ridge or logistic regression; its ridge is the best on validation rows."""
    fit, new, n = task.fit, task.new, len(task.split.validation)
    params: dict[str, Any] = {
        "target": "categorical" if task.classifies else "continuous",
        "random_state": 0,
    }
    kernel = {"gamma": task.gamma, "n_landmarks": task.landmarks}

    def encode(tau: float, ridge: float, X: Array, **more: Any) -> KTOpt:
        model = KTOpt(tau, ridge=ridge, **more, **params)
        return model.fit(X, fit.y, sensitive_features=fit.S)

    first, seconds = timed(lambda: encode(0.0, _RIDGES[-1], fit.X, **kernel))
    # All settings share the coordinates, on which the kernel is linear.
    psi, psi_new = (first.feature_map_.coordinates(part.X) for part in (fit, new))

    def scores(tau: float, ridge: float) -> Array:
        coder = encode(tau, ridge, psi, kernel="linear")
        Z, Z_new = coder.transform(psi), coder.transform(psi_new)
        spread = Z.std(axis=0)
        C = (
            1.0 if task.classifies else None
        )  # a few components of unit variance hardly need a penalty
        return head_scores(head(Z / spread, fit.y, C), Z_new / spread)

    def loss(ridge: float) -> float:
        found = scores(0.0, ridge)[:n]
        if task.classifies:
            return float(np.mean((found > 0.0) != (new.y[:n] == 1)))
        return float(np.mean((found - new.y[:n]) ** 2))

    ridge = min(_RIDGES, key=loss)
    for t in np.linspace(0.0, 6.0, task.points):
        tau = 1.0 - 10.0**-t
        # A user would run the whole fit for each setting; its time hardly depends on tau.
        yield Point(float(tau), seconds, *task.halves(scores(tau, ridge)))


def leace(task: Task) -> Iterator[Point]:
    """Columns without linear information about S (LEACE), then ridge or logistic regression; no dial."""
    import torch
    from concept_erasure import LeaceFitter

    fit, new = task.fit, task.new
    S = np.column_stack([(s - s.mean()) / s.std() for s in fit.S.values()])

    def make() -> tuple[Any, Any]:
        eraser = LeaceFitter.fit(torch.from_numpy(fit.X), torch.from_numpy(S)).eraser
        rows = eraser(torch.from_numpy(fit.X)).numpy()
        C = best_c(rows, fit.y) if task.classifies else None
        return eraser, head(rows, fit.y, C)

    (eraser, model), seconds = timed(make)
    scores = head_scores(model, eraser(torch.from_numpy(new.X)).numpy())
    yield Point(None, seconds, *task.halves(scores))


def barycentre(task: Task) -> Iterator[Point]:
    """Quantiles of every group moved to their mean; S is read at prediction time."""
    fit, new = task.fit, task.new
    model = BarycentreRegression(random_state=0)
    fitted, seconds = timed(model.fit, fit.X, fit.y, sensitive_features=fit.S)
    for share in np.linspace(0.0, 1.0, task.points):
        fitted.share = float(share)
        scores = fitted.predict(new.X, sensitive_features=new.S)
        yield Point(float(share), seconds, *task.halves(scores))
