"""What a pass has gathered, in one file that a killed process cannot spoil: npz with a JSON header."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairspan._system import atomic_write, check_archive, first_line
from fairspan.exceptions import CheckpointError

__all__ = ["Checkpoint"]

FORMAT = 1
_HEADER = "header.json"
_KIND = "fairspan checkpoint"


class Checkpoint:
    """A file of moments and where the pass was.

    Plain numbers and text: ``numpy.load`` opens it, nothing in it is executed.

    Parameters
    ----------
    path : path
        File to write and to read. It need not exist; its folder must.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            msg = f"checkpoint={str(path)!r} is a folder; give the name of a file."
            raise ValueError(msg)
        if not self.path.parent.is_dir():
            msg = f"checkpoint={str(path)!r}: the folder {str(self.path.parent)!r} does not exist."
            raise ValueError(msg)

    def save(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Write under another name, then rename: the old file stays until the new one is whole."""
        text = {**header, "kind": _KIND, "format": FORMAT, "digest": _digest(header, arrays)}
        with atomic_write(self.path) as part, part.open("wb") as file:
            np.savez(file, **arrays, **{_HEADER: _as_bytes(text)})
            file.flush()
            os.fsync(file.fileno())

    def load(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Header and arrays; None if there is no file yet."""
        if not self.path.exists():
            return None
        try:
            with self.path.open("rb") as file:
                check_archive(file)
                with np.load(file, allow_pickle=False) as content:
                    arrays = {name: content[name] for name in content.files}
            header = json.loads(arrays.pop(_HEADER).tobytes())
        except (PermissionError, MemoryError):
            raise
        except KeyError:
            self._refuse("it is not a fairspan checkpoint")
        except Exception as error:  # a broken file fails in many ways inside numpy and zipfile
            self._refuse(f"it is damaged, or not a fairspan checkpoint ({first_line(error)})")
        if not isinstance(header, dict) or header.pop("kind", None) != _KIND:
            self._refuse("it is not a fairspan checkpoint")
        number = header.pop("format", None)
        if number != FORMAT:
            self._refuse(f"it has format {number}, and this version reads format {FORMAT}")
        stated = header.pop("digest", None)
        if stated != _digest(header, arrays):
            self._refuse("it is damaged: its contents do not agree with its digest")
        return header, arrays

    def check(self, known: Mapping[str, Any], header: Mapping[str, Any]) -> None:
        """Refuse a checkpoint of something else, and say what differs."""
        for key, mine in known.items():
            theirs = header.get(key)
            if json.loads(json.dumps(mine)) != theirs:
                shown = _difference(json.loads(json.dumps(mine)), theirs)
                self._refuse(f"it belongs to another fit: its {key} differs ({shown})")

    def _refuse(self, why: str) -> None:
        msg = (
            f"The checkpoint {str(self.path)!r} cannot be used: {why}. Give another path, or delete the "
            f"file to begin anew."
        )
        raise CheckpointError(msg)


def _difference(mine: Any, theirs: Any) -> str:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in sorted({*mine, *theirs}, key=str):
            if mine.get(key) != theirs.get(key):
                return f"{key}: {_short(theirs.get(key))} there, {_short(mine.get(key))} here"
    return f"{_short(theirs)} there, {_short(mine)} here"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _as_bytes(header: Mapping[str, Any]) -> Any:
    return np.frombuffer(json.dumps(header, sort_keys=True).encode(), dtype=np.uint8)


def _digest(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    out = hashlib.sha256(_as_bytes(header).tobytes())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        out.update(f"{name} {array.dtype.str} {array.shape}".encode())
        out.update(array.tobytes())
    return out.hexdigest()
