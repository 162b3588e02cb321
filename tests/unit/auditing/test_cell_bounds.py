"""Limits for all rules on the cells of a score: `fairspan.auditing.cell_bounds`."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan.auditing import cell_bounds
from fairspan.auditing.cell_bounds import (
    Cells,
    Piece,
    chance_at_most,
    linearised_variance,
    upper_limit,
)
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


def weighted_cells(seed, k, n=(300, 500), n_clusters=None):
    """Rows of two groups whose weights go with their cells, in clusters if asked for."""
    rng = np.random.default_rng(seed)
    shares, kish, variances = [], [], []
    for m in n:
        cell = rng.integers(0, k, m)
        weight = rng.exponential(size=m) * rng.exponential(size=k)[cell] + 0.01
        clusters = None if n_clusters is None else rng.integers(0, n_clusters, m)
        unit = np.arange(m) if clusters is None else clusters
        shares.append(np.bincount(cell, weight, minlength=k) / weight.sum())
        kish.append(int(weight.sum() ** 2 / np.sum(np.bincount(unit, weight) ** 2)))
        variances.append(linearised_variance(cell, k, weight, clusters))
    return Cells(shares=np.array(shares), n=tuple(kish), variances=np.array(variances))


@pytest.mark.parametrize("n_clusters", [None, 7])
def test_the_variance_of_shares_is_a_sum_over_clusters(n_clusters):
    rng = np.random.default_rng(0)
    cell, weight = rng.integers(0, 3, 40), rng.exponential(size=40)
    clusters = None if n_clusters is None else rng.integers(0, n_clusters, 40)
    unit = np.arange(40) if clusters is None else clusters
    share = np.array([weight[cell == c].sum() for c in range(3)]) / weight.sum()
    expected = np.zeros((3, 3))
    for u in np.unique(unit):
        total = sum(weight[i] * (np.eye(3)[cell[i]] - share) for i in np.flatnonzero(unit == u))
        expected += np.outer(total, total) / weight.sum() ** 2
    np.testing.assert_allclose(linearised_variance(cell, 3, weight, clusters), expected, atol=1e-15)


def test_sets_of_equal_rows_count_all_rows():
    rng = np.random.default_rng(1)
    cell = rng.integers(0, 4, 300)
    shares = np.bincount(cell, minlength=4)[None] / 300
    sets = np.array([[a, b, c, d] for a in (0, 1) for b in (0, 1) for c in (0, 1) for d in (0, 1)])
    copies = np.repeat(np.arange(300), 3)
    for variance in (
        linearised_variance(cell, 4, np.full(300, 2.5), None),
        linearised_variance(cell[copies], 4, np.ones(900), copies),
    ):
        cells = Cells(shares=shares, n=(300,), variances=variance[None])
        assert (cells.numbers(sets) == 300).all()
        assert cells._fewest().tolist() == [300]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(2, 6), st.sampled_from([None, 60]))
def test_a_set_counts_as_the_rows_of_its_variance_and_no_set_as_less_than_the_fewest(
    seed, k, n_clusters
):
    cells = weighted_cells(seed, k, n_clusters=n_clusters)
    fewest = cells._fewest()
    for chosen in range(2**k):
        inside = np.array([chosen >> c & 1 for c in range(k)], dtype=float)
        for h in range(2):
            rate, variance = cells.shares[h] @ inside, inside @ cells.variances[h] @ inside
            number = cells.numbers(inside[None])[h, 0]
            assert fewest[h] <= number <= cells.n[h]
            if 1e-9 < rate < 1.0 - 1e-9:
                assert number == max(int(min(cells.n[h], rate * (1.0 - rate) / variance)), 1)


@settings(max_examples=4, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.permutations(range(4)))
def test_the_order_of_cells_does_not_matter_with_weights(seed, order):
    cells = weighted_cells(seed, 4)
    order = list(order)
    again = Cells(
        shares=cells.shares[:, order],
        n=cells.n,
        variances=cells.variances[:, order][:, :, order],
    )
    found = upper_limit(cells.of_any_rule(0.05))
    assert upper_limit(again.of_any_rule(0.05)) == pytest.approx(found, abs=1e-4)
    # Counts are whole, so that limits move by up to a row if the number of rows does.
    row = 1.0 / cells._fewest().min()
    assert upper_limit(cells.of_thresholds(0.05)) <= found + row
    turned = Cells(
        shares=cells.shares[:, ::-1], n=cells.n, variances=cells.variances[:, ::-1, ::-1]
    )
    up, down = (upper_limit(one.of_thresholds(0.05)) for one in (cells, turned))
    assert up == pytest.approx(down, abs=1e-4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_bounds, "_FEW_CELLS", 0)
        assert upper_limit(cells.of_any_rule(0.05)) >= found - row


@pytest.mark.parametrize("k", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_limits_hold_where_weights_go_with_the_cell(k):
    """Rare rows of weight 20 are all in one cell; 12 cells have no list of sets."""
    rare = 0.01 * 20.0 / (0.01 * 20.0 + 0.99)
    true, covered, covered_by_kish = rare - 0.02, [], []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        shares, n, variances = [], [], []
        for share, m, heavy in ((0.01, 2_000, 20.0), (0.02, 20_000, 1.0)):
            cell = np.where(rng.random(m) < share, k - 1, rng.integers(0, k - 1, m))
            weight = np.where(cell == k - 1, heavy, 1.0)
            shares.append(np.bincount(cell, weight, minlength=k) / weight.sum())
            n.append(int(weight.sum() ** 2 / (weight @ weight)))
            variances.append(linearised_variance(cell, k, weight, None))
        cells = Cells(shares=np.array(shares), n=tuple(n), variances=np.array(variances))
        kish = Cells(shares=cells.shares, n=cells.n)
        covered.append(upper_limit(cells.of_any_rule(0.05)) >= true)
        covered_by_kish.append(upper_limit(kish.of_thresholds(0.05)) >= true)
    assert np.mean(covered) >= 0.9
    assert np.mean(covered_by_kish) < 0.9
