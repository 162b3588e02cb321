"""Sums over groups of rows, in the data and in bootstrap resamples of them.

Every correlation, rate and gap of an audit is a function of weighted sums over the cells that all
attributes, classes, decisions and strata make together. So rows are met once per column summed, whatever
is computed from the sums later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fairspan.method.data import Codes
from fairspan.method.linalg import Array

__all__ = ["ALL", "BIN", "DECIDED", "STRATA", "TARGET", "Sums", "count_cells", "resample"]

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


def resample(
    factors: Mapping[str, Codes], columns: Mapping[str, Array], weight: Array, n_boot: int,
    rng: np.random.Generator,
) -> Sums:  # fmt: skip
    """Sums of every column over joint cells, in the rows and in ``n_boot`` draws of n of them.

    Parameters
    ----------
    factors : codes of every row, by name.
    columns : numbers of every row, by name.
    weight : (n,)
    n_boot, rng : number of resamples, and their source.
    """
    n = len(weight)
    seen, cell = combinations(list(factors.values()))
    each = {"": weight, **{name: weight * column for name, column in columns.items()}}
    place, shape = (cell, np.arange(n)), (len(seen), n)
    onehot = {name: scipy.sparse.csr_array((v, place), shape=shape) for name, v in each.items()}
    out = {name: np.empty((len(seen), 1 + n_boot)) for name in each}
    for name, values in each.items():
        out[name][:, 0] = np.bincount(cell, values, minlength=len(seen))
    batch = max(1, _BATCH_NUMBERS // n)
    for start in range(0, n_boot, batch):
        stop = min(start + batch, n_boot)
        counts = np.stack(
            [np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(start, stop)], axis=1
        ).astype(np.float64)
        for name, scaled in onehot.items():
            out[name][:, 1 + start : 1 + stop] = scaled @ counts
    return Sums(
        {name: seen[:, j] for j, name in enumerate(factors)},
        np.bincount(cell, minlength=len(seen)).astype(np.intp),
        np.bincount(cell, weight**2, minlength=len(seen)).astype(np.float64),
        out,
    )
