"""Rows that are mostly zeros, kept as their other numbers only.

A block of rows becomes an array when its feature columns are computed. What needs all rows at once
(hashes, means and ranges of columns) is computed from the numbers that are not zero, with the results
that the same rows have as an array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fairspan.method.linalg import Array

__all__ = [
    "SparseRows",
    "as_matrix",
    "check_sparse",
    "column_ranges",
    "dense",
    "inner_products",
    "is_sparse",
    "squared_lengths",
]

# Cosines below this one need no second look, see `SparseRows.nearly_parallel`.
_NEARLY = 1.0 - 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class SparseRows:
    """The numbers of n rows that are not zero, in the compressed form by rows.

    An index selects rows, and gives rows of the same kind. There is no conversion by
    ``numpy.asarray``: that of a wide table would not fit into memory.
    """

    values: Array  # row by row, in the order of columns; none of them is zero
    columns: NDArray[np.integer[Any]]  # column of each value
    starts: NDArray[np.integer[Any]]  # (n + 1,): the first value of each row
    width: int  # number of columns

    @classmethod
    def of(cls, matrix: Any) -> Self:
        """Take the numbers of a SciPy matrix or array, which stays as it is."""
        given = scipy.sparse.csr_array(matrix)
        if not given.has_canonical_format or (given.data == 0.0).any():
            given = given.copy()
            given.sum_duplicates()
            given.eliminate_zeros()
        return cls._of(given)

    @classmethod
    def _of(cls, rows: Any) -> Self:
        values = np.asarray(rows.data, dtype=np.float64)
        return cls(
            values=values, columns=rows.indices, starts=rows.indptr, width=int(rows.shape[1])
        )

    @property
    def matrix(self) -> scipy.sparse.csr_array:
        """The rows as a SciPy array, which shares their memory."""
        return self._with(self.values)

    def _with(self, values: NDArray[Any]) -> scipy.sparse.csr_array:
        return scipy.sparse.csr_array((values, self.columns, self.starts), shape=self.shape)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self), self.width

    @property
    def ndim(self) -> int:
        """Two, as for a table."""
        return 2

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, rows: Any) -> SparseRows:
        picked = self.matrix[np.atleast_1d(rows) if isinstance(rows, np.ndarray) else rows]
        if not picked.has_sorted_indices:
            picked.sort_indices()
        return type(self)._of(picked)

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise TypeError("sparse rows are not turned into an array; use toarray()")

    def toarray(self) -> Array:
        """All rows as an array, in the order of C."""
        return np.asarray(self.matrix.toarray(), dtype=np.float64)

    def by_column(self) -> scipy.sparse.csc_array:
        """The same numbers in the compressed form by columns."""
        return self.matrix.tocsc()

    def products(self, numbers: NDArray[np.int64], factors: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sums ``sum_j numbers_ij factors_j`` modulo 2^64; ``numbers`` belong to :attr:`values`."""
        rows = self._with(numbers.view(np.uint64))
        return np.asarray(rows @ factors.view(np.uint64)).view(np.int64)

    # ------------------------------------------------------------------ columns

    def mean(self, axis: int = 0) -> Array:
        """Mean of each column."""
        _check_columns(axis)
        sums = np.bincount(self.columns, self.values, minlength=self.width)
        return np.asarray(sums / max(len(self), 1))

    def std(self, axis: int = 0) -> Array:
        """Standard deviation of each column, about its mean and not from the sum of squares."""
        _check_columns(axis)
        return np.sqrt(self._squares() / max(len(self), 1))

    def _squares(self) -> Array:
        """Sum of squares of each column about its mean."""
        mean = self.mean()
        zeros = len(self) - np.bincount(self.columns, minlength=self.width)
        about = (self.values - mean[self.columns]) ** 2
        return np.asarray(np.bincount(self.columns, about, minlength=self.width) + zeros * mean**2)

    def ranges(self) -> Array:
        """Range of each column."""
        has_zero = np.bincount(self.columns, minlength=self.width) < len(self)
        low, high = np.full(self.width, np.inf), np.full(self.width, -np.inf)
        np.minimum.at(low, self.columns, self.values)
        np.maximum.at(high, self.columns, self.values)
        low[has_zero] = np.minimum(low[has_zero], 0.0)
        high[has_zero] = np.maximum(high[has_zero], 0.0)
        return np.asarray(high - low)

    def nearly_parallel(self, S: Array) -> NDArray[np.intp]:
        """Columns that may be a column of the centred S, (n, k), up to scale and offset.

        Rounding is larger than for arrays: look at these columns again as arrays.
        """
        norms = np.sqrt(self._squares())
        cross = S.T @ self.matrix - np.outer(S.sum(axis=0), self.mean())
        scale = np.outer(np.sqrt(np.einsum("ij,ij->j", S, S)), norms)
        return np.flatnonzero((np.abs(cross) > _NEARLY * scale).any(axis=0) & (norms > 0.0))

    def take_columns(self, columns: NDArray[np.intp]) -> Array:
        """Some columns of all rows, as an array."""
        return np.asarray(self.by_column()[:, columns].toarray(), dtype=np.float64)


def _check_columns(axis: int) -> None:
    if axis != 0:
        raise ValueError(f"axis={axis}: sparse rows have numbers of columns only")


def is_sparse(obj: object) -> bool:
    """Whether rows are kept as :class:`SparseRows`."""
    return isinstance(obj, SparseRows)


def check_sparse(rows: Any) -> None:
    """Raise ValueError if sparse rows from a file do not fit together: SciPy would read other memory."""
    if not is_sparse(rows):
        return
    parts = (rows.values, rows.columns, rows.starts)
    arrays = all(isinstance(part, np.ndarray) and part.ndim == 1 for part in parts)
    kinds = arrays and [part.dtype.kind for part in parts] == ["f", "i", "i"]
    if not kinds or type(rows.width) is not int or len(rows.starts) < 1:
        raise ValueError("its sparse landmarks are not rows of numbers")
    rows.matrix.check_format(full_check=True)


def as_matrix(X: Any) -> Any:
    """Rows as a SciPy array if they are sparse; other rows as they are."""
    return X.matrix if is_sparse(X) else X


def column_ranges(X: Any) -> Array:
    """Range of each column, for rows of either kind."""
    return X.ranges() if is_sparse(X) else np.ptp(X, axis=0)  # type: ignore[no-any-return]


def dense(X: Any) -> Array:
    """Rows as a new float64 array."""
    if is_sparse(X):
        return X.toarray()  # type: ignore[no-any-return]
    return np.array(X, dtype=np.float64, order="C")


def squared_lengths(X: Any) -> Array:
    """``x'x`` of every row, for rows of either kind."""
    if not is_sparse(X):
        return np.asarray(np.einsum("ij,ij->i", X, X))
    rows = np.repeat(np.arange(len(X)), np.diff(X.starts))
    return np.asarray(np.bincount(rows, X.values**2, minlength=len(X)), dtype=np.float64)


def inner_products(X: Any, Z: Any) -> Array:
    """``X Z'`` as an array, for rows of either kind."""
    if not is_sparse(X) and is_sparse(Z):
        return np.ascontiguousarray(inner_products(Z, X).T)
    product = as_matrix(X) @ as_matrix(Z).T
    return np.asarray(product.toarray() if scipy.sparse.issparse(product) else product)
