"""Fair kernel ridge regression, and the classifier by least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from fairspan.estimators.conformal import ConformalIntervals, ConformalSets
from fairspan.estimators.predictors import FairPredictor, RuleClassifier
from fairspan.inputs.config import document_parameters
from fairspan.method.linalg import Array


def _decides(est: FairRidgeClassifier) -> bool:
    return bool(est.equalize == "decisions")


@document_parameters
class FairRidge(RegressorMixin, ConformalIntervals, FairPredictor):
    """Fair kernel ridge regression, fitted from moments alone.

    ``fairness=0`` is kernel ridge regression; ``fairness=1`` is kernel ridge regression constrained to
    functions without covariance with the protected attributes, the least-squares optimum among them.
    In between, the direction of the prediction turns from one to the other, and the ridge head sets its
    scale. All dial values come from the same fit (:meth:`at`).

    Parameters
    ----------
    n_predictive_directions : {"auto", "test"} or int, default="auto"
        "auto": the ridge direction. An integer asks for that many sliced-inverse-regression
        directions, with the ridge direction appended. Not used with ``subspace="fair"``.
    subspace : {"model", "fair"}, default="model"
        "model": ridge regression on the d functions of the model space. "fair": the posterior mean
        under a Gaussian process prior on all of F; the same direction, shrunk differently between
        the two ends, and equal at both.

    Attributes
    ----------
    score_coef_, score_intercept_ : ndarray
        Ridge head on the scores of the model space.
    certificate_ : Certificate
        See :class:`FairRepresentation` for this and all other fitted attributes.
    """

    _target_kind = "continuous"

    def predict(self, X: Any) -> Array:
        """Predictions; no protected attribute is read."""
        return self._outputs(X)[:, 0]


@document_parameters
class FairRidgeClassifier(ClassifierMixin, ConformalSets, RuleClassifier):
    """Fair classifier by least squares on one-hot labels, the twin of ``RidgeClassifier``.

    The paper's classifier, for two and more classes, fitted from moments alone.

    Parameters
    ----------
    n_predictive_directions : {"auto", "test"} or int, default="auto"
        "auto": all K - 1 canonical directions of the labels; or how many of them. Not used with
        ``subspace="fair"``.
    subspace : {"model", "fair"}, default="model"
        "model": least squares on the functions of the model space. "fair": the posterior mean under
        a Gaussian process prior on all of F, one angle per class; equal at both ends.

    Attributes
    ----------
    classes_ : ndarray
        Labels.
    decision_rule_ : RuleWords
        With ``equalize="decisions"``: what the rule subtracts for each group; ``print`` shows it in words.
    certificate_ : Certificate
        See :class:`FairRepresentation` for this and all other fitted attributes.
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        equalize: Any = "scores",
        selection_rate: Any = None,
        cost_matrix: Any = None,
        gamma: Any = "cv",
        kernel_params: Any = None,
        feature_map: Any = None,
        n_components: Any = "auto",
        landmarks: Any = "stratified",
        criterion: Any = "statistical_parity",
        fairness: Any = 1.0,
        dial: Any = "auto",
        sensitive_kind: Any = "auto",
        dependence: Any = "mean",
        n_slices: Any = 10,
        intersectional: Any = False,
        pos_label: Any = None,
        n_sensitive_directions: Any = "auto",
        n_predictive_directions: Any = "auto",
        eta: Any = "auto",
        alpha: Any = "auto",
        subspace: Any = "model",
        method: Any = "optimal",
        removal: Any = "auto",
        missing_sensitive: Any = "raise",
        encoder: Any = "auto",
        epsilon_sensitive: Any = None,
        delta_sensitive: Any = 1e-6,
        sensitive_groups: Any = None,
        noise_state: Any = None,
        random_state: Any = None,
        verbose: Any = 0,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            kernel_params=kernel_params,
            feature_map=feature_map,
            n_components=n_components,
            landmarks=landmarks,
            criterion=criterion,
            fairness=fairness,
            dial=dial,
            sensitive_kind=sensitive_kind,
            dependence=dependence,
            n_slices=n_slices,
            intersectional=intersectional,
            pos_label=pos_label,
            n_sensitive_directions=n_sensitive_directions,
            n_predictive_directions=n_predictive_directions,
            eta=eta,
            alpha=alpha,
            subspace=subspace,
            method=method,
            removal=removal,
            missing_sensitive=missing_sensitive,
            encoder=encoder,
            epsilon_sensitive=epsilon_sensitive,
            delta_sensitive=delta_sensitive,
            sensitive_groups=sensitive_groups,
            noise_state=noise_state,
            random_state=random_state,
            verbose=verbose,
        )
        self.equalize = equalize
        self.selection_rate = selection_rate
        self.cost_matrix = cost_matrix

    @property
    def _score_scale(self) -> tuple[float, float]:
        return 2.0, -1.0

    def decision_function(self, X: Any) -> Array:
        """Least-squares scores, -1 to 1: one column per class, or the larger label's for two.

        With ``equalize="decisions"``, the margins of the rule.
        """
        self._check_fitted()
        if self._fit_state.decisions is not None:
            margins = self._decisive(X)
            return margins[:, 0] if margins.shape[1] == 1 else margins
        scores = 2.0 * self._outputs(X) - 1.0
        return scores[:, 1] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of the largest score, or of the decision rule."""
        return self._labels_of(X)

    @available_if(_decides)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Probabilities, (n, K), in the order of ``classes_``; only with ``equalize="decisions"``."""
        self._check_fitted()
        return self._rule_probabilities(X)
