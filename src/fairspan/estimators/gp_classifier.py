"""The fair Gaussian process for labels: Laplace's approximation on the scores (METHOD 9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.special
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError

from fairspan.estimators.conformal import ConformalSets
from fairspan.estimators.likelihood_ends import fit_ends, latent_outputs, likelihood_weights
from fairspan.estimators.likelihood_rows import SecondPass, TrainingRows
from fairspan.estimators.state import FittedAttribute, FittedState
from fairspan.inputs.config import document_parameters
from fairspan.method.calibration import Link, fit_link
from fairspan.method.fair_prior import squared_lengths
from fairspan.method.laplace import Laplace, class_curvature, fit_laplace, moderate, softmax
from fairspan.method.linalg import Array
from fairspan.method.new_rows_space import NewRows
from fairspan.method.problem import Data
from fairspan.method.solution import Solution
from fairspan.method.spaces import Head, LineHead, Position, Space, locate
from fairspan.method.subspaces import line_head, line_keep, ridge_head

# Coefficients of all latent functions together. Newton's method factorises a square matrix of that
# size in every step, and the model keeps its inverse: 128 MB, and about 20 s on two cores (3,000 rows).
_MOST_COEFFICIENTS = 4_000


@document_parameters
class FairGPClassifier(ClassifierMixin, ConformalSets, SecondPass):
    """Fair Gaussian process classification with calibrated probabilities.

    A logistic (two classes) or softmax likelihood on the scores of the fair model space, by Laplace's
    approximation. The directions come from moments, by least squares on one-hot labels; the
    likelihood then weighs them. It is therefore not constrained logistic regression, which would need
    a pass over all of psi for every Newton step instead of over 2d scores a row.

    Every latent function is a member of the model space, so ``certificate_`` is about
    ``decision_function``. The most probable class is always the one with the largest latent;
    probabilities are nearer to equal odds where the posterior is wide, so of two rows, that with the
    larger log odds is not always the more probable one.

    Weights count as copies in the logistic likelihood, so their scale says how sure one may be; for
    ``likelihood="gaussian"`` they are precisions of the noise, and probabilities are those of a row of
    weight 1. Let them average 1.

    Latent functions may have 4,000 coefficients together: about 63 classes with all their directions.
    More classes are refused; see ``n_predictive_directions``, or :class:`FairRidgeClassifier`.

    Parameters
    ----------
    likelihood : {"logistic", "gaussian"}, default="logistic"
        "gaussian" is the paper's classifier: regression on labels -1 and 1, from moments alone.
    calibrate : bool, default=True
        Pass the log odds through a monotone link, fitted on scores of rows by functions that did not
        see them. Only for ``likelihood="logistic"``; decisions do not change.
    curvature : {"auto", "likelihood", "constant"}, default="auto"
        Metric in which the direction that depends on S is taken out. "likelihood": rows are weighted by the
        likelihood's curvature, p (1 - p), so that scores change most where they rarely change a
        decision; parity of *scores* is then cheapest. "constant": all rows count alike, as in least
        squares; cheaper for parity of *decisions* on the path past fairness 1. Both remove the same
        dependence. "auto": "likelihood" for removal on the training rows, "constant" for new rows. The
        likelihood's is only for ``likelihood="logistic"``, ``method="optimal"`` and ``subspace="model"``;
        elsewhere it is constant. It takes one more pass over the rows, which for new rows costs about
        four times the pass of the moments, because every fold has a metric of its own.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the likelihood, of which only the ratios count. The fair subspace and
        the certificate stay those of the rows as they are.
    n_predictive_directions : {"auto", "test"} or int, default="auto"
        "auto": all K - 1 canonical directions of the labels; or how many of them. Not used with
        ``subspace="fair"``.
    alpha : "auto" or float, default="auto"
        Ridge of the directions in the units of scikit-learn's ``Ridge``, and with it the prior
        precision of the latent functions. "auto": 5-fold squared error ("logistic") or evidence
        ("gaussian").
    subspace : {"model", "fair"}, default="model"
        "model": a prior on the functions of the model space. "fair": METHOD 9's prior, which holds
        removed directions back instead of cutting them, and a variance on all of F, with which
        probabilities fall back to equal odds where training rows are few.

    Attributes
    ----------
    classes_ : ndarray
        Labels.
    log_marginal_likelihood_value_ : float
        Laplace's approximation of the evidence (only for ``likelihood="logistic"``).
    curvature_ : {"likelihood", "constant"}
        The measure that was used: constant too where a direction is a function of S alone.
    calibration_ : {"held-out", "training", None}
        Scores the link was fitted on: "held-out" scores are by functions that did not see the row.
        "training" scores are used where there are none (merged workers, fewer directions than
        classes).
    decision_rule_ : RuleWords
        With ``equalize="decisions"``: what the rule subtracts for each group; ``print`` shows it in words.
    certificate_ : Certificate
        See :class:`FairRepresentation` for this and all other fitted attributes.
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        likelihood: Any = "logistic",
        calibrate: Any = True,
        curvature: Any = "auto",
        class_weight: Any = None,
        equalize: Any = "scores",
        selection_rate: Any = None,
        cost_matrix: Any = None,
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
        self.likelihood = likelihood
        self.calibrate = calibrate
        self.curvature = curvature
        self.class_weight = class_weight
        self.equalize = equalize
        self.selection_rate = selection_rate
        self.cost_matrix = cost_matrix

    log_marginal_likelihood_value_ = FittedAttribute(
        lambda s: s.head.laplace.log_evidence, after="head"
    )
    calibration_ = FittedAttribute(lambda s: s.head.calibration, after="head", optional=True)
    curvature_ = FittedAttribute(
        lambda s: "likelihood" if s.solved.uses_likelihood_metric else "constant"
    )

    @property
    def _score_scale(self) -> tuple[float, float]:
        return (2.0, -1.0) if self._config.likelihood == "gaussian" else (1.0, 0.0)

    # Intercepts and slopes at which Newton's method starts; None: from the ridge head.
    _start: Array | None = None

    # ------------------------------------------------------------------ fitting

    def _prepare(self, data: Data, fold_rule: str = "keys") -> None:
        super()._prepare(data, fold_rule)
        state = self._fit_state
        config = state.config
        wanted = config.n_predictive_directions if config.subspace == "model" else "auto"
        if wanted != "test":  # otherwise the number of directions is not known yet
            d = len(self.classes_) - 1 if wanted == "auto" else int(wanted)
            _check_size(state, min(d, state.pilot.features.rank))

    def _with_rows(self, state: FittedState, data: Data | None) -> FittedState:
        rows = None
        state = super()._with_rows(state, data)
        if state.config.likelihood == "logistic" and data is not None:
            rows = TrainingRows.gather(state.solved, state.pilot, data, state.pilot.counter())
        return replace(state, rows=rows, head=None, ends=None)

    def _positioned(self, state: FittedState, start: Array | None = None) -> FittedState:
        # A decision rule has its own probabilities. Without rows, least squares from moments.
        waits = state.rows is None or state.config.equalize == "decisions"
        if state.decisions is not None or waits:
            return super()._positioned(replace(state, head=None))
        if state.solved.new_rows is not None:
            return _positioned_on_new_rows(state)
        labels = _Labels(state, start)
        space = self._space(state, labels.head, labels.line_head)
        position = locate(space, state.config)
        assert labels.fit is not None
        return replace(state, position=position, head=labels.fit)

    def _equalizing(self, equalize: Any) -> Self:
        out = super()._equalizing(equalize)
        if out is not self:  # rules start from least squares, not from the likelihood
            out._state = replace(out._fit_state, head=None, ends=None)
        return out

    def _space(
        self, state: FittedState, head: Head | None = None, line_head: LineHead | None = None
    ) -> Space:
        if state.ends is not None:
            return NewRows(state.solved, state.config, state.ends)
        return super()._space(state, head, line_head)

    def _locate(self) -> None:
        self._start = None
        super()._locate()
        state = self._fit_state
        if isinstance(state.head, LaplaceFit) and state.config.calibrate:
            self._state = replace(state, head=self._calibrated(state))

    def _calibrated(self, state: FittedState) -> LaplaceFit:
        """The fit with a link, fitted on held-out scores where there are any."""
        fit, rows = state.head, state.rows
        assert isinstance(fit, LaplaceFit)
        assert rows is not None
        held_out = rows.out_of_fold_scores
        honest = held_out is not None
        scores = (rows.scores if held_out is None else held_out) @ fit.functions
        coef, intercept = latent_outputs(fit.laplace)
        latents = _columns(scores @ coef + intercept)
        spread = None
        if rows.lengths is not None:
            spread = self._spread(state, rows.lengths)
            if honest:
                # Left out, a row of weight w and leverage h = w v has the variance v/(1 - h).
                weight = 1.0 if rows.weight is None else rows.weight
                spread = spread / (1.0 - np.minimum(weight * spread, 0.99))
        latents = moderate(latents, _latent_variance(state, scores, spread))
        link = fit_link(latents, rows.codes, likelihood_weights(state)[0])
        return replace(fit, link=link, calibration="held-out" if honest else "training")

    def _path_head(self) -> tuple[Position, Array, Array]:
        self._check_unchanged()
        self._state = state = self._positioned(self._current_state, self._start)
        position = state.located
        return position, position.coef, position.intercept

    def _follow(self, earlier: list[Any]) -> None:
        # A start that is extrapolated along the path is so good that two passes suffice.
        fits = [one._fit_state.head for one in earlier[-2:]]
        last = [
            np.concatenate([fit.laplace.intercept[None], fit.laplace.coef])
            for fit in fits
            if fit is not None
        ]
        if len(last) == 2 and last[0].shape == last[1].shape:
            self._start = 2.0 * last[1] - last[0]

    def _read_old_head(self, attributes: dict[str, Any]) -> LaplaceFit | None:
        if "_laplace" not in attributes:
            return None
        attributes.pop("log_marginal_likelihood_value_", None)
        return LaplaceFit(
            laplace=attributes.pop("_laplace"),
            functions=attributes.pop("_functions"),
            link=attributes.pop("_link", None),
            calibration=attributes.pop("calibration_", None),
        )

    # ------------------------------------------------------------------ predicting

    def __sklearn_is_fitted__(self) -> bool:
        return super().__sklearn_is_fitted__() and (
            self._config.likelihood == "gaussian"
            or self._fit_state.rows is not None
            or self._fit_state.decisions is not None
        )

    def _check_fitted(self) -> None:
        solved = self._state is not None and self._state.solution is not None
        scores = solved and self._config.equalize == "scores"
        if scores and not self.__sklearn_is_fitted__():
            msg = (
                "The likelihood is not fitted yet: it needs the rows once more after partial_fit or "
                "merge. Call fit_head(blocks), or use likelihood='gaussian', which needs moments alone."
            )
            raise NotFittedError(msg)
        super()._check_fitted()

    def decision_function(self, X: Any) -> Array:
        """Latent functions: one column per class, or the larger label's for two.

        Log odds before calibration; for ``likelihood="gaussian"`` the regression on -1 and 1. With
        ``equalize="decisions"``, the margins of the rule.
        """
        self._check_fitted()
        outputs = self._decisive(X)
        if self._fit_state.decisions is None and self._config.likelihood == "gaussian":
            outputs = 2.0 * outputs - 1.0
            return outputs[:, 1] if outputs.shape[1] == 2 else outputs
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class, or that of the decision rule."""
        return self._labels_of(X)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities, (n, K), in the order of ``classes_``."""
        self._check_fitted()
        if self._fit_state.decisions is not None:
            return self._rule_probabilities(X)
        checked = self._read_new(X)
        scores, state = self._scores(checked), self._fit_state
        outputs = scores @ self.score_coef_ + self.score_intercept_
        spread = None
        if state.config.subspace == "fair":
            lengths = squared_lengths(self._solution, state.pilot.features, checked)
            spread = self._spread(state, lengths)
        if state.config.likelihood == "gaussian":
            return self._gaussian_probabilities(scores, 2.0 * outputs - 1.0, spread)
        fit: LaplaceFit = state.head
        if state.config.subspace == "fair":
            # From scores on B to those of the functions of the line.
            scores = scores @ fit.functions
        latents = moderate(_columns(outputs), _latent_variance(state, scores, spread))
        return softmax(latents) if fit.link is None else fit.link.probabilities(latents)

    def _class_scores(self, X: Any) -> Array:
        return self.predict_proba(X)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _spread(self, state: FittedState, lengths: Array) -> Array:
        """Posterior variance on all of F in units of the noise."""
        solution = state.solved
        t = spread_shrinkage(solution, state.located.fairness)
        return np.asarray((lengths[:, 0] - t * lengths[:, 1]) / solution.weight)

    def _gaussian_probabilities(self, scores: Array, means: Array, spread: Array | None) -> Array:
        """``P(f_k + noise > 0)``, normalised over the classes."""
        T, noise = self._solution.weight, noise_of_labels(self._solution, self._position)
        if spread is None:
            form = spread_form(self._solution, self._position)
            spread = np.einsum("ij,jk,ik->i", scores, form, scores, optimize=True)
        sure = means / np.sqrt(noise * (1.0 + spread + 1.0 / T))[:, None]
        # In logarithms: no class may have a mean above zero, and the noise be next to nothing.
        return softmax(scipy.special.log_ndtr(sure))


# ------------------------------------------------------------------ the logistic likelihood


@dataclass(frozen=True, kw_only=True)
class LaplaceFit:
    """Laplace's approximation at one dial value, and the link of its probabilities."""

    laplace: Laplace
    functions: Array  # C: the functions it is fitted on, as coefficients on the basis
    link: Link | None = None
    calibration: str | None = None  # rows the link was fitted on


def _positioned_on_new_rows(state: FittedState) -> FittedState:
    """The model between two ends that are fitted on out-of-fold scores."""
    ends = state.ends if state.ends is not None else fit_ends(state)
    position = locate(NewRows(state.solved, state.config, ends), state.config)
    # The ends have the scale of log odds out of fold, so latents are not shrunk by a variance.
    assert state.classes is not None
    K, d = len(state.classes), position.blend.shape[1]
    free = _free(position.coef), _free(position.intercept)
    size = (K - 1) * (1 + d)
    laplace = Laplace(
        coef=free[0], intercept=free[1], cov=np.zeros((size, size)), log_evidence=None, n_steps=0
    )
    fit = LaplaceFit(laplace=laplace, functions=position.blend)
    return replace(state, position=position, head=fit, ends=ends)


def _free(outputs: Array) -> Array:
    """Latents of the free classes from those of all classes; one output is the free one already."""
    return outputs if outputs.shape[-1] == 1 else outputs[..., 1:] - outputs[..., :1]


class _Labels:
    """Heads of the logistic likelihood; ``fit`` is the latest approximation they made."""

    def __init__(self, state: FittedState, start: Array | None) -> None:
        self._state, self._solution, self._start = state, state.solved, start
        self.fit: LaplaceFit | None = None

    def head(self, C: Array) -> tuple[Array, Array]:
        """Coefficients and intercepts on the functions in the columns of C."""
        solution = self._solution
        return self._approximate(
            C, self._precision(C), ridge_head(solution.path, C, solution.eta_y)
        )

    def line_head(self, fairness: float) -> tuple[Array, Array]:
        """Coefficients under METHOD 9's prior on the path: removed directions are shrunk, not cut."""
        solution, d = self._solution, len(self._solution.pair.angles)
        exists = np.diag(solution.path.gram) > 0.0  # a partner that does not exist is a zero column
        t = spread_shrinkage(solution, fairness)
        fair = np.arange(2 * d) < d
        C = np.eye(2 * d)[:, exists & (fair if t == 1.0 else True)]
        precision = self._precision(C)
        if t < 1.0:
            shrunk = C.T @ np.diag((~fair).astype(np.float64)) @ C
            precision += self._prior_scale() / solution.eta_y * t / (1.0 - t) * shrunk
        start = C.T @ line_head(solution.path, d, fairness)
        coef, intercept = self._approximate(C, precision, start)
        return C @ coef, intercept

    def _prior_scale(self) -> float:
        # The prior belongs to the rows as they are, whatever the weights of the classes.
        solution = self._solution
        return solution.weight * solution.eta_y * class_curvature(solution.target_mean)

    def _precision(self, C: Array) -> Array:
        """Prior precision of the coefficients of the functions in C."""
        return np.asarray(self._prior_scale() * C.T @ self._solution.path.gram @ C)

    def _approximate(self, C: Array, precision: Array, one_hot: Array) -> tuple[Array, Array]:
        """Laplace's approximation on the functions in C, from a regression on one-hot labels."""
        _check_size(self._state, C.shape[1])
        rows = self._state.rows
        assert rows is not None
        weight, shares = likelihood_weights(self._state)
        start = self._start
        if start is None or len(start) != 1 + C.shape[1]:
            curvature = class_curvature(self._solution.target_mean)
            slopes = (one_hot[:, 1:] - one_hot[:, :1]) / curvature
            start = np.concatenate([np.log(shares[1:] / shares[0])[None], slopes])
        laplace = fit_laplace(rows.blocks(C, weight, len(shares)), precision, start)
        self.fit = LaplaceFit(laplace=laplace, functions=C)
        return latent_outputs(laplace)


def _check_size(state: FittedState, n_functions: int) -> None:
    """Raise if Laplace's approximation would need too large a matrix."""
    assert state.classes is not None
    K = len(state.classes)
    size = (K - 1) * (1 + n_functions)
    if state.config.likelihood != "logistic" or size <= _MOST_COEFFICIENTS:
        return
    fewer = "subspace='model'"
    if state.config.subspace == "model":
        fewer = f"n_predictive_directions={max(_MOST_COEFFICIENTS // (K - 1) - 1, 1)} or fewer"
    msg = (
        f"{K} classes with {n_functions} functions have {size:,} coefficients in the logistic "
        f"likelihood, and at most {_MOST_COEFFICIENTS:,} are allowed: time grows with their cube. "
        f"Use FairRidgeClassifier or likelihood='gaussian', which need no such matrix, or {fewer}."
    )
    raise ValueError(msg)


def spread_shrinkage(solution: Solution, fairness: float) -> float:
    """Shrinkage t of METHOD 9's prior, one for all classes: at the angle of their functions together."""
    g, d = solution.path.cov_target, len(solution.pair.angles)
    fair, removed = (np.atleast_1d(np.linalg.norm(part)) for part in (g[:d], g[d:]))
    return 1.0 - float(line_keep(fair, removed, fairness)[0])


def _latent_variance(state: FittedState, scores: Array, spread: Array | None) -> Array:
    """Posterior variance of the latents of rows; ``spread`` is that on all of F."""
    fit, solution = state.head, state.solved
    assert isinstance(fit, LaplaceFit)
    if spread is None:
        return fit.laplace.variance(scores)
    return np.asarray(latent_scale(state) * (spread + 1.0 / solution.weight))


def spread_form(solution: Solution, position: Position) -> Array:
    """Matrix F: the posterior variance of scores s is ``s'Fs`` in units of the noise."""
    C = position.blend
    inner = solution.weight * C.T @ (solution.path.cov + solution.eta_y * solution.path.gram) @ C
    if not len(inner):
        return np.asarray(inner)
    return np.asarray(scipy.linalg.lstsq(inner, np.eye(len(inner)), cond=1e-14)[0])


def noise_of_labels(solution: Solution, position: Position) -> float:
    """Noise variance of the labels -1 and 1."""
    C = position.blend
    if solution.new_rows is None:
        fitted = ((C.T @ solution.path.cov_target) * position.coef).sum(axis=0)
        left = np.maximum(solution.target_var - fitted, 1e-12 * solution.target_var)
    else:
        error = solution.new_rows.error(position.fairness)
        left = np.atleast_1d(error / len(solution.target_mean))
    # One noise for all classes, so that the most probable class is that of the largest mean.
    return 4.0 * solution.weight * float(left.mean()) / (solution.n_rows - 1)


def latent_scale(state: FittedState) -> float:
    """Variance of a latent on all of F, in units of the spread and the share of the intercept."""
    # All of F at the curvature of the class shares: per-row curvatures would need D x D passes.
    weight, shares = likelihood_weights(state)
    assert state.rows is not None
    K, T = len(shares), state.solved.weight
    total = len(state.rows.codes) if weight is None else float(weight.sum())
    return float(K / (K - 1) / (class_curvature(shares) * total / T))


def _columns(outputs: Array) -> Array:
    """One column per class."""
    return outputs if outputs.shape[1] > 1 else np.concatenate([-outputs, outputs], axis=1) / 2.0
