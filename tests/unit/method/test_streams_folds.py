"""Folds by place: balanced, the same for any blocks, and not in step with the data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.method.folds import PositionFolds

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
