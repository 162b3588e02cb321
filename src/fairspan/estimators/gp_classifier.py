"""The fair Gaussian process for labels: Laplace's approximation on the scores (METHOD 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.class_weight import compute_class_weight

from fairspan.estimators.likelihood_rows import SecondPass, TrainingRows
from fairspan.estimators.predictor import LineHead, complete_parameters
from fairspan.estimators.representation import FairRepresentation
from fairspan.inputs.config import check_choice
from fairspan.method.calibration import Link, fit_link
from fairspan.method.data import Data
from fairspan.method.heads import line_head, line_keep, ridge_head
from fairspan.method.laplace import Laplace, class_curvature, fit_laplace, moderate, softmax
from fairspan.method.linalg import Array
from fairspan.method.spaces import Head, squared_lengths

# Coefficients of all latent functions together. Newton's method factorises a square matrix of that
# size in every step, and the model keeps its inverse: 128 MB, and about 20 s on two cores (3,000 rows).
_MOST_COEFFICIENTS = 4_000
# Attributes computed from training rows; dropped when moments are merged.
_OF_ROWS = (
    *("_rows", "_laplace", "_functions", "_link"),
    *("log_marginal_likelihood_value_", "calibration_"),
)


@complete_parameters(FairRepresentation)
class FairGPClassifier(ClassifierMixin, SecondPass):
    """Fair Gaussian process classification with calibrated probabilities.

    A logistic (two classes) or softmax likelihood on the scores of the fair model space, by Laplace's
    approximation. The directions come from moments, by least squares on one-hot labels; the
    likelihood then weighs them. It is therefore not constrained logistic regression, which would need
    a pass over all of psi for every Newton step instead of over 2d scores a row.

    Every latent function is a member of the model space, so ``certificate_`` speaks of
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
    curvature : {"likelihood", "constant"}, default="likelihood"
        In which measure the fair function is the nearest one. "likelihood": rows count by the
        likelihood's curvature there, p (1 - p), so that the score gives way where it decides
        nothing; parity of *scores* is then cheapest. "constant": all rows alike, as in least squares;
        cheaper for parity of *decisions* on the path past fairness 1. Both have covariance 0
        with the codes at fairness 1. Only for ``likelihood="logistic"``, ``method="optimal"`` and
        ``subspace="model"``; elsewhere it is constant. It takes one more pass over the rows.
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
        Rows the link was fitted on: by functions that did not see them, or, where those cannot be had
        (merged workers, fewer directions than classes), the training scores themselves.
    certificate_ : Certificate
        See :class:`FairRepresentation` for this and all other fitted attributes.
    """

    def __init__(
        self, kernel="rbf", *, likelihood="logistic", calibrate=True, curvature="likelihood",
        class_weight=None, gamma="cv", kernel_params=None, feature_map=None, n_components="auto",
        landmarks="stratified",
        criterion="statistical_parity", fairness=1.0, dial="angle", sensitive_kind="auto",
        dependence="mean", n_slices=10, intersectional=False, pos_label=None,
        n_sensitive_directions="auto", n_predictive_directions="auto", eta="auto", alpha="auto",
        subspace="model", method="optimal", missing_sensitive="raise", random_state=None, verbose=0,
    ):  # fmt: skip
        super().__init__(
            kernel, gamma=gamma, kernel_params=kernel_params, feature_map=feature_map,
            n_components=n_components, landmarks=landmarks, criterion=criterion, fairness=fairness,
            dial=dial, sensitive_kind=sensitive_kind, dependence=dependence, n_slices=n_slices,
            intersectional=intersectional, pos_label=pos_label,
            n_sensitive_directions=n_sensitive_directions,
            n_predictive_directions=n_predictive_directions, eta=eta, alpha=alpha,
            subspace=subspace, method=method, missing_sensitive=missing_sensitive,
            random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.likelihood = likelihood
        self.calibrate = calibrate
        self.curvature = curvature
        self.class_weight = class_weight

    classes_: np.ndarray
    # Where Newton's method starts, intercepts and slopes; None: from the ridge head.
    _start: Array | None = None

    # ------------------------------------------------------------------ fitting

    @property
    def _ridge_rule(self) -> str:
        return "evidence" if self.likelihood == "gaussian" else "kfold"

    @property
    def _cross_fit(self) -> bool:
        return self.likelihood == "logistic" and bool(self.calibrate)

    def _publish(self) -> None:
        super()._publish()
        self.curvature_ = "likelihood" if self._solution.bent else "constant"

    def _read(self, *args, **kwargs):
        check_choice(self, "likelihood", ("logistic", "gaussian"))
        if not isinstance(self.calibrate, bool | np.bool_):
            msg = f"calibrate={self.calibrate!r} is not allowed; give True or False."
            raise ValueError(msg)
        check_choice(self, "curvature", ("likelihood", "constant"))
        weight = self.class_weight
        named = isinstance(weight, str) and weight == "balanced"
        if not (weight is None or isinstance(weight, Mapping) or named):
            msg = f"class_weight={weight!r} is not allowed; give a dict, 'balanced' or None."
            raise ValueError(msg)
        if self.likelihood == "gaussian" and weight is not None:
            msg = "class_weight is for likelihood='logistic'; pass sample_weight with 'gaussian'."
            raise ValueError(msg)
        if self.likelihood == "logistic" and self.method == "paper":
            msg = "method='paper' classifies by regression on -1 and 1; use likelihood='gaussian'."
            raise ValueError(msg)
        return super()._read(*args, **kwargs)

    def _prepare(self, data: Data, fold_rule: str = "strata") -> None:
        super()._prepare(data, fold_rule)
        wanted = self.n_predictive_directions if self.subspace == "model" else "auto"
        if wanted != "test":  # else the number of directions is not known yet
            d = len(self.classes_) - 1 if wanted == "auto" else int(wanted)
            self._check_size(min(d, self.pilot_.features.rank))

    def _check_size(self, n_functions: int) -> None:
        """Raise if Laplace's approximation would need too large a matrix."""
        K = len(self.classes_)
        size = (K - 1) * (1 + n_functions)
        if self.likelihood != "logistic" or size <= _MOST_COEFFICIENTS:
            return
        fewer = "subspace='model'"
        if self.subspace == "model":
            fewer = f"n_predictive_directions={max(_MOST_COEFFICIENTS // (K - 1) - 1, 1)} or fewer"
        msg = (
            f"{K} classes with {n_functions} functions have {size:,} coefficients in the logistic "
            f"likelihood, and at most {_MOST_COEFFICIENTS:,} are allowed: time grows with their cube. "
            f"Use FairRidgeClassifier or likelihood='gaussian', which need no such matrix, or {fewer}."
        )
        raise ValueError(msg)

    def _look_at_rows(self, data: Data | None) -> None:
        for name in _OF_ROWS:
            self.__dict__.pop(name, None)
        if self.likelihood == "logistic" and data is not None:
            self._rows = TrainingRows.gather(self, data, self.pilot_.counter())

    def _weights(self) -> tuple[Array | None, Array]:
        """Weights of the rows in the likelihood, and with them the share of each class."""
        rows, K = self._rows, len(self.classes_)
        weight, class_weight = rows.weight, self._config.class_weight
        if class_weight is not None:
            # Not scikit-learn's "balanced" on rows: weighted rows count by their weights.
            each = _class_weights(class_weight, self.classes_, rows)[rows.codes]
            before = len(each) if weight is None else float(weight.sum())
            weight = each if weight is None else weight * each
            # Only their ratios count: all classes twice as heavy are no more rows than before.
            weight = weight * (before / max(float(weight.sum()), 1e-300))
        mass = np.bincount(rows.codes, weight, minlength=K)
        if not (mass > 0.0).all():
            missing = self.classes_[mass <= 0.0].tolist()[0]
            msg = f"No row of class {missing!r} has weight, so the likelihood has nothing on it."
            raise ValueError(msg)
        return weight, mass / mass.sum()

    def _head(self) -> Head | None:
        if self.likelihood == "gaussian" or not hasattr(self, "_rows"):
            return None
        path, eta_y = self._solution.path, self._solution.eta_y

        def head(C: Array) -> tuple[Array, Array]:
            return self._weigh(C, self._precision(C), ridge_head(path, C, eta_y))

        return head

    def _line_head(self) -> LineHead | None:
        """METHOD 9's prior on what the path spans: removed directions are held back, not cut."""
        if self.likelihood == "gaussian" or not hasattr(self, "_rows"):
            return None
        solution, d = self._solution, len(self._solution.pair.angles)
        exists = np.diag(solution.path.gram) > 0.0  # a partner that does not exist is a zero column

        def head(fairness: float) -> tuple[Array, Array]:
            t = self._held_back(fairness)
            fair = np.arange(2 * d) < d
            C = np.eye(2 * d)[:, exists & (fair if t == 1.0 else True)]
            precision = self._precision(C)
            if t < 1.0:
                held_back = C.T @ np.diag((~fair).astype(np.float64)) @ C
                precision += self._prior_scale() / solution.eta_y * t / (1.0 - t) * held_back
            start = C.T @ line_head(solution.path, d, fairness)
            coef, intercept = self._weigh(C, precision, start)
            return C @ coef, intercept

        return head

    def _held_back(self, fairness: float) -> float:
        """T of METHOD 9's prior, one for all classes: at the angle of their functions together."""
        g, d = self._solution.path.cov_target, len(self._solution.pair.angles)
        fair, removed = (np.atleast_1d(np.linalg.norm(part)) for part in (g[:d], g[d:]))
        return 1.0 - float(line_keep(fair, removed, fairness)[0])

    def _prior_scale(self) -> float:
        # The prior belongs to the rows as they are, whatever the likelihood makes of the classes.
        solution = self._solution
        return solution.weight * solution.eta_y * class_curvature(solution.target_mean)

    def _precision(self, C: Array) -> Array:
        """Prior precision of the coefficients of the functions in C."""
        return np.asarray(self._prior_scale() * C.T @ self._solution.path.gram @ C)

    def _weigh(self, C: Array, precision: Array, one_hot: Array) -> tuple[Array, Array]:
        """Laplace's approximation on the functions in C, from a regression on one-hot labels."""
        self._check_size(C.shape[1])
        weight, shares = self._weights()
        start = self._start
        if start is None or len(start) != 1 + C.shape[1]:
            curvature = class_curvature(self._solution.target_mean)
            slopes = (one_hot[:, 1:] - one_hot[:, :1]) / curvature
            start = np.concatenate([np.log(shares[1:] / shares[0])[None], slopes])
        blocks = self._rows.blocks(C, weight, len(shares))
        self._laplace, self._functions = fit_laplace(blocks, precision, start), C
        return _outputs(self._laplace)

    def _follow(self, earlier: list[Any]) -> None:
        # Extrapolated along the path the start is so good that two passes suffice.
        last = [
            np.concatenate([one._laplace.intercept[None], one._laplace.coef])
            for one in earlier[-2:]
            if hasattr(one, "_laplace")
        ]
        if len(last) == 2 and last[0].shape == last[1].shape:
            self._start = 2.0 * last[1] - last[0]

    def _locate(self) -> None:
        self._start = None
        super()._locate()
        if not hasattr(self, "_rows"):
            return
        self.log_marginal_likelihood_value_ = self._laplace.log_evidence
        self._link: Link | None = None
        self.calibration_ = None
        if self.calibrate:
            rows = self._rows
            held_out = rows.honest
            honest = held_out is not None
            scores = (rows.scores if held_out is None else held_out) @ self._functions
            coef, intercept = _outputs(self._laplace)
            latents = _columns(scores @ coef + intercept)
            spread = None
            if rows.lengths is not None:
                spread = self._on_all_of_f(rows.lengths)
            if spread is not None and honest:
                # Left out, a row of weight w and leverage h = w v has the variance v/(1 - h).
                weight = 1.0 if rows.weight is None else rows.weight
                spread = spread / (1.0 - np.minimum(weight * spread, 0.99))
            latents = moderate(latents, self._latent_variance(scores, spread))
            self._link = fit_link(latents, rows.codes, self._weights()[0])
            self.calibration_ = "held-out" if honest else "training"

    # ------------------------------------------------------------------ predicting

    def __sklearn_is_fitted__(self) -> bool:
        return super().__sklearn_is_fitted__() and (
            self._config.likelihood == "gaussian" or hasattr(self, "_rows")
        )

    def _check_fitted(self) -> None:
        if hasattr(self, "_solution") and not self.__sklearn_is_fitted__():
            msg = (
                "The likelihood is not fitted yet: it needs the rows once more after partial_fit or "
                "merge. Call fit_head(blocks), or use likelihood='gaussian', which needs moments alone."
            )
            raise NotFittedError(msg)
        super()._check_fitted()

    def decision_function(self, X) -> Array:
        """Latent functions: one column per class, or the larger label's for two.

        Log odds before calibration; for ``likelihood="gaussian"`` the regression on -1 and 1.
        """
        outputs = self._outputs(X)
        if self._config.likelihood == "gaussian":
            outputs = 2.0 * outputs - 1.0
            return outputs[:, 1] if outputs.shape[1] == 2 else outputs
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def predict(self, X) -> np.ndarray:
        """The most probable class."""
        best = np.argmax(_columns(self._outputs(X)), axis=1)
        return np.asarray(self.classes_)[best]

    def predict_proba(self, X) -> Array:
        """Probabilities, (n, K), in the order of ``classes_``."""
        checked = self._read_new(X)
        scores = self._scores(checked)
        outputs = scores @ self.score_coef_ + self.score_intercept_
        lengths = squared_lengths(self, checked) if self._config.subspace == "fair" else None
        spread = None if lengths is None else self._on_all_of_f(lengths)
        if self._config.likelihood == "gaussian":
            return self._gaussian_probabilities(scores, 2.0 * outputs - 1.0, spread)
        if (
            self._config.subspace == "fair"
        ):  # scores are on B, Laplace's on the functions of the line
            scores = scores @ self._functions
        latents = moderate(_columns(outputs), self._latent_variance(scores, spread))
        return softmax(latents) if self._link is None else self._link.probabilities(latents)

    def predict_log_proba(self, X) -> Array:
        """Logarithms of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _on_all_of_f(self, lengths: Array) -> Array:
        """Posterior variance on all of F in units of the noise."""
        t = self._held_back(self.fairness_)
        return np.asarray((lengths[:, 0] - t * lengths[:, 1]) / self._solution.weight)

    def _latent_variance(self, scores: Array, spread: Array | None) -> Array:
        if spread is None:
            return self._laplace.variance(scores)
        # All of F at the curvature of the class shares: per-row curvatures would need D x D passes.
        K, T = len(self.classes_), self._solution.weight
        weight, shares = self._weights()
        total = len(self._rows.codes) if weight is None else float(weight.sum())
        curvature = class_curvature(shares) * total / T
        return np.asarray(K / (K - 1) / curvature * (spread + 1.0 / T))

    def _gaussian_probabilities(self, scores: Array, means: Array, spread: Array | None) -> Array:
        """``P(f_k + noise > 0)``, normalised over the classes."""
        solution, C = self._solution, self._position.blend
        T = solution.weight
        if spread is None:
            inner = T * C.T @ (solution.path.cov + solution.eta_y * solution.path.gram) @ C
            solved = scipy.linalg.lstsq(inner, scores.T, cond=1e-14)[0] if len(inner) else scores.T
            spread = np.einsum("ij,ji->i", scores, solved)
        fitted = ((C.T @ solution.path.cov_target) * self.score_coef_).sum(axis=0)
        left = np.maximum(solution.target_var - fitted, 1e-12 * solution.target_var)
        # One noise for all classes, so that the most probable class is that of the largest mean.
        noise = 4.0 * T * float(left.mean()) / (solution.n_rows - 1)
        sure = means / np.sqrt(noise * (1.0 + spread + 1.0 / T))[:, None]
        # In logarithms: no class may have a mean above zero, and the noise be next to nothing.
        return softmax(scipy.special.log_ndtr(sure))


def _outputs(found: Laplace) -> tuple[Array, Array]:
    """Coefficients and intercepts of what is shown: the log odds of two classes, or K that sum to 0."""
    if found.n_classes == 2:
        return found.coef, found.intercept
    coef = np.concatenate([np.zeros((len(found.coef), 1)), found.coef], axis=1)
    intercept = np.concatenate([[0.0], found.intercept])
    return coef - coef.mean(axis=1, keepdims=True), intercept - intercept.mean()


def _columns(outputs: Array) -> Array:
    """One column per class."""
    return outputs if outputs.shape[1] > 1 else np.concatenate([-outputs, outputs], axis=1) / 2.0


def _class_weights(class_weight: Any, classes: np.ndarray, rows: TrainingRows) -> Array:
    if isinstance(class_weight, str):  # "balanced"
        mass = np.bincount(rows.codes, rows.weight, minlength=len(classes))
        return np.asarray(mass.sum() / (len(classes) * mass))
    unknown = [label for label in class_weight if label not in classes.tolist()]
    if unknown:
        msg = f"class_weight names {unknown[0]!r}, which is no class. Classes: {classes.tolist()}."
        raise ValueError(msg)
    for label, weight in class_weight.items():
        if not isinstance(weight, int | float | np.number) or not 0.0 <= weight < np.inf:
            msg = f"class_weight[{label!r}]={weight!r} is not allowed; give a number, 0 or more."
            raise ValueError(msg)
    return np.asarray(compute_class_weight(dict(class_weight), classes=classes, y=classes))
