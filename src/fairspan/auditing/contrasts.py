"""Contrasts whose largest is a gap, of any metric of the audit, for differences between two models.

The gap is the largest of several contrasts: of differences between two groups' rates, or of correlations of
either sign. Models that are compared share their resamples, so that what they have in common cancels; the
intervals of differences are those of :mod:`fairspan.auditing.paired`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairspan.auditing.findings import (
    compared_rates,
    decision_columns,
    performance_values,
    unseen_rate,
)
from fairspan.auditing.paired import change_of_largest
from fairspan.auditing.reading import Audited, Protected
from fairspan.auditing.scores import compared_correlations, score_columns
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.metrics.groups import DECIDED, STRATA, TARGET, GroupSums, resample


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How much larger a number of one model is than that of another, with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Contrasts:
    """Numbers whose largest is a gap, in the data (column 0) and in resamples."""

    values: Array  # (P, 1 + B)
    beyond: float  # possible error that resamples cannot show: rates of exactly 0 or 1
    fewest: float  # effective rows of the smallest group that is compared; NaN for correlations


def resampled_sums(data: Audited, attribute: Protected, n_boot: int, seed: int) -> GroupSums:
    """Sums by group, class, decision and stratum. The same seed draws the same rows for every model."""
    cells: dict[str, Codes] = {attribute.name: attribute.codes}
    if data.target is not None:
        cells[TARGET] = data.target.codes
    if data.decided is not None:
        cells[DECIDED] = data.decided
    if data.strata is not None:
        cells[STRATA] = data.strata.codes
    columns = ({} if data.scores is None else score_columns(data)) | decision_columns(data)
    source = np.random.default_rng(seed)
    return resample(cells, columns, data.weight, n_boot, source, data.clusters)


def _inside(data: Audited, sums: GroupSums, strata: bool) -> Iterator[GroupSums]:
    """All rows, or the rows of each stratum."""
    for where, some in data.in_strata(sums):
        if bool(where) == (strata and data.strata is not None):
            yield some


def gap_contrasts(
    data: Audited,
    attribute: Protected,
    sums: GroupSums,
    gap: str,
    *,
    level: float,
    min_rows: int,
    strata: bool = False,
) -> Contrasts | None:
    """Differences between the rates of every two groups; None if fewer than two are large enough.

    Parameters
    ----------
    data, attribute, sums : rows, protected attribute, and :func:`resampled_sums`.
    gap : metric of the audit, as "demographic_parity_difference".
    level : of the interval.
    min_rows : groups with fewer effective rows are left out.
    strata : compare groups within each stratum of the control features.
    """
    out, beyond, fewest = [], 0.0, np.inf
    for some in _inside(data, sums, strata):
        for values, effective, bounded in compared_rates(data, attribute, some, gap, min_rows):
            k = len(values)
            if k < 2:
                continue
            first, second = np.nonzero(~np.eye(k, dtype=bool))
            out.append(values[first] - values[second])
            fewest = min(fewest, float(effective.min()))
            if bounded:
                fixed = effective[(values[:, 0] <= 0.0) | (values[:, 0] >= 1.0)]
                tail = (1.0 - level) / k
                beyond = max([beyond, *(unseen_rate(float(n), tail) for n in fixed)])
    if not out:
        return None
    shares = data.classes is not None
    return Contrasts(
        values=np.concatenate(out), beyond=beyond, fewest=fewest if shares else float("nan")
    )


def correlation_contrasts(
    data: Audited,
    attribute: Protected,
    sums: GroupSums,
    metric: str,
    *,
    min_rows: int,
    strata: bool = False,
) -> Contrasts | None:
    """Correlations of scores with an attribute, with both signs; None if groups are too small."""
    if data.scores is None:
        return None
    parts = [
        values
        for some in _inside(data, sums, strata)
        for values in compared_correlations(data, attribute, some, metric, min_rows)
    ]
    if not parts:
        return None
    values = np.concatenate(parts)
    both = np.concatenate([values, -values])
    return Contrasts(values=both, beyond=0.0, fewest=float("nan"))


def error_values(data: Audited, sums: GroupSums) -> tuple[Array, float]:
    """Error rate or RMSE of all rows, (1 + B,), and the effective number of rows."""
    if data.classes is None:
        return performance_values(data, sums, "root_mean_squared_error")
    accuracy, n = performance_values(data, sums, "accuracy")
    return 1.0 - accuracy, n


def difference_of_errors(a: Array, b: Array, level: float, unseen: float = 0.0) -> Difference:
    """Error of one model minus that of another, with percentiles of shared resamples.

    Parameters
    ----------
    a, b : (1 + B,) errors in the data and in resamples.
    level : of the interval.
    unseen : added on both sides if the errors never differ, because other rows may.
    """
    difference = a - b
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(difference[1:], (tail, 1.0 - tail))
    value, more = float(difference[0]), 0.0 if difference.any() else unseen
    return Difference(
        value=value, low=min(float(low), value) - more, high=max(float(high), value) + more
    )


def difference_of_gaps(a: Contrasts, b: Contrasts, level: float) -> Difference:
    """Gap of one model minus that of another, with the interval of :mod:`fairspan.auditing.paired`."""
    beyond = a.beyond + b.beyond
    if not np.array_equal(a.values, b.values):
        found = change_of_largest(b.values, a.values, level)
        return Difference(value=found.value, low=found.low - beyond, high=found.high + beyond)
    if np.isfinite(a.fewest):
        # Decisions that agree on all rows may differ on others, in either group of a contrast.
        beyond = max(beyond, 2.0 * unseen_rate(a.fewest, (1.0 - level) / 2.0))
    return Difference(value=0.0, low=-beyond, high=beyond)
