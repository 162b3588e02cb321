"""Rows whose first two columns are shifted by a group, for tests of learners."""

import numpy as np
import pytest


def table(n=500, seed=0, classes=2):
    """X, y and group; y is a class, or a number with ``classes=0``."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3))
    X[:, :2] += 0.7 * s[:, None]
    y = X.sum(axis=1) + rng.normal(size=n)
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    return X, y, s


def frame(n=500):
    """The same as a frame with text, booleans and missing values."""
    pd = pytest.importorskip("pandas")
    X, y, s = table(n)
    rng = np.random.default_rng(1)
    town = np.where(X[:, 0] > 0.3, "north", np.where(X[:, 1] > 0, "south", "west"))
    out = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "town": town, "flag": X[:, 2] > 0})
    out.loc[rng.random(n) < 0.1, "a"] = np.nan
    return out, y, s
