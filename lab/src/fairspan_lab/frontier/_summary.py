"""Summaries of whole curves: dominated area, over-correction at the fair end, fit time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairspan.method.linalg import Array
from fairspan_lab.frontier._price import (
    BLIND,
    LIMITS,
    Row,
    Runs,
    attributes,
    choose,
    mean_se,
    price_table,
    worst,
)
from fairspan_lab.frontier._styles import compared_at

__all__ = ["fit_time", "fit_times", "hypervolume", "hypervolume_table", "over_correction"]


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
        if not curves:
            continue
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
            out.append(
                {
                    "data": data,
                    "method": method,
                    "splits": len(by_split),
                    "hypervolume": mean,
                    "se": se,
                    "reference_parity": reference[0],
                    "reference_error": reference[1],
                    "lowest_error": ideal[1],
                }
            )
    return out


def over_correction(runs: Runs, method: str = "fairspan") -> list[Row]:
    """|corr| on test rows at the fair end of the dial, against what sampling noise allows.

    The correlation of a model that is exactly fair in the population has a standard deviation of
    about 1/sqrt(n) on n rows; two of them are allowed for the test rows and two for the fit rows.
    `correlation_ratio_*` is the correlation ratio with the attribute on test rows (ten slices) at
    the first dial value, at the one chosen for the limit of `compared_at`, and at the last.
    """
    out = []
    for data in runs.sets:
        curves = list(runs.of(data, method, "sp").values())
        first, last = ([curve[i] for curve in curves] for i in (0, -1))
        chosen = [choose(curve, "sp", compared_at(data)).row for curve in curves]
        for name in attributes(last[0]) if last else []:
            parity, se = mean_se(float(row[f"test_sp[{name}]"]) for row in last)
            allowed = float(
                np.mean([2.0 / np.sqrt(r["n_test"]) + 2.0 / np.sqrt(r["n_fit"]) for r in last])
            )
            out.append(
                {"data": data, "method": method, "attribute": name, "splits": len(last)}
                | {"parity": parity, "se": se, "allowed": allowed}
                | {"excess": parity - allowed, "ratio": parity / allowed}
                | {"n_test": float(np.mean([row["n_test"] for row in last]))}
                | {
                    f"correlation_ratio_{where}": mean_se(
                        float(row.get(f"test_ratio[{name}]", np.nan)) for row in rows
                    )[0]
                    for where, rows in (("first", first), ("chosen", chosen), ("last", last))
                }
            )
    return out


def fit_times(runs: Runs) -> list[Row]:
    """CPU time of fairspan's one fit, relative to each of fairlearn's reductions."""
    rows = [
        {"data": data, "rival": rival}
        | {
            name: fit_time(runs, data, "sp", "fairspan", rival, dial=dial)
            for name, dial in (("whole_dial", True), ("one_value", False))
        }
        for data in runs.sets
        for rival in BLIND
        if rival.startswith("eg-")
    ]
    return [row for row in rows if not np.isnan(row["whole_dial"])]


def fit_time(
    runs: Runs, data: str, criterion: str, ours: str, rival: str, *, dial: bool = True
) -> float:
    """Ratio of CPU seconds, ours to the rival's: for all dial values, or for one of them.

    A user chooses one dial value among all of them, and so waits for all: one fit of ours, and one
    fit of the rival per value.
    """
    our_curves, rival_curves = runs.of(data, ours, criterion), runs.of(data, rival, criterion)
    our_seconds = mean_se(float(curve[0]["fit_seconds"]) for curve in our_curves.values())[0]
    fits = [[float(row["fit_seconds"]) for row in curve] for curve in rival_curves.values()]
    rival_seconds = mean_se(sum(times) / (1 if dial else len(times)) for times in fits)[0]
    return our_seconds / rival_seconds if rival_seconds > 0.0 else float("nan")
