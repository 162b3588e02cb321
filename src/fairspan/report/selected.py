"""What the switch of the page selects, at one dial value: one number per protected attribute.

Equal decisions are about rates, equal scores about correlations or means. A numeric attribute has a slope.
Every attribute is listed, because the largest of several noisy numbers looks larger than it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairspan.auditing import Protected
from fairspan.method.linalg import Array
from fairspan.report.dial_points import DialPoint, HeldOut
from fairspan.report.likely import LikelyGroups
from fairspan.report.slopes import Line, slope
from fairspan.report.views import estimate, own_finding
from fairspan.report.words import ReportContext, metric_words

__all__ = ["number_words", "selected_numbers"]


def selected_numbers(
    point: DialPoint, held_out: HeldOut, context: ReportContext
) -> list[dict[str, Any]]:
    """The number that the slider makes small, for every protected attribute.

    Each has the attribute, what it is ("slope", "gap" or "correlation"), its name in words, the kind of
    number ("points", "unit" or "index"), the value and its interval.
    """
    return [
        _slope(point, held_out, context, context.lines[groups.name])
        if groups.name in context.lines
        else _difference(point, held_out, context, groups)
        for groups in held_out.attributes
    ]


def _difference(
    point: DialPoint,
    held_out: HeldOut,
    context: ReportContext,
    groups: Protected | LikelyGroups,
) -> dict[str, Any]:
    """Largest difference between groups: of rates or mean predictions; else the correlation."""
    numeric = held_out.task == "regression"
    is_gap = context.decides or (numeric and context.criterion != "equalized_odds")
    found = own_finding(point, held_out, groups.name, context.criterion, gap=is_gap)
    words = "" if found is None else metric_words(found.metric, decides=context.decides)
    if context.latent and not is_gap:
        words = words.replace("the score", "the raw score")
    kind = "index" if not is_gap else "unit" if numeric else "points"
    return {
        "attribute": groups.name,
        "what": "gap" if is_gap else "correlation",
        "words": words,
        "where": "" if found is None else found.where,
        "kind": kind,
        **estimate(found),
    }


def _slope(
    point: DialPoint, held_out: HeldOut, context: ReportContext, line: Line
) -> dict[str, Any]:
    """Change of the mean outcome per step of a numeric attribute."""
    outcome, of, kind = _outcome(point, held_out, context)
    return {
        "attribute": line.attribute,
        "what": "slope",
        "words": of,
        "step": line.step.words,
        "where": line.among,
        "kind": kind,
        **slope(line, outcome, held_out),
    }


def _outcome(point: DialPoint, held_out: HeldOut, context: ReportContext) -> tuple[Array, str, str]:
    """Scores, decisions or predictions, the name of their mean, and the kind of number."""
    data = held_out.data
    if data.classes is None:
        return point.outputs[:, 0], "mean prediction", "unit"
    named = len(data.positive) == 1
    k = data.positive[0] if named else context.drawn_class or 0
    if context.decides:
        assert point.decided is not None
        of = "selection rate" if named else f"share decided {data.classes[k]}"
        return np.asarray(point.decided == k, dtype=np.float64), of, "points"
    column = point.outputs[:, context.drawn_class or 0]
    if context.drawn_class is not None:
        k = context.drawn_class
    if point.has_probabilities:
        return column, f"mean probability of {data.classes[k]}", "points"
    return column, f"mean score of {data.classes[k]}", "index"


def number_words(number: dict[str, Any]) -> str:
    """Name of a number in words: what it measures, between whom, and where."""
    words = f"{number['step']}: {number['words']}" if number["what"] == "slope" else number["words"]
    return f"{words}, {number['where']}" if number["where"] else str(words)
