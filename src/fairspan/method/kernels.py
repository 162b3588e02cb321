"""Kernel functions, by name or given by the user, and the width of those that have one (METHOD 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
import scipy.spatial.distance
from sklearn.metrics.pairwise import kernel_metrics, pairwise_kernels

from fairspan.method.linalg import Array
from fairspan.method.sparse_rows import inner_products, is_sparse, squared_lengths

# Kernels exp(-gamma * distance): gamma="cv" and gamma="median" set them by a width.
WIDTH_KERNELS = ("rbf", "laplacian")
# Kernels with a parameter gamma.
GAMMA_KERNELS = (*WIDTH_KERNELS, "poly", "polynomial", "sigmoid", "chi2")

# Prior standard deviation of each standardised slope of a linear trend, relative to the kernel's.
TREND_SCALE = 10.0
# The rounding of exponents from here up to 0 is below 1e-11.
_FAR_EXPONENT = -1e3
# A tile of exponents with this many rows stays in the processor's cache.
_TILE_ROWS = 32


def kernel_names() -> list[str]:
    """Return the names that ``kernel=`` accepts."""
    return sorted({*kernel_metrics(), "precomputed"})


@dataclass(frozen=True)
class Kernel:
    """A kernel function with its parameters: ``kernel(X, Z)`` is the kernel matrix."""

    name: str  # one of :func:`kernel_names`, or the name of the user's function
    params: dict[str, Any] = field(default_factory=dict)  # parameters of the kernel, such as gamma
    _: KW_ONLY
    function: Callable[..., Any] | None = None  # the user's function
    rowwise: bool = False  # whether that function takes two rows (True) or two matrices (False)
    # centre, slope: (p,): a linear trend: the kernel of the features ``(x - centre) * slope`` is
    # added. In a Gaussian process this is a linear mean function with Gaussian slopes.
    centre: Array | None = None
    slope: Array | None = None

    def __call__(self, X: Array, Z: Array) -> Array:
        """Compute the kernel matrix of n and m rows, of shape (n, m)."""
        gram = self._without_trend(X, Z)
        return gram if self.slope is None else gram + self._trend(X) @ self._trend(Z).T

    def _trend(self, X: Array) -> Array:
        assert self.centre is not None
        assert self.slope is not None
        return np.asarray((X - self.centre) * self.slope)

    def trend_diagonal(self, X: Array) -> Array:
        """Compute the trend's part of ``kappa(x, x)``, of shape (n,)."""
        return np.zeros(len(X)) if self.slope is None else (self._trend(X) ** 2).sum(axis=1)

    @property
    def trend_decades(self) -> float:
        """Powers of ten by which the trend raises the trace of the covariance (0 without a trend)."""
        return (
            0.0 if self.slope is None else float(np.log10(1.0 + TREND_SCALE**2 * len(self.slope)))
        )

    def with_trend(self, X: Array) -> Kernel:
        """Return the kernel plus a linear trend whose slopes have a nearly flat prior."""
        # Use the range too: the standard deviation of a constant column may be rounding error.
        spread = X.std(axis=0)
        varies = (np.ptp(X, axis=0) > 0.0) & (spread > np.finfo(np.float64).tiny * 1e3)
        slope = np.divide(TREND_SCALE, spread, out=np.zeros_like(spread), where=varies)
        return replace(self, centre=X.mean(axis=0), slope=slope)

    def _without_trend(self, X: Array, Z: Array) -> Array:
        if self.function is not None:
            if self.rowwise:
                gram = pairwise_kernels(X, Z, metric=self._entry)
            else:
                gram = _numbers(self.function(X, Z, **self.params))
            return self._checked(gram, (len(X), len(Z)), f"matrices of {len(X)} and {len(Z)} rows")
        if is_sparse(X) or is_sparse(Z):
            assert self.name == "linear"  # other kernels do not take sparse rows
            return inner_products(X, Z)
        if self.name == "rbf":
            return RbfColumns(Z, self.params["gamma"])(X, np.empty((len(X), len(Z))))
        with np.errstate(over="ignore", invalid="ignore"):  # callers check the values
            gram = pairwise_kernels(X, Z, metric=self.name, filter_params=True, **self.params)
        return np.asarray(gram, dtype=np.float64)

    def _entry(self, x: Array, z: Array) -> float:
        """Compute one entry of the kernel matrix with the user's function of two rows."""
        assert self.function is not None
        value = _numbers(self.function(x, z, **self.params))
        return float(self._checked(value, (), "two rows"))

    def _checked(self, values: Array | None, shape: tuple[int, ...], of: str) -> Array:
        """Return the result of the user's function; raise unless it has this shape and is finite."""
        if values is None or values.shape != shape:
            needed = f"an array of shape {shape}" if shape else "one number"
            raise ValueError(
                f"The kernel {self.name!r} must return {needed} for {of}; it returned "
                f"{_described(values)}."
            )
        if not np.isfinite(values).all():
            raise ValueError(
                f"The kernel {self.name!r} returned {int((~np.isfinite(values)).sum())} values that "
                f"are not finite (NaN or infinity), of {values.size} for {of}. It must return finite "
                f"numbers; check its parameters and the scale of X."
            )
        return values

    def diagonal(self, X: Array) -> Array:
        """Compute ``kappa(x, x)`` of every row, of shape (n,)."""
        if self.function is None and self.name in (*WIDTH_KERNELS, "cosine", "chi2"):
            return np.ones(len(X)) + self.trend_diagonal(X)
        if self.function is None and self.name == "linear" and self.slope is None:
            return squared_lengths(X)
        return np.array([self(row[None], row[None])[0, 0] for row in X], dtype=np.float64)

    @classmethod
    def from_callable(
        cls, function: Callable[..., Any], params: dict[str, Any], X: Array
    ) -> Kernel:
        """Wrap a user's function of two matrices, ``f(X, Z) -> (n, m)``, or of two rows, ``-> float``.

        Both forms are tried on a few rows, because scikit-learn uses both: SVC passes matrices,
        KernelRidge passes rows.
        """
        rows = X[: min(len(X), 3)]
        probe = np.concatenate([rows, rows])[:4]
        failure = None
        try:
            gram = _numbers(function(rows, probe, **params))
        except Exception as error:  # a function of two rows may raise anything on matrices
            gram, failure = None, error
        name = getattr(function, "__name__", type(function).__name__)
        if gram is not None and gram.shape == (len(rows), len(probe)):
            return cls(name, params, function=function)
        try:
            value = _numbers(function(rows[0], rows[-1], **params))
        except Exception:  # and a function of two matrices on rows
            if failure is not None:
                raise
            value = None
        if value is not None and value.ndim == 0:
            return cls(name, params, function=function, rowwise=True)
        raise ValueError(
            f"The kernel {name!r} must return an array of shape ({len(rows)}, {len(probe)}) for "
            f"matrices of {len(rows)} and {len(probe)} rows, or one number for two rows. It returned "
            f"{_described(gram)} for the matrices and {_described(value)} for two rows."
        )


def _numbers(values: object) -> Array | None:
    """Convert the result of a user's function to float64; None if it is not an array of numbers."""
    try:
        return np.asarray(values, dtype=np.float64) if values is not None else None
    except (TypeError, ValueError):
        return None


def _described(values: Array | None) -> str:
    return "no numbers" if values is None else f"shape {values.shape}"


class RbfColumns:
    """The RBF kernel ``exp(-gamma |x - z|^2)`` with fixed landmarks z.

    The exponent ``2 gamma x'z - gamma |x|^2 - gamma |z|^2`` is one matrix product. Subtracting the
    landmarks' median first keeps it exact for features with a large offset. ``width`` is the number of
    columns of the array written to: filling whole rows is a third faster than parts of them.
    """

    def __init__(self, Z: Array, gamma: float, width: int | None = None) -> None:
        self._gamma = gamma
        # The median, because one extreme row would move the mean away from all others.
        self._origin = np.median(Z, axis=0)
        centred = Z - self._origin
        m = len(Z)
        self._right = np.zeros((Z.shape[1] + 2, width or m))
        np.multiply(centred.T, 2.0 * gamma, out=self._right[:-2, :m])
        self._right[-2, :m] = 1.0
        self._right[-1, :m] = -gamma * np.einsum("ij,ij->i", centred, centred)
        self._tile = np.empty((_TILE_ROWS, self._right.shape[1]))
        self._farthest = float(self._right[-1].min(initial=0.0))

    def __call__(self, X: Array, out: Array) -> Array:
        """Write the kernel columns of the rows of X into ``out``; columns without a landmark become 1."""
        gram = out[: len(X)]
        left = np.empty((len(X), X.shape[1] + 2))
        np.subtract(X, self._origin, out=left[:, :-2])
        left[:, -2] = -self._gamma * np.einsum("ij,ij->i", left[:, :-2], left[:, :-2])
        left[:, -1] = 1.0
        # Rounding can raise the exponents of far rows above 0. For near rows it cannot matter, so skip
        # the check, which costs time.
        far = left[:, -2].min(initial=0.0) + self._farthest < _FAR_EXPONENT
        for start in range(0, len(X), _TILE_ROWS):
            rows = slice(start, start + _TILE_ROWS)
            exponent = np.matmul(left[rows], self._right, out=self._tile[: len(left[rows])])
            if far:
                np.minimum(exponent, 0.0, out=exponent)
            np.exp(exponent, out=gram[rows])
        return gram


def median_distance(X: Array, kernel: str) -> float:
    """Compute the median distance between distinct rows: L1 for laplacian, otherwise Euclidean."""
    metric = "cityblock" if kernel == "laplacian" else "euclidean"
    distances = scipy.spatial.distance.pdist(X, metric=metric)
    positive = distances[distances > 0.0]
    # Equal rows carry no information on the width. If all rows are equal, any width is the same.
    return float(np.median(positive)) if len(positive) else 1.0


def width_to_gamma(width: float, kernel: str) -> float:
    """Convert a width to gamma: ``exp(-|x-z|_1/width)`` for laplacian, else ``exp(-|x-z|^2/width^2)``."""
    return 1.0 / width if kernel == "laplacian" else 1.0 / width**2
