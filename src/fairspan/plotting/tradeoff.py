"""Error against parity along the dial, and what all displays of a path share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from fairspan.exceptions import DataWarning, each_warning_once, warn_user
from fairspan.method.linalg import Array
from fairspan.plotting.style import (
    LABEL,
    MARKERS,
    NOTE,
    TICK,
    Numbers,
    dress,
    line_look,
    new_axes,
    plain_label,
    styled,
)

__all__ = ["Metric", "Path", "TradeoffDisplay", "path_of", "warn_if_in_sample"]

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


def path_of(model: Any, X: Any, y: Any, **options: Any) -> Path:
    """Error and parity of a fitted model along its dial; ``options`` as in ``FairnessPath``."""
    if not isinstance(model, _Predictor):
        raise TypeError(
            f"{type(model).__name__} is not a fairspan model that predicts. Give one; for a "
            f"FairRepresentation make a FairnessPath and use `from_path`."
        )
    return model._path(X, y, **options)


def warn_if_in_sample(path: Path, rows: str) -> None:
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
        warn_if_in_sample(path, rows)
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
            path = path_of(
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
