"""Blocks of rows that are read again after the moments, and whether they are the rows of the moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from fairspan.method.folds import check_block_groups
from fairspan.method.linalg import Array
from fairspan.method.moments import Moments
from fairspan.method.pilot import Pilot
from fairspan.method.problem import Codes, Data

if TYPE_CHECKING:
    from fairspan.estimators.base import FairKernelEstimator

__all__ = ["FoldSums", "check_starts_anew", "read_block", "refuse_rows"]

_ROLES = ("X", "y", "sensitive_features", "control_features", "sample_weight")
# Difference of sums that is rounding, in shares of the weight (classes) and in standard deviations.
_ROUNDING = {"float64": 1e-6, "float32": 1e-3}


def read_block(est: FairKernelEstimator, block: Any) -> Data:
    """Clean rows of a block of ``fit_head``."""
    if not isinstance(block, Mapping):
        if not isinstance(block, tuple | list) or len(block) != 3:
            msg = "A block of fit_head is (X, y, sensitive_features), or a dict of fit's arguments."
            raise ValueError(msg)
        block = dict(zip(_ROLES[:3], block, strict=True))
    allowed = (*_ROLES, "groups")
    if unknown := sorted(set(block) - set(allowed)):
        msg = f"A block of fit_head has {unknown[0]!r}; allowed are {', '.join(allowed)}."
        raise ValueError(msg)
    given = [block.get(role) for role in _ROLES]
    data = est._read(*given, groups=block.get("groups"), reset=False)
    pilot = est._pilot
    if pilot.fold_rule != "keys":  # rows of a fit are compared with its folds
        check_block_groups(data.clusters, pilot.fold_rule, clustered=pilot.clustered)
    return data


def check_starts_anew(blocks: Any, parameter: str, other: str) -> None:
    """Raise for an iterator, if a parameter needs the blocks more than once."""
    if isinstance(blocks, Iterator):
        msg = (
            f"fit_head with {parameter} reads the blocks more than once, but was given an iterator, "
            f"which ends after once. Pass a list, or another object whose iter() starts anew; or use "
            f"{other}."
        )
        raise ValueError(msg)


def refuse_rows(n_rows: int, expected: int) -> NoReturn:
    """Raise because rows that are read again have not the folds of the moments."""
    msg = (
        f"fit_head was given {n_rows} rows that are not those of the moments, or in another order "
        f"({expected} rows), so it is not known which functions did not see a row. Give the same rows in "
        f"the same order. Folds of merged workers have an order only after prepare(..., "
        f"folds='position'), and need none after prepare(..., folds='hash')."
    )
    raise ValueError(msg)


class FoldSums:
    """Sums over the rows of each fold: weight of each class, and weighted values of functions.

    They show whether rows that are read again are those of the moments, fold by fold.
    """

    def __init__(self, functions: Array, mean: Array, n_folds: int, n_classes: int) -> None:
        self._functions, self._mean = functions, mean
        self._classes = np.zeros((n_folds, n_classes))
        self._values = np.zeros((n_folds, functions.shape[1]))
        self.n_rows = 0

    def add(self, folds: Codes, codes: Codes, values: Array, weight: Array | None) -> None:
        """Add rows: their folds, classes, values of the functions less those at the mean, and weights."""
        each = np.ones(len(codes)) if weight is None else weight
        np.add.at(self._classes, (folds, codes), each)
        np.add.at(self._values, folds, each[:, None] * values)
        self.n_rows += len(codes)

    def values(self, psi: Array) -> Array:
        """Values of the functions at coordinates psi, less those at the mean."""
        return np.asarray((psi - self._mean) @ self._functions)

    def agree_with(self, moments: Moments, pilot: Pilot) -> bool:
        """Whether the moments are of these rows, fold by fold, up to rounding."""
        by_fold, target, pending = moments.over_cells(), len(pilot.coders), pilot.features.pending
        total, f = by_fold.pool(), self._functions
        # Both in the coordinates of the moments.
        whole = f if pending is None else pending @ f
        sd = np.sqrt(np.maximum(np.einsum("dm,dm->m", whole, total.cov @ whole), 0.0))
        for k in range(by_fold.n_folds):
            pooled = by_fold.pool(folds=np.arange(by_fold.n_folds) == k)
            expected = pooled.weight * (pooled.mean @ whole - self._mean @ f)
            off = (
                np.abs(self._values[k] - expected),
                np.abs(self._classes[k] - pooled.levels[target].weight),
            )
            if np.any(off[0] > _ROUNDING[pilot.precision] * pooled.weight * sd):
                return False
            if np.any(off[1] > _ROUNDING["float64"] * pooled.weight):
                return False
        return True
