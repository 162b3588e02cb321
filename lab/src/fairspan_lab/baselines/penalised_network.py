"""A network with a penalty on the covariance of score and S in each batch; needs torch.

The scheme of fairness regularisers for networks: Buyl, Defrance and De Bie (2024), "fairret: a framework
for differentiable fairness regularization terms", ICLR. With ``penalty="fairret"`` the term is the one of
that package.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, Self

import numpy as np
from scipy.special import logit
from sklearn.model_selection import train_test_split

from fairspan.inputs.columns import align_rows
from fairspan.inputs.config import read_seed
from fairspan.method.linalg import Array
from fairspan_lab.baselines._common import (
    Baseline,
    BaselineClassifier,
    BaselineRegressor,
    check_choice,
    check_count,
    check_number,
    need,
    positive_rows,
    read_numbers,
    read_rows,
    read_two_classes,
)
from fairspan_lab.baselines._penalty import check_criterion, whitened_codes
from fairspan_lab.baselines._sensitive import SensitiveCoding, read_sensitive

__all__ = ["PenalisedNetwork", "PenalisedNetworkClassifier"]


def need_training() -> ModuleType:
    """The training, imported when it is needed: it imports torch."""
    need("torch", "A penalised network", "torch")
    return importlib.import_module("fairspan_lab.baselines._penalised_training")


class _PenalisedNetwork(Baseline):
    """Parameters, training and prediction of the regressor and the classifier."""

    def __init__(
        self,
        mu: float = 1.0,
        *,
        criterion: str = "statistical_parity",
        n_hidden: int = 64,
        batch_size: int = 512,
        learning_rate: float = 2e-3,
        max_epochs: int = 200,
        patience: int = 15,
        validation: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.mu = mu
        self.criterion = criterion
        self.n_hidden = n_hidden
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation = validation
        self.random_state = random_state

    def _train(self, rows: Array, y: Array, S: Array, penalty: Any, *, classes: bool) -> None:
        """Fit the network to y (0 and 1, or numbers), and keep its best state on rows held out."""
        mu, width = check_number("mu", self.mu), check_count("n_hidden", self.n_hidden)
        size, most = (
            check_count("batch_size", self.batch_size, 2),
            check_count("max_epochs", self.max_epochs),
        )
        rate = check_number("learning_rate", self.learning_rate, open_low=True)
        patience = check_count("patience", self.patience)
        share = check_number("validation", self.validation, 0.05, 0.5)
        seed = read_seed(self.random_state)
        fit, held_out = train_test_split(
            np.arange(len(y)), test_size=share, random_state=seed, stratify=y if classes else None
        )
        self.mean_, spread = rows[fit].mean(axis=0), rows[fit].std(axis=0)
        self.scale_ = np.where(spread > 0.0, spread, 1.0)
        middle = float(y[fit].mean())
        self.start_ = float(logit(middle)) if classes else middle
        self._unit = 1.0 if classes else max(float(y[fit].std()), 1e-300)
        target = y if classes else (y - self.start_) / self._unit
        training = need_training()
        self.weights_, self.n_epochs_ = training.train(
            (rows - self.mean_) / self.scale_,
            target,
            S,
            fit,
            held_out,
            training.Schedule(
                mu=mu,
                width=width,
                batch_size=size,
                rate=rate,
                max_epochs=most,
                patience=patience,
                seed=int(seed.randint(2**31 - 1)),
                start=self.start_ if classes else 0.0,
                classes=classes,
            ),
            penalty,
        )

    def _scores(self, X: Any) -> Array:
        hidden = (self._read_new(X) - self.mean_) / self.scale_
        *inner, last = self.weights_
        for weight, bias in inner:
            hidden = np.maximum(hidden @ weight.T + bias, 0.0)
        raw = (hidden @ last[0].T + last[1])[:, 0]
        return np.asarray(self.start_ + self._unit * raw)


class PenalisedNetwork(BaselineRegressor, _PenalisedNetwork):
    """Two hidden layers for ``mean((y - f)^2) / 2 + mu |Cov(f, C)|^2`` in each batch, y at unit variance.

    C are the whitened codes of S. Adam; a part of the rows is held out, and the state with the least
    penalised loss on it is kept.

    Limits: mu has no unit that a user knows, so the dependence it leaves must be measured. The squared
    covariance of a batch is too large by its noise, about one over the batch size for each code, so that
    a large mu also flattens the score. Trainings differ by their seeds.

    Parameters
    ----------
    mu : float, default=1.0
        Weight of the penalty; its dial.
    criterion : {"statistical_parity"}, default="statistical_parity"
        Classifiers have others.
    n_hidden : int, default=64
        Units of each of two hidden layers.
    batch_size : int, default=512
        Rows of a batch.
    learning_rate : float, default=2e-3
        Of Adam.
    max_epochs : int, default=200
        Most passes over the rows.
    patience : int, default=15
        Passes without a smaller loss after which the training ends.
    validation : float, default=0.2
        Share of the rows that the state is chosen on.
    random_state : int, RandomState or None, default=None
        Of the rows held out, first weights and batches.

    Attributes
    ----------
    weights_ : list of (ndarray, ndarray)
        Matrix and constants of each layer.
    mean_, scale_ : ndarray of shape (n_features,)
        Of the columns.
    start_ : float
        Added to the output: the mean of y.
    n_epochs_ : int
        Passes until the state that is kept.
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
        codes = whitened_codes(attributes, criterion)
        self._train(rows, target, codes, need_training().covariance_penalty, classes=False)
        return self

    def predict(self, X: Any) -> Array:
        """Predictions; no protected attribute is read."""
        return self._scores(X)


class PenalisedNetworkClassifier(BaselineClassifier, _PenalisedNetwork):
    """Two hidden layers for ``mean(log-loss) + mu penalty`` in each batch, on log odds f.

    As :class:`PenalisedNetwork`, for two classes, with a choice of penalties.

    Limits: those of :class:`PenalisedNetwork`. Scores without covariance may decide unequally.

    Parameters
    ----------
    mu : float, default=1.0
        Weight of the penalty; its dial.
    penalty : {"covariance", "fairret"}, default="covariance"
        ``|Cov(f, C)|^2``, or the package fairret's norm of differences between the rates of groups, on
        probabilities (demographic parity or true positive rates).
    criterion : {"statistical_parity", "equal_opportunity", "equalized_odds"}, default="statistical_parity"
        Rows whose dependence is penalised: all, those of the favourable class, or those of each class
        (not with "fairret").
    pos_label : label, default=None
        The favourable class; the second in sorted order if None.
    n_hidden : int, default=64
        As in :class:`PenalisedNetwork`.
    batch_size : int, default=512
        As in :class:`PenalisedNetwork`.
    learning_rate : float, default=2e-3
        As in :class:`PenalisedNetwork`.
    max_epochs : int, default=200
        As in :class:`PenalisedNetwork`.
    patience : int, default=15
        As in :class:`PenalisedNetwork`.
    validation : float, default=0.2
        As in :class:`PenalisedNetwork`.
    random_state : int, RandomState or None, default=None
        As in :class:`PenalisedNetwork`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    weights_, mean_, scale_, start_, n_epochs_ : list, ndarray, ndarray, float, int
        As in :class:`PenalisedNetwork`; ``start_`` is the log odds of the second class.
    """

    def __init__(
        self,
        mu: float = 1.0,
        *,
        penalty: str = "covariance",
        criterion: str = "statistical_parity",
        pos_label: Any = None,
        n_hidden: int = 64,
        batch_size: int = 512,
        learning_rate: float = 2e-3,
        max_epochs: int = 200,
        patience: int = 15,
        validation: float = 0.2,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            mu,
            criterion=criterion,
            n_hidden=n_hidden,
            batch_size=batch_size,
            learning_rate=learning_rate,
            max_epochs=max_epochs,
            patience=patience,
            validation=validation,
            random_state=random_state,
        )
        self.penalty = penalty
        self.pos_label = pos_label

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """As :meth:`PenalisedNetwork.fit`, for two classes.

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
        check_choice("penalty", self.penalty, ("covariance", "fairret"))
        criterion = check_criterion(self.criterion)
        X, y, sensitive_features = align_rows(
            X=X, y=y, sensitive_features=sensitive_features
        ).values()
        rows = read_rows(self, X)
        signs, classes = read_two_classes(self, y, len(rows))
        attributes = read_sensitive(self, X, sensitive_features, len(rows))
        good = positive_rows(signs, classes, self.pos_label)
        if self.penalty == "covariance":
            S = whitened_codes(attributes, criterion, good)
            penalty = need_training().covariance_penalty
        else:
            S = SensitiveCoding.learn(attributes, "one-hot").columns(attributes)
            penalty = need_training().fairret_penalty(
                criterion, second_is_good=bool(good[signs > 0.0][0])
            )
        self._train(rows, (signs > 0.0).astype(np.float64), S, penalty, classes=True)
        self.classes_ = classes
        return self

    def decision_function(self, X: Any) -> Array:
        """Log odds; positive means ``classes_[1]``. No protected attribute is read."""
        return self._scores(X)
