"""Spark: data frames as sources, passes on executors, predictions as data frames.

Every partition becomes a sample or moments in a Python process of an executor (``mapInArrow``). A tree of
shuffles adds them up there, so the driver receives one sum. Nothing but data frames is used, so that
sessions of Spark Connect work too. Rows have no positions: a shuffle changes their order, and a lost
executor may change it in the middle of a fit. So samples and folds depend on the content of rows.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fairspan._system import first_line, row_progress
from fairspan.exceptions import DataWarning, warn_user
from fairspan.streaming.arrow import frame_of
from fairspan.streaming.checkpoint import SavedPass
from fairspan.streaming.engines import moments_of, sample_of
from fairspan.streaming.rows import Rows, Span, StreamedEstimator, StreamedMoments
from fairspan.streaming.sample import Sample
from fairspan.streaming.sources import GivenRoles, Part, Roles, Source
from fairspan.unseen import collect_unseen

# Positions of rows, as those of `monotonically_increasing_id`: a partition has fewer than 2^33.
_ROWS_OF_PARTITION = 33
# Partitions of a pass, per core: each has moments, which cost more than few rows do.
_PASSES_PER_CORE, _FEWEST = 4, 32
# Sums that a task of the tree adds up, and the bytes of all of them.
_MOST_CHILDREN, _CHILDREN_BYTES = 32, 2**28
_BYTES_OF_VALUE = 16  # of the rows of a sample, about
_SCHEMA = "key bigint, body binary"
# What Spark says where a session has ended.
_ENDED = (
    "SESSION_OR_CONTEXT_NOT_EXISTS",
    "stopped SparkContext",
    "SparkContext was shut down",
)
# Types of columns that are no single values.
_NO_VALUES = ("array", "map", "struct", "udt", "vectorudt", "binary", "variant")
_ARROW_KINDS = {"f": "float64", "i": "int64", "u": "int64", "b": "bool_"}
_CHANGED = (
    "The Spark data frame had {} rows in the first pass and {} in the second: computing it again gives "
    "other rows. Cache it (frame.cache()), or write it to files and read these."
)
_READ_ROWS = 2**16
# Rows that `predict` computes at once, before it returns a data frame that is computed later.
_FIRST_ROWS = 1000
_INSTALL = (
    'pip install "fairspan[spark]", here and on every executor; Spark itself needs Java 17 or newer, '
    "which the system provides (apt-get install openjdk-17-jre-headless)"
)


def is_spark(obj: Any) -> bool:
    """True for a Spark data frame, of a local session or of Spark Connect; pyspark is not imported."""
    kind = type(obj)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith(
        ("pyspark.sql", "pyspark.pandas")
    )


def _require_spark() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyspark"), importlib.import_module("pyarrow")
    except ImportError as error:
        raise ImportError(f"This needs pyspark and pyarrow: {_INSTALL}.") from error


# --------------------------------------------------------------------------- data frames


@dataclass(kw_only=True)
class SparkPart(Part):
    """A whole data frame, read by the driver; or one partition of it, read by an executor."""

    roles: Roles
    names: tuple[str, ...]  # of the columns; Spark's are c0, c1, ...
    frame: Any = None
    batches: Iterable[Any] = ()

    def read(self) -> Iterator[Rows]:
        """Read batches in order; of a data frame, the driver holds those of two partitions at most."""
        first, batches = 0, self.batches if self.frame is None else _batches_here(self.frame)
        for table in _joined(batches):
            span = Span(self.name, first, table.num_rows)
            yield self.roles.split(frame_of(_named(table, self.names)), (span,))
            first += table.num_rows


class SparkSource(Source):
    """A Spark data frame with named columns."""

    ordered = False
    roles: Roles

    def __init__(self, source: Any, given: GivenRoles) -> None:
        _require_spark()
        if not hasattr(source, "mapInArrow"):
            raise TypeError(
                "A pandas-on-Spark data frame cannot be streamed; give the Spark data frame that "
                "its method to_spark() returns."
            )
        with _spark_errors():
            self.roles = Roles.of(list(source.columns), given)
            self.names = tuple(self.roles.columns)
            self.kinds = {field.name: field.dataType for field in source.schema.fields}
            chosen = _chosen(source, self.roles)
            self.n_partitions = _n_partitions(source)
            self.frame = chosen.coalesce(self.n_partitions)
        self.parts = [
            SparkPart(
                "the Spark data frame", None, roles=self.roles, names=self.names, frame=chosen
            )
        ]

    def identity(self) -> dict[str, Any]:
        """Columns."""
        return {"kind": "spark", "roles": self.roles.as_json()}


def _chosen(source: Any, roles: Roles) -> Any:
    """The columns that are read; decimals as numbers, unless they are only copied or labels.

    They are called c0, c1, ...: ``mapInArrow`` does not take names with dots or backticks.
    """
    names, kinds = roles.columns, dict[str, str]()
    for field in source.schema.fields:
        if field.name in names and field.name in kinds:
            raise ValueError(f"The Spark data frame has two columns {field.name!r}; rename one.")
        kinds[field.name] = field.dataType.typeName()
    numbers = {*roles.features, *roles.sensitive, roles.target, roles.weight}
    columns = []
    for i, name in enumerate(names):
        quoted = "`" + name.replace("`", "``") + "`"
        if name in numbers and kinds[name] in _NO_VALUES:
            raise TypeError(
                f"The column {name!r} is of type {kinds[name]}; give columns of numbers, text, booleans "
                f"or dates. (pyspark.ml.functions.vector_to_array turns a vector into an array, whose "
                f"items can be selected as columns.)"
            )
        as_number = name in numbers and kinds[name] == "decimal"
        columns.append(f"{f'CAST({quoted} AS DOUBLE)' if as_number else quoted} AS c{i}")
    return source.selectExpr(*columns)


def _joined(batches: Iterable[Any]) -> Iterator[Any]:
    """Tables of several record batches: Spark's have 10,000 rows, and each costs a data frame."""
    import pyarrow

    waiting: list[Any] = []
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= _READ_ROWS:
            yield pyarrow.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pyarrow.Table.from_batches(waiting)


def _named(batch: Any, names: Sequence[str]) -> Any:
    """A record batch or table with other names of its columns."""
    return type(batch).from_arrays(batch.columns, names=list(names))


def _n_partitions(source: Any) -> int:
    """A bound on the partitions of a pass: a few for each core."""
    try:
        cores = int(source.sparkSession.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context
        return int(source.sparkSession.conf.get("spark.sql.shuffle.partitions", "200"))
    return max(_PASSES_PER_CORE * cores, _FEWEST)


def _batches_here(frame: Any) -> Iterator[Any]:
    """Bring record batches to the driver, one partition after the other."""
    _, pyarrow = _require_spark()
    with _spark_errors():
        for row in frame.mapInArrow(_as_bytes, "body binary").toLocalIterator(True):
            with pyarrow.ipc.open_stream(row[0]) as reader:
                yield from reader


def _as_bytes(batches: Iterable[Any]) -> Iterator[Any]:
    """On an executor: record batches as values of a column."""
    import pyarrow

    for batch in batches:
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pyarrow.RecordBatch.from_pydict({"body": [sink.getvalue().to_pybytes()]})


# --------------------------------------------------------------------------- passes on executors


@dataclass(frozen=True)
class _Counted:
    """A result and the number of rows that it is of."""

    n_rows: int
    result: Any

    def __add__(self, other: _Counted) -> _Counted:
        return _Counted(self.n_rows + other.n_rows, self.result + other.result)


@dataclass(frozen=True)
class _PartitionPass:
    """A function of one partition, for ``mapInArrow``: its result, or the error of a bad row.

    An error that is returned ends the fit at once; Spark would repeat a task that raises it.
    """

    function: Callable[..., Any]
    shared: tuple[Any, ...]
    roles: Roles
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        key = _partition_number()
        part = SparkPart(
            f"partition {key}", None, roles=self.roles, names=self.names, batches=batches
        )
        try:
            result = self.function(*self.shared, part, 0, key << _ROWS_OF_PARTITION)
        except (ValueError, TypeError) as error:
            yield _record(key, error)
            return
        if part.n_rows:
            yield _record(key, _Counted(part.n_rows, result))


@dataclass(frozen=True)
class _SumOfChildren:
    """Adds up the results of neighbours, for ``mapInArrow``; the order is that of the partitions."""

    n_children: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        children: dict[int, dict[int, bytes]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                children.setdefault(row["key"] // self.n_children, {})[row["key"]] = row["body"]
        for parent in sorted(children):
            of_parent = children.pop(parent)
            total: Any = None
            for key in sorted(of_parent):
                result = pickle.loads(of_parent.pop(key))
                if isinstance(result, Exception):
                    total = result
                    break
                total = result if total is None else total + result
            yield _record(parent, total)


def _partition_number() -> int:
    """On an executor: the number of the partition that this task computes."""
    from pyspark import TaskContext

    return int(TaskContext.get().partitionId())


def _record(key: int, result: Any) -> Any:
    import pyarrow

    body = pickle.dumps(result, protocol=5)
    return pyarrow.RecordBatch.from_arrays(
        [pyarrow.array([key], pyarrow.int64()), pyarrow.array([body], pyarrow.binary())],
        names=["key", "body"],
    )


def _sum_on_executors(
    source: SparkSource, function: Callable[..., Any], shared: tuple[Any, ...], n_bytes: int
) -> _Counted | None:
    """The sum of the function's results over all partitions; None without rows."""
    fan = max(2, min(_MOST_CHILDREN, _CHILDREN_BYTES // max(n_bytes, 1)))
    with _spark_errors():
        first = _PartitionPass(function, shared, source.roles, source.names)
        sums = source.frame.mapInArrow(first, _SCHEMA)
        n = source.n_partitions
        while n > 1:
            n = -(-n // fan)
            parent = sums.selectExpr("key", "body", f"key div {fan} AS parent")
            sums = parent.repartition(n, "parent").mapInArrow(_SumOfChildren(fan), _SCHEMA)
        found = sums.collect()
    if not found:
        return None
    (total,) = (pickle.loads(bytes(row["body"])) for row in found)
    if isinstance(total, Exception):
        raise total
    assert isinstance(total, _Counted)
    return total


class SparkEngine:
    """Spark, as an :class:`fairspan.streaming.engines.Engine`."""

    name = "Spark"

    def recognises(self, source: Any) -> bool:
        """True for a Spark data frame."""
        return is_spark(source)

    def open(self, source: Any, given: GivenRoles) -> Source:
        """Open a data frame."""
        return SparkSource(source, given)

    def computes(self, source: Source, client: Any) -> bool:  # noqa: ARG002 - of Dask
        """Spark computes the passes over its own data frames."""
        return isinstance(source, SparkSource)

    def check(
        self,
        source: Source,  # noqa: ARG002
        *,
        device: Any,
        checkpoint: Any,
        client: Any,
    ) -> None:
        """Raise for what Spark does itself, or executors do not have."""
        if client is not None:
            raise ValueError("client is for Dask; a Spark data frame has its own session.")
        if device is not None:
            msg = (
                "device is not for Spark data frames, whose executors compute on their processors."
            )
            raise ValueError(msg)
        if checkpoint is not None:
            raise ValueError(
                "checkpoint is not for Spark data frames: Spark repeats the tasks of lost executors, and "
                "rows have no order in which a later fit could go on."
            )

    def sample(
        self,
        est: StreamedEstimator,
        source: Source,
        empty: Sample,
        client: Any,  # noqa: ARG002
        *,
        encoder: Any,
        digest: bool,
    ) -> Sample:
        """The sample of all partitions, each of them sampled on an executor."""
        assert isinstance(source, SparkSource)
        shared = (est.copy(), empty, encoder, digest)
        with row_progress("sample", None, verbose=est.params["verbose"]) as count_rows:
            n_bytes = _BYTES_OF_VALUE * empty.size * len(source.roles.columns)
            total = _sum_on_executors(source, sample_of, shared, n_bytes)
            out: Sample = empty if total is None else total.result
            count_rows(out.n_rows)
        (part,) = source.parts
        part.n_rows = out.n_rows
        return out

    def moments(
        self,
        est: StreamedEstimator,
        source: Source,
        size: int,
        client: Any,  # noqa: ARG002
        saved: SavedPass | None,  # noqa: ARG002 - refused
        start: StreamedMoments,
    ) -> StreamedMoments:
        """Moments of all partitions, each of them computed on an executor."""
        assert isinstance(source, SparkSource)
        assert source.n_rows is not None
        empty = start.moments
        shared = (est.copy(), start.pilot, size)
        n_bytes = sum(getattr(value, "nbytes", 0) for value in vars(empty).values())
        verbose = est.params["verbose"]
        with row_progress("moments", source.n_rows, verbose=verbose) as count_rows:
            total = _sum_on_executors(source, moments_of, shared, n_bytes)
            count_rows(source.n_rows)
        n_rows = 0 if total is None else total.n_rows
        if total is None or n_rows != source.n_rows:
            raise ValueError(_CHANGED.format(source.n_rows, n_rows))
        return replace(start, moments=total.result, position=n_rows)

    def predict(self, source: Source, outputs: Callable[[Rows, int], dict[str, Any]]) -> Any:
        """A Spark data frame of the columns to keep and the predictions, computed when it is used.

        The first rows are predicted at once, for their errors and for the types of the columns.
        """
        assert isinstance(source, SparkSource)
        types, frame = importlib.import_module("pyspark.sql.types"), source.frame
        features, kept = replace(source.roles, control=()), source.roles.control
        (part,) = source.parts
        head = SparkPart(
            part.name, None, roles=features, names=source.names, frame=frame.limit(_FIRST_ROWS)
        )
        made: dict[str, Any] = {}
        offset = 0
        for rows in head.read():
            made = outputs(rows, offset)
            offset += len(rows)
        if not made:
            raise ValueError("The source has no rows; there is nothing to predict.")
        if twice := [name for name in kept if name in made]:
            raise ValueError(
                f"keep names {twice[0]!r}, which is the name of what is predicted; rename that column."
            )
        of_kind = {
            "f": types.DoubleType(),
            "i": types.LongType(),
            "u": types.LongType(),
            "b": types.BooleanType(),
        }
        fields = [
            *(types.StructField(name, source.kinds[name]) for name in kept),
            *(
                types.StructField(name, of_kind.get(values.dtype.kind, types.StringType()))
                for name, values in made.items()
            ),
        ]
        with _spark_errors():
            return frame.mapInArrow(
                _PredictionPass(outputs, features, source.names, kept), types.StructType(fields)
            )


@dataclass(frozen=True)
class _PredictionPass:
    """Predictions of one partition, for ``mapInArrow``."""

    outputs: Callable[[Rows, int], dict[str, Any]]
    roles: Roles
    names: tuple[str, ...]
    kept: tuple[str, ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        name, offset = f"partition {_partition_number()}", 0
        with collect_unseen() as unseen:
            for batch in batches:
                if not batch.num_rows:
                    continue
                span = Span(name, offset, batch.num_rows)
                batch = _named(batch, self.names)
                table = batch.select(list(self.roles.columns))
                made = self.outputs(self.roles.split(frame_of(table), (span,)), offset)
                arrays = [batch.column(name) for name in self.kept]
                for values in made.values():
                    kind = _ARROW_KINDS.get(values.dtype.kind, "string")
                    texts = kind == "string"
                    column = list(map(str, values)) if texts else values
                    arrays.append(pyarrow.array(column, getattr(pyarrow, kind)()))
                yield pyarrow.RecordBatch.from_arrays(arrays, names=[*self.kept, *made])
                offset += batch.num_rows
            try:
                unseen.report()
            except ValueError as error:  # a partition may have other values than all rows together
                warn_user(f"{name}: {error}", DataWarning)


@contextmanager
def _spark_errors() -> Iterator[None]:
    """Name what an installation lacks; errors of Spark itself are raised as they are."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")) and not isinstance(
            error, ConnectionError
        ):
            raise
        text = str(error)
        for name in ("fairspan", "pyarrow", "pandas", "sklearn"):
            if f"No module named '{name}'" in text:
                msg = f"The executors of Spark cannot import {name}: {_INSTALL}."
                raise ImportError(msg) from error
        if isinstance(error, ConnectionError) or _is_over(error):
            raise RuntimeError(
                f"The session of this Spark data frame has ended, or its Java process has: "
                f"{first_line(error)}. Start a new session and make the data frame again. If Java is "
                f"missing: {_INSTALL}."
            ) from error
        raise


def _is_over(error: Exception) -> bool:
    return type(error).__name__ == "Py4JNetworkError" or any(
        words in str(error) for words in _ENDED
    )
