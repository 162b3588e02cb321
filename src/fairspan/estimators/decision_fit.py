"""Decision rules of a cross-fitted classifier: their predictions, their path, and limits (METHOD 13)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fairspan.exceptions import DataWarning, DecisionRuleError, warn_user
from fairspan.method.calibration import one_slope
from fairspan.method.decision_certificate import DecisionCertificate, JudgedGroups, certify_rule
from fairspan.method.decision_codes import CodeBlock, code_size, predict_rate_codes
from fairspan.method.decision_histogram import PairHistogram
from fairspan.method.decision_rule import (
    DecisionProblem,
    RulePath,
    RulePoint,
    decide,
    gap_limits,
    rule_at,
    rule_path,
)
from fairspan.method.folds import Counter, centre_within
from fairspan.method.laplace import softmax
from fairspan.method.linalg import Array, to_numpy
from fairspan.method.pilot import Encoded, Pilot
from fairspan.method.problem import Codes, Data, FitConfig
from fairspan.method.rate_codes import Limit, RateBlock, RateCriterion, rate_blocks
from fairspan.method.rule_words import RuleDifference, RuleWords, put_in_words

if TYPE_CHECKING:
    from fairspan.estimators.state import FittedState

__all__ = [
    "DecisionFit",
    "RuleRows",
    "choose_rules",
    "predict_rows",
    "row_weights",
    "rule_functions",
]

# Rules on the way from the unconstrained rule to equal rates.
N_LIMITS = 31


@dataclass(frozen=True, kw_only=True)
class DecisionFit:
    """Functions from which decisions are made, and the rules for limits from wide to narrow.

    The rows of the problem contain groups; a saved model has no rows, see :meth:`without_rows`.
    """

    functions: Array  # (D, q + L): predicted codes, then y; averages over the folds
    centre: Array  # (q + L,): their values at the means of the folds
    contrasts: Array  # (K, L)
    slope: float  # log odds are slope * A @ contrasts.T + intercepts
    intercepts: Array  # (K,)
    matrix: Array  # (q + L, Q): rate codes of the functions
    classes: tuple[str, ...]  # as rules count them: the second of two is selected
    favourable: int  # class that a rule for two classes selects
    judged: tuple[JudgedGroups, ...]
    path: RulePath
    n_rows: int
    problem: DecisionProblem | None = None
    scores: Array | None = None  # (n, q + L): values of the functions on the rows
    fold_matrices: Array | None = None  # (K, q + L, Q): rate codes of the functions of each fold
    # Streams: rows of all blocks, and a histogram of them. The problem is then that of the histogram.
    n_streamed: int | None = None
    histogram: PairHistogram | None = None
    sample: DecisionProblem | None = None  # rows of the scores
    # In files: of the rules of the path, and of the smallest gap.
    differences: tuple[RuleDifference | None, ...] = ()
    rate_spread: float = 1.0  # factor of the variance of rates, see spread_of_folds

    def without_rows(self) -> DecisionFit:
        """The rules alone, for a file."""
        return replace(
            self,
            problem=None,
            scores=None,
            fold_matrices=None,
            histogram=None,
            sample=None,
            differences=tuple(map(self.difference, (*self.path.points, self.path.smallest))),
        )

    @property
    def widest(self) -> float:
        """Gap of the unconstrained rule."""
        return float(cast(float, self.path.points[0].limit.value))

    def predictions(self, scores: Array) -> tuple[Array, Array]:
        """Probabilities of the classes, (n, K), and rate codes, (n, Q), of centred function values."""
        return (
            probabilities(scores, self.contrasts, self.slope, self.intercepts),
            scores @ self.matrix,
        )

    def margins(self, point: RulePoint, scores: Array) -> Array:
        """Margins of a rule: (n, 1), positive for the second class, or one column per class."""
        p, codes = self.predictions(scores)
        if p.shape[1] > 2:
            return point.rule.margin(p, codes)
        margin = point.rule.margin(p[:, self.favourable], codes)
        return self._for_second_class(margin)

    def training_margins(self, point: RulePoint) -> Array:
        """Margins of the training rows, by functions that did not see them."""
        rows = self.problem if self.sample is None else self.sample
        assert rows is not None
        margin = point.rule.margin(rows.probability, rows.codes)
        if margin.ndim == 2:
            return margin
        return self._for_second_class(margin)

    def _for_second_class(self, margin: Array) -> Array:
        """Margin of the second class, from that of the favourable one, which is not decided at 0."""
        if self.favourable == 0:
            margin = np.where(margin == 0.0, np.finfo(np.float64).tiny, -margin)
        return margin[:, None]

    # ------------------------------------------------------------------ what a rule does

    def certify(self, point: RulePoint, confidence: float) -> DecisionCertificate:
        """Intervals of the rates of a rule, counted out of fold."""
        return certify_rule(
            self.judged,
            point,
            confidence,
            classes=self.classes,
            free_error=self.path.points[0].error,
        )

    def in_words(self, point: RulePoint, difference: RuleDifference | None) -> RuleWords:
        """What a rule subtracts, by group, and its difference from the rules of the folds."""
        blocks = [groups.block for groups in self.judged]
        return put_in_words(point, blocks, self.classes, difference, self._source(point))

    def _source(self, point: RulePoint) -> str:
        """How the rows of a stream were counted."""
        if point.rate_error is not None:
            return (
                f"Chosen from histograms of {self.n_streamed:,} rows: the rate of a group is known to "
                f"within {point.rate_error:.4f}."
            )
        if self.n_streamed is not None:
            return f"Chosen from a uniform sample of {self.n_rows:,} of {self.n_streamed:,} rows."
        return ""

    def difference(self, point: RulePoint) -> RuleDifference | None:
        """Compare the rule with those of the folds, on the training rows.

        A file has these numbers for the rules of its path; None for others.
        """
        rows = self.problem if self.sample is None else self.sample
        if rows is None or self.scores is None:
            known = zip((*self.path.points, self.path.smallest), self.differences, strict=False)
            return next((found for other, found in known if other is point), None)
        margins = (self.margins(point, self.scores), self.training_margins(point))
        averaged, out_of_fold = map(decide, margins)
        return RuleDifference.between(rows, averaged, out_of_fold)

    def spread_of_folds(self, n_folds: int) -> float:
        """Factor of the variance of rates, because their average decides and not the rules of the folds.

        It is that of correlations (METHOD 12): the more the margins out of fold vary beyond those of the
        averaged rule, the more the rates of the two can differ.
        """
        assert self.scores is not None
        smallest = self.path.smallest
        margins = self.training_margins(smallest), self.margins(smallest, self.scores)
        out_of_fold, averaged = (float(m.var(axis=0).sum()) for m in margins)
        return 1.0 + n_folds * max(out_of_fold / max(averaged, 1e-300) - 1.0, 0.0)

    # ------------------------------------------------------------------ limits

    def at_share(self, share: float) -> RulePoint:
        """Rule at which this share of the gap of the unconstrained rule is gone; 1 is the smallest gap."""
        if share == 0.0:
            return self.path.points[0]
        if share >= 1.0:
            return self.path.smallest
        wanted = (1.0 - share) * self.widest
        values = np.array([float(cast(float, point.limit.value)) for point in self.path.points])
        near = int(np.argmin(np.abs(values - wanted)))
        if abs(values[near] - wanted) <= 1e-12 * max(self.widest, 1e-300):
            point = self.path.points[near]
        elif self.problem is None:  # a saved model: the next narrower limit
            point = self.path.points[int(np.flatnonzero(values <= wanted)[0])]
        else:
            limits = [Limit(value=wanted)]
            (point,) = rule_path(self.problem, limits, known=self.path.points).points
            point = self.with_rate_error(point)
        return point if point.met else self.path.smallest

    def within(self, limit: Limit) -> RulePoint:
        """Rule of least error that keeps a limit out of fold."""
        if self.problem is None:
            msg = (
                "A limit on rates needs the rows of the fit, which a saved model does not have. Choose "
                "the limit before saving, or use at(fairness)."
            )
            raise ValueError(msg)
        limit.of(self.problem.blocks)  # raises for unknown attributes
        return self.with_rate_error(rule_at(self.problem, limit))

    def with_rate_error(self, point: RulePoint) -> RulePoint:
        """The rule with the error of its rates, if they were counted in a histogram."""
        if self.histogram is None:
            return point
        return replace(point, rate_error=float(self.histogram.rate_error(point.rule).max()))

    def share_of(self, point: RulePoint) -> float:
        """Share of the gap of the unconstrained rule that is gone with a rule."""
        if self.widest <= 0.0:
            return 1.0
        return float(np.clip(1.0 - point.gap / self.widest, 0.0, 1.0))

    def promised(self, limit: Limit, confidence: float) -> RulePoint:
        """Rule of least error among those that keep a limit with confidence, from the fair end on.

        The rules of the path are tested from the limit 0 to the unconstrained rule, an order that does not
        depend on the rates, up to the first whose upper bound breaks the limit (fixed-sequence testing). If
        the first one breaks it, it is returned.
        """
        assert self.problem is not None
        points = [replace(point, limit=limit, met=True) for point in reversed(self.path.points)]
        kept: list[RulePoint] = []
        for point in points:
            if not self.certify(point, confidence).kept:
                break
            kept.append(point)
        if not kept:
            return replace(points[0], met=False)
        return min(kept, key=lambda point: point.error)


def probabilities(scores: Array, contrasts: Array, slope: float, intercepts: Array) -> Array:
    """Softmax of the predictions of y, the last columns of the scores."""
    A = scores[:, scores.shape[1] - contrasts.shape[1] :]
    return softmax(slope * A @ contrasts.T + intercepts)


@dataclass(frozen=True, kw_only=True)
class RuleRows:
    """Predictions of every training row by functions that did not see it: what rules are chosen from.

    They are in memory only. Files and pickles have no rows.
    """

    functions: Array  # (D, q + L): predict the codes, then y; averages over the folds
    scores: Array  # (n, q + L): by the functions of the folds, centred
    of_average: Array  # (n, q + L): by the averaged functions, centred
    folds: Codes
    encoded: Encoded
    weight: Array  # (n,)
    # Parameters of decisions of a model that was switched to scores.
    options: dict[str, Any] = field(default_factory=dict)
    # The rules of a model that was fitted for scores, as soon as they are asked for.
    solved: list[DecisionFit] = field(default_factory=list, repr=False)

    def rules(self, state: FittedState) -> DecisionFit:
        """Choose the rules on the first call."""
        if not self.solved:
            self.solved.append(choose_rules(state, self))
        return self.solved[0]


def row_weights(data: Data) -> Array:
    """Weights of the rows, (n,)."""
    if data.weights is None:
        return np.ones(data.n)
    return np.asarray(to_numpy(data.weights), dtype=np.float64)


def rule_functions(state: FittedState) -> tuple[Array, Array] | None:
    """Functions of the folds, (K, D, q + L), that predict the codes and y, and their averages; or None."""
    fit = state.solved.new_rows
    if fit is None or fit.code_functions is None or state.classes is None:
        return None
    of_folds = np.concatenate([fit.code_functions, fit.fold_bases[:, :, : fit.n_functions]], axis=2)
    return of_folds, np.einsum("k,kdm->dm", fit.share, of_folds)


def predict_rows(state: FittedState, data: Data, counter: Counter | None = None) -> RuleRows | None:
    """Make the predictions of every row; None if the fit does not remove dependence on new rows.

    ``counter`` deals the rows of a block into folds; a new one if all rows are given.
    """
    pilot, fit, found = state.pilot, state.solved.new_rows, rule_functions(state)
    if found is None:
        return None
    assert fit is not None
    functions, averaged = found
    encoded = pilot.encode(data)
    folds = to_numpy(pilot.folds(data, encoded, counter or pilot.counter()))
    centre, m = averaged.T @ state.solved.mean, functions.shape[2]
    scores, of_average = np.empty((data.n, m)), np.empty((data.n, m))
    for k, (of_fold, mean) in enumerate(zip(functions, fit.fold_means, strict=True)):
        rows = np.flatnonzero(folds == k)
        both = np.concatenate([of_fold, averaged], axis=1)
        values = to_numpy(pilot.features.scores(data.X[rows], both))
        scores[rows], of_average[rows] = values[:, :m] - of_fold.T @ mean, values[:, m:] - centre
    return RuleRows(
        functions=averaged,
        scores=scores,
        of_average=of_average,
        folds=folds,
        encoded=encoded,
        weight=row_weights(data),
    )


def choose_rules(state: FittedState, rows: RuleRows) -> DecisionFit:
    """Choose the rules, given predictions of the codes and of y."""
    pilot, config, fit = state.pilot, state.config, state.solved.new_rows
    assert fit is not None
    assert state.classes is not None
    L, scores, weight = fit.n_functions, rows.scores, rows.weight
    encoded, folds = rows.encoded, rows.folds
    y = to_numpy(encoded.levels)[:, len(pilot.coders)]
    shares = np.bincount(y, weight, minlength=len(state.classes)) / weight.sum()
    slope, intercepts = one_slope(scores[:, -L:] @ fit.contrasts.T, y, weight, shares)
    p = probabilities(scores, fit.contrasts, slope, intercepts)
    favourable, labels = 1, y
    names = tuple(map(str, np.asarray(state.classes).tolist()))
    if len(names) == 2:
        favourable = _favourable(config, state.classes)
        names = names if favourable == 1 else names[::-1]
        labels, p = (y == favourable).astype(np.intp), p[:, favourable]
    blocks = _blocks(pilot, config, encoded, labels, y, weight, favourable)
    predicted = predict_rate_codes(
        scores, folds, weight, _code_blocks(state, blocks, encoded, folds, weight, favourable)
    )
    judged = tuple(JudgedGroups.of(b, weight, pilot.clusters_per_row(b.attribute)) for b in blocks)
    problem = DecisionProblem(
        probability=p,
        codes=predicted.codes,
        blocks=blocks,
        y=labels,
        weight=weight,
        cost=None if config.cost_matrix is None else _costs(config.cost_matrix, favourable),
        selection_rate=config.selection_rate,
        group_rows=tuple(groups.n_effective for groups in judged),
    )
    path = rule_path(problem, gap_limits(problem, N_LIMITS))
    out = DecisionFit(
        functions=rows.functions,
        centre=rows.functions.T @ state.solved.mean,
        contrasts=fit.contrasts,
        slope=slope,
        intercepts=intercepts,
        matrix=predicted.matrix,
        classes=names,
        favourable=favourable,
        judged=judged,
        path=path,
        n_rows=len(weight),
        problem=problem,
        scores=rows.of_average,
        fold_matrices=predicted.fold_matrices,
    )
    spread = out.spread_of_folds(fit.n_folds)
    judged = tuple(replace(g, n_effective=g.n_effective / spread) for g in judged)
    out = replace(out, judged=judged, rate_spread=spread)
    if path.smallest.is_constant:
        warn_user(
            f"At fairness 1 the rule decides alike for {100 * path.smallest.alike:.1f} % of the rows: equal "
            f"rates cost nearly all accuracy here. Look at a wider limit, e.g. at(max_gap=0.05).",
            DataWarning,
        )
    return out


def _favourable(config: FitConfig, classes: Any) -> int:
    return 1 if config.pos_label is None else list(classes).index(config.pos_label)


def _costs(cost_matrix: Any, favourable: int) -> Array:
    costs = np.asarray(cost_matrix, dtype=np.float64)
    return costs[::-1, ::-1].copy() if favourable == 0 and len(costs) == 2 else costs


def _class_of(cell: int | None, pilot: Pilot, favourable: int, n_classes: int) -> int | None:
    """Class of y, as the rule counts them, whose rows are in a cell."""
    if cell is None:
        return None
    label = pilot.cells.positive if pilot.cells.rule == "class" else cell
    return label if n_classes > 2 else int(label == favourable)


def _blocks(
    pilot: Pilot,
    config: FitConfig,
    encoded: Encoded,
    labels: Codes,
    y: Codes,
    weight: Array,
    favourable: int,
) -> tuple[RateBlock, ...]:
    """Groups whose rates are compared."""
    levels = to_numpy(encoded.levels)
    positive = pilot.cells.positive
    if len(np.unique(y)) == 2:
        positive = int(positive == favourable)
    blocks = rate_blocks(
        {coder.name: (levels[:, j], coder.labels) for j, coder in enumerate(pilot.coders)},
        labels,
        weight,
        criterion=cast(RateCriterion, config.criterion_name),
        positive=positive,
    )
    if not blocks:
        msg = (
            "equalize='decisions' compares rates of groups with at least 30 rows each, and no attribute has "
            "two of them. Merge small groups, or use equalize='scores'."
        )
        raise DecisionRuleError(msg)
    left = sorted({f"{b.attribute}={name}" for b in blocks for name in b.left_out})
    if left:
        warn_user(
            f"Groups of fewer than 30 rows are not judged by the decision rule: {', '.join(left[:5])}"
            f"{', ...' if len(left) > 5 else ''}.",
            DataWarning,
        )
    return blocks


def _code_blocks(
    state: FittedState,
    blocks: tuple[RateBlock, ...],
    encoded: Encoded,
    folds: Codes,
    weight: Array,
    favourable: int,
) -> list[CodeBlock]:
    """Whitened codes of the rows, in the order of the predicted ones, with the rates they stand for."""
    fit, classes = state.solved.new_rows, state.classes
    assert fit is not None
    assert classes is not None
    cells, levels, values = map(to_numpy, (encoded.cells, encoded.levels, encoded.values))
    starts = np.cumsum([0, *(block.n_groups for block in blocks)])
    judged = {(b.attribute, b.cell): (b, start) for b, start in zip(blocks, starts, strict=False)}
    out = []
    for codes in (block.codes for block in fit.blocks if block.codes.report.constrained):
        inside = np.ones(len(folds), dtype=bool) if codes.cell is None else cells == codes.cell
        known = codes.has_code(levels, values, inside)
        C = np.zeros((len(folds), codes.rank))
        C[known] = centre_within(
            codes.of_rows(levels, values, inside)[known], folds[known], weight[known]
        )
        size = code_size(
            known, inside, weight, state.pilot.clusters_per_row(codes.report.attribute)
        )
        to_rates = np.zeros((codes.rank, int(starts[-1])))
        label = _class_of(codes.cell, state.pilot, favourable, len(classes))
        if (key := (codes.report.attribute, label)) in judged:
            rates, start = judged[key]
            rows = [codes.names.index(name) for name in rates.groups]
            # Codes are 0 on rows without S, so their predictions are smaller by the share that has it.
            to_rates[:, start : start + len(rows)] = codes.whitening[rows].T / size.share
        out.append(CodeBlock(codes=C, to_rates=to_rates, size=size))
    return out
