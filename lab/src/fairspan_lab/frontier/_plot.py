"""Pictures of the frontier: error against parity, and the price of parity at one limit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fairspan._system import atomic_write
from fairspan.method.linalg import Array
from fairspan.plotting import require_pyplot
from fairspan_lab.frontier._methods import METHODS
from fairspan_lab.frontier._price import (
    Row,
    Runs,
    has_measure,
    mean_se,
    price_table,
    worst,
)
from fairspan_lab.frontier._styles import STYLES, compared_at

__all__ = ["draw_frontier", "draw_prices"]

_CORRELATION = {
    "sp": "|corr(score, S)|",
    "eop": "|corr(score, S)| within y = 1",
    "eo": "|corr(score, S)| within a class",
}
_DPI = 100
_IN_A_LINE = 3


def draw_frontier(runs: Runs, criterion: str, path: Path) -> Path:
    """Error against the worst |corr| with S on test rows: one panel per data set, all methods."""
    plt = require_pyplot()
    groups = _groups(runs, criterion)
    fig, axes = _panels(plt, groups, height=4.3, legend=1.4)
    handles: dict[str, Any] = {}
    for axis_row, sets in zip(axes, groups, strict=True):
        for ax, data in zip(axis_row, sets, strict=False):
            _frontier_panel(ax, runs, data, criterion, handles)
        for ax in axis_row[len(sets) :]:
            ax.set_visible(False)
    order = [key for key in (*METHODS, "free", "noise") if key in handles]
    names = {key: method.name for key, method in METHODS.items()} | {
        "free": "unconstrained fairspan",
        "noise": "within sampling noise of a correlation",
    }
    fig.legend(
        [handles[key] for key in order],
        [names[key] for key in order],
        loc="outside lower center",
        ncols=6,
        frameon=False,
        fontsize=10,
        title_fontsize=10,
        title="mean over the splits at each dial value;  band: one standard error of the distance to "
        "unconstrained fairspan;\ndashed and †: reads S at prediction time;  "
        "curves may leave a panel at the top",
    )
    return _save(plt, fig, path)


def _frontier_panel(
    ax: Any, runs: Runs, data: str, criterion: str, handles: dict[str, Any]
) -> None:
    first, shown, free = None, {}, runs.unconstrained(data)
    for method in runs.methods(data, criterion):
        curves = list(runs.of(data, method, criterion).values())
        first = first or curves[0][0]
        shown[method] = points = _points(curves, criterion, free)
        handles.setdefault(method, _curve(ax, points, method))
    if first is None:
        return
    noise = 1.0 / np.sqrt(first["n_test"]) + 1.0 / np.sqrt(first["n_fit"])
    handles.setdefault("noise", ax.axvspan(0.0, noise, color="0.92", lw=0, zorder=0))
    if free:
        level = float(np.mean(list(free.values())))
        line = ax.axhline(level, color="0.35", lw=0.8, ls=(0, (1, 2)), zorder=1)
        handles.setdefault("free", line)
    x_end, bottom, top = _window(shown, noise)
    ax.set_xlim(0.0, x_end)
    ax.set_ylim(bottom, top)
    ax.set_title(data, fontsize=12, loc="left")
    ax.set_xlabel(f"worst {_CORRELATION[criterion]}, test rows", fontsize=10)
    ax.set_ylabel(f"test {_error_name(first)}", fontsize=10)
    ax.tick_params(labelsize=9)
    ax.spines[["top", "right"]].set_visible(False)


def _points(curves: list[list[Row]], measure: str, free: dict[int, float]) -> Array:
    """(dial, 4): parity, error and the standard error of each, over the splits.

    The standard error of the error is that of its distance to the unconstrained error: some splits
    are harder for all methods, which does not affect the distance between two curves.
    """
    out = []
    # A split with fewer dial values than the others counts only where it has a value.
    for k in range(max(len(curve) for curve in curves)):
        rows = [curve[k] for curve in curves if k < len(curve)]
        parity, parity_se = mean_se(worst(row, measure) for row in rows)
        error = mean_se(float(row["test_error"]) for row in rows)[0]
        price_se = mean_se(float(r["test_error"]) - free.get(r["split"], np.nan) for r in rows)[1]
        out.append((parity, error, parity_se, price_se))
    return np.array(out)


def _curve(ax: Any, points: Array, method: str) -> Any:
    colour, marker = STYLES[method]
    reads = METHODS[method].reads_sensitive
    parity, error, parity_se, price_se = points.T
    main = method == "fairspan"
    look = {
        "color": colour,
        "marker": marker,
        "ms": 6.5 if main else 5.0,
        "lw": 3.0 if main else 1.4,
        "ls": "--" if reads else "-",
        "zorder": 5 if main else 3,
        "markevery": max(1, len(points) // 6),
    }
    if reads:
        look["mfc"] = "white"
    if len(points) == 1:
        look |= {"ls": "none", "ms": 12 if marker == "*" else 8, "zorder": 6}
        ax.errorbar(
            parity,
            error,
            xerr=parity_se,
            yerr=price_se,
            fmt="none",
            ecolor=colour,
            elinewidth=1.0,
            zorder=4,
        )
    elif np.isfinite(price_se).all():
        ax.fill_between(
            parity,
            error - price_se,
            error + price_se,
            color=colour,
            alpha=0.13,
            lw=0,
            zorder=2,
        )
    return ax.plot(parity, error, **look)[0]


def _window(shown: dict[str, Array], noise: float) -> tuple[float, float, float]:
    """Right end, bottom and top of a panel: all of fairspan's curve and most of the others.

    A method whose dial ends at a constant prediction would otherwise compress the other curves.
    """
    every = np.concatenate([points[:, :2] for points in shown.values()])
    ours = shown.get("fairspan", every)
    right = max(float(np.quantile(every[:, 0], 0.9)), float(ours[:, 0].max()), 2.0 * noise)
    seen = every[every[:, 0] <= 1.05 * right, 1]
    top = max(float(np.quantile(seen, 0.88)), float(ours[:, 1].max()))
    bottom = float(seen.min())
    pad = 0.06 * max(top - bottom, 1e-6)
    return 1.05 * right, bottom - pad, top + pad


def draw_prices(runs: Runs, path: Path) -> Path:
    """Price of |corr| within the limit by method: one panel per data set."""
    plt = require_pyplot()
    # Prices are relative to unconstrained fairspan.
    candidates = ([d for d in sets if runs.unconstrained(d)] for sets in _groups(runs, "sp"))
    groups = [sets for sets in candidates if sets]
    tables = {
        data: {r["method"]: r for r in price_table(runs, data, "sp", "sp", [compared_at(data)])}
        for sets in groups
        for data in sets
    }
    lines = [[m for m in METHODS if any(m in tables[data] for data in sets)] for sets in groups]
    fig, axes = _panels(
        plt,
        groups,
        height=1.0,
        legend=0.5,
        rows=[0.26 * len(methods) for methods in lines],
        sharey="row",
    )
    for axis_row, sets, methods in zip(axes, groups, lines, strict=True):
        for ax, data in zip(axis_row, sets, strict=False):
            _price_panel(ax, tables[data], methods, data)
        for ax in axis_row[len(sets) :]:
            ax.set_visible(False)
    fig.supxlabel(
        "test error above unconstrained fairspan, mean and one standard error over the splits;  "
        "numbers: splits that kept the limit on validation rows\n"
        "pale: kept on fewer than half of them, so not at this parity;  "
        "hatched and †: reads S at prediction time",
        fontsize=10,
    )
    return _save(plt, fig, path)


def _price_panel(ax: Any, table: dict[str, Row], methods: list[str], data: str) -> None:
    ends = {m: _end(row) for m, row in table.items() if np.isfinite(row["price"])}
    starts = (table[m]["price"] - _or_zero(table[m]["price_se"]) for m in ends)
    low = min(0.0, *starts)
    # Cut bars that are several times as long as most, with an arrow, to keep the others readable.
    usual = max(float(np.quantile(list(ends.values()), 0.75)), ends.get("fgp", 0.0), -low, 1e-6)
    right = 1.25 * min(max(ends.values()), 2.0 * usual) if max(ends.values()) > 0.0 else -0.3 * low
    pad = 0.012 * (right - low)
    for at, method in enumerate(methods):
        row = table.get(method)
        if row is None or method not in ends:
            text = "no rows" if row is None else "unconstrained error missing"
            ax.text(pad, at, text, va="center", fontsize=8.5, color="0.6")
            continue
        within_limit = 2 * row["met"] >= row["splits"]
        ax.barh(
            at,
            row["price"],
            height=0.72,
            color=STYLES[method][0],
            alpha=1.0 if within_limit else 0.3,
            lw=0.5,
            edgecolor="white",
            hatch="////" if METHODS[method].reads_sensitive else None,
            zorder=2,
        )
        ax.errorbar(
            row["price"],
            at,
            xerr=_or_zero(row["price_se"]),
            fmt="none",
            ecolor="0.2",
            elinewidth=1.0,
            zorder=3,
        )
        note, cut = f"{row['met']}/{row['splits']}", ends[method] > 0.9 * right
        where = right - pad if cut else max(ends[method], 0.0) + pad
        ax.text(
            where,
            at,
            f"{note}, {row['price']:.3g} →" if cut else note,
            va="center",
            fontsize=8.5,
            color="0.15",
            ha="right" if cut else "left",
            zorder=4,
            bbox={"fc": "white", "ec": "none", "pad": 1.5} if cut else None,
        )
    ax.axvline(0.0, color="0.3", lw=0.8, zorder=1)
    ax.set_xlim(1.08 * low, right)
    ax.set_ylim(len(methods) - 0.4, -0.6)
    ax.set_yticks(range(len(methods)), [METHODS[m].name for m in methods], fontsize=9.5)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=9)
    ax.locator_params(axis="x", nbins=6)
    ax.set_title(f"{data}: worst |corr| ≤ {compared_at(data):g}", fontsize=12, loc="left")
    ax.spines[["top", "right", "left"]].set_visible(False)


def _end(row: Row) -> float:
    """Right end of a bar and its whisker."""
    return float(row["price"] + _or_zero(row["price_se"]))


def _or_zero(se: float) -> float:
    return se if np.isfinite(se) else 0.0


def _groups(runs: Runs, criterion: str) -> list[list[str]]:
    """Data sets by row of panels: classes, then numbers; one row if they are few."""
    kinds: dict[bool, list[str]] = {True: [], False: []}
    for data in runs.sets:
        methods = runs.methods(data, criterion)
        curves = runs.of(data, methods[0], criterion) if methods else {}
        first = next(iter(curves.values()))[0] if curves else None
        if first is not None and has_measure(first, criterion):
            kinds[has_measure(first, "dp")].append(data)
    if sum(map(len, kinds.values())) <= _IN_A_LINE:
        return [[*kinds[True], *kinds[False]]]
    return [sets for sets in kinds.values() if sets]


def _panels(
    plt: Any,
    groups: list[list[str]],
    *,
    height: float,
    legend: float,
    rows: Iterable[float] | None = None,
    sharey: str | bool = False,
) -> tuple[Any, Any]:
    extra = [0.0] * len(groups) if rows is None else list(rows)
    heights = [height + more for more in extra]
    fig, axes = plt.subplots(
        len(groups),
        max(len(sets) for sets in groups),
        squeeze=False,
        sharey=sharey,
        figsize=(16.0, sum(heights) + legend),
        layout="constrained",
        height_ratios=heights,
    )
    return fig, axes


def _error_name(row: Row) -> str:
    return "error" if has_measure(row, "dp") else "RMSE"


def _save(plt: Any, fig: Any, path: Path) -> Path:
    # Without the date and version that matplotlib writes, the same rows give the same file.
    with atomic_write(path) as part:
        fig.savefig(part, format="png", dpi=_DPI, metadata={"Software": None})
    plt.close(fig)
    return path
