"""Subtract the moments of some rows, and refuse where no moments of rows, or too few digits, remain.

Chan's formulas run backwards: with the total (T, m, S) and the part (T_b, m_b, S_b), the rest has
``T_a = T - T_b``, ``m_a = m + (T_b / T_a) (m - m_b)`` and
``S_a = S - S_b - (T_a T_b / T) (m_b - m_a)(m_b - m_a)'``.

Rounding. Each entry of S and S_b is known to about eps of its group's trace. What remains has the same
absolute error, but a smaller trace. :attr:`Moments.rounding` adds these errors up over differences, so
windows that add a day and subtract another for years are covered too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairspan.exceptions import IncompatibleMomentsError, NumericalError
from fairspan.method.consistency import inconsistency
from fairspan.method.linalg import Array
from fairspan.method.moments import Integers, Moments
from fairspan.method.row_sketch import RowSketch

__all__ = ["LEAST_DIGITS", "subtract"]

# A difference whose scatter is known to fewer digits than this (relative to its trace) is refused: the
# ridge of a fit is larger, so predictions keep about as many digits.
LEAST_DIGITS = 1e-9
# Rounding of one entry of a scatter that was summed over blocks, in units of the trace.
_EPS = 8 * np.finfo(np.float64).eps

# What is below zero by more than so many roundings is not rounding.
_SURELY = 1e3

_REFIT = "Fit the model again on the rows that remain."


def subtract(total: Moments, part: Moments) -> Moments:
    """Compute the moments of the rows of ``total`` that are not those of ``part``.

    Raises
    ------
    IncompatibleMomentsError
        If the two belong to different pilots.
    ValueError
        If the rows of ``part`` cannot all have been among those of ``total``.
    NumericalError
        If too few digits of the rest are known.
    """
    if total.fingerprint != part.fingerprint:
        raise IncompatibleMomentsError(
            f"Moments of another pilot cannot be subtracted ({total.fingerprint[:12]} here, "
            f"{part.fingerprint[:12]} there)."
        )
    if total.level_pairs is not None:
        raise ValueError(
            f"Moments with sensitive_kind='probabilities' have no subtraction. {_REFIT}"
        )
    _check_counts(total, part)
    rest = _difference(total, part)
    rounding = _rounding(total, part)
    if (_sizes(rest) < -_SURELY * rounding).any():
        raise _never_fitted("a variance is below zero")
    slack = _relative(rounding, rest)
    worst = float(slack.max(initial=0.0))
    if worst > LEAST_DIGITS:
        raise NumericalError(
            f"Only {int(max(-np.log10(worst), 0.0))} digits of the rest would be known after these rows are "
            f"subtracted, because they dominate the sums; at least {-np.log10(LEAST_DIGITS):.0f} are "
            f"needed. {_REFIT}"
        )
    if (why := inconsistency(rest, slack=slack)) is not None:
        raise _never_fitted(why)
    return replace(rest, rounding=rounding, row_sketch=_sketch_of_rest(total, part))


def _never_fitted(why: str) -> ValueError:
    return ValueError(
        f"These rows, with these labels, groups and weights, were not all part of the fit: without them, "
        f"{why}. Give the rows as they were fitted. If they are right: {_REFIT[0].lower()}{_REFIT[1:]}"
    )


def _sketch_of_rest(total: Moments, part: Moments) -> RowSketch | None:
    """Sketch of what is left; one that does not know all rows is dropped, and not compared."""
    sketch, gone = total.row_sketch, part.row_sketch
    if sketch is None or gone is None or sketch.rows != total.n_rows or gone.rows != part.n_rows:
        return None
    return sketch - gone


def _check_counts(total: Moments, part: Moments) -> None:
    for name in ("rows", "level_rows", "column_rows"):
        more = getattr(part, name) > getattr(total, name)
        if more.any():
            n = int((getattr(part, name) - getattr(total, name))[more].max())
            raise ValueError(
                f"These rows were not all part of the fit: in one cell, fold and group there are {n} more to "
                f"forget than were fitted. Give the rows as they were fitted, with the same y, "
                f"sensitive_features and weights."
            )


def _difference(total: Moments, part: Moments) -> Moments:
    rows = total.rows - part.rows
    weight = _left(total.weight, part.weight, rows)
    mean, gap, factor = _mean_of_rest(total.weight, total.mean, part.weight, part.mean, weight)
    scatter = total.scatter - part.scatter
    for g in np.flatnonzero(part.weight):
        scatter[g] = scatter[g] - factor[g] * np.outer(gap[g], gap[g]) if rows[g] > 1 else 0.0
    level_rows = total.level_rows - part.level_rows
    level_weight = _left(total.level_weight, part.level_weight, level_rows)
    level_mean, _, _ = _mean_of_rest(
        total.level_weight, total.level_mean, part.level_weight, part.level_mean, level_weight
    )
    v_rows = total.column_rows - part.column_rows
    v_weight = _left(total.column_weight, part.column_weight, v_rows)
    centre, centre_gap, factor = _mean_of_rest(
        total.column_weight, total.column_centre, part.column_weight, part.column_centre, v_weight
    )
    v_mean, v_gap, _ = _mean_of_rest(
        total.column_weight, total.column_mean, part.column_weight, part.column_mean, v_weight
    )
    square = total.column_square - part.column_square - factor * v_gap**2
    cross = total.column_cross - part.column_cross - (factor * v_gap)[..., None] * centre_gap
    known = v_rows > 1  # the square of one row about itself is 0
    return replace(
        total,
        weight=weight,
        weight2=_left(total.weight2, part.weight2, rows),
        rows=rows,
        mean=mean,
        scatter=scatter,
        level_weight=level_weight,
        level_weight2=_left(total.level_weight2, part.level_weight2, level_rows),
        level_rows=level_rows,
        level_mean=level_mean,
        column_weight=v_weight,
        column_weight2=_left(total.column_weight2, part.column_weight2, v_rows),
        column_rows=v_rows,
        column_mean=v_mean,
        column_square=np.where(known, square, 0.0),
        column_centre=centre,
        column_cross=np.where(known[..., None], cross, 0.0),
        sum_log_weight=total.sum_log_weight - part.sum_log_weight,
        # The first row may be among those to forget, so nothing of it stays.
        first_index=-1,
        first_row=np.zeros_like(total.first_row),
    )


def _left(total: Array, part: Array, rows: Integers) -> Array:
    """Weight that is left, exactly 0 where no row is."""
    left = total - part
    if (np.abs(left)[rows == 0] > 1e-9 * total[rows == 0]).any():
        raise ValueError(
            "These rows were fitted with other weights: the same number of rows has another weight. Give "
            "the same sample_weight."
        )
    return np.where(rows == 0, 0.0, left)


def _mean_of_rest(
    w: Array, mean: Array, wb: Array, b: Array, wa: Array
) -> tuple[Array, Array, Array]:
    """Mean of the rest, ``b`` less that mean, and ``T_a T_b / T``; zeros where nothing is left."""
    some = wa > 0.0
    extra = (1,) * (mean.ndim - w.ndim)
    ratio = np.where(some, wb / np.where(some, wa, 1.0), 0.0).reshape(w.shape + extra)
    a = np.where(some.reshape(w.shape + extra), mean + ratio * (mean - b), 0.0)
    return a, b - a, wa * wb / np.where(w > 0.0, w, 1.0)


# --------------------------------------------------------------------------- rounding


def _rounding(total: Moments, part: Moments) -> Array:
    """Rounding of the trace of the scatter and of the numeric variables' squares, (G, 1 + V)."""
    G, V = total.column_square.shape
    out = np.zeros((G, 1 + V))
    for m in (total, part):
        out += 0.0 if m.rounding is None else m.rounding
        mean = np.einsum("gd,gd->g", m.mean, m.mean)
        # A mean is known to eps of its size, so its square costs a scatter eps^2 of it.
        size = _sizes(m) + _EPS * np.column_stack([mean, m.column_mean**2]) * m.weight[:, None]
        out += _EPS * np.where(part.rows[:, None] > 0, size, 0.0)
    gap = part.mean - total.mean
    out[:, 0] += _EPS * part.weight * np.einsum("gd,gd->g", gap, gap)
    out[:, 1:] += _EPS * part.column_weight * (part.column_mean - total.column_mean) ** 2
    return out


def _sizes(m: Moments) -> Array:
    """Trace of the scatter, and squares of the numeric variables, (G, 1 + V)."""
    return np.column_stack([np.einsum("gdd->g", m.scatter), m.column_square])


def _relative(rounding: Array, rest: Moments) -> Array:
    """Largest rounding of each group in units of what is left, (G,)."""
    size = np.maximum(_sizes(rest), np.finfo(np.float64).tiny)
    # A single row has no scatter, so nothing of it is rounding.
    some = np.column_stack([rest.rows, rest.column_rows]) > 1
    with np.errstate(over="ignore"):
        return np.asarray(np.where(some, rounding / size, 0.0).max(axis=1))
