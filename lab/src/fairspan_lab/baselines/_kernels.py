"""Kernels and feature coordinates for the rivals."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairspan.method.features import LandmarkMap, TransformerMap
from fairspan.method.kernels import (
    GAMMA_KERNELS,
    WIDTH_KERNELS,
    Kernel,
    kernel_names,
    median_distance,
    width_to_gamma,
)
from fairspan.method.linalg import Array
from fairspan_lab.baselines._common import check_choice, check_count, check_number, refuse

FeatureMap = LandmarkMap | TransformerMap

AUTO_LANDMARKS = 1000
_MEDIAN_ROWS = 1000
_BLOCK_ROWS = 2048


def make_kernel(
    kernel: Any, gamma: Any, kernel_params: Any, X: Array, rng: np.random.Generator
) -> Kernel:
    """The kernel of an estimator's parameters, with gamma resolved on the training rows."""
    params = dict(kernel_params or {})
    if callable(kernel):
        return Kernel.from_callable(kernel, params, X)
    names = tuple(name for name in kernel_names() if name != "precomputed")
    if not isinstance(kernel, str) or kernel not in names:
        raise refuse("kernel", kernel, f"one of {', '.join(map(repr, names))}, or a callable")
    if kernel in GAMMA_KERNELS:
        params["gamma"] = choose_gamma(kernel, gamma, X, rng)
    return Kernel(kernel, params)


def choose_gamma(kernel: str, gamma: Any, X: Array, rng: np.random.Generator) -> float:
    """A number as it is; "scale" as in scikit-learn; "median": the width is the median distance."""
    if not isinstance(gamma, str):
        return check_number("gamma", gamma, open_low=True)
    check_choice("gamma", gamma, ("scale", "median"))
    if gamma == "median" and kernel in WIDTH_KERNELS:
        rows = rng.permutation(len(X))[:_MEDIAN_ROWS]
        return width_to_gamma(median_distance(X[rows], kernel), kernel)
    variance = float(X.var())
    return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0


def check_landmarks(name: str, value: object) -> None:
    """Refuse anything but "auto", "all", or a number of rows."""
    if not (isinstance(value, str) and value in ("auto", "all")):
        try:
            check_count(name, value)
        except ValueError:
            raise refuse(name, value, "'auto', 'all' or a whole number of at least 1") from None


def feature_map(kernel: Kernel, X: Array, size: Any, rng: np.random.Generator) -> FeatureMap:
    """Coordinates psi with ``k(x, z) = psi(x).psi(z)``: exact, or Nystrom on ``size`` random rows."""
    if kernel.name == "linear" and kernel.function is None:
        return TransformerMap(None, X.shape[1])
    n = len(X)
    size = n if size == "all" else min(n, AUTO_LANDMARKS if size == "auto" else int(size))
    rows = X if size == n else X[rng.permutation(n)[:size]]
    # Sorted distinct rows: with all of them the map does not depend on the order of the data.
    return LandmarkMap.build(kernel, np.unique(rows, axis=0), None, exact=size == n)


def kernel_scores(kernel: Kernel, X: Array, rows: Array, coef: Array) -> Array:
    """``sum_i coef_i k(x_i, x)`` for each x, in blocks that keep the Gram matrix small."""
    out = np.empty((len(X), *coef.shape[1:]))
    for start in range(0, len(X), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        out[block] = kernel(X[block], rows) @ coef
    return out
