"""The pass over the moments of a stream, with checkpoints."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from typing import Any

import numpy as np

from fairspan._system import row_progress
from fairspan.device.passes import DevicePass, start_pass
from fairspan.exceptions import CheckpointError, DataWarning, RowError, warn_user
from fairspan.method.accumulate import RowPass
from fairspan.method.data import Data
from fairspan.method.features import LandmarkMap
from fairspan.method.moments import Moments
from fairspan.method.pilot import fingerprint, move_to
from fairspan.method.row_sketch import RowSketch
from fairspan.streaming.blocks import blocks, prefetch
from fairspan.streaming.checkpoint import Checkpoint
from fairspan.streaming.rows import Rows
from fairspan.streaming.sources import Source

__all__ = ["LazyBlocks", "Saved", "naming_new_rows", "naming_rows", "take_moments"]

# Rows at which an error is looked for before it counts as that of all rows: one more than this.
_LOOKS = 8


@contextmanager
def naming_rows(est: Any, rows: Rows, place: int, *, coded: bool) -> Iterator[None]:
    """Errors inside say which row it was: it is found by reading ever smaller parts of the block."""

    def read(some: Rows) -> None:
        data: Data = est._read(*some.arguments, reset=False)
        if coded:
            est.pilot_.encode(data)  # categories never seen are found here

    try:
        yield
    except RowError:
        raise
    except ValueError as error:
        raise located(rows, place, read, error) from error


def located(rows: Rows, place: int, read: Any, error: Exception) -> Exception:
    """The error of the first row that cannot be read alone; the error itself if no row is at fault."""
    first, last = 0, len(rows)
    whole = _fails(rows, read)
    if whole is None or _of_every_row(rows, read, str(whole)):
        return error
    while last - first > 1:  # the first bad row is in [first, last)
        middle = (first + last) // 2
        if _fails(rows.cut(first, middle), read):
            last = middle
        else:
            first = middle
    bad = _fails(rows.cut(first, last), read)
    if bad is None:
        return error
    name, row = rows.place(first)
    why = str(bad) if place + first == row else f"{bad} (Row {place + first} of all.)"
    return RowError(name, row, why)


def _of_every_row(rows: Rows, read: Any, text: str) -> bool:
    """Whether rows all over the block give the block's own error: a setting is wrong, and no row."""
    n = len(rows)
    some = sorted({i * (n - 1) // _LOOKS for i in range(_LOOKS + 1)})
    return n > 1 and all(str(_fails(rows.cut(i, i + 1), read)) == text for i in some)


def _fails(rows: Rows, read: Any) -> Exception | None:
    try:
        read(rows)
    except ValueError as error:
        return error
    return None


@contextmanager
def naming_new_rows(est: Any, rows: Rows, place: int) -> Iterator[None]:
    """The same for rows to predict."""
    try:
        yield
    except ValueError as error:
        raise located(rows, place, lambda some: est._read_new(some.X), error) from error


class LazyBlocks:
    """Blocks of a source as arguments of ``fit``, read anew by every ``iter()``."""

    def __init__(self, source: Source, size: int) -> None:
        self._source, self._size = source, size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = ("X", "y", "sensitive_features", "control_features", "sample_weight")
        for _, rows in prefetch(blocks(self._source.parts, self._size)):
            yield dict(zip(names, rows.arguments, strict=True))


# Saving may take up to this share of the time.
_SHARE = 0.05
# Arrays of the sketch of the rows.
_SKETCH = ("hashes", "counts")
# What moments do not depend on, so that a fit may go on with others.
_FREE = ("fairness", "dial", "verbose", "random_state")


def take_moments(est: Any, source: Source, size: int, plan: Any, saved: Saved | None) -> None:
    """Moments of all rows, from where a checkpoint ends."""
    if plan.on_workers(source):
        from fairspan.streaming.workers import reduce_parts

        reduce_parts(est, source, size, plan, saved)
        return
    start, counter = est._counter.position, est._counter.copy()
    one: RowPass | None = None
    found = prefetch(blocks(source.parts, size, start=start))
    shown = row_progress("moments", source.n_rows, verbose=est.verbose, done=start)
    try:
        with shown as progress, closing(found):
            for place, rows in found:
                with naming_rows(est, rows, place, coded=True):
                    data = est._read(*rows.arguments, reset=False)
                    if one is None:
                        one = start_pass(est.pilot_, est.moments_, device=plan.device, X=data.X)
                        one.position = start
                    move_to(counter, place)
                    one.add(data, counter)
                progress.advance(len(rows))
                if saved is not None:
                    saved.maybe(est, one.moments, one.position)
    except BaseException:
        # What an interrupt inside a block leaves is neither with nor without that block.
        if saved is not None and one is not None and one.complete:
            saved.now(est, one.moments, one.position)
        raise
    if one is None:  # a checkpoint had all of them
        return
    if isinstance(one, DevicePass):
        est._told(one.check())
    est.moments_, est._counter = one.moments(), counter
    if saved is not None:
        saved.now(est, one.moments, counter.position)


class Saved:
    """The checkpoint of one fit."""

    def __init__(self, file: Checkpoint, est: Any) -> None:
        self._file = file
        self._about = {"estimator": type(est).__name__, "parameters": _parameters(est)}
        self._found: tuple[dict[str, Any], dict[str, Any]] | None = None
        self.seed: int | None = None
        self._sample = ""
        self._began, self._cost, self._place, self._failed = time.monotonic(), 0.0, -1, False

    def find(self, source: Source, encoder: str, order: str) -> None:
        """Look for an earlier pass; refuse one of another fit before anything is read."""
        self._about |= {"source": source.identity(), "encoder": encoder, "order of sums": order}
        self._found = self._file.load()
        if self._found is not None:
            header = self._found[0]
            self._file.check(self._about, header)
            if isinstance(header.get("seed"), int):
                self.seed = header["seed"]

    def restore(self, est: Any, seed: int, sample: str) -> None:
        """Go on where the earlier pass was."""
        self.seed, self._sample = seed, sample
        if self._found is None:
            return
        header, arrays = self._found
        self._found = None
        sketch = {name: arrays.pop(name) for name in _SKETCH if name in arrays}
        if not _has_all(header, arrays, est):
            self._foreign("it has not all that such a fit needs, or in other shapes")
        features = est.pilot_.features
        if isinstance(features, LandmarkMap):
            # Eigenvectors depend on the number of threads; those that the moments were taken with count.
            if arrays["whitening"].shape != features.whitening.shape:
                self._foreign("the landmarks are others")
            pilot = replace(est.pilot_, features=replace(features, whitening=arrays["whitening"]))
            est.pilot_ = replace(pilot, fingerprint=fingerprint(pilot))
        if est.pilot_.fingerprint != header["fingerprint"] or sample != header["data"]:
            self._foreign("the rows, and with them landmarks, edges or labels, are others")
        if isinstance(features, LandmarkMap) and not _whitens(arrays["whitening"], features):
            self._foreign("the kernel is another")
        est.moments_ = _unpack(est.pilot_.empty_moments(), arrays, header)
        if sketch:  # version 0.1.0 wrote none
            try:
                rows = RowSketch.checked(
                    est.pilot_.fingerprint, *header.get("sketch", ()), **sketch
                )
            except (TypeError, ValueError):
                self._foreign("its sketch of the rows is damaged")
            est.moments_ = replace(est.moments_, row_sketch=rows)
        self._place = header["place"]
        move_to(est._counter, header["place"])

    def _foreign(self, why: str) -> None:
        msg = (
            f"The checkpoint {str(self._file.path)!r} cannot be used: {why}. Give another path, or "
            f"delete the file to begin anew."
        )
        raise CheckpointError(msg)

    def maybe(self, est: Any, moments: Any, place: int) -> None:
        """Save if the time since the last one makes it cheap."""
        if time.monotonic() - self._began >= self._cost / _SHARE:
            self.now(est, moments, place)

    def now(self, est: Any, moments: Any, place: int) -> None:
        """Save; a disk that is full costs the checkpoint, not the fit."""
        if place == self._place:
            return
        began = time.monotonic()
        sums: Moments = moments()
        arrays: dict[str, Any] = {
            f.name: getattr(sums, f.name)
            for f in fields(sums)
            if isinstance(getattr(sums, f.name), np.ndarray)
        }
        if isinstance(est.pilot_.features, LandmarkMap):
            arrays["whitening"] = est.pilot_.features.whitening
        rows = sums.row_sketch
        assert rows is not None
        arrays |= {name: getattr(rows, name) for name in _SKETCH}
        header = {
            **self._about, "sketch": [rows.level, rows.known],
            "seed": self.seed, "place": int(place), "rows": sums.n_rows,
            "fingerprint": est.pilot_.fingerprint, "data": self._sample,
            "sum_log_weight": sums.sum_log_weight, "first_index": int(sums.first_index),
        }  # fmt: skip
        try:
            self._file.save(header, arrays)
        except OSError as error:
            if not self._failed:
                last = (
                    "none" if self._place < 0 else f"the last one, of {self._place} rows, is kept"
                )
                warn_user(
                    f"The checkpoint {str(self._file.path)!r} could not be written ({error}): {last}. "
                    f"The fit goes on.",
                    DataWarning,
                )
            self._failed = True
        else:
            self._place, self._failed = place, False
        self._began = time.monotonic()
        self._cost = self._began - began


def _parameters(est: Any) -> dict[str, str]:
    """Parameters as text; arrays by their numbers."""
    out = {}
    for name, value in est.get_params(deep=False).items():
        if name not in _FREE:
            out[name] = describe(value)
    if isinstance(est.random_state, int | np.integer):
        out["random_state"] = repr(int(est.random_state))
    return out


def _whitens(whitening: Any, features: LandmarkMap) -> bool:
    """Does it belong to this kernel? A function of the user's may have changed under its name."""
    some = whitening[:, :: max(whitening.shape[1] // 16, 1)]
    found = some.T @ (features.kernel(features.landmarks, features.landmarks) @ some)
    return bool(np.allclose(found, np.eye(some.shape[1]), atol=1e-4))


def describe(value: Any) -> str:
    """A parameter as text that is the same in another process: no addresses, arrays in full."""
    text = repr(value.tolist()) if isinstance(value, np.ndarray) else repr(value)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def _has_all(header: dict[str, Any], arrays: dict[str, Any], est: Any) -> bool:
    """Numbers in the shapes of this fit's moments; a digest that fits says only who wrote them."""
    empty = est.pilot_.empty_moments()
    shapes = {k: v.shape for k, v in vars(empty).items() if isinstance(v, np.ndarray)}
    if isinstance(est.pilot_.features, LandmarkMap):
        shapes["whitening"] = getattr(arrays.get("whitening"), "shape", None)
    same = {name: array.shape for name, array in arrays.items()} == shapes
    finite = all(
        array.dtype.kind in "iuf" and np.isfinite(array).all() for array in arrays.values()
    )
    whole = all(
        type(header.get(k)) is int and header[k] >= 0 for k in ("place", "rows", "first_index")
    )
    text = all(isinstance(header.get(k), str) for k in ("fingerprint", "data"))
    return (
        same and finite and whole and text and isinstance(header.get("sum_log_weight"), float | int)
    )


def _unpack(empty: Moments, arrays: dict[str, Any], header: dict[str, Any]) -> Moments:
    kept = {name: arrays[name] for name in vars(empty) if name in arrays}
    return replace(
        empty, sum_log_weight=header["sum_log_weight"], first_index=header["first_index"], **kept
    )
