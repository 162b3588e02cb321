"""Intervals for groups of few rows, where resamples say too little.

A resample of a few rows may have none of them, and never shows what they do not show. So a rate gets its
exact interval (Clopper and Pearson 1934), and a mean Student's. The limits of a difference between two
groups are combined from those of both (Newcombe 1998; MOVER). A group without any row of the kind
contributes the whole range that is possible.
"""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
import scipy.stats

from fairspan.method.linalg import Array
from fairspan.metrics.inputs import Mask

# With fewer effective rows, resamples are not used.
FEW = 30.0


def exact_interval(rate: float, n: float, tail: float) -> tuple[float, float]:
    """Clopper-Pearson limits of a rate in n effective rows, with the error ``tail`` on each side."""
    hits, misses = rate * n, (1.0 - rate) * n
    low = float(scipy.stats.beta.ppf(tail, hits, misses + 1.0)) if hits > 0.0 else 0.0
    high = float(scipy.stats.beta.ppf(1.0 - tail, hits + 1.0, misses)) if misses > 0.0 else 1.0
    return low, high


def student_factor(n: float, tail: float) -> float:
    """Student's quantile for n rows and a standard error from resamples, which is too small."""
    return float(scipy.stats.t.isf(tail, n - 1.0)) * sqrt(n / (n - 1.0)) if n > 1.0 else inf


def mean_interval(
    value: float, draws: Array, n: float, tail: float, limits: tuple[float, float]
) -> tuple[float, float]:
    """Student's limits of a mean, with the standard error of its resamples; within ``limits``."""
    drawn = draws[np.isfinite(draws)]
    if n <= 1.0 or len(drawn) < 2:
        return limits
    reach = student_factor(n, tail) * float(drawn.std())
    return max(value - reach, limits[0]), min(value + reach, limits[1])


def n_pairs(known: Mask) -> int:
    """Number of pairs of groups whose limits must hold together, at least 1."""
    k = int(known.sum())
    return max(k * (k - 1) // 2, 1)


def largest_difference(
    value: Array, low: Array, high: Array, widest: float
) -> tuple[float, float, float]:
    """Largest minus smallest value of several groups, with limits from those of each group.

    Parameters
    ----------
    value : (k,) one number for each group, NaN where it is not known.
    low, high : (k,) its limits.
    widest : largest difference that is possible.
    """
    known = np.isfinite(value)
    both = known[:, None] & known
    centre = np.where(known, value, 0.0)
    up, down = np.where(known, high - centre, 0.0), np.where(known, centre - low, 0.0)
    gap = centre[:, None] - centre
    above = np.where(both, gap + np.hypot(up[:, None], down), high[:, None] - low)
    below = np.where(both, gap - np.hypot(down[:, None], up), low[:, None] - high)
    for limits in (above, below):
        np.fill_diagonal(limits, -inf)
    estimate = float(np.ptp(value[known])) if known.sum() > 1 else float("nan")
    return estimate, max(float(below.max()), 0.0), min(float(above.max()), widest)


def smallest_ratio(value: Array, low: Array, high: Array) -> tuple[float, float, float]:
    """Smallest over largest rate of several groups, with limits from those of each group.

    Limits of the groups must hold together. Rates that are all 0 are equal: the ratio is 1.
    """
    known = value[np.isfinite(value)]
    estimate = float("nan")
    if len(known) > 1:
        estimate = float(known.min() / known.max()) if known.max() > 0.0 else 1.0

    def ratios(above: Array, below: Array) -> Array:
        out = np.divide.outer(above, np.where(below > 0.0, below, 1.0))
        out[:, below <= 0.0] = inf  # no limit
        np.fill_diagonal(out, inf)
        return out

    least, most = float(ratios(low, high).min()), float(ratios(high, low).min())
    return estimate, min(least, 1.0), min(most, 1.0)
