"""Which dial value to take, under a bound on parity or a budget of error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairspan._linalg import Array
from fairspan.exceptions import DataWarning, warn_user


@dataclass(frozen=True)
class Selection:
    """The numbers a dial value was chosen by, on the rows of the path.

    Attributes
    ----------
    fairness : float
        Place on the angle scale.
    error : float
        RMSE, or share of wrong classes.
    metric : str
        Name of the parity metric.
    value : float
        Its value there.
    attribute : str or None
        The attribute it was taken for; None is the worst of all.
    bound : float
        What was asked for.
    bound_on : {"metric", "error", "accuracy"}
        What the bound is on.
    met : bool
        Whether any dial value keeps the bound. If not, this is the nearest one.
    noise : float
        Sampling noise of a correlation on these rows.
    """

    fairness: float
    error: float
    metric: str
    value: float
    attribute: str | None
    bound: float
    bound_on: str
    met: bool
    noise: float


def one_bound(
    at_most: float | None, min_accuracy: float | None, max_error: float | None, *, classes: bool
) -> tuple[str, float]:
    """What the bound is on, and the bound; an error unless exactly one was given."""
    bounds = {"metric": at_most, "accuracy": min_accuracy, "error": max_error}
    given = [(on, float(bound)) for on, bound in bounds.items() if bound is not None]
    if len(given) != 1:
        msg = (
            "select takes exactly one bound: at_most (on the metric), min_accuracy or max_error, e.g. "
            "select('correlation', at_most=0.05) or select(min_accuracy=0.8)."
        )
        raise ValueError(msg)
    if given[0][0] == "accuracy" and not classes:
        msg = "min_accuracy is for classes; for a numeric target give max_error, an RMSE."
        raise ValueError(msg)
    return given[0]


def choose(metric: str, value: Array, error: Array, on: str, bound: float) -> tuple[int, bool]:
    """The cheapest place within the bound and True; or the nearest to it and False.

    Under a bound on the metric the price is the error, and the other way round; ties go to the better
    of the other number, then to the smaller dial value.
    """
    if not np.isfinite(value).all():
        msg = f"{metric} is not defined on these rows: a group has no rows, or the attribute is constant."
        raise ValueError(msg)
    kept, price = (value, error) if on == "metric" else (error, value)
    # An accuracy of 0.9 is an error of 0.1 whatever the rounding.
    inside = kept <= (1.0 - bound + 1e-12 if on == "accuracy" else bound)
    if not inside.any():
        return int(np.lexsort((price, kept))[0]), False
    places = np.flatnonzero(inside)
    return int(places[np.lexsort((kept[inside], price[inside]))[0]]), True


def warn_unless_met(found: Selection) -> None:
    """Say that no place keeps the bound, and which one comes nearest."""
    if found.met:
        return
    what = found.metric if found.bound_on == "metric" else found.bound_on
    sign = ">=" if what == "accuracy" else "<="
    nearest = {"metric": found.value, "error": found.error, "accuracy": 1.0 - found.error}
    warn_user(
        f"No dial value has {what} {sign} {found.bound:.4g}; the nearest, fairness "
        f"{found.fairness:.4g}, has {nearest[found.bound_on]:.4g}.",
        DataWarning,
    )
