"""Nonconvex fair regression: a bound on the share of the prediction's variance that S explains.

Komiyama, Takeda, Honda and Shimao (2018), "Nonconvex optimization for regression with fairness
constraints", Proceedings of the 35th International Conference on Machine Learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.linalg
from scipy.optimize import brentq
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from fairspan.inputs.columns import align_rows
from fairspan.method.kernels import Kernel
from fairspan.method.linalg import Array, psd_eigh
from fairspan_lab.baselines._common import (
    BaselineRegressor,
    check_choice,
    check_count,
    check_number,
    read_numbers,
    read_rows,
)
from fairspan_lab.baselines._kernels import kernel_scores
from fairspan_lab.baselines._sensitive import SensitiveCoding, align, read_sensitive

__all__ = ["NCFR"]

# Eigenvalues of a covariance below this share of the largest are rounding.
_RANK_EPS = 1e-12
# Residuals that explain less than this share of what S does explain nothing but rounding.
_NOTHING = 1e-10
# A bound on the share below this is zero in floating point.
_SHARE_EPS = 1e-12
# A residual whose variance is below this share of the feature's is rounding: S determines it.
_RESIDUAL_EPS = 1e-20


class NCFR(BaselineRegressor):
    """Least squares with a bound on the share of Var(prediction) that S explains.

    Every feature is regressed on S, which leaves residuals U; the prediction is ``s.a + u.b`` (all
    centred). With covariances Vs, Vu of S and U, and vs, vu of them with y (Komiyama et al. 2018)::

        min_a,b  a'Vs a + b'Vu b - 2 vs'a - 2 vu'b  (+ ridge/n (|a|^2 + |b|^2))
        s.t.     (1 - eta) a'Vs a <= eta b'Vu b

    Solved in closed form, or by one root in one dimension: no solver is needed.

    Limits: **it reads S when it predicts**. The bound is on the total share, so that with ``ridge=0``
    ``|corr(prediction, S_j)| <= sqrt(eta)`` on training rows for each attribute, without a trade
    between them. A ridge leaves part of S in the residuals, which the bound does not see: use a small
    one. ``features="kernel"`` does not remove S even at ``eta=0``: a kernel of linear residuals still
    carries it.

    Parameters
    ----------
    eta : float in [0, 1], default=0.0
        Largest share. 0: residuals alone; 1: no constraint.
    ridge : float, default=1.0
        lambda: of the regression on S, and (over n) of the fit. For ``features="kernel"`` it is added
        to both Gram matrices and must be positive.
    penalty : {"objective", "both"}, default="objective"
        Whether the ridge enters the objective alone (the authors' code) or also Vs and Vu of the
        constraint (R package fairml). ``features="kernel"`` always has it in both.
    features : {"linear", "rff", "kernel"}, default="linear"
        X itself; ``expansion`` times as many random Fourier features of it; or Gaussian kernels
        of the residuals and of S, with all training rows.
    gamma : float, default=0.01
        Width of the kernel ``exp(-gamma |x - z|^2)``, for "rff" (on X) and "kernel" (on the
        standardised residuals and S).
    expansion : int, default=10
        Random features per feature of X, for "rff".
    standardise : {"all", "authors"}, default="all"
        Residuals to bring to unit variance, for "rff": all, or the first ``n_features`` only, as in
        the authors' code.
    random_state : int, RandomState or None, default=None
        Of the random features.

    Attributes
    ----------
    coef_sensitive_ : ndarray
        a, for the standardised columns of S ("kernel": coefficients of the kernel of S).
    coef_residual_ : ndarray
        b, for the standardised residuals ("kernel": coefficients of their kernel).
    intercept_ : float
        Mean of y.
    explained_share_ : float
        Share of the prediction's variance that comes from S on the training rows, as the method counts
        it: residuals are taken to be free of S, which they are for ``ridge=0``. For "kernel" the ratio
        of the two penalised squares that it bounds instead.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan_lab.baselines import NCFR
    >>> rng = np.random.default_rng(0)
    >>> s = rng.normal(size=300)
    >>> X = rng.normal(size=(300, 2)) + s[:, None]
    >>> y = X[:, 0] + s
    >>> model = NCFR(eta=0.04, ridge=0.0).fit(X, y, sensitive_features=s)
    >>> prediction = model.predict(X, sensitive_features=s)
    >>> round(abs(float(np.corrcoef(prediction, s)[0, 1])), 3)
    0.2
    """

    reads_sensitive_at_predict: ClassVar[bool] = True
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def __init__(
        self,
        eta: float = 0.0,
        *,
        ridge: float = 1.0,
        penalty: str = "objective",
        features: str = "linear",
        gamma: float = 0.01,
        expansion: int = 10,
        standardise: str = "all",
        random_state: Any = None,
    ) -> None:
        self.eta = eta
        self.ridge = ridge
        self.penalty = penalty
        self.features = features
        self.gamma = gamma
        self.expansion = expansion
        self.standardise = standardise
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Learn from rows with known protected attributes.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers without gaps.
        y : array-like of shape (n_samples,)
            Numbers.
        sensitive_features : array-like, series or frame
            One or several attributes; numbers enter as they are, text as indicators. They are
            needed again in :meth:`predict`.

        Returns
        -------
        self
        """
        self._check_parameters()
        X, y, sensitive_features = align_rows(
            X=X, y=y, sensitive_features=sensitive_features
        ).values()
        rows = read_rows(self, X)
        target = read_numbers(self, y, len(rows))
        attributes = read_sensitive(self, X, sensitive_features, len(rows))
        coding = SensitiveCoding.learn(attributes, "linear", drop_first=True)
        self._coding = coding
        self._prepare_features(rows)
        S = self._learn_sensitive(coding.columns(attributes))
        U = self._learn_residuals(S, self._expand(rows))
        self.intercept_ = float(target.mean())
        solve = self._fit_kernel if self.features == "kernel" else self._fit_linear
        solve(S, U, target - self.intercept_)
        return self

    def predict(self, X: Any, *, sensitive_features: Any = None) -> Array:
        """Predictions, from features and protected attributes.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows to predict.
        sensitive_features : array-like, series or frame
            Their protected attributes, the same as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        rows = self._read_new(X)
        attributes = read_sensitive(self, X, sensitive_features, len(rows), "predict")
        S = self._sensitive_scale.apply(self._coding.columns(align(attributes, self._coding.names)))
        U = self._residual_scale.apply(self._expand(rows) - S @ self._on_sensitive)
        if self.features != "kernel":
            return np.asarray(self.intercept_ + S @ self.coef_sensitive_ + U @ self.coef_residual_)
        kernel = Kernel("rbf", {"gamma": float(self.gamma)})
        from_s = kernel_scores(kernel, S, self._S_fit, self.coef_sensitive_)
        from_u = kernel_scores(kernel, U, self._U_fit, self.coef_residual_)
        return np.asarray(self.intercept_ + from_s + from_u)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None
    ) -> float:
        """Coefficient of determination of :meth:`predict`, which needs S."""
        check_is_fitted(self)
        prediction = self.predict(X, sensitive_features=sensitive_features)
        return float(r2_score(y, prediction, sample_weight=sample_weight))

    # ------------------------------------------------------------------ inside

    def _check_parameters(self) -> None:
        check_number("eta", self.eta, 0.0, 1.0)
        check_choice("penalty", self.penalty, ("objective", "both"))
        check_choice("features", self.features, ("linear", "rff", "kernel"))
        check_choice("standardise", self.standardise, ("all", "authors"))
        check_number("ridge", self.ridge, open_low=self.features == "kernel")
        check_number("gamma", self.gamma, open_low=True)
        check_count("expansion", self.expansion)

    def _prepare_features(self, rows: Array) -> None:
        self._sampler = None
        if self.features == "rff":
            self._sampler = RBFSampler(
                gamma=float(self.gamma),
                n_components=int(self.expansion) * rows.shape[1],
                random_state=self.random_state,
            ).fit(rows)

    def _expand(self, rows: Array) -> Array:
        if self._sampler is None:
            return rows
        return np.asarray(self._sampler.transform(rows), dtype=np.float64)

    def _learn_sensitive(self, columns: Array) -> Array:
        self._sensitive_scale = _Scale.learn(columns, columns.var(axis=0))
        return self._sensitive_scale.apply(columns)

    def _learn_residuals(self, S: Array, Z: Array) -> Array:
        """Residuals of the ridge regression of the features on S, at unit variance."""
        centre = Z.mean(axis=0)
        values, vectors = psd_eigh(S.T @ S)
        keep = values > _RANK_EPS * values[:1].sum()
        shrunk = vectors[:, keep] / (values[keep] + float(self.ridge))
        self._on_sensitive = shrunk @ (vectors[:, keep].T @ (S.T @ (Z - centre)))
        residuals = Z - S @ self._on_sensitive
        variance = residuals.var(axis=0)
        variance[variance <= _RESIDUAL_EPS * np.maximum(Z.var(axis=0), centre**2)] = 0.0
        if self.features == "rff" and self.standardise == "authors":
            later = variance[self.n_features_in_ :]
            later[later > 0.0] = 1.0  # their loop stops at the number of features of X
        self._residual_scale = _Scale.learn(residuals, variance)
        return self._residual_scale.apply(residuals)

    def _fit_linear(self, S: Array, U: Array, y: Array) -> None:
        n, eta = len(y), float(self.eta)
        s_side = _Side.of(S.T @ S / n, S.T @ y / n)
        u_side = _Side.of(U.T @ U / n, U.T @ y / n)
        solve = _ridge_in_both if self.penalty == "both" else _ridge_in_objective
        a, b = solve(s_side, u_side, eta, float(self.ridge) / n)
        self.coef_sensitive_, self.coef_residual_ = s_side.back(a), u_side.back(b)
        from_s, from_u = s_side.square(a), u_side.square(b)
        self.explained_share_ = _share(from_s, from_u)

    def _fit_kernel(self, S: Array, U: Array, y: Array) -> None:
        """Two kernel ridge regressions, scaled: their squares are ``y'K (K + ridge)^-1 y``."""
        kernel = Kernel("rbf", {"gamma": float(self.gamma)})
        coefs, squares = [], []
        for rows in (S, U):
            gram = kernel(rows, rows)
            shifted = gram + float(self.ridge) * np.eye(len(gram))
            coef = scipy.linalg.solve(shifted, y, assume_a="pos")
            coefs.append(coef)
            squares.append(float(coef @ (gram @ y)))
        scale = _cone(np.sqrt(max(squares[0], 0.0)), np.sqrt(max(squares[1], 0.0)), float(self.eta))
        self.coef_sensitive_, self.coef_residual_ = scale[0] * coefs[0], scale[1] * coefs[1]
        self._S_fit, self._U_fit = S, U
        self.explained_share_ = _share(scale[0] ** 2 * squares[0], scale[1] ** 2 * squares[1])


# --------------------------------------------------------------------------- the problem


@dataclass(frozen=True)
class _Scale:
    """Centre and divide by the standard deviation; columns without variance become zero."""

    centre: Array
    factor: Array

    @classmethod
    def learn(cls, columns: Array, variance: Array) -> _Scale:
        factor = np.divide(1.0, np.sqrt(variance), out=np.zeros_like(variance), where=variance > 0)
        return cls(columns.mean(axis=0), factor)

    def apply(self, columns: Array) -> Array:
        return np.asarray((columns - self.centre) * self.factor)


class _Side(NamedTuple):
    """One half of the problem, ``c'V c - 2 v'c``, in the eigenvectors of V with variance."""

    values: Array
    cross: Array
    vectors: Array

    @classmethod
    def of(cls, V: Array, v: Array) -> _Side:
        values, vectors = psd_eigh(V)
        keep = values > _RANK_EPS * max(float(values[0]), 0.0)
        vectors = vectors[:, keep]
        return cls(values[keep], vectors.T @ v, vectors)

    def solve(self, shift: float, stretch: float = 1.0) -> Array:
        """``(stretch V + shift I)^-1 v``."""
        return np.asarray(self.cross / (stretch * self.values + shift))

    def square(self, coef: Array) -> float:
        """``c'V c``."""
        return float(self.values @ coef**2)

    def back(self, coef: Array) -> Array:
        """From eigenvectors to columns."""
        return np.asarray(self.vectors @ coef)


def _share(from_s: float, from_u: float) -> float:
    total = from_s + from_u
    return from_s / total if total > 0.0 else 0.0


def _cone(na: float, nb: float, eta: float) -> tuple[float, float]:
    """Factors for a and b: the point (na, nb) projected on the cone ``ra <= tau rb``.

    The constraint at its bound scales b *up*: variance without S pays for some with it.
    """
    if na == 0.0 or eta >= 1.0:
        return 1.0, 1.0
    tau = float(np.sqrt(eta / (1.0 - eta)))
    if na <= tau * nb:
        return 1.0, 1.0
    if nb <= _NOTHING * na:
        return 0.0, 1.0  # only a = 0 keeps the bound without blowing up a direction of rounding
    rb = (nb + tau * na) / (1.0 + tau**2)
    return tau * rb / na, rb / nb


def _ridge_in_both(s: _Side, u: _Side, eta: float, ridge: float) -> tuple[Array, Array]:
    """Closed form: two ridge regressions, scaled."""
    a, b = s.solve(ridge), u.solve(ridge)
    scale = _cone(np.sqrt(max(float(a @ s.cross), 0.0)), np.sqrt(max(float(b @ u.cross), 0.0)), eta)
    return scale[0] * a, scale[1] * b


def _ridge_in_objective(s: _Side, u: _Side, eta: float, ridge: float) -> tuple[Array, Array]:
    """Multiplier mu >= 0 of the constraint, by a root search.

    ``a = ((1 + mu (1 - eta)) Vs + ridge I)^-1 vs`` and ``b = ((1 - mu eta) Vu + ridge I)^-1 vu``;
    the excess of the constraint falls with mu up to where the second matrix turns singular.
    """
    if eta <= _SHARE_EPS:
        return np.zeros_like(s.cross), u.solve(ridge)
    if ridge == 0.0 or eta == 1.0:
        return _ridge_in_both(s, u, eta, ridge)

    def at(mu: float) -> tuple[Array, Array]:
        return s.solve(ridge, 1.0 + mu * (1.0 - eta)), u.solve(ridge, 1.0 - mu * eta)

    def excess(mu: float) -> float:
        a, b = at(mu)
        return (1.0 - eta) * s.square(a) - eta * u.square(b)

    if excess(0.0) <= 0.0:
        return at(0.0)
    largest = u.values[0] if len(u.values) else 0.0
    if largest > 0.0:
        end = (1.0 + ridge / largest) / eta * (1.0 - 1e-12)
        if excess(end) < 0.0:
            return at(float(brentq(excess, 0.0, end, xtol=1e-14, rtol=1e-14, maxiter=500)))
    # y does not vary along the first eigenvector of Vu (or with U at all), so no multiplier reaches
    # the bound: shorten a until it does.
    a, b = at(0.0)
    bound = eta / (1.0 - eta) * u.square(b)
    return a * np.sqrt(bound / s.square(a)), b
