"""Checkpoints of a streamed fit: the moments so far, in one npz file with a JSON header."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairspan._archives import read_archive, write_archive
from fairspan.exceptions import CheckpointError, DataWarning, warn_user
from fairspan.method.features import LandmarkMap
from fairspan.method.moments import Moments
from fairspan.method.pilot import Pilot, fingerprint
from fairspan.method.row_sketch import RowSketch
from fairspan.streaming.rows import StreamedEstimator, StreamedMoments
from fairspan.streaming.sources import Source

FORMAT = 1
_KIND = "fairspan checkpoint"
# Saving may take up to this share of the time.
_SHARE = 0.05
# Arrays of the sketch of the rows.
_SKETCH = ("hashes", "counts")
# Parameters that moments do not depend on, so that a fit may be resumed with others.
_FREE = ("fairness", "dial", "verbose", "random_state")
# Counts in the header; "place" is the position of the next row.
_COUNTS = ("place", "rows", "first_index")


class Checkpoint:
    """A file with the moments of a pass and the number of rows that they are of.

    The file holds plain numbers and text: ``numpy.load`` opens it, and nothing in it is executed.

    Parameters
    ----------
    path : path
        File to write and to read. It need not exist; its folder must.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise ValueError(f"checkpoint={str(path)!r} is a folder; give the name of a file.")
        if not self.path.parent.is_dir():
            msg = f"checkpoint={str(path)!r}: the folder {str(self.path.parent)!r} does not exist."
            raise ValueError(msg)

    def save(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Write a temporary file, then rename it: the old file stays until the new one is complete."""
        write_archive(self.path, _KIND, FORMAT, header, arrays)

    def load(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Read the header and the arrays; None if the file does not exist."""
        if not self.path.exists():
            return None
        try:
            return read_archive(self.path, _KIND, FORMAT)
        except (PermissionError, MemoryError):
            raise
        except ValueError as error:
            self.refuse(str(error))

    def check(self, known: Mapping[str, Any], header: Mapping[str, Any]) -> None:
        """Raise if the header is that of another fit, and name what differs."""
        for key, value in known.items():
            current, saved = json.loads(json.dumps(value)), header.get(key)
            if current != saved:
                shown = _difference(current, saved)
                self.refuse(f"it belongs to another fit: its {key} differs ({shown})")

    def refuse(self, why: str) -> NoReturn:
        """Raise the error of a checkpoint that cannot be used."""
        raise CheckpointError(
            f"The checkpoint {str(self.path)!r} cannot be used: {why}. Give another path, or delete the "
            f"file to begin anew."
        )


def _difference(current: Any, saved: Any) -> str:
    if isinstance(current, dict) and isinstance(saved, dict):
        for key in sorted({*current, *saved}, key=str):
            if current.get(key) != saved.get(key):
                return f"{key}: {_short(saved.get(key))} there, {_short(current.get(key))} here"
    return f"{_short(saved)} there, {_short(current)} here"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class SavedPass:
    """Saves the pass over the moments of one fit, and resumes it.

    A checkpoint of another estimator, source, encoder or order of sums is refused; sums in another order
    differ in their last digits.
    """

    def __init__(
        self, file: Checkpoint, est: StreamedEstimator, source: Source, encoder: Any, order: str
    ) -> None:
        self._file = file
        self._about: dict[str, Any] = {
            "estimator": est.name,
            "parameters": _parameters(est),
            "source": source.identity(),
            "encoder": _as_text(encoder),
            "order of sums": order,
        }
        self._pilot: Pilot
        self._rows_digest = ""
        self._last_save, self._save_seconds = time.monotonic(), 0.0
        self._saved_position, self._failed = -1, False
        self._loaded = file.load()
        self.seed: int | None = None
        if self._loaded is not None:
            header = self._loaded[0]
            file.check(self._about, header)
            if isinstance(header.get("seed"), int):
                self.seed = header["seed"]

    def restore(self, pilot: Pilot, seed: int, rows_digest: str) -> StreamedMoments:
        """The pilot and the moments to go on with: those of the checkpoint, or empty ones."""
        self._pilot, self.seed, self._rows_digest = pilot, seed, rows_digest
        if self._loaded is None:
            return StreamedMoments(pilot=pilot, moments=pilot.empty_moments(), position=0)
        header, arrays = self._loaded
        self._loaded = None
        sketch = {name: arrays.pop(name) for name in _SKETCH if name in arrays}
        if not _is_complete(header, arrays, pilot):
            self._file.refuse("it has not all that such a fit needs, or in other shapes")
        features = pilot.features
        if isinstance(features, LandmarkMap):
            # Eigenvectors depend on the number of threads, so use those that the moments were taken with.
            if arrays["whitening"].shape != features.whitening.shape:
                self._file.refuse("the landmarks are others")
            pilot = replace(pilot, features=replace(features, whitening=arrays["whitening"]))
            self._pilot = pilot = replace(pilot, fingerprint=fingerprint(pilot))
        if pilot.fingerprint != header["fingerprint"] or rows_digest != header["data"]:
            self._file.refuse("the rows, and with them landmarks, edges or labels, are others")
        if isinstance(features, LandmarkMap) and not _whitens(arrays["whitening"], features):
            self._file.refuse("the kernel is another")
        empty = pilot.empty_moments()
        moments = replace(
            empty,
            sum_log_weight=header["sum_log_weight"],
            first_index=header["first_index"],
            **{name: arrays[name] for name in vars(empty) if name in arrays},
        )
        if sketch:  # version 0.1.0 wrote none
            try:
                known = RowSketch.checked(pilot.fingerprint, *header.get("sketch", ()), **sketch)
            except (TypeError, ValueError):
                self._file.refuse("its sketch of the rows is damaged")
            moments = replace(moments, row_sketch=replace(known, rows=header["rows"]))
        self._saved_position = header["place"]
        return StreamedMoments(pilot=pilot, moments=moments, position=header["place"])

    def save_if_due(self, moments: Callable[[], Moments], position: int) -> None:
        """Save if the time since the last checkpoint makes it cheap."""
        if time.monotonic() - self._last_save >= self._save_seconds / _SHARE:
            self.save(moments, position)

    def save(self, moments: Callable[[], Moments], position: int) -> None:
        """Save the moments of the rows before ``position``; the fit goes on if the disk is full."""
        if position in (0, self._saved_position):  # there is nothing, or nothing new
            return
        began = time.monotonic()
        sums = moments()
        sketch = sums.row_sketch
        assert sketch is not None
        header = {
            **self._about,
            "sketch": [sketch.level, sketch.known],
            "seed": self.seed,
            "place": int(position),
            "rows": sums.n_rows,
            "fingerprint": self._pilot.fingerprint,
            "data": self._rows_digest,
            "sum_log_weight": sums.sum_log_weight,
            "first_index": int(sums.first_index),
        }
        try:
            self._file.save(header, _arrays(sums, sketch, self._pilot))
        except OSError as error:
            if not self._failed:
                previous = f"the last one, of {self._saved_position} rows, is kept"
                warn_user(
                    f"The checkpoint {str(self._file.path)!r} could not be written ({error}): "
                    f"{'none' if self._saved_position < 0 else previous}. The fit goes on.",
                    DataWarning,
                )
            self._failed = True
        else:
            self._saved_position, self._failed = position, False
        self._last_save = time.monotonic()
        self._save_seconds = self._last_save - began


def _arrays(moments: Moments, sketch: RowSketch, pilot: Pilot) -> dict[str, NDArray[Any]]:
    """Everything that a checkpoint holds in arrays."""
    values = {f.name: getattr(moments, f.name) for f in fields(moments)}
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    if isinstance(pilot.features, LandmarkMap):
        arrays["whitening"] = pilot.features.whitening
    return arrays | {name: getattr(sketch, name) for name in _SKETCH}


def _parameters(est: StreamedEstimator) -> dict[str, str]:
    """Parameters as text; arrays by their numbers."""
    out = {name: _as_text(value) for name, value in est.params.items() if name not in _FREE}
    seed = est.params["random_state"]
    if isinstance(seed, int | np.integer):
        out["random_state"] = repr(int(seed))
    return out


def _as_text(value: Any) -> str:
    """A parameter as text that is the same in another process: no addresses, arrays in full."""
    text = repr(value.tolist()) if isinstance(value, np.ndarray) else repr(value)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def _whitens(whitening: NDArray[Any], features: LandmarkMap) -> bool:
    """Check that it belongs to this kernel: a user's function may have changed under the same name."""
    some = whitening[:, :: max(whitening.shape[1] // 16, 1)]
    product = some.T @ (features.kernel(features.landmarks, features.landmarks) @ some)
    return bool(np.allclose(product, np.eye(some.shape[1]), atol=1e-4))


def _is_complete(header: dict[str, Any], arrays: dict[str, Any], pilot: Pilot) -> bool:
    """Check types and shapes: a digest that agrees does not show that this program wrote the file."""
    shapes = {
        k: v.shape for k, v in vars(pilot.empty_moments()).items() if isinstance(v, np.ndarray)
    }
    if isinstance(pilot.features, LandmarkMap):
        shapes["whitening"] = getattr(arrays.get("whitening"), "shape", None)
    return (
        {name: array.shape for name, array in arrays.items()} == shapes
        and all(a.dtype.kind in "iuf" and np.isfinite(a).all() for a in arrays.values())
        and all(type(header.get(k)) is int and header[k] >= 0 for k in _COUNTS)
        and all(isinstance(header.get(k), str) for k in ("fingerprint", "data"))
        and isinstance(header.get("sum_log_weight"), float | int)
    )
