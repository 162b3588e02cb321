"""Choice of the rows of a table: complete rows, and rows that are held out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan.inputs.columns import read_attribute
from fairspan.method.codes import Coder, infer_kind

__all__ = ["check_share", "complete_rows", "held_out_rows", "is_continuous"]

_LARGEST_WHOLE = 2.0**53  # floats cannot represent all integers beyond this
_SLICES = 4  # slices of a number within which rows are held out


def is_continuous(frame: Any, name: str) -> bool:
    """Whether a column is continuous, by the rule for protected attributes."""
    return infer_kind(read_attribute(name, frame[name], "table")) == "continuous"


def complete_rows(frame: Any, columns: Iterable[str]) -> Any:
    """Rows in which none of these columns is missing.

    Parameters
    ----------
    frame : pandas DataFrame
    columns : names of columns in which no value may be missing.

    Returns
    -------
    DataFrame
        The frame itself if nothing is missing. Columns that had missing values get the type they would
        have without: booleans and integers, which pandas keeps as objects and floats.
    """
    columns = list(dict.fromkeys(columns))
    missing = frame[columns].isna()
    incomplete = missing.any(axis=1)
    if not incomplete.any():
        return frame
    frame = frame.loc[~incomplete].copy()
    for name in missing.columns[missing.any(axis=0)]:
        # Integers stored as floats would be read as continuous.
        values = frame[name].infer_objects()
        whole = values.dtype.kind == "f" and not np.mod(values, 1.0).any()
        if whole and values.abs().max() >= _LARGEST_WHOLE:
            msg = (
                f"The column {name!r} has whole numbers beyond 2^53 and missing values; pandas stores them "
                f"as floats, which cannot tell such numbers apart. Write them as text (such as id-1), or "
                f"leave the incomplete rows out of the file."
            )
            raise ValueError(msg)
        frame[name] = values.astype(np.int64) if whole else values
    return frame


def check_share(share: float, says: str) -> None:
    """Raise ValueError for a share of held-out rows that is not between 0 and 1."""
    if not 0.0 < share < 1.0:
        raise ValueError(f"{says}{share:g} is not allowed; give a number between 0 and 1.")


def held_out_rows(
    frame: Any,
    columns: Iterable[str],
    *,
    kinds: Mapping[str, str] | None = None,
    share: float = 0.25,
    seed: int = 0,
    says: str = "share=",
) -> NDArray[np.bool_]:
    """Choose a random share of the rows, the same share of every class and group up to rounding.

    At least one row of every class and group is not held out.

    Parameters
    ----------
    frame : pandas DataFrame
    columns : the target and the protected attributes, complete.
    kinds : "categorical" or "continuous", by column, where the guess is wrong.
    share : share of the rows to hold out, between 0 and 1.
    seed : the same seed holds out the same rows.
    says : name of ``share`` in messages.

    Returns
    -------
    ndarray of bool
        True for the rows held out.
    """
    check_share(share, says)
    rng, n = np.random.default_rng(seed), len(frame)
    codes = []
    for name in columns:
        column = read_attribute(name, frame[name], "table")
        kind: Any = (kinds or {}).get(name) or infer_kind(column)
        codes.append(Coder.learn(column, kind, _SLICES).codes({name: column}))
    # Rows are sorted by group, in random order within groups; then every k-th row is taken.
    order = np.lexsort((rng.random(n), *reversed(codes)))
    taken = np.diff(np.floor(np.arange(n + 1) * share + rng.random())) > 0.0
    out = np.zeros(n, dtype=bool)
    out[order[taken]] = True
    for code in codes:
        # If all rows of a class or group were taken, one is put back to learn from.
        for level in np.setdiff1d(code[out], code[~out]):
            out[order[np.argmax(code[order] == level)]] = False
    if not out.any() or out.all():
        raise ValueError(f"{says}{share:g} of {n} rows leaves no rows on one side.")
    return out
