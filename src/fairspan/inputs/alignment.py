"""Match the rows of several arguments: by row labels where there are any, otherwise by position.

Only pandas objects have row labels (an index). scikit-learn ignores them, which is harmless for
features and a target from the same table. Protected attributes and weights often come from a
second table, where the same labels may have another order. Reading such a column by position would
give people the group of somebody else, without an error.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fairspan.exceptions import DataWarning, warn_user

__all__ = ["align_rows"]

_BY_POSITION = "pass values without an index, e.g. {name}.to_numpy()"


def align_rows(**arguments: Any) -> dict[str, Any]:
    """Return the arguments with their rows in the order of the first one.

    Arrays, lists and polars objects have no row labels and stay as they are. So does everything
    that is not a column of rows: None, numbers, names of columns.

    Parameters
    ----------
    **arguments
        By their names in messages. The first one that is not None sets the order: X, or the
        predictions of a model. The values of a mapping are aligned one by one.

    Returns
    -------
    dict
        The arguments by name, in the order given. Arguments of different lengths are returned
        unchanged: the reader of each argument reports its number of rows.

    Raises
    ------
    ValueError
        If two arguments have different row labels, if repeated labels have another order, or if
        orders differ and the first argument has no labels.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    indexes = {
        label: index
        for name, value in given.items()
        for label, column in _columns(name, value)
        if (index := _row_index(column)) is not None
    }
    if not indexes:
        return arguments
    reference, order = next(iter(indexes.items()))
    first = next(iter(given))
    n_rows = {len(index) for index in indexes.values()} | _number_of_rows(given[first])
    other = {
        label: index
        for label, index in indexes.items()
        if index is not order and not index.equals(order)
    }
    if len(n_rows) > 1 or not other:
        return arguments
    if reference != first:
        name = next(iter(other))
        msg = (
            f"{reference} and {name} have different row indexes, and {first} has none, so their order "
            f"is unclear. Put them into the order of {first}, e.g. {name}.loc[{reference}.index], or "
            f"{_BY_POSITION.format(name=name)}."
        )
        raise ValueError(msg)
    positions = {
        name: _find_positions(name, index, reference, order) for name, index in other.items()
    }
    counted = [name for name, index in other.items() if _is_default(index) or _is_default(order)]
    if counted:
        names = ", ".join(counted)
        warn_user(
            f"{names}: rows were put into the order of {reference} by their index, but one of the indexes "
            f"is the default 0 to {len(order) - 1}, which may only count rows. If row i of {names} already "
            f"belongs to row i of {reference}, {_BY_POSITION.format(name=counted[0])}.",
            DataWarning,
        )
    return {name: _reorder(name, value, positions) for name, value in arguments.items()}


def _columns(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the argument, or the columns of a mapping, with their names in messages."""
    if isinstance(value, Mapping):
        for key, column in value.items():
            yield f"{name}[{key!r}]", column
    else:
        yield name, value


def _row_index(column: Any) -> Any:
    """Return the index of a Series or DataFrame (of pandas or with its interface); else None."""
    index = getattr(column, "index", None)  # a method of lists and strings
    return index if hasattr(index, "get_indexer") and hasattr(index, "equals") else None


def _number_of_rows(value: Any) -> set[int]:
    """Return the number of rows as a set, empty if a value has none."""
    shape = getattr(value, "shape", None) or ()  # sparse matrices have no length
    if isinstance(value, list | tuple):
        return {len(value)}
    return {int(shape[0])} if shape and isinstance(shape[0], numbers.Integral) else set()


def _is_default(index: Any) -> bool:
    """Whether this is the default index of pandas, which counts the rows."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1


def _find_positions(name: str, index: Any, reference: str, order: Any) -> Any:
    """Return the positions of the labels of ``order`` in ``index``; raise if they differ."""
    reason = ""
    for argument, labels in ((name, index), (reference, order)):
        if not labels.is_unique:
            twice = labels[labels.duplicated()][0]
            reason = f"the label {_shown(twice)} occurs more than once in {argument}"
    if not reason:
        positions = np.asarray(index.get_indexer(order))
        if (positions >= 0).all():
            return positions
        missing = order[int(np.argmin(positions))]
        reason = f"the label {_shown(missing)} of {reference} is not in {name}"
        default = [
            argument for argument, i in ((name, index), (reference, order)) if _is_default(i)
        ]
        if len(default) == 1:
            reason += f" ({default[0]} has the default index 0 to {len(order) - 1})"
    msg = (
        f"{name} and {reference} have different row indexes: {reason}. If row i of both is the same "
        f"person, {_BY_POSITION.format(name=name)}. Otherwise give both the same labels, each once."
    )
    raise ValueError(msg)


def _shown(label: Any) -> str:
    return repr(label.item() if isinstance(label, np.generic) else label)


def _reorder(name: str, value: Any, positions: Mapping[str, Any]) -> Any:
    columns = dict(_columns(name, value))
    if not columns.keys() & positions.keys():
        return value
    moved = [
        column.iloc[positions[label]] if label in positions else column
        for label, column in columns.items()
    ]
    return dict(zip(value, moved, strict=True)) if isinstance(value, Mapping) else moved[0]
