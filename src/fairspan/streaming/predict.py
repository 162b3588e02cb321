"""Predictions block by block, into a Parquet file."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from fairspan._system import atomic_write, first_line, row_progress
from fairspan.encoding import collect_unseen
from fairspan.exceptions import RowError
from fairspan.streaming.arrow import require_pyarrow
from fairspan.streaming.blocks import blocks, prefetch
from fairspan.streaming.moments import naming_new_rows
from fairspan.streaming.open import open_source
from fairspan.streaming.rows import Rows
from fairspan.streaming.sources import Source

_METHODS = ("predict", "predict_proba", "decision_function", "transform")
_BLOCK_ROWS = 2**16
_WRITING = "predict_stream, which writes Parquet,"


def write_predictions(
    est: Any, source: Any, destination: Any, method: str, features: Any, keep: Any, device: Any
) -> Path:
    """Everything ``predict_stream`` does."""
    if method not in _METHODS or not hasattr(est, method):
        allowed = [name for name in _METHODS if hasattr(est, name)]
        msg = f"method={method!r} is not allowed for {type(est).__name__}; give one of {allowed}."
        raise ValueError(msg)
    pyarrow = require_pyarrow(_WRITING)
    target = Path(destination)
    if target.is_dir() or not target.parent.is_dir():
        absent = f": the folder {str(target.parent)!r} does not exist"
        what = " is a folder; give the name of a file" if target.is_dir() else absent
        msg = f"destination={str(destination)!r}{what}."
        raise ValueError(msg)
    if features is None and hasattr(est, "feature_names_in_") and not _has_no_names(source):
        features = est.feature_names_in_.tolist()
    with _speaking_of_keep():
        # A kept column is copied as it is written: as a number, "0123" would be 123.
        used = set(getattr(est, "feature_names_in_", ()) if features is None else features)
        kept = [keep] if isinstance(keep, str) else keep if isinstance(keep, list | tuple) else ()
        text = [*getattr(est, "text_features_", ()), *(name for name in kept if name not in used)]
        rows = open_source(source, control=keep, features=features, soft=True, text=text)
    if any(os.path.realpath(file) == os.path.realpath(target) for file in rows.files()):
        msg = f"destination={str(destination)!r} is one of the files to predict from; give another."
        raise ValueError(msg)
    writer, schema = None, pyarrow.schema([])
    with atomic_write(target) as part, collect_unseen() as unseen:
        found = _read(rows)
        shown = row_progress(method, rows.n_rows, verbose=est.verbose)
        try:
            with shown as progress, closing(found):
                for place, block in found:
                    columns = _columns(est, block, place, method, device)
                    if writer is None:
                        kept = () if block.control is None else _names(block.control)
                        known = {name: kind for name, kind in rows.types().items() if name in kept}
                        fields = [_field(name, values, known) for name, values in columns.items()]
                        schema = pyarrow.schema(fields)
                        writer = pyarrow.parquet.ParquetWriter(part, schema)
                    # pandas reads integers with gaps as floats: the first block's types hold for all.
                    arrays = [
                        _as_arrow(values, field.type, field.name)
                        for values, field in zip(columns.values(), schema, strict=True)
                    ]
                    writer.write_table(pyarrow.table(arrays, schema=schema))
                    progress.advance(len(block))
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            msg = "The source has no rows; there is nothing to predict."
            raise ValueError(msg)
        unseen.report()  # of all rows: a block may have none of the known values by chance
    return target


@contextmanager
def _speaking_of_keep() -> Iterator[None]:
    """Errors inside call the columns to keep what the user calls them."""
    try:
        yield
    except RowError:
        raise
    except ValueError as error:
        # At the beginning alone: a column may have that name.
        msg = re.sub(r"^(block \d+: )?control(_features)?\b", r"\1keep", str(error))
        unnamed = re.match(r"block \d+ has no column names, so control ", msg)
        if unnamed:
            where = msg.partition(" has ")[0]
            msg = f"{where} has no column names, so keep cannot name one; leave keep out."
        if msg == str(error):
            raise
        raise ValueError(msg) from error


def _read(rows: Source) -> Generator[tuple[int, Rows], None, None]:
    """Blocks; the names of columns of an iterable are looked at when it is read."""
    with closing(prefetch(blocks(rows.parts, _BLOCK_ROWS))) as found, _speaking_of_keep():
        yield from found


def _field(name: str, values: Any, known: dict[str, Any]) -> tuple[str, Any]:
    """A column's type: that of the source, or what the first block looks like."""
    kind = known[name] if name in known else _as_arrow(values, None, name).type
    pyarrow = require_pyarrow(_WRITING)
    return name, pyarrow.string() if pyarrow.types.is_null(kind) else kind


def _as_arrow(values: Any, kind: Any, name: str) -> Any:
    """A column as Arrow has it, of the given type; None: of that which its values have."""
    pyarrow = require_pyarrow(_WRITING)
    try:
        if type(values).__module__.startswith("polars"):
            found = values.to_arrow()
            return found if kind is None else found.cast(kind)
        return pyarrow.array(values, type=kind, from_pandas=True)
    except (pyarrow.ArrowException, OverflowError) as error:
        what = "one type" if kind is None else f"type {kind}, as its first rows are"
        msg = f"keep names {name!r}, whose values are not all of {what}: {first_line(error)}"
        raise ValueError(msg) from error


def _has_no_names(source: Any) -> bool:
    return isinstance(source, np.ndarray)


def _columns(est: Any, block: Rows, place: int, method: str, device: Any) -> dict[str, Any]:
    """Kept columns, then predictions."""
    with naming_new_rows(est, block, place):
        X = block.X
        if device is not None:
            est, X = _on_device(est, block.X, device)
        found = np.asarray(getattr(est, method)(X))
    out: dict[str, Any] = {}
    if block.control is not None:
        kept = nw.from_native(block.control, eager_only=True)
        out = {name: kept[name].to_native() for name in kept.columns}
    found_names = _output_names(est, method, found)
    twice = [name for name in found_names if name in out]
    if twice:
        msg = (
            f"keep names {twice[0]!r}, which is the name of what is predicted; rename that column."
        )
        raise ValueError(msg)
    columns = [found] if found.ndim == 1 else list(found.T)
    return {**out, **dict(zip(found_names, columns, strict=True))}


def _names(frame: Any) -> list[str]:
    return list(nw.from_native(frame, eager_only=True).columns)


def _output_names(est: Any, method: str, found: Any) -> list[str]:
    if method == "predict":
        return ["prediction"]
    if method == "predict_proba":
        return [f"probability_{label}" for label in est.classes_.tolist()]
    return ["score"] if found.ndim == 1 else [f"score_{j}" for j in range(found.shape[1])]


def _on_device(est: Any, X: Any, device: Any) -> Any:
    import torch

    from fairspan.inputs.rows import read_features

    found = read_features(est, X, reset=False)
    bare = copy.copy(est)  # what it gets is numbers already
    for name in ("encoder_", "feature_names_in_"):
        bare.__dict__.pop(name, None)
    bare.n_features_in_ = found.shape[1]
    return bare, torch.as_tensor(found, device=device)
