"""Files that are whole under their name, whoever else writes them or dies meanwhile."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside to write to: it is renamed at the end, and gone after an error."""
    target = Path(path)
    # Not tempfile's: it would keep the file to its owner, whatever the umask says.
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        yield part
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
