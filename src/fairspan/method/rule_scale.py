"""Error and real rates of a decision rule at many scales of its multipliers (METHOD 13)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.method.rate_codes import Limit, RateBlock

__all__ = ["SCALES", "Outcomes", "along_scales", "at_every_change"]

# Rates closer to 0 or 1 than this have the noise of this rate: a rate of 0 in few rows is not exact.
_LEAST_RATE = 0.01

# Scales of the multipliers that are tried.
SCALES: Array = np.linspace(0.0, 2.0, 101)
# Scales that differ by less are equal up to rounding.
_ROUNDING = 1e-11
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
    @property
    def group_rows(self) -> tuple[Array, ...] | None: ...


class Multipliers(Protocol):
    """Coefficients of a rule."""

    @property
    def code_coef(self) -> Array: ...
    @property
    def base_coef(self) -> Array: ...


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """Decisions at G scales."""

    scale: Array  # (G,)
    threshold: Array  # (G,)
    error: Array  # (G,)
    rates: tuple[Array, ...]  # for each block, (G, J, 1), or (G, J, K) with three or more classes
    # The same without the noise of small groups; limits are compared with these.
    steady_rates: tuple[Array, ...]
    alike: Array  # (G,) largest share of rows with the same decision

    def excess(self, limit: Limit, blocks: Sequence[RateBlock]) -> Array:
        """How far the rates of every scale are beyond a limit, (G,)."""
        return np.broadcast_to(limit.excess(self.steady_rates, blocks), self.scale.shape)


def along_scales(rows: Rows, rule: Multipliers, scales: Array = SCALES) -> Outcomes:
    """Outcomes of a rule with its multipliers times each of ``scales``, in rising order from 0."""
    move = rows.features @ np.concatenate([rule.code_coef, rule.base_coef])
    if rows.selection_rate is not None:
        return _one_by_one(rows, move, scales, rows.selection_rate)
    return _after_changes(rows, _changes(rows.utility, move, float(scales[-1])), scales)


def at_every_change(rows: Rows, rule: Multipliers) -> Outcomes | None:
    """Outcomes at one scale between any two from 0 to 2 at which a decision changes.

    None with a selection rate, as the threshold then changes with the scale.
    """
    if rows.selection_rate is not None:
        return None
    move = rows.features @ np.concatenate([rule.code_coef, rule.base_coef])
    changes = _changes(rows.utility, move, float(SCALES[-1]))
    ends = np.unique(np.concatenate([[0.0], changes.scale, SCALES[-1:]]))
    # Changes that differ by rounding are one.
    ends = ends[np.diff(ends, prepend=-1.0) > 2.0 * _ROUNDING]
    return _after_changes(rows, changes, np.concatenate([[0.0], (ends[1:] + ends[:-1]) / 2.0]))


@dataclass(frozen=True, kw_only=True)
class _Changes:
    """Decisions at the scale 0, (n,), and every change of one: row, scale, class before and after."""

    first: Codes
    row: Codes
    scale: Array
    before: Codes
    after: Codes


def _changes(utility: Array, move: Array, last: float) -> _Changes:
    """Changes of the decision up to a scale, for margins ``utility - scale * move``.

    The largest margin of K classes is convex in the scale, so a row has at most K - 1 changes.
    """
    if utility.ndim == 1:
        selected = utility > 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = utility / move
        row = np.flatnonzero(np.where(selected, move > 0.0, move < 0.0) & (scale <= last))
        first, before = selected.astype(np.intp), selected[row].astype(np.intp)
        return _Changes(first=first, row=row, scale=scale[row], before=before, after=1 - before)
    first = _first_largest(utility)
    active, now, at = np.arange(len(first)), first, np.zeros(len(first))
    found = []
    for _ in range(utility.shape[1] - 1):
        u, m, own = utility[active], move[active], now[:, None]
        faster = np.take_along_axis(m, own, axis=1) - m
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = (np.take_along_axis(u, own, axis=1) - u) / faster
        scale = np.where(faster > 0.0, np.maximum(scale, at[:, None]), np.inf)
        soonest = scale.min(axis=1)
        # Of classes that are reached at the same scale, the one whose margin rises most.
        after = np.argmin(np.where(scale <= soonest[:, None] + _ROUNDING, m, np.inf), axis=1)
        changes = soonest <= last
        active, at, before, now = active[changes], soonest[changes], now[changes], after[changes]
        found.append((active, at, before, now))
    row, scale, before, after = (np.concatenate(part) for part in zip(*found, strict=True))
    return _Changes(first=first, row=row, scale=scale, before=before, after=after)


def _after_changes(rows: Rows, changes: _Changes, scales: Array) -> Outcomes:
    """Outcomes at given scales, from the decisions at the scale 0 and their changes."""
    G, K, w = len(scales), len(rows.costs), rows.share
    row, before, after = changes.row, changes.before, changes.after
    # Of two margins that are equal up to rounding, the first class is chosen.
    from_it = np.searchsorted(scales, changes.scale - _ROUNDING, side="left")
    past_it = np.searchsorted(scales, changes.scale + _ROUNDING, side="right")
    number = np.where(after < before, from_it, past_it)

    def total(value: Callable[[Codes, Codes], Array], group: Codes, n_groups: int) -> Array:
        """Sum over rows of a value of row and decision, (G, groups); groups of -1 are skipped."""
        known, use = np.flatnonzero(group >= 0), group[row] >= 0
        start = np.bincount(group[known], value(known, changes.first[known]), n_groups)
        step = value(row[use], after[use]) - value(row[use], before[use])
        at = number[use] * n_groups + group[row[use]]
        steps = np.bincount(at, step, (G + 1) * n_groups).reshape(G + 1, n_groups)[:G]
        return np.asarray(start + np.cumsum(steps, axis=0))

    def masses(group: Codes, n_groups: int) -> Array:
        """Weight of every class, (G, groups, K); of two classes only that of the second."""

        def of_class(k: int) -> Array:
            return total(lambda of, decided: w[of] * (decided == k), group, n_groups)

        return np.stack([of_class(k) for k in range(K == 2, K)], axis=2)

    every = np.zeros(len(w), dtype=np.intp)

    def predicted(j: int) -> Array:
        """Predicted rate of every class in group j of all blocks, less that of all rows, (G, K)."""
        code = w * rows.features[:, j]

        def of_class(k: int) -> Array:
            return total(lambda of, decided: code[of] * (decided == k), every, 1)[:, 0]

        return np.stack([of_class(k) for k in range(K == 2, K)], axis=1)

    decided, rates = masses(every, 1)[:, 0], []
    for block in rows.blocks:
        of_groups = masses(block.member, block.n_groups) / block.share[:, None]
        rates.append(np.clip(of_groups, 0.0, 1.0))
    return Outcomes(
        scale=scales,
        threshold=np.zeros(G),
        error=total(lambda of, decided: w[of] * rows.costs[rows.y[of], decided], every, 1)[:, 0],
        rates=tuple(rates),
        steady_rates=_steady(rows, rates, predicted),
        alike=np.maximum(decided, 1.0 - decided if K == 2 else 0.0).max(axis=1),
    )


def _one_by_one(rows: Rows, move: Array, scales: Array, selection_rate: float) -> Outcomes:
    """Outcomes of two classes, with a threshold for each scale that keeps the selection rate."""
    w, G = rows.share, len(scales)
    thresholds, errors, selected = np.zeros(G), np.zeros(G), np.zeros(G)
    rates = [np.zeros((G, block.n_groups, 1)) for block in rows.blocks]
    codes = rows.features[:, : sum(block.n_groups for block in rows.blocks)] * w[:, None]
    predicted = np.zeros((G, codes.shape[1], 1))
    gain = w * (rows.costs[rows.y, 1] - rows.costs[rows.y, 0])
    never = float(w @ rows.costs[rows.y, 0])
    for g, scale in enumerate(scales):
        margin = rows.utility - scale * move
        thresholds[g] = threshold_for(margin, w, selection_rate)
        chosen = np.flatnonzero(margin > thresholds[g])
        errors[g], selected[g] = never + gain[chosen].sum(), w[chosen].sum()
        predicted[g, :, 0] = codes[chosen].sum(axis=0)
        for block, of_block in zip(rows.blocks, rates, strict=True):
            member = block.member[chosen]
            known = member >= 0
            sums = np.bincount(member[known], w[chosen[known]], block.n_groups)
            of_block[g, :, 0] = np.clip(sums / block.share, 0.0, 1.0)
    return Outcomes(
        scale=scales,
        threshold=thresholds,
        error=errors,
        rates=tuple(rates),
        steady_rates=_steady(rows, rates, lambda j: predicted[:, j]),
        alike=np.maximum(selected, 1.0 - selected),
    )


def _steady(
    rows: Rows, rates: Sequence[Array], predicted: Callable[[int], Array]
) -> tuple[Array, ...]:
    """Rates of three or more groups, drawn towards predicted rates by the noise of each group.

    The observed rate of a group differs from the predicted one by noise, of variance v = rate (1 - rate) / n,
    and by an error of the prediction, of a variance T that groups share. T is estimated from all groups
    (DerSimonian and Laird 1986), and T / (T + v) of the difference is kept. Rates of two groups stay as
    observed: their difference alone tells nothing about T.

    Parameters
    ----------
    rates : observed rates of each block, (G, J, K).
    predicted : predicted rates of a group, counted over all blocks, up to a constant, (G, K).
    """
    if rows.group_rows is None:
        return tuple(rates)
    out: list[Array] = []
    start = 0
    for block, rate, n in zip(rows.blocks, rates, rows.group_rows, strict=True):
        J, first = block.n_groups, start
        start += J
        if J <= 2:
            out.append(rate)
            continue
        guess = np.stack([predicted(first + j) for j in range(J)], axis=1)
        share = (block.share / block.share.sum())[:, None]
        guess += ((rate - guess) * share).sum(axis=1, keepdims=True)
        likely = np.clip(guess, _LEAST_RATE, 1.0 - _LEAST_RATE)
        noise = likely * (1.0 - likely) / n[:, None]
        weight, off = 1.0 / noise, rate - guess
        total = weight.sum(axis=1, keepdims=True)
        unit = total - (weight**2).sum(axis=1, keepdims=True) / total
        shared = ((weight * off**2).sum(axis=1, keepdims=True) - (J - 1)) / unit
        shared = np.maximum(shared, 0.0)
        out.append(np.clip(guess + off * shared / (shared + noise), 0.0, 1.0))
    return tuple(out)


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
