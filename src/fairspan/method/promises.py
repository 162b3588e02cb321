"""Choice of a dial value, by measured values or by upper confidence bounds on new rows (METHOD 12).

At each dial value, the hypothesis is that the limit is broken on new rows; a bound within the limit rejects
it. The values are tested in an order that does not depend on the rows, up to the first that is not rejected.
A promise is then wrong only if the *first* true hypothesis of the order is rejected, so the error probability
is that of one bound, for any number of dial values and for bounds that are not monotone (fixed-sequence
testing; Angelopoulos et al., Learn then Test, 2021).
"""

from __future__ import annotations

import numpy as np

from fairspan.method.linalg import Array
from fairspan.method.problem import Codes


def choose(metric: str, value: Array, error: Array, on: str, bound: float) -> tuple[int, bool]:
    """Index of the best measured dial value within the bound and True; or of the nearest and False.

    Under a bound on the metric the smallest error is best, and the other way round. Ties go to the
    smaller bounded quantity, then to the smaller dial value.
    """
    if not np.isfinite(value).all():
        msg = f"{metric} is not defined on these rows: a group has no rows, or the attribute is constant."
        raise ValueError(msg)
    bounded, price = (value, error) if on == "metric" else (error, value)
    # The tolerance makes an accuracy of 0.9 the same bound as an error of 0.1.
    inside = bounded <= (1.0 - bound + 1e-12 if on == "accuracy" else bound)
    if not inside.any():
        return int(np.lexsort((price, bounded))[0]), False
    allowed = np.flatnonzero(inside)
    return int(allowed[np.lexsort((bounded[inside], price[inside]))[0]]), True


def promised(upper: Array, start: int, step: int, limit: float) -> Codes:
    """Dial values, from ``start`` in steps of ``step``, before the first whose bound exceeds the limit."""
    order = np.arange(start, len(upper) if step > 0 else -1, step)
    broken = np.flatnonzero(~(upper[order] <= limit))
    return order[: broken[0]] if len(broken) else order


def start_is_searched(fairness: Array) -> bool:
    """Whether the fair end is looked for on the rows: beyond 1 it is where the bound is least.

    The start then depends on the rows. Only two-sided bounds allow that: at the start the estimate is near
    its minimum, so that a deviation to either side can break the limit.
    """
    return bool(fairness[-1] > 1.0)


def keep_limit(fairness: Array, error: Array, upper: Array, limit: float) -> tuple[int, Codes]:
    """Most accurate dial value with a promised limit, and all promised ones; else the fair end and none."""
    start = int(np.argmin(np.abs(fairness - 1.0)))
    if start_is_searched(fairness) and np.isfinite(upper).any():
        start = int(np.nanargmin(upper))
    allowed = promised(upper, start, -1, limit)
    return (int(allowed[np.argmin(error[allowed])]) if len(allowed) else start), allowed


def keep_budget(value: Array, upper: Array, limit: float) -> tuple[int, Codes]:
    """Fairest dial value with a promised error, and all promised ones; else fairness 0 and none.

    The order begins at fairness 0, the accurate end, whatever the errors on the rows are.
    """
    allowed = promised(upper, 0, 1, limit)
    return (int(allowed[np.argmin(value[allowed])]) if len(allowed) else 0), allowed


def rows_needed(
    n: int, value: float, upper: float, limit: float, *, may_be_noise: bool = True
) -> int | None:
    """About how many rows would promise a limit that n rows do not promise; None if more rows do not help.

    The margin shrinks with the root of the rows. The value stays, unless it may be noise: the margin is
    larger than both the limit and the value, so that the rows agree with a value of 0.
    """
    margin = upper - value
    noise = may_be_noise and margin > limit and margin >= value
    room = limit if noise else limit - value
    if not (0.0 < margin < np.inf and room > 0.0):
        return None
    return int(np.ceil(n * (margin / room) ** 2))
