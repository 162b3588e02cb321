"""Sparse rows have the hashes, means and ranges of the same rows as an array."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sparse import as_sparse, tables

from fairspan.method.folds import hash_ranks, hash_rows
from fairspan.method.kernels import Kernel
from fairspan.method.row_sketch import RowSketch
from fairspan.method.sparse_rows import (
    SparseRows,
    check_sparse,
    column_ranges,
    inner_products,
    squared_lengths,
)

KINDS = st.sampled_from(["csr_array", "csc_matrix", "messy"])


@given(tables(), KINDS)
def test_the_rows_come_back(X, kind):
    given_matrix = as_sparse(X, kind)
    stored = given_matrix.nnz
    rows = SparseRows.of(given_matrix)
    np.testing.assert_array_equal(rows.toarray(), X)
    assert (rows.values != 0.0).all()
    assert given_matrix.nnz == stored  # what the user gave stays as it is
    some = np.random.default_rng(0).integers(0, len(X), 7)
    np.testing.assert_array_equal(rows[some].toarray(), X[some])
    np.testing.assert_array_equal(rows[1:3].toarray(), X[1:3])
    np.testing.assert_array_equal(rows[X[:, 0] > 0].toarray(), X[X[:, 0] > 0])


@given(tables(), KINDS, st.integers(0, 5))
def test_hashes_and_ranks_are_those_of_the_array(X, kind, seed):
    rows, y = SparseRows.of(as_sparse(X, kind)), np.arange(len(X)) % 3 * 1.0
    for target in (None, y):
        np.testing.assert_array_equal(hash_rows(rows, target, seed), hash_rows(X, target, seed))
        np.testing.assert_array_equal(hash_ranks(rows, target, seed), hash_ranks(X, target, seed))
    sketches = RowSketch.empty("key").add(rows), RowSketch.empty("key").add(X)
    assert sketches[0] == sketches[1]
    looked_up = zip(sketches[1].look_up(rows), sketches[1].look_up(X), strict=True)
    assert all(np.array_equal(*pair) for pair in looked_up)


@given(tables(), KINDS)
def test_columns_have_the_means_and_ranges_of_the_array(X, kind):
    rows = SparseRows.of(as_sparse(X, kind))
    np.testing.assert_allclose(rows.mean(axis=0), X.mean(axis=0), atol=1e-14)
    np.testing.assert_allclose(rows.std(axis=0), X.std(axis=0), atol=1e-14)
    np.testing.assert_array_equal(column_ranges(rows), np.ptp(X, axis=0))


@given(tables(), tables(), KINDS)
def test_inner_products_take_rows_of_both_kinds(X, Z, kind):
    p = min(X.shape[1], Z.shape[1])
    X, Z = X[:, :p], Z[:, :p]
    A, B = SparseRows.of(as_sparse(X, kind)), SparseRows.of(as_sparse(Z, kind))
    for left, right in ((A, B), (A, Z), (X, B)):
        np.testing.assert_allclose(inner_products(left, right), X @ Z.T, atol=1e-13)
        np.testing.assert_allclose(Kernel("linear")(left, right), X @ Z.T, atol=1e-13)
    np.testing.assert_allclose(squared_lengths(A), (X**2).sum(axis=1), atol=1e-13)
    np.testing.assert_allclose(Kernel("linear").diagonal(X), (X**2).sum(axis=1), atol=1e-13)


@given(tables(max_rows=60), st.data())
def test_columns_that_repeat_a_variable_are_found(X, data):
    j = data.draw(st.integers(0, X.shape[1] - 1))
    S = np.column_stack([3.0 * X[:, j] - 1.0, np.arange(len(X)) % 2])
    S = S - S.mean(axis=0)
    near = SparseRows.of(as_sparse(X)).nearly_parallel(S)
    varies = np.ptp(X[:, j]) > 0
    assert (j in near) == varies
    # Few others are looked at again: those that are nearly parallel as well.
    centred = X - X.mean(axis=0)
    norm = np.linalg.norm(centred, axis=0)
    cosine = np.abs(S.T @ centred) / np.maximum(np.outer(np.linalg.norm(S, axis=0), norm), 1e-300)
    assert set(near) <= set(np.flatnonzero((cosine > 0.99).any(axis=0)))


def test_numpy_does_not_make_an_array_of_them_by_the_way():
    with pytest.raises(TypeError, match="toarray"):
        np.asarray(SparseRows.of(scipy.sparse.eye_array(3)))
    with pytest.raises(ValueError, match="columns only"):
        SparseRows.of(scipy.sparse.eye_array(3)).mean(axis=1)


@pytest.mark.parametrize(
    "change",
    [
        {"columns": np.array([0, 1, 99], dtype=np.int32)},
        {"columns": np.array([0, -1, 2], dtype=np.int32)},
        {"starts": np.array([0, 1, 2, 9], dtype=np.int32)},
        {"starts": np.array([0, 3, 1, 3], dtype=np.int32)},
        {"starts": np.zeros(0, dtype=np.int32)},
        {"columns": np.array([0.0, 1.0, 2.0])},
        {"width": "3"},
        {"width": 2},
    ],
)
def test_rows_of_a_file_that_do_not_fit_together_are_refused(change):
    rows = SparseRows.of(scipy.sparse.eye_array(3, format="csr"))
    check_sparse(rows)
    check_sparse(rows.toarray())  # arrays are checked elsewhere
    with pytest.raises(ValueError):  # noqa: PT011 - SciPy's own words
        check_sparse(SparseRows(**{**vars(rows), **change}))
