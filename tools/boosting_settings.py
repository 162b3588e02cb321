"""Out-of-fold predictions of y and S by histogram boosting: ``python -m tools.boosting_settings``.

Prints, for each setting, the correlation of the predictions with y and with S on the training rows of one
split of each table; test rows are not read. The settings of ``FairClassifier("boosting")`` were chosen by it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import Pipeline

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


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    draws = dict(rows_of_fair())
    for name in TABLES:
        rows = draws[name](SEED)
        y = rows.y if rows.y.dtype.kind == "f" else np.unique(rows.y, return_inverse=True)[1]
        s = np.unique(rows.s, return_inverse=True)[1]
        for label, settings in SETTINGS.items():
            model = plain_boosting(rows.X)
            of_y, of_s = (correlation(model, rows.X, part, settings) for part in (y, s))
            print(f"{name:16s} {label:36s} y {of_y:.4f}  S {of_s:.4f}", flush=True)


if __name__ == "__main__":
    main()
