"""Rows with a number to predict and two groups, and parameters of a quick fit."""

import numpy as np

FEW = {"gamma": 0.3, "alpha": 1.0, "eta": 1e-3, "n_components": 30, "random_state": 0}
N = 160


def rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) + 0.8 * s[:, None]
    return X, X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=n), s
