"""The numbers behind the figures in words: a table per figure, and the paper's claims one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fairspan._linalg import Array
from fairspan.experiments._figures import curves
from fairspan.experiments._methods import METHODS
from fairspan.experiments._problems import FIGURES

__all__ = ["claims", "markdown"]

# Parity at which methods are compared in the table.
LEVELS = (0.05, 0.1)

Row = dict[str, Any]


def markdown(rows: list[Row], figures: Iterable[str], protocols: Iterable[str], note: str) -> str:
    """The page `reproduction.md` that goes with the figures."""
    out = ["# Reproduction of the paper's figures", "", note, ""]
    out += [
        "Error at the ends of each curve, and the lowest error among its settings whose parity score is at "
        "most 0.05 or 0.1 on the test rows (chosen there: a description of the curve, not a way to "
        "choose a model). † reads the protected attribute at prediction time. Means over the splits.",
        "",
    ]
    for protocol in protocols:
        for figure in figures:
            part = [r for r in rows if r["figure"] == figure and r["protocol"] == protocol]
            if part:
                out += [f"## {figure}, {_protocol(part, protocol)}", "", *_table(part, figure), ""]
    out += ["## The paper's claims", ""]
    out += ["| claim | data | measured | holds |", "|---|---|---|---|"]
    for protocol in protocols:
        for claim, data, measured, holds in claims(rows, protocol):
            verdict = "yes" if holds else "**no**"
            out.append(f"| {claim} | {data}, {protocol} split | {measured} | {verdict} |")
    return "\n".join([*out, ""])


def _protocol(rows: list[Row], protocol: str) -> str:
    n = len({row["split"] for row in rows})
    return "the paper's split" if protocol == "paper" else f"{n} random splits"


def _table(rows: list[Row], figure: str) -> list[str]:
    name = "error" if figure == "figure1" else "RMSE"
    out = [
        f"| data | score | method | {name} (score), unconstrained end | {name} (score), fair end | "
        + " | ".join(f"lowest {name} with score <= {level:g}" for level in LEVELS)
        + " |",
        "|---" * (5 + len(LEVELS)) + "|",
    ]
    for data in FIGURES[figure]:
        measures = dict.fromkeys(row["measure"] for row in rows if row["data"] == data)
        for measure in measures:
            found = curves(rows, data, measure, rows[0]["protocol"])
            for method in (m for m in METHODS if m in found):
                points = found[method].mean(axis=0)
                fair, free = ends(points, method)
                cheapest = []
                for level in LEVELS:
                    within = points[points[:, 1] <= level, 0]
                    cheapest.append(f"{within.min():.3f}" if len(within) else "none")
                cells = [f"{free[0]:.3f} ({free[1]:.3f})", f"{fair[0]:.3f} ({fair[1]:.3f})"]
                if len(points) == 1:
                    cells[1] = ""
                out.append(
                    f"| {data} | {measure} | {METHODS[method].name} | "
                    + " | ".join([*cells, *cheapest])
                    + " |"
                )
    return out


def ends(points: Array, method: str) -> tuple[Array, Array]:
    """The setting that is meant to be the fairest, and the one that constrains least."""
    first, last = points[0], points[-1]
    return (first, last) if METHODS[method].strict_first else (last, first)


def claims(rows: list[Row], protocol: str) -> list[tuple[str, str, str, bool]]:
    """Claim, data set, measured numbers, verdict; only those whose methods were run."""
    out = []
    for figure, sets in FIGURES.items():
        for data in sets:
            part = [r for r in rows if r["data"] == data and r["protocol"] == protocol]
            if not part:
                continue
            measures = list(dict.fromkeys(row["measure"] for row in part))
            found = {m: curves(part, data, m, protocol) for m in measures}
            averaged = {
                m: {method: points.mean(axis=0) for method, points in by_method.items()}
                for m, by_method in found.items()
            }
            check = _classification if figure == "figure1" else _regression
            out += [(c, data, text, ok) for c, text, ok in check(averaged, part[0]["n_test"])]
    return out


def _classification(
    found: dict[str, dict[str, Array]], n_test: int
) -> Iterable[tuple[str, str, bool]]:
    sp, eo = found["SP"], found["EO"]
    if "fgp" in sp and "gp" in sp:
        ours, plain = sp["fgp"][-1, 0], sp["gp"][0, 0]  # the last epsilon is 0
        noise = 2.0 * np.sqrt(plain * (1.0 - plain) / n_test)
        yield (
            "FGP's accuracy converges to the GP's as epsilon falls",
            f"error {ours:.4f} at epsilon 0, GP {plain:.4f} (two standard errors {noise:.4f})",
            bool(abs(ours - plain) <= noise),
        )
    for method in ("linear-ferm", "ferm"):
        if method in sp:
            strict = sp[method][0]  # tolerance 0
            noise = 2.0 / np.sqrt(n_test)
            yield (
                f"{METHODS[method].label} does not meet SP",
                f"SP {strict[1]:.3f} at tolerance 0 (noise {noise:.3f})",
                bool(strict[1] > noise),
            )
    if "laftr-gp" in eo and "gp" in eo:
        best = eo["laftr-gp"][np.argmin(eo["laftr-gp"][:, 1])]
        others = min(
            float(points[:, 1].min())
            for name, points in eo.items()
            if name in ("fgp", "ferm", "gp")
        )
        yield (
            "LAFTR-GP has the lowest EO of the paper's methods, at the cost of accuracy",
            f"EO {best[1]:.3f} at error {best[0]:.3f}; others {others:.3f}; GP error {eo['gp'][0, 0]:.3f}",
            bool(best[1] < others and best[0] > eo["gp"][0, 0]),
        )


def _regression(
    found: dict[str, dict[str, Array]], _n_test: int
) -> Iterable[tuple[str, str, bool]]:
    first = next(iter(found.values()))
    if "fgp" in first and "gp" in first:
        ours, plain = first["fgp"][-1, 0], first["gp"][0, 0]
        yield (
            "FGP's accuracy converges to the GP's as epsilon falls",
            f"RMSE {ours:.3f} at epsilon 0, GP {plain:.3f}",
            bool(abs(ours / plain - 1.0) <= 0.02),
        )
    if "fgp" in first:
        curve = first["fgp"][:, 0]  # from epsilon 1 down to 0
        falls = float(np.mean(np.diff(curve) <= 1e-9))
        yield (
            "RMSE climbs as fairness is enforced",
            f"RMSE {curve[-1]:.3f} to {curve[0]:.3f}; {falls:.0%} of the steps climb",
            bool(curve[0] > curve[-1] and falls >= 0.9),
        )
    for measure, by_method in found.items():
        if "fgp" in by_method and "ncfr" in by_method:
            slopes = {
                name: _slope(by_method[name], name)
                for name in ("fgp", "ncfr", "fairspan")
                if name in by_method
            }
            text = ", ".join(f"{METHODS[name].name} {slope:.1f}" for name, slope in slopes.items())
            yield (
                "FGP's curve is steeper than NCFR's",
                f"fall of {measure} per unit of RMSE: {text}",
                bool(slopes["fgp"] > slopes["ncfr"]),
            )


def _slope(points: Array, method: str) -> float:
    """Fall in parity per rise in error, end to end."""
    fair, free = ends(points, method)
    rise = fair[0] - free[0]
    return float((free[1] - fair[1]) / rise) if rise > 1e-9 else float("inf")
