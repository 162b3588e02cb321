"""Colours, sizes for print, and helpers that all displays share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairspan._system import inert
from fairspan.method.linalg import Array

Numbers = Sequence[float] | Array

# Okabe-Ito: readable with any kind of colour vision, and in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
# Five dashes and six colours give thirty different pairs; in grey print five lines stay distinct.
_DASHED, _DOTTED, _DASH_DOT, _DENSE = (5, 1.6), (1.2, 1.2), (6, 1.5, 1.2, 1.5), (3, 1)
DASHES: tuple[Any, ...] = ("-", (0, _DASHED), (0, _DOTTED), (0, _DASH_DOT), (0, _DENSE))

# Width in inches of a page of two columns.
PAGE = 7.0
# Font sizes in points, at that width.
LABEL, TICK, NOTE = 9.0, 8.0, 7.5

_LONGEST_LABEL = 60


def require_pyplot() -> Any:
    """Import pyplot; without matplotlib the error names the extra to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('Plots need matplotlib: pip install "fairspan[plot]".') from error
    return plt


def plain_label(text: str) -> str:
    """Escape a name from data: matplotlib then shows it on one line, without formulas."""
    flat = inert(text, _LONGEST_LABEL).replace("$", r"\$")
    return f" {flat}" if flat.startswith("_") else flat


def new_axes(width: float, height: float, columns: int = 1) -> tuple[Any, ...]:
    """Make axes side by side on a new figure, whose size is in inches."""
    _, axes = require_pyplot().subplots(
        1, columns, figsize=(width, height), layout="constrained", squeeze=False
    )
    return tuple(axes[0])


def dress(ax: Any, x: str, y: str) -> None:
    """Set labels and frame in the sizes of a paper."""
    ax.set_xlabel(x, fontsize=LABEL)
    ax.set_ylabel(y, fontsize=LABEL)
    ax.tick_params(labelsize=TICK)
    ax.spines[["top", "right"]].set_visible(False)


def line_look(i: int) -> dict[str, Any]:
    """Colour and dash of the i-th line."""
    return {"color": COLOURS[i % len(COLOURS)], "ls": DASHES[i % len(DASHES)]}


def styled(defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Merge properties of lines, the user's first; ``lw`` and ``linewidth`` are one property."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return {**normalize_kwargs(defaults, Line2D), **normalize_kwargs(given, Line2D)}


def number(value: float) -> str:
    """Format with three decimals; smaller numbers as powers of ten, and rounding errors as 0."""
    if abs(value) < 1e-10:
        return "0"
    if abs(value) < 5e-4:
        text = f"{value:.0e}".replace("e-0", "e-")
    else:
        text = f"{value:.3f}" if abs(value) < 100 else f"{value:.4g}"
    return f"\N{MINUS SIGN}{text[1:]}" if text.startswith("-") else text
