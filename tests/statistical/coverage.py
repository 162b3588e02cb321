"""How often a 90 % predictive interval of the fair Gaussian process holds the y of a new row."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.linalg
import scipy.stats

from fairspan import FairGPRegressor, NumericalWarning
from tests.golden.oracle import rbf

GAMMA = 0.15
NOISE = 0.5
LEVEL = 0.9


def planted(
    fairness: float, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (x, y, s) of a world in which the model at this end of the dial is the true one.

    S shifts one of two features. f is drawn from the process whose kernel the model uses. Fairness
    0: f sees both features. Fairness 1: f sees the feature that S leaves alone, so it is fair, and S
    adds to y what no fair model can follow, a part of the noise.
    """
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 2))
    X[:, 1] += 1.0 * s
    seen = X if fairness == 0.0 else X[:, :1]
    K = rbf(seen, seen, GAMMA)
    f = scipy.linalg.cholesky(K + 1e-9 * np.eye(n), lower=True) @ rng.normal(size=n)
    y = 2.0 + f + NOISE * rng.normal(size=n)
    if fairness == 1.0:
        y += 0.3 * (s - 0.5)
    return X, y, s


def covered(subspace: str, fairness: float, n: int, n_new: int, rng: np.random.Generator) -> float:
    """Share of new rows inside their interval, for one draw of f, of the rows and of the noise."""
    X, y, s = planted(fairness, n + n_new, rng)
    params = {"gamma": GAMMA, "random_state": 0, "removal": "training_rows"}
    est = FairGPRegressor(subspace=subspace, fairness=fairness, **params)
    with warnings.catch_warnings():
        # A smooth draw of f on few rows.
        warnings.filterwarnings("ignore", "The evidence chose a ridge", NumericalWarning)
        est.fit(X[:n], y[:n], sensitive_features=s[:n])
    mean, std = est.predict(X[n:], return_std=True)
    half = scipy.stats.norm.ppf((1.0 + LEVEL) / 2.0) * std
    return float(np.mean(np.abs(y[n:] - mean) <= half))


def coverage(
    subspace: str,
    fairness: float,
    n_replicates: int = 200,
    n: int = 200,
    n_new: int = 200,
    seed: int = 0,
) -> float:
    """Mean share of new rows inside their 90 % interval."""
    rates = [
        covered(subspace, fairness, n, n_new, np.random.default_rng([seed, i]))
        for i in range(n_replicates)
    ]
    return float(np.mean(rates))
