"""Clean columns and rows: what the reader of inputs hands to the method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairspan.method.linalg import Array, home_of, is_tensor, take, to_numpy

if TYPE_CHECKING:
    from fairspan.method.codes import Coder

Kind = Literal["categorical", "continuous"]
Codes = NDArray[np.intp]


@dataclass(frozen=True)
class Attribute:
    """One clean column: float64 or unicode ``values``, and which entries are missing.

    ``dtype_kind`` remembers what the user gave ("b", "i", "f", "U"), for :func:`infer_kind`. Beside
    rows in a tensor, numbers and booleans (as 0 and 1) are tensors too; text stays in an array.
    """

    name: str
    values: NDArray[np.generic]
    missing: NDArray[np.bool_]
    dtype_kind: str

    def take(self, rows: NDArray[np.generic]) -> Attribute:
        """Rows by index or mask."""
        return Attribute(
            self.name, take(self.values, rows), take(self.missing, rows), self.dtype_kind
        )

    def as_given(self) -> NDArray[np.generic]:
        """Values for a user's metric, of the type that was given; missing ones are NaN or empty text."""
        if self.dtype_kind == "b" and not self.missing.any():
            return np.asarray(self.values == "True")
        if self.dtype_kind == "i" and not self.missing.any():
            return self.values.astype(np.int64)  # as floats they would be read as measurements
        if self.values.dtype.kind == "f":
            return np.where(self.missing, np.nan, self.values.astype(np.float64))
        return np.asarray(self.values)

    def on_host(self) -> Attribute:
        """The same column in arrays."""
        values, missing = to_numpy(self.values), to_numpy(self.missing)
        if self.dtype_kind == "b" and values.dtype.kind != "U":
            values = np.where(values > 0.0, "True", "False")
        return Attribute(self.name, values, missing, self.dtype_kind)


@dataclass(frozen=True)
class ClassLabels:
    """Class labels as the user gave them, and the clean value of each.

    Codes follow the order of a coder's table, and so must ``classes_``: two ways to sort labels can
    disagree.
    """

    values: NDArray[np.generic]  # clean values, sorted
    given: NDArray[Any]  # the label of each clean value

    @classmethod
    def of(cls, attribute: Attribute, y: NDArray[Any]) -> ClassLabels:
        """Collect the labels of a target column and of the array ``y`` it was read from."""
        values, first = np.unique(attribute.values, return_index=True)
        return cls(values, y[first])

    def in_order_of(self, coder: Coder) -> NDArray[Any]:
        """Labels of the coder's categories: the label at place k has the code k."""
        return np.asarray(self.given[np.searchsorted(self.values, coder.table)])


@dataclass(frozen=True)
class Data:
    """Clean training rows."""

    X: Array
    y: Attribute | None
    classes: ClassLabels | None  # labels as they were given
    sensitive: dict[str, Attribute]
    control: dict[str, Attribute]
    weights: Array | None
    sensitive_columns: tuple[str, ...] = ()  # columns of X that held S or control features
    index: np.ndarray | None = None  # places of these rows among those given, if not all are left
    given: int | None = None  # how many were given, if not all are left

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.X)

    def take(self, rows: np.ndarray) -> Data:
        """Rows by index or mask."""
        return replace(
            self,
            index=take(_places(self.X) if self.index is None else self.index, rows),
            X=take(self.X, rows),
            y=None if self.y is None else self.y.take(rows),
            sensitive={k: a.take(rows) for k, a in self.sensitive.items()},
            control={k: a.take(rows) for k, a in self.control.items()},
            weights=None if self.weights is None else take(self.weights, rows),
        )

    def on_host(self) -> Data:
        """The same rows in arrays."""
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


def _places(X: Any) -> Any:
    """0, 1, 2, ...: one for each row."""
    if not is_tensor(X):
        return np.arange(len(X))
    import torch  # there is a tensor, so it is installed

    return torch.arange(len(X), device=home_of(X))
