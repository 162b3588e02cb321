"""Selection of every group compared with the highest rate, with intervals and tests.

The highest rate is the largest of several, so comparing with it after looking favours large differences.
The intervals allow for it: they hold whichever group truly has the highest rate (`fairspan.auditing.paired`).
Where a group has few rows, or a rate is 0 or 1, they are made of exact limits of all rates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairspan.auditing.cross_fit import Estimate
from fairspan.auditing.findings import rate_interval
from fairspan.auditing.independence import holm
from fairspan.auditing.paired import largest_interval
from fairspan.auditing.reading import Audited, Protected, cross
from fairspan.auditing.small_groups import FEW, exact_interval
from fairspan.method.linalg import Array
from fairspan.metrics.groups import resample
from fairspan.metrics.impact import SelectionTest, compare_rates, impact_ratio
from fairspan.metrics.inputs import Mask

_NOT_KNOWN = Estimate()


@dataclass(frozen=True, kw_only=True)
class GroupImpact:
    """Selection of one group.

    Attributes
    ----------
    group : its name.
    people : rows, or the sum of their weights.
    share : of all people.
    selected : people who are selected.
    rate : selection rate.
    ratio : rate over the highest rate of the groups compared; NaN if the group is not compared.
    shortfall : people who would have been selected in addition at the highest rate.
    test : comparison with the group of the highest rate; None for this group and those not compared.
    p_adjusted : p-value corrected for the number of groups (Holm).
    left_out : why the group is not compared; "" if it is.
    """

    group: str
    people: float
    share: float
    selected: float
    rate: Estimate
    ratio: Estimate = _NOT_KNOWN
    shortfall: Estimate = _NOT_KNOWN
    test: SelectionTest | None = None
    p_adjusted: float = float("nan")
    left_out: str = ""


@dataclass(frozen=True, kw_only=True)
class Impact:
    """Selection of all groups of one attribute.

    Attributes
    ----------
    attribute : its name.
    reference : group with the highest rate of those compared.
    groups : in the order of the audit.
    """

    attribute: str
    reference: str
    groups: tuple[GroupImpact, ...]


def all_groupings(data: Audited) -> tuple[Protected, ...]:
    """Every attribute, and the combinations of all of them, also if the audit left these out."""
    crossed = data.crossed
    if crossed is None and len(data.attributes) > 1:
        crossed = cross(data.attributes)
    return data.attributes if crossed is None else (*data.attributes, crossed)


def impacts(
    data: Audited,
    chosen: Mask,
    *,
    level: float,
    n_boot: int,
    min_rows: float = 30,
    min_share: float = 0.0,
) -> list[Impact]:
    """Compare the groups of every attribute.

    Parameters
    ----------
    data : the rows.
    chosen : (n,) rows that are selected.
    level, n_boot : of the intervals.
    min_rows : groups with fewer effective rows are not compared, unless no two groups have as many.
    min_share : groups with a smaller share of the people are not compared.
    """
    rng = np.random.default_rng(0)
    options = {"level": level, "n_boot": n_boot, "min_rows": min_rows, "min_share": min_share}
    return [_impact(data, each, chosen, rng, **options) for each in all_groupings(data)]


def _impact(
    data: Audited,
    attribute: Protected,
    chosen: Mask,
    rng: np.random.Generator,
    *,
    level: float,
    n_boot: float,
    min_rows: float,
    min_share: float,
) -> Impact:
    name, k = attribute.name, len(attribute.labels)
    columns = {"chosen": chosen.astype(np.float64)}
    codes = {name: attribute.codes}
    sums = resample(codes, columns, data.weight, int(n_boot), rng, data.clusters)
    mass, taken = sums.by(name, k), sums.by(name, k, "chosen")
    rates = np.divide(taken, mass, out=np.full(mass.shape, np.nan), where=mass > 0.0)
    rates = np.minimum(rates, 1.0)
    effective, share = sums.effective(name, k), mass[:, 0] / mass[:, 0].sum()
    present = mass[:, 0] > 0.0
    compared = present & (share >= min_share)
    enough = compared & (effective >= min_rows)
    why = np.where(share < min_share, f"below {min_share:.0%} of the people", "")
    if enough.sum() >= 2:
        few = f"fewer than {min_rows:g} effective {data.unit}"
        why = np.where(compared & ~enough, few, why)
        compared = enough
    reference = int(np.argmax(np.where(compared, rates[:, 0], -1.0)))
    used = np.flatnonzero(compared)
    equal = data.clusters is None and bool(np.ptp(data.weight) == 0.0)
    labels = tuple(attribute.labels[h] for h in used)
    place = int(np.flatnonzero(used == reference)[0]) if len(used) else 0
    tests = {}
    if len(used) > 1:
        tests = compare_rates(rates[used, 0], effective[used], labels, place, equal_weights=equal)
    adjusted = dict(
        zip(tests, holm(np.array([t.p_value for t in tests.values()])).tolist(), strict=True)
    )
    groups = []
    for h in np.flatnonzero(present):
        group, rate = attribute.labels[h], float(rates[h, 0])
        limits = rate_interval(rate, rates[h, 1:], float(effective[h]), level)
        more: dict[str, object] = {"left_out": str(why[h])}
        if compared[h] and len(used) > 1:
            ratio, gap = _compared(
                rates[used], effective[used], int(np.searchsorted(used, h)), level
            )
            people = float(mass[h, 0])
            more = {
                "ratio": ratio,
                "shortfall": Estimate(gap.value * people, gap.low * people, gap.high * people),
                "test": tests.get(group),
                "p_adjusted": adjusted.get(group, float("nan")),
            }
        groups.append(
            GroupImpact(
                group=group,
                people=float(mass[h, 0]),
                share=float(share[h]),
                selected=float(taken[h, 0]),
                rate=Estimate(rate, *limits),
                **more,  # type: ignore[arg-type]
            )
        )
    label = attribute.labels[reference] if len(used) else ""
    return Impact(attribute=name, reference=label, groups=tuple(groups))


def _compared(rates: Array, effective: Array, h: int, level: float) -> tuple[Estimate, Estimate]:
    """Ratio to the highest rate, and distance from it, of group h among the groups compared."""
    values = rates[:, 0]
    highest, rate = float(values.max()), float(values[h])
    ratio, gap = impact_ratio(rate, highest), highest - rate
    if (effective < FEW).any() or (values <= 0.0).any() or (values >= 1.0).any():
        tail = (1.0 - level) / (2.0 * len(values))
        pairs = zip(values, effective, strict=True)
        low, high = np.array([exact_interval(float(v), float(n), tail) for v, n in pairs]).T
        others = np.arange(len(values)) != h
        below, above = float(low[others].max()), float(high[others].max())
        gaps = Estimate(gap, max(below - float(high[h]), 0.0), max(above - float(low[h]), 0.0))
        least = min(float(low[h]) / above, 1.0) if above > 0.0 else 0.0
        most = min(float(high[h]) / below, 1.0) if below > 0.0 else 1.0
        return Estimate(ratio, least, most), gaps
    differences = largest_interval(rates - rates[h], level)
    floor = np.minimum(0.5 / effective, values)[:, None]  # the rate of a resample may be 0
    logs = np.log(np.maximum(rates, floor))
    ratios = largest_interval(logs - logs[h], level)
    return (
        Estimate(ratio, float(np.exp(-ratios.high)), float(np.exp(-max(ratios.low, 0.0)))),
        Estimate(gap, max(differences.low, 0.0), max(differences.high, 0.0)),
    )
