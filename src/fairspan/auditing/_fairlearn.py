"""The rows of an audit as fairlearn's ``MetricFrame``."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, mean_squared_error

from fairspan.auditing._read import Audited

__all__ = ["metric_frame"]


def _mean_prediction(y_true: Any, y_pred: Any, sample_weight: Any = None) -> float:
    del y_true
    return float(np.average(y_pred, weights=sample_weight))


def metric_frame(data: Audited, metrics: Any) -> Any:
    """Decisions (1 for the positive class of two) or predictions, by all attributes at once."""
    try:
        from fairlearn.metrics import (
            MetricFrame,
            false_positive_rate,
            selection_rate,
            true_positive_rate,
        )
    except ImportError as error:
        msg = 'metric_frame needs fairlearn: pip install "fairlearn>=0.12".'
        raise ImportError(msg) from error
    if data.target is None:
        raise ValueError("metric_frame needs y; the audit was made without.")
    y: Any
    predicted: Any
    if data.classes is not None:
        if data.decided is None:
            raise ValueError("metric_frame needs decisions; the audit was given scores alone.")
        if len(data.positive) == 1:
            (k,) = data.positive
            y, predicted = (data.target.codes == k).astype(int), (data.decided == k).astype(int)
        else:
            y, predicted = data.classes[data.target.codes], data.classes[data.decided]
        standard = {
            "selection_rate": selection_rate, "true_positive_rate": true_positive_rate,
            "false_positive_rate": false_positive_rate, "accuracy": accuracy_score,
        }  # fmt: skip
        if len(data.positive) > 1:
            standard = {"accuracy": accuracy_score}
    else:
        if data.scores is None or data.scores.shape[1] != 1 or data.target.values is None:
            raise ValueError("metric_frame needs one prediction per row.")
        y, predicted = data.target.values, data.scores[:, 0]
        standard = {"mean_prediction": _mean_prediction, "mean_squared_error": mean_squared_error}
    metrics = standard if metrics is None else metrics
    weights: Any = {"sample_weight": data.weight}
    names = list(metrics) if isinstance(metrics, dict) else None
    labels = {one.name: np.array(one.labels, dtype=object)[one.codes] for one in data.attributes}
    strata = data.strata
    control = None if strata is None else {strata.name: np.array(strata.labels)[strata.codes]}
    return MetricFrame(
        metrics=metrics, y_true=y, y_pred=predicted, sensitive_features=labels,
        control_features=control,
        sample_params=weights if names is None else dict.fromkeys(names, weights),
    )  # fmt: skip
