"""Decision rules under limits on the rates of groups, chosen out of fold (METHOD 13).

The best rule that does not use S is ``1[2p(x) - 1 - lambda'c(x) > 0]`` with the probability p and the
predicted rate codes c. The multipliers lambda solve the dual for predicted codes. They are then scaled so
that the rates of the real groups keep the limit, out of fold, at the least error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairspan.method.decision_dual import Dual
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.method.rate_codes import Limit, RateBlock, ratio, spread
from fairspan.method.rule_scale import Outcomes, along_scales, at_every_change

__all__ = [
    "TIE",
    "DecisionProblem",
    "DecisionRule",
    "RulePath",
    "RulePoint",
    "decide",
    "gap_limits",
    "rule_at",
    "rule_path",
    "solve_dual",
]

# Rates that exceed a limit by less than this keep it.
_ROUNDING = 1e-12
# Margins that are smaller than this share of their two terms are 0. Rounding makes up to 1e-14 of it.
TIE = 1e-11
# A rule that decides alike for more than this share of the rows is reported as constant.
_ALIKE = 0.99
# Limits below the wanted one that are tried for a single limit, as shares of it.
_STEPS = 8


@dataclass(frozen=True, kw_only=True)
class DecisionProblem:
    """Rows with out-of-fold predictions, from which a decision rule is chosen.

    Parameters
    ----------
    probability : out-of-fold P(y=1 | x), (n,); or of each of K classes, (n, K).
    codes : (n, Q) out-of-fold predictions of the rate codes of all blocks, in their order. Constants that
        are added to a column change nothing.
    blocks : real groups of the rows, and what is compared.
    y : (n,) class numbers.
    weight : (n,)
    cost : (K, K) cost of each decision (column) for each class (row); errors cost 1 by default.
    selection_rate : share of rows to select; for two classes.
    group_rows : for each block the effective number of rows of its groups, (J,), which gives the noise of
        their rates; None: rates have no noise.
    """

    probability: Array
    codes: Array
    blocks: tuple[RateBlock, ...]
    y: Codes
    weight: Array
    cost: Array | None = None
    selection_rate: float | None = None
    group_rows: tuple[Array, ...] | None = None

    def __post_init__(self) -> None:
        n, Q = len(self.y), sum(block.n_groups for block in self.blocks)
        if self.codes.shape != (n, Q) or len(self.probability) != n or len(self.weight) != n:
            msg = (
                f"{n} labels, {len(self.weight)} weights, probabilities {self.probability.shape} and "
                f"codes {self.codes.shape} do not fit; {Q} codes per row are needed."
            )
            raise ValueError(msg)
        if self.selection_rate is not None:
            if self.n_classes > 2:
                msg = "selection_rate is for two classes; limit the rates of each class instead."
                raise ValueError(msg)
            if not 0.0 < self.selection_rate < 1.0:
                msg = f"selection_rate={self.selection_rate!r} is not allowed; give a number in (0, 1)."
                raise ValueError(msg)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return 2 if self.probability.ndim == 1 else int(self.probability.shape[1])

    @cached_property
    def costs(self) -> Array:
        """Cost of each decision for each class, (K, K)."""
        return np.asarray(1.0 - np.eye(self.n_classes) if self.cost is None else self.cost)

    @cached_property
    def share(self) -> Array:
        """Weights with the sum 1."""
        return np.asarray(self.weight / self.weight.sum())

    @cached_property
    def unconstrained(self) -> DecisionRule:
        """The rule of least expected cost."""
        cells = tuple(sorted({b.cell for b in self.blocks if b.cell is not None}))
        p = _columns(self.probability)
        shape = () if self.probability.ndim == 1 else (self.n_classes,)
        return DecisionRule(
            costs=self.costs,
            code_mean=self.share @ self.codes,
            cells=cells,
            cell_mean=np.array([self.share @ p[:, cell] for cell in cells]),
            code_coef=np.zeros((self.codes.shape[1], *shape)),
            base_coef=np.zeros((1 + len(cells), *shape)),
        )

    @cached_property
    def utility(self) -> Array:
        """Expected gain of the decision, (n,), or minus the expected cost of each class, (n, K)."""
        return self.unconstrained.margin(self.probability, self.codes)

    @cached_property
    def features(self) -> Array:
        """Functions of x that a rule subtracts: centred codes, then the base of every cell."""
        return self.unconstrained.features(self.probability, self.codes)

    @cached_property
    def gap_dual(self) -> Dual:
        """Dual for limits on gaps; with a selection rate, its code is the last one."""
        Q = self.codes.shape[1]
        block = np.repeat(np.arange(len(self.blocks)), [b.n_groups for b in self.blocks])
        return self._dual(self.features[:, :Q], block)

    def ratio_dual(self, limits: Array) -> tuple[Dual, Array]:
        """Dual for lower limits on ratios, and the features of each of its codes, (features, M)."""
        Q, cells = self.codes.shape[1], self.unconstrained.cells
        columns, start = [], 0
        for block, rho in zip(self.blocks, limits, strict=True):
            base = Q if block.cell is None else Q + 1 + cells.index(block.cell)
            J = block.n_groups
            for j, k in ((j, k) for j in range(J) for k in range(J) if j != k and rho > 0.0):
                column = np.zeros(self.features.shape[1])
                column[[start + j, start + k, base]] = -1.0, rho, rho - 1.0
                columns.append(column)
            start += J
        mix = np.array(columns).reshape(-1, self.features.shape[1]).T
        return self._dual(self.features @ mix, np.full(mix.shape[1], -1)), mix

    def _dual(self, codes: Array, block: Codes) -> Dual:
        if self.selection_rate is not None:
            codes = np.concatenate([codes, np.ones((len(codes), 1))], axis=1)
            block = np.append(block, -1)
        return Dual(utility=self.utility, codes=codes, weight=self.share, block=block)


@dataclass(frozen=True, kw_only=True)
class DecisionRule:
    """A rule on probabilities and predicted rate codes; no protected attribute is read.

    Attributes
    ----------
    costs : (K, K) cost of each decision for each class.
    code_mean : (Q,) out-of-fold mean of the predicted codes.
    cells, cell_mean : classes of y whose rows are compared, and their mean out-of-fold probability.
    code_coef : (Q,) multipliers of the centred codes; (Q, K) with three or more classes.
    base_coef : of the constant 1 and of ``p_k / mean(p_k)`` for the cells; 0 for limits on gaps.
    threshold : margin from which rows are selected.
    """

    costs: Array
    code_mean: Array
    cells: tuple[int, ...]
    cell_mean: Array
    code_coef: Array
    base_coef: Array
    threshold: float = 0.0

    def features(self, probability: Array, codes: Array) -> Array:
        """Centred codes, the constant, and the relative probability of each cell."""
        p = _columns(probability)
        base = [p[:, cell] / mean for cell, mean in zip(self.cells, self.cell_mean, strict=True)]
        return np.column_stack([codes - self.code_mean, np.ones(len(p)), *base])

    def margin(self, probability: Array, codes: Array) -> Array:
        """Margin of the decision, (n,): positive means 1. With K classes, one column for each, (n, K).

        The multipliers that solve a limit leave rows exactly on the boundary. Their margins are 0 (equal to
        the largest one of K classes), not what rounding makes of them, so that their decision is the same
        on every machine: not selected, or the first of the classes.
        """
        utility = -(_columns(probability) @ self.costs)
        if probability.ndim == 1:
            utility = utility[:, 1] - utility[:, 0]
        coef = np.concatenate([self.code_coef, self.base_coef])
        size, margin = np.abs(utility), utility
        if np.any(coef):
            moved = self.features(probability, codes) @ coef
            margin, size = utility - moved, size + np.abs(moved)
        margin = margin - self.threshold
        if probability.ndim == 1:
            return np.where(np.abs(margin) <= TIE * size, 0.0, margin)
        largest = margin.max(axis=1, keepdims=True)
        return np.where(largest - margin <= TIE * size.max(axis=1, keepdims=True), largest, margin)


def decide(outputs: Array) -> Codes:
    """Predicted class numbers of (n, outputs, ...); one output is a log odds, its threshold 0."""
    if outputs.shape[1] <= 2:
        threshold = 0.0 if outputs.shape[1] == 1 else outputs[:, 0]
        return np.asarray(outputs[:, -1] > threshold, dtype=np.intp)
    return np.asarray(np.argmax(outputs, axis=1))


def _columns(probability: Array) -> Array:
    """Probabilities of all classes, (n, K)."""
    if probability.ndim > 1:
        return probability
    return np.stack([1.0 - probability, probability], axis=1)


# ------------------------------------------------------------------ multipliers


@dataclass(frozen=True, kw_only=True)
class DualSolution:
    """Solution of the dual: the rule, the optimal mean utility, and the multipliers for a warm start."""

    rule: DecisionRule
    value: float
    multipliers: Array


def solve_dual(
    problem: DecisionProblem, limit: Limit, start: DualSolution | None = None
) -> DualSolution:
    """Solve for the multipliers of the predicted rates exactly.

    The value is the largest mean utility of decisions whose *predicted* rates keep the limit. It can be
    attained only with a fraction of the decision for a few rows.
    """
    limits, Q, rule = limit.of(problem.blocks), problem.codes.shape[1], problem.unconstrained
    selection = [] if problem.selection_rate is None else [problem.selection_rate]
    if limit.kind == "gap":
        dual, mix = problem.gap_dual, np.eye(problem.features.shape[1])[:, :Q]
        # Predicted rates can differ by more than 1, so a limit of 1 is none.
        limits = np.where(limits >= 1.0, np.inf, limits)
        lower, upper = np.zeros(Q), np.repeat(limits, [b.n_groups for b in problem.blocks])
    else:
        dual, mix = problem.ratio_dual(limits)
        lower, upper = np.full(mix.shape[1], -np.inf), np.zeros(mix.shape[1])
    lower, upper = (np.concatenate([bound, selection]) for bound in (lower, upper))
    before = None if start is None else start.multipliers
    if before is not None and len(before) != len(lower):
        before = None
    v = dual.solve(lower, upper, before)
    coef = mix @ v[: mix.shape[1]]
    return DualSolution(
        rule=replace(
            rule,
            code_coef=coef[:Q],
            base_coef=coef[Q:],
            threshold=float(v[-1]) if selection else 0.0,
        ),
        value=dual.value(v, lower, upper),
        multipliers=v,
    )


# ------------------------------------------------------------------ rules on real rates


@dataclass(frozen=True, kw_only=True)
class RulePoint:
    """A rule and its out-of-fold rates.

    Attributes
    ----------
    limit : that was asked for.
    rule : with the scaled multipliers.
    scale : factor of the multipliers of the dual.
    error : mean cost of the decisions.
    rates : for each block, (J,) or (J, K).
    gap, ratio : worst over the blocks.
    steady_rates : rates without the noise of small groups, which the limit is compared with; None: ``rates``.
    met : whether the steady rates keep the limit.
    alike : largest share of rows with the same decision.
    rate_error : largest error of a rate, if the rates were counted in a histogram.
    """

    limit: Limit
    rule: DecisionRule
    scale: float
    error: float
    rates: tuple[Array, ...]
    gap: float
    ratio: float
    met: bool
    alike: float
    rate_error: float | None = None
    steady_rates: tuple[Array, ...] | None = None

    @property
    def is_constant(self) -> bool:
        """Whether more than 99 % of the rows get the same decision."""
        return self.alike > _ALIKE


@dataclass(frozen=True, kw_only=True)
class RulePath:
    """Rules for limits from wide to narrow.

    Attributes
    ----------
    points : one for each limit.
    smallest : the rule at fairness 1, of the smallest gap (or largest ratio) that is reached.
    constant_error : of the best decision that is the same for all rows, and so keeps every limit. A rule
        with a larger error is of no use.
    """

    points: tuple[RulePoint, ...]
    smallest: RulePoint
    constant_error: float


def gap_limits(problem: DecisionProblem, size: int = 31) -> list[Limit]:
    """Limits from the gap of the unconstrained rule to 0, at equal distances."""
    outcomes = along_scales(problem, problem.unconstrained, np.zeros(1))
    widest = max((float(spread(rates)[0]) for rates in outcomes.rates), default=0.0)
    return [Limit(value=float(value)) for value in np.linspace(widest, 0.0, size)]


def rule_path(
    problem: DecisionProblem, limits: Sequence[Limit], known: Sequence[RulePoint] = ()
) -> RulePath:
    """Choose a rule for every limit.

    The unconstrained rule is taken if it keeps a limit. Otherwise the multipliers of the limit are scaled
    by 0, .02, ..., 2, and the rule of least error (then of least scale) is taken among those whose real
    rates keep the limit. If none does, the rule of another limit of the sequence is taken that does, or one
    of the ``known`` rules, and at last the one that comes nearest, with ``met=False``. Among three or more
    groups, the real rates of small groups are noise, so rates without it are compared with the limit.
    """
    free = along_scales(problem, problem.unconstrained, np.zeros(1))
    points: list[RulePoint] = []
    solution = None
    for limit in limits:
        if free.excess(limit, problem.blocks)[0] <= _ROUNDING:
            points.append(_point(limit, problem.unconstrained, free, 0, met=True))
            continue
        solution = solve_dual(problem, limit, solution)
        points.append(_scaled(problem, limit, solution.rule))
    by_gap = points[-1].limit.kind == "gap"
    others = [*points, *known]
    rates = [_with_classes(p.rates if p.steady_rates is None else p.steady_rates) for p in others]
    errors = np.array([point.error for point in others])

    def nearest(limit: Limit, n: int) -> tuple[int, Array]:
        """Best of the first n rules for a limit, and how far each is beyond it."""
        excess = np.array([float(limit.excess(r, problem.blocks)) for r in rates[:n]])
        return _least(excess, errors[:n]), excess

    ideal = Limit(kind=points[-1].limit.kind, value=0.0 if by_gap else 1.0)
    smallest = points[nearest(ideal, len(points))[0]]
    chosen = []
    for point in points:
        if not point.met:
            best, excess = nearest(point.limit, len(others))
            chosen.append(
                replace(others[best], limit=point.limit, met=bool(excess[best] <= _ROUNDING))
            )
        else:
            chosen.append(point)
    reached = smallest.gap if by_gap else smallest.ratio
    return RulePath(
        points=tuple(chosen),
        smallest=replace(smallest, limit=replace(smallest.limit, value=reached), met=True),
        constant_error=float((problem.share @ problem.costs[problem.y]).min()),
    )


def rule_at(problem: DecisionProblem, limit: Limit) -> RulePoint:
    """Choose the rule for one limit.

    Predicted rates can differ less than real ones, so narrower limits are tried as well.
    """
    ideal, none = (0.0, 1.0) if limit.kind == "gap" else (1.0, 0.0)

    def narrower(value: float, step: float) -> float:
        return value if value == none else value + (ideal - value) * step

    steps = []
    for step in np.linspace(0.0, 1.0, _STEPS + 1).tolist():
        value = limit.value
        moved = (
            {name: narrower(v, step) for name, v in value.items()}
            if isinstance(value, Mapping)
            else narrower(value, step)
        )
        steps.append(replace(limit, value=moved))
    return rule_path(problem, steps).points[0]


def _least(excess: Array, errors: Array) -> int:
    """First of the least errors among the rules that keep a limit, or that come nearest to it."""
    near = excess <= max(float(excess.min()), 0.0) + _ROUNDING
    return int(np.argmax(near & (errors <= errors[near].min() + _ROUNDING)))


def _scaled(problem: DecisionProblem, limit: Limit, rule: DecisionRule) -> RulePoint:
    """Scale the multipliers of a rule so that real rates keep the limit at the least error."""
    outcomes = along_scales(problem, rule)
    excess = outcomes.excess(limit, problem.blocks)
    if excess.min() > _ROUNDING:
        changes = at_every_change(problem, rule)
        if changes is not None:
            outcomes, excess = changes, changes.excess(limit, problem.blocks)
    best = _least(excess, outcomes.error)
    return _point(limit, rule, outcomes, best, met=bool(excess[best] <= _ROUNDING))


def _point(
    limit: Limit, rule: DecisionRule, outcomes: Outcomes, index: int, *, met: bool
) -> RulePoint:
    scale = float(outcomes.scale[index])
    rates, steady = (
        [block[index] for block in of_scales]
        for of_scales in (outcomes.rates, outcomes.steady_rates)
    )
    return RulePoint(
        limit=limit,
        rule=replace(
            rule,
            code_coef=scale * rule.code_coef,
            base_coef=scale * rule.base_coef,
            threshold=float(outcomes.threshold[index]),
        ),
        scale=scale,
        error=float(outcomes.error[index]),
        rates=tuple(map(_of_two_classes, rates)),
        steady_rates=tuple(map(_of_two_classes, steady)),
        gap=max((float(spread(block)) for block in rates), default=0.0),
        ratio=min((float(ratio(block)) for block in rates), default=1.0),
        met=met,
        alike=float(outcomes.alike[index]),
    )


def _of_two_classes(rates: Array) -> Array:
    return rates[:, 0] if rates.shape[1] == 1 else rates


def _with_classes(rates: Sequence[Array]) -> list[Array]:
    return [rate[:, None] if rate.ndim == 1 else rate for rate in rates]
