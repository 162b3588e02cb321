"""The scripts of `docs`, which is no package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def script(name: str) -> ModuleType:
    """`docs/NAME.py` as a module."""
    spec = importlib.util.spec_from_file_location(f"docs{name}", DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
