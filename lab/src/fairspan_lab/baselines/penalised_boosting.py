"""Gradient boosting with a penalty on the covariance of score and S.

The general form of an in-training penalty, with trees: the loss plus mu times the squared covariance of
the score with the codes of the protected attributes.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import expit, logit
from sklearn.model_selection import train_test_split

from fairspan.inputs.columns import align_rows
from fairspan.inputs.config import read_seed
from fairspan.method.linalg import Array
from fairspan_lab.baselines._common import (
    Baseline,
    BaselineClassifier,
    BaselineRegressor,
    check_count,
    check_number,
    need,
    positive_rows,
    read_numbers,
    read_rows,
    read_two_classes,
)
from fairspan_lab.baselines._penalty import check_criterion, covariance, whitened_codes
from fairspan_lab.baselines._sensitive import read_sensitive

__all__ = ["PenalisedBoosting", "PenalisedBoostingClassifier", "gradients", "penalised_loss"]


class _PenalisedBoosting(Baseline):
    """Parameters, fit and prediction of the regressor and the classifier."""

    def __init__(
        self,
        mu: float = 1.0,
        *,
        criterion: str = "statistical_parity",
        max_trees: int = 300,
        learning_rate: float = 0.1,
        n_leaves: int = 15,
        min_samples_leaf: int = 20,
        validation: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.mu = mu
        self.criterion = criterion
        self.max_trees = max_trees
        self.learning_rate = learning_rate
        self.n_leaves = n_leaves
        self.min_samples_leaf = min_samples_leaf
        self.validation = validation
        self.random_state = random_state

    def _fit_target(self, rows: Array, y: Array, codes: Array, *, classes: bool) -> None:
        """Trees for y (0 and 1, or numbers); their number is the best on rows held out."""
        mu, size = check_number("mu", self.mu), check_count("max_trees", self.max_trees)
        rate = check_number("learning_rate", self.learning_rate, 0.0, 1.0, open_low=True)
        leaves = check_count("n_leaves", self.n_leaves, 2)
        fewest = check_count("min_samples_leaf", self.min_samples_leaf)
        share = check_number("validation", self.validation, 0.05, 0.5)
        lgb = need("lightgbm", "Penalised boosting", "lightgbm")
        seed = read_seed(self.random_state)
        fit, held_out = train_test_split(
            np.arange(len(y)), test_size=share, random_state=seed, stratify=y if classes else None
        )
        middle = float(y[fit].mean())
        self.start_ = float(logit(middle)) if classes else middle
        scale = 1.0 if classes else max(float(y[fit].std()), 1e-300)
        target = y if classes else (y - self.start_) / scale
        start = self.start_ if classes else 0.0

        def objective(scores: Array, _: Any) -> tuple[Array, Array]:
            return gradients(start + scores, target[fit], codes[fit], mu, classes=classes)

        def loss(scores: Array, _: Any) -> tuple[str, float, bool]:
            found = penalised_loss(
                start + scores, target[held_out], codes[held_out], mu, classes=classes
            )
            return "penalised", found, False

        params = {
            "objective": objective,
            "num_leaves": leaves,
            "learning_rate": rate,
            "min_data_in_leaf": fewest,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
            "metric": "None",
            "seed": seed.randint(2**31 - 1),
        }
        train = lgb.Dataset(rows[fit], target[fit], params={"verbosity": -1})
        self.booster_ = lgb.train(
            params,
            train,
            num_boost_round=size,
            valid_sets=[lgb.Dataset(rows[held_out], target[held_out], reference=train)],
            feval=loss,
            callbacks=[lgb.early_stopping(30, verbose=False)],
        )
        self.n_trees_ = int(self.booster_.best_iteration)
        self._unit = scale

    def _scores(self, X: Any) -> Array:
        rows = self._read_new(X)
        raw = self.booster_.predict(rows, raw_score=True, num_iteration=self.n_trees_)
        return np.asarray(self.start_ + self._unit * np.asarray(raw))


class PenalisedBoosting(BaselineRegressor, _PenalisedBoosting):
    """Boosted trees for ``mean((y - f)^2) / 2 + mu |Cov(f, C)|^2``, y at unit variance.

    C are the whitened codes of S. The gradient of row i is ``f_i - y_i + 2 mu C_i' Cov(C, f)``. LightGBM
    grows the trees; a part of the rows is held out, and the number of trees is the one with the least
    penalised loss on it.

    Limits: mu has no unit that a user knows, so the dependence it leaves must be measured. What is
    penalised is covariance on the training rows. The curvature of the penalty is not used: with a large
    mu steps overshoot, and the correlation stops falling.

    Parameters
    ----------
    mu : float, default=1.0
        Weight of the penalty; its dial.
    criterion : {"statistical_parity"}, default="statistical_parity"
        Classifiers have others.
    max_trees : int, default=300
        Largest number of trees.
    learning_rate : float, default=0.1
        Factor of each tree.
    n_leaves : int, default=15
        Leaves of each tree.
    min_samples_leaf : int, default=20
        Fewest rows of a leaf.
    validation : float, default=0.2
        Share of the rows that the number of trees is chosen on.
    random_state : int, RandomState or None, default=None
        Of the rows held out.

    Attributes
    ----------
    booster_ : lightgbm.Booster
        The trees.
    n_trees_ : int
        Number of trees that predict.
    start_ : float
        The prediction before the first tree.
    """

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Learn from rows with known protected attributes.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers without gaps.
        y : array-like of shape (n_samples,)
            Numbers.
        sensitive_features : array-like, series or frame
            One or several attributes. Not needed again.

        Returns
        -------
        self
        """
        criterion = check_criterion(self.criterion, ("statistical_parity",))
        X, y, sensitive_features = align_rows(
            X=X, y=y, sensitive_features=sensitive_features
        ).values()
        rows = read_rows(self, X)
        target = read_numbers(self, y, len(rows))
        attributes = read_sensitive(self, X, sensitive_features, len(rows))
        self._fit_target(rows, target, whitened_codes(attributes, criterion), classes=False)
        return self

    def predict(self, X: Any) -> Array:
        """Predictions; no protected attribute is read."""
        return self._scores(X)


class PenalisedBoostingClassifier(BaselineClassifier, _PenalisedBoosting):
    """Boosted trees for ``mean(log-loss) + mu |Cov(f, C)|^2`` on log odds f.

    As :class:`PenalisedBoosting`, with the gradient ``p_i - y_i + 2 mu C_i' Cov(C, f)`` and the curvature
    ``p_i (1 - p_i)``; two classes.

    Limits: those of :class:`PenalisedBoosting`. Scores without covariance may decide unequally.

    Parameters
    ----------
    mu : float, default=1.0
        Weight of the penalty; its dial.
    criterion : {"statistical_parity", "equal_opportunity", "equalized_odds"}, default="statistical_parity"
        Rows whose covariance is penalised: all, those of the favourable class, or those of each class.
    pos_label : label, default=None
        The favourable class; the second in sorted order if None.
    max_trees : int, default=300
        As in :class:`PenalisedBoosting`.
    learning_rate : float, default=0.1
        As in :class:`PenalisedBoosting`.
    n_leaves : int, default=15
        As in :class:`PenalisedBoosting`.
    min_samples_leaf : int, default=20
        As in :class:`PenalisedBoosting`.
    validation : float, default=0.2
        As in :class:`PenalisedBoosting`.
    random_state : int, RandomState or None, default=None
        As in :class:`PenalisedBoosting`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    booster_, n_trees_, start_ : lightgbm.Booster, int, float
        As in :class:`PenalisedBoosting`.
    """

    def __init__(
        self,
        mu: float = 1.0,
        *,
        criterion: str = "statistical_parity",
        pos_label: Any = None,
        max_trees: int = 300,
        learning_rate: float = 0.1,
        n_leaves: int = 15,
        min_samples_leaf: int = 20,
        validation: float = 0.2,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            mu,
            criterion=criterion,
            max_trees=max_trees,
            learning_rate=learning_rate,
            n_leaves=n_leaves,
            min_samples_leaf=min_samples_leaf,
            validation=validation,
            random_state=random_state,
        )
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """As :meth:`PenalisedBoosting.fit`, for two classes.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers without gaps.
        y : array-like of shape (n_samples,)
            Two classes.
        sensitive_features : array-like, series or frame
            One or several attributes. Not needed again.

        Returns
        -------
        self
        """
        criterion = check_criterion(self.criterion)
        X, y, sensitive_features = align_rows(
            X=X, y=y, sensitive_features=sensitive_features
        ).values()
        rows = read_rows(self, X)
        signs, classes = read_two_classes(self, y, len(rows))
        attributes = read_sensitive(self, X, sensitive_features, len(rows))
        codes = whitened_codes(attributes, criterion, positive_rows(signs, classes, self.pos_label))
        self._fit_target(rows, (signs > 0.0).astype(np.float64), codes, classes=True)
        self.classes_ = classes
        return self

    def decision_function(self, X: Any) -> Array:
        """Log odds; positive means ``classes_[1]``. No protected attribute is read."""
        return self._scores(X)


# --------------------------------------------------------------------------- the problem


def gradients(
    scores: Array, y: Array, codes: Array, mu: float, *, classes: bool
) -> tuple[Array, Array]:
    """First derivatives of n times the penalised loss, and the second ones of the loss alone."""
    # Centred codes: on a part of the rows their mean is not exactly 0.
    centred = codes - codes.mean(axis=0)
    pull = 2.0 * mu * (centred @ covariance(scores, codes))
    if not classes:
        return scores - y + pull, np.ones_like(y)
    p = expit(scores)
    return p - y + pull, np.maximum(p * (1.0 - p), 1e-6)


def penalised_loss(scores: Array, y: Array, codes: Array, mu: float, *, classes: bool) -> float:
    """``mean(loss) + mu |Cov(scores, C)|^2``; y is 0 and 1, or numbers."""
    loss = np.logaddexp(0.0, scores) - y * scores if classes else 0.5 * (scores - y) ** 2
    return float(loss.mean() + mu * np.sum(covariance(scores, codes) ** 2))
