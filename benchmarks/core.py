"""Speed of the core, as ratios in one run: CPU time, one BLAS thread, interleaved repeats.

    make bench                      (all of it, a few minutes)
    python -m benchmarks.core --quick   (n = 50k only)

Shared machines are noisy, so nothing here is a time: every figure is the median over repeats of a
ratio of CPU times taken back to back.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits
from tools.table import Measurement, at_least, at_most, show

from fairspan import FairRepresentation
from fairspan.method.accumulate import Accumulator
from fairspan.method.features import LandmarkMap
from fairspan.method.kernels import Kernel
from fairspan.method.moments import Moments

P, D, ALPHA, ETA = 20, 1000, 1.0, 1e-3
GAMMA = 1.0 / (2 * P)
PATH = np.linspace(0.0, 1.0, 100)
BLOCK_ROWS = 2048


def make_data(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Smooth regression with a binary protected attribute that shifts two features."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, P)) + 0.7 * s[:, None] * (np.arange(P) < 2)
    y = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.5 * rng.normal(size=n)
    return X, y, s


def cpu(function: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of a call, and its result."""
    start = time.process_time()
    out = function()
    return time.process_time() - start, out


def fair_fit(
    X: np.ndarray, y: np.ndarray, s: np.ndarray, landmarks: np.ndarray
) -> FairRepresentation:
    """Fit with fixed hyper-parameters, then a path of 100 models."""
    model = FairRepresentation(
        gamma=GAMMA,
        landmarks=landmarks,
        alpha=ALPHA,
        eta=ETA,
        random_state=0,
        removal="training_rows",
    ).fit(X, y, sensitive_features=s)
    for fairness in PATH:
        model.at(fairness)
    return model


def unfair_fit(
    X: np.ndarray, y: np.ndarray, landmarks: np.ndarray
) -> tuple[LandmarkMap, np.ndarray, float]:
    """Kernel ridge regression with the same feature map and moments, without S."""
    features = LandmarkMap.build(
        Kernel("rbf", {"gamma": GAMMA}), np.unique(landmarks, axis=0), None, exact=False
    )
    empty = Moments.empty(
        "bench", n_cells=1, n_folds=1, level_sizes=(), n_numeric=1, n_columns=features.n_columns
    )
    accumulator = Accumulator(empty)
    columns = features.columns_into(accumulator.buffer(BLOCK_ROWS))
    for start in range(0, len(X), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        n = len(y[rows])
        accumulator.add(
            columns(X[rows]),
            np.zeros(n, dtype=np.intp),
            np.empty((n, 0), dtype=np.intp),
            y[rows, None],
            None,
        )
    pooled = accumulator.finish().project(features.whitening).pool()
    normal = pooled.scatter + ALPHA * np.eye(len(pooled.scatter))
    coef = scipy.linalg.solve(normal, pooled.columns[0].cross, assume_a="pos")
    return features, coef, pooled.columns[0].mean - pooled.mean @ coef


def sklearn_fit(X: np.ndarray, y: np.ndarray) -> tuple[Nystroem, Ridge]:
    """The usual pipeline: Nystroem, then Ridge."""
    features = Nystroem(gamma=GAMMA, n_components=D, random_state=0)
    return features, Ridge(alpha=ALPHA).fit(features.fit_transform(X), y)


def automatic_fit(X: np.ndarray, y: np.ndarray, s: np.ndarray) -> FairRepresentation:
    """Fit with default hyper-parameters, then the same path."""
    model = FairRepresentation(random_state=0, removal="training_rows").fit(
        X, y, sensitive_features=s
    )
    for fairness in PATH:
        model.at(fairness)
    return model


def fit_ratios(n: int, repeats: int) -> dict[str, float]:
    """Ratios at n rows; medians over interleaved repeats."""
    X, y, s = make_data(n)
    new, _, _ = make_data(1000, seed=1)
    ratios: dict[str, list[float]] = {"fair/unfair": [], "sklearn/fair": [], "automatic/fixed": []}
    for repeat in range(repeats):
        t_sklearn, (nystroem, ridge) = cpu(lambda: sklearn_fit(X, y))
        landmarks = nystroem.components_
        t_fair, fair = cpu(lambda z=landmarks: fair_fit(X, y, s, z))
        t_unfair, (features, coef, intercept) = cpu(lambda z=landmarks: unfair_fit(X, y, z))
        t_auto, _ = cpu(lambda: automatic_fit(X, y, s))
        ratios["fair/unfair"].append(t_fair / t_unfair)
        ratios["sklearn/fair"].append(t_sklearn / t_fair)
        ratios["automatic/fixed"].append(t_auto / t_fair)
        if repeat == 0:
            zero = fair.at(0.0)
            ours = zero.transform(new) @ zero.score_coef_ + zero.score_intercept_
            theirs = ridge.predict(nystroem.transform(new))
            plain = features.scores(new, coef[:, None])[:, 0] + intercept
            deviation = max(np.abs(ours[:, 0] - theirs).max(), np.abs(plain - theirs).max())
    out = {name: float(np.median(values)) for name, values in ratios.items()}
    return {**out, "prediction difference": float(deviation)}


def peak_memory(n: int) -> float:
    """MiB that a fit adds to the peak of a fresh process that already holds the data."""
    # Read the peak from /proc: getrusage would include the peak of the parent process.
    code = (
        "import re; from benchmarks.core import *\n"
        "def status(key):\n"
        "    return int(re.search(key + r':\\s+(\\d+) kB', open('/proc/self/status').read())[1])\n"
        f"X, y, s = make_data({n}); landmarks = X[:: {n} // D][:D].copy()\n"
        "before = status('VmRSS')\n"
        "with threadpool_limits(1): fair_fit(X, y, s, landmarks)\n"
        "print(json.dumps((status('VmHWM') - before) / 1024))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(json.loads(out.stdout.splitlines()[-1]))


def literal_ratio(n: int = 1628, p: int = 13) -> float:
    """Time of the paper's formulas for one model, relative to our fit with its path; run once."""
    from tests.golden import oracle  # the dense algorithm is part of the tests

    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, n).astype(float)
    X = rng.normal(size=(n, p)) + 0.7 * s[:, None] * (np.arange(p) < 2)
    y = np.where(X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    bandwidth = 8.0

    def printed() -> Any:
        K = oracle.rbf(X, X, 1.0 / bandwidth**2)
        return oracle.paper_model(
            K, y, s[:, None], criterion="sp", m=1, d=1, eta=1e-4, eps_list=[1.0], route="literal"
        )

    def ours() -> FairRepresentation:
        model = FairRepresentation.paper(bandwidth).fit(X, y, sensitive_features=s)
        for eps in np.cos(np.linspace(0.0, model.angles_.max(), 100)):
            model.at(eps)
        return model

    t_ours, model = cpu(ours)
    t_printed, fit = cpu(printed)
    np.testing.assert_allclose(model.cosines_, fit.sigma, atol=1e-8)
    return t_printed / t_ours


def measurements(quick: bool = False) -> Iterator[Measurement]:
    """Limits on the speed of the core."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = fit_ratios(50_000, 3)
        path = "fair fit with 100-point path"
        yield at_most(f"{path} / unfair ridge, n=50k", small["fair/unfair"], 1.15)
        yield at_least(f"Nystroem+Ridge / {path}, n=50k", small["sklearn/fair"], 2.0)
        yield at_most("everything automatic / fixed, n=50k", small["automatic/fixed"], 2.0)
        yield at_most("unfair predictions: difference, n=50k", small["prediction difference"], 1e-6)
        if quick:
            return
        large = fit_ratios(200_000, 2)
        yield at_least(f"Nystroem+Ridge / {path}, n=200k", large["sklearn/fair"], 2.5)
        yield at_most("everything automatic / fixed, n=200k", large["automatic/fixed"], 2.0)
        yield at_most(
            "unfair predictions: difference, n=200k", large["prediction difference"], 1e-6
        )
        memory = {n: peak_memory(n) for n in (50_000, 200_000)}
        model = 8 * D * (8 * D + 6 * BLOCK_ROWS) / 2**20 + 64
        yield at_most("peak MiB of a fit, n=200k (8 D^2 + 6 block D + 64)", memory[200_000], model)
        grown = memory[200_000] - memory[50_000]
        yield at_most("peak MiB, n=200k minus n=50k (codes of the rows)", grown, 64)
        yield at_least("formulas as printed / our whole path, n=1628", literal_ratio(), 15.0)


def main() -> int:
    """Print the table; exit code 1 on a miss."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n = 50k only")
    print(f"p={P}, D={D}, one BLAS thread, CPU time, medians of interleaved ratios")
    return show(measurements(parser.parse_args().quick))


if __name__ == "__main__":
    sys.exit(main())
