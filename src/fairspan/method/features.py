"""Feature coordinates: ``kappa(x, z) ~= psi(x).psi(z)`` (METHOD 1).

A kernel model is linear in psi, so everything downstream sees D coordinates and never an n x n
matrix. ``columns`` are what moments accumulate: raw kernel columns where whitening can wait until
after the pass (Nystrom), psi itself where it cannot (all rows as landmarks, user transformers).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.spatial.distance
from numpy.typing import NDArray
from sklearn.metrics.pairwise import kernel_metrics, pairwise_kernels

from fairspan.method.data import Codes
from fairspan.method.linalg import Array, is_tensor, psd_eigh, to_float64, to_home
from fairspan.method.torch_columns import (
    DeviceColumns,
    compute_dtype,
    exact_float32,
    refuse_on_device,
    row_blocks,
)

__all__ = [
    "GAMMA_KERNELS",
    "WIDTH_KERNELS",
    "Kernel",
    "LandmarkMap",
    "TransformerMap",
    "kernel_names",
    "median_distance",
    "pivoted_cholesky_landmarks",
    "stratified_landmarks",
    "width_to_gamma",
]

# Kernels exp(-gamma * distance): the automatic choices of gamma are multiples of a width.
WIDTH_KERNELS = ("rbf", "laplacian")
# Kernels that read gamma at all.
GAMMA_KERNELS = (*WIDTH_KERNELS, "poly", "polynomial", "sigmoid", "chi2")

NYSTROM_TOL = 1e-8
# Prior standard deviation of each standardised slope of a trend, in units of the kernel's own.
TREND_SCALE = 10.0
_BLOCK_BYTES = 32 * 2**20
# Exponents up to here are rounded by less than 1e-11.
_FAR = -1e3
# BLAS multiplies one or two rows by another route, with another rounding, which the whitening of
# nearly dependent landmarks would raise above 1e-10: tiny blocks are filled up with copies.
_MIN_BLOCK_ROWS = 8
# Exponents of so many rows stay in cache until the exponential.
_TILE_ROWS = 32


def kernel_names() -> list[str]:
    """Every kernel that can be asked for by name."""
    return sorted({*kernel_metrics(), "precomputed"})


@dataclass(frozen=True)
class Kernel:
    """A kernel function with its parameters: ``kernel(X, Z)`` is the Gram matrix."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    function: Callable[..., Any] | None = None
    rowwise: bool = False
    # Features (x - centre) * slope on top: the linear mean of a Gaussian process.
    centre: Array | None = None
    slope: Array | None = None

    def __call__(self, X: Array, Z: Array) -> Array:
        """Gram matrix (n, m)."""
        gram = self._base(X, Z)
        return gram if self.slope is None else gram + self._trend(X) @ self._trend(Z).T

    def _trend(self, X: Array) -> Array:
        assert self.centre is not None
        assert self.slope is not None
        return np.asarray((X - self.centre) * self.slope)

    def trend_diagonal(self, X: Array) -> Array:
        """The trend's part of ``kappa(x, x)``."""
        return np.zeros(len(X)) if self.slope is None else (self._trend(X) ** 2).sum(axis=1)

    @property
    def trend_decades(self) -> float:
        """Decades by which the trend lifts the total variance above the kernel's own."""
        return (
            0.0 if self.slope is None else float(np.log10(1.0 + TREND_SCALE**2 * len(self.slope)))
        )

    def with_trend(self, X: Array) -> Kernel:
        """The kernel plus a linear one whose slopes have a next to flat prior."""
        # By range: the standard deviation of a constant may be rounding.
        spread = X.std(axis=0)
        varies = (np.ptp(X, axis=0) > 0.0) & (spread > np.finfo(np.float64).tiny * 1e3)
        slope = np.divide(TREND_SCALE, spread, out=np.zeros_like(spread), where=varies)
        return replace(self, centre=X.mean(axis=0), slope=slope)

    def _base(self, X: Array, Z: Array) -> Array:
        if self.function is not None:
            if self.rowwise:
                gram = pairwise_kernels(X, Z, metric=self._entry)
            else:
                gram = _numbers(self.function(X, Z, **self.params))
            return self._checked(gram, (len(X), len(Z)), f"matrices of {len(X)} and {len(Z)} rows")
        if self.name == "rbf":
            return RbfColumns(Z, self.params["gamma"])(X, np.empty((len(X), len(Z))))
        with np.errstate(over="ignore", invalid="ignore"):  # who asks looks at what came out
            gram = pairwise_kernels(X, Z, metric=self.name, filter_params=True, **self.params)
        return np.asarray(gram, dtype=np.float64)

    def _entry(self, x: Array, z: Array) -> float:
        """One entry of the kernel matrix, from a user's function of two rows."""
        assert self.function is not None
        value = _numbers(self.function(x, z, **self.params))
        return float(self._checked(value, (), "two rows"))

    def _checked(self, values: Array | None, shape: tuple[int, ...], of: str) -> Array:
        """The result of a user's function; raise unless it has this shape and is finite."""
        if values is None or values.shape != shape:
            needed = f"an array of shape {shape}" if shape else "one number"
            msg = (
                f"The kernel {self.name!r} must return {needed} for {of}; it returned "
                f"{_described(values)}."
            )
            raise ValueError(msg)
        if not np.isfinite(values).all():
            msg = (
                f"The kernel {self.name!r} returned {int((~np.isfinite(values)).sum())} values that "
                f"are not finite (NaN or infinity), of {values.size} for {of}. It must return finite "
                f"numbers; check its parameters and the scale of X."
            )
            raise ValueError(msg)
        return values

    def diagonal(self, X: Array) -> Array:
        """``kappa(x, x)`` row by row."""
        if self.function is None and self.name in (*WIDTH_KERNELS, "cosine", "chi2"):
            return np.ones(len(X)) + self.trend_diagonal(X)
        return np.array([self(row[None], row[None])[0, 0] for row in X], dtype=np.float64)

    @classmethod
    def from_callable(
        cls, function: Callable[..., Any], params: dict[str, Any], X: Array
    ) -> Kernel:
        """Wrap a user's callable: matrix form ``f(X, Z) -> (n, m)`` or row form ``f(x, z) -> float``.

        Which one it is is tried on a handful of rows, as scikit-learn's own estimators disagree
        (SVC passes matrices, KernelRidge passes rows).
        """
        rows = X[: min(len(X), 3)]
        probe = np.concatenate([rows, rows])[:4]
        failure = None
        try:
            gram = _numbers(function(rows, probe, **params))
        except Exception as error:  # user code: a row-form callable may raise anything on matrices
            gram, failure = None, error
        name = getattr(function, "__name__", type(function).__name__)
        if gram is not None and gram.shape == (len(rows), len(probe)):
            return cls(name, params, function, rowwise=False)
        try:
            value = _numbers(function(rows[0], rows[-1], **params))
        except Exception:  # likewise: a matrix-form callable on two rows
            if failure is not None:
                raise
            value = None
        if value is not None and value.ndim == 0:
            return cls(name, params, function, rowwise=True)
        msg = (
            f"The kernel {name!r} must return an array of shape ({len(rows)}, {len(probe)}) for "
            f"matrices of {len(rows)} and {len(probe)} rows, or one number for two rows. It returned "
            f"{_described(gram)} for the matrices and {_described(value)} for two rows."
        )
        raise ValueError(msg)


def _numbers(values: Any) -> Array | None:
    """What a user's function returned as float64; None if it is not an array of numbers."""
    try:
        return np.asarray(values, dtype=np.float64) if values is not None else None
    except (TypeError, ValueError):
        return None


def _described(values: Array | None) -> str:
    return "no numbers" if values is None else f"shape {values.shape}"


class RbfColumns:
    """``exp(-gamma |x - z|^2)`` by one matrix product and one exponential, for fixed landmarks.

    Centring at the landmarks' median first keeps the expanded square exact for features with a
    large offset. ``width`` is that of the memory written to: whole rows are a third faster than parts.
    """

    def __init__(self, Z: Array, gamma: float, width: int | None = None) -> None:
        self._gamma = gamma
        # Not the mean: one extreme row must not shift all others.
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
        """Kernel columns of some rows, into the first rows of ``out``; columns beyond them become 1."""
        gram = out[: len(X)]
        left = np.empty((len(X), X.shape[1] + 2))
        np.subtract(X, self._origin, out=left[:, :-2])
        left[:, -2] = -self._gamma * np.einsum("ij,ij->i", left[:, :-2], left[:, :-2])
        left[:, -1] = 1.0
        # The rounding of far rows may be above 0. Of near ones it is too small to see, and looking costs.
        far = left[:, -2].min(initial=0.0) + self._farthest < _FAR
        for start in range(0, len(X), _TILE_ROWS):
            rows = slice(start, start + _TILE_ROWS)
            exponent = np.matmul(left[rows], self._right, out=self._tile[: len(left[rows])])
            if far:
                np.minimum(exponent, 0.0, out=exponent)
            np.exp(exponent, out=gram[rows])
        return gram


def _blocks(n_rows: int, n_columns: int) -> range:
    size = max(256, _BLOCK_BYTES // (8 * max(1, n_columns)))
    return range(0, n_rows, size)


def _tensor_scores(
    features: LandmarkMap | TransformerMap, X: Any, width: int, directions: Array
) -> Array:
    """``columns(x)' directions`` of a tensor, block by block where it lives; few enough to come back."""
    import torch  # there is a tensor, so it is installed

    dtype = compute_dtype(X)
    columns, folded = features.on(X.device, dtype), to_home(directions, "cpu")
    folded = folded.to(X.device, dtype)
    out = torch.empty((len(X), directions.shape[1]), dtype=dtype, device=X.device)
    with exact_float32(dtype):
        for rows in row_blocks(X, width):
            block = X[rows]
            out[rows] = (columns(_filled_up(block)) @ folded)[: len(block)]
    return to_float64(out)  # type: ignore[no-any-return]


def _filled_up(X: Any) -> Any:
    """A tensor of few rows with copies of them, see ``_MIN_BLOCK_ROWS``."""
    if not 0 < len(X) < _MIN_BLOCK_ROWS:
        return X
    return X.repeat(-(-_MIN_BLOCK_ROWS // len(X)), 1)


@dataclass(frozen=True)
class LandmarkMap:
    """``psi(x) = diag(l)^-1/2 U' kappa(z, x)`` for landmarks z with ``K_zz = U diag(l) U'``.

    Attributes
    ----------
    landmarks : rows of X, or for ``kernel="precomputed"`` the column indices, shape (m, 1).
    whitening : (m, rank), ``U diag(l)^-1/2`` on the eigenvalues kept.
    whiten_first : moments accumulate psi (True) or raw kernel columns (False).
    exact : the landmarks are all distinct rows (the paper's own method).
    dropped_mass : share of trace(K_zz) in the eigenvalues cut.
    """

    kernel: Kernel
    landmarks: Array
    whitening: Array
    whiten_first: bool
    exact: bool
    dropped_mass: float

    @classmethod
    def build(
        cls, kernel: Kernel, landmarks: Array, gram: Array | None, *, exact: bool
    ) -> LandmarkMap:
        """Whiten the landmarks' Gram matrix; the rank cut is METHOD 1's."""
        if gram is None:
            gram = kernel(landmarks, landmarks)
        if gram.shape != (len(landmarks), len(landmarks)) or not np.isfinite(gram).all():
            msg = (
                f"The kernel {kernel.name!r} gave a Gram matrix of shape {gram.shape} with "
                f"{int((~np.isfinite(gram)).sum())} values that are not finite; "
                f"({len(landmarks)}, {len(landmarks)}) finite numbers are needed. Check its "
                f"parameters and the scale of X."
            )
            raise ValueError(msg)
        values, vectors = psd_eigh((gram + gram.T) / 2.0)
        # Exact mode keeps everything above rounding (a cut at 1e-10 moves golden predictions by
        # 1e-4); Nystrom moments are whitened after the pass and need the wider margin.
        tol = 10 * len(landmarks) * np.finfo(np.float64).eps if exact else NYSTROM_TOL
        if values[0] <= 0.0:
            msg = f"The kernel {kernel.name!r} is zero or negative on every landmark."
            raise ValueError(msg)
        keep = values > tol * values[0]
        negative = -values[values < -1e-6 * values[0]].sum()
        if negative > 0.0:
            msg = (
                f"The kernel {kernel.name!r} is not positive semidefinite: negative eigenvalues "
                f"make up {negative / np.abs(values).sum():.2g} of its trace norm. Fair kernel "
                f"models need a positive semidefinite kernel (rbf, laplacian, polynomial, ...)."
            )
            raise ValueError(msg)
        whitening = np.ascontiguousarray(vectors[:, keep] / np.sqrt(values[keep]))
        dropped = float(np.maximum(values[~keep], 0.0).sum() / values[keep].sum())
        return cls(kernel, landmarks, whitening, exact, exact, dropped)

    @property
    def trend_decades(self) -> float:
        """See :attr:`Kernel.trend_decades`."""
        return self.kernel.trend_decades

    @property
    def rank(self) -> int:
        """Number of coordinates of psi."""
        return int(self.whitening.shape[1])

    @property
    def pending(self) -> Array | None:
        """What still has to be applied to accumulated columns to get psi; None if nothing."""
        return None if self.whiten_first else self.whitening

    @property
    def n_columns(self) -> int:
        """Number of columns that moments accumulate."""
        return self.rank if self.whiten_first else len(self.landmarks)

    def on(
        self, device: Any, dtype: Any, *, width: int | None = None, whiten: bool | None = None
    ) -> DeviceColumns:
        """What computes :meth:`columns` of tensors on a device.

        ``whiten`` asks for psi (True) or kernel columns (False) whatever the moments accumulate.
        """
        kernel = self.kernel
        if kernel.function is not None:
            refuse_on_device(f"The kernel {kernel.name!r}, a function of yours,")
        trend = None
        if kernel.slope is not None:
            assert kernel.centre is not None
            trend = kernel.centre, kernel.slope
        whiten = self.whiten_first if whiten is None else whiten
        return DeviceColumns(
            kernel.name, kernel.params, self.landmarks, device, dtype, trend=trend, width=width,
            whitening=self.whitening if whiten else None,
        )  # fmt: skip

    def psi_on(self, device: Any, dtype: Any) -> DeviceColumns:
        """What computes :meth:`coordinates` of tensors on a device."""
        return self.on(device, dtype, whiten=True)

    def raw(self, X: Array) -> Array:
        """Kernel columns ``kappa(x, z)``, (n, m)."""
        if is_tensor(X):
            return self._on_tensor(X, whiten=False)  # type: ignore[no-any-return]
        if self.kernel.name == "precomputed":
            return np.ascontiguousarray(X[:, self.landmarks[:, 0].astype(np.intp)])
        out = self.kernel(X, self.landmarks)
        plain = self.kernel.name == "rbf" and self.kernel.function is None  # from 0 to 1
        if not plain and not np.isfinite(out).all():
            msg = (
                f"The kernel {self.kernel.name!r} gave {int((~np.isfinite(out)).sum())} values that are not "
                f"finite between these rows and the landmarks. Check the scale of X, or use a kernel that "
                f"is bounded (rbf, laplacian)."
            )
            raise ValueError(msg)
        return out

    def columns(self, X: Array) -> Array:
        """What moments accumulate for a block of rows."""
        if is_tensor(X):
            return self._on_tensor(X)  # type: ignore[no-any-return]
        n = len(X)
        if 0 < n < _MIN_BLOCK_ROWS and self.kernel.name != "precomputed":
            X = np.resize(X, (_MIN_BLOCK_ROWS, X.shape[1]))
        raw = self.raw(X)
        return (raw @ self.whitening if self.whiten_first else raw)[:n]

    def columns_into(self, out: Array) -> Callable[[Array], Array]:
        """:meth:`columns` of at most ``len(out)`` rows at a time.

        In the first columns of ``out`` where the kernel can, which may be wider and is overwritten.
        """
        plain = self.kernel.name == "rbf" and self.kernel.function is None
        if not plain or self.kernel.slope is not None or self.whiten_first:
            return self.columns
        m = len(self.landmarks)
        fill = RbfColumns(self.landmarks, self.kernel.params["gamma"], out.shape[1])

        def columns(X: Array) -> Array:
            return self.columns(X) if len(X) < _MIN_BLOCK_ROWS else fill(X, out)[:, :m]

        return columns

    def coordinates(self, X: Array) -> Array:
        """psi(x), (n, rank)."""
        if is_tensor(X):
            return self._on_tensor(X, whiten=True)  # type: ignore[no-any-return]
        return self.raw(X) @ self.whitening

    def _on_tensor(self, X: Any, whiten: bool | None = None) -> Any:
        return self.on(X.device, compute_dtype(X), whiten=whiten)(_filled_up(X))[: len(X)]

    def scores(self, X: Array, directions: Array) -> Array:
        """``psi(x)' directions`` block by block, in an array also where X is a tensor.

        Whitening is folded into the directions, which spares its product; but not in exact mode, where
        it would not repeat the rounding of the psi that the moments saw.
        """
        folded = directions if self.whiten_first else self.whitening @ directions
        if is_tensor(X):
            return _tensor_scores(self, X, len(self.landmarks), folded)
        out = np.empty((len(X), directions.shape[1]))
        blocks = _blocks(len(X), len(self.landmarks))
        for start in blocks:
            stop = start + blocks.step
            out[start:stop] = self.columns(X[start:stop]) @ folded
        return out

    def residual(self, X: Array) -> Array:
        """``1 - |psi(x)|^2 / kappa(x, x)``: the share of x the landmarks cannot see.

        What is missing of a kernel with a trend is set against the kernel's own part.
        """
        if self.kernel.name == "precomputed":
            msg = "the diagonal kappa(x, x) of new rows is not part of a precomputed kernel"
            raise ValueError(msg)
        psi = self.coordinates(X)
        diagonal = self.kernel.diagonal(X)
        seen = np.einsum("ij,ij->i", psi, psi)
        own = diagonal - self.kernel.trend_diagonal(X)
        return np.asarray(np.clip((diagonal - seen) / np.where(own > 0.0, own, 1.0), 0.0, 1.0))


@dataclass(frozen=True)
class TransformerMap:
    """``psi(x) = transformer.transform(x)``, or x itself for the linear kernel."""

    transformer: Any
    rank: int
    whiten_first: bool = True
    exact: bool = True
    dropped_mass: float = 0.0
    pending: None = None
    trend_decades: float = 0.0

    @property
    def n_columns(self) -> int:
        """Number of columns that moments accumulate."""
        return self.rank

    def on(self, device: Any, dtype: Any, *, width: int | None = None) -> DeviceColumns:
        """What computes :meth:`columns` of tensors on a device."""
        if self.transformer is not None:
            refuse_on_device(f"feature_map {type(self.transformer).__name__}")
        return DeviceColumns("linear", {}, None, device, dtype, width=width)

    psi_on = on

    def columns(self, X: Array) -> Array:
        """psi(x), always a fresh float64 array (moments overwrite it)."""
        if is_tensor(X):
            tensor: Any = X
            return self.on(tensor.device, compute_dtype(X))(X)  # type: ignore[no-any-return]
        if self.transformer is None:
            return np.array(X, dtype=np.float64, order="C")
        out = self.transformer.transform(X)
        if hasattr(out, "toarray"):
            out = out.toarray()
        psi = np.array(out, dtype=np.float64, order="C")
        if psi.ndim != 2 or psi.shape != (len(X), self.rank) or not np.isfinite(psi).all():
            msg = (
                f"feature_map {type(self.transformer).__name__} gave an array of shape {psi.shape} "
                f"(all finite: {bool(np.isfinite(psi).all())}); ({len(X)}, {self.rank}) finite "
                f"numbers are needed."
            )
            raise ValueError(msg)
        return psi

    coordinates = columns

    def columns_into(self, out: Array) -> Callable[[Array], Array]:  # noqa: ARG002
        """:meth:`columns`; whoever wrote the transformer decides about its memory."""
        return self.columns

    def scores(self, X: Array, directions: Array) -> Array:
        """``psi(x)' directions`` block by block, in an array also where X is a tensor."""
        if is_tensor(X):
            return _tensor_scores(self, X, self.rank, directions)
        out = np.empty((len(X), directions.shape[1]))
        blocks = _blocks(len(X), self.rank)
        for start in blocks:
            stop = start + blocks.step
            out[start:stop] = self.columns(X[start:stop]) @ directions
        return out

    def residual(self, X: Array) -> Array:
        """Zero: the coordinates are the model's own, nothing is approximated."""
        return np.zeros(len(X))


def median_distance(X: Array, kernel: str) -> float:
    """Median distance between distinct rows, in the norm the kernel measures with."""
    metric = "cityblock" if kernel == "laplacian" else "euclidean"
    distances = scipy.spatial.distance.pdist(X, metric=metric)
    positive = distances[distances > 0.0]
    # Rows that coincide say nothing about width; without any pair left every width is the same.
    return float(np.median(positive)) if len(positive) else 1.0


def width_to_gamma(width: float, kernel: str) -> float:
    """``exp(-|x-z|^2/width^2)`` for rbf, ``exp(-|x-z|_1/width)`` for laplacian."""
    return 1.0 / width if kernel == "laplacian" else 1.0 / width**2


def stratified_landmarks(strata: Codes, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Row indices: equal quota per stratum, the rest in turn to strata with rows left.

    A model that cannot see a group is not fair to it: with a 0.9 % minority the held-out residual
    of that minority was .82 with uniform landmarks and .22 with these.
    """
    order = rng.permutation(len(strata))
    _, inverse, counts = np.unique(strata[order], return_inverse=True, return_counts=True)
    # Position of each row inside its stratum: taking rows by position is dealing in turn, and
    # strata run dry by themselves.
    position = np.empty(len(order), dtype=np.intp)
    by_stratum = np.argsort(inverse, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    position[by_stratum] = np.arange(len(order)) - np.repeat(starts, counts)
    chosen = np.argsort(position, kind="stable")[:size]
    return np.sort(order[chosen])


def pivoted_cholesky_landmarks(
    kernel: Kernel, X: Array, size: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Randomly pivoted Cholesky (Chen, Epperly, Tropp, Webber 2023): pivots drawn by residual."""
    residual = kernel.diagonal(X)
    start = residual.sum()
    factor = np.zeros((len(X), size))
    chosen: list[int] = []
    for k in range(size):
        total = residual.sum()
        if total <= 1e-12 * start:
            break  # the rows chosen already span all others
        pivot = int(rng.choice(len(X), p=residual / total))
        column = kernel(X, X[pivot : pivot + 1])[:, 0] - factor[:, :k] @ factor[pivot, :k]
        if column[pivot] <= 1e-14 * start / len(X):
            residual[pivot] = 0.0
            continue
        factor[:, k] = column / np.sqrt(column[pivot])
        residual = np.maximum(residual - factor[:, k] ** 2, 0.0)
        residual[pivot] = 0.0
        chosen.append(pivot)
    return np.sort(np.array(chosen, dtype=np.intp))


def group_means(
    values: Array, codes: Mapping[str, Codes], labels: Mapping[str, tuple[str, ...]]
) -> dict[str, dict[str, float]]:
    """Mean of ``values`` per level of each attribute, as string-keyed dicts."""
    return {
        name: {
            labels[name][level]: float(values[code == level].mean())
            for level in np.unique(code[code >= 0])
        }
        for name, code in codes.items()
    }
