"""Any scikit-learn model made fair: cross-fitted predictions of y and S, and removal for new rows."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier, is_regressor

from fairspan._threads import count_rows, with_few_threads
from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.conformal import ConformalIntervals, ConformalSets
from fairspan.estimators.decision_fit import RuleRows, row_weights
from fairspan.estimators.learner_columns import CategoryColumns
from fairspan.estimators.learner_fit import (
    BOOSTING,
    KERNEL,
    LINEAR,
    LearnerFit,
    fit_learners,
    link_ends,
)
from fairspan.estimators.predictors import FairPredictor, RuleClassifier
from fairspan.estimators.state import FittedAttribute, FittedState, check_search, snapshot
from fairspan.inputs.callers import check_order
from fairspan.inputs.checks import refuse, without_decisions_form
from fairspan.inputs.config import document_parameters
from fairspan.inputs.rows import check_rows
from fairspan.method.laplace import softmax
from fairspan.method.linalg import Array
from fairspan.method.new_rows_space import NewRows
from fairspan.method.problem import Data
from fairspan.method.row_sketch import RowSketch
from fairspan.method.spaces import Head, LineHead, Space

__all__ = ["FairClassifier", "FairRegressor"]

# Learners that "auto" stacks, and names that stand for one learner.
_AUTO = (BOOSTING, KERNEL, LINEAR)
_NAMES = ("auto", *_AUTO)


class _NotForLearners:
    """A method of kernel estimators that learners do not have."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __get__(self, estimator: Any, owner: type) -> Any:
        msg = f"{owner.__name__} {self._reason}"
        raise AttributeError(msg)


_ONE_FIT = _NotForLearners(
    "learns from all rows at once, with `fit`. Blocks of rows need a kernel estimator, e.g. FairRidge."
)


class FairLearner(FairKernelEstimator):
    """Shared fit of the estimators over any learner."""

    kernel = "rbf"
    _own_parameters = frozenset(
        ("estimator", "model", "sensitive_estimator", "cv", "n_jobs", "refit")
    )
    _fixed_parameters = MappingProxyType(
        {
            "kernel": "rbf",
            "gamma": "cv",
            "kernel_params": None,
            "feature_map": None,
            "n_components": "auto",
            "landmarks": "stratified",
            "n_predictive_directions": "auto",
            "eta": "auto",
            "alpha": "auto",
            "subspace": "model",
            "method": "optimal",
            "removal": "new_rows",
        }
    )
    estimator: Any
    sensitive_estimator: Any
    cv: Any
    n_jobs: Any
    refit: Any = False
    encoder: Any

    prepare = _ONE_FIT
    partial_fit = _ONE_FIT
    merge = _ONE_FIT
    solve = _ONE_FIT
    fit_stream = _ONE_FIT
    export_pilot = _ONE_FIT
    export_moments = _ONE_FIT
    from_moments = _ONE_FIT
    forget = _NotForLearners(
        "cannot forget rows: its learners were trained on them. Fit again on the rows that remain."
    )

    stack_weights_ = FittedAttribute(lambda s: s.head, after="head")

    @with_few_threads(lambda *args, **given: count_rows(*args[1:2], given.get("X")))
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> Self:
        """Fit the learners without each fold, and remove what S explains of their predictions.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers; with ``encoder="auto"`` also a frame with text, categories, dates and missing values.
        y : array-like of shape (n_samples,)
            Classes or numbers.
        sensitive_features : array-like, frame, or column name(s) of X
            One or several protected attributes. Never needed again after fitting.
        control_features : array-like, frame, or column name(s) of X, optional
            Strata for ``criterion="conditional_statistical_parity"``.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; every learner must take them.
        groups : array-like of shape (n_samples,), optional
            Labels of rows that belong together; they are never divided between folds.

        Returns
        -------
        self
        """
        check_search()
        check_order(X, sensitive_features, sample_weight)
        learners, sensitive = self._learners()
        with self._new_fit() as work:
            given = (X, y, sensitive_features, control_features, sample_weight)
            data = work._read(*given, reset=True, groups=groups, encode=True).on_host()
            if data.n < 2:
                msg = f"n_samples={data.n}: at least two rows are needed to learn anything about groups."
                raise ValueError(msg)
            config = work._config
            check_rows(work, replace(config, kernel="learners"), data)
            categories = _categories(work._schema.encoder)
            found = fit_learners(
                config,
                data,
                learners,
                sensitive,
                categories,
                self.cv,
                self.n_jobs,
                work._schema.n_scores,
                refit=self.refit,
            )
            classes = None
            if data.classes is not None and config.target_kind == "categorical":
                assert found.pilot.target is not None
                classes = data.classes.in_order_of(found.pilot.target)
            state = FittedState(
                config=config,
                given=snapshot(self.get_params(deep=False)),
                pilot=found.pilot,
                moments=None,
                counter=None,
                classes=classes,
                row_sketch=RowSketch.empty("").add(work._without_scores(data.X)),
                solution=found.solution,
                head=found.weights,
                folds=found.folds,
            )
            work._state = work._with_learners(state, found, data)
            work._locate()
        return self

    def _without_scores(self, X: Array) -> Array:
        """Columns of X, without scores of a frozen model."""
        return X[:, : X.shape[1] - self._schema.n_scores]

    def _with_learners(
        self,
        state: FittedState,
        found: LearnerFit,  # noqa: ARG002
        data: Data,  # noqa: ARG002
    ) -> FittedState:
        return state

    def _space(
        self,
        state: FittedState,
        head: Head | None = None,  # noqa: ARG002
        line_head: LineHead | None = None,  # noqa: ARG002
    ) -> Space:
        return NewRows(state.solved, state.config, state.ends)

    # ------------------------------------------------------------------ learners

    def _learners(self) -> tuple[list[Any], list[Any]]:
        """Learners of y and of S."""
        classes = self._target_kind == "categorical"
        given = self._listed("estimator", self.estimator)
        kind, suits = ("classifier", is_classifier) if classes else ("regressor", is_regressor)
        for learner in given:
            if not isinstance(learner, str) and not suits(learner):
                refuse("estimator", learner, f"a {kind} of scikit-learn, a list of them, or 'auto'")
        return given, given if self.sensitive_estimator is None else self._learners_of_s()

    def _learners_of_s(self) -> list[Any]:
        return self._listed("sensitive_estimator", self.sensitive_estimator)

    def _listed(self, name: str, value: Any) -> list[Any]:
        items = list(value) if isinstance(value, list | tuple) else [value]
        if any(isinstance(item, str) and item == "auto" for item in items):
            if len(items) > 1:
                refuse(name, value, "'auto' alone, or a list of other learners")
            items = list(_AUTO)
        for item in items:
            known = isinstance(item, str) and item in _NAMES
            if not known and (isinstance(item, str | type) or not hasattr(item, "fit")):
                refuse(
                    name, item, "a scikit-learn estimator, 'auto', 'boosting', 'kernel' or 'linear'"
                )
        if not items:
            refuse(name, value, "at least one learner")
        return items


def _categories(encoder: Any) -> CategoryColumns | None:
    """One-hot columns of each category variable of a fitted table encoder."""
    if encoder is None or "categories" not in encoder.named_transformers_:
        return None
    one_hot, start = encoder.named_transformers_["categories"], 0
    start = int(encoder.output_indices_["categories"].start)
    merged = getattr(one_hot, "infrequent_categories_", [None] * len(one_hot.categories_))
    groups = []
    for known, rare in zip(one_hot.categories_, merged, strict=True):
        size = len(known) - (0 if rare is None else len(rare) - 1)
        groups.append(tuple(range(start, start + size)))
        start += size
    return CategoryColumns(groups=tuple(groups))


class LearnerRegressor(RegressorMixin, ConformalIntervals, FairLearner, FairPredictor):
    """Numbers, by least squares on out-of-fold predictions."""

    _target_kind = "continuous"

    def predict(self, X: Any) -> Array:
        """Predictions; no protected attribute is read."""
        return self._outputs(X)[:, 0]


class LearnerClassifier(ClassifierMixin, ConformalSets, FairLearner, RuleClassifier):
    """Classes from log odds that are fitted out of fold, or from decision rules."""

    def _with_learners(self, state: FittedState, found: LearnerFit, data: Data) -> FittedState:
        state = replace(state, ends=link_ends(found, data))
        if without_decisions_form(state.config) is not None:
            return state
        fit = found.solution.new_rows
        assert fit is not None
        # Rules read the predictions of the codes first.
        order = np.roll(np.arange(found.functions.shape[1]), -fit.n_functions)
        rows = RuleRows(
            functions=found.functions[:, order],
            scores=found.scores[:, order],
            of_average=found.of_average[:, order],
            folds=found.folds,
            encoded=found.encoded,
            weight=row_weights(data),
        )
        return self._with_rule_rows(state, rows)

    def decision_function(self, X: Any) -> Array:
        """Log odds: one column per class, or those of the larger label for two.

        With ``equalize="decisions"``, the margins of the rule.
        """
        self._check_fitted()
        out = self._decisive(X)
        return out[:, 0] if out.shape[1] == 1 else out

    def predict(self, X: Any) -> np.ndarray:
        """The class of the largest score, or of the decision rule."""
        return self._labels_of(X)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities, (n, K), in the order of ``classes_``.

        With ``equalize="decisions"`` they are about y alone.
        """
        self._check_fitted()
        if self._fit_state.decisions is not None:
            return self._rule_probabilities(X)
        out = self._outputs(X)
        if out.shape[1] == 1:
            out = np.concatenate([-out, out], axis=1) / 2.0
        return softmax(out)


@document_parameters
class FairRegressor(LearnerRegressor):
    """Any regressor made fair to new people, from out-of-fold predictions of y and of S.

    The learners predict y and the protected attributes without each fold. What S explains of the
    prediction of y is subtracted, so that at ``fairness=1`` no covariance with S is expected on new rows.
    Predictions are averages of the models of the folds; S is not needed for them.

    Parameters
    ----------
    estimator : "auto", "boosting", "kernel", "linear", regressor, or a list, default="auto"
        What predicts y. A list is stacked with weights of at least 0. "boosting" is histogram gradient
        boosting with small trees, "kernel" is a ridge regression of this library with a Laplacian kernel,
        "linear" a linear regression that leaves useless columns out, "auto" is all three.
    sensitive_estimator : as ``estimator``, also classifiers, optional
        What predicts the protected attributes; None: the same learners.
    cv : int or splitter, default=5
        Folds. A splitter must put every row into one test fold.
    n_jobs : int, optional
        Models that are fitted at the same time, as in scikit-learn.
    refit : bool, default=False
        True: new rows are predicted by learners that are fitted on all rows, one instead of one per
        fold. Predictions are faster, and files are smaller. The certificate
        is about the averages over the folds: at fairness 1 the signed correlation with S on new rows
        differs from theirs by at most .003 (standard error .002) with "boosting" and .001 with "auto",
        in two populations of ten draws each. No over-correction was found, but errors are larger: by
        .015 with "boosting" and .004 with "auto" where 50 of 52 columns are noise. Kernels keep their
        average, which is one function.
    encoder : {"auto", None}, default="auto"
        "auto": encode frames with text, categories, dates or missing values. Trees get ordinal codes of
        categories, other learners one-hot columns.

    Attributes
    ----------
    stack_weights_ : ndarray
        Weights of the learners in the prediction of y.
    certificate_ : Certificate
        What is expected on new rows, with intervals; see :class:`FairRepresentation` for this and others.
    """

    def __init__(
        self,
        estimator: Any = "auto",
        *,
        sensitive_estimator: Any = None,
        cv: Any = 5,
        n_jobs: Any = None,
        refit: Any = False,
        encoder: Any = "auto",
        criterion: Any = "statistical_parity",
        fairness: Any = 1.0,
        dial: Any = "auto",
        sensitive_kind: Any = "auto",
        dependence: Any = "mean",
        n_slices: Any = 10,
        intersectional: Any = False,
        pos_label: Any = None,
        n_sensitive_directions: Any = "auto",
        missing_sensitive: Any = "raise",
        random_state: Any = None,
        verbose: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.sensitive_estimator = sensitive_estimator
        self.cv = cv
        self.n_jobs = n_jobs
        self.refit = refit
        self.encoder = encoder
        self.criterion = criterion
        self.fairness = fairness
        self.dial = dial
        self.sensitive_kind = sensitive_kind
        self.dependence = dependence
        self.n_slices = n_slices
        self.intersectional = intersectional
        self.pos_label = pos_label
        self.n_sensitive_directions = n_sensitive_directions
        self.missing_sensitive = missing_sensitive
        self.random_state = random_state
        self.verbose = verbose


@document_parameters
class FairClassifier(LearnerClassifier):
    """Any classifier made fair to new people, from out-of-fold predictions of y and of S.

    The learners predict y and the protected attributes without each fold. What S explains of the
    prediction of y is subtracted, so that at ``fairness=1`` no covariance of the score with S is expected
    on new rows. Predictions are averages of the models of the folds; S is not needed for them.

    Parameters
    ----------
    estimator : "auto", "boosting", "kernel", "linear", classifier, or a list, default="auto"
        What predicts y, with ``predict_proba``. A list is stacked with weights of at least 0. "boosting" is
        histogram gradient boosting with small trees, "kernel" is a ridge regression of this library with
        a Laplacian kernel, "linear" a linear model that leaves useless columns out, "auto" is all three.
    sensitive_estimator : as ``estimator``, also regressors, optional
        What predicts the protected attributes; None: the same learners.
    cv : int or splitter, default=5
        Folds. A splitter must put every row into one test fold.
    n_jobs : int, optional
        Models that are fitted at the same time, as in scikit-learn.
    refit : bool, default=False
        True: new rows are predicted by learners that are fitted on all rows, one instead of one per
        fold. Predictions are faster, and files are smaller. The certificate
        is about the averages over the folds: at fairness 1 the signed correlation with S on new rows
        differs from theirs by at most .003 (standard error .002) with "boosting" and .001 with "auto",
        in two populations of ten draws each. No over-correction was found, but errors are larger: by
        .015 with "boosting" and .004 with "auto" where 50 of 52 columns are noise. Kernels keep their
        average, which is one function.
    encoder : {"auto", None}, default="auto"
        "auto": encode frames with text, categories, dates or missing values. Trees get ordinal codes of
        categories, other learners one-hot columns.

    Attributes
    ----------
    classes_ : ndarray
        Labels.
    stack_weights_ : ndarray
        Weights of the learners in the prediction of y.
    decision_rule_ : RuleWords
        With ``equalize="decisions"``: what the rule subtracts for each group; ``print`` shows it in words.
    certificate_ : Certificate
        What is expected on new rows, with intervals; see :class:`FairRepresentation` for this and others.
    """

    def __init__(
        self,
        estimator: Any = "auto",
        *,
        sensitive_estimator: Any = None,
        equalize: Any = "scores",
        selection_rate: Any = None,
        cost_matrix: Any = None,
        cv: Any = 5,
        n_jobs: Any = None,
        refit: Any = False,
        encoder: Any = "auto",
        criterion: Any = "statistical_parity",
        fairness: Any = 1.0,
        dial: Any = "auto",
        sensitive_kind: Any = "auto",
        dependence: Any = "mean",
        n_slices: Any = 10,
        intersectional: Any = False,
        pos_label: Any = None,
        n_sensitive_directions: Any = "auto",
        missing_sensitive: Any = "raise",
        random_state: Any = None,
        verbose: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.sensitive_estimator = sensitive_estimator
        self.equalize = equalize
        self.selection_rate = selection_rate
        self.cost_matrix = cost_matrix
        self.cv = cv
        self.n_jobs = n_jobs
        self.refit = refit
        self.encoder = encoder
        self.criterion = criterion
        self.fairness = fairness
        self.dial = dial
        self.sensitive_kind = sensitive_kind
        self.dependence = dependence
        self.n_slices = n_slices
        self.intersectional = intersectional
        self.pos_label = pos_label
        self.n_sensitive_directions = n_sensitive_directions
        self.missing_sensitive = missing_sensitive
        self.random_state = random_state
        self.verbose = verbose
