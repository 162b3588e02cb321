"""K-TOpt: kernel encoders between prediction of y and covariance with S, in closed form.

Sadeghi, Dehdashtian and Boddeti (2022), "On characterizing the trade-off in invariant representation
learning", Transactions on Machine Learning Research.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
from sklearn.utils.multiclass import type_of_target

from fairspan.inputs.columns import align_rows
from fairspan.method.linalg import Array, cholesky_factor
from fairspan.method.problem import Attribute
from fairspan_lab.baselines._common import (
    BaselineTransformer,
    check_choice,
    check_count,
    check_number,
    generator,
    read_column,
    read_numbers,
    read_rows,
)
from fairspan_lab.baselines._kernels import check_landmarks, feature_map, make_kernel
from fairspan_lab.baselines._penalty import whitened_codes
from fairspan_lab.baselines._sensitive import read_sensitive

__all__ = ["KTOpt"]

# Share of the largest eigenvalue below which one is rounding.
_ZERO = 1e-10


class KTOpt(BaselineTransformer):
    """Components that predict y and have little covariance with S (Sadeghi et al. 2022).

    ``Z = U'psi``, U the eigenvectors with positive eigenvalues of::

        [(1 - tau) Cov(psi, y) Cov(psi, y)' - tau Cov(psi, s) Cov(psi, s)'] u
            = lambda (Cov(psi) + ridge I) u

    with psi the centred coordinates of a kernel, and whitened codes of y and s. Put any head behind it::

        make_pipeline(KTOpt(0.5), Ridge()).fit(X, y, ktopt__sensitive_features=s)

    ``tau=0`` gives the kernel canonical directions of y. Near 1 no component has covariance with S.

    Limits: at most as many components as y has codes: one for numbers and for two classes. Only
    covariances with the codes are small: a nonlinear head can find S again. They are those of the training
    rows, and of all rows: statistical parity only.

    Parameters
    ----------
    tau : float, default=0.5
        Weight of the covariance with S, from 0 to below 1; its dial.
    n_components : int, default=None
        Most components; all with positive eigenvalues if None.
    target : {"auto", "categorical", "continuous"}, default="auto"
        Codes of y: indicators of its values, or its numbers; "auto": numbers unless they are classes.
    ridge : float, default=1e-3
        Added to the variances of the coordinates.
    kernel : str or callable, default="rbf"
        Name of a kernel of :mod:`sklearn.metrics.pairwise`, or ``f(X, Z)`` or ``f(x, z)``.
    gamma : {"median", "scale"} or float, default="median"
        Width of the kernel, ``exp(-gamma |x - z|^2)``: one over the squared median distance,
        scikit-learn's rule, or a number.
    kernel_params : dict, default=None
        Further parameters of the kernel.
    n_landmarks : {"auto", "all"} or int, default="auto"
        Training rows that span the coordinates (Nystrom); "auto": all up to 1000.
    random_state : int, RandomState or None, default=None
        Of landmarks.

    Attributes
    ----------
    feature_map_ : LandmarkMap or TransformerMap
        psi.
    mean_ : ndarray of shape (rank,)
        Mean of psi.
    components_ : ndarray of shape (n_components, rank)
        U'.
    eigenvalues_ : ndarray of shape (n_components,)
        lambda, the largest first.
    """

    def __init__(
        self,
        tau: float = 0.5,
        *,
        n_components: int | None = None,
        target: str = "auto",
        ridge: float = 1e-3,
        kernel: Any = "rbf",
        gamma: Any = "median",
        kernel_params: Any = None,
        n_landmarks: Any = "auto",
        random_state: Any = None,
    ) -> None:
        self.tau = tau
        self.n_components = n_components
        self.target = target
        self.ridge = ridge
        self.kernel = kernel
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Learn the components from rows with known protected attributes.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers without gaps.
        y : array-like of shape (n_samples,)
            Classes or numbers.
        sensitive_features : array-like, series or frame
            One or several attributes: numbers with many values as they are, everything else as
            indicators. Not needed again.

        Returns
        -------
        self
        """
        tau = check_number("tau", self.tau, 0.0, 1.0)
        if tau == 1.0:
            msg = (
                "tau=1.0 is not allowed; give a number from 0 to below 1: at 1 nothing predicts y."
            )
            raise ValueError(msg)
        ridge = check_number("ridge", self.ridge, open_low=True)
        most = None
        if self.n_components is not None:
            most = check_count("n_components", self.n_components)
        check_choice("target", self.target, ("auto", "categorical", "continuous"))
        check_landmarks("n_landmarks", self.n_landmarks)
        X, y, sensitive_features = align_rows(
            X=X, y=y, sensitive_features=sensitive_features
        ).values()
        rows = read_rows(self, X)
        codes_y = self._target_codes(y, len(rows))
        attributes = read_sensitive(self, X, sensitive_features, len(rows))
        rng = generator(self.random_state)
        kernel = make_kernel(self.kernel, self.gamma, self.kernel_params, rows, rng)
        features = feature_map(kernel, rows, self.n_landmarks, rng)
        psi = features.coordinates(rows)
        mean = psi.mean(axis=0)
        psi -= mean
        n = len(rows)
        codes_s = whitened_codes(attributes, "statistical_parity")
        values, vectors = trade_off(
            psi.T @ psi / n, psi.T @ codes_y / n, psi.T @ codes_s / n, tau, ridge
        )
        if not len(values):
            msg = (
                "No direction of X has covariance with y beyond rounding, or none is left at this tau. "
                "Give a smaller tau."
            )
            raise ValueError(msg)
        self.feature_map_, self.mean_ = features, mean
        self.components_, self.eigenvalues_ = vectors[:, :most].T, values[:most]
        return self

    def _target_codes(self, y: Any, n: int) -> Array:
        """Whitened codes of y."""
        values = read_column(self, y, n)
        kind = self.target
        if kind == "auto":
            kind = "continuous" if type_of_target(values) == "continuous" else "categorical"
        if kind == "continuous":
            values = read_numbers(self, y, n)
            spread = values.std()
            if not spread > 0.0:
                msg = "y has one value only: there is nothing to predict."
                raise ValueError(msg)
            return np.asarray((values - values.mean())[:, None] / spread)
        labels, codes = np.unique(values, return_inverse=True)
        if len(labels) < 2:
            msg = f"y holds one class only, {labels.tolist()}: there is nothing to predict."
            raise ValueError(msg)
        text = codes.astype(str)
        column = Attribute(name="y", values=text, missing=np.zeros(n, dtype=bool), dtype_kind="U")
        return whitened_codes({"y": column}, "statistical_parity")

    def transform(self, X: Any) -> Array:
        """Components of new rows; no protected attribute is read."""
        rows = self._read_new(X)
        directions = self.components_.T
        return np.asarray(self.feature_map_.scores(rows, directions) - self.mean_ @ directions)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])


# --------------------------------------------------------------------------- the problem


def trade_off(cov: Array, Ny: Array, Ns: Array, tau: float, ridge: float) -> tuple[Array, Array]:
    """Positive eigenvalues, and eigenvectors u with ``u'(cov + ridge I)u = 1``, signs fixed.

    The matrix has the few columns of Ny and Ns as its range, so the problem is solved in their span.
    """
    factor, _ = cholesky_factor(
        cov + ridge * np.eye(len(cov)), "The regularised covariance of KTOpt"
    )
    W = np.column_stack([np.sqrt(1.0 - tau) * Ny, np.sqrt(tau) * Ns])
    signs = np.concatenate([np.ones(Ny.shape[1]), -np.ones(Ns.shape[1])])
    basis, R = scipy.linalg.qr(
        scipy.linalg.solve_triangular(factor, W, lower=True), mode="economic"
    )
    small = (R * signs) @ R.T
    values, vectors = np.linalg.eigh((small + small.T) / 2.0)
    keep = np.flatnonzero(values > _ZERO * max(np.abs(values).max(), 1e-300))[::-1]
    U = scipy.linalg.solve_triangular(factor, basis @ vectors[:, keep], lower=True, trans="T")
    if not len(keep):
        return values[keep], U
    largest = np.abs(U).argmax(axis=0)
    return values[keep], U * np.sign(U[largest, np.arange(U.shape[1])])
