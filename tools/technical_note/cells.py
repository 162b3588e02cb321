"""Theorem 2 and proposition 2: exact removal, in every cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy.linalg
from tests.golden import compare
from tests.golden.cases import load_case

from fairspan.method.sdr import canonical_directions
from tools.table import Measurement, at_least, at_most
from tools.technical_note._page import below
from tools.technical_note._rows import Array, golden, supremum, worst_in

CASES = (
    "clf_sp",
    "clf_eop",
    "clf_eo",
    "multi_sp",
    "multi_eop",
    "multi_eo",
    "multi_wide_eo",
    "reg_sp_m2_d2",
)


@dataclass(frozen=True)
class Removed:
    """Largest in-cell correlation with a level, on training rows."""

    start: float  # eps = 0
    paper: float  # eps = 1, covariance over all rows
    conditional: float  # eps = 1, covariance in the cell
    exact: float  # eps = 1, all codes
    sigma: Array  # principal cosines of the published form


@cache
def removal(name: str) -> Removed:
    """A golden case with three removals; all else as published."""
    case = load_case(name)
    settings = case.settings
    criterion = settings["criterion"]
    estimator = compare._estimator(case)
    parts = compare.Parts(
        estimator, case.X_train, case.y_train, settings["m"], settings["d"], estimator.eta
    )

    def worst(fit: compare.Fit, eps: float) -> float:
        f = fit.at(eps).fitted
        found = compare.correlations(criterion, f, case.S_train, case.y_train, "categorical")
        return float(max(found))

    fits = {kind: parts.fit(criterion, kind) for kind in ("paper", "conditional", "exact")}
    return Removed(
        worst(fits["paper"], 0.0), *(worst(fit, 1.0) for fit in fits.values()), fits["paper"].sigma
    )


def table() -> list[str]:
    """Removal over all rows, over the cell, exact."""
    lines = [
        "| rows, criterion | eps = 0 | published, eps = 1 | covariance in the cell, eps = 1 | "
        "exact, eps = 1 |",
        "|---|---|---|---|---|",
    ]
    for name in CASES:
        x = removal(name)
        lines.append(
            f"| {name} | {x.start:.3f} | {x.paper:.3f} | {x.conditional:.3f} | {below(x.exact)} |"
        )
    return lines


def missing_covector() -> float:
    """Worst function of F where one of the seven covectors of reg, s1 is not removed."""
    case = load_case("reg_sp_m2_d2")
    m = golden(case, case.S_train[:, 1])
    return worst_in(m, np.linalg.svd(m.delta)[0][:, : m.delta.shape[1] - 1])


def share_of_limit() -> float:
    """Largest chi(f)^2 over the limit of proposition 2, any m < 7, several ridges; reg, s1."""
    case = load_case("reg_sp_m2_d2")
    m, most = golden(case, case.S_train[:, 1]), 0.0
    for eta in (1e-4, 1e-2):
        found, ridged = canonical_directions(m.cov, m.delta, eta), m.cov + eta * np.eye(len(m.cov))
        for kept in range(1, m.delta.shape[1]):
            Z = scipy.linalg.null_space((m.delta @ found.codes[:, :kept]).T)
            # The supremum over F of |Delta'w|^2 / w'(Sigma + eta I)w, which the limit bounds.
            worst = supremum(Z.T @ ridged @ Z, Z.T @ m.delta) ** 2
            most = max(most, worst / float(found.lam[kept]))
    return most


def claims() -> Iterator[Measurement]:
    """Zero in every cell; not zero with fewer covectors; the published form can raise it."""
    found = {name: removal(name) for name in CASES}
    yield at_most("theorem 2: exact removal, all cases", max(x.exact for x in found.values()), 1e-9)
    yield at_least("theorem 2: one covector of seven kept back", missing_covector(), 1e-3)
    yield at_most("proposition 2: largest share of its limit", share_of_limit(), 1.0 + 1e-9)
    rise = found["multi_eop"].paper - found["multi_eop"].start
    yield at_least("published, multi_eop: change of the correlation", rise, 0.1)
