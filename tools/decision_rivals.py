"""Other rules for equal decisions, on the scores of one fit, for ``python -m tools.decisions_tables price``.

*EG*: fairlearn's exponentiated gradient over kernel ridge classifiers with the landmarks and the ridge
penalty of our unconstrained fit. Principal axes with less than 1e-4 of the variance are dropped, because
every reduction fits up to 50 classifiers. Several attributes are one attribute of their intersections:
fairlearn has no limits for each. Its decisions are random, so rates and errors are expected ones.

*LinearPost*: the linear program that makes rates equal as far as the predicted codes say, with no
recalibration on real rates (Xian and Zhao 2024): `fairspan_lab.baselines.linear_post`.

*Thresholds*: fairlearn's ThresholdOptimizer on the same probabilities. It reads the attribute when it
decides, and makes rates equal as far as it can.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator, ClassifierMixin

# Share of the variance below which a principal axis is dropped.
_AXIS = 1e-4


class RidgeBase(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Weighted ridge regression of y = -1 or 1 on given coordinates, with a constant.

    Parameters
    ----------
    penalty : of the mean of squares, as in the fit that the coordinates are from.
    """

    def __init__(self, penalty: float = 1e-3) -> None:
        self.penalty = penalty

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RidgeBase:
        """Fit on 0 and 1."""
        X, y = np.asarray(X), np.asarray(y, dtype=float)
        w = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        w = w / w.sum()
        mean, middle = w @ X, float(w @ y)
        Z = X - mean
        cov = (Z * w[:, None]).T @ Z + self.penalty * np.eye(X.shape[1])
        self.coef_ = scipy.linalg.solve(cov, Z.T @ (w * (y - middle)), assume_a="pos")
        self.intercept_ = middle - float(mean @ self.coef_)
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X: Any) -> Any:
        """1 where more than one half is predicted."""
        return (np.asarray(X) @ self.coef_ + self.intercept_ > 0.5).astype(int)


def coordinates(model: Any, X: Any, X_new: Any) -> tuple[Any, Any]:
    """Coordinates of the kernel of a fit on its principal axes, for training rows and new ones."""
    psi = model._coordinates(X)
    values, vectors = np.linalg.eigh(np.cov(psi, rowvar=False))
    axes = vectors[:, values > _AXIS * values.sum()]
    return psi @ axes, model._coordinates(X_new) @ axes


def reductions(
    estimator: Any, X: Any, y: Any, s: Any, X_new: Any, criterion: str, bounds: Iterable[float]
) -> Iterable[Any]:
    """Probabilities of deciding 1 for new rows, at each limit on the gap."""
    from fairlearn import reductions as of_fairlearn

    moments = {"statistical_parity": "DemographicParity", "equalized_odds": "EqualizedOdds"}
    for bound in bounds:
        moment = getattr(of_fairlearn, moments[criterion])(difference_bound=float(bound))
        model = of_fairlearn.ExponentiatedGradient(estimator, moment)
        model.fit(X, y, sensitive_features=s)
        used = [(k, weight) for k, weight in model.weights_.items() if weight > 0.0]
        yield sum(weight * model.predictors_[k].predict(X_new) for k, weight in used)


def thresholds(p: Any, y: Any, s: Any, p_new: Any, s_new: Any, criterion: str) -> Any:
    """Probability of deciding 1 for new rows, with thresholds by group on given probabilities."""
    from fairlearn.postprocessing import ThresholdOptimizer

    names = {"statistical_parity": "demographic_parity", "equalized_odds": "equalized_odds"}
    model = ThresholdOptimizer(
        estimator=_Given(),
        constraints=names[criterion],
        prefit=True,
        predict_method="predict_proba",
    )
    model.fit(np.asarray(p)[:, None], y, sensitive_features=s)
    return model._pmf_predict(np.asarray(p_new)[:, None], sensitive_features=s_new)[:, 1]


class _Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Probabilities that are the only column."""

    classes_ = np.array([0, 1])

    def fit(self, X: Any, y: Any) -> _Given:  # noqa: ARG002
        """Nothing to learn."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Any) -> Any:
        """Both columns."""
        p = np.asarray(X)[:, 0]
        return np.column_stack([1.0 - p, p])
