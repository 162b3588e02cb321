"""Out-of-fold predictions of y and S by histogram boosting: ``python -m tools.boosting_settings``.

Prints, for each setting, the correlation of the predictions with y and with S on the training rows of one
split of each table; test rows are not read. The settings of ``FairClassifier("boosting")`` were chosen by it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import Pipeline

from tools import learners_tables
from tools.learners_tables import plain_boosting, rows_of_fair

SEED = 300
SETTINGS: dict[str, dict[str, Any]] = {
    "scikit-learn's": {},
    "rate .05, 15 leaves": {"learning_rate": 0.05, "max_leaf_nodes": 15},
    "rate .05, 8 leaves, 200 trees": {"learning_rate": 0.05, "max_leaf_nodes": 8, "max_iter": 200},
    "rate .05, 15 leaves of 50 rows": {
        "learning_rate": 0.05,
        "max_leaf_nodes": 15,
        "min_samples_leaf": 50,
    },
    "early stopping": {"early_stopping": True},
    "rate .05, 15 leaves, early stopping": {
        "learning_rate": 0.05,
        "max_leaf_nodes": 15,
        "max_iter": 300,
        "early_stopping": True,
        "n_iter_no_change": 20,
    },
    "rate .03, 8 leaves, 200 trees": {"learning_rate": 0.03, "max_leaf_nodes": 8, "max_iter": 200},
    "rate .05, 6 leaves": {"learning_rate": 0.05, "max_leaf_nodes": 6},
}
# For tables of more than 10,000 rows, where the fit takes longest.
LARGE_SETTINGS: dict[str, dict[str, Any]] = {
    "rate .1, 18 leaves, 100 trees": {"max_leaf_nodes": 18},
    "rate .15, 18 leaves, 70 trees": {
        "learning_rate": 0.15,
        "max_leaf_nodes": 18,
        "max_iter": 70,
    },
    "rate .2, 18 leaves, 50 trees": {"learning_rate": 0.2, "max_leaf_nodes": 18, "max_iter": 50},
}
LARGE_TABLES = ("Adult sex", "law school race")
TABLES = ("Adult sex", "loans race", "wide(1500, 50)", "law school race")


def correlation(model: Any, X: Any, target: Any, settings: dict[str, Any]) -> float:
    """Correlation of out-of-fold predictions with a number, or with the larger of two classes."""
    *encoder, (_, boosting) = model.steps if isinstance(model, Pipeline) else [("boosting", model)]
    number = target.dtype.kind == "f"
    kind = HistGradientBoostingRegressor if number else HistGradientBoostingClassifier
    columns = boosting.categorical_features
    last = kind(categorical_features=columns, random_state=0, **settings)
    whole = Pipeline([*((name, clone(step)) for name, step in encoder), ("boosting", last)])
    folds = KFold(5, shuffle=True, random_state=0)
    method = "predict" if number else "predict_proba"
    predicted = cross_val_predict(whole, X, target, cv=folds, method=method)
    return float(np.corrcoef(predicted if number else predicted[:, 1], target)[0, 1])


@contextmanager
def many_training_rows(n: int = 32_000) -> Iterator[None]:
    """Let splits have up to n training rows."""
    before = learners_tables.MOST_ROWS
    learners_tables.MOST_ROWS = n
    try:
        yield
    finally:
        learners_tables.MOST_ROWS = before


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    draws = dict(rows_of_fair())
    compare(TABLES, SETTINGS, {name: draws[name](SEED) for name in TABLES})
    with many_training_rows():
        large = {name: draws[name](SEED) for name in LARGE_TABLES}
    compare(LARGE_TABLES, LARGE_SETTINGS, large)


def compare(
    tables: Sequence[str], choices: dict[str, dict[str, Any]], draws: dict[str, Any]
) -> None:
    """Print a line for each table and setting."""
    for name in tables:
        rows = draws[name]
        y = rows.y if rows.y.dtype.kind == "f" else np.unique(rows.y, return_inverse=True)[1]
        s = np.unique(rows.s, return_inverse=True)[1]
        for label, settings in choices.items():
            model = plain_boosting(rows.X)
            of_y, of_s = (correlation(model, rows.X, part, settings) for part in (y, s))
            print(
                f"{name:16s} {len(y):6d} rows  {label:36s} y {of_y:.4f}  S {of_s:.4f}", flush=True
            )


if __name__ == "__main__":
    main()
