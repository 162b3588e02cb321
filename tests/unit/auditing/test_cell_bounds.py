"""Limits for all rules on the cells of a score: `fairspan.auditing.cell_bounds`."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan.auditing import cell_bounds
from fairspan.auditing.cell_bounds import Cells, Piece, chance_at_most, upper_limit
from fairspan.auditing.small_groups import exact_interval

counts = st.lists(st.integers(0, 40), min_size=3, max_size=3)
tables = st.lists(counts, min_size=2, max_size=3).filter(lambda t: all(sum(row) for row in t))


def cells_of(table):
    """Shares and numbers of rows of a table of counts, (groups, cells)."""
    table = np.asarray(table, dtype=float)
    n = table.sum(axis=1)
    return Cells(shares=table / n[:, None], n=tuple(n.astype(int).tolist()))


def limits(table, tail=0.05):
    """Limits for any rule and for thresholds."""
    cells = cells_of(table)
    return upper_limit(cells.of_any_rule(tail)), upper_limit(cells.of_thresholds(tail))


@pytest.mark.parametrize(("n", "m"), [(5, 9), (40, 40), (30, 400)])
def test_the_chance_is_at_least_that_of_all_counts(n, m):
    """Blocks are rounded upwards, by little."""
    for q in (0.0, 0.03, 0.4, 0.8):
        for delta in (0.0, 0.1):
            for difference in (-0.2, 0.0, 0.05, 0.3):
                a, b = np.meshgrid(np.arange(n + 1), np.arange(m + 1))
                both = scipy.stats.binom.pmf(a, n, q + delta) * scipy.stats.binom.pmf(b, m, q)
                exact = both[a / n - b / m <= difference + 1e-9].sum()
                found = chance_at_most(difference, delta, np.array([q]), n, m)[0]
                assert exact - 1e-9 <= found <= exact + 0.02


@pytest.mark.parametrize(("n", "m"), [(30, 40), (200, 300), (1_000, 9_000)])
def test_shares_between_those_of_the_grid_hardly_matter(n, m):
    for observed in (0.02, 0.35, 0.9):
        low, high = exact_interval(observed, m, 0.00125)
        for delta in np.sqrt(0.25 / n + 0.25 / m) * np.array([0.8, 1.3]):
            few, many = (
                chance_at_most(0.0, delta, np.linspace(low, min(high, 1.0 - delta), k), n, m).max()
                for k in (17, 801)
            )
            assert many > 0.06 or many - few <= 0.0005


def test_the_limit_of_one_set_fails_rarely_enough_in_every_population():
    """All outcomes of two small groups are listed."""
    n, m, tail = 4, 7, 0.1
    found = {
        (a, b): limits([[a, n - a], [b, m - b]], tail)[0]
        for a in range(n + 1)
        for b in range(m + 1)
    }
    for p in np.linspace(0.0, 1.0, 21):
        for q in np.linspace(0.0, 1.0, 21):
            missed = sum(
                scipy.stats.binom.pmf(a, n, p) * scipy.stats.binom.pmf(b, m, q)
                for (a, b), limit in found.items()
                if limit < abs(p - q) - 1e-9
            )
            assert missed <= tail + 1e-9


@pytest.mark.slow
def test_the_limit_of_three_cells_fails_rarely_enough():
    """All outcomes of two groups of five are listed."""
    n, tail = 5, 0.2
    outcomes = [(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)]
    found = np.array([[limits([one, other], tail) for other in outcomes] for one in outcomes])
    populations = [
        (0.2, 0.3, 0.5),
        (0.6, 0.2, 0.2),
        (0.0, 0.5, 0.5),
        (0.9, 0.1, 0.0),
        (0.3, 0.6, 0.1),
    ]
    for p, q in combinations(populations, 2):
        chance = np.outer(
            scipy.stats.multinomial.pmf(outcomes, n, p), scipy.stats.multinomial.pmf(outcomes, n, q)
        )
        difference = np.subtract(p, q)
        truths = np.abs(difference).sum() / 2.0, np.abs(np.cumsum(difference)).max()
        for kind, truth in enumerate(truths):
            assert chance[found[:, :, kind] < truth - 1e-9].sum() <= tail


@settings(max_examples=12, deadline=None)
@given(tables)
def test_the_limit_is_above_every_rule_and_below_hoeffdings(table):
    any_rule, thresholds = limits(table)
    cells = cells_of(table)
    value, largest = cells.distances()
    for i, j in combinations(range(len(table)), 2):
        for n_chosen in range(4):
            for chosen in map(list, combinations(range(3), n_chosen)):
                gap = abs(cells.shares[i, chosen].sum() - cells.shares[j, chosen].sum())
                assert gap <= value + 1e-12
    assert largest <= value + 1e-12
    assert value <= any_rule <= 1.0
    assert thresholds <= any_rule + 2e-5
    noise = max(1.0 / cells.n[i] + 1.0 / cells.n[j] for i, j in cells.pairs())
    assert any_rule <= value + np.sqrt(-np.log(0.047) * noise / 2.0) + 1e-9


@settings(max_examples=8, deadline=None)
@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_groups_and_cells_does_not_matter(table, random):
    found = limits(table)[0]
    order = list(range(3))
    random.shuffle(order)
    again = limits([[row[c] for c in order] for row in reversed(table)])[0]
    assert again == pytest.approx(found, abs=2e-5)


@settings(max_examples=10, deadline=None)
@given(tables)
def test_many_cells_use_a_line_that_no_set_is_beyond(table):
    """The limit from the line is that from all sets, or above it."""
    listed = limits(table)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_bounds, "_FEW_CELLS", 0)
        line = limits(table)[0]
    assert listed - 2e-5 <= line <= listed + 0.25


def test_empty_cells_change_nothing():
    table = np.array([[30, 50, 20], [80, 10, 60]])
    wide = np.insert(table, [1, 2, 2, 3], 0, axis=1)
    assert limits(wide)[0] == pytest.approx(limits(table)[0], abs=2e-5)


def test_the_limit_is_near_that_of_a_normal_approximation():
    """Not wasteful: with many rows it exceeds the estimate by 1.7 standard errors, not by more."""
    table = np.array([[2_000, 2_500], [4_600, 4_400]])
    value = cells_of(table).distances()[0]
    p, q = 2_000 / 4_500, 4_600 / 9_000
    error = np.sqrt(p * (1 - p) / 4_500 + q * (1 - q) / 9_000)
    any_rule, thresholds = limits(table)
    assert 1.645 * error <= any_rule - value <= 1.72 * error
    assert thresholds == pytest.approx(any_rule)  # both sets of two cells are thresholds


def test_a_start_beyond_the_limit_stays():
    piece = Piece(difference=0.1, low=0.3, high=0.5, n_small=50, n_large=80, tail=0.05)
    assert 0.1 < piece.limit(0.0) <= piece.farthest
    assert piece.limit(0.9) == 0.9
