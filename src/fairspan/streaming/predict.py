"""Predictions of new rows, block by block, in a Parquet file; or in a collection of an engine."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from fairspan._system import atomic_write, first_line
from fairspan.exceptions import RowError
from fairspan.inputs.columns import require_columns
from fairspan.inputs.units import NO_UNIT, check_units
from fairspan.streaming.arrow import is_csv, require_pyarrow
from fairspan.streaming.csv_types import as_mapping
from fairspan.streaming.engines import PredictingEngine
from fairspan.streaming.fit import ENGINES, open_source
from fairspan.streaming.rows import Rows, StreamedPredictor, naming_rows
from fairspan.streaming.sources import Source, read_blocks
from fairspan.tables.numbers import dates_of, texts_of
from fairspan.unseen import collect_unseen

METHODS = ("predict", "predict_proba", "decision_function", "transform")
_BLOCK_ROWS = 2**16
_WRITING = "predict_stream, which writes Parquet,"


def write_predictions(
    est: StreamedPredictor,
    source: Any,
    destination: Any,
    method: str,
    *,
    features: Any,
    keep: Any,
    device: Any,
    column_types: Any = None,
    units: Any = None,
) -> Any:
    """Write the predictions of a fitted estimator; see ``predict_stream`` for the arguments."""
    if method not in est.methods:
        msg = f"method={method!r} is not allowed for {est.name}; give one of {est.methods}."
        raise ValueError(msg)
    engine = next((engine for engine in ENGINES if engine.recognises(source)), None)
    if isinstance(engine, PredictingEngine):
        if destination is not None or device is not None or units:
            raise ValueError(
                f"destination, device and units are not for {engine.name}: a data frame is returned, whose "
                f"`write` writes files, and executors predict on their processors."
            )
        opened = _open(est, source, features, keep, column_types)
        with collect_unseen() as unseen:
            made = engine.predict(opened, PredictedColumns(est.copy(), method))
            unseen.report()
        return made
    if destination is None:
        raise ValueError("destination is missing: give the path of the Parquet file to write.")
    pyarrow = require_pyarrow(_WRITING)
    target = Path(destination)
    if target.is_dir() or not target.parent.is_dir():
        absent = f": the folder {str(target.parent)!r} does not exist"
        problem = " is a folder; give the name of a file" if target.is_dir() else absent
        raise ValueError(f"destination={str(destination)!r}{problem}.")
    rows = _open(est, source, features, keep, column_types)
    if rows.files():  # tables in memory have their own signs
        _check_units(est, units or {}, rows)
    elif units:
        raise ValueError("units is for files; give other sources numbers in the units of training.")
    if any(os.path.realpath(file) == os.path.realpath(target) for file in rows.files()):
        msg = f"destination={str(destination)!r} is one of the files to predict from; give another."
        raise ValueError(msg)
    writer, schema = None, pyarrow.schema([])
    with atomic_write(target) as part, collect_unseen() as unseen:
        try:
            with closing(_read(rows, method, est.verbose)) as row_blocks:
                for offset, block in row_blocks:
                    if rows.inferred:
                        block = _with_dates(block, est.dates)
                    columns = _columns(est, block, offset, method, device)
                    if writer is None:
                        schema = pyarrow.schema(_fields(columns, block, rows))
                        writer = pyarrow.parquet.ParquetWriter(part, schema)
                    # pandas reads integers with gaps as floats: use the first block's types for all.
                    arrays = [
                        _as_arrow(values, field.type, field.name)
                        for values, field in zip(columns.values(), schema, strict=True)
                    ]
                    writer.write_table(pyarrow.table(arrays, schema=schema))
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise ValueError("The source has no rows; there is nothing to predict.")
        unseen.report()  # over all rows: a single block may have no known value by chance
    return target


def _check_units(est: StreamedPredictor, units: Mapping[str, str], rows: Source) -> None:
    """Compare the signs of the numbers of files, which have none, with those of training."""
    names = () if rows.roles is None else rows.roles.features
    require_columns(units, list(names), "units names")
    if est.units is not None:
        given = {name: unit for name, unit in units.items() if unit != NO_UNIT}
        check_units(est.units, given, names)


def _open(
    est: StreamedPredictor, source: Any, features: Any, keep: Any, column_types: Any
) -> Source:
    """Open the source with the features of the fit, and the columns to keep as control features."""
    if features is None and not isinstance(source, np.ndarray):
        features = est.feature_names
    used = set((est.feature_names or ()) if features is None else features)
    kept_names = [keep] if isinstance(keep, str) else keep if isinstance(keep, list | tuple) else ()
    given = as_mapping(column_types)
    types: dict[str, str] = {}
    if is_csv(source):
        kept = est.column_types | dict.fromkeys(est.text_features, "text")
        # Models of earlier versions have types of dates, which need not be those of another file.
        dates = [
            n for n, kind in kept.items() if kind.startswith(("date", "time")) or n in est.dates
        ]
        types = {n: kind for n, kind in kept.items() if n in used and n not in dates}
    with _naming_keep():
        return open_source(
            source,
            control=keep,
            features=features,
            soft=True,
            text=[name for name in kept_names if name not in used and name not in given],
            types=types | given or None,
        )


def _with_dates(rows: Rows, names: Collection[str]) -> Rows:
    """Turn text into dates where the model was trained with dates and Arrow has found none."""
    table = nw.from_native(rows.X, eager_only=True)
    if not table.implementation.is_pandas():
        return rows
    new: dict[str, Any] = {}
    for name in names:
        if name in table.columns and table.schema[name] in (nw.String, nw.Object):
            texts = texts_of(rows.X[name])  # None where the values are dates already
            dates = None if texts is None else dates_of(rows.X[name], texts)
            new |= {} if dates is None else {name: dates}
    return replace(rows, X=rows.X.assign(**new)) if new else rows


@contextmanager
def _naming_keep() -> Iterator[None]:
    """Name the argument ``keep`` in errors inside, instead of the control features that hold it."""
    try:
        yield
    except RowError:
        raise
    except ValueError as error:
        # Only at the beginning: a column may be called "control".
        msg = re.sub(r"^(block \d+: )?control(_features)?\b", r"\1keep", str(error))
        if re.match(r"block \d+ has no column names, so control ", msg):
            where = msg.partition(" has ")[0]
            msg = f"{where} has no column names, so keep cannot name one; leave keep out."
        if msg == str(error):
            raise
        raise ValueError(msg) from error


def _read(source: Source, label: str, verbose: int) -> Generator[tuple[int, Rows], None, None]:
    """Read blocks; the column names of an iterable are checked only now."""
    row_blocks = read_blocks(source, _BLOCK_ROWS, label, verbose=verbose)
    with closing(row_blocks), _naming_keep():
        yield from row_blocks


def _fields(columns: dict[str, Any], block: Rows, source: Source) -> list[tuple[str, Any]]:
    """Names and Arrow types of the columns: those of the source, or those of the first block."""
    types, string = require_pyarrow(_WRITING).types, require_pyarrow(_WRITING).string()
    frame = None if block.control is None else nw.from_native(block.control, eager_only=True)
    kept_names = () if frame is None else frame.columns
    declared = {name: kind for name, kind in source.types().items() if name in kept_names}
    kinds = {
        name: declared[name] if name in declared else _as_arrow(values, None, name).type
        for name, values in columns.items()
    }
    return [(name, string if types.is_null(kind) else kind) for name, kind in kinds.items()]


def _as_arrow(values: Any, kind: Any, name: str) -> Any:
    """A column as an Arrow array of the given type; None: of the type of its values."""
    pyarrow = require_pyarrow(_WRITING)
    try:
        if type(values).__module__.startswith("polars"):
            array = values.to_arrow()
            return array if kind is None else array.cast(kind)
        return pyarrow.array(values, type=kind, from_pandas=True)
    except (pyarrow.ArrowException, OverflowError) as error:
        expected = "one type" if kind is None else f"type {kind}, as its first rows are"
        msg = f"keep names {name!r}, whose values are not all of {expected}: {first_line(error)}"
        raise ValueError(msg) from error


def _columns(
    est: StreamedPredictor, block: Rows, offset: int, method: str, device: Any
) -> dict[str, Any]:
    """Kept columns, then predictions."""
    made = PredictedColumns(est, method, device)(block, offset)
    columns: dict[str, Any] = {}
    if block.control is not None:
        frame = nw.from_native(block.control, eager_only=True)
        columns = {name: frame[name].to_native() for name in frame.columns}
    for name, values in made.items():
        if name in columns:
            raise ValueError(
                f"keep names {name!r}, which is the name of what is predicted; rename that column."
            )
        columns[name] = values
    return columns


@dataclass(frozen=True)
class PredictedColumns:
    """Columns of predictions for blocks of rows; workers get copies."""

    est: StreamedPredictor
    method: str
    device: Any = None

    def __call__(self, block: Rows, offset: int) -> dict[str, Any]:
        """Predict; errors name the row."""
        with naming_rows(block, offset, lambda some: self.est.read(some.X)):
            output = self.est.predict(self.method, block.X, self.device)
        if self.method == "predict":
            names = ["prediction"]
        elif self.method == "predict_proba":
            names = [f"probability_{label}" for label in self.est.classes]
        else:
            n = 1 if output.ndim == 1 else output.shape[1]
            names = ["score"] if output.ndim == 1 else [f"score_{j}" for j in range(n)]
        return dict(zip(names, [output] if output.ndim == 1 else output.T, strict=True))
