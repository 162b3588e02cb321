"""Passes over rows on a torch device.

The sums stay on the device until the moments are asked for: one Gram matrix per group, laid out as
:class:`fairspan.method.accumulate.GramLayout` describes, with feature columns centred at the mean so
far. The loop over blocks is columns, centring and one product, and never waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan._system import track
from fairspan.exceptions import NumericalError
from fairspan.method.accumulate import GramLayout, MomentsPass, RowPass
from fairspan.method.features import NYSTROM_TOL, LandmarkMap
from fairspan.method.folds import Counter
from fairspan.method.linalg import Array, is_tensor, take, to_float64, to_home
from fairspan.method.moments import Moments
from fairspan.method.pilot import Encoded, Pilot, fingerprint
from fairspan.method.problem import Codes, Data
from fairspan.method.torch_columns import (
    add_gram,
    block_rows,
    choose_precision,
    exact_float32,
    naming_memory,
    padded_width,
)

# Smallest eigenvalue of a covariance that counts as rounding, as a share of the largest. Measured on
# eight tables: down to -7e-10 (float64) and -1e-8 (float32) when columns are whitened as they should be;
# -6e-7 and -2e-3 to -.2 when columns of the exact method were whitened after the pass.
SMALLEST_EIGENVALUE = {"float64": -1e-7, "float32": -1e-5}
# Sums within a float32 block are in float32: more rows lose more digits.
_FLOAT32_ROWS = 2**14
_IN_MEMORY = "Moments and a block of columns"


def precision_for(X: Any) -> str:
    """The precision that moments of these rows are taken in."""
    return choose_precision(X.device) if is_tensor(X) else "float64"


def for_precision(pilot: Pilot, precision: str) -> Pilot:
    """The pilot for moments in that precision; moments of different precisions cannot be added.

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
            features,
            whiten_first=True,
            whitening=np.ascontiguousarray(features.whitening[:, keep]),
            dropped_mass=features.dropped_mass + lost,
        )
    pilot = replace(pilot, features=features, precision=precision)
    return replace(pilot, fingerprint=fingerprint(pilot))


def start_pass(pilot: Pilot, moments: Moments, *, device: Any = None, X: Any = None) -> RowPass:
    """Start a pass over rows like X: on ``device``, on the device of a tensor X, or on the processor."""
    if device is None and is_tensor(X):
        device = X.device
    if device is None:
        return MomentsPass(pilot, moments)
    return DevicePass(pilot, moments, device)


class DevicePass(RowPass):
    """A pass over rows on a torch device.

    The precision "auto" is the one that the pilot was made for. In "float32", products are float32 and
    their sums over blocks float64; this needs a pilot for float32.
    """

    def __init__(
        self, pilot: Pilot, moments: Moments, device: Any, precision: str = "auto"
    ) -> None:
        import torch

        super().__init__(pilot, moments)
        self._device = torch.device(device)
        precision = pilot.precision if precision == "auto" else precision
        self.precision = choose_precision(self._device, precision)
        if self.precision == "float32" and pilot.precision != "float32":
            raise ValueError(
                "Moments in float32 need columns that are whitened block by block, so this is decided "
                "when the estimator is prepared: prepare it on tensors of that device."
            )
        self._dtype = getattr(torch, self.precision)
        self._template = replace(moments, scatter=np.zeros((len(moments.weight), 0, 0)))
        self._layout = GramLayout.of(
            moments, ones=padded_width(moments.n_columns), pad=partial(padded_width, step=8)
        )
        width = self._layout.width
        self._rows_at_once = block_rows(self._device, width)
        if self.precision == "float32":
            self._rows_at_once = min(self._rows_at_once, _FLOAT32_ROWS)
        # Sums are in float64, which Apple's devices do not have.
        self._home = torch.device("cpu") if self._device.type == "mps" else self._device
        self._bytes = self._bytes_needed()
        self._first_index, self._log_weight = moments.first_index, moments.sum_log_weight
        with naming_memory(self._bytes, _IN_MEMORY, self._device, check=True):
            self._columns = pilot.features.columns_on(self._device, self._dtype, width=width)
            self._load(moments)

    def _bytes_needed(self) -> int:
        width, features = self._layout.width, self._pilot.features
        size = 4 if self.precision == "float32" else 8
        columns = width
        if isinstance(features, LandmarkMap) and features.whiten_first:
            columns += len(features.landmarks)
        n_groups = len(self._template.weight)
        return 8 * (n_groups + 1) * width**2 + size * self._rows_at_once * columns

    # ------------------------------------------------------------------ adding

    def add(self, data: Data, counter: Counter, *, verbose: int = 0) -> None:
        """Add a block of rows, in arrays or tensors; ``counter`` advances."""
        with naming_memory(self._bytes, _IN_MEMORY, self._device), exact_float32(self._dtype):
            super().add(data, counter, verbose=verbose)

    def _add(
        self, data: Data, encoded: Encoded, groups: Codes, first_index: int, verbose: int
    ) -> None:
        rows = _SortedRows(self._pilot, data, encoded, groups, self._home)
        plan = rows.plan(self._rows_at_once)
        self.complete = False
        self._mean_values = rows.values.nanmean(dim=0).nan_to_num(0.0)
        label = f"moments of {data.n:,} rows"
        blocks = zip(plan, self._features(data.X, rows.order, plan), strict=True)
        for (g, start, stop), X in track(blocks, len(plan), label, verbose=verbose):
            part = slice(start, stop)
            w = None if rows.weights is None else rows.weights[part]
            self._add_block(g, X, rows.levels[part], rows.values[part], w)
        if data.weights is not None:
            self._log_weight += float(to_home(data.weights, self._home).log().sum())
        if not 0 <= self._first_index <= first_index:
            self._first_index = first_index
            row = to_home(data.X[:1], None if is_tensor(data.X) else "cpu")
            self._first_row = self._columns(row.repeat(8, 1))[0, : self._layout.D]

    def _add_block(self, g: int, X: Any, levels: Any, values: Any, weights: Any) -> None:
        at, about, gram = self._layout, self._about[g], self._gram[g]
        Z = self._buffer[: len(X)]
        self._columns.fill(X, Z)
        present = values.isfinite()
        if not self._begun[g]:
            # Any centre is right; one near the mean loses no digits.
            self._begun[g] = True
            about[: at.D] = Z[:, : at.D].mean(dim=0)
            n_present = present.sum(dim=0)
            mean = values.nan_to_num(0.0).sum(dim=0) / n_present.clamp(min=1)
            self._centre[g] = mean.where(n_present > 0, self._mean_values)
        Z -= about.to(Z)
        self._write_indicators(Z, levels, present)
        Z[:, at.values] = (values - self._centre[g]).where(present, 0.0)
        indicators = Z[:, at.indicators].to(self._home, gram.dtype)
        self._rows[g] += indicators.sum(dim=0)
        if weights is None:
            self._weight2[g] += indicators.sum(dim=0)
        else:
            self._weight2[g] += weights.square() @ indicators
            Z *= weights.sqrt().to(Z)[:, None]
        if self.precision == "float64":
            add_gram(Z, gram, at.ones)
        else:
            add_gram(Z, self._float32_gram.zero_(), at.ones)
            gram += self._float32_gram.to(self._home)
        self._recentre(g)

    def _write_indicators(self, Z: Any, levels: Any, present: Any) -> None:
        """Write ones, level indicators and presences into a block of rows."""
        import torch

        at = self._layout
        Z[:, at.ones] = 1.0
        ends = (*at.level_starts[1:], at.levels.stop)
        for j, (start, stop) in enumerate(zip(at.level_starts, ends, strict=True)):
            number = torch.arange(stop - start, device=levels.device)
            Z[:, start:stop] = levels[:, j : j + 1] == number
        Z[:, at.present] = present

    def _recentre(self, g: int) -> None:
        """Move the centres to the means so far, by the update of Chan, Golub and LeVeque (1983)."""
        at, gram, about = self._layout, self._gram[g], self._about[g]
        D, ones, p, v = at.D, at.ones, at.present, at.values
        first = gram[:D, ones]
        total = gram[ones, ones]
        # In float32 the centre is next to the mean, not at it.
        step = (about[:D] + first / total).to(self._dtype).to(first) - about[:D]
        gram[:D, :D].addr_(step, total * step - first).addr_(first, step, alpha=-1.0)
        gram[:D, ones : v.stop] -= step[:, None] * gram[ones, ones : v.stop]
        about[:D] += step
        if v.start == v.stop:
            return
        weight, off = gram[p, p].diagonal(), gram[p, v].diagonal()
        gap = off / weight.clamp(min=1e-300)
        gram[:D, v] -= gram[:D, p] * gap
        gram[ones, v] -= gram[ones, p] * gap
        gram[v, v].diagonal().sub_(gap * off)
        off.zero_()
        self._centre[g] += gap

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
        on_host = [torch.empty(**kind, pin_memory=True) for _ in range(2)]
        on_device = [torch.empty(**kind, device=self._device) for _ in range(2)]
        compute, copies = torch.cuda.current_stream(self._device), torch.cuda.Stream(self._device)
        copies.wait_stream(compute)  # kernels under way may still use the memory of the buffers
        sent, used = [torch.cuda.Event() for _ in range(2)], [torch.cuda.Event() for _ in range(2)]

        def send(i: int) -> None:
            slot, (_, start, stop) = i % 2, plan[i]
            sent[slot].synchronize()  # the copy from this buffer two blocks ago
            rows = np.arange(start, stop) if order is None else order[start:stop]
            np.take(X, rows, axis=0, out=on_host[slot].numpy()[: stop - start], mode="clip")
            copies.wait_event(used[slot])
            with torch.cuda.stream(copies):
                target = on_device[slot][: stop - start]
                target.copy_(on_host[slot][: stop - start], non_blocking=True)
                sent[slot].record(copies)

        send(0)
        for i, (_, start, stop) in enumerate(plan):
            compute.wait_event(sent[i % 2])
            yield on_device[i % 2][: stop - start]
            used[i % 2].record(compute)
            if i + 1 < len(plan):
                send(i + 1)

    # ------------------------------------------------------------------ in and out

    def _load(self, moments: Moments) -> None:
        """Earlier moments as Gram matrices, see :class:`GramLayout`."""
        import torch

        at, G = self._layout, len(moments.weight)

        def zeros(*shape: int) -> Any:
            return torch.zeros(shape, dtype=torch.float64, device=self._home)

        def joined(*sums: NDArray[Any]) -> Any:
            return to_home(np.concatenate(sums, axis=1).astype(np.float64), self._home)

        self._gram, self._about = zeros(G, at.width, at.width), zeros(G, at.width)
        self._centre = to_home(moments.column_mean.copy(), self._home)
        # Sums over the indicators, in the order of `GramLayout.split`.
        self._rows = joined(moments.rows[:, None], moments.level_rows, moments.column_rows)
        self._weight2 = joined(
            moments.weight2[:, None], moments.level_weight2, moments.column_weight2
        )
        self._first_row = to_home(moments.first_row.copy(), self._home)
        self._begun = (moments.weight > 0.0).tolist()
        kind = {"dtype": self._dtype, "device": self._device}
        self._buffer = torch.empty((self._rows_at_once, at.width), **kind)
        if self.precision == "float32":
            self._float32_gram = torch.zeros((at.width, at.width), **kind)
        for g in np.flatnonzero(moments.weight).tolist():
            # What is subtracted from float32 columns is a float32 number.
            about = moments.mean[g].astype(self.precision).astype(np.float64)
            self._about[g, : at.D] = to_home(about, self._home)
            self._gram[g] = to_home(at.pack(moments, g, about), self._home)

    def moments(self) -> Moments:
        """The moments so far, in fresh arrays; adding may go on."""
        at, gram = self._layout, self._gram
        D, ones, p, v = at.D, at.ones, at.present, at.values
        scatter = np.empty((len(gram), D, D))
        for g in range(len(gram)):
            scatter[g] = self._scatter(g).cpu().numpy()

        def means_of(indicators: slice) -> Array:
            present = (gram[:, ones, indicators] > 0.0)[:, :, None]
            means: Array = to_float64(at.means(gram, indicators, self._about[:, :D]) * present)
            return means

        counts = to_float64(self._rows).round().astype(np.int64)
        rows, level_rows, column_rows = map(np.ascontiguousarray, at.split(counts))
        weight2, level_weight2, column_weight2 = map(
            np.ascontiguousarray, at.split(to_float64(self._weight2))
        )
        return replace(
            self._template,
            weight=to_float64(gram[:, ones, ones]),
            weight2=weight2,
            rows=rows,
            mean=to_float64(self._means()),
            scatter=scatter,
            level_weight=to_float64(gram[:, ones, at.levels]),
            level_weight2=level_weight2,
            level_rows=level_rows,
            level_mean=means_of(at.levels),
            column_weight=to_float64(gram[:, ones, p]),
            column_weight2=column_weight2,
            column_rows=column_rows,
            column_mean=to_float64(self._centre * (gram[:, ones, p] > 0.0)),
            column_square=to_float64(gram[:, v, v].diagonal(dim1=1, dim2=2)),
            column_centre=means_of(p),
            column_cross=to_float64(gram[:, :D, v].transpose(1, 2)),
            sum_log_weight=self._log_weight,
            first_index=self._first_index,
            first_row=to_float64(self._first_row),
            row_sketch=self._row_sketch,
        )

    def _gaps(self) -> Any:
        """From the centres to the means: rounding in float64, up to a digit of float32 there."""
        at, gram = self._layout, self._gram
        return gram[:, : at.D, at.ones] / gram[:, at.ones, at.ones].clamp(min=1e-300)[:, None]

    def _means(self) -> Any:
        return self._about[:, : self._layout.D] + self._gaps()

    def _scatter(self, g: int) -> Any:
        """Centred second moments of one group's columns."""
        D, gram = self._layout.D, self._gram[g]
        upper = gram[:D, :D] - gram[:D, self._layout.ones, None] * self._gaps()[g]
        return upper.triu() + upper.triu(1).T

    def check(self) -> float:
        """Smallest eigenvalue of psi's covariance as a share of the largest; raise if it is too low.

        Rounding beyond what the model can bear shows here first: moments whitened too late, or in too
        few digits, are not those of any rows.
        """
        import torch

        ones, means = self._layout.ones, self._means()
        weight = self._gram[:, ones, ones]
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


class _SortedRows:
    """Codes of rows on the device of the sums, sorted by group, so that each block belongs to one."""

    def __init__(
        self, pilot: Pilot, data: Data, encoded: Encoded, groups: Codes, home: Any
    ) -> None:
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
    """Stable order by group, and the groups' sizes, which are all that the host needs."""
    if not is_tensor(groups):
        small = groups.astype(np.uint16) if n_groups < 2**16 else groups  # sorted by radix
        return np.argsort(small, kind="stable"), np.bincount(groups, minlength=n_groups).tolist()
    import torch

    sizes = torch.bincount(groups, minlength=n_groups).tolist()
    return torch.argsort(groups, stable=True), sizes
