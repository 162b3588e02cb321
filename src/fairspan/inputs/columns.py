"""Read columns from lists, arrays, Series and frames, and match the rows of several arguments.

Names and values of columns are checked. Rows are matched by row labels where there are any, otherwise
by position. Only pandas objects have row labels (an index). scikit-learn ignores them, which is harmless
for features and a target from the same table. Protected attributes and weights often come from a second
table, where the same labels may have another order. Reading such a column by position would give people
the group of somebody else, without an error.
"""

from __future__ import annotations

import decimal
import difflib
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse

from fairspan._system import refuse_bytes
from fairspan.exceptions import DataWarning, warn_user
from fairspan.method.linalg import to_numpy
from fairspan.method.problem import Attribute

__all__ = [
    "LARGEST",
    "align_rows",
    "as_array",
    "as_frame",
    "as_series",
    "column_names",
    "is_categorical",
    "is_temporal",
    "named_columns_of",
    "read_attribute",
    "read_attributes",
    "refuse_dates",
    "refuse_large",
    "refuse_merged",
    "refuse_mixed",
    "refuse_sparse",
    "require_columns",
    "row_index",
    "unmasked",
    "without_tensors",
]

# Squares of numbers up to here, and sums of such squares, are finite.
LARGEST = 1e150
_COLUMNS_SHOWN = 6
# Of no data frame library: narwhals asks each library in turn, which takes longer than a small array.
_PLAIN = frozenset((np.ndarray, np.ma.MaskedArray, list, tuple, dict, str, type(None)))


def _refuse_twice(names: list[Any], prefix: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        msg = f"{prefix} the column {twice!r} twice; give each column its own name, once."
        raise ValueError(msg)


def require_columns(names: Iterable[Any], columns: Sequence[str], given_by: str) -> None:
    """Raise if a name is not among the columns, with similar names; `given_by` begins the message."""
    known = set(columns)
    for name in names:
        if not isinstance(name, str) or name not in known:
            hint = _similar_columns(name, columns)
            raise ValueError(f"{given_by} the column {name!r}, which is not there. {hint}")


def _similar_columns(name: Any, columns: Sequence[str]) -> str:
    lower = {str(column).lower(): column for column in reversed(columns)}
    similar = difflib.get_close_matches(str(name).lower(), list(lower), n=3)
    if similar:
        return f"Did you mean {' or '.join(repr(lower[key]) for key in similar)}?"
    more = ", ..." if len(columns) > _COLUMNS_SHOWN else ""
    return f"Its columns: {', '.join(map(repr, columns[:_COLUMNS_SHOWN]))}{more}."


def _check_names(names: list[Any], role: str) -> None:
    """Raise unless column names differ, also after conversion to text."""
    _refuse_twice(names, f"{role} has")
    levels = next((name for name in names if isinstance(name, tuple)), None)
    if levels is not None:
        raise ValueError(
            f"{role} has columns with names of several levels, such as {levels!r}. Give each column one "
            f"name, e.g. table.columns = ['_'.join(map(str, name)) for name in table.columns]."
        )
    first: dict[str, Any] = {}
    for name in names:
        if str(name) in first:
            raise ValueError(
                f"{role} has the columns {first[str(name)]!r} and {name!r}, whose names are the same when "
                f"written as text. Rename one of them."
            )
        first[str(name)] = name


def as_frame(obj: Any, role: str) -> nw.DataFrame[Any] | None:
    """Return a data frame as a narwhals frame, None for other objects; check the column names."""
    if type(obj) in _PLAIN:
        return None
    # The `columns` of a pyarrow table are its values.
    _check_names(list(getattr(obj, "column_names", getattr(obj, "columns", ()))), role)
    out = nw.from_native(obj, eager_only=True, pass_through=True)
    return out if isinstance(out, nw.DataFrame) else None


def as_series(raw: Any) -> nw.Series[Any] | None:
    """Return a column of a data frame as a narwhals series, None for other objects."""
    out = raw if type(raw) in _PLAIN else nw.from_native(raw, series_only=True, pass_through=True)
    return out if isinstance(out, nw.Series) else None


# The oldest supported narwhals has no method for this.
def is_temporal(dtype: Any) -> bool:
    """Whether a column of this type holds dates, times or durations."""
    return "Date" in str(dtype) or "Time" in str(dtype) or "Duration" in str(dtype)


def unmasked(raw: Any) -> Any:
    """Return a masked array as a plain one with None for masked values, which np.asarray would show."""
    if not isinstance(raw, np.ma.MaskedArray):
        return raw
    if not np.ma.is_masked(raw):
        return np.asarray(raw)
    out = np.array(raw.data, dtype=object)  # not `filled`, where None means the default fill value
    out[np.ma.getmaskarray(raw)] = None
    return out


def as_array(raw: Any) -> np.ndarray:
    """Return an array of the values; NaN and numbers next to text in a list are not converted.

    ``np.asarray`` would turn them into text, so that 1 and "1" become one label and NaN becomes the
    label "nan". It also drops NUL characters at the end of text.
    """
    raw = unmasked(raw)
    array = np.asarray(raw)
    if array.dtype.kind == "U" and isinstance(raw, list | tuple):
        is_text = (isinstance(value, str) and not value.endswith("\0") for value in raw)
        return array if all(is_text) else np.array(raw, dtype=object)
    return array


def is_categorical(raw: Any) -> bool:
    """Whether the user declared categories: a pandas, polars or pyarrow column of that type."""
    if (series := as_series(raw)) is not None:
        return isinstance(series.dtype, nw.Categorical | nw.Enum)
    dtype = getattr(raw, "dtype", None)  # of pandas.Categorical and CategoricalIndex
    return getattr(dtype, "name", "") == "category" or type(raw).__name__ == "DictionaryArray"


def _is_missing(value: object) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


# The integers of numpy, which has none of 128 bits.
_INTEGERS = (
    *(nw.Int8, nw.Int16, nw.Int32, nw.Int64),
    *(nw.UInt8, nw.UInt16, nw.UInt32, nw.UInt64),
)


def read_attribute(name: str, raw: Any, role: str) -> Attribute:
    """Read one column, with its missing values; raise if its values cannot be used."""
    series = as_series(raw)
    declared = "U" if is_categorical(raw) else None
    if series is not None:
        if series.dtype in _INTEGERS:
            declared = "i"
        raw = series.to_numpy()
        if declared == "i" and raw.dtype.kind == "f" and series.null_count():
            refuse_merged(name, series.drop_nulls().to_numpy(), role)
    values = as_array(raw)
    refuse_bytes(values, f"{role} column {name!r}")
    if values.ndim != 1:
        msg = f"{role} column {name!r} has shape {values.shape}; give one value per row."
        raise ValueError(msg)
    missing = np.zeros(len(values), dtype=bool)
    listed: list[Any] = []
    values = _without_decimals(values)
    if values.dtype.kind == "O":
        missing = np.array([_is_missing(v) for v in values], dtype=bool)
        listed = values[~missing].tolist()
        refuse_mixed(listed, f"{role} column {name!r}")
        try:
            present = np.array(listed)
        except ValueError:  # sequences of several lengths
            present = np.empty((0, 0))
        if present.ndim != 1:
            raise ValueError(f"{role} column {name!r} holds sequences; give one value per row.")
    else:
        present = values
    kind = declared or present.dtype.kind
    if present.dtype.kind not in "biufU":
        raise ValueError(
            f"{role} column {name!r} has dtype {present.dtype}; give text, booleans, integers or "
            f"floats (turn dates into numbers, e.g. years)."
        )
    if kind in "bU":
        text = np.array([str(v) for v in present.tolist()], dtype=np.str_)
        _refuse_half_characters("".join(text.tolist()), f"{role} column {name!r}")
        if kind == "U" and any(str(v).endswith("\0") for v in listed):
            raise ValueError(
                f"{role} column {name!r} holds text that ends with a NUL character (\\x00), which NumPy "
                f'drops. Remove it first, e.g. with .str.rstrip("\\0").'
            )
        filled = np.full(len(values), "", dtype=text.dtype)
        filled[~missing] = text
        return Attribute(name, filled, missing, "b" if kind == "b" else "U")
    numeric = np.zeros(len(values))
    numeric[~missing] = present
    if present.dtype.kind in "iu":
        refuse_merged(name, present, role)
    elif values.dtype.kind == "O":  # NumPy reads 2^63 and -1, or integers and decimals, as floats
        whole = [value for value in listed if isinstance(value, numbers.Integral)]
        refuse_merged(name, np.array(whole, dtype=object), role)
    nan = np.isnan(numeric)
    if np.isinf(numeric).any():
        msg = f"{role} column {name!r} holds infinity in {int(np.isinf(numeric).sum())} rows."
        raise ValueError(msg)
    numeric[nan] = 0.0
    return Attribute(name, numeric, missing | nan, "i" if kind in "iu" else "f")


def _without_decimals(values: np.ndarray) -> np.ndarray:
    """Return an array of decimal.Decimal, as databases give them, as floats; others as they are."""
    if values.dtype.kind != "O" or values.ndim != 1:
        return values
    known = [value for value in values if not _is_missing(value)]
    if not known or not all(isinstance(value, decimal.Decimal) for value in known):
        return values
    return np.array([np.nan if _is_missing(value) else float(value) for value in values])


def refuse_dates(values: Any, label: str) -> None:
    """Raise if an array holds dates or durations: as numbers they depend on the unit of the array."""
    if getattr(getattr(values, "dtype", None), "kind", None) in ("m", "M"):
        raise ValueError(
            f"{label} holds dates or durations ({values.dtype}); give numbers, e.g. years or "
            f'durations / np.timedelta64(1, "D").'
        )


def refuse_mixed(values: list[Any], label: str) -> None:
    """Raise if a column mixes text and other values: 1 and "1" may or may not mean the same."""
    is_text = [isinstance(value, str) for value in values]
    if any(is_text) and not all(is_text):
        text, other = values[is_text.index(True)], values[is_text.index(False)]
        raise ValueError(
            f"{label} mixes text and other values, e.g. {text!r} and {other!r}. Give values of one type: "
            f"make them all text, with None for missing ones, or all numbers."
        )


def _refuse_half_characters(text: str, label: str) -> None:
    """Raise for lone surrogates (half characters), which can be neither written nor printed."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{label} holds text that is no valid Unicode ({text[error.start]!a}, half a character). Decode "
            f"the text again with the right encoding, or replace the character."
        ) from error


def refuse_merged(name: str, integers: np.ndarray, role: str) -> None:
    """Raise if different integers are equal as float64."""
    if not (np.abs(integers.astype(np.float64)) >= 2.0**53).any():
        return
    if len(np.unique(integers)) > len(np.unique(integers.astype(np.float64))):
        raise ValueError(
            f"{role} column {name!r} holds integers beyond 2^53 that are equal as floats, up to "
            f"{integers.max()}. Give them as text if they are names, or subtract their smallest."
        )


def refuse_large(what: str, largest: float) -> None:
    """Raise for numbers whose squares overflow."""
    raise ValueError(
        f"{what} holds {largest:.3g}, whose square is beyond the range of float64; numbers up to "
        f"{LARGEST:g} are taken. Rescale it."
    )


def _named_columns(raw: Any, role: str, prefix: str) -> list[tuple[str, Any]]:
    frame = as_frame(raw, role)
    if frame is not None:
        # Not frame[name]: a name that is a number would be read as the number of a row.
        return [(str(name), frame.get_column(name).to_native()) for name in frame.columns]
    if (series := as_series(raw)) is not None:
        return [(str(series.name) if series.name not in (None, "") else f"{prefix}_0", raw)]
    if isinstance(raw, Mapping):
        return [(str(name), column) for name, column in raw.items()]
    if is_categorical(raw):
        return [(f"{prefix}_0", raw)]
    if isinstance(raw, list | tuple):
        if raw and as_series(raw[0]) is not None:
            msg = f"{role} is a list of Series. Give a dict of columns by name, or a data frame."
            raise ValueError(msg)
        raw = np.array(raw, dtype=object)
    array = raw if isinstance(raw, np.ma.MaskedArray) else np.asarray(raw)
    if array.ndim == 1:
        return [(f"{prefix}_0", array)]
    if array.ndim == 2:
        return [(f"{prefix}_{j}", array[:, j]) for j in range(array.shape[1])]
    msg = f"{role} must be one column or a table of columns; got an array of shape {array.shape}."
    raise ValueError(msg)


def read_attributes(raw: Any, n: int, role: str, prefix: str) -> dict[str, Attribute]:
    """Read the columns of ``sensitive_features`` or ``control_features``, by name."""
    out: dict[str, Attribute] = {}
    for name, column in _named_columns(raw, role, prefix):
        _refuse_half_characters(name, f"a name in {role}")
        attribute = read_attribute(name, column, role)
        if len(attribute.values) != n:
            msg = f"{role} {name!r} has {len(attribute.values)} rows, X has {n}. Give one value per row of X."
            if attribute.dtype_kind == "U":
                msg += " (To name columns instead, X must be a data frame and the names text.)"
            raise ValueError(msg)
        if name in out:
            raise ValueError(f"{role} has two columns named {name!r}; give each its own name.")
        out[name] = attribute
    if not out:
        raise ValueError(f"{role} has no columns.")
    return out


def column_names(raw: Any) -> frozenset[str]:
    """Return the names that the user gave to columns."""
    frame = as_frame(raw, "sensitive_features")
    if frame is not None:
        return frozenset(map(str, frame.columns))
    if isinstance(raw, Mapping):
        return frozenset(map(str, raw))
    name = getattr(raw, "name", None)
    return frozenset([name]) if isinstance(name, str) else frozenset()


def named_columns_of(frame: nw.DataFrame[Any] | None, raw: Any, role: str) -> list[str] | None:
    """Return the names if ``raw`` names columns of X; None if it holds values."""
    if hasattr(raw, "tolist") and getattr(raw, "ndim", 0) == 1 and frame is not None:
        # A pandas Index or an array of names; a column of values is as long as X.
        listed = raw.tolist() if len(raw) < len(frame) else []
        raw = listed if listed and all(isinstance(v, str) for v in listed) else raw
    if isinstance(raw, str):
        names = [raw]
    elif isinstance(raw, list | tuple) and raw and all(isinstance(v, str) for v in raw):
        if frame is None or len(raw) == len(frame):
            return None  # values, one per row
        names = list(raw)
    else:
        return None
    if frame is None:
        msg = f"{role}={raw!r} names a column, but X is not a data frame. Give the values instead."
        raise ValueError(msg)
    unknown = [name for name in names if name not in frame.columns]
    if unknown and len(set(names)) < len(names):
        return None  # values that repeat, for another number of rows than X has
    if unknown:
        hint = _similar_columns(unknown[0], frame.columns)
        raise ValueError(f"{role} names the column {unknown[0]!r}, which X does not have. {hint}")
    _refuse_twice(names, f"{role} names")
    return names


def without_tensors(raw: Any) -> Any:
    """Return tensors, or a mapping of them, as arrays: beside an array X all else must be in arrays."""
    if isinstance(raw, Mapping):
        return {name: to_numpy(values) for name, values in raw.items()}
    return to_numpy(raw)


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
        if (index := row_index(column)) is not None
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
        raise ValueError(
            f"{reference} and {name} have different row indexes, and {first} has none, so their order "
            f"is unclear. Put them into the order of {first}, e.g. {name}.loc[{reference}.index], or "
            f"{_BY_POSITION.format(name=name)}."
        )
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


def refuse_sparse(**arguments: Any) -> None:
    """Raise if an argument that has a value per row is a sparse matrix or array."""
    for name, value in arguments.items():
        for column in value.values() if isinstance(value, Mapping) else [value]:
            if scipy.sparse.issparse(column):
                raise TypeError(
                    f"{name} is sparse, of shape {column.shape}. Only X may be sparse; give {name} as an "
                    f"array, e.g. {name}.toarray()."
                )


def row_index(column: Any) -> Any:
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
    raise ValueError(
        f"{name} and {reference} have different row indexes: {reason}. If row i of both is the same "
        f"person, {_BY_POSITION.format(name=name)}. Otherwise give both the same labels, each once."
    )


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
