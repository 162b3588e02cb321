"""Plain models that stand behind a transformation, or are what a reduction reweighs."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import StratifiedKFold, cross_val_score

from fairspan.method.linalg import Array

__all__ = ["best_c", "logistic", "three_folds"]

# Inverse penalties to choose from.
_CS = tuple(10.0**k for k in range(-2, 4))
_RIDGES = np.logspace(-3, 4, 15)


def three_folds() -> StratifiedKFold:
    """The folds that choose penalties of logistic regressions and support vector machines."""
    return StratifiedKFold(3, shuffle=True, random_state=0)


def logistic(C: float) -> LogisticRegression:
    """Logistic regression; Newton's method, as columns are always fewer than rows here."""
    return LogisticRegression(C=C, solver="newton-cholesky", max_iter=200)


def best_c(X: Array, y: Array) -> float:
    """Penalty of a logistic regression, by the accuracy of three folds."""

    def accuracy(C: float) -> float:
        return float(cross_val_score(logistic(C), X, y, cv=three_folds()).mean())

    return max(_CS, key=accuracy)


def head(X: Array, y: Array, C: float | None) -> Any:
    """A fitted head: ridge regression, its penalty left out one by one, or logistic with penalty C."""
    if C is None:
        return RidgeCV(alphas=_RIDGES).fit(X, y)
    return logistic(C).fit(X, y)


def head_scores(model: Any, X: Array) -> Array:
    """Predictions, or log odds."""
    return np.asarray(
        model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)
    )
