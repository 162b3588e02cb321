"""Read protected attributes given as probabilities: one column per group, each row adding up to 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairspan.inputs.columns import align_rows, as_frame, read_attribute
from fairspan.method.linalg import Array
from fairspan.method.probabilities import combine
from fairspan.method.problem import Attribute, GroupProbabilities

__all__ = [
    "gather_probabilities",
    "has_probabilities",
    "probability_columns",
    "sensitive_probabilities",
]

KIND = "probabilities"
# Largest error of the sum of a row: single precision, and six digits in a file.
TOLERANCE = 1e-6
# Names that arrays get, and that of their one attribute.
_UNNAMED, _DEFAULT = "sensitive_feature_", "group"


def has_probabilities(kind: Any) -> bool:
    """Whether the parameter ``sensitive_kind`` asks for probabilities, of any attribute."""
    if isinstance(kind, Mapping):
        return any(isinstance(value, str) and value == KIND for value in kind.values())
    if isinstance(kind, list | tuple):
        return KIND in [value for value in kind if isinstance(value, str)]
    return isinstance(kind, str) and kind == KIND


def gather_probabilities(attributes: dict[str, Attribute], kind: Any) -> dict[str, Attribute]:
    """Join the columns of each attribute with probabilities; other columns stay as they are.

    ``kind`` is the parameter ``sensitive_kind``: "probabilities" for one attribute of all columns, or a dict
    in which the attribute "race" has the columns race_*.
    """
    owned = probability_columns(kind, list(attributes))
    owner = {column: name for name, columns in owned.items() for column in columns}
    out: dict[str, Attribute] = {}
    for column, attribute in attributes.items():
        name = owner.get(column)
        if name is None:
            out[column] = attribute
        elif name not in out:
            columns = owned[name]
            groups = [c.removeprefix(f"{name}_") for c in columns]
            if isinstance(kind, str):
                _, groups = group_names(columns)
            out[name] = _join(
                name, {g: attributes[c] for g, c in zip(groups, columns, strict=True)}
            )
    return out


def probability_columns(kind: Any, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Columns of each attribute that ``sensitive_kind`` asks to read as probabilities, by its name."""
    if not has_probabilities(kind):
        return {}
    if not isinstance(kind, str | Mapping):
        raise ValueError(
            f"sensitive_kind={kind!r}: probabilities have several columns per attribute, so a list in the "
            f"order of columns is not clear. Give 'probabilities' if all columns are the groups of one "
            f"attribute, or a dict by name, e.g. {{'race': 'probabilities'}} for the columns race_*."
        )
    if isinstance(kind, str):
        return {group_names(columns)[0]: tuple(columns)}
    wanted = sorted((n for n, value in kind.items() if value == KIND), key=len, reverse=True)
    out: dict[str, tuple[str, ...]] = {}
    for column in columns:
        name = next((n for n in wanted if column.startswith(f"{n}_")), None)
        if name is not None:
            out[name] = (*out.get(name, ()), column)
        elif column in wanted:
            raise ValueError(
                f"sensitive_kind={{{column!r}: 'probabilities'}} stands for the columns {column}_*, one "
                f"for each group, but sensitive_features has a column {column!r} itself. Rename it, or "
                f"leave it out."
            )
    for name in wanted:
        if name not in out:
            raise ValueError(
                f"sensitive_kind={{{name!r}: 'probabilities'}} stands for the columns {name}_*, one for each "
                f"group, and sensitive_features has none of these. Its columns: "
                f"{', '.join(map(repr, columns))}."
            )
    return out


def group_names(columns: Sequence[str]) -> tuple[str, list[str]]:
    """Name of the attribute, the common prefix of its columns before "_", and of its groups."""
    first, last = min(columns), max(columns)  # what these two share, all share
    shared = next((i for i, c in enumerate(first) if c != last[i : i + 1]), len(first))
    prefix = first[: first.rfind("_", 0, shared) + 1]
    if len(columns) < 2 or not prefix.strip("_"):
        return _DEFAULT, list(columns)
    groups = [column.removeprefix(prefix) for column in columns]
    if not all(groups):
        return _DEFAULT, list(columns)
    return (_DEFAULT if prefix == _UNNAMED else prefix.rstrip("_")), groups


def _join(name: str, columns: dict[str, Attribute]) -> GroupProbabilities:
    """One attribute from the columns of its groups; raise unless each row adds up to 1."""
    if len(columns) < 2:
        raise ValueError(
            f"sensitive_features has one column of probabilities for {name!r}; give one for each group, also "
            f"for the last one (of two groups: p and 1 - p)."
        )
    values = np.stack([_numbers(name, g, c) for g, c in columns.items()], axis=1)
    gaps = np.stack([column.missing for column in columns.values()], axis=1)
    missing: NDArray[np.bool_] = np.asarray(gaps.all(axis=1))
    _refuse(name, gaps.any(axis=1) & ~missing, "have a probability for some groups only")
    low, high = (values < -TOLERANCE).any(axis=1), (values > 1.0 + TOLERANCE).any(axis=1)
    _refuse(name, (low | high) & ~missing, "have a probability outside of [0, 1]")
    total = values.sum(axis=1)
    off = np.abs(total - 1.0) > TOLERANCE
    _refuse(name, off & ~missing, "have probabilities that do not add up to 1", total)
    values = np.clip(values, 0.0, 1.0)
    values[missing] = 0.0
    known = ~missing
    values[known] /= values[known].sum(axis=1, keepdims=True)
    return GroupProbabilities(
        name=name, values=values, missing=missing, dtype_kind="f", groups=tuple(columns)
    )


def _numbers(name: str, group: str, column: Attribute) -> Array:
    if column.dtype_kind == "b":
        return np.asarray(column.values == "True", dtype=np.float64)
    if column.values.dtype.kind != "f":
        raise ValueError(
            f"sensitive_features: the probabilities of {name!r} for the group {group!r} are text. Give "
            f"numbers, or read known groups as categories."
        )
    return column.values.astype(np.float64)


def _refuse(name: str, wrong: Any, what: str, total: Array | None = None) -> None:
    rows = np.flatnonzero(wrong)
    if not len(rows):
        return
    first = f"row {rows[0]}" + ("" if total is None else f", with a sum of {total[rows[0]]:.8g}")
    raise ValueError(
        f"sensitive_features {name!r}: {len(rows)} rows {what}, the first is {first}. Give one column per "
        f"group, in every row numbers from 0 to 1 that add up to 1 (to within {TOLERANCE:g}), or only "
        f"missing values where nothing is known."
    )


def sensitive_probabilities(known: Any, probabilities: Any) -> Any:
    """Join known groups and probabilities into one table for ``sensitive_kind="probabilities"``.

    Parameters
    ----------
    known : array-like of shape (n_samples,)
        Group of each row, None or NaN where it is not known. The groups are the names of the columns of
        ``probabilities``, with or without the prefix that all columns share.
    probabilities : data frame of shape (n_samples, n_groups)
        One column per group. Rows whose group is known may be missing.

    Returns
    -------
    data frame
        The probabilities, with 1 for the known group of a row and 0 for the others. It has the type and
        row labels of ``probabilities``.

    Examples
    --------
    >>> import pandas as pd, fairspan
    >>> table = pd.DataFrame({"race_a": [0.3, 0.9, 0.5], "race_b": [0.7, 0.1, 0.5]})
    >>> fairspan.sensitive_probabilities(["b", None, "a"], table)
       race_a  race_b
    0     0.0     1.0
    1     0.9     0.1
    2     1.0     0.0
    """
    frame = as_frame(probabilities, "probabilities")
    if frame is None:
        raise ValueError(
            f"probabilities must be a data frame, whose columns name the groups; got "
            f"{type(probabilities).__name__}."
        )
    known = align_rows(probabilities=probabilities, known=known)["known"]
    groups = read_attribute("known", known, "known")
    if len(groups.values) != len(frame):
        msg = f"known has {len(groups.values)} rows, probabilities has {len(frame)}."
        raise ValueError(msg)
    columns = list(map(str, frame.columns))
    short = group_names(columns)[1]
    table = frame.to_numpy().astype(np.float64)
    code = np.full(len(frame), -1, dtype=np.intp)
    for value in np.unique(groups.values[~groups.missing]):
        text = f"{value:g}" if isinstance(value, float) else str(value)
        names = columns if text in columns else short
        if text not in names:
            raise ValueError(
                f"known has the group {text!r}, but probabilities has the groups "
                f"{', '.join(map(repr, short))}. Give a column for each group."
            )
        code[(groups.values == value) & ~groups.missing] = names.index(text)
    joined = combine(code, table)
    native = frame.to_native()
    if hasattr(native, "set_axis"):  # pandas: `assign` keeps the row labels
        return native.assign(**{name: joined[:, j] for j, name in enumerate(native.columns)})
    old: list[nw.Series[Any]] = [frame.get_column(n).cast(nw.Float64) for n in frame.columns]
    rows = np.arange(len(frame))
    new = [column.scatter(rows, joined[:, j]) for j, column in enumerate(old)]
    return frame.with_columns(*new).to_native()
