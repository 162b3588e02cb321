"""Confidence limits of error and parity on new rows, from the rows of a path (METHOD 12)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np
import scipy.stats

from fairspan.estimators.path_likely import likely_correlation, likely_rates, likely_ratio
from fairspan.estimators.path_selection import DECISION_CURVES, Group, Levels, PathEvaluator
from fairspan.method.decision_certificate import wilson
from fairspan.method.decision_rule import decide
from fairspan.method.linalg import Array
from fairspan.method.moments import kish
from fairspan.method.probabilities import information
from fairspan.method.problem import Codes
from fairspan.metrics.groups import standardize


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Estimates of a metric on new rows at every dial value of a path, with confidence bounds.

    Attributes
    ----------
    value : ndarray
        Estimates.
    lower, upper : ndarray
        Limits of the interval; ``upper`` is what :meth:`FairnessPath.select` compares with a limit.
    confidence : float
        Of the interval, or of each of the two limits (``one_sided``).
    one_sided : bool
        The model was fitted on other rows, so that each limit alone has the confidence.
    group : Group or None
        The smallest group that rates are compared in.
    """

    value: Array
    lower: Array
    upper: Array
    confidence: float
    one_sided: bool
    group: Group | None = None

    @property
    def words(self) -> str:
        """The confidence in words, for legends and axes."""
        return f"{100.0 * self.confidence:.4g} %" + (" each side" if self.one_sided else "")


@dataclass(frozen=True)
class Limits:
    """Lower and upper limits at some dial values."""

    lower: Array  # (points,)
    upper: Array
    group: Group | None = None

    @classmethod
    def joined(cls, parts: list[Limits]) -> Limits:
        """Limits of consecutive dial values."""
        lower, upper = (
            np.concatenate([getattr(part, side) for part in parts]) for side in ("lower", "upper")
        )
        return cls(lower, upper, parts[0].group)


def confidence_limits(
    evaluator: PathEvaluator,
    metric: str,
    outputs: Array,
    *,
    attribute: str | None,
    confidence: float,
    one_sided: bool,
    rate_spread: float = 1.0,
) -> Limits:
    """Confidence limits of a metric at the dial values of ``outputs``, (n, outputs, points).

    ``one_sided``: the model was fitted on other rows, so each limit may have the confidence by itself. Out
    of fold, the models of the folds were fitted on overlapping rows, and the two-sided quantile is used.
    ``rate_spread`` multiplies the variance of rates: out of fold the rules of the folds decide, and on new
    rows their average.
    """
    alpha = (1.0 - confidence) * (2.0 if one_sided else 1.0)  # of a two-sided interval
    if metric == "error":
        return Limits(*_error_limits(evaluator, outputs, alpha))
    names = evaluator.attributes
    if attribute is not None:
        evaluator.check_attribute(attribute, names)
        names = [attribute]
    chosen = {name: evaluator.levels[name] for name in names}
    if metric in DECISION_CURVES:
        return _gap_limits(evaluator, metric, outputs, chosen, alpha, rate_spread)
    cells = evaluator.cells if metric != "statistical_parity_correlation" else None
    groups = [rows for rows in _cells(evaluator, cells) if len(rows)]
    columns = evaluator.scores_of(outputs)
    each = _ratio_limits if metric == "correlation_ratio" else _correlation_limits
    pairs = each(evaluator, list(chosen.values()), groups, columns, alpha)
    nothing = np.zeros(columns[0].shape[1])
    lower = np.max([nothing, *(value - margin for value, margin in pairs)], axis=0)
    upper = np.max([nothing, *(value + margin for value, margin in pairs)], axis=0)
    return Limits(lower, np.minimum(upper, 1.0))


def resample_limits(draws: Array, confidence: float, *, one_sided: bool) -> Limits:
    """Percentiles of a metric in resamples of the rows, (points, resamples).

    A resample in which the metric is not defined says nothing, so it counts against both limits.
    """
    tail = (1.0 - confidence) / (1.0 if one_sided else 2.0)
    lower, upper = (np.where(np.isnan(draws), at, draws) for at in (-np.inf, np.inf))
    return Limits(
        np.quantile(lower, tail, axis=1, method="lower"),
        np.quantile(upper, 1.0 - tail, axis=1, method="higher"),
    )


def _cells(evaluator: PathEvaluator, cells: Codes | None) -> list[Codes]:
    if cells is None:
        return [np.arange(evaluator.n)]
    return [np.flatnonzero(cells == c) for c in range(len(evaluator.cell_names))]


def _quantile(alpha: float, n_tests: int) -> float:
    """Two-sided normal quantile, jointly for several tests (Bonferroni)."""
    return float(scipy.stats.norm.ppf(1.0 - min(alpha / n_tests, 1.0) / 2.0))


def _kish_size(weight: Array) -> float:
    return kish(float(weight.sum()), float(weight @ weight))


def _error_limits(evaluator: PathEvaluator, outputs: Array, alpha: float) -> tuple[Array, Array]:
    w = evaluator.weight / evaluator.weight.sum()
    n, z = _kish_size(evaluator.weight), _quantile(alpha, 1)
    if evaluator.classes is not None:
        wrong = decide(outputs) != evaluator.target[:, None]
        return wilson(w @ wrong, n, z)
    squares = (outputs[:, 0] - evaluator.target[:, None]) ** 2
    mean = w @ squares
    spread = np.sqrt(np.maximum(w @ squares**2 - mean**2, 0.0) / n)
    return np.sqrt(np.maximum(mean - z * spread, 0.0)), np.sqrt(mean + z * spread)


def _of_difference(a: Array, b: Array, correlation: Array) -> Array:
    """Half-width of a difference from those of its parts: ``sqrt(a^2 + b^2 - 2 correlation a b)``."""
    return np.asarray(np.hypot(a - correlation * b, np.sqrt(1.0 - correlation**2) * b))


def _gap_limits(
    evaluator: PathEvaluator,
    metric: str,
    outputs: Array,
    chosen: dict[str, Levels],
    alpha: float,
    rate_spread: float,
) -> Limits:
    """Newcombe's intervals of all differences between two groups, jointly; the largest limits.

    Rates of known groups are independent; those of probabilities come with their correlations.
    """
    decided = np.asarray(decide(outputs) == evaluator.positive, dtype=np.float64)
    label: Codes = np.zeros(evaluator.n, dtype=np.intp)
    words = [""]
    if metric == "equalized_odds_difference":
        label = (evaluator.target == evaluator.positive).astype(np.intp)
        words = [" with an unfavourable label", " with a favourable label"]
    present = np.unique(label)
    n_pairs = sum(levels.n_levels * (levels.n_levels - 1) // 2 for levels in chosen.values())
    z = _quantile(alpha, max(n_pairs * len(present), 1))
    smallest = Group(name="all rows", n_rows=evaluator.n)
    lower, upper = [np.zeros(decided.shape[1])], []
    for (name, levels), value in product(chosen.items(), present):
        rates: list[tuple[Array, Array, Array]] = []
        correlation: Array = np.zeros((levels.n_levels, levels.n_levels, 1))
        if levels.probabilities is not None:
            rows = (label == value) & (levels.codes >= 0)
            p, w = levels.probabilities[rows], evaluator.weight[rows]
            sizes = np.rint(p.sum(axis=0)).astype(int)
            least = int(np.argmin(sizes))
            if (n_rows := int(sizes[least])) < smallest.n_rows:
                which = levels.labels[least]
                smallest = Group(name=f"{name} = {which}{words[value]}", n_rows=n_rows)
            found = likely_rates(decided[rows], p, w, z, rate_spread)
            if found is None:
                return Limits(lower[0], np.ones(decided.shape[1]), smallest)
            rates, correlation = found
        for level in range(levels.n_levels if levels.probabilities is None else 0):
            rows = (label == value) & (levels.codes == level)
            if (n_rows := int(rows.sum())) < smallest.n_rows:
                which = levels.labels[level] if levels.labels else f"group {level + 1}"
                smallest = Group(name=f"{name} = {which}{words[value]}", n_rows=n_rows)
            if n_rows == 0:
                return Limits(lower[0], np.ones(decided.shape[1]), smallest)
            w = evaluator.weight[rows]
            rate = w @ decided[rows] / w.sum()
            rates.append((rate, *wilson(rate, _kish_size(w) / rate_spread, z)))
        for a, b in permutations(range(levels.n_levels), 2):
            (rate_a, low_a, high_a), (rate_b, low_b, high_b) = rates[a], rates[b]
            rho, gap = correlation[a, b], rate_a - rate_b
            lower.append(gap - _of_difference(rate_a - low_a, high_b - rate_b, rho))
            upper.append(gap + _of_difference(high_a - rate_a, rate_b - low_b, rho))
    return Limits(np.max(lower, axis=0), np.max([lower[0], *upper], axis=0), smallest)


def _correlation_limits(
    evaluator: PathEvaluator,
    chosen: list[Levels],
    groups: list[Codes],
    columns: list[Array],
    alpha: float,
) -> list[tuple[Array, Array]]:
    """``|r|`` and ``z se`` of the correlation with every level; z is joint over all of them."""
    codes, likely = [], []
    for levels, rows in product(chosen, groups):
        if levels.probabilities is None:
            codes += [(rows, code) for code in _codes(levels, rows)]
        else:
            rows = rows[levels.codes[rows] >= 0]
            likely += [(rows, levels.probabilities[rows], h) for h in _likely_groups(levels, rows)]
    z = _quantile(alpha, max((len(codes) + len(likely)) * len(columns), 1))
    out = []
    for rows, p, h in likely:
        w = evaluator.weight[rows]
        for column in columns:
            r, influence = likely_correlation(standardize(column[rows], w), p, w, h)
            spread = np.sqrt(w / w.sum() @ influence**2 / _kish_size(w))
            # Where the probabilities do not tell groups apart, nothing is known.
            known = np.isfinite(r) & np.isfinite(spread)
            out.append((np.where(known, np.abs(r), 0.0), np.where(known, z * spread, 1.0)))
    for rows, (known, code) in codes:
        w = evaluator.weight[rows][known]
        c = standardize(code[:, None], w)
        share = w / w.sum()
        for column in columns:
            f = standardize(column[rows][known], w)
            r = share @ (c * f)
            # The influence of a row on a correlation.
            influence = c * f - r / 2.0 * (c**2 + f**2)
            out.append((np.abs(r), z * np.sqrt(share @ influence**2 / _kish_size(w))))
    return out


def _ratio_limits(
    evaluator: PathEvaluator,
    chosen: list[Levels],
    groups: list[Codes],
    columns: list[Array],
    alpha: float,
) -> list[tuple[Array, Array]]:
    """Correlation ratio, and the radius of a chi-square with a degree of freedom for all groups but one.

    The radius has the standard error of the least certain comparison of groups. It is at least that of
    scores whose variance is 1 in every group: the variance within a group of few rows is not well known.
    """
    n_tests = max(len(chosen) * len(groups) * len(columns), 1)
    out = []
    for levels, rows in product(chosen, groups):
        rows = rows[levels.codes[rows] >= 0]
        w = evaluator.weight[rows]
        if levels.probabilities is None:
            present, code = np.unique(levels.codes[rows], return_inverse=True)
            p = np.eye(len(present))[code]
        else:
            p = levels.probabilities[rows]
        p = p[:, w @ p > 0.0]
        if p.shape[1] < 2:
            continue
        quantile = np.sqrt(scipy.stats.chi2.ppf(1.0 - alpha / n_tests, p.shape[1] - 1))
        n, told = _kish_size(w), information(p, w)
        for column in columns:
            ratio, spread = likely_ratio(standardize(column[rows], w), p, w)
            # Where the probabilities do not tell groups apart, nothing is known.
            known = np.isfinite(ratio) & np.isfinite(spread) & (told > 0.0)
            least = 1.0 / np.sqrt(told) if told > 0.0 else np.inf
            radius = quantile * np.maximum(spread, least) / np.sqrt(n)
            out.append((np.where(known, ratio, 0.0), np.where(known, radius, 1.0)))
    return out


def _likely_groups(levels: Levels, rows: Codes) -> list[int]:
    """Groups that some of the rows may belong to; one of two."""
    assert levels.probabilities is not None
    present = np.flatnonzero(levels.probabilities[rows].any(axis=0)).tolist()
    return [] if len(present) < 2 else present[:1] if len(present) == 2 else present


def _codes(levels: Levels, rows: Codes) -> list[tuple[Any, Array]]:
    """Known rows and their code, for every level (one of two levels), or for the values of a number."""
    code = levels.codes[rows]
    known = code >= 0
    if levels.values is not None:
        return [(known, levels.values[rows][known])] if known.any() else []
    present = np.unique(code[known])
    if len(present) < 2:
        return []
    wanted = present[:1] if len(present) == 2 else present
    return [(known, (code[known] == level).astype(np.float64)) for level in wanted]
