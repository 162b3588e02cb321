"""Dependence of a real-valued score on protected attributes (METHOD 10)."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from fairspan.inputs.columns import read_attributes
from fairspan.method.codes import Coder, infer_kind, warn_of_few_values
from fairspan.method.linalg import Array
from fairspan.method.problem import GroupProbabilities
from fairspan.metrics.groups import largest_ks, level_sums, standardize
from fairspan.metrics.inputs import (
    Rows,
    SensitiveKind,
    choose_positive,
    is_positive,
    read,
    unknown_pos_label,
)
from fairspan.metrics.probabilities import between_groups, level_correlations


def _worst_correlation(scores: Array, rows: Rows, where: str = "") -> float:
    """Largest |corr(f, S)| over outputs, attributes and, for categories, levels."""
    f = standardize(scores, rows.weight)
    share = rows.weight / rows.weight.sum()
    worst = 0.0
    for name, attribute in rows.attributes.items():
        if isinstance(attribute, GroupProbabilities):
            found = level_correlations(f, attribute, rows.weight, where)
            worst = max(worst, float(found.max()))
            continue
        _, codes = np.unique(attribute.values, return_inverse=True)
        if codes.max() == 0:
            raise ValueError(f"sensitive feature {name!r} is constant{where}")
        if rows.kinds[name] == "continuous":
            s = standardize(attribute.values.astype(np.float64)[:, None], rows.weight)
            correlations = np.abs((share * s[:, 0]) @ f)
        else:  # Cov(f, 1[S=h]) is a sum over the rows of level h
            mass, total = level_sums(f, codes, share)
            tiny = np.finfo(np.float64).tiny  # one level may have all the weight, up to rounding
            correlations = np.abs(total) / np.sqrt(np.maximum(mass * (1.0 - mass), tiny))
        worst = max(worst, float(correlations.max()))
    return min(worst, 1.0)


def statistical_parity_correlation(
    scores: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
) -> float:
    """Correlation of the score with S, the paper's measure of statistical parity.

    ``|corr(f, S)|`` for a numeric or two-valued S, ``max_h |corr(f, 1[S=h])|`` over the levels h
    of a categorical one.

    Parameters
    ----------
    scores : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Real-valued scores or predictions f.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_attributes)
        Protected attributes: list, array, mapping, or pandas / polars Series or DataFrame.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights.
    sensitive_kind : str, sequence or mapping, default="auto"
        "auto", "categorical" or "continuous", for all attributes or one for each. Auto: bool,
        text, category dtype, two values, or integers of at most 20 values are categories.
        "probabilities": as in :func:`selection_rates`.

    Returns
    -------
    float
        In [0, 1], 0 is parity. Its noise is about :func:`correlation_noise`.
    """
    rows, (f,) = read(sensitive_features, sensitive_kind, sample_weight, scores=scores)
    return _worst_correlation(f, rows)


def equal_opportunity_correlation(
    y_true: Any,
    scores: Any,
    *,
    sensitive_features: Any,
    pos_label: Any = None,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
) -> float:
    """:func:`statistical_parity_correlation` on the positive class, ``|corr(f, S | Y=1)|``.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    scores, sensitive_features, sample_weight, sensitive_kind
        As in :func:`statistical_parity_correlation`.
    pos_label : label, default=None
        The positive class. None: 1, if that is the larger of the labels; other labels must be named.

    Returns
    -------
    float
        In [0, 1], 0 is parity.
    """
    rows, (y, f) = read(
        sensitive_features, sensitive_kind, sample_weight, y_true=y_true, scores=scores
    )
    pos_label = choose_positive(pos_label, y)
    cell = is_positive(y, pos_label)
    if not cell.any():
        hint = ". For a numeric target use equalized_odds_correlation"
        raise unknown_pos_label(pos_label, y, hint if y.dtype.kind == "f" else "")
    return _worst_correlation(f[cell], rows.take(cell), f" where y_true = {pos_label!r}")


def equalized_odds_correlation(
    y_true: Any,
    scores: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    n_bins: int = 10,
) -> float:
    """Largest in-class correlation of the score with S, ``max_y |corr(f, S | Y=y)|``.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels of any number of classes; a numeric target (floats, or integers of more than 20
        values) is cut into quantile slices.
    scores, sensitive_features, sample_weight, sensitive_kind
        As in :func:`statistical_parity_correlation`. No attribute may be constant in a class.
    n_bins : int, default=10
        Number of slices of a numeric target.

    Returns
    -------
    float
        In [0, 1], 0 is parity.
    """
    rows, (y, f) = read(
        sensitive_features, sensitive_kind, sample_weight, y_true=y_true, scores=scores
    )
    target = read_attributes({"y_true": y}, len(y), "target", "y_true")
    warn_of_few_values(target, n_bins, "target")
    coder = Coder.learn(target["y_true"], infer_kind(target["y_true"]), n_bins, rows.weight)
    if coder.n_levels < 2:
        raise ValueError("y_true has one class or slice: equalized odds needs at least two")
    codes = coder.codes(target)
    return max(
        _worst_correlation(f[codes == i], rows.take(codes == i), f" where y_true = {label!r}")
        for i, label in enumerate(coder.labels)
    )


def correlation_ratio(
    scores: Any,
    *,
    sensitive_features: Any,
    n_bins: int = 10,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    intersectional: bool = False,
) -> float:
    """Dependence of the mean of the score on S, ``sqrt(Var(E[f|S]) / Var(f))``.

    Uncorrelated is not independent: this also detects a mean that is a nonlinear function of a
    continuous S. On few rows it is biased upwards, by about ``sqrt((groups - 1) / n)`` where the
    truth is 0.

    Parameters
    ----------
    scores, sensitive_features, sample_weight, sensitive_kind
        As in :func:`statistical_parity_correlation`.
    n_bins : int, default=10
        Number of quantile slices of a continuous attribute (one per value if it has no more values).
    intersectional : bool, default=False
        Cross all attributes into one instead of taking the worst.

    Returns
    -------
    float
        In [0, 1]; at least the correlation with any level.
    """
    rows, (f,) = read(sensitive_features, sensitive_kind, sample_weight, scores=scores)
    z = standardize(f, rows.weight)
    share = rows.weight / rows.weight.sum()
    between = 0.0
    for attribute in () if intersectional else rows.probable:
        between = max(between, float(between_groups(z, attribute, rows.weight).max()))
    for _, codes, _ in rows.groups(n_bins, intersectional, known_only=True):
        mass, total = level_sums(z, codes, share)
        between = max(between, float(np.sum(total**2 / mass, axis=1).max()))
    return min(sqrt(between), 1.0)


def ks_distance(
    scores: Any,
    *,
    sensitive_features: Any,
    n_bins: int = 10,
    sample_weight: Any = None,
    sensitive_kind: SensitiveKind = "auto",
    intersectional: bool = False,
) -> float:
    """Largest Kolmogorov distance between two groups, ``max_{s,t} sup_x |F_s(x) - F_t(x)|``.

    F_s is the distribution function of the score in group s. No threshold on the score has a
    larger demographic parity difference.

    Parameters
    ----------
    scores, sensitive_features, sample_weight, sensitive_kind, n_bins, intersectional
        As in :func:`correlation_ratio`.

    Returns
    -------
    float
        In [0, 1], 0 if all groups have the same distribution.
    """
    rows, (f,) = read(sensitive_features, sensitive_kind, sample_weight, scores=scores)
    worst = 0.0
    for _, codes, labels in rows.groups(n_bins, intersectional):
        every_group = np.ones(len(labels), dtype=bool)
        for column in f.T:
            worst = max(worst, largest_ks(column, codes, rows.weight, every_group)[0])
    return worst
