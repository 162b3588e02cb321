"""Coverage of 90 % intervals on new rows: of the Gaussian process, and conformal ones by group."""

from __future__ import annotations

import numpy as np

from fairspan import FairGPRegressor, FairRidge
from tools.promise_populations import noisy, people

SIZES = (60, 120, 250, 500)
NAMES = ("people", "heavy", "steps", "direct")
ENDS = (0.0, 1.0)
NEW_ROWS = 2_000
CONFORMAL_DRAWS = 200
Z90 = 1.6448536269514722


def row_names(name: str, n: int) -> list[str]:
    """Rows of the table that one draw of a population fills."""
    return [f"{name}({n}), fairness {fairness:g}" for fairness in ENDS]


def coverage(name: str, n: int, seed: int) -> dict[str, dict[str, float]]:
    """Share of new rows inside the intervals at both ends of the dial; one fit serves both."""
    X, y, s = noisy(name, n, np.random.default_rng(seed))
    Z, z, t = noisy(name, NEW_ROWS, np.random.default_rng(10_000 + seed))
    model = FairGPRegressor(random_state=0).fit(X, y, sensitive_features=s)
    out = {}
    for fairness, label in zip(ENDS, row_names(name, n), strict=True):
        mean, std = model.at(fairness).predict(Z, return_std=True)
        inside = np.abs(z - mean) <= Z90 * std
        out[label] = {
            "coverage": float(inside.mean()),
            "coverage_0": float(inside[t == 0].mean()),
            "coverage_1": float(inside[t == 1].mean()),
        }
    return out


def conformal(seed: int) -> dict[str, dict[str, float]]:
    """Coverage of intervals calibrated by group on 200 rows, in each group."""
    X, y, s = people(1000, 0.3, np.random.default_rng(seed))
    model = FairRidge(random_state=0).fit(X, y, sensitive_features=s)
    rows, target, groups = people(200, 0.3, np.random.default_rng(20_000 + seed))
    Z, z, t = people(20_000, 0.3, np.random.default_rng(10_000 + seed))
    calibrated = model.conformalize(rows, target, sensitive_features=groups)
    low, high = calibrated.predict_interval(Z, 0.9, sensitive_features=t).T
    inside = (low <= z) & (z <= high)
    return {
        f"conformal, group {group}": {"coverage": float(inside[t == group].mean())}
        for group in (0, 1)
    }
