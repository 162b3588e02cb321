"""Choice of a dial value: prefixes of a fixed order, and how often a promise is broken."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.estimators.path_bounds import confidence_limits
from fairspan.estimators.path_selection import Levels
from fairspan.method.promises import choose, keep_budget, keep_limit, promised, rows_needed

Z_ONE_SIDED = 1.6448536269514722


def test_promised_stops_at_the_first_broken_value():
    upper = np.array([0.5, 0.1, 0.3, 0.2, 0.1])
    assert promised(upper, 4, -1, 0.2).tolist() == [4, 3]  # 1 keeps the limit, behind a broken one
    assert promised(upper, 4, -1, 0.3).tolist() == [4, 3, 2, 1]
    assert promised(upper, 4, -1, 1.0).tolist() == [4, 3, 2, 1, 0]
    assert promised(upper, 4, -1, 0.05).tolist() == []
    assert promised(upper, 1, 1, 0.2).tolist() == [1]
    assert promised(upper, 3, 1, 0.2).tolist() == [3, 4]
    assert promised(np.array([0.1, np.nan, 0.1]), 2, -1, 0.2).tolist() == [2]


def test_the_rows_that_a_limit_needs_are_more_than_there_are():
    """A margin shrinks with the root of the rows."""
    assert rows_needed(800, 0.02, 0.12, 0.05) == 3200  # the value is noise; twice the margin
    assert rows_needed(800, 0.2, 0.276, 0.25) == int(np.ceil(800 * (0.076 / 0.05) ** 2))
    assert rows_needed(800, 0.2, 0.25, 0.1) is None  # more rows do not help
    assert rows_needed(800, 0.1, 0.2, 0.0) is None
    for value, upper, limit in np.random.default_rng(0).uniform(size=(200, 3)):
        if upper > max(value, limit):
            needed = rows_needed(800, value, upper, limit)
            assert needed is None or needed >= 800


def test_a_choice_needs_a_number_everywhere():
    value = np.array([0.1, np.nan, 0.3])
    with pytest.raises(ValueError, match="ks is not defined on these rows"):
        choose("ks", value, np.ones(3), "metric", 0.2)
    assert choose("ks", np.array([0.1, 0.2, 0.3]), np.array([3.0, 2.0, 1.0]), "metric", 0.2) == (
        1,
        True,
    )


def test_the_value_of_an_error_is_never_noise():
    """An error of 0.2 with a margin of 0.2 does not vanish with more rows; a correlation may."""
    assert rows_needed(100, 0.2, 0.4, 0.1) == 400
    assert rows_needed(100, 0.2, 0.4, 0.1, may_be_noise=False) is None
    assert rows_needed(100, 0.25, 0.5, 0.375, may_be_noise=False) == 400
    assert rows_needed(100, 0.2, np.inf, 0.3) is None
    assert rows_needed(100, 0.08, 0.15, 0.05) is None  # above the limit, and not compatible with 0


# ------------------------------------------------------------------ the order

NUMBERS = st.lists(st.floats(0.0, 1.0) | st.just(float("nan")), min_size=2, max_size=12)


@given(NUMBERS, st.floats(0.0, 1.0), st.sampled_from([1.0, 1.5]), st.randoms())
def test_a_promised_value_has_only_promised_ones_up_to_the_start(upper, limit, last, random):
    upper = np.array(upper)
    fairness = np.linspace(0.0, last, len(upper))
    error = np.array([random.random() for _ in upper])
    i, allowed = keep_limit(fairness, error, upper, limit)
    start = len(upper) - 1
    if last > 1.0:
        finite = np.flatnonzero(np.isfinite(upper))
        nearest = int(np.argmin(np.abs(fairness - 1.0)))
        start = finite[np.argmin(upper[finite])] if len(finite) else nearest
    if len(allowed) == 0:
        assert i == start
        assert not upper[start] <= limit
        return
    assert allowed[0] == start
    np.testing.assert_array_equal(allowed, np.arange(start, allowed[-1] - 1, -1))
    assert (upper[allowed] <= limit).all()
    assert allowed[-1] == 0 or not upper[allowed[-1] - 1] <= limit
    assert error[i] == error[allowed].min()


@given(NUMBERS, st.floats(0.0, 1.0))
def test_a_budget_is_tested_from_fairness_0(upper, limit):
    upper = np.array(upper)
    value = -np.arange(len(upper), dtype=float)  # fairer further on
    i, allowed = keep_budget(value, upper, limit)
    inside = upper <= limit
    n_promised = len(upper) if inside.all() else int(np.argmin(inside))
    assert allowed.tolist() == list(range(n_promised))
    assert i == max(n_promised - 1, 0)


# ------------------------------------------------------------------ how often a promise is broken


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0])
def test_the_number_of_dial_values_needs_no_correction(rho):
    """101 bounds at 95 % each, independent or alike: a promise is wrong in at most 5 % of draws.

    Taking any value within the limit, without the order, is wrong far more often.
    """
    rng, n_draws, limit = np.random.default_rng(0), 4000, 0.1
    fairness = np.linspace(0.0, 1.0, 101)
    truth = 0.2 * (1.0 - fairness)
    broken = unordered = 0
    for _ in range(n_draws):
        noise = np.sqrt(rho) * rng.normal() + np.sqrt(1.0 - rho) * rng.normal(size=101)
        upper = truth + 0.03 * (noise + Z_ONE_SIDED)
        i, allowed = keep_limit(fairness, -truth, upper, limit)
        broken += bool(len(allowed)) and truth[i] > limit + 1e-12
        unordered += bool(np.any((upper <= limit) & (truth > limit + 1e-12)))
    # Three standard errors of a share of 5 % in 4,000 draws are 1.03 %.
    assert broken / n_draws <= 0.0603
    if rho < 1.0:
        assert unordered / n_draws > 0.15


def decisions_along(x, z, fairness):
    """Favourable decisions whose gap between two groups closes near fairness 1.1 and opens again."""
    score = (x + z)[:, None] - 0.9 * fairness * x[:, None]
    return score > 0.4 - 0.24 * fairness


def test_a_start_that_is_searched_keeps_its_promise_with_two_sided_bounds():
    """Beyond fairness 1 the order begins at the least bound; the bounds are two-sided there."""
    rng, n, n_draws = np.random.default_rng(0), 400, 400
    fairness = np.linspace(0.0, 1.5, 31)

    def rows(n):
        s = rng.integers(0, 2, n)
        x, z = rng.normal(size=(2, n))
        return s, decisions_along(x + 0.8 * s, z, fairness).astype(float)

    s, decided = rows(200_000)
    truth = np.abs(decided[s == 1].mean(axis=0) - decided[s == 0].mean(axis=0))
    limits = np.linspace(0.06, 0.16, 6)
    broken = np.zeros(len(limits))
    for _ in range(n_draws):
        s, decided = rows(n)
        evaluator = SimpleNamespace(
            n=n,
            weight=np.ones(n),
            positive=1,
            attributes=["s"],
            levels={"s": Levels(s, 2, None)},
        )
        upper = confidence_limits(
            evaluator,
            "demographic_parity_difference",
            np.stack([1.0 - decided, decided], axis=1),
            attribute=None,
            confidence=0.95,
            one_sided=False,
        ).upper
        for k, limit in enumerate(limits):
            i, allowed = keep_limit(fairness, -truth, upper, limit)
            broken[k] += bool(len(allowed)) and truth[i] > limit
    assert 0.0 < (broken / n_draws).max() <= 0.05
