"""FairRepresentation: scores that carry no information about S, as a scikit-learn transformer."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.linalg
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from fairspan.estimators.base import FairKernelEstimator
from fairspan.inputs.config import canonical_criterion
from fairspan.method.linalg import Array
from fairspan.method.spaces import Position, locate_fair


class FairRepresentation(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FairKernelEstimator):
    """Fair representation for kernel models.

    Learns, by sufficient dimension reduction in a reproducing kernel Hilbert space, the subspace F
    of functions that the protected attributes S do not shift (equal group means; for a continuous S a
    flat regression on it), the subspace G that predicts y, and a model space between the two:
    ``fairness=0`` is G, ``fairness=1`` lies in F [1]_. Under the paper's assumptions (SDR holds,
    scores jointly normal with S) no shift means no information.
    ``transform`` gives the model space's d functions; any *linear* model on them is as fair, in
    sample, as ``certificate_`` says. Prediction never needs S.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        "rbf", "laplacian", "polynomial", "linear", any scikit-learn pairwise kernel name,
        "precomputed", or a callable (two matrices -> Gram matrix, or two rows -> number).
    gamma : {"cv", "median", "scale"} or float, default="cv"
        Kernel width. "cv" picks 1/(m median)^2 by 5-fold error over m in (0.7, 1.5, 3) on a
        subsample; "median" uses m = 1.5 (also when y is not given).
    kernel_params : dict, optional
        Further parameters of the kernel (degree, coef0, ...).
    feature_map : transformer, optional
        Coordinates of your own instead of a kernel: random features, tree embeddings, a network's
        last layer. Cloned and fitted on X (and y).
    n_components : "auto", "all" or int, default="auto"
        Number of landmarks. "auto": all distinct rows (the exact method) up to 1000 rows, 1000
        landmarks beyond. "all": exact at any size, O(n^3).
    landmarks : {"stratified", "rpcholesky"} or array, default="stratified"
        How landmarks are chosen: an equal quota for every combination of S and y, randomly pivoted
        Cholesky, or rows of your own.
    criterion : str, default="statistical_parity"
        "statistical_parity" ("demographic_parity", "sp", "proxy_nondiscrimination"),
        "equalized_odds" ("eo"), "equal_opportunity" ("eop", "true_positive_rate_parity"),
        "conditional_statistical_parity".
    fairness : float in [0, 1] or dict, default=1.0
        The dial; larger is fairer. A dict, on ``dial="correlation"`` only, has one for each attribute it
        names: see :meth:`at`.
    dial : {"angle", "cosine", "correlation"}, default="angle"
        Scale of ``fairness``: share of the angle to F that is closed; the paper's epsilon; or
        1 - the largest in-sample correlation allowed.
    sensitive_kind : str, list or dict, default="auto"
        "categorical" or "continuous", for all or per attribute. Auto: booleans, text, two values
        and integers with at most 20 values are categorical, the rest continuous.
    dependence : {"mean", "correlation"}, default="mean"
        For a continuous S: remove E[f | S] on quantile slices, or only the linear correlation.
    n_slices : int or "distinct", default=10
        Quantile slices of a continuous S and of a numeric y; "distinct" is one per value.
    intersectional : bool, default=False
        Constrain the crossed categories as one attribute instead of each attribute by itself.
    pos_label : label, optional
        Positive class for equal opportunity; the larger of two labels by default.
    n_sensitive_directions : {"auto", "test", "all"} or int, default="auto"
        Directions removed per attribute and cell. "auto": all for categories, a sequential test for
        slices (at least one).
    n_predictive_directions : {"auto", "test"} or int, default="auto"
        "auto": the ridge direction for a numeric y, all K - 1 for classes. An integer asks for that
        many sliced-inverse-regression directions, with the ridge direction appended. With
        ``subspace="fair"`` it is the number of components.
    eta : "auto" or float, default="auto"
        Ridge of the regressions of S (covariance units); "auto" is generalised cross-validation.
    alpha : "auto" or float, default="auto"
        Ridge of the prediction of y, in the units of scikit-learn's ``Ridge``; "auto" is 5-fold.
    subspace : {"model", "fair"}, default="model"
        "model": the d functions of the model space. "fair": the leading principal components of all
        of F, as many as carry 99 % of its variance (or ``n_predictive_directions`` of them). Every
        *linear* model on them has zero in-sample covariance with the codes of S at
        ``fairness=1``; nonlinear models on them may recover S. Then y is optional for statistical
        parity (with ``gamma="cv"`` replaced by "median").
    method : {"optimal", "rkhs", "paper"}, default="optimal"
        "optimal": exact removal, distance between predictions. "rkhs": exact removal, distance in
        the RKHS. "paper": Algorithms 1 and 2 as printed, for reproduction.
    missing_sensitive : {"raise", "omit"}, default="raise"
        Rows without S: an error, or left out of that attribute's constraint.
    random_state : int, RandomState or None
        Landmarks, bandwidth subsample, folds.
    verbose : int, default=0
        1 prints memory and progress.

    Attributes
    ----------
    certificate_ : Certificate
        Exact in-sample promises for every cell and attribute.
    fairness_ : float
        Place on the angle scale that the dial led to.
    score_coef_, score_intercept_ : ndarray
        Ridge head on the scores, the predictor of y that ``certificate_.score`` speaks about.
    cosines_, angles_ : ndarray of shape (d,)
        Principal cosines (the paper's sigma) and angles between F and G.
    n_directions_ : dict
        Removed directions by cell and attribute.
    n_removed_ : int
        Dimension of what F leaves out.
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
        What :meth:`fit_stream` turned a table into numbers with, if it did.
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
    >>> bool(abs(np.corrcoef(rep.transform(X)[:, 0], s)[0, 1]) < 1e-8)
    True
    >>> rep.at(0.5).transform(X).shape
    (300, 1)
    """

    @classmethod
    def paper(
        cls, bandwidth, n_sensitive=1, n_predictive=1, epsilon=1.0, criterion="statistical_parity",
        eta=1e-4, **params,
    ) -> Self:  # fmt: skip
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

    def _find_position(self) -> Position:
        if self.subspace == "model":
            return super()._find_position()
        criterion = canonical_criterion(self.criterion)
        position, self._fair_space = locate_fair(self._solution, self, criterion)
        return position

    def transform(self, X) -> Array:
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

    def kernel_(self, X, Z=None) -> Array:
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
            return scipy.linalg.solve_triangular(factor, self._scores(X).T, lower=True).T
        psi = self._coordinates(X)
        space = self._fair_space
        return psi - (psi @ space.removed) @ space.half @ space.removed.T

    def deviation_bound(self, X) -> Array:
        """How far any function of the model space can be from its fair projection, row by row.

        For h in the model space with metric norm 1 (``|h|_R``):
        ``|h(x) - (P_F h)(x)| <= max|sin a_i| sqrt((psi-mu)'R^-1(psi-mu))`` . The paper's own
        inequality is vacuous whenever the model space has fewer dimensions than F.
        """
        psi = self._coordinates(self._read_new(X))
        config = self._config
        if config.method == "optimal" or (config.method == "rkhs" and config.subspace == "fair"):
            self._need_moments("deviation_bound")
            pooled = self.moments_.pool()
            cov = pooled.cov
            basis = self.pilot_.features.pending
            if basis is not None:
                cov = basis.T @ cov @ basis
            cov.flat[:: len(cov) + 1] += self._solution.eta_y
            factor = scipy.linalg.cholesky(cov, lower=True, check_finite=False)
            psi = scipy.linalg.solve_triangular(factor, psi.T, lower=True, check_finite=False).T
        return self.certificate_.containment_gap * np.sqrt(np.einsum("ij,ij->i", psi, psi))
