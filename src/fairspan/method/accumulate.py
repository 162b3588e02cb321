"""The hot loop of the moments: one SYRK per block of rows, in place, whatever the criterion.

Everything a group's moments consist of is one Gram matrix: of its columns, about a point near their
mean, beside a column of ones, the level indicators, and the numeric variables with their presence. So a
level mean costs what one more column would, at the speed of a square product and not of a thin one.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from fairspan.method.data import Codes
from fairspan.method.linalg import Array, mirror_upper
from fairspan.method.moments import Moments, merge_mean

__all__ = ["Accumulator"]

# Products are slower at widths that vector registers do not divide.
_ALIGN = 8


class Accumulator:
    """Mutable moments.

    A group's Gram matrix holds its columns' second moments about ``_about`` (rows settled before and
    rows since), and beside them sums over the rows since it was last settled. Chan's rank-one term, a
    pass over D x D, can wait until then.
    """

    def __init__(self, moments: Moments) -> None:
        G, D = moments.mean.shape
        H, V = moments.level_mean.shape[1], moments.column_mean.shape[1]
        self._one = D
        self._levels = slice(D + 1, D + 1 + H)
        self._present = slice(D + 1 + H, D + 1 + H + V)
        self._values = slice(D + 1 + H + V, D + 1 + H + 2 * V)
        self._offsets = D + 1 + np.cumsum((0, *moments.level_sizes))
        width = -(-self._values.stop // _ALIGN) * _ALIGN
        # Zero pages cost nothing until they are written, so empty moments are not copied.
        self._gram = np.zeros((G, width, width))
        if moments.n_rows:
            self._gram[:, :D, :D] = moments.scatter
        copies: dict[str, Any] = {
            f.name: np.copy(getattr(moments, f.name))
            for f in fields(moments)
            if isinstance(getattr(moments, f.name), np.ndarray) and f.name != "scatter"
        }
        self._sums = replace(moments, scatter=self._gram[:, :D, :D], **copies)
        # What the columns and the numeric variables of a group are taken about, and rows since then.
        self._about = np.zeros((G, width))
        self._about[:, :D] = moments.mean
        self._centre = moments.column_mean.copy()
        self._met = moments.column_weight > 0.0
        self._since = np.zeros(G, dtype=np.int64)
        self._block = np.empty((0, width))

    def buffer(self, n_rows: int) -> Array:
        """Memory for a block: columns written into its first rows and columns are not copied again."""
        if len(self._block) < n_rows:
            self._block = np.zeros((n_rows, self._block.shape[1]))
        return self._block[:n_rows]

    def add(
        self,
        columns: Array,
        groups: Codes,
        levels: Codes,
        values: Array,
        weights: Array | None,
    ) -> None:
        """Add a block whose rows are sorted by group.

        Parameters
        ----------
        columns : (n, D), overwritten if they lie in :meth:`buffer`.
        groups : (n,) group of each row, non-decreasing.
        levels : (n, coded variables), -1 where missing.
        values : (n, numeric variables), NaN where missing.
        weights : (n,) positive, or None for ones.
        """
        if columns.base is not self._block:
            self.buffer(len(columns))[:, : self._one] = columns
        Z = self._block[: len(columns)]
        present = np.isfinite(values)
        Z[:, self._one :] = 0.0
        Z[:, self._one] = 1.0
        for j, offset in enumerate(self._offsets[:-1]):
            seen = np.flatnonzero(levels[:, j] >= 0)
            Z[seen, offset + levels[seen, j]] = 1.0
        Z[:, self._present] = present
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(groups)], strict=True):
            rows = slice(start, stop)
            w = None if weights is None else weights[rows]
            self._add_group(int(groups[start]), Z[rows], values[rows], present[rows], w)

    def _add_group(
        self, g: int, Z: Array, values: Array, present: NDArray[np.bool_], weights: Array | None
    ) -> None:
        one, w = self._one, np.ones(len(Z)) if weights is None else weights
        self._begin(g, Z, values, present, w)
        Z -= self._about[g]  # whole rows: faster than parts of them
        Z[:, self._values] = np.where(present, values - self._centre[g], 0.0)
        self._count(g, Z[:, one : self._values.start], w)
        if weights is not None:
            Z *= np.sqrt(w)[:, None]
        # Fortran order: the lower triangle there is the upper one here.
        blas.dsyrk(1.0, Z.T, beta=1.0, c=self._gram[g].T, lower=1, overwrite_c=1)
        self._since[g] += len(Z)
        if 2 * self._since[g] > self._sums.rows[g]:  # drifting rows must not carry the mean away
            self._settle_group(g)

    def _begin(self, g: int, Z: Array, values: Array, present: NDArray[np.bool_], w: Array) -> None:
        """Points to take a group about: any is right, one near the mean loses no digits."""
        if self._sums.rows[g] == 0:
            self._about[g, : self._one] = (w @ Z[:, : self._one]) / w.sum()
        first = ~self._met[g] & present.any(axis=0)
        for v in np.flatnonzero(first):
            self._centre[g, v] = values[present[:, v], v].mean()
        self._met[g] |= first

    def _count(self, g: int, indicators: Array, w: Array) -> None:
        """Rows and squared weights, which the Gram matrix does not have."""
        m, H = self._sums, self._levels.stop - self._levels.start
        rows = indicators.sum(axis=0).astype(np.int64)
        squares = w**2 @ indicators
        m.rows[g] += rows[0]
        m.weight2[g] += squares[0]
        m.level_rows[g] += rows[1 : 1 + H]
        m.level_weight2[g] += squares[1 : 1 + H]
        m.column_rows[g] += rows[1 + H :]
        m.column_weight2[g] += squares[1 + H :]

    def settle(self) -> None:
        """Bring every group's sums into its moments, and its scatter about its mean."""
        for g in np.flatnonzero(self._since):
            self._settle_group(int(g))

    def _settle_group(self, g: int) -> None:
        m, gram, about, D = self._sums, self._gram[g], self._about[g], self._one
        self._settle_levels(g)
        self._settle_columns(g)
        m.weight[g] += gram[D, D]
        step = np.zeros(len(gram))
        step[:D] = gram[:D, D] / m.weight[g]
        blas.dsyr(-float(m.weight[g]), step, lower=1, a=gram.T, overwrite_a=1)
        about += step
        m.mean[g] = about[:D]
        gram[:, D:] = 0.0
        self._since[g] = 0

    def _settle_levels(self, g: int) -> None:
        m, gram, at = self._sums, self._gram[g], self._levels
        weight = gram[self._one, at]
        mean = self._mean_of(g, at, weight)
        m.level_mean[g], _, _ = merge_mean(m.level_weight[g], m.level_mean[g], weight, mean)
        m.level_weight[g] += weight

    def _settle_columns(self, g: int) -> None:
        m, gram, D = self._sums, self._gram[g], self._one
        weight, off = gram[D, self._present], gram[D, self._values]
        centre = self._mean_of(g, self._present, weight)
        # About the numeric variable's own mean over these rows, then as in Moments.__add__.
        gap = off / np.where(weight > 0.0, weight, 1.0)
        square = gram[self._values, self._values].diagonal() - gap * off
        cross = gram[:D, self._values].T - gap[:, None] * gram[:D, self._present].T
        merged, kappa_gap, factor = merge_mean(
            m.column_weight[g], m.column_centre[g], weight, centre
        )
        v_merged, v_gap, _ = merge_mean(
            m.column_weight[g], m.column_mean[g], weight, self._centre[g] + gap
        )
        m.column_square[g] += square + factor * v_gap**2
        m.column_cross[g] += cross + (factor * v_gap)[:, None] * kappa_gap
        m.column_centre[g], m.column_mean[g] = merged, v_merged
        m.column_weight[g] += weight
        self._centre[g] = np.where(m.column_weight[g] > 0.0, v_merged, self._centre[g])

    def _mean_of(self, g: int, at: slice, weight: Array) -> Array:
        """Means of the columns over the rows of each indicator, (indicators, D)."""
        sums = self._gram[g, : self._one, at].T
        return np.asarray(
            sums / np.where(weight > 0.0, weight, 1.0)[:, None] + self._about[g, : self._one]
        )

    def note(self, sum_log_weight: float, first_index: int, first_row: Array) -> None:
        """What a block has once: its logarithms of weights, its first row and that row's place."""
        m = self._sums
        keep = 0 <= m.first_index <= first_index
        self._sums = replace(
            m,
            sum_log_weight=m.sum_log_weight + sum_log_weight,
            first_index=m.first_index if keep else first_index,
            first_row=m.first_row if keep else first_row,
        )

    def finish(self) -> Moments:
        """The moments so far, symmetric. Adding more afterwards changes them too."""
        self.settle()
        for one in self._sums.scatter:
            mirror_upper(one)
        return self._sums
