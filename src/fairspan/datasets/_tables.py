"""What the loaders of downloaded data share: from a checked file to a `Bunch`."""

import csv
import io
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from fairspan.datasets._files import DataFile, find, read, require

__all__ = ["Parts", "as_csv", "fetch", "seeded_split", "zscored"]


class Parts(NamedTuple):
    """A data set taken apart; `train` and `test` are row numbers, for protocol "paper"."""

    data: Any
    target: Any
    sensitive: Any
    train: Any = None
    test: Any = None


def fetch(file: DataFile, descr, protocols, caller, *, data_home, as_frame, return_X_y, protocol):
    """Read a file, take it apart by one of `protocols` (name to function), pack the parts."""
    if protocol not in protocols:
        raise ValueError(f"`protocol` must be one of {list(protocols)}, got {protocol!r}")
    pandas = require("pandas", caller)
    path = find(file, data_home, caller)
    # Empty fields alone are missing: "none" is an industry, "NA" could be a code.
    text = io.BytesIO(read(file, path))
    table = pandas.read_csv(text, keep_default_na=False, na_values=[""])
    parts = protocols[protocol](table.copy())  # `frame` must not follow what users do to `target`
    if protocol == "paper":
        table = pandas.concat([parts.data, parts.sensitive, parts.target], axis="columns")
    return _bunch(parts, table, descr, str(path), as_frame, return_X_y)


def zscored(frame, *, ddof: int, order):
    """Columns minus their mean over their standard deviation, over all rows.

    `order` is the memory order of the sums: it moves the last digits, and each of the paper's files
    agrees with one of the two.
    """
    values = np.array(frame, dtype=np.float64, order=order)
    values = (values - values.mean(axis=0)) / values.std(axis=0, ddof=ddof)
    return type(frame)(values, columns=frame.columns)


def seeded_split(n_rows: int, n_train: int):
    """Rows of train and test where the paper's own split is unknown."""
    order = np.random.default_rng(0).permutation(n_rows)
    return order[:n_train], order[n_train:]


def as_csv(rows) -> bytes:
    """Rows of fields as the text of a file: commas, quotes only where needed, line feeds."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _bunch(parts: Parts, table, descr, filename, as_frame, return_X_y):
    data, target, sensitive = parts.data, parts.target, parts.sensitive
    names = list(data.columns), [target.name], list(sensitive.columns)
    if not as_frame:
        data, target, sensitive, table = _array(data), target.to_numpy(), _array(sensitive), None
    if return_X_y:
        return data, target
    split = {} if parts.train is None else {"train": parts.train, "test": parts.test}
    return Bunch(
        data=data,
        target=target,
        sensitive_features=sensitive,
        frame=table,
        feature_names=names[0],
        target_names=names[1],
        sensitive_names=names[2],
        DESCR=descr,
        filename=filename,
        **split,
    )


def _array(frame):
    """Float64 if every column is a number, objects (missing: NaN) otherwise."""
    numeric = len(frame.select_dtypes("number").columns) == frame.shape[1]
    return frame.to_numpy(dtype=np.float64 if numeric else object)
