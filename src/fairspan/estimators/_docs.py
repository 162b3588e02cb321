"""Docstrings of estimators that share their parameters: each entry is written once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TypeVar

Class = TypeVar("Class", bound=type)

_SECTION = re.compile(r"(?<=^Parameters\n----------\n).*?(?=\n\n\S[^\n]*\n-+$)", re.M | re.S)
_ENTRY = re.compile(r"^\S.*?(?=^\S|\Z)", re.M | re.S)


def complete_parameters(source: type) -> Callable[[Class], Class]:
    """Class decorator: take the parameters that a docstring leaves out from another class's.

    Entries end up in the order of the signature.
    """

    def decorate(cls: Class) -> Class:
        if not (cls.__doc__ and source.__doc__):  # python -OO
            return cls
        doc = inspect.cleandoc(cls.__doc__)
        entries = {**_entries(inspect.cleandoc(source.__doc__)), **_entries(doc)}
        section = "\n".join(entries[name] for name in inspect.signature(cls).parameters)
        cls.__doc__ = _SECTION.sub(lambda _: section, doc, count=1)
        return cls

    return decorate


def _entries(doc: str) -> dict[str, str]:
    """Each parameter's entry, by name."""
    section = _SECTION.search(doc)
    assert section is not None
    texts = [text.rstrip() for text in _ENTRY.findall(section[0])]
    return {text.partition(":")[0].strip(): text for text in texts}
