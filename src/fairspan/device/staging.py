"""Numbers in host memory, moved to a torch device by the thread that reads them.

Numbers of a block are copied into page-locked memory, from which a GPU reads at full speed, and are
checked and coded on the device. All of this happens while the device computes the block before.
"""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

__all__ = ["Staging"]

# Arguments whose columns have names.
_NAMED = ("sensitive_features", "control_features")
_DTYPES = {"f": np.dtype(np.float64), "i": np.dtype(np.int64), "b": np.dtype(bool)}


class Staging:
    """Moves numbers to a device; what else is given stays as it is.

    Parameters
    ----------
    device : torch device
    frames : bool
        Also move data frames, by the order of their columns.
    """

    def __init__(self, device: Any, *, frames: bool) -> None:
        import torch

        self._device, self._frames = torch.device(device), frames
        self._is_gpu = self._device.type == "cuda"
        # Page-locked memory for each argument of `fit`, made for the largest block so far.
        self._pinned: dict[str, Any] = {}
        if self._is_gpu:
            self._compute = torch.cuda.current_stream(self._device)
            self._copies = torch.cuda.Stream(self._device)

    @staticmethod
    def suits(device: Any) -> bool:
        """Whether rows are moved to this device: not to Apple's, which have no float64."""
        if device is None:
            return False
        import torch

        return torch.device(device).type in ("cuda", "cpu")

    def move(self, role: str, values: Any) -> Any:
        """A tensor on the device if these are numbers, else the same object.

        X becomes float64, as in the reader of arrays; integers and booleans in other arguments may be
        labels and keep their type. A frame in another argument becomes a dict of tensors.
        """
        if isinstance(values, np.ndarray):
            return self._array(role, values)
        native = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
        if isinstance(native, nw.Series) and self._frames:
            column = _numbers(native)
            if column is None:
                return values
            if native.name in (None, "") or role not in _NAMED:
                return self._array(role, column)
            return {str(native.name): self._array(role, column)}
        if isinstance(native, nw.DataFrame) and self._frames and native.columns:
            found = {name: _numbers(native.get_column(name)) for name in native.columns}
            columns = {name: column for name, column in found.items() if column is not None}
            if len(columns) == len(found):
                if role == "X":
                    return self._send(role, list(columns.values()), _DTYPES["f"], turn=True)
                return {n: self._array(f"{role} {n}", column) for n, column in columns.items()}
        return values

    def _array(self, role: str, array: Any) -> Any:
        plain = type(array) is not np.ma.MaskedArray and array.ndim in (
            (2,) if role == "X" else (1, 2)
        )
        kind = "f" if role == "X" and array.dtype.kind in "bif" else array.dtype.kind
        if not plain or kind not in _DTYPES or array.dtype.itemsize > 8:
            return array
        return self._send(role, array, _DTYPES[kind])

    def _send(
        self,
        role: str,
        given: NDArray[Any] | list[NDArray[Any]],
        dtype: np.dtype[Any],
        *,
        turn: bool = False,
    ) -> Any:
        """A tensor with the numbers of an array, or of arrays as its rows; columns with ``turn``."""
        import torch

        shape = given.shape if isinstance(given, np.ndarray) else (len(given), len(given[0]))
        if not self._is_gpu:
            # torch shares the memory, which must then be writeable.
            array = np.asarray(given).T if turn else np.asarray(given)
            return torch.as_tensor(np.require(array, dtype, ["C", "W"]), device=self._device)
        size = int(np.prod(shape))
        kind = {"float64": torch.float64, "int64": torch.int64, "bool": torch.bool}[dtype.name]
        pinned = self._pinned.get(role)
        if pinned is None or pinned.dtype != kind or pinned.numel() < size:
            pinned = torch.empty(max(size, 1), dtype=kind, pin_memory=True)
            self._pinned[role] = pinned
        on_host = pinned[:size].view(shape)
        target = on_host.numpy()
        if isinstance(given, np.ndarray):
            np.copyto(target, given, casting="unsafe")
        else:
            for row, column in zip(target, given, strict=True):
                np.copyto(row, column, casting="unsafe")
        with torch.cuda.stream(self._copies):
            out = torch.empty(shape, dtype=kind, device=self._device)
            out.copy_(on_host, non_blocking=True)
            if turn:
                out = out.T.contiguous()
        # All of it ends before the memory is written again, and before the rows are used.
        self._copies.synchronize()
        out.record_stream(self._compute)
        return out


def _numbers(column: Any) -> NDArray[Any] | None:
    """The values of a column of numbers; None if it is not one."""
    if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        return None
    values = column.to_numpy()
    return values if values.dtype.kind in "bif" and values.dtype.itemsize <= 8 else None
