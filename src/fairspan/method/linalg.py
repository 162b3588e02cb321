"""Linear algebra on numpy arrays, conversions between arrays and torch tensors, and an integer hash."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import lapack

from fairspan.exceptions import NumericalWarning, warn_user

Array = NDArray[np.float64]

# Rounding makes a Cholesky pivot smaller by at most about eps * trace, so start with a jitter of that size.
_JITTER_START = 10.0 * np.finfo(np.float64).eps
_JITTER_STOP = 1e-6


# The torch device for products and eigendecompositions of large matrices; None: the processor.
_device: ContextVar[Any] = ContextVar("device", default=None)
# Columns from which a matrix is sent there.
_WORTH_SENDING = 512


@contextmanager
def accelerated(device: Any) -> Iterator[None]:
    """Compute products and eigendecompositions of large matrices on a GPU, if the device is one.

    Only for devices that are fast in float64. ``device`` is that of the rows; None means no change.
    """
    if device is None:
        yield
        return
    import torch  # a device was given, so torch is installed

    from fairspan.method.torch_columns import fast_float64  # late: it imports this module

    is_gpu = torch.device(device).type == "cuda"
    token = _device.set(device if is_gpu and fast_float64(device) else None)
    try:
        yield
    finally:
        _device.reset(token)


def is_accelerated(size: int) -> bool:
    """Whether matrices of so many columns are sent to a device."""
    return size >= _WORTH_SENDING and _device.get() is not None


def congruence(matrix: Array, basis: Array) -> Array:
    """Compute ``basis' matrix basis`` of a symmetric matrix."""
    if not is_accelerated(len(matrix)):
        return np.asarray(basis.T @ (matrix @ basis))
    W = to_home(basis, _device.get())
    return np.asarray((W.T @ (to_home(matrix, _device.get()) @ W)).cpu().numpy())


def psd_eigh(matrix: Array) -> tuple[Array, Array]:
    """Compute the eigenvalues, in descending order, and eigenvectors of a symmetric matrix."""
    if is_accelerated(len(matrix)):
        import torch

        found = torch.linalg.eigh(to_home(matrix, _device.get()))
        values, vectors = (part.cpu().numpy() for part in found)
    else:
        values, vectors = scipy.linalg.eigh(matrix, driver="evd", check_finite=False)
    return values[::-1].copy(), vectors[:, ::-1].copy()


def cholesky_factor(matrix: Array, name: str) -> tuple[Array, float]:
    """Compute the lower Cholesky factor of a matrix, and the jitter added to its diagonal (usually 0.0).

    Jitter is added, with a warning, if the matrix is not positive definite in floating point. ``name``
    is the name of the matrix in messages.
    """
    scale = float(np.trace(matrix)) / len(matrix)
    jitter = 0.0
    while True:
        shifted = matrix if jitter == 0.0 else matrix + jitter * np.eye(len(matrix))
        try:
            # The matrix is symmetric, and its transpose has LAPACK's memory order, which saves a copy.
            factor = scipy.linalg.cholesky(shifted.T, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            jitter = max(_JITTER_START * scale, 10.0 * jitter)
            if not np.isfinite(jitter) or jitter > _JITTER_STOP * scale or scale <= 0.0:
                raise ValueError(
                    f"{name} is not positive definite (mean diagonal {scale:.3g}) and stays so "
                    f"after adding {jitter:.3g}. Raise `alpha` or `eta`, or check X for extreme "
                    f"values."
                ) from None
            continue
        if jitter > 0.0:
            warn_user(
                f"{name} was not positive definite in floating point; added {jitter:.3g} to its "
                f"diagonal ({jitter / scale:.1g} of its mean). Raise `alpha` or `eta` to avoid it.",
                NumericalWarning,
            )
        return factor, jitter


def mirror_upper(matrix: Array, size: int = 256) -> None:
    """Copy the upper triangle to the lower one, in place, in tiles that fit in the processor's cache."""
    for start in range(0, len(matrix), size):
        stop = start + size
        tile = matrix[start:stop, start:stop]
        tile[...] = np.triu(tile) + np.triu(tile, 1).T
        for left in range(stop, len(matrix), size):
            matrix[left : left + size, start:stop] = matrix[start:stop, left : left + size].T


def orthonormal_columns(columns: Array) -> Array:
    """Compute an orthonormal basis of the column span; drop singular values below 1e-10 of the largest."""
    if columns.shape[1] == 0:
        return columns
    left, singular, _ = scipy.linalg.svd(columns, full_matrices=False, check_finite=False)
    if singular[0] == 0.0:
        return np.asarray(left[:, :0])
    return np.ascontiguousarray(left[:, singular > 1e-10 * singular[0]])


@dataclass(frozen=True)
class Tridiagonal:
    """Tridiagonal form ``M = Q T Q'`` of a symmetric matrix, for many systems ``(M + eta I) x = b``.

    The reduction costs 2.5 times less than an eigendecomposition and serves every ridge of a grid: each
    system then takes O(D), and the eigenvalues (for degrees of freedom) need only T.
    """

    diagonal: Array  # of T, (D,)
    off_diagonal: Array  # of T, (D - 1,)
    _reflectors: Array  # Q as Householder vectors
    _tau: Array  # and their factors

    @classmethod
    def of(cls, matrix: Array) -> Tridiagonal:
        """Reduce a symmetric matrix; only its lower triangle is used."""
        size = len(matrix)
        if size == 1:
            return cls(matrix[0].copy(), np.empty(0), np.empty((0, 0)), np.empty(0))
        reflectors, diagonal, off_diagonal, tau, info = lapack.dsytrd(
            matrix, lower=1, lwork=64 * size
        )
        if info != 0:  # pragma: no cover - only for invalid arguments
            raise ValueError(f"LAPACK dsytrd failed with info={info}")
        # dsytrd returns Q as Householder vectors below the subdiagonal, as a QR of rows 1..D-1 does.
        return cls(diagonal, off_diagonal, np.asfortranarray(reflectors[1:, :-1]), tau)

    def eigenvalues(self) -> Array:
        """Compute the eigenvalues of a covariance M, ascending; negative rounding errors are set to zero."""
        if len(self.diagonal) == 1:
            return np.maximum(self.diagonal, 0.0)
        values = scipy.linalg.eigvalsh_tridiagonal(
            self.diagonal, self.off_diagonal, check_finite=False
        )
        return np.asarray(np.maximum(values, 0.0))

    def rotate(self, columns: Array) -> Array:
        """Compute ``Q' B``: right-hand sides in the coordinates of T."""
        return self._apply(columns, "T")

    def rotate_back(self, columns: Array) -> Array:
        """Compute ``Q B``: from the coordinates of T to the original ones."""
        return self._apply(columns, "N")

    def solve_rotated(self, rotated: Array, eta: float) -> Array:
        """Compute ``(T + eta I)^-1 B`` for right-hand sides in the coordinates of T."""
        if len(self.diagonal) == 1:
            return np.asarray(rotated / (self.diagonal + eta), dtype=np.float64)
        _, _, solution, info = lapack.dptsv(self.diagonal + eta, self.off_diagonal, rotated)
        if info != 0:
            # eta is below rounding and a pivot is negative: use a solver for indefinite systems.
            bands = np.zeros((3, len(self.diagonal)))
            bands[0, 1:] = self.off_diagonal
            bands[1] = self.diagonal + eta
            bands[2, :-1] = self.off_diagonal
            solution = scipy.linalg.solve_banded((1, 1), bands, rotated, check_finite=False)
        return np.asarray(solution, dtype=np.float64)

    def solve_all(self, rotated: Array, etas: Array) -> Array:
        """Solutions for every eta, side by side, (D, etas * columns)."""
        return np.concatenate([self.solve_rotated(rotated, float(eta)) for eta in etas], axis=1)

    def _apply(self, columns: Array, trans: str) -> Array:
        if len(self.diagonal) == 1:
            return columns
        out = np.array(columns, dtype=np.float64, order="F")
        tail = np.asfortranarray(out[1:])
        product, _, info = lapack.dormqr(
            "L", trans, self._reflectors, self._tau, tail, lwork=64 * max(1, tail.shape[1])
        )
        if info != 0:  # pragma: no cover - only for invalid arguments
            raise ValueError(f"LAPACK dormqr failed with info={info}")
        out[1:] = product
        return out


def is_tensor(obj: object) -> bool:
    """Return whether the object is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor)


def to_numpy(obj: Any) -> Any:
    """Convert a tensor to a numpy array; return any other object unchanged."""
    return obj.detach().cpu().numpy() if is_tensor(obj) else obj


def to_float64(tensor: Any) -> Any:
    """Convert a tensor of any precision to a new float64 array."""
    return np.array(tensor.detach().cpu().numpy(), dtype=np.float64)


def home_of(X: Any) -> Any:
    """Return the device for the float64 numbers and codes that belong to rows X; None if X is an array.

    This is the device of X, or the CPU if X is on an Apple GPU ("mps"), which has no float64.
    """
    if not is_tensor(X):
        return None
    return X.device if X.device.type != "mps" else "cpu"


def to_home(values: Any, home: Any) -> Any:
    """Convert an array or tensor to a tensor on the device ``home``; return it unchanged if that is None."""
    if home is None:
        return values
    import torch  # a tensor was passed, so torch is installed

    if isinstance(values, np.ndarray) and not values.flags.writeable:
        values = values.copy()  # torch would share the memory and warn that it is read-only
    return torch.as_tensor(values, device=home)


def row_numbers(X: Any) -> Any:
    """Return 0, 1, ..., n - 1 for the n rows of X: an array, or a tensor on the device of :func:`home_of`."""
    if not is_tensor(X):
        return np.arange(len(X), dtype=np.int64)
    import torch  # a tensor was passed, so torch is installed

    return torch.arange(len(X), device=home_of(X))


def take(values: Any, rows: Any) -> Any:
    """Select rows of an array or a tensor, by indices, a mask (either kind) or a slice."""
    if not is_tensor(values):
        return values[to_numpy(rows)]
    return values[rows if isinstance(rows, slice) else to_home(rows, values.device)]


# Constants of SplitMix64 (Steele, Lea, Flood 2014) in two's complement.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64


def mix(integers: Any, seed: int = 0) -> Any:
    """Hash an array or a tensor of 64-bit integers to values from 0 to 2^63 - 1 (SplitMix64).

    A hash depends only on the integer and the seed. So folds and samples do not depend on how rows are
    divided into blocks, nor on the device.
    """
    z = integers + (((seed + 1) * _GOLDEN + 2**63) % 2**64 - 2**63)  # as a signed integer
    z = (z ^ _shift(z, 30)) * _FIRST
    z = (z ^ _shift(z, 27)) * _SECOND
    return (z ^ _shift(z, 31)) & (2**63 - 1)


def _shift(z: Any, bits: int) -> Any:
    """Shift bits to the right and fill with zeros; ``>>`` of signed integers fills with the sign."""
    return (z >> bits) & (2 ** (64 - bits) - 1)
