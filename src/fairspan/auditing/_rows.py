"""Protected attributes as an audit sees them: groups of rows, and numbers where they are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.method.codes import numbered
from fairspan.method.data import Codes, Kind
from fairspan.method.linalg import Array

__all__ = ["Protected", "cross"]


@dataclass(frozen=True)
class Protected:
    """One protected attribute of every row audited; nothing is missing.

    Attributes
    ----------
    name, kind : "categorical" or "continuous"
    codes : (n,) level of each row, or slice of a continuous attribute.
    labels : names of the levels or slices.
    values : (n,) the numbers of a continuous attribute, None for a categorical one.
    """

    name: str
    kind: Kind
    codes: Codes
    labels: tuple[str, ...]
    values: Array | None = None

    def take(self, rows: Any) -> Protected:
        """Rows by index or mask; levels without a row stay in ``labels``."""
        values = None if self.values is None else self.values[rows]
        return replace(self, codes=self.codes[rows], values=values)

    def columns(self) -> Array:
        """What a test of dependence compares: the number itself, or one indicator per level seen."""
        if self.values is not None:
            return self.values[:, None]
        seen = np.unique(self.codes)
        return np.asarray(self.codes[:, None] == seen, dtype=np.float64)


def cross(parts: Sequence[Protected]) -> Protected:
    """Attributes as one: a level is a combination that occurs (continuous ones by their slices)."""
    codes = np.stack([part.codes for part in parts], axis=1)
    seen, crossed = np.unique(codes, axis=0, return_inverse=True)
    labels = numbered(  # "a & b" & "c", and "a" & "b & c"
        [
            " & ".join(part.labels[code] for part, code in zip(parts, row, strict=True))
            for row in seen
        ]
    )
    name = " x ".join(part.name for part in parts)
    return Protected(name, "categorical", crossed.ravel().astype(np.intp), labels)
