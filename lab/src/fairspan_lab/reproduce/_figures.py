"""Figures 1 and 2 in the paper's layout: error to the right, unfairness upwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fairspan._system import atomic_write
from fairspan.method.linalg import Array
from fairspan.plotting import require_pyplot
from fairspan_lab.reproduce._methods import METHODS
from fairspan_lab.reproduce._problems import FIGURES

__all__ = ["curves", "draw"]

# Okabe-Ito colours and a marker each: distinguishable in print and with any colour vision.
_STYLES = {
    "fairspan": ("#0072B2", "o"),
    "fgp": ("#D55E00", "s"),
    "gp": ("#000000", "*"),
    "linear-ferm": ("#009E73", "^"),
    "ferm": ("#56B4E9", "v"),
    "laftr-gp": ("#CC79A7", "D"),
    "ncfr": ("#E69F00", "P"),
}
# Settings of these are separate trainings, which no line should join.
_NO_CURVE = ("laftr-gp",)
_MEASURES = {"figure1": ("SP", "EOP", "EO")}

Row = dict[str, Any]


def curves(rows: Iterable[Row], data: str, measure: str, protocol: str) -> dict[str, Array]:
    """Per method (splits, points, 2): error and parity, points in the order they were run."""
    panel = measure.lower()
    found: dict[str, dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        same = (row["data"], row["measure"], row["protocol"]) == (data, measure, protocol)
        wanted = row["criterion"] in ("none", panel) or measure.startswith("SP ")
        if same and wanted:
            found[row["method"]][row["split"]].append((row["error"], row["parity"]))
    return {method: np.array(list(splits.values())) for method, splits in found.items()}


def draw(rows: list[Row], figure: str, protocol: str, folder: Path, suffix: str = "") -> list[Path]:
    """PNG and SVG of one figure under one protocol; what was written."""
    plt = require_pyplot()
    panels = _layout(rows, figure)
    shape = (len(panels), len(panels[0]))
    width = 3.1 * shape[1]
    fig, axes = plt.subplots(
        *shape, figsize=(width, 2.5 * shape[0] + 0.7), squeeze=False, layout="constrained"
    )
    handles: dict[str, Any] = {}
    for axis_row, panel_row in zip(axes, panels, strict=True):
        for ax, (data, measure) in zip(axis_row, panel_row, strict=True):
            _panel(ax, curves(rows, data, measure, protocol), handles)
            _label(ax, rows, figure, data, measure)
    order = [method for method in METHODS if method in handles]
    names = [METHODS[method].name for method in order]
    title = "grey: within sampling noise"
    if protocol == "random":
        title += ";  bars: one standard error over the splits, which share rows"
    if any(METHODS[method].reads_sensitive for method in order):
        title += ";  † reads the protected attribute at prediction time"
    fig.legend(
        [handles[m] for m in order], names, loc="outside lower center", ncols=min(len(order), 6),
        frameon=False, fontsize=8, title=title, title_fontsize=7,
    )  # fmt: skip
    written = []
    for kind in ("png", "svg"):
        path = folder / f"{figure}-{protocol}{suffix}.{kind}"
        with atomic_write(path) as part:
            fig.savefig(part, format=kind, dpi=160)
        written.append(path)
    plt.close(fig)
    return written


def _layout(rows: list[Row], figure: str) -> list[list[tuple[str, str]]]:
    present = {row["data"] for row in rows}
    sets = [data for data in FIGURES[figure] if data in present]
    if figure in _MEASURES:  # data sets down, criteria across
        return [[(data, measure) for measure in _MEASURES[figure]] for data in sets]
    by_data = {
        data: list(dict.fromkeys(row["measure"] for row in rows if row["data"] == data))
        for data in sets
    }
    return [[(data, by_data[data][k]) for data in sets] for k in range(2)]


def _panel(ax: Any, found: dict[str, Array], handles: dict[str, Any]) -> None:
    for method, points in found.items():
        colour, marker = _STYLES[method]
        error, parity = points.mean(axis=0).T
        style = {"color": colour, "marker": marker, "ms": 9 if marker == "*" else 4, "lw": 1.2}
        if METHODS[method].reads_sensitive:
            style |= {"mfc": "white", "ls": "--"}
        if method in _NO_CURVE:
            style |= {"ls": "none"}
        line = ax.plot(error, parity, **style, zorder=4 if method == "gp" else 3)[0]
        handles.setdefault(method, line)
        if len(points) > 1:
            spread = points.std(axis=0, ddof=1) / np.sqrt(len(points))
            ax.errorbar(
                error, parity, xerr=spread[:, 0], yerr=spread[:, 1], fmt="none", ecolor=colour,
                elinewidth=0.7, alpha=0.45, zorder=2,
            )  # fmt: skip


def _label(ax: Any, rows: list[Row], figure: str, data: str, measure: str) -> None:
    noise = next(r["noise"] for r in rows if (r["data"], r["measure"]) == (data, measure))
    ax.axhspan(0.0, noise, color="0.93", lw=0, zorder=0)
    shown = measure
    if figure == "figure2":
        attribute = measure.removeprefix("SP ")
        shown = f"SP, {attribute}"
    ax.set_title(f"{data}: {shown}", fontsize=9, loc="left")
    ax.set_xlabel("prediction error" if figure == "figure1" else "RMSE", fontsize=8)
    ax.set_ylabel(f"|corr|, {shown}", fontsize=8)
    ax.set_ylim(bottom=0.0)
    ax.locator_params(axis="x", nbins=5)
    ax.tick_params(labelsize=7)
    ax.spines[["top", "right"]].set_visible(False)
