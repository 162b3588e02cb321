"""Helpers without knowledge of models: memory, text, atomic writes, archives, progress.

Nothing here imports another module of fairspan.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import shutil
import stat
import sys
import tempfile
import time
import uuid
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

# Ends an error about a part of the project that fairspan-lab brings.
INSTALL_LAB = "It is not published yet; in a checkout of fairspan run: pip install -e . -e lab"
# ------------------------------------------------------------------ memory

# Memory limits of a Linux container (cgroup version 2, then 1). "max" means no limit.
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes() -> int | None:
    """Return the memory this process can use, in bytes, or None if the system does not report it.

    That is the machine's physical memory, or the limit of the container if it is smaller.
    """
    sizes = [_container_limit(path) for path in _CONTAINER_LIMITS]
    sizes.append(_windows_memory() if sys.platform == "win32" else _posix_memory())
    return min((size for size in sizes if size is not None), default=None)


def _posix_memory() -> int | None:
    try:
        # `os.sysconf` does not exist on Windows, and these names not on every system.
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    return size if size > 0 else None


def _container_limit(path: str) -> int | None:
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdecimal() and int(text) > 0 else None


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of the Windows API, as GlobalMemoryStatusEx fills it."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("total_physical", ctypes.c_uint64),
        ("available_physical", ctypes.c_uint64),
        ("total_page_file", ctypes.c_uint64),
        ("available_page_file", ctypes.c_uint64),
        ("total_virtual", ctypes.c_uint64),
        ("available_virtual", ctypes.c_uint64),
        ("available_extended_virtual", ctypes.c_uint64),
    )


def _windows_memory() -> int | None:
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    # `ctypes.windll` exists only on Windows.
    library = getattr(ctypes, "windll", None)
    if library is None or not library.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(status.total_physical)


# ------------------------------------------------------------------ text

_SHOWN = 200


def printable(text: str, keep: str = "\n") -> str:
    """Replace control characters and direction marks, which terminals would obey, by spaces."""
    return "".join(c if c.isprintable() or c in keep else " " for c in text)


def inert(text: str, longest: int = _SHOWN) -> str:
    """Return text from a file as one short line without control characters."""
    flat = printable(text[: longest + 1], keep="")
    return flat if len(flat) <= longest else f"{flat[:longest]}..."


def first_line(error: BaseException) -> str:
    """Return the first line of an error message, see :func:`inert`; its class if it is empty."""
    lines = str(error).split("\n", 1)
    return inert(lines[0], 2 * _SHOWN) or type(error).__name__


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would run a text as a formula; a single sign and a number are none."""
    return (
        len(text) > 1 and text.startswith(("=", "+", "-", "@", "\t", "\r")) and not _is_number(text)
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def printable_json(text: str) -> str:
    """Escape control characters, direction marks and lone surrogates in JSON; keep all letters."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def json_safe(value: Any, *, digits: int | None = None, escape: bool = False) -> Any:
    """Return `value` as plain Python types for JSON, with None for NaN and infinity.

    Parameters
    ----------
    value : number, text, array, or nested dicts, lists and tuples of them.
    digits : significant digits of floats, which become integers where that is the same; None: all.
    escape : escape control characters in texts, see :func:`printable_json`.
    """
    if isinstance(value, dict):
        return {
            json_safe(str(key), escape=escape): json_safe(item, digits=digits, escape=escape)
            for key, item in value.items()
        }
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [json_safe(item, digits=digits, escape=escape) for item in value]
    if isinstance(value, str):
        return printable_json(value) if escape and not value.isprintable() else value
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        if digits is not None:
            value = float(f"{value:.{digits}g}")
            return int(value) if value.is_integer() and abs(value) < 1e15 else value
    return value


# ------------------------------------------------------------------ columns of text

# Fields of a CSV file that are missing values. Not "None", which pandas adds: it can be an answer,
# for example to the question for a person's religion.
MISSING_WORDS = ["", "NA", "NaN", "nan", "NULL", "null"]

# Numbers with decimal commas, thousands separators, a percent or currency sign. An integer that
# begins with 0 is a code.
_NUMBER = r"(?!0\d+$)[-+]?[$€£]?\s?\d[\d.,'\s]*(?:[eE][-+]?\d+)?\s?[%$€£]?"
# Dates with day, month and year in the usual orders.
_DATE = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2}))(?:[T ].*)?"
# Words that often mean a missing value, although CSV files are not read that way.
_NO_VALUE = frozenset(
    {"?", "-", "--", ".", "*", "n/a", "na", "#n/a", "none", "null", "nan", "unknown"}
)
_NEARLY_ALL = 0.9


def kind_of_texts(values: Iterable[str]) -> str | None:
    """Return "numbers" or "dates" if nearly all texts look like that, otherwise None.

    Words that often mean a missing value, such as "?", do not count. Fewer than three different
    texts are never numbers or dates.
    """
    texts = [text.strip() for text in values]
    texts = [text for text in texts if text.casefold() not in _NO_VALUE]
    if len(set(texts)) < 3:
        return None
    for kind, pattern in (("dates", _DATE), ("numbers", _NUMBER)):
        matches = sum(re.fullmatch(pattern, text) is not None for text in texts)
        if matches >= _NEARLY_ALL * len(texts):
            return kind
    return None


def refuse_bytes(values: Any, label: str) -> None:
    """Raise if an array holds bytes, which are text only in a known encoding."""
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    if kind == "S":
        in_bytes: Any = values.flat
    elif kind == "O":
        in_bytes = (value for value in values.flat if isinstance(value, bytes | bytearray))
    else:
        return
    first = next(iter(in_bytes), None)
    if first is not None:
        raise ValueError(
            f"{label} holds bytes, such as {bytes(first)!r:.60}; give text or numbers. Decode them first, "
            f'e.g. column.str.decode("utf-8") in pandas or numpy.char.decode(array, "utf-8"), or give '
            f"the encoding where the file is read."
        )


# ------------------------------------------------------------------ atomic writes

# Characters of the target's name in the temporary name: file systems allow 255 bytes.
_NAME_CHARACTERS = 40


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path next to `path`; rename it on success, delete it on error.

    A file is replaced by one rename, so a killed process leaves the old file or none. The new file
    has the permissions of the old one, or those of the umask where there was none. A symbolic link
    stays: the file that it points to is replaced. A pipe or a character device, such as
    ``/dev/stdout``, cannot be replaced: the content is copied into it at the end.
    """
    if is_stream(path):
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder) / "content"
            part.touch()
            yield part
            # A file that is open already is not opened again: it would get a second write position.
            number = _descriptor(path)
            target, mode = (path, "ab") if number is None else (os.dup(number), "wb")
            with part.open("rb") as content, open(target, mode) as stream:
                shutil.copyfileobj(content, stream)
        return
    file = Path(os.path.realpath(path))
    old = file.stat() if file.exists() else None
    part = file.with_name(f".{file.name[:_NAME_CHARACTERS]}.{uuid.uuid4().hex}")
    try:
        _create(part, file, private=old is not None)
        yield part
        if old is not None:
            _copy_permissions(old, part)
        _rename(part, file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` is a pipe, a terminal or another character device, written to in place.

    True also for the name of an open file descriptor, such as ``/dev/stdout``, even if it leads to a
    regular file: this process continues to write to that file.

    Raises
    ------
    OSError
        For a folder, a block device (a disk) or a socket, none of which can be written to.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False  # a new file
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{os.fspath(path)} is a folder; give the name of a file.")
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        kind = "a block device" if stat.S_ISBLK(mode) else "a socket"
        raise OSError(f"{os.fspath(path)} is {kind}, not a file; give the name of a file.")
    return not stat.S_ISREG(mode) or _descriptor(path) is not None


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """Return the file descriptor of this process that ``path`` names: 1 for ``/dev/stdout``."""
    link = os.path.abspath(path)
    while True:
        folder, name = os.path.realpath(os.path.dirname(link)), os.path.basename(link)
        if folder in (f"/proc/{os.getpid()}/fd", "/dev/fd") and name.isdecimal():
            return int(name)
        link = os.path.join(folder, name)
        if not os.path.islink(link):
            return None
        link = os.path.join(folder, os.readlink(link))


def _create(part: Path, target: Path, *, private: bool) -> None:
    """Create the temporary file, readable only by its owner if ``private``."""
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666))
    except OSError as error:  # name the target, not the temporary file that no user knows
        raise type(error)(error.errno, error.strerror, str(target)) from error


def _copy_permissions(old: os.stat_result, part: Path) -> None:
    mode = stat.S_IMODE(old.st_mode)
    if hasattr(os, "chown"):
        for owner in (old.st_uid, -1):  # only the superuser can change the owner
            try:
                os.chown(part, owner, old.st_gid)
                break
            except OSError:
                continue
        else:
            mode &= ~stat.S_IRWXG  # these permissions were for the members of another group
    with suppress(OSError):  # on a file system without permissions, the file stays private
        part.chmod(mode)


def _rename(part: Path, target: Path) -> None:
    try:
        os.replace(part, target)
    except PermissionError as error:  # on Windows, a file that is open cannot be replaced
        raise PermissionError(
            f"{target} could not be replaced ({error.strerror}). Close it where another program has "
            f"it open, or give another name."
        ) from error


# ------------------------------------------------------------------ archives


def check_archive(file: IO[bytes]) -> None:
    """Raise unless a zip file of arrays is uncompressed, so that it cannot grow in memory.

    Reads only the directory and the header of each array.

    Raises
    ------
    ValueError
        The message is the second half of a sentence about the file.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    with zipfile.ZipFile(file) as archive:
        parts = archive.infolist()
        if len({part.filename for part in parts}) < len(parts):
            raise ValueError("two of its parts have one name")
        for part in parts:
            if part.compress_type != zipfile.ZIP_STORED or part.file_size != part.compress_size:
                name = inert(repr(part.filename))
                raise ValueError(
                    f"its part {name} is compressed, and fairspan stores all parts uncompressed"
                )
        if sum(part.file_size for part in parts) > size:
            raise ValueError("its parts claim to be larger than the file")
        for part in parts:
            if part.filename.endswith(".npy"):
                with archive.open(part) as content:
                    _check_array(content, part)
    file.seek(0)


def _check_array(content: IO[bytes], part: zipfile.ZipInfo) -> None:
    """Raise if an array's header claims another size than it has, or objects, which can run code."""
    name = inert(repr(part.filename))
    version = np.lib.format.read_magic(content)
    readers: dict[Any, Any] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"its array {name} has the unknown format {version}")
    with warnings.catch_warnings():
        # NumPy warns of a header of Python 2, which fairspan never writes.
        warnings.simplefilter("error", UserWarning)
        shape, _, kind = readers[version](content)
    if kind.hasobject:
        raise ValueError(f"its array {name} holds Python objects, which fairspan never loads")
    count = math.prod(map(int, shape))
    if count * max(kind.itemsize, 1) != part.file_size - content.tell():
        raise ValueError(f"its array {name} claims a shape, {inert(str(shape))}, of another size")


# ------------------------------------------------------------------ progress

Item = TypeVar("Item")

_WIDTH = 24
_EVERY_SECONDS = 0.2
# Without a terminal: this many lines in all, or a line every so many seconds.
_LINES = 5
_LINE_SECONDS = 10.0


def track(items: Iterable[Item], total: int, label: str, *, verbose: int = 0) -> Iterator[Item]:
    """Yield the items and show how many of ``total`` are done, if ``verbose``."""
    if not verbose:
        yield from items
        return
    terminal, began, shown, lines = sys.stderr.isatty(), time.monotonic(), 0.0, 0
    for done, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if terminal and (now - shown >= _EVERY_SECONDS or done == total):
            shown = now
            _draw(label, done, total, now - began)
        elif not terminal and done * _LINES // total > lines:
            lines = done * _LINES // total
            print(f"[fairspan] {label}: {done:,} of {total:,}", file=sys.stderr, flush=True)
    if terminal:
        print(file=sys.stderr, flush=True)


def _draw(label: str, done: int, total: int, seconds: float) -> None:
    left = seconds * (total - done) / done
    _show(f"{label} [{_bar(done, total)}] {done:,}/{total:,}, {left:.0f} s left")


def _bar(done: int, total: int) -> str:
    full = min(_WIDTH * done // max(total, 1), _WIDTH)
    return "#" * full + "." * (_WIDTH - full)


def _show(text: str) -> None:
    """Write over the current line of the terminal."""
    print(f"\r[fairspan] {text}   ", end="", file=sys.stderr, flush=True)


class _RowProgress:
    """Rows, their rate and the time left: a bar on a terminal, elsewhere a line every few seconds."""

    def __init__(self, label: str, total: int | None, done: int) -> None:
        self._label, self._total, self._done, self._first = label, total, done, done
        self._terminal = sys.stderr.isatty()
        self._began = self._shown = time.monotonic()

    def advance(self, rows: int) -> None:
        """Count rows."""
        self._done += rows
        now = time.monotonic()
        wait = _EVERY_SECONDS if self._terminal else _LINE_SECONDS
        if now - self._shown < wait and self._done != self._total:
            return
        self._shown = now
        rate = (self._done - self._first) / max(now - self._began, 1e-9)
        total, bar, left = self._total, "", ""
        if total is not None:
            bar = f" [{_bar(self._done, total)}]" if self._terminal else ""
            left = f", {max(total - self._done, 0) / max(rate, 1e-9):.0f} s left"
        counted = f"{self._done:,}" + ("" if total is None else f" of {total:,}")
        if self._terminal:
            _show(f"{self._label}{bar} {counted} rows, {rate:,.0f} rows/s{left}")
        else:
            text = f"[fairspan] {self._label}: {counted} rows, {rate:,.0f} rows/s{left}"
            print(text, file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Leave the line of the bar."""
        if self._terminal and self._done > self._first:
            print(file=sys.stderr, flush=True)


@contextmanager
def row_progress(
    label: str, total: int | None, *, verbose: int = 0, done: int = 0
) -> Iterator[Callable[[int], None]]:
    """Yield a function that counts rows; show them, their rate and the time left, if ``verbose``."""
    if not verbose:
        yield lambda _rows: None
        return
    progress = _RowProgress(label, total, done)
    try:
        yield progress.advance
    finally:
        progress.finish()


def exact_floats() -> dict[str, str]:
    """Options of ``pandas.read_csv`` that keep the last digit of numbers, as pandas does from 3.0 on.

    Another last digit is another hash of a row, and so another fold.
    """
    import pandas

    return {} if int(pandas.__version__.split(".")[0]) >= 3 else {"float_precision": "round_trip"}
