"""Fits that are private in S: ``python -m tools.sensitive_privacy [--draws 10] [--fits 2000]``.

*Adult*: sex, 30,000 training rows of random splits, 500 landmarks, delta 1e-6; |correlation| of the score
with sex and error among the other 18,842 rows at fairness 1, without privacy and at epsilon 1 and .5.

*Audit*: a lower bound, with 95 % confidence, on the epsilon of a fit that claims 1 at delta 1e-5. Two tables
of 400 rows differ in the group of the row that a fit shows most of. Each is fitted many times. A linear
discriminant of all that leaves a fit (sums with noise, covariances, predictions) is learnt on half of the
fits, and so is its best threshold; how often it is right is counted on the other half (Clopper and Pearson
1934). The same attack on noise divided by 10 must find more than the claim, so it could have failed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import scipy.stats
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fairspan import FairRidge, FairRidgeClassifier, datasets, table_encoder
from fairspan.method.privacy import SensitiveRows
from tools.calibration import data_home
from tools.table import Measurement, at_least, at_most, show

Array = NDArray[np.float64]

TRAINING_ROWS, LANDMARKS = 30_000, 500
LIMITS = {1.0: 0.041, 0.5: 0.08}
# Audit: the claim, and the noise that must be found out.
EPSILON, DELTA, DIVISOR = 1.0, 1e-5, 10.0


def adult_run(seed: int) -> dict[float | None, dict[str, float]]:
    """One split of Adult; None is the fit without privacy."""
    table = datasets.fetch_adult(data_home=data_home())
    y, sex = (np.asarray(column) for column in (table.target, table.sensitive_features["sex"]))
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:TRAINING_ROWS], order[TRAINING_ROWS:]
    encoder = table_encoder(table.data).fit(table.data.iloc[train])
    X, Z = (encoder.transform(table.data.iloc[rows]) for rows in (train, test))
    group = (sex[test] == "Male").astype(np.float64)
    out: dict[float | None, dict[str, float]] = {}
    for epsilon in (None, *LIMITS):
        private: dict[str, Any] = {}
        if epsilon is not None:
            private = {"epsilon_sensitive": epsilon, "sensitive_groups": ["Female", "Male"]}
        model = FairRidgeClassifier(
            n_components=LANDMARKS, gamma="median", random_state=seed, **private
        )
        model.fit(X, y[train], sensitive_features=sex[train])
        free = model.at(0.0)
        block = model.certificate_.new_rows.blocks[0]
        signed = float(np.corrcoef(model.decision_function(Z), group)[0, 1])
        out[epsilon] = {
            "fair": abs(signed),
            "free": abs(float(np.corrcoef(free.decision_function(Z), group)[0, 1])),
            "error": float(np.mean(model.predict(Z) != y[test])),
            # The correlation of the test rows has a standard error of its own.
            "covered": float(
                abs(signed)
                <= block.correlation + 1.96 * np.hypot(block.standard_error, len(test) ** -0.5)
            ),
        }
    return out


def adult(draws: int) -> Iterator[Measurement]:
    """Dependence and error on Adult."""
    runs = [adult_run(seed) for seed in range(draws)]

    def mean(epsilon: float | None, name: str) -> float:
        return float(np.mean([run[epsilon][name] for run in runs]))

    plain = mean(None, "error")
    yield at_least("Adult, |corr| unconstrained", mean(None, "free"), 0.25)
    yield at_most("Adult, |corr| not private", mean(None, "fair"), 0.041)
    yield at_most("Adult, error not private", plain, 0.2)
    for epsilon, limit in LIMITS.items():
        name = f"Adult, epsilon {epsilon:g}"
        yield at_most(f"{name}, |corr|", mean(epsilon, "fair"), limit)
        yield at_most(f"{name}, error", mean(epsilon, "error"), plain + 0.005)
        yield at_least(
            f"{name}, share of splits within the interval", mean(epsilon, "covered"), 0.8
        )


# ------------------------------------------------------------------ audit


def neighbours(n: int = 400) -> tuple[Array, Array, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows, and groups that differ in row 0, whose functions are the longest of all rows."""
    rng = np.random.default_rng(0)
    group = np.arange(n) % 2
    X = np.clip(rng.normal(size=(n, 3)), -2.0, 2.0)
    X[:, 0] += 0.5 * group
    X[0] = 3.0
    y = X.sum(axis=1) + 0.3 * rng.normal(size=n)
    other = group.copy()
    other[0] = 1 - other[0]
    return X, y, (group, other)


def all_that_leaves(model: Any, X: Array) -> Array:
    """Sums with noise, covariances and predictions of a fitted model, as one vector."""
    moments, fit = model.moments_, model._solution.new_rows
    weights = moments.level_weight.sum(axis=0)
    sums = moments.level_weight.sum(axis=0)[:, None] * (moments.level_mean[0] - moments.mean[0])
    parts = [weights[:1], sums.ravel(), fit.last[:2].ravel(), model.predict(X[:2])]
    parts += [block.cov.ravel() for block in fit.blocks]
    parts += [fit.code_functions[0].ravel(), model.at(0.0).predict(X[:2])]
    return np.concatenate(parts)


def fits(n_fits: int, divisor: float) -> list[Array]:
    """Everything that leaves the fits of both tables, (fits, numbers) for each."""
    X, y, groups = neighbours()
    original = SensitiveRows._noise

    def noise(rows: SensitiveRows, shape: tuple[int, ...], sd: float) -> Array:
        return original(rows, shape, sd) / divisor

    out = []
    private = {
        "epsilon_sensitive": EPSILON,
        "delta_sensitive": DELTA,
        "sensitive_groups": [0, 1],
    }
    with mock.patch.object(SensitiveRows, "_noise", noise), threadpool_limits(1):
        for group in groups:
            found = []
            for _ in range(n_fits):
                model = FairRidge("linear", alpha=1.0, **private)
                found.append(all_that_leaves(model.fit(X, y, sensitive_features=group), X))
            out.append(np.array(found))
    return out


def lower_bound(first: Array, second: Array) -> float:
    """Lower bound on epsilon, with 95 % confidence, of an attack that tells two samples of fits apart."""
    half = len(first) // 2
    # Ranks are robust against ratios of noise.
    both = np.concatenate([first, second])
    scores = scipy.stats.norm.ppf((scipy.stats.rankdata(both, axis=0) - 0.5) / len(both))
    first, second = scores[: len(first)], scores[len(first) :]
    mean = first[:half].mean(axis=0) - second[:half].mean(axis=0)
    spread = np.cov(np.concatenate([first[:half] - mean, second[:half]]).T)
    direction = np.linalg.lstsq(spread, mean, rcond=1e-6)[0]
    a, b = first @ direction, second @ direction
    thresholds = np.quantile(np.concatenate([a[:half], b[:half]]), np.linspace(0.02, 0.98, 97))
    events = [
        (sign, threshold)
        for threshold in thresholds
        for sign in (1.0, -1.0)  # "the first table" above it, or "the second" below it
    ]

    def bound(sign: float, threshold: float, rows: slice) -> float:
        hit, false = (a, b) if sign > 0.0 else (b, a)
        rates = [int((sign * (x[rows] - threshold) > 0.0).sum()) for x in (hit, false)]
        n = len(a[rows])
        low = scipy.stats.beta.ppf(0.025, rates[0], n - rates[0] + 1) if rates[0] else 0.0
        high = scipy.stats.beta.ppf(0.975, rates[1] + 1, n - rates[1]) if rates[1] < n else 1.0
        return float(np.log(max(low - DELTA, 1e-300) / high))

    best = max(events, key=lambda event: bound(*event, slice(0, half)))
    return max(bound(*best, slice(half, None)), 0.0)


def audit(n_fits: int) -> Iterator[Measurement]:
    """Lower bounds on epsilon, of the noise that a fit adds and of a tenth of it."""
    yield at_most("audit, epsilon found of a claim of 1", lower_bound(*fits(n_fits, 1.0)), EPSILON)
    name = f"audit, epsilon found with noise / {DIVISOR:g}"
    yield at_least(name, lower_bound(*fits(n_fits, DIVISOR)), EPSILON)


def measure(draws: int, n_fits: int) -> Iterator[Measurement]:
    """All rows of the table."""
    yield from adult(draws)
    yield from audit(n_fits)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--fits", type=int, default=2000)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raise SystemExit(show(measure(options.draws, options.fits)))
