"""Base classes of predictors; fair kernel ridge regression, and the classifier by least squares."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.conformal import ConformalIntervals, ConformalSets
from fairspan.inputs.config import document_parameters
from fairspan.method.linalg import Array, to_numpy


class FairPredictor(FairKernelEstimator):
    """An estimator that predicts from the scores of the model space."""

    def _path(self, X: Any, y: Any, *, control_features: Any = None, **options: Any) -> Any:
        """``FairnessPath.from_estimator`` of this model, for displays, which cannot import it.

        Control features are ignored unless the criterion needs them.
        """
        from fairspan.estimators.path import FairnessPath  # it imports this module

        if self._config.criterion_name != "conditional_statistical_parity":
            control_features = None
        options["control_features"] = control_features
        return FairnessPath.from_estimator(self, X, y, **options)


class FairClassifier(FairPredictor):
    """An estimator that predicts classes."""

    _target_kind = "categorical"

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        classes: Any = None,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        solve: Any = True,
        start: Any = None,
    ) -> Self:
        """Add a block of rows.

        As in :class:`FairRepresentation`: an estimator that was not prepared is prepared on this
        first block, which must then show every class.

        Parameters
        ----------
        X, y, sensitive_features, control_features, sample_weight
            As in :meth:`fit`.
        groups : array-like of shape (n_samples,), optional
            As in :meth:`fit`, after ``prepare(..., folds="hash")``.
        classes : array-like, optional
            All labels, as in scikit-learn; an error if they differ from those of the prepared rows.
        solve : bool, default=True
            Solve for the model after adding.
        start : int, optional
            Position of the block's first row in all the data.
        """
        if classes is not None:
            seen = None if self._state is None else self._state.classes
            known = np.unique(to_numpy(y)) if seen is None else seen
            if not np.array_equal(np.unique(classes), known):
                msg = (
                    f"classes={list(classes)!r}, but the rows that the estimator is prepared on have "
                    f"{list(known)!r}. Call `prepare` on rows that show every class."
                )
                raise ValueError(msg)
        return super().partial_fit(
            X,
            y,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
            groups=groups,
            solve=solve,
            start=start,
        )


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
class FairRidgeClassifier(ClassifierMixin, ConformalSets, FairClassifier):
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
