"""Read DATA: a CSV or Parquet file, or a data set that fairspan knows by name."""

from __future__ import annotations

import difflib
import importlib
import io
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairspan import datasets
from fairspan._system import MISSING_WORDS, first_line, memory_bytes
from fairspan.cli.common import first_few, print_status
from fairspan.encoding import is_number_label

# Data sets by their name on the command line.
SETS: dict[str, Callable[..., Any]] = {
    "adult": datasets.fetch_adult,
    "compas": datasets.fetch_compas,
    "communities_crime": datasets.fetch_communities_crime,
    "nlsy79": datasets.fetch_nlsy79,
    "law_school": datasets.fetch_law_school,
    "loans": datasets.load_loans,
    "diabetes": datasets.load_diabetes,
}
# Data sets that are part of an installed package; no file is searched for.
OFFLINE = ("loans", "diabetes")

_CSV = (".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zst")
_PARQUET = (".parquet", ".pq")
# Each module has a function `open`.
_COMPRESSION = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma", ".zst": "zstandard"}
_CHUNK = 2**20
# Rows that are searched for values that begin with 0.
_FIRST_ROWS = 10_000
# Assumed memory where the system does not report it.
_MEMORY = 2**33
# Limits as fractions of the memory: a table of text takes several times the size of the text, a
# table of numbers little more than the numbers (8 bytes each).
_TEXT_FRACTION, _TABLE_FRACTION, _BYTES_PER_NUMBER = 8, 2, 8
_IN_BLOCKS = "In Python, fit_stream reads it block by block."
_SEPARATORS = {";": "';'", "\t": "tabs", "|": "'|'"}


@dataclass(frozen=True)
class Source:
    """A table, and the roles of its columns if it is a known data set."""

    name: str
    frame: Any
    target: str | None = None
    protected: tuple[str, ...] = ()


def read_data(
    data: str, data_home: Path | None, text: Collection[str] = (), *, quiet: bool = False
) -> Source:
    """Read a file or a known data set; if both have the name, the file.

    Parameters
    ----------
    data : str
        Path of a file, or name of a data set.
    data_home : Path or None
        Folder of the data sets' files.
    text : collection of str
        Columns of a CSV file to read as text.
    quiet : bool
        Print no status line.
    """
    if not data.strip():
        raise ValueError("DATA is empty: give a CSV or Parquet file, or the name of a data set.")
    path = Path(data)
    if data not in SETS or path.is_file():
        similar = difflib.get_close_matches(data, SETS, n=1)
        if not path.exists() and not path.suffix:
            hint = f"Did you mean {similar[0]!r}?" if similar else f"Data sets: {', '.join(SETS)}."
            raise ValueError(f"{data} is neither a file nor the name of a data set. {hint}")
        return Source(data, read_table(path, text, quiet=quiet))
    import pandas as pd  # imported late: `fairspan --help` does not need it

    bunch = load_set(data, data_home)
    frame, s, y = bunch.data, bunch.sensitive_features, bunch.target
    not_features = [name for name in s.columns if name not in frame.columns]
    frame = pd.concat([frame, s[not_features], y], axis=1).reset_index(drop=True)
    return Source(data, frame, str(y.name), tuple(s.columns))


def load_set(name: str, data_home: Path | None) -> Any:
    """Load a data set by its name on the command line."""
    if name not in SETS:
        raise ValueError(f"Data set {name!r} is unknown. Known: {', '.join(SETS)}.")
    return SETS[name]() if name in OFFLINE else SETS[name](data_home=data_home)


def text_columns(model: Any, target: str | None = None) -> list[str]:
    """Return the columns to read as text for a fitted model: features, and a target of text labels.

    Read as text, a value does not depend on the other rows of its file: "01" is 1 only in a file
    without "1A".
    """
    out = list(getattr(model, "text_features_", ()))
    labels = getattr(model, "classes_", None)
    # Labels "1" and "2" may be numbers that `--kind` turned into text.
    texts = [] if labels is None else [v for v in labels.tolist() if isinstance(v, str)]
    if target is not None and not all(map(is_number_label, texts)):
        out.append(target)
    return out


# ------------------------------------------------------------------ files


def read_table(path: Path, text: Collection[str] = (), *, quiet: bool = False) -> Any:
    """Read a CSV or Parquet file; the index counts the file's rows from 0.

    Parameters
    ----------
    path : Path
    text : collection of str
        Columns of a CSV file to read as text, whatever their values look like.
    quiet : bool
        Print no status line.
    """
    if not path.is_file():
        reason = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise ValueError(f"{path} {reason}.")
    name = path.name.lower()
    if not name.endswith((*_CSV, *_PARQUET)):
        endings = ", ".join((*_CSV, *_PARQUET))
        raise ValueError(f"{path} is of no known kind; give a file that ends in {endings}.")
    try:
        frame = _read_csv(path, name, text) if name.endswith(_CSV) else _read_parquet(path)
    except ImportError as error:
        msg = f'{path} needs a package to be read: pip install "fairspan[stream]" ({error}).'
        raise ImportError(msg) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: save it as UTF-8.") from error
    except Exception as error:  # pandas, Arrow and every compression have classes of their own
        raise ValueError(f"{path} cannot be read: {first_line(error)}") from error
    frame = frame.reset_index(drop=frame.index.names == [None])
    frame.columns = [str(column) for column in frame.columns]
    first = frame.columns[:1].tolist()
    if first == ["Unnamed: 0"] and np.array_equal(frame[first[0]], np.arange(len(frame))):
        frame = frame.drop(columns=first)
        if not quiet:
            print_status("Left out the first column: it has no name and counts the rows.")
    if frame.columns.has_duplicates:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"{path} has two columns named {twice!r}; give each its own name.")
    if frame.empty:
        raise ValueError(f"{path} has no rows.")
    return frame


def _read_csv(path: Path, name: str, text: Collection[str]) -> Any:
    import pandas as pd

    raw = {"header": None, "dtype": str, "keep_default_na": False}
    with _decompressed(path, name) as file:
        names = pd.read_csv(file, nrows=1, **raw).iloc[0].tolist()
    _check_header(names)
    try:
        with _decompressed(path, name) as file:
            pd.read_csv(file, nrows=2, **raw)
    except pd.errors.ParserError as error:
        if "Expected" not in str(error):
            raise
        # Below a shorter header, pandas takes the first fields for row names and shifts the others.
        raise ValueError(
            f"its rows have more fields than the header, which has {len(names)}. Name every column, or "
            f"remove the additional fields, such as a comma at the end of the rows."
        ) from error
    with _decompressed(path, name) as file:
        # With low_memory, "01" could become 1 in one chunk and stay "01" in another.
        frame = pd.read_csv(
            file,
            dtype=dict.fromkeys(text, str),
            keep_default_na=False,
            na_values=MISSING_WORDS,
            low_memory=False,
        )
    numbers = [column for column in frame.columns if frame[column].dtype.kind in "iuf"]
    if numbers:
        with _decompressed(path, name) as file:
            written = pd.read_csv(file, nrows=_FIRST_ROWS, dtype=str, keep_default_na=False)
        frame.attrs[LEADING_ZEROS] = {
            column: values.iloc[0]
            for column in numbers
            if len(values := written[column][written[column].str.fullmatch(r"\s*0\d+\s*")])
        }
    return frame


def _check_header(names: list[str]) -> None:
    """Raise for another separator than commas, and for repeated names, which pandas would change."""
    separator = next((words for sign, words in _SEPARATORS.items() if sign in names[0]), None)
    if len(names) == 1 and separator is not None:
        msg = f"its fields are separated by {separator}: save it with commas (and decimal points)."
        raise ValueError(msg)
    twice = [repr(name) for name, n in Counter(names).items() if n > 1 and name.strip()]
    if twice:
        raise ValueError(f"it has two columns named {first_few(twice)}; give each its own name.")


@contextmanager
def _decompressed(path: Path, name: str) -> Iterator[Any]:
    """Yield what pandas is to read: the path, or the decompressed bytes."""
    module = next((known for end, known in _COMPRESSION.items() if name.endswith(end)), None)
    if module is None:
        yield path
        return
    with importlib.import_module(module).open(path, "rb") as file:
        yield _LimitedReader(file, (memory_bytes() or _MEMORY) // _TEXT_FRACTION)


class _LimitedReader(io.RawIOBase):
    """Decompressed bytes up to a limit: a megabyte can decompress to a terabyte of zeros."""

    def __init__(self, file: Any, limit: int) -> None:
        self._file, self._left = file, limit

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        chunk: bytes = self._file.read(_CHUNK if size < 0 else min(size, _CHUNK))
        self._left -= len(chunk)
        if self._left < 0:
            raise ValueError(f"decompressed, it does not fit in memory. {_IN_BLOCKS}")
        return chunk


def _read_parquet(path: Path) -> Any:
    import pandas as pd
    import pyarrow.parquet

    table = pyarrow.parquet.read_metadata(path)
    size = table.num_rows * table.num_columns * _BYTES_PER_NUMBER
    if size > (memory_bytes() or _MEMORY) // _TABLE_FRACTION:
        shape = f"{table.num_rows:,} rows x {table.num_columns:,} columns"
        raise ValueError(f"the table ({shape}) does not fit in memory. {_IN_BLOCKS}")
    return pd.read_parquet(path)


# Entry of `frame.attrs`: numeric columns of a CSV file -> a value that begins with 0, such as "0123".
LEADING_ZEROS = "fairspan.leading_zeros"
