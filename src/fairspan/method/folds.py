"""Assignment of rows to folds during the pass, so that cross-validation needs no second pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan.method.data import Codes
from fairspan.method.linalg import is_tensor, mix, row_numbers, to_home, to_numpy

__all__ = ["FoldCounter", "PositionFolds"]

# More attributes than MAX_CROSSED are not crossed but hashed into MAX_STRATA strata.
MAX_CROSSED, MAX_STRATA = 6, 4096


class FoldCounter:
    """Folds that are balanced within strata (the target crossed with the levels of S).

    Strata are numbered in the order in which they occur. The i-th row of stratum s gets the fold
    ``(offset + s + i) mod K``. The counts continue across blocks, so several blocks get the folds of one
    batch. The shift by s keeps small strata from all starting in the same fold, and does not depend on
    the names of levels.
    """

    def __init__(self, n_folds: int, offset: int) -> None:
        self.n_folds = n_folds
        self.offset = offset
        self.position = 0  # number of rows so far
        self.counts: dict[str, int] = {}  # rows so far, by stratum
        self.ranks: dict[str, int] = {}  # number s of each stratum

    def copy(self) -> FoldCounter:
        """Return an independent copy."""
        out = FoldCounter(self.n_folds, self.offset)
        out.position, out.counts, out.ranks = self.position, dict(self.counts), dict(self.ranks)
        return out

    def assign(
        self,
        strata: Codes,
        index: Codes | None = None,  # noqa: ARG002
        given: int | None = None,
    ) -> Codes:
        """Return the fold of each row, and count the rows; see :meth:`PositionFolds.assign`."""
        self.position += len(strata) if given is None else given
        if self.n_folds == 1:
            return row_numbers(strata) * 0  # type: ignore[no-any-return]
        if is_tensor(strata):  # streams of tensors use PositionFolds, which needs no copy
            folds = self._balanced_folds(to_numpy(strata))
            return to_home(folds, strata.device)  # type: ignore[no-any-return]
        return self._balanced_folds(strata)

    def _balanced_folds(self, strata: Codes) -> Codes:
        if strata.shape[1] > MAX_CROSSED:
            # Crossing many attributes gives strata of one row, so hash them into a bounded number.
            odd = 2 * np.arange(1, strata.shape[1] + 1) ** 2 + 1
            strata = ((strata + 1) @ odd % MAX_STRATA)[:, None]
        _, first, inverse, sizes = np.unique(
            _single_key(strata), return_index=True, return_inverse=True, return_counts=True
        )
        keys = [",".join(map(str, row)) for row in strata[first].tolist()]
        start = np.empty(len(keys), dtype=np.intp)
        for s in np.argsort(first):
            rank = self.ranks.setdefault(keys[s], len(self.ranks))
            seen = self.counts.get(keys[s], 0)
            start[s] = self.offset + rank + seen
            self.counts[keys[s]] = seen + int(sizes[s])
        order = np.argsort(inverse, kind="stable")
        position = np.empty(len(strata), dtype=np.intp)
        position[order] = np.arange(len(strata)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return (start[inverse] + position) % self.n_folds


class PositionFolds:
    """Folds by the index of a row in all the data, for streams.

    The folds do not depend on the division into blocks, files or workers, if the start of each block is
    known. Of every K consecutive rows (from a multiple of K) each fold gets one, so rows sorted by group
    are balanced within groups. A hash rotates the folds, so periodic data are balanced too.
    """

    def __init__(self, n_folds: int, offset: int, position: int = 0) -> None:
        self.n_folds = n_folds
        self.offset = offset
        self.position = position

    def copy(self) -> PositionFolds:
        """Return an independent copy."""
        return PositionFolds(self.n_folds, self.offset, self.position)

    def assign(self, strata: Codes, index: Codes | None = None, given: int | None = None) -> Codes:
        """Return the fold of each row, and advance the position.

        Parameters
        ----------
        strata : (n, k) integers
            Codes of the strata, -1 where missing; here only their number is used.
        index : (n,) integers, optional
            Indices of the rows in the user's block, if some of its rows were dropped.
        given : int, optional
            Number of rows of the user's block, if some were dropped.
        """
        positions = self.position + (row_numbers(strata) if index is None else index)
        self.position += len(strata) if given is None else given
        return self.folds(positions)  # type: ignore[no-any-return]

    def folds(self, positions: Any) -> Any:
        """Return the folds of the rows at these positions, a numpy or torch vector of 64-bit integers."""
        K = self.n_folds
        rotation = mix(positions // K) % K
        return (positions + rotation + self.offset) % K


def _single_key(codes: Codes) -> NDArray[np.int64]:
    """Return one integer per row, equal for equal combinations of codes; -1 counts as a level."""
    key = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        size = int(column.max(initial=-1)) + 2
        if int(key.max(initial=0)) >= 2**62 // size:  # avoid overflow: renumber the combinations
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
        key = key * size + column + 1
    return key
