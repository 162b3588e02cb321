"""Sparse X and other tools: equality, time and memory: ``python -m tools.reach_works``.

Tables of words are drawn: 60 words per row, most of them frequent ones, with weights of tf-idf. The fit of
a table is timed once and traced once more for its memory. Six minutes on one core.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import TfidfTransformer

from fairspan import (
    FairGPClassifier,
    FairGPRegressor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
)
from tools.table import Measurement, at_least, at_most, show, suite

EQUAL = 1e-10
_WORDS = 60
# Rows and columns, the longest time of a fit in seconds, and its largest memory in MB.
TABLES = (
    (20_000, 50_000, 60.0, 1000.0),
    (1000, 50_000, 30.0, 1000.0),
    (20_000, 2000, 120.0, 1500.0),
)


def words(n: int, p: int, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """A table of words, classes, numbers to predict, and two groups with words of their own."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    columns = (rng.pareto(0.6, size=(n, _WORDS)) * 3).clip(max=p - 1).astype(np.int64)
    columns[:, :3] = rng.integers(0, 10, size=(n, 3)) + 10 * s[:, None]
    where = (np.repeat(np.arange(n), _WORDS), columns.ravel())
    counts = scipy.sparse.csr_array((np.ones(n * _WORDS), where), shape=(n, p))
    X = TfidfTransformer().fit_transform(counts)
    score = X @ rng.normal(size=p)
    score = score + rng.normal(size=n) * score.std()
    return X, (score > np.median(score)).astype(int), score, s


def measurements() -> Iterator[Measurement]:
    """Rows of the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield at_most("sparse fits: largest difference to dense fits", _largest_difference(), EQUAL)
        for n, p, seconds, megabytes in TABLES:
            yield from _cost(n, p, seconds, megabytes)
        yield from _accuracy_of_landmarks()
    yield from suite("other tools", ["tests/test_works_with.py", "-m", ""], 54)


def _largest_difference() -> float:
    """Of predictions at three dial values, relative to their spread."""
    X, y, score, s = words(2000, 300)
    X_new, *_ = words(500, 300, seed=1)
    largest = 0.0
    for estimator in (
        FairRidge,
        FairRidgeClassifier,
        FairRepresentation,
        FairGPRegressor,
        FairGPClassifier,
    ):
        target = score if estimator in (FairRidge, FairGPRegressor) else y
        method = "transform" if estimator is FairRepresentation else "predict"
        method = "decision_function" if hasattr(estimator, "decision_function") else method
        fits = [
            estimator(kernel="linear").fit(rows, target, sensitive_features=s)
            for rows in (X, X.toarray())
        ]
        for fairness in (0.0, 0.5, 1.0):
            sparse, dense = (
                getattr(model.at(fairness), method)(rows)
                for model, rows in zip(fits, (X_new, X_new.toarray()), strict=True)
            )
            largest = max(largest, float(np.abs(sparse - dense).max() / dense.std()))
    return largest


def _accuracy_of_landmarks() -> Iterator[Measurement]:
    """R2 on new rows with 1,000 rows as landmarks, and with all 2,500 rows, which lose nothing.

    A table of words with few that are frequent, and one whose columns are alike.
    """
    X, _, score, s = words(3500, 5000)
    rng = np.random.default_rng(0)
    alike = scipy.sparse.random(3500, 5000, density=0.01, random_state=0, format="csr")
    signal = alike @ rng.normal(size=5000)
    signal = signal + 0.3 * signal.std() * rng.normal(size=3500)
    for name, rows, target, least in (
        ("words", X, score, (0.25, 0.25)),
        ("columns alike", alike, signal, (0.1, 0.35)),
    ):
        for n_landmarks, limit in zip((1000, "all"), least, strict=True):
            model = FairRidge("linear", fairness=0.0, n_components=n_landmarks)
            model.fit(rows[:2500], target[:2500], sensitive_features=s[:2500])
            found = model.score(rows[2500:], target[2500:])
            yield at_least(f"{name}, 5,000 columns: R2 with {n_landmarks} landmarks", found, limit)


def _cost(n: int, p: int, seconds: float, megabytes: float) -> Iterator[Measurement]:
    X, y, _, s = words(n, p)
    name = f"{n:,} rows of {p:,} words"
    start = time.perf_counter()
    model = FairRidgeClassifier(kernel="linear").fit(X, y, sensitive_features=s)
    yield at_most(f"{name}: seconds of a fit", time.perf_counter() - start, seconds)
    start = time.perf_counter()
    model.predict(X)
    yield at_most(f"{name}: seconds of its predictions", time.perf_counter() - start, 5.0)
    tracemalloc.start()
    FairRidgeClassifier(kernel="linear").fit(X, y, sensitive_features=s)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    yield at_most(f"{name}: MB of a fit ({8 * n * p / 1e6:,.0f} dense)", peak / 1e6, megabytes)


if __name__ == "__main__":
    sys.exit(show(measurements()))
