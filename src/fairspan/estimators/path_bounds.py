"""Upper confidence bounds of error and parity on new rows, from the rows of a path (METHOD 12).

A dial value is promised if its bound keeps the limit, and so do the bounds of all values from the fair end
to it. Testing in this fixed order needs no correction for the number of dial values (Angelopoulos et al.,
Learn then Test, 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

from fairspan.estimators.dial_predictor import decide
from fairspan.estimators.path_selection import DECISION_CURVES, Levels, PathEvaluator
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes

__all__ = ["Bounds", "promised", "rows_needed", "upper_bounds"]


@dataclass(frozen=True)
class Bounds:
    """Upper bounds at some dial values, and the rows behind them."""

    upper: Array  # (points,)
    smallest_group: int | None = None  # rows of the smallest group that rates are compared in
    value: Array | None = None  # estimates that the bounds belong to; None: the values of the path

    @classmethod
    def joined(cls, parts: list[Bounds]) -> Bounds:
        """Bounds of consecutive dial values."""
        return cls(np.concatenate([part.upper for part in parts]), parts[0].smallest_group)


def promised(upper: Array, start: int, step: int, limit: float) -> Codes:
    """Dial values, from ``start`` in steps of ``step``, before the first whose bound exceeds the limit."""
    order = np.arange(start, len(upper) if step > 0 else -1, step)
    broken = np.flatnonzero(~(upper[order] <= limit))
    return order[: broken[0]] if len(broken) else order


def rows_needed(n: int, value: float, upper: float, limit: float) -> int | None:
    """About how many rows would promise a limit that n rows do not promise; None if more rows do not help.

    Where the margin alone exceeds the limit, the value is regarded as noise. Otherwise the value stays.
    """
    margin = upper - value
    room = limit if margin > limit else limit - value
    if not (margin > 0.0 and room > 0.0):
        return None
    return int(np.ceil(n * (margin / room) ** 2))


def upper_bounds(
    evaluator: PathEvaluator,
    metric: str,
    outputs: Array,
    *,
    attribute: str | None,
    confidence: float,
    independent: bool,
) -> Bounds:
    """Upper bounds of a metric at the dial values of ``outputs``, (n, outputs, points).

    ``independent``: the model was fitted on other rows, so a bound may be one-sided. Out of fold, the
    models of the folds were fitted on overlapping rows, and the two-sided quantile is used.
    """
    alpha = (1.0 - confidence) * (2.0 if independent else 1.0)  # of a two-sided interval
    if metric == "error":
        return Bounds(_error_bound(evaluator, outputs, alpha))
    names = evaluator.attributes
    if attribute is not None:
        evaluator.check_attribute(attribute, names)
        names = [attribute]
    chosen = [evaluator.levels[name] for name in names]
    if metric in DECISION_CURVES:
        return _gap_bound(evaluator, metric, outputs, chosen, alpha)
    cells = evaluator.cells if metric != "statistical_parity_correlation" else None
    groups = [rows for rows in _cells(evaluator, cells) if len(rows)]
    columns = evaluator.scores_of(outputs)
    if metric == "correlation_ratio":
        return Bounds(_ratio_bound(evaluator, chosen, groups, columns, alpha))
    return Bounds(_correlation_bound(evaluator, chosen, groups, columns, alpha))


def _cells(evaluator: PathEvaluator, cells: Codes | None) -> list[Codes]:
    if cells is None:
        return [np.arange(evaluator.n)]
    return [np.flatnonzero(cells == c) for c in range(len(evaluator.cell_names))]


def _quantile(alpha: float, n_tests: int) -> float:
    """Two-sided normal quantile, jointly for several tests (Bonferroni)."""
    return float(scipy.stats.norm.ppf(1.0 - min(alpha / n_tests, 1.0) / 2.0))


def _kish(weight: Array) -> float:
    return float(weight.sum() ** 2 / max(float(weight @ weight), 1e-300))


def _error_bound(evaluator: PathEvaluator, outputs: Array, alpha: float) -> Array:
    w = evaluator.weight / evaluator.weight.sum()
    n, z = _kish(evaluator.weight), _quantile(alpha, 1)
    if evaluator.classes is not None:
        wrong = decide(outputs) != evaluator.target[:, None]
        return wilson(w @ wrong, n, z)[1]
    squares = (outputs[:, 0] - evaluator.target[:, None]) ** 2
    mean = w @ squares
    spread = np.sqrt(np.maximum(w @ squares**2 - mean**2, 0.0) / n)
    return np.asarray(np.sqrt(mean + z * spread))


def wilson(rate: Array, n: Any, z: float) -> tuple[Array, Array]:
    """Wilson's interval of a rate in n rows."""
    centre = (rate + z**2 / (2.0 * n)) / (1.0 + z**2 / n)
    half = z / (1.0 + z**2 / n) * np.sqrt(rate * (1.0 - rate) / n + z**2 / (4.0 * n**2))
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def _gap_bound(
    evaluator: PathEvaluator, metric: str, outputs: Array, chosen: list[Levels], alpha: float
) -> Bounds:
    """Newcombe's intervals of all differences between two groups, jointly; the largest upper limit."""
    decided = np.asarray(decide(outputs) == evaluator.positive, dtype=np.float64)
    label: Codes = np.zeros(evaluator.n, dtype=np.intp)
    if metric == "equalized_odds_difference":
        label = (evaluator.target == evaluator.positive).astype(np.intp)
    parts = [(levels, label == value) for levels in chosen for value in np.unique(label)]
    n_pairs = sum(levels.n_levels * (levels.n_levels - 1) // 2 for levels, _ in parts)
    z, worst, smallest = _quantile(alpha, max(n_pairs, 1)), [], evaluator.n
    for levels, inside in parts:
        rates, low, high = [], [], []
        for level in range(levels.n_levels):
            rows = inside & (levels.codes == level)
            smallest = min(smallest, int(rows.sum()))
            if not rows.any():
                return Bounds(np.ones(decided.shape[1]), 0)
            w = evaluator.weight[rows]
            rate = w @ decided[rows] / w.sum()
            interval = wilson(rate, _kish(w), z)
            rates.append(rate)
            low.append(interval[0])
            high.append(interval[1])
        for a in range(len(rates)):
            for b in range(len(rates)):
                if a != b:
                    half = np.hypot(high[a] - rates[a], rates[b] - low[b])
                    worst.append(rates[a] - rates[b] + half)
    return Bounds(np.max(worst, axis=0), smallest)


def _correlation_bound(
    evaluator: PathEvaluator,
    chosen: list[Levels],
    groups: list[Codes],
    columns: list[Array],
    alpha: float,
) -> Array:
    """``|r| + z se`` of the correlation with every level, the largest; z is joint over all of them."""
    codes = [(rows, code) for levels in chosen for rows in groups for code in _codes(levels, rows)]
    z = _quantile(alpha, max(len(codes) * len(columns), 1))
    bounds = [np.zeros(columns[0].shape[1])]
    for rows, (known, code) in codes:
        w = evaluator.weight[rows][known]
        c = _standard(code[:, None], w)
        for column in columns:
            f = _standard(column[rows][known], w)
            share = w / w.sum()
            r = share @ (c * f)
            # The influence of a row on a correlation.
            influence = c * f - r / 2.0 * (c**2 + f**2)
            bounds.append(np.abs(r) + z * np.sqrt(share @ influence**2 / _kish(w)))
    return np.asarray(np.minimum(np.max(bounds, axis=0), 1.0))


def _ratio_bound(
    evaluator: PathEvaluator,
    chosen: list[Levels],
    groups: list[Codes],
    columns: list[Array],
    alpha: float,
) -> Array:
    """Correlation ratio plus the radius of a chi-square with a degree of freedom for every group but one."""
    n_tests = max(len(chosen) * len(groups) * len(columns), 1)
    bounds = [np.zeros(columns[0].shape[1])]
    for levels in chosen:
        for rows in groups:
            code = levels.codes[rows]
            w, known = evaluator.weight[rows], code >= 0
            present = np.unique(code[known])
            if len(present) < 2:
                continue
            for column in columns:
                f = _standard(column[rows][known], w[known])
                between = np.zeros(f.shape[1])
                for level in present:
                    inside = code[known] == level
                    share = w[known][inside].sum() / w[known].sum()
                    between += share * np.average(f[inside], axis=0, weights=w[known][inside]) ** 2
                quantile = scipy.stats.chi2.ppf(1.0 - alpha / n_tests, len(present) - 1)
                bounds.append(np.sqrt(between) + np.sqrt(quantile / _kish(w[known])))
    return np.asarray(np.minimum(np.max(bounds, axis=0), 1.0))


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


def _standard(columns: Array, weight: Array) -> Array:
    """Weighted mean 0 and variance 1; constant columns become 0."""
    share = weight / weight.sum()
    centred = columns - share @ columns
    norm = np.sqrt(share @ centred**2)
    return np.asarray(centred / np.where(norm > 1e-12, norm, np.inf))
