"""Numbers of a path: predictions, error and parity at every dial value, and their intervals on new rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fairspan._system import track
from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.dial_predictor import DialOutputs
from fairspan.estimators.path_bounds import Bounds, Limits, confidence_limits, resample_limits
from fairspan.estimators.path_selection import PathEvaluator
from fairspan.inputs.checks import check_confidence
from fairspan.inputs.config import read_seed
from fairspan.method.decision_rule import decide
from fairspan.method.linalg import Array
from fairspan.method.new_rows_space import NewRows
from fairspan.method.promises import start_is_searched

# Predictions held at once while the curves are computed: 8 MiB.
_BLOCK_NUMBERS = 2**20
# Resamples for the bound of a metric that is a function.
_BOUND_RESAMPLES = 400

IN_SAMPLE = (
    "Some of the rows of this path are training rows, on which a model looks better than on new ones, so the "
    "bound is no promise. Use held-out rows, fairness_path (out of fold), or confidence=None."
)

Metric = str | Callable[..., float]


class PathNumbers:
    """Predictions, error and parity of one fit along the whole dial; see ``FairnessPath``."""

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
        self.in_sample = in_sample
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

    def bounds(
        self,
        metric: Metric = "correlation",
        attribute: str | None = None,
        *,
        confidence: float = 0.95,
    ) -> Bounds:
        """Estimate a metric on new rows at every dial value, with the bounds that :meth:`select` uses.

        Parameters
        ----------
        metric, attribute
            As in :meth:`curve`.
        confidence : float in (0.5, 1), default=0.95
            Out of fold, of the interval. On rows of their own, of each of its two limits.

        Returns
        -------
        Bounds
            With arrays ``value``, ``lower`` and ``upper``. Out of fold, the correlation is the one that the
            model's own certificate expects on new rows, if it has one; else it is that of :meth:`curve`.
        """
        check_confidence(confidence)
        if self.in_sample:
            raise ValueError(IN_SAMPLE)
        return self._bounds(metric, attribute, confidence)

    @property
    def rows(self) -> str:
        """Name of the rows of the path: "out of fold", "held-out" or "in-sample" (training rows)."""
        if self.in_sample:
            return "in-sample"
        return "held-out" if len(self._predictions) == 1 else "out of fold"

    def table(self, n: int | None = None, *, confidence: float | None = 0.95) -> Any:
        """One row per dial value: a pandas DataFrame, or a list of dicts where pandas is absent.

        Parameters
        ----------
        n : int, optional
            Show only n of the dial values, evenly spaced, both ends included.
        confidence : float in (0.5, 1) or None, default=0.95
            Columns "... low" and "... high" are the interval on new rows, as in :meth:`bounds`, and
            "... expected" is its estimate where it differs from the measured value. None leaves these columns
            out, and so do training rows, which allow no interval.
        """
        points = np.arange(len(self))
        if n is not None:
            points = np.unique(np.linspace(0, len(self) - 1, n).round().astype(np.intp))
        columns = {name: values[points] for name, values in self._columns(confidence).items()}
        try:
            import pandas as pd
        except ImportError:
            rows = range(len(points))
            return [{name: float(values[i]) for name, values in columns.items()} for i in rows]
        return pd.DataFrame(columns)

    def _columns(self, confidence: float | None) -> dict[str, Array]:
        """Columns of the table; an interval is beside the numbers that it is about."""
        out = {"fairness": self.fairness}

        def add(name: str, metric: str, attribute: str | None) -> None:
            out[name] = self.curve(metric, attribute)
            if confidence is None or self.in_sample:
                return
            bounds = self.bounds(metric, attribute, confidence=confidence)
            if not np.array_equal(bounds.value, out[name], equal_nan=True):
                out[f"{name} expected"] = bounds.value
            out.update({f"{name} low": bounds.lower, f"{name} high": bounds.upper})

        add("error", "error", None)
        out["correlation"] = self.curve()
        for metric, values in self._curves.items():
            repeated = metric.startswith("stat") and self._evaluator.one_cell
            for j, name in enumerate([] if repeated or metric == "error" else self.attributes):
                add(f"{metric}[{name}]", metric, name)
                if metric == "correlation" and len(self.cells) > 1:
                    for c, cell in enumerate(self.cells):
                        out[f"{metric}[{name} | {cell}]"] = values[:, j, c]
        return out | {"certificate": self.certificate, "noise": np.full(len(self), self.noise)}

    # ------------------------------------------------------------------ inside

    @property
    def _rate_spread(self) -> float:
        """How much more rates vary on new rows than out of fold, for decision rules."""
        rules = self.estimator._fit_state.decisions
        equal = self.estimator.certificate_.decisions is not None
        return rules.rate_spread if rules is not None and equal else 1.0

    def _bounds(
        self,
        metric: Metric,
        attribute: str | None,
        confidence: float,
        *,
        searched: bool | None = None,
    ) -> Bounds:
        """Bounds on new rows; ``searched``: the start of the order is looked for on the rows."""
        searched = start_is_searched(self.fairness) if searched is None else searched
        independent = len(self._predictions) == 1
        one_sided, value = independent and not searched, self.curve(metric, attribute)
        expected = None if independent else self._expected(metric, attribute, confidence)
        if expected is not None:
            value, upper, lower = expected
            limits = Limits(lower, upper)
        elif callable(metric):
            draws = self._resampled(metric, _BOUND_RESAMPLES, 0, attribute)
            limits = resample_limits(draws, confidence, one_sided=one_sided)
        else:
            options: Any = {
                "attribute": attribute,
                "confidence": confidence,
                "one_sided": one_sided,
                "rate_spread": 1.0 if independent else self._rate_spread,
            }
            step = max(1, _BLOCK_NUMBERS // self._evaluator.n)
            blocks = (self._outputs(slice(i, i + step)) for i in range(0, len(self), step))
            limits = Limits.joined(
                [confidence_limits(self._evaluator, metric, block, **options) for block in blocks]
            )
        return Bounds(
            value=value,
            lower=limits.lower,
            upper=limits.upper,
            confidence=confidence,
            one_sided=one_sided,
            group=limits.group,
        )

    def _expected(self, metric: Metric, attribute: str | None, confidence: float) -> Array | None:
        """Correlation that the model's certificate expects on new rows, its upper and lower bound.

        The model's own out-of-fold moments say more about it than the models of other folds.
        """
        space = self.estimator._space(self.estimator._current_state)
        decides = self.estimator._fit_state.decisions is not None
        if metric != "correlation" or decides or not isinstance(space, NewRows):
            return None
        if attribute is not None and attribute not in space.attributes:
            return None
        points = [space.bound(float(share), confidence, attribute) for share in self.fairness]
        return np.array(points).T

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
