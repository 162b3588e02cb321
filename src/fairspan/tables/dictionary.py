"""Read a dictionary of columns: kinds, and labels for readers of a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

from fairspan.tables.files import open_table

_HEADER = ("name", "label", "description", "kind")
# Words for the kinds of columns; the first of each line is what `--kind` calls it.
_KINDS = {
    "categorical": ("categorical", "category", "nominal", "ordinal", "binary", "code", "text"),
    "continuous": ("continuous", "number", "numeric", "integer", "float", "amount"),
    "identifier": ("identifier", "id", "key"),
}
_KIND_OF = {word: kind for kind, words in _KINDS.items() for word in words}


@dataclass(frozen=True, kw_only=True)
class ColumnWords:
    """What a dictionary says about a column.

    Attributes
    ----------
    label : name for readers; "" if there is none.
    description : one sentence; "" if there is none.
    kind : "categorical", "continuous", "identifier", or "" for the usual rule.
    """

    label: str = ""
    description: str = ""
    kind: str = ""


def read_dictionary(path: str | PathLike[str]) -> dict[str, ColumnWords]:
    """Read a dictionary of columns from a file with the columns name, label, description and kind.

    Parameters
    ----------
    path : str or path
        CSV, Excel or Parquet file. Only ``name`` is required. ``kind`` is categorical, continuous,
        identifier or empty.

    Returns
    -------
    dict
        By name of the column, a record with ``label``, ``description`` and ``kind``.

    Raises
    ------
    ValueError
        The file has no column ``name``, a name twice, one label for two columns, or an unknown kind.
    """
    table = open_table(path).read(_HEADER).frame
    given = fspath(path)
    columns = {str(name).strip().lower(): name for name in table.columns}
    if "name" not in columns:
        raise ValueError(
            f"{given} is no dictionary of columns: it has {', '.join(map(repr, table.columns))}. Give the "
            f"columns name, label, description and kind; only name is required."
        )
    out: dict[str, ColumnWords] = {}
    labels: dict[str, str] = {}
    for _, row in table.iterrows():
        name, label, description, word = (_text(row, columns.get(key)) for key in _HEADER)
        if not name:
            continue
        if name in out:
            raise ValueError(f"{given} has the column {name!r} twice; keep one line of it.")
        kind = _KIND_OF.get(word.lower(), "")
        if word and not kind:
            raise ValueError(
                f"{given} gives the column {name!r} the kind {word!r}; give {', '.join(_KINDS)} or nothing."
            )
        if label in labels:
            msg = f"{given} gives {labels[label]!r} and {name!r} the same label {label!r}; change one."
            raise ValueError(msg)
        if label:
            labels[label] = name
        out[name] = ColumnWords(label=label, description=description, kind=kind)
    if not out:
        raise ValueError(f"{given} names no column.")
    return out


def _text(row: Any, column: Any) -> str:
    value = None if column is None else row[column]
    return value.strip() if isinstance(value, str) else ""


def check_labels(words: Mapping[str, ColumnWords], columns: Iterable[str], given: str) -> None:
    """Raise if the label of a column is the name of another one."""
    known = set(columns)
    for name, entry in words.items():
        if entry.label != name and entry.label in known:
            raise ValueError(
                f"{given} gives {name!r} the label {entry.label!r}, which is the name of another column; "
                f"give another label."
            )
