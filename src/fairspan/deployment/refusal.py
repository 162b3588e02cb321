"""Errors about parts of a model that cannot be written."""

from __future__ import annotations

from typing import NoReturn

from fairspan.exceptions import ExportError

__all__ = ["refuse"]


def refuse(part: str, remedy: str) -> NoReturn:
    """Raise for a part of a model."""
    raise ExportError(f"export cannot write {part}. {remedy}.")
