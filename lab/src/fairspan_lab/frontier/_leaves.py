"""Ridge penalty on the leaves of boosted trees that are grown on all rows."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from fairspan import BoostedLeaves
from fairspan.method.linalg import Array

__all__ = ["best_alpha"]

# Ridges to choose from, in the units of scikit-learn's Ridge.
_ALPHAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


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
