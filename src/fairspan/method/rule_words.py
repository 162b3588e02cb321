"""A decision rule in words: what it subtracts, by group, and how far it is from the rules of the folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from fairspan.method.decision_rule import DecisionProblem, RulePoint
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.method.rate_codes import RateBlock


@dataclass(frozen=True, kw_only=True)
class RuleMultiplier:
    """Multiplier of the predicted excess of one group.

    Attributes
    ----------
    attribute, cell, group : str
        The group; ``cell`` names the class of y within which rates are compared.
    decision : str
        The class from whose utility the product is subtracted.
    multiplier : float
    share : float
        Share of the group, with the cell, among all rows.
    """

    attribute: str
    cell: str
    group: str
    decision: str
    multiplier: float
    share: float


@dataclass(frozen=True, kw_only=True)
class RuleDifference:
    """Difference between the rule, of averaged functions, and the rules of the folds, on the same rows.

    Rates and limits are counted with the rules of the folds, which did not see the row.

    Attributes
    ----------
    changed : float
        Share of the rows with another decision.
    rate : float
        Largest difference of a group's rate.
    group : str
        The group with this difference.
    """

    changed: float
    rate: float
    group: str

    @property
    def in_words(self) -> str:
        """One sentence."""
        return (
            f"On the training rows {100 * self.changed:.1f} % of decisions differ from the out-of-fold ones, "
            f"and the rate of a group by at most {self.rate:.3f} ({self.group})."
        )

    @classmethod
    def between(cls, problem: DecisionProblem, averaged: Codes, out_of_fold: Codes) -> Self:
        """Compare two decisions for each row; of two classes, as the estimator numbers them."""
        change = (averaged[:, None] == np.arange(problem.n_classes)).astype(np.float64)
        change -= out_of_fold[:, None] == np.arange(problem.n_classes)
        rate, group = 0.0, ""
        for block in problem.blocks:
            moved = np.abs(block.rates(change, problem.weight)).max(axis=1)
            if not group or moved.max() > rate:
                rate = float(moved.max())
                group = f"{block.attribute}={block.groups[int(moved.argmax())]}"
        changed = float(problem.share @ (averaged != out_of_fold))
        return cls(changed=changed, rate=rate, group=group)


@dataclass(frozen=True, kw_only=True)
class RuleWords:
    """What a decision rule subtracts from the utility of a decision, by group.

    For two classes, the rule selects if ``utility > sum of multiplier * excess + constant``. The excess of
    a group is ``P(group | x) / P(group) - 1``, predicted from X: S is not read. In a class of y it is
    ``P(y, group | x) / P(y, group) - P(y | x) / P(y)``. With more classes, the one with the largest
    utility minus this sum is decided.

    Attributes
    ----------
    classes : tuple of str
        The second of two is the one that is selected.
    costs : tuple of tuple of float
        Cost of each decision (column) for each class (row).
    multipliers : tuple of RuleMultiplier
    constants : tuple of float
        One for each class that has a sum.
    cell_multipliers : tuple of (class of y, decision, float)
        Multipliers of ``P(y | x) / P(y)``; only limits on ratios within classes of y have them.
    scale : float
        Factor of the multipliers that solve the limit for predicted rates.
    difference : RuleDifference or None
        None if it is not known, as in old files.
    source : str
        How the rows of a stream were counted; empty for rows in memory.
    """

    classes: tuple[str, ...]
    costs: tuple[tuple[float, ...], ...]
    multipliers: tuple[RuleMultiplier, ...]
    constants: tuple[float, ...]
    cell_multipliers: tuple[tuple[str, str, float], ...]
    scale: float
    difference: RuleDifference | None
    source: str = ""

    @property
    def decisions(self) -> tuple[str, ...]:
        """Classes that have a sum: the selected one of two, or all."""
        return self.classes[1:] if len(self.classes) == 2 else self.classes

    def to_dict(self) -> dict[str, Any]:
        """Convert to numbers, strings and lists that can be written as JSON."""
        out = asdict(self)
        for name in ("classes", "multipliers", "constants"):
            out[name] = list(out[name])
        for name in ("costs", "cell_multipliers"):
            out[name] = [list(row) for row in out[name]]
        return out

    def subtracted(self, decision: str) -> str:
        """Sum that is subtracted from the utility of a decision, e.g. ``0.31 excess(race=black)``."""
        number = self.decisions.index(decision)
        terms = [
            (m.multiplier, f" excess({m.attribute}={m.group}{f', y={m.cell}' if m.cell else ''})")
            for m in self.multipliers
            if m.decision == decision
        ]
        terms += [
            (value, f" P(y={label})/mean")
            for label, of_decision, value in self.cell_multipliers
            if of_decision == decision
        ]
        terms.append((self.constants[number], ""))
        return _sum([(value, words) for value, words in terms if abs(value) >= 5e-4])

    def utility(self, decision: str) -> str:
        """Utility of a decision, e.g. ``2 P(y=yes) - 1``."""
        costs = np.asarray(self.costs)
        plain = np.array_equal(costs, 1.0 - np.eye(len(costs)))
        number = self.classes.index(decision)
        if len(self.classes) == 2:
            if plain:
                return f"2 P(y={decision}) - 1"
            gain = costs[:, 0] - costs[:, 1]
            order = [1, 0]
        else:
            if plain:
                return f"P(y={decision})"
            gain = -costs[:, number]
            order = list(range(len(costs)))
        return _sum([(float(gain[k]), f" P(y={self.classes[k]})") for k in order if gain[k]])

    def __str__(self) -> str:
        """Describe the rule."""
        if len(self.classes) == 2:
            label = self.classes[1]
            lines = [f"Decide {label} if {self.utility(label)} > {self.subtracted(label)}."]
        else:
            lines = ["Decide for the class with the largest value of"]
            lines += [f"  {k}: {self.utility(k)} - ({self.subtracted(k)})" for k in self.decisions]
        if any(m.multiplier for m in self.multipliers):
            within = any(m.cell for m in self.multipliers)
            lines.append(
                "excess(group, y): P(y, group) / its mean - P(y) / its mean, predicted from X."
                if within
                else "excess(group): P(group), predicted from X, / the share of the group - 1."
            )
            lines.append(
                f"The protected attributes are not read. Scale of the multipliers: {self.scale:.2f}."
            )
        if self.difference is not None:
            lines.append(self.difference.in_words)
        if self.source:
            lines.append(self.source)
        return "\n".join(lines)


def put_in_words(
    point: RulePoint,
    blocks: Sequence[RateBlock],
    classes: tuple[str, ...],
    difference: RuleDifference | None,
    source: str = "",
) -> RuleWords:
    """Name the multipliers of a rule."""
    rule = point.rule
    decisions = classes[1:] if len(classes) == 2 else classes
    code_coef, base_coef = (
        coef.reshape(len(coef), -1) for coef in (rule.code_coef, rule.base_coef)
    )
    codes = [
        (block, name, float(share))
        for block in blocks
        for name, share in zip(block.groups, block.share, strict=True)
    ]
    multipliers = [
        RuleMultiplier(
            attribute=block.attribute,
            cell="" if block.cell is None else classes[block.cell],
            group=name,
            decision=decision,
            multiplier=float(code_coef[j, k]),
            share=share,
        )
        for k, decision in enumerate(decisions)
        for j, (block, name, share) in enumerate(codes)
    ]
    constants: Array = rule.threshold + base_coef[0] - rule.code_mean @ code_coef
    return RuleWords(
        classes=classes,
        costs=tuple(tuple(row) for row in rule.costs.tolist()),
        multipliers=tuple(multipliers),
        constants=tuple(constants.tolist()),
        cell_multipliers=tuple(
            (classes[cell], decision, float(base_coef[1 + i, k]))
            for k, decision in enumerate(decisions)
            for i, cell in enumerate(rule.cells)
            if base_coef[1 + i, k]
        ),
        scale=point.scale,
        difference=difference,
        source=source,
    )


def _sum(terms: list[tuple[float, str]]) -> str:
    """Sum of products, with signs."""
    if not terms:
        return "0"
    first, *rest = terms
    text = f"{'-' if first[0] < 0 else ''}{abs(first[0]):.3g}{first[1]}"
    for value, words in rest:
        text += f" {'-' if value < 0 else '+'} {abs(value):.3g}{words}"
    return text
