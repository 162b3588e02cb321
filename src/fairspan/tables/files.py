"""Read a table from a file or from standard input: CSV, Excel, Parquet or Feather, also compressed.

The content decides what a file is; its name decides only for text.
"""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from fairspan._system import memory_bytes
from fairspan.exceptions import DataWarning, warn_user
from fairspan.tables.columns import date_parts_of
from fairspan.tables.delimited import as_given, describe, read_delimited
from fairspan.tables.numbers import Decimal
from fairspan.tables.result import ReadTable, keep_units, text_columns
from fairspan.tables.typed import from_arrow, tidy
from fairspan.tables.workbooks import read_workbook

_TEXT = (".csv", ".tsv", ".tab", ".txt")
# Each module has a function `open`.
_COMPRESSION = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma", ".zst": "zstandard"}
_BINARY = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather"}
_BINARY |= {".xlsx": "xlsx", ".xlsm": "xlsx"}
ENDINGS = (*_TEXT, *_BINARY)
COMPRESSED = tuple(_COMPRESSION)
STDIN = "-"

_MAGIC = {
    b"PAR1": "parquet",
    b"ARROW1": "feather",
    b"FEA1": "feather",
    b"PK\x03\x04": "xlsx",
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
}
_NO_TABLES = {
    b"\xd0\xcf\x11\xe0": "it is a file of an old Excel (.xls): save it as .xlsx or CSV.",
    b"SQLite format 3\0": "it is an SQLite database: give a query (--sql QUERY --database sqlite:///FILE; in "
    "Python, fairspan.tables.read_database).",
    b"%PDF": "it is a PDF, not a table.",
    b"<!doctype html": "it is a web page, not a table: download the file itself.",
    b"<html": "it is a web page, not a table: download the file itself.",
    b"<?xml": "it is XML, not a table: save it as .xlsx or CSV.",
}
_WORDS = {"parquet": "a Parquet file", "feather": "a Feather file", "xlsx": "an Excel file"}
_WORDS |= {"text": "a text file"}
_CHUNK = 2**20
# Assumed memory where the system does not report it.
_MEMORY = 2**33
# Limits as fractions of the memory: a table of text takes several times the size of the text, a
# table of numbers little more than the numbers (8 bytes each).
_TEXT_FRACTION, _TABLE_FRACTION, _BYTES_PER_NUMBER = 8, 2, 8
_IN_BLOCKS = "In Python, fit_stream reads it block by block."


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read a file; None where the content decides.

    Attributes
    ----------
    sep, decimal, encoding : of text files.
    sheet : of Excel files.
    units : signs of numbers that the file has without one, by column.
    """

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    units: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"decimal={self.decimal!r} is not allowed; give '.' or ','.")
        if self.sep in ("tab", "\\t"):
            object.__setattr__(self, "sep", "\t")
        if self.sep is not None and len(self.sep) != 1:
            msg = f"sep={self.sep!r} is not allowed; give one character, such as ';', or 'tab'."
            raise ValueError(msg)
        if self.sep is not None and self.sep == self.decimal:
            raise ValueError(f"sep= and decimal= are both {self.sep!r}; give two characters.")

    @property
    def mark(self) -> Decimal | None:
        """The decimal mark, if it is given."""
        return None if self.decimal is None else "," if self.decimal == "," else "."

    @property
    def given(self) -> dict[str, str]:
        """The options about the format that are not None."""
        values = {name: getattr(self, name) for name in ("sep", "decimal", "encoding", "sheet")}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """A file that is known to be a table: `read` it, also several times.

    Attributes
    ----------
    path : path of the file; "-" is standard input.
    kind : "text", "xlsx", "parquet" or "feather".
    data : its decompressed content; None if it is read from the path.
    options : how to read it.
    note : what is unusual about its kind.
    """

    path: str
    kind: str
    data: bytes | None
    options: ReadOptions
    note: str = ""

    def read(self, text: Collection[str] = ()) -> ReadTable:
        """Read the table.

        Parameters
        ----------
        text : columns to read as text; of Parquet and Feather files, columns of text that stay text.
        """
        with _named_errors(self.path):
            table = self._read(text)
            table = replace(table, **_checked(table))
            keep_units(table.frame, {}, self.options.units)
            return table

    def _read(self, text: Collection[str]) -> ReadTable:
        given = self.options.given
        notes = [self.note] if self.note else []
        if "sheet" in given and self.kind != "xlsx":
            raise ValueError(f"sheet= is for Excel files, and it is {_WORDS[self.kind]}.")
        if self.kind == "text":
            assert self.data is not None
            usual = "\t" if any(end in self.path.lower() for end in (".tsv", ".tab")) else ","
            source = read_delimited(
                self.data,
                sep=self.options.sep,
                decimal=self.options.mark,
                encoding=self.options.encoding,
                default_sep=usual,
            )
            frame, converted = source.frame(text)
            expected = [*given, *(["sep"] if source.sep == usual else [])]
            notes += [*describe(source, converted, expected), *converted.words]
            return ReadTable(
                frame=keep_units(frame, converted.units),
                assumed=", ".join(notes),
                options=as_given(source, converted),
                written=source.written,
            )
        for name in given:
            if name in ("sep", "encoding") or (name == "decimal" and self.kind != "xlsx"):
                raise ValueError(f"{name}= is for text files, and it is {_WORDS[self.kind]}.")
        if self.kind == "xlsx":
            assert self.data is not None
            frame, sheet, assumed = read_workbook(
                self.data, self.options.sheet, text, _memory() // _TEXT_FRACTION
            )
            frame, converted = tidy(frame, text=text, decimal_mark=self.options.mark)
            notes += [*assumed, *converted.words]
            options = {"sheet": sheet} if any(a.startswith("sheet") for a in assumed) else {}
            return ReadTable(
                frame=keep_units(frame, converted.units),
                assumed=", ".join(notes),
                options={**options, **given},
            )
        frame, converted = tidy(self._arrow(), text=text)
        notes += converted.words
        return ReadTable(frame=keep_units(frame, converted.units), assumed=", ".join(notes))

    def _arrow(self) -> Any:
        reader = importlib.import_module(f"pyarrow.{self.kind}")
        source: Any = self.path if self.data is None else io.BytesIO(self.data)
        try:
            if self.kind == "parquet":
                table = reader.read_metadata(source)
                _refuse_large(table.num_rows, table.num_columns)
            return from_arrow(reader.read_table(source))
        except (_OwnError, MemoryError):
            raise
        except Exception as error:  # Arrow has classes of its own
            msg = (
                f"it is damaged, or no {_WORDS[self.kind][2:]} that Arrow can read. Write it again."
            )
            raise ValueError(msg) from error


def open_table(path: str | PathLike[str], options: ReadOptions | None = None) -> TableFile:
    """Open a file, or standard input for "-"; raise if it is no table.

    Parameters
    ----------
    path : path of the file.
    options : how to read it; guessed if not given.
    """
    options = options or ReadOptions()
    name = fspath(path)
    if name == STDIN:
        with _named_errors("Standard input"):
            data = _limited(getattr(sys.stdin, "buffer", sys.stdin), _memory() // _TEXT_FRACTION)
            if not data:
                raise ValueError(
                    "it is empty: pipe a table into the command, as `cat people.csv |`."
                )
            return _file("Standard input", data, options, suffix="")
    file = Path(name)
    if not file.is_file():
        reason = "is a folder, not a file" if file.is_dir() else "does not exist"
        raise ValueError(f"{name} {reason}.")
    lower = file.name.lower()
    compression = next((end for end in _COMPRESSION if lower.endswith(end)), "")
    inner = Path(lower.removesuffix(compression)).suffix
    if inner not in ENDINGS and not (compression and not inner):
        with _named_errors(name), file.open("rb") as opened:
            _refuse_other_kinds(opened.read(64))
        endings = ", ".join((*ENDINGS, *(f".csv{end}" for end in _COMPRESSION)))
        raise ValueError(f"{name} is of no known kind; give a file that ends in {endings}.")
    with _named_errors(name):
        if _BINARY.get(inner) in ("parquet", "feather") and not compression:
            with file.open("rb") as opened:
                start = opened.read(16)
            if _kind(start) in ("parquet", "feather"):
                return TableFile(path=name, kind=_kind(start) or "", data=None, options=options)
        with file.open("rb") as opened:
            if not compression and file.stat().st_size > _memory() // _TEXT_FRACTION:
                raise _OwnError(f"it does not fit in memory. {_IN_BLOCKS}")
            data = opened.read()
        return _file(name, data, options, suffix=inner)


def _file(name: str, data: bytes, options: ReadOptions, suffix: str) -> TableFile:
    """Return the file of a content, decompressed."""
    for _ in range(2):  # a compressed file in a compressed file is no table
        kind = _kind(data)
        if kind in _COMPRESSION:
            data = _decompressed(data, kind)
    kind = _kind(data)
    _refuse_other_kinds(data[:64])
    expected = _BINARY.get(suffix, "text")
    if kind is None or kind in _COMPRESSION:
        if expected != "text" and suffix:
            raise ValueError(
                f"it is damaged, or no {_WORDS[expected][2:]} although it is named {suffix}. Write it again, "
                f"or give it the name of its kind."
            )
        kind = "text"
    note = f"{_WORDS[kind]}, although it is named {suffix}" if kind != expected and suffix else ""
    return TableFile(path=name, kind=kind, data=data, options=options, note=note)


def _refuse_other_kinds(start: bytes) -> None:
    """Raise for the first bytes of a file that is no table."""
    start = start.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for magic, words in _NO_TABLES.items():
        if start.startswith(magic.lower()):
            raise ValueError(words)


def _kind(start: bytes) -> str | None:
    return next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)


def read_table(
    path: str | PathLike[str],
    *,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    text: Collection[str] = (),
    units: Mapping[str, str] | None = None,
    like: Any = None,
) -> Any:
    r"""Read a file as a pandas data frame: CSV in any dialect, Excel, Parquet or Feather.

    Text files may be compressed (.gz, .bz2, .xz, .zst). Separator, decimal mark, encoding and sheet are
    guessed from the whole file; a warning states unusual guesses, and an error names the option where
    the content does not decide. Columns of ISO dates are dates. Columns of numbers with thousands
    separators, one currency or percent signs are numbers; 12 % is 12.

    Parameters
    ----------
    path : str or path
        Path of the file; "-" is standard input.
    sep : str, optional
        Separator of the fields of a text file; "tab" is a tabulator.
    decimal : {".", ","}, optional
        Decimal mark of a text or Excel file's texts.
    encoding : str, optional
        Encoding of a text file.
    sheet : str, optional
        Name of the sheet of an Excel file.
    text : collection of str, optional
        Columns to read as text, whatever their values look like: codes such as "01".
    units : dict of str to str, optional
        Signs of columns whose numbers have none in the file, such as ``{"share": "%"}``; "none" takes
        the sign of a column away. Models compare signs with those of their training.
    like : fitted estimator, optional
        Model to predict with: its features are read as those it was trained with, as text where they
        were text, and with the parts of dates.

    Returns
    -------
    pandas.DataFrame
        The index counts the rows from 0.

    Raises
    ------
    ValueError
        The file is no table, is damaged, or can be read in two ways.
    ImportError
        A package is missing: pyarrow for Parquet and Feather, openpyxl for Excel.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fairspan.tables import read_table
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "people.csv"
    ...     _ = path.write_text("since;income\n2024-05-01;1.234,50\n", encoding="utf-8")
    ...     table = read_table(path, sep=";", decimal=",")
    >>> table["income"].tolist()
    [1234.5]
    """
    options = ReadOptions(sep=sep, decimal=decimal, encoding=encoding, sheet=sheet, units=units)
    found = open_table(path, options).read([*text, *text_columns(like)])
    new = {name: value for name, value in found.options.items() if name not in options.given}
    if found.assumed:
        arguments = ", ".join(f"{name}={value!r}" for name, value in new.items())
        more = f" Pass {arguments} to say so." if arguments else " text= keeps columns as text."
        warn_user(f"{fspath(path)} was read with: {found.assumed}.{more}", DataWarning)
    return date_parts_of(found.frame, getattr(like, "feature_names_in_", ()))


# ------------------------------------------------------------------ content


class _OwnError(ValueError):
    """An error in our words about a file."""


@contextmanager
def _named_errors(name: str) -> Iterator[None]:
    """Put the name of the file before errors about it."""
    try:
        yield
    except ImportError as error:
        text = str(error)
        if "pip install" not in text:
            text = f'it needs a package: pip install "fairspan[stream]" ({error}).'
        raise ImportError(f"{name} cannot be read: {text}") from error
    except OSError as error:
        reason = error.strerror or "the system refuses it"
        raise ValueError(f"{name} cannot be read: {reason}.") from error
    except ValueError as error:
        raise ValueError(f"{name} cannot be read: {error}") from error


def _memory() -> int:
    return memory_bytes() or _MEMORY


def _refuse_large(n_rows: int, n_columns: int) -> None:
    if n_rows * n_columns * _BYTES_PER_NUMBER > _memory() // _TABLE_FRACTION:
        shape = f"{n_rows:,} rows x {n_columns:,} columns"
        raise _OwnError(f"the table ({shape}) does not fit in memory. {_IN_BLOCKS}")


def _decompressed(data: bytes, ending: str) -> bytes:
    module = importlib.import_module(_COMPRESSION[ending])
    try:
        with module.open(io.BytesIO(data), "rb") as file:
            return _limited(file, _memory() // _TEXT_FRACTION)
    except _OwnError:
        raise
    except Exception as error:  # each compression has classes of its own
        msg = (
            f"its compression ({ending}) is damaged or the file is cut off. Copy or write it again."
        )
        raise ValueError(msg) from error


def _limited(file: Any, most: int) -> bytes:
    """Read up to a limit: a megabyte can decompress to a terabyte of zeros."""
    chunks, size = [], 0
    while chunk := file.read(_CHUNK):
        size += len(chunk)
        if size > most:
            raise _OwnError(f"decompressed, it does not fit in memory. {_IN_BLOCKS}")
        chunks.append(chunk)
    return b"".join(chunks)


def _checked(table: ReadTable) -> dict[str, Any]:
    """Return the frame with checked names and rows, without columns that are no data."""
    frame, counted = table.frame, False
    frame = frame.reset_index(drop=frame.index.names == [None])
    frame.columns = [str(column) for column in frame.columns]
    first = frame.columns[:1].tolist()
    if first == ["Unnamed: 0"] and np.array_equal(frame[first[0]], np.arange(len(frame))):
        frame, counted = frame.drop(columns=first), True
    blank = [n for n in frame.columns if n.startswith("Unnamed: ") and frame[n].isna().all()]
    frame = frame.drop(columns=blank)
    if frame.columns.has_duplicates:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"it has two columns named {twice!r}; give each its own name.")
    if not len(frame) or not len(frame.columns):
        raise ValueError("it has no rows." if len(frame.columns) else "it has no columns.")
    frame.attrs.update(table.frame.attrs)
    return {"frame": frame, "counted": counted}
