"""Programs as npz files, and the reader of these files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fairspan._archives import as_bytes
from fairspan.deployment import read_npz_model
from fairspan.deployment.program import Program

__all__ = ["reader_source", "write_npz"]

# Of the plan; a reader of another version refuses it.
FORMAT = 1


def reader_source() -> str:
    """Text of the reader, which needs numpy alone."""
    return Path(read_npz_model.__file__).read_text(encoding="utf-8")


def write_npz(path: Path, program: Program, metadata: Mapping[str, Any]) -> None:
    """Write the arrays, and as ``plan`` the steps in JSON; nothing is pickled."""
    plan = {
        "format": FORMAT,
        "inputs": [asdict(given) for given in program.inputs],
        "steps": [[step.operation, step.result, *step.arguments] for step in program.steps],
        "outputs": program.outputs,
        "metadata": dict(metadata),
    }
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **program.constants, plan=as_bytes(plan))
