"""Time of a whole path relative to its fit: ``python -m benchmarks.paths``.

CPU time of one BLAS thread, the quickest of interleaved repeats: 100 dial values evaluated on held-out
rows, a tenth as many as were trained on, over the fit.
"""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fairspan import (
    FairGPClassifier,
    FairGPRegressor,
    FairnessPath,
    FairRidge,
    FairRidgeClassifier,
)

N_ROWS, N_HELD_OUT, N_COMPONENTS, N_POINTS = 50_000, 5_000, 1000, 100
REPEATS = 4


def make(n: int = N_ROWS + N_HELD_OUT, seed: int = 0) -> tuple[Any, Any, Any]:
    """Ten features, three of them shifted by a binary S; y depends on both kinds."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 10)) + 0.5 * s[:, None] * (np.arange(10) < 3)
    y = X[:, 0] + np.sin(X[:, 4]) + 0.5 * rng.normal(size=n)
    return X, y, s


def cpu(work: Callable[..., Any], *args: Any, **params: Any) -> float:
    """CPU seconds of a call."""
    began = time.process_time()
    work(*args, **params)
    return time.process_time() - began


def path_over_fit(repeats: int = REPEATS) -> dict[str, float]:
    """``(fit + path) / fit`` for every head."""
    X, y, s = make()
    two, three = (y > 0.3).astype(int), np.digitize(y, [-0.5, 1.0])
    heads = {
        "FairRidge": (FairRidge, y),
        "FairGPRegressor": (FairGPRegressor, y),
        "FairRidgeClassifier": (FairRidgeClassifier, two),
        "FairGPClassifier, gaussian": (GaussianClassifier, two),
        "FairGPClassifier, two classes": (FairGPClassifier, two),
        "FairGPClassifier, three classes": (FairGPClassifier, three),
    }
    fits, paths = dict.fromkeys(heads, np.inf), dict.fromkeys(heads, np.inf)
    train, test = slice(0, N_ROWS), slice(N_ROWS, None)
    for _ in range(repeats):
        for name, (cls, target) in heads.items():
            model = cls(n_components=N_COMPONENTS, random_state=0)
            fit = cpu(model.fit, X[train], target[train], sensitive_features=s[train])
            path = cpu(
                FairnessPath.from_estimator,
                model,
                X[test],
                target[test],
                sensitive_features=s[test],
                n_points=N_POINTS,
            )
            # Take the minimum, since other processes can only add time.
            fits[name], paths[name] = min(fits[name], fit), min(paths[name], path)
    return {name: 1.0 + paths[name] / fits[name] for name in heads}


def GaussianClassifier(**params: Any) -> FairGPClassifier:  # noqa: N802 - stands for a class
    """The paper's likelihood."""
    return FairGPClassifier(likelihood="gaussian", **params, removal="training_rows")


def bytes_per_row(few: int = 20_000, many: int = 80_000) -> dict[str, float]:
    """Memory per row of ``predict(return_std=True)``, without X."""
    X, y, s = make(many)
    out = {}
    for subspace in ("model", "fair"):
        model = FairGPRegressor(
            subspace=subspace, gamma=0.05, n_components=500, random_state=0, removal="training_rows"
        )
        model.fit(X[:5000], y[:5000], sensitive_features=s[:5000])
        peaks = []
        for n in (few, many):
            tracemalloc.start()
            model.predict(X[:n], return_std=True)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        out[subspace] = (peaks[1] - peaks[0]) / (many - few)
    return out


def main() -> None:
    """Print both."""
    warnings.simplefilter("ignore")
    for name, ratio in path_over_fit().items():
        print(f"(fit + path) / fit, {name:<34} {ratio:.3f}")
    for name, size in bytes_per_row().items():
        print(f"bytes per row of predict with std, {name:<20} {size:.0f}")


if __name__ == "__main__":
    main()
