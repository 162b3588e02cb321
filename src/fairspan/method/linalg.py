"""Linear algebra on arrays, and conversions between numpy arrays and torch tensors."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import lapack

from fairspan.exceptions import NumericalWarning, warn_user

__all__ = [
    "Array",
    "Tridiagonal",
    "cholesky_factor",
    "home_of",
    "is_tensor",
    "mix",
    "orthonormal_columns",
    "psd_eigh",
    "take",
    "to_float64",
    "to_home",
    "to_numpy",
]

Array = NDArray[np.float64]


# A Cholesky pivot lost to rounding is at most about D * eps * trace / D; start there.
_JITTER_START = 10.0 * np.finfo(np.float64).eps
_JITTER_STOP = 1e-6


def psd_eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues (descending) and eigenvectors of a symmetric matrix."""
    values, vectors = scipy.linalg.eigh(matrix, driver="evd", check_finite=False)
    return values[::-1].copy(), vectors[:, ::-1].copy()


def cholesky_factor(matrix: Array, what: str) -> tuple[Array, float]:
    """Lower factor of a positive definite matrix, and the jitter it needed (0.0 as a rule).

    ``what`` names the matrix in the warning: a rescue is never silent.
    """
    scale = float(np.trace(matrix)) / len(matrix)
    jitter = 0.0
    while True:
        shifted = matrix if jitter == 0.0 else matrix + jitter * np.eye(len(matrix))
        try:
            # Symmetric, and LAPACK's order: the transpose needs no copy by columns.
            factor = scipy.linalg.cholesky(shifted.T, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            jitter = max(_JITTER_START * scale, 10.0 * jitter)
            if not np.isfinite(jitter) or jitter > _JITTER_STOP * scale or scale <= 0.0:
                msg = (
                    f"{what} is not positive definite (mean diagonal {scale:.3g}) and stays so "
                    f"after adding {jitter:.3g}. Raise `alpha` or `eta`, or check X for extreme "
                    f"values."
                )
                raise ValueError(msg) from None
            continue
        if jitter > 0.0:
            warn_user(
                f"{what} was not positive definite in floating point; added {jitter:.3g} to its "
                f"diagonal ({jitter / scale:.1g} of its mean). Raise `alpha` or `eta` to avoid it.",
                NumericalWarning,
            )
        return factor, jitter


def mirror_upper(matrix: Array, size: int = 256) -> None:
    """Write the upper triangle onto the lower one, in place, by tiles that stay in cache."""
    for start in range(0, len(matrix), size):
        stop = start + size
        tile = matrix[start:stop, start:stop]
        tile[...] = np.triu(tile) + np.triu(tile, 1).T
        for left in range(stop, len(matrix), size):
            matrix[left : left + size, start:stop] = matrix[start:stop, left : left + size].T


def orthonormal_columns(columns: Array, tol: float = 1e-10) -> Array:
    """Orthonormal basis of the column span; singular values below ``tol`` of the largest are cut."""
    if columns.shape[1] == 0:
        return columns
    left, singular, _ = scipy.linalg.svd(columns, full_matrices=False, check_finite=False)
    if singular[0] == 0.0:
        return np.asarray(left[:, :0])
    return np.ascontiguousarray(left[:, singular > tol * singular[0]])


@dataclass(frozen=True)
class Tridiagonal:
    """``M = Q T Q'`` with T tridiagonal: every shifted system ``(M + eta I) x = b`` in O(D).

    One reduction costs 2.5 times less than the eigendecomposition and serves every ridge of a
    grid: the solves below are tridiagonal, and the eigenvalues (for degrees of freedom) come from
    T alone.
    """

    diagonal: Array
    off_diagonal: Array
    _reflectors: Array
    _tau: Array

    @classmethod
    def of(cls, matrix: Array) -> Tridiagonal:
        """Reduce a symmetric matrix (its lower triangle is read)."""
        size = len(matrix)
        if size == 1:
            return cls(matrix[0].copy(), np.empty(0), np.empty((0, 0)), np.empty(0))
        reflectors, diagonal, off_diagonal, tau, info = lapack.dsytrd(
            matrix, lower=1, lwork=64 * size
        )
        if info != 0:  # pragma: no cover - of arguments it cannot take, which we do not give
            msg = f"LAPACK dsytrd failed with info={info}"
            raise ValueError(msg)
        # dsytrd keeps Q as Householder vectors below the subdiagonal: those of a QR on rows 1..D-1.
        return cls(diagonal, off_diagonal, np.asfortranarray(reflectors[1:, :-1]), tau)

    def eigenvalues(self) -> Array:
        """Eigenvalues of M, ascending; negative rounding is set to zero (M is a covariance)."""
        if len(self.diagonal) == 1:
            return np.maximum(self.diagonal, 0.0)
        values = scipy.linalg.eigvalsh_tridiagonal(
            self.diagonal, self.off_diagonal, check_finite=False
        )
        return np.asarray(np.maximum(values, 0.0))

    def rotate(self, columns: Array) -> Array:
        """``Q' B``: the right-hand sides in the coordinates of T."""
        return self._apply(columns, "T")

    def rotate_back(self, columns: Array) -> Array:
        """``Q B``: from the coordinates of T to the original ones."""
        return self._apply(columns, "N")

    def solve_rotated(self, rotated: Array, eta: float) -> Array:
        """``(T + eta I)^-1 B`` for right-hand sides already in the coordinates of T."""
        if len(self.diagonal) == 1:
            return np.asarray(rotated / (self.diagonal + eta), dtype=np.float64)
        _, _, solution, info = lapack.dptsv(self.diagonal + eta, self.off_diagonal, rotated)
        if info != 0:
            # The shift is below rounding: a pivot came out negative. Indefinite solver, same system.
            bands = np.zeros((3, len(self.diagonal)))
            bands[0, 1:] = self.off_diagonal
            bands[1] = self.diagonal + eta
            bands[2, :-1] = self.off_diagonal
            solution = scipy.linalg.solve_banded((1, 1), bands, rotated, check_finite=False)
        return np.asarray(solution, dtype=np.float64)

    def _apply(self, columns: Array, trans: str) -> Array:
        if len(self.diagonal) == 1:
            return columns
        out = np.array(columns, dtype=np.float64, order="F")
        tail = np.asfortranarray(out[1:])
        product, _, info = lapack.dormqr(
            "L", trans, self._reflectors, self._tau, tail, lwork=64 * max(1, tail.shape[1])
        )
        if info != 0:  # pragma: no cover - of arguments it cannot take, which we do not give
            msg = f"LAPACK dormqr failed with info={info}"
            raise ValueError(msg)
        out[1:] = product
        return out


# Steele, Lea, Flood (2014): the finaliser of SplitMix64, in two's complement.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64


def is_tensor(obj: Any) -> bool:
    """Is it a torch tensor? torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor)


def to_numpy(obj: Any) -> Any:
    """Tensors as arrays in host memory; everything else as it is."""
    return obj.detach().cpu().numpy() if is_tensor(obj) else obj


def to_float64(tensor: Any) -> Any:
    """A float64 array of its own, whatever the tensor computes in."""
    return np.array(tensor.detach().cpu().numpy(), dtype=np.float64)


def home_of(X: Any) -> Any:
    """The device on which the float64 numbers and codes beside a tensor live; None for arrays.

    Its own, but for Apple's, which have no float64: beside those the processor keeps them.
    """
    if not is_tensor(X):
        return None
    return X.device if X.device.type != "mps" else "cpu"


def to_home(values: Any, home: Any) -> Any:
    """Array or tensor as a tensor at home; as it is where there are no tensors (None)."""
    if home is None:
        return values
    import torch  # there is a tensor, so it is installed

    if isinstance(values, np.ndarray) and not values.flags.writeable:
        values = values.copy()  # torch would share the memory, and warns of what could come of it
    return torch.as_tensor(values, device=home)


def take(values: Any, rows: Any) -> Any:
    """Rows of an array or a tensor, by numbers or mask in an array or a tensor."""
    if not is_tensor(values):
        return values[to_numpy(rows)]
    return values[rows if isinstance(rows, slice) else to_home(rows, values.device)]


def mix(places: Any, seed: int = 0) -> Any:
    """A hash of 64-bit integers with values from 0 to 2^63 - 1, for arrays and tensors alike.

    It depends on nothing but the integer and the seed, so that folds and samples are the same however
    rows are cut into blocks, and wherever they are computed.
    """
    z = places + (((seed + 1) * _GOLDEN + 2**63) % 2**64 - 2**63)  # as a signed number
    z = (z ^ _shift(z, 30)) * _FIRST
    z = (z ^ _shift(z, 27)) * _SECOND
    return (z ^ _shift(z, 31)) & (2**63 - 1)


def _shift(z: Any, bits: int) -> Any:
    """Logical shift to the right, which signed integers do not have."""
    return (z >> bits) & (2 ** (64 - bits) - 1)
