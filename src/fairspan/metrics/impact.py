"""Selection of groups as rules about employment and lending count it.

Impact ratios, shortfalls in people, tests of the difference of two selection rates, standardised mean
differences, and scoring rates (the share of a group above the median score). All are functions of
decisions or scores alone; true labels are not needed. A result describes a difference. Whether a rule is
kept depends on facts that no metric has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal

import numpy as np
import scipy.stats

from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.metrics.groups import membership
from fairspan.metrics.inputs import (
    Labels,
    Mask,
    Rows,
    SensitiveKind,
    check_decisions,
    choose_positive,
    is_positive,
    listed_labels,
    read,
    unknown_pos_label,
)

FISHER = "Fisher's exact test"
Z_TEST = "z-test of two rates, with effective numbers of rows"


def impact_ratio(rate: float, highest: float) -> float:
    """A rate over the highest rate; 1 if no group has anyone selected."""
    return rate / highest if highest > 0.0 else 1.0


def adverse_impact_ratios(
    y_pred: Any,
    *,
    sensitive_features: Any,
    pos_label: Any = None,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    n_bins: int = 10,
    intersectional: bool = False,
) -> dict[str, dict[str, float]]:
    """Selection rate of every group over that of the group with the highest rate.

    The four-fifths rule of the US Uniform Guidelines on Employee Selection Procedures (29 CFR 1607.4 D)
    compares these ratios with 0.8. The smallest is :func:`demographic_parity_ratio`.

    Parameters
    ----------
    y_pred : array-like of shape (n_samples,)
        Decisions.
    sensitive_features, sample_weight, sensitive_kind, n_bins, intersectional
        As in :func:`selection_rates`.
    pos_label : label, default=None
        The favourable decision. None: 1, if that is the larger of the labels; other labels must be named.

    Returns
    -------
    dict
        Attribute name -> group name -> ratio; 1 for the group with the highest rate.
    """
    rows, selected = _read_decisions(
        y_pred, sensitive_features, pos_label, sample_weight, sensitive_kind
    )
    return _ratios(_rates(rows, selected, n_bins, intersectional))


def selection_shortfalls(
    y_pred: Any,
    *,
    sensitive_features: Any,
    pos_label: Any = None,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    n_bins: int = 10,
    intersectional: bool = False,
) -> dict[str, dict[str, float]]:
    """How many more people of a group would have been selected at the highest rate of any group.

    ``n_s (max_t P(yhat=1 | S=t) - P(yhat=1 | S=s))``, where n_s is the number of people of the group, or
    the sum of their weights.

    Parameters
    ----------
    y_pred, sensitive_features, pos_label, sample_weight, sensitive_kind, n_bins, intersectional
        As in :func:`adverse_impact_ratios`.

    Returns
    -------
    dict
        Attribute name -> group name -> number of people, at least 0.
    """
    rows, selected = _read_decisions(
        y_pred, sensitive_features, pos_label, sample_weight, sensitive_kind
    )
    out: dict[str, dict[str, float]] = {}
    for name, codes, labels in rows.groups(n_bins, intersectional):
        mass = np.bincount(codes, rows.weight, minlength=len(labels))
        rate = _shares(codes, len(labels), rows.weight, selected)
        out[name] = dict(zip(labels, (mass * (rate.max() - rate)).tolist(), strict=True))
    return out


@dataclass(frozen=True, kw_only=True)
class SelectionTest:
    """The selection rate of a group compared with that of the group with the highest rate.

    Attributes
    ----------
    reference : str
        The group with the highest rate.
    p_value : float
        Two-sided, for this comparison alone.
    z : float
        Difference of the rates in standard errors of equal rates (pooled), which US courts count as
        "standard deviations"; negative, because the reference has the higher rate.
    test : str
        Test of the p-value: Fisher's exact test, or with unequal weights the z-test.
    flips_with_one : bool
        Whether the order of the two rates would turn around if one more person of the group and one fewer
        of the reference were selected.
    ratio_with_one : float
        Ratio of the two rates after that exchange of one person; 1 if the order turns around.
    """

    reference: str
    p_value: float
    z: float
    test: str
    flips_with_one: bool
    ratio_with_one: float


def compare_rates(
    rate: Array,
    effective: Array,
    labels: tuple[str, ...],
    reference: int,
    *,
    equal_weights: bool,
) -> dict[str, SelectionTest]:
    """Compare the rate of every group that has rows with that of the reference.

    Parameters
    ----------
    rate : (k,) selection rate of each group.
    effective : (k,) effective numbers of rows.
    labels : names of the groups.
    reference : position of the group with the highest rate.
    equal_weights : all rows have the same weight, so that effective numbers are numbers of people.
    """
    out = {}
    for h, label in enumerate(labels):
        if h == reference or effective[h] <= 0.0:
            continue
        pair = [h, reference]
        z = _standard_errors(rate[pair], effective[pair])
        p_value = float(2.0 * scipy.stats.norm.sf(abs(z)))
        if equal_weights:
            people = np.rint(effective[pair]).astype(int)
            chosen = np.rint(rate[pair] * people).astype(int)
            table = np.stack([chosen, people - chosen], axis=1)
            p_value = min(float(scipy.stats.fisher_exact(table)[1]), 1.0)
        one, other = rate[pair] + np.array([1.0, -1.0]) / effective[pair]
        one, other = min(one, 1.0), max(other, 0.0)
        turned = bool(one - other > 1e-12)
        out[label] = SelectionTest(
            reference=labels[reference],
            p_value=p_value,
            z=z,
            test=FISHER if equal_weights else Z_TEST,
            flips_with_one=turned,
            ratio_with_one=1.0 if turned else impact_ratio(float(one), float(other)),
        )
    return out


def selection_tests(
    y_pred: Any,
    *,
    sensitive_features: Any,
    pos_label: Any = None,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    n_bins: int = 10,
    intersectional: bool = False,
) -> dict[str, dict[str, SelectionTest]]:
    """Statistical and practical significance of the difference from the highest selection rate.

    The p-value is that of Fisher's exact test, two-sided. With unequal weights, which that test does not
    have, it is the normal approximation for effective numbers of rows ``(sum w)^2 / sum w^2``. The
    p-values are not corrected for the number of groups, nor for the choice of the highest rate.

    Parameters
    ----------
    y_pred, sensitive_features, pos_label, sample_weight, sensitive_kind, n_bins, intersectional
        As in :func:`adverse_impact_ratios`.

    Returns
    -------
    dict
        Attribute name -> group name -> :class:`SelectionTest`, without the group of the highest rate.
    """
    rows, selected = _read_decisions(
        y_pred, sensitive_features, pos_label, sample_weight, sensitive_kind
    )
    out = {}
    for name, codes, labels in rows.groups(n_bins, intersectional):
        k = len(labels)
        total = np.bincount(codes, rows.weight, minlength=k)
        effective = total**2 / np.bincount(codes, rows.weight**2, minlength=k)
        rate = _shares(codes, k, rows.weight, selected)
        options = {"equal_weights": bool(np.ptp(rows.weight) == 0.0)}
        out[name] = compare_rates(rate, effective, labels, int(np.argmax(rate)), **options)
    return out


def standardized_mean_differences(
    scores: Any,
    *,
    sensitive_features: Any,
    scale: Literal["within", "all"] = "within",
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    n_bins: int = 10,
    intersectional: bool = False,
) -> dict[str, dict[str, float]]:
    """Mean score of every group minus the highest mean of a group, in standard deviations.

    Parameters
    ----------
    scores : array-like of shape (n_samples,)
        Real-valued scores or predictions.
    sensitive_features, sample_weight, sensitive_kind, n_bins, intersectional
        As in :func:`selection_rates`.
    scale : {"within", "all"}, default="within"
        "within" divides by the standard deviation within groups, pooled over all groups (Cohen's d, for
        two groups), "all" by that of all rows, as is usual in lending.

    Returns
    -------
    dict
        Attribute name -> group name -> difference, 0 for the highest mean and negative for the others.
    """
    if scale not in ("within", "all"):
        raise ValueError(f"scale={scale!r} is not allowed; give 'within' or 'all'.")
    rows, x = _read_scores(scores, sensitive_features, sample_weight, sensitive_kind)
    w, out = rows.weight, {}
    for name, codes, labels in rows.groups(n_bins, intersectional):
        mass = np.bincount(codes, w, minlength=len(labels))
        mean = np.bincount(codes, w * x, minlength=len(labels)) / mass
        lost, centre = (len(labels), mean[codes]) if scale == "within" else (1, w @ x / w.sum())
        if w.sum() <= lost:
            raise ValueError(f"{name!r} has one row in every group: no spread to divide by")
        spread = sqrt(w @ (x - centre) ** 2 / (w.sum() - lost))
        gap = mean - mean.max()
        gap[np.abs(gap) <= 1e-12 * np.abs(x).max()] = 0.0  # rounding of equal means
        with np.errstate(divide="ignore"):
            d = np.where(gap == 0.0, 0.0, gap / spread)
        out[name] = dict(zip(labels, d.tolist(), strict=True))
    return out


def weighted_median(values: Array, weight: Array) -> float:
    """Median of values, where weight k is k copies; the mean of both if two are in the middle."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    half = below[-1] / 2.0
    at = int(np.searchsorted(below, half * (1.0 - 1e-12)))
    middle = values[order[at]]
    if below[at] <= half * (1.0 + 1e-12) and at + 1 < len(order):
        return float(middle / 2.0 + values[order[at + 1]] / 2.0)
    return float(middle)


def scoring_rates(
    scores: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    n_bins: int = 10,
    intersectional: bool = False,
) -> dict[str, dict[str, float]]:
    """Share of every group with a score above the median score of all rows.

    It is the scoring rate in the rules of New York City about automated employment decision tools (6 RCNY
    5-300). A score equal to the median is not above it, so with many equal scores all rates may be small.

    Parameters
    ----------
    scores : array-like of shape (n_samples,)
        Real-valued scores, larger for the favourable outcome.
    sensitive_features, sample_weight, sensitive_kind, n_bins, intersectional
        As in :func:`selection_rates`.

    Returns
    -------
    dict
        Attribute name -> group name -> rate.
    """
    rows, above = _above_median(scores, sensitive_features, sample_weight, sensitive_kind)
    return _rates(rows, above, n_bins, intersectional)


def scoring_rate_ratios(
    scores: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    n_bins: int = 10,
    intersectional: bool = False,
) -> dict[str, dict[str, float]]:
    """Scoring rate of every group over the highest scoring rate of a group.

    Parameters
    ----------
    scores, sensitive_features, sample_weight, sensitive_kind, n_bins, intersectional
        As in :func:`scoring_rates`.

    Returns
    -------
    dict
        Attribute name -> group name -> ratio, which the rules of New York City call the impact ratio of
        scores.
    """
    rows, above = _above_median(scores, sensitive_features, sample_weight, sensitive_kind)
    return _ratios(_rates(rows, above, n_bins, intersectional))


# ------------------------------------------------------------------ inside


def _read_decisions(
    y_pred: Any,
    sensitive_features: Any,
    pos_label: Any,
    sample_weight: Any,
    sensitive_kind: SensitiveKind,
) -> tuple[Rows, Mask]:
    """Rows of positive weight, and which of them are selected."""
    rows, (decided,) = read(sensitive_features, sensitive_kind, sample_weight, y_pred=y_pred)
    check_decisions(decided, None, "y_pred", "")
    label = choose_positive(pos_label, decided)
    selected = is_positive(decided, label)
    if not selected.any() and not (pos_label is None and is_positive(decided, 0).all()):
        raise unknown_pos_label(label, decided, "; name the favourable decision")
    if pos_label is None and len(np.unique(decided)) > 2:
        raise ValueError(
            f"pos_label must name the favourable decision: there are more than two. Labels: "
            f"{listed_labels(np.unique(decided))}"
        )
    return rows, selected


def _read_scores(
    scores: Any, sensitive_features: Any, sample_weight: Any, sensitive_kind: SensitiveKind
) -> tuple[Rows, Array]:
    rows, (columns,) = read(sensitive_features, sensitive_kind, sample_weight, scores=scores)
    return rows, single_column(columns)


def single_column(columns: Labels) -> Array:
    """The only column of scores; raise if there are several."""
    if columns.shape[1] != 1:
        msg = f"scores must be one column, got {columns.shape[1]}; give the scores of one class"
        raise ValueError(msg)
    return np.asarray(columns[:, 0], dtype=np.float64)


def _above_median(
    scores: Any, sensitive_features: Any, sample_weight: Any, sensitive_kind: SensitiveKind
) -> tuple[Rows, Mask]:
    rows, x = _read_scores(scores, sensitive_features, sample_weight, sensitive_kind)
    return rows, np.asarray(x > weighted_median(x, rows.weight))


def _shares(codes: Codes, n_levels: int, weight: Array, chosen: Mask) -> Array:
    """Weighted share of chosen rows in each level."""
    onto = membership(codes, n_levels, weight)
    mass, taken = onto @ np.ones(len(codes)), onto @ chosen.astype(np.float64)
    return np.asarray(np.minimum(taken / mass, 1.0))


def _rates(
    rows: Rows, chosen: Mask, n_bins: int, intersectional: bool
) -> dict[str, dict[str, float]]:
    return {
        name: dict(
            zip(labels, _shares(codes, len(labels), rows.weight, chosen).tolist(), strict=True)
        )
        for name, codes, labels in rows.groups(n_bins, intersectional)
    }


def _ratios(rates: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {
        name: {
            group: impact_ratio(rate, max(by_group.values())) for group, rate in by_group.items()
        }
        for name, by_group in rates.items()
    }


def _standard_errors(rate: Array, n: Array) -> float:
    """Difference of two rates over its standard error if both were equal; 0 if nothing varies."""
    pooled = float(rate @ n / n.sum())
    variance = pooled * (1.0 - pooled) * float((1.0 / n).sum())
    return float(rate[0] - rate[1]) / sqrt(variance) if variance > 1e-30 else 0.0
