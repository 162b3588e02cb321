"""What a criterion is about: its correlation and its gap, for the headline, curves and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import scipy.stats

from fairspan.auditing.findings import Finding
from fairspan.auditing.reading import Protected
from fairspan.method.codes import code_slices, slice_edges
from fairspan.method.data import Codes
from fairspan.method.linalg import Array
from fairspan.report.dial_points import FEWEST, Ground, Place, count_groups
from fairspan.report.words import Setting, certificate_words, metric_words

__all__ = [
    "Scene",
    "binned_means",
    "calibration_points",
    "confusion",
    "distributions",
    "drawn_score",
    "error_of",
    "estimate",
    "headline",
    "largest_ks",
    "own_correlation",
    "own_metrics",
    "paired",
    "parity_rows",
    "position",
    "rough",
]

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
    """Rows of the table of parity: one for each attribute and stratum."""
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


# Bins of a histogram from so many rows up: few rows in many bins are all noise. Their edges are short
# numbers where scores are probabilities.
_BINS = ((1000, 25), (300, 20), (0, 10))
# Parts of what was said: at most tenths, fifths of slices of a number, and fewer where a part would
# have fewer rows of a group than this on average.
_TENTHS, _FIFTHS, _FEWEST_PARTS, _ROWS_OF_A_PART = 10, 5, 3, 10


def rough(values: Any, digits: int = 4) -> list[float]:
    """Numbers that are only drawn: a picture has no more digits than these."""
    return [float(f"{v:.{digits}g}") for v in np.asarray(values, dtype=np.float64).ravel()]


# ------------------------------------------------------------------ distributions


def distributions(
    score: Array, one: Protected, weight: Array, *, shares: bool, min_rows: int
) -> dict[str, Any]:
    """Histogram of each group's scores over common bins, their means, and the largest distance.

    Parameters
    ----------
    score, weight : (n,)
    one : the groups.
    shares : the score lies between 0 and 1, and so do the bins.
    min_rows : smaller groups are drawn, but not compared.
    """
    low, high = (0.0, 1.0) if shares else (float(score.min()), float(score.max()))
    if not high > low:
        low, high = low - 0.5, high + 0.5
    n_bins = next(bins for least, bins in _BINS if len(score) >= least)
    edges = np.linspace(low, high, n_bins + 1)
    place = np.clip(np.searchsorted(edges, score, side="right") - 1, 0, n_bins - 1)
    n_levels = len(one.labels)
    mass = np.bincount(one.codes * n_bins + place, weight, minlength=n_levels * n_bins)
    mass = mass.reshape(n_levels, n_bins)
    total = mass.sum(axis=1)
    safe = np.where(total > 0.0, total, 1.0)
    means = np.bincount(one.codes, weight * score, minlength=n_levels) / safe
    count = np.array(count_groups(one))
    value, pair = largest_ks(score, one.codes, weight, count >= min_rows)
    told = (count >= FEWEST) & (total > 0.0)
    return {
        "edges": rough(edges, 5),
        "shares": [
            rough(row, 3) if t else [None] * n_bins
            for row, t in zip(mass / safe[:, None], told, strict=True)
        ],
        "means": [float(m) if t else None for m, t in zip(means, told, strict=True)],
        "ks": {"value": value, "groups": [one.labels[h] for h in pair]},
    }


def largest_ks(
    score: Array, codes: Codes, weight: Array, large: Any
) -> tuple[float, tuple[int, ...]]:
    """Largest Kolmogorov-Smirnov distance between two groups, and which two.

    At every score the largest difference between two groups is the range of all their shares below
    it, so pairs need not be tried. NaN where fewer than two groups are large enough.
    """
    levels = np.flatnonzero(large)
    if len(levels) < 2:
        return float("nan"), ()
    order = np.argsort(score, kind="stable")
    ordered, mine, heavy = score[order], codes[order], weight[order]
    last = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
    below = np.stack([np.cumsum(np.where(mine == h, heavy, 0.0))[last] for h in levels])
    below /= below[:, -1:]
    spread = below.max(axis=0) - below.min(axis=0)
    at = int(np.argmax(spread))
    high, low = int(np.argmax(below[:, at])), int(np.argmin(below[:, at]))
    if high == low:  # all alike
        high, low = 0, 1
    pair = tuple(int(levels[h]) for h in sorted((high, low)))
    return float(spread[at]), pair


# ------------------------------------------------------------------ said and came


def calibration_points(
    said: Array, came: Array, one: Protected, weight: Array, min_rows: int
) -> list[list[dict[str, Any]]]:
    """Per group: in each part of what was said (of all rows), its mean and that of what came.

    Groups of fewer than ``min_rows`` have no points: a part of them would be a person or two.
    """
    n_levels = len(one.labels)
    filled = len(said) // (_ROWS_OF_A_PART * n_levels)
    parts = min(max(filled, _FEWEST_PARTS), _TENTHS if one.values is None else _FIFTHS)
    part = code_slices(said, slice_edges(said, parts, weight))
    cell, size = one.codes * parts + part, n_levels * parts
    count = np.bincount(cell, minlength=size).reshape(n_levels, parts)
    mass = np.bincount(cell, weight, minlength=size)
    safe = np.where(mass > 0.0, mass, 1.0)
    means = [
        (np.bincount(cell, weight * column, minlength=size) / safe).reshape(n_levels, parts)
        for column in (said, came)
    ]
    return [
        [
            {"said": s, "came": c, "n": int(n)}
            for s, c, n in zip(rough(means[0][h], 3), rough(means[1][h], 3), count[h], strict=True)
            if n
        ]
        if count[h].sum() >= min_rows
        else []
        for h in range(n_levels)
    ]


def binned_means(score: Array, one: Protected, weight: Array, level: float) -> list[dict[str, Any]]:
    """Mean score in every slice of a number, with the interval of a mean."""
    assert one.values is not None
    z = float(scipy.stats.norm.isf((1.0 - level) / 2.0))
    out: list[dict[str, Any]] = []
    for h in range(len(one.labels)):
        mine = np.flatnonzero(one.codes == h)
        if not len(mine):
            continue
        if len(mine) < FEWEST:
            out.append({"at": None, "mean": None, "low": None, "high": None, "n": len(mine)})
            continue
        w = weight[mine] / weight[mine].sum()
        mean = float(w @ score[mine])
        reach = float("nan")
        effective = 1.0 / float(w @ w)
        if effective > 1.0:
            variance = float(w @ (score[mine] - mean) ** 2)
            reach = z * float(np.sqrt(variance / (effective - 1.0)))
        out.append(
            {"at": float(w @ one.values[mine]), "mean": mean, "low": mean - reach,
             "high": mean + reach, "n": len(mine)}
        )  # fmt: skip
    return out


def confusion(chosen: Any, positive: Any, chosen_first: Any, mine: Any) -> dict[str, Any]:
    """Counts of people of a group: right and wrong decisions, and decisions changed from the first model."""
    a, b, first = chosen[mine], positive[mine], chosen_first[mine]

    def count(mask: Any) -> int:
        return int(np.count_nonzero(mask))

    return {
        "confusion": {"tp": count(a & b), "fp": count(a & ~b), "tn": count(~a & ~b),
                      "fn": count(~a & b)},
        "now_chosen": count(a & ~first), "no_longer_chosen": count(first & ~a),
    }  # fmt: skip


_RATES = (
    "selection_rate", "true_positive_rate", "false_positive_rate", "positive_predictive_value",
)  # fmt: skip


_NUMBERS = ("mean_prediction", "mean_error", "root_mean_squared_error")


def _rates(place: Place, first: Place, ground: Ground, name: str) -> list[dict[str, Any]]:
    one, out = ground.shown[name], []
    for h, label in enumerate(one.labels):
        mine = one.codes == h

        def found(metric: str, label: str = label) -> dict[str, Any]:
            return estimate(place.findings.get((metric, one.name, label, "")))

        n = int(mine.sum())
        row: dict[str, Any] = {"group": label, "n": n, "small": n < ground.settings.min_rows}
        if n < FEWEST:
            out.append(row | {"few": True})
            continue
        if ground.task == "regression":
            row |= {metric: found(metric) for metric in _NUMBERS}
        elif len(ground.data.positive) == 1:
            row |= {metric: found(metric) for metric in _RATES}
            row |= _people(place, first, ground, ground.data.positive[0], mine)
        else:
            assert ground.data.classes is not None
            row["classes"] = [
                {"class": str(ground.data.classes[k]),
                 **{m: found(f"{m} ({ground.data.classes[k]})") for m in _RATES},
                 **_people(place, first, ground, k, mine)}
                for k in ground.data.positive
            ]  # fmt: skip
        if ground.task != "regression":
            row["accuracy"] = found("accuracy")
        out.append(row)
    return out


def _people(place: Place, first: Place, ground: Ground, k: int, mine: Any) -> dict[str, Any]:
    assert ground.data.target is not None
    return confusion(place.decided == k, ground.data.target.codes == k, first.decided == k, mine)


def drawn_score(place: Place, scene: Scene) -> Array:
    """The score whose distribution is drawn."""
    return np.asarray(place.said[:, 0 if scene.drawn is None else scene.drawn])


def _came(ground: Ground, scene: Scene) -> Array:
    """What the score speaks of: 1 for the class, or the number itself."""
    target = ground.data.target
    assert target is not None
    if target.values is not None:
        return target.values
    k = ground.data.positive[0] if scene.drawn is None else scene.drawn
    return np.asarray(target.codes == k, dtype=np.float64)


def _calibration(place: Place, ground: Ground, scene: Scene, name: str) -> list[dict[str, Any]]:
    one = ground.shown[name]
    points = calibration_points(
        drawn_score(place, scene), _came(ground, scene), one, ground.data.weight,
        ground.settings.min_rows,
    )  # fmt: skip
    return [
        {"group": label, "points": each,
         "error": None if n < FEWEST
         or (f := place.findings.get(("calibration_error", one.name, label, ""))) is None
         else estimate(f)}
        for label, each, n in zip(one.labels, points, count_groups(one), strict=True)
    ]  # fmt: skip


def _continuous(place: Place, ground: Ground, scene: Scene, one: Protected) -> dict[str, Any]:
    score = drawn_score(place, scene)
    binned = binned_means(score, one, ground.data.weight, ground.settings.level)
    if ground.task == "regression":  # the audit has the same means, by resamples
        seen = [label for h, label in enumerate(one.labels) if (one.codes == h).any()]
        for row, label in zip(binned, seen, strict=True):
            f = place.findings[("mean_prediction", one.name, label, "")]
            if row["n"] >= FEWEST:
                row |= {"mean": f.value, "low": f.low, "high": f.high}
    return {"said": rough(score[scene.displayed], 3), "binned": binned}


def position(
    place: Place, first: Place, ground: Ground, scene: Scene, extra: dict[str, Any], snippet: str
) -> dict[str, Any]:
    """One entry of the study's ``positions``."""
    data, score = ground.data, drawn_score(place, scene)
    bounds = [
        {"attribute": b.attribute, "where": "" if b.cell == "all rows" else b.cell,
         "value": b.supremum, "low": 0.0 if math.isfinite(b.supremum) else float("nan"),
         "high": b.bound, "n": b.n_rows,
         **({"note": b.note} if b.note else {})}
        for b in place.bounds
    ]  # fmt: skip
    alone = [name for name in ground.shown if name != ground.crossed]
    meant = place.probable or ground.task == "regression"  # the score promises something
    return {
        "headline": headline(place, first, ground, scene, extra),
        "scores": {
            name: distributions(score, ground.shown[name], data.weight, shares=place.probable,
                                min_rows=ground.settings.min_rows)
            for name in alone
        },
        "rates": {name: _rates(place, first, ground, name) for name in ground.shown},
        "parity": parity_rows(place, ground, scene.criterion),
        "calibration": {
            name: _calibration(place, ground, scene, name) for name in alone if meant
        },
        "continuous": {
            one.name: _continuous(place, ground, scene, one)
            for one in data.attributes if one.values is not None
        },
        "certificate": {
            "in_sample_supremum": place.certificate.supremum,
            "words": certificate_words(place.certificate, place.fairness, scene.setting),
            "held_out": bounds,
        },
        "snippet": snippet,
    }  # fmt: skip
