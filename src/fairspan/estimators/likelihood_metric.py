"""Covariances with rows weighted by the curvature of the likelihood, from passes over the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from fairspan.estimators.rows_again import FoldSums
from fairspan.method.features import LandmarkMap, TransformerMap
from fairspan.method.laplace import LEAST_CURVATURE, row_curvature
from fairspan.method.linalg import Array, is_tensor, to_float64, to_numpy
from fairspan.method.pilot import Pilot
from fairspan.method.problem import Codes, Data
from fairspan.method.torch_columns import compute_dtype, exact_float32, row_blocks

__all__ = ["LikelihoodMetric"]

# Rows whose coordinates are formed at once.
_BLOCK_ROWS = 2**13


class LikelihoodMetric:
    """Covariances of psi under the weights of a likelihood (:class:`RowCurvature`).

    Class probabilities are those of the regression on one-hot labels, which moments give: no Newton
    steps before the geometry is known. Weights are shares of their sum, so a ridge means the same as
    beside the plain covariance.

    Parameters
    ----------
    pilot : Pilot
    blocks : callable
        Returns the blocks of rows, anew for every pass.
    sums : FoldSums, optional
        To which the rows of :meth:`without_folds` are added, so that they can be compared with the moments.
    """

    def __init__(
        self, pilot: Pilot, blocks: Callable[[], Iterable[Data]], sums: FoldSums | None = None
    ) -> None:
        self._pilot, self._blocks, self._sums = pilot, blocks, sums

    def whole(self, mean: Array, functions: Array, shares: Array) -> Array:
        """Covariance over all rows, (D, D)."""
        features = self._pilot.features
        total, first, second = 0.0, np.zeros(len(mean)), np.zeros((len(mean), len(mean)))
        for data in self._blocks():
            if is_tensor(data.X):
                more = _tensor_sums(features, data.X, data.weights, mean, functions, shares)
                total, first, second = total + more[0], first + more[1], second + more[2]
                continue
            for rows in _slices(data.n):
                psi = features.coordinates(data.X[rows]) - mean
                v = row_curvature(shares + psi @ functions)
                v = v if data.weights is None else v * data.weights[rows]
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

    def without_folds(self, means: Array, functions: Array, shares: Array) -> Array:
        """Covariances over the rows outside each fold, (folds, D, D), with probabilities of their own.

        The weight of a row depends on the fold that is left out: a regression on all rows would make
        every metric depend on the labels of the rows that it is to be judged on.
        """
        K, D = means.shape
        total, first, second = np.zeros(K), np.zeros((K, D)), np.zeros((K, D, D))
        for classes, psi, folds, weight in self._rows_with_folds():
            if self._sums is not None:
                self._sums.add(folds, classes, self._sums.values(psi), weight)
            for k in range(K):
                others = folds != k
                centred = psi[others] - means[k]
                v = row_curvature(shares[k] + centred @ functions[k])
                v = v if weight is None else v * weight[others]
                total[k] += v.sum()
                first[k] += v @ centred
                centred *= np.sqrt(v)[:, None]
                second[k] += centred.T @ centred
        if not total.all():
            msg = "fit_head was given no rows."
            raise ValueError(msg)
        first /= total[:, None]
        second /= total[:, None, None]
        second -= first[:, :, None] * first[:, None, :]
        return second

    def _rows_with_folds(self) -> Iterator[tuple[Codes, Array, Codes, Array | None]]:
        """Classes, coordinates, folds and weights of some rows at a time."""
        pilot, counter = self._pilot, self._pilot.counter()
        for data in self._blocks():
            if data.n == 0:  # rows of weight zero still advance the counter
                counter.assign(np.empty((0, 1), dtype=np.intp), None, data.given)
                continue
            encoded = pilot.encode(data)
            folds = to_numpy(pilot.folds(data, encoded, counter))
            classes = to_numpy(encoded.levels)[:, len(pilot.coders)]
            weights = to_numpy(data.weights)
            for rows in _slices(data.n):
                psi = np.asarray(to_numpy(pilot.features.coordinates(data.X[rows])), dtype=float)
                yield classes[rows], psi, folds[rows], None if weights is None else weights[rows]


def _slices(n: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK_ROWS) for start in range(0, n, _BLOCK_ROWS))


def _tensor_sums(
    features: LandmarkMap | TransformerMap,
    X: Any,
    weight: Any,
    mean: Array,
    functions: Array,
    shares: Array,
) -> tuple[float, Array, Array]:
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
            v = (1.0 - p.square().sum(dim=1)).clamp_(min=LEAST_CURVATURE)
            v = v if weight is None else v * weight[rows].to(v)
            total, first = total + v.sum(), first + v @ psi
            psi *= v.sqrt()[:, None]
            second.addmm_(psi.T, psi)
    return float(total), to_float64(first), to_float64(second)
