"""Feature map from the leaves of boosted trees."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.model_selection import KFold
from sklearn.preprocessing import OneHotEncoder

from fairspan.method.linalg import Array

__all__ = ["BoostedLeaves", "best_alpha"]

# Ridges to choose from, in the units of scikit-learn's Ridge.
_ALPHAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class BoostedLeaves(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Indicators of the leaf of each row, for all trees of a boosted ensemble.

    Their inner product is the share of trees in which two rows are in the same leaf. A linear model on
    them is thus a kernel machine with a kernel learnt from y.

    Parameters
    ----------
    classes : bool
        Whether the target is a class label.
    n_trees : int, default=80
        Trees of at most 8 leaves (depth 3).
    subsample : float, default=0.5
        Share of the rows that each tree is grown on.
    learning_rate : float, default=0.1
        Shrinkage of each tree.
    random_state : int, default=0
        Seed of the subsamples.
    """

    def __init__(
        self,
        classes: bool,
        *,
        n_trees: int = 80,
        subsample: float = 0.5,
        learning_rate: float = 0.1,
        random_state: int = 0,
    ) -> None:
        self.classes = classes
        self.n_trees = n_trees
        self.subsample = subsample
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the trees."""
        cls = GradientBoostingClassifier if self.classes else GradientBoostingRegressor
        self.model_ = cls(
            n_estimators=self.n_trees,
            max_depth=3,
            subsample=self.subsample,
            learning_rate=self.learning_rate,
            random_state=self.random_state,
        ).fit(X, y)
        self.encoder_ = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        self.encoder_.fit(self._leaves(X))
        return self

    def transform(self, X: Any) -> Array:
        """Indicators, scaled to unit length."""
        return np.asarray(self.encoder_.transform(self._leaves(X)) / np.sqrt(self.n_trees))

    def _leaves(self, X: Any) -> Array:
        return np.asarray(self.model_.apply(X)).reshape(len(X), -1)


def best_alpha(trees: BoostedLeaves, X: Array, y: Array) -> float:
    """Ridge penalty on the leaves by three-fold squared error, with new trees in each fold.

    The estimator's own folds would use leaves grown from all of y and choose too small a penalty.
    """
    loss = np.zeros(len(_ALPHAS))
    for train, held_out in KFold(3, shuffle=True, random_state=0).split(X):
        grown = clone(trees).fit(X[train], y[train])
        Z, Z_new = grown.transform(X[train]), grown.transform(X[held_out])
        centre, mean = Z.mean(axis=0), y[train].mean()
        values, vectors = np.linalg.eigh((Z - centre).T @ (Z - centre))
        cross = vectors.T @ ((Z - centre).T @ (y[train] - mean))
        rotated = (Z_new - centre) @ vectors
        for i, alpha in enumerate(_ALPHAS):
            predicted = mean + rotated @ (cross / (np.maximum(values, 0.0) + alpha))
            loss[i] += float(np.sum((predicted - y[held_out]) ** 2))
    return _ALPHAS[int(np.argmin(loss))]
