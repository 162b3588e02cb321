"""Moments of the feature columns: sufficient statistics that merge exactly (METHOD 2).

A group is the set of rows in one cell and one fold. The moments are, per group: the weight, mean and
centred second moment of the columns; for every level of a coded variable its weight and the mean of the
columns; for every numeric variable its centred square and its centred product with the columns. All of
them merge with ``M = M_a + M_b + delta delta' T_a T_b / T`` (Chan, Golub, LeVeque 1983), so blocks,
files, workers, folds and ``partial_fit`` use the same code.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan.exceptions import IncompatibleMomentsError
from fairspan.method.linalg import Array, congruence
from fairspan.method.problem import Codes
from fairspan.method.row_sketch import RowSketch

Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class LevelStats:
    """Statistics of each level of one coded variable, on pooled rows."""

    weight: Array  # (levels,): sum of weights
    weight2: Array  # (levels,): sum of squared weights
    rows: Integers  # (levels,): number of rows
    mean: Array  # (levels, D): mean of the columns
    # (levels, levels): sum w p p', if rows have probabilities p of the levels. These stand for indicators
    # everywhere else; ``rows`` then counts rows with probabilities, for every level.
    pairs: Array | None = None


@dataclass(frozen=True, kw_only=True)
class ColumnStats:
    """Statistics of one numeric variable v, on the pooled rows in which it is not missing."""

    weight: float
    weight2: float
    rows: int
    mean: float
    square: float  # sum w (v - mean)^2
    cross: Array  # sum w (v - mean) (columns - mean), (D,)


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """Moments of several groups taken together."""

    weight: float
    weight2: float  # sum of squared weights
    rows: int
    mean: Array  # (D,)
    scatter: Array  # (D, D): sum w (x - mean)(x - mean)'
    levels: tuple[LevelStats, ...]  # one per coded variable
    columns: tuple[ColumnStats, ...]  # one per numeric variable

    @property
    def cov(self) -> Array:
        """Covariance of the columns, (D, D). It divides by the total weight, never by n - 1."""
        return self.scatter / self.weight

    def stats(self, position: tuple[str, int]) -> LevelStats | ColumnStats:
        """Return the statistics of one variable: at ("levels" or "columns", index)."""
        kind, index = position
        return self.levels[index] if kind == "levels" else self.columns[index]

    def project(self, basis: Array) -> Pooled:
        """Compute the moments of ``columns @ basis`` without their second moments; basis is (D, k)."""
        return replace(
            self,
            mean=self.mean @ basis,
            scatter=np.zeros((0, 0)),
            levels=tuple(replace(stats, mean=stats.mean @ basis) for stats in self.levels),
            columns=tuple(replace(stats, cross=stats.cross @ basis) for stats in self.columns),
        )


def kish(weight: float, weight2: float) -> float:
    """Compute Kish's effective sample size ``(sum w)^2 / sum w^2``: the row count if weights are equal."""
    return weight**2 / weight2 if weight2 > 0.0 else 0.0


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Moments per group of rows; ``a + b`` are the moments of both sets of rows.

    Shapes: G groups (cells x folds, all folds of a cell next to each other), H levels (those of all
    coded variables in one axis, ``level_sizes`` has the number of each), V numeric variables, D columns.
    """

    fingerprint: str
    n_folds: int
    level_sizes: tuple[int, ...]
    weight: Array  # (G,): sum of weights
    weight2: Array  # (G,): sum of squared weights
    rows: Integers  # (G,): number of rows
    mean: Array  # (G, D)
    scatter: Array  # (G, D, D): sum w (x - mean)(x - mean)'
    level_weight: Array  # (G, H), and so on as above
    level_weight2: Array
    level_rows: Integers
    level_mean: Array  # (G, H, D): mean of the columns in the level
    column_weight: Array  # (G, V): of the rows in which the variable v is not missing
    column_weight2: Array
    column_rows: Integers
    column_mean: Array  # (G, V): mean of v
    column_square: Array  # (G, V): sum w (v - mean)^2
    column_centre: Array  # (G, V, D): mean of the columns over the same rows
    column_cross: Array  # (G, V, D): sum w (v - mean)(x - mean)
    sum_log_weight: float
    first_index: int  # index of the first row in all the data, -1 without rows
    first_row: Array  # (D,): columns of that row, for the paper's rule on signs
    row_sketch: RowSketch | None = None  # with which an audit recognises these rows
    # After rows were subtracted, (G, 1 + V): rounding of the scatter's trace, and of column_square.
    rounding: Array | None = None
    # Coded variables whose rows have probabilities of the levels, and the sums w p p' of each, flattened
    # and side by side, (G, P); None without any.
    pair_variables: tuple[int, ...] = ()
    level_pairs: Array | None = None

    @classmethod
    def empty(
        cls,
        fingerprint: str,
        *,
        n_cells: int,
        n_folds: int,
        level_sizes: tuple[int, ...],
        n_numeric: int,
        n_columns: int,
        pair_variables: tuple[int, ...] = (),
    ) -> Moments:
        """Return the moments of no rows."""
        G, H, V, D = n_cells * n_folds, sum(level_sizes), n_numeric, n_columns

        def counts(*shape: int) -> Integers:
            return np.zeros(shape, dtype=np.int64)

        return cls(
            fingerprint=fingerprint,
            n_folds=n_folds,
            level_sizes=level_sizes,
            weight=np.zeros(G),
            weight2=np.zeros(G),
            rows=counts(G),
            mean=np.zeros((G, D)),
            scatter=np.zeros((G, D, D)),
            level_weight=np.zeros((G, H)),
            level_weight2=np.zeros((G, H)),
            level_rows=counts(G, H),
            level_mean=np.zeros((G, H, D)),
            column_weight=np.zeros((G, V)),
            column_weight2=np.zeros((G, V)),
            column_rows=counts(G, V),
            column_mean=np.zeros((G, V)),
            column_square=np.zeros((G, V)),
            column_centre=np.zeros((G, V, D)),
            column_cross=np.zeros((G, V, D)),
            sum_log_weight=0.0,
            first_index=-1,
            first_row=np.zeros(D),
            row_sketch=RowSketch.empty(fingerprint),
            pair_variables=pair_variables,
            level_pairs=np.zeros((G, sum(level_sizes[j] ** 2 for j in pair_variables)))
            if pair_variables
            else None,
        )

    @staticmethod
    def bytes_needed(
        *, n_cells: int, n_folds: int, n_levels: int, n_numeric: int, n_columns: int
    ) -> int:
        """Estimate the memory of one set of moments; fitting holds about two."""
        groups = n_cells * n_folds
        return 8 * groups * n_columns * (n_columns + n_levels + 2 * n_numeric + 1)

    @property
    def n_columns(self) -> int:
        """Number of columns D."""
        return int(self.mean.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows accumulated so far."""
        return int(self.rows.sum())

    def __add__(self, other: Moments) -> Moments:
        """Merge the moments of two sets of rows; raise if they do not belong to the same pilot."""
        if not isinstance(other, Moments):
            return NotImplemented
        if self.fingerprint != other.fingerprint:
            raise IncompatibleMomentsError(
                f"Moments of another pilot cannot be merged ({self.fingerprint[:12]} here, "
                f"{other.fingerprint[:12]} there): landmarks, slice edges, category lists, cells "
                f"and folds must be the same. Call `prepare` once and copy that estimator to every "
                f"worker."
            )
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
        cross = self.column_cross + other.column_cross + (factor * v_gap)[..., None] * kappa_gap
        earlier = other.first_index < 0 or 0 <= self.first_index <= other.first_index
        first = self if earlier else other
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
            column_cross=cross,
            sum_log_weight=self.sum_log_weight + other.sum_log_weight,
            first_index=first.first_index,
            first_row=first.first_row,
            row_sketch=_merged_sketches(self.row_sketch, other.row_sketch),
            rounding=_sum_of_known(self.rounding, other.rounding),
            level_pairs=None
            if self.level_pairs is None or other.level_pairs is None
            else self.level_pairs + other.level_pairs,
        )

    def __sub__(self, other: Moments) -> Moments:
        """Compute the moments without the rows of ``other``; raise if they were not among these rows."""
        if not isinstance(other, Moments):
            return NotImplemented
        from fairspan.method.forgetting import subtract  # it needs this class

        return subtract(self, other)

    def over_cells(self) -> Moments:
        """Merge all cells: moments per fold."""
        parts = [
            self._groups(slice(start, start + self.n_folds), self.n_folds)
            for start in range(0, len(self.weight), self.n_folds)
        ]
        return self._merged(parts)

    def over_folds(self) -> Moments:
        """Merge all folds: moments per cell."""
        parts = [self._groups(slice(fold, None, self.n_folds), 1) for fold in range(self.n_folds)]
        return self._merged(parts)

    def _merged(self, parts: list[Moments]) -> Moments:
        """Add up parts of these moments; attributes of all rows together are counted once."""
        merged = parts[0] if len(parts) == 1 else sum(parts[1:], parts[0])
        return replace(merged, sum_log_weight=self.sum_log_weight, row_sketch=self.row_sketch)

    def _groups(self, groups: slice, n_folds: int) -> Moments:
        """Select some of the groups."""
        selected: dict[str, Any] = {
            f.name: getattr(self, f.name)[groups]
            for f in fields(self)
            if isinstance(getattr(self, f.name), np.ndarray) and f.name != "first_row"
        }
        return replace(self, n_folds=n_folds, row_sketch=None, **selected)

    def project(self, basis: Array) -> Moments:
        """Compute the moments of ``columns @ basis``, for whitening after the pass; basis is (D, k)."""
        scatter = np.empty((len(self.scatter), basis.shape[1], basis.shape[1]))
        for group, out in zip(self.scatter, scatter, strict=True):
            out[...] = congruence(group, basis)
        return replace(
            self,
            mean=self.mean @ basis,
            scatter=scatter,
            level_mean=self.level_mean @ basis,
            column_centre=self.column_centre @ basis,
            column_cross=self.column_cross @ basis,
            first_row=self.first_row @ basis,
        )

    def pool(
        self,
        cell: int | None = None,
        folds: NDArray[np.bool_] | None = None,
        *,
        scatter: bool = True,
    ) -> Pooled:
        """Merge the groups of one cell (all cells if None) and of the folds in a mask (all folds if None).

        Without ``scatter`` the second moments of the columns are left out.
        """
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
        products = np.zeros((0, 0))
        if scatter:
            spread = (self.mean[g] - mean) * np.sqrt(w)[:, None]
            products = spread.T @ spread
            for group in g:
                products += self.scatter[group]
        bounds = np.cumsum((0, *self.level_sizes))
        levels = tuple(
            self._pool_levels(g, slice(a, b), self._pool_pairs(g, j))
            for j, (a, b) in enumerate(pairwise(bounds))
        )
        columns = tuple(self._pool_column(g, v) for v in range(self.column_mean.shape[1]))
        return Pooled(
            weight=total,
            weight2=float(self.weight2[g].sum()),
            rows=int(self.rows[g].sum()),
            mean=mean,
            scatter=products,
            levels=levels,
            columns=columns,
        )

    def pair_columns(self, j: int) -> slice:
        """Columns of ``level_pairs`` of a coded variable whose rows have probabilities."""
        earlier = sum(self.level_sizes[i] ** 2 for i in self.pair_variables if i < j)
        return slice(earlier, earlier + self.level_sizes[j] ** 2)

    def _pool_pairs(self, g: Codes, j: int) -> Array | None:
        if self.level_pairs is None or j not in self.pair_variables:
            return None
        size = self.level_sizes[j]
        return np.asarray(self.level_pairs[g, self.pair_columns(j)].sum(axis=0).reshape(size, size))

    def _pool_levels(self, g: Codes, part: slice, pairs: Array | None) -> LevelStats:
        weight = self.level_weight[g, part]
        total = weight.sum(axis=0)
        share = weight / np.where(total > 0.0, total, 1.0)
        return LevelStats(
            weight=total,
            weight2=self.level_weight2[g, part].sum(axis=0),
            rows=self.level_rows[g, part].sum(axis=0),
            mean=np.einsum("gh,ghd->hd", share, self.level_mean[g, part]),
            pairs=pairs,
        )

    def _pool_column(self, g: Codes, v: int) -> ColumnStats:
        w = self.column_weight[g, v]
        total = float(w.sum())
        share = w / total if total > 0.0 else w
        mean = float(share @ self.column_mean[g, v])
        centre = share @ self.column_centre[g, v]
        gap = self.column_mean[g, v] - mean
        cross = self.column_cross[g, v].sum(axis=0)
        return ColumnStats(
            weight=total,
            weight2=float(self.column_weight2[g, v].sum()),
            rows=int(self.column_rows[g, v].sum()),
            mean=mean,
            square=float(self.column_square[g, v].sum() + w @ gap**2),
            cross=cross + (w * gap) @ (self.column_centre[g, v] - centre),
        )


def _merged_sketches(a: RowSketch | None, b: RowSketch | None) -> RowSketch | None:
    return b if a is None else a if b is None else a + b


def _sum_of_known(a: Array | None, b: Array | None) -> Array | None:
    return b if a is None else a if b is None else a + b


def merge_mean(wa: Array, a: Array, wb: Array, b: Array) -> tuple[Array, Array, Array]:
    """Merge means a and b of weights wa and wb: merged mean, ``b - a``, and ``T_a T_b / T``.

    The last one is 0 if one side has no weight. ``a`` may have more axes than ``wa``, after its own.
    """
    total = wa + wb
    safe = np.where(total > 0.0, total, 1.0)
    extra = a.ndim - wa.ndim
    share = (wb / safe).reshape(wb.shape + (1,) * extra)
    delta = b - a
    return a + share * delta, delta, wa * wb / safe
