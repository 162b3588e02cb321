"""Counts of distinct integers."""

import numpy as np
import pytest

from fairspan.method import distinct
from fairspan.method.distinct import DistinctCount


def test_few_integers_are_counted_exactly():
    assert DistinctCount().share == 1.0
    values = np.array([5, -3, 5, 2**62, -(2**63), 5])
    count = DistinctCount().add(values)
    assert (count.n_rows, count.n_distinct, count.complete) == (6, 4.0, True)
    assert count.share == pytest.approx(4 / 6)


@pytest.mark.parametrize("n", [300, 20_000])
def test_parts_add_up_in_any_order(n, monkeypatch):
    monkeypatch.setattr(distinct, "SIZE", 256)
    values = np.random.default_rng(0).integers(0, n, 3 * n)
    whole = DistinctCount().add(values)
    parts = [DistinctCount().add(part) for part in np.array_split(values, 7)]
    for order in (range(7), reversed(range(7))):
        count = DistinctCount()
        for i in order:
            count = count + parts[i]
        np.testing.assert_array_equal(count.hashes, whole.hashes)
        assert (count.n_rows, count.complete) == (3 * n, False)
        assert count.n_distinct == whole.n_distinct


def test_many_integers_are_estimated():
    """Regular labels too: 0, 1, 2, ... are no harder than random ones."""
    count = DistinctCount()
    for start in range(0, 400_000, 100_000):
        count = count.add(np.repeat(np.arange(start, start + 100_000), 2))
    assert len(count.hashes) == distinct.SIZE
    assert count.n_distinct == pytest.approx(400_000, rel=4 / np.sqrt(distinct.SIZE))
    assert count.share == pytest.approx(0.5, rel=0.02)
    assert DistinctCount().add(np.arange(70_000)).share <= 1.0
