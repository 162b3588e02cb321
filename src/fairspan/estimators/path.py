"""The whole path at once: what every dial value predicts and costs, and which one to take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fairspan._html import path_html
from fairspan._system import track
from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.dial_predictor import (
    Heads,
    Strand,
    gather,
    move,
    out_of_fold,
    read_grid,
    read_rows,
    sampling_noise,
)
from fairspan.estimators.path_selection import Judge, Selection, choose, one_bound, warn_unless_met
from fairspan.exceptions import each_warning_once
from fairspan.inputs.rows import read_seed
from fairspan.method.linalg import Array
from fairspan.plotting import TradeoffDisplay

__all__ = ["FairnessPath", "Selection", "fairness_path"]

# Predictions held at once while curves are drawn: 8 MiB.
_BLOCK_NUMBERS = 2**20

Metric = str | Callable[..., float]


class FairnessPath:
    """Predictions, error and parity of one fit along the whole dial.

    Made by :meth:`from_estimator` (any rows) or :func:`fairness_path` (out of fold). All dial values
    share one pass over the rows: 2d scores each, then a small product per value.

    Parameters
    ----------
    estimator : fitted estimator
        What :meth:`select` moves along the dial.
    fairness : ndarray
        Dial values on the angle scale; past 1 the correlation changes sign.
    strands, judge
        Predictions of the rows, and what judges them.
    certificate : ndarray
        In-sample supremum of the estimator at each dial value.
    noise : float
        Sampling noise of a correlation, in the smallest cell of the criterion.

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
        self, estimator: FairKernelEstimator, fairness: Array, strands: list[Strand], judge: Judge,
        certificate: Array, noise: float,
    ) -> None:  # fmt: skip
        self.estimator, self.fairness = estimator, fairness
        self.certificate, self.noise = certificate, noise
        self.attributes, self.cells = judge.attributes, judge.cell_names
        self._strands, self._judge = strands, judge
        self.error_name = "RMSE" if judge.classes is None else "misclassification"
        step = max(1, _BLOCK_NUMBERS // (judge.n * strands[0].coef.shape[2]))
        blocks = (gather(strands, slice(i, i + step)) for i in range(0, len(fairness), step))
        found = [judge.measure(judge.curves, block, judge.weight[:, None]) for block in blocks]
        self._curves = {  # (points, attributes, cells)
            what: np.moveaxis(np.concatenate([f[what] for f in found], axis=2), 2, 0)
            for what in judge.curves
        }
        self.error = self._curves["error"][:, 0, 0]

    @classmethod
    def from_estimator(
        cls, fitted: FairKernelEstimator, X: Any, y: Any, *, sensitive_features: Any,
        control_features: Any = None, sample_weight: Any = None, n_points: int = 101,
        max_fairness: float = 1.0,
    ) -> FairnessPath:  # fmt: skip
        """Evaluate a fitted estimator on any rows, at ``n_points`` dial values.

        Parameters
        ----------
        fitted : fairspan estimator
            Fitted with y; a FairRepresentation predicts by its ridge head.
        X, y, sensitive_features, control_features, sample_weight
            Rows to evaluate on, as in ``fit``; held-out ones for honest numbers.
        n_points : int, default=101
            Number of dial values, equally spaced on the angle scale.
        max_fairness : float in (0, 2], default=1.0
            Values past 1 go beyond zero correlation, where gaps between *decisions* may close; 2
            mirrors the unconstrained model. Meant for one predictive direction of angle theta, and
            of use up to ``90 degrees / theta``, where the fitted slope changes its sign.
        """
        grid = read_grid(fitted, n_points, max_fairness)
        fitted._check_fitted()
        data = read_rows(fitted, X, y, sensitive_features, control_features, sample_weight)
        judge, heads = Judge(fitted, data), Heads.of(fitted, grid)
        strand = heads.strand(fitted, data.X, np.arange(data.n), judge.classes)
        return cls(fitted, grid, [strand], judge, heads.supremum, sampling_noise(fitted, judge))

    # ------------------------------------------------------------------ numbers

    def outputs(self, i: int) -> Array:
        """Fitted scores at the i-th dial value: (n, 1), or one column per class."""
        return gather(self._strands, slice(i, i + 1))[:, :, 0]

    def predictions(self, i: int) -> np.ndarray:
        """Predictions at the i-th dial value: numbers, or labels."""
        outputs, classes = gather(self._strands, slice(i, i + 1)), self._judge.classes
        return outputs[:, 0, 0] if classes is None else classes[self._judge.decide(outputs)[:, 0]]

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
            rows = np.arange(self._judge.n)
            call, points = self._judge.call, range(len(self))
            return np.array([call(metric, attribute, self.predictions(i), rows) for i in points])
        what = self._judge.check_curve(metric)
        return self._judge.worst(what, self._curves[what], attribute)

    def interval(
        self, metric: Metric = "error", level: float = 0.9, n_boot: int = 200, random_state: Any = None,
        *, attribute: str | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
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
        judge = self._judge
        what = None if callable(metric) else judge.check_curve(metric)
        draws = np.empty((len(self), n_boot))
        for batch, rows, W in judge.resamples(n_boot, read_seed(random_state)):
            points = range(len(self))
            for i in track(points, len(self), "resamples", verbose=self.estimator.verbose):
                if what is None:
                    p = self.predictions(i)
                    draws[i, batch] = [judge.call(metric, attribute, p, r) for r in rows]
                else:
                    each = judge.measure([what], gather(self._strands, slice(i, i + 1)), W)[what]
                    draws[i, batch] = judge.worst(what, np.moveaxis(each, 2, 0), attribute)
        tail = (1.0 - level) / 2.0
        low, high = np.nanquantile(draws, (tail, 1.0 - tail), axis=1)
        return low, high

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
        for what, values in self._curves.items():
            known = what == "error" or (what.startswith("stat") and self._judge.one_cell)
            for j, name in enumerate([] if known else self.attributes):
                columns[f"{what}[{name}]"] = self.curve(what, name)
                if what == "correlation" and len(self.cells) > 1:
                    for c, cell in enumerate(self.cells):
                        columns[f"{what}[{name} | {cell}]"] = values[:, j, c]
        columns |= {"certificate": self.certificate, "noise": np.full(len(self), self.noise)}
        try:
            import pandas as pd
        except ImportError:
            return [{name: float(v[i]) for name, v in columns.items()} for i in rows]
        return pd.DataFrame({name: v[rows] for name, v in columns.items()})

    def plot(self, ax: Any = None, *, metric: str = "correlation") -> TradeoffDisplay:
        """Error against a parity metric, one curve per attribute (extra: matplotlib)."""
        parity = {name: self.curve(metric, name) for name in self.attributes}
        noise = self.noise if metric.endswith("correlation") else None
        display = TradeoffDisplay(
            self.fairness.tolist(), self.error.tolist(), {k: v.tolist() for k, v in parity.items()},
            noise=noise, error_name=self.error_name, parity_name=metric.replace("_", " "),
        )  # fmt: skip
        return display.plot(ax)

    # ------------------------------------------------------------------ choosing

    def select(
        self, metric: Metric = "correlation", *, at_most: float | None = None,
        attribute: str | None = None, min_accuracy: float | None = None,
        max_error: float | None = None,
    ) -> Any:  # fmt: skip
        """The estimator at the cheapest dial value that is fair enough, or the fairest cheap enough.

        Parameters
        ----------
        metric, attribute
            As in :meth:`curve`.
        at_most : float
            Bound on the metric: the dial value of lowest error that keeps it.
        min_accuracy, max_error : float
            Instead of ``at_most``, a budget: the dial value of lowest metric that keeps it.

        Returns
        -------
        estimator
            Fitted, with ``selection_``: a :class:`Selection`. Where no dial value keeps the bound, it
            warns and returns the nearest (the fairest, or the most accurate). Past 1, ``get_params``
            shows the fairness above 1; such a model predicts and moves by ``at``, but refuses to be
            fitted again, as no constructor takes that value.
        """
        name = metric if isinstance(metric, str) else getattr(metric, "__name__", repr(metric))
        classes = self._judge.classes is not None
        on, bound = one_bound(at_most, min_accuracy, max_error, classes=classes)
        value = self.curve(metric, attribute)
        i, met = choose(name, value, self.error, on, bound)
        found = float(self.fairness[i]), float(self.error[i]), name, float(value[i]), attribute
        selection = Selection(*found, bound, on, met, self.noise)
        warn_unless_met(selection)
        out = move(self.estimator, selection.fairness)
        out.selection_ = selection
        return out

    # ------------------------------------------------------------------ inside

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
    estimator: FairKernelEstimator, X: Any, y: Any, *, sensitive_features: Any,
    control_features: Any = None, sample_weight: Any = None, cv: Any = 5, n_points: int = 101,
    max_fairness: float = 1.0,
) -> FairnessPath:  # fmt: skip
    """Fit and evaluate out of fold along the whole dial, then refit on all rows.

    Every row is predicted by the fold that did not see it; error and parity are taken on all rows
    together. The path's certificate is of the refit, which :meth:`FairnessPath.select` returns.

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
    given = X, y, sensitive_features, control_features, sample_weight
    with each_warning_once():
        final, judge, strands, share = out_of_fold(estimator, grid, cv, *given)
        supremum = Heads.of(final, grid).supremum
    noise = sampling_noise(final, judge, share)
    return FairnessPath(final, grid, strands, judge, supremum, noise)
