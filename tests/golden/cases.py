"""The golden cases of this folder as arrays: ``load_case(name)`` for a name in ``CASES``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent
CASES: tuple[str, ...] = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


@dataclass(frozen=True)
class Case:
    """One golden case: rows, settings, tolerances and expected numbers (see README.md)."""

    name: str
    X_train: NDArray[np.float64]
    S_train: NDArray[np.float64]
    y_train: NDArray[np.float64]
    X_test: NDArray[np.float64]
    S_test: NDArray[np.float64]
    y_test: NDArray[np.float64]
    settings: dict[str, Any]
    atol: dict[str, float]
    reference: dict[str, Any]
    oracle: dict[str, Any]

    @property
    def gamma(self) -> float:
        """Width of ``exp(-gamma |x-z|^2)``; the stored ``band`` b means gamma = 1/b^2."""
        return 1.0 / float(self.settings["band"]) ** 2


def _table(path: Path) -> dict[str, NDArray[np.float64]]:
    """Return the named columns of a CSV file."""
    with path.open(encoding="utf-8") as handle:
        names = handle.readline().strip().split(",")
        values = np.loadtxt(handle, delimiter=",", ndmin=2)
    return dict(zip(names, values.T, strict=True))


def _split(inputs: dict[str, Any], part: str) -> dict[str, NDArray[np.float64]]:
    """Return X, S and y of "train" or "test" as read-only fields of a case."""
    table = _table(FOLDER / inputs[part])
    x = np.column_stack([table[name] for name in inputs["x_columns"]])
    s = np.column_stack([table[name] for name in inputs["s_columns"]])
    fields = {f"X_{part}": x, f"S_{part}": s, f"y_{part}": table[inputs["y_column"]].copy()}
    for values in fields.values():
        values.setflags(write=False)
    return fields


@cache
def load_case(name: str) -> Case:
    """Load one case; its arrays are read-only and shared between callers."""
    with (FOLDER / f"{name}.json").open(encoding="utf-8") as handle:
        data = json.load(handle)
    return Case(
        name=name,
        settings=data["settings"],
        atol=data["atol"],
        reference=data["reference"],
        oracle=data["oracle"],
        **_split(data["inputs"], "train"),
        **_split(data["inputs"], "test"),
    )
