"""Displays of a path along the dial: error against parity, and the price of fairness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from fairspan.exceptions import DataWarning, each_warning_once, warn_user
from fairspan.method.linalg import Array
from fairspan.plotting.style import (
    COLOURS,
    LABEL,
    MARKERS,
    NOTE,
    TICK,
    Numbers,
    dress,
    line_look,
    new_axes,
    number,
    plain_label,
    styled,
)

Metric = str | Callable[..., float]
# Correlations of held-out rows are never as small as this.
_EXACT = 1e-9


class Path(Protocol):
    """The parts of a ``FairnessPath`` that displays read; its package is above this one."""

    fairness: Array
    error: Array
    error_name: str
    attributes: list[str]
    noise: float

    def curve(self, metric: Metric = ..., attribute: str | None = ...) -> Array:
        """A metric at every dial value."""

    def _resampled(self, metric: Metric, n_boot: int, random_state: Any) -> Array: ...


@runtime_checkable
class _Predictor(Protocol):
    def _path(self, X: Any, y: Any, **options: Any) -> Path: ...


def _path_of(model: Any, X: Any, y: Any, **options: Any) -> Path:
    """Error and parity of a fitted model along its dial; ``options`` as in ``FairnessPath``."""
    if not isinstance(model, _Predictor):
        raise TypeError(
            f"{type(model).__name__} is not a fairspan model that predicts. Give one; for a "
            f"FairRepresentation make a FairnessPath and use `from_path`."
        )
    return model._path(X, y, **options)


def _warn_if_in_sample(path: Path, rows: str) -> None:
    """Warn if rows that are called held-out are evidently the rows of the fit."""
    ends = np.flatnonzero(np.isclose(path.fairness, 1.0))
    if rows == "in-sample" or len(ends) == 0:
        return
    if path.curve("correlation")[ends[0]] < _EXACT < path.curve("correlation")[0]:
        warn_user(
            f"The display calls the rows {rows!r}, but no correlation is left at fairness 1, as on the "
            f"rows a model was fitted on. Give held-out rows, or rows='in-sample'.",
            DataWarning,
        )


class TradeoffDisplay:
    """Error against parity along the dial, one curve per protected attribute.

    Parameters
    ----------
    fairness : sequence of float
        Dial values, in the order of the points.
    error : sequence of float
        Held-out error at each.
    parity : mapping of str to sequence of float
        Held-out parity score (0 is fair) of each attribute.
    noise : float, optional
        Sampling noise of a parity score; drawn as a band from 0.
    error_name, parity_name : str
        Axis labels.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes, after :meth:`plot`.
    """

    def __init__(
        self,
        fairness: Numbers,
        error: Numbers,
        parity: Mapping[str, Numbers],
        *,
        noise: float | None = None,
        error_name: str = "held-out error",
        parity_name: str = "held-out correlation with the attribute",
    ) -> None:
        self.fairness = np.asarray(fairness, dtype=np.float64)
        self.error = np.asarray(error, dtype=np.float64)
        self.parity = {name: np.asarray(v, dtype=np.float64) for name, v in parity.items()}
        self.noise = noise
        self.error_name = error_name
        self.parity_name = parity_name

    @classmethod
    def from_path(
        cls,
        path: Path,
        metric: str = "correlation",
        *,
        rows: str = "held-out",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a path: one curve per attribute.

        Parameters
        ----------
        path : FairnessPath
        metric : str, default="correlation"
            As in ``FairnessPath.curve``.
        rows : str, default="held-out"
            Name of the rows of the path in the axis labels; "in-sample" for those of the fit.
        ax : matplotlib axes, optional
        **kwargs
            Of :meth:`plot`.
        """
        _warn_if_in_sample(path, rows)
        display = cls(
            path.fairness,
            path.error,
            {name: path.curve(metric, name) for name in path.attributes},
            noise=path.noise if metric.endswith("correlation") else None,
            error_name=f"{rows} {path.error_name}",
            parity_name=f"{rows} {metric.replace('_', ' ')}",
        )
        return display.plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: Any = None,
        metric: str = "correlation",
        n_points: int = 21,
        rows: str = "held-out",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a fitted model along its dial: the path of ``FairnessPath.from_estimator``.

        Parameters
        ----------
        model : fitted fairspan model that predicts
        X, y, sensitive_features, control_features, sample_weight
            Rows to evaluate on, as in ``fit``; held-out ones for honest numbers.
        metric, rows, ax, **kwargs
            As in :meth:`from_path`.
        n_points : int, default=21
            Number of dial values, equally spaced; all share one pass over the rows.
        """
        with each_warning_once():
            path = _path_of(
                model,
                X,
                y,
                sensitive_features=sensitive_features,
                control_features=control_features,
                sample_weight=sample_weight,
                n_points=n_points,
            )
            return cls.from_path(path, metric, rows=rows, ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, title: str | None = None, **kwargs: Any) -> Self:
        """Draw on ``ax`` (a new figure if None).

        Parameters
        ----------
        ax : matplotlib axes, optional
        title : str, optional
        **kwargs
            Properties of the curves, as in ``matplotlib.axes.Axes.plot``.
        """
        if ax is None:
            (ax,) = new_axes(4.6, 3.4)
        if self.noise is not None:
            # The edge shows the band in the legend too, where the legend lies on the band.
            band = {"fc": "0.92", "ec": "0.65", "lw": 0.6, "zorder": 0}
            ax.axvspan(0.0, self.noise, label="within sampling noise", **band)
        curves = []
        for i, (name, values) in enumerate(self.parity.items()):
            look = line_look(i) | {"marker": MARKERS[i % len(MARKERS)], "ms": 4, "lw": 1.5}
            look |= {"label": plain_label(name), "markevery": max(1, len(values) // 20)}
            curves += ax.plot(values, self.error, **styled(look, kwargs))
        ax.margins(y=0.08)  # room for the dial values at the ends of the curves
        ax.set_xlim(left=0.0)
        for i, curve in enumerate(curves):
            # Above and below in turn: curves of several attributes often end side by side.
            self._ends(ax, curve, above=i % 2 == 0)
        dress(ax, self.parity_name, self.error_name)
        words = "attribute (numbers: fairness dial)"
        ax.legend(frameon=False, fontsize=TICK, title=words, title_fontsize=NOTE)
        if title:
            ax.set_title(title, loc="left", fontsize=LABEL)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _ends(self, ax: Any, curve: Any, *, above: bool) -> None:
        """Write the dial values at both ends of a curve; one text if the ends coincide."""
        points = np.column_stack(curve.get_data())
        ends = [int(np.argmin(self.fairness)), int(np.argmax(self.fairness))]
        names = [f"{self.fairness[j]:g}" for j in ends]
        first, last = ax.transData.transform(points[ends]) * 72.0 / ax.figure.dpi
        if np.abs(first - last).max() < NOTE:
            ends, names = ends[:1], [" to ".join(dict.fromkeys(names))]
        offset, va = (4, "bottom") if above else (-4, "top")
        text = {"color": curve.get_color(), "fontsize": NOTE, "va": va}
        for j, name in zip(ends, names, strict=True):
            ax.annotate(name, points[j], xytext=(5, offset), textcoords="offset points", **text)


class PriceDisplay:
    """Extra error against fairness 0 along the dial, and the dial values that keep a parity bound.

    Parameters
    ----------
    fairness : sequence of float
        Dial values.
    price : sequence of float
        Error at each minus the error at fairness 0, on the same rows.
    low, high : sequence of float, optional
        Interval of each price.
    parity : sequence of float, optional
        Parity metric at each dial value.
    at_most : float, optional
        Bound on the parity metric. Dial values that keep it are shaded, and the cheapest of them is
        marked; if none keeps it, the nearest is marked.
    error_name, parity_name : str
        Names of the error and of the metric.
    level : float, optional
        Confidence level of the intervals, for the legend.
    rows : str, default="held-out"
        Name of the rows in the axis label.

    Attributes
    ----------
    chosen_ : int or None
        Index of the marked dial value.
    met_ : bool or None
        Whether the marked dial value keeps the bound.
    figure_, ax_ : matplotlib figure and axes, after :meth:`plot`.
    """

    def __init__(
        self,
        fairness: Numbers,
        price: Numbers,
        *,
        low: Numbers | None = None,
        high: Numbers | None = None,
        parity: Numbers | None = None,
        at_most: float | None = None,
        error_name: str = "error",
        parity_name: str = "correlation",
        level: float | None = None,
        rows: str = "held-out",
    ) -> None:
        self.fairness = np.asarray(fairness, dtype=np.float64)
        self.price = np.asarray(price, dtype=np.float64)
        self.low, self.high, self.parity = (
            None if values is None else np.asarray(values, dtype=np.float64)
            for values in (low, high, parity)
        )
        self.at_most, self.level, self.rows = at_most, level, rows
        self.error_name, self.parity_name = error_name, parity_name
        self.chosen_: int | None = None
        self.met_: bool | None = None
        if at_most is not None:
            if self.parity is None:
                raise ValueError("at_most is a bound on the parity metric: give `parity` too.")
            self.chosen_, self.met_ = _cheapest(self.parity, self.price, at_most)

    @classmethod
    def from_path(
        cls,
        path: Path,
        metric: Metric = "correlation",
        *,
        at_most: float | None = None,
        attribute: str | None = None,
        level: float = 0.9,
        n_boot: int = 200,
        random_state: Any = None,
        rows: str = "held-out",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the price along a path.

        Parameters
        ----------
        path : FairnessPath
        metric, attribute
            The bounded metric, as in ``FairnessPath.curve``.
        at_most : float, optional
            Bound on the metric; the mark is at the dial value that ``path.select(...,
            confidence=None)`` takes, by the measured values.
        level : float, default=0.9
            Confidence level of the intervals: percentiles of a paired bootstrap, where both errors of a
            price are computed on the same resampled rows. They show the sampling of these rows, not of
            the fit.
        n_boot : int, default=200
            Number of resamples.
        random_state : int, RandomState or None
        rows : str, default="held-out"
            Name of the rows of the path in the axis label; "in-sample" for those of the fit.
        ax : matplotlib axes, optional
        **kwargs
            Of :meth:`plot`.
        """
        if not 0.0 < level < 1.0 or n_boot < 1:
            msg = f"level={level!r} must lie between 0 and 1, and n_boot={n_boot!r} be at least 1."
            raise ValueError(msg)
        start = int(np.argmin(np.abs(path.fairness)))
        if path.fairness[start] != 0.0:
            raise ValueError("The path has no point at fairness 0 to count prices from.")
        _warn_if_in_sample(path, rows)
        draws = path._resampled("error", n_boot, random_state)
        tail = (1.0 - level) / 2.0
        low, high = np.quantile(draws - draws[start], (tail, 1.0 - tail), axis=1)
        name = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
        display = cls(
            path.fairness,
            path.error - path.error[start],
            low=low,
            high=high,
            parity=None if at_most is None else path.curve(metric, attribute),
            at_most=at_most,
            error_name=path.error_name,
            parity_name=name.replace("_", " "),
            level=level,
            rows=rows,
        )
        return display.plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        control_features: Any = None,
        sample_weight: Any = None,
        metric: Metric = "correlation",
        at_most: float | None = None,
        attribute: str | None = None,
        level: float = 0.9,
        n_boot: int = 200,
        random_state: Any = None,
        n_points: int = 21,
        rows: str = "held-out",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the price of a fitted model along its dial.

        Parameters
        ----------
        model : fitted fairspan model that predicts
        X, y, sensitive_features, control_features, sample_weight
            Rows to evaluate on, as in ``fit``; held-out ones for honest numbers.
        metric, at_most, attribute, level, n_boot, random_state, rows, ax, **kwargs
            As in :meth:`from_path`.
        n_points : int, default=21
            Number of dial values, equally spaced; all share one pass over the rows.
        """
        kwargs |= {"at_most": at_most, "attribute": attribute, "level": level, "n_boot": n_boot}
        kwargs |= {"random_state": random_state, "rows": rows, "ax": ax}
        with each_warning_once():
            path = _path_of(
                model,
                X,
                y,
                sensitive_features=sensitive_features,
                control_features=control_features,
                sample_weight=sample_weight,
                n_points=n_points,
            )
            return cls.from_path(path, metric, **kwargs)

    def plot(self, ax: Any = None, *, title: str | None = None, **kwargs: Any) -> Self:
        """Draw on ``ax`` (a new figure if None).

        Parameters
        ----------
        ax : matplotlib axes, optional
        title : str, optional
        **kwargs
            Properties of the line of prices, as in ``matplotlib.axes.Axes.plot``.
        """
        if ax is None:
            (ax,) = new_axes(4.2, 3.0)
        look = {"color": COLOURS[0], "ls": "-", "marker": "o", "ms": 3.5, "lw": 1.5}
        look |= {"label": "price", "markevery": max(1, len(self.fairness) // 10)}
        look = styled(look, kwargs)
        ax.axhline(0.0, color="0.5", lw=0.8, zorder=1)
        self._shade(ax)
        if self.low is not None and self.high is not None:
            name = "interval" if self.level is None else f"{self.level:.0%} interval"
            band = {"color": look["color"], "alpha": 0.2, "lw": 0, "label": name}
            ax.fill_between(self.fairness, self.low, self.high, **band)
        ax.plot(self.fairness, self.price, **look)
        self._mark(ax)
        first, last = self.fairness.min(), self.fairness.max()
        # Room for the markers at both ends.
        ax.set_xlim(first - 0.02 * (last - first), last + 0.02 * (last - first))
        extra = f"extra {self.error_name}\nagainst fairness 0 ({self.rows} rows)"
        dress(ax, "fairness (dial: 0 unconstrained, 1 fair)", extra)
        # A frame keeps the words readable on the hatch.
        ax.legend(framealpha=0.85, edgecolor="none", fontsize=NOTE, loc="best")
        if title:
            ax.set_title(title, loc="left", fontsize=LABEL)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _shade(self, ax: Any) -> None:
        """Shade the dial values that keep the bound."""
        if self.at_most is None or self.parity is None or not self.met_:
            return
        bound = f"{plain_label(self.parity_name)} \N{LESS-THAN OR EQUAL TO} {self.at_most:g}"
        # The hatch tells it from the band of intervals in grey print.
        look = {
            "fc": (COLOURS[2], 0.13),
            "ec": (COLOURS[2], 0.3),
            "lw": 0,
            "hatch": "//",
            "zorder": 0,
        }
        # From 0 to 1 of the height of the axes, so that prices of any size are shaded alike.
        height = {"step": "mid", "transform": ax.get_xaxis_transform()}
        allowed = self.parity <= self.at_most
        ax.fill_between(self.fairness, 0.0, 1.0, where=allowed, label=bound, **height, **look)

    def _mark(self, ax: Any) -> None:
        """Mark the chosen dial value."""
        if self.chosen_ is None or self.parity is None:
            return
        i = self.chosen_
        fairness, price = self.fairness[i], self.price[i]
        why = "cheapest that keeps it" if self.met_ else f"none keeps {self.at_most:g}; nearest"
        label = (
            f"{why}: fairness {fairness:.3g},\nprice {number(price)}, "
            f"{plain_label(self.parity_name)} {number(self.parity[i])}"
        )
        look = {"ms": 7, "mfc": "white", "mec": COLOURS[1], "mew": 1.5, "zorder": 4}
        ax.plot([fairness], [price], "D", clip_on=False, label=label, **look)


def _cheapest(parity: Array, price: Array, bound: float) -> tuple[int, bool]:
    """The dial value of ``select(..., confidence=None)``: cheapest within the bound, else nearest to it."""
    if not np.isfinite(parity).all():
        raise ValueError("The metric is not defined on these rows at every dial value.")
    allowed = np.flatnonzero(parity <= bound)
    if len(allowed) == 0:
        return int(np.lexsort((price, parity))[0]), False
    return int(allowed[np.lexsort((parity[allowed], price[allowed]))[0]]), True
