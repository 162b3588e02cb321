"""The kernel's width, from a subsample of the pilot rows (METHOD 1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.optimize

from fairspan._linalg import Array
from fairspan._validation import Data
from fairspan.codes import Cells
from fairspan.estimators._pilot import N_FOLDS, Pilot, accumulate
from fairspan.features import WIDTH_KERNELS, Kernel, LandmarkMap, median_distance, width_to_gamma
from fairspan.gp import evidence_ridge
from fairspan.moments import Moments
from fairspan.sdr import kfold_errors, ridge_grid, target_covariance

MEDIAN_WIDTH = 1.5
CV_WIDTHS = (0.7, 1.5, 3.0)
_MEDIAN_ROWS = 1000
_CV_ROWS, _CV_LANDMARKS = 1500, 200
# Evidence: exact on few rows; widths, in median distances, from which a search starts.
_EVIDENCE_ROWS = 500
_EVIDENCE_STARTS = (0.1, 0.3, 1.0, 3.0, 10.0)


def choose_gamma(est: Any, data: Data, pilot: Pilot, rng: np.random.Generator) -> float:
    if not isinstance(est.gamma, str):
        return float(est.gamma)
    variance = float(data.X.var())
    scale = 1.0 / (data.X.shape[1] * variance) if variance > 0 else 1.0
    if est.gamma == "scale" or est.kernel not in WIDTH_KERNELS:
        return 1.0 if est.kernel == "chi2" else scale
    rows = rng.choice(data.n, size=min(data.n, _MEDIAN_ROWS), replace=False)
    median = median_distance(data.X[rows], est.kernel)
    if est.gamma == "median" or data.y is None:
        return width_to_gamma(MEDIAN_WIDTH * median, est.kernel)
    if est.gamma == "evidence":
        few = data.take(rng.choice(data.n, size=min(data.n, _EVIDENCE_ROWS), replace=False))
        return _by_evidence(est, few, pilot, median)
    sample = data.take(rng.choice(data.n, size=min(data.n, _CV_ROWS), replace=False))
    candidates = [width_to_gamma(m * median, est.kernel) for m in CV_WIDTHS]
    errors = [_cv_error(est, sample, pilot, gamma) for gamma in candidates]
    return candidates[int(np.argmin(errors))]


def _cv_error(est: Any, sample: Data, pilot: Pilot, gamma: float) -> float:
    """Smallest 5-fold error of kernel ridge over the ridge grid, on a subsample."""
    landmarks = np.unique(sample.X[:_CV_LANDMARKS], axis=0)
    moments, small = _target_moments(est, sample, pilot, gamma, landmarks)
    grid = ridge_grid(float(np.trace(moments.pool().cov)))
    return float(kfold_errors(moments, small.target_position(), grid).min())


def _by_evidence(est: Any, sample: Data, pilot: Pilot, median: float) -> float:
    """The width of largest evidence, noise and prior precision at their best for each.

    Evidence has several local optima in the width, so the search starts from several.
    """
    landmarks = np.unique(sample.X, axis=0)

    def minus_two(log_width: float) -> float:
        gamma = width_to_gamma(float(np.exp(log_width)) * median, est.kernel)
        moments, small = _target_moments(est, sample, pilot, gamma, landmarks)
        total = moments.pool()
        kind, index = small.target_position()
        target = total.levels[index] if kind == "levels" else total.columns[index]
        cross, _, variance = target_covariance(total, target)
        found = evidence_ridge(
            total.cov, cross, variance, total.rows, total.weight,
            deeper=small.features.trend_decades,
        )  # fmt: skip
        return found.minus_two

    starts = np.log(_EVIDENCE_STARTS)
    reach = np.diff(starts).max()
    found = [
        scipy.optimize.minimize_scalar(
            minus_two, bounds=(start - reach, start + reach), method="bounded",
            options={"xatol": 0.05, "maxiter": 12},
        )
        for start in starts
    ]  # fmt: skip
    best = min(found, key=lambda one: float(one.fun))
    return width_to_gamma(float(np.exp(best.x)) * median, est.kernel)


def _target_moments(
    est: Any, sample: Data, pilot: Pilot, gamma: float, landmarks: Array
) -> tuple[Moments, Pilot]:
    """Moments of the target alone: no attributes, one cell."""
    kernel = Kernel(str(est.kernel), {**dict(est.kernel_params or {}), "gamma": gamma})
    if getattr(est, "mean", "constant") == "linear":
        kernel = kernel.with_trend(sample.X)
    features = LandmarkMap.build(kernel, landmarks, None, exact=False)
    small = replace(
        pilot, coders=(), features=features, n_folds=N_FOLDS, cells=Cells("all", ("all rows",)),
        code_target=not pilot.target_is_numeric,
    )  # fmt: skip
    moments = accumulate(
        small, small.empty_moments(), small.counter(), replace(sample, sensitive={}, control={})
    )
    return moments.project(features.whitening), small
