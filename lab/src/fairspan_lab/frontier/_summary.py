"""One number for a whole curve: dominated area, over-correction at the fair end, time of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairspan.method.linalg import Array
from fairspan_lab.frontier._price import (
    LIMITS,
    Runs,
    attributes,
    mean_se,
    price_table,
    worst,
)

__all__ = ["fit_time", "hypervolume", "hypervolume_table", "over_correction"]

Row = dict[str, Any]


def hypervolume(
    points: Array, reference: tuple[float, float], ideal: tuple[float, float] = (0.0, 0.0)
) -> float:
    """Share of a rectangle that a frontier dominates; 0 is bad, 1 is reached by the ideal alone.

    A point (parity p, error e) dominates every (p', e') with p' >= p and e' >= e. The area is that
    of the union of these quarter planes inside the rectangle from `ideal` to `reference`, over the
    area of the rectangle. Points beyond the reference in either coordinate add nothing; points are
    not joined by lines, since what lies between two models is not a model.

    Parameters
    ----------
    points : array of shape (n, 2)
        Parity and error of each model.
    reference : pair of float
        The upper corner: parity and error that a point must stay below.
    ideal : pair of float, default=(0, 0)
        The lower corner, below all points. Moving it changes the scale only.
    """
    width, height = reference[0] - ideal[0], reference[1] - ideal[1]
    if width <= 0.0 or height <= 0.0:
        return 0.0
    x, y = np.clip(np.asarray(points, dtype=np.float64), ideal, reference).T
    order = np.lexsort((y, x))
    steps = np.diff(np.append(x[order], reference[0]))
    depth = reference[1] - np.minimum.accumulate(y[order])
    return float(steps @ depth) / (width * height)


def hypervolume_table(runs: Runs, limits: Sequence[float] = LIMITS) -> list[Row]:
    """Hypervolume of (worst |corr| with S, error) on test rows, per data set and method.

    The reference point is one per data set: the largest |corr| at the first dial value (mean over
    splits) of any method, and the largest error (mean over splits) any method was chosen with at any of
    the limits. The other corner is |corr| 0 and the lowest error of any model on any split.
    """
    out = []
    for data in runs.sets:
        curves = {method: runs.of(data, method, "sp") for method in runs.methods(data, "sp")}
        starts = [mean_se(worst(c[0], "sp") for c in by.values())[0] for by in curves.values()]
        chosen = [row["error"] for row in price_table(runs, data, "sp", "sp", limits)]
        reference = (max(starts), max(chosen))
        models = (row for by in curves.values() for curve in by.values() for row in curve)
        ideal = (0.0, min(float(row["test_error"]) for row in models))
        for method, by_split in curves.items():
            mean, se = mean_se(
                hypervolume(
                    np.array([[worst(r, "sp"), r["test_error"]] for r in curve]), reference, ideal
                )
                for curve in by_split.values()
            )
            out.append({
                "data": data, "method": method, "splits": len(by_split), "hypervolume": mean,
                "se": se, "reference_parity": reference[0], "reference_error": reference[1],
                "lowest_error": ideal[1],
            })  # fmt: skip
    return out


def over_correction(runs: Runs, method: str = "fairspan") -> list[Row]:
    """|corr| on test rows at the fair end of the dial, against what sampling noise allows.

    The correlation of a model that is exactly fair in the population has a standard deviation of
    about 1/sqrt(n) on n rows; two of them are allowed for the test rows and two for the fit rows.
    """
    out = []
    for data in runs.sets:
        last = [curve[-1] for curve in runs.of(data, method, "sp").values()]
        for name in attributes(last[0]) if last else []:
            parity, se = mean_se(float(row[f"test_sp[{name}]"]) for row in last)
            allowed = float(
                np.mean([2.0 / np.sqrt(r["n_test"]) + 2.0 / np.sqrt(r["n_fit"]) for r in last])
            )
            out.append({
                "data": data, "attribute": name, "splits": len(last), "parity": parity, "se": se,
                "allowed": allowed, "excess": parity - allowed, "ratio": parity / allowed,
            })  # fmt: skip
    return out


def fit_time(
    runs: Runs, data: str, criterion: str, ours: str, rival: str, *, dial: bool = True
) -> float:
    """CPU seconds of ours over the rival's: for all values of the dial, or for one of them.

    A value of the dial is chosen among all, so what a user waits for is all of them: one fit of ours,
    and one of the rival's for each value.
    """
    mine, theirs = runs.of(data, ours, criterion), runs.of(data, rival, criterion)
    own = mean_se(float(curve[0]["fit_seconds"]) for curve in mine.values())[0]
    each = [[float(row["fit_seconds"]) for row in curve] for curve in theirs.values()]
    other = mean_se(sum(one) if dial else sum(one) / len(one) for one in each)[0]
    return own / other if other > 0.0 else float("nan")
