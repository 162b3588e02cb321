"""Names that users give us, made harmless where they are shown."""

from __future__ import annotations

import json

__all__ = ["printable", "printable_json"]


def printable(text: str, keep: str = "\n") -> str:
    """Spaces for control characters and marks of direction, which steer terminals and readers."""
    return "".join(c if c.isprintable() or c in keep else " " for c in text)


def printable_json(text: str) -> str:
    """JSON with letters as they are; what steers a terminal, or is no UTF-8, as JSON escapes it."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
