"""Support vector machines with equal opportunity (FERM), one machine per dial value."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from fairspan.method.linalg import Array
from fairspan_lab.baselines import LinearFERM
from fairspan_lab.frontier._heads import three_folds
from fairspan_lab.frontier._task import Point, Task, timed

# Grids of the released scripts.
_LINEAR_C = (0.01, 0.1, 1.0)
_KERNEL_C, _KERNEL_GAMMA = (0.1, 1.0, 10.0), (0.01, 0.1)


def linear_ferm(task: Task) -> Iterator[Point]:
    """Constrained linear machine, without a dial."""
    fit = task.fit
    folds = list(three_folds().split(fit.X, fit.y))

    def accuracy(C: float) -> float:
        right = 0
        for train, held_out in folds:
            S = {name: values[train] for name, values in fit.S.items()}
            model = LinearFERM(C).fit(fit.X[train], fit.y[train], sensitive_features=S)
            right += int(np.sum(model.predict(fit.X[held_out]) == fit.y[held_out]))
        return right / len(fit)

    model = LinearFERM(max(_LINEAR_C, key=accuracy))
    fitted, seconds = timed(model.fit, fit.X, fit.y, sensitive_features=fit.S)
    yield Point(0.0, seconds, *task.halves(fitted.decision_function(task.new.X)))


def ferm(task: Task) -> Iterator[Point]:
    """Constrained kernel machine for 31 tolerances.

    For a given tolerance, :class:`fairspan_lab.baselines.FERM` searches the share theta of ``u`` to
    remove from the kernel, with ten machines. The machines along theta are the same family, so this
    varies theta instead and reports the tolerance of each machine as its dial value.
    """
    fit, new = task.fit, task.new
    C, gamma = _best_machine(fit.X, fit.y)
    # Weights c with u = sum_i c_i k(x_i, .): mean of one group's positives less the other's.
    positive, second = fit.y == 1, task.s == task.s.max()
    contrast = np.where(second, 1.0 / np.sum(positive & second), -1.0 / np.sum(positive & ~second))
    contrast = np.where(positive, contrast, 0.0)
    gram, before = timed(rbf_kernel, fit.X, gamma=gamma)
    gram_new = rbf_kernel(new.X, fit.X, gamma=gamma)
    t, t_new = gram @ contrast, gram_new @ contrast
    square = float(contrast @ t)
    for theta in _shares(task.points):
        deflated = gram - theta / square * np.outer(t, t)
        machine, seconds = timed(_machine(C).fit, deflated, fit.y)
        coef = np.zeros(len(fit))
        coef[machine.support_] = machine.dual_coef_[0]
        along = float(coef @ t)
        scores = gram_new @ coef - theta * along / square * t_new + machine.intercept_[0]
        tolerance = abs((1.0 - theta) * along)
        yield Point(tolerance, before + seconds, *task.halves(scores))


def _shares(n: int) -> list[float]:
    """Shares of u to remove, from 0 to 1; most are near 1, where the constraint takes effect."""
    return [0.0, *(1.0 - np.geomspace(0.5, 1e-4, n - 2)), 1.0]


def _machine(C: float) -> Any:
    return SVC(kernel="precomputed", C=C, tol=1e-5)  # as in FERM


def _best_machine(X: Array, y: Array) -> tuple[float, float]:
    """C and gamma by three-fold accuracy, without the constraint."""

    def accuracy(pair: tuple[float, float]) -> float:
        C, gamma = pair
        return float(cross_val_score(SVC(C=C, gamma=gamma), X, y, cv=three_folds()).mean())

    return max(product(_KERNEL_C, _KERNEL_GAMMA), key=accuracy)
