"""Features as a matrix of numbers, for those who try to recover S from them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairspan.encoding import table_encoder
from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.columns import as_frame, is_temporal
from fairspan.method.linalg import Array

__all__ = ["read_numbers"]


def read_numbers(X: Any, frame: Any, protected: Sequence[str]) -> Array:
    """Every column but the protected ones; text by :func:`table_encoder`.

    Parameters
    ----------
    X : what the user gave.
    frame : the same as a frame, if it is one.
    protected : names of columns that are left out.
    """
    if frame is None:
        table = _array(X)
        if table.dtype.kind == "f":
            return _filled(table)
        frame = _as_columns(table)
    rest = frame.drop([name for name in protected if name in frame.columns])
    strange = [
        name
        for name, dtype in rest.schema.items()
        if is_temporal(dtype) or "List" in str(dtype) or "Struct" in str(dtype)
    ]
    if strange:
        warn_user(
            f"Attackers do not see the columns {', '.join(map(repr, strange[:5]))} of X: neither numbers "
            f"nor text.",
            DataWarning,
        )
        rest = rest.drop(strange)
    if all(dtype.is_numeric() for dtype in rest.schema.values()):
        return _filled(rest.to_numpy().astype(np.float64))
    native = rest.to_native()
    encoder: Any = table_encoder(native)  # type: ignore[no-untyped-call]
    return np.asarray(encoder.fit_transform(native), dtype=np.float64)


def _array(X: Any) -> Any:
    """Numbers as floats; what is no number as it is."""
    table = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if table.ndim != 2:
        raise ValueError(f"X must be a table of features, got shape {table.shape}")
    try:
        return table.astype(np.float64)
    except (TypeError, ValueError):
        return table.astype(object)


def _as_columns(table: Any) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        msg = "X is an array that holds text; encoding it for the attackers needs pandas."
        raise ImportError(msg) from error
    columns = pd.DataFrame(table, columns=[f"x{j}" for j in range(table.shape[1])])
    return as_frame(columns.infer_objects(), "X")


def _filled(table: Array) -> Array:
    """Missing numbers by the column's median, and an indicator of each column that has any."""
    missing = ~np.isfinite(table)
    some = missing.any(axis=0)
    if not some.any():
        return table
    known = np.where(missing, np.nan, table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without any number
        middle = np.nan_to_num(np.nanmedian(known, axis=0))
    return np.concatenate([np.where(missing, middle, table), missing[:, some]], axis=1)
