"""Count distinct integers of a stream: exact up to 65,536 of them, and estimated beyond.

Beyond, only the smallest hashes are kept (k minimum values, Bar-Yossef et al. 2002). If the k-th
smallest of hashes that are uniform on [0, 1) is u, there are about (k - 1)/u of them, with a relative
standard error of 1/sqrt(k - 2) = 0.4 %. The hashes depend on the integers alone, so counts of blocks,
files and workers add up to the count of all rows, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairspan.method.linalg import mix

__all__ = ["SIZE", "DistinctCount"]

Integers = NDArray[np.int64]

# Hashes that are kept.
SIZE = 2**16
_SALT = 23
_RANGE = 2.0**63  # `mix` gives 63 bits


@dataclass(frozen=True, kw_only=True, eq=False)
class DistinctCount:
    """Number of rows, and a sample of the distinct integers that they have.

    Attributes
    ----------
    n_rows : int
        Rows that were counted.
    hashes : ndarray of int64
        The smallest distinct hashes, sorted; all of them up to ``SIZE``.
    complete : bool
        No hash was left out, so the count is exact.
    """

    n_rows: int = 0
    hashes: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    complete: bool = True

    def add(self, integers: Integers) -> DistinctCount:
        """Return the count with rows added, given the integer of each."""
        hashes = np.unique(mix(integers, _SALT))
        return self + DistinctCount(n_rows=len(integers), hashes=hashes)

    def __add__(self, other: DistinctCount) -> DistinctCount:
        """Return the count of both sets of rows."""
        hashes = np.union1d(self.hashes, other.hashes)
        return DistinctCount(
            n_rows=self.n_rows + other.n_rows,
            hashes=hashes[:SIZE],
            complete=self.complete and other.complete and len(hashes) <= SIZE,
        )

    @property
    def n_distinct(self) -> float:
        """Number of distinct integers."""
        if self.complete:
            return float(len(self.hashes))
        return (SIZE - 1) * _RANGE / float(self.hashes[-1])

    @property
    def share(self) -> float:
        """Distinct integers per row, at most 1; 1 without rows."""
        return min(self.n_distinct / self.n_rows, 1.0) if self.n_rows else 1.0
