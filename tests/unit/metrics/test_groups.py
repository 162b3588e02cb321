"""Sums by group and bootstrap resamples: one engine for metrics and audits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.metrics.groups import (
    bootstrap_counts,
    clusters_of,
    combinations,
    count_cells,
    count_clusters,
    group_sums,
    membership,
    resample,
    strata_of_clusters,
)

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.integers(1, 60), st.integers(1, 30))
def test_combinations_are_the_sorted_distinct_rows(seed, n, n_levels):
    """By counting where there are few possible combinations, by sorting where there are many."""
    rng = np.random.default_rng(seed)
    factors = [rng.integers(0, n_levels, n), rng.integers(0, 3, n)]
    levels, cell = combinations(factors)
    expected, index = np.unique(np.stack(factors, axis=1), axis=0, return_inverse=True)
    np.testing.assert_array_equal(levels, expected)
    np.testing.assert_array_equal(cell, index.ravel())
    assert count_cells({"a": factors[0], "b": factors[1]}) == len(expected)


@given(SEEDS)
def test_resamples_are_sums_of_the_counts_drawn(seed):
    rng = np.random.default_rng(seed)
    factors = {"a": rng.integers(0, 3, 40), "b": rng.integers(0, 2, 40)}
    columns, weight = {"x": rng.normal(size=40)}, rng.uniform(0.5, 2.0, 40)
    drawn = resample(factors, columns, weight, 7, np.random.default_rng(seed))
    counts = bootstrap_counts(40, 7, np.random.default_rng(seed))
    fixed = group_sums(factors, columns, weight, [counts[:, :3], counts[:, 3:]])
    data = group_sums(factors, columns, weight)
    for name in ("", "x"):
        np.testing.assert_array_equal(drawn.columns[name], fixed.columns[name])
        np.testing.assert_array_equal(drawn.columns[name][:, :1], data.columns[name])
    by_hand = [(weight * columns["x"] * counts[:, 4])[factors["a"] == h].sum() for h in range(3)]
    assert drawn.by("a", 3, "x")[:, 5] == pytest.approx(by_hand)


def test_counts_within_strata_are_those_of_each_stratum():
    strata = np.array([0, 1, 1, 0, 2, 1])
    counts = bootstrap_counts(6, 9, np.random.default_rng(0), strata)
    rng = np.random.default_rng(0)
    for stratum in range(3):
        rows = strata == stratum
        np.testing.assert_array_equal(counts[rows], bootstrap_counts(rows.sum(), 9, rng))


def test_membership_sums_weighted_columns_by_level():
    codes, weight = np.array([1, 0, 1, 3]), np.array([1.0, 2.0, 3.0, 4.0])
    sums = membership(codes, 5, weight) @ np.array([1.0, 1.0, 2.0, 0.5])
    assert sums.tolist() == [2.0, 7.0, 0.0, 2.0, 0.0]


def test_combinations_beyond_one_integer_are_those_of_small_codes(rng):
    small = [rng.integers(0, 3, 50) for _ in range(4)]
    large = [codes * 2**40 for codes in small]
    (seen, cell), (far, far_cell) = combinations(small), combinations(large)
    np.testing.assert_array_equal(far, seen * 2**40)
    np.testing.assert_array_equal(far_cell, cell)


@given(SEEDS, st.integers(1, 60), st.integers(1, 30))
def test_sums_are_those_of_the_rows(seed: int, n: int, n_boot: int) -> None:
    rng = np.random.default_rng(seed)
    factors = {"a": rng.integers(0, 3, n), "b": rng.integers(0, 2, n)}
    weight, x = rng.exponential(size=n), rng.normal(size=n)
    sums = resample(factors, {"x": x}, weight, n_boot, rng)
    assert sums.columns["x"].shape == (len(sums.rows), 1 + n_boot)
    for name, levels in (("a", 3), ("b", 2)):
        expected = np.bincount(factors[name], weight * x, minlength=levels)
        assert sums.by(name, levels, "x")[:, 0] == pytest.approx(expected)
        assert sums.over(name).by(name, levels, "x") == pytest.approx(sums.by(name, levels, "x"))
        assert (sums.count(name, levels) == np.bincount(factors[name], minlength=levels)).all()
        mass = np.bincount(factors[name], weight, minlength=levels)
        squares = np.bincount(factors[name], weight**2, minlength=levels)
        assert sums.effective(name, levels) * squares == pytest.approx(mass**2)
    some = sums.where(sums.factors["a"] == 0)
    assert some.rows.sum() == (factors["a"] == 0).sum()


@given(SEEDS)
def test_a_resample_has_as_many_rows_and_keeps_them_whole(seed: int) -> None:
    """Rows that are all alike: each draw has n of them, with their weight and their number."""
    rng = np.random.default_rng(seed)
    factors = {"a": rng.integers(0, 3, 40)}
    sums = resample(factors, {"x": np.full(40, 3.0)}, np.full(40, 2.5), 10, rng)
    assert (sums.columns["x"] == 3.0 * sums.columns[""]).all()
    assert (sums.columns[""].sum(axis=0) == 100.0).all()
    assert (sums.columns[""][:, 1:] != sums.columns[""][:, :1]).any()


def test_many_rows_are_resampled_in_batches() -> None:
    """Batches end where they end: the draws are the same."""
    from fairspan.metrics import groups as _resamples

    factors, n = {"a": np.arange(50) % 3}, 50
    whole = resample(factors, {}, np.ones(n), 13, np.random.default_rng(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_resamples, "_BATCH_NUMBERS", 4 * n)
        parts = resample(factors, {}, np.ones(n), 13, np.random.default_rng(0))
    assert (whole.columns[""] == parts.columns[""]).all()


def test_clusters_are_numbered_by_their_first_row() -> None:
    names = ["b", 3, "b", None, 3]
    np.testing.assert_array_equal(clusters_of(names), [0, 1, 0, 2, 1])
    np.testing.assert_array_equal(
        clusters_of([str(name) * 2 for name in names]), clusters_of(names)
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_a_resample_has_whole_clusters(seed: int, n_clusters: int) -> None:
    rng = np.random.default_rng(seed)
    clusters = clusters_of(rng.integers(0, n_clusters, 30).tolist())
    counts = bootstrap_counts(30, 5, np.random.default_rng(1), clusters=clusters)
    each = counts[np.unique(clusters, return_index=True)[1]]
    np.testing.assert_array_equal(counts, each[clusters])
    np.testing.assert_array_equal(each.sum(axis=0), clusters.max() + 1)


@pytest.mark.parametrize("with_strata", [False, True])
def test_clusters_of_one_row_are_rows(with_strata: bool) -> None:
    rng = np.random.default_rng(0)
    strata = rng.integers(0, 3, 20) if with_strata else None
    alone = bootstrap_counts(20, 6, np.random.default_rng(2), strata)
    one_each = bootstrap_counts(20, 6, np.random.default_rng(2), strata, np.arange(20))
    np.testing.assert_array_equal(alone, one_each)


def test_a_cluster_is_in_the_stratum_of_its_rarest_level() -> None:
    strata, clusters = np.array([0, 0, 1, 0, 1, 2]), np.array([0, 1, 1, 2, 3, 3])
    np.testing.assert_array_equal(strata_of_clusters(strata, clusters), [0, 1, 0, 2])
    np.testing.assert_array_equal(count_clusters(strata, 4, clusters), [3, 2, 1, 0])
    np.testing.assert_array_equal(count_clusters(strata, 4, None), [3, 2, 1, 0])


def test_effective_rows_are_clusters_through_every_sum() -> None:
    """Cells of a cluster are one cluster again when they are summed over."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 2, 60), rng.integers(0, 3, 60)
    weight, clusters = rng.random(60), clusters_of(rng.integers(0, 12, 60).tolist())
    sums = resample({"a": a, "b": b}, {}, weight, 2, rng, clusters)
    some = sums.where(sums.factors["b"] > 0).over("a")
    for level in (0, 1):
        rows = (a == level) & (b > 0)
        by_cluster = np.bincount(clusters[rows], weight[rows])
        expected = by_cluster.sum() ** 2 / (by_cluster**2).sum()
        assert some.effective("a", 2)[level] == pytest.approx(expected)
