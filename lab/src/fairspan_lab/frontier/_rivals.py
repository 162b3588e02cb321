"""Published rivals, each along its own dial, the least constrained model first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from fairspan.method.linalg import Array
from fairspan_lab.baselines import (
    NCFR,
    FairPCA,
    HSICRidge,
    HSICRidgeClassifier,
    StandardGP,
    StandardGPClassifier,
)
from fairspan_lab.frontier._heads import best_c, head, head_scores
from fairspan_lab.frontier._task import Point, Task, timed

LONG = {"sp": "statistical_parity", "eop": "equal_opportunity", "eo": "equalized_odds"}
# Epochs of LAFTR; the published 1000 would take five times as long.
LAFTR_EPOCHS, QUICK_EPOCHS = 200, 20
_NCFR_RIDGES = (1.0, 10.0, 100.0)


def gp(task: Task) -> Iterator[Point]:
    """Gaussian process without a fairness constraint."""
    params: dict[str, Any] = {"max_hyper_rows": 1000, "n_restarts": 0, "random_state": 0}
    model: Any = StandardGPClassifier(**params) if task.classifies else StandardGP(**params)
    yield _single_point(task, model)


def boosting(task: Task) -> Iterator[Point]:
    """Gradient boosting without a fairness constraint."""
    classes = task.classifies
    cls = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    yield _single_point(task, cls(random_state=0))


def _single_point(task: Task, model: Any) -> Point:
    fitted, seconds = timed(model.fit, task.fit.X, task.fit.y)
    return Point(None, seconds, *task.halves(head_scores(fitted, task.new.X)))


def ncfr(task: Task) -> Iterator[Point]:
    """NCFR on the columns, by least squares; classes are -1 and 1."""
    return _ncfr(task, {})


def ncfr_rff(task: Task) -> Iterator[Point]:
    """NCFR on random features of a Gaussian kernel."""
    return _ncfr(task, {"features": "rff", "gamma": task.gamma, "random_state": 0})


def _ncfr(task: Task, params: dict[str, Any]) -> Iterator[Point]:
    """NCFR with the ridge penalty of the authors' grid that is best on validation rows."""
    fit, new, n = task.fit, task.new, len(task.split.validation)

    def make(eta: float, ridge: float) -> NCFR:
        model = NCFR(eta=eta, ridge=ridge, **params)
        return model.fit(fit.X, task.signs, sensitive_features=fit.S)

    def loss(ridge: float) -> float:
        predicted = make(1.0, ridge).predict(new.X, sensitive_features=new.S)[:n]
        return float(np.mean((predicted - task.new_signs[:n]) ** 2))

    ridge = min(_NCFR_RIDGES, key=loss)
    # eta is the share of variance that S may explain, so it decreases along the dial.
    for eta in [*np.geomspace(1.0, 1e-4, task.points - 1), 0.0]:
        fitted, seconds = timed(make, float(eta), ridge)
        scores = fitted.predict(new.X, sensitive_features=new.S)
        yield Point(float(eta), seconds, *task.halves(scores))


def hsic(task: Task) -> Iterator[Point]:
    """Kernel ridge regression with an HSIC penalty; its ridge is the best on validation rows."""
    fit, new, n = task.fit, task.new, len(task.split.validation)
    cls: Any = HSICRidgeClassifier if task.classifies else HSICRidge

    def make(mu: float, alpha: float) -> Any:
        kernel = {"gamma": task.gamma, "n_landmarks": task.landmarks, "random_state": 0}
        return cls(mu, alpha=alpha, **kernel).fit(fit.X, fit.y, sensitive_features=fit.S)

    first, seconds = timed(make, 0.0, 1.0)
    # All settings share the coordinates, on which the kernel is linear.
    psi, psi_new = (first.feature_map_.coordinates(part.X) for part in (fit, new))

    def scores(mu: float, alpha: float) -> Array:
        model = cls(mu, alpha=alpha, kernel="linear").fit(psi, fit.y, sensitive_features=fit.S)
        return head_scores(model, psi_new)

    def loss(alpha: float) -> float:
        return float(np.mean((scores(0.0, alpha)[:n] - task.new_signs[:n]) ** 2))

    alpha = min((10.0**k for k in range(-4, 3)), key=loss)
    for mu in [0.0, *np.geomspace(0.1, 1e5, task.points - 1)]:
        # A user would run the whole fit for each setting; its time hardly depends on mu.
        yield Point(float(mu), seconds, *task.halves(scores(float(mu), alpha)))


def fair_pca(task: Task) -> Iterator[Point]:
    """Kernel components uncorrelated with S, then ridge or logistic regression.

    The dial is the number of components. They are ordered, so one fit with all contains the others.
    """
    fit, new = task.fit, task.new
    params: dict[str, Any] = {
        "kernel": "rbf",
        "gamma": task.gamma,
        "criterion": task.criterion,
        "n_landmarks": task.landmarks,
        "random_state": 0,
    }

    def make(size: int) -> FairPCA:
        return FairPCA(size, **params).fit(fit.X, fit.y, sensitive_features=fit.S)

    first = make(1)
    size = _n_components(first.feature_map_.coordinates(fit.X)) - first.n_removed_
    pca, seconds = timed(make, size)
    Z, Z_new = pca.transform(fit.X), pca.transform(new.X)
    C = best_c(Z, fit.y) if task.classifies else None
    for k in np.geomspace(size, 2, task.points).round().astype(int):
        model, more = timed(head, Z[:, :k], fit.y, C)
        scores = head_scores(model, Z_new[:, :k])
        yield Point(float(k), seconds + more, *task.halves(scores))


def _n_components(psi: Array) -> int:
    """Number of directions with variance, the largest number of components FairPCA accepts.

    FairPCA's threshold is 1e-12 of the total variance; twice that is safe, because after r
    directions are removed the k-th eigenvalue is at least the (k + r)-th before.
    """
    values = np.linalg.eigvalsh(np.cov(psi, rowvar=False, bias=True))
    return int(np.sum(values > 2e-12 * values.sum()))


def laftr_gp(task: Task) -> Iterator[Point]:
    """A Gaussian process on LAFTR's representation; one sweep trains all fairness weights."""
    import torch

    from fairspan_lab.baselines import LAFTRGP, laftr_sweep

    torch.set_num_threads(1)
    fit, new = task.fit, task.new
    base = LAFTRGP(
        LONG[task.criterion],
        epochs=QUICK_EPOCHS if task.quick else LAFTR_EPOCHS,
        n_restarts=0,
        max_hyper_rows=500,
        random_state=0,
    )
    weights = [0.0, *np.geomspace(0.05, 8.0, task.points - 1)]
    models, training = timed(
        laftr_sweep, base, fit.X, fit.y, sensitive_features=fit.S, fair_weights=weights
    )
    for weight in weights:
        model, process = timed(next, models)
        scores = model.decision_function(new.X, sensitive_features=new.S)
        # A sweep takes as long as two or three trainings, so an equal share is a lower bound.
        seconds = training / len(weights) + process
        yield Point(float(weight), seconds, *task.halves(scores))
