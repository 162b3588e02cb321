"""What a reader returns: a table, how it was read, and the signs of its numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairspan.encoding import number_columns
from fairspan.inputs.columns import require_columns
from fairspan.inputs.units import NO_UNIT, UNITS, same_unit, units_of

__all__ = ["ReadTable", "keep_units", "text_columns"]


@dataclass(frozen=True, kw_only=True)
class ReadTable:
    """A table and how it was read.

    Attributes
    ----------
    frame : pandas DataFrame; its index counts the rows from 0.
    assumed : what is unusual and was assumed, in words; "" if nothing is.
    options : arguments of `read_table` that read the file in the same way without a guess.
    counted : whether a first column without a name, which counts the rows, was left out.
    written : function that returns columns as the file has them, as text; None for types of its own.
    """

    frame: Any
    assumed: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    counted: bool = False
    written: Callable[[Collection[str]], Any] | None = None


def keep_units(frame: Any, found: Mapping[str, str], given: Mapping[str, str] | None = None) -> Any:
    """Record the signs of numbers on a table, for models to compare.

    Parameters
    ----------
    frame : pandas DataFrame; it may have signs already.
    found : signs that were taken off, by column.
    given : signs that the user gives for numbers without one; "none" takes one away.

    Raises
    ------
    ValueError
        A given sign is not that of the column, or the column has no numbers.
    """
    units = (units_of(frame) or {}) | dict(found)
    require_columns(given or (), list(frame.columns), "units= names")
    for name, unit in (given or {}).items():
        if frame[name].dtype.kind not in "iuf":
            raise ValueError(
                f"units= names {name!r}, which holds no numbers ({frame[name].dtype})."
            )
        old = units.pop(name, "")
        if unit == NO_UNIT:
            continue
        if old and not same_unit(old, unit):
            raise ValueError(f"units= gives {name!r} the sign {unit}, and its numbers have {old}.")
        units[name] = unit
    frame.attrs[UNITS] = units
    return frame


def text_columns(model: Any) -> list[str]:
    """Return the features to read as text for a fitted model.

    Read as text, a value does not depend on the other rows of its file: "01" is 1 only in a file
    without "1A".
    """
    # A reader of files turns texts into dates, as in training.
    numbers = number_columns(getattr(model, "encoder_", None))
    return [name for name in getattr(model, "text_features_", ()) if name not in numbers]
