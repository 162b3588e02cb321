"""Bounds on new rows at every position of the slider, from which the page finds the cheapest setting.

Rates of decision rules have the bounds of their certificates. Scores have those of a path over the training
rows, each judged by functions that did not see it; a model without such functions is judged on the
held-out rows. These are the bounds of ``at(max_gap=, min_ratio=, confidence=)`` and of
``FairnessPath.select``, and the page walks along them as these do: from the fair end, up to the first that
breaks the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.estimators.dial_predictor import DialHeads, DialPredictor
from fairspan.estimators.path import FairnessPath
from fairspan.estimators.path_rows import of_own_folds, read_rows
from fairspan.estimators.path_selection import PathEvaluator
from fairspan.report.dial_points import DialPoint
from fairspan.report.table import Roles
from fairspan.report.training import by_stratum
from fairspan.report.views import own_metrics
from fairspan.report.words import metric_words

__all__ = ["CONFIDENCE", "Promises", "path_of_rows", "rule_promises", "score_promises"]

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Promises:
    """What can be promised about new rows along the slider.

    Attributes
    ----------
    about : what the page says about the promise: measures, rows, groups.
    positions : the bounds at each dial value, and the error that is compared.
    """

    about: dict[str, Any] | None
    positions: Sequence[dict[str, Any] | None]

    @classmethod
    def none(cls, n: int) -> Promises:
        """Nothing can be promised at any of n positions, for want of rows."""
        return cls(about=None, positions=[None] * n)


def rule_promises(points: Sequence[DialPoint], n_rows: int, criterion: str) -> Promises:
    """Bounds of the gap and the ratio of the rates of decision rules, from their certificates."""
    positions, about = [], {}
    for point in points:
        rates = point.certificate.decisions
        assert rates is not None
        positions.append(
            {
                "error": rates.error,
                "gap": {"value": rates.gap, "bound": rates.gap_high},
                "ratio": {"value": rates.ratio, "bound": rates.ratio_low},
            }
        )
        about = {
            "measures": {
                "gap": metric_words(own_metrics(criterion, "binary")[1]),
                "ratio": "lowest of these rates over the highest",
            },
            "confidence": rates.confidence,
            "rows": "out of fold",
            "n": n_rows,
            "attributes": list(dict.fromkeys(rate.attribute for rate in rates.rates)),
            "smallest": {"group": rates.smallest, "n": rates.smallest_rows},
            "left_out": list(rates.left_out),
        }
    return Promises(about=about, positions=positions)


def score_promises(path: FairnessPath, criterion: str, *, latent: bool) -> Promises:
    """Bounds of the correlation at the dial values of a path."""
    found = path.bounds("correlation", confidence=CONFIDENCE)
    positions = [
        {"error": float(error), "correlation": {"value": float(value), "bound": float(bound)}}
        for error, value, bound in zip(path.error, found.value, found.upper, strict=True)
    ]
    words = metric_words(own_metrics(criterion, "regression")[0])
    if latent:
        words = words.replace("the score", "the raw score")
    about = {
        "measures": {"correlation": words},
        "confidence": CONFIDENCE,
        "rows": path.rows,
        "n": path._evaluator.n,
        "attributes": list(path.attributes),
        "smallest": None,
        "left_out": [],
    }
    return Promises(about=about, positions=positions)


def path_of_rows(
    model: Any, train: Any, held: Any, roles: Roles, grid: Sequence[float]
) -> FairnessPath | None:
    """The path of a fit at given dial values: over its training rows out of fold, else over held-out rows.

    None without such rows.

    Parameters
    ----------
    model : fitted.
    train, held : tables of the rows that it was fitted on, in that order, and of other rows.
    roles : roles of their columns.
    grid : dial values.
    """
    crossed = model._solution.new_rows is not None
    table = train if crossed else held
    if table.empty:
        return None
    data = read_rows(
        model,
        table[list(roles.features)],
        table[roles.target],
        table[list(roles.sensitive)],
        table[list(roles.control)] if by_stratum(model) else None,
        None if roles.weight is None else table[roles.weight],
    )
    dial = np.array(grid, dtype=np.float64)
    evaluator, heads = PathEvaluator(model, data), DialHeads.along(model, dial)
    if crossed:
        predictions = of_own_folds(model, data, heads)
    else:
        predictions = [DialPredictor(model, data.X).along(heads, classes=evaluator.classes)]
    return FairnessPath(model, dial, predictions, evaluator, heads.supremum, float("nan"))
