"""Model files that options name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairspan._system import inert
from fairspan.cli import common


def load_model_file(
    path: Path, trust: list[str] | None, option: str = "--model", *, of_table: bool = True
) -> tuple[Any, list[str]]:
    """Return a saved model, and the columns it was fitted with; ``option`` named the file.

    With ``of_table=False`` the model may be one of an array, whose columns have no names.
    """
    from fairspan.persistence import load_model, untrusted_types

    if not path.is_file():
        raise ValueError(f"{option} {path} is no file; give one that `fairspan fit` has written.")
    trusted = common.split_commas(trust) or []
    if unknown := [name for name in untrusted_types(path) if name not in trusted]:
        shown = [inert(name) for name in unknown]
        raise ValueError(
            f"{path} contains {common.first_few(shown)}, which fairspan does not trust. If you know where "
            f"the file comes from, pass --trust {','.join([*map(inert, trusted), *shown])}."
        )
    model = load_model(path, trusted=trusted)
    names = getattr(model, "feature_names_in_", None)
    if names is None and not of_table:
        names = ()
    if names is None:
        msg = f"{path} was fitted on an array, whose columns have no names to look for in a table."
        raise ValueError(msg)
    return model, list(names)
