"""Error and parity along the whole dial, in and out of fold, and the choice of a dial value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import _num_samples

from fairspan._html import path_html
from fairspan._system import track
from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.dial_predictor import DialHeads, DialOutputs, DialPredictor, decide, move
from fairspan.estimators.path_bounds import Bounds, promised, rows_needed, upper_bounds
from fairspan.estimators.path_rows import out_of_fold, read_grid, read_rows, split
from fairspan.estimators.path_selection import (
    PathEvaluator,
    Selection,
    choose,
    one_bound,
    sampling_noise,
    unmet,
)
from fairspan.exceptions import DataWarning, each_warning_once, warn_user
from fairspan.inputs.checks import check_confidence
from fairspan.inputs.columns import align_rows
from fairspan.inputs.config import read_seed
from fairspan.method.linalg import Array
from fairspan.method.new_rows_space import NewRows
from fairspan.plotting import TradeoffDisplay

__all__ = [
    "FairnessPath",
    "Selection",
    "fairness_path",
]

# Predictions held at once while the curves are computed: 8 MiB.
_BLOCK_NUMBERS = 2**20
# Resamples for the bound of a metric that is a function.
_BOUND_RESAMPLES = 400

_IN_SAMPLE = (
    "Some of the rows of this path are training rows, on which a model looks better than on new ones, so the "
    "bound is no promise. Use held-out rows, fairness_path (out of fold), or confidence=None."
)

Metric = str | Callable[..., float]


class FairnessPath:
    """Predictions, error and parity of one fit along the whole dial.

    Create one with :meth:`from_estimator` (any rows) or :func:`fairness_path` (out of fold). All dial
    values share one pass over the rows: 2d scores per row, then a small product per dial value.

    Parameters
    ----------
    estimator : fitted estimator
        The model that :meth:`select` moves along the dial.
    fairness : ndarray
        Dial values on the native scale of the model; beyond 1 the correlation changes sign.
    predictions : list of DialOutputs
        Fitted scores of the rows, one entry per fold.
    evaluator : PathEvaluator
        Error and parity of predictions on these rows.
    certificate : ndarray
        In-sample supremum of the estimator at each dial value.
    noise : float
        Sampling noise of a correlation, in the smallest cell of the criterion.
    in_sample : bool, default=False
        Some of the rows are training rows of the estimator, so that nothing can be promised from them.

    Attributes
    ----------
    estimator, fairness, certificate, noise
        As given.
    error : ndarray
        RMSE, or share of wrong classes (``error_name``).
    attributes, cells : list of str
        Protected attributes; cells of the criterion.
    """

    def __init__(
        self,
        estimator: FairKernelEstimator,
        fairness: Array,
        predictions: list[DialOutputs],
        evaluator: PathEvaluator,
        certificate: Array,
        noise: float,
        in_sample: bool = False,
    ) -> None:
        self.estimator, self.fairness = estimator, fairness
        self.certificate, self.noise = certificate, noise
        self._in_sample = in_sample
        self.attributes, self.cells = evaluator.attributes, evaluator.cell_names
        self._predictions, self._evaluator = predictions, evaluator
        self.error_name = "RMSE" if evaluator.classes is None else "misclassification"
        step = max(1, _BLOCK_NUMBERS // (evaluator.n * predictions[0].heads.coef.shape[2]))
        weight, names = evaluator.weight[:, None], evaluator.curves
        blocks = [
            evaluator.measure(names, self._outputs(slice(i, i + step)), weight)
            for i in range(0, len(fairness), step)
        ]
        self._curves = {  # (points, attributes, cells)
            name: np.moveaxis(np.concatenate([block[name] for block in blocks], axis=2), 2, 0)
            for name in names
        }
        self.error = self._curves["error"][:, 0, 0]

    @classmethod
    def from_estimator(
        cls,
        fitted: FairKernelEstimator,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: Any = None,
        n_points: int = 101,
        max_fairness: float = 1.0,
    ) -> FairnessPath:
        """Evaluate a fitted estimator on any rows, at ``n_points`` dial values.

        Parameters
        ----------
        fitted : fairspan estimator
            Fitted with y; a FairRepresentation predicts by its ridge head.
        X, y, sensitive_features, control_features, sample_weight
            Rows to evaluate on, as in ``fit``; held-out ones for honest numbers.
        n_points : int, default=101
            Number of dial values, equally spaced on the native scale of the model.
        max_fairness : float in (0, 2], default=1.0
            Values past 1 go beyond zero correlation, where gaps between *decisions* may close; 2
            mirrors the unconstrained model. Meant for one predictive direction of angle theta, and
            of use up to ``90 degrees / theta``, where the fitted slope changes its sign.
        """
        grid = read_grid(fitted, n_points, max_fairness)
        fitted._check_fitted()
        data = read_rows(fitted, X, y, sensitive_features, control_features, sample_weight)
        evaluator, heads = PathEvaluator(fitted, data), DialHeads.along(fitted, grid)
        outputs = DialPredictor(fitted, data.X).along(heads, classes=evaluator.classes)
        noise = sampling_noise(fitted, evaluator)
        known = fitted._fitted_rows
        in_sample = known is not None and known.share_of(data.X) is not None
        return cls(fitted, grid, [outputs], evaluator, heads.supremum, noise, in_sample)

    # ------------------------------------------------------------------ numbers

    def outputs(self, i: int) -> Array:
        """Fitted scores at the i-th dial value: (n, 1), or one column per class."""
        return self._outputs(slice(i, i + 1))[:, :, 0]

    def predictions(self, i: int) -> np.ndarray:
        """Predictions at the i-th dial value: numbers, or labels."""
        outputs, classes = self.outputs(i), self._evaluator.classes
        return outputs[:, 0] if classes is None else classes[decide(outputs)]

    def curve(self, metric: Metric = "correlation", attribute: str | None = None) -> Array:
        """A metric at every dial value.

        Parameters
        ----------
        metric : str or callable, default="correlation"
            "correlation" (absolute, in the worst cell of the criterion; "statistical_parity_correlation"
            over all rows), "correlation_ratio" (likewise by cells), "demographic_parity_difference",
            "equalized_odds_difference", "error", or ``metric(y_true, predictions, sensitive_features)``:
            S is one array for one attribute, a dict of arrays for several.
        attribute : str, optional
            One protected attribute; the worst of all if not given.
        """
        if callable(metric):
            rows = np.arange(self._evaluator.n)
            call, points = self._evaluator.call, range(len(self))
            return np.array([call(metric, attribute, self.predictions(i), rows) for i in points])
        name = self._evaluator.check_curve(metric)
        return self._evaluator.worst(name, self._curves[name], attribute)

    def interval(
        self,
        metric: Metric = "error",
        level: float = 0.9,
        n_boot: int = 200,
        random_state: Any = None,
        *,
        attribute: str | None = None,
    ) -> tuple[Array, Array]:
        """Percentile bootstrap over the rows: the sampling of the evaluation, not of the fit.

        Parameters
        ----------
        metric, attribute
            As in :meth:`curve`. An absolute correlation near 0 is biased upwards in resamples.
        level : float, default=0.9
            Share of resamples between the two limits.
        n_boot : int, default=200
            Resamples, the same for every dial value.
        random_state : int, RandomState or None

        Returns
        -------
        low, high : ndarrays
            One limit per dial value.
        """
        if not 0.0 < level < 1.0 or n_boot < 1:
            msg = f"level={level!r} must lie between 0 and 1, and n_boot={n_boot!r} be at least 1."
            raise ValueError(msg)
        draws = self._resampled(metric, n_boot, random_state, attribute)
        tail = (1.0 - level) / 2.0
        low, high = np.nanquantile(draws, (tail, 1.0 - tail), axis=1)
        return low, high

    def _resampled(
        self, metric: Metric, n_boot: int, random_state: Any, attribute: str | None = None
    ) -> Array:
        """The metric in resamples of the rows, (points, n_boot); all dial values share a resample."""
        evaluator, points = self._evaluator, range(len(self))
        name = None if callable(metric) else evaluator.check_curve(metric)
        draws = np.empty((len(self), n_boot))
        for batch, rows, W in evaluator.resamples(n_boot, read_seed(random_state)):
            for i in track(points, len(self), "resamples", verbose=self.estimator.verbose):
                if name is None:
                    p = self.predictions(i)
                    draws[i, batch] = [evaluator.call(metric, attribute, p, r) for r in rows]
                else:
                    each = evaluator.measure([name], self._outputs(slice(i, i + 1)), W)[name]
                    draws[i, batch] = evaluator.worst(name, np.moveaxis(each, 2, 0), attribute)
        return draws

    def table(self, n: int | None = None) -> Any:
        """One row per dial value: a pandas DataFrame, or a list of dicts where pandas is absent.

        Parameters
        ----------
        n : int, optional
            Show only n of the dial values, evenly spaced, both ends included.
        """
        rows = np.arange(len(self))
        if n is not None:
            rows = np.unique(np.linspace(0, len(self) - 1, n).round().astype(np.intp))
        columns = {"fairness": self.fairness, "error": self.error, "correlation": self.curve()}
        for metric, values in self._curves.items():
            repeated = metric.startswith("stat") and self._evaluator.one_cell
            for j, name in enumerate([] if repeated or metric == "error" else self.attributes):
                columns[f"{metric}[{name}]"] = self.curve(metric, name)
                if metric == "correlation" and len(self.cells) > 1:
                    for c, cell in enumerate(self.cells):
                        columns[f"{metric}[{name} | {cell}]"] = values[:, j, c]
        columns |= {"certificate": self.certificate, "noise": np.full(len(self), self.noise)}
        try:
            import pandas as pd
        except ImportError:
            return [{name: float(v[i]) for name, v in columns.items()} for i in rows]
        return pd.DataFrame({name: v[rows] for name, v in columns.items()})

    def plot(self, ax: Any = None, *, metric: str = "correlation") -> TradeoffDisplay:
        """Error against a parity metric, one curve per attribute (extra: matplotlib)."""
        parity = {name: self.curve(metric, name) for name in self.attributes}
        display = TradeoffDisplay(
            self.fairness.tolist(),
            self.error.tolist(),
            {name: values.tolist() for name, values in parity.items()},
            noise=self.noise if metric.endswith("correlation") else None,
            error_name=self.error_name,
            parity_name=metric.replace("_", " "),
        )
        return display.plot(ax)

    # ------------------------------------------------------------------ choosing

    def select(
        self,
        metric: Metric = "correlation",
        *,
        at_most: float | None = None,
        attribute: str | None = None,
        min_accuracy: float | None = None,
        max_error: float | None = None,
        confidence: float | None = 0.95,
        holdout: Any = None,
        strict: bool = False,
    ) -> Any:
        """Take the most accurate dial value that is fair enough on new rows, or the fairest accurate enough.

        A dial value counts as fair enough if the upper confidence bound of the metric keeps the limit, at
        this value and at all values between it and the fair end. The probability that a limit is promised
        and broken on new rows is then at most ``1 - confidence`` (out of fold this is approximate, and
        measured in the documentation; with ``holdout`` it is exact up to the approximation of the bound).

        Parameters
        ----------
        metric, attribute
            As in :meth:`curve`.
        at_most : float
            Bound on the metric: the dial value of lowest error that keeps it.
        min_accuracy, max_error : float
            Instead of ``at_most``, a budget: the dial value of lowest metric that keeps it. The confidence
            is then about the budget.
        confidence : float in (0.5, 1) or None, default=0.95
            Confidence with which the bound is kept on new rows. None compares the measured values
            themselves with the bound, which new rows then break about half of the time.
        holdout : tuple (X, y, sensitive_features), optional
            Rows that neither the model nor this path has seen, to judge the bound on instead of the rows of
            the path.
        strict : bool, default=False
            Raise ValueError if the bound cannot be kept, instead of a warning and the nearest model.

        Returns
        -------
        estimator
            Fitted, with ``selection_``: a :class:`Selection`. If no dial value keeps the bound, a
            warning is given and the nearest is returned (the fairest, or the most accurate). Beyond 1,
            ``get_params`` shows the fairness above 1; such a model predicts and moves by ``at``, but
            cannot be fitted again, because no constructor accepts that value.
        """
        if holdout is not None:
            return self._judged_on(holdout).select(
                metric,
                at_most=at_most,
                attribute=attribute,
                min_accuracy=min_accuracy,
                max_error=max_error,
                confidence=confidence,
                strict=strict,
            )
        name = metric if isinstance(metric, str) else getattr(metric, "__name__", repr(metric))
        classes = self._evaluator.classes is not None
        on, bound = one_bound(at_most, min_accuracy, max_error, classes=classes)
        value = self.curve(metric, attribute)
        found: dict[str, Any] = {}
        group = None
        if confidence is None:
            i, met = choose(name, value, self.error, on, bound)
        else:
            check_confidence(confidence)
            if self._in_sample:
                warn_user(_IN_SAMPLE, DataWarning)
            bounds = self._upper(metric if on == "metric" else "error", attribute, confidence)
            value = value if bounds.value is None else bounds.value
            i, met, found = self._promise(bounds.upper, value, on, bound)
            found |= {"upper": float(bounds.upper[i]), "confidence": confidence}
            group = bounds.smallest_group
        selection = Selection(
            fairness=float(self.fairness[i]),
            error=float(self.error[i]),
            metric=name,
            value=float(value[i]),
            attribute=attribute,
            bound=bound,
            bound_on=on,
            met=met,
            noise=self.noise,
            **found,
        )
        if strict and not met:
            raise ValueError(unmet(selection, group))
        if not met:
            warn_user(unmet(selection, group), DataWarning)
        out = move(self.estimator, selection.fairness)
        out.selection_ = selection
        return out

    def _judged_on(self, holdout: Any) -> FairnessPath:
        """The path of the same model on rows that are given as (X, y, sensitive_features)."""
        if not isinstance(holdout, tuple | list) or len(holdout) != 3:
            msg = (
                "holdout takes rows that neither the model nor the path has seen, as a tuple (X, y, "
                "sensitive_features)."
            )
            raise ValueError(msg)
        X, y, sensitive = holdout
        return FairnessPath.from_estimator(
            self.estimator,
            X,
            y,
            sensitive_features=sensitive,
            n_points=len(self),
            max_fairness=float(self.fairness[-1]),
        )

    def _upper(self, metric: Metric, attribute: str | None, confidence: float) -> Bounds:
        """Upper confidence bounds of a metric on new rows, at every dial value."""
        evaluator, independent = self._evaluator, len(self._predictions) == 1
        if callable(metric):
            draws = self._resampled(metric, _BOUND_RESAMPLES, 0, attribute)
            tail = 1.0 - (1.0 - confidence) / (1.0 if independent else 2.0)
            return Bounds(np.nanquantile(draws, tail, axis=1))
        name = evaluator.check_curve(metric)
        space = self.estimator._space(self.estimator._current_state)
        if name == "correlation" and not independent and isinstance(space, NewRows):
            # The model's own out-of-fold moments say more about it than the models of other folds.
            pairs = [space.bound(float(share), confidence, attribute) for share in self.fairness]
            value, upper = np.array(pairs).T
            return Bounds(upper, value=value)
        step = max(1, _BLOCK_NUMBERS // evaluator.n)
        parts = [
            upper_bounds(
                evaluator,
                name,
                self._outputs(slice(i, i + step)),
                attribute=attribute,
                confidence=confidence,
                independent=independent,
            )
            for i in range(0, len(self), step)
        ]
        return Bounds.joined(parts)

    def _promise(
        self, upper: Array, value: Array, on: str, bound: float
    ) -> tuple[int, bool, dict[str, Any]]:
        """Index of the dial value, whether its bound is kept, and about how many rows that would take."""
        limit = 1.0 - bound + 1e-12 if on == "accuracy" else bound
        if on != "metric":  # a budget: from the most accurate end
            allowed = promised(upper, int(np.argmin(upper)), 1, limit)
            if len(allowed):
                return int(allowed[np.argmin(value[allowed])]), True, {}
            return int(np.argmin(upper)), False, {}
        # The fair end: fairness 1, or beyond it where the bound is least.
        fair = int(np.argmin(np.abs(self.fairness - 1.0)))
        if self.fairness[-1] > 1.0:
            fair = int(np.argmin(upper))
        allowed = promised(upper, fair, -1, limit)
        if len(allowed):
            return int(allowed[np.argmin(self.error[allowed])]), True, {}
        needed = rows_needed(self._evaluator.n, float(value[fair]), float(upper[fair]), limit)
        return fair, False, {"rows_needed": needed}

    # ------------------------------------------------------------------ inside

    def _outputs(self, points: slice) -> Array:
        """Fitted scores of all rows at some dial values, (n, outputs, points)."""
        parts = [fold.at(points) for fold in self._predictions]
        if len(parts) == 1:
            return parts[0]
        out = np.empty((self._evaluator.n, *parts[0].shape[1:]))
        for fold, part in zip(self._predictions, parts, strict=True):
            out[fold.rows] = part
        return out

    def __len__(self) -> int:
        return len(self.fairness)

    def __repr__(self) -> str:
        return (
            f"FairnessPath({type(self.estimator).__name__}, {len(self)} points, fairness 0 to "
            f"{self.fairness[-1]:g}, {self.error_name} {self.error[0]:.4g} to {self.error[-1]:.4g})"
        )

    def _repr_html_(self) -> str:
        return path_html(self)


def fairness_path(
    estimator: FairKernelEstimator,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any = None,
    sample_weight: Any = None,
    cv: Any = 5,
    n_points: int = 101,
    max_fairness: float = 1.0,
) -> FairnessPath:
    """Fit and evaluate out of fold along the whole dial, then refit on all rows.

    Every row is predicted by a model that was not fitted on it; error and parity are computed on all
    rows together. The certificate is that of the refit, which :meth:`FairnessPath.select` returns.

    Parameters
    ----------
    estimator : fairspan estimator
        Cloned for each fold and for the refit. ``verbose`` shows progress.
    X, y, sensitive_features, control_features, sample_weight
        As in ``fit``.
    cv : int, splitter or iterable, default=5
        Number of folds, balanced over y and S; or splits that test every row once.
    n_points, max_fairness
        As in :meth:`FairnessPath.from_estimator`.

    Returns
    -------
    FairnessPath
    """
    grid = read_grid(estimator, n_points, max_fairness)
    # Aligned before the folds, which take rows by position.
    given = align_rows(
        X=X,
        y=y,
        sensitive_features=sensitive_features,
        control_features=control_features,
        sample_weight=sample_weight,
    )
    with each_warning_once():
        refit = clone(estimator).fit(**given)
        data = read_rows(refit, *given.values())
        evaluator = PathEvaluator(refit, data)
        folds = split(refit, data, _num_samples(given["X"]), cv)
        predictions = out_of_fold(estimator, given, data, folds, grid, evaluator)
        supremum = DialHeads.along(refit, grid).supremum
    share = float(np.mean([len(train) for train, _ in folds])) / _num_samples(given["X"])
    noise = sampling_noise(refit, evaluator, share)
    return FairnessPath(refit, grid, predictions, evaluator, supremum, noise)
