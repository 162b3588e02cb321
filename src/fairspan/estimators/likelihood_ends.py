"""Logistic regressions on out-of-fold scores: both ends of the dial on new rows (METHOD 12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from fairspan.estimators.likelihood_rows import TrainingRows
from fairspan.estimators.state import FittedState
from fairspan.method.calibration import one_slope
from fairspan.method.laplace import Laplace, fit_laplace
from fairspan.method.linalg import Array
from fairspan.method.new_rows import damped
from fairspan.method.new_rows_space import NewRowsEnds

__all__ = ["fit_ends", "latent_outputs", "likelihood_weights"]

# Standard deviation of log odds that is regarded as usual.
_SURE = 5.0
# Precision of out-of-fold regressions, as a share of that of the rows.
_WEAK = 1e-6
# Of the regression on all functions.
_MOST_COEFFICIENTS = 1_000


def fit_ends(state: FittedState) -> NewRowsEnds:
    """Logistic regressions of y on A and u, and on A - u with a slope of at least 0, out of fold."""
    solution, rows = state.solved, state.rows
    assert solution.new_rows is not None
    assert rows is not None
    fit = solution.new_rows
    weight, shares = likelihood_weights(state)
    if weight is not None:  # Newton's method stops at a gain in log likelihood of rows of weight 1
        weight = weight / weight.mean()
    K, L = len(shares), fit.contrasts.shape[1]
    contrasts = np.ones((1, 1)) if K == 2 else fit.contrasts
    scores = rows.held_out
    if scores is None:  # the rows came in another order, so their folds are not known
        scores = rows.scores
    start = np.log(shares[1:] / shares[0])

    def regress(C: Array) -> tuple[Array, Array]:
        """Coefficients (2L, outputs) and intercepts of the regression on the functions in C."""
        blocks = replace(rows, scores=scores).blocks(C, weight, K)
        # A precision that only keeps separated classes finite.
        precision = _WEAK * len(rows.codes) * C.T @ fit.cov @ C
        laplace = fit_laplace(
            blocks, precision, np.concatenate([start[None], np.zeros((C.shape[1], K - 1))])
        )
        coef, intercept = latent_outputs(laplace)
        return C @ coef, intercept

    m, rest = fit.path_size, ((0, len(fit.cov) - fit.path_size), (0, 0))
    values, vectors = np.linalg.eigh(fit.cov[:m, :m])
    C = np.pad(vectors[:, values > 1e-10 * max(values[-1], 1e-300)], rest)
    if C.shape[1] * (K - 1) <= _MOST_COEFFICIENTS:
        first, first_intercept = regress(C)
    else:  # Newton's method would take minutes: least squares, with one slope for all classes
        slope, first_intercept = one_slope(
            scores @ fit.first @ contrasts.T, rows.codes, weight, shares
        )
        first = slope * fit.first @ contrasts.T
    difference = np.pad(np.concatenate([np.eye(L), -np.eye(L)]), rest)
    if K == 2:
        last, last_intercept = (
            regress(difference) if np.any(fit.last) else (0.0 * difference, start)
        )
        if last[0, 0] <= 0.0:
            last, last_intercept = np.zeros_like(last), start
    else:
        slope, last_intercept = one_slope(
            scores @ difference @ contrasts.T, rows.codes, weight, shares
        )
        last = slope * difference @ contrasts.T
    first, last = (
        damped(end @ contrasts, solution.path.cov, fit.cov, _SURE) for end in (first, last)
    )
    return NewRowsEnds(
        contrasts=contrasts,
        first=first,
        last=last,
        first_intercept=first_intercept,
        last_intercept=last_intercept,
    )


def likelihood_weights(state: FittedState) -> tuple[Array | None, Array]:
    """Weights of the rows in the likelihood, and the share of each class under them."""
    rows, classes = state.rows, state.classes
    assert rows is not None
    assert classes is not None
    weight, class_weight = rows.weight, state.config.class_weight
    if class_weight is not None:
        # Unlike scikit-learn's "balanced", weighted rows count by their weights.
        by_class = class_weights(class_weight, classes, rows)[rows.codes]
        before = len(by_class) if weight is None else float(weight.sum())
        weight = by_class if weight is None else weight * by_class
        # Only the ratios count: doubling all class weights does not add rows.
        weight = weight * (before / max(float(weight.sum()), 1e-300))
    mass = np.bincount(rows.codes, weight, minlength=len(classes))
    if not (mass > 0.0).all():
        missing = classes[mass <= 0.0].tolist()[0]
        msg = f"No row of class {missing!r} has weight, so the likelihood has nothing on it."
        raise ValueError(msg)
    return weight, mass / mass.sum()


def latent_outputs(found: Laplace) -> tuple[Array, Array]:
    """Coefficients and intercepts of the log odds of two classes, or of K latents that sum to 0."""
    if found.n_classes == 2:
        return found.coef, found.intercept
    coef = np.concatenate([np.zeros((len(found.coef), 1)), found.coef], axis=1)
    intercept = np.concatenate([[0.0], found.intercept])
    return coef - coef.mean(axis=1, keepdims=True), intercept - intercept.mean()


def class_weights(class_weight: Any, classes: np.ndarray, rows: TrainingRows) -> Array:
    if isinstance(class_weight, str):  # "balanced"
        mass = np.bincount(rows.codes, rows.weight, minlength=len(classes))
        return np.asarray(mass.sum() / (len(classes) * mass))
    unknown = [label for label in class_weight if label not in classes.tolist()]
    if unknown:
        msg = f"class_weight names {unknown[0]!r}, which is no class. Classes: {classes.tolist()}."
        raise ValueError(msg)
    for label, weight in class_weight.items():
        if not isinstance(weight, int | float | np.number) or not 0.0 <= weight < np.inf:
            msg = f"class_weight[{label!r}]={weight!r} is not allowed; give a number, 0 or more."
            raise ValueError(msg)
    return np.asarray(compute_class_weight(dict(class_weight), classes=classes, y=classes))
