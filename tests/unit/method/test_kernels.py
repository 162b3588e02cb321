"""Kernel functions and their widths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden import oracle

from fairspan.method.kernels import Kernel, median_distance, width_to_gamma

SEEDS = st.integers(0, 2**32 - 1)
RBF = Kernel("rbf", {"gamma": 0.5})


def rows(n=30, p=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p))


@given(SEEDS, st.integers(1, 5), st.floats(-2.0, 1.0))
def test_the_rbf_kernel_equals_its_definition(seed, p, decades):
    gamma, X, Z = 10.0**decades, rows(20, p, seed), rows(15, p, seed + 1)
    # The expanded square rounds at eps times its largest term, gamma |x|^2.
    scale = 1.0 + gamma * max((X**2).sum(axis=1).max(), (Z**2).sum(axis=1).max())
    found = Kernel("rbf", {"gamma": gamma})(X, Z)
    assert np.abs(found - oracle.rbf(X, Z, gamma)).max() <= 1e-14 * scale


def test_an_offset_of_the_features_costs_no_digits():
    X, Z = rows(), rows(seed=1)
    np.testing.assert_allclose(RBF(X + 1e6, Z + 1e6), RBF(X, Z), atol=1e-8)


def test_far_rows_underflow_to_zero():
    far = Kernel("rbf", {"gamma": 1e8})(rows(), rows(seed=1))
    np.testing.assert_array_equal(far, 0.0)


def test_a_callable_may_take_matrices_or_rows():
    by_matrix = Kernel.from_callable(lambda X, Z: X @ Z.T, {}, rows())
    by_row = Kernel.from_callable(lambda x, z: float(x @ z), {}, rows())
    assert (by_matrix.rowwise, by_row.rowwise) == (False, True)
    np.testing.assert_allclose(by_row(rows(), rows()), by_matrix(rows(), rows()))


def test_a_callable_that_returns_neither_is_refused_by_name():
    def strange(X, Z):
        return np.ones(3)

    with pytest.raises(
        ValueError, match=r"'strange' must return an array of shape \(3, 4\).*returned shape \(3,\)"
    ):
        Kernel.from_callable(strange, {}, rows())


@pytest.mark.parametrize("name", ["rbf", "laplacian", "polynomial", "linear", "cosine"])
def test_the_diagonal_is_that_of_the_gram_matrix(name):
    kernel = Kernel(name, {"gamma": 0.5} if name in ("rbf", "laplacian", "polynomial") else {})
    np.testing.assert_allclose(kernel.diagonal(rows()), np.diag(kernel(rows(), rows())))


def test_widths():
    X = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]])  # rows that coincide do not count
    assert (median_distance(X, "rbf"), median_distance(X, "laplacian")) == (5.0, 7.0)
    assert median_distance(X[:1], "rbf") == 1.0
    assert (width_to_gamma(2.0, "rbf"), width_to_gamma(2.0, "laplacian")) == (0.25, 0.5)
