"""Options of a streamed fit, and the source that they name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.inputs.columns import as_frame
from fairspan.method.linalg import is_tensor
from fairspan.streaming.arrow import ArrowSource, find_dataset
from fairspan.streaming.dask import DaskSource, is_dask
from fairspan.streaming.estimator import StreamedEstimator
from fairspan.streaming.memory import ArraySource, IterableSource
from fairspan.streaming.sources import GivenRoles, Source

__all__ = ["StreamPlan", "open_source"]


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
    """Open rows of any kind as a source, with the roles of their columns.

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
        Allow ``features`` to name columns although the blocks have no column names.
    text : collection of str
        Columns of CSV files to read as text, whatever their values are.

    Returns
    -------
    Source
    """
    given = GivenRoles(
        target=target, sensitive=sensitive, control=control, features=features, weight=weight
    )
    dataset = find_dataset(source)
    if dataset is not None:
        return ArrowSource(dataset, given, text=text)
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(source, pyarrow.Table):
        return ArrowSource(importlib.import_module("pyarrow.dataset").dataset(source), given)
    if pyarrow is not None and hasattr(source, "get_fragments"):
        return ArrowSource(source, given, text=text)
    if is_dask(source):
        return DaskSource(source, given)
    if isinstance(source, np.ndarray) or is_tensor(source):
        return ArraySource(source, given)
    if not isinstance(source, list | tuple | dict) and as_frame(source, "source") is not None:
        return IterableSource([source], given, allow_unnamed=soft)
    if callable(source) or isinstance(source, Iterable):
        return IterableSource(source, given, allow_unnamed=soft)
    msg = (
        f"A stream cannot come from {type(source).__name__}. Give a path, a pattern or a list of files "
        f"(Parquet, CSV), a pyarrow dataset, an iterable of frames or (X, y, S) blocks, a numpy.memmap, or "
        f"a Dask collection."
    )
    raise TypeError(msg)


@dataclass(frozen=True, kw_only=True)
class StreamPlan:
    """Arguments of ``fit_stream``."""

    source: Any
    target: Any = None
    sensitive: Any = None
    control: Any = None
    features: Any = None
    weight: Any = None
    encoder: Any = "auto"
    checkpoint: Any = None
    device: Any = None
    precision: str = "auto"
    client: Any = None

    def open(self) -> Source:
        """Open the source."""
        return open_source(
            self.source, self.target, self.sensitive, self.control, self.features, self.weight
        )

    def on_workers(self, source: Source) -> bool:
        """Whether Dask computes the passes."""
        return self.client is not None or source.parts[0].pieces is not None

    def check(self, est: StreamedEstimator) -> None:
        """Raise for arguments and parameters that cannot stream, before anything is read."""
        params, encoder, device = est.params, self.encoder, self.device
        if params["kernel"] == "precomputed" and params["feature_map"] is None:
            msg = "kernel='precomputed' cannot stream: a block of rows has no kernel columns of its own."
            raise ValueError(msg)
        if isinstance(params["n_components"], str) and params["n_components"] == "all":
            msg = (
                "n_components='all' keeps every row as a landmark, so it cannot stream. Give a number, or "
                "'auto'; `fit` takes 'all' for rows in memory."
            )
            raise ValueError(msg)
        if isinstance(encoder, str) and encoder not in ("auto", "table"):
            msg = (
                f"encoder={encoder!r} is not allowed; give 'auto', 'table', a transformer or None."
            )
            raise ValueError(msg)
        if self.precision not in ("auto", "float64", "float32"):
            msg = (
                f"precision={self.precision!r} is not allowed; give 'auto', 'float64' or 'float32'."
            )
            raise ValueError(msg)
        if self.precision != "auto" and device is None:
            msg = f"precision={self.precision!r} is that of moments on a device; pass device too."
            raise ValueError(msg)
        if self.client is not None and device is not None:
            msg = "client and device exclude each other: workers compute on their processors."
            raise ValueError(msg)
        if device is not None and importlib.util.find_spec("torch") is None:
            msg = f'device={device!r} needs torch: pip install "fairspan[torch]".'
            raise ImportError(msg)

    def check_source(self, est: StreamedEstimator, source: Source) -> None:
        """Raise if the source cannot be read as the arguments and the estimator need it."""
        if self.device is not None and source.parts[0].pieces is not None:
            msg = "device is not for Dask collections, whose workers compute on their processors."
            raise ValueError(msg)
        if self.client is not None and not source.for_workers:
            msg = (
                "client needs a source that workers can read by themselves: files, a pyarrow dataset of "
                "files, or a Dask collection (dask.array.from_array for an array)."
            )
            raise ValueError(msg)
        if source.single_pass and est.reads_rows_again:
            msg = (
                "likelihood='logistic' reads the rows again after the moments, but the source is an "
                "iterator, which can be read only once. Pass a function that returns a new one, a list or "
                "files; or use likelihood='gaussian'."
            )
            raise ValueError(msg)
