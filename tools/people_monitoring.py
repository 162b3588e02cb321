"""False alarms and delays of `FairnessMonitor`: ``python -m tools.people_monitoring [--streams 1000]``.

*False alarms*: streams of 10,000 people whose gap and correlation are exactly the limit, the worst case, and
just inside it; two groups of equal size, and three groups of 60, 30 and 10 %. *Delays*: the gap is .05 for
3,000 people, then larger; the limit is .1. The same streams are read by a test of fixed windows, as many
monitoring tools have it: a z-test of two proportions against the limit in every window of 500 people, at the
5 % level, and at 5 % divided by the number of windows (Bonferroni). Delays are people from the change to the
end of the batch, of 100 people for the monitor, or window with the alarm.

*Ways to compare two groups* (``--ways 20``): the same wealth on neighbouring people (the monitor's), on the
k-th person of each group, and, without later starts of bets, on one confidence sequence for each group.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from fairspan.monitoring import FairnessMonitor
from fairspan.monitoring.betting import LowerEnds, gap_payoffs
from fairspan.monitoring.comparisons import Block, GapTest
from tools.table import Measurement, at_least, at_most, show

Array = NDArray[np.float64]

LIMIT, ALPHA = 0.1, 0.05
PEOPLE, BATCH, WINDOW = 10_000, 100, 500
CHANGE_AT, BEFORE = 3_000, 0.05
GAPS = (0.15, 0.2, 0.25, 0.3, 0.4)


class Stream(NamedTuple):
    """People in order: group, decision, score."""

    group: NDArray[np.str_]
    decision: NDArray[np.int64]
    score: Array


def stream(rng: np.random.Generator, gap: Array, shares: tuple[float, ...]) -> Stream:
    """Draw people; the first group's rate is ``gap`` above that of the others.

    With two groups of equal size, the correlation of the score with the group equals the gap.
    """
    code = rng.choice(len(shares), PEOPLE, p=shares)
    group = np.array([f"g{k}" for k in range(len(shares))])[code]
    rate = np.where(code == 0, 0.5 + gap / 2.0, 0.5 - gap / 2.0)
    decision = (rng.random(PEOPLE) < rate).astype(np.int64)
    score = np.where(rng.random(PEOPLE) < rate, 0.7, 0.3)
    return Stream(group, decision, score)


def new_monitor(shares: tuple[float, ...], limits: list[str]) -> FairnessMonitor:
    """A monitor that knows the groups."""
    return FairnessMonitor(
        limits, alpha=ALPHA, groups={"group": [f"g{k}" for k in range(len(shares))]}
    )


def feed(monitor: FairnessMonitor, people: Stream, start: int = 0, end: int = PEOPLE) -> int | None:
    """Feed batches until the first alarm; return the person at the end of its batch."""
    scores = any(limit.measure == "correlation" for limit in monitor.limits)
    for begin in range(start, end, BATCH):
        rows = slice(begin, min(begin + BATCH, end))
        monitor.update(
            decisions=people.decision[rows],
            scores=people.score[rows] if scores else None,
            sensitive_features={"group": people.group[rows]},
        )
        if monitor.alarms_:
            return rows.stop
    return None


def window_test(people: Stream, level: float) -> int | None:
    """The first person at the end of a window whose gap is significantly above the limit."""
    for end in range(WINDOW, PEOPLE + 1, WINDOW):
        rows = slice(end - WINDOW, end)
        inside = people.group[rows] == "g0"
        a, b = people.decision[rows][inside], people.decision[rows][~inside]
        if min(len(a), len(b)) < 2:
            continue
        error = math.sqrt(a.var() / len(a) + b.var() / len(b))
        # Two-sided, as the monitor: either group may be favoured.
        if abs(a.mean() - b.mean()) - LIMIT > scipy.stats.norm.isf(level / 2.0) * error:
            return end
    return None


def false_alarms(streams: int) -> Iterator[Measurement]:
    """Shares of streams with an alarm, on the limit and inside it."""
    rng = np.random.default_rng(0)
    equal, unequal = (0.5, 0.5), (0.6, 0.3, 0.1)
    both = [f"gap={LIMIT}", f"correlation={LIMIT}"]
    for name, gap, shares, limits in (
        ("gap and correlation on the limit, 2 groups", LIMIT, equal, both),
        ("gap and correlation .01 inside, 2 groups", LIMIT - 0.01, equal, both),
        ("gap on the limit, 3 groups", LIMIT, unequal, both[:1]),
    ):
        alarms = [0, 0, 0]
        for _ in range(streams):
            people = stream(rng, np.full(PEOPLE, gap), shares)
            alarms[0] += feed(new_monitor(shares, limits), people) is not None
            if shares == equal:
                alarms[1] += window_test(people, ALPHA) is not None
                alarms[2] += window_test(people, ALPHA * WINDOW / PEOPLE) is not None
        yield at_most(f"monitoring, false alarms, {name}", alarms[0] / streams, ALPHA)
        if shares == equal:
            # For comparison; no limit of ours.
            for words, count in (("z-test", alarms[1]), ("z-test, Bonferroni", alarms[2])):
                share = count / streams
                yield Measurement(f"  {words} per {WINDOW} people, same streams", share, "-", True)


def delays(streams: int) -> Iterator[Measurement]:
    """Median delays and shares found, of the monitor and of tests of windows."""
    rng = np.random.default_rng(1)
    shares = (0.5, 0.5)
    for gap in GAPS:
        at: dict[str, list[float]] = {}
        for _ in range(streams):
            gaps = np.where(np.arange(PEOPLE) < CHANGE_AT, BEFORE, gap)
            people = stream(rng, gaps, shares)
            found = {
                "monitor": feed(new_monitor(shares, [f"gap={LIMIT}"]), people),
                "z-test": window_test(people, ALPHA),
                "z-test, Bonferroni": window_test(people, ALPHA * WINDOW / PEOPLE),
            }
            for name, person in found.items():
                at.setdefault(name, []).append(math.inf if person is None else person)
        for name, persons in at.items():
            values = np.array(persons)
            early = float(np.mean(values <= CHANGE_AT))
            title = f"gap {BEFORE} to {gap}, {name}"
            median = float(np.median(values[values > CHANGE_AT] - CHANGE_AT))
            yield Measurement(f"{title}: median delay, people", median, "-", True)
            share = float(np.mean(np.isfinite(values) & (values > CHANGE_AT)))
            if name == "monitor" and gap >= 0.25:
                yield at_least(f"{title}: share found after the change", share, 0.95)
            else:
                yield Measurement(f"{title}: share found after the change", share, "-", True)
            if name == "monitor":
                yield at_most(f"{title}: false alarms before it", early, ALPHA)
            else:
                yield Measurement(f"{title}: false alarms before it", early, "-", True)


def killed_and_resumed() -> Iterator[Measurement]:
    """Whether a state that is saved and read after every batch gives the same file as no stop."""
    people = stream(np.random.default_rng(2), np.full(PEOPLE, 0.2), (0.5, 0.5))
    limits = [f"gap={LIMIT}", "ratio=0.8", f"correlation={LIMIT}"]
    whole, parts = new_monitor((0.5, 0.5), limits), new_monitor((0.5, 0.5), limits)
    feed(whole, people)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("whole.json", "parts.json")]
        for begin in range(0, PEOPLE, BATCH):
            stopped = feed(parts, people, begin, begin + BATCH) is not None
            parts.save(files[1])
            parts = FairnessMonitor.load(files[1])
            if stopped:
                break
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
                people = stream(rng, np.full(PEOPLE, gap), shares)
                second = (people.group == "g1").astype(int)
                for name, way in (
                    ("neighbours", _by_neighbours),
                    ("k-th of each group", _by_rank),
                    ("a sequence per group", _by_sequences),
                ):
                    person = way(second, people.decision)
                    at.setdefault(name, []).append(math.inf if person is None else person)
            for name, persons in at.items():
                title = f"shares {shares[0]} and {shares[1]}, gap {gap}, {name}: median people"
                yield Measurement(title, float(np.median(persons)), "-", True)


def _first(blocks: Iterator[Block]) -> int | None:
    test = GapTest(LIMIT)
    for block in blocks:
        test.step(block, ALPHA)
        if test.broken() is not None:
            return block.end
    return None


def _by_neighbours(second: NDArray[np.int64], decision: NDArray[np.int64]) -> int | None:
    from fairspan.monitoring.comparisons import Neighbours

    rows = Neighbours()

    def blocks() -> Iterator[Block]:
        for i, (side, favourable) in enumerate(zip(second, decision, strict=True), 1):
            block = rows.add(int(side), bool(favourable), i)
            if block is not None:
                yield block

    return _first(blocks())


def _by_rank(second: NDArray[np.int64], decision: NDArray[np.int64]) -> int | None:
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


def _by_sequences(second: NDArray[np.int64], decision: NDArray[np.int64]) -> int | None:
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


def measurements(streams: int = 1000, delayed: int = 200) -> Iterator[Measurement]:
    """All rows of the table."""
    yield from false_alarms(streams)
    yield from delays(delayed)
    yield from killed_and_resumed()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--delayed", type=int, default=200)
    parser.add_argument("--ways", type=int, default=0, help="streams for each way to compare")
    options = parser.parse_args()
    rows = ways(options.ways) if options.ways else measurements(options.streams, options.delayed)
    raise SystemExit(show(rows))
