"""Weights of learners, and when predictions of the codes are recalibrated."""

import numpy as np
import pytest
import scipy.optimize

from fairspan.method.folds import centre_within
from fairspan.method.stacking import stack

n, K = 600, 4
ONE = np.zeros(2, dtype=int)  # both codes are of one attribute


def planted(seed=0, L=1, q=2):
    rng = np.random.default_rng(seed)
    folds, weight = rng.integers(0, K, n), rng.uniform(0.5, 2.0, n)
    y = rng.normal(size=(n, L))
    codes = centre_within(rng.normal(size=(n, q)), folds, weight)
    good, bad = y + 0.3 * rng.normal(size=(n, L)), rng.normal(size=(n, L)) - 0.5 * y
    return rng, folds, weight, y, codes, good, bad


def test_one_learner_passes_through():
    _, folds, weight, y, codes, good, _ = planted()
    found = stack(y, codes, good, codes + 1.0, folds, weight, n, ONE)
    np.testing.assert_array_equal(found.functions, np.tile(np.eye(3), (K, 1, 1)))


@pytest.mark.parametrize("L", [1, 3])
def test_weights_are_those_of_nonnegative_least_squares(L):
    _, folds, weight, y, codes, good, bad = planted(L=L)
    half = 0.5 * y + 0.2 * bad
    columns = np.concatenate([good, bad, half], axis=1)
    found = stack(y, codes, columns, np.tile(codes, 2), folds, weight, n, ONE)
    root = np.sqrt(weight)
    Y = (centre_within(y, folds, weight) * root[:, None]).ravel()
    A = np.stack(
        [(centre_within(c, folds, weight) * root[:, None]).ravel() for c in (good, bad, half)], 1
    )
    np.testing.assert_allclose(found.weights, scipy.optimize.nnls(A, Y)[0], atol=1e-6)
    assert found.weights[1] == 0.0
    np.testing.assert_array_equal(
        found.functions[0, :, :L] @ np.ones(L), np.append(np.repeat(found.weights, L), [0] * 4)
    )


def test_learners_that_predict_nothing_count_alike():
    _, folds, weight, y, codes, _, _ = planted()
    constant = np.ones((n, 2))
    found = stack(y, codes, constant, np.tile(codes, 2), folds, weight, n, ONE)
    np.testing.assert_array_equal(found.weights, [0.5, 0.5])


def test_two_learners_of_codes_are_recalibrated():
    rng, folds, weight, y, codes, good, _ = planted()
    noisy = [2.0 * codes + rng.normal(size=codes.shape) for _ in range(2)]
    found = stack(y, codes, good, np.concatenate(noisy, axis=1), folds, weight, n, ONE)
    columns = np.concatenate([good, *noisy], axis=1)
    for k in range(K):
        rows = folds == k
        b = columns[rows] @ found.functions[k][:, 1:]
        for j in range(2):
            assert abs(np.polyfit(b[:, j], codes[rows, j], 1)[0] - 1.0) < 0.15
