"""The Gaussian process without any fairness, with an explicit mean: the other end of every trade.

Rasmussen and Williams (2006), "Gaussian Processes for Machine Learning", section 2.7 (explicit
basis functions) and 5.4 (marginal likelihood).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, overload

import numpy as np
import scipy.linalg
from scipy.linalg import lapack
from scipy.optimize import minimize

from fairspan.inputs.columns import align_rows
from fairspan.method.kernels import median_distance
from fairspan.method.linalg import Array
from fairspan_lab.baselines._common import (
    Baseline,
    BaselineClassifier,
    BaselineRegressor,
    check_choice,
    check_count,
    generator,
    read_numbers,
    read_rows,
    read_two_classes,
)

__all__ = ["StandardGP", "StandardGPClassifier"]

_MEANS = ("linear", "constant", "zero")
_MEDIAN_ROWS = 1000
_BLOCK_ROWS = 2048
# Length scales from 1/1000 to 1000 median distances; signal to noise variance from 1e-8 to 1e8.
_LOG_LENGTH, _LOG_RATIO = np.log(1e3), np.log(1e8)
# y may be fitted to rounding: the noise stays above this share of its variance.
_NOISE_FLOOR = 1e-12


class _GPModel(Baseline):
    """Parameters and fit of the regressor and the classifier."""

    _process: Process

    def __init__(
        self,
        mean: str = "linear",
        *,
        n_restarts: int = 2,
        max_hyper_rows: int | None = 2000,
        random_state: Any = None,
    ) -> None:
        self.mean = mean
        self.n_restarts = n_restarts
        self.max_hyper_rows = max_hyper_rows
        self.random_state = random_state

    def _fit_process(self, rows: Array, y: Array) -> None:
        check_choice("mean", self.mean, _MEANS)
        restarts = check_count("n_restarts", self.n_restarts, 0)
        size = len(rows)
        if self.max_hyper_rows is not None:
            size = min(size, check_count("max_hyper_rows", self.max_hyper_rows, 2))
        rng = generator(self.random_state)
        basis = Basis.learn(self.mean, rows)
        subset = np.sort(rng.permutation(len(rows))[:size]) if size < len(rows) else slice(None)
        hyper, value = learn_hyper(rows[subset], y[subset], basis, restarts, rng)
        self._process = Process.condition(rows, y, basis, hyper)
        self.length_scale_ = hyper.length
        self.signal_variance_, self.noise_ = hyper.ratio * hyper.noise, hyper.noise
        self.intercept_, self.coef_ = basis.original(self._process.beta, rows.shape[1])
        self.log_marginal_likelihood_value_, self.n_hyper_rows_ = value, size


class StandardGP(BaselineRegressor, _GPModel):
    """Gaussian process regression with a linear mean and one length scale.

    ``y = h(x).b + f(x) + e`` with ``f ~ GP(0, sf^2 exp(-|x - z|^2 / (2 l^2)))`` and noise of variance
    sn^2. b is the generalised least squares estimate inside the likelihood (Rasmussen and Williams
    2006, section 2.7); l and sf/sn maximise the marginal likelihood by L-BFGS with its gradient ((5.8)
    and (5.9)), sn has a closed form.

    Limits: there is no fairness constraint, and leaving S out of X does not make the model fair. O(n^3).
    Standardise X first: there is one length scale. The likelihood has several optima.

    Parameters
    ----------
    mean : {"linear", "constant", "zero"}, default="linear"
        h(x): (1, x), 1, or nothing.
    n_restarts : int, default=2
        Random starts besides ``l = `` median distance, ``sf = sn``.
    max_hyper_rows : int or None, default=2000
        Above so many rows the hyper-parameters are learnt on a random subset of this size, b and
        the prediction still on all. None: never.
    random_state : int, RandomState or None, default=None
        Of the starts and of the subset.

    Attributes
    ----------
    length_scale_ : float
        l.
    signal_variance_, noise_ : float
        sf^2 and sn^2.
    intercept_, coef_ : float and ndarray of shape (n_features,)
        The mean function ``intercept_ + x.coef_`` (0 where ``mean`` has no such part).
    log_marginal_likelihood_value_ : float
        On the rows that the hyper-parameters were learnt on, ``n_hyper_rows_`` of them.
    n_hyper_rows_ : int
        Their number.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan_lab.baselines import StandardGP
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(150, 1))
    >>> y = 3 * X[:, 0] + np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=150)
    >>> model = StandardGP(random_state=0).fit(X, y)
    >>> mean, std = model.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - 1.5 - np.sin(1.5)) < 0.1), round(float(model.noise_**0.5), 1)
    (True, 0.1)
    """

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:  # noqa: ARG002
        """Learn the hyper-parameters, then condition on all rows.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers without gaps, best standardised.
        y : array-like of shape (n_samples,)
            Numbers.
        sensitive_features
            Not read: taken so that the model can stand where a fair one does.

        Returns
        -------
        self
        """
        X, y = align_rows(X=X, y=y).values()
        rows = read_rows(self, X)
        self._fit_process(rows, read_numbers(self, y, len(rows)))
        return self

    @overload
    def predict(self, X: Any, return_std: Literal[False] = ...) -> Array: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[Array, Array]: ...
    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predictive mean, and on request its standard deviation (noise included)."""
        rows = self._read_new(X)
        if return_std:
            return self._process.predict_std(rows)
        return self._process.predict(rows)


class StandardGPClassifier(BaselineClassifier, _GPModel):
    """The standard Gaussian process on labels -1 and +1; the sign decides.

    Least squares classification as in the fair Gaussian process paper, so that scores of both can
    be compared; not a model of probabilities.

    Limits: those of :class:`StandardGP`; two classes.

    Parameters
    ----------
    mean : {"linear", "constant", "zero"}, default="linear"
        As in :class:`StandardGP`.
    n_restarts : int, default=2
        As in :class:`StandardGP`.
    max_hyper_rows : int or None, default=2000
        As in :class:`StandardGP`.
    random_state : int, RandomState or None, default=None
        As in :class:`StandardGP`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    length_scale_, signal_variance_, noise_, intercept_, coef_ : float or ndarray
        As in :class:`StandardGP`.
    log_marginal_likelihood_value_, n_hyper_rows_ : float and int
        As in :class:`StandardGP`.
    """

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:  # noqa: ARG002
        """As :meth:`StandardGP.fit`, for two classes.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers without gaps, best standardised.
        y : array-like of shape (n_samples,)
            Two classes.
        sensitive_features
            Not read: taken so that the model can stand where a fair one does.

        Returns
        -------
        self
        """
        X, y = align_rows(X=X, y=y).values()
        rows = read_rows(self, X)
        signs, self.classes_ = read_two_classes(self, y, len(rows))
        self._fit_process(rows, signs)
        return self

    def decision_function(self, X: Any) -> Array:
        """Predictive mean of the label as -1 or +1; positive means ``classes_[1]``."""
        rows = self._read_new(X)
        return self._process.predict(rows)


# --------------------------------------------------------------------------- the model


class Hyper(NamedTuple):
    """Length scale, ``sf^2 / sn^2``, and ``sn^2``."""

    length: float
    ratio: float
    noise: float


@dataclass(frozen=True)
class Basis:
    """h(x) with standardised features, so that generalised least squares is well conditioned."""

    mean: str
    centre: Array
    scale: Array

    @classmethod
    def learn(cls, mean: str, X: Array) -> Basis:
        """Centre and scale of the training rows."""
        deviation = X.std(axis=0)
        scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0.0)
        return cls(mean, X.mean(axis=0), scale)

    def __call__(self, X: Array) -> Array:
        """H, one row per row of X."""
        one = np.ones((len(X), int(self.mean != "zero")))
        if self.mean != "linear":
            return one
        return np.concatenate([one, (X - self.centre) * self.scale], axis=1)

    def original(self, beta: Array, n_features: int) -> tuple[float, Array]:
        """Intercept and slopes for the features as given."""
        if self.mean != "linear":
            return float(beta.sum()), np.zeros(n_features)
        slopes = beta[1:] * self.scale
        return float(beta[0] - slopes @ self.centre), slopes


def _squared_distances(X: Array, Z: Array) -> Array:
    origin = Z.mean(axis=0)
    X, Z = X - origin, Z - origin
    out = np.einsum("ij,ij->i", X, X)[:, None] + np.einsum("ij,ij->i", Z, Z)
    out -= 2.0 * X @ Z.T
    return np.asarray(np.maximum(out, 0.0, out=out))


def _whiten(factor: Array, columns: Array) -> Array:
    return np.asarray(
        scipy.linalg.solve_triangular(factor, columns, lower=True, check_finite=False)
    )


def _generalised_least_squares(factor: Array, H: Array, y: Array) -> tuple[Array, Array]:
    """b, and the whitened residual ``L^-1 (y - H b)``."""
    white_y = _whiten(factor, y)
    if H.shape[1] == 0:
        return np.zeros(0), white_y
    white_H = _whiten(factor, H)
    beta = scipy.linalg.lstsq(white_H, white_y, cond=1e-12, check_finite=False)[0]
    return np.asarray(beta), np.asarray(white_y - white_H @ beta)


def profile_likelihood(
    theta: Array, distances: Array, H: Array, y: Array, floor: float
) -> tuple[float, Array, float]:
    """Minus the log marginal likelihood at ``(log l, log sf^2/sn^2)``, its gradient, and sn^2.

    With ``A = ratio E + I`` and ``r = y - H b``: ``sn^2 = r'A^-1 r / n``, and the value is
    ``(n log(2 pi e sn^2) + log|A|) / 2``. Derivatives go through A alone, b and sn^2 being optimal
    (Rasmussen and Williams (5.9) with ``alpha = A^-1 r``).
    """
    n, length, ratio = len(y), float(np.exp(theta[0])), float(np.exp(theta[1]))
    E = np.exp(distances * (-0.5 / length**2))
    A = ratio * E
    A.flat[:: n + 1] += 1.0
    factor = scipy.linalg.cholesky(A, lower=True, check_finite=False)
    _, white = _generalised_least_squares(factor, H, y)
    square = float(white @ white)
    noise = max(square / n, floor)
    log_det = 2.0 * float(np.log(np.diag(factor)).sum())
    value = 0.5 * (n * np.log(2.0 * np.pi * noise) + square / noise + log_det)
    alpha = scipy.linalg.solve_triangular(factor, white, lower=True, trans="T", check_finite=False)
    inverse, _ = lapack.dpotri(factor, lower=1)  # its lower triangle
    E *= ratio
    by_ratio = _slope(alpha, noise, inverse, E)
    E *= distances
    by_length = _slope(alpha, noise, inverse, E) / length**2
    return value, np.array([by_length, by_ratio]), noise


def _slope(alpha: Array, noise: float, inverse: Array, dA: Array) -> float:
    """``tr((A^-1 - alpha alpha'/noise) dA) / 2`` for symmetric dA, from a lower triangle of A^-1."""
    lower = np.tril(inverse)
    trace = 2.0 * float(np.vdot(lower, dA)) - float(np.diag(inverse) @ np.diag(dA))
    return 0.5 * (trace - float(alpha @ dA @ alpha) / noise)


def learn_hyper(
    X: Array, y: Array, basis: Basis, n_restarts: int, rng: np.random.Generator
) -> tuple[Hyper, float]:
    """Hyper-parameters of the largest marginal likelihood over all starts, and its value."""
    distances, H = _squared_distances(X, X), basis(X)
    floor = max(_NOISE_FLOOR * float(y.var()), 1e-24 * max(float(np.mean(y**2)), 1e-200))
    rows = X if len(X) <= _MEDIAN_ROWS else X[rng.permutation(len(X))[:_MEDIAN_ROWS]]
    centre = np.array([np.log(median_distance(rows, "rbf")), 0.0])
    bounds = [(centre[0] - _LOG_LENGTH, centre[0] + _LOG_LENGTH), (-_LOG_RATIO, _LOG_RATIO)]

    def objective(theta: Array) -> tuple[float, Array]:
        value, gradient, _ = profile_likelihood(theta, distances, H, y, floor)
        return value, gradient

    best, smallest = centre, np.inf
    # Further optima lie at short length scales, where only near duplicates are related.
    others = centre + rng.uniform([-3.0, -2.0], [1.0, 2.0], size=(n_restarts, 2))
    for start in [centre, *others]:
        found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds)
        if found.fun < smallest:
            best, smallest = found.x, float(found.fun)
    noise = profile_likelihood(best, distances, H, y, floor)[2]
    return Hyper(float(np.exp(best[0])), float(np.exp(best[1])), noise), -smallest


@dataclass(frozen=True)
class Process:
    """The posterior: ``h(x).b + ratio e(x)'A^-1 (y - H b)``."""

    X: Array
    basis: Basis
    hyper: Hyper
    beta: Array
    alpha: Array
    factor: Array

    @classmethod
    def condition(cls, X: Array, y: Array, basis: Basis, hyper: Hyper) -> Process:
        """The posterior given all rows."""
        A = hyper.ratio * np.exp(_squared_distances(X, X) * (-0.5 / hyper.length**2))
        A.flat[:: len(X) + 1] += 1.0
        factor = scipy.linalg.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
        beta, white = _generalised_least_squares(factor, basis(X), y)
        alpha = scipy.linalg.solve_triangular(factor, white, lower=True, trans="T")
        return cls(X, basis, hyper, beta, alpha, factor)

    def _cross(self, X: Array) -> Array:
        distances = _squared_distances(X, self.X)
        return np.asarray(self.hyper.ratio * np.exp(distances * (-0.5 / self.hyper.length**2)))

    def predict(self, X: Array) -> Array:
        """Predictive mean, block by block."""
        out = self.basis(X) @ self.beta
        for start in range(0, len(X), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            out[block] += self._cross(X[block]) @ self.alpha
        return np.asarray(out)

    def predict_std(self, X: Array) -> tuple[Array, Array]:
        """Mean and standard deviation, with noise and with the uncertainty of b (section 2.7)."""
        white_H = _whiten(self.factor, self.basis(self.X))
        precision = np.linalg.pinv(white_H.T @ white_H, hermitian=True)
        variance = np.empty(len(X))
        for start in range(0, len(X), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            white_k = _whiten(self.factor, self._cross(X[block]).T)
            known = np.einsum("ij,ij->j", white_k, white_k)
            R = self.basis(X[block]) - white_k.T @ white_H
            unsure = np.einsum("ij,jk,ik->i", R, precision, R)
            variance[block] = np.maximum(self.hyper.ratio - known, 0.0) + unsure + 1.0
        return self.predict(X), np.sqrt(self.hyper.noise * variance)
