"""Methods of the figures: each yields scores of the test rows for every setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fairspan.estimators import FairGPClassifier, FairGPRegressor
from fairspan.method.linalg import Array
from fairspan_lab.baselines import FERM, NCFR, LinearFERM, StandardGP, StandardGPClassifier
from fairspan_lab.cells import MethodLabel
from fairspan_lab.reproduce._problems import Problem

__all__ = ["METHODS", "Method", "Task"]

# Estimators in scikit-learn's style have no types.
_Classifier: Any = partial(FairGPClassifier, removal="training_rows")
_Regressor: Any = partial(FairGPRegressor, removal="training_rows")
LONG = {"sp": "statistical_parity", "eop": "equal_opportunity", "eo": "equalized_odds"}


@dataclass(frozen=True)
class Task:
    """Input of a method: rows, criterion and effort."""

    problem: Problem
    criterion: str
    seed: int
    quick: bool

    def part(self, rows: str) -> tuple[Array, Array, Any]:
        """Features, target and protected attributes of the "train" or "test" rows."""
        p = self.problem
        index = getattr(p, rows)
        S = {name: values[index] for name, values in p.S.items()}
        return p.X[index], p.y[index], next(iter(S.values())) if len(S) == 1 else S

    def grid(self, n: int) -> int:
        """Number of settings to try."""
        return min(n, 9) if self.quick else n

    @property
    def n_components(self) -> int | str:
        """Number of landmarks; the paper's method takes all rows."""
        return min(400, len(self.problem.train)) if self.quick else "all"


@dataclass(frozen=True)
class Method(MethodLabel):
    """A curve of the figures; `run` yields pairs of a setting's value and scores of the test rows.

    Scores in several rows are from several trainings, whose metrics are averaged.
    """

    label: str
    figure: str | None  # None: both
    parameter: str
    run: Callable[[Task], Iterator[tuple[float, Array]]]
    by_criterion: bool = False  # fitted anew for each panel
    strict_first: bool = True  # the first setting is the fairest, the last the least constrained
    reads_sensitive: bool = False  # at prediction time
    needs: str | None = None  # package beyond the core


def _fgp(task: Task) -> Iterator[tuple[float, Array]]:
    """Algorithms 1 and 2 as printed; epsilon where it acts, and 0."""
    problem = task.problem
    X, y, s = task.part("train")
    params: dict[str, Any] = {
        "gamma": 1.0 / problem.bands[task.criterion] ** 2,
        "n_components": task.n_components,
        "n_slices": "distinct",
        "n_sensitive_directions": problem.n_directions,
        "n_predictive_directions": problem.n_directions,
        "criterion": task.criterion,
        "eta": 1e-4,
        "dial": "cosine",
        "method": "paper",
        "random_state": 0,
    }
    if problem.classifies:
        model = _Classifier(likelihood="gaussian", pos_label=1.0, **params)
    else:
        model = _Regressor(inference="em-paper", **params)
    model.fit(X, y, sensitive_features=s)
    angles = np.linspace(0.0, float(model.angles_.max()), task.grid(21))
    new = task.part("test")[0]
    for epsilon in [*np.clip(np.cos(angles), 0.0, 1.0), 0.0]:
        at = model.at(float(epsilon))
        yield float(epsilon), at.decision_function(new) if problem.classifies else at.predict(new)


def _fairspan(task: Task) -> Iterator[tuple[float, Array]]:
    X, y, s = task.part("train")
    few = min(400, len(X)) if task.quick else "auto"
    kinds = [
        "categorical" if len(np.unique(v)) == 2 else "continuous" for v in task.problem.S.values()
    ]
    params: dict[str, Any] = {
        "criterion": task.criterion,
        "n_components": few,
        "random_state": 0,
        "sensitive_kind": kinds,
    }
    # Constant curvature, as in METHOD 6; `bench frontier` has the default.
    constant_curvature = partial(_Classifier, pos_label=1.0, curvature="constant")
    cls = constant_curvature if task.problem.classifies else _Regressor
    model = cls(**params).fit(X, y, sensitive_features=s)
    new = task.part("test")[0]
    for fairness in np.linspace(0.0, 1.0, task.grid(31)):
        at = model.at(float(fairness))
        scores = at.decision_function(new) if task.problem.classifies else at.predict(new)
        yield float(fairness), scores


def _gp(task: Task) -> Iterator[tuple[float, Array]]:
    X, y, _ = task.part("train")
    rows, restarts = (1000, 0) if task.quick else (2000, 1)
    params: dict[str, Any] = {"max_hyper_rows": rows, "n_restarts": restarts, "random_state": 0}
    new = task.part("test")[0]
    if task.problem.classifies:
        yield np.nan, StandardGPClassifier(**params).fit(X, y).decision_function(new)
    else:
        yield np.nan, StandardGP(**params).fit(X, y).predict(new)


def _linear_ferm(task: Task) -> Iterator[tuple[float, Array]]:
    X, y, s = task.part("train")
    model = LinearFERM(C=task.problem.linear_c, pos_label=1.0).fit(X, y, sensitive_features=s)
    yield 0.0, model.decision_function(task.part("test")[0])


def _ferm(task: Task) -> Iterator[tuple[float, Array]]:
    """Tolerances from 0 to the disparity of the unconstrained machine."""
    X, y, s = task.part("train")
    params: dict[str, Any] = {"C": task.problem.kernel_c, "gamma": task.problem.kernel_gamma}
    free = FERM(tolerance=1e9, pos_label=1.0, **params).fit(X, y, sensitive_features=s)
    new = task.part("test")[0]
    largest = abs(float(free.disparity_))
    for share in np.linspace(0.0, 1.0, 3 if task.quick else 6)[:-1]:
        tolerance = float(share * largest)
        model = FERM(tolerance=tolerance, pos_label=1.0, **params).fit(X, y, sensitive_features=s)
        yield tolerance, model.decision_function(new)
    yield largest, free.decision_function(new)


def _laftr_gp(task: Task) -> Iterator[tuple[float, Array]]:
    from fairspan_lab.baselines import LAFTRGP, laftr_sweep

    X, y, s = task.part("train")
    new, _, s_new = task.part("test")
    base = LAFTRGP(
        LONG[task.criterion], epochs=60 if task.quick else 1000, n_restarts=0, pos_label=1.0
    )
    weights = (0.0, 0.5, 2.0) if task.quick else (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)
    # Average three trainings: seeds differ by as much as settings.
    seeds = [task.seed] if task.quick else [3 * task.seed + k for k in range(3)]
    models = laftr_sweep(
        base, X, y, sensitive_features=s, fair_weights=weights, random_states=seeds
    )
    scores = [model.decision_function(new, sensitive_features=s_new) for model in models]
    for weight, trainings in zip(weights, np.array_split(scores, len(weights)), strict=True):
        yield weight, np.asarray(trainings)


def _ncfr(task: Task) -> Iterator[tuple[float, Array]]:
    X, y, s = task.part("train")
    new, _, s_new = task.part("test")
    for eta in (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0):
        model = NCFR(eta=eta).fit(X, y, sensitive_features=s)
        yield eta, model.predict(new, sensitive_features=s_new)


METHODS = {
    "fairspan": Method("fairspan", None, "fairness", _fairspan, True, strict_first=False),
    "fgp": Method("FGP (as published)", None, "epsilon", _fgp, True),
    "gp": Method("GP", None, "", _gp),
    "linear-ferm": Method("Linear-FERM", "figure1", "tolerance", _linear_ferm),
    "ferm": Method("FERM", "figure1", "tolerance", _ferm),
    "laftr-gp": Method(
        "LAFTR-GP", "figure1", "gamma", _laftr_gp, True, strict_first=False,
        reads_sensitive=True, needs="torch",
    ),
    "ncfr": Method("NCFR", "figure2", "eta", _ncfr, reads_sensitive=True),
}  # fmt: skip
