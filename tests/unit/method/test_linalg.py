"""Linear algebra that says what it did."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from fairspan import NumericalWarning
from fairspan.method.linalg import (
    Tridiagonal,
    cholesky_factor,
    mirror_upper,
    orthonormal_columns,
    psd_eigh,
)

SEEDS = st.integers(0, 2**32 - 1)


def covariance(size, rank, seed):
    rows = np.random.default_rng(seed).normal(size=(rank, size))
    return rows.T @ rows / rank


@given(st.integers(1, 30), SEEDS, st.floats(-6.0, 2.0))
def test_tridiagonal_solves_equal_dense_solves(size, seed, decades):
    M, eta = covariance(size, size + 3, seed), 10.0**decades
    B = np.random.default_rng(seed + 1).normal(size=(size, 3))
    tri = Tridiagonal.of(M)
    found = tri.rotate_back(tri.solve_rotated(tri.rotate(B), eta))
    expected = np.linalg.solve(M + eta * np.eye(size), B)
    condition = np.linalg.cond(M + eta * np.eye(size))
    assert np.linalg.norm(found - expected) <= 1e-13 * condition * np.linalg.norm(expected)


@given(st.integers(1, 30), st.integers(1, 30), SEEDS)
def test_tridiagonal_eigenvalues_are_those_of_the_matrix(size, rank, seed):
    M = covariance(size, rank, seed)
    found = Tridiagonal.of(M).eigenvalues()
    expected = np.maximum(np.linalg.eigvalsh(M), 0.0)
    np.testing.assert_allclose(found, expected, atol=1e-13 * expected[-1])
    assert found.min() >= 0.0


@given(st.integers(1, 20), SEEDS)
def test_rotation_is_orthogonal(size, seed):
    tri = Tridiagonal.of(covariance(size, size, seed))
    Q = tri.rotate_back(np.eye(size))
    np.testing.assert_allclose(Q.T @ Q, np.eye(size), atol=1e-13)
    np.testing.assert_allclose(tri.rotate(Q), np.eye(size), atol=1e-13)


def test_a_shift_below_rounding_is_solved_all_the_same():
    M = covariance(12, 4, 0)  # singular: positive definite only through the shift
    tri = Tridiagonal.of(M)
    eta = 1e-17
    x = tri.solve_rotated(tri.rotate(M[:, :2]), eta)
    assert np.isfinite(x).all()
    # A solution of the singular system it is to rounding.
    np.testing.assert_allclose(M @ tri.rotate_back(x), M[:, :2], atol=1e-6)


def test_only_the_lower_triangle_is_read():
    M = covariance(6, 9, 1)
    lower = np.tril(M) + np.triu(np.full((6, 6), np.nan), 1)
    np.testing.assert_allclose(Tridiagonal.of(lower).eigenvalues(), np.linalg.eigvalsh(M))


def test_cholesky_of_a_good_matrix_needs_no_jitter():
    M = covariance(5, 9, 2)
    factor, jitter = cholesky_factor(M, "M")
    assert jitter == 0.0
    np.testing.assert_allclose(factor @ factor.T, M)


def test_a_rescue_by_jitter_is_said_with_its_amount():
    M = covariance(8, 3, 3)
    M[0, 0] -= 1e-12
    with pytest.warns(NumericalWarning, match=r"the metric was not positive definite .*; added"):
        factor, jitter = cholesky_factor(M, "the metric")
    assert 0.0 < jitter <= 1e-6 * np.trace(M) / 8
    np.testing.assert_allclose(factor @ factor.T, M + jitter * np.eye(8), atol=1e-12)


def test_what_jitter_cannot_rescue_is_an_error_that_names_it():
    with pytest.raises(ValueError, match=r"the metric is not positive definite .* Raise `alpha`"):
        cholesky_factor(np.diag([1.0, -1.0, 3.0]), "the metric")


def test_orthonormal_columns_span_the_same_space_without_what_is_below_the_cut():
    rng = np.random.default_rng(4)
    B = rng.normal(size=(20, 3))
    columns = np.column_stack([B, B @ [1.0, 2.0, 3.0] + 1e-13 * rng.normal(size=20)])
    Q = orthonormal_columns(columns)
    assert Q.shape == (20, 3)
    np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-14)
    assert scipy.linalg.subspace_angles(Q, B).max() < 1e-10


@pytest.mark.parametrize("columns", [np.zeros((5, 2)), np.zeros((5, 0))])
def test_no_direction_gives_no_column(columns):
    assert orthonormal_columns(columns).shape == (5, 0)


def test_eigenvalues_come_in_descending_order():
    M = covariance(7, 9, 5)
    values, vectors = psd_eigh(M)
    assert np.all(np.diff(values) <= 0)
    np.testing.assert_allclose((vectors * values) @ vectors.T, M, atol=1e-13)


@pytest.mark.parametrize("n", [1, 7, 8, 30])
def test_mirroring_copies_the_upper_triangle(n):
    matrix = np.random.default_rng(0).normal(size=(n, n))
    expected = np.triu(matrix) + np.triu(matrix, 1).T
    mirror_upper(matrix, size=8)
    np.testing.assert_array_equal(matrix, expected)
