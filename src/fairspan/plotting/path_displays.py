"""Displays of a path along the dial: error against parity, and the price of fairness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from fairspan.method.problem import Codes
from fairspan.method.promises import choose, keep_limit
from fairspan.plotting.path_parts import Metric, Path, PathDisplay, name_of, name_of_rows, on_rows
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


class TradeoffDisplay(PathDisplay):
    """Error against parity along the dial, one curve per protected attribute.

    Parameters
    ----------
    fairness : sequence of float
        Dial values, in the order of the points.
    error : sequence of float
        Error on new rows at each.
    parity : mapping of str to sequence of float
        Parity score on new rows (0 is fair) of each attribute.
    low, high : mapping of str to sequence of float, optional
        Interval of each parity score; drawn as a band.
    noise : float, optional
        Sampling noise of a parity score; drawn as a band from 0.
    error_name, parity_name : str
        Axis labels.
    band_name : str
        Name of the intervals in the legend.

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
        low: Mapping[str, Numbers] | None = None,
        high: Mapping[str, Numbers] | None = None,
        noise: float | None = None,
        error_name: str = "held-out error",
        parity_name: str = "held-out correlation with the attribute",
        band_name: str = "interval on new rows",
    ) -> None:
        self.fairness = np.asarray(fairness, dtype=np.float64)
        self.error = np.asarray(error, dtype=np.float64)
        self.parity, self.low, self.high = (
            {name: np.asarray(v, dtype=np.float64) for name, v in (values or {}).items()}
            for values in (parity, low, high)
        )
        self.noise = noise
        self.error_name, self.parity_name, self.band_name = error_name, parity_name, band_name

    @classmethod
    def from_path(
        cls,
        path: Path,
        metric: Metric = "correlation",
        *,
        confidence: float | None = 0.95,
        rows: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a path: one curve per attribute, with its interval on new rows.

        Parameters
        ----------
        path : FairnessPath
        metric : str or callable, default="correlation"
            As in ``FairnessPath.curve``.
        confidence : float in (0.5, 1) or None, default=0.95
            Of the intervals, whose upper limits ``FairnessPath.select`` compares with a limit. None draws the
            measured values without intervals. The rows of the fit allow none.
        rows : str, optional
            Name of the rows of the path in labels; by default "out of fold" or "held-out". Give "in-sample"
            for the rows of the fit.
        ax : matplotlib axes, optional
        **kwargs
            Of :meth:`plot`.
        """
        rows = name_of_rows(path, rows)
        name = name_of(metric)
        options: dict[str, Any] = {
            "noise": path.noise if name.endswith("correlation") else None,
            "error_name": f"{rows} {path.error_name}",
            "parity_name": f"{rows} {name}",
        }
        if confidence is None or rows == "in-sample":
            parity = {each: path.curve(metric, each) for each in path.attributes}
        else:
            found = {
                each: path.bounds(metric, each, confidence=confidence) for each in path.attributes
            }
            parity = {each: bounds.value for each, bounds in found.items()}
            words = f"on new rows ({rows}), {next(iter(found.values())).words}"
            options |= {
                "low": {each: bounds.lower for each, bounds in found.items()},
                "high": {each: bounds.upper for each, bounds in found.items()},
                "error_name": f"{path.error_name} on new rows ({rows})",
                "parity_name": f"{name} {words}",
                "band_name": words,
            }
        return cls(path.fairness, path.error, parity, **options).plot(ax, **kwargs)

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
            if name in self.low and name in self.high:
                # One entry in the legend for the bands of all attributes.
                band = {"color": curves[-1].get_color(), "alpha": 0.15, "lw": 0, "zorder": 1}
                band["label"] = f"_{self.band_name}" if i else self.band_name
                ax.fill_betweenx(self.error, self.low[name], self.high[name], **band)
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


class PriceDisplay(PathDisplay):
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
    upper : sequence of float, optional
        Upper confidence bound of the metric on new rows at each dial value.
    at_most : float, optional
        Bound on the parity metric. Dial values that keep it are shaded, and the cheapest of them is
        marked; if none keeps it, the nearest is marked. With ``upper``, these are the values that keep it on
        new rows with ``confidence``, as ``FairnessPath.select`` finds them; else the measured values decide.
    error_name, parity_name : str
        Names of the error and of the metric.
    level : float, optional
        Confidence level of the intervals, for the legend.
    confidence : str, optional
        Confidence of ``upper`` in words, for the legend.
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
        upper: Numbers | None = None,
        at_most: float | None = None,
        error_name: str = "error",
        parity_name: str = "correlation",
        level: float | None = None,
        confidence: str | None = None,
        rows: str = "held-out",
    ) -> None:
        self.fairness = np.asarray(fairness, dtype=np.float64)
        self.price = np.asarray(price, dtype=np.float64)
        self.low, self.high, self.parity, self.upper = (
            None if values is None else np.asarray(values, dtype=np.float64)
            for values in (low, high, parity, upper)
        )
        self.at_most, self.level, self.confidence, self.rows = at_most, level, confidence, rows
        self.error_name, self.parity_name = error_name, parity_name
        self.chosen_: int | None = None
        self.met_: bool | None = None
        self._allowed: Codes = np.zeros(0, dtype=np.intp)
        if at_most is None:
            return
        if self.parity is None:
            raise ValueError("at_most is a bound on the parity metric: give `parity` too.")
        if self.upper is None:
            self.chosen_, self.met_ = choose(
                parity_name, self.parity, self.price, "metric", at_most
            )
            self._allowed = np.flatnonzero(self.parity <= at_most)
        else:
            self.chosen_, self._allowed = keep_limit(self.fairness, self.price, self.upper, at_most)
            self.met_ = len(self._allowed) > 0

    @classmethod
    def from_path(
        cls,
        path: Path,
        metric: Metric = "correlation",
        *,
        at_most: float | None = None,
        attribute: str | None = None,
        confidence: float | None = 0.95,
        level: float = 0.9,
        n_boot: int = 200,
        random_state: Any = None,
        rows: str | None = None,
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
            Bound on the metric; the mark is at the dial value that ``path.select(metric, at_most=at_most,
            confidence=confidence)`` takes.
        confidence : float in (0.5, 1) or None, default=0.95
            Confidence with which the bound is kept on new rows. None, and the rows of the fit, compare the
            measured values; the legend then says so.
        level : float, default=0.9
            Confidence level of the intervals: percentiles of a paired bootstrap, where both errors of a
            price are computed on the same resampled rows. They show the sampling of these rows, not of
            the fit.
        n_boot : int, default=200
            Number of resamples.
        random_state : int, RandomState or None
        rows, ax, **kwargs
            As in :meth:`TradeoffDisplay.from_path`.
        """
        if not 0.0 < level < 1.0 or n_boot < 1:
            msg = f"level={level!r} must lie between 0 and 1, and n_boot={n_boot!r} be at least 1."
            raise ValueError(msg)
        start = int(np.argmin(np.abs(path.fairness)))
        if path.fairness[start] != 0.0:
            raise ValueError("The path has no point at fairness 0 to count prices from.")
        rows = name_of_rows(path, rows)
        draws = path._resampled("error", n_boot, random_state)
        tail = (1.0 - level) / 2.0
        low, high = np.quantile(draws - draws[start], (tail, 1.0 - tail), axis=1)
        options: dict[str, Any] = {}
        if at_most is not None:
            options = {"parity": path.curve(metric, attribute), "at_most": at_most}
            if confidence is not None and rows != "in-sample":
                bounds = path.bounds(metric, attribute, confidence=confidence)
                words = f"{100.0 * confidence:.4g} %"
                options |= {"parity": bounds.value, "upper": bounds.upper, "confidence": words}
        display = cls(
            path.fairness,
            path.error - path.error[start],
            low=low,
            high=high,
            error_name=path.error_name,
            parity_name=name_of(metric),
            level=level,
            rows=rows,
            **options,
        )
        return display.plot(ax, **kwargs)

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
        extra = f"extra {self.error_name} against\nfairness 0, {on_rows(self.rows)}"
        dress(ax, "fairness (dial: 0 unconstrained, 1 fair)", extra)
        # A frame keeps the words readable on the hatch.
        ax.legend(framealpha=0.85, edgecolor="none", fontsize=NOTE, loc="best")
        if title:
            ax.set_title(title, loc="left", fontsize=LABEL)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _shade(self, ax: Any) -> None:
        """Shade the dial values that keep the bound."""
        if not self.met_:
            return
        on = f"on new rows, {self.confidence or 'with confidence'}"
        if self.upper is None:
            on = "as measured"
        bound = f"{plain_label(self.parity_name)} \N{LESS-THAN OR EQUAL TO} {self.at_most:g} {on}"
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
        allowed = np.isin(np.arange(len(self.fairness)), self._allowed)
        ax.fill_between(self.fairness, 0.0, 1.0, where=allowed, label=bound, **height, **look)

    def _mark(self, ax: Any) -> None:
        """Mark the chosen dial value."""
        if self.chosen_ is None or self.parity is None:
            return
        i = self.chosen_
        fairness, price = self.fairness[i], self.price[i]
        why = "cheapest that keeps it" if self.met_ else f"none keeps {self.at_most:g}; nearest"
        value = f"{plain_label(self.parity_name)} {number(self.parity[i])}"
        if self.upper is not None:
            why = why if self.met_ else f"{self.at_most:g} cannot be promised; fair end"
            value += f", at most {number(self.upper[i])}"
        label = f"{why}: fairness {fairness:.3g},\nprice {number(price)}, {value}"
        look = {"ms": 7, "mfc": "white", "mec": COLOURS[1], "mew": 1.5, "zorder": 4}
        ax.plot([fairness], [price], "D", clip_on=False, label=label, **look)
