"""The geometry of a likelihood for labels: distance between predictions where they can still change.

Least squares measures the distance between two score functions alike on all rows. To the logistic
likelihood a row that is all but certain is worth little: its second derivative is ``p (1 - p)``. The
fair function nearest to the unconstrained one in that measure gives way where it costs least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fairspan._arrays import is_tensor, to_float64
from fairspan._device import compute_dtype, exact_float32, row_blocks
from fairspan._linalg import Array
from fairspan.features import LandmarkMap, TransformerMap
from fairspan.laplace import _LEAST_CURVATURE, row_curvature

__all__ = ["RowCurvature", "weighted_cov"]

# From mu, functions of all classes (D, K) and shares of the classes to the D x D covariance.
RowCurvature = Callable[[Array, Array, Array], Array]
# Rows as they come: features and weights.
Blocks = Iterable[tuple[Array, Array | None]]

# Rows whose coordinates are formed at once.
_BLOCK_ROWS = 2**13


def weighted_cov(
    features: LandmarkMap | TransformerMap, blocks: Callable[[], Blocks]
) -> RowCurvature:
    """Covariance of psi with rows weighted by the curvature of the likelihood, in one pass.

    Class probabilities are those of the regression on one-hot labels, which moments give: no Newton
    steps before the geometry is known. Weights are shares of their sum, so a ridge means the same as
    beside the plain covariance.
    """

    def cov(mean: Array, functions: Array, shares: Array) -> Array:
        total, first, second = 0.0, np.zeros(len(mean)), np.zeros((len(mean), len(mean)))
        for X, weight in blocks():
            if is_tensor(X):
                sums = _tensor_sums(features, X, weight, mean, functions, shares)
                total, first, second = total + sums[0], first + sums[1], second + sums[2]
                continue
            for start in range(0, len(X), _BLOCK_ROWS):
                rows = slice(start, start + _BLOCK_ROWS)
                psi = features.coordinates(X[rows]) - mean
                v = row_curvature(shares + psi @ functions)
                v = v if weight is None else v * weight[rows]
                root = psi * np.sqrt(v)[:, None]
                total, first, second = (
                    total + float(v.sum()),
                    first + v @ psi,
                    second + root.T @ root,
                )
        if total == 0.0:
            msg = "fit_head was given no rows."
            raise ValueError(msg)
        first /= total
        return np.asarray(second / total - np.outer(first, first))

    return cov


def _tensor_sums(
    features: LandmarkMap | TransformerMap, X: Any, weight: Any, mean: Array, functions: Array,
    shares: Array,
) -> tuple[float, Array, Array]:  # fmt: skip
    """Sums of weights, of weighted rows and of their products, on the device of the rows."""
    import torch

    dtype, device = compute_dtype(X), X.device
    make = features.psi_on(device, dtype)
    centre, slopes, level = (
        torch.tensor(v, dtype=dtype, device=device) for v in (mean, functions, shares)
    )
    total, first = centre[:0].sum(), torch.zeros_like(centre)
    second = torch.zeros((len(mean), len(mean)), dtype=dtype, device=device)
    with exact_float32(dtype):
        for rows in row_blocks(X, 2 * len(mean)):
            psi = make(X[rows]).sub_(centre)
            p = torch.addmm(level, psi, slopes)
            v = (1.0 - p.square().sum(dim=1)).clamp_(min=_LEAST_CURVATURE)
            v = v if weight is None else v * weight[rows].to(v)
            total, first = total + v.sum(), first + v @ psi
            psi *= v.sqrt()[:, None]
            second.addmm_(psi.T, psi)
    return float(total), to_float64(first), to_float64(second)
