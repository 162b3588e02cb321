"""Sources that Arrow reads: Parquet, CSV, Feather and ORC files, and pyarrow datasets."""

from __future__ import annotations

import glob
import importlib
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairspan._system import MISSING_WORDS, first_line, inert
from fairspan.exceptions import DataWarning, warn_user
from fairspan.streaming.csv_types import arrow_types, conversion_error, widened_schema
from fairspan.streaming.rows import Rows, Span
from fairspan.streaming.sources import FileState, GivenRoles, Part, Roles, Source

_READ_ROWS = 2**16
# Arrow allocates memory for the declared rows of a row group before it reads them; writers make at most
# 2^26 rows.
_GROUP_ROWS = 2**27
_ENCODING = (
    "Save the files as UTF-8, or give a pyarrow.dataset that names their encoding: dataset(files, "
    'format=CsvFileFormat(read_options=pyarrow.csv.ReadOptions(encoding="latin-1"))).'
)
_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".feather": "feather",
    ".arrow": "feather",
    ".orc": "orc",
}
_STREAMING = "Streaming from files"


def open_files(source: Any) -> Any:
    """Open a path, a pattern or a list of them as a dataset."""
    listed = source if isinstance(source, list | tuple) else [source]
    dataset = require_pyarrow(_STREAMING).dataset
    files: list[str] = []
    folders: list[str] = []
    for name in map(os.fspath, listed):
        path = Path(name)
        if path.is_dir():
            folders.append(name)
            files += sorted(str(f) for f in path.rglob("*") if _is_data(f, path))
        elif path.exists():
            files.append(name)
        else:
            files += sorted(glob.glob(name, recursive=True))
    if not files:
        msg = f"No file is at {source!r}. Give a path, a folder, a pattern ('data/*.parquet') or a list."
        raise FileNotFoundError(msg)
    twice = [file for file, n in Counter(map(os.path.realpath, files)).items() if n > 1]
    if twice:
        raise ValueError(f"{twice[0]} is given twice; its rows would count twice.")
    suffixes = sorted({_suffix(Path(file)) for file in files})
    formats = {_FORMATS.get(suffix) for suffix in suffixes}
    if len(formats) > 1 or None in formats:
        raise ValueError(
            f"{source!r} has files that end in {', '.join(suffixes)}; give files of one kind, among "
            f"{', '.join(_FORMATS)} (CSV may be compressed: .csv.gz)."
        )
    try:
        layout: dict[str, Any] = {
            "format": _format(formats.pop()),
            "partitioning": "hive" if folders else None,
            "partition_base_dir": folders[0] if len(folders) == 1 else None,
        }
        opened = dataset.dataset(files, **layout)
        opened.schema.names  # noqa: B018 - names that are not UTF-8 fail here and not later
        schema = _common_schema(opened)
        return opened if schema is None else dataset.dataset(files, schema=schema, **layout)
    except Exception as error:  # Arrow raises its own classes, and OSError
        named = next((file for file in files if file in str(error)), files[0])
        raise OSError(f"{named} cannot be opened: {first_line(error)}") from error


def is_csv(source: Any) -> bool:
    """Whether a source is CSV files, or a pyarrow dataset of them."""
    listed = source if isinstance(source, list | tuple) else [source]
    if listed and all(isinstance(item, str | os.PathLike) for item in listed):
        source = open_files(source)
    file_format = getattr(source, "format", None)
    return getattr(file_format, "default_extname", None) == "csv"


def _is_data(file: Path, folder: Path) -> bool:
    """True for data files; like Arrow, leave out names that begin with _ or . (other programs' files)."""
    hidden = any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)
    return not hidden and file.is_file() and _suffix(file) in _FORMATS


def _format(name: str | None) -> Any:
    if name != "csv":
        return name
    pyarrow = require_pyarrow(_STREAMING)
    csv = importlib.import_module("pyarrow.csv")
    # The same words mean "missing" here and on the command line.
    options = csv.ConvertOptions(strings_can_be_null=True, null_values=MISSING_WORDS)
    return pyarrow.dataset.CsvFileFormat(convert_options=options)


def _common_schema(dataset: Any) -> Any:
    """Find column types that hold the values of all files; None if those of the first file do.

    Integers in one file and floats in another are floats. In CSV files, where types are only
    inferred, everything else that differs is text: then "01" is "01" in every file.
    """
    kind = dataset.format.default_extname
    if kind not in ("parquet", "csv"):
        return None
    pyarrow = require_pyarrow(_STREAMING)
    schemas = [dataset.schema, *(fragment.physical_schema for fragment in dataset.get_fragments())]
    if kind == "csv":
        text = dict.fromkeys(_differing_columns(schemas), pyarrow.string())
        schemas = [_with_types(schema, text) for schema in schemas]
    both = pyarrow.unify_schemas(schemas, promote_options="permissive")
    return None if both.equals(dataset.schema) else both


def _differing_columns(schemas: list[Any]) -> list[str]:
    """Columns of CSV files that are neither numbers everywhere nor of one type everywhere."""
    types = require_pyarrow(_STREAMING).types
    kinds: dict[str, set[Any]] = {}
    for schema in schemas:
        for column in schema:
            if not types.is_null(column.type):
                kinds.setdefault(column.name, set()).add(column.type)

    def number(kind: Any) -> bool:
        return bool(types.is_integer(kind) or types.is_floating(kind))

    return [
        name
        for name, seen in kinds.items()
        if len(seen) > 1 and not all(map(number, seen)) and not any(map(types.is_binary, seen))
    ]


def _with_types(schema: Any, wanted: Mapping[str, Any]) -> Any:
    """The schema with other types for some of its columns."""
    if not wanted:
        return schema
    fields = [f.with_type(wanted[f.name]) if f.name in wanted else f for f in schema]
    return require_pyarrow(_STREAMING).schema(fields, metadata=schema.metadata)


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = (
        len(suffixes) > 1 and suffixes[-1] in (".gz", ".bz2", ".zst") and ".csv" in suffixes
    )
    return ".csv" if compressed else (suffixes[-1] if suffixes else "")


def require_pyarrow(purpose: str) -> Any:
    """Import pyarrow; raise with the command that installs it if it is missing."""
    try:
        import pyarrow
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        msg = f'{purpose} needs pyarrow and pandas: pip install "fairspan[stream]".'
        raise ImportError(msg) from error
    return pyarrow


def frame_of(batch: Any) -> Any:
    """A record batch or table as a pandas data frame, or as a polars one without pandas."""
    try:
        import pandas  # noqa: F401
    except ImportError:
        pass
    else:
        return _to_pandas(batch)
    try:
        import polars
    except ImportError as error:
        msg = 'Streaming from Arrow needs pandas or polars: pip install "fairspan[stream]".'
        raise ImportError(msg) from error
    return polars.from_arrow(batch)


def _to_pandas(batch: Any) -> Any:
    """Keep integers with missing values as integers, so that codes of groups are no measurements."""
    import pandas

    types = require_pyarrow(_STREAMING).types
    frame = batch.to_pandas()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.null_count and types.is_integer(column.type):
            frame[name] = pandas.array(column.to_pylist(), dtype="Int64")
    return frame


@dataclass(kw_only=True)
class ArrowPart(Part):
    """A row group of a Parquet file, or a whole file of another kind."""

    fragment: Any
    schema: Any
    roles: Roles
    file: str
    first: int  # number of its first row in the file
    group: int | None = None  # number of the row group
    state: FileState | None = None  # when the source was opened; None if it is not a local file
    unchecked: bool = False  # Arrow does not check the offsets in Feather files

    def read(self) -> Iterator[Rows]:
        """Read batches, with the row of the file that each begins at."""
        row = self.first
        self._check_unchanged()
        try:
            # `prefetch` reads ahead already; more read-ahead by Arrow would only take memory.
            batches = self.fragment.to_batches(
                schema=self.schema,
                columns=self.roles.columns,
                batch_size=_READ_ROWS,
                batch_readahead=1,
                fragment_readahead=1,
            )
            for batch in batches:
                if self.unchecked:
                    batch.validate(full=True)
                if batch.num_rows:
                    span = Span(self.file, row, batch.num_rows)
                    yield self.roles.split(frame_of(batch), (span,))
                    row += batch.num_rows
        except Exception as error:
            if not _is_arrow_error(error):
                raise
            self._check_unchanged()  # a changed file is the likeliest reason
            group = "" if self.group is None else f", row group {self.group}"
            raise OSError(
                f"{self.file}{group}: rows from {row} on cannot be read: {first_line(error)}"
                f"{_csv_remedy(error, self.fragment.physical_schema.names)}"
            ) from error
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        if self.state is not None:
            self.state.check(self.file)


def _is_arrow_error(error: Exception) -> bool:
    """True for errors of Arrow, which derive from ValueError, KeyError and others, and of files."""
    return type(error).__module__.startswith("pyarrow") or isinstance(error, OSError)


def _csv_remedy(error: Exception, names: list[str]) -> str:
    """Advice for a CSV value that does not match the type of its column."""
    if "invalid UTF8" in str(error):
        return f". {_ENCODING}"
    if (found := conversion_error(str(error), names)) is not None:
        name, kind, value = found
        return (
            f". The column {name!r} is read as {kind}, and {inert(value, 60)!r} is none: correct the value, "
            f"or, in a new fit, pass column_types={{{name!r}: 'text'}}."
        )
    if "CSV conversion error" in str(error):
        return (
            ". The first rows of each file decide about the type of a column. Pass column_types, or Parquet "
            "files, which have types."
        )
    return ""


def _check_rows(where: str, n: int) -> None:
    if not 0 <= n <= _GROUP_ROWS:
        raise ValueError(
            f"{where} claims {n:,} rows, of which at most {_GROUP_ROWS:,} are read at once: it is "
            f"damaged, or must be written in smaller pieces."
        )


def _check_batches(file: str) -> None:
    """Raise if a batch of a Feather file is shorter than declared, which would crash Arrow later."""
    pyarrow = require_pyarrow(_STREAMING)
    ipc = importlib.import_module("pyarrow.ipc")
    options = ipc.IpcReadOptions(included_fields=[0])
    try:
        with pyarrow.memory_map(file) as memory, ipc.open_file(memory, options=options) as reader:
            for i in range(reader.num_record_batches if len(reader.schema) else 0):
                batch = reader.get_batch(i)
                _check_rows(f"{file}, batch {i},", batch.num_rows)
                batch.validate()
    except pyarrow.ArrowException as error:
        raise OSError(f"{file} cannot be opened: {first_line(error)}") from error


class ArrowSource(Source):
    """A pyarrow dataset: files, or tables in memory.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
    given : GivenRoles
    text : collection of str
        Columns of CSV files to read as text, whatever their values are.
    types : mapping of str to str, optional
        Types of columns of CSV files, see :mod:`fairspan.streaming.csv_types`.
    widen : bool, default=False
        Read CSV files once to find types that hold all values.
    """

    roles: Roles

    def __init__(
        self,
        dataset: Any,
        given: GivenRoles,
        *,
        text: Collection[str] = (),
        types: Mapping[str, str] | None = None,
        widen: bool = False,
    ) -> None:
        self._dataset, self._schema = dataset, dataset.schema
        self.roles = Roles.of(list(dataset.schema.names), given)
        file_format = getattr(dataset, "format", None)
        if file_format is not None and file_format.default_extname == "csv":
            self._check_encoding()
            self.inferred = True
            string = require_pyarrow(_STREAMING).string()
            fixed = dict.fromkeys(text, string) | arrow_types(types, self._schema.names)
            self._schema = _with_types(self._schema, fixed)
            if widen:
                self._schema = widened_schema(
                    dataset, self._schema, self.roles.columns, fixed, _with_types
                )
            text = [*text, *fixed]
        elif types:
            raise ValueError("column_types is for CSV files; other files have types of their own.")
        self.parts = [part for file in dataset.get_fragments() for part in self._open(file)]
        if self.inferred:
            self._warn_of_types(text)
        self.for_workers = hasattr(dataset, "files")

    def _check_encoding(self) -> None:
        """Raise if a column of a CSV file is not UTF-8: Arrow reads it as bytes."""
        is_binary, kinds = require_pyarrow(_STREAMING).types.is_binary, self.types()
        for name in self.roles.columns:
            if is_binary(kinds[name]):
                fragments = self._dataset.get_fragments()
                kind_in = {f.path: f.physical_schema.field(name).type for f in fragments}
                files = [path for path, kind in kind_in.items() if is_binary(kind)]
                msg = f"{(files or self.files())[0]}: the column {name!r} is not UTF-8. {_ENCODING}"
                raise ValueError(msg)

    def _warn_of_types(self, text: Collection[str]) -> None:
        """Warn of columns that are read as text because their types differ between the CSV files."""
        types = require_pyarrow(_STREAMING).types
        fragments = list(self._dataset.get_fragments())
        schemas = [fragment.physical_schema for fragment in fragments]
        for name in _differing_columns(schemas):
            if name not in self.roles.columns or name in text:
                continue
            first: dict[str, str] = {}  # type -> first file of that type
            for fragment, schema in zip(fragments, schemas, strict=True):
                if name in schema.names and not types.is_null(schema.field(name).type):
                    first.setdefault(str(schema.field(name).type), fragment.path)
            kinds = ", ".join(f"{kind} in {file}" for kind, file in first.items())
            warn_user(
                f"The CSV files differ in the column {name!r}: {kinds}. It is read as text in all of them, "
                f"so every different text is a category of its own. If the files mean the same values, write "
                f"them alike; to confirm, pass column_types={{{name!r}: 'text'}}.",
                DataWarning,
                key=f"types of {name!r}",
            )

    def _open(self, fragment: Any) -> list[Part]:
        """Parts of a fragment; errors name its file."""
        file = getattr(fragment, "path", None) or "table"
        try:
            return list(self._parts_of(fragment, file))
        except Exception as error:
            ours = str(error).startswith(file)
            if ours or not _is_arrow_error(error):
                raise
            raise OSError(f"{file} cannot be opened: {first_line(error)}") from error

    def _parts_of(self, fragment: Any, file: str) -> Iterator[Part]:
        keys = importlib.import_module("pyarrow.dataset").get_partition_keys
        existing = {*fragment.physical_schema.names, *keys(fragment.partition_expression)}
        absent = [name for name in self.roles.columns if name not in existing]
        if absent:
            msg = f"{file}: the column {absent[0]!r} is missing; every file needs the same columns."
            raise ValueError(msg)
        state = FileState.of(file) if os.path.exists(file) else None
        common = {"schema": self._schema, "roles": self.roles, "file": file, "state": state}
        if not hasattr(fragment, "split_by_row_group"):
            n = None if getattr(fragment, "path", None) else fragment.count_rows()
            unchecked = n is None and fragment.format.default_extname == "arrow"
            if unchecked:
                _check_batches(file)
            yield ArrowPart(
                name=file, n_rows=n, fragment=fragment, first=0, unchecked=unchecked, **common
            )
            return
        first = 0
        for group in fragment.split_by_row_group():
            info = group.row_groups[0]
            _check_rows(f"{file}, row group {info.id},", info.num_rows)
            yield ArrowPart(
                name=f"{file}, row group {info.id}",
                n_rows=info.num_rows,
                fragment=group,
                first=first,
                group=info.id,
                **common,
            )
            first += info.num_rows

    def files(self) -> list[str]:
        """Paths of the files; none for tables in memory."""
        return list(getattr(self._dataset, "files", ()))

    def types(self) -> dict[str, Any]:
        """Arrow types of all columns."""
        return {field.name: field.type for field in self._schema}

    def leading_zeros(self) -> dict[str, str]:
        """Columns of numbers with leading zeros in the first batch of the first file."""
        types = require_pyarrow(_STREAMING).types
        names = [n for n in self.roles.columns if types.is_integer(self._schema.field(n).type)]
        fragment = next(iter(self._dataset.get_fragments()), None)
        if not self.inferred or fragment is None:
            return {}
        names = [name for name in names if name in fragment.physical_schema.names]
        string = require_pyarrow(_STREAMING).string()
        schema = _with_types(self._schema, dict.fromkeys(names, string))
        batches = (
            fragment.to_batches(schema=schema, columns=names, batch_readahead=1) if names else ()
        )
        first: Any = next(iter(batches), None)
        out = {}
        for name in names if first is not None else ():
            texts = (value for value in first.column(name).to_pylist() if value is not None)
            zeros = next((v for v in texts if len(v) > 1 and v[0] == "0" and v.isdecimal()), None)
            if zeros is not None:
                out[name] = zeros
        return out

    def identity(self) -> dict[str, Any]:
        """Files, rows and columns."""
        return {
            "kind": "dataset",
            "parts": [part.name for part in self.parts],
            "columns": {name: str(self._schema.field(name).type) for name in self.roles.columns},
            "roles": self.roles.as_json(),
        }
