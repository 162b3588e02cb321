"""Predictions of one fit at many dial values, from one pass over the rows (METHOD 7).

Every model of a path is a blend of the same few functions. :class:`DialPredictor` computes their
values on some rows once; the model at any dial value then needs only small products.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.decision_fit import DecisionFit
from fairspan.estimators.gp_classifier import FairGPClassifier
from fairspan.estimators.gp_regressor import FairGPRegressor
from fairspan.estimators.learners import FairClassifier, FairRegressor
from fairspan.estimators.predictors import RuleClassifier
from fairspan.estimators.ridge import FairRidge, FairRidgeClassifier
from fairspan.estimators.state import ScoredRows
from fairspan.exceptions import each_warning_once
from fairspan.method.certificates import Certificate
from fairspan.method.decision_rule import RulePoint, decide
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes

Predictor = (
    FairRidge
    | FairRidgeClassifier
    | FairGPRegressor
    | FairGPClassifier
    | FairRegressor
    | FairClassifier
)
Model = TypeVar("Model", bound=FairKernelEstimator)

# Log odds of a class that a fold has never seen: smaller than any of a fitted likelihood.
_NEVER = -1e3


def move(model: Model, fairness: float) -> Model:
    """Move a fit along its native dial; unlike ``at``, this accepts values beyond 1."""
    out = copy.copy(model)
    out.fairness, out.dial = float(fairness), model._native_dial
    out._locate()
    return out


def score_rows(model: FairKernelEstimator, X: Array) -> ScoredRows:
    """Compute the scores of clean rows on the basis of the path; this reads the kernel columns."""
    features, fit = model.pilot_.features, model._fit_state.decisions
    scores = np.asarray(features.scores(X, model._solution.basis), dtype=np.float64)
    if fit is None:
        return ScoredRows(X, scores)
    return ScoredRows(X, scores, np.asarray(features.scores(X, fit.functions) - fit.centre))


# ------------------------------------------------------------------ one dial value


@dataclass(frozen=True)
class DialPrediction:
    """A model at one dial value, and its predictions for the rows of a :class:`DialPredictor`.

    Attributes
    ----------
    model : the fit at this dial value.
    rows : rows with their scores on the basis of the path.
    """

    model: Predictor
    rows: ScoredRows

    @property
    def certificate(self) -> Certificate:
        """Certificate of the model."""
        return self.model.certificate_

    @property
    def scores(self) -> Array:
        """Scores on the functions of the model space, (n, d)."""
        return self.model._scores(self.rows)

    @property
    def predictions(self) -> np.ndarray:
        """Predicted numbers or labels, (n,)."""
        return self.model.predict(self.rows)

    @property
    def class_numbers(self) -> Codes:
        """Predicted classes as positions in ``model.classes_``, (n,)."""
        assert isinstance(self.model, RuleClassifier)
        return decide(self.model._decisive(self.rows))

    @property
    def decision_function(self) -> Array:
        """Decision function of a classifier, always with columns: (n, 1) for two classes."""
        assert isinstance(self.model, RuleClassifier)
        out: Array = self.model.decision_function(self.rows)
        return out[:, None] if out.ndim == 1 else out

    @property
    def probabilities(self) -> Array | None:
        """Class probabilities, (n, classes); None if the model has none."""
        if not hasattr(self.model, "predict_proba"):  # only some parameters have it
            return None
        return np.asarray(self.model.predict_proba(self.rows))


# ------------------------------------------------------------------ many dial values


@dataclass(frozen=True, kw_only=True)
class DialHeads:
    """The fitted functions at several dial values, as coefficients on one basis; no rows needed.

    Attributes
    ----------
    basis : (D, m) functions in psi coordinates.
    coef : (points, m, outputs) coefficients on the basis.
    intercept : (points, outputs)
    supremum : (points,) in-sample supremum of the certificates.
    """

    basis: Array
    coef: Array
    intercept: Array
    supremum: Array

    @classmethod
    def along(cls, model: FairKernelEstimator, grid: Array) -> DialHeads:
        """Solve for the head at every dial value; a warning that repeats is given once."""
        if model._fit_state.decisions is not None:
            return RuleHeads.of_decisions(model._fit_state.decisions, grid)
        coef, weights, intercept, supremum = [], [], [], []
        earlier: list[Any] = []
        with each_warning_once():
            for fairness in grid:
                at = copy.copy(model)
                at.fairness, at.dial = float(fairness), model._native_dial
                at._follow(earlier)
                earlier = [*earlier[-1:], at]
                position, head, shift = at._path_head()
                coef.append(position.blend @ head)
                intercept.append(np.broadcast_to(shift, head.shape[1]))
                supremum.append(position.certificate.supremum)
                if position.fair_space is not None:  # components of all of F: no blend of the basis
                    weights.append(position.directions @ head)
        basis = model._solution.basis
        if weights:
            basis = np.concatenate(weights, axis=1)
            ends = np.cumsum([w.shape[1] for w in weights])
            coef = np.split(np.eye(basis.shape[1]), ends[:-1], axis=1)
        return cls(
            basis=basis,
            coef=np.array(coef),
            intercept=np.array(intercept),
            supremum=np.array(supremum),
        )

    def outputs(self, scores: Array, points: slice) -> Array:
        """Fitted scores at some of the dial values, (n, outputs, points)."""
        coef = np.moveaxis(self.coef[points], 0, 2)
        flat = scores @ coef.reshape(coef.shape[0], -1)
        return np.asarray(flat.reshape(-1, *coef.shape[1:]) + self.intercept[points].T)

    def for_classes(self, model: FairKernelEstimator, classes: np.ndarray | None) -> DialHeads:
        """One output per class, also for classes that the model has not seen in training."""
        known = model._fit_state.classes
        if classes is None or known is None or len(known) == len(classes):
            return self
        coef, intercept = self.coef, self.intercept
        if coef.shape[2] == 1:  # log odds of two classes
            coef, intercept = (np.concatenate([-v, v], axis=-1) / 2.0 for v in (coef, intercept))
        # The share of an unseen class is 0; its log odds are below all others.
        logistic = isinstance(model, FairClassifier) or (
            isinstance(model, FairGPClassifier) and model.likelihood == "logistic"
        )
        known = np.searchsorted(classes, known)
        all_coef = np.zeros((*coef.shape[:2], len(classes)))
        all_intercept = np.full((len(coef), len(classes)), _NEVER if logistic else 0.0)
        all_coef[:, :, known], all_intercept[:, known] = coef, intercept
        return replace(self, coef=all_coef, intercept=all_intercept)


@dataclass(frozen=True, kw_only=True)
class RuleHeads(DialHeads):
    """Decision rules at several dial values: margins of probabilities and rate codes.

    Attributes
    ----------
    fit : the rules of the model.
    rules : the rule at each dial value.
    """

    fit: DecisionFit
    rules: tuple[RulePoint, ...]

    @classmethod
    def of_decisions(cls, fit: DecisionFit, grid: Array) -> RuleHeads:
        """Choose the rule at every dial value."""
        rules = tuple(fit.at_share(float(share)) for share in grid)
        n_outputs = 1 if len(fit.intercepts) == 2 else len(fit.intercepts)
        return cls(
            basis=fit.functions,
            coef=np.zeros((len(grid), 1, n_outputs)),
            intercept=np.zeros((len(grid), n_outputs)),
            supremum=np.full(len(grid), np.nan),
            fit=fit,
            rules=rules,
        )

    def outputs(self, scores: Array, points: slice) -> Array:
        """Margins at some of the dial values, (n, outputs, points)."""
        return np.stack([self.fit.margins(rule, scores) for rule in self.rules[points]], axis=2)

    def for_classes(self, model: FairKernelEstimator, classes: np.ndarray | None) -> DialHeads:
        """The same rules; every fold must have seen all classes."""
        if classes is not None and len(classes) != len(self.fit.intercepts):
            msg = f"{type(model).__name__} has not seen all {len(classes)} classes in one of the folds."
            raise ValueError(msg)
        return self


@dataclass(frozen=True, kw_only=True)
class DialOutputs:
    """Fitted scores of some rows at every dial value, kept as scores (2d numbers per row) and heads.

    Attributes
    ----------
    rows : (n,) positions of these rows among all rows of a path.
    scores : (n, m) centred scores on the basis of the heads.
    heads : the fitted functions.
    """

    rows: Codes
    scores: Array
    heads: DialHeads

    def at(self, points: slice) -> Array:
        """Fitted scores at some of the dial values, (n, outputs, points)."""
        return self.heads.outputs(self.scores, points)


@dataclass(frozen=True, kw_only=True)
class RuleOutputs(DialOutputs):
    """Margins of decision rules on their training rows, by functions that did not see the row."""

    heads: RuleHeads

    def at(self, points: slice) -> Array:
        """Margins at some of the dial values, (n, outputs, points)."""
        fit = self.heads.fit
        margins = [fit.training_margins(rule)[self.rows] for rule in self.heads.rules[points]]
        return np.stack(margins, axis=2)


class DialPredictor:
    """Predictions of a fitted model for some rows at all dial values, from one pass over the rows.

    Parameters
    ----------
    model : fitted fairspan estimator
    X : (n, p) clean rows, as ``model._read_new(table)`` returns them.
    """

    def __init__(self, model: Any, X: Array) -> None:
        self.model, self.X = model, X

    @cached_property
    def rows(self) -> ScoredRows:
        """The rows with their scores, computed on first use."""
        return score_rows(self.model, self.X)

    def at(self, fairness: float) -> DialPrediction:
        """Predict with the model at this value of its native dial."""
        model, dial = self.model, self.model._native_dial
        if model.dial not in ("auto", dial) or model.fairness != fairness:
            model = model.at(float(fairness), dial=dial)
        return DialPrediction(model, self.rows)

    def along(
        self, heads: DialHeads, *, rows: Codes | None = None, classes: np.ndarray | None = None
    ) -> DialOutputs:
        """Fitted scores at all dial values of ``heads``; the result does not keep X.

        Parameters
        ----------
        heads : of the same model.
        rows : positions of the rows among all rows of a path; all rows if not given.
        classes : labels of the outputs; those of the model if not given.
        """
        basis = heads.basis
        return DialOutputs(
            rows=np.arange(len(self.X)) if rows is None else rows,
            scores=self.model.pilot_.features.scores(self.X, basis)
            - basis.T @ self.model._solution.mean,
            heads=heads.for_classes(self.model, classes),
        )
