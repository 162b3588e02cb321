"""Bets: their mean under the hypothesis by enumeration, their bounds, and what is proven."""

import itertools
import math

import numpy as np
import pytest

from fairspan.monitoring.betting import (
    LowerEnds,
    Wealth,
    correlation_payoffs,
    gap_payoffs,
    grid_with,
    ratio_payoffs,
    reserve,
)


def test_the_shares_that_are_bet_later_add_up_to_the_initial_wealth():
    bets = [reserve(k) - reserve(k + 1) for k in range(10_000)]
    assert min(bets) > 0.0
    assert bets[0] == pytest.approx(0.2)
    assert sum(bets) + reserve(10_000) == pytest.approx(1.0)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_the_mean_of_the_wealth_is_one_if_payoffs_have_the_mean_zero(p):
    """Over all sequences of six payoffs, -1 or (1 - p) / p with probability p."""
    low, high = -1.0, (1 - p) / p
    mean = 0.0
    for path in itertools.product([0, 1], repeat=6):
        wealth = Wealth(1)
        for up in path:
            (last,) = wealth.step(np.array([high if up else low]))
        mean += math.prod(p if up else 1 - p for up in path) * last
    assert mean == pytest.approx(1.0, abs=1e-12)


def mean_payoff(payoffs, rates):
    """Mean payoffs over the decisions of one person of each group."""
    total = 0.0
    for a, b in itertools.product([0, 1], repeat=2):
        chance = (rates[0] if a else 1 - rates[0]) * (rates[1] if b else 1 - rates[1])
        total = total + chance * payoffs.at(float(a), float(b))
    return total


@pytest.mark.parametrize("rates", [(0.6, 0.5), (0.1, 0.9), (0.0, 1.0), (0.3, 0.3)])
def test_gap_payoffs_have_a_mean_above_zero_only_for_gaps_that_are_exceeded(rates):
    grid = grid_with(0.1, -0.98)
    first, second = mean_payoff(gap_payoffs(grid), rates).reshape(2, -1)
    difference = rates[0] - rates[1]
    np.testing.assert_allclose(first * (1 + grid), difference - grid, atol=1e-12)
    np.testing.assert_allclose(second * (1 + grid), -difference - grid, atol=1e-12)


def test_ratio_payoffs_have_a_mean_of_at_most_zero_where_the_ratio_is_kept():
    grid = -np.round(np.arange(50, 0, -1) / 50, 2)
    first, second = mean_payoff(ratio_payoffs(grid), (0.5, 0.4)).reshape(2, -1)
    np.testing.assert_array_equal(first > 1e-12, -grid > 0.8)
    assert (second <= 1e-12).all()  # .5 is at least r times .4 for every r


def test_no_payoff_loses_more_than_what_was_bet():
    shares = np.linspace(0, 1, 7)
    grid = grid_with(0.07, -0.98)
    ratios = -np.round(np.arange(50, 0, -1) / 50, 2)
    for a, b in itertools.product(shares, repeat=2):
        assert gap_payoffs(grid).at(a, b).min() >= -1.0 - 1e-12
        assert ratio_payoffs(ratios).at(a, b).min() >= -1.0 - 1e-12


LIMITS = grid_with(0.05, 0.0)


def block(scores, inside, tilt):
    f, s = np.array(scores, float), np.array(inside, float)
    c = np.cov(f, s)
    return correlation_payoffs(c[0, 1], (c[0, 0], c[1, 1]), tilt, len(f), LIMITS)


@pytest.mark.parametrize("tilt", [0.1, 1.0, 2.5, 10.0])
def test_no_payoff_of_a_correlation_loses_more_than_what_was_bet(tilt):
    values = (0.0, 0.4, 1.0)
    for scores in itertools.product(values, repeat=4):
        for inside in itertools.product([0, 1], repeat=4):
            assert block(scores, inside, tilt).min() >= -1.0 - 1e-9


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.05, 0.3])
@pytest.mark.parametrize("tilt", [0.4, 1.0, 2.0])
def test_the_mean_payoff_of_a_correlation_is_at_most_zero_if_the_limit_is_kept(rho, tilt):
    """Over all blocks of four people with a score of .2 or .7 and this correlation with the group."""
    share, high = 0.3, 0.6
    cov = rho * math.sqrt(share * (1 - share) * high * (1 - high))
    joint = {
        (1, 1): share * high + cov,
        (1, 0): share * (1 - high) - cov,
        (0, 1): (1 - share) * high - cov,
        (0, 0): (1 - share) * (1 - high) + cov,
    }
    assert min(joint.values()) >= 0.0
    mean = 0.0
    for people in itertools.product(joint, repeat=4):
        chance = math.prod(joint[one] for one in people)
        payoff = block([0.7 if f else 0.2 for _, f in people], [s for s, _ in people], tilt)
        mean = mean + chance * payoff
    first, second = mean.reshape(2, -1)
    assert (first[rho <= LIMITS] <= 1e-12).all()
    assert (second[-rho <= LIMITS] <= 1e-12).all()


def test_the_mean_payoff_is_positive_beyond_the_limit_at_the_best_tilt():
    share, high, rho = 0.5, 0.5, 0.3
    cov = rho / 4
    joint = {(1, 1): 0.25 + cov, (1, 0): 0.25 - cov, (0, 1): 0.25 - cov, (0, 0): 0.25 + cov}
    tilt = math.sqrt(share * (1 - share)) / (0.5 * math.sqrt(high * (1 - high)))
    mean = 0.0
    for people in itertools.product(joint, repeat=4):
        payoff = block([0.7 if f else 0.2 for _, f in people], [s for s, _ in people], tilt)
        mean = mean + math.prod(joint[one] for one in people) * payoff
    first = mean.reshape(2, -1)[0]
    np.testing.assert_array_equal(first > 1e-12, rho - 1e-9 > LIMITS)


def test_what_is_proven_stays_proven_and_stops_at_the_number_itself():
    ends = LowerEnds(grid_with(0.1, -0.98))
    payoffs = gap_payoffs(ends.grid)
    for _ in range(400):
        ends.step(payoffs.at(0.75, 0.25), 20.0)
    assert 0.4 <= ends.proven[0] < 0.5
    assert -0.6 <= ends.proven[1] < -0.5
    before = list(ends.proven)
    for _ in range(400):
        ends.step(payoffs.at(0.0, 0.0), 20.0)
    assert ends.proven[0] == before[0]
    assert ends.proven[1] > before[1]  # and the number is proven to have been smaller
    ends.step(payoffs.at(1.0, 0.0), math.inf)
    assert ends.proven[0] == before[0]


def test_a_value_is_proven_only_with_all_smaller_ones():
    ends = LowerEnds(np.array([0.0, 0.1, 0.2]), sides=1)
    for _ in range(50):
        ends.step(np.array([1.0, -0.5, 1.0]), threshold=20.0)
    assert ends.proven == [0.0]
    for _ in range(50):
        ends.step(np.array([1.0, 1.0, 1.0]), threshold=20.0)
    assert ends.proven == [0.2]
