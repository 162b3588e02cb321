"""The audit's resamples of the held-out rows, drawn once for all places of the slider."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse

from fairspan.auditing._resamples import Sums, _combinations, resample
from fairspan.auditing._run import _drawn
from fairspan.method.data import Codes
from fairspan.method.linalg import Array

__all__ = ["Draws"]

# How often each row is drawn, kept for every resample: 256 MiB.
_MOST_COUNTS = 2**25


class Draws:
    """Resamples of n rows, the same as those of ``audit(..., random_state)``.

    Parameters
    ----------
    weight : (n,)
    n_boot : number of resamples.
    seed : of the audit.
    """

    def __init__(self, weight: Array, n_boot: int, seed: int) -> None:
        self._weight, self._n_boot, self._seed = weight, n_boot, seed
        self._counts: Array | None = None
        n = len(weight)
        if n * n_boot <= _MOST_COUNTS:
            rng = self.source()
            counts = np.empty((n, n_boot))
            for b in range(n_boot):
                counts[:, b] = np.bincount(rng.integers(0, n, n), minlength=n)
            self._counts = counts

    def source(self) -> np.random.Generator:
        """Where the audit draws from for scores and decisions."""
        rng = np.random.default_rng(self._seed)
        _drawn(self._weight, rng)
        return np.random.default_rng(rng.integers(2**63))

    def sums(self, factors: Mapping[str, Codes], columns: Mapping[str, Array]) -> Sums:
        """Sums over joint cells, in the rows and in every resample, as the audit takes them."""
        if self._counts is None:
            return resample(factors, columns, self._weight, self._n_boot, self.source())
        n = len(self._weight)
        seen, cell = _combinations(list(factors.values()))
        # Rows by cell: one sparse matrix for all columns, of which only the numbers change.
        order = np.argsort(cell, kind="stable")
        starts = np.searchsorted(cell[order], np.arange(len(seen) + 1))
        out = {}
        for name, values in {"": np.ones(n), **columns}.items():
            scaled = self._weight * values
            onehot = scipy.sparse.csr_array((scaled[order], order, starts), shape=(len(seen), n))
            sums = np.bincount(cell, scaled, minlength=len(seen))
            out[name] = np.concatenate([sums[:, None], onehot @ self._counts], axis=1)
        return Sums(
            {name: seen[:, j] for j, name in enumerate(factors)},
            np.bincount(cell, minlength=len(seen)).astype(np.intp),
            np.bincount(cell, self._weight**2, minlength=len(seen)).astype(np.float64),
            out,
        )
