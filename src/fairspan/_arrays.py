"""What the hot path needs of numpy and torch alike."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["is_tensor", "mix", "to_numpy"]

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
