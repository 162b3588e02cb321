"""Cross-fitted predictions with bootstrap intervals, for attackers and the kernel check.

The kernel check compares the predictions of the kernel space with those of two references.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from fairspan.method.linalg import Array, psd_eigh
from fairspan.method.problem import Codes
from fairspan.metrics.groups import (
    bootstrap_counts,
    combinations,
    count_clusters,
    renumbered,
    standardize,
    strata_of_clusters,
    unit_of,
)

# Candidate ridge penalties, relative to the largest eigenvalue of the covariance.
_RIDGES = np.logspace(-9.0, 1.0, 31)
# Fewer bins than scikit-learn allows, so that it does not bin them again.
_BINS = 250
# Least value of 1 - leverage: rows with less are interpolated, and leave-one-out is meaningless.
_LEAST_AWAY = 1e-6


@dataclass(frozen=True)
class Estimate:
    """A number and its bootstrap interval."""

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def trees(n: int, n_classes: int, seed: int) -> Any:
    """Make small boosted trees for n training rows of :func:`bins`; 0 classes is a numeric target.

    Every round fits one tree per class, so several classes get fewer rounds to bound the cost.
    """
    rounds = 100 if n_classes <= 2 else max(30, 200 // n_classes)
    cls = HistGradientBoostingClassifier if n_classes else HistGradientBoostingRegressor
    return cls(
        max_iter=rounds,
        max_leaf_nodes=8,
        min_samples_leaf=int(np.clip(n // 20, 2, 20)),
        early_stopping=False,
        random_state=seed,
    )


def ridge(train: Array, target: Array, weight: Array, new: Array) -> Array:
    """Predict by ridge regression with an intercept; the penalty is chosen by leave-one-out.

    All columns of ``target`` have the same penalty. Generalised cross-validation would be cheaper, but
    on rows of unequal leverage (a few outliers are enough) it may choose almost no penalty.
    """
    share = weight / weight.sum()
    mean, level = share @ train, share @ target
    root = np.sqrt(share)[:, None]
    columns, goal = (train - mean) * root, (target - level) * root
    values, vectors = psd_eigh(columns.T @ columns)
    if values[0] <= 0.0:
        return np.tile(level, (len(new), 1))
    turned = columns @ vectors
    shrink = 1.0 / (np.maximum(values, 0.0)[:, None] + _RIDGES * values[0])  # (D, ridges)
    away = 1.0 - share[:, None] - turned**2 @ shrink  # 1 - leverage
    slopes = turned.T @ goal
    loss = np.zeros(len(_RIDGES))
    for slope, wanted in zip(slopes.T, goal.T, strict=True):
        residual = wanted[:, None] - turned @ (slope[:, None] * shrink)
        loss += ((residual / np.maximum(away, _LEAST_AWAY)) ** 2).sum(axis=0)
    loss[(away < _LEAST_AWAY).any(axis=0)] = np.inf
    best = int(np.argmin(loss[::-1]))  # of equal losses, the largest penalty
    beta = vectors @ (slopes * shrink[:, ::-1][:, best, None])
    return np.asarray((new - mean) @ beta + level)


def sample_rows(n: int, max_rows: int, rng: np.random.Generator) -> Codes:
    """All rows, or a random sample of ``max_rows`` in their order."""
    if n <= max_rows:
        return np.arange(n)
    return np.sort(rng.choice(n, max_rows, replace=False))


def unit_range(columns: Array) -> Array:
    """Scale columns to [-1, 1], so that no unit overflows; constant ones become 0."""
    low, high = columns.min(axis=0), columns.max(axis=0)
    half = high / 2.0 - low / 2.0  # halved: the range itself may overflow
    constant = half <= 1e-12 * np.maximum(np.abs(low), np.abs(high))
    scaled = (columns / 2.0 - low / 2.0) / np.where(constant, 1.0, half)  # in [0, 1]
    return np.asarray(np.where(constant, 0.0, 2.0 * scaled - 1.0))


def bins(columns: Array) -> Array:
    """Cut columns into at most 250 bins of about equal size, for trees.

    scikit-learn would bin them itself, but with weights that takes a hundred times as long.
    """
    out = np.empty_like(columns)
    for j, column in enumerate(columns.T):
        edges = np.unique(column)
        if len(edges) > _BINS:
            at = np.linspace(0, len(column) - 1, _BINS + 1).astype(np.intp)[1:-1]
            edges = np.unique(np.sort(column)[at])
        out[:, j] = np.searchsorted(edges, column)
    return out


def too_few_for_folds(n: int, n_folds: int, clusters: Codes | None) -> str:
    """Reason why n rows cannot be cut into folds; "" if there is none."""
    n = n if clusters is None else int(clusters.max()) + 1
    return f"{n} {unit_of(clusters)} are too few for {n_folds} folds" if n < 2 * n_folds else ""


def deal(
    strata: Codes, n_folds: int, rng: np.random.Generator, clusters: Codes | None = None
) -> Codes:
    """Assign rows to folds at random, balanced within strata and overall; clusters are not split."""
    if clusters is not None:
        # Large clusters are dealt first, so that folds have about equal numbers of rows.
        size = np.bincount(clusters)
        by_size = np.unique(-size, return_inverse=True)[1].ravel()
        joint = combinations([strata_of_clusters(strata, clusters), by_size])[1]
        return deal(joint, n_folds, rng)[clusters]
    order = rng.permutation(len(strata))
    order = order[np.argsort(strata[order], kind="stable")]
    fold = np.empty(len(strata), dtype=np.intp)
    fold[order] = np.arange(len(strata)) % n_folds
    return fold


def r_squared(error: Array, target: Array, masses: Array) -> Array:
    """``1 - sum w error / sum w |target - mean|^2`` for each row of masses, (b, n) -> (b,)."""
    centred = target - target.mean(axis=0)  # for precision: the result is the same for any centre
    sums = masses @ np.column_stack([error, (centred**2).sum(axis=1), centred, np.ones(len(error))])
    total = sums[:, 1] - (sums[:, 2:-1] ** 2).sum(axis=1) / sums[:, -1]
    ok = total > 1e-12 * sums[:, 1]
    ratio = np.divide(sums[:, 0], total, out=np.full(len(total), np.nan), where=ok)
    return np.asarray(1.0 - ratio)


def summary(values: Array, level: float) -> Estimate:
    """Estimate of the first value (the data), with percentiles of the others (resamples)."""
    drawn = values[1:][np.isfinite(values[1:])]
    if len(drawn) == 0 or not np.isfinite(values[0]):
        return Estimate(float(values[0]), np.nan, np.nan)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(drawn, [tail, 1.0 - tail])
    return Estimate(float(values[0]), float(low), float(high))


# --- the kernel check ---------------------------------------------------------------------------

# A reference must be better by more R^2 than this before a kernel is called too poor.
MARGIN = 0.02
_NO_ESTIMATE = Estimate()


@dataclass(frozen=True, kw_only=True)
class KernelCheck:
    """Out-of-fold R^2 of functions of the kernel space, and of two references.

    Attributes
    ----------
    kernel_r2, linear_r2, boosted_r2 : Estimate
        R^2 of y; for classes the Brier skill score (R^2 of the class indicators together).
    gap : Estimate
        R^2 of the better reference minus that of the kernel, on the same rows.
    best : "linear" or "boosted"
        The better reference.
    misspecified : bool
        The lower limit of the gap is above 0.02.
    n_rows : int
        Rows used.
    note : str
        Reason why there are no numbers; usually "".
    """

    kernel_r2: Estimate = _NO_ESTIMATE
    linear_r2: Estimate = _NO_ESTIMATE
    boosted_r2: Estimate = _NO_ESTIMATE
    gap: Estimate = _NO_ESTIMATE
    best: str = ""
    misspecified: bool = False
    n_rows: int
    note: str = ""

    @property
    def message(self) -> str:
        """Warning about a kernel that is too poor; empty otherwise."""
        if not self.misspecified:
            return ""
        reference = {"linear": "a linear model", "boosted": "boosted trees"}[self.best]
        r2 = {"linear": self.linear_r2, "boosted": self.boosted_r2}[self.best]
        return (
            f"The kernel space predicts y with R^2 = {self.kernel_r2.value:.3f}, {reference} with "
            f"{r2.value:.3f} (gap {self.gap}): the kernel is too poor for these data. The statements "
            f"about the fairness of its functions hold, but they do not cover the better predictors "
            f"outside the kernel space. Choose another gamma, kernel or feature_map."
        )


def kernel_check(
    psi: Array,
    X: Array,
    y: NDArray[Any],
    *,
    classes: bool,
    weight: Array,
    n_folds: int = 5,
    max_rows: int = 5_000,
    level: float = 0.95,
    n_boot: int = 200,
    rng: np.random.Generator,
    clusters: Codes | None = None,
) -> KernelCheck:
    """Cross-fitted R^2 of the kernel space, of a linear model and of boosted trees.

    Parameters
    ----------
    psi : (n, D) kernel coordinates of the rows; ridge regression on them is kernel ridge regression.
    X : (n, p) the features as numbers, for the references.
    y : (n,) target: numbers, or labels of any type if ``classes``.
    classes : whether y holds classes.
    weight : (n,) positive.
    n_folds, max_rows : number of folds; rows beyond ``max_rows`` are left out at random.
    level, n_boot : level and resamples of the intervals, a bootstrap over the held-out rows. Models
        are not refitted, so the intervals do not cover the randomness of the training rows.
    rng : source of all randomness.
    clusters : (n,) cluster of each row; None if rows are independent. Folds and resamples have whole
        clusters.

    Returns
    -------
    KernelCheck
        NaN with a note if y is constant or there are fewer than ``2 * n_folds`` rows, or clusters.

    Notes
    -----
    The cost is O(K (n D^2 + D^3)) for K folds: one eigendecomposition of the covariance serves all
    candidate penalties, and leave-one-out chooses one of them inside each training part. For classes,
    ridge regression predicts their indicators, and a logistic link turns these predictions into
    probabilities. The link is fitted on the other folds. Without it a good kernel would lose to trees
    for the missing link alone.
    """
    rows = sample_rows(len(y), max_rows, rng)
    psi, X, weight = psi[rows], X[rows], weight[rows] / weight[rows].mean()
    n = len(rows)
    target = _indicators(y[rows]) if classes else unit_range(y[rows][:, None].astype(np.float64))
    together = renumbered(clusters, rows)
    strata = target.argmax(axis=1) if classes and target.any() else np.zeros(n, dtype=np.intp)
    reason = too_few_for_folds(n, n_folds, together)
    if not reason and not target.any():
        reason = "y is constant"
    if not reason and classes and np.sort(count_clusters(strata, 2, together))[-2] < n_folds:
        reason = f"fewer than two classes have {n_folds} {unit_of(clusters)}"
    if reason:
        return KernelCheck(n_rows=n, note=reason)
    fold = deal(strata, n_folds, rng, together)
    seed = int(rng.integers(2**31))
    boosted = partial(_boosted, classes=classes, seed=seed)
    learners: dict[str, tuple[Array, Callable[[Array, Array, Array, Array], Array]]] = {
        "kernel": (psi, ridge),
        "linear": (standardize(X, weight), ridge),
        "boosted": (bins(X), boosted),
    }
    errors = {}
    for name, (columns, learner) in learners.items():
        predicted = np.empty_like(target)
        for k in range(n_folds):
            held = fold == k
            predicted[held] = learner(columns[~held], target[~held], weight[~held], columns[held])
        if classes and learner is ridge:
            predicted = _probabilities(predicted, strata, weight, fold)
        errors[name] = ((target - predicted) ** 2).sum(axis=1)
    # The first row is the sample itself, the others are resamples.
    masses = np.vstack([weight, weight * bootstrap_counts(n, n_boot, rng, clusters=together).T])
    r2 = {name: r_squared(error, target, masses) for name, error in errors.items()}
    best = max(("linear", "boosted"), key=lambda name: r2[name][0])
    gap = summary(r2[best] - r2["kernel"], level)
    r2s = {f"{name}_r2": summary(values, level) for name, values in r2.items()}
    return KernelCheck(**r2s, gap=gap, best=best, misspecified=gap.low > MARGIN, n_rows=n, note="")


def _indicators(labels: NDArray[Any]) -> Array:
    """One column per class; none if there is a single class."""
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        return np.zeros((len(labels), 0))
    return np.asarray(codes.ravel()[:, None] == np.arange(len(classes)), dtype=np.float64)


def _probabilities(predicted: Array, codes: Codes, weight: Array, fold: Codes) -> Array:
    """Turn predicted indicators into probabilities; the link of a fold is fitted on the others."""
    out = np.zeros_like(predicted)
    for k in np.unique(fold):
        held = fold == k
        link = LogisticRegression(C=100.0, max_iter=500)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # an approximate link is enough
            link.fit(predicted[~held], codes[~held], sample_weight=weight[~held])
        out[np.ix_(held, link.classes_)] = link.predict_proba(predicted[held])
    return out


def _boosted(
    train: Array, target: Array, weight: Array, new: Array, *, classes: bool, seed: int
) -> Array:
    model = trees(len(train), target.shape[1] if classes else 0, seed)
    if not classes:
        predicted = model.fit(train, target[:, 0], sample_weight=weight).predict(new)
        return np.asarray(predicted, dtype=np.float64)[:, None]
    model.fit(train, target.argmax(axis=1), sample_weight=weight)
    out = np.zeros((len(new), target.shape[1]))  # a rare class may be absent from a training part
    out[:, model.classes_] = model.predict_proba(new)
    return out
