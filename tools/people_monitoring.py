"""False alarms and delays of `FairnessMonitor`: ``python -m tools.people_monitoring [--streams 1000]``.

*False alarms*: streams of 10,000 people whose gap and correlation are exactly the limit, the worst case, and
just inside it; two groups of equal size, and three groups of 60, 30 and 10 %. *Delays*: the gap is .05 for
3,250 people, then larger; the limit is .1. The same streams are read by a test of fixed windows, as many
monitoring tools have it: a z-test of two proportions against the limit in every window of 500 people, at the
5 % level, and at 5 % divided by the number of windows (Bonferroni). Delays are people from the change to the
alarm, which windows raise at their end. All streams are computed side by side; the first few are also fed to
`FairnessMonitor`, whose alarms must be at the same person.

*Ways to compare two groups* (``--ways 20``): the same wealth on neighbouring people (the monitor's), on the
k-th person of each group, and, without later starts of bets, on one confidence sequence for each group. Then
false alarms of each where the gap is always .05 but the rates of both groups rise from .3 to .7.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from fairspan.monitoring import FairnessMonitor
from fairspan.monitoring.betting import FRACTIONS, MOST, LowerEnds, gap_payoffs, reserve
from fairspan.monitoring.comparisons import Block, GapTest, Neighbours
from fairspan.monitoring.groups import RESERVE
from tools.table import Measurement, at_least, at_most, show

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

LIMIT, ALPHA, MIN_ROWS = 0.1, 0.05, 30
PEOPLE, BATCH, WINDOW = 10_000, 100, 500
CHANGE_AT, BEFORE = 3_250, 0.05
GAPS = (0.15, 0.2, 0.25, 0.3, 0.4)
EQUAL, UNEQUAL = (0.5, 0.5), (0.6, 0.3, 0.1)
# Streams that are fed to the monitor, too.
FED = 3


class Streams(NamedTuple):
    """People in order, one stream in each row: group, decision, score."""

    group: Codes
    decision: Codes
    score: Array


def draw(rng: np.random.Generator, n: int, gap: Array, shares: tuple[float, ...]) -> Streams:
    """Draw streams; the first group's rate is ``gap`` above that of the others.

    With two groups of equal size, the correlation of the score with the group equals the gap.
    """
    group = rng.choice(len(shares), (n, PEOPLE), p=shares)
    rate = np.where(group == 0, 0.5 + gap / 2.0, 0.5 - gap / 2.0)
    decision = (rng.random((n, PEOPLE)) < rate).astype(np.int64)
    score = np.where(rng.random((n, PEOPLE)) < rate, 0.7, 0.3)
    return Streams(group, decision, score)


def new_monitor(n_groups: int, limits: list[str]) -> FairnessMonitor:
    """A monitor that knows the groups."""
    return FairnessMonitor(limits, alpha=ALPHA, groups={"group": range(n_groups)})


def feed(
    monitor: FairnessMonitor, people: Streams, i: int, start: int = 0, end: int = PEOPLE
) -> None:
    """Feed batches of one stream."""
    scores = any(limit.measure == "correlation" for limit in monitor.limits)
    for begin in range(start, end, BATCH):
        rows = slice(begin, min(begin + BATCH, end))
        monitor.update(
            decisions=people.decision[i, rows],
            scores=people.score[i, rows] if scores else None,
            sensitive_features={"group": people.group[i, rows]},
        )


# ------------------------------------------------------------------ all streams side by side

_RESERVES = np.array([reserve(k) for k in range(PEOPLE + 2)])


class Bets:
    """Wealth of bets against both sides of the limit, for every stream."""

    def __init__(self, n: int) -> None:
        self.starts = np.zeros(n, dtype=np.int64)
        self.money = np.zeros((n, 2, len(FRACTIONS)))

    def step(self, which: Codes, payoffs: Array) -> Array:
        """Largest wealth of the two sides after a bet in some streams; payoffs are (streams, 2)."""
        starts = self.starts[which]
        money = self.money[which] + (_RESERVES[starts] - _RESERVES[starts + 1])[:, None, None]
        money = np.minimum(money * (1.0 + FRACTIONS * payoffs[:, :, None]), MOST)
        self.money[which], self.starts[which] = money, starts + 1
        best: Array = money.mean(axis=2).max(axis=1)
        return best + _RESERVES[starts + 1]


def gap_alarms(people: Streams, n_groups: int, errors: float) -> Array:
    """Person at the first alarm about the gap of each stream; infinity without one."""
    n = len(people.group)
    first = np.full(n, math.inf)
    pairs = list(combinations(range(n_groups), 2))
    errors *= (1.0 - RESERVE) / len(pairs)
    for a, b in pairs:
        bets, every = Bets(n), np.arange(n)
        count, favourable = np.zeros((n, 2)), np.zeros((n, 2))
        total = np.zeros((n, 2), dtype=np.int64)
        for k in range(PEOPLE):
            group = people.group[:, k]
            inside = every[(group == a) | (group == b)]
            side = (group[inside] == b).astype(np.int64)
            count[inside, side] += 1.0
            favourable[inside, side] += people.decision[inside, k]
            total[inside, side] += 1
            done = inside[(count[inside] > 0.0).all(axis=1)]
            if not len(done):
                continue
            shares = favourable[done] / count[done]
            difference = shares[:, 0] - shares[:, 1]
            payoffs = (np.stack([difference, -difference], axis=1) - LIMIT) / (1.0 + LIMIT)
            wealth = bets.step(done, payoffs)
            count[done] = favourable[done] = 0.0
            broken = (wealth >= 2.0 / errors) & (total[done] >= MIN_ROWS).all(axis=1)
            alarm = done[broken]
            first[alarm] = np.minimum(first[alarm], k + 1)
    return first


def correlation_alarms(people: Streams, errors: float) -> Array:
    """Person at the first alarm about the correlation with the first of two groups."""
    n, rows = len(people.group), 4
    errors *= 1.0 - RESERVE
    first, bets, every = np.full(n, math.inf), Bets(n), np.arange(n)
    f, s = people.score, (people.group == 0).astype(np.float64)
    sums = [np.cumsum(each, axis=1) for each in (f, f * f, s)]
    most = (rows * rows // 4) / (rows * (rows - 1))
    for k in range(0, PEOPLE - rows + 1, rows):
        # The product does not begin before a person of the group was there.
        known = every[sums[2][:, k - 1] > 0.0] if k else every[:0]
        if not len(known):
            continue
        mean, square, share = (each[known, k - 1] / k for each in sums)
        variance = share * (1.0 - share), square - mean * mean
        possible = (variance[0] > 0.0) & (variance[1] > 0.0)
        ratio = np.divide(*variance, out=np.ones(len(known)), where=possible)
        tilt = np.where(possible, np.clip(np.sqrt(ratio), 0.1, 10.0), 1.0)
        block_f, block_s = f[known, k : k + rows], s[known, k : k + rows]
        block_f = block_f - block_f.mean(axis=1, keepdims=True)
        block_s = block_s - block_s.mean(axis=1, keepdims=True)
        together = (block_f * block_s).sum(axis=1) / (rows - 1)
        variances = [(each * each).sum(axis=1) / (rows - 1) for each in (block_f, block_s)]
        middle = LIMIT * (tilt * variances[0] + variances[1] / tilt) / 2.0
        scale = most * (1.0 + LIMIT * (tilt + 1.0 / tilt) / 2.0)
        payoffs = np.stack([together - middle, -together - middle], axis=1) / scale[:, None]
        wealth = bets.step(known, payoffs)
        people_inside = sums[2][known, k + rows - 1]
        enough = np.minimum(people_inside, k + rows - people_inside) >= MIN_ROWS
        alarm = known[(wealth >= 2.0 / errors) & enough]
        first[alarm] = np.minimum(first[alarm], k + rows)
    return first


def monitor_alarms(people: Streams, n_groups: int, limits: list[str]) -> Array:
    """Person at the first alarm of each stream, of a monitor with these limits."""
    errors = ALPHA / len(limits)
    found = gap_alarms(people, n_groups, errors)
    if len(limits) > 1:
        found = np.minimum(found, correlation_alarms(people, errors))
    return found


def differ_from_the_monitor(people: Streams, n_groups: int, limits: list[str], found: Array) -> int:
    """Number of the first streams whose alarm is at another person in `FairnessMonitor`."""
    different = 0
    for i in range(FED):
        monitor = new_monitor(n_groups, limits)
        feed(monitor, people, i)
        rows = [alarm.row for alarm in monitor.alarms_]
        different += (rows[0] if rows else math.inf) != found[i]
    return different


def window_alarms(people: Streams, level: float) -> Array:
    """The last person of the first window whose gap is significantly above the limit, of two groups."""
    first = np.full(len(people.group), math.inf)
    for end in range(PEOPLE, WINDOW - 1, -WINDOW):
        rows = slice(end - WINDOW, end)
        inside = people.group[:, rows] == 0
        d = people.decision[:, rows]
        rates, squares = [], []
        for mask in (inside, ~inside):
            n = mask.sum(axis=1)
            rate = (d * mask).sum(axis=1) / n
            rates.append(rate)
            squares.append(rate * (1.0 - rate) / n)
        error = np.sqrt(squares[0] + squares[1])
        # Two-sided, as the monitor: either group may be favoured.
        beyond = np.abs(rates[0] - rates[1]) - LIMIT > scipy.stats.norm.isf(level / 2.0) * error
        first[beyond] = end
    return first


WINDOW_TESTS = {"z-test": ALPHA, "z-test, Bonferroni": ALPHA * WINDOW / PEOPLE}


def false_alarms(streams: int) -> Iterator[Measurement]:
    """Shares of streams with an alarm, on the limit and inside it."""
    rng = np.random.default_rng(0)
    both = [f"gap={LIMIT}", f"correlation={LIMIT}"]
    for name, gap, shares, limits in (
        ("gap on the limit, 2 groups", LIMIT, EQUAL, both[:1]),
        ("gap and correlation on the limit, 2 groups", LIMIT, EQUAL, both),
        ("gap and correlation .01 inside, 2 groups", LIMIT - 0.01, EQUAL, both),
        ("gap on the limit, 3 groups", LIMIT, UNEQUAL, both[:1]),
    ):
        people = draw(rng, streams, np.full(PEOPLE, gap), shares)
        found = monitor_alarms(people, len(shares), limits)
        share = float(np.isfinite(found).mean())
        yield at_most(f"monitoring, false alarms, {name}", share, ALPHA)
        different = differ_from_the_monitor(people, len(shares), limits, found)
        yield at_most(f"  streams in which FairnessMonitor differs, of {FED}", different, 0)
        if shares == EQUAL:
            # For comparison; no limit of ours.
            for words, level in WINDOW_TESTS.items():
                share = float(np.isfinite(window_alarms(people, level)).mean())
                yield Measurement(f"  {words} per {WINDOW} people, same streams", share, "-", True)


def delays(streams: int) -> Iterator[Measurement]:
    """Median delays and shares found, of the monitor and of tests of windows."""
    rng = np.random.default_rng(1)
    limits = [f"gap={LIMIT}"]
    for gap in GAPS:
        gaps = np.where(np.arange(PEOPLE) < CHANGE_AT, BEFORE, gap)
        people = draw(rng, streams, gaps, EQUAL)
        found = {"monitor": monitor_alarms(people, 2, limits)}
        found |= {name: window_alarms(people, level) for name, level in WINDOW_TESTS.items()}
        different = differ_from_the_monitor(people, 2, limits, found["monitor"])
        title = f"gap {BEFORE} to {gap}"
        yield at_most(f"{title}, streams in which FairnessMonitor differs", different, 0)
        for name, persons in found.items():
            early = float(np.mean(persons <= CHANGE_AT))
            later = persons[persons > CHANGE_AT] - CHANGE_AT
            share = float(np.mean(np.isfinite(later)))
            yield Measurement(f"{title}, {name}: median delay", float(np.median(later)), "-", True)
            if name == "monitor" and gap >= 0.25:
                yield at_least(f"{title}, {name}: share found", share, 0.95)
            else:
                yield Measurement(f"{title}, {name}: share found", share, "-", True)
            if name == "monitor":
                yield at_most(f"{title}, {name}: false alarms before", early, ALPHA)
            else:
                yield Measurement(f"{title}, {name}: false alarms before", early, "-", True)


def killed_and_resumed() -> Iterator[Measurement]:
    """Whether a state that is saved and read after every batch gives the same file as no stop."""
    people = draw(np.random.default_rng(2), 1, np.full(PEOPLE, 0.2), EQUAL)
    limits = [f"gap={LIMIT}", "ratio=0.8", f"correlation={LIMIT}"]
    whole, parts = new_monitor(2, limits), new_monitor(2, limits)
    rows = 3_000
    feed(whole, people, 0, 0, rows)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("whole.json", "parts.json")]
        for begin in range(0, rows, BATCH):
            feed(parts, people, 0, begin, begin + BATCH)
            parts = FairnessMonitor.load(parts.save(files[1]))
        whole.save(files[0])
        different = files[0].read_bytes() != files[1].read_bytes()
    yield at_least("monitoring, alarms of the resumed stream", len(parts.alarms_), 1)
    yield at_most("monitoring, files that differ after stops at every batch", int(different), 0)


# ------------------------------------------------------------------ ways to compare two groups


def ways(streams: int) -> Iterator[Measurement]:
    """Median people until an alarm, from the beginning, for three ways to compare two groups."""
    rng = np.random.default_rng(3)
    for shares in ((0.5, 0.5), (0.9, 0.1)):
        for gap in (0.2, 0.3):
            at: dict[str, list[float]] = {}
            for _ in range(streams):
                people = draw(rng, 1, np.full(PEOPLE, gap), shares)
                second, decision = people.group[0], people.decision[0]
                for name, way in _WAYS.items():
                    person = way(second, decision)
                    at.setdefault(name, []).append(math.inf if person is None else person)
            for name, persons in at.items():
                title = f"shares {shares[0]} and {shares[1]}, gap {gap}, {name}: median people"
                yield Measurement(title, float(np.median(persons)), "-", True)
    yield from common_trend(streams)


def common_trend(streams: int) -> Iterator[Measurement]:
    """Shares of false alarms where both rates rise and the gap stays inside the limit."""
    rng = np.random.default_rng(4)
    trend = np.linspace(-0.2, 0.2, PEOPLE)
    alarms = dict.fromkeys(_WAYS, 0)
    for _ in range(streams):
        second = (rng.random(PEOPLE) < 0.1).astype(int)
        rate = 0.5 + trend + np.where(second == 0, 0.025, -0.025)
        decision = (rng.random(PEOPLE) < rate).astype(np.int64)
        for name, way in _WAYS.items():
            alarms[name] += way(second, decision) is not None
    for name, count in alarms.items():
        title = f"shares 0.9 and 0.1, gap 0.05, common trend, {name}: alarms"
        yield Measurement(title, count / streams, "-", True)


def _first(blocks: Iterator[Block]) -> int | None:
    test = GapTest(LIMIT)
    for block in blocks:
        test.step(block, ALPHA)
        if test.broken() is not None:
            return block.end
    return None


def _by_neighbours(second: Codes, decision: Codes) -> int | None:
    rows = Neighbours()

    def blocks() -> Iterator[Block]:
        for i, (side, favourable) in enumerate(zip(second, decision, strict=True), 1):
            block = rows.add(int(side), bool(favourable), i)
            if block is not None:
                yield block

    return _first(blocks())


def _by_rank(second: Codes, decision: Codes) -> int | None:
    places = [np.flatnonzero(second == side) for side in (0, 1)]
    pairs = zip(*places, strict=False)
    return _first(
        Block(
            first=float(decision[a]),
            second=float(decision[b]),
            begin=min(a, b) + 1,
            end=max(a, b) + 1,
        )
        for a, b in pairs
    )


def _by_sequences(second: Codes, decision: Codes) -> int | None:
    """Lower end of one rate less upper end of the other, each at a quarter of alpha."""
    grid = np.round(np.arange(-99, 100) / 100, 2)
    payoffs = gap_payoffs(grid)
    ends = [LowerEnds(grid), LowerEnds(grid)]
    for each in ends:  # all is bet from the beginning: later starts would be of different times
        each.wealth.starts = 10**9
        each.wealth.money += 1.0
    for i, (side, favourable) in enumerate(zip(second, decision, strict=True), 1):
        ends[side].step(payoffs.at(float(favourable), 0.0), 4.0 / ALPHA)
        for a, b in (ends, ends[::-1]):
            if a.proven[0] + b.proven[1] > LIMIT:
                return i
    return None


_WAYS = {
    "neighbours": _by_neighbours,
    "k-th of each group": _by_rank,
    "a sequence per group": _by_sequences,
}


def figure(path: Path) -> None:
    """Draw a monitor whose gap changes after half of the people."""
    from fairspan.plotting import require_pyplot

    require_pyplot().switch_backend("agg")
    gaps = np.where(np.arange(PEOPLE) < PEOPLE // 2, BEFORE, 0.3)
    monitor = new_monitor(2, [f"gap={LIMIT}", "ratio=0.8"])
    feed(monitor, draw(np.random.default_rng(5), 1, gaps, EQUAL), 0)
    monitor.plot().figure_.savefig(path, dpi=120)


def measurements(streams: int = 1000, delayed: int = 500) -> Iterator[Measurement]:
    """All rows of the table."""
    yield from false_alarms(streams)
    yield from delays(delayed)
    yield from killed_and_resumed()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--delayed", type=int, default=500)
    parser.add_argument("--ways", type=int, default=0, help="streams for each way to compare")
    parser.add_argument("--figure", type=Path, help="draw the figure of the page instead")
    options = parser.parse_args()
    if options.figure is not None:
        figure(options.figure)
        raise SystemExit(0)
    rows = ways(options.ways) if options.ways else measurements(options.streams, options.delayed)
    raise SystemExit(show(rows))
