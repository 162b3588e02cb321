"""A fitted model made fair without training it again: only the predictors of S are fitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from sklearn.base import clone

from fairspan.estimators.frozen import FrozenScores
from fairspan.estimators.learners import FairLearner, LearnerClassifier, LearnerRegressor
from fairspan.inputs.columns import as_frame, named_columns_of
from fairspan.inputs.config import document_parameters
from fairspan.inputs.rows import ColumnSchema
from fairspan.method.row_sketch import Mask


class FrozenLearner(FairLearner):
    """Shared fit of the estimators over one frozen model."""

    model: Any

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
        """Learn the correction from rows that the model was not trained on.

        A model predicts the rows of its own training too well. Its scores there differ between groups in
        another way than those of new people, so a correction learnt there would be the wrong one.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Calibration rows. The model gets them as they are, without the columns that
            ``sensitive_features``, ``control_features`` and ``groups`` name; the predictors of S get them
            encoded.
        y : array-like of shape (n_samples,)
            Classes or numbers.
        sensitive_features : array-like, frame, or column name(s) of X
            One or several protected attributes. Never needed again after fitting.
        control_features : array-like, frame, or column name(s) of X, optional
            Strata for ``criterion="conditional_statistical_parity"``.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows; the predictors of S must take them.
        groups : array-like of shape (n_samples,), optional
            Labels of rows that belong together; they are never divided between folds.

        Returns
        -------
        self
        """
        self._check_columns(X, sensitive_features, control_features, groups)
        return super().fit(
            X,
            y,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
            groups=groups,
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; those of the model itself are left out, because it is frozen."""
        params: dict[str, Any] = super().get_params(deep=deep)
        return {name: value for name, value in params.items() if not name.startswith("model__")}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, except those of the frozen model."""
        if inner := [name for name in params if name.startswith("model__")]:
            msg = f"{inner[0]} cannot be set: the model is frozen. Pass another fitted model as `model`."
            raise ValueError(msg)
        out: Self = super().set_params(**params)
        return out

    def __sklearn_clone__(self) -> Self:
        # A clone of the model would not be fitted.
        params = self.get_params(deep=False)
        return type(self)(
            **{k: v if k == "model" else clone(v, safe=False) for k, v in params.items()}
        )

    def _frozen(self) -> FrozenScores:
        return FrozenScores.of(self.model, classes=self._target_kind == "categorical")

    def _learners(self) -> tuple[list[Any], list[Any]]:
        return [self._frozen()], self._learners_of_s()

    def _check_columns(self, X: Any, *roles: Any) -> None:
        """Raise if the model reads a column that is named as a role, and so taken out of X."""
        frame, read = as_frame(X, "X"), getattr(self.model, "feature_names_in_", ())
        for raw in roles:
            named = [] if raw is None else named_columns_of(frame, raw, "sensitive_features") or []
            if used := [name for name in named if name in read]:
                raise ValueError(
                    f"The model reads the column {used[0]!r}, which is named as a column to take out of X. "
                    f"Pass its values instead, sensitive_features=X[{used[0]!r}], to leave it in X; "
                    f"predictions then need it, too."
                )

    def _check_unchanged(self) -> None:
        super()._check_unchanged()
        frozen = self._schema.frozen if self._state is not None else None
        if isinstance(frozen, FrozenScores) and frozen.model is not self.model:
            raise ValueError(
                "model was changed after the fit, and the correction was learnt for the scores of the other "
                "one. Call fit again, or set model back."
            )

    def _encoded_schema(self, X: Any) -> ColumnSchema:
        return replace(super()._encoded_schema(X), frozen=self._frozen())

    # Scores can differ in the last digits with the number of rows.

    def _fitted_share(self, X: Any) -> float | None:
        return super()._fitted_share(self._without_scores(X))

    def _looked_up(self, X: Any) -> tuple[Mask, Mask]:
        return super()._looked_up(self._without_scores(X))


@document_parameters
class FairPostprocessorRegressor(FrozenLearner, LearnerRegressor):
    """A fitted regressor made fair to new people, without training it again.

    The model predicts y on calibration rows, and learners predict the protected attributes from X, out of
    fold. What S explains of the prediction of y is subtracted, so that at ``fairness=1`` no covariance with
    S is expected on new rows. New rows are predicted from X alone; S is not needed.

    Parameters
    ----------
    model : fitted regressor, or function
        Anything fitted with ``predict``, or a function of X that returns one number per row. It gets X in
        the type that you pass, e.g. a frame. It is neither changed nor copied, also in searches.
    sensitive_estimator : "auto", "boosting", "kernel", "linear", estimator, or a list, default="auto"
        What predicts the protected attributes: names as in :class:`FairClassifier`, classifiers or
        regressors. A list is stacked, and "auto" is a list.
    cv : int or splitter, default=5
        Folds of the calibration rows. A splitter must put every row into one test fold.
    n_jobs : int, optional
        Models that are fitted at the same time, as in scikit-learn.
    encoder : {"auto", None}, default="auto"
        "auto": encode frames with text, categories or missing values, for the predictors of S.

    Attributes
    ----------
    certificate_ : Certificate
        What is expected on new rows, with intervals; see :class:`FairRepresentation` for this and others.

    Notes
    -----
    ``fairness=0`` is the model's prediction after a linear fit to y on the calibration rows, together with
    what predicts S. It can thus differ a little from ``model.predict``.
    """

    def __init__(
        self,
        model: Any,
        *,
        sensitive_estimator: Any = "auto",
        cv: Any = 5,
        n_jobs: Any = None,
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
        self.model = model
        self.sensitive_estimator = sensitive_estimator
        self.cv = cv
        self.n_jobs = n_jobs
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
class FairPostprocessor(FrozenLearner, LearnerClassifier):
    """A fitted classifier made fair to new people, without training it again.

    The model predicts y on calibration rows, and learners predict the protected attributes from X, out of
    fold. What S explains of the prediction of y is subtracted, so that at ``fairness=1`` no covariance of
    the score with S is expected on new rows. New rows are predicted from X alone; S is not needed.

    Parameters
    ----------
    model : fitted classifier, or function
        Anything fitted with ``predict_proba`` or ``decision_function``, or a function of X that returns one
        score per row (two classes, larger for the larger label) or one per class, in sorted order. It gets
        X in the type that you pass, e.g. a frame. It is neither changed nor copied, also in searches.
    sensitive_estimator : "auto", "boosting", "kernel", "linear", estimator, or a list, default="auto"
        What predicts the protected attributes: names as in :class:`FairClassifier`, classifiers or
        regressors. A list is stacked, and "auto" is a list.
    cv : int or splitter, default=5
        Folds of the calibration rows. A splitter must put every row into one test fold.
    n_jobs : int, optional
        Models that are fitted at the same time, as in scikit-learn.
    encoder : {"auto", None}, default="auto"
        "auto": encode frames with text, categories or missing values, for the predictors of S.

    Attributes
    ----------
    classes_ : ndarray
        Labels.
    decision_rule_ : RuleWords
        With ``equalize="decisions"``: what the rule subtracts for each group; ``print`` shows it in words.
    certificate_ : Certificate
        What is expected on new rows, with intervals; see :class:`FairRepresentation` for this and others.

    Notes
    -----
    ``fairness=0`` is the model's score after a fit to y on the calibration rows, together with what predicts
    S. It can thus differ a little from the model's own output.
    """

    def __init__(
        self,
        model: Any,
        *,
        sensitive_estimator: Any = "auto",
        equalize: Any = "scores",
        selection_rate: Any = None,
        cost_matrix: Any = None,
        cv: Any = 5,
        n_jobs: Any = None,
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
        self.model = model
        self.sensitive_estimator = sensitive_estimator
        self.equalize = equalize
        self.selection_rate = selection_rate
        self.cost_matrix = cost_matrix
        self.cv = cv
        self.n_jobs = n_jobs
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
