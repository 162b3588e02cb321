"""What is expected of a decision rule on new rows: rates by group, and whether a limit is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import permutations
from typing import Any, Self

import numpy as np
import scipy.stats

from fairspan.method.decision_rule import RulePoint
from fairspan.method.linalg import Array
from fairspan.method.moments import kish
from fairspan.method.rate_codes import RateBlock
from fairspan.method.rule_words import RuleDifference

__all__ = ["DecisionCertificate", "GroupRate", "JudgedGroups", "certify_rule", "wilson"]

# Rates that exceed a limit by less than this keep it.
_ROUNDING = 1e-12
# Below this number of rows in the smallest group only the interval of a gap is shown.
_FEW = 200


@dataclass(frozen=True, kw_only=True)
class JudgedGroups:
    """Groups whose rates are compared, and their sizes; no rows are kept."""

    block: RateBlock  # ``member`` is empty
    n_rows: Array  # (J,)
    n_effective: Array  # (J,), of weighted rows, or of clusters

    @classmethod
    def of(cls, block: RateBlock, weight: Array, cluster_share: float = 1.0) -> Self:
        """Count the rows of each group."""
        members = [weight[block.member == j] for j in range(block.n_groups)]
        return cls(
            block=replace(block, member=block.member[:0]),
            n_rows=np.array([len(w) for w in members]),
            n_effective=np.array([kish(float(w.sum()), float(w @ w)) for w in members])
            * cluster_share,
        )


@dataclass(frozen=True, kw_only=True)
class GroupRate:
    """Share of a group that gets a decision, on rows that the functions of the rule did not see.

    Attributes
    ----------
    attribute, cell, group : str
        The group; ``cell`` names the class of y within which rates are compared.
    decision : str
        The class that is decided for.
    rate, low, high : float
        Estimate, and limits of its interval.
    n_rows : int
    """

    attribute: str
    cell: str
    group: str
    decision: str
    rate: float
    low: float
    high: float
    n_rows: int


@dataclass(frozen=True, kw_only=True)
class DecisionCertificate:
    """Rates of decisions by group that are expected on new rows, and the limit on them.

    Rates are counted out of fold: every row is decided by functions that did not see it. The threshold was
    chosen on the same rows, so intervals are two-sided and joint over groups.

    Attributes
    ----------
    kind : {"gap", "ratio"}
        What is limited: the largest difference of two groups' rates, or their smallest ratio.
    limit : float, dict or None
        The limit, by attribute if a dict; None for a rule of the dial. ``met`` and ``kept`` are then about
        the gap that the dial value stands for.
    gap, gap_high : float
        Largest difference, and its upper confidence bound.
    ratio, ratio_low : float
        Smallest ratio, and its lower confidence bound.
    met : bool
        The rates keep the limit out of fold. Among three or more groups, noise of small groups is left out.
    counted_met : bool
        The rates keep the limit as they were counted, with that noise.
    kept : bool
        The confidence bound keeps the limit.
    confidence : float
    rates : tuple of GroupRate
    error : float
        Mean cost of the decisions out of fold (the share of wrong ones, without a cost matrix).
    free_error : float
        That of the unconstrained rule.
    alike : float
        Largest share of rows with the same decision.
    smallest : str
        The smallest group, with its number of rows.
    left_out : tuple of str
        Groups of fewer than 30 rows, which are not judged.
    difference : RuleDifference or None
        Difference on the training rows between the rule, of averaged functions, and the rules of the folds,
        whose rates these are. None if it is not known, as in old files.
    """

    kind: str
    limit: float | Mapping[str, float] | None
    gap: float
    gap_high: float
    ratio: float
    ratio_low: float
    met: bool
    kept: bool
    confidence: float
    rates: tuple[GroupRate, ...]
    error: float
    free_error: float
    alike: float
    smallest: str
    smallest_rows: int
    left_out: tuple[str, ...]
    difference: RuleDifference | None = None
    counted_met: bool = True

    @property
    def verdict(self) -> str:
        """One of "kept", "not provable with these rows", "not kept", and "no limit" on the dial."""
        if self.limit is None:
            return "no limit"
        if self.kept:
            return "kept"
        return "not provable with these rows" if self.met else "not kept"

    @property
    def has_few_rows(self) -> bool:
        """Whether a group is so small that a gap without its bound would mislead."""
        return self.smallest_rows < _FEW

    def to_dict(self) -> dict[str, Any]:
        """Convert to numbers, strings and lists that can be written as JSON."""
        out = asdict(self)
        out["rates"] = [asdict(rate) for rate in self.rates]
        out["left_out"] = list(self.left_out)
        return {**out, "verdict": self.verdict}

    def __str__(self) -> str:
        """Describe the rates and the limit."""
        level = f"{100 * self.confidence:.4g} %"
        few = self.has_few_rows
        gap = (
            f"at most {self.gap_high:.3f}"
            if few
            else f"{self.gap:.3f}, at most {self.gap_high:.3f}"
        )
        ratio = f"at least {self.ratio_low:.2f}"
        if not few:
            ratio = f"{self.ratio:.2f}, {ratio}"
        limit = ""
        if self.limit is not None:
            limit = f"Limit on the {self.kind}: {_shown(self.limit)}; {self.verdict}. "
        lines = [
            f"Decisions, new rows: the rates of groups differ by {gap} ({level}); their ratio is {ratio}.",
            f"{limit}Smallest group: {self.smallest} ({self.smallest_rows} rows).",
            f"Error {self.error:.3f}, unconstrained {self.free_error:.3f}, out of fold.",
        ]
        if self.difference is not None:
            lines.append(self.difference.in_words)
        if self.alike > 0.99:
            lines.append(f"The rule decides alike for {100 * self.alike:.1f} % of the rows.")
        if self.left_out:
            lines.append(f"NOT judged, fewer than 30 rows: {', '.join(self.left_out)}.")
        for rate in self.rates:
            where = f" in {rate.cell}" if rate.cell else ""
            lines.append(
                f"  {rate.attribute}={rate.group}{where}: {rate.decision} for {rate.rate:.3f} "
                f"({rate.low:.3f} to {rate.high:.3f}) of {rate.n_rows} rows"
            )
        return "\n".join(lines)


def _shown(limit: float | Mapping[str, float]) -> str:
    if isinstance(limit, Mapping):
        return ", ".join(f"{name} {value:.3g}" for name, value in limit.items())
    return f"{limit:.3g}"


def wilson(rate: Array, n: Any, z: float) -> tuple[Array, Array]:
    """Wilson's interval of a rate in n rows."""
    centre = (rate + z**2 / (2.0 * n)) / (1.0 + z**2 / n)
    spread = rate * (1.0 - rate) / n + z**2 / (4.0 * n**2)
    half = z / (1.0 + z**2 / n) * np.sqrt(spread)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def certify_rule(
    judged: Sequence[JudgedGroups],
    point: RulePoint,
    confidence: float,
    *,
    classes: tuple[str, ...],
    free_error: float,
) -> DecisionCertificate:
    """Intervals of the rates of a rule, and bounds of their gap and ratio, joint over pairs of groups."""
    blocks = [groups.block for groups in judged]
    limits = point.limit.of(blocks)
    n_columns = 1 if len(classes) == 2 else len(classes)
    n_pairs = n_columns * sum(b.n_groups * (b.n_groups - 1) // 2 for b in blocks)
    z = float(scipy.stats.norm.ppf(1.0 - (1.0 - confidence) / max(n_pairs, 1) / 2.0))
    rates: list[GroupRate] = []
    error = point.rate_error or 0.0
    gap, gap_high, ratio, ratio_low, excess = 0.0, 0.0, 1.0, 1.0, 0.0
    for groups, of_block, limit in zip(judged, point.rates, limits, strict=True):
        block = groups.block
        for k, column in enumerate(np.reshape(of_block, (block.n_groups, -1)).T):
            low, high = wilson(column, groups.n_effective, z)
            decision = classes[-1] if n_columns == 1 else classes[k]
            cell = "" if block.cell is None else classes[block.cell]
            for j, group in enumerate(block.groups):
                rates.append(
                    GroupRate(
                        attribute=block.attribute,
                        cell=cell,
                        group=group,
                        decision=decision,
                        rate=float(column[j]),
                        low=max(float(low[j]) - error, 0.0),
                        high=min(float(high[j]) + error, 1.0),
                        n_rows=int(groups.n_rows[j]),
                    )
                )
            for a, b in permutations(range(block.n_groups), 2):
                over = column[a] - column[b] + np.hypot(high[a] - column[a], column[b] - low[b])
                over += 2.0 * error
                under = _ratio_low(
                    max(column[a] - error, 0.0),
                    max(low[a] - error, 0.0),
                    min(column[b] + error, 1.0),
                    min(high[b] + error, 1.0),
                )
                gap, gap_high = max(gap, column[a] - column[b]), max(gap_high, over)
                ratio = min(ratio, column[a] / column[b]) if column[b] > 0.0 else ratio
                ratio_low = min(ratio_low, under)
                excess = max(excess, over - limit if point.limit.kind == "gap" else limit - under)
    smallest = min(rates, key=lambda rate: rate.n_rows)
    counted = point.limit.excess([np.reshape(r, (len(r), -1)) for r in point.rates], blocks)
    value = point.limit.value
    return DecisionCertificate(
        kind=point.limit.kind,
        limit=dict(value) if isinstance(value, Mapping) else float(value),
        gap=float(gap),
        gap_high=float(min(gap_high, 1.0)),
        ratio=float(ratio),
        ratio_low=float(max(ratio_low, 0.0)),
        met=point.met,
        counted_met=bool(counted <= _ROUNDING),
        kept=bool(excess <= 0.0),
        confidence=confidence,
        rates=tuple(rates),
        error=point.error,
        free_error=free_error,
        alike=point.alike,
        smallest=f"{smallest.attribute}={smallest.group}"
        + (f" in {smallest.cell}" if smallest.cell else ""),
        smallest_rows=smallest.n_rows,
        left_out=tuple(sorted({f"{b.attribute}={name}" for b in blocks for name in b.left_out})),
    )


def _ratio_low(rate_a: float, low_a: float, rate_b: float, high_b: float) -> float:
    """Lower limit of ``a / b`` from limits of both rates (MOVER, Donner and Zou 2012)."""
    if rate_b <= 0.0:
        return 1.0 if rate_a <= 0.0 and high_b <= 0.0 else low_a / max(high_b, 1e-300)
    product = rate_a * rate_b
    inner = product**2 - low_a * high_b * (2.0 * rate_a - low_a) * (2.0 * rate_b - high_b)
    below = high_b * (2.0 * rate_b - high_b)
    if below <= 0.0:
        return low_a / high_b
    return float((product - np.sqrt(max(inner, 0.0))) / below)
