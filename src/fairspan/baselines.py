"""Published methods to compare with, from the package fairspan-lab.

Importing this module without fairspan-lab raises ImportError with the command that installs it.
"""

from __future__ import annotations

import importlib
from typing import Any

from fairspan._system import INSTALL_LAB

try:
    _baselines = importlib.import_module("fairspan_lab.baselines")
except ModuleNotFoundError as error:
    if error.name not in ("fairspan_lab", "fairspan_lab.baselines"):
        raise
    msg = f"fairspan.baselines is part of fairspan-lab. {INSTALL_LAB}"
    raise ImportError(msg) from error

__all__ = list(_baselines.__all__)


# Names are looked up on demand: LAFTR needs torch.
def __getattr__(name: str) -> Any:
    return getattr(_baselines, name)


def __dir__() -> list[str]:
    return dir(_baselines)
