"""Cells and attributes as blocks: codes, their directions, what is removed (METHOD 3 to 5)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from fairspan.exceptions import DataWarning, NumericalWarning, warn_user
from fairspan.method.codes import Cells, Coder
from fairspan.method.fold_systems import Spectrum
from fairspan.method.linalg import Array
from fairspan.method.moments import Moments, Pooled
from fairspan.method.pilot import Encoded, Pilot
from fairspan.method.probabilities import ProbabilityCoder, expected_rows, sizes_of
from fairspan.method.problem import MIN_ROWS, FitConfig
from fairspan.method.sdr import (
    MIN_SHARE,
    CodeBlock,
    canonical_directions,
    column_block,
    gcv_ridge,
    level_block,
    n_directions_by_test,
    paper_directions,
    ridge_factor,
    usable_levels,
    within_cov,
)

PAPER_ETA = 1e-4
# Covariance with a whitened code that is rounding, in units of psi's standard deviation.
_ROUNDING = 1e-13


@dataclass(frozen=True, kw_only=True)
class BlockReport:
    """The codes of one attribute in one cell, and the directions found in them."""

    cell: str
    attribute: str
    coding: str  # "levels", "slices" or "value"; "none" where the cell has too few rows for any
    constrained: bool  # the criterion removes these codes (otherwise reported only)
    n_rows: int
    # rank, n_directions: directions the codes have, and how many of them are removed.
    rank: int
    n_directions: int = 0
    # eta, eta_at_end: ridge of the regression of S, and whether it is at an end of its grid.
    eta: float = float("nan")
    eta_at_end: bool = False
    # eigenvalues, p_values: squared canonical correlations; p-values of the test for their
    # number.
    eigenvalues: Array = field(default_factory=lambda: np.zeros(0))
    p_values: tuple[float, ...] = ()
    left_out: tuple[str, ...] = ()  # categories with too few rows or too little weight in the cell
    # n_slices, n_merged: slices of a continuous attribute over all rows, and how many of them are
    # merged with a neighbour in this cell; 0 for other codings.
    n_slices: int = 0
    n_merged: int = 0
    # Rows with a known group that tell as much as these with probabilities; None if groups are known.
    n_equivalent: float | None = None


@dataclass(frozen=True, kw_only=True)
class Block:
    """Moments of one attribute's codes in one cell, and the covectors removed because of them."""

    report: BlockReport
    cov: Array
    delta: Array
    delta_known: Array  # covariance of psi with the codes among the rows that have one
    covectors: Array | None = None  # N_cj; None if the codes are only reported
    light: tuple[str, ...] = ()  # categories left out because of too little weight
    confused: tuple[str, ...] = ()  # groups that their probabilities do not tell apart


def build_blocks(
    moments: Moments, pilot: Pilot, config: FitConfig, total: Pooled, whole: Spectrum
) -> list[Block]:
    """Blocks of every cell and attribute: constrained, reported only, or without enough rows.

    ``total`` pools all rows, which are the one cell of statistical parity; ``whole`` is of their covariance.
    """
    out: list[Block] = []
    total_cov = whole.cov
    for c, cell in enumerate(pilot.cells.names):
        pooled = total if pilot.cells.rule == "all" else moments.pool(cell=c)
        spectrum = whole if pooled is total or pooled.rows == 0 else Spectrum(pooled.cov)
        cov = spectrum.cov
        of_cell = _CellMoments(cell, pooled, cov, spectrum)
        column = 0
        for j, coder in enumerate(pilot.coders):
            blocks = []
            # Features that do not vary in a cell cannot depend on S there.
            if pooled.rows and float(np.trace(cov)) > 1e-14 * float(np.trace(total_cov)):
                blocks = _attribute_blocks(of_cell, pilot, config, j, column, total_cov)
            if not any(block.covectors is not None for block in blocks):
                report = BlockReport(
                    cell=cell,
                    attribute=coder.name,
                    coding="none",
                    constrained=False,
                    n_rows=pooled.rows,
                    rank=0,
                )
                none = np.zeros((len(cov), 0))
                blocks.append(Block(report=report, cov=cov, delta=none, delta_known=none))
            column += isinstance(coder, Coder) and coder.kind == "continuous"
            out += blocks
    _check_blocks(out, pilot, config)
    return out


def _check_blocks(blocks: list[Block], pilot: Pilot, config: FitConfig) -> None:
    """Raise if an attribute has no usable block; otherwise warn once per attribute and reason."""
    for coder in pilot.coders:
        of_attribute = [block for block in blocks if block.report.attribute == coder.name]
        reports = [block.report for block in of_attribute]
        without = [report.cell for report in reports if report.coding == "none"]
        if len(without) == pilot.cells.n_constrained:
            refuse_attribute(coder.name, pilot.cells, config.variant.min_rows)
        if without:
            _warn_not_constrained(coder.name, without, pilot, config.variant.min_rows)
        _warn_left_out(coder.name, of_attribute, pilot)
        wanted = config.n_sensitive_directions
        if not isinstance(wanted, str) and config.variant.exact:
            ranks = [r.rank for r in reports if r.constrained and r.rank < int(wanted)]
            if ranks:
                warn_user(
                    f"n_sensitive_directions={wanted} is capped at {min(ranks)} for {coder.name!r} in "
                    f"{len(ranks)} cells: its codes have no more directions.",
                    DataWarning,
                )
        confused = [
            f"{', '.join(b.confused)} in {b.report.cell}" for b in of_attribute if b.confused
        ]
        if confused:
            warn_user(
                f"Attribute {coder.name!r}: the probabilities do not tell these groups apart, so their "
                f"difference is neither removed nor certified: {_listed(confused)}. Merge these groups, or "
                f"give rows whose group is known.",
                DataWarning,
            )
        untested = [report.cell for report in reports if any(np.isnan(report.p_values))]
        if untested:
            warn_user(
                f"The number of directions of {coder.name!r} cannot be tested in {_listed(untested)}: the "
                f"ridge leaves more free directions than (effective) rows. All are removed. A "
                f"larger `eta`, or a given `n_sensitive_directions`, changes it.",
                NumericalWarning,
            )
        # With all directions removed the model does not depend on eta.
        ends = [r for r in reports if r.eta_at_end and r.n_directions < r.rank]
        if ends:
            warn_user(
                f"The ridge of {coder.name!r} is at an end of its grid in {_listed([r.cell for r in ends])}; "
                f"the choice of {ends[0].n_directions} of {ends[0].rank} directions rests on it. Pass "
                f"`eta`, or n_sensitive_directions='all'.",
                NumericalWarning,
            )


def _warn_not_constrained(name: str, cells: list[str], pilot: Pilot, min_rows: int) -> None:
    rows = f"{min_rows} row{'s' * (min_rows > 1)}"
    warn_user(
        f"Attribute {name!r} is not constrained in {len(cells)} of {pilot.cells.n_constrained} cells, "
        f"which do not hold two levels of {rows}, or features that vary: {_listed(cells)}.",
        DataWarning,
    )


def _warn_left_out(name: str, blocks: list[Block], pilot: Pilot) -> None:
    """Warn of groups and slices of an attribute that its constraint does not cover."""
    light = [f"{level!r} in {block.report.cell}" for block in blocks for level in block.light]
    if light:
        warn_user(
            f"Attribute {name!r}: groups with at most {MIN_SHARE:g} of the weight are left out of "
            f"its constraint: {_listed(light)}. Drop these rows, or raise their weight.",
            DataWarning,
        )
    reports = [block.report for block in blocks]
    small = [f"{level!r} in {report.cell}" for report in reports for level in report.left_out]
    small = [text for text in small if text not in light]
    # If all rows are one cell, the pilot has already warned of small groups.
    if small and pilot.cells.rule != "all":
        warn_user(
            f"Attribute {name!r}: levels with fewer than {MIN_ROWS} rows in a cell are left "
            f"out there: {_listed(small)}.",
            DataWarning,
        )
    merged = [
        f"{report.n_merged} of {report.n_slices} in {report.cell}"
        for report in reports
        if report.constrained and report.n_merged
    ]
    if merged:
        warn_user(
            f"Attribute {name!r}: slices with fewer than {MIN_ROWS} rows in a cell are merged with "
            f"a neighbour there: {_listed(merged)}. Differences between merged slices are not "
            f"removed. More rows, or a smaller `n_slices`, avoid this.",
            DataWarning,
        )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


@dataclass(frozen=True)
class _CellMoments:
    """Moments of the rows of one cell."""

    name: str
    pooled: Pooled
    cov: Array
    spectrum: Spectrum


def _attribute_blocks(
    cell: _CellMoments, pilot: Pilot, config: FitConfig, j: int, column: int, total_cov: Array
) -> list[Block]:
    """Blocks of attribute ``j``, whose values are in numeric column ``column`` if it has any."""
    coder, pooled, variant = pilot.coders[j], cell.pooled, config.variant
    ordered = coder.kind == "continuous"
    level = level_block(pooled.levels[j], pooled.weight, ordered=ordered, min_rows=variant.min_rows)
    value = column_block(pooled.columns[column], pooled.weight) if ordered else None
    labels = coder.labels
    by_value = config.removes_correlation_only(coder.kind)
    out: list[Block] = []
    for coding, code in (("slices" if ordered else "levels", level), ("value", value)):
        if code is None:
            continue
        constrained = (coding == "value") == by_value
        report = BlockReport(
            cell=cell.name,
            attribute=coder.name,
            coding=coding,
            constrained=constrained,
            n_rows=code.n_rows,
            rank=code.rank,
            left_out=tuple(labels[h] for h in code.left_out),
            n_slices=coder.n_levels if coding == "slices" else 0,
            n_merged=code.merged,
            n_equivalent=code.n_equivalent,
        )
        covectors = None
        if constrained and not variant.exact:
            wanted = config.n_sensitive_directions
            m = code.rank if isinstance(wanted, str) else int(wanted)
            eta = PAPER_ETA if isinstance(config.eta, str) else config.eta
            tau, W = paper_directions(cell.cov, within_cov(pooled, pooled.levels[j]), eta, m)
            covectors = total_cov @ W  # Alg. 1: the covariance over ALL rows, also for EO and EOP
            report = replace(report, n_directions=W.shape[1], eta=eta, eigenvalues=tau)
        elif constrained:
            report, covectors = _exact_covectors(report, code, cell, config)
        rows = expected_rows(pooled.levels[j])
        light = tuple(labels[h] for h in code.left_out if rows[h] >= variant.min_rows)
        out.append(
            Block(
                report=report,
                cov=cell.cov,
                delta=code.group_delta,
                delta_known=code.delta_known,
                covectors=covectors,
                light=light,
                confused=tuple(labels[h] for h in code.confused),
            )
        )
    return out


def _exact_covectors(
    report: BlockReport, code: CodeBlock, cell: _CellMoments, config: FitConfig
) -> tuple[BlockReport, Array]:
    """``N_cj = Delta_cj A_{1..m}`` (METHOD 5): with all directions every Cov_c(f, code) is 0."""
    wanted, cov, spectrum = config.n_sensitive_directions, cell.cov, cell.spectrum
    at_end = False
    if isinstance(config.eta, str):
        eta, at_end = gcv_ridge(spectrum.systems, spectrum.values, code)
    else:
        eta = config.eta
    factor = ridge_factor(cov, eta)
    directions = canonical_directions(cov, code.delta, eta, factor)
    p_values: list[float] = []
    m = code.rank
    if wanted == "test" or (wanted == "auto" and report.coding != "levels"):
        m, p_values = n_directions_by_test(
            directions, cov, spectrum.values, code.n_regression, factor=factor
        )
        m = max(m, 1) if wanted == "auto" else m
    elif not isinstance(wanted, str):
        m = min(int(wanted), code.rank)
    report = replace(
        report,
        n_directions=min(m, len(directions.lam)),
        eta=eta,
        eta_at_end=at_end,
        eigenvalues=directions.lam,
        p_values=tuple(p_values),
    )
    covectors = code.delta @ directions.codes[:, :m]
    return report, without_rounding(covectors, cov)


def without_rounding(covectors: Array, cov: Array) -> Array:
    """Set covectors that are rounding to 0; ``cov`` is the covariance of psi.

    If X does not predict an attribute, its covectors are rounding, which is no direction to remove.
    """
    rounding = _ROUNDING * np.sqrt(float(np.trace(cov)))
    return np.asarray(covectors * (np.linalg.norm(covectors, axis=0) > rounding))


def refuse_attribute(name: str, cells: Cells, min_rows: int) -> None:
    """The error for an attribute without a usable block."""
    where = "the data" if cells.rule == "all" else f"any cell ({', '.join(cells.names[:4])})"
    raise ValueError(
        f"sensitive_features {name!r} does not have two levels of at least {min_rows} rows, each with more "
        f"than {MIN_SHARE:g} of the weight, in {where}, so it cannot be constrained. Merge levels, add "
        f"rows, rescale sample_weight, or choose another criterion."
    )


def check_levels(pilot: Pilot, encoded: Encoded, config: FitConfig, weights: Array | None) -> None:
    """Raise if no cell can constrain an attribute, before the pass over the data."""
    min_rows = config.variant.min_rows
    numeric = [coder.name for coder in pilot.numeric]
    for j, coder in enumerate(pilot.coders):
        usable = False
        by_value = config.removes_correlation_only(coder.kind)
        for c in range(pilot.cells.n_constrained):
            inside = encoded.cells == c
            if by_value:
                v = encoded.values[inside, numeric.index(coder.name)]
                v = v[np.isfinite(v)]
                usable |= len(v) >= 2 * min_rows and np.ptp(v) > 0.0
                continue
            if isinstance(coder, ProbabilityCoder):
                p = encoded.probabilities[inside, pilot.probability_columns(j)]
                rows, weight = sizes_of(p, None if weights is None else weights[inside])
            else:
                codes = encoded.levels[inside, j]
                known = codes >= 0
                rows = np.bincount(codes[known], minlength=coder.n_levels).astype(np.float64)
                each = None if weights is None else weights[inside][known]
                weight = np.bincount(codes[known], each, coder.n_levels).astype(np.float64)
            groups = usable_levels(
                rows.tolist(),
                weight.tolist(),
                ordered=coder.kind == "continuous",
                min_rows=min_rows,
            )
            usable |= len(groups) >= 2
        if not usable:
            refuse_attribute(coder.name, pilot.cells, min_rows)
