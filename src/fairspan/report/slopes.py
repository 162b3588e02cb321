"""How much scores or decisions change with a numeric protected attribute: one slope, with its interval.

A largest gap between slices of a number is the largest of many noisy differences. The slope of a straight
line uses all rows at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.auditing import Protected
from fairspan.auditing.parts import resample_source
from fairspan.method.linalg import Array
from fairspan.metrics.groups import ALL, GroupSums, group_sums, resample
from fairspan.report.dial_points import HeldOut
from fairspan.tables.dictionary import ColumnWords

__all__ = ["Line", "Step", "choose_step", "lines_of", "slope"]

# A unit at the end of a label: "Age (years)", "income [EUR]", "age in years".
_UNIT = re.compile(r"^(?P<what>.+?)(?:\s*[(\[](?P<bracket>[^()\[\]]+)[)\]]|\s+in\s+(?P<word>\w+))$")
_TIMES = ("year", "years", "month", "months")


@dataclass(frozen=True, kw_only=True)
class Step:
    """A round distance between two people, along which a slope is stated.

    Attributes
    ----------
    size : 1, 10, 100, ... or 0.1, 0.01, ...
    words : such as "10 years older", or "income higher by 1,000".
    """

    size: float
    words: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """A numeric attribute, as slopes along it need it."""

    attribute: str
    values: Array  # (n,) centred
    cells: Any  # (n,) rows are compared within these
    among: str  # the rows that are compared, in words
    step: Step


def choose_step(values: Array, name: str, words: ColumnWords | None = None) -> Step:
    """The largest power of ten within two standard deviations of a column, in the words of its dictionary.

    Parameters
    ----------
    values : numbers of the column.
    name, words : its name, and what a dictionary says about it.
    """
    low, high = np.quantile(values, (0.1, 0.9))
    spread = float(high - low) / 2.56  # the standard deviation of a normal distribution
    if not spread > 0.0:
        spread = float(np.std(values))
    size = 10.0 ** math.floor(math.log10(2.0 * spread)) if spread > 0.0 else 1.0
    label = (words.label if words else "") or name
    found = _UNIT.match(label)
    what, unit = label, ""
    if found:
        what, unit = found["what"], found["bracket"] or found["word"]
    shown = f"{size:,.0f}" if size >= 1.0 else f"{size:g}"
    if unit in _TIMES and re.search(r"\bage$", what.casefold()):
        one = unit.rstrip("s")
        return Step(size=size, words=f"{shown} {one}{'' if size == 1.0 else 's'} older")
    return Step(size=size, words=f"{what} higher by {shown}{f' {unit}' if unit else ''}")


def lines_of(
    held_out: HeldOut, criterion: str, words: Mapping[str, ColumnWords]
) -> dict[str, Line]:
    """All numeric protected attributes by name; the criterion says within which rows slopes are taken."""
    return {line.attribute: line for line in _lines(held_out, criterion, words)}


def _lines(held_out: HeldOut, criterion: str, words: Mapping[str, ColumnWords]) -> Iterator[Line]:
    data = held_out.data
    cells, among = np.zeros(data.n, dtype=np.intp), ""
    if criterion == "conditional_statistical_parity" and data.strata is not None:
        cells, among = data.strata.codes, "within the strata"
    elif criterion in ("equalized_odds", "equal_opportunity") and data.classes is not None:
        assert data.target is not None
        cells, among = data.target.codes, "at the same true outcome"
        if criterion == "equal_opportunity":
            among = "among the truly positive"
            cells = np.where(cells == data.positive[0], 0, -1)
    for groups in data.attributes:
        if groups.values is not None:
            yield _line(groups, cells, among, words.get(groups.name))


def _line(groups: Protected, cells: Any, among: str, words: ColumnWords | None) -> Line:
    assert groups.values is not None
    values = np.asarray(groups.values, dtype=np.float64)
    return Line(
        attribute=groups.name,
        values=values - values.mean(),  # sums of squares keep their digits
        cells=cells,
        among=among,
        step=choose_step(values, groups.name, words),
    )


def slope(line: Line, outcome: Array, held_out: HeldOut) -> dict[str, float]:
    """Weighted least-squares slope of an outcome per step of an attribute, with its bootstrap interval.

    Parameters
    ----------
    line : the attribute.
    outcome : (n,) scores, predictions, or 1 for people who get a decision.
    held_out : rows and resamples, the same as of all other intervals.
    """
    used = line.cells >= 0
    s, weight = line.values[used], held_out.data.weight[used]
    y = outcome[used] - outcome[used].mean()
    columns = {"s": s, "y": y, "ss": s * s, "sy": s * y}
    sums = _sums({ALL: line.cells[used]}, columns, weight, used, held_out)
    total = sums.columns[""]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_s = np.where(total > 0.0, sums.columns["s"] / total, 0.0)
        spread = (sums.columns["ss"] - mean_s * sums.columns["s"]).sum(axis=0)
        common = (sums.columns["sy"] - mean_s * sums.columns["y"]).sum(axis=0)
        slopes = np.where(spread > 0.0, common / spread, np.nan) * line.step.size
    tail = (1.0 - held_out.settings.level) / 2.0
    draws = slopes[1:]
    low, high = np.full(2, np.nan)
    if len(draws) and np.isfinite(draws).all():
        low, high = np.quantile(draws, (tail, 1.0 - tail))
    value = float(slopes[0])
    return {"value": value, "low": float(min(low, value)), "high": float(max(high, value))}


def _sums(
    factors: Any, columns: Mapping[str, Array], weight: Array, used: Any, held_out: HeldOut
) -> GroupSums:
    """Sums over the rows and over the resamples of an audit."""
    settings = held_out.settings
    if held_out.counts is not None:
        return group_sums(factors, columns, weight, [held_out.counts[used]])
    rng = resample_source(held_out.data.weight, held_out.seed)
    return resample(factors, columns, weight, settings.n_boot, rng)
