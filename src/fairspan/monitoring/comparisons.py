"""Comparisons of two groups, or of a group with all others, row by row, against one limit each."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairspan.monitoring.betting import (
    LowerEnds,
    correlation_payoffs,
    gap_payoffs,
    grid_with,
    ratio_payoffs,
)
from fairspan.monitoring.fields import Fields

# Rows of a block of the correlation. More would estimate covariances better, but payoffs would be smaller.
BLOCK_ROWS = 4
_STEEPEST = 10.0


@dataclass(frozen=True, kw_only=True)
class Block:
    """Shares of favourable decisions of two groups among neighbouring rows."""

    first: float
    second: float
    begin: int  # row, counted from 1
    end: int


@dataclass(kw_only=True)
class Neighbours:
    """Rows of two groups since the last block; a block ends as soon as it has rows of both."""

    count: list[int] = field(default_factory=lambda: [0, 0])
    favourable: list[int] = field(default_factory=lambda: [0, 0])
    begin: int = 0

    def add(self, side: int, favourable: bool, row: int) -> Block | None:
        """Add a row of the first group (side 0) or of the second; return the block if it is complete."""
        if self.count == [0, 0]:
            self.begin = row
        self.count[side] += 1
        self.favourable[side] += favourable
        if not all(self.count):
            return None
        shares = [f / n for f, n in zip(self.favourable, self.count, strict=True)]
        block = Block(first=shares[0], second=shares[1], begin=self.begin, end=row)
        self.count, self.favourable = [0, 0], [0, 0]
        return block

    def to_state(self) -> dict[str, Any]:
        """Numbers for the file."""
        return {"count": self.count, "favourable": self.favourable, "begin": self.begin}

    @classmethod
    def from_state(cls, fields: Fields) -> Neighbours:
        """Take the numbers of a file."""
        count = [int(n) for n in fields.numbers("count", 2, low=0, high=2**53)]
        favourable = [int(n) for n in fields.numbers("favourable", 2, low=0, high=2**53)]
        if all(count) or any(f > n for f, n in zip(favourable, count, strict=True)):
            raise ValueError("'count' and 'favourable' are not those of an open block")
        return cls(count=count, favourable=favourable, begin=fields.whole("begin"))


class LimitTest(ABC):
    """A test of one limit for one comparison: base class.

    Attributes
    ----------
    alarm : (side, batch, row) at which the limit was first proven to be broken; None before.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.alarm: tuple[int, int, int] | None = None

    @abstractmethod
    def broken(self) -> int | None:
        """The side on which the limit is proven to be broken: 0 if the first group is favoured."""

    @abstractmethod
    def interval(self, side: int) -> tuple[float, float]:
        """Interval of the number, with the group that ``side`` favours first."""

    def check(self, batch: int, row: int, *, enough: bool) -> None:
        """Raise the alarm if the limit is broken and there are enough people."""
        if self.alarm is None and enough:
            side = self.broken()
            if side is not None:
                self.alarm = side, batch, row

    @abstractmethod
    def parts(self) -> dict[str, LowerEnds]:
        """The bets, by name."""

    def to_state(self) -> dict[str, Any]:
        """Numbers for the file."""
        bets = {name: ends.to_state() for name, ends in self.parts().items()}
        return {"alarm": None if self.alarm is None else list(self.alarm), "bets": bets}

    def from_state(self, fields: Fields) -> None:
        """Take the numbers of a file."""
        if fields.get("alarm") is not None:
            side, batch, row = fields.numbers("alarm", 3, low=0, high=2**53)
            self.alarm = int(side), int(batch), int(row)
            if side not in (0, 1):
                raise ValueError("'alarm' has a side that is not 0 or 1")
        bets = fields.inner("bets")
        for name, ends in self.parts().items():
            ends.from_state(bets.inner(name))


class PairTest(LimitTest):
    """A test for two groups."""

    @abstractmethod
    def step(self, block: Block, errors: float) -> None:
        """Bet on a block; ``errors`` is the probability of a false alarm that this test may use."""


class GapTest(PairTest):
    """The difference of two rates is at most the limit, in both directions."""

    def __init__(self, limit: float) -> None:
        super().__init__(limit)
        self.ends = LowerEnds(grid_with(limit, -0.98))
        self.payoffs = gap_payoffs(self.ends.grid)

    def step(self, block: Block, errors: float) -> None:
        """Bet on a block."""
        # Two sides of the interval share the probability of an error.
        payoffs = self.payoffs.at(block.first, block.second)
        self.ends.step(payoffs, 2.0 / errors if errors else math.inf)

    def broken(self) -> int | None:
        """Side whose difference is above the limit."""
        return next((i for i in (0, 1) if self.ends.proven[i] >= self.limit), None)

    def interval(self, side: int) -> tuple[float, float]:
        """Interval of the difference, the rate of the favoured group first."""
        low, high = self.ends.proven[side], self.ends.proven[1 - side]
        return max(low, -1.0), min(-high, 1.0)

    def parts(self) -> dict[str, LowerEnds]:
        """The bets."""
        return {"all": self.ends}


class RatioTest(PairTest):
    """The lower rate is at least a share of the higher one."""

    def __init__(self, limit: float) -> None:
        super().__init__(limit)
        ratios = np.unique([*np.round(np.arange(1, 51) / 50, 2), limit])
        self.ends = LowerEnds(-ratios[::-1])
        self.payoffs = ratio_payoffs(self.ends.grid)

    def step(self, block: Block, errors: float) -> None:
        """Bet on a block."""
        payoffs = self.payoffs.at(block.first, block.second)
        self.ends.step(payoffs, 2.0 / errors if errors else math.inf)

    def broken(self) -> int | None:
        """Side whose rate is so high that the other is below the limit."""
        return next((i for i in (0, 1) if self.ends.proven[i] >= -self.limit), None)

    def interval(self, side: int) -> tuple[float, float]:
        """From 0 to the upper end of the ratio; only that end is tested."""
        return 0.0, min(-self.ends.proven[side], 1.0)

    def parts(self) -> dict[str, LowerEnds]:
        """The bets."""
        return {"all": self.ends}


class ChangeTest(PairTest):
    """The difference of two rates is within a margin of what it was in the first rows."""

    def __init__(self, limit: float, reference_rows: int) -> None:
        super().__init__(limit)
        self.reference_rows = reference_rows
        self.before, self.after = GapTest(limit), GapTest(limit)

    def step(self, block: Block, errors: float) -> None:
        """Bet on a block of the reference period or of the time after it."""
        # Half of the errors for the interval of each period.
        if block.end <= self.reference_rows:
            self.before.step(block, errors / 2.0)
        elif block.begin > self.reference_rows:
            self.after.step(block, errors / 2.0)

    def broken(self) -> int | None:
        """Side in favour of which the difference moved by more than the margin."""
        low, high = self.interval(0)
        return 0 if low >= self.limit else 1 if high <= -self.limit else None

    def interval(self, side: int) -> tuple[float, float]:
        """Interval of the change: the interval after the reference period less that before."""
        # Ends that cross show a change within the period, which then counts as the range of both.
        low, high = self.before.interval(side)
        new_low, new_high = self.after.interval(side)
        return max(new_low - max(low, high), -2.0), min(new_high - min(low, high), 2.0)

    def parts(self) -> dict[str, LowerEnds]:
        """The bets before and after."""
        return {"before": self.before.ends, "after": self.after.ends}


class CorrelationTest(LimitTest):
    """The correlation of a score with the indicator of a group is at most the limit."""

    def __init__(self, limit: float) -> None:
        super().__init__(limit)
        self.ends = LowerEnds(grid_with(limit, 0.0))

    def step(self, rows: ScoreBlock, inside: list[bool], tilt: float, errors: float) -> None:
        """Bet on a block of rows; ``inside`` says which of them are of the group."""
        n = len(inside)
        mean, share = sum(rows.scores) / n, sum(inside) / n
        score = sum((f - mean) ** 2 for f in rows.scores) / (n - 1)
        together = sum((f - mean) * (s - share) for f, s in zip(rows.scores, inside, strict=True))
        variances = score, n * share * (1.0 - share) / (n - 1)
        payoffs = correlation_payoffs(together / (n - 1), variances, tilt, n, self.ends.grid)
        self.ends.step(payoffs, 2.0 / errors if errors else math.inf)

    def broken(self) -> int | None:
        """0 if scores are too high in the group, 1 if they are too low."""
        return next((i for i in (0, 1) if self.ends.proven[i] >= self.limit), None)

    def interval(self, side: int) -> tuple[float, float]:
        """From the lower end to 1; only that end is tested."""
        return max(self.ends.proven[side], -1.0), 1.0

    def parts(self) -> dict[str, LowerEnds]:
        """The bets."""
        return {"all": self.ends}


@dataclass(kw_only=True)
class ScoreBlock:
    """Scores in [0, 1] and groups of the rows since the last complete block."""

    scores: list[float] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)

    def add(self, score: float, group: int) -> ScoreBlock | None:
        """Add a row; return the block if it is complete, and begin the next one."""
        self.scores.append(score)
        self.groups.append(group)
        if len(self.scores) < BLOCK_ROWS:
            return None
        block = ScoreBlock(scores=self.scores, groups=self.groups)
        self.scores, self.groups = [], []
        return block


def tilt_of(score_variance: float, group_variance: float) -> float:
    """Ratio of standard deviations, sd(s) / sd(f), within bounds; 1 before either is known."""
    if score_variance <= 0.0 or group_variance <= 0.0:
        return 1.0
    ratio = math.sqrt(group_variance / score_variance)
    return min(max(ratio, 1.0 / _STEEPEST), _STEEPEST)
