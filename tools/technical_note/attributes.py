"""Several attributes: one line for all, or one multiplier each."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from fairspan import FairRidge
from tools.table import Measurement, at_least, at_most

LIMIT = 0.1


@dataclass(frozen=True)
class Fit:
    """Training rows: mean squared error, largest |correlation| with an attribute."""

    error: float
    worst: float


@cache
def separate() -> dict[str, Fit]:
    """Three binary attributes: no limit, on the line, limits of their own, the fair end."""
    rng = np.random.default_rng(0)
    n = 600
    s = {name: rng.integers(0, 2, n) for name in "abc"}
    X = rng.normal(size=(n, 4))
    X[:, :3] += np.column_stack([1.2 * s["a"], 0.6 * s["b"], 0.3 * s["c"]])
    y = X @ [1.0, 0.8, 0.6, 1.0] + rng.normal(size=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = FairRidge(
            gamma=0.05, alpha=1.0, n_components=80, removal="training_rows", random_state=0
        )
        est.fit(X, y, sensitive_features=s)
        models = {
            "no limit": est.at(0.0),
            "on the line": est.at(max_correlation=LIMIT),
            "one limit each": est.at(max_correlation=dict.fromkeys(s, LIMIT)),
            "fair end": est.at(1.0),
        }
    out = {}
    for name, model in models.items():
        f = model.predict(X)
        worst = max(abs(np.corrcoef(f, v)[0, 1]) for v in s.values())
        out[name] = Fit(float(np.mean((y - f) ** 2)), float(worst))
    return out


def table() -> list[str]:
    """One line for three attributes, or one multiplier each."""
    lines = ["| model | mean squared error | largest correlation |", "|---|---|---|"]
    for name, x in separate().items():
        worst = x.worst if x.worst > 1e-6 else 0.0
        lines.append(f"| {name} | {x.error:.3f} | {worst:.3f} |")
    return lines


def claims() -> Iterator[Measurement]:
    """Separate limits cost less at the same worst correlation."""
    line, limits = (separate()[name] for name in ("on the line", "one limit each"))
    yield at_most("largest correlation, limit .1 kept", max(line.worst, limits.worst), 0.101)
    saved = line.error - limits.error
    yield at_least("mean squared error saved by limits of their own", saved, 0.1)
