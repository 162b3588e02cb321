"""The pass over the moments: in this process, on a device or on workers; saved from time to time."""

from __future__ import annotations

import re
import time
from contextlib import closing
from dataclasses import fields, replace
from typing import Any

import numpy as np

from fairspan._progress import row_progress
from fairspan._row_sketch import RowSketch
from fairspan.estimators._device_pass import DevicePass, start_pass
from fairspan.estimators._pilot import MomentsPass, move_to
from fairspan.estimators._prepare import fingerprint
from fairspan.estimators._stream_read import naming_rows
from fairspan.exceptions import CheckpointError, DataWarning, warn_user
from fairspan.features import LandmarkMap
from fairspan.moments import Moments
from fairspan.streams import Checkpoint, Source, blocks, prefetch

__all__ = ["Saved", "take_moments"]

# Saving may take up to this share of the time.
_SHARE = 0.05
# Arrays of the sketch of the rows.
_SKETCH = ("hashes", "counts")
# What moments do not depend on, so that a fit may go on with others.
_FREE = ("fairness", "dial", "verbose", "random_state")


def take_moments(est: Any, source: Source, size: int, plan: Any, saved: Saved | None) -> None:
    """Moments of all rows, from where a checkpoint ends."""
    if plan.on_workers(source):
        from fairspan.estimators._stream_dask import reduce_parts

        reduce_parts(est, source, size, plan, saved)
        return
    start, counter = est._counter.position, est._counter.copy()
    one: MomentsPass | DevicePass | None = None
    found = prefetch(blocks(source.parts, size, start=start))
    shown = row_progress("moments", source.n_rows, verbose=est.verbose, done=start)
    try:
        with shown as progress, closing(found):
            for place, rows in found:
                with naming_rows(est, rows, place, coded=True):
                    data = est._read(*rows.arguments, reset=False)
                    if one is None:
                        one = start_pass(est.pilot_, est.moments_, device=plan.device, X=data.X)
                        one.place = start
                    move_to(counter, place)
                    one.add(data, counter)
                progress.advance(len(rows))
                if saved is not None:
                    saved.maybe(est, one.moments, one.place)
    except BaseException:
        # What an interrupt inside a block leaves is neither with nor without that block.
        if saved is not None and one is not None and one.whole:
            saved.now(est, one.moments, one.place)
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
