"""Sums as integers: back to the moments, the same in any order, and masks that cancel."""

import copy
from dataclasses import fields

import numpy as np
import pytest
from tests.support.strategies import gap

from fairspan import FairRidge
from fairspan.federated.fixed_point import add, from_words, masked, shapes, to_words


def parts(n_sites, seed=0, n=300, **options):
    """Moments of sites, those of all rows, and the pilot."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = 1e4 + 500.0 * (X[:, 0] + rng.normal(size=n))
    s = {"group": rng.integers(0, 3, n).astype(str), "age": rng.uniform(20, 60, n)}
    w = rng.exponential(size=n) + 0.1
    est = FairRidge(landmarks=rng.normal(size=(8, 3)), gamma=0.3, **options)
    est.prepare(X, y, sensitive_features=s, folds="hash")

    def moments(rows):
        given = {name: values[rows] for name, values in s.items()}
        one = copy.deepcopy(est)
        one.partial_fit(
            X[rows], y[rows], sensitive_features=given, sample_weight=w[rows], solve=False
        )
        return one.moments_

    site = rng.integers(0, n_sites, n)
    return [moments(site == k) for k in range(n_sites)], moments(np.arange(n)), est.pilot_


def largest_gap(a, b):
    skip = ("first_row", "rounding")
    numbers = [f.name for f in fields(a) if isinstance(getattr(a, f.name), np.ndarray)]
    return max(gap(getattr(a, name), getattr(b, name)) for name in numbers if name not in skip)


def total_of(words):
    out = words[0]
    for more in words[1:]:
        out = add(out, more)
    return out


def test_words_and_back():
    (_, _, _), whole, pilot = parts(3)
    words = to_words(whole, pilot)
    assert {name: array.shape for name, array in words.items()} == shapes(pilot)
    assert largest_gap(from_words(words, pilot), whole) < 1e-11


def test_the_total_is_that_of_all_rows_bit_for_bit_in_any_order():
    sites, whole, pilot = parts(7)
    words = [to_words(one, pilot) for one in sites]
    rng = np.random.default_rng(1)
    total = total_of(words)
    for _ in range(5):
        again = total_of([words[k] for k in rng.permutation(7)])
        assert all(np.array_equal(again[name], total[name]) for name in total)
    assert largest_gap(from_words(total, pilot), whole) < 1e-11


def test_pairwise_masks_cancel_and_hide():
    sites, _, pilot = parts(4)
    words = [to_words(one, pilot) for one in sites]
    names = ["a", "b", "c", "d"]
    keys = {(i, j): f"secret {min(i, j)} {max(i, j)}".encode() for i in names for j in names}
    hidden = [
        masked(one, name, {other: keys[name, other] for other in names if other != name}, "context")
        for name, one in zip(names, words, strict=True)
    ]
    total, plain = total_of(hidden), total_of(words)
    assert all(np.array_equal(total[name], plain[name]) for name in plain)
    # Half of the bits of any array differ, as in random numbers.
    for one, bare in zip(hidden, words, strict=True):
        bits = np.unpackbits((one["xx"] ^ bare["xx"]).view(np.uint8))
        assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)
    assert not np.array_equal(hidden[0]["x"], hidden[0]["level_x"][:, 0])
    with pytest.raises(ValueError, match="below zero"):  # a site is missing
        from_words(total_of(hidden[:3]), pilot)


def test_sums_that_do_not_fit_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) * 1e6
    s = rng.integers(0, 2, 60).astype(str)
    est = FairRidge(kernel="linear").prepare(X, X[:, 0], sensitive_features=s, folds="hash")
    est.partial_fit(X, X[:, 0], sensitive_features=s, solve=False)
    with pytest.raises(ValueError, match="fixed-point sums hold less than"):
        to_words(est.moments_, est.pilot_)
