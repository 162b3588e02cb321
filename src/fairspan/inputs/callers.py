"""What the callers of ``fit`` show about its arguments: rows whose labels a meta-estimator took off."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

import numpy as np

from fairspan.inputs.columns import row_index

__all__ = ["check_order"]


def check_order(X: Any, *columns: Any) -> None:
    """Raise if X came without its index from a meta-estimator that was given S or weights in another order.

    Some of scikit-learn's meta-estimators turn X into an array, and select rows of both by position.
    S of other people would then be used without an error. No argument shows it, so look among the
    callers, in this process and thread.
    """
    if row_index(X) is not None or not any(map(_indexed, columns)):
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        # The decorator of `fit` in scikit-learn has the arguments as the user passed them.
        if frame.f_globals.get("__name__") == "sklearn.base" and frame.f_code.co_name == "wrapper":
            _compare(frame.f_locals)
        frame = frame.f_back


def _indexed(given: Any) -> bool:
    columns = given.values() if isinstance(given, Mapping) else [given]
    return any(row_index(column) is not None for column in columns)


def _compare(call: Mapping[str, Any]) -> None:
    args, given = call.get("args") or (), call.get("kwargs") or {}
    X = args[0] if args else given.get("X")
    order = row_index(X)
    if order is None:
        return
    for name, value in given.items():
        columns = value.values() if isinstance(value, Mapping) else [value]
        for index in map(row_index, columns):
            if index is not None and len(index) == len(order) and not _same_order(index, order):
                raise ValueError(
                    f"{type(call.get('estimator')).__name__} was given X and {name} with different row "
                    f"indexes. Their rows cannot be matched, because X is passed on without its index. Put "
                    f"{name} into the order of X, {name}.loc[X.index], or pass values in this order without "
                    f"an index."
                )


def _same_order(index: Any, order: Any) -> bool:
    """Whether two indexes have equal labels in one order, whatever their types and time zones."""
    if index.equals(order):
        return True
    if not (index.is_unique and order.is_unique):
        return False
    return bool((index.get_indexer(order) == np.arange(len(order))).all())
