"""Keys of rows by their content, so that a sample does not depend on the order of the rows."""

from __future__ import annotations

import hashlib
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairspan.inputs.columns import as_frame
from fairspan.method.folds import hash_rows
from fairspan.method.linalg import mix, to_numpy
from fairspan.method.problem import Data

Integers = NDArray[np.int64]


def content_keys(data: Data, table: Any, positions: Integers) -> tuple[Integers, Integers]:
    """Two keys per row, by which a sample orders rows and draws them.

    Rows are ordered by a hash of X and of a numeric y; S may be renamed without another sample. They are
    drawn by the same hash, but rows that are equal within a block by their positions: a single hash of
    many copies would draw all of them, or none.

    Parameters
    ----------
    data : Data
        Clean rows; their X is used if there is no table.
    table : data frame or None
        All rows of the block as given, if X will be encoded.
    positions : (n,) int
        Any different integers of the rows.

    Returns
    -------
    order, draw : (n,) int
    """
    X = to_numpy(data.X)
    if table is not None:
        X = numbers_of(table)
        X = X if data.index is None else X[to_numpy(data.index)]
    y = None if data.y is None else np.asarray(to_numpy(data.y.values))
    keys = hash_rows(X, y if y is not None and y.dtype.kind == "f" else None, 0)
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return keys, np.where(counts[inverse] > 1, mix(positions, 5), keys)


def numbers_of(table: Any) -> NDArray[np.float64]:
    """Columns of a table as numbers; text by a hash, dates as microseconds."""
    frame = as_frame(table, "X")
    assert frame is not None
    columns = []
    for name in frame.columns:
        column = frame.get_column(name)
        if column.dtype in (nw.Date, nw.Datetime):  # of any unit and time zone
            column = column.cast(nw.Datetime("us")) if column.dtype == nw.Date else column
            column = column.dt.timestamp("us")
        if column.dtype.is_numeric():
            numbers = column.to_numpy().astype(np.float64)
            columns.append(np.where(np.isnan(numbers), np.nan, numbers))
            continue
        missing = column.is_null().to_numpy()
        texts = np.array(
            ["" if gone else str(v) for v, gone in zip(column.to_list(), missing, strict=True)]
        )
        labels, inverse = np.unique(texts, return_inverse=True)
        digests = [hashlib.blake2b(label.encode(), digest_size=6).digest() for label in labels]
        hashes = np.array([int.from_bytes(digest, "little") for digest in digests], dtype=float)
        columns.append(np.where(missing, -1.0, hashes[inverse.ravel()]))
    return np.column_stack(columns)
