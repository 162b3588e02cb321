"""What fairness costs: error against parity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from fairspan.exceptions import each_warning_once
from fairspan.plotting.dialled import Dialled, check_rows_said
from fairspan.plotting.style import (
    LABEL,
    MARKERS,
    NOTE,
    TICK,
    dress,
    line_look,
    new_axes,
    plain_label,
    styled,
)

__all__ = ["TradeoffDisplay"]


class TradeoffDisplay:
    """What fairness costs: error against parity, one curve per protected attribute.

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
        fairness: Sequence[float],
        error: Sequence[float],
        parity: Mapping[str, Sequence[float]],
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
        cls, path: Any, metric: str = "correlation", *, rows: str = "held-out", ax: Any = None,
        **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw a path: one curve per attribute.

        Parameters
        ----------
        path : FairnessPath
        metric : str, default="correlation"
            As in ``FairnessPath.curve``.
        rows : str, default="held-out"
            What the rows of the path are, for the axis labels; "in-sample" for those of the fit.
        ax : matplotlib axes, optional
        **kwargs
            Of :meth:`plot`.
        """
        check_rows_said(path, rows)
        noise = path.noise if metric.endswith("correlation") else None
        display = cls(
            path.fairness, path.error, {name: path.curve(metric, name) for name in path.attributes},
            noise=noise, error_name=f"{rows} {path.error_name}",
            parity_name=f"{rows} {metric.replace('_', ' ')}",
        )  # fmt: skip
        return display.plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, *, sensitive_features: Any, control_features: Any = None,
        sample_weight: Any = None, metric: str = "correlation", n_points: int = 21,
        rows: str = "held-out", ax: Any = None, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw a fitted model along its dial.

        Parameters
        ----------
        model : fitted fairspan model that predicts
        X, y, sensitive_features, control_features, sample_weight
            Rows to evaluate on, as in ``fit``; held-out ones for honest numbers.
        metric, rows, ax, **kwargs
            As in :meth:`from_path`.
        n_points : int, default=21
            Dial values; the model predicts at each of them. A ``FairnessPath`` is faster.
        """
        with each_warning_once():
            path = Dialled(
                model, X, y, sensitive_features=sensitive_features, control_features=control_features,
                sample_weight=sample_weight, n_points=n_points,
            )  # fmt: skip
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
            # The edge shows the band in the legend too, where that stands on the band.
            ax.axvspan(
                0.0,
                self.noise,
                fc="0.92",
                ec="0.65",
                lw=0.6,
                zorder=0,
                label="within sampling noise",
            )
        curves = []
        for i, (name, values) in enumerate(self.parity.items()):
            look = {
                **line_look(i), "marker": MARKERS[i % len(MARKERS)], "ms": 4, "lw": 1.5,
                "label": plain_label(name), "markevery": max(1, len(values) // 20),
            }  # fmt: skip
            curves += ax.plot(values, self.error, **styled(look, kwargs))
        ax.margins(y=0.08)  # for the texts below
        ax.set_xlim(left=0.0)
        for i, curve in enumerate(curves):
            # Above and below in turn: curves of several attributes often end side by side.
            self._ends(ax, curve, above=i % 2 == 0)
        dress(ax, self.parity_name, self.error_name)
        ax.legend(
            frameon=False, fontsize=TICK, title="attribute (numbers: fairness dial)",
            title_fontsize=NOTE,
        )  # fmt: skip
        if title:
            ax.set_title(title, loc="left", fontsize=LABEL)
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

    def _ends(self, ax: Any, curve: Any, *, above: bool) -> None:
        """Dial values at both ends; one text where the ends meet."""
        points = np.column_stack(curve.get_data())
        ends = [int(np.argmin(self.fairness)), int(np.argmax(self.fairness))]
        names = [f"{self.fairness[j]:g}" for j in ends]
        first, last = ax.transData.transform(points[ends]) * 72.0 / ax.figure.dpi
        if np.abs(first - last).max() < NOTE:
            ends, names = ends[:1], [" to ".join(dict.fromkeys(names))]
        for j, name in zip(ends, names, strict=True):
            ax.annotate(
                name, points[j], xytext=(5, 4 if above else -4), textcoords="offset points",
                va="bottom" if above else "top", color=curve.get_color(), fontsize=NOTE,
            )  # fmt: skip
