"""Plain models, fitted on transformed features or reweighted by a reduction."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import StratifiedKFold, cross_val_score

from fairspan.method.linalg import Array

__all__ = ["best_c", "boosted", "logistic", "three_folds"]

# Inverse penalties to choose from.
_CS = tuple(10.0**k for k in range(-2, 4))
_RIDGES = np.logspace(-3, 4, 15)


def three_folds() -> StratifiedKFold:
    """Folds for the penalties of logistic regressions and support vector machines."""
    return StratifiedKFold(3, shuffle=True, random_state=0)


def logistic(C: float) -> LogisticRegression:
    """Logistic regression by Newton's method, since there are fewer columns than rows."""
    return LogisticRegression(C=C, solver="newton-cholesky", max_iter=200)


def boosted() -> HistGradientBoostingClassifier:
    """Boosted trees, stopped early: half of the rows train those of LinearPost."""
    return HistGradientBoostingClassifier(
        max_leaf_nodes=15, learning_rate=0.1, early_stopping=True, random_state=0
    )


def best_c(X: Array, y: Array) -> float:
    """Inverse penalty of a logistic regression, by three-fold accuracy."""

    def accuracy(C: float) -> float:
        return float(cross_val_score(logistic(C), X, y, cv=three_folds()).mean())

    return max(_CS, key=accuracy)


def head(X: Array, y: Array, C: float | None) -> Any:
    """Fit a ridge regression with leave-one-out penalty, or a logistic regression if C is given."""
    if C is None:
        return RidgeCV(alphas=_RIDGES).fit(X, y)
    return logistic(C).fit(X, y)


def head_scores(model: Any, X: Array) -> Array:
    """Predictions, or log odds."""
    return np.asarray(
        model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)
    )
