"""The geometry of a likelihood for labels: distance between predictions where they can still change.

Least squares measures the distance between two score functions alike on all rows. To the logistic
likelihood a row that is all but certain is worth little: its second derivative is ``p (1 - p)``. The
fair function nearest to the unconstrained one in that measure gives way where it costs least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from fairspan._linalg import Array
from fairspan.features import LandmarkMap, TransformerMap
from fairspan.laplace import row_curvature

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
