"""Receipts: how exactly parts add up, and what they cost: ``python -m tools.people_receipts``.

Estimators are fitted on three quarters of a table and explain the rest. Errors of sums are relative to the
largest score. Two minutes on two cores.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from fairspan import (
    FairClassifier,
    FairGPClassifier,
    FairGPRegressor,
    FairRegressor,
    FairRidge,
    FairRidgeClassifier,
    load_model,
    save_model,
)
from fairspan.datasets import load_diabetes, load_loans
from tools.table import Measurement, at_most, show

# Relative error of a sum, and of parts of a model that was saved without moments.
SUM = 1e-10
# Time of a receipt, in calls of the score.
CALLS = 4.0
_REPEATS = 5

Models = dict[str, Any]
CLASSIFIERS: Models = {
    "log odds": FairGPClassifier(random_state=0),
    "log odds, removal on the training rows": FairGPClassifier(
        random_state=0, removal="training_rows"
    ),
    "least squares, linear kernel": FairRidgeClassifier(kernel="linear"),
    "equalized odds": FairRidgeClassifier(criterion="equalized_odds", random_state=0),
    "decisions": FairGPClassifier(equalize="decisions", random_state=0),
    "two learners": FairClassifier(["linear", "kernel"], random_state=0),
}
REGRESSORS: Models = {
    "ridge": FairRidge(random_state=0),
    "ridge, removal on the training rows": FairRidge(random_state=0, removal="training_rows"),
    "process": FairGPRegressor(random_state=0),
    "learner": FairRegressor("linear", random_state=0),
}


def measurements() -> Iterator[Measurement]:
    """Rows of the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data, models in (
            ("loans", load_loans(), CLASSIFIERS),
            ("diabetes", load_diabetes(), REGRESSORS),
        ):
            parts = train_test_split(
                data.data, data.target, data.sensitive_features, random_state=0
            )
            for kind, model in models.items():
                yield from _of_model(f"receipts, {name}, {kind}", model, *parts)


def _of_model(
    name: str, model: Any, X: Any, X_new: Any, y: Any, _: Any, s: Any, __: Any
) -> Iterator[Measurement]:
    """Error of the sum at three dial values, of the columns, after saving; and the time."""
    model.fit(X, y, sensitive_features=s)
    sums, columns = [], []
    for fairness in (0.0, 0.5, 1.0):
        receipt = model.at(fairness).explain_fairness(X_new)
        size = max(np.abs(receipt.before).max(), np.abs(receipt.after).max())
        total = receipt.parts.sum(axis=1) + receipt.rescaling
        sums.append(np.abs(total - receipt.change).max() / size)
        if receipt.columns is not None:
            columns.append(np.abs(receipt.columns.sum(axis=2) - receipt.parts).max() / size)
    yield at_most(f"{name}: sum", max(sums), SUM)
    if columns:
        yield at_most(f"{name}: columns", max(columns), SUM)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        save_model(model, path, keep_moments=False)
        saved = load_model(path).explain_fairness(X_new)
    yield at_most(f"{name}: after saving", np.abs(saved.parts - receipt.parts).max() / size, SUM)
    score = model.decision_function if hasattr(model, "classes_") else model.predict
    slower = _seconds(model.explain_fairness, X_new) / _seconds(score, X_new)
    yield at_most(f"{name}: time, in calls of the score", slower, CALLS)


def _seconds(call: Any, X: Any) -> float:
    """Least time of some calls."""
    found = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        call(X)
        found.append(time.perf_counter() - start)
    return min(found)


if __name__ == "__main__":
    sys.exit(show(measurements()))
