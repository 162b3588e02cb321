"""Plot of a monitor: estimates and intervals over the people, with limits and alarms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fairspan.plotting import COLOURS, plain_label
from fairspan.plotting.style import LABEL, NOTE, dress, new_axes, styled

if TYPE_CHECKING:
    from fairspan.monitoring.groups import Comparison
    from fairspan.monitoring.monitor import FairnessMonitor

_MOST_PANELS = 6
# Batches of fewer than this are marked by points.
_FEW = 30
_WORDS = {
    "gap": "difference of rates",
    "ratio": "lower rate / higher rate",
    "change": "change of the difference",
    "correlation": "correlation of the score",
}


class FairnessMonitorDisplay:
    """Estimates and intervals of a monitor after each batch, one panel for each comparison.

    Parameters
    ----------
    monitor : FairnessMonitor

    Attributes
    ----------
    comparisons_ : list of Comparison
        Those drawn: alarms first, then the rest in the order of the monitor.
    figure_, ax_ : matplotlib figure and first axes, after :meth:`plot`.
    axes_ : tuple of matplotlib axes.
    """

    def __init__(self, monitor: FairnessMonitor) -> None:
        self.monitor = monitor
        every = monitor.comparisons_
        self.comparisons_ = sorted(every, key=lambda each: not each.alarm)

    @classmethod
    def from_monitor(
        cls,
        monitor: FairnessMonitor,
        *,
        max_panels: int = _MOST_PANELS,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a monitor.

        Parameters
        ----------
        monitor : FairnessMonitor
        max_panels, ax, **kwargs
            As in :meth:`plot`.
        """
        return cls(monitor).plot(ax, max_panels=max_panels, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        max_panels: int = _MOST_PANELS,
        title: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the first comparison on ``ax``; on a new figure, each on a panel of its own.

        Parameters
        ----------
        ax : matplotlib axes, optional
        max_panels : int, default=6
            Largest number of panels on a new figure.
        title : str, optional
            Default on a new figure: the number of alarms, people and batches.
        **kwargs
            Properties of the line of estimates, as in ``matplotlib.axes.Axes.plot``.
        """
        if not self.comparisons_:
            raise ValueError(
                "There is nothing to draw: the monitor has not counted people of two groups."
            )
        if ax is not None:
            axes: tuple[Any, ...] = (ax,)
        else:
            shown = min(max_panels, len(self.comparisons_))
            axes = _grid(shown)
        for panel, comparison in zip(axes, self.comparisons_, strict=False):
            self._draw(panel, comparison, kwargs)
        self.axes_, self.ax_, self.figure_ = axes, axes[0], axes[0].figure
        if ax is None:
            left_out = len(self.comparisons_) - len(axes)
            more = f"; {left_out} comparisons not drawn" if left_out else ""
            words = self.monitor._headline() + more if title is None else title
            self.figure_.suptitle(words, x=0.01, ha="left", fontsize=LABEL)
            handles = {
                h.get_label(): h for each in axes for h in each.get_legend_handles_labels()[0]
            }
            where = {
                "loc": "outside lower center",
                "ncols": 4 if len(axes) > 1 else 2,
                "frameon": False,
                "fontsize": NOTE,
            }
            self.figure_.legend(handles=list(handles.values()), **where)
        elif title:
            self.ax_.set_title(title, loc="left", fontsize=LABEL)
        return self

    def _draw(self, ax: Any, comparison: Comparison, given: dict[str, Any]) -> None:
        people, values, low, high = self._curve(comparison)
        band = {
            "where": low <= high,
            "color": COLOURS[0],
            "alpha": 0.18,
            "lw": 0,
            "interpolate": True,
        }
        ax.fill_between(people, low, high, label="a constant value is in this band", **band)
        for end in (low, high):  # without a band between them where they cross
            ax.plot(people, end, color=COLOURS[0], lw=0.6, alpha=0.6)
        few = "o" if len(people) < _FEW else "none"
        look = {
            "color": COLOURS[0],
            "lw": 1.6,
            "marker": few,
            "ms": 3.5,
            "label": "estimate since the start",
        }
        ax.plot(people, values, **styled(look, given))
        limits = [comparison.limit]
        if comparison.metric in ("change", "correlation"):
            limits = [comparison.limit, -comparison.limit]
        for i, limit in enumerate(limits):
            label = None if i else "limit"
            ax.axhline(limit, color=COLOURS[1], lw=1.1, ls=(0, (5, 1.6)), label=label)
        if comparison.row is not None:
            ax.axvline(comparison.row, color=COLOURS[1], lw=1.4, ls="-", label="first alarm")
            # The line marks the person; the words name the batch.
            words = f"alarm: batch {comparison.batch}"
            at = {"xytext": (3, -3), "textcoords": "offset points", "va": "top", "fontsize": NOTE}
            late = comparison.row > 0.7 * max(self.monitor.n_people_, 1)
            at |= {"xytext": (-3, -3), "ha": "right"} if late else {"ha": "left"}
            ax.annotate(words, (comparison.row, 1.0), xycoords=("data", "axes fraction"), **at)
        ax.set_xlim(0, max(self.monitor.n_people_, 1))
        # The first intervals would fill the panel.
        later = len(low) // 5
        ends = (*values, *limits, *low[later:], *high[later:])
        known = [v for v in ends if math.isfinite(v)]
        room = 0.08 * (max(known) - min(known)) or 0.1
        ax.set_ylim(min(known) - room, max(known) + room)
        dress(ax, "people", _WORDS[comparison.metric])
        groups = [plain_label(label) for label in comparison.groups]
        names = " - ".join(groups)
        if comparison.metric == "ratio":
            names = " / ".join(reversed(groups))
        words = f"{plain_label(comparison.attribute)}: {names}"
        ax.set_title(words, loc="left", fontsize=LABEL)

    def _curve(self, comparison: Comparison) -> tuple[Any, Any, Any, Any]:
        """People, estimates and ends of the intervals after each batch, in the order of the groups."""
        monitor = next(m for m in self.monitor._monitors if m.name == comparison.attribute)
        codes = [monitor.codes[label] for label in comparison.groups]
        limits = [*monitor.pair_limits, *monitor.score_limits]
        place = next(
            i
            for i, limit in enumerate(limits)
            if (limit.measure, limit.value) == (comparison.metric, comparison.limit)
        )
        key = [place, *sorted(codes)] if len(codes) == 2 else [place, codes[0], -1]
        turned = len(codes) == 2 and codes[0] > codes[1] and comparison.metric != "ratio"
        points = []
        for entry in self.monitor._history:
            for row in entry["ends"].get(comparison.attribute, []):
                if row[:3] == key:
                    value, low, high = (math.nan if v is None else v for v in row[3:])
                    points.append(
                        (entry["people"], -value, -high, -low)
                        if turned
                        else (entry["people"], value, low, high)
                    )
        columns = np.array(points, dtype=np.float64).reshape(-1, 4).T
        return tuple(columns)  # type: ignore[return-value]


def _grid(n: int) -> tuple[Any, ...]:
    """Axes of a new figure, two in a row."""
    if n == 1:
        return new_axes(4.8, 3.0)
    from fairspan.plotting import require_pyplot

    rows = math.ceil(n / 2)
    _, axes = require_pyplot().subplots(
        rows, 2, figsize=(7.0, 0.6 + 2.2 * rows), layout="constrained", squeeze=False
    )
    flat = tuple(axes.ravel())
    for unused in flat[n:]:
        unused.remove()
    return flat[:n]
