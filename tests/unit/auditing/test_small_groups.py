"""Intervals for few rows: exact ones of rates, and what is combined from them."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from fairspan import audit
from fairspan.auditing.small_groups import (
    exact_interval,
    largest_difference,
    mean_interval,
    smallest_ratio,
    student_factor,
)

TAILS = st.floats(1e-4, 0.2)


@given(st.integers(1, 40), st.data(), TAILS)
def test_the_exact_interval_is_scipys(n, data, tail):
    k = data.draw(st.integers(0, n))
    expected = scipy.stats.binomtest(k, n).proportion_ci(1.0 - 2.0 * tail, method="exact")
    assert exact_interval(k / n, n, tail) == pytest.approx(tuple(expected), abs=1e-9)


def test_nothing_is_known_without_rows():
    assert exact_interval(0.5, 0.0, 0.025) == (0.0, 1.0)
    assert student_factor(1.0, 0.025) == math.inf
    assert mean_interval(2.0, np.array([2.0, 2.0]), 1.0, 0.025, (-5.0, 5.0)) == (-5.0, 5.0)


def test_students_interval_is_that_of_a_mean():
    x = np.random.default_rng(0).normal(size=12)
    draws = np.random.default_rng(1).choice(x, (200_000, 12)).mean(axis=1)
    low, high = mean_interval(x.mean(), draws, 12.0, 0.025, (-np.inf, np.inf))
    expected = scipy.stats.t.interval(0.95, 11, x.mean(), x.std(ddof=1) / np.sqrt(12))
    assert (low, high) == pytest.approx(expected, rel=0.01)


def test_a_difference_of_two_rates_is_newcombes():
    value, low, high = np.array([0.8, 0.3]), np.array([0.6, 0.1]), np.array([0.9, 0.6])
    found = largest_difference(value, low, high, 1.0)
    assert found[0] == pytest.approx(0.5)
    assert found[1] == pytest.approx(0.5 - np.hypot(0.8 - 0.6, 0.6 - 0.3))
    assert found[2] == pytest.approx(0.5 + np.hypot(0.9 - 0.8, 0.3 - 0.1))
    assert largest_difference(value[::-1], low[::-1], high[::-1], 1.0) == found


def test_an_unknown_group_leaves_the_difference_open():
    value, low, high = np.array([0.3, np.nan]), np.array([0.2, 0.0]), np.array([0.5, 1.0])
    estimate, lowest, highest = largest_difference(value, low, high, 1.0)
    assert math.isnan(estimate)
    assert (lowest, highest) == (0.0, pytest.approx(0.8))  # from 0.2 to 1
    ratio = smallest_ratio(value, low, high)
    assert math.isnan(ratio[0])
    assert ratio[1:] == (0.0, 1.0)


def test_a_ratio_has_the_ratios_of_the_limits():
    value, low, high = np.array([0.2, 0.8]), np.array([0.1, 0.7]), np.array([0.4, 0.9])
    assert smallest_ratio(value, low, high) == pytest.approx((0.25, 0.1 / 0.9, 0.4 / 0.7))
    assert smallest_ratio(np.zeros(2), np.zeros(2), np.array([0.1, 0.2])) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize("n_small", [1, 2, 5, 12, 25])
def test_no_draw_is_without_an_interval(n_small):
    """Every gap of a small group has limits, within its range, around the estimate if there is one."""
    for seed in range(20):
        rng = np.random.default_rng([n_small, seed])
        s = np.append(np.zeros(200, dtype=int), np.ones(n_small, dtype=int))
        y, decided = rng.integers(0, 2, 200 + n_small), rng.integers(0, 2, 200 + n_small)
        options = {"sensitive_features": {"s": s}, "n_boot": 20, "parts": ["scores", "decisions"]}
        result = audit(rng.normal(size=len(s)), y=y, decisions=decided, **options)
        for f in result.select("decisions", group="") + result.select("scores"):
            assert 0.0 <= f.low <= f.high <= 1.0, f
            assert math.isnan(f.value) or f.low <= f.value <= f.high, f
            assert f.small
            assert "few rows in 1" in f.note or "constant" in f.note
        assert any("s: too few rows" in text and "of 1;" in text for text in result.warnings)


def test_the_exact_limits_cover_a_gap_of_few_rows():
    """Ten rows of a group and two hundred of another: an interval of 95 % covers at least as often."""
    held, draws = 0, 300
    for seed in range(draws):
        rng = np.random.default_rng([7, seed])
        decided = np.append(rng.random(200) < 0.6, rng.random(10) < 0.3)
        rates = np.array([decided[:200].mean(), decided[200:].mean()])
        limits = [exact_interval(r, n, 0.025) for r, n in zip(rates, (200, 10), strict=True)]
        _, low, high = largest_difference(rates, *np.array(limits).T, 1.0)
        held += low <= 0.3 <= high
    assert held / draws >= 0.94
