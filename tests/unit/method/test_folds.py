"""Folds: balanced in every stratum, the same for any cut into blocks."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fairspan.method.folds import FoldCounter

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
