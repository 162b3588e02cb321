"""What a criterion is about: its correlation and its gap, for the headline, curves and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.auditing._findings import Finding
from fairspan.method.linalg import Array
from fairspan.report._places import Ground, Place
from fairspan.report._words import Setting, metric_words

__all__ = [
    "Scene", "error_of", "estimate", "headline", "own_correlation", "own_metrics", "paired",
    "parity_rows",
]  # fmt: skip

# Correlation of scores and gap of decisions that a criterion is about.
_OWN = {
    "statistical_parity": ("statistical_parity_correlation", "demographic_parity_difference"),
    "equalized_odds": ("equalized_odds_correlation", "equalized_odds_difference"),
    "equal_opportunity": ("equal_opportunity_correlation", "equal_opportunity_difference"),
    "conditional_statistical_parity": (
        "statistical_parity_correlation", "demographic_parity_difference",
    ),
}  # fmt: skip
# Left to the full audit, unless the criterion is about them.
_SELDOM = ("correlation_ratio", "equal_opportunity_correlation")
_NOTHING = Finding("", "", note="too few rows to say")


@dataclass(frozen=True)
class Scene:
    """What all positions have in common beside the rows.

    Attributes
    ----------
    criterion : full name.
    setting : what the words of certificates rest on.
    drawn : which class's scores are drawn, of several; None for one score.
    displayed : rows of the scatter plots.
    """

    criterion: str
    setting: Setting
    drawn: int | None
    displayed: Any


def estimate(found: Finding | None, flip: bool = False) -> dict[str, Any]:
    """A number with its interval; ``flip`` turns a share into that of the others."""
    found = _NOTHING if found is None else found
    value, low, high = found.value, found.low, found.high
    if flip:
        value, low, high = 1.0 - value, 1.0 - high, 1.0 - low
    out: dict[str, Any] = {"value": value, "low": low, "high": high}
    if found.small:
        out["small"] = True
    elif found.note:
        out["note"] = found.note
    return out


# ------------------------------------------------------------------ what the criterion is about


def _base(metric: str) -> str:
    """A metric without the class it is about."""
    return metric.partition(" (")[0]


def own_metrics(criterion: str, task: str) -> tuple[str, str]:
    """The correlation and the gap that a criterion is about."""
    correlation, gap = _OWN[criterion]
    return correlation, gap if task != "regression" else "mean_prediction_difference"


def is_own_gap(criterion: str, task: str) -> bool:
    """Whether the gap is one that the criterion is about.

    A number as target has no rates: its gap compares the means of all rows, not those of people with
    the same true value.
    """
    return task != "regression" or criterion != "equalized_odds"


def _candidates(
    place: Place, ground: Ground, metric: str, names: Sequence[str], criterion: str
) -> list[Finding]:
    inside = criterion == "conditional_statistical_parity" and ground.data.strata is not None
    return [
        f
        for f in place.findings.values()
        if f.attribute in names
        and not f.group
        and _base(f.metric) == metric
        and bool(f.where) == inside
        and math.isfinite(f.value)
    ]


def own_correlation(place: Place, ground: Ground, name: str, criterion: str) -> Finding | None:
    """Of the score with one attribute, by the criterion: the largest over its strata, if any."""
    metric, _ = own_metrics(criterion, ground.task)
    found = _candidates(place, ground, metric, [name], criterion)
    return max(found, key=lambda f: f.value, default=None)


def headline(place: Place, first: Place, ground: Ground, scene: Scene, extra: Any) -> Any:
    """The largest gap and correlation over attributes, classes and strata, and what they cost."""
    names = [one.name for one in ground.data.attributes]
    own, metric = own_metrics(scene.criterion, ground.task)
    gaps, each = (_candidates(place, ground, one, names, scene.criterion) for one in (metric, own))
    gap = max(gaps, key=lambda f: f.value, default=None)
    correlation = max(each, key=lambda f: f.value, default=None)
    gap_name = metric_words(metric if gap is None else gap.metric)
    if not is_own_gap(scene.criterion, ground.task):
        gap_name += " over all rows (not what equalized odds constrains)"
    changed, alike = None, None
    if place.decided is not None:
        changed = int(np.count_nonzero(place.decided != first.decided))
        if ground.task == "binary" and len(np.unique(place.decided)) == 1:
            alike = bool(place.decided[0] == ground.data.positive[0])
    return {
        "error": error_of(place, ground),
        "error_extra": extra,
        "gap": estimate(gap),
        "gap_name": gap_name,
        "gap_among": len(gaps),
        "gap_attribute": "" if gap is None else gap.attribute,
        "gap_where": "" if gap is None else gap.where,
        "correlation": estimate(correlation),
        "correlation_attribute": "" if correlation is None else correlation.attribute,
        "correlation_among": len(each),
        "changed": changed,
        "alike": alike,
    }


def error_of(place: Place, ground: Ground) -> dict[str, Any]:
    """Share of wrong decisions, or the root mean squared error, over all held-out rows."""
    if ground.task == "regression":
        return estimate(place.findings.get(("root_mean_squared_error", "", "", "")))
    return estimate(place.findings.get(("accuracy", "", "", "")), flip=True)


def paired(
    places: Sequence[Place], weight: Array, level: float, n_boot: int, rng: np.random.Generator,
    *, root: bool,
) -> list[dict[str, Any]]:  # fmt: skip
    """Error beyond that of the first place, on the same rows in every resample."""
    n = len(weight)
    loss = np.stack([place.loss for place in places], axis=1) * weight[:, None]

    def error(counts: Array) -> Array:
        mean = counts @ loss / (counts @ weight)[:, None]
        mean = np.sqrt(mean) if root else mean
        return np.asarray(mean - mean[:, :1])

    value = error(np.ones((1, n)))[0]
    draws = [
        error(np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)[None])[0]
        for _ in range(n_boot)
    ]
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(np.array(draws), (tail, 1.0 - tail), axis=0)
    return [
        {"value": float(v), "low": float(min(a, v)), "high": float(max(b, v))}
        for v, a, b in zip(value, low, high, strict=True)
    ]


# ------------------------------------------------------------------ parity


def parity_rows(place: Place, ground: Ground, criterion: str) -> list[dict[str, Any]]:
    own = own_metrics(criterion, ground.task)
    names = ground.compared
    by_stratum = criterion == "conditional_statistical_parity"
    first: list[dict[str, Any]] = []
    rest: list[dict[str, Any]] = []
    for f in place.findings.values():
        if f.group or f.attribute not in names or f.section == "certificate":
            continue
        mine = _base(f.metric) in own[: 1 + is_own_gap(criterion, ground.task)]
        if (f.where or f.attribute == ground.crossed or _base(f.metric) in _SELDOM) and not mine:
            continue
        row = {"attribute": f.attribute, "where": f.where, "metric": f.metric,
               "words": metric_words(f.metric), **estimate(f), "n": f.n_rows}  # fmt: skip
        (first if mine and bool(f.where) == by_stratum else rest).append(row)
    return first + rest
