"""Files: whole under their name, whoever else writes them or dies; read only if they hold what they say."""

from __future__ import annotations

import os
import uuid
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairspan._text import printable

__all__ = ["MISSING_WORDS", "check_archive", "first_line", "inert", "whole_file"]

# Fields of a CSV file that are missing values. Not "None", which pandas adds: it is an answer, as to
# a question for one's religion.
MISSING_WORDS = ["", "NA", "NaN", "nan", "NULL", "null"]

# Of a name, what the name beside it keeps: file systems allow 255 bytes.
_NAME_CHARACTERS = 40
_SHOWN = 200


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside to write to: it is renamed at the end, and gone after an error."""
    target = Path(path)
    # Not tempfile's: it would keep the file to its owner, whatever the umask says.
    part = target.with_name(f".{target.name[:_NAME_CHARACTERS]}.{uuid.uuid4().hex}")
    try:
        yield part
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


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
