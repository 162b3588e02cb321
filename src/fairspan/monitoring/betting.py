"""Test supermartingales: wealth of bets against limits, and what it proves at any time (docs/monitoring.md).

A bet pays z >= -1 times what was set on it, and its mean is at most 0 under the hypothesis. The wealth is
then a supermartingale that begins at 1, so the chance that it ever reaches 1 / alpha is at most alpha
(Ville 1939).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.method.linalg import Array
from fairspan.monitoring.fields import Fields

# Shares of the wealth that are bet each time; the mean over them is a supermartingale, too. Small shares find
# small excesses, large shares large ones early.
FRACTIONS = np.array([0.7, 0.35, 0.15, 0.06])
_EQUAL = np.full(len(FRACTIONS), 1.0 / len(FRACTIONS))
# Wealth is cut here, which keeps it a supermartingale and finite.
MOST = 1e100


def reserve(starts: int) -> float:
    """Share of the initial wealth that is not yet bet after a number of starts.

    A fifth of it is bet from the beginning. The rest is bet from later times on, a little each time, so that
    bets that were lost before a change do not delay the alarm much.
    """
    return 1.0 if starts == 0 else 0.8 / math.sqrt(1.0 + math.log(starts))


class Wealth:
    """Wealth of bets against several hypotheses, side by side.

    Parameters
    ----------
    n : number of hypotheses.
    """

    def __init__(self, n: int) -> None:
        self.starts = 0
        self.money = np.zeros((n, len(FRACTIONS)))

    def step(self, payoff: Array) -> Array:
        """Return the wealth after one bet on each hypothesis; payoffs are at least -1, shape (n,)."""
        self.money += reserve(self.starts) - reserve(self.starts + 1)
        self.starts += 1
        self.money *= 1.0 + FRACTIONS * payoff[:, None]
        np.minimum(self.money, MOST, out=self.money)
        return np.asarray(self.money @ _EQUAL + reserve(self.starts))


class LowerEnds:
    """Largest values that a number is proven to have exceeded: bets against "at most g" for a grid.

    Parameters
    ----------
    grid : ascending values g.
    sides : 2 to test the number and its negative, each on the same grid.
    """

    def __init__(self, grid: Array, sides: int = 2) -> None:
        self.grid = grid
        self.wealth = Wealth(sides * len(grid))
        self.proven = [-math.inf] * sides

    def step(self, payoffs: Array, threshold: float) -> None:
        """Bet once, (sides * grid,); what is rejected at the threshold stays rejected."""
        money = self.wealth.step(payoffs)
        if money.max() < threshold:
            return
        for side, rejected in enumerate((money >= threshold).reshape(-1, len(self.grid))):
            # Payoffs of correlations need not fall in g. So g counts only if all smaller values are rejected
            # as well: a false end then needs the rejection of one hypothesis, the smallest that is true.
            n_rejected = len(rejected) if rejected.all() else int(np.argmin(rejected))
            if n_rejected:
                self.proven[side] = max(self.proven[side], float(self.grid[n_rejected - 1]))

    def to_state(self) -> dict[str, Any]:
        """Numbers for the file."""
        return {
            "starts": self.wealth.starts,
            "money": self.wealth.money.ravel().tolist(),
            "proven": [None if math.isinf(value) else value for value in self.proven],
        }

    def from_state(self, fields: Fields) -> None:
        """Take the numbers of a file."""
        self.wealth.starts = fields.whole("starts")
        shape = self.wealth.money.shape
        money = fields.numbers("money", math.prod(shape), low=0.0, high=MOST)
        self.wealth.money = np.array(money).reshape(shape)
        proven = fields.numbers("proven", len(self.proven), low=-1.0, high=1.0, gaps=True)
        self.proven = [-math.inf if value is None else value for value in proven]


def grid_with(limit: float, low: float) -> Array:
    """Values from ``low`` to .98 in steps of .02, and the limit and its negative."""
    steps = np.round(np.arange(round(low * 50), 50) / 50, 2)
    more = [value for value in (limit, -limit) if low <= value]
    return np.unique(np.concatenate([steps, more]))


# ------------------------------------------------------------------ payoffs


@dataclass(frozen=True, kw_only=True)
class PairPayoffs:
    """Payoffs that are linear in the shares of favourable decisions of two groups in a block."""

    first: Array
    second: Array
    constant: Array

    def at(self, first: float, second: float) -> Array:
        """Payoffs of a block, for the grid on both sides."""
        return self.first * first + self.second * second + self.constant


def gap_payoffs(grid: Array) -> PairPayoffs:
    """Payoffs against "the difference is at most g", and against the same for its negative."""
    scale = 1.0 / (1.0 + grid)  # the difference is at least -1, so the payoffs are, too
    return PairPayoffs(
        first=np.concatenate([scale, -scale]),
        second=np.concatenate([-scale, scale]),
        constant=np.tile(-grid * scale, 2),
    )


def ratio_payoffs(grid: Array) -> PairPayoffs:
    """Payoffs against "the second rate is at least r times the first", and the other way round.

    The grid holds -r, so that its larger values are the stronger statements.
    """
    share, one = -grid, np.ones(len(grid))
    return PairPayoffs(
        first=np.concatenate([share, -one]),
        second=np.concatenate([-one, share]),
        constant=np.zeros(2 * len(grid)),
    )


def correlation_payoffs(
    covariance: float, variances: tuple[float, float], tilt: float, rows: int, grid: Array
) -> Array:
    """Payoffs against "the correlation is at most c", and against the same for its negative.

    c sd(f) sd(s) is at most c (tilt var(f) + var(s) / tilt) / 2, for any tilt, with equality at
    tilt = sd(s) / sd(f). So the covariance less that number has a mean of at most 0 under the hypothesis,
    and covariance and variances are estimated without bias from the rows of one block.

    Parameters
    ----------
    covariance : of the score and the indicator, both in [0, 1], in a block of rows.
    variances : of the score and of the indicator.
    tilt : any positive number that was chosen before the block.
    rows : rows of the block.
    grid : limits c, not negative.
    """
    score, indicator = variances
    middle = grid * ((tilt * score + indicator / tilt) / 2.0)
    most = (rows * rows // 4) / (rows * (rows - 1))  # the largest variance of numbers in [0, 1]
    scale = most * (1.0 + grid * ((tilt + 1.0 / tilt) / 2.0))
    return np.concatenate([(covariance - middle) / scale, (-covariance - middle) / scale])
