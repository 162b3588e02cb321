"""Read ``sample_weight`` (one number of at least 0 per row) and ``groups`` (one label per row)."""

from __future__ import annotations

import hashlib
import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from fairspan.inputs.columns import read_attributes, refuse_dates, unmasked
from fairspan.inputs.tensors import all_finite
from fairspan.method.linalg import Array, is_tensor, to_home

# Weights multiply squares.
_WEIGHT_RANGE = 1e100


def read_weights(sample_weight: Any, n: int, home: Any, *, block: bool) -> Array:
    """Finite weights, one per row and none negative; ``block`` allows that all of them are zero."""
    if is_tensor(sample_weight):
        tensor: Array = _read_tensor(sample_weight, n, home, block=block)
        return tensor
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(n, float(sample_weight))
    try:
        given = np.asarray(unmasked(sample_weight))
        refuse_dates(given, "sample_weight")
        given = given.astype(np.float64) if given.dtype.kind in "OUS" else given
    except (TypeError, ValueError) as error:
        msg = f"sample_weight must be one number per row; got {sample_weight!r:.80}."
        raise ValueError(msg) from error
    weights = check_array(
        given,
        ensure_2d=False,
        dtype=np.float64,
        ensure_all_finite=False,
        input_name="sample_weight",
    )
    _check_shape(weights.shape, n)
    # Not by check_array, which looks at no value under scikit-learn's assume_finite.
    unusable = int((~np.isfinite(weights)).sum())
    if unusable:
        what = "NaN" if np.isnan(weights).any() else "infinity"
        raise ValueError(
            f"Input sample_weight contains {what}: {unusable} rows have no finite weight. Give a number "
            f"of at least 0 for every row; weight 0 leaves a row out."
        )
    if (weights < 0).any():
        negative = int((weights < 0).sum())
        msg = f"sample_weight holds {negative} negative values; weights are counts or precisions."
        raise ValueError(msg)
    _check_range(weights.max(initial=0.0))
    # All-zero weights are fine for a streamed block, but an error for `fit`.
    if not block and not (weights > 0).any():
        raise ValueError("sample_weight is zero for every row; nothing is left to fit.")
    checked: Array = to_home(weights, home)
    return checked


def _check_range(largest: float) -> None:
    if largest > _WEIGHT_RANGE or 0.0 < largest < 1.0 / _WEIGHT_RANGE:
        raise ValueError(
            f"sample_weight is {largest:.3g} at most; that must be from {1.0 / _WEIGHT_RANGE:g} to "
            f"{_WEIGHT_RANGE:g}. Rescale the weights: weight k counts as k copies."
        )


def read_groups(groups: Any, n: int) -> NDArray[np.int64]:
    """Hashes of the labels of groups, one per row: rows of one label belong together."""
    columns = read_attributes(groups, n, "groups", "group")
    if len(columns) > 1:
        raise ValueError(f"groups has {len(columns)} columns; give one label per row.")
    column = next(iter(columns.values()))
    if column.missing.any():
        raise ValueError(
            f"groups is missing in {int(column.missing.sum())} rows. Give every row the label of its "
            f"group; a row that belongs to no other gets a label of its own."
        )
    labels, inverse = np.unique(column.values, return_inverse=True)
    digests = [hashlib.blake2b(str(label).encode(), digest_size=8).digest() for label in labels]
    hashes = np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)
    return np.asarray(hashes[inverse.ravel()])


def _read_tensor(sample_weight: Any, n: int, home: Any, *, block: bool) -> Any:
    """Weights of the rows, none of them negative."""
    import torch

    weights = sample_weight.detach().to(home, torch.float64)
    _check_shape(tuple(weights.shape), n)
    if not all_finite(weights):
        what = "NaN" if bool(weights.isnan().any()) else "infinity"
        raise ValueError(f"Input sample_weight contains {what}.")
    low, high = torch.aminmax(weights)
    if float(low) < 0.0:
        negative = int((weights < 0).sum())
        msg = f"sample_weight holds {negative} negative values; weights are counts or precisions."
        raise ValueError(msg)
    _check_range(float(high))
    if not block and float(high) == 0.0:
        raise ValueError("sample_weight is zero for every row; nothing is left to fit.")
    return weights


def _check_shape(shape: tuple[int, ...], n: int) -> None:
    """One weight per row, in the words of scikit-learn."""
    if len(shape) != 1:
        raise ValueError("Sample weights must be 1D array or scalar")
    if shape != (n,):
        raise ValueError(f"sample_weight.shape == {shape}, expected {(n,)}!")
