"""The pass over rows on a torch device: moments stay there until someone asks for them.

Everything a group's moments consist of is one Gram matrix: of its kernel columns, centred at the mean
so far, beside a column of ones, the level indicators, and the numeric variables with their presence.
So the loop over blocks is columns, centring and one product, and never waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from fairspan._system import track
from fairspan.exceptions import NumericalError
from fairspan.method.data import Data
from fairspan.method.features import NYSTROM_TOL, LandmarkMap
from fairspan.method.linalg import Array, is_tensor, take, to_float64, to_home
from fairspan.method.moments import Moments
from fairspan.method.pilot import Counter, MomentsPass, Pilot, fingerprint
from fairspan.method.row_sketch import RowSketch
from fairspan.method.torch_columns import (
    add_gram,
    block_rows,
    choose_precision,
    exact_float32,
    naming_memory,
    padded_width,
)

__all__ = [
    "DevicePass",
    "accumulate",
    "for_precision",
    "precision_for",
    "start_pass",
]

# A covariance has no negative eigenvalues; rounding leaves some, as shares of the largest. Measured on
# eight tables: down to -7e-10 and -1e-8 as it should be; -6e-7 where float64 columns of the exact method
# were whitened after the pass, -2e-3 to -.2 for float32 ones.
SMALLEST_EIGENVALUE = {"float64": -1e-7, "float32": -1e-5}
# Sums within a block are in float32 there: more rows lose more digits.
_FLOAT32_ROWS = 2**14
_WHAT = "Moments and a block of columns"


def precision_for(X: Any) -> str:
    """What the moments of these rows are best taken in."""
    return choose_precision(X.device) if is_tensor(X) else "float64"


def for_precision(pilot: Pilot, precision: str) -> Pilot:
    """The pilot of moments in that precision, which no others can be added to.

    In float32 rounding is larger than the smaller eigenvalues of kernel columns, so these are whitened
    block by block (METHOD 2), and directions below the Nystrom cut are left out in exact mode too.
    """
    if precision == pilot.precision:
        return pilot
    features = pilot.features
    if isinstance(features, LandmarkMap):
        values = 1.0 / np.einsum("ij,ij->j", features.whitening, features.whitening)
        keep = values > NYSTROM_TOL * values.max()
        lost = float(values[~keep].sum() / values.sum())
        features = replace(
            features, whiten_first=True, whitening=np.ascontiguousarray(features.whitening[:, keep]),
            dropped_mass=features.dropped_mass + lost,
        )  # fmt: skip
    pilot = replace(pilot, features=features, precision=precision)
    return replace(pilot, fingerprint=fingerprint(pilot))


def start_pass(
    pilot: Pilot, moments: Moments, *, device: Any = None, precision: str = "auto", X: Any = None
) -> MomentsPass | DevicePass:
    """A pass over rows: on the device asked for, where the tensor X lives, or on the processor.

    Parameters
    ----------
    pilot, moments
        What was frozen, and the moments of earlier rows.
    device : torch device or its name, optional
    precision : {"auto", "float64", "float32"}, default="auto"
        "auto" is the one that the pilot was made for, see :func:`for_precision`.
    X : rows, optional
        Only asked whether it is a tensor.
    """
    if device is None and is_tensor(X):
        device = X.device
    if device is None:
        return MomentsPass(pilot, moments)
    return DevicePass(pilot, moments, device, precision)


class DevicePass:
    """A pass over rows on a torch device: moments of earlier rows, and of all that is added.

    Parameters
    ----------
    pilot, moments
        As in :class:`MomentsPass`.
    device : torch device or its name
    precision : {"auto", "float64", "float32"}, default="auto"
        "auto" is the one that the pilot was made for. float64 sums of float32 products need a pilot for
        float32.
    """

    def __init__(
        self, pilot: Pilot, moments: Moments, device: Any, precision: str = "auto"
    ) -> None:
        import torch

        self._pilot, self._device = pilot, torch.device(device)
        precision = pilot.precision if precision == "auto" else precision
        self.precision = choose_precision(self._device, precision)
        if self.precision == "float32" and pilot.precision != "float32":
            msg = (
                "Moments in float32 need columns that are whitened block by block, so this is decided "
                "when the estimator is prepared: prepare it on tensors of that device."
            )
            raise ValueError(msg)
        self._dtype = getattr(torch, self.precision)
        self._sums_like = replace(moments, scatter=np.zeros((len(moments.weight), 0, 0)))
        self._layout = _Layout(moments)
        self._rows_at_once = block_rows(self._device, self._layout.width)
        if self.precision == "float32":
            self._rows_at_once = min(self._rows_at_once, _FLOAT32_ROWS)
        # Sums are in float64, which Apple's devices do not have.
        self._home = torch.device("cpu") if self._device.type == "mps" else self._device
        self._need = self._bytes_needed()
        self._first_index, self._log_weight = moments.first_index, moments.sum_log_weight
        self._row_sketch = moments.row_sketch or RowSketch.empty(moments.fingerprint)
        self.whole, self.place = True, 0  # no block is half added; where the last one ended
        with naming_memory(self._need, _WHAT, self._device, check=True):
            width = self._layout.width
            self._columns = pilot.features.columns_on(self._device, self._dtype, width=width)
            self._load(moments)

    def _bytes_needed(self) -> int:
        width, groups = self._layout.width, len(self._sums_like.weight)
        size = 4 if self.precision == "float32" else 8
        block = width
        if isinstance(self._pilot.features, LandmarkMap) and self._pilot.features.whiten_first:
            block += len(self._pilot.features.landmarks)
        return 8 * (groups + 1) * width**2 + size * self._rows_at_once * block

    # ------------------------------------------------------------------ adding

    def add(self, data: Data, counter: Counter, *, verbose: int = 0) -> None:
        """Add a block, in arrays or tensors; ``counter`` advances."""
        with naming_memory(self._need, _WHAT, self._device), exact_float32(self._dtype):
            self._add(data, counter, verbose)

    def _add(self, data: Data, counter: Counter, verbose: int) -> None:
        place = counter.position
        if data.n == 0:
            counter.assign(np.empty((0, 1), dtype=np.intp), None, data.given)
            self.place = counter.position
            return
        rows = _SortedRows(self._pilot, data, counter, self._home)
        plan = rows.plan(self._rows_at_once)
        self.whole = False
        self._anywhere = rows.values.nanmean(dim=0).nan_to_num(0.0)
        label = f"moments of {data.n:,} rows"
        blocks = zip(plan, self._features(data.X, rows.order, plan), strict=True)
        for (g, start, stop), X in track(blocks, len(plan), label, verbose=verbose):
            part = slice(start, stop)
            w = None if rows.weights is None else rows.weights[part]
            self._add_block(g, X, rows.levels[part], rows.values[part], w)
        self._note(data, place)
        self._row_sketch = self._row_sketch.add(data.X)
        self.place = counter.position
        self.whole = True

    def _add_block(self, g: int, X: Any, levels: Any, values: Any, weights: Any) -> None:
        at, shift, sums = self._layout, self._shift[g], self._gram[g]
        Z = self._block[: len(X)]
        self._columns.fill(X, Z)
        present = values.isfinite()
        if not self._begun[g]:
            # Any centre is right; one near the mean loses no digits.
            self._begun[g] = True
            shift[: at.D] = Z[:, : at.D].mean(dim=0)
            known = present.sum(dim=0)
            first = values.nan_to_num(0.0).sum(dim=0) / known.clamp(min=1)
            self._centre[g] = first.where(known > 0, self._anywhere)
        Z -= shift.to(Z)
        at.write(Z, levels, values, present, self._centre[g])
        indicators = Z[:, at.one : at.values.start].to(self._home, sums.dtype)
        self._rows[g] += indicators.sum(dim=0)
        if weights is None:
            self._weight2[g] += indicators.sum(dim=0)
        else:
            self._weight2[g] += weights.square() @ indicators
            Z *= weights.sqrt().to(Z)[:, None]
        if self.precision == "float64":
            add_gram(Z, sums, at.one)
        else:
            add_gram(Z, self._part.zero_(), at.one)
            sums += self._part.to(self._home)
        self._recentre(g)

    def _recentre(self, g: int) -> None:
        """Move the centres to the means so far (Chan, Golub, LeVeque 1983, in their own words)."""
        at, sums, shift = self._layout, self._gram[g], self._shift[g]
        D, one, p, v = at.D, at.one, at.present, at.values
        first = sums[:D, one]
        total = sums[one, one]
        # In float32 the centre is next to the mean, not at it.
        step = (shift[:D] + first / total).to(self._dtype).to(first) - shift[:D]
        sums[:D, :D].addr_(step, total * step - first).addr_(first, step, alpha=-1.0)
        sums[:D, one : at.stop] -= step[:, None] * sums[one, one : at.stop]
        shift[:D] += step
        if v.start == v.stop:
            return
        weight, off = sums[p, p].diagonal(), sums[p, v].diagonal()
        gap = off / weight.clamp(min=1e-300)
        sums[:D, v] -= sums[:D, p] * gap
        sums[one, v] -= sums[one, p] * gap
        sums[v, v].diagonal().sub_(gap * off)
        off.zero_()
        self._centre[g] += gap

    def _note(self, data: Data, place: int) -> None:
        """What a block has once: logarithms of weights, its first row and that row's place."""
        if data.weights is not None:
            self._log_weight += float(to_home(data.weights, self._home).log().sum())
        if not 0 <= self._first_index <= place:
            self._first_index = place
            row = to_home(data.X[:1], None if is_tensor(data.X) else "cpu")
            self._first_row = self._columns(row.repeat(8, 1))[0, : self._layout.D]

    # ------------------------------------------------------------------ rows

    def _features(self, X: Any, order: Any, plan: list[tuple[int, int, int]]) -> Iterator[Any]:
        """Features of the planned blocks, in order."""
        if not is_tensor(X):
            yield from self._staged(X, order, plan)
            return
        order = None if order is None else to_home(order, X.device)
        for _, start, stop in plan:
            yield X[start:stop] if order is None else X[order[start:stop]]

    def _staged(self, X: Array, order: Any, plan: list[tuple[int, int, int]]) -> Iterator[Any]:
        """Rows in host memory, sent while the block before them is computed."""
        import torch

        if self._device.type != "cuda":
            for _, start, stop in plan:
                block = X[start:stop] if order is None else X[order[start:stop]]
                yield to_home(block, "cpu")
            return
        size = max(stop - start for _, start, stop in plan)
        kind = {"size": (size, X.shape[1]), "dtype": torch.float64}
        host = [torch.empty(**kind, pin_memory=True) for _ in range(2)]
        there = [torch.empty(**kind, device=self._device) for _ in range(2)]
        now, side = torch.cuda.current_stream(self._device), torch.cuda.Stream(self._device)
        side.wait_stream(now)  # their memory may be in use by what is still under way
        sent, used = [torch.cuda.Event() for _ in range(2)], [torch.cuda.Event() for _ in range(2)]

        def send(i: int) -> None:
            slot, (_, start, stop) = i % 2, plan[i]
            sent[slot].synchronize()  # the copy from this buffer two blocks ago
            rows = np.arange(start, stop) if order is None else order[start:stop]
            np.take(X, rows, axis=0, out=host[slot].numpy()[: stop - start], mode="clip")
            side.wait_event(used[slot])
            with torch.cuda.stream(side):
                there[slot][: stop - start].copy_(host[slot][: stop - start], non_blocking=True)
                sent[slot].record(side)

        send(0)
        for i, (_, start, stop) in enumerate(plan):
            now.wait_event(sent[i % 2])
            yield there[i % 2][: stop - start]
            used[i % 2].record(now)
            if i + 1 < len(plan):
                send(i + 1)

    # ------------------------------------------------------------------ in and out

    def _load(self, moments: Moments) -> None:
        """Earlier moments as Gram matrices; see :class:`_Layout` for what is where."""
        import torch

        at, G = self._layout, len(moments.weight)

        def zeros(*shape: int) -> Any:
            return torch.zeros(shape, dtype=torch.float64, device=self._home)

        self._gram, self._shift = zeros(G, at.width, at.width), zeros(G, at.width)
        self._centre = to_home(moments.column_mean.copy(), self._home)
        counts = (moments.rows[:, None], moments.level_rows, moments.column_rows)
        squares = (moments.weight2[:, None], moments.level_weight2, moments.column_weight2)
        self._rows = to_home(np.concatenate(counts, axis=1).astype(np.float64), self._home)
        self._weight2 = to_home(np.concatenate(squares, axis=1), self._home)
        self._first_row = to_home(moments.first_row.copy(), self._home)
        self._begun = (moments.weight > 0.0).tolist()
        self._block = torch.empty(
            (self._rows_at_once, at.width), dtype=self._dtype, device=self._device
        )
        if self.precision == "float32":
            self._part = torch.zeros((at.width, at.width), dtype=self._dtype, device=self._device)
        for g in np.flatnonzero(moments.weight).tolist():
            # What is subtracted from float32 columns is a float32 number.
            shift = moments.mean[g].astype(self.precision).astype(np.float64)
            self._shift[g, : at.D] = to_home(shift, self._home)
            self._gram[g] = to_home(at.gram(moments, g, shift), self._home)

    def moments(self) -> Moments:
        """Moments so far, in fresh arrays; adding may go on."""
        at, like = self._layout, self._sums_like
        D, H, one = at.D, at.levels, at.one
        levels, p, v = slice(one + 1, one + 1 + H), at.present, at.values
        sums, shift = self._gram, self._shift[:, :D]
        scatter = np.empty((len(sums), D, D))
        for g in range(len(sums)):
            scatter[g] = self._scatter(g).cpu().numpy()

        def mean_of(columns: slice) -> Array:
            weight = sums[:, one, columns]
            known = (weight > 0.0)[:, :, None]
            found = sums[:, :D, columns].transpose(1, 2) / weight.clamp(min=1e-300)[:, :, None]
            mean: Array = to_float64((found + shift[:, None]) * known)
            return mean

        rows, weight2 = to_float64(self._rows).round().astype(np.int64), to_float64(self._weight2)
        return replace(
            like,
            weight=to_float64(sums[:, one, one]),
            weight2=np.ascontiguousarray(weight2[:, 0]),
            rows=np.ascontiguousarray(rows[:, 0]),
            mean=to_float64(self._means()),
            scatter=scatter,
            level_weight=to_float64(sums[:, one, levels]),
            level_weight2=np.ascontiguousarray(weight2[:, 1 : 1 + H]),
            level_rows=np.ascontiguousarray(rows[:, 1 : 1 + H]),
            level_mean=mean_of(levels),
            column_weight=to_float64(sums[:, one, p]),
            column_weight2=np.ascontiguousarray(weight2[:, 1 + H :]),
            column_rows=np.ascontiguousarray(rows[:, 1 + H :]),
            column_mean=to_float64(self._centre * (sums[:, one, p] > 0.0)),
            column_square=to_float64(sums[:, v, v].diagonal(dim1=1, dim2=2)),
            column_centre=mean_of(p),
            column_cross=to_float64(sums[:, :D, v].transpose(1, 2)),
            sum_log_weight=self._log_weight,
            first_index=self._first_index,
            first_row=to_float64(self._first_row),
            row_sketch=self._row_sketch,
        )

    def _gaps(self) -> Any:
        """From the centres to the means: rounding in float64, up to a digit of float32 there."""
        at, sums = self._layout, self._gram
        return sums[:, : at.D, at.one] / sums[:, at.one, at.one].clamp(min=1e-300)[:, None]

    def _means(self) -> Any:
        return self._shift[:, : self._layout.D] + self._gaps()

    def _scatter(self, g: int) -> Any:
        """Centred second moments of one group's columns."""
        at, sums = self._layout, self._gram[g]
        upper = sums[: at.D, : at.D] - sums[: at.D, at.one, None] * self._gaps()[g]
        return upper.triu() + upper.triu(1).T

    def check(self) -> float:
        """Smallest eigenvalue of psi's covariance as a share of the largest; an error if it is none.

        Rounding beyond what the model can bear shows here first: moments whitened too late, or in too
        few digits, are not those of any rows.
        """
        import torch

        one, means = self._layout.one, self._means()
        weight = self._gram[:, one, one]
        spread = (means - (weight / weight.sum()) @ means) * weight.sqrt()[:, None]
        pooled = spread.T @ spread
        for g in range(len(weight)):
            pooled += self._scatter(g)
        pending = self._pilot.features.pending
        if pending is not None:
            basis = to_home(pending, self._home)
            pooled = basis.T @ pooled @ basis
        smallest = float("nan")
        if bool(pooled.isfinite().all()):
            values = torch.linalg.eigvalsh(pooled)
            largest = float(values[-1])
            smallest = float(values[0]) / largest if largest > 0.0 else 0.0
        if not smallest >= SMALLEST_EIGENVALUE[self.precision]:
            raise NumericalError(_not_a_covariance(smallest, self.precision))
        return smallest


def _not_a_covariance(smallest: float, precision: str) -> str:
    remedy = (
        "precision='float64'" if precision == "float32" else "fewer n_components or a larger gamma"
    )
    return (
        f"The covariance of the features, taken in {precision}, has an eigenvalue of {smallest:.3g} times "
        f"the largest; {SMALLEST_EIGENVALUE[precision]:g} and above is rounding. Its moments cannot be "
        f"trusted. Use {remedy}, or the processor: X.cpu().numpy()."
    )


class _Layout:
    """Where things are among the columns of a block, and so in its Gram matrix.

    D feature columns and padding up to a number that products are fast at; ones; H level indicators; V
    presences of numeric variables; V centred values (0 where absent); padding.
    """

    def __init__(self, moments: Moments) -> None:
        self.D, self.levels = moments.n_columns, sum(moments.level_sizes)
        self._bounds = list(pairwise(np.cumsum((0, *moments.level_sizes)).tolist()))
        V = moments.column_mean.shape[1]
        self.one = padded_width(self.D)
        start = self.one + 1 + self.levels
        self.present, self.values = slice(start, start + V), slice(start + V, start + 2 * V)
        self.stop = start + 2 * V
        self.width = padded_width(self.stop, step=8)

    def write(self, Z: Any, levels: Any, values: Any, present: Any, centre: Any) -> None:
        """Everything but the feature columns, into a block of rows."""
        import torch

        Z[:, self.one] = 1.0
        for j, (start, stop) in enumerate(self._bounds):
            number = torch.arange(stop - start, device=levels.device)
            Z[:, self.one + 1 + start : self.one + 1 + stop] = levels[:, j : j + 1] == number
        Z[:, self.present] = present
        Z[:, self.values] = (values - centre).where(present, 0.0)

    def gram(self, moments: Moments, g: int, shift: Array) -> Array:
        """The Gram matrix that these moments of one group stand for, columns centred at ``shift``."""
        D, one, p, v = self.D, self.one, self.present, self.values
        levels, out = slice(one + 1, p.start), np.zeros((self.width, self.width))
        gap, weight = moments.mean[g] - shift, moments.column_weight[g]
        out[:D, :D] = moments.scatter[g] + moments.weight[g] * np.outer(gap, gap)
        out[:D, one] = moments.weight[g] * gap
        out[:D, levels] = ((moments.level_mean[g] - shift) * moments.level_weight[g][:, None]).T
        out[:D, p] = ((moments.column_centre[g] - shift) * weight[:, None]).T
        out[:D, v] = moments.column_cross[g].T
        out[one, one] = moments.weight[g]
        out[one, levels] = moments.level_weight[g]
        out[one, p] = weight
        out[p, p] = np.diag(weight)
        out[v, v] = np.diag(moments.column_square[g])
        return out


class _SortedRows:
    """Codes of rows at home, sorted by group, so that each block belongs to one."""

    def __init__(self, pilot: Pilot, data: Data, counter: Counter, home: Any) -> None:
        encoded = pilot.encode(data)
        folds = counter.assign(encoded.strata, data.index, data.given)
        groups = encoded.cells * pilot.n_folds + folds
        n_groups = pilot.cells.n_groups * pilot.n_folds
        self.order: Any = None
        self._sizes = [data.n]
        if n_groups > 1:
            self.order, self._sizes = _sort(groups, n_groups)
        self.levels = to_home(self._sorted(encoded.levels), home)
        self.values = to_home(self._sorted(encoded.values), home)
        self.weights = None if data.weights is None else to_home(self._sorted(data.weights), home)

    def _sorted(self, values: Any) -> Any:
        return values if self.order is None else take(values, self.order)

    def plan(self, size: int) -> list[tuple[int, int, int]]:
        """Group, first row and end of every block."""
        ends = np.cumsum(self._sizes).tolist()
        return [
            (g, start, min(start + size, end))
            for g, end in enumerate(ends)
            for start in range(end - self._sizes[g], end, size)
        ]


def _sort(groups: Any, n_groups: int) -> tuple[Any, list[int]]:
    """Stable order by group, and the groups' sizes: all that the host must know."""
    if not is_tensor(groups):
        small = groups.astype(np.uint16) if n_groups < 2**16 else groups  # sorted by radix
        return np.argsort(small, kind="stable"), np.bincount(groups, minlength=n_groups).tolist()
    import torch

    sizes = torch.bincount(groups, minlength=n_groups).tolist()
    return torch.argsort(groups, stable=True), sizes


def accumulate(
    pilot: Pilot, moments: Moments, counter: Counter, data: Data, *, verbose: int = 0
) -> tuple[Moments, float | None]:
    """Add rows to moments; ``counter`` advances, ``moments`` itself is not changed.

    A tensor is summed on its device. The second result is then the smallest eigenvalue of the
    covariance, which shows the rounding of that pass; otherwise None.
    """
    one = start_pass(pilot, moments, X=data.X)
    one.add(data, counter, verbose=verbose)
    smallest = one.check() if isinstance(one, DevicePass) else None
    return one.moments(), smallest
