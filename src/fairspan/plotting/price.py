"""The price of fairness: extra error against the unconstrained model, along the dial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from fairspan.exceptions import each_warning_once
from fairspan.inputs.rows import read_seed
from fairspan.method.linalg import Array
from fairspan.plotting.dialled import Dialled, check_rows_said
from fairspan.plotting.style import (
    COLOURS,
    LABEL,
    NOTE,
    dress,
    new_axes,
    number,
    plain_label,
    styled,
)

__all__ = ["PriceDisplay"]

Metric = str | Callable[..., float]

# Weights of resamples held at once: 32 MiB.
_BATCH_NUMBERS = 4 * 2**20


class PriceDisplay:
    """Extra error against fairness 0 along the dial, and where a bound on parity is met.

    Parameters
    ----------
    fairness : sequence of float
        Dial values.
    price : sequence of float
        Error at each minus the error at fairness 0, on the same rows.
    low, high : sequence of float, optional
        Interval of each price.
    parity : sequence of float, optional
        Parity metric at each dial value; what ``at_most`` is about.
    at_most : float, optional
        Bound on it. Dial values that keep it are shaded, and the cheapest of them is marked; where
        none keeps it, the nearest is.
    error_name, parity_name : str
        What the error and the metric are.
    level : float, optional
        Of the intervals, for the legend.
    rows : str, default="held-out"
        What the rows are, for the axis label.

    Attributes
    ----------
    chosen_ : int or None
        Place of the marked dial value.
    met_ : bool or None
        Whether it keeps the bound.
    figure_, ax_ : matplotlib figure and axes, after :meth:`plot`.
    """

    def __init__(
        self, fairness: Sequence[float], price: Sequence[float], *,
        low: Sequence[float] | None = None, high: Sequence[float] | None = None,
        parity: Sequence[float] | None = None, at_most: float | None = None,
        error_name: str = "error", parity_name: str = "correlation", level: float | None = None,
        rows: str = "held-out",
    ) -> None:  # fmt: skip
        self.fairness = np.asarray(fairness, dtype=np.float64)
        self.price = np.asarray(price, dtype=np.float64)
        self.low = None if low is None else np.asarray(low, dtype=np.float64)
        self.high = None if high is None else np.asarray(high, dtype=np.float64)
        self.parity = None if parity is None else np.asarray(parity, dtype=np.float64)
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
        cls, path: Any, metric: Metric = "correlation", *, at_most: float | None = None,
        attribute: str | None = None, level: float = 0.9, n_boot: int = 200,
        random_state: Any = None, rows: str = "held-out", ax: Any = None, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw the price along a path.

        Parameters
        ----------
        path : FairnessPath
        metric, attribute
            As in ``FairnessPath.curve``; what the bound is on.
        at_most : float, optional
            Bound on the metric; the mark is at the dial value ``path.select`` takes.
        level : float, default=0.9
            Of the intervals: percentiles of a paired bootstrap, where both errors of a price are taken
            on the same resampled rows. The sampling of these rows, not of the fit.
        n_boot : int, default=200
            Resamples.
        random_state : int, RandomState or None
        rows : str, default="held-out"
            What the rows of the path are, for the axis label; "in-sample" for those of the fit.
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
        check_rows_said(path, rows)
        squared = path.error_name == "RMSE"
        losses, weight = _losses(path, squared=squared)
        draws = _paired_draws(losses, weight, start, n_boot, random_state, squared=squared)
        tail = (1.0 - level) / 2.0
        low, high = np.quantile(draws, (tail, 1.0 - tail), axis=1)
        name = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
        display = cls(
            path.fairness, path.error - path.error[start], low=low, high=high,
            parity=None if at_most is None else path.curve(metric, attribute), at_most=at_most,
            error_name=path.error_name, parity_name=name.replace("_", " "), level=level, rows=rows,
        )  # fmt: skip
        return display.plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, *, sensitive_features: Any, control_features: Any = None,
        sample_weight: Any = None, metric: Metric = "correlation", at_most: float | None = None,
        attribute: str | None = None, level: float = 0.9, n_boot: int = 200,
        random_state: Any = None, n_points: int = 21, rows: str = "held-out", ax: Any = None,
        **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw the price of a fitted model along its dial.

        Parameters
        ----------
        model : fitted fairspan model that predicts
        X, y, sensitive_features, control_features, sample_weight
            Rows to evaluate on, as in ``fit``; held-out ones for honest numbers.
        metric, at_most, attribute, level, n_boot, random_state, rows, ax, **kwargs
            As in :meth:`from_path`.
        n_points : int, default=21
            Dial values; the model predicts at each of them. A ``FairnessPath`` is faster.
        """
        with each_warning_once():
            path = Dialled(
                model, X, y, sensitive_features=sensitive_features, control_features=control_features,
                sample_weight=sample_weight, n_points=n_points,
            )  # fmt: skip
            return cls.from_path(
                path, metric, at_most=at_most, attribute=attribute, level=level, n_boot=n_boot,
                random_state=random_state, rows=rows, ax=ax, **kwargs,
            )  # fmt: skip

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
        look = {
            "color": COLOURS[0], "ls": "-", "marker": "o", "ms": 3.5, "lw": 1.5, "label": "price",
            "markevery": max(1, len(self.fairness) // 10),
        }  # fmt: skip
        look = styled(look, kwargs)
        ax.axhline(0.0, color="0.5", lw=0.8, zorder=1)
        self._shade(ax)
        if self.low is not None and self.high is not None:
            said = "interval" if self.level is None else f"{self.level:.0%} interval"
            ax.fill_between(
                self.fairness, self.low, self.high, color=look["color"], alpha=0.2, lw=0, label=said
            )
        ax.plot(self.fairness, self.price, **look)
        self._mark(ax)
        first, last = self.fairness.min(), self.fairness.max()
        # Room for the markers at both ends.
        ax.set_xlim(first - 0.02 * (last - first), last + 0.02 * (last - first))
        dress(
            ax, "fairness (dial: 0 unconstrained, 1 fair)",
            f"extra {self.error_name}\nagainst fairness 0 ({self.rows} rows)",
        )  # fmt: skip
        # On the hatch its words would be hard to read.
        ax.legend(framealpha=0.85, edgecolor="none", fontsize=NOTE, loc="best")
        if title:
            ax.set_title(title, loc="left", fontsize=LABEL)
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

    def _shade(self, ax: Any) -> None:
        """Dial values that keep the bound."""
        if self.at_most is None or self.parity is None or not self.met_:
            return
        kept = self.parity <= self.at_most
        said = f"{plain_label(self.parity_name)} \N{LESS-THAN OR EQUAL TO} {self.at_most:g}"
        # Through the axes' own height: prices of any size are shaded alike. Hatched, as grey print
        # does not tell it from the band of intervals.
        ax.fill_between(
            self.fairness, 0.0, 1.0, where=kept, fc=(COLOURS[2], 0.13), ec=(COLOURS[2], 0.3), lw=0,
            hatch="//", step="mid", transform=ax.get_xaxis_transform(), label=said, zorder=0,
        )  # fmt: skip

    def _mark(self, ax: Any) -> None:
        if self.chosen_ is None or self.parity is None:
            return
        i = self.chosen_
        place, price = self.fairness[i], self.price[i]
        said = "cheapest that keeps it" if self.met_ else f"none keeps {self.at_most:g}; nearest"
        ax.plot(
            [place], [price], "D", ms=7, mfc="white", mec=COLOURS[1], mew=1.5, zorder=4, clip_on=False,
            label=f"{said}: fairness {place:.3g},\nprice {number(price)}, "
            f"{plain_label(self.parity_name)} {number(self.parity[i])}",
        )  # fmt: skip


def _cheapest(parity: Array, price: Array, bound: float) -> tuple[int, bool]:
    """The place ``FairnessPath.select`` takes: cheapest within the bound, else the nearest to it."""
    if not np.isfinite(parity).all():
        raise ValueError("The metric is not defined on these rows at every dial value.")
    kept = np.flatnonzero(parity <= bound)
    if len(kept) == 0:
        return int(np.lexsort((price, parity))[0]), False
    return int(kept[np.lexsort((parity[kept], price[kept]))[0]]), True


def _losses(path: Any, *, squared: bool) -> tuple[Array, Array]:
    """Loss of each row at each dial value, (points, rows), and the weights of the rows.

    A path shows its target and weights to a metric of the user's, and to nobody else.
    """
    out: list[Any] = []
    weights: list[Any] = []

    def keep(
        y_true: Any, predictions: Any, sensitive_features: Any, sample_weight: Any = None
    ) -> float:
        del sensitive_features
        wrong = (predictions - y_true) ** 2 if squared else predictions != y_true
        out.append(np.asarray(wrong))
        weights.append(np.ones(len(out[-1])) if sample_weight is None else sample_weight)
        return 0.0

    path.curve(keep)
    return np.stack(out), np.asarray(weights[0], dtype=np.float64)


def _paired_draws(
    losses: Array, weight: Array, start: int, n_boot: int, random_state: Any, *, squared: bool
) -> Array:
    """Prices in resamples of the rows, (points, n_boot); a row is drawn for all dial values."""
    rng = read_seed(random_state)
    n = len(weight)
    step = max(1, _BATCH_NUMBERS // n)
    parts = []
    for first in range(0, n_boot, step):
        rows = rng.randint(0, n, size=(min(step, n_boot - first), n))
        W = np.stack([np.bincount(r, minlength=n) for r in rows], axis=1) * weight[:, None]
        means = losses @ W / W.sum(axis=0)
        error = np.sqrt(means) if squared else means
        parts.append(error - error[start])
    return np.concatenate(parts, axis=1)
