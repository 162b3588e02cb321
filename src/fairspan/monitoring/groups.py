"""The groups of one protected attribute: counts, and the tests of all limits between them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairspan._system import inert
from fairspan.metrics.yardsticks import read_yardstick
from fairspan.monitoring.comparisons import (
    BLOCK_ROWS,
    ChangeTest,
    CorrelationTest,
    GapTest,
    LimitTest,
    Neighbours,
    PairTest,
    RatioTest,
    ScoreBlock,
    tilt_of,
)
from fairspan.monitoring.fields import Fields, whole

# People after which the groups seen so far are the known ones, where the user names none.
SETTLING_ROWS = 100
# Share of the errors of an attribute for groups that come later.
RESERVE = 0.1
# More groups than this are probably numbers that should be cut into slices.
MOST_GROUPS = 50


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A measure and the limit on it: "gap=0.1", "ratio=0.8", "correlation=0.05" or "change=0.05"."""

    measure: str
    value: float

    def __str__(self) -> str:
        return f"{self.measure}={self.value:g}"

    @classmethod
    def read(cls, text: object) -> Limit:
        """Read the words of a limit."""
        words = str(text)
        measure, _, number = words.partition("=")
        try:
            # A change is a difference of gaps, with the same values.
            changed = measure.strip() == "change"
            found = read_yardstick(f"gap={number}" if changed else words)
        except ValueError as error:
            if words.startswith("change"):
                raise ValueError(
                    f"{words!r} is no limit on a change; write change=0.05, a number between 0 and 1."
                ) from error
            raise
        return cls(measure="change" if changed else found.measure, value=found.limit)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a monitor found for one limit and two groups, or a group and all others.

    Attributes
    ----------
    metric : {"gap", "ratio", "change", "correlation"}
        The measure that has a limit.
    limit : float
        The limit.
    attribute : str
        Protected attribute.
    groups : tuple of str
        The favoured group first; for a correlation the group whose indicator is meant.
    estimate : float
        Value over all people since the start or the last reset; NaN before there is any.
    low, high : float
        Ends of the confidence sequence: at some time the value was above ``low`` and at some time below
        ``high``, at any time and for all comparisons of the monitor together. A value that does not change
        is between them; of one that does, the ends may cross.
    n_people : tuple of int
        People in each of the groups; for a correlation in the group and in all.
    tested : bool
        False where a group is too small, or groups are not settled, so that no alarm is possible yet.
    batch, row : int or None
        Batch and person, counted from 1, at which the alarm first held; None without an alarm.
    """

    metric: str
    limit: float
    attribute: str
    groups: tuple[str, ...]
    estimate: float
    low: float
    high: float
    n_people: tuple[int, ...]
    tested: bool
    batch: int | None
    row: int | None

    @property
    def alarm(self) -> bool:
        """Whether the limit is proven to be broken."""
        return self.batch is not None


@dataclass(kw_only=True)
class Counts:
    """People of one group: how many, with how many favourable decisions, and the sum of their scores."""

    people: int = 0
    favourable: int = 0
    scores: float = 0.0

    @property
    def rate(self) -> float:
        """Share of favourable decisions."""
        return self.favourable / self.people if self.people else math.nan

    def to_state(self) -> list[float]:
        """Numbers for the file."""
        return [self.people, self.favourable, self.scores]

    @classmethod
    def from_list(cls, values: Any, name: str) -> Counts:
        """Take the numbers of a file."""
        if not isinstance(values, list) or len(values) != 3:
            raise ValueError(f"{name!r} has an entry that is not three numbers")
        people = whole(values[0], name)
        # Scores are in [0, 1]; the bound leaves room for rounding.
        scores = Fields({name: values[2]}).number(name, 0.0, people * (1.0 + 1e-9))
        return cls(people=people, favourable=whole(values[1], name, 0, people), scores=scores)


@dataclass(kw_only=True)
class _Pair:
    """Two groups, and their tests by limit."""

    rows: Neighbours = field(default_factory=Neighbours)
    tests: dict[Limit, PairTest]


class GroupMonitor:
    """Counts and tests of one protected attribute.

    Parameters
    ----------
    name : of the attribute.
    limits : all limits of the monitor.
    errors : probability of a false alarm that each limit may use for this attribute.
    min_rows : people that a group needs before an alarm can be raised.
    reference_rows : people of the reference period of a limit on the change.
    known : groups that the user named; empty to take those of the first people.
    """

    def __init__(
        self,
        name: str,
        limits: Sequence[Limit],
        *,
        errors: float,
        min_rows: int,
        reference_rows: int,
        known: Sequence[str] = (),
    ) -> None:
        self.name, self.errors = name, errors
        self.min_rows, self.reference_rows = min_rows, reference_rows
        self.pair_limits = [limit for limit in limits if limit.measure != "correlation"]
        self.score_limits = [limit for limit in limits if limit.measure == "correlation"]
        self.codes: dict[str, int] = {}
        self.counts: list[Counts] = []
        self.reference: list[Counts] = []
        self.score_squares = 0.0
        self.pairs: dict[tuple[int, int], _Pair] = {}
        self.block = ScoreBlock()
        self.correlations: dict[int, dict[Limit, CorrelationTest]] = {}
        self.n_known = 0  # 0 until the groups are settled
        for label in known:
            self._new_group(label)
        self._settle(len(known))

    # -------------------------------------------------------------- groups

    @property
    def labels(self) -> list[str]:
        """Groups, in the order of their first person."""
        return list(self.codes)

    @property
    def n_people(self) -> int:
        """People counted."""
        return sum(counts.people for counts in self.counts)

    def _new_group(self, label: str) -> int:
        code = self.codes[label] = len(self.codes)
        self.counts.append(Counts())
        for other in range(code):
            tests: dict[Limit, PairTest] = {}
            for limit in self.pair_limits:
                if limit.measure == "gap":
                    tests[limit] = GapTest(limit.value)
                elif limit.measure == "ratio":
                    tests[limit] = RatioTest(limit.value)
                else:
                    tests[limit] = ChangeTest(limit.value, self.reference_rows)
            self.pairs[other, code] = _Pair(tests=tests)
        # The indicators of two groups are mirror images, so the second waits for a third group.
        new = [code] if code != 1 else []
        if code == 2:
            new = [1, 2]
        for each in new if self.score_limits else []:
            self.correlations[each] = {
                limit: CorrelationTest(limit.value) for limit in self.score_limits
            }
        return code

    def _settle(self, n_groups: int) -> None:
        """From now on these groups are known, and later ones are new."""
        self.n_known = n_groups

    def _pair_errors(self, second: int) -> float:
        """Probability of a false alarm for a pair whose later group has this code; 0 before settling."""
        if not self.n_known:
            return 0.0
        if second < self.n_known:
            return self.errors * (1.0 - RESERVE) / math.comb(self.n_known, 2)
        return self._new_errors(second) / second

    def _score_errors(self, code: int) -> float:
        """Probability of a false alarm for the indicator of a group; 0 before settling."""
        if not self.n_known:
            return 0.0
        if code < self.n_known and not (self.n_known == 2 and code == 1):
            known = 1 if self.n_known == 2 else self.n_known
            return self.errors * (1.0 - RESERVE) / known
        if self.n_known == 2 and code in (1, 2):  # the third group brings two indicators
            return self._new_errors(2) / 2.0
        return self._new_errors(code)

    def _new_errors(self, code: int) -> float:
        """Part of the reserve for the j-th new group, 1 / (j (j + 1)); these parts add up to 1."""
        j = code - self.n_known + 1
        return self.errors * RESERVE / (j * (j + 1))

    # -------------------------------------------------------------- rows

    def add(self, label: str, favourable: bool, score: float, row: int, batch: int) -> None:
        """Count a person, whose score is in [0, 1], and bet on the blocks that are complete."""
        code = self.codes.get(label)
        if code is None:
            code = self._new_group(label)
        if self.pair_limits:
            self._add_decision(code, favourable, row, batch)
        if self.score_limits:
            self._add_score(code, score, row, batch)
        counts = self.counts[code]
        counts.people += 1
        counts.favourable += favourable
        counts.scores += score
        self.score_squares += score * score
        if row == self.reference_rows:
            self.reference = [Counts(**vars(each)) for each in self.counts]
        if not self.n_known and row >= SETTLING_ROWS and len(self.codes) > 1:
            self._settle(len(self.codes))

    def _add_decision(self, code: int, favourable: bool, row: int, batch: int) -> None:
        for other in range(len(self.codes)):
            if other == code:
                continue
            low, high = (other, code) if other < code else (code, other)
            pair = self.pairs[low, high]
            block = pair.rows.add(int(code == high), favourable, row)
            if block is None:
                continue
            errors = self._pair_errors(high)
            # The person of this row is counted after the bet.
            enough = self._has(low, code) and self._has(high, code)
            for test in pair.tests.values():
                test.step(block, errors)
                test.check(batch, row, enough=enough and errors > 0.0)

    def _add_score(self, code: int, score: float, row: int, batch: int) -> None:
        block = self.block.add(score, code)
        if block is None:
            return
        n = self.n_people - BLOCK_ROWS + 1  # people before this block
        for group, tests in self.correlations.items():
            inside = [each == group for each in block.groups]
            people = self.counts[group].people + (code == group)
            before = people - sum(inside)
            if not before:
                continue  # a block that is there because of a first person is no random one
            errors = self._score_errors(group)
            tilt = self._tilt(before / n, block, n)
            enough = min(people, self.n_people + 1 - people) >= self.min_rows
            for test in tests.values():
                test.step(block, inside, tilt, errors)
                test.check(batch, row, enough=enough and errors > 0.0)

    def _tilt(self, share: float, block: ScoreBlock, n: int) -> float:
        """Ratio of standard deviations among the n people before the block."""
        # All but the last of its rows are counted already.
        earlier = block.scores[:-1]
        total = sum(counts.scores for counts in self.counts) - sum(earlier)
        squares = self.score_squares - sum(score * score for score in earlier)
        return tilt_of(squares / n - (total / n) ** 2, share * (1.0 - share))

    def _has(self, group: int, current: int) -> bool:
        return self.counts[group].people + (group == current) >= self.min_rows

    # -------------------------------------------------------------- results

    def comparisons(self) -> Iterator[Comparison]:
        """All comparisons, limit by limit."""
        for limit in self.pair_limits:
            for (first, second), pair in self.pairs.items():
                yield self._of_pair(limit, first, second, pair.tests[limit])
        for limit in self.score_limits:
            for group, tests in self.correlations.items():
                if len(self.codes) > 1:
                    yield self._of_score(limit, group, tests[limit])

    def _of_pair(self, limit: Limit, first: int, second: int, test: LimitTest) -> Comparison:
        counts = self.counts[first], self.counts[second]
        signed = counts[0].rate - counts[1].rate
        if limit.measure == "change":
            signed = self._change(first, second)
        side = test.alarm[0] if test.alarm else int(signed < 0.0)
        order = (first, second) if side == 0 else (second, first)
        estimate = signed if side == 0 else -signed
        if limit.measure == "ratio":
            high, low = (self.counts[code].rate for code in order)
            estimate = low / high if high else math.nan
        enough = all(each.people >= self.min_rows for each in counts)
        tested = enough and self.n_known > 0
        if limit.measure == "change":
            tested = tested and self.n_people > self.reference_rows
        return self._record(limit, order, estimate, test, side, tested)

    def _of_score(self, limit: Limit, group: int, test: LimitTest) -> Comparison:
        signed = self.correlation(group)
        side = test.alarm[0] if test.alarm else int(signed < 0.0)
        people = self.counts[group].people
        enough = min(people, self.n_people - people) >= self.min_rows
        estimate = signed if side == 0 else -signed
        return self._record(limit, (group,), estimate, test, side, enough and self.n_known > 0)

    def _record(
        self,
        limit: Limit,
        order: tuple[int, ...],
        estimate: float,
        test: LimitTest,
        side: int,
        tested: bool,
    ) -> Comparison:
        low, high = test.interval(side)
        if limit.measure == "correlation" and side == 1:
            # Groups have no order: the sign says that scores are lower in the group.
            estimate, low, high = -estimate, -high, -low
        people = [self.counts[code].people for code in order]
        if limit.measure == "correlation":
            people.append(self.n_people)
        labels = self.labels
        return Comparison(
            metric=limit.measure,
            limit=limit.value,
            attribute=self.name,
            groups=tuple(labels[code] for code in order),
            estimate=estimate,
            low=low,
            high=high,
            n_people=tuple(people),
            tested=tested,
            batch=test.alarm[1] if test.alarm else None,
            row=test.alarm[2] if test.alarm else None,
        )

    def _change(self, first: int, second: int) -> float:
        """Difference of rates after the reference period less that in it."""
        if max(first, second) >= len(self.reference):
            return math.nan
        out = 0.0
        for code, sign in ((first, 1.0), (second, -1.0)):
            now, then = self.counts[code], self.reference[code]
            after = Counts(
                people=now.people - then.people, favourable=now.favourable - then.favourable
            )
            out += sign * (after.rate - then.rate)
        return out

    def correlation(self, group: int) -> float:
        """Correlation of the score with the indicator of a group, over all people."""
        n = self.n_people
        if n < 2:
            return math.nan
        mean = sum(counts.scores for counts in self.counts) / n
        variance = self.score_squares / n - mean * mean
        share = self.counts[group].people / n
        # A variance within rounding of 0 is that of a constant score.
        if variance <= 1e-15 or not 0.0 < share < 1.0:
            return 0.0 if 0.0 < share < 1.0 else math.nan
        inside = self.counts[group].scores / n
        return (inside - share * mean) / math.sqrt(variance * share * (1.0 - share))

    def snapshot(self) -> list[list[float | None]]:
        """Estimate and interval of each comparison, the group that came first before the other."""
        out: list[list[float | None]] = []
        for i, limit in enumerate(self.pair_limits):
            for (a, b), pair in self.pairs.items():
                signed = self.counts[a].rate - self.counts[b].rate
                if limit.measure == "change":
                    signed = self._change(a, b)
                elif limit.measure == "ratio":
                    rates = sorted([self.counts[a].rate, self.counts[b].rate])
                    signed = rates[0] / rates[1] if rates[1] > 0.0 else math.nan
                test = pair.tests[limit]
                ends = test.interval(0)
                if limit.measure == "ratio":
                    ends = 0.0, min(ends[1], test.interval(1)[1])
                out.append([i, a, b, _or_none(signed), *ends])
        for i, limit in enumerate(self.score_limits, len(self.pair_limits)):
            for group, tests in self.correlations.items():
                # The two sides are tested; each has one end.
                ends = tests[limit].interval(0)[0], -tests[limit].interval(1)[0]
                out.append([i, group, -1, _or_none(self.correlation(group)), *ends])
        return out

    def small_groups(self) -> list[str]:
        """Groups with too few people for an alarm."""
        pairs = zip(self.labels, self.counts, strict=True)
        return [label for label, counts in pairs if counts.people < self.min_rows]

    # -------------------------------------------------------------- file

    def to_state(self) -> dict[str, Any]:
        """Everything that is needed to go on, for the file."""
        return {
            "name": self.name,
            "labels": self.labels,
            "counts": [counts.to_state() for counts in self.counts],
            "reference": [counts.to_state() for counts in self.reference],
            "score_squares": self.score_squares,
            "n_known": self.n_known,
            "block": {"scores": self.block.scores, "groups": self.block.groups},
            "pairs": [
                {"rows": p.rows.to_state(), "tests": [t.to_state() for t in p.tests.values()]}
                for p in self.pairs.values()
            ],
            "correlations": [
                [test.to_state() for test in tests.values()] for tests in self.correlations.values()
            ],
        }

    def from_state(self, fields: Fields) -> None:
        """Take the numbers of a file; the monitor must be new."""
        labels = fields.texts("labels", MOST_GROUPS)
        if labels[: len(self.codes)] != self.labels:
            raise ValueError("'labels' does not begin with the groups of the settings")
        for label in labels[len(self.codes) :]:
            self._new_group(label)
        n = len(labels)
        self.counts = [Counts.from_list(value, "counts") for value in fields.entries("counts", n)]
        if len(self.counts) != n:
            raise ValueError("'counts' has not one entry for each group")
        reference = fields.entries("reference", n)
        self.reference = [Counts.from_list(value, "reference") for value in reference]
        if any(
            then.people > now.people or then.favourable > now.favourable
            for then, now in zip(self.reference, self.counts, strict=False)
        ):
            raise ValueError("'reference' has more people than 'counts'")
        self.score_squares = fields.number("score_squares", 0.0, self.n_people * (1.0 + 1e-9))
        self.n_known = fields.whole("n_known", 0, n)
        block = fields.inner("block")
        groups = [
            whole(code, "groups", 0, n - 1) for code in block.entries("groups", BLOCK_ROWS - 1)
        ]
        scores = block.numbers("scores", len(groups), low=0.0, high=1.0)
        self.block = ScoreBlock(scores=scores, groups=groups)
        pairs = fields.objects("pairs", len(self.pairs))
        if len(pairs) != len(self.pairs):
            raise ValueError("'pairs' has not one entry for each pair of groups")
        for pair, entry in zip(self.pairs.values(), pairs, strict=True):
            pair.rows = Neighbours.from_state(entry.inner("rows"))
            _restore(list(pair.tests.values()), entry.entries("tests"))
        correlations = fields.entries("correlations", len(self.correlations))
        if len(correlations) != len(self.correlations):
            raise ValueError("'correlations' has not one entry for each group")
        for tests, entries in zip(self.correlations.values(), correlations, strict=True):
            _restore(list(tests.values()), entries)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _restore(tests: Sequence[LimitTest], entries: Any) -> None:
    if not isinstance(entries, list) or len(entries) != len(tests):
        raise ValueError("'tests' has not one entry for each limit")
    for test, entry in itertools.zip_longest(tests, entries):
        test.from_state(Fields(entry, "an entry of 'tests'"))


def listed(labels: Sequence[str]) -> str:
    """The first groups, for a message."""
    shown = ", ".join(inert(label, 40) for label in labels[:6])
    return shown + (", ..." if len(labels) > 6 else "")
