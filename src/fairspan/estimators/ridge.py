"""Fair kernel ridge regression, and the classifier by least squares on one-hot labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from fairspan.estimators.predictor import FairClassifier, FairPredictor
from fairspan.inputs.config import document_parameters
from fairspan.method.linalg import Array


@document_parameters
class FairRidge(RegressorMixin, FairPredictor):
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
class FairRidgeClassifier(ClassifierMixin, FairClassifier):
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
    certificate_ : Certificate
        See :class:`FairRepresentation` for this and all other fitted attributes.
    """

    def decision_function(self, X: Any) -> Array:
        """Least-squares scores, -1 to 1: one column per class, or the larger label's for two."""
        scores = 2.0 * self._outputs(X) - 1.0
        return scores[:, 1] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of the largest score."""
        best = np.argmax(self._outputs(X), axis=1)
        labels: np.ndarray = np.asarray(self.classes_)[best]
        return labels
