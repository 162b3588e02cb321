"""One number of an audit, and how its interval is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.stats

from fairspan.method.linalg import Array

__all__ = ["SECTIONS", "Finding", "Size", "measure", "rate_interval", "summarise", "unseen_rate"]

# What an audit consists of, in the order in which it is read.
SECTIONS = (
    "performance",
    "scores",
    "decisions",
    "tests",
    "attacks",
    "proxies",
    "certificate",
    "kernel",
)

# How the parts of a gap become one number; every one of them is a seminorm.
Size = Literal["largest", "range", "length", "sum"]


@dataclass(frozen=True)
class Finding:
    """One line of an audit.

    Attributes
    ----------
    section : one of ``SECTIONS``.
    metric : what is measured.
    attribute : protected attribute, "" for what concerns all rows.
    group : one of its levels or slices, "" for a comparison of all of them.
    where : the rows looked at: "" for all, a class of y, or a stratum of the control features.
    value, low, high : estimate and interval; NaN where no statement can be made, and ``note`` says why.
    p_value, p_adjusted : of a test or an attack, alone and corrected for all of them; NaN elsewhere.
    n_rows : rows the number rests on.
    small : too few of them for a statement.
    note : what a reader must know.
    """

    section: str
    metric: str
    attribute: str = ""
    group: str = ""
    where: str = ""
    value: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    p_value: float = float("nan")
    p_adjusted: float = float("nan")
    n_rows: int = 0
    small: bool = False
    note: str = ""


def measure(parts: Array, size: Size) -> Array:
    """Size of each column of parts; parts that are NaN in the first column are left out by callers."""
    if size == "largest":
        return np.asarray(np.abs(parts).max(axis=0))
    if size == "range":
        return np.asarray(parts.max(axis=0) - parts.min(axis=0))
    if size == "length":
        return np.asarray(np.sqrt((parts**2).sum(axis=0)))
    return np.asarray(np.abs(parts).sum(axis=0))


def summarise(
    parts: Array, draws: Array, size: Size, level: float, top: float = 1.0, beyond: float = 0.0
) -> tuple[float, float, float]:
    """A gap with its interval: estimate, low, high.

    The largest of several differences is biased upwards, and its resamples twice over, so percentiles
    of resampled gaps miss the truth where it matters most: near 0. But every gap here is a seminorm, and
    ``| |a| - |b| | <= |a - b|``: with the chance ``level`` the truth is no farther from the estimate than
    the quantile of ``|draw - estimate|``. That holds for all comparisons at once; it is conservative
    away from 0, and about nominal at 0, where the inequality is tight.

    Parameters
    ----------
    parts : (k,) what is compared, such as one rate per group.
    draws : (k, B) the same in resamples.
    size : how parts become one number.
    level : of the interval.
    top : largest value the gap can have.
    beyond : how far a part may be off without any resample showing it.
    """
    value = float(measure(parts[:, None], size)[0])
    usable = draws[:, np.isfinite(draws).all(axis=0)]
    if usable.shape[1] == 0:
        return value, float("nan"), float("nan")
    reach = float(np.quantile(measure(usable - parts[:, None], size), level)) + beyond
    return value, max(value - reach, 0.0), min(value + reach, top)


def unseen_rate(n: float, tail: float) -> float:
    """Largest rate at which n rows all go the other way with the chance ``tail`` (exact)."""
    return float(scipy.stats.beta.ppf(1.0 - tail, 1.0, n)) if n > 0 else 1.0


def rate_interval(rate: float, draws: Array, n: float, level: float) -> tuple[float, float]:
    """Percentiles of resampled rates; where all rows agree, resamples do too, and the exact limit serves."""
    tail = (1.0 - level) / 2.0
    if rate <= 0.0 or rate >= 1.0:
        reach = unseen_rate(n, tail)
        return (0.0, reach) if rate <= 0.0 else (1.0 - reach, 1.0)
    usable = draws[np.isfinite(draws)]
    if len(usable) == 0:
        return float("nan"), float("nan")
    low, high = np.quantile(usable, (tail, 1.0 - tail))
    return min(float(low), rate), max(float(high), rate)
