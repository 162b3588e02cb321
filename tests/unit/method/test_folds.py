"""Keys of rows, and the folds that rows are dealt into."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fairspan.method.folds import (
    FoldCounter,
    HashFolds,
    KeyFolds,
    PositionFolds,
    RowKeys,
    _single_key,
    check_groups,
    hash_ranks,
    hash_rows,
)

STRATA = hnp.arrays(np.intp, st.tuples(st.integers(1, 60), st.just(2)), elements=st.integers(-1, 2))


@given(STRATA, st.integers(0, 4))
def test_folds_are_balanced_within_every_stratum(strata, offset):
    folds = FoldCounter(5, offset).assign(strata)
    for row in np.unique(strata, axis=0):
        inside = folds[(strata == row).all(axis=1)]
        counts = np.bincount(inside, minlength=5)
        assert counts.max() - counts.min() <= 1


@given(STRATA, st.data())
def test_blocks_get_the_folds_of_the_batch(strata, data):
    cut = data.draw(st.integers(0, len(strata)))
    batch, stream = FoldCounter(5, 2), FoldCounter(5, 2)
    parts = [stream.assign(part) for part in (strata[:cut], strata[cut:])]
    np.testing.assert_array_equal(np.concatenate(parts), batch.assign(strata))


@given(STRATA)
def test_names_of_strata_do_not_matter(strata):
    other = 2 - strata  # the same strata in another order of codes
    np.testing.assert_array_equal(FoldCounter(5, 0).assign(strata), FoldCounter(5, 0).assign(other))


@given(STRATA)
def test_a_copy_advances_by_itself(strata):
    counter = FoldCounter(5, 0)
    first = counter.copy().assign(strata)
    np.testing.assert_array_equal(counter.assign(strata), first)


def test_tiny_strata_do_not_share_a_fold():
    folds = FoldCounter(5, 0).assign(np.arange(5)[:, None])
    assert sorted(folds.tolist()) == [0, 1, 2, 3, 4]


def test_one_fold_is_fold_zero():
    assert FoldCounter(1, 3).assign(np.ones((4, 1), dtype=np.intp)).tolist() == [0, 0, 0, 0]


def same_partition(a, b):
    return (
        len(np.unique(a)) == len(np.unique(b)) == len(set(zip(a.tolist(), b.tolist(), strict=True)))
    )


def test_folds_tell_any_number_of_combinations_apart(rng):
    small = rng.integers(-1, 3, (80, 5))
    large = np.where(small < 0, -1, small * 2**30)  # more combinations than integers
    assert same_partition(_single_key(small), _single_key(large))


K = 5


def strata(n):
    return np.zeros((n, 1), dtype=np.intp)


def folds(n, offset=0, position=0):
    return PositionFolds(K, offset, position).assign(strata(n))


@given(st.integers(0, 10**12), st.integers(0, K - 1))
def test_each_fold_once_in_any_aligned_k_rows(first, offset):
    found = folds(40 * K, offset, first * K).reshape(-1, K)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.tile(np.arange(K), (40, 1)))


@given(st.integers(0, 10**9), st.integers(1, 400))
def test_any_stretch_is_balanced_to_two_rows(position, n):
    count = np.bincount(folds(n, position=position), minlength=K)
    assert count.max() - count.min() <= 2


@given(st.sets(st.integers(1, 299), max_size=8), st.integers(0, K - 1), st.integers(0, 10**6))
def test_blocks_do_not_matter(cuts, offset, position):
    counter = PositionFolds(K, offset, position)
    parts = [counter.assign(strata(len(rows))) for rows in np.split(np.arange(300), sorted(cuts))]
    np.testing.assert_array_equal(np.concatenate(parts), folds(300, offset, position))
    assert counter.position == position + 300


def test_strata_do_not_matter():
    other = np.random.default_rng(0).integers(0, 9, size=(50, 3))
    np.testing.assert_array_equal(PositionFolds(K, 2).assign(other), folds(50, 2))


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_rows_that_were_left_out_keep_their_places(kept):
    index = np.flatnonzero(kept)
    counter = PositionFolds(K, 1)
    found = counter.assign(strata(len(index)), index, len(kept))
    np.testing.assert_array_equal(found, folds(len(kept), 1)[index])
    assert counter.position == len(kept)


def test_the_offset_turns_the_folds():
    np.testing.assert_array_equal(folds(100, 2), (folds(100, 0) + 2) % K)


def test_a_copy_is_independent():
    counter = PositionFolds(K, 3, 17)
    twin = counter.copy()
    twin.assign(strata(10))
    assert (counter.position, twin.position) == (17, 27)
    np.testing.assert_array_equal(twin.assign(strata(20)), folds(20, 3, 27))


@pytest.mark.parametrize("period", [2, 3, 5, 10, 25])
def test_data_with_a_period_are_balanced(period):
    """Each phase of the period has its share of every fold: 20,000 rows, five standard errors."""
    n = 20_000
    found, phase = folds(n), np.arange(n) % period
    for r in range(period):
        share = np.bincount(found[phase == r], minlength=K) / np.sum(phase == r)
        assert np.all(np.abs(share - 1 / K) < 5 * np.sqrt(K * 0.16 / np.sum(phase == r)))


def test_one_fold_is_all():
    assert not PositionFolds(1, 0).assign(strata(9)).any()


# ------------------------------------------------------------------ keys of rows

SEEDS = st.integers(0, 2**31 - 1)


def keyed(seed, n=60, *, copies=False, clusters=None):
    """Rows X (few distinct ones, if ``copies``) with strata, weights and their keys."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n, 2)).astype(float) if copies else rng.normal(size=(n, 3))
    y, group = rng.integers(0, 2, n), rng.integers(0, 3, n)
    weights = rng.integers(1, 4, n) / 2.0
    labels = None if clusters is None else rng.integers(0, clusters, n)
    return X, y, group, weights, labels


def keys_of(X, y, group, weights, labels=None, seed=0):
    return RowKeys.of(hash_rows(X, y, seed), np.stack([group, y], axis=1), (weights,), labels)


def shuffle(rows, seed):
    order = np.random.default_rng(seed + 1).permutation(len(rows[0]))
    return order, tuple(None if part is None else part[order] for part in rows)


def contents(rows, chosen):
    """Sorted contents of some rows: copies may stand for each other."""
    columns = [np.atleast_2d(part.T) for part in rows if part is not None]
    return np.array(sorted(map(tuple, np.concatenate(columns).T[chosen].tolist())))


@given(SEEDS, st.booleans())
def test_shuffling_rows_changes_neither_folds_nor_samples(seed, copies):
    rows = keyed(seed, copies=copies)
    _, other = shuffle(rows, seed)
    keys, moved = keys_of(*rows), keys_of(*other)
    a, b = keys.folds(5), moved.folds(5)
    for fold in range(5):
        np.testing.assert_array_equal(contents(rows, a == fold), contents(other, b == fold))
    np.testing.assert_array_equal(
        contents(rows, keys.shuffled(3)[:20]), contents(other, moved.shuffled(3)[:20])
    )


@given(SEEDS)
def test_renaming_groups_does_not_change_folds(seed):
    X, y, group, weights, _ = keyed(seed)
    other = np.array([2, 0, 1])[group]
    np.testing.assert_array_equal(
        keys_of(X, y, group, weights).folds(5), keys_of(X, y, other, weights).folds(5)
    )


@given(SEEDS, st.booleans())
def test_keyed_folds_are_balanced_within_strata_and_over_all(seed, copies):
    rows = keyed(seed, copies=copies)
    found = keys_of(*rows).folds(5)
    _, y, group, _, _ = rows
    for inside in [np.ones(60, dtype=bool), *(3 * y + group == k for k in range(6))]:
        counts = np.bincount(found[inside], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_copies_of_a_row_are_spread_over_folds():
    X, y, group = np.ones((10, 2)), np.zeros(10, dtype=int), np.zeros(10, dtype=int)
    found = keys_of(X, y, group, np.ones(10)).folds(5)
    assert np.bincount(found).tolist() == [2] * 5


@given(SEEDS, st.integers(1, 12))
def test_a_cluster_is_in_one_fold_whatever_it_is_called(seed, n_clusters):
    rows = keyed(seed, clusters=n_clusters)
    labels = rows[-1]
    found = keys_of(*rows).folds(5)
    assert all(len(np.unique(found[labels == label])) == 1 for label in np.unique(labels))
    renamed = (*rows[:-1], 1000 - 7 * labels)
    np.testing.assert_array_equal(found, keys_of(*renamed).folds(5))
    order, other = shuffle(rows, seed)
    np.testing.assert_array_equal(found[order], keys_of(*other).folds(5))


@given(SEEDS)
def test_clusters_of_copies_are_told_apart_by_their_strata(seed):
    """Rows that differ in their class and group only."""
    _, y, group, _, labels = keyed(seed, clusters=12)
    one, other = (
        RowKeys.of(
            hash_ranks(np.ones((60, 2)), None, 0), np.stack([group, y], axis=1), (), names
        ).folds(5)
        for names in (labels, 1000 - 7 * labels)
    )
    for fold in range(5):
        np.testing.assert_array_equal(
            contents((y, group), one == fold), contents((y, group), other == fold)
        )


def test_a_sample_with_many_copies_is_a_sample_of_rows():
    """One of 50 distinct rows has half of all copies; a third of the rows has its share of them."""
    X = np.repeat(np.arange(51.0), [500, *[10] * 50])[:, None]
    n = len(X)
    rows = RowKeys.of(hash_rows(X, None, 0), np.zeros((n, 1), dtype=np.intp), ())
    shares = [np.mean(X[rows.shuffled(salt)[: n // 3]] == 0.0) for salt in range(20)]
    assert abs(np.mean(shares) - 0.5) < 0.02
    assert 0.0 < np.std(shares) < 0.06


@given(SEEDS)
def test_samples_and_folds_depend_on_the_seed(seed):
    rows = keyed(seed)
    first, second = keys_of(*rows), keys_of(*rows, seed=1)
    assert (first.folds(5) != second.folds(5)).any()
    assert (first.shuffled(0) != first.shuffled(1)).any()


def test_hashes_of_small_whole_numbers_differ():
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 8), axis=-1).reshape(-1, 8)
    assert len(np.unique(hash_rows(grid, None, 0))) == len(grid)
    assert len(np.unique(hash_rows(np.eye(300), None, 0))) == 300


def test_a_hash_depends_on_values_alone():
    X = np.random.default_rng(0).normal(size=(50, 4))
    X[3] = 0.0
    first = hash_rows(X, None, 7)
    np.testing.assert_array_equal(first, hash_rows(np.asfortranarray(X), None, 7))
    X[3] = -0.0
    np.testing.assert_array_equal(first, hash_rows(X, None, 7))
    wide = np.random.default_rng(1).normal(size=(300, 2000))  # hashed in several steps
    np.testing.assert_array_equal(hash_rows(wide, None, 0)[200:], hash_rows(wide[200:], None, 0))
    order = np.random.default_rng(2).permutation(4)
    assert (first != hash_rows(X[:, order], None, 7)).any()
    np.testing.assert_array_equal(
        hash_rows(X, None, 7, ordered=False), hash_rows(X[:, order], None, 7, ordered=False)
    )


@given(SEEDS, st.integers(-60, 60), st.floats(-1e3, 1e3))
def test_hashes_of_ranks_do_not_depend_on_units(seed, power, offset):
    """Nor on the precision of X, nor on the order of the rows."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 3)).round(4), rng.normal(size=40).round(4)
    keys = hash_ranks(X, y, seed)
    scale = 1.7 * 2.0**power
    np.testing.assert_array_equal(keys, hash_ranks(X * scale, y + offset, seed))
    np.testing.assert_array_equal(keys, hash_ranks(X + offset, y * scale, seed))
    np.testing.assert_array_equal(keys, hash_ranks(X.astype(np.float32), y, seed))
    with_constant = np.column_stack([X, np.full(40, 3.0)])
    np.testing.assert_array_equal(keys, hash_ranks(with_constant, y, seed))
    order = rng.permutation(40)
    np.testing.assert_array_equal(keys[order], hash_ranks(X[order], y[order], seed))


def test_hashes_of_ranks_differ_where_rows_do():
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 8), axis=-1).reshape(-1, 8)
    assert len(np.unique(hash_ranks(grid, None, 0))) == len(grid)
    assert len(np.unique(hash_ranks(np.eye(300), None, 0))) == 300
    np.testing.assert_array_equal(
        *(hash_ranks(np.array([[0.0], [zero], [1.0]]), None, 0) for zero in (0.0, -0.0))
    )
    assert (hash_ranks(grid, grid[:, 0], 0) != hash_ranks(grid, grid[:, 1], 0)).any()
    assert (hash_ranks(grid, None, 0) != hash_ranks(grid[:, ::-1], None, 0)).any()
    pairs = np.random.default_rng(0).normal(size=(30, 30))
    order = np.random.default_rng(1).permutation(30)
    np.testing.assert_array_equal(
        hash_ranks(pairs, None, 0, ordered=False)[order],
        hash_ranks(pairs[np.ix_(order, order)], None, 0, ordered=False),
    )


def test_a_rank_that_rounding_makes_equal_changes_no_other():
    X = np.arange(9.0)[:, None]
    rounded = X.copy()
    rounded[5] = 4.0
    changed = hash_ranks(X, None, 0) != hash_ranks(rounded, None, 0)
    assert np.flatnonzero(changed).tolist() == [5]


@given(SEEDS, st.integers(0, 60))
def test_folds_by_hash_do_not_depend_on_blocks(seed, cut):
    rows = keyed(seed, clusters=8)
    for some in (rows, (*rows[:-1], None)):
        parts = [
            tuple(None if p is None else p[half] for p in some)
            for half in (slice(cut), slice(cut, None))
        ]
        counter = HashFolds(5)
        found = [counter.assign(strata(len(p[0])), keys=lambda p=p: keys_of(*p)) for p in parts]
        whole = HashFolds(5).assign(strata(60), keys=lambda some=some: keys_of(*some))
        np.testing.assert_array_equal(np.concatenate(found), whole)
        assert counter.position == 60


def test_a_later_block_goes_on_where_the_turn_ended():
    rows = keyed(4, n=33)
    counter = KeyFolds(5)
    counter.assign(
        strata(32), given=32, keys=lambda: keys_of(*(p if p is None else p[:32] for p in rows))
    )
    one = tuple(None if p is None else p[32:] for p in rows)
    assert counter.copy().assign(strata(1), keys=lambda: keys_of(*one)).tolist() == [2]
    assert type(counter.copy()) is KeyFolds
    assert counter.position == 32


@pytest.mark.parametrize("rule", ["strata", "position"])
def test_rules_that_divide_groups_refuse_them(rule):
    check_groups(None, rule)
    check_groups(np.zeros(3, dtype=np.int64), "hash")
    with pytest.raises(ValueError, match=f"folds='{rule}' would divide a group"):
        check_groups(np.zeros(3, dtype=np.int64), rule)
