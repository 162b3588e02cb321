"""Models as short lists of operations on arrays, which an ONNX file and an npz file both contain.

Every operation has one line of numpy in ``read_npz_model.py`` and one function in ``onnx_graph.py``.
A value is a matrix of float64 with one row for each row of the input, unless its operation says
something else. The last axis of a result is known when the program is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairspan.exceptions import ExportError
from fairspan.method.linalg import Array

__all__ = ["Input", "Program", "Step", "Value", "refuse"]

# A number or matrix that an operation takes beside a value.
Constant = float | Array


def refuse(part: str, remedy: str) -> NoReturn:
    """Raise for a part of a model that no operations can write."""
    raise ExportError(f"export cannot write {part}. {remedy}.")


@dataclass(frozen=True, kw_only=True)
class Input:
    """One input of a program.

    Attributes
    ----------
    id : name in the steps.
    name : name for the user: of a column, or "X".
    kind : "matrix", "number", "date" (days since 1970-01-01 in UTC) or "text".
    width : number of columns.
    complete : whether the model refuses missing and infinite numbers here.
    """

    id: str
    name: str
    kind: str
    width: int = 1
    complete: bool = False


@dataclass(frozen=True)
class Step:
    """An operation: its arguments are names of values and constants, or literals (dicts and lists)."""

    operation: str
    result: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Value:
    """A result of a step, with the operators of numpy; constants are on their right."""

    program: Program
    name: str
    width: int

    def _with(self, operation: str, other: Value | Constant) -> Value:
        right = other if isinstance(other, Value) else None
        name = self.program.constant(other) if right is None else right.name
        width = self.width if right is None else right.width
        if right is None and isinstance(other, np.ndarray):
            width = other.shape[-1]
        return self.program.add(operation, max(self.width, width), self.name, name)

    def __add__(self, other: Value | Constant) -> Value:
        return self._with("add", other)

    def __sub__(self, other: Value | Constant) -> Value:
        return self._with("subtract", other)

    def __mul__(self, other: Value | Constant) -> Value:
        return self._with("multiply", other)

    def __truediv__(self, other: Value | Constant) -> Value:
        return self._with("divide", other)

    def __gt__(self, other: Value | Constant) -> Value:
        """Whether it is larger: for :meth:`where` alone."""
        return self._with("greater", other)

    def __matmul__(self, matrix: Array) -> Value:
        if matrix.ndim != 2 or len(matrix) != self.width:
            raise ValueError(f"a value with {self.width} columns times a matrix of {matrix.shape}")
        name = self.program.constant(matrix)
        return self.program.add("matmul", matrix.shape[1], self.name, name)

    def __neg__(self) -> Value:
        return self * -1.0

    def maximum(self, other: Value | Constant) -> Value:
        """The larger of two numbers."""
        return self._with("maximum", other)

    def minimum(self, other: Value | Constant) -> Value:
        """The smaller of two numbers."""
        return self._with("minimum", other)

    def exp(self) -> Value:
        """Exponential."""
        return self._alone("exp")

    def log(self) -> Value:
        """Natural logarithm."""
        return self._alone("log")

    def sqrt(self) -> Value:
        """Square root."""
        return self._alone("sqrt")

    def abs(self) -> Value:
        """Absolute value."""
        return self.maximum(-self)

    def tanh(self) -> Value:
        """Hyperbolic tangent."""
        return self._alone("tanh")

    def is_missing(self) -> Value:
        """1.0 where it is NaN, 0.0 elsewhere."""
        return self._alone("isnan").where(1.0, 0.0)

    def fill(self, values: Constant) -> Value:
        """Replace NaN."""
        return self._alone("isnan").where(values, self)

    def sum(self) -> Value:
        """Sum of each row, in one column."""
        return self.program.add("sum", 1, self.name)

    def max(self) -> Value:
        """Largest number of each row, in one column."""
        return self.program.add("max", 1, self.name)

    def where(self, one: Value | Constant, other: Value | Constant) -> Value:
        """``one`` where a comparison holds, and ``other`` elsewhere."""
        both = [v if isinstance(v, Value) else self.program.value(v) for v in (one, other)]
        width = max(self.width, *(value.width for value in both))
        return self.program.add("where", width, self.name, *(value.name for value in both))

    def columns(self, which: Sequence[int] | NDArray[np.integer[Any]]) -> Value:
        """Some of the columns, in this order."""
        places = np.asarray(which, dtype=np.int64)
        if len(places) == self.width and (places == np.arange(self.width)).all():
            return self
        return self.program.add(
            "columns", len(places), self.name, self.program.constant(places, dtype=np.int64)
        )

    def _alone(self, operation: str) -> Value:
        return self.program.add(operation, self.width, self.name)


@dataclass
class Program:
    """Inputs, constants, steps and outputs."""

    inputs: list[Input] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    # Of each output: number of columns, or None for one number or label per row.
    shapes: dict[str, int | None] = field(default_factory=dict)
    # One column that is added to all outputs: 0, or NaN for rows that the model refuses.
    refused: Value | None = None

    def input(self, name: str, kind: str, width: int = 1, *, complete: bool = False) -> Value:
        """Add an input."""
        given = Input(
            id=f"i{len(self.inputs)}", name=name, kind=kind, width=width, complete=complete
        )
        self.inputs.append(given)
        return Value(self, given.id, width)

    def constant(self, array: Any, dtype: Any = np.float64) -> str:
        """Add an array, or find an equal one."""
        array = np.ascontiguousarray(array, dtype=dtype)
        for name, known in self.constants.items():
            if (
                known.dtype == array.dtype
                and np.array_equal(known, array)
                and known.shape == array.shape
            ):
                return name
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def value(self, constant: Constant) -> Value:
        """A constant as an argument."""
        array = np.asarray(constant, dtype=np.float64)
        return Value(self, self.constant(array), array.shape[-1] if array.ndim else 1)

    def add(self, operation: str, width: int, *arguments: Any) -> Value:
        """Add a step."""
        name = f"v{len(self.steps)}"
        self.steps.append(Step(operation, name, arguments))
        return Value(self, name, width)

    def concat(self, parts: Sequence[Value]) -> Value:
        """Columns side by side."""
        if len(parts) == 1:
            return parts[0]
        return self.add("concat", sum(part.width for part in parts), *(part.name for part in parts))

    def look_up(self, text: Value, known: Mapping[str, int], table: Array) -> Value:
        """Rows of a table by text; the last row for unknown text."""
        return self.add("look_up", table.shape[1], text.name, dict(known), self.constant(table))

    def distance(self, operation: str, X: Value, Z: Array) -> Value:
        """Distances between rows and the rows of Z: "city" (absolute differences) or "chi2"."""
        return self.add(operation, len(Z), X.name, self.constant(Z))

    def output(self, name: str, value: Value, *, flat: bool = False) -> None:
        """Name a result; ``flat`` makes one number of each row of one column."""
        value = self._unless_refused(value)
        if flat:
            value = self.add("columns", 1, value.name, 0)
        self.outputs[name], self.shapes[name] = value.name, None if flat else value.width

    def label(self, decisive: Value, classes: Sequence[Any]) -> None:
        """Output the class of the largest column, the first one of equal columns or of NaN."""
        value = self.add("label", 1, self._unless_refused(decisive).name, list(classes))
        self.outputs["label"], self.shapes["label"] = value.name, None

    def _unless_refused(self, value: Value) -> Value:
        """NaN in rows that the model refuses: comparisons, as those of trees, hide NaN."""
        return value if self.refused is None or not value.width else value + self.refused

    def softmax(self, latents: Value) -> Value:
        """Probabilities of rows of log odds."""
        out = (latents - latents.max()).exp()
        return out / out.sum()
