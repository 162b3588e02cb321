"""Checks that moments can be those of rows: counts, weights, means and second moments fit together.

Moments that come from another place, or from a subtraction, may belong to no rows at all. The checks find
counts and weights below zero, sums that contradict each other, and second moments that are not positive
semidefinite. They cannot find numbers that other rows would have given.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.linalg

from fairspan.method.linalg import Array
from fairspan.method.moments import Moments

__all__ = ["inconsistency"]

# Sums of up to a million numbers lose about 1e-13 of their size, and Chan's terms no more.
_TOL = 1e-9
# Squares of larger numbers overflow.
_LARGEST = 1e140


def inconsistency(moments: Moments, *, slack: Array | None = None) -> str | None:
    """Say why these are the moments of no rows; None if nothing speaks against them.

    Parameters
    ----------
    moments : Moments
    slack : (G,), optional
        Rounding of each group's scatter that is known, in units of its trace.

    Returns
    -------
    str or None
        The second half of a sentence about the moments.
    """
    found = _numbers(moments) or _counts(moments)
    if found is not None:
        return found
    bounds = np.cumsum((0, *moments.level_sizes))
    for g in np.flatnonzero(moments.rows):
        tol = _TOL + (0.0 if slack is None else float(slack[g]))
        for a, b in pairwise(bounds):
            found = found or _levels(moments, int(g), slice(int(a), int(b)), tol)
        found = found or _columns(moments, int(g), tol) or _scatter(moments, int(g), bounds, tol)
        if found is not None:
            return found
    return None


def _numbers(m: Moments) -> str | None:
    """Finite numbers, none of those below zero that cannot be."""
    for name, value in vars(m).items():
        if isinstance(value, np.ndarray | float) and not np.isfinite(value).all():
            return f"{name} holds a number that is not finite"
        if isinstance(value, np.ndarray | float) and np.abs(value).max(initial=0.0) > _LARGEST:
            return f"{name} holds a number above {_LARGEST:g}"
    signed = ("mean", "scatter", "level_mean", "column_mean", "column_centre", "column_cross")
    for name, value in vars(m).items():
        if isinstance(value, np.ndarray) and name not in (*signed, "first_row"):
            scale = float(np.abs(value).max(initial=0.0))
            if value.min(initial=0) < -_TOL * scale:
                return f"{name} holds a number below zero"
    return None


def _counts(m: Moments) -> str | None:
    """Weights and numbers of rows that some weights can have, and parts that are not above the whole."""
    for kind in ("", "level_", "column_"):
        weight, weight2, rows = (getattr(m, f"{kind}{n}") for n in ("weight", "weight2", "rows"))
        what = {"": "a group", "level_": "a level", "column_": "a numeric variable"}[kind]
        if ((rows == 0) != (weight <= 0.0)).any() or ((rows == 0) != (weight2 <= 0.0)).any():
            return f"{what} has rows without weight, or weight without rows"
        # n positive weights have (sum w)^2 / n <= sum w^2 <= (sum w)^2.
        low, high = weight**2 * (1.0 - _TOL), rows * weight2 * (1.0 + _TOL)
        if (low > high).any() or (weight2 * (1.0 - _TOL) > weight**2).any():
            return f"{what} has weights that no rows have"
        one = rows == 1
        if (np.abs(weight2 - weight**2)[one] > _TOL * weight2[one]).any():
            return f"{what} has weights that no rows have"
    bounds = np.cumsum((0, *m.level_sizes))
    for a, b in pairwise(bounds):
        if (m.level_rows[:, a:b].sum(axis=1) > m.rows).any():
            return "the levels of a variable have more rows than their group"
        if (m.level_weight[:, a:b].sum(axis=1) > m.weight * (1.0 + _TOL)).any():
            return "the levels of a variable have more weight than their group"
    if (m.column_rows > m.rows[:, None]).any() or (
        m.column_weight > m.weight[:, None] * (1.0 + _TOL)
    ).any():
        return "a numeric variable has more rows than its group"
    return None


def _spread(m: Moments, g: int) -> Array:
    """Diagonal of the scatter, and what rounding of the mean may add to it."""
    size = m.weight[g] * m.mean[g] ** 2
    return np.asarray(np.maximum(np.diag(m.scatter[g]), 0.0) + _TOL * size)


def _levels(m: Moments, g: int, part: slice, tol: float) -> str | None:
    """Means of levels average to the group's mean if no row is without a level."""
    if m.level_rows[g, part].sum() != m.rows[g]:
        return None
    total = m.level_weight[g, part] @ m.level_mean[g, part]
    off = np.abs(total - m.weight[g] * m.mean[g])
    allowed = tol * m.weight[g] * (np.abs(m.mean[g]) + np.sqrt(_spread(m, g) / m.weight[g]))
    if abs(m.level_weight[g, part].sum() - m.weight[g]) > tol * m.weight[g]:
        return "the levels of a variable have another weight than their group"
    if (off > 10.0 * allowed + 1e-300).any():
        return "the means of a variable's levels do not average to the mean of their group"
    return None


def _columns(m: Moments, g: int, tol: float) -> str | None:
    """Cauchy and Schwarz for the products with numeric variables."""
    square, cross = m.column_square[g], m.column_cross[g]
    size = square + tol * m.column_weight[g] * m.column_mean[g] ** 2
    most = np.sqrt(size[:, None] * (_spread(m, g) * (1.0 + tol))[None, :])
    if (np.abs(cross) > most * (1.0 + 1e-6) + 1e-300).any():
        return (
            "the products of a numeric variable with the columns are larger than its square allows"
        )
    return None


def _scatter(m: Moments, g: int, bounds: Array, tol: float) -> str | None:
    """The scatter is at least what levels and numeric variables explain of it."""
    scatter = m.scatter[g]
    trace = float(np.trace(scatter))
    size = max(trace, float(_spread(m, g).sum()))
    if np.abs(scatter - scatter.T).max(initial=0.0) > tol * size:
        return "the second moments of the columns are not symmetric"
    within = [scatter]
    for a, b in pairwise(bounds):
        w, means = m.level_weight[g, a:b], m.level_mean[g, a:b]
        rest = m.weight[g] - w.sum()
        if rest > _TOL * m.weight[g]:  # rows without a level are one more
            mean = (m.weight[g] * m.mean[g] - w @ means) / rest
            w, means = np.append(w, rest), np.vstack([means, mean])
        gaps = (means - m.mean[g]) * np.sqrt(w)[:, None]
        within.append(scatter - gaps.T @ gaps)
    for cross, square in zip(m.column_cross[g], m.column_square[g], strict=True):
        if square > 0.0:
            within.append(scatter - np.outer(cross, cross) / square)
    for matrix in within:
        if not _is_psd(matrix, 10.0 * tol * size):
            return "the second moments of the columns are not positive semidefinite"
    return None


def _is_psd(matrix: Array, tol: float) -> bool:
    """Whether all eigenvalues are above ``-tol``; a factorisation is faster than eigenvalues."""
    shifted = matrix + np.diag(np.full(len(matrix), tol + 1e-300))
    try:
        scipy.linalg.cholesky((shifted + shifted.T) / 2.0, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return False
    return True
