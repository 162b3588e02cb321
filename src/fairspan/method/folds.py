"""Which fold a row falls into, so that every cross-validated choice costs no second pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan.method.data import Codes
from fairspan.method.linalg import is_tensor, mix, to_home, to_numpy

__all__ = ["FoldCounter", "PositionFolds"]

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
        self.position = 0  # rows seen
        self.counts: dict[str, int] = {}
        self.ranks: dict[str, int] = {}

    def copy(self) -> FoldCounter:
        """An independent counter in the same state."""
        out = FoldCounter(self.n_folds, self.offset)
        out.position, out.counts, out.ranks = self.position, dict(self.counts), dict(self.ranks)
        return out

    def assign(
        self,
        strata: Codes,
        index: Codes | None = None,  # noqa: ARG002
        given: int | None = None,
    ) -> Codes:
        """Fold of each row, given its (coded) strata, (n, k); advances the counters."""
        self.position += len(strata) if given is None else given
        if self.n_folds == 1:
            return _count(strata) * 0  # type: ignore[no-any-return]
        if is_tensor(strata):  # counters are kept here; a stream of tensors deals folds by place
            folds = self._deal(to_numpy(strata))
            return to_home(folds, strata.device)  # type: ignore[no-any-return]
        return self._deal(strata)

    def _deal(self, strata: Codes) -> Codes:
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


class PositionFolds:
    """Folds by the place of a row in all the data: what a stream needs.

    Any partition into blocks, files or workers deals the same folds, as long as each block says where
    it begins. Of each K rows from a multiple of K on every fold gets one, so rows sorted by group are
    balanced within groups; which one gets which is turned by a hash, so that data with a period are too.
    """

    def __init__(self, n_folds: int, offset: int, position: int = 0) -> None:
        self.n_folds = n_folds
        self.offset = offset
        self.position = position

    def copy(self) -> PositionFolds:
        """An independent counter in the same state."""
        return PositionFolds(self.n_folds, self.offset, self.position)

    def assign(self, strata: Codes, index: Codes | None = None, given: int | None = None) -> Codes:
        """Fold of each row; advances the position.

        Parameters
        ----------
        strata : (n, k); only their number counts.
        index : (n,) places among the rows given, where some of these were left out.
        given : number of rows given.
        """
        places = self.position + (_count(strata) if index is None else index)
        self.position += len(strata) if given is None else given
        return self.folds(places)  # type: ignore[no-any-return]

    def folds(self, places: Any) -> Any:
        """Fold of the rows at these places, a numpy or torch vector of 64-bit integers."""
        K = self.n_folds
        turn = mix(places // K) % K
        return (places + turn + self.offset) % K


def _count(strata: Any) -> Any:
    """0, 1, 2, ...: one for each row, where the rows are."""
    if not is_tensor(strata):
        return np.arange(len(strata), dtype=np.int64)
    import torch  # there is a tensor, so it is installed

    return torch.arange(len(strata), device=strata.device)


def _single_key(codes: Codes) -> NDArray[np.int64]:
    """One integer per row that tells combinations of codes apart (-1 counts as a level)."""
    key = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        size = int(column.max(initial=-1)) + 2
        if int(key.max(initial=0)) >= 2**62 // size:  # too many combinations: renumber those seen
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
        key = key * size + column + 1
    return key
