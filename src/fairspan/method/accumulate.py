"""Passes over rows that add up moments: one symmetric product per block of rows, for any criterion.

Everything a group's moments consist of is one Gram matrix: of its feature columns, about a point near
their mean, beside a column of ones, the level indicators, and the numeric variables with their presence.
A level mean then costs as much as one more column, at the speed of a square product and not of a thin
one. :class:`GramLayout` describes this matrix, for numpy here and for torch in ``fairspan.device``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from fairspan._system import track
from fairspan.method.folds import Counter
from fairspan.method.linalg import Array, mirror_upper
from fairspan.method.moments import Moments, merge_mean
from fairspan.method.pilot import Encoded, Pilot
from fairspan.method.problem import Codes, Data
from fairspan.method.row_sketch import RowSketch

Number = TypeVar("Number", np.float64, np.int64)

# Products are slower at widths that vector registers do not divide.
_ALIGN = 8
# Rows whose feature columns are computed at once.
_BLOCK_ROWS = 2048


@dataclass(frozen=True, kw_only=True)
class GramLayout:
    """Columns of a block of rows, and so of a group's Gram matrix.

    From left to right: D feature columns and padding; a column of ones; H level indicators; V presences
    of the numeric variables; their V centred values, 0 where missing; padding up to ``width``. In the
    Gram matrix, ``[ones, ones]`` is the weight, ``[ones, levels]`` and ``[ones, present]`` are weights
    of levels and variables, and ``[:D, ...]`` holds the sums of the feature columns over the same rows.
    """

    D: int
    ones: int
    levels: slice
    level_starts: tuple[int, ...]  # first indicator of each coded variable
    present: slice
    values: slice
    width: int

    @classmethod
    def of(cls, moments: Moments, *, ones: int, pad: Callable[[int], int]) -> GramLayout:
        """Lay out the columns for such moments; ``ones`` is at least D, and ``pad`` rounds the width up."""
        V = moments.column_mean.shape[1]
        starts = (ones + 1 + np.cumsum((0, *moments.level_sizes))).tolist()
        stop = starts[-1]
        return cls(
            D=moments.n_columns,
            ones=ones,
            levels=slice(ones + 1, stop),
            level_starts=tuple(starts[:-1]),
            present=slice(stop, stop + V),
            values=slice(stop + V, stop + 2 * V),
            width=pad(stop + 2 * V),
        )

    @property
    def indicators(self) -> slice:
        """The columns that are 0 or 1: ones, levels and presences."""
        return slice(self.ones, self.values.start)

    def split(self, sums: NDArray[Number]) -> tuple[NDArray[Number], ...]:
        """Cut sums over the indicators into those of all rows, of levels and of numeric variables."""
        start = self.present.start - self.ones
        return sums[..., 0], sums[..., 1:start], sums[..., start:]

    def means(self, gram: Any, indicators: slice, about: Any) -> Any:
        """Means of the feature columns over the rows of each indicator, (..., indicators, D).

        Without such rows this is ``about``, the point that the feature columns are taken about. Takes
        arrays and tensors, of one group or of all.
        """
        weight = gram[..., self.ones, indicators]
        sums = gram[..., : self.D, indicators].swapaxes(-1, -2)
        return sums / (weight + (weight <= 0.0))[..., None] + about[..., None, :]

    def pack(self, moments: Moments, g: int, about: Array) -> Array:
        """The Gram matrix of one group's moments, with feature columns taken about a point."""
        D, ones, levels, p, v = self.D, self.ones, self.levels, self.present, self.values
        gram = np.zeros((self.width, self.width))
        gap, weight = moments.mean[g] - about, moments.column_weight[g]
        gram[:D, :D] = moments.scatter[g] + moments.weight[g] * np.outer(gap, gap)
        gram[:D, ones] = moments.weight[g] * gap
        gram[:D, levels] = ((moments.level_mean[g] - about) * moments.level_weight[g][:, None]).T
        gram[:D, p] = ((moments.column_centre[g] - about) * weight[:, None]).T
        gram[:D, v] = moments.column_cross[g].T
        gram[ones, ones] = moments.weight[g]
        gram[ones, levels] = moments.level_weight[g]
        gram[ones, p] = weight
        gram[p, p] = np.diag(weight)
        gram[v, v] = np.diag(moments.column_square[g])
        return gram


class Accumulator:
    """Mutable moments.

    A group's Gram matrix holds the second moments of its feature columns about ``_about``, of all rows,
    and the sums beside them over the rows since the group was last settled. Chan's rank-one term, a pass
    over D x D, is only computed then.
    """

    def __init__(self, moments: Moments) -> None:
        G, D = moments.mean.shape
        self._layout = GramLayout.of(moments, ones=D, pad=lambda n: -(-n // _ALIGN) * _ALIGN)
        width = self._layout.width
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
        # The points that feature columns and numeric variables of a group are taken about.
        self._about = np.zeros((G, width))
        self._about[:, :D] = moments.mean
        self._centre = moments.column_mean.copy()
        self._has_centre = moments.column_weight > 0.0
        self._rows_since = np.zeros(G, dtype=np.int64)  # rows added since a group was settled
        self._buffer = np.empty((0, width))

    def buffer(self, n_rows: int) -> Array:
        """Memory for a block: columns written into its first rows and columns are not copied again."""
        if len(self._buffer) < n_rows:
            self._buffer = np.zeros((n_rows, self._layout.width))
        return self._buffer[:n_rows]

    def add(
        self,
        columns: Array,
        groups: Codes,
        levels: Codes,
        values: Array,
        weights: Array | None,
        probabilities: Array | None = None,
    ) -> None:
        """Add a block whose rows are sorted by group.

        Parameters
        ----------
        columns : (n, D), overwritten if they lie in :meth:`buffer`.
        groups : (n,) group of each row, non-decreasing.
        levels : (n, coded variables), -1 where missing.
        values : (n, numeric variables), NaN where missing.
        weights : (n,) positive, or None for ones.
        probabilities : (n, levels of all variables that have some), NaN where missing.
        """
        at, start_of = self._layout, 0
        if columns.base is not self._buffer:
            self.buffer(len(columns))[:, : at.D] = columns
        Z = self._buffer[: len(columns)]
        present = np.isfinite(values)
        Z[:, at.ones :] = 0.0
        Z[:, at.ones] = 1.0
        for j, start in enumerate(at.level_starts):
            if j in self._sums.pair_variables:
                assert probabilities is not None
                size = self._sums.level_sizes[j]
                p = probabilities[:, start_of : start_of + size]
                Z[:, start : start + size] = np.where(np.isnan(p), 0.0, p)
                start_of += size
                continue
            known = np.flatnonzero(levels[:, j] >= 0)
            Z[known, start + levels[known, j]] = 1.0
        Z[:, at.present] = present
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        for first, stop in zip(starts, [*starts[1:], len(groups)], strict=True):
            rows = slice(first, stop)
            w = None if weights is None else weights[rows]
            self._add_group(int(groups[first]), Z[rows], values[rows], present[rows], w)

    def _add_group(
        self, g: int, Z: Array, values: Array, present: NDArray[np.bool_], weights: Array | None
    ) -> None:
        at, w = self._layout, np.ones(len(Z)) if weights is None else weights
        self._choose_centres(g, Z, values, present, w)
        Z -= self._about[g]  # whole rows: faster than parts of them
        Z[:, at.values] = np.where(present, values - self._centre[g], 0.0)
        self._count(g, Z[:, at.indicators], w)
        if weights is not None:
            Z *= np.sqrt(w)[:, None]
        # Fortran order: the lower triangle there is the upper one here.
        blas.dsyrk(1.0, Z.T, beta=1.0, c=self._gram[g].T, lower=1, overwrite_c=1)
        self._rows_since[g] += len(Z)
        # Settle often enough that the mean of drifting rows stays near `_about`.
        if 2 * self._rows_since[g] > self._sums.rows[g]:
            self._settle_group(g)

    def _choose_centres(
        self, g: int, Z: Array, values: Array, present: NDArray[np.bool_], w: Array
    ) -> None:
        """Choose points to take a new group about: any is right, one near the mean loses no digits."""
        D = self._layout.D
        if self._sums.rows[g] == 0:
            self._about[g, :D] = (w @ Z[:, :D]) / w.sum()
        first = ~self._has_centre[g] & present.any(axis=0)
        for v in np.flatnonzero(first):
            self._centre[g, v] = values[present[:, v], v].mean()
        self._has_centre[g] |= first

    def _count(self, g: int, indicators: Array, w: Array) -> None:
        """Add rows and squared weights, which the Gram matrix does not hold."""
        m, split = self._sums, self._layout.split
        rows = indicators.sum(axis=0)
        for j in m.pair_variables:  # of a variable with probabilities, rows that have some
            first = self._layout.level_starts[j] - self._layout.ones
            part = slice(first, first + m.level_sizes[j])
            rows[part] = np.count_nonzero(indicators[:, part].any(axis=1))
        rows = rows.astype(np.int64)
        squares = w**2 @ indicators
        for n, more_rows in zip((m.rows, m.level_rows, m.column_rows), split(rows), strict=True):
            n[g] += more_rows
        squared = (m.weight2, m.level_weight2, m.column_weight2)
        for weight2, more in zip(squared, split(squares), strict=True):
            weight2[g] += more

    def settle(self) -> None:
        """Bring every group's sums into its moments, and its scatter about its mean."""
        for g in np.flatnonzero(self._rows_since):
            self._settle_group(int(g))

    def _settle_group(self, g: int) -> None:
        m, gram, about, D = self._sums, self._gram[g], self._about[g], self._layout.D
        self._settle_levels(g)
        self._settle_columns(g)
        m.weight[g] += gram[D, D]
        step = np.zeros(len(gram))
        step[:D] = gram[:D, D] / m.weight[g]
        blas.dsyr(-float(m.weight[g]), step, lower=1, a=gram.T, overwrite_a=1)
        about += step
        m.mean[g] = about[:D]
        gram[:, D:] = 0.0
        self._rows_since[g] = 0

    def _settle_levels(self, g: int) -> None:
        m, at = self._sums, self._layout
        weight = self._gram[g, at.ones, at.levels]
        mean = at.means(self._gram[g], at.levels, self._about[g, : at.D])
        m.level_mean[g], _, _ = merge_mean(m.level_weight[g], m.level_mean[g], weight, mean)
        m.level_weight[g] += weight
        for j in m.pair_variables:
            assert m.level_pairs is not None
            start, size = at.level_starts[j], m.level_sizes[j]
            upper = np.triu(self._gram[g, start : start + size, start : start + size])
            pairs = upper + np.triu(upper, 1).T
            m.level_pairs[g, m.pair_columns(j)] += pairs.ravel()

    def _settle_columns(self, g: int) -> None:
        m, gram, at = self._sums, self._gram[g], self._layout
        weight, off = gram[at.ones, at.present], gram[at.ones, at.values]
        centre = at.means(gram, at.present, self._about[g, : at.D])
        # About the numeric variable's own mean over these rows, then as in Moments.__add__.
        gap = off / np.where(weight > 0.0, weight, 1.0)
        square = gram[at.values, at.values].diagonal() - gap * off
        cross = gram[: at.D, at.values].T - gap[:, None] * gram[: at.D, at.present].T
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

    def note(self, sum_log_weight: float, first_index: int, first_row: Array) -> None:
        """Add what a block has once: its logarithms of weights, its first row and that row's index."""
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
        for scatter in self._sums.scatter:
            mirror_upper(scatter)
        return self._sums


class RowPass(ABC):
    """A pass over rows: the moments of earlier rows, and of all blocks that are added.

    ``position`` is that of the next row. ``complete`` is False while a block is only partly added, as
    after an interrupt inside it.
    """

    def __init__(self, pilot: Pilot, moments: Moments) -> None:
        self._pilot = pilot
        self._row_sketch = moments.row_sketch or RowSketch.empty(moments.fingerprint)
        self.complete, self.position = True, 0

    def add(self, data: Data, counter: Counter, *, verbose: int = 0) -> None:
        """Add a block of rows; ``counter`` advances."""
        first_index = counter.position
        if data.n == 0:
            counter.assign(np.empty((0, 1), dtype=np.intp), None, data.given)
        else:
            encoded = self._pilot.encode(data)
            folds = self._pilot.folds(data, encoded, counter)
            groups = encoded.cells * self._pilot.n_folds + folds
            self._add(data, encoded, groups, first_index, verbose)
            self._row_sketch = self._row_sketch.add(data.X)
        self.position = counter.position
        self.complete = True

    @abstractmethod
    def _add(
        self, data: Data, encoded: Encoded, groups: Codes, first_index: int, verbose: int
    ) -> None:
        """Add the moments of rows; sets ``complete`` to False before the first sum changes."""

    @abstractmethod
    def moments(self) -> Moments:
        """The moments so far; adding may go on."""

    def check(self) -> float | None:
        """Raise if rounding has spoilt the moments; a pass in float64 on the processor has no need."""
        return None


class MomentsPass(RowPass):
    """A pass over rows on the processor; :meth:`moments` shares its memory with the next block."""

    def __init__(self, pilot: Pilot, moments: Moments) -> None:
        super().__init__(pilot, moments)
        self._accumulator = Accumulator(moments)

    def _add(
        self, data: Data, encoded: Encoded, groups: Codes, first_index: int, verbose: int
    ) -> None:
        sums, features = self._accumulator, self._pilot.features
        # Sorting X (p columns) puts each group's rows side by side before the D kernel columns exist.
        order = np.argsort(groups, kind="stable")
        starts = range(0, data.n, _BLOCK_ROWS)
        columns = features.columns_into(sums.buffer(min(_BLOCK_ROWS, data.n)))
        self.complete = False
        for start in track(starts, len(starts), f"moments of {data.n:,} rows", verbose=verbose):
            rows = order[start : start + _BLOCK_ROWS]
            weights = None if data.weights is None else data.weights[rows]
            levels, values = encoded.levels[rows], encoded.values[rows]
            p = encoded.probabilities[rows] if encoded.probabilities.size else None
            sums.add(columns(data.X[rows]), groups[rows], levels, values, weights, p)
        # At the end of every block, so that looking at the moments in between changes no bit.
        sums.settle()
        log_weight = 0.0 if data.weights is None else float(np.log(data.weights).sum())
        sums.note(log_weight, first_index, features.columns(data.X[:1])[0])

    def moments(self) -> Moments:
        """The moments so far; the next :meth:`add` writes into the same memory."""
        return replace(self._accumulator.finish(), row_sketch=self._row_sketch)


def accumulate(
    row_pass: RowPass, data: Data, counter: Counter, *, verbose: int = 0
) -> tuple[Moments, float | None]:
    """Add rows to a pass; return the moments and, after a pass on a device, the smallest eigenvalue.

    ``counter`` advances. The eigenvalue is that of the covariance and shows the rounding of the pass.
    """
    row_pass.add(data, counter, verbose=verbose)
    return row_pass.moments(), row_pass.check()
