"""Findings of an audit: one number each, with its interval; rates, errors and gaps of decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from fairspan.auditing.reading import Audited, Protected
from fairspan.auditing.small_groups import (
    FEW,
    exact_interval,
    largest_difference,
    mean_interval,
    n_pairs,
    smallest_ratio,
)
from fairspan.method.codes import code_slices, slice_edges
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.metrics.groups import ALL, BIN, DECIDED, STRATA, TARGET, GroupSums
from fairspan.metrics.inputs import Mask

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
    return exact_interval(0.0, n, tail)[1]


def rate_interval(rate: float, draws: Array, n: float, level: float) -> tuple[float, float]:
    """Percentiles of resampled rates; exact limits in few rows, and for 0 and 1, which never vary."""
    tail = (1.0 - level) / 2.0
    usable = draws[np.isfinite(draws)]
    if rate <= 0.0 or rate >= 1.0 or n < FEW or len(usable) == 0:
        return exact_interval(rate, n, tail)
    low, high = np.quantile(usable, (tail, 1.0 - tail))
    return min(float(low), rate), max(float(high), rate)


COVERED = "interval_coverage"  # share of rows whose 90 % interval contains y
N_BINS = 10  # of a probability, for the calibration error


def probability_bins(probability: Array, weight: Array) -> Codes:
    """Bin of each row: tenths of the weight in order of the probability."""
    return code_slices(probability, slice_edges(probability, N_BINS, weight))


def decision_columns(data: Audited) -> dict[str, Array]:
    """Columns to sum besides the weights: probabilities, or predictions and their errors."""
    if data.target is None:
        return {}
    if data.probability is not None:
        return {"p": data.probability}
    y = data.target.values
    if data.classes is not None or data.scores is None or data.scores.shape[1] != 1 or y is None:
        return {}
    f = data.scores[:, 0]
    covered = {} if data.covered is None else {"covered": data.covered}
    return {"f": f, "e": f - y, "ee": (f - y) ** 2, **covered}


def performance_findings(data: Audited, sums: GroupSums, level: float) -> Iterator[Finding]:
    """Accuracy, or errors of numeric predictions, over all rows."""
    everyone = Protected(ALL, "categorical", np.zeros(data.n, dtype=np.intp), ("",))
    factors = {**sums.factors, ALL: np.zeros(len(sums.rows), dtype=np.intp)}
    every = replace(sums, factors=factors)
    groups = _Groups(data=data, attribute=everyone, sums=every, level=level, min_rows=0)
    for rates in groups.all_rates():
        if rates.name in ("accuracy", "root_mean_squared_error", "mean_error", COVERED):
            yield replace(groups.rate_finding(rates, 0), section="performance", attribute="")


def decision_findings(
    data: Audited, groupings: Sequence[Protected], sums: GroupSums, level: float, min_rows: int
) -> Iterator[Finding]:
    """Every rate by group, then every gap, for all rows and in every stratum."""
    for attribute in groupings:
        groups = partial(_Groups, data=data, attribute=attribute, level=level, min_rows=min_rows)
        joint = sums.over(attribute.name, TARGET, DECIDED, BIN, STRATA)
        for where, some in data.in_strata(joint):
            yield from groups(sums=some, where=where).findings()


_SHARE, _ANY = (0.0, 1.0), (-np.inf, np.inf)


@dataclass(frozen=True, kw_only=True)
class _Rates:
    """One rate for every level of an attribute."""

    name: str
    values: Array  # (levels, 1 + B) rates in the data (column 0) and in resamples; NaN without rows
    rows: Codes  # (levels,) rows that the rate is a share or mean of
    effective: Array  # (levels,) their effective number
    present: Mask  # (levels,) whether the level has any row at all
    limits: tuple[float, float]  # least and largest value that is possible; a share is from 0 to 1

    @property
    def bounded(self) -> bool:
        """Whether the rate is a share."""
        return self.limits == _SHARE

    def wide(self, h: int, tail: float) -> tuple[float, float]:
        """Limits of level h that hold for any number of rows, with the error ``tail`` on each side."""
        value, n = float(self.values[h, 0]), float(self.effective[h])
        if not np.isfinite(value):
            return self.limits
        if self.bounded:
            return exact_interval(value, n, tail)
        return mean_interval(value, self.values[h, 1:], n, tail, self.limits)


# Gap, the rates it compares, and whether it is a ratio.
_GAPS = (
    ("demographic_parity_difference", ("selection_rate",), False),
    ("demographic_parity_ratio", ("selection_rate",), True),
    ("equal_opportunity_difference", ("true_positive_rate",), False),
    ("equalized_odds_difference", ("true_positive_rate", "false_positive_rate"), False),
    ("predictive_parity_difference", ("positive_predictive_value",), False),
    ("accuracy_difference", ("accuracy",), False),
    ("calibration_difference", ("calibration_in_the_large",), False),
    ("mean_prediction_difference", ("mean_prediction",), False),
    ("mean_error_difference", ("mean_error",), False),
    ("root_mean_squared_error_difference", ("root_mean_squared_error",), False),
    (f"{COVERED}_difference", (COVERED,), False),
)


@dataclass(frozen=True, kw_only=True)
class _Groups:
    """Groups of one attribute among all rows or the rows of a stratum, ``where``."""

    data: Audited
    attribute: Protected
    sums: GroupSums
    where: str = ""
    level: float
    min_rows: int

    def findings(self) -> Iterator[Finding]:
        """Rates of every group, gaps, and calibration errors."""
        by_name = {rates.name: rates for rates in self.all_rates()}
        levels = range(len(self.attribute.labels))
        for rates in by_name.values():
            yield from (self.rate_finding(rates, h) for h in levels if rates.present[h])
        prefix = "selection_rate"
        classes = {name.removeprefix(prefix) for name in by_name if name.startswith(prefix)}
        for gap, parts, ratio in _GAPS:
            for extra in sorted(classes | {""}):  # " (class)" where there are several
                names = [f"{part}{extra}" for part in parts]
                if all(name in by_name for name in names):
                    rates_compared = [by_name[name] for name in names]
                    yield self._gap_finding(f"{gap}{extra}", rates_compared, ratio)
        yield from self._calibration_errors()

    def _finding(self, metric: str, group: str = "", **numbers: Any) -> Finding:
        name, where = self.attribute.name, self.where
        return Finding("decisions", metric, name, group=group, where=where, **numbers)

    def _by_level(self, sums: GroupSums, column: str = "") -> Array:
        return sums.by(self.attribute.name, len(self.attribute.labels), column)

    # -------------------------------------------------------------- rates

    def all_rates(self) -> Iterator[_Rates]:
        """Every rate that decisions, probabilities or predictions allow."""
        data, sums = self.data, self.sums
        y, decided = sums.factors.get(TARGET), sums.factors.get(DECIDED)
        everything = np.ones(len(sums.rows), dtype=bool)
        if decided is not None and data.classes is not None:
            for k in data.positive:
                extra = "" if len(data.positive) == 1 else f" ({data.classes[k]})"
                selected = decided == k
                yield self._share(f"selection_rate{extra}", selected, everything)
                if y is None:
                    continue
                positive = y == k
                yield self._share(f"true_positive_rate{extra}", selected & positive, positive)
                yield self._share(f"false_positive_rate{extra}", selected & ~positive, ~positive)
                yield self._share(
                    f"positive_predictive_value{extra}", selected & positive, selected
                )
            if y is not None:
                yield self._share("accuracy", decided == y, everything)
        if "p" in sums.columns and y is not None:
            (k,) = data.positive
            # Sum of the probabilities minus the number of positive rows: above 0 if too high.
            excess = self._by_level(sums, "p") - self._by_level(sums.where(y == k))
            yield self._rates("calibration_in_the_large", excess, sums, (-1.0, 1.0))
        if "e" in sums.columns:
            for name, column in (("mean_prediction", "f"), ("mean_error", "e")):
                yield self._rates(name, self._by_level(sums, column), sums, _ANY)
            squared = self._by_level(sums, "ee")
            mean = self._rates("root_mean_squared_error", squared, sums, (0.0, np.inf))
            yield replace(mean, values=np.sqrt(np.maximum(mean.values, 0.0)))
        if "covered" in sums.columns:
            yield self._rates(COVERED, self._by_level(sums, "covered"), sums, _SHARE)

    def _share(self, name: str, chosen: Mask, base: Mask) -> _Rates:
        """``P(chosen | base, group)``; ``chosen`` is a subset of ``base``."""
        total = self._by_level(self.sums.where(chosen))
        return self._rates(name, total, self.sums.where(base), _SHARE)

    def _rates(
        self, name: str, total: Array, base: GroupSums, limits: tuple[float, float]
    ) -> _Rates:
        """``total`` over the weight of ``base``, by group."""
        attribute, n_levels = self.attribute.name, len(self.attribute.labels)
        mass = self._by_level(base)
        values = np.divide(total, mass, out=np.full(mass.shape, np.nan), where=mass > 0.0)
        return _Rates(
            name=name,
            values=np.minimum(values, 1.0) if limits == _SHARE else values,
            rows=base.count(attribute, n_levels),
            effective=base.effective(attribute, n_levels),
            present=self.sums.count(attribute, n_levels) > 0,
            limits=limits,
        )

    def rate_finding(self, rates: _Rates, h: int) -> Finding:
        """The rate of level h with its interval."""
        value, n = float(rates.values[h, 0]), round(float(rates.rows[h]))
        small = bool(rates.effective[h] < self.min_rows)
        tail, draws = (1.0 - self.level) / 2.0, rates.values[h, 1:]
        if n and rates.bounded:
            low, high = rate_interval(value, draws, float(rates.effective[h]), self.level)
        elif rates.effective[h] >= FEW:
            low, high = map(float, np.nanquantile(draws, (tail, 1.0 - tail)))
        else:
            low, high = rates.wide(h, tail)
        note = self._small_note(small) if n else "no such rows"
        group = self.attribute.labels[h]
        numbers = {"value": value, "low": low, "high": high, "n_rows": n}
        return self._finding(rates.name, group, **numbers, small=small, note=note)

    def _small_note(self, small: bool) -> str:
        return f"fewer than {self.min_rows} effective {self.data.unit}" if small else ""

    # -------------------------------------------------------------- gaps

    def _gap_finding(self, name: str, rates: list[_Rates], ratio: bool) -> Finding:
        """The largest gap among groups that are large enough for a statement.

        If no two groups are, all groups are compared, with intervals for few rows.
        """
        n = round(float(sum(r.rows.sum() for r in rates)))  # classes of y do not overlap
        present = rates[0].present
        if present.sum() < 2:
            note = f"fewer than two groups of {self.min_rows} effective {self.data.unit}"
            return self._finding(name, n_rows=n, small=True, note=note)
        usable = [np.isfinite(r.values[:, 0]) & (r.effective >= self.min_rows) for r in rates]
        few = [bool(u.sum() < 2) for u in usable]
        compared = [present if f else u for f, u in zip(few, usable, strict=True)]
        small = [
            self.attribute.labels[h] for h in np.flatnonzero(present & ~np.all(usable, axis=0))
        ]
        note = f"without {listed(small)}: too few {self.data.unit}" if small else ""
        if any(few):
            note = f"few {self.data.unit} in {listed(small)}: wide interval"
        # The gap is the largest of these ranges; each gets its part of the confidence.
        part = 1.0 - (1.0 - self.level) / len(rates)
        of = _ratio if ratio else _range
        ranges = np.array([of(r, c, part) for r, c in zip(rates, compared, strict=True)])
        known = ranges[np.isfinite(ranges[:, 0]), 0]
        value = float(known.max()) if len(known) else float("nan")
        low, high = map(float, ranges[:, 1:].max(axis=0))
        numbers: dict[str, Any] = {"value": value, "low": low, "high": high, "n_rows": n}
        return self._finding(name, **numbers, small=any(few), note=note)

    # -------------------------------------------------------------- calibration

    def _calibration_errors(self) -> Iterator[Finding]:
        """Expected calibration error of each group: mean distance over tenths of the probability."""
        sums, name, n_levels = self.sums, self.attribute.name, len(self.attribute.labels)
        if BIN not in sums.factors or TARGET not in sums.factors or "p" not in sums.columns:
            return
        cell = sums.factors[name] * N_BINS + sums.factors[BIN]
        cells = replace(sums, factors={**sums.factors, ALL: cell})
        (k,) = self.data.positive
        positive = cells.where(sums.factors[TARGET] == k).by(ALL, n_levels * N_BINS)
        excess = cells.by(ALL, n_levels * N_BINS, "p") - positive
        excess = excess.reshape(n_levels, N_BINS, -1)
        mass = self._by_level(sums)[:, None]
        values = np.divide(excess, mass, out=np.zeros(excess.shape), where=mass > 0.0)
        rows, effective = sums.count(name, n_levels), sums.effective(name, n_levels)
        for h, group in enumerate(self.attribute.labels):
            n, small = int(rows[h]), bool(effective[h] < self.min_rows)
            numbers: dict[str, Any] = {
                "low": 0.0,
                "high": 1.0,
                "small": True,
                "note": "no such rows",
            }
            if n:
                # The variance of resamples of m rows is too small by the factor (m - 1) / m.
                m = max(float(effective[h]) / N_BINS, 2.0)
                data = values[h, :, :1]
                draws = data + (values[h, :, 1:] - data) * np.sqrt(m / (m - 1.0))
                value, low, high = summarise(data[:, 0], draws, "sum", self.level)
                numbers = {"value": value, "low": low, "high": high, "n_rows": n, "small": small}
                numbers["note"] = self._small_note(small)
            yield self._finding("calibration_error", group, **numbers)


def performance_values(data: Audited, sums: GroupSums, name: str) -> tuple[Array, float]:
    """Accuracy or root mean squared error of all rows, (1 + B,), and the effective number of rows."""
    everyone = Protected(ALL, "categorical", np.zeros(data.n, dtype=np.intp), ("",))
    factors = {**sums.factors, ALL: np.zeros(len(sums.rows), dtype=np.intp)}
    groups = _Groups(
        data=data,
        attribute=everyone,
        sums=replace(sums, factors=factors),
        level=0.0,
        min_rows=0,
    )
    rates = next(rates for rates in groups.all_rates() if rates.name == name)
    return rates.values[0], float(rates.effective[0])


def compared_rates(
    data: Audited, attribute: Protected, sums: GroupSums, gap: str, min_rows: int
) -> Iterator[tuple[Array, Array, bool]]:
    """The rates whose largest difference is a gap, of the groups that are large enough.

    Yields (groups, 1 + B) values, the groups' effective numbers of rows, and whether these are shares.
    """
    (names,) = (parts for name, parts, _ in _GAPS if name == gap)
    groups = _Groups(data=data, attribute=attribute, sums=sums, level=0.0, min_rows=min_rows)
    for rates in groups.all_rates():
        if rates.name.partition(" (")[0] in names:
            usable = np.isfinite(rates.values[:, 0]) & (rates.effective >= min_rows)
            yield rates.values[usable], rates.effective[usable], rates.bounded


def _range(rates: _Rates, usable: Mask, level: float) -> tuple[float, float, float]:
    """Largest minus smallest rate, with its interval."""
    if _is_few(rates, usable):
        tail = (1.0 - level) / (2.0 * n_pairs(np.isfinite(rates.values[usable, 0])))
        low, high = _limits(rates, usable, tail)
        widest = rates.limits[1] - rates.limits[0]
        return largest_difference(rates.values[usable, 0], low, high, widest)
    values = rates.values[usable]
    if not rates.bounded:
        return summarise(values[:, 0], values[:, 1:], "range", level, np.inf)
    beyond = _beyond(rates, usable, level)
    return summarise(values[:, 0], values[:, 1:], "range", level, 1.0, beyond)


def _is_few(rates: _Rates, usable: Mask) -> bool:
    """Whether a group has so few rows that resamples are not used."""
    return bool((rates.effective[usable] < FEW).any())


def _limits(rates: _Rates, usable: Mask, tail: float) -> tuple[Array, Array]:
    """Limits of every level, each with the error ``tail`` on each side."""
    low, high = np.array([rates.wide(int(h), tail) for h in np.flatnonzero(usable)]).T
    return low, high


def _beyond(rates: _Rates, usable: Mask, level: float) -> float:
    """Possible error of rates that are exactly 0 or 1, which do not vary in resamples."""
    value, n = rates.values[usable, 0], rates.effective[usable]
    agree = (value <= 0.0) | (value >= 1.0)
    tail = (1.0 - level) / len(value)
    return max((unseen_rate(float(m), tail) for m in n[agree]), default=0.0)


def _ratio(rates: _Rates, usable: Mask, level: float) -> tuple[float, float, float]:
    """Smallest over largest rate, with the interval of the range of the logarithms."""
    if _is_few(rates, usable):
        tail = (1.0 - level) / (2.0 * usable.sum())
        return smallest_ratio(rates.values[usable, 0], *_limits(rates, usable, tail))
    values, n = rates.values[usable], rates.effective[usable]
    smallest, largest = float(values[:, 0].min()), float(values[:, 0].max())
    if largest <= 0.0:  # no row selected in any group: parity, with the widest interval
        return 1.0, 0.0, 1.0
    tail = (1.0 - level) / len(values)
    if smallest <= 0.0:  # its logarithm does not exist: use exact limits of both rates
        top = int(np.argmax(values[:, 0]))
        above = unseen_rate(float(n[np.argmin(values[:, 0])]), tail)
        below, _ = rate_interval(largest, values[top, 1:], float(n[top]), 1.0 - tail)
        return 0.0, 0.0, min(above / below, 1.0) if below > 0.0 else 1.0
    least = np.minimum(0.5 / n, values[:, 0])[:, None]  # the rate of a resample may be 0
    logs = np.log(np.maximum(values, least))
    beyond = -np.log1p(-min(_beyond(rates, usable, level), 0.999))
    _, low, high = summarise(logs[:, 0], logs[:, 1:], "range", level, np.inf, beyond)
    return smallest / largest, float(np.exp(-high)), float(np.exp(-low))
