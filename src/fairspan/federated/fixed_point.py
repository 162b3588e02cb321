"""Sums over rows as integers: exact in any order, and maskable by secure aggregation.

A set of moments is turned into sums of ``1, x, x x', z, z^2, z x`` per group, with feature columns x and
numeric variables z. Each sum is multiplied by 2^48, rounded to an integer v, and stored in two 64-bit
words, ``v = high 2^32 + low``. Words are added modulo 2^64. The words of up to 1,024 sites cannot overflow,
because a site refuses sums of 2^36 and more. So the total is the same in any order and grouping of sites,
bit for bit, and masks that cancel modulo 2^64 cancel exactly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan.method.codes import Coder
from fairspan.method.linalg import Array
from fairspan.method.moments import Moments
from fairspan.method.pilot import Pilot

__all__ = ["FRACTION_BITS", "MOST_SITES", "add", "from_words", "masked", "shapes", "to_words"]

FRACTION_BITS = 48
MOST_SITES = 1024
_LOW_BITS = 32
# 2^62 for the high words of all sites, of which a site has a part of 1,024.
_LARGEST = 2.0 ** (62 - 10 + _LOW_BITS - FRACTION_BITS)

Words = NDArray[np.uint64]
_COUNTS = ("rows", "level_rows", "column_rows")


def _units(pilot: Pilot) -> tuple[Array, Array]:
    """Origin and unit of each numeric variable, from the agreed edges: exact, so alike at all sites."""
    origins, units = [], []
    for coder in pilot.numeric:
        origin, unit = _unit(coder)
        origins.append(origin)
        units.append(unit)
    return np.array(origins, dtype=np.float64), np.array(units, dtype=np.float64)


def _unit(coder: Coder) -> tuple[float, float]:
    edges = np.sort(coder.table.astype(np.float64))
    if len(edges) == 0:
        return 0.0, 1.0
    origin = float(edges[len(edges) // 2])
    reach = float(np.abs(edges - origin).max()) or abs(origin) or 1.0
    return origin, float(2.0 ** np.frexp(reach)[1])


def shapes(pilot: Pilot) -> dict[str, tuple[int, ...]]:
    """Shape of each array of words of such a pilot."""
    G, V, D = pilot.cells.n_groups * pilot.n_folds, len(pilot.numeric), pilot.features.n_columns
    H = sum(pilot.level_sizes)
    sums: dict[str, tuple[int, ...]] = {
        "weight": (G,),
        "weight2": (G,),
        "x": (G, D),
        "xx": (G, D * (D + 1) // 2),
        "level_weight": (G, H),
        "level_weight2": (G, H),
        "level_x": (G, H, D),
        "column_weight": (G, V),
        "column_weight2": (G, V),
        "column_x": (G, V, D),
        "column_z": (G, V),
        "column_zz": (G, V),
        "column_zx": (G, V, D),
        "log_weight": (1,),
    }
    counts = {"rows": (G,), "level_rows": (G, H), "column_rows": (G, V)}
    return {name: (2, *shape) for name, shape in sums.items()} | counts


def to_words(moments: Moments, pilot: Pilot) -> dict[str, Words]:
    """Turn moments into integers; raise ValueError if a sum is too large for them."""
    m, (origin, unit) = moments, _units(pilot)
    z = (m.column_mean - origin) / unit
    total = m.column_weight * z
    first, second = np.triu_indices(m.n_columns)
    sums = {
        "weight": m.weight,
        "weight2": m.weight2,
        "x": m.weight[:, None] * m.mean,
        "xx": np.stack(
            [
                scatter[first, second] + w * mean[first] * mean[second]
                for scatter, w, mean in zip(m.scatter, m.weight, m.mean, strict=True)
            ]
        ),
        "level_weight": m.level_weight,
        "level_weight2": m.level_weight2,
        "level_x": m.level_weight[..., None] * m.level_mean,
        "column_weight": m.column_weight,
        "column_weight2": m.column_weight2,
        "column_x": m.column_weight[..., None] * m.column_centre,
        "column_z": total,
        "column_zz": m.column_square / unit**2 + total * z,
        "column_zx": m.column_cross / unit[:, None] + total[..., None] * m.column_centre,
        "log_weight": np.array([m.sum_log_weight]),
    }
    out = {name: _words(name, np.asarray(values)) for name, values in sums.items()}
    counts = {name: getattr(m, name).astype(np.int64).view(np.uint64) for name in _COUNTS}
    return out | counts


def _words(name: str, values: Array) -> Words:
    if values.size and not np.abs(values).max() < _LARGEST:
        msg = (
            f"A sum ({name}) is {np.abs(values).max():.3g}, and fixed-point sums hold less than "
            f"{_LARGEST:.2g}. Divide large features by agreed numbers first, or leave fixed_point out."
        )
        raise ValueError(msg)
    high = np.floor(values * 2.0 ** (FRACTION_BITS - _LOW_BITS))
    low = np.rint(values * 2.0**FRACTION_BITS - high * 2.0**_LOW_BITS)
    return np.stack([low.astype(np.int64), high.astype(np.int64)]).view(np.uint64)


def add(a: Mapping[str, Words], b: Mapping[str, Words]) -> dict[str, Words]:
    """Add the words of two sites, modulo 2^64."""
    with np.errstate(over="ignore"):
        return {name: words + b[name] for name, words in a.items()}


def from_words(words: Mapping[str, Words], pilot: Pilot) -> Moments:
    """Turn the words of all sites together into moments.

    Raises
    ------
    ValueError
        If counts are below zero, as after masks that do not cancel. The message is the second half of a
        sentence.
    """
    counts = {name: words[name].view(np.int64).copy() for name in _COUNTS}
    sums = {name: _values(value) for name, value in words.items() if name not in _COUNTS}
    if any((n < 0).any() for n in counts.values()) or (sums["weight"] < 0.0).any():
        raise ValueError("counts or weights are below zero, so a mask or a site is missing")
    origin, unit = _units(pilot)
    D = pilot.features.n_columns
    first, second = np.triu_indices(D)
    mean = sums["x"] / _or_one(sums["weight"])[:, None]
    scatter = np.zeros((len(mean), D, D))
    for g, w in enumerate(sums["weight"]):
        centred = sums["xx"][g] - w * mean[g, first] * mean[g, second]
        scatter[g, first, second] = scatter[g, second, first] = centred
    column_weight = sums["column_weight"]
    centre = sums["column_x"] / _or_one(column_weight)[..., None]
    z = sums["column_z"] / _or_one(column_weight)
    square = sums["column_zz"] - column_weight * z**2
    cross = sums["column_zx"] - sums["column_z"][..., None] * centre
    return Moments(
        fingerprint=pilot.fingerprint,
        n_folds=pilot.n_folds,
        level_sizes=pilot.level_sizes,
        weight=sums["weight"],
        weight2=sums["weight2"],
        rows=counts["rows"],
        mean=mean,
        scatter=scatter,
        level_weight=sums["level_weight"],
        level_weight2=sums["level_weight2"],
        level_rows=counts["level_rows"],
        level_mean=sums["level_x"] / _or_one(sums["level_weight"])[..., None],
        column_weight=column_weight,
        column_weight2=sums["column_weight2"],
        column_rows=counts["column_rows"],
        column_mean=np.where(column_weight > 0.0, origin + unit * z, 0.0),
        column_square=square * unit**2,
        column_centre=centre,
        column_cross=cross * unit[:, None],
        sum_log_weight=float(sums["log_weight"][0]),
        first_index=-1,
        first_row=np.zeros(D),
    )


def _values(words: Words) -> Array:
    low, high = words[0], words[1].view(np.int64)
    total = high.astype(np.float64) * 2.0**_LOW_BITS + low.astype(np.float64)
    return np.asarray(total * 2.0**-FRACTION_BITS)


def _or_one(weight: Array) -> Array:
    return np.where(weight > 0.0, weight, 1.0)


def masked(
    words: Mapping[str, Words], site: str, keys: Mapping[str, bytes], context: str
) -> dict[str, Words]:
    """Add pairwise masks, which cancel in the sum over all sites (Bonawitz et al. 2017).

    Parameters
    ----------
    words : dict of arrays
    site : str
        Name of this site.
    keys : dict of bytes
        Secret that this site shares with each other site, by the other site's name. A key must serve for one
        export only: two files with the same masks show the difference of their sums.
    context : str
        What the masks are for, the same at all sites.
    """
    out: dict[str, Any] = dict(words)
    with np.errstate(over="ignore"):
        for name, values in words.items():
            for other, key in keys.items():
                label = f"fairspan mask {context} {name} ".encode()
                stream = hashlib.shake_256(label + key).digest(8 * values.size)
                mask = np.frombuffer(stream, dtype="<u8").astype(np.uint64).reshape(values.shape)
                out[name] = out[name] + mask if site < other else out[name] - mask
    return out
