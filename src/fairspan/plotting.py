"""Plots (extra: matplotlib)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairspan._files import inert

__all__ = ["TradeoffDisplay"]

# Okabe-Ito: readable with any kind of colour vision, and in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
_LONGEST_LABEL = 60


def require_pyplot() -> Any:
    """Matplotlib, or how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        msg = 'Plots need matplotlib: pip install "fairspan[plot]".'
        raise ImportError(msg) from error
    return plt


def plain_label(text: str) -> str:
    """A name from data as matplotlib shows it: no formula, no line of its own, never left out."""
    flat = inert(text, _LONGEST_LABEL).replace("$", r"\$")
    return f" {flat}" if flat.startswith("_") else flat


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

    def plot(self, ax: Any = None, *, title: str | None = None) -> TradeoffDisplay:
        """Draw on ``ax`` (a new figure if None)."""
        if ax is None:
            _, ax = require_pyplot().subplots(figsize=(5.4, 4.0), layout="constrained")
        if self.noise is not None:
            ax.axvspan(0.0, self.noise, color="0.92", zorder=0, lw=0, label="within sampling noise")
        for i, (name, values) in enumerate(self.parity.items()):
            colour = COLOURS[i % len(COLOURS)]
            marker = MARKERS[i % len(MARKERS)]
            ax.plot(
                values, self.error, "-", color=colour, marker=marker, ms=4, lw=1.5,
                label=plain_label(name), markevery=max(1, len(values) // 20),
            )  # fmt: skip
            for j in (int(np.argmin(self.fairness)), int(np.argmax(self.fairness))):
                ax.annotate(
                    f"{self.fairness[j]:g}", (values[j], self.error[j]), xytext=(5, 4),
                    textcoords="offset points", color=colour, fontsize=8,
                )  # fmt: skip
        ax.set_xlim(left=0.0)
        ax.set_xlabel(self.parity_name)
        ax.set_ylabel(self.error_name)
        ax.legend(frameon=False, title="attribute (numbers: fairness dial)", title_fontsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        if title:
            ax.set_title(title, loc="left", fontsize=10)
        self.ax_ = ax
        self.figure_ = ax.figure
        return self
