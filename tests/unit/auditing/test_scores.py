"""Distance correlation of scores: its interval, and rows that do not differ."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.auditing import distance_correlation
from fairspan.auditing import scores as _dependence
from fairspan.auditing.scores import distance_interval


def test_the_interval_of_a_distance_narrows_with_the_rows():
    """It is made from some of the rows, and is the interval of all of them: half as wide for four times."""

    def width(n):
        rng = np.random.default_rng(1)
        s = rng.normal(size=n)
        f = s + 1.5 * rng.normal(size=n)
        _, value, low, high = distance_interval(f[:, None], s, np.ones(n), 0.9, 100, rng)
        assert 0.0 < low < value < high < 1.0
        return high - low

    assert width(1000) / width(4000) == pytest.approx(2.0, rel=0.2)


def test_rows_drawn_alike_have_no_distances(monkeypatch, rng):
    """One row apart from all others, and it is not drawn: what is left is constant."""
    monkeypatch.setattr(_dependence, "_DENSE_ROWS", 10)
    alike = np.zeros((5000, 2))
    alike[0] = 1.0
    varied = rng.normal(size=5000)
    weight = np.ones(5000)
    found = _dependence.distance_correlation(alike, varied, weight, np.random.default_rng(1))
    assert found == 0.0
    there = np.zeros(5000)
    there[0] = 1.0
    both = rng.normal(size=(5000, 2))
    assert math.isnan(
        _dependence.distance_correlation(both, there, weight, np.random.default_rng(1))
    )


SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
def test_the_interval_of_a_distance_correlation_holds_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    s, f = rng.normal(size=(2, 80))
    w = rng.exponential(size=80)
    n, value, low, high = distance_interval(f[:, None], s, w, 0.9, 30, rng)
    assert n == 80
    assert value == pytest.approx(distance_correlation(f, s, w))
    assert 0.0 <= low <= value <= high <= 1.0
