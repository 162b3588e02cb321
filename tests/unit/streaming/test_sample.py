"""The sample of a stream: the same for any blocks, uniform, with a few rows of every level."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.method.problem import Attribute
from fairspan.streaming import Rows, Sample

SIZE, SEED = 60, 7


def attributes(**columns):
    return {
        name: Attribute(name, values, np.zeros(len(values), dtype=bool), "f")
        for name, values in columns.items()
    }


class Stream:
    """Rows whose X is their place, with a rare level, a number, and two things that are crossed."""

    def __init__(self, n=500, seed=0):
        rng = np.random.default_rng(seed)
        self.n = n
        self.rare = np.where(rng.random(n) < 0.03, "rare", "common")
        self.few = np.where(np.arange(n) % 200 == 13, "few", "rest")  # fewer than ten
        self.number = rng.normal(size=n)
        self.weight = (rng.random(n) < 0.8).astype(float)

    def add_to(self, sample, start, stop):
        index = start + np.flatnonzero(self.weight[start:stop] > 0)
        variables = {
            "y": attributes(y=self.number[index]),
            "sensitive": attributes(rare=self.rare[index], few=self.few[index]),
            "control": attributes(number=self.number[index], rare=self.rare[index]),
        }
        X = np.arange(start, stop, dtype=float)[:, None]
        rows = Rows(X, self.number[start:stop], None, None, None)
        sample.add(start, rows, variables, index - start)
        return sample

    def sample(self, cuts=(), *, size=SIZE, crossed=True):
        sample = Sample(size, SEED, crossed=crossed)
        edges = [0, *sorted(cuts), self.n]
        for start, stop in itertools.pairwise(edges):
            self.add_to(sample, start, stop)
        return sample


def places(sample):
    return sample.rows().X[:, 0].astype(int)


CUTS = st.sets(st.integers(0, 500), max_size=12)


@given(st.integers(0, 9), CUTS, st.sampled_from([5, 60, 600]), st.booleans())
def test_cuts_do_not_matter(seed, cuts, size, crossed):
    stream = Stream(seed=seed)
    whole = stream.sample(size=size, crossed=crossed)
    cut = stream.sample(cuts, size=size, crossed=crossed)
    np.testing.assert_array_equal(places(cut), places(whole))
    np.testing.assert_array_equal(cut.rows().y, whole.rows().y)
    assert cut.n_rows == whole.n_rows == 500


@given(st.integers(0, 9), CUTS, st.randoms(use_true_random=False))
def test_samples_of_parts_add_up_in_any_order(seed, cuts, random):
    stream = Stream(seed=seed)
    edges = [0, *sorted(cuts), stream.n]
    parts = [
        stream.add_to(Sample(SIZE, SEED, crossed=True), a, b) for a, b in itertools.pairwise(edges)
    ]
    while len(parts) > 1:
        one = parts.pop(random.randrange(len(parts)))
        other = parts.pop(random.randrange(len(parts)))
        parts.append(one + other)
    np.testing.assert_array_equal(places(parts[0]), places(stream.sample()))
    assert parts[0].n_rows == stream.n


@given(st.integers(0, 20))
def test_every_level_has_ten_rows_or_all_it_has(seed):
    stream = Stream(seed=seed)
    found = places(stream.sample(size=20))
    counts = stream.weight > 0
    for column in (stream.rare, stream.few):
        for level in np.unique(column):
            there = int(np.sum(counts & (column == level)))
            assert np.sum(column[found] == level) >= min(10, there)


def test_every_combination_has_rows_where_groups_are_crossed():
    stream = Stream()
    joined = np.char.add(stream.rare, stream.few)
    counts = stream.weight > 0
    found = places(stream.sample(size=10))
    for level in np.unique(joined[counts]):
        assert np.sum(joined[found] == level) >= min(10, np.sum(counts & (joined == level)))
    # Not where they are not: the rare of the few is then nobody to look after.
    assert len(places(stream.sample(size=10, crossed=False))) <= len(found)


@given(st.integers(0, 20), CUTS)
def test_rows_without_weight_are_never_in_it(seed, cuts):
    stream = Stream(seed=seed)
    assert np.all(stream.weight[places(stream.sample(cuts, size=400))] > 0)


@given(CUTS, st.integers(1, 600))
def test_sorted_by_place_and_no_larger_than_asked_but_for_the_levels(cuts, size):
    stream = Stream()
    found = places(stream.sample(cuts, size=size))
    assert np.all(np.diff(found) > 0)
    there = int(np.sum(stream.weight > 0))
    assert min(size, there) <= len(found) <= min(size + 4 * 10 + 4 * 10, there)


def test_the_seed_chooses_the_rows():
    one, other = Sample(SIZE, 1), Sample(SIZE, 2)
    assert set(places(Stream().add_to(one, 0, 500))) != set(places(Stream().add_to(other, 0, 500)))


def test_nothing_seen_is_no_sample():
    assert Sample(SIZE, 0).rows() is None
    assert (Sample(SIZE, 0) + Sample(SIZE, 0)).rows() is None
    stream = Stream()
    np.testing.assert_array_equal(
        places(Sample(SIZE, SEED, crossed=True) + stream.sample()), places(stream.sample())
    )


@pytest.mark.parametrize("start", [0, 10**6, 2**40])
def test_uniform_over_places(start):
    """Chi-square of twenty stretches of the places, over many seeds."""
    n, bins = 20_000, 20
    statistics = []
    for seed in range(20):
        sample = Sample(1000, seed)
        sample.add(
            start, Rows(np.arange(n, dtype=float)[:, None], None, None, None, None), {}, None
        )
        count = np.bincount(places(sample) * bins // n, minlength=bins)
        assert count.sum() == 1000
        statistics.append(np.sum((count - 50.0) ** 2 / 50.0))
    # 19 degrees of freedom: the mean of twenty is 19 +- 1.4, the largest rarely above 45.
    assert 14 < np.mean(statistics) < 24
    assert np.max(statistics) < 46


def test_a_sample_inside_memory_bounds():
    """What is held on the way does not grow with the number of rows."""
    sample = Sample(50, 3)
    for start in range(0, 20_000, 500):
        X = np.arange(start, start + 500, dtype=float)[:, None]
        sample.add(start, Rows(X, None, None, None, None), {}, None)
        assert sum(len(piece[0]) for piece in sample._pieces) <= 3 * 50 + 500
