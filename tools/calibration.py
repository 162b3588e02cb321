"""Calibration of predicted probabilities: ``python -m tools.calibration``.

Expected calibration error of FairGPClassifier on Adult and COMPAS beside scikit-learn's
LogisticRegression on the same encoded columns: 10 random splits, 30 % of the rows held out.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from fairspan import FairGPClassifier, datasets, table_encoder
from fairspan.exceptions import DatasetError

SETS = {"Adult": datasets.fetch_adult, "COMPAS": datasets.fetch_compas}
N_BINS = 15


def data_home() -> str | None:
    """The shared folder beside the project, where it exists; else the library's own rule."""
    shared = Path(os.environ.get("FAIRSPAN_SHARED") or Path(__file__).parents[2] / "shared")
    return str(shared / "data") if (shared / "data").is_dir() else None


def calibration_error(p: Any, hit: Any, n_bins: int = N_BINS) -> float:
    """Mean gap between probability and frequency over equally wide bins, weighted by their rows."""
    bins = np.minimum((p * n_bins).astype(int), n_bins - 1)
    return float(np.abs(np.bincount(bins, p - hit, minlength=n_bins)).sum() / len(p))


def compare(name: str, n_splits: int = 10) -> dict[str, float]:
    """Mean over splits, for each model."""
    table = SETS[name](data_home=data_home())
    y = table.target.astype(str).to_numpy()
    positive, sex = np.unique(y)[1], table.sensitive_features["sex"].to_numpy()
    found: dict[str, list[float]] = {}
    for seed in range(n_splits):
        train, test = train_test_split(
            np.arange(len(y)), test_size=0.3, random_state=seed, stratify=y
        )
        encoder = table_encoder(table.data).fit(table.data.iloc[train])
        X, Z = (encoder.transform(table.data.iloc[rows]) for rows in (train, test))
        hit = (y[test] == positive).astype(float)
        plain = LogisticRegression(max_iter=2000).fit(X, y[train])
        fair = FairGPClassifier(removal="training_rows", random_state=seed)
        fair.fit(X, y[train], sensitive_features=sex[train])
        models = {
            "LogisticRegression": plain,
            "fairness 0": fair.at(0.0),
            "fairness 1": fair,
        }
        for model, fitted in models.items():
            p = fitted.predict_proba(Z)[:, 1]
            found.setdefault(model, []).append(calibration_error(p, hit))
            found.setdefault(f"{model}, error", []).append(float(np.mean((p > 0.5) != hit)))
    return {model: float(np.mean(values)) for model, values in found.items()}


def main() -> None:
    """Print the comparison."""
    warnings.simplefilter("ignore")
    for name in SETS:
        try:
            rows = compare(name)
        except DatasetError as error:
            print(f"{name}: {error}")
            continue
        for model, value in rows.items():
            print(f"{name:<8} {model:<28} {value:.4f}")


if __name__ == "__main__":
    main()
