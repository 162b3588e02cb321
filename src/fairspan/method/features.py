"""Feature maps psi with ``kappa(x, z) ~= psi(x).psi(z)``, and the choice of landmarks (METHOD 1).

A kernel model is a linear model in psi(x), so all later steps work with D coordinates and never with an
n x n kernel matrix. The moments accumulate ``columns``: the raw kernel columns if they can be whitened
after the pass (Nystrom), psi itself if not (all rows as landmarks, and transformers of the user).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan.method.kernels import Kernel, RbfColumns
from fairspan.method.linalg import Array, is_tensor, psd_eigh, to_float64, to_home
from fairspan.method.problem import Codes
from fairspan.method.sparse_rows import as_matrix, dense, is_sparse
from fairspan.method.torch_columns import (
    DeviceColumns,
    compute_dtype,
    exact_float32,
    refuse_on_device,
    row_blocks,
)

# Eigenvalues below this share of the largest are cut if the landmarks are not all rows.
NYSTROM_TOL = 1e-8
_BLOCK_BYTES = 32 * 2**20
# BLAS multiplies one or two rows by another algorithm, with another rounding, which the whitening of
# nearly dependent landmarks would raise above 1e-10. Smaller blocks are filled up with copies of rows.
_MIN_BLOCK_ROWS = 8


@dataclass(frozen=True, kw_only=True)
class LandmarkMap:
    """Feature map ``psi(x) = diag(l)^-1/2 U' kappa(z, x)``, with landmarks z, ``K_zz = U diag(l) U'``."""

    kernel: Kernel
    # (m, p): rows of X; for ``kernel="precomputed"`` the indices of columns, of shape (m, 1).
    landmarks: Array
    whitening: Array  # (m, rank): ``U diag(l)^-1/2`` for the eigenvalues above the cut
    whiten_first: bool  # whether moments accumulate psi (True) or raw kernel columns (False)
    exact: bool  # whether the landmarks are all distinct rows, which is the paper's method
    # Sum of the eigenvalues below the cut, as a share of the sum of those above.
    dropped_mass: float

    @classmethod
    def build(
        cls, kernel: Kernel, landmarks: Array, gram: Array | None, *, exact: bool
    ) -> LandmarkMap:
        """Whiten the kernel matrix ``gram`` of the landmarks (computed if None); METHOD 1 has the cut."""
        if gram is None:
            gram = kernel(landmarks, landmarks)
        if gram.shape != (len(landmarks), len(landmarks)) or not np.isfinite(gram).all():
            raise ValueError(
                f"The kernel {kernel.name!r} gave a kernel matrix of shape {gram.shape} with "
                f"{int((~np.isfinite(gram)).sum())} values that are not finite; "
                f"({len(landmarks)}, {len(landmarks)}) finite numbers are needed. Check its "
                f"parameters and the scale of X."
            )
        values, vectors = psd_eigh((gram + gram.T) / 2.0)
        # With all rows as landmarks keep everything above rounding: a cut at 1e-10 moves reference
        # predictions by 1e-4. Nystrom moments are whitened after the pass and need a wider margin.
        tol = 10 * len(landmarks) * np.finfo(np.float64).eps if exact else NYSTROM_TOL
        if values[0] <= 0.0:
            raise ValueError(f"The kernel {kernel.name!r} is zero or negative on every landmark.")
        keep = values > tol * values[0]
        negative = -values[values < -1e-6 * values[0]].sum()
        if negative > 0.0:
            raise ValueError(
                f"The kernel {kernel.name!r} is not positive semidefinite: negative eigenvalues "
                f"make up {negative / np.abs(values).sum():.2g} of its trace norm. Fair kernel "
                f"models need a positive semidefinite kernel (rbf, laplacian, polynomial, ...)."
            )
        whitening = np.ascontiguousarray(vectors[:, keep] / np.sqrt(values[keep]))
        dropped = float(np.maximum(values[~keep], 0.0).sum() / values[keep].sum())
        return cls(
            kernel=kernel,
            landmarks=landmarks,
            whitening=whitening,
            whiten_first=exact,
            exact=exact,
            dropped_mass=dropped,
        )

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
        """Matrix that turns the accumulated columns into psi; None if they are psi already."""
        return None if self.whiten_first else self.whitening

    @property
    def n_columns(self) -> int:
        """Number of columns that the moments accumulate."""
        return self.rank if self.whiten_first else len(self.landmarks)

    def columns_on(
        self, device: Any, dtype: Any, *, width: int | None = None, whiten: bool | None = None
    ) -> DeviceColumns:
        """Return the function that computes :meth:`columns` of tensors on a torch device.

        ``whiten`` chooses psi (True) or kernel columns (False) instead of what the moments accumulate.
        """
        kernel = self.kernel
        if kernel.function is not None:
            refuse_on_device(f"The kernel {kernel.name!r}, a function of yours,")
        if is_sparse(self.landmarks):
            refuse_on_device("A kernel with sparse rows as landmarks")
        trend = None
        if kernel.slope is not None:
            assert kernel.centre is not None
            trend = kernel.centre, kernel.slope
        whiten = self.whiten_first if whiten is None else whiten
        return DeviceColumns(
            kernel.name,
            kernel.params,
            self.landmarks,
            device,
            dtype,
            trend=trend,
            width=width,
            whitening=self.whitening if whiten else None,
        )

    def psi_on(self, device: Any, dtype: Any) -> DeviceColumns:
        """Return the function that computes :meth:`coordinates` of tensors on a torch device."""
        return self.columns_on(device, dtype, whiten=True)

    def raw(self, X: Array) -> Array:
        """Compute the kernel columns ``kappa(x, z)``, of shape (n, m)."""
        if is_tensor(X):
            return self._on_tensor(X, whiten=False)  # type: ignore[no-any-return]
        if self.kernel.name == "precomputed":
            return np.ascontiguousarray(X[:, self.landmarks[:, 0].astype(np.intp)])
        out = self.kernel(X, self.landmarks)
        plain = self.kernel.name == "rbf" and self.kernel.function is None  # always from 0 to 1
        if not plain and not np.isfinite(out).all():
            raise ValueError(
                f"The kernel {self.kernel.name!r} gave {int((~np.isfinite(out)).sum())} values that are not "
                f"finite between these rows and the landmarks. Check the scale of X, or use a kernel that "
                f"is bounded (rbf, laplacian)."
            )
        return out

    def columns(self, X: Array) -> Array:
        """Compute the columns that the moments accumulate, of shape (n, n_columns)."""
        if is_tensor(X):
            return self._on_tensor(X)  # type: ignore[no-any-return]
        n = len(X)
        if 0 < n < _MIN_BLOCK_ROWS and self.kernel.name != "precomputed":
            X = X[np.arange(_MIN_BLOCK_ROWS) % n]
        raw = self.raw(X)
        return (raw @ self.whitening if self.whiten_first else raw)[:n]

    def columns_into(self, out: Array) -> Callable[[Array], Array]:
        """Return a function that computes :meth:`columns` of at most ``len(out)`` rows at a time.

        The RBF kernel writes them into the first columns of ``out``, which may have more columns and
        is overwritten. Other kernels return new arrays.
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
        """Compute psi(x), of shape (n, rank)."""
        if is_tensor(X):
            return self._on_tensor(X, whiten=True)  # type: ignore[no-any-return]
        return self.raw(X) @ self.whitening

    def _on_tensor(self, X: Any, whiten: bool | None = None) -> Any:
        return self.columns_on(X.device, compute_dtype(X), whiten=whiten)(_filled_up(X))[: len(X)]

    def scores(self, X: Array, directions: Array) -> Array:
        """Compute ``psi(x)' directions`` block by block: a numpy array, also for a tensor X.

        The directions, of shape (rank, k), are multiplied by the whitening once, instead of every row.
        Not so in exact mode, where the rounding would differ from that of the accumulated psi.
        """
        folded = directions if self.whiten_first else self.whitening @ directions
        if (
            is_sparse(X) and not self.whiten_first
        ):  # the kernel is linear: one weight per column of X
            return np.asarray(as_matrix(X) @ (as_matrix(self.landmarks).T @ folded))
        return _scores(self, X, len(self.landmarks), folded)

    def residual(self, X: Array) -> Array:
        """Compute ``1 - |psi(x)|^2 / kappa(x, x)``: the share of x that the landmarks do not represent.

        For a kernel with a trend the denominator is the kernel without it.
        """
        if self.kernel.name == "precomputed":
            msg = "the diagonal kappa(x, x) of new rows is not part of a precomputed kernel"
            raise ValueError(msg)
        psi = self.coordinates(X)
        diagonal = self.kernel.diagonal(X)
        missing = diagonal - np.einsum("ij,ij->i", psi, psi)
        without_trend = diagonal - self.kernel.trend_diagonal(X)
        scale = np.where(without_trend > 0.0, without_trend, 1.0)
        return np.asarray(np.clip(missing / scale, 0.0, 1.0))


@dataclass(frozen=True)
class TransformerMap:
    """Feature map ``psi(x) = transformer.transform(x)``, or x itself (None) for the linear kernel."""

    transformer: Any
    rank: int
    _: KW_ONLY
    whiten_first: bool = True
    exact: bool = True
    dropped_mass: float = 0.0
    pending: None = None
    trend_decades: float = 0.0

    @property
    def n_columns(self) -> int:
        """Number of columns that the moments accumulate."""
        return self.rank

    def columns_on(self, device: Any, dtype: Any, *, width: int | None = None) -> DeviceColumns:
        """Return the function that computes :meth:`columns` of tensors on a torch device."""
        if self.transformer is not None:
            refuse_on_device(f"feature_map {type(self.transformer).__name__}")
        return DeviceColumns("linear", {}, None, device, dtype, width=width)

    psi_on = columns_on

    def columns(self, X: Array) -> Array:
        """Compute psi(x), of shape (n, rank): always a new float64 array, because moments overwrite it."""
        if is_tensor(X):
            tensor: Any = X
            return self.columns_on(tensor.device, compute_dtype(X))(X)  # type: ignore[no-any-return]
        if self.transformer is None:
            return dense(X)
        out = self.transformer.transform(as_matrix(X))
        if hasattr(out, "toarray"):
            out = out.toarray()
        psi = np.array(out, dtype=np.float64, order="C")
        if psi.ndim != 2 or psi.shape != (len(X), self.rank) or not np.isfinite(psi).all():
            raise ValueError(
                f"feature_map {type(self.transformer).__name__} gave an array of shape {psi.shape} "
                f"(all finite: {bool(np.isfinite(psi).all())}); ({len(X)}, {self.rank}) finite "
                f"numbers are needed."
            )
        return psi

    coordinates = columns

    def columns_into(self, out: Array) -> Callable[[Array], Array]:  # noqa: ARG002
        """Return :meth:`columns`: a transformer writes into memory of its own."""
        return self.columns

    def scores(self, X: Array, directions: Array) -> Array:
        """Compute ``psi(x)' directions`` block by block: a numpy array, also for a tensor X."""
        return _scores(self, X, self.rank, directions)

    def residual(self, X: Array) -> Array:
        """Return zeros: psi is the feature map itself, and approximates nothing."""
        return np.zeros(len(X))


def _scores(
    features: LandmarkMap | TransformerMap, X: Array, width: int, directions: Array
) -> Array:
    """Compute ``columns(x)' directions`` in blocks of rows, with ``width`` numbers per row in memory."""
    if is_tensor(X):
        return _tensor_scores(features, X, width, directions)
    if is_sparse(X) and isinstance(features, TransformerMap) and features.transformer is None:
        return np.asarray(as_matrix(X) @ directions)  # psi is X itself
    out = np.empty((len(X), directions.shape[1]))
    size = max(256, _BLOCK_BYTES // (8 * max(1, width)))
    for start in range(0, len(X), size):
        stop = start + size
        out[start:stop] = features.columns(X[start:stop]) @ directions
    return out


def _tensor_scores(
    features: LandmarkMap | TransformerMap, X: Any, width: int, directions: Array
) -> Array:
    """Compute the same on the device of the tensor X; only the scores are copied to host memory."""
    import torch  # a tensor was passed, so torch is installed

    dtype = compute_dtype(X)
    columns = features.columns_on(X.device, dtype)
    folded = to_home(directions, "cpu").to(X.device, dtype)
    out = torch.empty((len(X), directions.shape[1]), dtype=dtype, device=X.device)
    with exact_float32(dtype):
        for rows in row_blocks(X, width):
            block = X[rows]
            out[rows] = (columns(_filled_up(block)) @ folded)[: len(block)]
    return to_float64(out)  # type: ignore[no-any-return]


def _filled_up(X: Any) -> Any:
    """Repeat the rows of a small tensor, see ``_MIN_BLOCK_ROWS``."""
    if not 0 < len(X) < _MIN_BLOCK_ROWS:
        return X
    return X.repeat(-(-_MIN_BLOCK_ROWS // len(X)), 1)


def stratified_landmarks(strata: Codes, size: int) -> NDArray[np.intp]:
    """First rows of each stratum, an equal number of each; exhausted strata leave the rest to the others.

    A model without landmarks in a group cannot be fair to it. For a minority of 0.9 % the held-out
    residual was .82 with uniform landmarks, .51 with randomly pivoted Cholesky and .22 with these.
    """
    _, inverse, counts = np.unique(strata, return_inverse=True, return_counts=True)
    # Number the rows within each stratum. Taking the smallest numbers first takes one row of each
    # stratum in turn, as long as it has rows.
    position = np.empty(len(strata), dtype=np.intp)
    by_stratum = np.argsort(inverse, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    position[by_stratum] = np.arange(len(strata)) - np.repeat(starts, counts)
    return np.argsort(position, kind="stable")[:size]


def pivoted_cholesky_landmarks(
    kernel: Kernel, X: Array, size: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Draw row indices by randomly pivoted Cholesky (Chen, Epperly, Tropp, Webber 2023).

    Each row is drawn with probability proportional to what the rows before it leave of ``kappa(x, x)``.
    """
    residual = kernel.diagonal(X)
    start = residual.sum()
    factor = np.zeros((len(X), size))
    chosen: list[int] = []
    for k in range(size):
        total = residual.sum()
        if total <= 1e-12 * start:
            break  # the chosen rows span all others
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
    """Average ``values`` per level of each attribute: ``{attribute: {label: mean}}``."""
    return {
        name: {
            labels[name][level]: float(values[code == level].mean())
            for level in np.unique(code[code >= 0])
        }
        for name, code in codes.items()
    }
