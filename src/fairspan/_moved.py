"""Names that have moved: import paths in the documentation of 0.1.0, classes in saved files."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["forward_old_imports", "rename_moved_classes"]

_METHOD = (
    *("calibration", "certificates", "codes", "features", "gp", "laplace", "limits", "moments"),
    *("sdr", "subspaces"),
)

# Modules that the documentation of 0.1.0 named.
MODULES = {
    **{f"fairspan.{name}": f"fairspan.method.{name}" for name in _METHOD},
    "fairspan.accumulator": "fairspan.method.accumulate",
    "fairspan.estimators.gaussian_process": "fairspan.estimators.gp_regressor",
    "fairspan.folds": "fairspan.method.pilot",
    "fairspan.heads": "fairspan.method.subspaces",
    "fairspan.streams": "fairspan.streaming",
}

# Classes in files that `save_model` wrote before they moved: old module, old name, where the class is
# now. Modules directly in fairspan are those of 0.1.0.
CLASSES = {
    ("fairspan.calibration", "Link"): "fairspan.method.calibration",
    ("fairspan.certificates", "BlockCertificate"): "fairspan.method.certificates",
    ("fairspan.certificates", "Certificate"): "fairspan.method.certificates",
    ("fairspan.codes", "Cells"): "fairspan.method.codes",
    ("fairspan.codes", "Coder"): "fairspan.method.codes",
    ("fairspan.codes", "CrossedCoder"): "fairspan.method.codes",
    ("fairspan.estimators._blocks", "BlockReport"): "fairspan.method.removal",
    ("fairspan.estimators._dial", "Position"): "fairspan.method.spaces",
    ("fairspan.estimators._fair_space", "FairSpace"): "fairspan.method.spaces",
    ("fairspan.estimators._held_out", "HeldOut"): "fairspan.method.solution",
    ("fairspan.estimators._path_select", "Selection"): "fairspan.estimators.path_selection",
    ("fairspan.estimators._pilot", "Pilot"): "fairspan.method.pilot",
    ("fairspan.estimators._solve", "FairGeometry"): "fairspan.method.solution",
    ("fairspan.estimators._solve", "Solution"): "fairspan.method.solution",
    ("fairspan.estimators._training_rows", "TrainingRows"): "fairspan.estimators.likelihood_rows",
    ("fairspan.estimators.gaussian_process", "FairGPRegressor"): "fairspan.estimators.gp_regressor",
    ("fairspan.features", "Kernel"): "fairspan.method.kernels",
    ("fairspan.features", "LandmarkMap"): "fairspan.method.features",
    ("fairspan.features", "TransformerMap"): "fairspan.method.features",
    ("fairspan.folds", "FoldCounter"): "fairspan.method.folds",
    ("fairspan.folds", "PositionFolds"): "fairspan.method.folds",
    ("fairspan.gp", "Posterior"): "fairspan.method.gp",
    ("fairspan.heads", "PathMoments"): "fairspan.method.subspaces",
    ("fairspan.laplace", "Laplace"): "fairspan.method.laplace",
    ("fairspan.method.pilot", "FoldCounter"): "fairspan.method.folds",
    ("fairspan.method.pilot", "PositionFolds"): "fairspan.method.folds",
    ("fairspan.method.heads", "PathMoments"): "fairspan.method.subspaces",
    ("fairspan.moments", "Moments"): "fairspan.method.moments",
    ("fairspan.subspaces", "PrincipalPair"): "fairspan.method.subspaces",
}


def rename_moved_classes(node: Any) -> bool:
    """Replace the modules of moved classes in a skops schema, in place; True if there were any."""
    if isinstance(node, list):
        return sum(map(rename_moved_classes, node)) > 0  # not any(): every part is renamed
    if not isinstance(node, dict):
        return False
    changed = sum(map(rename_moved_classes, node.values())) > 0
    module, name = node.get("__module__"), node.get("__class__")
    if isinstance(module, str) and isinstance(name, str) and (module, name) in CLASSES:
        node["__module__"] = CLASSES[module, name]
        return True
    return changed


class _OldImports:
    """Finder and loader of old import paths: a module with the names of the new one."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in MODULES else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:  # noqa: ARG002
        return None

    def exec_module(self, module: ModuleType) -> None:
        new = MODULES[module.__name__]
        warnings.warn(
            f"{module.__name__} is now {new}; the old name is deprecated since 0.2.0 and goes in 0.3.0.",
            DeprecationWarning,
            stacklevel=2,
        )
        contents = vars(importlib.import_module(new))
        vars(module).update((k, v) for k, v in contents.items() if not k.startswith("__"))


def forward_old_imports() -> None:
    """Let ``import`` find modules under their old names, with a DeprecationWarning."""
    if not any(type(finder) is _OldImports for finder in sys.meta_path):
        sys.meta_path.append(_OldImports())
