"""Files of the command line: CSV and Parquet, read as they are meant or refused."""

from __future__ import annotations

import importlib
import io
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fairspan._system import MISSING_WORDS, first_line, memory_bytes
from fairspan.cli.checks import LEADING_ZEROS
from fairspan.cli.tables import some
from fairspan.encoding import is_number_label

__all__ = ["read_table", "text_columns"]

_CSV = (".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zst")
_PARQUET = (".parquet", ".pq")
_UNPACK = {
    ".gz": ("gzip", "open"), ".bz2": ("bz2", "open"), ".xz": ("lzma", "open"),
    ".zst": ("zstandard", "open"),
}  # fmt: skip
_CHUNK = 2**20
# Rows in which values that begin with 0 are looked for.
_FIRST_ROWS = 10_000
# Assumed memory where the system does not report it.
_MEMORY = 2**33
# Shares of the memory: a table of text takes several times the text; numbers, nearly what they are.
_TEXT_SHARE, _TABLE_SHARE, _NUMBER = 8, 2, 8
_IN_BLOCKS = "In Python, fit_stream reads it block by block."
_SEPARATORS = {";": "';'", "\t": "tabs", "|": "'|'"}


def text_columns(model: Any, target: str | None = None) -> list[str]:
    """Columns that a model knows as text: features, and the target if its labels are text.

    Read as text, a value does not depend on the other rows of its file: "01" is 1 only in a file
    without "1A".
    """
    out = list(getattr(model, "text_features_", ()))
    labels = getattr(model, "classes_", None)
    # Labels "1" and "2" may be numbers that `--kind` has made text.
    texts = [] if labels is None else [v for v in labels.tolist() if isinstance(v, str)]
    if target is not None and not all(map(is_number_label, texts)):
        out.append(target)
    return out


def read_table(path: Path, say: Callable[[str], None], text: Collection[str] = ()) -> Any:
    """Read a CSV or Parquet file; the index counts the file's rows from 0.

    Parameters
    ----------
    path : Path
    say : callable
        Prints a line for the user.
    text : collection of str
        Columns of a CSV file to read as text, whatever their values look like.
    """
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise ValueError(f"{path} {what}.")
    name = path.name.lower()
    if not name.endswith((*_CSV, *_PARQUET)):
        msg = (
            f"{path} is of no known kind; give a file that ends in {', '.join((*_CSV, *_PARQUET))}."
        )
        raise ValueError(msg)
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
        say("Left out the first column: it has no name and counts the rows.")
    if frame.columns.has_duplicates:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"{path} has two columns named {twice!r}; give each its own name.")
    if frame.empty:
        raise ValueError(f"{path} has no rows.")
    return frame


def _read_csv(path: Path, name: str, text: Collection[str]) -> Any:
    import pandas as pd  # the extra of the command line has it

    raw = {"header": None, "dtype": str, "keep_default_na": False}
    with _unpacked(path, name) as file:
        names = pd.read_csv(file, nrows=1, **raw).iloc[0].tolist()
    _check_header(names)
    try:
        with _unpacked(path, name) as file:
            pd.read_csv(file, nrows=2, **raw)
    except pd.errors.ParserError as error:
        if "Expected" not in str(error):
            raise
        # Under a header, pandas would name the rows by the first fields, and shift all others.
        msg = (
            f"its rows have more fields than the header, which has {len(names)}. Name every column, or take "
            f"out what is too much, as a comma at the end of the rows."
        )
        raise ValueError(msg) from error
    with _unpacked(path, name) as file:
        # Not in pieces, in which "01" may be 1 in one and "01" in another.
        frame = pd.read_csv(
            file, dtype=dict.fromkeys(text, str), keep_default_na=False, na_values=MISSING_WORDS,
            low_memory=False,
        )  # fmt: skip
    numbers = [column for column in frame.columns if frame[column].dtype.kind in "iuf"]
    if numbers:
        with _unpacked(path, name) as file:
            written = pd.read_csv(file, nrows=_FIRST_ROWS, dtype=str, keep_default_na=False)
        frame.attrs[LEADING_ZEROS] = {
            column: found.iloc[0]
            for column in numbers
            if len(found := written[column][written[column].str.fullmatch(r"\s*0\d+\s*")])
        }
    return frame


def _check_header(names: list[str]) -> None:
    """Refuse one field where others were meant, and one name for two columns, which pandas changes."""
    found = next((words for sign, words in _SEPARATORS.items() if sign in names[0]), None)
    if len(names) == 1 and found is not None:
        msg = f"its fields are separated by {found}: save it with commas (and decimal points)."
        raise ValueError(msg)
    twice = [repr(name) for name, n in Counter(names).items() if n > 1 and name.strip()]
    if twice:
        raise ValueError(f"it has two columns named {some(twice)}; give each its own name.")


@contextmanager
def _unpacked(path: Path, name: str) -> Iterator[Any]:
    """What pandas is to read: the file, or a stream of what is packed in it."""
    unpack = next((one for end, one in _UNPACK.items() if name.endswith(end)), None)
    if unpack is None:
        yield path
        return
    module, how = unpack
    with getattr(importlib.import_module(module), how)(path, "rb") as file:
        yield _Bounded(file, (memory_bytes() or _MEMORY) // _TEXT_SHARE)


class _Bounded(io.RawIOBase):
    """Bytes of a compressed file, up to a limit: a megabyte can hold a terabyte of zeros."""

    def __init__(self, file: Any, limit: int) -> None:
        self._file, self._left = file, limit

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        found: bytes = self._file.read(_CHUNK if size < 0 else min(size, _CHUNK))
        self._left -= len(found)
        if self._left < 0:
            raise ValueError(f"unpacked, it has no room in memory. {_IN_BLOCKS}")
        return found


def _read_parquet(path: Path) -> Any:
    import pandas as pd
    import pyarrow.parquet

    about = pyarrow.parquet.read_metadata(path)
    if about.num_rows * about.num_columns * _NUMBER > (memory_bytes() or _MEMORY) // _TABLE_SHARE:
        what = f"{about.num_rows:,} rows of {about.num_columns:,} columns"
        raise ValueError(f"{what} have no room in memory. {_IN_BLOCKS}")
    return pd.read_parquet(path)
