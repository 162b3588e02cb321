"""Moments: all the data the method needs, in a form that merges exactly (METHOD 2).

Rows fall into groups (cell, fold). Per group: weight, mean and centred second moment of the
columns; per group and level of every coded variable its weight and mean; per group and numeric
variable its centred square and its centred product with the columns. Blocks, files, workers, folds
and ``partial_fit`` are one mechanism: everything centred is merged with the pairwise update
``M = M_a + M_b + delta delta' T_a T_b / T`` (Chan, Golub, LeVeque 1983).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan.exceptions import IncompatibleMomentsError
from fairspan.method.data import Codes
from fairspan.method.linalg import Array
from fairspan.method.row_sketch import RowSketch

__all__ = ["ColumnStats", "LevelStats", "Moments", "Pooled", "merge_mean"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class LevelStats:
    """One coded variable on pooled rows: per level weight, sum of squared weights, rows, mean."""

    weight: Array
    weight2: Array
    rows: Integers
    mean: Array  # (levels, D)


@dataclass(frozen=True)
class ColumnStats:
    """One numeric variable v on the pooled rows where it is present."""

    weight: float
    weight2: float
    rows: int
    mean: float
    square: float  # sum w (v - mean)^2
    cross: Array  # sum w (v - mean) (columns - mean), (D,)


@dataclass(frozen=True)
class Pooled:
    """Moments of a set of groups taken together."""

    weight: float
    weight2: float
    rows: int
    mean: Array
    scatter: Array  # sum w (x - mean)(x - mean)'

    levels: tuple[LevelStats, ...]
    columns: tuple[ColumnStats, ...]

    @property
    def cov(self) -> Array:
        """Covariance; divides by the total weight, never n - 1."""
        return self.scatter / self.weight

    @property
    def kish(self) -> float:
        """Effective number of rows, ``(sum w)^2 / sum w^2``."""
        return kish(self.weight, self.weight2)


def kish(weight: float, weight2: float) -> float:
    """Effective sample size; equals the row count for equal weights."""
    return weight**2 / weight2 if weight2 > 0.0 else 0.0


@dataclass(frozen=True)
class Moments:
    """Frozen sums over groups; ``a + b`` is the moments of both sets of rows.

    Shapes: G groups = cells x folds (cell-major), H levels of all coded variables in one axis (cut
    by ``level_sizes``), V numeric variables, D columns.
    """

    fingerprint: str
    n_folds: int
    level_sizes: tuple[int, ...]
    weight: Array  # (G,)
    weight2: Array
    rows: Integers
    mean: Array  # (G, D)
    scatter: Array  # (G, D, D)
    level_weight: Array  # (G, H)
    level_weight2: Array
    level_rows: Integers
    level_mean: Array  # (G, H, D)
    column_weight: Array  # (G, V)
    column_weight2: Array
    column_rows: Integers
    column_mean: Array
    column_square: Array
    column_centre: Array  # (G, V, D): mean of the columns where v is present
    column_cross: Array  # (G, V, D)
    sum_log_weight: float
    first_index: int  # global index of the first row seen, -1 if none
    first_row: Array  # (D,): its columns; the paper's sign rule reads them
    row_sketch: RowSketch | None = None  # to recognise these rows later; None if not known

    @classmethod
    def empty(
        cls,
        fingerprint: str,
        n_cells: int,
        n_folds: int,
        level_sizes: tuple[int, ...],
        n_numeric: int,
        n_columns: int,
    ) -> Moments:
        """Moments of no rows."""
        G, H, V, D = n_cells * n_folds, sum(level_sizes), n_numeric, n_columns

        def zeros(*shape: int) -> Array:
            return np.zeros(shape)

        def counts(*shape: int) -> Integers:
            return np.zeros(shape, dtype=np.int64)

        return cls(
            fingerprint, n_folds, level_sizes,
            zeros(G), zeros(G), counts(G), zeros(G, D), zeros(G, D, D),
            zeros(G, H), zeros(G, H), counts(G, H), zeros(G, H, D),
            zeros(G, V), zeros(G, V), counts(G, V), zeros(G, V), zeros(G, V), zeros(G, V, D),
            zeros(G, V, D), 0.0, -1, zeros(D), RowSketch.empty(fingerprint),
        )  # fmt: skip

    @staticmethod
    def bytes_needed(
        n_cells: int, n_folds: int, n_levels: int, n_numeric: int, n_columns: int
    ) -> int:
        """Memory of one set of moments; fitting holds about two."""
        groups = n_cells * n_folds
        return 8 * groups * n_columns * (n_columns + n_levels + 2 * n_numeric + 1)

    @property
    def n_columns(self) -> int:
        """D."""
        return int(self.mean.shape[1])

    @property
    def n_rows(self) -> int:
        """Rows seen so far."""
        return int(self.rows.sum())

    def __add__(self, other: Moments) -> Moments:
        """Moments of both sets of rows; refused unless both froze the same pilot."""
        if not isinstance(other, Moments):
            return NotImplemented
        if self.fingerprint != other.fingerprint:
            msg = (
                f"Moments of another pilot cannot be merged ({self.fingerprint[:12]} here, "
                f"{other.fingerprint[:12]} there): landmarks, slice edges, category lists, cells "
                f"and folds must be the same. Call `prepare` once and copy that estimator to every "
                f"worker."
            )
            raise IncompatibleMomentsError(msg)
        weight = self.weight + other.weight
        mean, delta, factor = merge_mean(self.weight, self.mean, other.weight, other.mean)
        scatter = self.scatter + other.scatter
        for g in np.flatnonzero(factor):
            scatter[g] += factor[g] * np.outer(delta[g], delta[g])
        level_mean, _, _ = merge_mean(
            self.level_weight, self.level_mean, other.level_weight, other.level_mean
        )
        centre, kappa_gap, factor = merge_mean(
            self.column_weight, self.column_centre, other.column_weight, other.column_centre
        )
        v_mean, v_gap, _ = merge_mean(
            self.column_weight, self.column_mean, other.column_weight, other.column_mean
        )
        mine = other.first_index < 0 or 0 <= self.first_index <= other.first_index
        return replace(
            self,
            weight=weight,
            weight2=self.weight2 + other.weight2,
            rows=self.rows + other.rows,
            mean=mean,
            scatter=scatter,
            level_weight=self.level_weight + other.level_weight,
            level_weight2=self.level_weight2 + other.level_weight2,
            level_rows=self.level_rows + other.level_rows,
            level_mean=level_mean,
            column_weight=self.column_weight + other.column_weight,
            column_weight2=self.column_weight2 + other.column_weight2,
            column_rows=self.column_rows + other.column_rows,
            column_mean=v_mean,
            column_square=self.column_square + other.column_square + factor * v_gap**2,
            column_centre=centre,
            column_cross=self.column_cross
            + other.column_cross
            + (factor * v_gap)[..., None] * kappa_gap,
            sum_log_weight=self.sum_log_weight + other.sum_log_weight,
            first_index=self.first_index if mine else other.first_index,
            first_row=self.first_row if mine else other.first_row,
            row_sketch=_both(self.row_sketch, other.row_sketch),
        )

    def over_cells(self) -> Moments:
        """The same rows with all cells as one: moments per fold."""
        parts = [
            self._groups(slice(start, start + self.n_folds), self.n_folds)
            for start in range(0, len(self.weight), self.n_folds)
        ]
        return self._together(parts)

    def over_folds(self) -> Moments:
        """The same rows with all folds as one: moments per cell."""
        parts = [self._groups(slice(fold, None, self.n_folds), 1) for fold in range(self.n_folds)]
        return self._together(parts)

    def _together(self, parts: list[Moments]) -> Moments:
        """Their sum, with what belongs to all rows counted once."""
        merged = parts[0] if len(parts) == 1 else sum(parts[1:], parts[0])
        return replace(merged, sum_log_weight=self.sum_log_weight, row_sketch=self.row_sketch)

    def _groups(self, groups: slice, n_folds: int) -> Moments:
        """Some of the groups, as moments of their own."""
        kept: dict[str, Any] = {
            f.name: getattr(self, f.name)[groups]
            for f in fields(self)
            if isinstance(getattr(self, f.name), np.ndarray) and f.name != "first_row"
        }
        return replace(self, n_folds=n_folds, row_sketch=None, **kept)

    def project(self, basis: Array) -> Moments:
        """Moments of ``columns @ basis``: whitening once, after the pass."""
        scatter = np.empty((len(self.scatter), basis.shape[1], basis.shape[1]))
        for one, out in zip(self.scatter, scatter, strict=True):
            np.matmul(basis.T, one @ basis, out=out)
        return replace(
            self,
            mean=self.mean @ basis,
            scatter=scatter,
            level_mean=self.level_mean @ basis,
            column_centre=self.column_centre @ basis,
            column_cross=self.column_cross @ basis,
            first_row=self.first_row @ basis,
        )

    def pool(self, cell: int | None = None, folds: NDArray[np.bool_] | None = None) -> Pooled:
        """Rows of one cell (all cells if None), in the folds of a mask (all if None)."""
        n_cells = len(self.weight) // self.n_folds
        chosen = np.ones((n_cells, self.n_folds), dtype=bool)
        if cell is not None:
            chosen[np.arange(n_cells) != cell] = False
        if folds is not None:
            chosen[:, ~folds] = False
        g = np.flatnonzero(chosen.ravel() & (self.weight > 0.0))
        w = self.weight[g]
        total = float(w.sum())
        mean = (w / total) @ self.mean[g] if len(g) else np.zeros(self.n_columns)
        spread = (self.mean[g] - mean) * np.sqrt(w)[:, None]
        scatter = spread.T @ spread
        for one in g:
            scatter += self.scatter[one]
        bounds = np.cumsum((0, *self.level_sizes))
        levels = tuple(self._pool_levels(g, slice(a, b)) for a, b in pairwise(bounds))
        columns = tuple(self._pool_column(g, v) for v in range(self.column_mean.shape[1]))
        return Pooled(
            total, float(self.weight2[g].sum()), int(self.rows[g].sum()), mean, scatter,
            levels, columns,
        )  # fmt: skip

    def _pool_levels(self, g: Codes, part: slice) -> LevelStats:
        weight = self.level_weight[g, part]
        total = weight.sum(axis=0)
        share = weight / np.where(total > 0.0, total, 1.0)
        return LevelStats(
            total,
            self.level_weight2[g, part].sum(axis=0),
            self.level_rows[g, part].sum(axis=0),
            np.einsum("gh,ghd->hd", share, self.level_mean[g, part]),
        )

    def _pool_column(self, g: Codes, v: int) -> ColumnStats:
        w = self.column_weight[g, v]
        total = float(w.sum())
        share = w / total if total > 0.0 else w
        mean = float(share @ self.column_mean[g, v])
        centre = share @ self.column_centre[g, v]
        gap = self.column_mean[g, v] - mean
        return ColumnStats(
            total,
            float(self.column_weight2[g, v].sum()),
            int(self.column_rows[g, v].sum()),
            mean,
            float(self.column_square[g, v].sum() + w @ gap**2),
            self.column_cross[g, v].sum(axis=0) + (w * gap) @ (self.column_centre[g, v] - centre),
        )


def _both(a: RowSketch | None, b: RowSketch | None) -> RowSketch | None:
    return b if a is None else a if b is None else a + b


def merge_mean(wa: Array, a: Array, wb: Array, b: Array) -> tuple[Array, Array, Array]:
    """Merged mean, difference b - a, and the factor ``T_a T_b / T`` (0 where a side is empty)."""
    total = wa + wb
    safe = np.where(total > 0.0, total, 1.0)
    extra = a.ndim - wa.ndim
    share = (wb / safe).reshape(wb.shape + (1,) * extra)
    delta = b - a
    return a + share * delta, delta, wa * wb / safe
