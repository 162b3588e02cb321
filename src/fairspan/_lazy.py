"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str], submodules: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Name of the package.
    modules : mapping of str to str
        Module of each name.
    submodules : collection of str
        Modules of the package that are attributes without an import statement of the user.
    """

    def get(name: str) -> Any:
        if name in modules:
            value = getattr(importlib.import_module(modules[name]), name)
        elif name in submodules:
            return importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        vars(sys.modules[package])[name] = value
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules, *submodules})

    return get, names
