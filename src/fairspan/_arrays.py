"""What the hot path needs of numpy and torch alike."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["home_of", "is_tensor", "mix", "take", "to_float64", "to_home", "to_numpy"]

# Steele, Lea, Flood (2014): the finaliser of SplitMix64, in two's complement.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64


def is_tensor(obj: Any) -> bool:
    """Is it a torch tensor? torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor)


def to_numpy(obj: Any) -> Any:
    """Tensors as arrays in host memory; everything else as it is."""
    return obj.detach().cpu().numpy() if is_tensor(obj) else obj


def to_float64(tensor: Any) -> Any:
    """A float64 array of its own, whatever the tensor computes in."""
    return np.array(tensor.detach().cpu().numpy(), dtype=np.float64)


def home_of(X: Any) -> Any:
    """The device on which the float64 numbers and codes beside a tensor live; None for arrays.

    Its own, but for Apple's, which have no float64: beside those the processor keeps them.
    """
    if not is_tensor(X):
        return None
    return X.device if X.device.type != "mps" else "cpu"


def to_home(values: Any, home: Any) -> Any:
    """Array or tensor as a tensor at home; as it is where there are no tensors (None)."""
    if home is None:
        return values
    import torch  # there is a tensor, so it is installed

    if isinstance(values, np.ndarray) and not values.flags.writeable:
        values = values.copy()  # torch would share the memory, and warns of what could come of it
    return torch.as_tensor(values, device=home)


def take(values: Any, rows: Any) -> Any:
    """Rows of an array or a tensor, by numbers or mask in an array or a tensor."""
    if not is_tensor(values):
        return values[to_numpy(rows)]
    return values[rows if isinstance(rows, slice) else to_home(rows, values.device)]


def mix(places: Any, seed: int = 0) -> Any:
    """A hash of 64-bit integers with values from 0 to 2^63 - 1, for arrays and tensors alike.

    It depends on nothing but the integer and the seed, so that folds and samples are the same however
    rows are cut into blocks, and wherever they are computed.
    """
    z = places + (((seed + 1) * _GOLDEN + 2**63) % 2**64 - 2**63)  # as a signed number
    z = (z ^ _shift(z, 30)) * _FIRST
    z = (z ^ _shift(z, 27)) * _SECOND
    return (z ^ _shift(z, 31)) & (2**63 - 1)


def _shift(z: Any, bits: int) -> Any:
    """Logical shift to the right, which signed integers do not have."""
    return (z >> bits) & (2 ** (64 - bits) - 1)
