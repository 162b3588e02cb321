"""Files, and everything else that Arrow calls a dataset."""

from __future__ import annotations

import glob
import importlib
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairspan._system import MISSING_WORDS, first_line
from fairspan.exceptions import DataWarning, warn_user
from fairspan.streaming.rows import Rows, Span
from fairspan.streaming.sources import FileState, Part, Roles, Source

__all__ = ["ArrowSource", "find_dataset", "frame_of", "require_pyarrow"]

_READ_ROWS = 2**16
# Arrow makes room for what a row group claims to hold before it looks; writers make at most 2^26.
_GROUP_ROWS = 2**27
_ENCODING = (
    "Save the files as UTF-8, or give a pyarrow.dataset that names their encoding: dataset(files, "
    'format=CsvFileFormat(read_options=pyarrow.csv.ReadOptions(encoding="latin-1"))).'
)
_FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".feather": "feather",
            ".arrow": "feather", ".orc": "orc"}  # fmt: skip


def find_dataset(source: Any) -> Any:
    """A path, a pattern or a list of files as a dataset; None if it is none of these."""
    listed = source if isinstance(source, list | tuple) else [source]
    if not listed or not all(isinstance(one, str | os.PathLike) for one in listed):
        return None
    dataset = require_pyarrow("Streaming from files").dataset
    files: list[str] = []
    for one in map(os.fspath, listed):
        path = Path(one)
        if path.is_dir():
            files += sorted(str(f) for f in path.rglob("*") if _is_data(f, path))
        elif path.exists():
            files.append(one)
        else:
            files += sorted(glob.glob(one, recursive=True))
    if not files:
        msg = f"No file is at {source!r}. Give a path, a folder, a pattern ('data/*.parquet') or a list."
        raise FileNotFoundError(msg)
    twice = [file for file, n in Counter(map(os.path.realpath, files)).items() if n > 1]
    if twice:
        msg = f"{twice[0]} is given twice; its rows would count twice."
        raise ValueError(msg)
    suffixes = sorted({_suffix(Path(file)) for file in files})
    formats = {_FORMATS.get(suffix) for suffix in suffixes}
    if len(formats) > 1 or None in formats:
        msg = (
            f"{source!r} has files that end in {', '.join(suffixes)}; give files of one kind, among "
            f"{', '.join(_FORMATS)} (CSV may be compressed: .csv.gz)."
        )
        raise ValueError(msg)
    folders = [one for one in map(os.fspath, listed) if Path(one).is_dir()]
    try:
        layout: dict[str, Any] = {
            "format": _format(formats.pop()), "partitioning": "hive" if folders else None,
            "partition_base_dir": folders[0] if len(folders) == 1 else None,
        }  # fmt: skip
        found = dataset.dataset(files, **layout)
        found.schema.names  # noqa: B018 - not UTF-8, they fail here and not later
        both = _all_types(found)
        return found if both is None else dataset.dataset(files, schema=both, **layout)
    except Exception as error:  # Arrow raises its own classes, and OSError
        msg = f"{_culprit(files, error)} cannot be opened: {first_line(error)}"
        raise OSError(msg) from error


def _is_data(file: Path, folder: Path) -> bool:
    """Not what other programs leave behind: names with _ or . in front, as Arrow has it."""
    hidden = any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)
    return not hidden and file.is_file() and _suffix(file) in _FORMATS


def _format(name: str | None) -> Any:
    if name != "csv":
        return name
    pyarrow = require_pyarrow("Streaming from files")
    csv = importlib.import_module("pyarrow.csv")
    # What is missing in text and numbers is the same here and on the command line.
    options = csv.ConvertOptions(strings_can_be_null=True, null_values=MISSING_WORDS)
    return pyarrow.dataset.CsvFileFormat(convert_options=options)


def _all_types(found: Any) -> Any:
    """Find column types that hold the values of all files; None if those of the first file do.

    Integers in one file and floats in another are floats. In CSV files, where types are only
    inferred, everything else that differs is text: then "01" is "01" in every file.
    """
    kind = found.format.default_extname
    if kind not in ("parquet", "csv"):
        return None
    pyarrow = require_pyarrow("Streaming from files")
    schemas = [found.schema, *(fragment.physical_schema for fragment in found.get_fragments())]
    if kind == "csv":
        text = dict.fromkeys(_text_somewhere(schemas), pyarrow.string())
        schemas = [_with_types(schema, text) for schema in schemas]
    both = pyarrow.unify_schemas(schemas, promote_options="permissive")
    return None if both.equals(found.schema) else both


def _text_somewhere(schemas: list[Any]) -> list[str]:
    """Columns of CSV files that are neither numbers everywhere nor of one type everywhere."""
    types = require_pyarrow("Streaming from files").types
    kinds: dict[str, set[Any]] = {}
    for schema in schemas:
        for column in schema:
            if not types.is_null(column.type):
                kinds.setdefault(column.name, set()).add(column.type)

    def number(kind: Any) -> bool:
        return bool(types.is_integer(kind) or types.is_floating(kind))

    return [
        name
        for name, found in kinds.items()
        if len(found) > 1 and not all(map(number, found)) and not any(map(types.is_binary, found))
    ]


def _with_types(schema: Any, wanted: Mapping[str, Any]) -> Any:
    """The schema with other types for some of its columns."""
    if not wanted:
        return schema
    fields = [f.with_type(wanted[f.name]) if f.name in wanted else f for f in schema]
    return require_pyarrow("Streaming from files").schema(fields, metadata=schema.metadata)


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = (
        len(suffixes) > 1 and suffixes[-1] in (".gz", ".bz2", ".zst") and ".csv" in suffixes
    )
    return ".csv" if compressed else (suffixes[-1] if suffixes else "")


def _culprit(files: list[str], error: Exception) -> str:
    named = [file for file in files if file in str(error)]
    return named[0] if named else files[0]


def require_pyarrow(what: str) -> Any:
    """Arrow, if it is installed."""
    try:
        import pyarrow
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        msg = f'{what} needs pyarrow and pandas: pip install "fairspan[stream]".'
        raise ImportError(msg) from error
    return pyarrow


def frame_of(batch: Any) -> Any:
    """A record batch or table as a data frame: pandas, or polars where there is no pandas."""
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
    """Integers stay integers where some are missing: 5 groups must not become a scale of 5 numbers."""
    import pandas

    types = require_pyarrow("Streaming from Arrow").types
    frame = batch.to_pandas()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.null_count and types.is_integer(column.type):
            frame[name] = pandas.array(column.to_pylist(), dtype="Int64")
    return frame


@dataclass
class ArrowPart(Part):
    """A row group of a Parquet file, or a whole file of another kind."""

    fragment: Any
    schema: Any
    roles: Roles
    file: str
    first: int  # row of the file
    group: int | None = field(default=None)
    state: FileState | None = field(default=None)  # when the source was opened; None: no local file
    claims: bool = field(default=False)  # arrays are where the file says: Arrow does not look

    def read(self) -> Iterator[Rows]:
        """Rows, with the row of the file they begin at."""
        row = self.first
        self._check_unchanged()
        try:
            # Little read-ahead of Arrow's own: a thread of ours reads ahead, and memory counts.
            found = self.fragment.to_batches(
                schema=self.schema, columns=self.roles.columns, batch_size=_READ_ROWS,
                batch_readahead=1, fragment_readahead=1,
            )  # fmt: skip
            for batch in found:
                if self.claims:
                    batch.validate(full=True)
                if batch.num_rows:
                    span = Span(self.file, row, batch.num_rows)
                    yield self.roles.split(frame_of(batch), (span,))
                    row += batch.num_rows
        except Exception as error:
            if not _is_arrows(error):
                raise
            self._check_unchanged()  # the likeliest reason
            group = "" if self.group is None else f", row group {self.group}"
            msg = (
                f"{self.file}{group}: rows from {row} on cannot be read: {first_line(error)}"
                f"{_csv_remedy(error)}"
            )
            raise OSError(msg) from error
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        if self.state is not None:
            self.state.check(self.file)


def _is_arrows(error: Exception) -> bool:
    """Arrow's errors derive from ValueError, TypeError, KeyError and others; of files, from OSError."""
    return type(error).__module__.startswith("pyarrow") or isinstance(error, OSError)


def _csv_remedy(error: Exception) -> str:
    """What to do about a CSV value that does not fit the type of its column."""
    if "invalid UTF8" in str(error):
        return f". {_ENCODING}"
    if "CSV conversion error" in str(error):
        return (
            ". The first rows of each file decide about the type of a column. Give a pyarrow.dataset with "
            "a schema, or Parquet files, which have types."
        )
    return ""


def _check_rows(where: str, n: int) -> None:
    if not 0 <= n <= _GROUP_ROWS:
        msg = (
            f"{where} claims {n:,} rows, of which at most {_GROUP_ROWS:,} are read at once: it is "
            f"damaged, or must be written in smaller pieces."
        )
        raise ValueError(msg)


def _check_claims(file: str) -> None:
    """Batches of a Feather file have the rows they say, or Arrow would end the process."""
    pyarrow = require_pyarrow("Streaming from files")
    ipc = importlib.import_module("pyarrow.ipc")
    one = ipc.IpcReadOptions(included_fields=[0])
    try:
        with pyarrow.memory_map(file) as memory, ipc.open_file(memory, options=one) as reader:
            for i in range(reader.num_record_batches if len(reader.schema) else 0):
                batch = reader.get_batch(i)
                _check_rows(f"{file}, batch {i},", batch.num_rows)
                batch.validate()
    except pyarrow.ArrowException as error:
        msg = f"{file} cannot be opened: {first_line(error)}"
        raise OSError(msg) from error


class ArrowSource(Source):
    """A dataset of Arrow's: files, or tables in memory.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
    text : collection of str
        Columns that CSV files hold as text, whatever their values look like.
    **named
        Roles of the columns.
    """

    def __init__(self, dataset: Any, *, text: Collection[str] = (), **named: Any) -> None:
        self._dataset, self._schema = dataset, dataset.schema
        self.roles = Roles.of(list(dataset.schema.names), **named)
        file_format = getattr(dataset, "format", None)
        if file_format is not None and file_format.default_extname == "csv":
            self._check_encoding()
            self.inferred = True
            string = require_pyarrow("Streaming from files").string()
            self._schema = _with_types(self._schema, dict.fromkeys(text, string))
        self.parts = [part for one in dataset.get_fragments() for part in self._opened(one)]
        if self.inferred:
            self._warn_of_types(text)
        self.for_workers = hasattr(dataset, "files")

    def _check_encoding(self) -> None:
        """Raise if a column of a CSV file is not UTF-8: Arrow reads it as bytes."""
        assert self.roles is not None
        is_binary, kinds = require_pyarrow("Streaming from files").types.is_binary, self.types()
        for name in self.roles.columns:
            if is_binary(kinds[name]):
                found = {one.path: one.physical_schema for one in self._dataset.get_fragments()}
                files = [path for path, own in found.items() if is_binary(own.field(name).type)]
                msg = f"{(files or self.files())[0]}: the column {name!r} is not UTF-8. {_ENCODING}"
                raise ValueError(msg)

    def _warn_of_types(self, text: Collection[str]) -> None:
        """Warn of columns that are read as text because the CSV files look different there."""
        assert self.roles is not None
        types = require_pyarrow("Streaming from files").types
        fragments = list(self._dataset.get_fragments())
        schemas = [fragment.physical_schema for fragment in fragments]
        for name in _text_somewhere(schemas):
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
                f"them alike; to confirm, give a pyarrow.dataset with a schema.",
                DataWarning,
                key=f"types of {name!r}",
            )

    def _opened(self, fragment: Any) -> list[Part]:
        """Parts of a fragment; what is damaged, or has changed since, is named."""
        file = getattr(fragment, "path", None) or "table"
        try:
            return list(self._cut(fragment, file))
        except Exception as error:
            ours = str(error).startswith(file)
            if ours or not _is_arrows(error):
                raise
            msg = f"{file} cannot be opened: {first_line(error)}"
            raise OSError(msg) from error

    def _cut(self, fragment: Any, file: str) -> Iterator[Part]:
        assert self.roles is not None
        keys = importlib.import_module("pyarrow.dataset").get_partition_keys
        there = {*fragment.physical_schema.names, *keys(fragment.partition_expression)}
        absent = [name for name in self.roles.columns if name not in there]
        if absent:
            msg = f"{file}: the column {absent[0]!r} is missing; every file needs the same columns."
            raise ValueError(msg)
        state = FileState.of(file) if os.path.exists(file) else None
        common = {"schema": self._schema, "roles": self.roles, "file": file, "state": state}
        if not hasattr(fragment, "split_by_row_group"):
            n = None if getattr(fragment, "path", None) else fragment.count_rows()
            claims = n is None and fragment.format.default_extname == "arrow"
            if claims:
                _check_claims(file)
            yield ArrowPart(
                name=file, n_rows=n, fragment=fragment, first=0, claims=claims, **common
            )
            return
        first = 0
        for group in fragment.split_by_row_group():
            info = group.row_groups[0]
            _check_rows(f"{file}, row group {info.id},", info.num_rows)
            yield ArrowPart(
                name=f"{file}, row group {info.id}", n_rows=info.num_rows, fragment=group,
                first=first, group=info.id, **common,
            )  # fmt: skip
            first += info.num_rows

    def files(self) -> list[str]:
        """Of a dataset of files."""
        return list(getattr(self._dataset, "files", ()))

    def types(self) -> dict[str, Any]:
        """Of all columns."""
        return {field.name: field.type for field in self._schema}

    def leading_zeros(self) -> dict[str, str]:
        """In the first block of the first file."""
        assert self.roles is not None
        types = require_pyarrow("Streaming from files").types
        names = [n for n in self.roles.columns if types.is_integer(self._schema.field(n).type)]
        fragment = next(iter(self._dataset.get_fragments()), None)
        if not self.inferred or fragment is None:
            return {}
        names = [name for name in names if name in fragment.physical_schema.names]
        string = require_pyarrow("Streaming from files").string()
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
        assert self.roles is not None
        return {
            "kind": "dataset",
            "parts": [part.name for part in self.parts],
            "columns": {name: str(self._schema.field(name).type) for name in self.roles.columns},
            "roles": {
                k: list(v) if isinstance(v, tuple) else v for k, v in vars(self.roles).items()
            },
        }
