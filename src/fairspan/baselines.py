"""Published methods to compare with, from the package fairspan-lab.

The names below are available once fairspan-lab is installed.
"""

from __future__ import annotations

import importlib
from typing import Any

INSTALL_LAB = "It is not published yet; in a checkout of fairspan run: pip install -e . -e lab"


def _lab() -> Any:
    try:
        return importlib.import_module("fairspan_lab.baselines")
    except ModuleNotFoundError as error:
        if error.name not in ("fairspan_lab", "fairspan_lab.baselines"):
            raise
        msg = f"fairspan.baselines is part of fairspan-lab. {INSTALL_LAB}"
        raise ImportError(msg) from error


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    return getattr(_lab(), name)


def __dir__() -> list[str]:
    return dir(_lab())
