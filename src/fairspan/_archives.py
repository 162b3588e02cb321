"""Files of arrays with a JSON header and a digest: nothing in them is executed, and no size is believed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairspan._system import atomic_write, check_archive, first_line, inert

__all__ = ["as_bytes", "digest_of", "read_archive", "write_archive"]

_HEADER = "header.json"


def write_archive(
    path: Path, kind: str, number: int, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write a temporary file, then rename it: an old file stays until the new one is complete.

    Parameters
    ----------
    path : path
    kind, number : str, int
        What the file is, and the version of its format.
    header : dict of values that JSON has
    arrays : dict of arrays of numbers
    """
    text = {**header, "kind": kind, "format": number, "digest": digest_of(header, arrays)}
    with atomic_write(path) as part, part.open("wb") as file:
        np.savez(file, **arrays, **{_HEADER: as_bytes(text)})
        file.flush()
        os.fsync(file.fileno())


def read_archive(path: Path, kind: str, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the header and the arrays of a file of this kind.

    Raises
    ------
    ValueError
        If it is damaged or another file. The message is the second half of a sentence about the file.
    """
    try:
        with path.open("rb") as file:
            check_archive(file)
            with np.load(file, allow_pickle=False) as content:
                arrays = {name: content[name] for name in content.files}
        header = json.loads(arrays.pop(_HEADER).tobytes())
    except (FileNotFoundError, PermissionError, MemoryError):
        raise
    except KeyError:
        raise ValueError(f"it is not a {kind}") from None
    except Exception as error:  # a broken file fails in many ways inside numpy and zipfile
        raise ValueError(f"it is damaged, or not a {kind} ({first_line(error)})") from error
    if not isinstance(header, dict) or header.pop("kind", None) != kind:
        raise ValueError(f"it is not a {kind}")
    given = header.pop("format", None)
    if type(given) is not int or given != number:
        raise ValueError(
            f"it has format {inert(repr(given))}, and this version reads format {number}"
        )
    stated = header.pop("digest", None)
    if stated != digest_of(header, arrays):
        raise ValueError("it is damaged: its contents do not agree with its digest")
    return header, arrays


def as_bytes(header: Mapping[str, Any]) -> Any:
    """Write a header as an array of bytes."""
    return np.frombuffer(json.dumps(header, sort_keys=True).encode(), dtype=np.uint8)


def digest_of(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """Hash the header and the arrays with SHA-256."""
    out = hashlib.sha256(as_bytes(header).tobytes())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        out.update(f"{name} {array.dtype.str} {array.shape}".encode())
        out.update(array.tobytes())
    return out.hexdigest()
