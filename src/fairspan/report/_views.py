"""What is drawn at one place of the slider: distributions, calibration, binned means, confusion."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.stats

from fairspan.auditing._rows import Protected
from fairspan.method.codes import code_slices, slice_edges
from fairspan.method.data import Codes
from fairspan.method.linalg import Array

__all__ = [
    "binned_means",
    "calibration_points",
    "confusion",
    "count_groups",
    "distributions",
    "largest_ks",
    "merge_small",
    "rough",
]

# Bins of a histogram from so many rows up: few rows in many bins are all noise. Their edges are short
# numbers where scores are probabilities.
_BINS = ((1000, 25), (300, 20), (0, 10))
# Parts of what was said: at most tenths, fifths of slices of a number, and fewer where a part would
# have fewer rows of a group than this on average.
_TENTHS, _FIFTHS, _FEWEST_PARTS, _ROWS_OF_A_PART = 10, 5, 3, 10
# Groups of an attribute that are shown, and combinations; beyond, the smallest are shown together.
MOST_GROUPS, MOST_COMBINATIONS = 12, 8


# Of groups with fewer rows only their number is told: anything else would be about single people.
FEWEST = 5


def count_groups(one: Protected) -> list[int]:
    """Rows of each group."""
    counts: list[int] = np.bincount(one.codes, minlength=len(one.labels)).tolist()
    return counts


def rough(values: Any, digits: int = 4) -> list[float]:
    """Numbers that are only drawn: a picture has no more digits than these."""
    return [float(f"{v:.{digits}g}") for v in np.asarray(values, dtype=np.float64).ravel()]


def merge_small(one: Protected, name: str, most: int) -> Protected:
    """The largest groups under a name of their own, and the rest of them as one group."""
    count = np.bincount(one.codes, minlength=len(one.labels))
    largest = np.sort(np.argsort(-count, kind="stable")[: most - 1])
    place = np.full(len(one.labels), most - 1)
    place[largest] = np.arange(most - 1)
    rest = f"all {len(one.labels) - most + 1} others"
    while rest in one.labels:
        rest += " "
    labels = (*(one.labels[h] for h in largest), rest)
    return Protected(name, "categorical", place[one.codes].astype(np.intp), labels)


# ------------------------------------------------------------------ distributions


def distributions(
    score: Array, one: Protected, weight: Array, *, shares: bool, min_rows: int
) -> dict[str, Any]:
    """Histogram of each group's scores over common bins, their means, and the largest distance.

    Parameters
    ----------
    score, weight : (n,)
    one : the groups.
    shares : the score lies between 0 and 1, and so do the bins.
    min_rows : smaller groups are drawn, but not compared.
    """
    low, high = (0.0, 1.0) if shares else (float(score.min()), float(score.max()))
    if not high > low:
        low, high = low - 0.5, high + 0.5
    n_bins = next(bins for least, bins in _BINS if len(score) >= least)
    edges = np.linspace(low, high, n_bins + 1)
    place = np.clip(np.searchsorted(edges, score, side="right") - 1, 0, n_bins - 1)
    n_levels = len(one.labels)
    mass = np.bincount(one.codes * n_bins + place, weight, minlength=n_levels * n_bins)
    mass = mass.reshape(n_levels, n_bins)
    total = mass.sum(axis=1)
    safe = np.where(total > 0.0, total, 1.0)
    means = np.bincount(one.codes, weight * score, minlength=n_levels) / safe
    count = np.array(count_groups(one))
    value, pair = largest_ks(score, one.codes, weight, count >= min_rows)
    told = (count >= FEWEST) & (total > 0.0)
    return {
        "edges": rough(edges, 5),
        "shares": [
            rough(row, 3) if t else [None] * n_bins
            for row, t in zip(mass / safe[:, None], told, strict=True)
        ],
        "means": [float(m) if t else None for m, t in zip(means, told, strict=True)],
        "ks": {"value": value, "groups": [one.labels[h] for h in pair]},
    }


def largest_ks(
    score: Array, codes: Codes, weight: Array, large: Any
) -> tuple[float, tuple[int, ...]]:
    """Largest Kolmogorov-Smirnov distance between two groups, and which two.

    At every score the largest difference between two groups is the range of all their shares below
    it, so pairs need not be tried. NaN where fewer than two groups are large enough.
    """
    levels = np.flatnonzero(large)
    if len(levels) < 2:
        return float("nan"), ()
    order = np.argsort(score, kind="stable")
    ordered, mine, heavy = score[order], codes[order], weight[order]
    last = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
    below = np.stack([np.cumsum(np.where(mine == h, heavy, 0.0))[last] for h in levels])
    below /= below[:, -1:]
    spread = below.max(axis=0) - below.min(axis=0)
    at = int(np.argmax(spread))
    high, low = int(np.argmax(below[:, at])), int(np.argmin(below[:, at]))
    if high == low:  # all alike
        high, low = 0, 1
    pair = tuple(int(levels[h]) for h in sorted((high, low)))
    return float(spread[at]), pair


# ------------------------------------------------------------------ said and came


def calibration_points(
    said: Array, came: Array, one: Protected, weight: Array, min_rows: int
) -> list[list[dict[str, Any]]]:
    """Per group: in each part of what was said (of all rows), its mean and that of what came.

    Groups of fewer than ``min_rows`` have no points: a part of them would be a person or two.
    """
    n_levels = len(one.labels)
    filled = len(said) // (_ROWS_OF_A_PART * n_levels)
    parts = min(max(filled, _FEWEST_PARTS), _TENTHS if one.values is None else _FIFTHS)
    part = code_slices(said, slice_edges(said, parts, weight))
    cell, size = one.codes * parts + part, n_levels * parts
    count = np.bincount(cell, minlength=size).reshape(n_levels, parts)
    mass = np.bincount(cell, weight, minlength=size)
    safe = np.where(mass > 0.0, mass, 1.0)
    means = [
        (np.bincount(cell, weight * column, minlength=size) / safe).reshape(n_levels, parts)
        for column in (said, came)
    ]
    return [
        [
            {"said": s, "came": c, "n": int(n)}
            for s, c, n in zip(rough(means[0][h], 3), rough(means[1][h], 3), count[h], strict=True)
            if n
        ]
        if count[h].sum() >= min_rows
        else []
        for h in range(n_levels)
    ]


def binned_means(score: Array, one: Protected, weight: Array, level: float) -> list[dict[str, Any]]:
    """Mean score in every slice of a number, with the interval of a mean."""
    assert one.values is not None
    z = float(scipy.stats.norm.isf((1.0 - level) / 2.0))
    out: list[dict[str, Any]] = []
    for h in range(len(one.labels)):
        mine = np.flatnonzero(one.codes == h)
        if not len(mine):
            continue
        if len(mine) < FEWEST:
            out.append({"at": None, "mean": None, "low": None, "high": None, "n": len(mine)})
            continue
        w = weight[mine] / weight[mine].sum()
        mean = float(w @ score[mine])
        reach = float("nan")
        effective = 1.0 / float(w @ w)
        if effective > 1.0:
            variance = float(w @ (score[mine] - mean) ** 2)
            reach = z * float(np.sqrt(variance / (effective - 1.0)))
        out.append(
            {"at": float(w @ one.values[mine]), "mean": mean, "low": mean - reach,
             "high": mean + reach, "n": len(mine)}
        )  # fmt: skip
    return out


def confusion(chosen: Any, positive: Any, chosen_first: Any, mine: Any) -> dict[str, Any]:
    """Counts of people of a group: right and wrong decisions, and decisions changed from the first model."""
    a, b, first = chosen[mine], positive[mine], chosen_first[mine]

    def count(mask: Any) -> int:
        return int(np.count_nonzero(mask))

    return {
        "confusion": {"tp": count(a & b), "fp": count(a & ~b), "tn": count(~a & ~b),
                      "fn": count(~a & b)},
        "now_chosen": count(a & ~first), "no_longer_chosen": count(first & ~a),
    }  # fmt: skip
