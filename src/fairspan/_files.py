"""Atomic file writes, and checks before reading untrusted archives."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import uuid
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairspan._text import printable

__all__ = ["MISSING_WORDS", "atomic_write", "check_archive", "first_line", "inert", "is_stream"]

# Fields of a CSV file that are missing values. Not "None", which pandas adds: it is an answer, as to
# a question for one's religion.
MISSING_WORDS = ["", "NA", "NaN", "nan", "NULL", "null"]

# Characters of the target's name in the temporary name: file systems allow 255 bytes.
_NAME_CHARACTERS = 40
_SHOWN = 200


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path to write to; its content becomes ``path`` on success only.

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
            own = _descriptor(path)  # opened again, the file would have a second position
            with (
                part.open("rb") as content,
                open(path, "ab") if own is None else os.fdopen(os.dup(own), "wb") as stream,
            ):
                shutil.copyfileobj(content, stream)
        return
    target = Path(os.path.realpath(path))
    old = target.stat() if target.exists() else None
    part = target.with_name(f".{target.name[:_NAME_CHARACTERS]}.{uuid.uuid4().hex}")
    try:
        _create(part, target, private=old is not None)
        yield part
        if old is not None:
            _copy_permissions(old, part)
        _rename(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` is a pipe, a terminal or another character device, written to in place.

    So is a name of an open file descriptor, such as ``/dev/stdout``, also where it leads to a file:
    this process goes on writing to that file.

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
        what = "a block device" if stat.S_ISBLK(mode) else "a socket"
        raise OSError(f"{os.fspath(path)} is {what}, not a file; give the name of a file.")
    return not stat.S_ISREG(mode) or _descriptor(path) is not None


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """The file descriptor of this process that ``path`` names: 1 for ``/dev/stdout``."""
    here = os.path.abspath(path)
    while True:
        folder, name = os.path.realpath(os.path.dirname(here)), os.path.basename(here)
        if folder in (f"/proc/{os.getpid()}/fd", "/dev/fd") and name.isdecimal():
            return int(name)
        here = os.path.join(folder, name)
        if not os.path.islink(here):
            return None
        here = os.path.join(folder, os.readlink(here))


def _create(part: Path, target: Path, *, private: bool) -> None:
    """Create the temporary file; one that replaces another is private until it is finished."""
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666))
    except OSError as error:  # the user knows the target's name, not the temporary one
        raise type(error)(error.errno, error.strerror, str(target)) from error


def _copy_permissions(old: os.stat_result, part: Path) -> None:
    mode = stat.S_IMODE(old.st_mode)
    if hasattr(os, "chown"):
        for owner in (old.st_uid, -1):  # only the superuser can give a file away
            try:
                os.chown(part, owner, old.st_gid)
                break
            except OSError:
                continue
        else:
            mode &= ~stat.S_IRWXG  # these rights were for the members of another group
    with suppress(OSError):  # a file system without permissions; the file stays private
        part.chmod(mode)


def _rename(part: Path, target: Path) -> None:
    try:
        os.replace(part, target)
    except PermissionError as error:  # on Windows, a file that is open cannot be replaced
        msg = (
            f"{target} could not be replaced ({error.strerror}). Close it where another program has "
            f"it open, or give another name."
        )
        raise PermissionError(msg) from error


def check_archive(file: IO[bytes]) -> None:
    """Refuse a zip file of arrays that would grow in memory: everything is stored as it is.

    Reads the directory and the first bytes of each array, nothing else.

    Raises
    ------
    ValueError
        With what is wrong with it, as part of a sentence.
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
                raise ValueError(f"its part {name} is compressed, and fairspan stores all as it is")
        if sum(part.file_size for part in parts) > size:
            raise ValueError("its parts claim to be larger than the file")
        for part in parts:
            if part.filename.endswith(".npy"):
                with archive.open(part) as content:
                    _check_array(content, part)
    file.seek(0)


def _check_array(content: IO[bytes], part: zipfile.ZipInfo) -> None:
    """An array's own header may claim another size than it has, and objects, which are programs."""
    name = inert(repr(part.filename))
    version = np.lib.format.read_magic(content)
    readers: dict[Any, Any] = {
        (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0
    }  # fmt: skip
    if version not in readers:
        raise ValueError(f"its array {name} has the unknown format {version}")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "error", UserWarning
        )  # a header of Python 2, which nothing of ours has
        shape, _, kind = readers[version](content)
    if kind.hasobject:
        raise ValueError(f"its array {name} holds Python objects, which fairspan never loads")
    count = 1
    for length in shape:
        count *= int(length)
    if count * max(kind.itemsize, 1) != part.file_size - content.tell():
        raise ValueError(f"its array {name} claims a shape, {inert(str(shape))}, that it is not of")


def inert(text: str, longest: int = _SHOWN) -> str:
    """Text from a file on one line, printable and short: nothing that steers a terminal."""
    flat = printable(text[: longest + 1], keep="")
    return flat if len(flat) <= longest else f"{flat[:longest]}..."


def first_line(error: BaseException) -> str:
    """What an error of another library says, inert; its class if it says nothing."""
    lines = str(error).split("\n", 1)
    return inert(lines[0], 2 * _SHOWN) or type(error).__name__
