"""Rows, coordinates and covariances, by hand: what the claims are computed from."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from tests.golden import oracle
from tests.golden.cases import Case

from fairspan import FairRidge, table_encoder
from fairspan.datasets import load_diabetes

Array = NDArray[np.float64]
ETA = 1e-4  # the paper's


def coordinates(K: Array) -> Array:
    """Rows of psi with ``psi psi' = K``, one column per eigenvalue above rounding."""
    values, vectors = np.linalg.eigh(K)
    keep = values > 10 * len(K) * np.finfo(float).eps * values[-1]
    return np.asarray(vectors[:, keep] * np.sqrt(values[keep]))


def within(s: Array) -> Array:
    """``diag(Gamma_{n_i})``: centring inside every level of s."""
    same = (s[:, None] == s).astype(float)
    return np.asarray(np.eye(len(s)) - same / same.sum(axis=1, keepdims=True))


def whitened(s: Array) -> Array:
    """Level indicators of s, centred and whitened: levels - 1 columns of variance one."""
    codes = (s[:, None] == np.unique(s)).astype(float)
    codes -= codes.mean(axis=0)
    values, vectors = np.linalg.eigh(codes.T @ codes / len(s))
    keep = values > 1e-10 * values[-1]
    return np.asarray(codes @ vectors[:, keep] / np.sqrt(values[keep]))


def centred(values: Array) -> Array:
    """Values less their mean."""
    return np.asarray(values - values.mean(axis=0))


@dataclass(frozen=True)
class Moments:
    """Covariances of centred rows: of psi, with the codes, with y; and the ridge of y."""

    psi: Array
    codes: Array
    y: Array
    ridge: float

    @cached_property
    def cov(self) -> Array:
        """Sigma."""
        return np.asarray(self.psi.T @ self.psi / len(self.psi))

    @cached_property
    def delta(self) -> Array:
        """Delta, D x r."""
        return np.asarray(self.psi.T @ self.codes / len(self.psi))

    @cached_property
    def metric(self) -> Array:
        """``R = Sigma + eta_y I``."""
        return np.asarray(self.cov + self.ridge * np.eye(self.psi.shape[1]))

    @cached_property
    def g(self) -> Array:
        """Kernel ridge regression of y."""
        cross = self.psi.T @ self.y / len(self.y)
        return np.asarray(np.linalg.solve(self.metric, cross))

    def loss(self, w: Array) -> float:
        """Mean squared error plus ``eta_y |f|_H^2``."""
        return float(np.mean((self.y - self.psi @ w) ** 2) + self.ridge * w @ w)

    def correlation(self, w: Array) -> float:
        """Multiple correlation of f_w with the codes."""
        f = self.psi @ w
        return float(np.linalg.norm(self.codes.T @ f) / len(f) / f.std())


@dataclass(frozen=True)
class Pair:
    """g against F in the metric R: ``g = length (cos(theta) u + sin(theta) n)``."""

    u: Array
    n: Array
    theta: float
    length: float

    def at(self, a: float) -> Array:
        """The function of metric length one at the angle a to F."""
        return np.asarray(np.cos(a) * self.u + np.sin(a) * self.n)

    def fitted(self, a: float) -> Array:
        """The same at the length of least loss (the ridge head)."""
        return np.asarray(self.length * np.cos(self.theta - a) * self.at(a))


def pair(g: Array, delta: Array, metric: Array) -> Pair:
    """Fair and removed part of g, for ``F = {w : delta'w = 0}``."""
    lift = np.linalg.solve(metric, delta)
    removed = lift @ np.linalg.solve(delta.T @ lift, delta.T @ g)
    fair = g - removed
    size = [float(np.sqrt(v @ metric @ v)) for v in (fair, removed)]
    angle = float(np.arctan2(size[1], size[0]))
    return Pair(fair / size[0], removed / size[1], angle, float(np.hypot(*size)))


def golden(case: Case, s: Array, ridge: float = ETA) -> Moments:
    """A golden case in coordinates; the codes are those of s."""
    K = oracle.rbf(case.X_train, case.X_train, case.gamma)
    return Moments(centred(coordinates(K)), whitened(s), centred(case.y_train), ridge)


def supremum(cov: Array, delta: Array) -> float:
    """``lambda_max(E'Delta Delta'E, E'Sig E)^(1/2)`` where E'Sig E has variance."""
    values, vectors = np.linalg.eigh(cov)
    keep = values > 1e-12 * values[-1]
    white = vectors[:, keep].T @ delta / np.sqrt(values[keep])[:, None]
    return float(np.linalg.norm(white, 2))


def worst_in(m: Moments, removed: Array) -> float:
    """Largest multiple correlation with the codes over ``{w : removed'w = 0}``."""
    Z = scipy.linalg.null_space(removed.T)
    return supremum(Z.T @ m.cov @ Z, Z.T @ m.delta)


def projector(columns: Array) -> Array:
    """Orthogonal projector on a span."""
    Q = scipy.linalg.orth(columns)
    return np.asarray(Q @ Q.T)


def norm(matrix: Array) -> float:
    """Largest singular value."""
    return float(np.linalg.norm(matrix, 2))


@cache
def diabetes() -> tuple[Array, Array, dict[str, Array]]:
    """Encoded features, disease progression, sex and age."""
    data = load_diabetes()
    X = np.asarray(table_encoder(data.data).fit_transform(data.data), dtype=float)
    S = {name: data.sensitive_features[name].to_numpy() for name in ("sex", "age")}
    return X, np.asarray(data.target, dtype=float), S


@cache
def fitted_ridge() -> tuple[FairRidge, Moments]:
    """FairRidge with sex protected, and its moments from the rows."""
    X, y, S = diabetes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FairRidge(removal="training_rows", random_state=0).fit(
            X, y, sensitive_features=S["sex"]
        )
    psi = centred(model.pilot_.features.coordinates(X))
    codes = whitened(np.unique(S["sex"], return_inverse=True)[1].astype(float))
    return model, Moments(psi, codes, centred(y), float(model.alpha_) / len(y))
