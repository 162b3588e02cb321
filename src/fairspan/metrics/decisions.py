"""Gaps between groups in decisions, with the names and definitions of fairlearn.

Two things differ from fairlearn. With several attributes the result is the worst over them;
``intersectional=True`` crosses them, as fairlearn always does. A rate in a group without such rows,
which fairlearn fills with zero, is an error here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from fairspan.method.problem import GroupProbabilities
from fairspan.metrics.groups import DECIDED, TARGET, group_sums
from fairspan.metrics.inputs import (
    SensitiveKind,
    check_decisions,
    choose_positive,
    is_positive,
    read,
    unknown_pos_label,
)
from fairspan.metrics.probabilities import rates_of

Cell = Literal["all", "positive", "negative"]
Rates: TypeAlias = list[tuple[str, dict[str, float]]]


def _rates(
    cells: Sequence[Cell],
    y_true: Any,
    y_pred: Any,
    sensitive_features: Any,
    pos_label: Any,
    sample_weight: Any,
    sensitive_kind: SensitiveKind,
    n_bins: int,
    intersectional: bool,
) -> Rates:
    """P(y_pred = pos_label | group, cell) by group, for every attribute and every one of ``cells``."""
    rows, (actual, decided) = read(
        sensitive_features, sensitive_kind, sample_weight, y_true=y_true, y_pred=y_pred
    )
    check_decisions(decided, actual, "y_pred", "y_true")
    pos_label = choose_positive(pos_label, actual, decided)
    positive, selected = is_positive(actual, pos_label), is_positive(decided, pos_label)
    if not (positive.any() or selected.any()):
        raise unknown_pos_label(pos_label, actual)
    conditions = {
        "positive": f"y_true = {pos_label!r}",
        "negative": f"y_true other than {pos_label!r}",
    }
    outcomes = {TARGET: positive.view(np.int8), DECIDED: selected.view(np.int8)}  # without a copy
    out: Rates = []
    for attribute in () if intersectional else rows.probable:
        for cell in cells:
            inside = np.ones(len(positive), dtype=bool)
            if cell != "all":
                inside = positive == (cell == "positive")
            where = "" if cell == "all" else f" among rows with {conditions[cell]}"
            if not inside.any():
                raise ValueError(f"no rows with {conditions[cell]}")
            part, weight = attribute.take(inside), rows.weight[inside]
            assert isinstance(part, GroupProbabilities)
            chosen = selected[inside].astype(np.float64)
            out.append((attribute.name, rates_of(chosen, part, weight, where)))
    for name, codes, labels in rows.groups(n_bins, intersectional, known_only=True):
        sums = group_sums({name: codes, **outcomes}, {}, rows.weight)
        for cell in cells:
            wanted = sums.factors[TARGET] == int(cell == "positive")
            joint = sums if cell == "all" else sums.where(wanted)
            mass = joint.by(name, len(labels))[:, 0]
            if not mass.all():
                empty = labels[int(np.argmin(mass))]
                raise ValueError(f"no rows with {conditions[cell]} and {name} = {empty!r}")
            taken = joint.where(joint.factors[DECIDED] == 1).by(name, len(labels))[:, 0]
            rates = np.minimum(taken / mass, 1.0)
            out.append((name, dict(zip(labels, rates.tolist(), strict=True))))
    return out


def _largest_gap(rates: Rates) -> float:
    return max(max(r.values()) - min(r.values()) for _, r in rates)


def selection_rates(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    pos_label: Any = None,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    n_bins: int = 10,
    intersectional: bool = False,
) -> dict[str, dict[str, float]]:
    """Share of positive decisions in every group, ``P(y_pred = pos_label | S = s)``.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels. Only used to distinguish a class that is never predicted from a wrong
        ``pos_label``.
    y_pred : array-like of shape (n_samples,)
        Decisions.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_attributes)
        Protected attributes: list, array, mapping, or pandas / polars Series or DataFrame.
    pos_label : label, default=None
        The favourable decision; with more than two classes, all others are one class. None: 1, if
        that is the larger of the labels; other labels must be named.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights; weight k is k copies of the row.
    sensitive_kind : str, sequence or mapping, default="auto"
        "auto", "categorical" or "continuous", for all attributes or one for each. "probabilities": the
        columns are the groups of one attribute, with the probability of each in every row
        (``{"race": "probabilities"}``: the columns race_*). Rates are then those of the true groups, if the
        probabilities are calibrated and decisions depend on them only through the group.
    n_bins : int, default=10
        Number of quantile slices a continuous attribute is cut into.
    intersectional : bool, default=False
        Cross all attributes into one (what fairlearn always does) instead of using each alone.

    Returns
    -------
    dict
        Attribute name -> group name -> rate. Slices are named by their edges.
    """
    options = pos_label, sample_weight, sensitive_kind, n_bins, intersectional
    rates = _rates(["all"], y_true, y_pred, sensitive_features, *options)
    return dict(rates)


def demographic_parity_difference(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    pos_label: Any = None,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    n_bins: int = 10,
    intersectional: bool = False,
) -> float:
    """Largest minus smallest selection rate, ``max_s P(yhat=1 | S=s) - min_s P(yhat=1 | S=s)``.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, pos_label, sample_weight, sensitive_kind, n_bins, \
intersectional
        As in :func:`selection_rates`.

    Returns
    -------
    float
        In [0, 1], 0 is parity; the largest over the attributes.
    """
    options = pos_label, sample_weight, sensitive_kind, n_bins, intersectional
    rates = _rates(["all"], y_true, y_pred, sensitive_features, *options)
    return _largest_gap(rates)


def demographic_parity_ratio(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    pos_label: Any = None,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    n_bins: int = 10,
    intersectional: bool = False,
) -> float:
    """Smallest over largest selection rate, ``min_s P(yhat=1 | S=s) / max_s P(yhat=1 | S=s)``.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, pos_label, sample_weight, sensitive_kind, n_bins, \
intersectional
        As in :func:`selection_rates`.

    Returns
    -------
    float
        In [0, 1], 1 is parity; the smallest over the attributes. 1 if no row is selected.
    """
    options = pos_label, sample_weight, sensitive_kind, n_bins, intersectional
    rates = _rates(["all"], y_true, y_pred, sensitive_features, *options)
    spans = [(min(r.values()), max(r.values())) for _, r in rates]
    return min(low / high if high > 0 else 1.0 for low, high in spans)


def equalized_odds_difference(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    pos_label: Any = None,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    n_bins: int = 10,
    intersectional: bool = False,
) -> float:
    """Larger of the gaps in true and in false positive rates.

    ``max_{y in {0,1}} [max_s P(yhat=1 | S=s, Y=y) - min_s P(yhat=1 | S=s, Y=y)]``.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, pos_label, sample_weight, sensitive_kind, n_bins, \
intersectional
        As in :func:`selection_rates`; every group needs rows of both classes.

    Returns
    -------
    float
        In [0, 1], 0 is parity; the largest over the attributes.
    """
    options = pos_label, sample_weight, sensitive_kind, n_bins, intersectional
    rates = _rates(["positive", "negative"], y_true, y_pred, sensitive_features, *options)
    return _largest_gap(rates)


def equal_opportunity_difference(
    y_true: Any,
    y_pred: Any,
    *,
    sensitive_features: Any,
    pos_label: Any = None,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    n_bins: int = 10,
    intersectional: bool = False,
) -> float:
    """Gap in true positive rates, ``max_s P(yhat=1 | S=s, Y=1) - min_s P(yhat=1 | S=s, Y=1)``.

    Parameters
    ----------
    y_true, y_pred, sensitive_features, pos_label, sample_weight, sensitive_kind, n_bins, \
intersectional
        As in :func:`selection_rates`; every group needs rows of the positive class.

    Returns
    -------
    float
        In [0, 1], 0 is parity; the largest over the attributes.
    """
    options = pos_label, sample_weight, sensitive_kind, n_bins, intersectional
    rates = _rates(["positive"], y_true, y_pred, sensitive_features, *options)
    return _largest_gap(rates)
