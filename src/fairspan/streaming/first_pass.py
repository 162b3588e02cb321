"""The first pass over a stream: it checks every row, samples rows, and decides about an encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from fairspan.device.passes import precision_for
from fairspan.exceptions import RowError
from fairspan.inputs.columns import as_frame
from fairspan.method.linalg import is_tensor
from fairspan.method.problem import Attribute, Data
from fairspan.streaming.estimator import StreamedEstimator, naming_rows
from fairspan.streaming.rows import Rows
from fairspan.streaming.sample import Sample

__all__ = ["SamplePass", "is_number", "variables_of", "wants_encoder"]


class SamplePass:
    """Reads blocks as the pass over the moments will, and adds them to a sample.

    ``encoder`` is the argument of ``fit_stream``. With ``digest``, hashes of all blocks are summed, by
    which a checkpoint recognises the rows.
    """

    def __init__(
        self, est: StreamedEstimator, sample: Sample, encoder: Any, *, digest: bool
    ) -> None:
        self.sample = sample
        self.precision, self.on_device = "float64", False
        self.encodes: bool | None = None  # whether X needs an encoder; None until a block was added
        self._reader, self._encoder, self._digest = est.copy(), encoder, digest

    def add(self, offset: int, rows: Rows) -> None:
        """Read a block whose first row has this offset, and add it to the sample."""
        given, first = rows, self.encodes is None
        if self.encodes is None:
            # Decided on the first block: missing values may change the type of a column in a later one.
            self.encodes = wants_encoder(self._encoder, rows.X)
        if self.encodes:
            _refuse_infinity(rows, offset)
            # The encoder is fitted on the sample, so its output is not known yet.
            rows = replace(rows, X=np.zeros((len(rows), 1)))
        with naming_rows(rows, offset, self._reader.read):
            if first:
                self._reader.read_columns(rows.X)
            data = self._reader.read(rows)
        self.precision, self.on_device = precision_for(data.X), is_tensor(data.X)
        if self._digest:
            digest = _digest(data, offset, given.X if self.encodes else None)
            self.sample.digest = (self.sample.digest + digest) % 2**64
        self.sample.add(offset, given, variables_of(data), data.index)


def variables_of(data: Data) -> dict[str, Mapping[str, Attribute]]:
    """The columns whose rare levels a sample fills up, by kind."""
    y = {} if data.y is None else {"y": data.y}
    return {"y": y, "sensitive": data.sensitive, "control": data.control}


def wants_encoder(encoder: Any, X: Any) -> bool:
    """Whether X is to be encoded, by the argument ``encoder`` of ``fit_stream``."""
    if encoder is None:
        return False
    if not isinstance(encoder, str) or encoder == "table":
        return True
    frame = as_frame(X, "X")
    return frame is not None and not all(is_number(frame[name]) for name in frame.columns)


def is_number(column: Any) -> bool:
    """True for numbers and booleans; pandas holds booleans with missing values as objects."""
    if column.dtype == nw.Object:
        known = column.drop_nulls().to_list()
        return bool(known) and all(isinstance(value, bool | np.bool_) for value in known)
    return bool(column.dtype.is_numeric() or column.dtype == nw.Boolean)


def _refuse_infinity(rows: Rows, offset: int) -> None:
    """Raise for infinity in X; an encoder only fills up missing values."""
    frame = as_frame(rows.X, "X")
    for name, kind in {} if frame is None else frame.schema.items():
        if kind not in (nw.Float32, nw.Float64):
            continue
        assert frame is not None
        bad = np.flatnonzero(np.isinf(frame[name].to_numpy()))
        if len(bad):
            file, row = rows.place(int(bad[0]))
            why = f"column {name!r} holds infinity (row {offset + bad[0]} of all)."
            raise RowError(file, row, why)


def _digest(data: Data, offset: int, table: Any) -> int:
    """Hash of a block: other rows, labels or groups are another fit. Tensors X are left out."""
    out = hashlib.sha256(str(offset).encode())
    data = replace(data.on_host(), X=data.X) if is_tensor(data.X) else data
    if table is None and not is_tensor(data.X):
        out.update(np.ascontiguousarray(data.X).tobytes())
    elif type(table).__module__.startswith("pandas"):
        from pandas.util import hash_pandas_object

        out.update(hash_pandas_object(table, index=False).to_numpy().tobytes())
    elif type(table).__module__.startswith("polars"):
        out.update(table.hash_rows().to_numpy().tobytes())
    for attributes in variables_of(data).values():
        for name, attribute in attributes.items():
            out.update(name.encode())
            out.update(np.asarray(attribute.values).tobytes())
            out.update(np.asarray(attribute.missing).tobytes())
    if data.weights is not None:
        out.update(np.asarray(data.weights).tobytes())
    return int.from_bytes(out.digest()[:8], "little")
