"""FairRepresentation: scores that carry no information about S, as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.state import FittedState
from fairspan.inputs.config import document_parameters
from fairspan.method.fair_prior import FairComponents
from fairspan.method.linalg import Array
from fairspan.method.spaces import Head, LineHead, Space


@document_parameters
class FairRepresentation(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FairKernelEstimator):
    """Fair representation for kernel models.

    Learns, by sufficient dimension reduction in a reproducing kernel Hilbert space, the subspace F
    of functions that the protected attributes S do not shift (equal group means; for a continuous S a
    flat regression on it), the subspace G that predicts y, and a model space between the two:
    ``fairness=0`` is G, ``fairness=1`` lies in F [1]_. Under the paper's assumptions (SDR holds,
    scores jointly normal with S) no shift means no information.
    ``transform`` gives the model space's d functions; any *linear* model on them is as fair as
    ``certificate_`` says. Prediction never needs S.

    Parameters
    ----------
    ...

    Attributes
    ----------
    certificate_ : Certificate
        What is expected on new rows, and what holds exactly on the training rows, for every cell and
        attribute.
    fairness_ : float
        Fairness on the scale of the removal: the share of the expected dependence that is gone, or with
        ``removal="training_rows"`` the share of the angle that is closed.
    score_coef_, score_intercept_ : ndarray
        Ridge head on the scores, the predictor of y that ``certificate_.score`` is about.
    cosines_, angles_ : ndarray of shape (d,)
        Principal cosines (the paper's sigma) and angles between F and G; if dependence is removed on new
        rows, d times the one angle between the ends of the dial, out of fold.
    n_directions_ : dict
        Number of directions that are removed whole, by cell and attribute.
    n_removed_ : int
        Dimension of the removed space; on new rows, the number of directions removed whole.
    blocks_ : tuple of BlockReport
        Per cell and attribute: rows, ridge, eigenvalues, p-values of the number of directions.
    sensitive_kinds_ : dict
        Kind of each attribute.
    target_kind_ : {"classes", "numeric", None}
        How y was read.
    classes_ : ndarray
        Labels, when y holds classes.
    cells_ : list of str
        Cells of the criterion.
    gamma_, alpha_ : float
        Kernel width and ridge used.
    landmarks_ : ndarray or None
        Landmarks of the feature map.
    n_components_ : int
        Rank of the feature map after its cut.
    dropped_mass_ : float
        Share of the landmarks' kernel trace cut off.
    approximation_residual_ : dict
        Mean share of each group that the landmarks cannot see, by attribute and level.
    pilot_, moments_
        What was frozen before the pass, and what the pass gathered.
    encoder_ : transformer
        What :meth:`fit` or :meth:`fit_stream` turned a table into numbers with, if it did.
    n_samples_seen_ : int
        Rows of :meth:`fit_stream`, and of what came after.
    smallest_eigenvalue_ : float
        Of the covariance, as a share of the largest, after a pass on a torch device: how far rounding
        took it below zero.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Cost: one pass of O(n D (p + D)) over the rows and O(D^3) to solve; ``at`` costs O(d^3) (O(D^3) for
    ``subspace="fair"``, some fifty times that on its correlation dial). Memory
    O(cells * folds * D^2), never n x n. Sample weights count as copies in every moment; the
    automatic choices use effective sizes, so exact equivalence holds with fixed ``eta``, ``alpha``,
    ``gamma`` and landmarks.

    References
    ----------
    .. [1] Z. Tan, S. Yeom, M. Fredrikson, A. Talwalkar. Learning Fair Representations for Kernel
       Models. AISTATS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairRepresentation
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, 300)
    >>> X = rng.normal(size=(300, 3)) + s[:, None] * [1.0, 0.5, 0.0]
    >>> y = X[:, 0] + X[:, 2] ** 2 + 0.1 * rng.normal(size=300)
    >>> rep = FairRepresentation(random_state=0).fit(X, y, sensitive_features=s)
    >>> bool(rep.certificate_.new_rows.correlation < 1e-8)  # expected on new rows
    True
    >>> rep.at(0.5).transform(X).shape
    (300, 1)
    """

    @classmethod
    def paper(
        cls,
        bandwidth: Any,
        n_sensitive: Any = 1,
        n_predictive: Any = 1,
        epsilon: Any = 1.0,
        criterion: Any = "statistical_parity",
        eta: Any = 1e-4,
        **params: Any,
    ) -> Self:
        """Algorithms 1 and 2 of the paper, with its parameters: for reproduction only.

        Kernel ``exp(-|x-z|^2 / bandwidth^2)`` on all rows, one slice per distinct value, the m largest
        eigenvalues per attribute, covariance over all rows, the cosine dial, least squares.
        """
        return cls(
            gamma=1.0 / bandwidth**2,
            n_components="all",
            n_slices="distinct",
            n_sensitive_directions=n_sensitive,
            n_predictive_directions=n_predictive,
            fairness=epsilon,
            dial="cosine",
            criterion=criterion,
            eta=eta,
            method="paper",
            **params,
        )

    def _space(
        self, state: FittedState, head: Head | None = None, line_head: LineHead | None = None
    ) -> Space:
        if state.config.subspace == "fair":
            return FairComponents(state.solved, state.config)
        return super()._space(state, head, line_head)

    def transform(self, X: Any) -> Array:
        """Scores of new rows on the model space (or the fair components).

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, d)
            Centred on the training rows. No protected attribute is read.
        """
        return self._scores(self._read_new(X))

    def kernel_(self, X: Any, Z: Any = None) -> Array:
        """The fair kernel, for any kernel machine: ``SVC(kernel=rep.kernel_)``.

        ``subspace="model"``: the reproducing kernel ``Pi(x)'(E'E)^-1 Pi(z)`` of the model space.
        ``subspace="fair"``: that of all of F, ``(psi(x)-mu)'P(psi(z)-mu)`` with the RKHS-orthogonal
        projector at ``fairness=1`` (the metric projector is not symmetric, and not fair here).
        The trailing underscore tells it from the parameter ``kernel``, as in scikit-learn's GPs.

        Parameters
        ----------
        X, Z : array-like of shape (n, n_features) and (m, n_features)
            Z is X if not given.

        Returns
        -------
        ndarray of shape (n, m)
        """
        left = self._kernel_features(self._read_new(X))
        right = left if Z is None else self._kernel_features(self._read_new(Z))
        return left @ right.T

    def _kernel_features(self, X: Array) -> Array:
        """Coordinates whose plain inner product is the fair kernel."""
        if self._config.subspace == "model":
            E = self._position.directions
            factor = scipy.linalg.cholesky(E.T @ E, lower=True) if E.shape[1] else np.zeros((0, 0))
            whitened = scipy.linalg.solve_triangular(factor, self._scores(X).T, lower=True)
            return np.asarray(whitened.T)
        psi = self._coordinates(X)
        space = self._position.fair_space
        assert space is not None
        return psi - (psi @ space.removed) @ space.half @ space.removed.T

    def deviation_bound(self, X: Any) -> Array:
        """How far any function of the model space can be from its fair projection, row by row.

        For h in the model space with metric norm 1 (``|h|_R``):
        ``|h(x) - (P_F h)(x)| <= max|sin a_i| sqrt((psi-mu)'R^-1(psi-mu))`` . The paper's own
        inequality is vacuous whenever the model space has fewer dimensions than F.
        """
        psi = self._coordinates(self._read_new(X))
        if self._config.correlation_metric:
            self._need_moments("deviation_bound")
            pooled = self.moments_.pool()
            cov = pooled.cov
            basis = self.pilot_.features.pending
            if basis is not None:
                cov = basis.T @ cov @ basis
            cov.flat[:: len(cov) + 1] += self._solution.eta_y
            factor = scipy.linalg.cholesky(cov, lower=True, check_finite=False)
            psi = scipy.linalg.solve_triangular(factor, psi.T, lower=True, check_finite=False).T
        lengths = np.sqrt(np.einsum("ij,ij->i", psi, psi))
        return np.asarray(self.certificate_.containment_gap * lengths)
