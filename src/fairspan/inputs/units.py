"""Signs of numbers, such as % and €, that a reader of files takes off: 12 % is 12.

A reader keeps them in ``frame.attrs``. A fit keeps those of its features, and rows to predict must have
the same, because 12 % may also be written as 0.12.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairspan.exceptions import DataWarning, warn_user

if TYPE_CHECKING:
    from fairspan.inputs.rows import FeatureReader

__all__ = ["NO_UNIT", "UNITS", "check_units", "compare_units", "same_unit", "units_of"]

# Entry of `frame.attrs`: the sign of each column that has one.
UNITS = "fairspan.units"
# The word of an option for a column without a sign.
NO_UNIT = "none"
_SAME = {"EUR": "€", "USD": "$", "GBP": "£", "INR": "₹", "PLN": "zł", "BRL": "R$", "kr.": "kr"}


def units_of(X: Any) -> dict[str, str] | None:
    """Return the signs of the columns of a table; None if it was not read from a file."""
    units = getattr(X, "attrs", {}).get(UNITS)
    if not isinstance(units, Mapping):
        return None
    return {k: v for k, v in units.items() if isinstance(k, str) and isinstance(v, str)}


def same_unit(a: str, b: str) -> bool:
    """Whether two signs mean one unit, as EUR and €."""
    return _SAME.get(a, a) == _SAME.get(b, b)


def compare_units(est: FeatureReader, X: Any, *, reset: bool) -> None:
    """Record the signs of the features of a fit, or compare those of new rows with them."""
    given = units_of(X)
    if reset:
        units = None if given is None else tuple((k, v) for k, v in given.items() if k in X.columns)
        if units != est._schema.units:
            est._schema = replace(est._schema, units=units)
        return
    trained = est._schema.units
    if given is None or trained is None:
        return
    columns = getattr(est, "feature_names_in_", ())
    names = [name for name in columns if name in X.columns and X[name].notna().any()]
    check_units(dict(trained), given, names)


def check_units(trained: Mapping[str, str], given: Mapping[str, str], names: Iterable[str]) -> None:
    """Raise if columns have other signs than in training; warn if only a currency is there or not.

    Parameters
    ----------
    trained, given : signs by column, in training and now.
    names : columns to compare, which have values.
    """
    of_currency = []
    for name in names:
        old, new = trained.get(name, ""), given.get(name, "")
        if same_unit(old, new):
            continue
        words = f"Column {name!r} had {_sign(old)} in training, and has {_sign(new)} here"
        if old and new:
            raise ValueError(f"{words}. Convert its numbers to {old}.")
        option = shlex.quote(f"{name}={old or NO_UNIT}")
        confirm = f"--unit {option} (in Python, units={{{name!r}: {old or NO_UNIT!r}}})"
        if "%" in (old, new):
            raise ValueError(
                f"{words}: 12 % is read as 12, and 0.12 as 0.12. Write the column as in training; or, if its "
                f"numbers mean the same as there, say so when the file is read: {confirm}."
            )
        of_currency.append(
            f"{words}; the numbers are taken as they are. If they are in another currency, convert them. If "
            f"they are in the same one, {confirm} says so."
        )
    for text in of_currency:  # after all errors
        warn_user(text, DataWarning)


def _sign(unit: str) -> str:
    return f"the sign {unit}" if unit else "no sign"
