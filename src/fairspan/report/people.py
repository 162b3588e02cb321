"""Receipts of the held-out rows, by row number: what fairness changed in the score of each person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairspan.encoding import category_label
from fairspan.estimators.state import ScoredRows

__all__ = ["describe_people", "shortened"]

# Rows on the page, those that change most.
MOST_SHOWN = 300
# Numbers that the study may have; beyond, it has the rows of the page.
_MOST_NUMBERS = 40_000
# Parts of the study with one number per row.
_BY_ROW = ("before", "after", "rescaling")


def describe_people(model: Any, rows: ScoredRows, numbers: Sequence[int]) -> dict[str, Any]:
    """Scores before and after, and the parts of the change; those that change most come first.

    Parameters
    ----------
    model : fitted predictor at the start of the slider.
    rows : the held-out rows, with their scores.
    numbers : number of each row in the table, from 1.
    """
    receipt = model.explain_fairness(rows, columns=False)
    n, classes = len(receipt), receipt.classes
    change = np.abs(receipt.change).reshape(n, -1).max(axis=1, initial=0.0)
    order = np.argsort(-change, kind="stable")
    n_outputs = 1 if classes is None else len(classes)
    if n * n_outputs * (len(receipt.names) + len(_BY_ROW)) > _MOST_NUMBERS:
        order = order[:MOST_SHOWN]
    # Scores of two classes are those of the second one; a number has no class.
    labels = classes or tuple(getattr(model, "classes_", (None,)))[-1:]
    outputs = []
    for k in range(n_outputs):
        of = [getattr(receipt, name) for name in (*_BY_ROW, "parts")]
        before, after, rescaling, parts = (v if classes is None else v[..., k] for v in of)
        outputs.append(
            {
                "class": None if labels[k] is None else category_label(labels[k]),
                "before": before[order].tolist(),
                "after": after[order].tolist(),
                "rescaling": rescaling[order].tolist(),
                "parts": parts[order].T.tolist(),
            }
        )
    return {
        "fairness": receipt.fairness,
        "scale": receipt.scale,
        "names": list(receipt.names),
        "n_rows": n,
        "rows": [int(numbers[i]) for i in order],
        "outputs": outputs,
    }


def shortened(study: dict[str, Any]) -> dict[str, Any]:
    """The study with the rows that the page shows."""
    people = study.get("people")
    if people is None or len(people["rows"]) <= MOST_SHOWN:
        return study
    outputs = [
        output
        | {name: output[name][:MOST_SHOWN] for name in _BY_ROW}
        | {"parts": [part[:MOST_SHOWN] for part in output["parts"]]}
        for output in people["outputs"]
    ]
    rows = people["rows"][:MOST_SHOWN]
    return study | {"people": people | {"rows": rows, "outputs": outputs}}
