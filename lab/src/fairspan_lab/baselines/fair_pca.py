"""Fair principal components: directions of large variance without covariance with S.

Kleindessner, Donini, Russell and Zafar (2023), "Efficient fair PCA for fair representation
learning", Proceedings of the 26th International Conference on Artificial Intelligence and Statistics.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from fairspan.inputs.columns import align_rows
from fairspan.method.linalg import Array, orthonormal_columns, psd_eigh
from fairspan.method.problem import canonical_criterion
from fairspan_lab.baselines._common import (
    BaselineTransformer,
    check_count,
    generator,
    positive_rows,
    read_rows,
    read_two_classes,
    refuse,
)
from fairspan_lab.baselines._kernels import check_landmarks, feature_map, make_kernel
from fairspan_lab.baselines._sensitive import SensitiveCoding, read_sensitive

__all__ = ["FairPCA"]

# A covariance with S below this share of the product of standard deviations is rounding.
_ZERO_COVARIANCE = 1e-12


class FairPCA(BaselineTransformer):
    """Principal components among the directions that have no covariance with S.

    The leading eigenvectors of ``(I - P) Cov(psi) (I - P)``, P the projection on the columns of
    ``N = Cov(psi, S)`` (Kleindessner et al. 2023, the version with equal means); for
    equal opportunity N is taken within the favourable class. Put any head behind it::

        make_pipeline(FairPCA(10), Ridge()).fit(X, y, fairpca__sensitive_features=s)

    A linear head on the components has no covariance with S on the training rows.

    Limits: components are chosen for the variance of X without a look at y, so that what predicts y
    may be left out; its dial is their number, which is no measure of fairness. Only means are
    equal: a nonlinear head can find S again.

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    kernel : str or callable, default="linear"
        "linear" is fair PCA of X itself; any other kernel of :mod:`sklearn.metrics.pairwise` (or
        ``f(X, Z)``, ``f(x, z)``) makes it kernel PCA.
    gamma : {"median", "scale"} or float, default="median"
        Width of the kernel, ``exp(-gamma |x - z|^2)``: one over the squared median distance,
        scikit-learn's rule, or a number.
    kernel_params : dict, default=None
        Further parameters of the kernel.
    criterion : {"statistical_parity", "equal_opportunity"}, default="statistical_parity"
        On which rows covariance with S is removed: all, or those of the favourable class.
    pos_label : label, default=None
        The favourable class; the second in sorted order if None.
    n_landmarks : {"auto", "all"} or int, default="auto"
        Training rows that span the coordinates of a kernel (Nystrom); "auto": all up to 1000.
    random_state : int, RandomState or None, default=None
        Of landmarks.

    Attributes
    ----------
    feature_map_ : LandmarkMap or TransformerMap
        psi.
    components_ : ndarray of shape (n_components, rank)
        Orthonormal directions in coordinates psi (for ``kernel="linear"``: of X).
    mean_ : ndarray of shape (rank,)
        Mean of psi.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of each component.
    n_removed_ : int
        Dimension of the span of N.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan_lab.baselines import FairPCA
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, 200)
    >>> X = rng.normal(size=(200, 4)) + s[:, None]
    >>> Z = FairPCA(2).fit_transform(X, sensitive_features=s)
    >>> bool(np.allclose(Z[s == 0].mean(axis=0), Z[s == 1].mean(axis=0)))
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        kernel: Any = "linear",
        gamma: Any = "median",
        kernel_params: Any = None,
        criterion: str = "statistical_parity",
        pos_label: Any = None,
        n_landmarks: Any = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.criterion = criterion
        self.pos_label = pos_label
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.criterion not in ("statistical_parity", "sp")
        return tags

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Self:
        """Learn the components from rows with known protected attributes.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers without gaps.
        y : array-like of shape (n_samples,), optional
            Two classes; read for equal opportunity only.
        sensitive_features : array-like, series or frame
            One or several attributes: numbers with many values as they are, everything else as
            indicators. Not needed again.

        Returns
        -------
        self
        """
        size = check_count("n_components", self.n_components)
        check_landmarks("n_landmarks", self.n_landmarks)
        criterion = canonical_criterion(self.criterion)
        if criterion not in ("statistical_parity", "equal_opportunity"):
            allowed = "'statistical_parity' or 'equal_opportunity'"
            raise refuse("criterion", self.criterion, allowed)
        X, y, sensitive_features = align_rows(
            X=X, y=y, sensitive_features=sensitive_features
        ).values()
        rows = read_rows(self, X)
        attributes = read_sensitive(self, X, sensitive_features, len(rows))
        S = SensitiveCoding.learn(attributes, "auto").columns(attributes)
        part = np.ones(len(rows), dtype=bool)
        if criterion == "equal_opportunity":
            part = positive_rows(*read_two_classes(self, y, len(rows)), self.pos_label)
        rng = generator(self.random_state)
        kernel = make_kernel(self.kernel, self.gamma, self.kernel_params, rows, rng)
        features = feature_map(kernel, rows, self.n_landmarks, rng)
        psi = features.coordinates(rows)
        mean = psi.mean(axis=0)
        removed = _covariance_basis(psi[part], S[part])
        psi -= mean
        values, vectors = _fair_components(psi.T @ psi / len(psi), removed)
        if size > len(values):
            msg = (
                f"n_components={size}, but only {len(values)} directions without covariance with S "
                f"have variance (n_features={rows.shape[1]}). Give at most {len(values)}, or a kernel "
                f"with more directions."
            )
            raise ValueError(msg)
        self.feature_map_, self.mean_ = features, mean
        self.components_, self.explained_variance_ = vectors[:, :size].T, values[:size]
        self.n_removed_ = removed.shape[1]
        return self

    def transform(self, X: Any) -> Array:
        """Components of new rows; no protected attribute is read."""
        rows = self._read_new(X)
        directions = self.components_.T
        return np.asarray(self.feature_map_.scores(rows, directions) - self.mean_ @ directions)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])


# --------------------------------------------------------------------------- the problem


def _covariance_basis(psi: Array, S: Array) -> Array:
    """Orthonormal basis of the span of ``Cov(psi, S)``; covariances of rounding count as none."""
    psi, S = psi - psi.mean(axis=0), S - S.mean(axis=0)
    spread = S.std(axis=0)
    S = S[:, spread > 0.0] / spread[spread > 0.0]
    N = psi.T @ S / len(psi)
    scale = np.sqrt(float(np.einsum("ij,ij->", psi, psi)) / len(psi))
    return orthonormal_columns(N[:, np.linalg.norm(N, axis=0) > _ZERO_COVARIANCE * scale])


def _fair_components(cov: Array, removed: Array) -> tuple[Array, Array]:
    """Eigenvalues above rounding and eigenvectors of ``(I - P) cov (I - P)``, signs fixed."""
    left = cov - removed @ (removed.T @ cov)
    projected = left - (left @ removed) @ removed.T
    values, vectors = psd_eigh((projected + projected.T) / 2.0)
    keep = values > 1e-12 * max(float(np.trace(cov)), 0.0)
    vectors = vectors[:, keep]
    vectors -= removed @ (removed.T @ vectors)
    largest = np.abs(vectors).argmax(axis=0)
    return values[keep], vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])])
