"""Codes of protected attributes and outputs of y in the moments of folds, for cross-fitting (METHOD 12)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fairspan.method.codes import Coder
from fairspan.method.linalg import Array
from fairspan.method.moments import Moments, Pooled
from fairspan.method.pilot import Pilot
from fairspan.method.probabilities import code_products, expected_rows, group_codes
from fairspan.method.removal import BlockReport
from fairspan.method.sdr import target_covariance, usable_levels

Numbers = NDArray[np.intp]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class FoldCodes:
    """Whitened codes of one attribute in one cell, the same for all folds.

    For levels, a row of level ``used[h]`` has the codes ``whitening[h]``, less their mean over the rows
    under consideration. For the value of a number v, the code is ``v * whitening``. Rows outside the cell
    have the code 0.
    """

    report: BlockReport
    cell: int | None  # None: all rows
    level: int | None  # number of the coded variable, or
    column: int | None  # number of the numeric variable
    used: tuple[int, ...]
    names: tuple[str, ...]  # of the levels used
    whitening: Array  # (levels, codes) or (1, 1)
    # For probabilities, whose codes stand for those of the true groups (METHOD 14): their columns among the
    # probabilities of encoded rows; rows with a known group that a row tells as much as, for each code; and
    # the codes that rows of the groups used would have. None for codes of known values.
    probability_columns: tuple[int, ...] | None = None
    information: Array | None = None
    true_codes: Array | None = None

    @property
    def rank(self) -> int:
        """Number of codes."""
        return int(self.whitening.shape[1])

    @property
    def largest_variance(self) -> float:
        """Variance of the code that varies most; those of known values are whitened."""
        return 1.0 if self.information is None else float(1.0 / self.information.min())

    @property
    def to_groups(self) -> Array:
        """Factors from covariances with whitened codes to those with these codes, (r,)."""
        return np.ones(self.rank) if self.information is None else self.information**-0.5

    @property
    def group_codes(self) -> Array:
        """Codes of the levels used; with probabilities, those that rows of a known group would have."""
        return self.whitening if self.true_codes is None else self.true_codes

    def sums(self, pooled: Pooled) -> tuple[Array, Array]:
        """Sum of weighted products of the codes with psi, (D, r), and with each other, (r, r)."""
        if self.column is not None:
            stats = pooled.columns[self.column]
            scale = float(self.whitening[0, 0])
            return stats.cross[:, None] * scale, np.array([[stats.square * scale**2]])
        assert self.level is not None
        levels = pooled.levels[self.level]
        used = list(self.used)
        weight, mean = levels.weight[used], levels.mean[used]
        total = float(weight.sum())
        if total == 0.0:
            return np.zeros((mean.shape[1], self.rank)), np.zeros((self.rank, self.rank))
        p = weight / total
        spread = (mean - p @ mean) * weight[:, None]
        if levels.pairs is not None:
            products = code_products(self.whitening, levels.pairs[np.ix_(used, used)], p)
            return spread.T @ self.whitening, products
        codes = self.whitening - p @ self.whitening
        return spread.T @ self.whitening, (codes * weight[:, None]).T @ codes

    def weight(self, pooled: Pooled) -> tuple[float, float]:
        """Sum of the weights, and of their squares, of the rows with a code."""
        if self.column is not None:
            stats = pooled.columns[self.column]
            return stats.weight, stats.weight2
        assert self.level is not None
        levels, used = pooled.levels[self.level], list(self.used)
        return float(levels.weight[used].sum()), float(levels.weight2[used].sum())

    def of_rows(
        self, levels: Numbers, values: Array, inside: Flags, probabilities: Array | None = None
    ) -> Array:
        """Codes of rows, (n, r), not yet centred; 0 outside the cell and for missing values.

        ``levels``, ``values`` and ``probabilities`` are the encoded rows, ``inside`` marks the rows of the
        cell.
        """
        if self.probability_columns is not None:
            assert probabilities is not None
            p = np.nan_to_num(probabilities[:, list(self.probability_columns)])
            return np.asarray((p * inside[:, None]) @ self.whitening)
        out = np.zeros((len(inside), self.rank))
        if self.column is not None:
            v = values[:, self.column]
            known = inside & np.isfinite(v)
            out[known, 0] = v[known] * self.whitening[0, 0]
            return out
        code = levels[:, self.level]
        for h, row in zip(self.used, self.whitening, strict=True):
            out[inside & (code == h)] = row
        return out

    def has_code(self, levels: Numbers, values: Array, inside: Flags) -> Flags:
        """Mark the rows that have a code."""
        if self.column is not None:
            return np.asarray(inside & np.isfinite(values[:, self.column]))
        if self.probability_columns is not None:
            return np.asarray(inside & (levels[:, self.level] >= 0))
        return np.asarray(inside & np.isin(levels[:, self.level], self.used))


def _block_codes(
    report: BlockReport,
    pooled: Pooled,
    *,
    cell: int | None,
    level: int,
    column: int,
    labels: tuple[str, ...],
    min_rows: int,
    first_probability: int,
) -> FoldCodes:
    """Fix the codes of a block, with the whitening of the pooled rows of its cell."""
    if report.coding == "value":
        stats = pooled.columns[column]
        scale = np.array([[np.sqrt(stats.weight / stats.square)]])
        return FoldCodes(
            report=report, cell=cell, level=None, column=column, used=(), names=(), whitening=scale
        )
    levels = pooled.levels[level]
    groups = usable_levels(
        expected_rows(levels),
        levels.weight.tolist(),
        ordered=report.coding == "slices",
        min_rows=min_rows,
    )
    if levels.pairs is not None:
        used = tuple(h for (h,) in groups)
        found = group_codes(levels, used)
        return FoldCodes(
            report=report,
            cell=cell,
            level=level,
            column=None,
            used=used,
            names=tuple(labels[h] for h in used),
            whitening=found.whitening,
            probability_columns=tuple(first_probability + h for h in used),
            information=found.information,
            true_codes=found.true_codes,
        )
    weight = np.array([levels.weight[group].sum() for group in groups])
    root = np.sqrt(weight / weight.sum())
    by_group = scipy.linalg.null_space(root[None]) / root[:, None]
    used = tuple(h for group in groups for h in group)
    return FoldCodes(
        report=report,
        cell=cell,
        level=level,
        column=None,
        used=used,
        names=tuple(labels[h] for h in used),
        whitening=np.concatenate(
            [np.tile(row, (len(group), 1)) for row, group in zip(by_group, groups, strict=True)]
        ),
    )


class Outputs:
    """Moments of the outputs of y in pooled rows."""

    def __init__(self, pilot: Pilot) -> None:
        self._position = pilot.target_position()
        assert pilot.target is not None
        K = pilot.target.n_levels
        # Orthonormal contrasts of the classes, whose shares add up to 1; two classes: the larger label.
        self.contrasts = np.ones((1, 1))
        if self._position[0] == "levels":
            two = np.array([[-1.0], [1.0]]) / np.sqrt(2.0)
            self.contrasts = two if K == 2 else scipy.linalg.null_space(np.ones((1, K)))

    def _stats(self, pooled: Pooled) -> tuple[Array, Array, Array]:
        return target_covariance(pooled, pooled.stats(self._position))

    def outputs(self, pooled: Pooled) -> Array:
        """Covariance of psi with the outputs, (D, outputs)."""
        return self._stats(pooled)[0]

    def cross(self, pooled: Pooled) -> Array:
        """Covariance of psi with the contrasts, (D, L)."""
        return self.outputs(pooled) @ self.contrasts

    def shares(self, pooled: Pooled) -> Array:
        """Means of the outputs, (outputs,): shares of the classes."""
        return self._stats(pooled)[1]

    def mean(self, pooled: Pooled) -> Array:
        """Means of the contrasts, (L,)."""
        return self._stats(pooled)[1] @ self.contrasts

    def cov(self, pooled: Pooled) -> Array:
        """Covariance of the contrasts, (L, L)."""
        _, mean, variance = self._stats(pooled)
        classes = self._position[0] == "levels"
        cov = np.diag(mean) - np.outer(mean, mean) if classes else variance[:, None]
        return np.asarray(self.contrasts.T @ cov @ self.contrasts)


class CodeSums:
    """Moments of the codes by cell and fold, in the coordinates of psi, without second moments of psi."""

    def __init__(self, moments: Moments, pilot: Pilot) -> None:
        self._moments, self._pending = moments, pilot.features.pending
        self._known: dict[tuple[int | None, int, bool], Pooled] = {}

    def pool(self, cell: int | None, fold: int = -1, *, others: bool = False) -> Pooled:
        """Rows of a cell in a fold, or in the others; all rows of the cell for fold -1."""
        key = (cell, fold, others)
        if key not in self._known:
            mask = (np.arange(self._moments.n_folds) == fold) != (others or fold < 0)
            pooled = self._moments.pool(cell=cell, folds=mask, scatter=False)
            self._known[key] = pooled if self._pending is None else pooled.project(self._pending)
        return self._known[key]


def make_codes(
    reports: list[BlockReport], pilot: Pilot, sums: CodeSums, min_rows: int
) -> list[FoldCodes | None]:
    """Codes of every block; None for a block without any."""
    columns, seen = {}, 0
    for j, coder in enumerate(pilot.coders):
        columns[coder.name] = (j, seen)
        seen += isinstance(coder, Coder) and coder.kind == "continuous"
    out: list[FoldCodes | None] = []
    for report in reports:
        level, column = columns[report.attribute]
        cell = None if pilot.cells.rule == "all" else pilot.cells.names.index(report.cell)
        out.append(
            None
            if report.coding == "none"
            else _block_codes(
                report,
                sums.pool(cell),
                cell=cell,
                level=level,
                column=column,
                labels=tuple(pilot.coders[level].labels),
                min_rows=min_rows,
                first_probability=pilot.probability_columns(level).start,
            )
        )
    return out
