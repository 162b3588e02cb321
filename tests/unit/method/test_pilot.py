"""Folds of rows, and the pilot that assigns them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fairspan.method.pilot import FoldCounter, PositionFolds, _single_key

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
