"""Kernel ridge regression with a penalty on the Hilbert-Schmidt dependence of prediction and S.

Perez-Suay, Laparra, Mateo-Garcia, Munoz-Mari, Gomez-Chova and Camps-Valls (2017), "Fair kernel
learning", ECML PKDD; Li, Perez-Suay, Camps-Valls and Sejdinovic (2019), "Kernel dependence
regularizers and Gaussian processes with applications to algorithmic fairness", arXiv:1911.04322.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg

from fairspan.inputs.columns import align_rows
from fairspan.method.kernels import Kernel
from fairspan.method.linalg import Array, cholesky_factor
from fairspan.method.problem import Attribute
from fairspan_lab.baselines._common import (
    Baseline,
    BaselineClassifier,
    BaselineRegressor,
    check_choice,
    check_count,
    check_number,
    generator,
    read_numbers,
    read_rows,
    read_two_classes,
)
from fairspan_lab.baselines._kernels import (
    FeatureMap,
    check_landmarks,
    choose_gamma,
    feature_map,
    make_kernel,
)
from fairspan_lab.baselines._sensitive import SensitiveCoding, read_sensitive

__all__ = ["HSICRidge", "HSICRidgeClassifier"]


class _HSICModel(Baseline):
    """Parameters, fit and prediction of the regressor and the classifier."""

    feature_map_: FeatureMap

    def __init__(
        self,
        mu: float = 1.0,
        *,
        alpha: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "median",
        kernel_params: Any = None,
        n_landmarks: Any = "auto",
        sensitive_map: str = "auto",
        sensitive_gamma: Any = "median",
        n_sensitive_landmarks: int = 100,
        random_state: Any = None,
    ) -> None:
        self.mu = mu
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.n_landmarks = n_landmarks
        self.sensitive_map = sensitive_map
        self.sensitive_gamma = sensitive_gamma
        self.n_sensitive_landmarks = n_sensitive_landmarks
        self.random_state = random_state

    def _fit_target(self, rows: Array, y: Array, attributes: dict[str, Attribute]) -> None:
        mu = check_number("mu", self.mu)
        alpha = check_number("alpha", self.alpha, open_low=True)
        check_landmarks("n_landmarks", self.n_landmarks)
        n, rng = len(rows), generator(self.random_state)
        kernel = make_kernel(self.kernel, self.gamma, self.kernel_params, rows, rng)
        features = feature_map(kernel, rows, self.n_landmarks, rng)
        phi = self._sensitive_coordinates(attributes, rng)
        psi = features.coordinates(rows)
        mean = psi.mean(axis=0)
        psi -= mean
        C = psi.T @ (phi - phi.mean(axis=0)) / n
        coef = penalised_ridge(psi.T @ psi / n, psi.T @ (y - y.mean()) / n, C, alpha / n, mu)
        self.feature_map_, self.coef_ = features, coef
        self.intercept_ = float(y.mean() - mean @ coef)
        self.dependence_ = float(np.sum((C.T @ coef) ** 2))

    def _sensitive_coordinates(
        self, attributes: dict[str, Attribute], rng: np.random.Generator
    ) -> Array:
        """Coordinates phi(s), one row per row."""
        check_choice("sensitive_map", self.sensitive_map, ("auto", "linear", "one-hot", "rbf"))
        size = check_count("n_sensitive_landmarks", self.n_sensitive_landmarks)
        rule = "linear" if self.sensitive_map == "rbf" else self.sensitive_map
        coding = SensitiveCoding.learn(attributes, rule)
        columns = coding.columns(attributes)
        columns /= np.where(coding.is_number(), columns.std(axis=0), 1.0)
        if self.sensitive_map != "rbf":
            return columns
        kernel = Kernel("rbf", {"gamma": choose_gamma("rbf", self.sensitive_gamma, columns, rng)})
        distinct = np.unique(columns, axis=0)
        landmarks = distinct[rng.permutation(len(distinct))[:size]]
        return feature_map(kernel, landmarks, "all", rng).coordinates(columns)

    def _scores(self, X: Any) -> Array:
        rows = self._read_new(X)
        scores = self.feature_map_.scores(rows, self.coef_[:, None])[:, 0]
        return np.asarray(scores + self.intercept_)


class HSICRidge(BaselineRegressor, _HSICModel):
    """Kernel ridge regression, penalised for dependence on the protected attributes.

    In coordinates psi of the kernel and phi of S, both centred (Perez-Suay et al. 2017; Li et
    al. 2019)::

        min_w  |y - Psi w|^2/n + alpha/n |w|^2 + mu |C'w|^2,   C = Cov(psi, phi)
        w = (Cov(psi) + alpha/n I + mu C C')^-1 Cov(psi, y)

    ``mu=0`` is kernel ridge regression with an intercept; for ``mu -> inf`` the covariance of the
    prediction with phi vanishes, as in the fair ridge of this package.

    Limits: mu has no unit that a user knows, so the unfairness it leaves must be measured, not
    chosen. What is penalised is covariance with phi: with ``sensitive_map="linear"`` nothing beyond
    means.

    Parameters
    ----------
    mu : float, default=1.0
        Weight of the penalty; its dial.
    alpha : float, default=1.0
        Ridge, in the units of scikit-learn's ``KernelRidge``.
    kernel : str or callable, default="rbf"
        Name of a kernel of :mod:`sklearn.metrics.pairwise`, or ``f(X, Z)`` or ``f(x, z)``.
    gamma : {"median", "scale"} or float, default="median"
        Width of the kernel, ``exp(-gamma |x - z|^2)``: one over the squared median distance,
        scikit-learn's rule, or a number.
    kernel_params : dict, default=None
        Further parameters of the kernel.
    n_landmarks : {"auto", "all"} or int, default="auto"
        Training rows that span the coordinates (Nystrom); "auto": all up to 1000.
    sensitive_map : {"auto", "linear", "one-hot", "rbf"}, default="auto"
        phi: numbers at unit variance and text as indicators; indicators of every value; coordinates
        of a Gaussian kernel; or "auto": numbers with many values linear, everything else one-hot.
    sensitive_gamma : {"median", "scale"} or float, default="median"
        Width for "rbf", on S at unit variance.
    n_sensitive_landmarks : int, default=100
        Rows that span the coordinates of "rbf".
    random_state : int, RandomState or None, default=None
        Of landmarks.

    Attributes
    ----------
    feature_map_ : LandmarkMap or TransformerMap
        psi.
    coef_ : ndarray of shape (rank,)
        w.
    intercept_ : float
        So that ``prediction = psi(x).coef_ + intercept_``.
    dependence_ : float
        ``|C'w|^2`` on the training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan_lab.baselines import HSICRidge
    >>> rng = np.random.default_rng(0)
    >>> s = rng.normal(size=200)
    >>> X = rng.normal(size=(200, 2)) + s[:, None]
    >>> y = X[:, 0] + np.sin(X[:, 1])
    >>> models = [HSICRidge(mu).fit(X, y, sensitive_features=s) for mu in (0, 10, 1e9)]
    >>> [round(abs(float(np.corrcoef(m.predict(X), s)[0, 1])), 2) for m in models]
    [0.73, 0.22, 0.0]
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
        X, y, sensitive_features = align_rows(
            X=X, y=y, sensitive_features=sensitive_features
        ).values()
        rows = read_rows(self, X)
        target = read_numbers(self, y, len(rows))
        self._fit_target(rows, target, read_sensitive(self, X, sensitive_features, len(rows)))
        return self

    def predict(self, X: Any) -> Array:
        """Predictions; no protected attribute is read."""
        return self._scores(X)


class HSICRidgeClassifier(BaselineClassifier, _HSICModel):
    """:class:`HSICRidge` on labels -1 and +1; the sign decides.

    Limits: those of :class:`HSICRidge`; two classes; statistical parity only.

    Parameters
    ----------
    mu : float, default=1.0
        Weight of the penalty; its dial.
    alpha : float, default=1.0
        As in :class:`HSICRidge`.
    kernel : str or callable, default="rbf"
        As in :class:`HSICRidge`.
    gamma : {"median", "scale"} or float, default="median"
        As in :class:`HSICRidge`.
    kernel_params : dict, default=None
        As in :class:`HSICRidge`.
    n_landmarks : {"auto", "all"} or int, default="auto"
        As in :class:`HSICRidge`.
    sensitive_map : {"auto", "linear", "one-hot", "rbf"}, default="auto"
        As in :class:`HSICRidge`.
    sensitive_gamma : {"median", "scale"} or float, default="median"
        As in :class:`HSICRidge`.
    n_sensitive_landmarks : int, default=100
        As in :class:`HSICRidge`.
    random_state : int, RandomState or None, default=None
        As in :class:`HSICRidge`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    feature_map_, coef_, intercept_, dependence_ : object, ndarray, float, float
        As in :class:`HSICRidge`.
    """

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """As :meth:`HSICRidge.fit`, for two classes.

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
        X, y, sensitive_features = align_rows(
            X=X, y=y, sensitive_features=sensitive_features
        ).values()
        rows = read_rows(self, X)
        signs, classes = read_two_classes(self, y, len(rows))
        self._fit_target(rows, signs, read_sensitive(self, X, sensitive_features, len(rows)))
        self.classes_ = classes
        return self

    def decision_function(self, X: Any) -> Array:
        """The prediction of the label as -1 or +1; positive means ``classes_[1]``."""
        return self._scores(X)


# --------------------------------------------------------------------------- the problem


def penalised_ridge(cov: Array, cross: Array, C: Array, ridge: float, mu: float) -> Array:
    """``(Sig + ridge I + mu C C')^-1 cross``, exact for every mu.

    By Woodbury on the few columns of C: adding a large ``mu C C'`` to the matrix would round away
    everything else.
    """
    shifted = cov + ridge * np.eye(len(cov))
    factor, _ = cholesky_factor(shifted, "The regularised covariance of HSICRidge")
    plain = scipy.linalg.cho_solve((factor, True), cross)
    if mu == 0.0:
        return np.asarray(plain)
    solved = scipy.linalg.cho_solve((factor, True), C)
    small = C.T @ solved
    small = (small + small.T) / 2.0
    values, vectors = scipy.linalg.eigh(small)
    # (I/mu + C'A^-1 C)^-1; directions of phi that nothing in psi follows have no part in it.
    keep = values > 1e-13 * max(float(values[-1]), 0.0)
    vectors = vectors[:, keep]
    inner = vectors / (1.0 / mu + values[keep]) @ vectors.T
    return np.asarray(plain - solved @ (inner @ (C.T @ plain)))
