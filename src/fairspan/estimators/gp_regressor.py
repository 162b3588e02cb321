"""The fair Gaussian process: a prior whose sample paths are fair functions (METHOD 9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fairspan.estimators.conformal import ConformalIntervals
from fairspan.estimators.predictors import FairPredictor
from fairspan.estimators.state import FittedAttribute, FittedState, ScoredRows
from fairspan.inputs.config import document_parameters, read_seed
from fairspan.method.fair_prior import fair_root, squared_lengths
from fairspan.method.gp import (
    Evidence,
    Posterior,
    ard_prior,
    evidence_noise,
    given_precision,
    log_evidence,
    paper_em,
    posterior,
)
from fairspan.method.linalg import Array
from fairspan.method.solution import Solution
from fairspan.method.spaces import Position


@dataclass(frozen=True, kw_only=True)
class ProcessFit:
    """Noise, prior and posterior of the process at one dial value."""

    noise: float
    prior_precision: float | None = None
    posterior: Posterior | None = None  # None on all of F, where rows give the variance
    prior: Array | None = None  # precision matrix of the coefficients
    log_evidence: float | None = None
    negative_log_posterior: Array | None = None  # one value per step of the authors' EM


def _is_isotropic(prior: str | Array) -> bool:
    return isinstance(prior, str) and prior == "isotropic"


def _evidence(solution: Solution, position: Position) -> Evidence:
    """Statistics of the likelihood on the scores of a dial value."""
    C, T = position.blend, solution.weight
    return Evidence(
        gram=T * C.T @ solution.path.cov @ C,
        cross=T * (C.T @ solution.path.cov_target)[:, 0],
        square=T * float(solution.target_var[0]),
        n=solution.n_rows,
        weight=T,
        sum_log_weight=solution.sum_log_weight,
    )


def _fit_posterior(
    solution: Solution, position: Position, prior: str | Array, fit: ProcessFit
) -> tuple[ProcessFit, Array]:
    """Posterior on the model space, and its mean as coefficients of the head."""
    stats, C = _evidence(solution, position), position.blend
    gram = C.T @ solution.path.gram @ C
    noise, start = fit.noise, fit.prior_precision
    assert start is not None
    if _is_isotropic(prior):
        precision = start * gram
    elif isinstance(prior, str):
        diagonal, noise = ard_prior(stats, start * np.diag(gram), noise)
        precision = np.diag(diagonal)
    else:
        precision = given_precision(prior, len(gram))
        noise = evidence_noise(stats, precision, noise)
    result = posterior(stats, precision, noise)
    value, _ = log_evidence(stats, precision, noise)
    fit = replace(fit, noise=noise, prior=precision, posterior=result, log_evidence=value)
    return fit, result.mean[:, None]


def _fair_shrinkage(solution: Solution, position: Position) -> float:
    """Shrinkage t of METHOD 9's prior at a dial value (one output)."""
    d = len(solution.pair.angles)
    g, w = solution.path.cov_target[d:, 0], position.coef[d:, 0]
    length = float(g @ g)
    return 1.0 - float(w @ g) / length if length > 0.0 else position.fairness


def _fair_evidence(solution: Solution, position: Position, noise: float) -> float:
    """Log evidence of the prior on all of F."""
    fair = solution.fair
    assert fair is not None
    half = fair_root(fair.inner, _fair_shrinkage(solution, position), solution.eta_y)
    N = fair.removed
    root = fair.cov - N @ (half @ (N.T @ fair.cov))
    root = root - (root @ N) @ half @ N.T
    spectrum = np.maximum(scipy.linalg.eigvalsh((root + root.T) / 2.0), 0.0)
    fitted = float(solution.path.cov_target[:, 0] @ position.coef[:, 0])
    left = solution.weight * (float(solution.target_var[0]) - fitted)
    minus_two = (
        (solution.n_rows - 1) * np.log(2.0 * np.pi * noise)
        + np.log(solution.weight)
        - solution.sum_log_weight
        + np.log1p(spectrum / solution.eta_y).sum()
        + left / noise
    )
    return -0.5 * float(minus_two)


# Numbers chosen to make out-of-fold errors small: bandwidth, ridge, and coefficients of the predictions of y
# and of S, of which the fair end has only the first.
_CHOSEN = 4.0


def _new_rows_process(solution: Solution, position: Position) -> ProcessFit:
    """Noise that gives out-of-fold rows the size of their errors, with the variance of the posterior.

    The size is half-way between the mean square, which is precise for normal errors, and the 90 %
    quantile: a 90 % interval from the mean square alone covers 92.5 % of errors with heavy tails (t_3).
    """
    new_rows, T = solution.new_rows, solution.weight
    assert new_rows is not None
    assert new_rows.leverage is not None
    n, fitted = solution.n_rows, _CHOSEN - position.fairness
    error = new_rows.error(position.fairness) * new_rows.tail(position.fairness)
    error *= n / max(n - fitted, 1.0)
    floor = max(1e-12 * float(solution.target_var[0]), 1e-24 * float(solution.target_mean[0]) ** 2)
    noise = max(max(error, floor) / (1.0 + 1.0 / T + new_rows.leverage), 1e-300)
    return ProcessFit(noise=noise, prior_precision=T * solution.eta_y / noise)


@document_parameters
class FairGPRegressor(RegressorMixin, ConformalIntervals, FairPredictor):
    """Fair Gaussian process regression, fitted from moments alone.

    The prior lives on the model space (``subspace="model"``: d functions) or on all of F
    (``subspace="fair"``), with a flat intercept. At ``fairness=1`` every sample path, prior or
    posterior, is therefore a fair function in sample; with ``subspace="model"`` every path keeps to
    the suprema of ``certificate_`` at any dial value. At ``fairness=0`` with ``subspace="fair"`` it is
    the plain Gaussian process.

    ``sample_weight`` is a precision: a row of weight w has the noise variance ``noise_ / w``, and
    intervals are those of a row of weight 1. Let weights average 1.

    Parameters
    ----------
    prior : {"isotropic", "ard"} or array, default="isotropic"
        Prior covariance of the coefficients: ``(lam E'E)^-1``; diagonal by maximum evidence; or given,
        as d variances or a (d, d) matrix. Only "isotropic" for ``subspace="fair"``.
    inference : {"evidence", "em-paper"}, default="evidence"
        "em-paper" reproduces the variances of the authors' EM with ``method="paper"``.
    mean : {"constant", "linear"}, default="constant"
        "linear" adds a linear trend in X with a next to flat prior (each standardised slope has ten
        times the kernel's prior standard deviation). It is part of psi, so it is made fair with the
        rest.
    gamma : {"cv", "median", "scale", "evidence"} or float, default="cv"
        Width of the kernel. "evidence": maximum evidence on at most 500 rows, noise and prior precision
        at their best for each width, searched from five starts. The others as everywhere.
    n_predictive_directions : {"auto", "test"} or int, default="auto"
        "auto": the ridge direction. An integer asks for that many sliced-inverse-regression
        directions, with the ridge direction appended. Not used with ``subspace="fair"``.
    alpha : "auto" or float, default="auto"
        Noise variance times prior precision, the ridge of the posterior mean in the units of
        scikit-learn's ``Ridge``. "auto" is maximum evidence at ``fairness=0``; a number leaves the
        noise to be learnt.
    subspace : {"model", "fair"}, default="model"
        "model": a prior on the d functions of the model space. "fair": a prior on all of F, of many
        functions, whose variance also says what was not learnt for want of rows.

    Attributes
    ----------
    noise_ : float
        Noise variance s2.
    prior_precision_ : float
        lam of the isotropic prior.
    log_marginal_likelihood_value_ : float
        Evidence at the fitted hyper-parameters.
    negative_log_posterior_ : ndarray
        Only for ``inference="em-paper"``: one value per step of the EM.
    certificate_ : Certificate
        See :class:`FairRepresentation` for this and all other fitted attributes.
    """

    _target_kind = "continuous"
    _likelihood = "gaussian"

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        prior: Any = "isotropic",
        inference: Any = "evidence",
        mean: Any = "constant",
        gamma: Any = "cv",
        kernel_params: Any = None,
        feature_map: Any = None,
        n_components: Any = "auto",
        landmarks: Any = "stratified",
        criterion: Any = "statistical_parity",
        fairness: Any = 1.0,
        dial: Any = "auto",
        sensitive_kind: Any = "auto",
        dependence: Any = "mean",
        n_slices: Any = 10,
        intersectional: Any = False,
        pos_label: Any = None,
        n_sensitive_directions: Any = "auto",
        n_predictive_directions: Any = "auto",
        eta: Any = "auto",
        alpha: Any = "auto",
        subspace: Any = "model",
        method: Any = "optimal",
        removal: Any = "auto",
        missing_sensitive: Any = "raise",
        encoder: Any = "auto",
        epsilon_sensitive: Any = None,
        delta_sensitive: Any = 1e-6,
        sensitive_groups: Any = None,
        noise_state: Any = None,
        random_state: Any = None,
        verbose: Any = 0,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            kernel_params=kernel_params,
            feature_map=feature_map,
            n_components=n_components,
            landmarks=landmarks,
            criterion=criterion,
            fairness=fairness,
            dial=dial,
            sensitive_kind=sensitive_kind,
            dependence=dependence,
            n_slices=n_slices,
            intersectional=intersectional,
            pos_label=pos_label,
            n_sensitive_directions=n_sensitive_directions,
            n_predictive_directions=n_predictive_directions,
            eta=eta,
            alpha=alpha,
            subspace=subspace,
            method=method,
            removal=removal,
            missing_sensitive=missing_sensitive,
            encoder=encoder,
            epsilon_sensitive=epsilon_sensitive,
            delta_sensitive=delta_sensitive,
            sensitive_groups=sensitive_groups,
            noise_state=noise_state,
            random_state=random_state,
            verbose=verbose,
        )
        self.prior = prior
        self.inference = inference
        self.mean = mean

    noise_ = FittedAttribute(lambda s: s.head.noise, after="head")
    prior_precision_ = FittedAttribute(lambda s: s.head.prior_precision, after="head")
    log_marginal_likelihood_value_ = FittedAttribute(lambda s: s.head.log_evidence, after="head")
    negative_log_posterior_ = FittedAttribute(lambda s: s.head.negative_log_posterior, after="head")

    # ------------------------------------------------------------------ fitting

    @property
    def _process(self) -> ProcessFit:
        fit = self._fit_state.head
        assert isinstance(fit, ProcessFit)
        return fit

    def _positioned(self, state: FittedState) -> FittedState:
        state = super()._positioned(state)
        solution, position, config = state.solved, state.located, state.config
        if config.inference == "em-paper":
            stats = _evidence(solution, position)
            eta = float(next(r.eta for r in solution.reports if r.constrained))
            em = paper_em(stats, float(solution.target_mean[0]), eta)
            fit = ProcessFit(
                noise=em.noise,
                posterior=Posterior(mean=position.coef[:, 0], cov=em.cov),
                negative_log_posterior=em.nlp,
            )
            return replace(state, head=fit)
        if solution.new_rows is not None:
            return replace(state, head=_new_rows_process(solution, position))
        # eta_y stays fixed along the path, so the posterior mean is the ridge head everywhere; the
        # noise that goes with it is what this model leaves unexplained.
        cross = position.blend.T @ solution.path.cov_target
        fitted = float(cross[:, 0] @ position.coef[:, 0])
        variance, mean = float(solution.target_var[0]), float(solution.target_mean[0])
        # y may be fitted to rounding, or constant: a floor keeps the noise positive.
        left = max(variance - fitted, 1e-12 * variance, 1e-24 * max(mean**2, 1.0))
        noise = solution.weight * left / (solution.n_rows - 1)
        fit = ProcessFit(noise=noise, prior_precision=solution.weight * solution.eta_y / noise)
        if config.subspace == "fair":
            evidence = _fair_evidence(solution, position, noise)
            return replace(state, head=replace(fit, log_evidence=evidence))
        fit, coef = _fit_posterior(solution, position, config.prior, fit)
        return replace(state, head=fit, position=replace(position, coef=coef))

    def _path_head(self) -> tuple[Position, Array, Array]:
        config = self._config
        if config.subspace == "fair" or _is_isotropic(config.prior):
            return super()._path_head()  # the posterior mean is the ridge head
        self._locate()
        return self._position, self._position.coef, self._position.intercept

    def _read_old_head(self, attributes: dict[str, Any]) -> ProcessFit | None:
        if "noise_" not in attributes:
            return None
        names = {
            "noise": "noise_",
            "prior_precision": "prior_precision_",
            "posterior": "_posterior",
            "prior": "_prior",
            "log_evidence": "log_marginal_likelihood_value_",
            "negative_log_posterior": "negative_log_posterior_",
        }
        return ProcessFit(**{new: attributes.pop(old, None) for new, old in names.items()})

    # ------------------------------------------------------------------ predicting

    def predict(self, X: Any, return_std: Any = False, return_cov: Any = False) -> Any:
        """Predictive mean, and on request its standard deviation or covariance (noise included).

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
        return_std, return_cov : bool
            At most one of them.

        Returns
        -------
        mean, or (mean, std), or (mean, cov)
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        checked = self._read_new(X)
        mean = self._mean(checked)
        if not (return_std or return_cov):
            return mean
        common = self._intercept_variance()
        if return_std:
            return mean, np.sqrt(self._latent_variance(checked) + common + self.noise_)
        root = self._latent_root(checked)
        return mean, root @ root.T + common + self.noise_ * np.eye(len(mean))

    def _centre_and_scale(self, X: Any) -> tuple[Array, Array]:
        mean, std = self.predict(X, return_std=True)
        return mean, std

    @property
    def _posterior(self) -> Posterior:
        posterior = self._process.posterior
        assert posterior is not None
        return posterior

    @property
    def _prior(self) -> Array:
        prior = self._process.prior
        assert prior is not None
        return prior

    def _intercept_variance(self) -> float:
        """Variance of the intercept, which the authors' EM takes as known."""
        return self.noise_ / self._solution.weight if self._config.inference == "evidence" else 0.0

    def _mean(self, X: Array) -> Array:
        return (self._scores(X) @ self.score_coef_ + self.score_intercept_)[:, 0]

    def _latent_variance(self, X: Array) -> Array:
        """Variance of the latent function without b0, in blocks: no n x D array."""
        if self._process.posterior is not None:
            scores = self._scores(X)
            return np.asarray(np.einsum("ij,ij->i", scores @ self._posterior.cov, scores))
        if isinstance(X, ScoredRows):
            X = X.X
        lengths = squared_lengths(self._solution, self._pilot.features, X)
        if self._solution.new_rows is not None:
            return np.asarray(self.noise_ / self._solution.weight * lengths[:, 0])
        spread = lengths[:, 0] - _fair_shrinkage(self._solution, self._position) * lengths[:, 1]
        return np.asarray(self.noise_ / self._solution.weight * spread)

    def _latent_root(self, X: Array) -> Array:
        """Rows r(x) with ``Cov(f(x), f(z)) = r(x).r(z)`` for the latent function without b0."""
        if self._process.posterior is not None:
            return self._scores(X) @ _lower(self._posterior.cov)
        if self._solution.new_rows is not None:
            assert self._solution.factor is not None
            psi = self._coordinates(X).T
            u = scipy.linalg.solve_triangular(self._solution.factor, psi, lower=True).T
            return np.asarray(np.sqrt(self.noise_ / self._solution.weight) * u)
        fair = self._solution.fair
        assert fair is not None
        keep = float(np.sqrt(max(1.0 - _fair_shrinkage(self._solution, self._position), 0.0)))
        u = scipy.linalg.solve_triangular(fair.factor, self._coordinates(X).T, lower=True).T
        u -= (1.0 - keep) * (u @ fair.outside) @ fair.outside.T
        return np.asarray(np.sqrt(self.noise_ / self._solution.weight) * u)

    def sample_y(
        self, X: Any, n_samples: Any = 1, random_state: Any = 0, *, prior: Any = False
    ) -> Array:
        """Sample paths of the latent function: every one is a member of the model space.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        n_samples : int
        random_state : int, RandomState or None
        prior : bool, default=False
            Paths of the prior (around mean(y)) instead of the posterior.

        Returns
        -------
        ndarray of shape (n_rows, n_samples)
        """
        checked = self._read_new(X)
        rng = read_seed(random_state)
        if not prior:
            root = self._latent_root(checked)
            noise = rng.standard_normal((root.shape[1], n_samples))
            shift = rng.standard_normal(n_samples) * np.sqrt(self._intercept_variance())
            return np.asarray(self._mean(checked)[:, None] + root @ noise + shift)
        config = self._config
        if config.inference == "em-paper":
            msg = "inference='em-paper' has no usable prior (its EM degenerates); use 'evidence'."
            raise ValueError(msg)
        if self._solution.new_rows is not None:
            raise ValueError(
                "The prior of a model that removes dependence on new rows is not one on fair functions. Fit "
                "with removal='training_rows' to sample from it."
            )
        if config.subspace == "model":
            factor = _lower(self._prior)
            z = rng.standard_normal((len(factor), n_samples))
            if len(factor):
                z = scipy.linalg.solve_triangular(factor, z, lower=True, trans="T")
            paths = self._scores(checked) @ z
        else:
            fair = self._solution.fair
            assert fair is not None
            half = fair_root(
                fair.inner, _fair_shrinkage(self._solution, self._position), self._solution.eta_y
            )
            psi = self._coordinates(checked)
            psi = psi - (psi @ fair.removed) @ half @ fair.removed.T
            z = rng.standard_normal((psi.shape[1], n_samples))
            paths = psi @ z / np.sqrt(self.prior_precision_)
        return float(self.score_intercept_[0]) + paths

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: Any = False) -> Any:
        """Evidence, at the fitted or at given hyper-parameters.

        Parameters
        ----------
        theta : array-like, optional
            Logarithms: ``(log prior_precision, log noise)`` for the isotropic prior, ``(log precision of
            each coefficient..., log noise)`` for "ard". The fitted ones if not given.
        eval_gradient : bool
            Return the gradient in theta too.
        """
        check_is_fitted(self)
        config = self._config
        if config.inference == "em-paper":
            msg = "inference='em-paper' has no evidence (its EM degenerates); use 'evidence'."
            raise ValueError(msg)
        if self._solution.new_rows is not None:
            msg = "A model that removes dependence on new rows has no evidence; use removal='training_rows'."
            raise ValueError(msg)
        if theta is None and not eval_gradient:
            return self.log_marginal_likelihood_value_
        if config.subspace == "fair" or not isinstance(config.prior, str):
            raise ValueError(
                "log_marginal_likelihood at other hyper-parameters, or with its gradient, is for "
                "subspace='model' with prior 'isotropic' or 'ard'."
            )
        stats, C = _evidence(self._solution, self._position), self._position.blend
        if config.prior == "ard":
            fitted = np.log(np.append(np.diag(self._prior), self.noise_))
            scale = np.eye(len(stats.gram))
        else:
            fitted = np.log([self.prior_precision_, self.noise_])
            # In coordinates where E'E = I the isotropic prior is diagonal.
            scale = _lower(C.T @ self._solution.path.gram @ C)
        theta = fitted if theta is None else np.asarray(theta, dtype=np.float64)
        if theta.shape != fitted.shape:
            msg = f"theta has shape {theta.shape}; {fitted.shape} is needed: log precisions, then log noise."
            raise ValueError(msg)
        white = stats
        if len(scale):
            inner = scipy.linalg.solve_triangular(scale, stats.gram, lower=True)
            white = replace(
                stats,
                gram=scipy.linalg.solve_triangular(scale, inner.T, lower=True),
                cross=scipy.linalg.solve_triangular(scale, stats.cross, lower=True),
            )
        precision = np.broadcast_to(np.exp(theta[:-1]), len(stats.gram))
        value, slope = log_evidence(
            white, np.diag(precision), float(np.exp(theta[-1])), gradient=True
        )
        assert slope is not None
        if config.prior == "isotropic":
            slope = np.array([slope[:-1].sum(), slope[-1]])
        return (value, slope) if eval_gradient else value


def _lower(matrix: Array) -> Array:
    """Cholesky factor; an empty matrix, which older LAPACK wrappers refuse, is its own."""
    return np.asarray(scipy.linalg.cholesky(matrix, lower=True)) if len(matrix) else matrix
