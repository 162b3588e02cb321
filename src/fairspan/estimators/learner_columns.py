"""Out-of-fold predictions of y and of the codes of S by any learner, and their averages for new rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from fairspan._system import track
from fairspan.estimators.prepare import build_pilot
from fairspan.estimators.sparse_linear import LinearModels, out_of_fold
from fairspan.method.accumulate import MomentsPass
from fairspan.method.features import LandmarkMap, TransformerMap
from fairspan.method.fold_codes import Flags
from fairspan.method.folds import GivenFolds
from fairspan.method.linalg import Array, to_numpy
from fairspan.method.problem import Codes, Data, FitConfig
from fairspan.method.solution import cross_fit_kernel

__all__ = [
    "CategoryColumns",
    "FoldModels",
    "KernelModels",
    "LearnerColumns",
    "Task",
    "boosting",
    "fit_kernel",
    "fit_models",
]

# Models that split on ordinal codes of categories: all of some packages, and these of scikit-learn.
_TREE_PACKAGES = ("sklearn.tree", "lightgbm", "xgboost", "catboost")
_TREE_ENSEMBLES = (
    "HistGradientBoosting",
    "GradientBoosting",
    "RandomForest",
    "ExtraTrees",
)
# Parameters of trees that name columns by their positions.
_POSITIONAL = ("categorical_features", "interaction_cst", "monotonic_cst")
# Kernel of the member "kernel". On tables of categories it has smaller errors of y and of S than "rbf".
MEMBER_KERNEL = "laplacian"
# From this number of rows on trees are fitted faster, and the kernel has fewer landmarks.
_MANY_ROWS = 10_000
_LANDMARKS = 200
# Most distinct codes that a classifier predicts as classes.
MOST_CLASSES = 100


@dataclass(frozen=True, kw_only=True)
class CategoryColumns:
    """One-hot columns of an encoded table, which trees read as one column of ordinal codes each."""

    groups: tuple[tuple[int, ...], ...]  # columns of each category variable

    def rest(self, n_columns: int) -> list[int]:
        """Columns that are not one-hot."""
        used = {j for group in self.groups for j in group}
        return [j for j in range(n_columns) if j not in used]

    def ordinal(self, X: Array) -> Array:
        """Other columns first, then one ordinal code for each category variable; unknown is the last."""
        codes = [
            np.where(X[:, group].any(axis=1), X[:, group].argmax(axis=1), len(group))
            for group in map(list, self.groups)
        ]
        return np.column_stack([X[:, self.rest(X.shape[1])], *codes])


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a learner predicts: columns, as numbers or as expectations over classes."""

    values: Array  # (n, columns)
    labels: Codes | None  # class of each row, if there are few distinct rows of values
    vectors: Array | None  # (classes, columns): values of each class
    known: Flags | None = None  # rows to learn from, (n,); None: all

    @classmethod
    def numbers(cls, values: Array) -> Task:
        """Numbers, whatever their values are."""
        return cls(values=values, labels=None, vectors=None)

    @classmethod
    def of(cls, values: Array) -> Task:
        """Classes are the distinct rows of the values."""
        vectors, labels = np.unique(values, axis=0, return_inverse=True)
        if len(vectors) > MOST_CLASSES:
            return cls.numbers(values)
        return cls(values=values, labels=labels.ravel().astype(np.intp), vectors=vectors)


@dataclass(frozen=True, kw_only=True)
class FoldModels:
    """Models of one learner for one task, each fitted without one fold."""

    models: tuple[tuple[Any, ...], ...]  # (K, 1) classifiers, or (K, columns) regressors
    vectors: Array | None  # (classes, columns), for classifiers
    n_columns: int
    categories: CategoryColumns | None  # trees read ordinal codes
    share: Array  # weight of each fold
    final: tuple[Any, ...] | None = None  # fitted on all rows, to predict new ones

    def predict(self, fold: int, X: Array) -> Array:
        """Columns predicted by the model that was fitted without a fold, (n, columns)."""
        return self._columns(self.models[fold], self._read(X))

    def _read(self, X: Array) -> Array:
        return X if self.categories is None else self.categories.ordinal(X)

    def _columns(self, models: tuple[Any, ...], Z: Array) -> Array:
        if self.vectors is None:
            return np.column_stack([np.asarray(model.predict(Z), np.float64) for model in models])
        seen = np.asarray(models[0].classes_, dtype=np.intp)
        return np.asarray(models[0].predict_proba(Z) @ self.vectors[seen])

    def average(self, X: Array) -> Array:
        """Columns for new rows: the average over the folds, or by the models of all rows."""
        Z = self._read(X)
        if self.final is not None:
            return self._columns(self.final, Z)
        each = zip(self.share, self.models, strict=True)
        return np.asarray(sum(share * self._columns(models, Z) for share, models in each))

    def of_training_rows(self, X: Array, folds: Codes) -> tuple[Array, Array]:
        """Out-of-fold columns and averages; each model reads the rows once."""
        Z = self._read(X)
        unseen, average = np.empty((2, len(X), self.n_columns))
        average[:] = 0.0 if self.final is None else self._columns(self.final, Z)
        for k, models in enumerate(self.models):
            rows = folds == k
            if self.final is not None:
                unseen[rows] = self._columns(models, Z[rows])
                continue
            columns = self._columns(models, Z)
            unseen[rows] = columns[rows]
            average += self.share[k] * columns
        return unseen, average

    def for_new_rows(self) -> FoldModels:
        """Without the models of the folds, if those of all rows predict new rows."""
        return self if self.final is None else replace(self, models=())


@dataclass(frozen=True, kw_only=True)
class KernelModels:
    """Kernel regressions of y and of all codes, each fitted without one fold."""

    features: LandmarkMap | TransformerMap
    centre: Array  # of the columns of X
    scale: Array
    functions: Array  # (K, D, columns)
    offset: Array  # (K, columns): values at the mean of the rows that each was fitted on
    share: Array

    def predict(self, fold: int, X: Array) -> Array:
        """Columns predicted by the functions that were fitted without a fold."""
        Z = (X - self.centre) / self.scale
        return np.asarray(self.features.scores(Z, self.functions[fold]) - self.offset[fold])

    def average(self, X: Array) -> Array:
        """Average over the folds."""
        mean = np.einsum("k,kdm->dm", self.share, self.functions)
        Z = (X - self.centre) / self.scale
        return np.asarray(self.features.scores(Z, mean) - self.share @ self.offset)

    def of_training_rows(self, X: Array, folds: Codes) -> tuple[Array, Array]:
        """Out-of-fold columns and averages."""
        return out_of_fold(self.predict, X, folds, self.functions.shape[2]), self.average(X)

    def for_new_rows(self) -> KernelModels:
        """Itself: the average is one function."""
        return self


@dataclass(frozen=True, kw_only=True)
class LearnerColumns:
    """Predictions of all learners side by side, in a given order, after those of a frozen model."""

    learners: tuple[FoldModels | KernelModels | LinearModels, ...]
    order: Codes  # column that comes at each place
    frozen: Array | None = None  # (m, L): from scores, the last m columns of X, to contrasts of y

    def after_frozen(self, frozen: Array) -> LearnerColumns:
        """The contrasts of a frozen model, then the columns of the learners."""
        L = frozen.shape[1]
        order = np.concatenate([np.arange(L), L + self.order])
        return replace(self, frozen=frozen, order=order)

    def transform(self, X: Array) -> Array:
        """Columns for new rows, (n, M)."""
        X, columns = self._divided(X)
        columns += [learner.average(X) for learner in self.learners]
        return np.ascontiguousarray(np.concatenate(columns, axis=1)[:, self.order])

    def for_new_rows(self) -> LearnerColumns:
        """What new rows need."""
        return replace(self, learners=tuple(learner.for_new_rows() for learner in self.learners))

    def out_of_fold(self, X: Array, folds: Codes) -> Array:
        """Predictions of every row by the models that did not see it, (n, M)."""
        out = np.empty((len(X), len(self.order)))
        for k in range(int(folds.max()) + 1):
            rows = np.flatnonzero(folds == k)
            Z, part = self._divided(X[rows])
            part += [learner.predict(k, Z) for learner in self.learners]
            out[rows] = np.concatenate(part, axis=1)[:, self.order]
        return out

    def of_training_rows(self, X: Array, folds: Codes) -> tuple[Array, Array]:
        """Out-of-fold columns and averages of the rows of the fit, (n, M) each."""
        Z, frozen = self._divided(X)
        pairs = [learner.of_training_rows(Z, folds) for learner in self.learners]
        unseen, average = (
            np.ascontiguousarray(np.concatenate([*frozen, *part], axis=1)[:, self.order])
            for part in zip(*pairs, strict=True)
        )
        return unseen, average

    def _divided(self, X: Array) -> tuple[Array, list[Array]]:
        """Columns for the learners, and contrasts of y by the frozen model."""
        if self.frozen is None:
            return X, []
        n_features = X.shape[1] - len(self.frozen)
        return X[:, :n_features], [X[:, n_features:] @ self.frozen]


def fit_models(
    jobs: Sequence[tuple[Any, Task]],
    X: Array,
    folds: Codes,
    weight: Array | None,
    share: Array,
    categories: CategoryColumns | None,
    n_jobs: int | None,
    seed: int,
    verbose: int = 0,
    *,
    refit: bool = False,
) -> list[FoldModels]:
    """Fit every learner for its task without each fold, and with ``refit`` on all rows, in parallel."""
    for learner, task in jobs:
        _check(learner, task, weight)
    if weight is not None:
        weight = weight / weight.mean()  # the penalties of many learners depend on the scale
    views: dict[bool, Array] = {False: X}
    trees = [categories is not None and _splits_on_codes(learner) for learner, _ in jobs]
    if any(trees) and categories is not None:
        views[True] = categories.ordinal(X)
    work = []
    for (learner, task), ordinal in zip(jobs, trees, strict=True):
        Z = views[ordinal]
        prepared = _prepared(learner, Z.shape[1], categories if ordinal else None, seed)
        others = [np.flatnonzero(folds != k) for k in range(len(share))]
        others += [np.arange(len(X))] if refit else []
        work += [(prepared, task, Z, rows, weight) for rows in others]
    calls = (delayed(_fit_one)(*args) for args in work)
    # Tasks are taken when a process is free, so their number shows the progress.
    shown = track(calls, len(work), "models of folds", verbose=verbose)
    fitted = iter(Parallel(n_jobs=n_jobs)(shown))
    return [
        FoldModels(
            models=tuple(next(fitted) for _ in share),
            vectors=task.vectors if is_classifier(learner) else None,
            n_columns=task.values.shape[1],
            categories=categories if ordinal else None,
            share=share,
            final=next(fitted) if refit else None,
        )
        for (learner, task), ordinal in zip(jobs, trees, strict=True)
    ]


def _check(learner: Any, task: Task, weight: Array | None) -> None:
    name = type(learner).__name__
    if is_classifier(learner) and task.labels is None:
        msg = (
            f"{name} is a classifier and cannot predict the values of a continuous attribute. Pass "
            f"sensitive_estimator= a regressor, or dependence='mean'."
        )
        raise ValueError(msg)
    # A stack has probabilities once it is fitted.
    later = hasattr(learner, "final_estimator") and hasattr(type(learner), "predict_proba")
    if is_classifier(learner) and not (later or hasattr(learner, "predict_proba")):
        msg = f"{name} has no predict_proba, which is needed. Wrap it in CalibratedClassifierCV."
        raise ValueError(msg)
    if weight is not None and not has_fit_parameter(learner, "sample_weight"):
        msg = f"sample_weight was given, but {name}.fit does not take it. Use another estimator."
        raise ValueError(msg)


def _splits_on_codes(learner: Any) -> bool:
    kind = type(learner)
    if kind.__module__.startswith("sklearn.ensemble"):
        return kind.__name__.startswith(_TREE_ENSEMBLES)
    return kind.__module__.startswith(_TREE_PACKAGES)


def _prepared(learner: Any, n_columns: int, categories: CategoryColumns | None, seed: int) -> Any:
    """A copy with the seed of the fit, and native categories for histogram boosting."""
    out = clone(learner)
    parameters = out.get_params()
    given: dict[str, Any] = {
        name: seed
        for name in parameters
        if name.rpartition("__")[2] == "random_state" and parameters[name] is None
    }
    if categories is not None:
        _check_positions(learner)
    if categories is not None and isinstance(
        out, HistGradientBoostingClassifier | HistGradientBoostingRegressor
    ):
        mask = np.arange(n_columns) >= n_columns - len(categories.groups)
        given["categorical_features"] = mask
    return out.set_params(**given)


def _check_positions(learner: Any) -> None:
    """Raise for parameters by position: an encoded frame has its columns in another order."""
    for name in _POSITIONAL:
        value = learner.get_params().get(name)
        if value is not None and not isinstance(value, str):
            msg = (
                f"{name} of {type(learner).__name__} names columns by position, but the frame is encoded, "
                f"and its columns get another order. Encode the frame yourself and pass an array, or leave "
                f"{name} out."
            )
            raise ValueError(msg)


def _fit_one(
    learner: Any, task: Task, X: Array, rows: Codes, weight: Array | None
) -> tuple[Any, ...]:
    if task.known is not None and task.known[rows].any():
        rows = rows[task.known[rows]]
    options = {} if weight is None else {"sample_weight": weight[rows]}
    if not is_classifier(learner):
        return tuple(clone(learner).fit(X[rows], v, **options) for v in task.values[rows].T)
    assert task.labels is not None
    labels = task.labels[rows]
    if len(np.unique(labels)) == 1:  # most classifiers refuse one class
        return (DummyClassifier(strategy="prior").fit(X[rows], labels),)
    return (clone(learner).fit(X[rows], labels, **options),)


def boosting(n: int, *, classes: bool) -> Any:
    """Histogram boosting with small trees, larger ones for more rows.

    With few rows, small trees predict y and S better out of fold than scikit-learn's settings.
    """
    few = n <= _MANY_ROWS
    settings = {
        "learning_rate": 0.05 if few else 0.15,
        "max_iter": 200 if few else 70,
        "max_leaf_nodes": int(np.clip(np.sqrt(n) / 10.0, 6, 31)),
        "early_stopping": False,
    }
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(**settings)


def fit_kernel(config: FitConfig, data: Data, folds: Codes, n_folds: int) -> KernelModels:
    """Fit kernel regressions of the library on standardised columns, in closed form for all folds.

    Columns of 0 and 1 stay as they are: rows of a rare category would be too far from all others.
    """
    centre, scale = data.X.mean(axis=0), data.X.std(axis=0)
    as_is = ((data.X == 0.0) | (data.X == 1.0)).all(axis=0) | (np.ptp(data.X, axis=0) == 0.0)
    centre[as_is], scale[as_is] = 0.0, 1.0
    scaled = replace(data, X=(data.X - centre) / scale)
    quiet = replace(
        config, kernel=MEMBER_KERNEL, equalize="decisions"
    )  # no warning about the kernel alone
    if data.n > _MANY_ROWS:
        quiet = replace(quiet, n_components=_LANDMARKS)
    pilot = replace(build_pilot(quiet, scaled), n_folds=n_folds)
    row_pass = MomentsPass(pilot, pilot.empty_moments())
    row_pass.add(scaled, GivenFolds(n_folds, folds), verbose=config.verbose)
    fit = cross_fit_kernel(row_pass.moments(), pilot, quiet)
    assert fit.code_functions is not None
    functions = np.concatenate([fit.fold_bases[:, :, : fit.n_functions], fit.code_functions], 2)
    return KernelModels(
        features=pilot.features,
        centre=centre,
        scale=scale,
        functions=functions,
        offset=np.einsum("kdm,kd->km", functions, fit.fold_means),
        share=np.asarray(to_numpy(fit.share)),
    )
