"""Tables that are mostly zeros, for tests of sparse rows."""

import numpy as np
import scipy.sparse
from hypothesis import strategies as st

# Zeros of both signs, whole numbers that tie, and numbers that do not.
NUMBERS = (0.0, 0.0, 0.0, 0.0, 0.0, -0.0, 1.0, 1.0, 2.0, -1.5, 0.1)


@st.composite
def tables(draw, max_rows=40, max_columns=9):
    """A dense table, mostly zeros, with copies of rows; possibly without any row that differs."""
    n, p = draw(st.integers(1, max_rows)), draw(st.integers(1, max_columns))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.choice(NUMBERS, size=(n, p))
    return X[rng.integers(0, n, n)] if draw(st.booleans()) else X


def as_sparse(X, kind="csr_array"):
    """The table in one of SciPy's forms; "messy" is csr with zeros and repeated entries stored."""
    if kind != "messy":
        return getattr(scipy.sparse, kind)(X)
    rows, columns = np.indices(X.shape).reshape(2, -1)
    halves = np.concatenate([X.ravel() / 2.0] * 2)
    where = (np.tile(rows, 2), np.tile(columns, 2))
    entries = scipy.sparse.coo_array((halves, where), shape=X.shape)
    indptr = np.arange(X.shape[0] + 1) * 2 * X.shape[1]
    order = np.argsort(entries.coords[0], kind="stable")
    parts = (entries.data[order], entries.coords[1][order], indptr)
    return scipy.sparse.csr_array(parts, shape=X.shape)


def words(n=400, p=60, seed=0):
    """Counts of words that depend on the group, with a class and a number to predict."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.poisson(0.15, size=(n, p)).astype(float)
    X[:, :3] += rng.poisson(0.5, size=(n, 3)) * s[:, None]
    score = X @ rng.normal(size=p) + rng.normal(size=n)
    return X, (score > np.median(score)).astype(int), score, s
