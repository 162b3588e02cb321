"""Kernel columns and their Gram matrices on torch devices.

torch is imported lazily, when the caller passes a tensor or a device. Nothing here waits for the device:
no number is sent back to the host, so that kernels queue up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from fairspan.method.linalg import Array

# Compute capabilities of GPUs that multiply float64 at half the rate of float32, or better.
_FULL_RATE = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))
# Kernels that can be computed on tensors.
DEVICE_KERNELS = (
    *("rbf", "laplacian", "linear", "poly", "polynomial", "sigmoid", "cosine", "precomputed"),
)

# Bytes of a block of kernel columns: on a GPU enough for products at full rate, on a processor about the
# size of its caches.
_BLOCK_BYTES = {"cuda": 3 * 2**29, "cpu": 2**24}
# From this width on, add_gram avoids computing the lower triangle too.
_SYMMETRIC_FROM = 512
_PANELS, _THIN_PARTS = 4, 16
# Rows of matrices begin at multiples of this many numbers, as fast products need.
_ALIGN = 8


def fast_float64(device: Any) -> bool:
    """True if the device is fast in float64: processors, and GPUs made for it."""
    import torch

    device = torch.device(device)
    if device.type != "cuda":
        return bool(device.type == "cpu")
    return torch.cuda.get_device_capability(device) in _FULL_RATE


def choose_precision(device: Any, wanted: str = "auto") -> str:
    """The precision of moments on a device; "auto" is float64 if the device is fast at it."""
    import torch

    if wanted not in ("auto", "float64", "float32"):
        msg = f"precision={wanted!r} is not allowed; give 'auto', 'float64' or 'float32'."
        raise ValueError(msg)
    if wanted == "float64" and torch.device(device).type == "mps":
        raise ValueError(
            f"precision='float64' is not possible on device {str(device)!r}, which has no float64. Use "
            f"precision='float32', or the processor: X.cpu()."
        )
    if wanted == "auto":
        return "float64" if fast_float64(device) else "float32"
    return wanted


def compute_dtype(X: Any) -> Any:
    """The dtype for columns of a tensor in predictions, which do not need the precision of moments."""
    import torch

    narrow = X.dtype != torch.float64 and not fast_float64(X.device)
    return torch.float32 if narrow else torch.float64


def refuse_on_device(features: str) -> None:
    """Raise the error for features that cannot be computed on tensors."""
    raise ValueError(
        f"{features} cannot be computed on tensors; use one of the kernels "
        f"{', '.join(map(repr, DEVICE_KERNELS))}, or move X to the CPU: X.cpu().numpy()."
    )


# --------------------------------------------------------------------------- blocks and memory


def block_rows(device: Any, width: int) -> int:
    """Number of rows of a block of ``width`` float64 columns."""
    limit = _BLOCK_BYTES.get(device.type, _BLOCK_BYTES["cuda"])
    return int(max(256, limit // (8 * max(1, width)) // 256 * 256))


def row_blocks(X: Any, width: int) -> Iterator[slice]:
    """Slices of the rows of a tensor, for blocks of ``width`` columns."""
    size = block_rows(X.device, width)
    return (slice(start, start + size) for start in range(0, len(X), size))


@contextmanager
def naming_memory(need: int, subject: str, device: Any, *, check: bool = False) -> Iterator[None]:
    """Turn an out-of-memory error into one with the bytes that ``subject`` takes, and remedies.

    ``check`` compares with the free memory of a GPU beforehand.
    """
    import torch

    # torch before 2.5 has this class only in torch.cuda.
    out_of_memory = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
    try:
        if check and torch.device(device).type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            # Memory that torch has reserved and not allocated is free, too.
            free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
            if need > free:
                raise MemoryError(_memory_message(need, subject, device, free))
        yield
    except out_of_memory as error:
        raise MemoryError(_memory_message(need, subject, device)) from error
    except RuntimeError as error:
        if "not enough memory" not in str(error):
            raise
        raise MemoryError(_memory_message(need, subject, device)) from error


def _memory_message(need: int, subject: str, device: Any, free: int | None = None) -> str:
    has = "" if free is None else f", which has {free / 2**30:.2f} GiB free"
    return (
        f"{subject} take {need / 2**30:.2f} GiB on {device}{has}. Lower n_components, do without folds (fix "
        f"alpha), use fewer cells, give smaller blocks, or compute on the processor: X.cpu()."
    )


@contextmanager
def exact_float32(dtype: Any) -> Iterator[None]:
    """Compute float32 products with all 24 bits inside, also if the user allows TF32."""
    import torch

    if dtype != torch.float32:
        yield
        return
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


# --------------------------------------------------------------------------- Gram matrices


def padded_width(width: int, step: int = _PANELS * _ALIGN) -> int:
    """Round a number of columns up to one that products are fast at."""
    return width if width < _SYMMETRIC_FROM else -(-width // step) * step


def add_gram(Z: Any, out: Any, wide: int) -> None:
    """Add ``Z'Z`` to the upper triangle of ``out``; the lower triangle is then undefined.

    torch has no symmetric product. The first ``wide`` columns are cut into halves and quarters. Computed
    are the product of the two halves, then the products of the two quarters of each half, then the
    product of each quarter with itself: 5/8 of the full product. Each kind is one batch, because single
    small products would not fill a GPU. The few columns beyond ``wide`` have a separate product, which
    keeps the sizes of the others even.
    """
    if wide < _SYMMETRIC_FROM or wide % _PANELS:
        out.addmm_(Z.T, Z)
        return
    _add_thin(Z, out, wide)
    Z = Z[:, :wide]
    count, size = 1, wide // 2
    while count < _PANELS:
        pairs = Z.unflatten(1, (count, 2, size))
        target = _diagonal_blocks(out, count, size, 2 * size, size)
        target.baddbmm_(pairs[:, :, 0].permute(1, 2, 0), pairs[:, :, 1].permute(1, 0, 2))
        count, size = 2 * count, size // 2
    size = wide // _PANELS
    panels = Z.unflatten(1, (_PANELS, size))
    target = _diagonal_blocks(out, _PANELS, size, size, 0)
    target.baddbmm_(panels.permute(1, 2, 0), panels.permute(1, 0, 2))


def _add_thin(Z: Any, out: Any, wide: int) -> None:
    """Products of all columns with the few beyond ``wide``.

    They are sums over many rows with few results. On a GPU, parts of the rows are summed in parallel,
    because otherwise most of it would be idle.
    """
    if Z.shape[1] == wide:
        return
    parts = _thin_parts(Z.device)
    n_even = len(Z) // parts * parts if parts > 1 else 0
    if n_even:
        rows = Z[:n_even].unflatten(0, (parts, n_even // parts))
        out[:, wide:] += (rows.transpose(1, 2) @ rows[:, :, wide:]).sum(dim=0)
    if n_even < len(Z):
        out[:, wide:].addmm_(Z[n_even:].T, Z[n_even:, wide:])


def _thin_parts(device: Any) -> int:
    return 1 if device.type == "cpu" else _THIN_PARTS


def _diagonal_blocks(matrix: Any, count: int, size: int, step: int, right: int) -> Any:
    """Square submatrices every ``step`` down the diagonal, shifted right, as one (count, size, size) view."""
    width = matrix.shape[1]
    return matrix.as_strided(
        (count, size, size), (step * (width + 1), width, 1), matrix.storage_offset() + right
    )


# --------------------------------------------------------------------------- columns


class DeviceColumns:
    """Feature columns of tensors; landmarks and whitening are sent to the device once.

    Parameters
    ----------
    name, params : kernel
        One of ``DEVICE_KERNELS``; "linear" without landmarks gives X itself.
    landmarks : ndarray of shape (m, p), or None
    device, dtype : torch device and dtype of the computation
    whitening : ndarray of shape (m, rank), optional
        Applied to the kernel columns.
    trend : (centre, slope), optional
        Those of :meth:`Kernel.with_trend`.
    width : int, optional
        Number of columns of the output, if more are wanted; the additional ones are finite, and have no
        meaning.
    """

    def __init__(
        self,
        name: str,
        params: Mapping[str, Any],
        landmarks: Array | None,
        device: Any,
        dtype: Any,
        *,
        whitening: Array | None = None,
        trend: tuple[Array, Array] | None = None,
        width: int | None = None,
    ) -> None:
        if name not in DEVICE_KERNELS:
            refuse_on_device(f"The kernel {name!r}")
        self._name, self._params, self._device, self._dtype = name, dict(params), device, dtype
        self._whitening, self._trend = None, None
        self._raw: Any = None
        self._Z: Any = (
            None  # landmarks on the device; None: the features themselves are the columns
        )
        if whitening is not None:
            columns = whitening.shape[1] if width is None else width
            filled = np.zeros((len(whitening), columns))
            filled[:, : whitening.shape[1]] = whitening
            self._whitening = self._send(filled)
            width = None
        if landmarks is None:
            self.width = width
            return
        m = len(landmarks)
        if width is not None:  # pad with copies of the last landmark, which gives finite columns
            landmarks = landmarks[np.minimum(np.arange(width), m - 1)]
        self._n_raw = len(landmarks)
        self.width = self._n_raw if self._whitening is None else self._whitening.shape[1]
        if trend is not None:
            centre, slope = trend
            self._trend = tuple(map(self._send, (centre, slope, (landmarks - centre) * slope)))
        self._prepare(landmarks, np.median(landmarks[:m], axis=0))

    def _send(self, array: Any) -> Any:
        import torch

        return torch.tensor(np.asarray(array), dtype=self._dtype, device=self._device)

    def _prepare(self, Z: Array, origin: Array) -> None:
        if self._name == "precomputed":
            import torch

            self._Z = torch.tensor(Z[:, 0].astype(np.int64), device=self._device)
        elif self._name == "rbf":
            # See `features.RbfColumns`: exp(left @ right') with the squared norms folded into the product.
            gamma, p = float(self._params["gamma"]), Z.shape[1]
            centred = Z - origin
            right = np.zeros((len(Z), -(-(p + 2) // _ALIGN) * _ALIGN))
            right[:, :p] = 2.0 * gamma * centred
            right[:, p] = 1.0
            right[:, p + 1] = -gamma * np.einsum("ij,ij->i", centred, centred)
            self._origin, self._Z = self._send(origin), self._send(right)
        elif self._name == "cosine":
            norms = np.sqrt(np.einsum("ij,ij->i", Z, Z))
            self._Z = self._send(Z / np.where(norms > 0.0, norms, 1.0)[:, None])
        else:
            self._Z = self._send(Z)

    def fill(self, X: Any, out: Any) -> None:
        """Write the columns of the rows of X, (n, width), into ``out``."""
        if self._whitening is None:
            self._fill_raw(X.to(self._device, self._dtype), out)
            return
        import torch

        raw = self._raw
        if raw is None or len(raw) < len(X):
            shape = (len(X), self._n_raw)
            raw = self._raw = torch.empty(shape, dtype=self._dtype, device=self._device)
        self._fill_raw(X.to(self._device, self._dtype), raw[: len(X)])
        torch.mm(raw[: len(X)], self._whitening, out=out)

    def __call__(self, X: Any) -> Any:
        """Columns of the rows of X, (n, width)."""
        import torch

        width = X.shape[1] if self.width is None else self.width
        out = torch.empty((len(X), width), dtype=self._dtype, device=self._device)
        self.fill(X, out)
        return out

    def _fill_raw(self, X: Any, out: Any) -> None:
        import torch

        name, params = self._name, self._params
        if name == "rbf":
            self._fill_rbf(X, out)
        elif name == "precomputed":
            torch.index_select(X, 1, self._Z, out=out)
        elif self._Z is None:
            out[:, : X.shape[1]] = X
            out[:, X.shape[1] :] = 0.0
        elif name == "laplacian":
            gamma = float(params["gamma"])
            out.copy_(torch.cdist(X, self._Z, p=1.0)).mul_(-gamma).exp_()
        else:
            if name == "cosine":
                norms = torch.linalg.vector_norm(X, dim=1, keepdim=True)
                X = X / norms.masked_fill(norms == 0.0, 1.0)
            torch.mm(X, self._Z.T, out=out)
            if name in ("poly", "polynomial", "sigmoid"):
                # The defaults are those of sklearn.metrics.pairwise.
                out.mul_(float(params.get("gamma") or 1.0 / X.shape[1]))
                out.add_(float(params.get("coef0", 1.0)))
            if name in ("poly", "polynomial"):
                out.pow_(params.get("degree", 3))
            elif name == "sigmoid":
                out.tanh_()
        if self._trend is not None:
            centre, slope, trend = self._trend
            out.addmm_((X - centre) * slope, trend.T)

    def _fill_rbf(self, X: Any, out: Any) -> None:
        """One product and one exponential, in place, because every pass over the columns takes time."""
        import torch

        p = X.shape[1]
        left = torch.zeros((len(X), self._Z.shape[1]), dtype=self._dtype, device=self._device)
        torch.sub(X, self._origin, out=left[:, :p])
        centred = left[:, :p]
        left[:, p] = (centred * centred).sum(dim=1).mul_(-float(self._params["gamma"]))
        left[:, p + 1] = 1.0
        torch.mm(left, self._Z.T, out=out)
        out.clamp_(max=0.0)  # rounding of exponents can give values above 0
        out.exp_()
