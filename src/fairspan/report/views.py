"""The numbers of each view of the page at one dial value, as lists and dicts.

The criterion's own correlation and gap come first: they are in the headline, the curves and the table
of parity. The other views show distributions of scores, rates by group, calibration, means along a
continuous attribute, and the certificate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from fairspan.auditing import Finding, Protected
from fairspan.method.codes import code_slices, slice_edges
from fairspan.method.linalg import Array
from fairspan.metrics.groups import bootstrap_counts, largest_ks
from fairspan.report.dial_points import FEWEST, DialPoint, HeldOut, count_groups
from fairspan.report.likely import LikelyGroups, equivalent_words
from fairspan.report.words import (
    ReportContext,
    certificate_words,
    metric_words,
)

_PARITY = "statistical_parity_correlation", "demographic_parity_difference"
# Correlation of scores and gap of decisions that each criterion is about.
_OWN = {
    "statistical_parity": _PARITY,
    "equalized_odds": ("equalized_odds_correlation", "equalized_odds_difference"),
    "equal_opportunity": ("equal_opportunity_correlation", "equal_opportunity_difference"),
    "conditional_statistical_parity": _PARITY,
}
# Shown in the full audit only, unless the criterion is about them.
_SELDOM = ("correlation_ratio", "equal_opportunity_correlation")
_UNKNOWN = Finding("", "", note="too few rows to say")
_RATES = (
    *("selection_rate", "true_positive_rate", "false_positive_rate"),
    "positive_predictive_value",
)
_NUMBERS = ("mean_prediction", "mean_error", "root_mean_squared_error")
# Least number of rows and number of bins of a histogram: few rows in many bins are all noise.
_BINS = ((1000, 25), (300, 20), (0, 10))
# Parts of the range of scores in calibration plots, for categories and for slices of a number; fewer
# parts if a group would have fewer rows in each on average, but at least so many.
_TENTHS, _FIFTHS, _FEWEST_PARTS, _ROWS_PER_PART = 10, 5, 3, 10

Mask = NDArray[np.bool_]


def estimate(finding: Finding | None, flip: bool = False) -> dict[str, Any]:
    """A number with its interval; ``flip`` turns a share into one minus the share."""
    finding = _UNKNOWN if finding is None else finding
    value, low, high = finding.value, finding.low, finding.high
    if flip:
        value, low, high = 1.0 - value, 1.0 - high, 1.0 - low
    out: dict[str, Any] = {"value": value, "low": low, "high": high}
    if finding.small:
        out["small"] = True
    elif finding.note:
        out["note"] = finding.note
    return out


# ------------------------------------------------------------------ headline and parity


def _base(metric: str) -> str:
    """A metric without the class it is about."""
    return metric.partition(" (")[0]


def own_metrics(criterion: str, task: str) -> tuple[str, str]:
    """The correlation and the gap that a criterion is about."""
    correlation, gap = _OWN[criterion]
    return correlation, gap if task != "regression" else "mean_prediction_difference"


def _is_own_gap(criterion: str, task: str) -> bool:
    """Whether the criterion is about the gap.

    A numeric target has no rates: its gap compares the means of all rows, not those of people with
    the same true value, which equalized odds is about.
    """
    return task != "regression" or criterion != "equalized_odds"


def _candidates(
    point: DialPoint, held_out: HeldOut, metric: str, names: Collection[str], criterion: str
) -> list[Finding]:
    """Known values of a metric over attributes, classes and strata, largest first."""
    inside = criterion == "conditional_statistical_parity" and held_out.data.strata is not None
    findings = [
        f
        for f in point.findings.values()
        if f.attribute in names
        and not f.group
        and _base(f.metric) == metric
        and bool(f.where) == inside
        and math.isfinite(f.value)
    ]
    return sorted(findings, key=lambda f: -f.value)


def own_parity(
    point: DialPoint, held_out: HeldOut, name: str, context: ReportContext
) -> Finding | None:
    """The criterion's correlation or gap of one attribute; of several strata, the largest."""
    return own_finding(point, held_out, name, context.criterion, gap=context.decides)


def own_finding(
    point: DialPoint, held_out: HeldOut, name: str, criterion: str, *, gap: bool
) -> Finding | None:
    """The criterion's gap or correlation of one attribute; of several classes and strata, the largest."""
    metric = own_metrics(criterion, held_out.task)[gap]
    candidates = _candidates(point, held_out, metric, [name], criterion)
    return candidates[0] if candidates else None


def _headline(
    point: DialPoint, first: DialPoint, held_out: HeldOut, criterion: str, extra: dict[str, float]
) -> dict[str, Any]:
    """The largest gap and correlation over attributes, classes and strata, and the extra error."""
    names, task = {groups.name for groups in held_out.attributes}, held_out.task
    own, metric = own_metrics(criterion, task)
    gaps = _candidates(point, held_out, metric, names, criterion)
    correlations = _candidates(point, held_out, own, names, criterion)
    gap, correlation = next(iter(gaps), None), next(iter(correlations), None)
    gap_name = metric_words(metric if gap is None else gap.metric)
    if not _is_own_gap(criterion, task):
        gap_name += " over all rows (not what equalized odds constrains)"
    changed, alike, wrong = None, None, None
    if point.decided is not None and held_out.data.target is not None and task == "binary":
        k, truth = held_out.data.positive[0], held_out.data.target.codes
        off = point.decided != truth
        wrong = [int(np.count_nonzero(off & side)) for side in (truth != k, truth == k)]
    if point.decided is not None and first.decided is not None:
        changed = int(np.count_nonzero(point.decided != first.decided))
        if task == "binary" and len(np.unique(point.decided)) == 1:
            alike = bool(point.decided[0] == held_out.data.positive[0])
    return {
        "error": error_of(point, held_out),
        "error_extra": extra,
        "gap": estimate(gap),
        "gap_name": gap_name,
        "gap_among": len(gaps),
        "gap_attribute": "" if gap is None else gap.attribute,
        "gap_where": "" if gap is None else gap.where,
        "correlation": estimate(correlation),
        "correlation_attribute": "" if correlation is None else correlation.attribute,
        "correlation_among": len(correlations),
        "changed": changed,
        "alike": alike,
        "wrong": wrong,  # people who got the favourable class wrongly, and who did not get it wrongly
    }


def error_of(point: DialPoint, held_out: HeldOut) -> dict[str, Any]:
    """Share of wrong decisions, or the root mean squared error, over all held-out rows."""
    if held_out.task == "regression":
        return estimate(point.findings.get(("root_mean_squared_error", "", "", "")))
    return estimate(point.findings.get(("accuracy", "", "", "")), flip=True)


def extra_errors(
    losses: Sequence[Array],
    weight: Array,
    level: float,
    n_boot: int,
    rng: np.random.Generator,
    *,
    root: bool,
) -> list[dict[str, float]]:
    """Error at each dial value beyond that at the first one, with paired bootstrap intervals.

    Parameters
    ----------
    losses : (n,) losses of the rows, one array per dial value.
    weight : (n,)
    level, n_boot, rng : of the intervals; all dial values share a resample.
    root : the error is the root of the mean loss.
    """
    weighted, n = np.stack(losses, axis=1) * weight[:, None], len(weight)

    def error(counts: Array) -> Array:
        mean = counts @ weighted / (counts @ weight)
        mean = np.sqrt(mean) if root else mean
        return np.asarray(mean - mean[0])

    value = error(np.ones(n))
    draws = [error(bootstrap_counts(n, 1, rng)[:, 0]) for _ in range(n_boot)]
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(np.array(draws), (tail, 1.0 - tail), axis=0)
    return [
        {"value": float(v), "low": float(min(a, v)), "high": float(max(b, v))}
        for v, a, b in zip(value, low, high, strict=True)
    ]


def _parity_rows(
    point: DialPoint, held_out: HeldOut, context: ReportContext
) -> list[dict[str, Any]]:
    """Rows of the table of parity, one for each attribute and stratum; the criterion's own first."""
    criterion = context.criterion
    own = own_metrics(criterion, held_out.task)[: 1 + _is_own_gap(criterion, held_out.task)]
    own = own[context.decides :]
    by_stratum = criterion == "conditional_statistical_parity"
    likely = {groups.name: equivalent_words(groups) for groups in held_out.likely}
    first: list[dict[str, Any]] = []
    rest: list[dict[str, Any]] = []
    for f in point.findings.values():
        if f.group or f.attribute not in held_out.compared or f.section == "certificate":
            continue
        metric = _base(f.metric)
        is_own = metric in own
        if not is_own and (f.where or f.attribute == held_out.crossed or metric in _SELDOM):
            continue
        row: dict[str, Any] = {"attribute": f.attribute, "where": f.where, "metric": f.metric}
        words = metric_words(f.metric, decides=context.decides)
        row |= {"words": words, **estimate(f), "n": f.n_rows}
        if f.attribute in likely:
            row["note"] = "; ".join(filter(None, [row.get("note"), likely[f.attribute]]))
        (first if is_own and bool(f.where) == by_stratum else rest).append(row)
    return first + rest


# ------------------------------------------------------------------ distributions


def rough(values: Any, digits: int = 4) -> list[float]:
    """Round numbers that are only drawn to few digits."""
    return [float(f"{v:.{digits}g}") for v in np.asarray(values, dtype=np.float64).ravel()]


def distributions(
    score: Array, groups: Protected, weight: Array, *, shares: bool, min_rows: int
) -> dict[str, Any]:
    """Histograms of the groups' scores over common bins, their means, and the largest KS distance.

    Parameters
    ----------
    score, weight : (n,)
    groups : the groups.
    shares : the score lies between 0 and 1, and so do the bins.
    min_rows : smaller groups are drawn, but not compared.
    """
    low, high = (0.0, 1.0) if shares else (float(score.min()), float(score.max()))
    if not high > low:
        low, high = low - 0.5, high + 0.5
    n_bins = next(bins for least, bins in _BINS if len(score) >= least)
    edges = np.linspace(low, high, n_bins + 1)
    bins = np.clip(np.searchsorted(edges, score, side="right") - 1, 0, n_bins - 1)
    size = len(groups.labels)
    mass = np.bincount(groups.codes * n_bins + bins, weight, minlength=size * n_bins)
    mass = mass.reshape(size, n_bins)
    total = mass.sum(axis=1)
    safe = np.where(total > 0.0, total, 1.0)
    means = np.bincount(groups.codes, weight * score, minlength=size) / safe
    count = np.array(count_groups(groups))
    distance, pair = largest_ks(score, groups.codes, weight, count >= min_rows)
    enough = (count >= FEWEST) & (total > 0.0)
    return {
        "edges": rough(edges, 5),
        "shares": [
            rough(row, 3) if known else [None] * n_bins
            for row, known in zip(mass / safe[:, None], enough, strict=True)
        ],
        "means": [float(m) if known else None for m, known in zip(means, enough, strict=True)],
        "ks": {"value": distance, "groups": [groups.labels[h] for h in pair]},
    }


# ------------------------------------------------------------------ calibration and means


def calibration_points(
    predicted: Array, outcome: Array, groups: Protected, weight: Array, min_rows: int
) -> list[list[dict[str, Any]]]:
    """Mean prediction and mean outcome of each group, in equal parts of the predictions of all rows.

    Groups of fewer than ``min_rows`` have no points: a part of them would be a person or two.
    """
    n_levels = len(groups.labels)
    filled = len(predicted) // (_ROWS_PER_PART * n_levels)
    parts = min(max(filled, _FEWEST_PARTS), _TENTHS if groups.values is None else _FIFTHS)
    part = code_slices(predicted, slice_edges(predicted, parts, weight))
    cell, size = groups.codes * parts + part, n_levels * parts
    count = np.bincount(cell, minlength=size).reshape(n_levels, parts)
    mass = np.bincount(cell, weight, minlength=size)
    safe = np.where(mass > 0.0, mass, 1.0)
    means = [
        (np.bincount(cell, weight * column, minlength=size) / safe).reshape(n_levels, parts)
        for column in (predicted, outcome)
    ]
    out: list[list[dict[str, Any]]] = []
    for p, o, n in zip(*means, count, strict=True):
        each = zip(rough(p, 3), rough(o, 3), n.tolist(), strict=True)
        points = [{"predicted": x, "actual": y, "n": m} for x, y, m in each if m]
        out.append(points if n.sum() >= min_rows else [])
    return out


def binned_means(
    score: Array, groups: Protected, weight: Array, level: float
) -> list[dict[str, Any]]:
    """Mean score in every slice of a continuous attribute, with its normal interval."""
    assert groups.values is not None
    z = float(scipy.stats.norm.isf((1.0 - level) / 2.0))
    out: list[dict[str, Any]] = []
    for h in np.unique(groups.codes):
        rows = np.flatnonzero(groups.codes == h)
        if len(rows) < FEWEST:
            out.append({"at": None, "mean": None, "low": None, "high": None, "n": len(rows)})
            continue
        w = weight[rows] / weight[rows].sum()
        mean, centre = float(w @ score[rows]), float(w @ groups.values[rows])
        reach = float("nan")
        effective = 1.0 / float(w @ w)
        if effective > 1.0:
            variance = float(w @ (score[rows] - mean) ** 2)
            reach = z * float(np.sqrt(variance / (effective - 1.0)))
        interval = {"low": mean - reach, "high": mean + reach}
        out.append({"at": centre, "mean": mean, **interval, "n": len(rows)})
    return out


def _drawn_score(point: DialPoint, context: ReportContext) -> Array:
    """The score whose distribution is drawn."""
    return np.asarray(point.outputs[:, context.drawn_class or 0])


def _outcome(held_out: HeldOut, context: ReportContext) -> Array:
    """Observed outcome: 1 for the displayed class, or the numeric target."""
    target = held_out.data.target
    assert target is not None
    if target.values is not None:
        return target.values
    k = held_out.data.positive[0] if context.drawn_class is None else context.drawn_class
    return np.asarray(target.codes == k, dtype=np.float64)


def _calibration(
    point: DialPoint, held_out: HeldOut, context: ReportContext, groups: Protected
) -> list[dict[str, Any]]:
    score, outcome = _drawn_score(point, context), _outcome(held_out, context)
    min_rows = held_out.settings.min_rows
    points = calibration_points(score, outcome, groups, held_out.data.weight, min_rows)
    out = []
    for label, each, n in zip(groups.labels, points, count_groups(groups), strict=True):
        f = point.findings.get(("calibration_error", groups.name, label, ""))
        error = None if n < FEWEST or f is None else estimate(f)
        out.append({"group": label, "points": each, "error": error})
    return out


def _continuous(
    point: DialPoint, held_out: HeldOut, context: ReportContext, groups: Protected
) -> dict[str, Any]:
    score = _drawn_score(point, context)
    binned = binned_means(score, groups, held_out.data.weight, held_out.settings.level)
    if held_out.task == "regression":  # the audit has the same means, with bootstrap intervals
        for row, h in zip(binned, np.unique(groups.codes), strict=True):
            f = point.findings[("mean_prediction", groups.name, groups.labels[h], "")]
            if row["n"] >= FEWEST:
                row |= {"mean": f.value, "low": f.low, "high": f.high}
    return {"scores": rough(score[context.displayed], 3), "binned": binned}


# ------------------------------------------------------------------ rates by group


def confusion(chosen: Mask, positive: Mask, chosen_first: Mask, rows: Mask) -> dict[str, Any]:
    """Counts of right and wrong decisions in a group, and of decisions changed from the first model."""
    a, b, first = chosen[rows], positive[rows], chosen_first[rows]
    cells = {"tp": a & b, "fp": a & ~b, "tn": ~a & ~b, "fn": ~a & b}
    return {
        "confusion": {name: int(np.count_nonzero(cell)) for name, cell in cells.items()},
        "now_chosen": int(np.count_nonzero(a & ~first)),
        "no_longer_chosen": int(np.count_nonzero(first & ~a)),
    }


def _rates(
    point: DialPoint, first: DialPoint, held_out: HeldOut, groups: Protected | LikelyGroups
) -> list[dict[str, Any]]:
    """Rates of every group, with intervals; counts of decisions where the group of each row is known."""
    data, out = held_out.data, []
    for h, (label, n) in enumerate(zip(groups.labels, count_groups(groups), strict=True)):

        def number(metric: str, label: str = label) -> dict[str, Any]:
            return estimate(point.findings.get((metric, groups.name, label, "")))

        def decisions(k: int, h: int = h) -> dict[str, Any]:
            if isinstance(groups, LikelyGroups):
                return {}
            assert data.target is not None
            chosen, chosen_first = (np.asarray(p.decided == k) for p in (point, first))
            return confusion(chosen, data.target.codes == k, chosen_first, groups.codes == h)

        row: dict[str, Any] = {"group": label, "n": n, "small": n < held_out.settings.min_rows}
        if n < FEWEST:
            out.append(row | {"few": True})
            continue
        if data.classes is None:
            row |= {metric: number(metric) for metric in _NUMBERS}
        elif len(data.positive) == 1:
            row |= {metric: number(metric) for metric in _RATES} | decisions(data.positive[0])
        else:
            row["classes"] = [
                {"class": str(data.classes[k])}
                | {metric: number(f"{metric} ({data.classes[k]})") for metric in _RATES}
                | decisions(k)
                for k in data.positive
            ]
        if data.classes is not None:
            row["accuracy"] = number("accuracy")
        out.append(row)
    return out


# ------------------------------------------------------------------ all views


def _bounds(point: DialPoint) -> list[dict[str, Any]]:
    """The certificate on the held-out rows."""
    out = []
    for f in point.findings.values():
        if f.section == "certificate":
            low = f.low if math.isfinite(f.value) else float("nan")
            row = {"attribute": f.attribute, "where": f.where, **estimate(f), "n": f.n_rows}
            out.append(row | {"low": low})
    return out


def supremum_of(point: DialPoint, context: ReportContext) -> float:
    """In-sample supremum of the certificate; NaN where decisions are equalized, not functions."""
    return float("nan") if context.decides else point.certificate.supremum


def position(
    point: DialPoint,
    first: DialPoint,
    held_out: HeldOut,
    context: ReportContext,
    extra: dict[str, float],
    snippet: str,
) -> dict[str, Any]:
    """One entry of the study's ``positions``: all views at one dial value.

    Parameters
    ----------
    point, first : this dial value, and fairness 0.
    held_out, context : what all dial values share.
    extra : error beyond that of the first dial value.
    snippet : Python code of the model.
    """
    data, score = held_out.data, _drawn_score(point, context)
    shares, min_rows = point.has_probabilities, held_out.settings.min_rows
    single = {name: groups for name, groups in held_out.shown.items() if name != held_out.crossed}
    everyone = held_out.shown | {groups.name: groups for groups in held_out.likely}
    # Scores without a unit cannot be compared with outcomes.
    calibrated = single if point.has_probabilities or held_out.task == "regression" else {}
    return {
        "headline": _headline(point, first, held_out, context.criterion, extra),
        "scores": {
            name: distributions(score, groups, data.weight, shares=shares, min_rows=min_rows)
            for name, groups in single.items()
        },
        "rates": {
            name: _rates(point, first, held_out, groups) for name, groups in everyone.items()
        },
        "parity": _parity_rows(point, held_out, context),
        "calibration": {
            name: _calibration(point, held_out, context, groups)
            for name, groups in calibrated.items()
        },
        "continuous": {
            groups.name: _continuous(point, held_out, context, groups)
            for groups in data.attributes
            if groups.values is not None
        },
        "certificate": {
            "in_sample_supremum": supremum_of(point, context),
            "words": certificate_words(point.certificate, point.fairness, context),
            "held_out": _bounds(point),
        },
        "snippet": snippet,
    }
