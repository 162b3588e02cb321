"""Cells and attributes as blocks: codes, their directions, what is removed (METHOD 3 to 5)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairspan.exceptions import DataWarning, NumericalWarning, warn_user
from fairspan.method.codes import Cells, Coder
from fairspan.method.linalg import Array, Tridiagonal
from fairspan.method.moments import Moments, Pooled
from fairspan.method.pilot import Pilot
from fairspan.method.sdr import (
    MIN_ROWS,
    MIN_SHARE,
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
# Covariance with a whitened code that is rounding, in units of psi's standard deviation.
_ROUNDING = 1e-13


@dataclass(frozen=True)
class BlockReport:
    """One cell and attribute: what its codes are and what SDR found in them.

    Attributes
    ----------
    coding : "levels", "slices" or "value"; "none" where the cell has too few rows for any.
    constrained : the criterion removes these codes (otherwise reported only).
    rank, n_directions : directions the codes have, and how many of them are removed.
    eta, eta_at_end : ridge of the regression of S, and whether it is at an end of its grid.
    eigenvalues, p_values : squared canonical correlations; p-values of the test for their number.
    left_out : categories with too few rows or too little weight in the cell.
    n_slices, n_merged : slices of a continuous attribute over all rows, and how many of them are merged
        with a neighbour in this cell; 0 for other codings.
    """

    cell: str
    attribute: str
    coding: str
    constrained: bool
    n_rows: int
    rank: int
    n_directions: int = 0
    eta: float = float("nan")
    eta_at_end: bool = False
    eigenvalues: Array = field(default_factory=lambda: np.zeros(0))
    p_values: tuple[float, ...] = ()
    left_out: tuple[str, ...] = ()
    n_slices: int = 0
    n_merged: int = 0


@dataclass(frozen=True)
class Block:
    """Codes of one attribute in one cell, with what is removed because of them."""

    report: BlockReport
    cov: Array
    delta: Array
    covectors: Array | None  # N_cj, None when reported only
    light: tuple[str, ...] = ()  # categories left out for too little weight


def build_blocks(
    moments: Moments, pilot: Pilot, est: Any, total: Pooled, total_cov: Array
) -> list[Block]:
    """Every cell and attribute: constrained, reported only, or without enough rows.

    ``total`` are all rows together, and so the one cell of statistical parity.
    """
    out: list[Block] = []
    for c, cell in enumerate(pilot.cells.names):
        pooled = total if pilot.cells.rule == "all" else moments.pool(cell=c)
        cov = total_cov if pooled is total or pooled.rows == 0 else pooled.cov
        spectrum = _LazySpectrum(cov)
        column = 0
        for j, coder in enumerate(pilot.coders):
            made = []
            # Features that do not vary in a cell cannot depend on S there.
            if pooled.rows and float(np.trace(cov)) > 1e-14 * float(np.trace(total_cov)):
                made = _attribute_blocks(
                    pooled, cov, spectrum, pilot, est, cell, j, column, total_cov
                )
            if not any(block.covectors is not None for block in made):
                report = BlockReport(cell, coder.name, "none", False, pooled.rows, 0)
                made.append(Block(report, cov, np.zeros((len(cov), 0)), None))
            column += isinstance(coder, Coder) and coder.kind == "continuous"
            out += made
    _check_blocks(out, pilot, est)
    return out


def _check_blocks(blocks: list[Block], pilot: Pilot, est: Any) -> None:
    """Raise if an attribute has no usable block; otherwise warn once per attribute and reason."""
    reports = [block.report for block in blocks]
    for coder in pilot.coders:
        mine = [r for r in reports if r.attribute == coder.name]
        without = [r.cell for r in mine if r.coding == "none"]
        if len(without) == pilot.cells.n_constrained:
            refuse_attribute(coder.name, pilot.cells, 1 if est.method == "paper" else MIN_ROWS)
        if without:
            warn_user(
                f"Attribute {coder.name!r} is not constrained in {len(without)} of "
                f"{pilot.cells.n_constrained} cells, which do not hold two levels of {MIN_ROWS} rows, or "
                f"features that vary: {_listed(without)}.",
                DataWarning,
            )
        light = [
            f"{level!r} in {block.report.cell}"
            for block in blocks
            if block.report.attribute == coder.name
            for level in block.light
        ]
        if light:
            warn_user(
                f"Attribute {coder.name!r}: groups with at most {MIN_SHARE:g} of the weight are left out of "
                f"its constraint: {_listed(light)}. Drop these rows, or raise their sample_weight.",
                DataWarning,
            )
        left_out = [f"{level!r} in {r.cell}" for r in mine for level in r.left_out]
        left_out = [text for text in left_out if text not in light]
        # With one cell of all rows the pilot has named them already.
        if left_out and pilot.cells.rule != "all":
            warn_user(
                f"Attribute {coder.name!r}: levels with fewer than {MIN_ROWS} rows in a cell are left "
                f"out there: {_listed(left_out)}.",
                DataWarning,
            )
        merged = [
            f"{r.n_merged} of {r.n_slices} in {r.cell}"
            for r in mine
            if r.constrained and r.n_merged
        ]
        if merged:
            warn_user(
                f"Attribute {coder.name!r}: slices with fewer than {MIN_ROWS} rows in a cell are merged with "
                f"a neighbour there: {_listed(merged)}. Differences between merged slices are not "
                f"removed. Use fewer slices (n_slices), or more rows.",
                DataWarning,
            )
        wanted = est.n_sensitive_directions
        if not isinstance(wanted, str) and est.method != "paper":
            capped = [r for r in mine if r.constrained and r.rank < int(wanted)]
            if capped:
                warn_user(
                    f"n_sensitive_directions={wanted} is capped at {min(r.rank for r in capped)} for "
                    f"{coder.name!r} in {len(capped)} cells: its codes have no more directions.",
                    DataWarning,
                )
        untested = [r.cell for r in mine if any(np.isnan(r.p_values))]
        if untested:
            warn_user(
                f"The number of directions of {coder.name!r} cannot be tested in {_listed(untested)}: the "
                f"ridge leaves more free directions than (effective) rows. All are removed; pass a larger "
                f"`eta`, or n_sensitive_directions.",
                NumericalWarning,
            )
        # With all directions the model does not depend on eta, so its end of the grid is no news.
        ends = [r for r in mine if r.eta_at_end and r.n_directions < r.rank]
        if ends:
            warn_user(
                f"The ridge of {coder.name!r} is at an end of its grid in {_listed([r.cell for r in ends])}; "
                f"the choice of {ends[0].n_directions} of {ends[0].rank} directions rests on it. Pass "
                f"`eta`, or n_sensitive_directions='all'.",
                NumericalWarning,
            )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


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
    min_rows = 1 if paper else MIN_ROWS
    level = level_block(pooled.levels[j], pooled.weight, ordered=ordered, min_rows=min_rows)
    value = column_block(pooled.columns[column], pooled.weight) if ordered else None
    labels = coder.labels  # made anew at every look
    by_value = ordered and est.dependence == "correlation" and not paper
    out: list[Block] = []
    for coding, code in (("slices" if ordered else "levels", level), ("value", value)):
        if code is None:
            continue
        constrained = (coding == "value") == by_value
        report = BlockReport(
            cell, coder.name, coding, constrained, code.n_rows, code.rank,
            left_out=tuple(labels[h] for h in code.left_out),
            n_slices=coder.n_levels if coding == "slices" else 0, n_merged=code.merged,
        )  # fmt: skip
        covectors = None
        if constrained and paper:
            wanted = est.n_sensitive_directions
            m = code.rank if isinstance(wanted, str) else int(wanted)
            eta = PAPER_ETA if est.eta == "auto" else float(est.eta)
            tau, W = paper_directions(cov, within_cov(pooled, pooled.levels[j]), eta, m)
            covectors = total_cov @ W  # Alg. 1: the covariance over ALL rows, also for EO and EOP
            report = replace(report, n_directions=W.shape[1], eta=eta, eigenvalues=tau)
        elif constrained:
            report, covectors = _exact_covectors(report, code, cov, spectrum, est)
        rows = pooled.levels[j].rows
        light = tuple(labels[h] for h in code.left_out if rows[h] >= min_rows)
        out.append(Block(report, cov, code.delta, covectors, light))
    return out


def _exact_covectors(
    report: BlockReport, code: CodeBlock, cov: Array, spectrum: _LazySpectrum, est: Any
) -> tuple[BlockReport, Array]:
    """``N_cj = Delta_cj A_{1..m}`` (METHOD 5): with all directions every Cov_c(f, code) is 0."""
    wanted = est.n_sensitive_directions
    at_end = False
    if est.eta == "auto":
        eta, at_end = gcv_ridge(spectrum.tri, spectrum.values, code)
    else:
        eta = float(est.eta)
    factor = ridge_factor(cov, eta)
    found = canonical_directions(cov, code.delta, eta, factor)
    p_values: list[float] = []
    m = code.rank
    if wanted == "test" or (wanted == "auto" and report.coding != "levels"):
        m, p_values = n_directions_by_test(
            found, cov, spectrum.values, code.n_effective, factor=factor
        )
        m = max(m, 1) if wanted == "auto" else m
    elif not isinstance(wanted, str):
        m = min(int(wanted), code.rank)
    report = replace(
        report, n_directions=min(m, len(found.lam)), eta=eta, eta_at_end=at_end, eigenvalues=found.lam,
        p_values=tuple(p_values),
    )  # fmt: skip
    covectors = code.delta @ found.codes[:, :m]
    # An attribute that X says nothing about leaves rounding, which is no direction to remove.
    noise = _ROUNDING * np.sqrt(float(np.trace(cov)))
    covectors[:, np.linalg.norm(covectors, axis=0) <= noise] = 0.0
    return report, covectors


def refuse_attribute(name: str, cells: Cells, min_rows: int) -> None:
    """The error for an attribute without a usable block."""
    where = "the data" if cells.rule == "all" else f"any cell ({', '.join(cells.names[:4])})"
    msg = (
        f"sensitive_features {name!r} does not have two levels of at least {min_rows} rows, each with more "
        f"than {MIN_SHARE:g} of the weight, in {where}, so it cannot be constrained. Merge levels, add "
        f"rows, rescale sample_weight, or choose another criterion."
    )
    raise ValueError(msg)
