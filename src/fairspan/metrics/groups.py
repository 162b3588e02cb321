"""Sums over groups of rows, in the data and in bootstrap resamples of them.

Every correlation, rate and gap of an audit is a function of weighted sums over the cells that all
attributes, classes, decisions and strata make together. So rows are met once per column summed, whatever
is computed from the sums later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fairspan.method.data import Codes
from fairspan.method.linalg import Array

__all__ = [
    *("ALL", "BIN", "DECIDED", "STRATA", "TARGET", "Sums"),
    *("bootstrap_counts", "count_cells", "group_sums", "resample"),
]

# Factors beside the attributes, whose names are the users': no name begins like these.
TARGET, DECIDED, STRATA, BIN, ALL = "\0y", "\0decided", "\0strata", "\0bin", "\0all"
# Counts held at once: 64 MiB.
_BATCH_NUMBERS = 8 * 2**20


@dataclass(frozen=True)
class Sums:
    """Weighted sums over the joint cells: of the data in column 0, of resamples after it.

    Attributes
    ----------
    factors : what a cell is: factor name -> its code in every cell, (K,).
    rows : (K,) number of rows.
    squares : (K,) sum of squared weights.
    columns : column name -> (K, 1 + B) weighted sums; "" are the weights themselves.
    """

    factors: dict[str, Codes]
    rows: Codes
    squares: Array
    columns: dict[str, Array]

    def over(self, *names: str) -> Sums:
        """The same sums over the cells of fewer factors."""
        kept = [name for name in names if name in self.factors]
        seen, cell = combinations([self.factors[name] for name in kept])
        return Sums(
            {name: seen[:, j] for j, name in enumerate(kept)},
            np.bincount(cell, self.rows, minlength=len(seen)).astype(np.intp),
            np.bincount(cell, self.squares, minlength=len(seen)).astype(np.float64),
            {name: _gather(cell, len(seen), values) for name, values in self.columns.items()},
        )

    def where(self, mask: NDArray[np.bool_]) -> Sums:
        """The sums of some cells."""
        return Sums(
            {name: codes[mask] for name, codes in self.factors.items()},
            self.rows[mask], self.squares[mask],
            {name: values[mask] for name, values in self.columns.items()},
        )  # fmt: skip

    def by(self, name: str, n_levels: int, column: str = "") -> Array:
        """A column's sums over the levels of a factor, (n_levels, 1 + B)."""
        return _gather(self.factors[name], n_levels, self.columns[column])

    def count(self, name: str, n_levels: int) -> Codes:
        """Rows per level."""
        return np.bincount(self.factors[name], self.rows, minlength=n_levels).astype(np.intp)

    def effective(self, name: str, n_levels: int) -> Array:
        """Kish's effective number of rows per level."""
        codes = self.factors[name]
        mass = np.bincount(codes, self.columns[""][:, 0], minlength=n_levels)
        squares = np.bincount(codes, self.squares, minlength=n_levels)
        return np.divide(mass**2, squares, out=np.zeros(n_levels), where=squares > 0.0)


def _gather(codes: Codes, n_levels: int, values: Array) -> Array:
    place = (codes, np.arange(len(codes)))
    onehot = scipy.sparse.csr_array((np.ones(len(codes)), place), shape=(n_levels, len(codes)))
    return np.asarray(onehot @ values)


def count_cells(factors: Mapping[str, Codes]) -> int:
    """Combinations of all factors that occur."""
    return len(combinations(list(factors.values()))[0])


def combinations(factors: Sequence[Codes]) -> tuple[Codes, Codes]:
    """Combinations that occur, (K, factors), and the one of each row; by one integer each if it fits."""
    sizes = tuple(int(codes.max(initial=0)) + 1 for codes in factors)
    if np.prod(np.array(sizes, dtype=float)) >= 2.0**62:
        seen, cell = np.unique(np.stack(factors, axis=1), axis=0, return_inverse=True)
        return seen.astype(np.intp), cell.ravel()
    keys, cell = np.unique(np.ravel_multi_index(tuple(factors), sizes), return_inverse=True)
    return np.stack(np.unravel_index(keys, sizes), axis=1).astype(np.intp), cell.ravel()


def bootstrap_counts(n: int, n_boot: int, rng: np.random.Generator) -> Array:
    """How often each of n rows is drawn in each of the resamples, (n, n_boot)."""
    counts = np.empty((n, n_boot))
    for b in range(n_boot):
        counts[:, b] = np.bincount(rng.integers(0, n, n), minlength=n)
    return counts


def group_sums(
    factors: Mapping[str, Codes],
    columns: Mapping[str, Array],
    weight: Array,
    counts: Iterable[Array] = (),
) -> Sums:
    """Sum every column over the joint cells of the factors.

    Parameters
    ----------
    factors : factor name -> (n,) level of each row.
    columns : column name -> (n,) numbers.
    weight : (n,)
    counts : resamples to sum over as well, in batches (n, b) as of :func:`bootstrap_counts`.
    """
    seen, cell = combinations(list(factors.values()))
    K = len(seen)
    weighted = {"": weight, **{name: weight * column for name, column in columns.items()}}
    # Rows by cell: one sparse matrix for all columns, of which only the numbers change.
    order = np.argsort(cell, kind="stable")
    starts = np.searchsorted(cell[order], np.arange(K + 1))
    sums = {name: [np.bincount(cell, v, minlength=K)[:, None]] for name, v in weighted.items()}
    for batch in counts:
        for name, values in weighted.items():
            scaled = (values[order], order, starts)
            sums[name].append(scipy.sparse.csr_array(scaled, shape=(K, len(cell))) @ batch)
    return Sums(
        {name: seen[:, j] for j, name in enumerate(factors)},
        np.bincount(cell, minlength=K).astype(np.intp),
        np.bincount(cell, weight**2, minlength=K).astype(np.float64),
        {name: np.concatenate(sums.pop(name), axis=1) for name in weighted},
    )


def resample(
    factors: Mapping[str, Codes],
    columns: Mapping[str, Array],
    weight: Array,
    n_boot: int,
    rng: np.random.Generator,
) -> Sums:
    """Sum every column over the joint cells, in the rows and in bootstrap resamples of them.

    Parameters
    ----------
    factors, columns, weight
        As in :func:`group_sums`.
    n_boot : number of resamples, each of n rows drawn with replacement.
    rng : their source; they are drawn one after the other, in batches of 64 MiB.
    """
    n = len(weight)
    batch = max(1, _BATCH_NUMBERS // n)
    sizes = (min(batch, n_boot - start) for start in range(0, n_boot, batch))
    return group_sums(factors, columns, weight, (bootstrap_counts(n, size, rng) for size in sizes))
