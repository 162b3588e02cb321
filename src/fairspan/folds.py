"""Which fold a row falls into, so that every cross-validated choice costs no second pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairspan.codes import Codes

__all__ = ["FoldCounter"]

MAX_CROSSED, MAX_STRATA = 6, 4096


class FoldCounter:
    """Folds balanced within strata (target crossed with S levels): a counter per stratum.

    The i-th row of the s-th stratum to appear gets fold ``(offset + s + i) mod K``. Counters go on
    across blocks, so a sequence of blocks gets the folds of one batch; staggering by order of
    appearance keeps tiny strata from all starting in one fold and makes level names irrelevant.
    """

    def __init__(self, n_folds: int, offset: int) -> None:
        self.n_folds = n_folds
        self.offset = offset
        self.counts: dict[str, int] = {}
        self.ranks: dict[str, int] = {}

    def copy(self) -> FoldCounter:
        """An independent counter in the same state."""
        out = FoldCounter(self.n_folds, self.offset)
        out.counts, out.ranks = dict(self.counts), dict(self.ranks)
        return out

    def assign(self, strata: Codes) -> Codes:
        """Fold of each row, given its (coded) strata, (n, k); advances the counters."""
        if self.n_folds == 1:
            return np.zeros(len(strata), dtype=np.intp)
        if strata.shape[1] > MAX_CROSSED:
            # Crossing many attributes singles rows out; a bounded number of mixed strata does not.
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


def _single_key(codes: Codes) -> NDArray[np.int64]:
    """One integer per row that tells combinations of codes apart (-1 counts as a level)."""
    key = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        size = int(column.max(initial=-1)) + 2
        if int(key.max(initial=0)) >= 2**62 // size:  # too many combinations: renumber those seen
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
        key = key * size + column + 1
    return key
