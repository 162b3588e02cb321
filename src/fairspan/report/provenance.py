"""Which data and which model a report is about: date, files, digests and options.

A digest is the SHA-256 of a file's bytes. Without a file it is that of the table as CSV, or of the fitted
parameters of the model.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairspan.estimators.predictors import FairPredictor
from fairspan.estimators.saved_state import state_to_save


def data_origin(frame: Any, data_file: Any) -> dict[str, Any]:
    """Identify the rows of a report.

    Parameters
    ----------
    frame : pandas DataFrame, all rows as they were given.
    data_file : path of the file that they come from, or None.

    Raises
    ------
    ValueError
        There is no such file.
    """
    if data_file is None:
        return {"data_file": None, "data_digest": table_digest(frame)}
    if not Path(data_file).is_file():
        raise ValueError(f"data_file={str(data_file)!r} is no file; name the file of the table.")
    return {"data_file": Path(data_file).name, "data_digest": file_digest(data_file)}


def model_origin(model: FairPredictor) -> dict[str, Any]:
    """Identify a model that is in no file."""
    return {"model_file": None, "model_digest": model_digest(model)}


def saved_model(path: Any) -> dict[str, Any]:
    """Identify a model by the file that it was saved in."""
    return {"model_file": Path(path).name, "model_digest": file_digest(path)}


def read_date(date: Any) -> str:
    """Return a date as 2024-05-31; None is today."""
    if date is None:
        return datetime.date.today().isoformat()
    if isinstance(date, datetime.date):
        return date.isoformat()[:10]
    try:
        return datetime.date.fromisoformat(date).isoformat()
    except (TypeError, ValueError) as error:
        msg = f"{date!r} is no date; give one such as 2024-05-31."
        raise ValueError(msg) from error


def file_digest(path: Any) -> str:
    """SHA-256 of the bytes of a file, as ``sha256sum`` prints it."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def table_digest(frame: Any) -> str:
    """SHA-256 of ``frame.to_csv(index=False)`` in UTF-8."""
    text = frame.to_csv(index=False, lineterminator="\n")
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def model_digest(model: FairPredictor) -> str:
    """SHA-256 of the fitted parameters: equal fits with equal versions have equal digests.

    Files of models are no measure of that: they contain times and numbers of objects.
    """
    state = state_to_save(model, model._fit_state, keep_moments=True, row_sketch=True)
    digest = hashlib.sha256()
    for part in _parts(state, ()):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _parts(value: Any, above: tuple[int, ...]) -> Iterator[bytes]:
    """The contents of an object as bytes; ``above`` are the objects that contain it."""
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield f"{type(value).__name__} {value!r}".encode("utf-8", "surrogatepass")
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield f"array {value.dtype.str} {value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, type) or not hasattr(value, "__reduce_ex__") or _is_function(value):
        yield f"name {_name(value)}".encode()
    elif id(value) in above:
        yield b"an object that contains this one"
    else:
        inside = _contents(value)
        yield f"{_name(type(value))} of {len(inside)}".encode()
        for part in inside:
            yield from _parts(part, (*above, id(value)))


def _contents(value: Any) -> Sequence[Any]:
    """What an object contains, in an order that does not depend on the process."""
    if isinstance(value, Mapping):
        return [part for item in value.items() for part in item]
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, np.ndarray):
        return [value.shape, *value.ravel().tolist()]
    reduced = value.__reduce_ex__(4)  # as copies are made, without a file
    if isinstance(reduced, str):
        return [reduced]
    made_by, arguments, *rest = reduced
    return [made_by, arguments, *(list(p) if isinstance(p, Iterator) else p for p in rest)]


def _is_function(value: Any) -> bool:
    return callable(value) and hasattr(value, "__qualname__")


def _name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
