"""From whatever the user holds rows in to a source."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from fairspan.inputs.columns import as_frame
from fairspan.method.linalg import is_tensor
from fairspan.streaming.arrow import ArrowSource, find_dataset
from fairspan.streaming.dask import DaskSource, is_dask
from fairspan.streaming.memory import ArraySource, IterableSource
from fairspan.streaming.sources import Source

__all__ = ["open_source"]


def open_source(
    source: Any,
    target: Any = None,
    sensitive: Any = None,
    control: Any = None,
    features: Any = None,
    weight: Any = None,
    *,
    soft: bool = False,
    text: Collection[str] = (),
) -> Source:
    """Rows somewhere, with the roles of their columns.

    Parameters
    ----------
    source : path, pattern or list of files; pyarrow dataset; iterable; array; Dask collection
        Parquet, CSV or Feather files; data frames or ``(X, y, S)`` blocks from a list, or from a
        function that starts anew; a ``numpy.memmap``; a Dask data frame or array.
    target, sensitive, control : str or list of str, optional
        Column names. Beside an array: arrays of as many rows, or numbers of its columns.
    features : list of str, optional
        Columns to learn from; all that have no other role if not given.
    weight : str, optional
        Column of weights.
    soft : bool, default=False
        Where blocks have no names, named features are no error.
    text : collection of str
        Columns of CSV files to read as text, whatever their values look like.

    Returns
    -------
    Source
    """
    named = {
        "target": target, "sensitive": sensitive, "control": control, "features": features,
        "weight": weight,
    }  # fmt: skip
    found = find_dataset(source)
    if found is not None:
        return ArrowSource(found, text=text, **named)
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(source, pyarrow.Table):
        return ArrowSource(importlib.import_module("pyarrow.dataset").dataset(source), **named)
    if pyarrow is not None and hasattr(source, "get_fragments"):
        return ArrowSource(source, text=text, **named)
    if is_dask(source):
        return DaskSource(source, **named)
    if isinstance(source, np.ndarray) or is_tensor(source):
        return ArraySource(source, **named)
    if not isinstance(source, list | tuple | dict) and as_frame(source, "source") is not None:
        return IterableSource([source], soft=soft, **named)
    if callable(source) or isinstance(source, Iterable):
        return IterableSource(source, soft=soft, **named)
    msg = (
        f"A stream cannot come from {type(source).__name__}. Give a path, a pattern or a list of files "
        f"(Parquet, CSV), a pyarrow dataset, an iterable of frames or (X, y, S) blocks, a numpy.memmap, or "
        f"a Dask collection."
    )
    raise TypeError(msg)
