"""Learners of FairClassifier and FairRegressor as operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeCV,
)

from fairspan.deployment.encoder import Rows
from fairspan.deployment.program import Program, Value, refuse
from fairspan.deployment.trees import Forest
from fairspan.estimators.learner_columns import (
    CategoryColumns,
    FoldModels,
    KernelModels,
    LearnerColumns,
)
from fairspan.estimators.sparse_linear import LinearModels
from fairspan.method.linalg import Array

__all__ = ["learner_columns"]

_LINEAR = (LinearRegression, Ridge, RidgeCV, Lasso, ElasticNet)
_LOGISTIC = (LogisticRegression, LogisticRegressionCV)
_BOOSTING = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
_ADVICE = (
    "Learners that can be written are 'boosting', 'kernel', 'linear', histogram gradient boosting and linear "
    "models of scikit-learn. Fit with one of these"
)
# Inverse of the link between raw scores and predictions.
_LINKS = ("IdentityLink", "LogLink")

MemberScores = Callable[[Program, Rows, Any, Array, Array, Array], Value]


def learner_columns(
    program: Program, rows: Rows, columns: LearnerColumns, member_scores: MemberScores
) -> Value:
    """Predictions of all learners, averaged over the folds."""
    if columns.frozen is not None:
        refuse(
            "a postprocessor, whose scores another model gives",
            "Export FairClassifier or FairRegressor, which contain their learners",
        )
    every = _every_model(columns)
    for model in every:
        if type(model) not in (*_LINEAR, *_LOGISTIC, *_BOOSTING, DummyClassifier):
            refuse(f"the learner {type(model).__name__}", _ADVICE)
    forest, ordinal = Forest(), None
    plans: list[list[int]] = []  # all trees are one operation, so count them first
    for learner in columns.learners:
        if isinstance(learner, FoldModels):
            if learner.categories is not None and ordinal is None:
                ordinal = _ordinal(program, rows, learner.categories)
            plans += [
                forest.add_boosting(model, _n_codes(learner, model))
                for models in _folds(learner)
                for model in models
                if isinstance(model, _BOOSTING)
            ]
    raw = None
    if plans:
        raw = forest.write(program, rows.values if ordinal is None else ordinal)
    places = iter(plans)
    parts = []
    for learner in columns.learners:
        if isinstance(learner, KernelModels):
            mean = np.einsum("k,kdm->dm", learner.share, learner.functions)
            value = member_scores(
                program, rows, learner.features, mean, learner.centre, learner.scale
            )
            parts.append(value - learner.share @ learner.offset)
        elif isinstance(learner, LinearModels):
            parts.append(_linear_member(program, rows.values, learner))
        else:
            X = rows.values if learner.categories is None else ordinal
            assert X is not None
            parts.append(_fold_models(program, X, raw, learner, places))
    return program.concat(parts).columns(columns.order)


def _every_model(columns: LearnerColumns) -> list[Any]:
    return [
        model
        for learner in columns.learners
        if isinstance(learner, FoldModels)
        for models in _folds(learner)
        for model in models
    ]


def _n_codes(learner: FoldModels, model: Any) -> int:
    """Codes of a column of categories: one more than categories, for unknown ones."""
    if learner.categories is not None:
        return 1 + max(len(group) for group in learner.categories.groups)
    if getattr(model, "_preprocessor", None) is not None:
        refuse(
            f"{type(model).__name__} with categorical_features on an array",
            "Fit on a frame with text in these columns; encoder='auto' then makes the codes",
        )
    return 1


def _folds(learner: FoldModels) -> tuple[tuple[Any, ...], ...]:
    return learner.models if learner.final is None else (learner.final,)


def _ordinal(program: Program, rows: Rows, categories: CategoryColumns) -> Value:
    """What trees read: other columns first, then a code for each category variable."""
    X, rest = rows.values, categories.rest(rows.values.width)
    flags = [j for group in categories.groups for j in group]
    codes = np.zeros((len(flags), len(categories.groups)))
    for g, group in enumerate(categories.groups):
        # The code is the place of the 1; a group without one has the code after the last place.
        codes[[flags.index(j) for j in group], g] = np.arange(len(group)) - len(group)
    of_groups = X.columns(flags) @ codes + np.array([float(len(g)) for g in categories.groups])
    return program.concat([X.columns(rest), of_groups] if rest else [of_groups])


def _linear_member(program: Program, X: Value, learner: LinearModels) -> Value:
    if learner.link is None:
        intercept: Array = learner.share @ learner.intercept
        coef: Array = np.einsum("k,kpm->pm", learner.share, learner.coef)
        return X @ coef + intercept
    total: Value | None = None
    for k, share in enumerate(learner.share):
        link = learner.link
        slopes, shifts = link.slopes[k], link.shifts[k]
        seen = np.flatnonzero(np.isfinite(shifts))  # other classes have the probability 0
        latents = X @ (learner.coef[k] @ slopes[:, seen])
        latents = latents + (learner.intercept[k] @ slopes[:, seen] + shifts[seen])
        part: Value = program.softmax(latents) @ (share * link.vectors[seen])
        total = part if total is None else total + part
    assert total is not None
    return total


def _fold_models(
    program: Program, X: Value, raw: Value | None, learner: FoldModels, places: Any
) -> Value:
    """Average of the predictions of the models of the folds."""
    folds = _folds(learner)
    shares = learner.share if learner.final is None else np.ones(1)
    total: Value | None = None
    for share, models in zip(shares, folds, strict=True):
        if learner.vectors is None:
            value = program.concat([_numbers(X, raw, m, places) for m in models]) * float(share)
        else:
            (model,) = models
            seen = np.asarray(model.classes_, dtype=np.intp)
            p = _probabilities(program, X, raw, model, places)
            value = p @ np.asarray(share * learner.vectors[seen])
        total = value if total is None else total + value
    assert total is not None
    return total


def _numbers(X: Value, raw: Value | None, model: Any, places: Any) -> Value:
    if isinstance(model, _BOOSTING):
        assert raw is not None
        link = type(model._loss.link).__name__
        if link not in _LINKS:
            refuse(f"{type(model).__name__} with the link {link}", "Fit with loss='squared_error'")
        columns = raw.columns(next(places))
        return columns.exp() if link == "LogLink" else columns
    coef = np.asarray(model.coef_, dtype=np.float64).reshape(1, -1)
    return X @ np.ascontiguousarray(coef.T) + float(np.ravel(model.intercept_)[0])


def _probabilities(program: Program, X: Value, raw: Value | None, model: Any, places: Any) -> Value:
    if isinstance(model, DummyClassifier):
        if model.strategy != "prior":
            refuse(f"DummyClassifier(strategy={model.strategy!r})", _ADVICE)
        zeros = np.zeros((X.width, len(model.classes_)))
        return X @ zeros + np.asarray(model.class_prior_, dtype=np.float64)
    if isinstance(model, _BOOSTING):
        assert raw is not None
        latents = raw.columns(next(places))
    else:
        if getattr(model, "multi_class", "auto") == "ovr" or (
            model.solver == "liblinear" and len(model.classes_) > 2
        ):
            refuse("LogisticRegression of one class against the rest", "Fit with another solver")
        latents = X @ np.ascontiguousarray(model.coef_.T) + np.asarray(model.intercept_)
    if latents.width == 1:
        latents = latents @ np.array([[-0.5, 0.5]])
    return program.softmax(latents)
