"""Compare priors on the model space M and on all of F: ``python -m tools.subspace_priors``.

Planted data: a smooth function of four features, two of them shifted by S, in numbers and as labels.
Held out: error, log density of the truth, coverage of 90 % intervals, log loss; means over 20 draws.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.stats
from sklearn.metrics import log_loss

from fairspan import FairGPClassifier, FairGPRegressor

N_DRAWS, N_NEW = 20, 2000
SIZES = (60, 120, 250, 1000)
SUBSPACES = ("model", "fair")


def draw(n: int, seed: int) -> tuple[Any, ...]:
    """Features, numbers, labels and groups of training rows and new ones."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n + N_NEW)
    X = rng.normal(size=(len(s), 4)) + 0.7 * s[:, None] * [1.0, 1.0, 0.0, 0.0]
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + np.cos(1.5 * X[:, 3])
    y = f + 0.4 * rng.normal(size=len(s))
    labels = (2.0 * f + rng.logistic(size=len(s)) > 1.0).astype(int)
    return X[:n], y[:n], labels[:n], s[:n], X[n:], y[n:], labels[n:]


def measure(n: int, fairness: float) -> dict[str, dict[str, float]]:
    """Means over draws, for each subspace."""
    out: dict[str, dict[str, list[float]]] = {name: {} for name in SUBSPACES}
    for seed in range(N_DRAWS):
        X, y, labels, s, new, truth, new_labels = draw(n, seed)
        for name in SUBSPACES:
            params = {
                "subspace": name,
                "fairness": fairness,
                "removal": "training_rows",
                "gamma": "median",
                "random_state": 0,
            }
            mean, std = (
                FairGPRegressor(**params)
                .fit(X, y, sensitive_features=s)
                .predict(new, return_std=True)
            )
            z = (truth - mean) / std
            classifier = FairGPClassifier(**params).fit(X, labels, sensitive_features=s)
            found = {
                "RMSE": np.sqrt(np.mean((truth - mean) ** 2)),
                "log density": np.mean(scipy.stats.norm.logpdf(z) - np.log(std)),
                "coverage, %": 100.0 * np.mean(np.abs(z) < scipy.stats.norm.ppf(0.95)),
                "log loss": log_loss(new_labels, classifier.predict_proba(new)),
            }
            for what, value in found.items():
                out[name].setdefault(what, []).append(float(value))
    return {
        name: {what: float(np.mean(values)) for what, values in found.items()}
        for name, found in out.items()
    }


def main() -> None:
    """Print a table in Markdown."""
    warnings.simplefilter("ignore")
    print("| rows | fairness | prior on | RMSE | log density | 90 % intervals cover | log loss |")
    print("|---|---|---|---|---|---|---|")
    for n in SIZES:
        for fairness in (0.5, 1.0):
            for name, found in measure(n, fairness).items():
                print(
                    f"| {n} | {fairness:g} | {name} | {found['RMSE']:.3f} | "
                    f"{found['log density']:.2f} | {found['coverage, %']:.1f} % | "
                    f"{found['log loss']:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
