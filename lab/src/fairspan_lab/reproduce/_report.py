"""The page of the reproduction: a table per figure, and a verdict on each of the paper's claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fairspan.method.linalg import Array
from fairspan_lab.reproduce._figures import curves
from fairspan_lab.reproduce._methods import METHODS
from fairspan_lab.reproduce._problems import FIGURES

__all__ = ["judge_claims", "markdown"]

# Parity at which methods are compared in the table.
LEVELS = (0.05, 0.1)

Row = dict[str, Any]


def markdown(
    rows: list[Row], figures: Iterable[str], protocols: Iterable[str], note: str, *, claims: bool
) -> str:
    """Text of `reproduction.md`, the page next to the figures."""
    out = ["# Reproduction of the paper's figures", "", note, ""]
    out += [
        "Error at the ends of each curve, and the lowest error among its settings whose parity score is at "
        "most 0.05 or 0.1 on the test rows (chosen there: a description of the curve, not a way to "
        "choose a model). † reads the protected attribute at prediction time. Random splits: means, with the "
        "standard error over the splits, which share rows, after ±. A score below its sampling noise, "
        "1/sqrt(test rows) + 1/sqrt(training rows), is as good as 0.",
        "",
    ]
    for protocol in protocols:
        for figure in figures:
            part = [r for r in rows if r["figure"] == figure and r["protocol"] == protocol]
            if part:
                out += [f"## {figure}, {_protocol(part, protocol)}", "", *_table(part, figure), ""]
    judged = [(p, *claim) for p in protocols for claim in judge_claims(rows, p)] if claims else []
    if judged:
        out += ["## The paper's claims", ""]
        out += ["| claim | data | measured | holds |", "|---|---|---|---|"]
    for protocol, claim, data, measured, holds in judged:
        where = "random splits" if protocol == "random" else _fixed_split(data)
        out.append(f"| {claim} | {data}, {where} | {measured} | {'yes' if holds else '**no**'} |")
    return "\n".join([*out, ""])


def _protocol(rows: list[Row], protocol: str) -> str:
    n = len({row["split"] for row in rows})
    if protocol == "random":
        return f"{n} random splits"
    kinds = {_fixed_split(row["data"]): row["data"] for row in rows}
    if len(kinds) == 1:
        return next(iter(kinds))
    unknown = sorted({r["data"] for r in rows if _fixed_split(r["data"]) == _OUR_SPLIT})
    return f"the paper's split; {' and '.join(unknown)}: {_OUR_SPLIT}"


_OUR_SPLIT = "a split of ours, theirs is unknown"


def _fixed_split(data: str) -> str:
    return _OUR_SPLIT if data in ("NLSY79", "Law school") else "the paper's split"


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
                points, error = found[method].mean(axis=0), _standard_error(found[method])
                fair, free = ends(points, method)
                fair_error, free_error = ends(error, method)
                cheapest = []
                for level in LEVELS:
                    within = points[points[:, 1] <= level, 0]
                    cheapest.append(f"{within.min():.3f}" if len(within) else "none")
                cells = [_pair(free, free_error), _pair(fair, fair_error)]
                if len(points) == 1:
                    cells[1] = ""
                out.append(
                    f"| {data} | {measure} | {METHODS[method].name} | "
                    + " | ".join([*cells, *cheapest])
                    + " |"
                )
    return out


def _standard_error(points: Array) -> Array:
    if len(points) < 2:
        return np.full(points.shape[1:], np.nan)
    return np.asarray(points.std(axis=0, ddof=1) / np.sqrt(len(points)))


def _pair(point: Array, error: Array) -> str:
    if np.isnan(error[0]):
        return f"{point[0]:.3f} ({point[1]:.3f})"
    return f"{point[0]:.3f} ± {error[0]:.3f} ({point[1]:.3f} ± {error[1]:.3f})"


def ends(points: Array, method: str) -> tuple[Array, Array]:
    """The setting that is meant to be the fairest, and the one that constrains least."""
    first, last = points[0], points[-1]
    return (first, last) if METHODS[method].strict_first else (last, first)


def judge_claims(rows: list[Row], protocol: str) -> list[tuple[str, str, str, bool]]:
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
            noise = {row["measure"]: row["noise"] for row in part}
            found_claims = check(averaged, part[0]["n_test"], noise)
            # The paper makes the claim about EO for COMPAS only.
            out += [
                (claim, data, text, ok)
                for claim, text, ok in found_claims
                if data == "COMPAS" or "lowest EO" not in claim
            ]
    return out


def _classification(
    found: dict[str, dict[str, Array]], n_test: int, noise: dict[str, float]
) -> Iterable[tuple[str, str, bool]]:
    sp, eo = found["SP"], found["EO"]
    if "fgp" in sp and "gp" in sp:
        ours, plain = sp["fgp"][-1, 0], sp["gp"][0, 0]  # the last epsilon is 0
        two_errors = 2.0 * np.sqrt(plain * (1.0 - plain) / n_test)
        yield (
            "FGP's accuracy converges to the GP's as epsilon falls",
            f"error {ours:.4f} at epsilon 0, GP {plain:.4f} (two standard errors {two_errors:.4f})",
            bool(abs(ours - plain) <= two_errors),
        )
    for method in ("linear-ferm", "ferm"):
        if method in sp:
            strict = sp[method][0]  # tolerance 0
            yield (
                f"{METHODS[method].name} does not meet SP",
                f"SP {strict[1]:.3f} at tolerance 0 (noise {noise['SP']:.3f})",
                bool(strict[1] > noise["SP"]),
            )
    if "laftr-gp" in eo and "gp" in eo:
        best = eo["laftr-gp"][np.argmin(eo["laftr-gp"][:, 1])]
        others = min(
            float(points[:, 1].min())
            for name, points in eo.items()
            if name not in ("fairspan", "laftr-gp")
        )
        yield (
            f"{METHODS['laftr-gp'].name} has the lowest EO of the paper's methods, at the cost of accuracy",
            f"EO {best[1]:.3f} at error {best[0]:.3f}; others {others:.3f}; GP error {eo['gp'][0, 0]:.3f}",
            bool(best[1] < others and best[0] > eo["gp"][0, 0]),
        )


def _regression(
    found: dict[str, dict[str, Array]], _n_test: int, _noise: dict[str, float]
) -> Iterable[tuple[str, str, bool]]:
    first = next(iter(found.values()))
    if "fgp" in first and "gp" in first:
        ours, plain = first["fgp"][-1, 0], first["gp"][0, 0]
        yield (
            "FGP's accuracy converges to the GP's as epsilon falls",
            f"RMSE {ours:.3f} at epsilon 0, GP {plain:.3f} (within 2 %, or better)",
            bool(ours <= 1.02 * plain),
        )
    if "fgp" in first:
        curve = first["fgp"][:, 0]  # from epsilon 1 down to 0
        falls = float(np.mean(np.diff(curve) <= 1e-9))
        yield (
            "RMSE climbs as fairness is enforced",
            f"RMSE {curve[-1]:.3f} to {curve[0]:.3f}; {falls:.0%} of the steps climb (90 % needed)",
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
                f"FGP's curve is steeper than {METHODS['ncfr'].name}'s",
                f"fall of {measure} per unit of RMSE, end to end: {text}",
                bool(slopes["fgp"] > slopes["ncfr"]),
            )


def _slope(points: Array, method: str) -> float:
    """Fall in parity per rise in error, end to end."""
    fair, free = ends(points, method)
    rise = fair[0] - free[0]
    return float((free[1] - fair[1]) / rise) if rise > 1e-9 else float("nan")
