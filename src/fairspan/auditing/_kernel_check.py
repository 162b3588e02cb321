"""Is the kernel space rich enough for y? Its predictions against a line and boosted trees."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from fairspan.auditing._cross_fit import (
    Estimate,
    bins,
    copies,
    deal,
    mean_one,
    r_squared,
    ridge,
    sample_rows,
    standard,
    summary,
    trees,
    unit_range,
)
from fairspan.method.data import Codes
from fairspan.method.linalg import Array

__all__ = ["KernelCheck", "kernel_check"]

# A reference must be better by more R^2 than this before a kernel is called too poor.
MARGIN = 0.02


@dataclass(frozen=True)
class KernelCheck:
    """Predictive R^2 on rows not learnt from: functions of the kernel space, and two references.

    Attributes
    ----------
    kernel_r2, linear_r2, boosted_r2 : Estimate
        R^2 of y; for classes the Brier skill score (R^2 of the class indicators together).
    gap : Estimate
        The better reference less the kernel, both on the same rows.
    best : "linear" or "boosted": which reference that is.
    misspecified : bool
        The lower limit of the gap is above 0.02.
    n_rows : int
        Rows used.
    note : str
        Why there are no numbers, if there are none.
    """

    kernel_r2: Estimate
    linear_r2: Estimate
    boosted_r2: Estimate
    gap: Estimate
    best: str
    misspecified: bool
    n_rows: int
    note: str = ""

    @property
    def message(self) -> str:
        """The finding in words; empty unless the kernel is too poor."""
        if not self.misspecified:
            return ""
        reference = {"linear": "a linear model", "boosted": "boosted trees"}[self.best]
        found = {"linear": self.linear_r2, "boosted": self.boosted_r2}[self.best]
        return (
            f"The kernel space predicts y with R^2 = {self.kernel_r2.value:.3f}, {reference} with "
            f"{found.value:.3f} (gap {self.gap}): the kernel is too poor for these data. What is said "
            f"about the fairness of its functions holds, but a better predictor exists outside them, "
            f"about which nothing is said. Choose another gamma, kernel or feature_map."
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
) -> KernelCheck:
    """Cross-fitted R^2 of the kernel space, of a linear model and of boosted trees.

    Parameters
    ----------
    psi : (n, D) kernel coordinates of the rows; a ridge regression on them is a kernel machine.
    X : (n, p) the features as numbers, for the references.
    y : (n,) target: numbers, or labels of any type where ``classes``.
    classes : y holds classes.
    weight : (n,) positive.
    n_folds, max_rows : folds; rows beyond ``max_rows`` are left out at random.
    level, n_boot : of the intervals, a bootstrap over the held-out rows. It repeats no fit, so what
        the choice of the training rows does to R^2 is not in them.
    rng : source of all randomness.

    Returns
    -------
    KernelCheck
        NaN with a note if y is constant or there are fewer than ``2 * n_folds`` rows.

    Notes
    -----
    Costs O(K (n D^2 + D^3)) for K folds: one eigendecomposition of the covariance serves all ridges, one
    of which leave-one-out chooses inside each training part. Classes are regressed on by their
    indicators; a logistic link, learnt on the predictions of the other folds, makes probabilities of
    what comes out, so that a good kernel does not lose to trees by the missing link alone.
    """
    rows = sample_rows(len(y), max_rows, rng)
    psi, X, weight = psi[rows], unit_range(X[rows]), mean_one(weight[rows])
    n = len(rows)
    target = _indicators(y[rows]) if classes else unit_range(y[rows][:, None].astype(np.float64))
    why = ""
    if n < 2 * n_folds:
        why = f"{n} rows are too few for {n_folds} folds"
    elif not target.any():
        why = "y is constant"
    elif classes and np.sort(target.sum(axis=0))[-2] < n_folds:
        why = f"fewer than two classes have {n_folds} rows"
    if why:
        nothing = Estimate(np.nan, np.nan, np.nan)
        return KernelCheck(nothing, nothing, nothing, nothing, "", False, n, why)
    strata = target.argmax(axis=1) if classes else np.zeros(n, dtype=np.intp)
    fold = deal(strata, n_folds, rng)
    seed = int(rng.integers(2**31))

    def boosted(train: Array, goal: Array, mass: Array, new: Array) -> Array:
        return _boosted(train, goal, mass, new, classes=classes, seed=seed)

    learners: dict[str, tuple[Array, Callable[[Array, Array, Array, Array], Array]]] = {
        "kernel": (psi, ridge),
        "linear": (standard(X, weight), ridge),
        "boosted": (bins(X), boosted),
    }
    errors = {}
    for name, (columns, learner) in learners.items():
        found = np.empty_like(target)
        for k in range(n_folds):
            held = fold == k
            found[held] = learner(columns[~held], target[~held], weight[~held], columns[held])
        if classes and learner is ridge:
            found = _probabilities(found, strata, weight, fold)
        errors[name] = ((target - found) ** 2).sum(axis=1)
    # The first row is the sample itself, the others are resamples.
    masses = np.vstack([weight, weight * copies(np.zeros(n, dtype=np.intp), n_boot, rng)])
    r2 = {name: r_squared(error, target, masses) for name, error in errors.items()}
    best = max(("linear", "boosted"), key=lambda name: r2[name][0])
    gap = summary(r2[best] - r2["kernel"], level)
    kernel, linear, boost = (summary(r2[name], level) for name in learners)
    return KernelCheck(kernel, linear, boost, gap, best, gap.low > MARGIN, n)


def _indicators(labels: NDArray[Any]) -> Array:
    seen, codes = np.unique(labels, return_inverse=True)
    if len(seen) < 2:
        return np.zeros((len(labels), 0))
    return np.asarray(codes.ravel()[:, None] == np.arange(len(seen)), dtype=np.float64)


def _probabilities(found: Array, codes: Codes, weight: Array, fold: Codes) -> Array:
    """Predicted indicators as probabilities of the classes, each fold by a link learnt on the others."""
    out = np.zeros_like(found)
    for k in np.unique(fold):
        held = fold == k
        link = LogisticRegression(C=100.0, max_iter=500)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a link nearly there will do
            link.fit(found[~held], codes[~held], sample_weight=weight[~held])
        out[np.ix_(held, link.classes_)] = link.predict_proba(found[held])
    return out


def _boosted(
    train: Array, target: Array, weight: Array, new: Array, *, classes: bool, seed: int
) -> Array:
    model = trees(len(train), target.shape[1] if classes else 0, seed)
    if not classes:
        found = model.fit(train, target[:, 0], sample_weight=weight).predict(new)
        return np.asarray(found, dtype=np.float64)[:, None]
    model.fit(train, target.argmax(axis=1), sample_weight=weight)
    out = np.zeros((len(new), target.shape[1]))  # a rare class may be absent from a training part
    out[:, model.classes_] = model.predict_proba(new)
    return out
