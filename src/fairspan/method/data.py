"""Validated columns and rows: the input of the method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairspan.method.linalg import Array, is_tensor, row_numbers, take, to_numpy

if TYPE_CHECKING:
    from fairspan.method.codes import Coder

__all__ = ["Attribute", "ClassLabels", "Codes", "Data", "Kind"]

Kind = Literal["categorical", "continuous"]
Codes = NDArray[np.intp]


@dataclass(frozen=True)
class Attribute:
    """A validated column.

    If X is a tensor, numbers and booleans (as 0 and 1) are tensors too, and text is an array.
    """

    name: str
    values: NDArray[np.generic]  # (n,), float64 or text
    missing: NDArray[np.bool_]  # (n,)
    dtype_kind: str  # "b", "i", "f" or "U": the type that the user gave, for `infer_kind`

    def take(self, rows: NDArray[np.generic]) -> Attribute:
        """Select rows by index or mask."""
        return replace(self, values=take(self.values, rows), missing=take(self.missing, rows))

    def as_given(self) -> NDArray[np.generic]:
        """Return the values in the type that the user gave; missing ones are NaN or empty text."""
        if self.dtype_kind == "b" and not self.missing.any():
            return np.asarray(self.values == "True")
        if self.dtype_kind == "i" and not self.missing.any():
            return self.values.astype(np.int64)  # floats would be read as continuous
        if self.values.dtype.kind == "f":
            return np.where(self.missing, np.nan, self.values.astype(np.float64))
        return np.asarray(self.values)

    def on_host(self) -> Attribute:
        """Return the column with numpy arrays instead of tensors."""
        values, missing = to_numpy(self.values), to_numpy(self.missing)
        if self.dtype_kind == "b" and values.dtype.kind != "U":
            values = np.where(values > 0.0, "True", "False")
        return replace(self, values=values, missing=missing)


@dataclass(frozen=True)
class ClassLabels:
    """Class labels as the user gave them, with the validated value of each.

    ``classes_`` must have the order of a coder's table, because the codes have it. Sorting the user's
    labels can give another order.
    """

    values: NDArray[np.generic]  # (K,): validated values, sorted
    given: NDArray[Any]  # (K,): the user's label of each

    @classmethod
    def of(cls, attribute: Attribute, y: NDArray[Any]) -> ClassLabels:
        """Collect the labels of a target column and of the array ``y`` it was read from."""
        values, first = np.unique(attribute.values, return_index=True)
        return cls(values, y[first])

    def in_order_of(self, coder: Coder) -> NDArray[Any]:
        """Return the labels in the order of the coder's categories: the label at index k has the code k."""
        return np.asarray(self.given[np.searchsorted(self.values, coder.table)])


@dataclass(frozen=True, kw_only=True)
class Data:
    """Validated rows."""

    X: Array  # (n, p)
    y: Attribute | None
    classes: ClassLabels | None  # of a target with classes
    sensitive: dict[str, Attribute]
    control: dict[str, Attribute]
    weights: Array | None  # (n,)
    sensitive_columns: tuple[str, ...] = ()  # columns of X that were S or control features
    index: NDArray[np.intp] | None = None  # of these rows in the user's table; None if all are used
    given: int | None = None  # number of rows of the user's table; None if all are used

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.X)

    def take(self, rows: NDArray[np.generic]) -> Data:
        """Select rows by index or mask."""
        return replace(
            self,
            index=take(row_numbers(self.X) if self.index is None else self.index, rows),
            X=take(self.X, rows),
            y=None if self.y is None else self.y.take(rows),
            sensitive={k: a.take(rows) for k, a in self.sensitive.items()},
            control={k: a.take(rows) for k, a in self.control.items()},
            weights=None if self.weights is None else take(self.weights, rows),
        )

    def on_host(self) -> Data:
        """Return the rows with numpy arrays instead of tensors."""
        if not is_tensor(self.X):
            return self
        return replace(
            self,
            index=to_numpy(self.index),
            X=np.ascontiguousarray(to_numpy(self.X), dtype=np.float64),
            y=None if self.y is None else self.y.on_host(),
            sensitive={k: a.on_host() for k, a in self.sensitive.items()},
            control={k: a.on_host() for k, a in self.control.items()},
            weights=to_numpy(self.weights),
        )
