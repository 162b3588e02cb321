"""Cells and attributes as blocks: codes, their directions, what is removed (METHOD 3 to 5)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairspan._linalg import Array, Tridiagonal
from fairspan.codes import Coder
from fairspan.estimators._pilot import Pilot
from fairspan.estimators._prepare_codes import refuse_attribute
from fairspan.exceptions import DataWarning, NumericalWarning
from fairspan.moments import Moments, Pooled
from fairspan.sdr import (
    MIN_ROWS,
    CodeBlock,
    canonical_directions,
    column_block,
    gcv_ridge,
    level_block,
    n_directions_by_test,
    paper_directions,
    ridge_factor,
    within_cov,
)

PAPER_ETA = 1e-4


@dataclass(frozen=True)
class BlockReport:
    """One cell and attribute: what its codes are and what SDR found in them."""

    cell: str
    attribute: str
    coding: str  # "levels", "slices" or "value"
    constrained: bool
    n_rows: int
    rank: int
    n_directions: int = 0
    eta: float = float("nan")
    eigenvalues: Array = field(default_factory=lambda: np.zeros(0))
    p_values: tuple[float, ...] = ()


@dataclass(frozen=True)
class Block:
    """Codes of one attribute in one cell, with what is removed because of them."""

    report: BlockReport
    cov: Array
    code: CodeBlock
    covectors: Array | None  # N_cj, None when reported only


def build_blocks(moments: Moments, pilot: Pilot, est: Any, total_cov: Array) -> list[Block]:
    """Every cell and attribute, reported-only codings included."""
    out: list[Block] = []
    skipped: dict[str, list[str]] = {coder.name: [] for coder in pilot.coders}
    for c, cell in enumerate(pilot.cells.names):
        pooled = moments.pool(cell=c)
        if pooled.rows == 0:
            for name in skipped:
                skipped[name].append(cell)
            continue
        cov = total_cov if pilot.cells.rule == "all" else pooled.cov
        spectrum = _LazySpectrum(cov)
        column = 0
        for j, coder in enumerate(pilot.coders):
            made = _attribute_blocks(pooled, cov, spectrum, pilot, est, cell, j, column, total_cov)
            column += isinstance(coder, Coder) and coder.kind == "continuous"
            if not any(block.covectors is not None for block in made):
                skipped[coder.name].append(cell)
            out += made
    _report_skipped(skipped, pilot, est)
    return out


def _report_skipped(skipped: dict[str, list[str]], pilot: Pilot, est: Any) -> None:
    for name, cells in skipped.items():
        if len(cells) == pilot.cells.n_constrained:
            refuse_attribute(name, pilot.cells, 1 if est.method == "paper" else MIN_ROWS)
        if cells:
            warnings.warn(
                f"Attribute {name!r} is not constrained in {len(cells)} of "
                f"{pilot.cells.n_constrained} cells, which hold fewer than two levels of "
                f"{MIN_ROWS} rows: {', '.join(cells[:5])}{', ...' if len(cells) > 5 else ''}.",
                DataWarning,
                stacklevel=6,
            )


class _LazySpectrum:
    """One tridiagonal form per cell, made only if a ridge or a test asks for it."""

    def __init__(self, cov: Array) -> None:
        self._cov = cov
        self._tri: Tridiagonal | None = None
        self._values: Array | None = None

    @property
    def tri(self) -> Tridiagonal:
        if self._tri is None:
            self._tri = Tridiagonal.of(self._cov)
        return self._tri

    @property
    def values(self) -> Array:
        if self._values is None:
            self._values = self.tri.eigenvalues()
        return self._values


def _attribute_blocks(
    pooled: Pooled, cov: Array, spectrum: _LazySpectrum, pilot: Pilot, est: Any, cell: str,
    j: int, column: int, total_cov: Array,
) -> list[Block]:  # fmt: skip
    coder = pilot.coders[j]
    ordered = coder.kind == "continuous"
    paper = est.method == "paper"
    level = level_block(
        pooled.levels[j], pooled.weight, ordered=ordered, min_rows=1 if paper else MIN_ROWS
    )
    value = column_block(pooled.columns[column], pooled.weight) if ordered else None
    by_value = ordered and est.dependence == "correlation" and not paper
    out: list[Block] = []
    for coding, code in (("slices" if ordered else "levels", level), ("value", value)):
        if code is None:
            continue
        constrained = (coding == "value") == by_value
        report = BlockReport(cell, coder.name, coding, constrained, code.n_rows, code.rank)
        covectors = None
        if constrained and paper:
            m = (
                code.rank
                if isinstance(est.n_sensitive_directions, str)
                else int(est.n_sensitive_directions)
            )
            eta = PAPER_ETA if est.eta == "auto" else float(est.eta)
            tau, W = paper_directions(cov, within_cov(pooled, pooled.levels[j]), eta, m)
            covectors = total_cov @ W  # Alg. 1: the covariance over ALL rows, also for EO and EOP
            report = replace(report, n_directions=W.shape[1], eta=eta, eigenvalues=tau)
        elif constrained:
            report, covectors = _exact_covectors(report, code, cov, spectrum, est)
            if code.left_out:
                _warn_left_out(code, coder.labels, report)
        out.append(Block(report, cov, code, covectors))
    return out


def _warn_left_out(code: CodeBlock, labels: tuple[str, ...], report: BlockReport) -> None:
    warnings.warn(
        f"Attribute {report.attribute!r}: {len(code.left_out)} levels have fewer than {MIN_ROWS} "
        f"rows in cell {report.cell!r} and are left out there: "
        f"{', '.join(repr(labels[h]) for h in code.left_out[:5])}.",
        DataWarning,
        stacklevel=7,
    )


def _exact_covectors(
    report: BlockReport, code: CodeBlock, cov: Array, spectrum: _LazySpectrum, est: Any
) -> tuple[BlockReport, Array]:  # fmt: skip
    """``N_cj = Delta_cj A_{1..m}`` (METHOD 5): with all directions every Cov_c(f, code) is 0."""
    wanted = est.n_sensitive_directions
    keep_all = wanted == "all" or (wanted == "auto" and report.coding == "levels")
    edge = False
    if est.eta == "auto":
        eta, edge = gcv_ridge(spectrum.tri, spectrum.values, code)
    else:
        eta = float(est.eta)
    factor = ridge_factor(cov, eta)
    found = canonical_directions(cov, code.delta, eta, factor)
    p_values: list[float] = []
    m = code.rank
    if wanted == "test" or (wanted == "auto" and not keep_all):
        m, p_values = n_directions_by_test(
            found, cov, spectrum.values, code.n_effective, factor=factor
        )
        m = max(m, 1) if wanted == "auto" else m
    elif not isinstance(wanted, str):
        if int(wanted) > code.rank:
            warnings.warn(
                f"n_sensitive_directions={wanted} is capped at {code.rank} for {report.attribute!r} in "
                f"cell {report.cell!r}: its codes have no more directions.",
                DataWarning,
                stacklevel=7,
            )
        m = min(int(wanted), code.rank)
    if edge and m < code.rank:
        # With all directions the model does not depend on eta, so its end of the grid is no news.
        warnings.warn(
            f"The ridge of {report.attribute!r} in cell {report.cell!r} is at an end of its grid "
            f"(eta={eta:.3g}); the choice of {m} of {code.rank} directions rests on it. Pass `eta`, or "
            f"n_sensitive_directions='all'.",
            NumericalWarning,
            stacklevel=7,
        )
    report = replace(
        report, n_directions=m, eta=eta, eigenvalues=found.lam, p_values=tuple(p_values)
    )
    return report, code.delta @ found.codes[:, :m]
