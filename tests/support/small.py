"""A table small enough to fit in milliseconds, for the tests of the contract."""

from typing import NamedTuple

import numpy as np

from fairspan import FairRepresentation

# Nothing automatic: a fit takes a few milliseconds.
FIXED = {"gamma": 0.5, "eta": 1e-3, "alpha": 1.0}


class Table(NamedTuple):
    X: np.ndarray
    y: np.ndarray  # two classes
    s: np.ndarray  # two groups, 0 and 1

    @property
    def names(self):
        return ["income", "debt", "age"]


def table(n=80, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) + s[:, None] * [1.0, 0.5, 0.0]
    y = (X[:, 0] + X[:, 2] + rng.normal(size=n) > 0.5).astype(int)
    return Table(X, y, s)


def fitted(**params):
    X, y, s = table()
    return FairRepresentation(**{**FIXED, **params}).fit(X, y, sensitive_features=s)
