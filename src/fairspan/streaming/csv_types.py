"""Types of the columns of CSV files: widened so that they hold all values, or as the user gives them.

Arrow infers types from the first block of each file. Files that are longer are read once, before
anything is computed, and a column whose later values do not have its type gets a wider one.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from fairspan.exceptions import DataWarning, warn_user

__all__ = ["arrow_types", "as_mapping", "conversion_error", "kept_types", "widened_schema"]

# Words of `column_types`, and the types of Arrow that they mean.
WORDS = {
    "number": "double",
    "integer": "int64",
    "text": "string",
    "boolean": "bool",
    "date": "timestamp[s]",
}
# Bytes from which Arrow infers types.
_FIRST_BLOCK = 2**20
_ERROR = re.compile(
    r"In CSV column #(\d+):.*?CSV conversion error to ([^:]+): invalid value '(.*?)'(?:\.|$|\s\s)",
    re.S,
)
_INTEGER, _CODE = re.compile(r"[-+]?\d{1,18}"), re.compile(r"0\d+")


def arrow_types(given: Mapping[str, str] | None, columns: Collection[str]) -> dict[str, Any]:
    """Types of Arrow for ``column_types``; raise for unknown words and, with `columns`, unknown columns."""
    pyarrow = importlib.import_module("pyarrow")
    out = {}
    for name, word in as_mapping(given).items():
        if name not in columns:
            raise ValueError(f"column_types names {name!r}, which is no column of the source.")
        try:
            out[name] = pyarrow.type_for_alias(WORDS.get(word, word))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"column_types has {word!r} for {name!r}; give one of {', '.join(WORDS)}, or the name of a "
                f"type of Arrow, such as 'timestamp[ms]'."
            ) from error
    return out


def as_mapping(given: Any) -> dict[str, str]:
    """Return ``column_types`` as a dict; raise if it is none."""
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(
            f"column_types={given!r:.80} is not allowed; give a dict from columns to types."
        )
    return dict(given or {})


def kept_types(types: Mapping[str, Any], features: Collection[str]) -> tuple[tuple[str, str], ...]:
    """What a model remembers of the types of its features, to read new files alike.

    Dates are found again in every file, which may have days where another has seconds.
    """
    kinds = importlib.import_module("pyarrow").types
    out = []
    for name in features:
        kind = types[name]
        if kinds.is_integer(kind) or kinds.is_floating(kind):
            out.append((name, "number"))  # a new file may have decimals, or only empty fields
        elif kinds.is_string(kind) or kinds.is_large_string(kind):
            out.append((name, "text"))
        elif kinds.is_boolean(kind):
            out.append((name, "boolean"))
    return tuple(out)


def conversion_error(message: str, names: list[str]) -> tuple[str, str, str] | None:
    """Column, type and value of an error of Arrow about a field of a CSV file; None for other errors."""
    found = _ERROR.search(message)
    if found is None or int(found[1]) >= len(names):
        return None
    return names[int(found[1])], found[2], found[3]


def widened_schema(
    dataset: Any,
    schema: Any,
    columns: list[str],
    fixed: Collection[str],
    replace: Callable[..., Any],
) -> Any:
    """Schema whose columns hold all values of all files.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset of CSV files
    schema : pyarrow.Schema, as it was inferred from the first block of each file
    columns : columns that are read
    fixed : columns whose type is given, which stays
    replace : function that gives a schema other types for some of its columns
    """
    for fragment in dataset.get_fragments():
        while (wider := _first_misfit(fragment, schema, columns, fixed)) is not None:
            schema = replace(schema, wider)
    return schema


def _first_misfit(
    fragment: Any, schema: Any, columns: list[str], fixed: Collection[str]
) -> dict[str, Any] | None:
    """A wider type of the first column with a value that does not fit; None if all do."""
    pyarrow = importlib.import_module("pyarrow")
    path = fragment.path
    inside = fragment.physical_schema
    short = path.endswith(".csv") and os.path.exists(path) and os.path.getsize(path) < _FIRST_BLOCK
    if short:  # its types are inferred from all of it
        own = {field.name: field.type for field in inside}
        wanted = {field.name: field.type for field in schema}
        null = pyarrow.types.is_null
        if all(own.get(name) in (None, wanted[name]) or null(own[name]) for name in columns):
            return None
    try:
        for _ in fragment.to_batches(schema=schema, columns=columns, batch_readahead=1):
            pass
    except (pyarrow.ArrowException, OSError) as error:
        found = conversion_error(str(error), inside.names)
        if found is None or found[0] in fixed:
            return None  # the pass that uses the rows raises it, with the row
        name, _, value = found
        old = schema.field(name).type
        new = _wider(old, value)
        if new == old:
            return None
        if pyarrow.types.is_string(new) and not pyarrow.types.is_null(old):
            warn_user(
                f"{path}: the column {name!r} begins as {old} and has {value!r:.60} later, so it is read as "
                f"text in all files: every different text is a category of its own. To read it otherwise, "
                f"correct the value and pass column_types={{{name!r}: 'number'}}; to confirm, 'text'.",
                DataWarning,
                key=f"types of {name!r}",
            )
        return {name: new}
    return None


def _wider(old: Any, value: str) -> Any:
    pyarrow = importlib.import_module("pyarrow")
    kinds, text = pyarrow.types, value.strip()
    if kinds.is_null(old) and _INTEGER.fullmatch(text) and not _CODE.fullmatch(text):
        return pyarrow.int64()
    if kinds.is_null(old) or (kinds.is_integer(old) and not _INTEGER.fullmatch(text)):
        try:
            float(text)
        except ValueError:
            return pyarrow.string()
        is_code = _CODE.fullmatch(text) or text.isdecimal()  # a number this long is an identifier
        return pyarrow.string() if is_code else pyarrow.float64()
    return pyarrow.string()
