"""Feature maps that keep a few functions of psi only: what a saved model needs for its scores.

A kernel model with m landmarks stores the whitening of psi, up to m x m numbers. Its scores are a few
functions ``psi(x)'w = kappa(x, z) W w``, so the m numbers of each ``W w`` are enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.method.features import LandmarkMap
from fairspan.method.linalg import Array
from fairspan.method.torch_columns import DeviceColumns

__all__ = ["FoldedMap", "Folding", "pack_triangle", "unpack_triangle"]


@dataclass(frozen=True, kw_only=True)
class FoldedMap(LandmarkMap):
    """Landmark map whose ``whitening`` gives the kept functions instead of all coordinates of psi.

    :meth:`scores` takes directions in coordinates of the kept functions. :meth:`coordinates` gives all of
    psi, up to a rotation, by whitening the kernel matrix of the landmarks again at every call.

    Attributes
    ----------
    full_rank : int
        Number of coordinates of psi.
    mean_columns : ndarray of shape (m,)
        Kernel columns whose coordinates are the mean of psi.
    """

    full_rank: int
    mean_columns: Array

    @property
    def rank(self) -> int:
        """Number of coordinates of psi."""
        return self.full_rank

    @property
    def pending(self) -> Array | None:
        """Raise, because moments need all coordinates."""
        raise ValueError("This model was saved without what moments of psi need.")

    def whole(self) -> LandmarkMap:
        """Whiten the kernel matrix of the landmarks again."""
        return LandmarkMap.build(self.kernel, self.landmarks, None, exact=self.exact)

    def coordinates(self, X: Array) -> Array:
        """Compute psi(x), up to a rotation that is the same at every call."""
        return self.whole().coordinates(X)

    def centred(self, X: Array) -> Array:
        """Compute ``psi(x) - mu``, up to the same rotation."""
        whole = self.whole()
        return np.asarray(whole.coordinates(X) - self.mean_columns @ whole.whitening)

    def psi_on(self, device: Any, dtype: Any) -> DeviceColumns:
        """Return the function that computes :meth:`coordinates` of tensors on a torch device."""
        return self.whole().psi_on(device, dtype)


class Folding:
    """New coordinates in which each of some functions is a unit vector.

    The product of the whitening with each function stays as it was, so its scores do not change; those of
    sums of functions differ by rounding.

    Parameters
    ----------
    features : LandmarkMap
    functions : iterable of ndarray of shape (..., D, k)
        Coefficients in coordinates of psi.
    least : int, default=1
        Number of coordinates at least; there are more than functions if need be, which are zero.
    """

    def __init__(
        self, features: LandmarkMap, functions: Iterable[Array], *, least: int = 1
    ) -> None:
        self._features, self._first = features, dict[int, int]()
        self._arrays: list[Array] = []  # keeps them alive: their `id` is the key
        self._columns: list[Array] = []  # (D, number of its functions) of each array
        n = 0
        for array in functions:
            if id(array) in self._first:
                continue
            self._first[id(array)] = n
            self._arrays.append(array)
            flat = np.moveaxis(array, -2, 0).reshape(array.shape[-2], -1)
            self._columns.append(flat)
            n += flat.shape[1]
        if n < least:
            self._columns.append(np.zeros((features.whitening.shape[1], least - n)))
        self._functions = np.concatenate(self._columns, axis=1)
        self.size = self._functions.shape[1]

    @staticmethod
    def suits(features: Any) -> bool:
        """Whether scores are those of functions folded into the whitening, up to rounding."""
        # In exact mode rows are whitened first, and folding would change the rounding.
        return type(features) is LandmarkMap and not features.whiten_first

    @property
    def saves_memory(self) -> bool:
        """Whether there are fewer functions than coordinates."""
        return bool(self.size < self._features.whitening.shape[1])

    def features(self, mean: Array | None = None) -> FoldedMap:
        """The map of the kept functions; ``mean`` is that of psi, (D,)."""
        old = self._features
        W = old.whitening
        # W' columns = mean has the solution W (W'W)^-1 mean; the columns of W are orthogonal.
        mean = np.zeros(W.shape[1]) if mean is None else mean
        return FoldedMap(
            kernel=old.kernel,
            landmarks=old.landmarks,
            # One product per array, as `scores` makes it: the rounding is the same.
            whitening=np.concatenate([W @ columns for columns in self._columns], axis=1),
            whiten_first=False,
            exact=old.exact,
            dropped_mass=old.dropped_mass,
            full_rank=W.shape[1],
            mean_columns=W @ (mean / np.einsum("ij,ij->j", W, W)),
        )

    def functions(self, array: Array) -> Array:
        """One of the arrays of functions in the new coordinates, (..., size, k)."""
        first = self._first[id(array)]
        *outer, _, k = array.shape
        count = int(np.prod(outer, dtype=int)) * k
        unit = np.eye(self.size)[:, first : first + count]
        return np.ascontiguousarray(np.moveaxis(unit.reshape(self.size, *outer, k), 0, -2))

    def points(self, array: Array) -> Array:
        """Points in coordinates of psi, (..., D), in the new ones, (..., size)."""
        return np.asarray(array @ self._functions)


def pack_triangle(matrix: Array) -> Array | None:
    """The lower triangle of a matrix as one row of numbers; None if it is not one."""
    if matrix.ndim != 2 or np.any(np.triu(matrix, 1)):
        return None
    return np.ascontiguousarray(matrix[np.tril_indices(len(matrix))])


def unpack_triangle(packed: Array) -> Array:
    """Undo :func:`pack_triangle`."""
    n = int((np.sqrt(8.0 * len(packed) + 1.0) - 1.0) / 2.0 + 0.5)
    if packed.ndim != 1 or n * (n + 1) // 2 != len(packed):
        raise ValueError(f"{packed.shape} numbers are not those of a triangle")
    out = np.zeros((n, n))
    out[np.tril_indices(n)] = packed
    return out
