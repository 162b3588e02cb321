"""One number of an audit, and the intervals of gaps and rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.stats

from fairspan.method.linalg import Array

# The parts of an audit, in the order of its report.
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

# How the parts of a gap become one number; each of them is a seminorm.
Size = Literal["largest", "range", "length", "sum"]


@dataclass(frozen=True)
class Finding:
    """One number of an audit.

    Attributes
    ----------
    section : one of ``SECTIONS``.
    metric : name of the number.
    attribute : protected attribute, "" for a number about all rows.
    group : one of its levels or slices, "" for a comparison of all of them.
    where : the rows used: "" for all, a class of y, or a stratum of the control features.
    value, low, high : estimate and interval; NaN where there is none, and ``note`` has the reason.
    p_value, p_adjusted : of a test or an attack, alone and corrected for all of them; NaN elsewhere.
    n_rows : number of rows that the estimate uses.
    small : whether the rows are too few for a statement.
    note : what a reader must know to understand the number.
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


def listed(names: Sequence[str]) -> str:
    """The first five names, separated by commas."""
    return ", ".join([*names[:5], *(["..."] if len(names) > 5 else [])])


def measure(parts: Array, size: Size) -> Array:
    """Size of each column of parts; callers leave out parts that are NaN in the first column."""
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
    """Estimate, lower and upper limit of a gap.

    The largest of several differences is biased upwards, and in resamples twice as much, so percentiles
    of resampled gaps miss the truth near 0, where it matters most. But every gap here is a seminorm, and
    ``| |a| - |b| | <= |a - b|``: with probability ``level`` the distance of the truth from the estimate
    is at most the quantile of ``|draw - estimate|``. The interval holds for all comparisons at once. It
    is conservative away from 0, and about nominal at 0, where the inequality is tight.

    Parameters
    ----------
    parts : (k,) the numbers compared, such as one rate per group.
    draws : (k, B) the same numbers in resamples.
    size : how parts become one number.
    level : of the interval.
    top : largest value the gap can have.
    beyond : possible error of a part that resamples cannot show.
    """
    value = float(measure(parts[:, None], size)[0])
    usable = draws[:, np.isfinite(draws).all(axis=0)]
    if usable.shape[1] == 0:
        return value, float("nan"), float("nan")
    reach = float(np.quantile(measure(usable - parts[:, None], size), level)) + beyond
    return value, max(value - reach, 0.0), min(value + reach, top)


def unseen_rate(n: float, tail: float) -> float:
    """Upper confidence limit of a rate after none of n rows (exact, one-sided, error ``tail``)."""
    return float(scipy.stats.beta.ppf(1.0 - tail, 1.0, n)) if n > 0 else 1.0


def rate_interval(rate: float, draws: Array, n: float, level: float) -> tuple[float, float]:
    """Percentiles of resampled rates; the exact limit for rates 0 and 1, which never vary."""
    tail = (1.0 - level) / 2.0
    if rate <= 0.0 or rate >= 1.0:
        reach = unseen_rate(n, tail)
        return (0.0, reach) if rate <= 0.0 else (1.0 - reach, 1.0)
    usable = draws[np.isfinite(draws)]
    if len(usable) == 0:
        return float("nan"), float("nan")
    low, high = np.quantile(usable, (tail, 1.0 - tail))
    return min(float(low), rate), max(float(high), rate)
