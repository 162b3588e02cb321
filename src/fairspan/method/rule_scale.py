"""Error and real rates of a decision rule at many scales of its multipliers (METHOD 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.method.rate_codes import Limit, RateBlock

__all__ = ["SCALES", "Outcomes", "along_scales", "at_every_change"]

# Scales of the multipliers that are tried.
_STEP = 0.02
SCALES: Array = np.linspace(0.0, 2.0, 101)
# A margin that is 0 up to rounding is at this distance, in steps of the scale.
_ROUNDING = 1e-9
_BINS = 4096


class Rows(Protocol):
    """Rows on which rules are compared."""

    @property
    def utility(self) -> Array: ...
    @property
    def features(self) -> Array: ...
    @property
    def share(self) -> Array: ...
    @property
    def costs(self) -> Array: ...
    @property
    def blocks(self) -> tuple[RateBlock, ...]: ...
    @property
    def y(self) -> Codes: ...
    @property
    def selection_rate(self) -> float | None: ...


class Multipliers(Protocol):
    """Coefficients of a rule."""

    @property
    def code_coef(self) -> Array: ...
    @property
    def base_coef(self) -> Array: ...


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """Decisions at G scales.

    Attributes
    ----------
    scale, threshold, error : (G,)
    rates : for each block, (G, J, 1), or (G, J, K) with three or more classes.
    alike : (G,) largest share of rows with the same decision.
    """

    scale: Array
    threshold: Array
    error: Array
    rates: tuple[Array, ...]
    alike: Array

    def excess(self, limit: Limit, blocks: Sequence[RateBlock]) -> Array:
        """How far the rates of every scale are beyond a limit, (G,)."""
        return np.broadcast_to(limit.excess(self.rates, blocks), self.scale.shape)


def along_scales(rows: Rows, rule: Multipliers, scales: Array = SCALES) -> Outcomes:
    """Outcomes of a rule with its multipliers times each of ``scales``, a grid of steps of .02."""
    move = rows.features @ np.concatenate([rule.code_coef, rule.base_coef])
    if rows.utility.ndim > 1 or rows.selection_rate is not None:
        return _one_by_one(rows, move, scales)
    # A row is selected at the scales m with u - m move > 0: between two points of the grid.
    with np.errstate(divide="ignore", invalid="ignore"):
        change = rows.utility / move / _STEP
    change = np.clip(np.nan_to_num(change, posinf=1e6, neginf=-1e6), -1e6, 1e6)
    G, falls, rises = len(scales), move > 0.0, move < 0.0
    always = ~falls & ~rises & (rows.utility > 0.0)
    start, end = np.zeros(len(move)), np.full(len(move), float(G))
    end[falls] = np.ceil(change[falls] - _ROUNDING)
    start[rises] = np.floor(change[rises] + _ROUNDING) + 1.0
    start[~(falls | rises | always)] = G
    first, after = (np.clip(at, 0, G).astype(np.intp) for at in (start, end))
    return _selected_between(rows, scales, first, np.maximum(first, after))


def at_every_change(rows: Rows, rule: Multipliers) -> Outcomes | None:
    """Outcomes of two-class rules at all scales from 0 to 2 between which a decision changes.

    None for selection rates and several classes, whose decisions do not change once at most.
    """
    if rows.utility.ndim > 1 or rows.selection_rate is not None:
        return None
    move = rows.features @ np.concatenate([rule.code_coef, rule.base_coef])
    with np.errstate(divide="ignore", invalid="ignore"):
        change = rows.utility / move
    moves = (move != 0.0) & (change >= 0.0) & (change <= SCALES[-1])
    points = np.unique(change[moves])
    # Changes that differ by rounding are one.
    points = points[np.diff(points, prepend=-1.0) > _ROUNDING * _STEP]
    ends = np.concatenate([[0.0], points, [SCALES[-1]]])
    scales = np.concatenate([[0.0], (ends[1:] + ends[:-1]) / 2.0])
    G = len(scales)
    start, end = np.zeros(len(move), dtype=np.intp), np.full(len(move), G)
    selected = rows.utility > 0.0
    # The k-th change is between the scales k and k + 1; the scale 0 comes before all.
    number = np.searchsorted(points, change[moves] + _ROUNDING * _STEP, side="right")
    rises = move[moves] < 0.0
    at = number + 1
    rows_moving = np.flatnonzero(moves)
    start[rows_moving[rises]] = at[rises]
    end[rows_moving[~rises]] = at[~rises]
    start[~moves & ~selected] = G
    # A margin of 0 at the scale 0 is no selection.
    end[moves & (change == 0.0) & (move > 0.0)] = 0
    return _selected_between(rows, scales, start, np.maximum(start, end))


def _selected_between(rows: Rows, scales: Array, start: Codes, end: Codes) -> Outcomes:
    """Outcomes if row i is selected at the scales with numbers from start[i] up to end[i]."""
    G, w = len(scales), rows.share

    def mass(weight: Array, group: Codes, n_groups: int, of: Codes) -> Array:
        """Sum of weights at each scale and group, (G, groups)."""
        size = (G + 1) * n_groups
        enter = np.bincount(start[of] * n_groups + group, weight, size)
        leave = np.bincount(end[of] * n_groups + group, weight, size)
        return np.asarray(np.cumsum((enter - leave).reshape(G + 1, n_groups), axis=0)[:G])

    every, one = np.arange(len(w)), np.zeros(len(w), dtype=np.intp)
    gain = rows.costs[rows.y, 1] - rows.costs[rows.y, 0]
    error = float(w @ rows.costs[rows.y, 0]) + mass(w * gain, one, 1, every)[:, 0]
    selected = mass(w, one, 1, every)[:, 0]
    rates = []
    for block in rows.blocks:
        known = np.flatnonzero(block.member >= 0)
        sums = mass(w[known], block.member[known], block.n_groups, known)
        rates.append((np.clip(sums / block.share, 0.0, 1.0))[:, :, None])
    return Outcomes(
        scale=scales,
        threshold=np.zeros(G),
        error=error,
        rates=tuple(rates),
        alike=np.maximum(selected, 1.0 - selected),
    )


def _one_by_one(rows: Rows, move: Array, scales: Array) -> Outcomes:
    """Outcomes for several classes, or with a threshold for each scale that keeps the selection rate."""
    K, w = len(rows.costs), rows.share
    thresholds, errors, alike = np.zeros(len(scales)), np.zeros(len(scales)), np.zeros(len(scales))
    rates: list[list[Array]] = [[] for _ in rows.blocks]
    known = [np.flatnonzero(block.member >= 0) for block in rows.blocks]
    for g, scale in enumerate(scales):
        margin = rows.utility - scale * move
        if rows.selection_rate is None:
            decided = _first_largest(margin)
        else:
            thresholds[g] = threshold_for(margin, w, rows.selection_rate)
            decided = (margin > thresholds[g]).astype(np.intp)
        errors[g] = w @ rows.costs[rows.y, decided]
        alike[g] = np.bincount(decided, w, K).max()
        for block, inside, of_block in zip(rows.blocks, known, rates, strict=True):
            both = block.member[inside] * K + decided[inside]
            sums = np.bincount(both, w[inside], block.n_groups * K).reshape(-1, K)
            of_block.append(
                (sums / block.share[:, None])[:, 1:] if K == 2 else sums / block.share[:, None]
            )
    return Outcomes(
        scale=scales,
        threshold=thresholds,
        error=errors,
        rates=tuple(np.stack(of_block) for of_block in rates),
        alike=alike,
    )


def _first_largest(margin: Array) -> Codes:
    """Class of the largest margin; the first one of those that are equal up to rounding."""
    largest = margin.max(axis=1, keepdims=True)
    return np.asarray(np.argmax(margin >= largest - 1e-12 * np.abs(largest), axis=1))


def threshold_for(margin: Array, weight: Array, selection_rate: float) -> float:
    """Threshold above which rows have at most the share ``selection_rate`` of the weight.

    Lies halfway between the margins of the last row that is selected and the next one.
    """
    low, high = float(margin.min()), float(margin.max())
    if high <= low:
        return high
    # Only rows of the bin with the quantile need to be sorted.
    number = np.minimum(((margin - low) * (_BINS / (high - low))).astype(np.intp), _BINS - 1)
    above = np.cumsum(np.bincount(number, weight, _BINS)[::-1])[::-1]
    wanted = selection_rate * float(above[0]) * (1.0 + 1e-12)
    # First bin from above at which the weight exceeds what is wanted.
    last = int(np.flatnonzero(above > wanted)[-1])
    inside = np.flatnonzero(number == last)
    order = inside[np.argsort(-margin[inside], kind="stable")]
    beyond = float(above[last + 1]) if last + 1 < _BINS else 0.0
    total = beyond + np.cumsum(weight[order])
    at = int(np.flatnonzero(total > wanted)[0])
    value = float(margin[order[at]])
    # Margins that are equal up to rounding are on the same side.
    larger = margin[margin > value + 1e-10 * (high - low)]
    return (value + float(larger.min())) / 2.0 if len(larger) else value
