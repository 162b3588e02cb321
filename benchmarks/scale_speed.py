"""Overhead of fairness in a fit, and speed of the pass over rows relative to the machine's peak.

python -m benchmarks.scale_speed      (some minutes; CPU time, one BLAS thread)
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import blas
from threadpoolctl import threadpool_limits
from tools.table import Measurement, at_least, at_most, show

from benchmarks.core import ALPHA, BLOCK_ROWS, ETA, GAMMA, cpu, make_data, unfair_fit
from fairspan import FairRidge
from fairspan.method.accumulate import MomentsPass

N_SLICES = 20
# Rounds of slabs, about a minute in total, since the load of the machine varies.
TURNS = 5


def fixed_model(landmarks: np.ndarray, **params: Any) -> FairRidge:
    """Fix all hyper-parameters, so that a fit is one pass and one solve."""
    return FairRidge(
        gamma=GAMMA,
        landmarks=landmarks,
        alpha=ALPHA,
        eta=ETA,
        n_sensitive_directions="all",
        random_state=0,
        **params,
        removal="training_rows",
    )


def some_rows(X: np.ndarray, D: int) -> np.ndarray:
    """D rows as landmarks, evenly through the data."""
    return X[:: len(X) // D][:D].copy()


def fair_over_unfair(D: int, n: int, repeats: int) -> float:
    """CPU time of a fair fit over that of the unfair one by the same feature map and moments.

    Everything fixed, no path; once with a continuous S in 20 slices, once with a binary one.

    Parameters
    ----------
    D, n : landmarks and rows.
    repeats : interleaved repeats of all three fits.

    Returns
    -------
    float
        The ratio, of the S for which it is larger.
    """
    return max(fair_ratios(D, n, repeats).values())


def fair_ratios(D: int, n: int, repeats: int) -> dict[str, float]:
    """Quickest fair fit over the quickest unfair one, for each kind of S; the fits take turns."""
    X, y, binary = make_data(n)
    kinds = {"binary": binary, "continuous": X[:, 0] + np.random.default_rng(1).normal(size=n)}
    landmarks = some_rows(X, D)
    times: dict[str, list[float]] = {kind: [] for kind in ("unfair", *kinds)}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(repeats):
            times["unfair"].append(cpu(lambda: unfair_fit(X, y, landmarks))[0])
            for kind, s in kinds.items():
                model = fixed_model(landmarks, n_slices=N_SLICES)
                times[kind].append(cpu(lambda m=model, s=s: m.fit(X, y, sensitive_features=s))[0])
    return {kind: min(times[kind]) / min(times["unfair"]) for kind in kinds}


def syrk_share(D: int, n: int) -> float:
    """Rate of the pass over rows, in n D^2 flops, as a share of the machine's own SYRK.

    The pass computes kernel columns, centres them and takes every moment; SYRK multiplies a matrix
    that is there already. A shared machine changes its speed within seconds, so the two take turns,
    a slab of rows at a time, and the quickest slab of each counts.

    Parameters
    ----------
    D, n : landmarks and rows.

    Returns
    -------
    float
        Share in (0, 1), against the block height at which SYRK is fastest.
    """
    X, y, s = make_data(n)
    heights, slab = (BLOCK_ROWS, 2 * BLOCK_ROWS, 4 * BLOCK_ROWS), 10 * BLOCK_ROWS
    K = np.random.default_rng(0).random((max(heights), D))
    target = np.zeros((D, D), order="F")

    def syrk(height: int) -> float:
        seconds, _ = cpu(
            lambda: [
                blas.dsyrk(1.0, K[:height].T, beta=1.0, c=target, lower=1, overwrite_c=1)
                for _ in range(slab // (2 * height))
            ]
        )
        return slab // (2 * height) * height * D**2 / seconds

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fixed_model(some_rows(X, D)).prepare(X, y, sensitive_features=s)
        data = model._read(X, y, s, None, None, reset=False)
        one, counter = (
            MomentsPass(model.pilot_, model.pilot_.empty_moments()),
            model.pilot_.counter(),
        )
        rates = []
        for start in TURNS * list(range(0, n, slab)):
            rows = data.take(np.arange(start, min(start + slab, n)))
            own = [syrk(height) for height in heights]
            seconds, _ = cpu(lambda rows=rows: one.add(rows, counter))
            rates.append([rows.n * D**2 / seconds, *own])
    # Take the fastest slab of each, since other processes can only add time.
    quickest = np.array(rates).max(axis=0)
    return float(quickest[0] / quickest[1:].max())


def measurements(n: int = 200_000) -> Iterator[Measurement]:
    """Both, at n rows."""
    share = syrk_share(1000, n)
    yield at_least(f"pass over rows / SYRK rate, D=1000, n={n:,}", share, 0.70)
    for D, repeats, limit in ((1000, 5, 1.10), (2048, 3, 1.05)):
        for kind, ratio in fair_ratios(D, n, repeats).items():
            what = f"S in {N_SLICES} slices" if kind == "continuous" else "binary S"
            yield at_most(f"fair fit / unfair fit, {what}, D={D}, n={n:,}", ratio, limit)


if __name__ == "__main__":
    sys.exit(show(measurements()))
