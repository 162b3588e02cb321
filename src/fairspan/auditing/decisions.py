"""Rates and errors by group, and the gaps between groups: parity of decisions and of predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.auditing.findings import Finding, rate_interval, summarise, unseen_rate
from fairspan.auditing.reading import Audited, Protected
from fairspan.method.codes import code_slices, slice_edges
from fairspan.method.data import Codes
from fairspan.method.linalg import Array
from fairspan.metrics.groups import ALL, BIN, DECIDED, STRATA, TARGET, GroupSums
from fairspan.metrics.inputs import Mask

__all__ = ["decision_columns", "decision_findings", "performance_findings"]

N_BINS = 10  # of a probability


def probability_bins(probability: Array, weight: Array) -> Codes:
    """Tenths of the weight by probability."""
    return code_slices(probability, slice_edges(probability, N_BINS, weight))


def decision_columns(data: Audited) -> dict[str, Array]:
    """What must be summed beside the weights."""
    out: dict[str, Array] = {}
    if data.probability is not None and data.target is not None:
        out["p"] = data.probability
    if _numeric(data):
        assert data.target is not None
        assert data.scores is not None
        y, f = data.target.values, data.scores[:, 0]
        assert y is not None
        out |= {"f": f, "e": f - y, "ee": (f - y) ** 2}
    return out


def _numeric(data: Audited) -> bool:
    """Predictions of a number, which errors can be taken of."""
    return (
        data.classes is None and data.target is not None and data.scores is not None
        and data.scores.shape[1] == 1
    )  # fmt: skip


@dataclass(frozen=True)
class _Rates:
    """One rate for every level of an attribute, in the data (column 0) and in resamples."""

    name: str
    values: Array  # (levels, 1 + B), NaN where a level has no such row
    rows: Codes  # rows the rate rests on
    effective: Array
    here: Mask  # levels that have any row at all
    bounded: bool = True  # a share, from 0 to 1


def performance_findings(data: Audited, sums: GroupSums, level: float) -> Iterator[Finding]:
    """How good the predictions are, over all rows."""
    everyone = Protected(ALL, "categorical", np.zeros(data.n, dtype=np.intp), ("",))
    every = replace(sums, factors={**sums.factors, ALL: np.zeros(len(sums.rows), dtype=np.intp)})
    names = {"accuracy", "root_mean_squared_error", "mean_error"}
    for rates in _all_rates(data, every, everyone):
        if rates.name in names:
            yield replace(_by_group(rates, everyone, 0, "", level, 0, "performance"), attribute="")


def decision_findings(
    data: Audited, groupings: Sequence[Protected], sums: GroupSums, level: float, min_rows: int
) -> Iterator[Finding]:
    """Every rate by group, then every gap, for all rows and in every stratum."""
    for one in groupings:
        mine = sums.over(one.name, TARGET, DECIDED, BIN, STRATA)
        yield from _in_rows(data, mine, one, "", level, min_rows)
        if data.strata is None:
            continue
        for code, label in enumerate(data.strata.labels):
            some = mine.where(mine.factors[STRATA] == code)
            yield from _in_rows(data, some, one, label, level, min_rows)


def _in_rows(
    data: Audited, sums: GroupSums, one: Protected, where: str, level: float, min_rows: int
) -> Iterator[Finding]:
    found = {rates.name: rates for rates in _all_rates(data, sums, one)}
    for rates in found.values():
        for h in range(len(one.labels)):
            if rates.here[h]:
                yield _by_group(rates, one, h, where, level, min_rows, "decisions")
    for name, parts, ratio in _gaps(found):
        yield _gap(name, [found[part] for part in parts], one, where, level, min_rows, ratio)
    for errors in _calibration_errors(data, sums, one):
        for h in range(len(one.labels)):
            yield _calibration(errors, one, h, where, level, min_rows)


# ------------------------------------------------------------------ rates


def _all_rates(data: Audited, sums: GroupSums, one: Protected) -> Iterator[_Rates]:
    y, decided = sums.factors.get(TARGET), sums.factors.get(DECIDED)
    everything = np.ones(len(sums.rows), dtype=bool)
    for k in data.positive if decided is not None else ():
        assert decided is not None
        assert data.classes is not None
        extra = "" if len(data.positive) == 1 else f" ({data.classes[k]})"
        selected = decided == k
        yield _share(f"selection_rate{extra}", sums, one, selected, everything)
        if y is None:
            continue
        positive = y == k
        yield _share(f"true_positive_rate{extra}", sums, one, selected & positive, positive)
        yield _share(f"false_positive_rate{extra}", sums, one, selected & ~positive, ~positive)
        yield _share(f"positive_predictive_value{extra}", sums, one, selected & positive, selected)
    if decided is not None and y is not None:
        yield _share("accuracy", sums, one, decided == y, everything)
    if "p" in sums.columns and y is not None:
        (k,) = data.positive
        yield _mean("calibration_in_the_large", sums, one, lambda s: _excess(s, one, k))
    if "e" in sums.columns:
        n_levels = len(one.labels)
        yield _mean("mean_prediction", sums, one, lambda s: s.by(one.name, n_levels, "f"))
        yield _mean("mean_error", sums, one, lambda s: s.by(one.name, n_levels, "e"))
        square = _mean(
            "root_mean_squared_error", sums, one, lambda s: s.by(one.name, n_levels, "ee")
        )
        root = np.sqrt(np.maximum(square.values, 0.0))
        yield replace(square, values=root)


def _share(name: str, sums: GroupSums, one: Protected, hit: Mask, base: Mask) -> _Rates:
    """``P(hit | base, group)``."""
    n_levels, inside = len(one.labels), sums.where(base)
    mass = inside.by(one.name, n_levels)
    chosen = sums.where(hit).by(one.name, n_levels)
    values = np.divide(chosen, mass, out=np.full(mass.shape, np.nan), where=mass > 0.0)
    return _Rates(
        name, np.minimum(values, 1.0), inside.count(one.name, n_levels),
        inside.effective(one.name, n_levels), sums.count(one.name, n_levels) > 0,
    )  # fmt: skip


def _mean(
    name: str, sums: GroupSums, one: Protected, total: Callable[[GroupSums], Array]
) -> _Rates:
    n_levels = len(one.labels)
    mass = sums.by(one.name, n_levels)
    values = np.divide(total(sums), mass, out=np.full(mass.shape, np.nan), where=mass > 0.0)
    return _Rates(
        name, values, sums.count(one.name, n_levels), sums.effective(one.name, n_levels),
        sums.count(one.name, n_levels) > 0, bounded=False,
    )  # fmt: skip


def _excess(sums: GroupSums, one: Protected, positive: int) -> Array:
    """Sum of what was promised beyond what came: positive where probabilities are too high."""
    n_levels = len(one.labels)
    came = sums.where(sums.factors[TARGET] == positive).by(one.name, n_levels)
    return sums.by(one.name, n_levels, "p") - came


def _by_group(
    rates: _Rates, one: Protected, h: int, where: str, level: float, min_rows: int, section: str
) -> Finding:
    value, n = float(rates.values[h, 0]), int(rates.rows[h])
    small = bool(rates.effective[h] < min_rows)
    note = "" if n else "no such rows"
    low = high = float("nan")
    if n and rates.bounded:
        low, high = rate_interval(value, rates.values[h, 1:], float(rates.effective[h]), level)
    elif n:
        draws = rates.values[h, 1:]
        tail = (1.0 - level) / 2.0
        low, high = map(float, np.nanquantile(draws, (tail, 1.0 - tail)))
    if small and n:
        note = f"fewer than {min_rows} effective rows"
    return Finding(
        section, rates.name, one.name, one.labels[h], where, value, low, high, n_rows=n,
        small=small, note=note,
    )  # fmt: skip


# ------------------------------------------------------------------ gaps

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
)


def _gaps(found: dict[str, _Rates]) -> Iterator[tuple[str, list[str], bool]]:
    extras = {name[len("selection_rate") :] for name in found if name.startswith("selection_rate")}
    for gap, parts, ratio in _GAPS:
        for extra in sorted(extras | {""}):
            names = [f"{part}{extra}" for part in parts]
            if all(name in found for name in names):
                yield f"{gap}{extra}", names, ratio


def _gap(
    name: str, rates: list[_Rates], one: Protected, where: str, level: float, min_rows: int,
    ratio: bool,
) -> Finding:  # fmt: skip
    """The largest gap among groups large enough for a statement."""
    n = int(sum(r.rows.sum() for r in rates))  # classes of y do not overlap
    here = rates[0].here
    usable = [np.isfinite(r.values[:, 0]) & (r.effective >= min_rows) for r in rates]
    out = [one.labels[h] for h in np.flatnonzero(here & ~np.all(usable, axis=0))]
    note = (
        f"without {', '.join(out[:5])}{', ...' if len(out) > 5 else ''}: too few rows"
        if out
        else ""
    )
    if min(u.sum() for u in usable) < 2:
        note = f"fewer than two groups of {min_rows} effective rows"
        return Finding("decisions", name, one.name, "", where, n_rows=n, small=True, note=note)
    if ratio:
        value, low, high = _ratio(rates[0], usable[0], level)
    else:
        # The gap is the larger of two ranges; each gets its part of the confidence.
        found = []
        part = 1.0 - (1.0 - level) / len(rates)
        for r, u in zip(rates, usable, strict=True):
            top = 1.0 if r.bounded else np.inf
            beyond = _beyond(r, u, part) if r.bounded else 0.0
            each = summarise(r.values[u, 0], r.values[u, 1:], "range", part, top, beyond)
            found.append(each)
        value, low, high = map(float, np.array(found).max(axis=0))  # NaN if one is not known
    return Finding("decisions", name, one.name, "", where, value, low, high, n_rows=n, note=note)


def _beyond(rates: _Rates, usable: Mask, level: float) -> float:
    """What resamples of groups whose rows all agree cannot show: they always agree, too."""
    value, n = rates.values[usable, 0], rates.effective[usable]
    agree = (value <= 0.0) | (value >= 1.0)
    tail = (1.0 - level) / len(value)
    return max((unseen_rate(float(m), tail) for m in n[agree]), default=0.0)


def _ratio(rates: _Rates, usable: Mask, level: float) -> tuple[float, float, float]:
    """Smallest over largest rate: the range of logarithms, turned round."""
    values, n = rates.values[usable], rates.effective[usable]
    smallest, largest = float(values[:, 0].min()), float(values[:, 0].max())
    if largest <= 0.0:  # nobody anywhere: parity, of which nothing is known
        return 1.0, 0.0, 1.0
    tail = (1.0 - level) / len(values)
    if smallest <= 0.0:  # no logarithm: exact limits of both
        top = int(np.argmax(values[:, 0]))
        above = unseen_rate(float(n[np.argmin(values[:, 0])]), tail)
        below, _ = rate_interval(largest, values[top, 1:], float(n[top]), 1.0 - tail)
        return 0.0, 0.0, min(above / below, 1.0) if below > 0.0 else 1.0
    least = np.minimum(0.5 / n, values[:, 0])[:, None]  # a resample may have nobody
    logs = np.log(np.maximum(values, least))
    beyond = -np.log1p(-min(_beyond(rates, usable, level), 0.999))
    _, low, high = summarise(logs[:, 0], logs[:, 1:], "range", level, np.inf, beyond)
    return smallest / largest, float(np.exp(-high)), float(np.exp(-low))


# ------------------------------------------------------------------ calibration


def _calibration_errors(
    data: Audited, sums: GroupSums, one: Protected
) -> Iterator[tuple[Array, _Rates]]:
    """Per group and tenth of the probability, what was promised beyond what came."""
    if BIN not in sums.factors or TARGET not in sums.factors or "p" not in sums.columns:
        return
    n_levels, n_bins = len(one.labels), N_BINS
    joint = sums.factors[one.name] * n_bins + sums.factors[BIN]
    cells = replace(sums, factors={**sums.factors, ALL: joint})
    (k,) = data.positive
    came = cells.where(sums.factors[TARGET] == k).by(ALL, n_levels * n_bins)
    off = (cells.by(ALL, n_levels * n_bins, "p") - came).reshape(n_levels, n_bins, -1)
    mass = sums.by(one.name, n_levels)[:, None]
    values = np.divide(off, mass, out=np.zeros(off.shape), where=mass > 0.0)
    rows, effective = sums.count(one.name, n_levels), sums.effective(one.name, n_levels)
    yield values, _Rates("calibration_error", values[:, 0], rows, effective, rows > 0)


def _calibration(
    found: tuple[Array, _Rates], one: Protected, h: int, where: str, level: float, min_rows: int
) -> Finding:
    """Expected calibration error of a group: the mean distance over tenths of the probability."""
    parts, rates = found[0][h], found[1]
    n, small = int(rates.rows[h]), bool(rates.effective[h] < min_rows)
    if n == 0:
        note = "no such rows"
        return Finding(
            "decisions", rates.name, one.name, one.labels[h], where, small=True, note=note
        )
    # Resamples of a tenth of m rows vary less than the tenth does, by (m - 1) / m.
    m = max(float(rates.effective[h]) / N_BINS, 2.0)
    draws = parts[:, :1] + (parts[:, 1:] - parts[:, :1]) * np.sqrt(m / (m - 1.0))
    value, low, high = summarise(parts[:, 0], draws, "sum", level)
    note = f"fewer than {min_rows} effective rows" if small else ""
    return Finding(
        "decisions", rates.name, one.name, one.labels[h], where, value, low, high, n_rows=n,
        small=small, note=note,
    )  # fmt: skip
