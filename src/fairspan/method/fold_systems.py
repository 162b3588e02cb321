"""Systems ``(M + eta I) x = b`` with the covariance of all rows, and with those without each fold.

On a processor every covariance has a tridiagonal form of its own. On a GPU the covariance of all rows is
diagonalised there, and systems without a fold are solved in its eigenvectors by conjugate gradients: the two
covariances differ by noise of sampling, so that a few steps suffice.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fairspan.method.linalg import Array, Tridiagonal, congruence, is_accelerated, psd_eigh

# Columns up to which the tridiagonal forms of all folds are kept: 170 MB for five folds.
_MOST_REDUCED = 2048
# Rows per column from which a covariance without a fold counts as near that of all rows.
_NEAR_ROWS = 20
# Conjugate gradients: the relative error at which they end, that beyond which they have failed, most steps,
# and steps without progress after which rounding is all that is left.
_DONE, _FAILED, _STEPS, _PATIENCE = 1e-14, 1e-9, 60, 3


class Systems(Protocol):
    """Systems with one covariance, for many ridges: right-hand sides are rotated once."""

    def rotate(self, columns: Array) -> Array:
        """Right-hand sides in the coordinates of the systems."""

    def rotate_back(self, columns: Array) -> Array:
        """From these coordinates to the original ones."""

    def solve_rotated(self, rotated: Array, eta: float) -> Array:
        """Solutions for one ridge."""

    def solve_all(self, rotated: Array, etas: Array) -> Array:
        """Solutions for every ridge, side by side, (D, etas * columns)."""


@dataclass(frozen=True)
class Eigenbasis:
    """Systems in the eigenvectors of a covariance."""

    values: Array  # (D,), none below 0
    vectors: Array  # (D, D)

    @classmethod
    def of(cls, matrix: Array) -> Eigenbasis:
        """Diagonalise a covariance."""
        values, vectors = psd_eigh(matrix)
        return cls(np.maximum(values, 0.0), vectors)

    def eigenvalues(self) -> Array:
        """The eigenvalues, ascending."""
        return np.ascontiguousarray(self.values[::-1])

    def rotate(self, columns: Array) -> Array:
        """Right-hand sides in the eigenvectors."""
        return np.asarray(self.vectors.T @ columns)

    def rotate_back(self, columns: Array) -> Array:
        """From the eigenvectors to the original coordinates."""
        return np.asarray(self.vectors @ columns)

    def solve_rotated(self, rotated: Array, eta: float) -> Array:
        """Solutions for one ridge."""
        return np.asarray(rotated / (self.values + eta)[:, None])

    def solve_all(self, rotated: Array, etas: Array) -> Array:
        """Solutions for every ridge, side by side."""
        return np.concatenate([self.solve_rotated(rotated, float(eta)) for eta in etas], axis=1)


class NearbySystems:
    """Systems with a covariance near one whose eigenvectors are known.

    All right-hand sides and ridges take their steps together. A covariance that is not near after all is
    diagonalised.
    """

    def __init__(self, near: Eigenbasis, matrix: Array) -> None:
        self._near, self._matrix = near, matrix
        self._rotated = congruence(matrix, near.vectors)
        self.own: Eigenbasis | None = None  # of the matrix, if it is not near

    def rotate(self, columns: Array) -> Array:
        """Right-hand sides in the eigenvectors of the covariance that is near."""
        return self._near.rotate(columns)

    def rotate_back(self, columns: Array) -> Array:
        """From these eigenvectors to the original coordinates."""
        return self._near.rotate_back(columns)

    def solve_rotated(self, rotated: Array, eta: float) -> Array:
        """Solutions for one ridge."""
        return self.solve_all(rotated, np.array([eta]))

    def solve_all(self, rotated: Array, etas: Array) -> Array:
        """Solutions for every ridge, side by side."""
        if not rotated.shape[1]:
            return rotated
        found = self._by_steps(rotated, etas) if self.own is None else None
        if found is not None:
            return found
        self.own = self.own or Eigenbasis.of(self._matrix)
        given = self.own.rotate(self.rotate_back(rotated))
        return self.rotate(self.own.rotate_back(self.own.solve_all(given, etas)))

    def _by_steps(self, rotated: Array, etas: Array) -> Array | None:
        """Solutions by conjugate gradients, with the near covariance as preconditioner; None: not near."""
        right = np.tile(rotated, (1, len(etas)))
        shift = np.repeat(etas, rotated.shape[1])
        scale = 1.0 / (self._near.values[:, None] + shift)
        x = scale * right
        energy = np.maximum((right * x).sum(axis=0), 1e-300)
        left = right - self._rotated @ x - shift * x
        step = scale * left
        # The squared error of x in the norm of the systems, nearly.
        square = (left * step).sum(axis=0)
        best, best_square, since = x.copy(), square.copy(), np.zeros(len(shift), dtype=int)
        going = np.flatnonzero(square > _DONE**2 * energy)
        for _ in range(_STEPS):
            if not len(going):
                break
            p = step[:, going]
            moved = self._rotated @ p + shift[going] * p
            length = square[going] / (p * moved).sum(axis=0)
            x[:, going] += length * p
            left[:, going] -= length * moved
            z = scale[:, going] * left[:, going]
            new = (left[:, going] * z).sum(axis=0)
            step[:, going] = z + new / square[going] * p
            square[going] = new
            better = going[new < best_square[going]]
            since[going] += 1
            since[going[new < 0.25 * best_square[going]]] = 0
            best[:, better], best_square[better] = x[:, better], square[better]
            going = going[(new > _DONE**2 * energy[going]) & (since[going] < _PATIENCE)]
        return best if (best_square <= _FAILED**2 * energy).all() else None


class Spectrum:
    """Systems with a covariance, and its eigenvalues, computed when first used."""

    def __init__(self, cov: Array) -> None:
        self.cov = cov

    @functools.cached_property
    def systems(self) -> Tridiagonal | Eigenbasis:
        """Systems with the covariance."""
        return (Eigenbasis if is_accelerated(len(self.cov)) else Tridiagonal).of(self.cov)

    @functools.cached_property
    def values(self) -> Array:
        """The eigenvalues, ascending."""
        return self.systems.eigenvalues()


class FoldSystems:
    """Systems with the covariances without each fold; what was computed for one serves later ones.

    Parameters
    ----------
    whole : Spectrum
        Of the covariance of all rows.
    rows : int
        Their number.
    """

    def __init__(self, whole: Spectrum, rows: int) -> None:
        size = len(whole.cov)
        self._whole = whole
        self._near = is_accelerated(size) and rows >= _NEAR_ROWS * size
        self._known: dict[int, Systems] = {}

    def without(self, fold: int, cov: Array) -> Systems:
        """Systems with ``cov``, the covariance of the rows outside the fold."""
        found = self._known.get(fold)
        if found is not None:
            return found
        whole = self._whole.systems if self._near else None
        if isinstance(whole, Eigenbasis):
            found = NearbySystems(whole, cov)
        else:
            found = (Eigenbasis if is_accelerated(len(cov)) else Tridiagonal).of(cov)
        if len(cov) <= _MOST_REDUCED:
            self._known[fold] = found
        return found
