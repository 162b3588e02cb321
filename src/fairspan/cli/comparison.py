"""Saved models that `fairspan explore` compares: their files, the rows as each reads them, a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairspan.cli import common
from fairspan.cli.models import load_model_file
from fairspan.cli.read import Input, read_data, text_for
from fairspan.report.comparison import SavedModel
from fairspan.tables.columns import date_parts_of


def load_saved_models(
    paths: Sequence[Path] | None, trust: list[str] | None, given: Input
) -> list[SavedModel]:
    """Load the files of ``--compare``, and read DATA as each model was trained.

    Raises
    ------
    ValueError
        A file is no model, is given twice, makes features only, or needs columns that DATA lacks.
    """
    out: list[SavedModel] = []
    paths = list(paths or ())
    names = [path.name for path in paths]
    for path in paths:
        name = path.name if names.count(path.name) == 1 else str(path)
        if paths.count(path) > 1:
            raise ValueError(f"--compare {path} is given twice; give each model once.")
        model, columns = load_model_file(path, trust, "--compare")
        if not hasattr(model, "predict"):
            kind = type(model).__name__
            raise ValueError(f"--compare {path} holds a {kind}, which predicts nothing.")
        frame = date_parts_of(read_data(given, text_for(model), quiet=True).frame, columns)
        out.append(SavedModel(name=name, model=model, rows=frame.reset_index(drop=True)))
    return out


def comparison_table(comparison: dict[str, Any], level: float) -> str:
    """Return a table of all models, of their differences from the first one, and what was left out."""
    names = [common.shortened(name) for name in comparison["names"]]
    rows = [["", *names]]
    changes = [["minus " + names[0], *names[1:]]]
    for one in comparison["measures"]:
        word = {"gap": "gap", "correlation": "corr."}.get(one["measure"], one["words"])
        head = f"{word} {common.shortened(one['attribute'])}".strip()
        rows.append([head, *map(_estimate, one["models"])])
        changes.append([head, *(_estimate(e, sign="+") for e in one["differences"][1:])])
    title = (
        f"The same {comparison['n_rows']:,} held-out rows for every model, with {level:.0%} intervals, "
        f"paired for differences:"
    )
    lines = [title, *_aligned(rows), "", *_aligned(changes), *comparison["notes"], ""]
    return "\n".join(lines)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _estimate(e: dict[str, Any], sign: str = "") -> str:
    """Value and interval with three digits after the point, or as many as a large number needs."""
    if e["value"] is None:
        return "-"
    form = f"{sign}.3f" if abs(e["value"]) < 100.0 else f"{sign}.4g"

    def text(x: float) -> str:
        return f"{round(x, 3) + 0.0:{form}}"  # never -0.000

    if e["low"] is None or e["high"] is None:
        return text(e["value"])
    return f"{text(e['value'])} ({text(e['low'])} to {text(e['high'])})"
