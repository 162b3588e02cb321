"""Limits that a person states for groups, and whether an interval proves that they are kept.

A yardstick is one number for one measure: the lowest rate over the highest ("ratio", at least), the
difference of two rates ("gap", at most) or the correlation of a score with an attribute
("correlation", at most).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["kept", "broken", "not provable"]

# The four-fifths rule of the US Uniform Guidelines on Employee Selection Procedures (1978).
FOUR_FIFTHS = 0.8
_MEASURES = ("ratio", "gap", "correlation")


@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """A measure of a difference between groups, and the limit on it.

    Attributes
    ----------
    measure : {"ratio", "gap", "correlation"}
    limit : float
        Between 0 and 1. A ratio must be at least this; a gap or correlation at most.
    """

    measure: str
    limit: float

    def __post_init__(self) -> None:
        if self.measure not in _MEASURES:
            known = ", ".join(_MEASURES)
            raise ValueError(f"{self.measure!r} is no measure of a limit; give one of: {known}.")
        if not 0.0 < self.limit < 1.0:
            msg = f"{self.measure}={self.limit:g} is not allowed; give a number between 0 and 1."
            raise ValueError(msg)

    def __str__(self) -> str:
        return f"{self.measure}={self.limit:g}"

    @property
    def is_lower(self) -> bool:
        """Whether the measure must be at least the limit."""
        return self.measure == "ratio"

    def judge(self, low: float, high: float) -> Verdict:
        """What an interval says about the limit.

        Parameters
        ----------
        low, high : ends of the confidence interval of the measure; NaN proves nothing.

        Returns
        -------
        {"kept", "broken", "not provable"}
            "kept" if the whole interval keeps the limit, "broken" if none of it does.
        """
        if math.isnan(low) or math.isnan(high):
            return "not provable"
        if self.is_lower:
            low, high, limit = -high, -low, -self.limit
        else:
            limit = self.limit
        if high <= limit:
            return "kept"
        return "broken" if low > limit else "not provable"


def read_yardstick(text: str | Yardstick) -> Yardstick:
    """Read "gap=0.05", "ratio=0.8" or "correlation=0.05".

    Raises
    ------
    ValueError
        The text has another form.
    """
    if isinstance(text, Yardstick):
        return text
    measure, equals, number = text.partition("=")
    try:
        limit = float(number)
    except ValueError:
        limit = math.nan
    if not equals or math.isnan(limit):
        raise ValueError(f"{text!r} is no limit; write gap=0.05, ratio=0.8 or correlation=0.05.")
    return Yardstick(measure=measure.strip(), limit=limit)
