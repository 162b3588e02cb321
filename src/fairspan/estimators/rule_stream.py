"""Decision rules of streams: from a sample of the rows, and from histograms of all of them (METHOD 13)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairspan.estimators.decision_fit import (
    N_LIMITS,
    DecisionFit,
    RuleRows,
    choose_rules,
    predict_rows,
    probabilities,
    rule_functions,
)
from fairspan.estimators.rows_again import FoldSums
from fairspan.method.decision_codes import apply_by_fold
from fairspan.method.decision_histogram import PairHistogram
from fairspan.method.decision_rule import gap_limits, rule_path
from fairspan.method.linalg import mix, to_numpy
from fairspan.method.pilot import Encoded
from fairspan.method.problem import Codes, Data

if TYPE_CHECKING:
    from fairspan.estimators.state import FittedState

__all__ = ["RuleSample", "rule_sums", "stream_rules"]

# Up to so many rows are kept: the predictions of all rows, or of a sample.
SAMPLE_ROWS = 200_000
# Bins of each of the two numbers of a pair; the error of a rate is at most about 2 / BINS.
BINS = 400


class RuleSample:
    """Predictions of the rows with the smallest hashes of their positions.

    The hash depends only on the position of a row and the seed, so blocks do not matter.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed, self.n_rows = size, seed, 0
        self._parts: list[tuple[Codes, RuleRows]] = []  # hashes, rows

    def add(self, positions: Codes, rows: RuleRows) -> None:
        """Add rows, given their positions in all the data."""
        self.n_rows += len(positions)
        self._parts.append((mix(positions.astype(np.int64), self.seed), rows))
        if sum(len(hashes) for hashes, _ in self._parts) > 2 * self.size:
            self._compact()

    def rows(self) -> RuleRows:
        """The rows of the sample, in the order of the data."""
        self._compact()
        return self._parts[0][1]

    def _compact(self) -> None:
        hashes = np.concatenate([part[0] for part in self._parts])
        kept = np.sort(np.argsort(hashes, kind="stable")[: self.size])
        rows = _join([part[1] for part in self._parts])
        self._parts = [(hashes[kept], _take(rows, kept))]


def _by_row(rows: RuleRows) -> list[NDArray[Any]]:
    return [rows.scores, rows.of_average, rows.folds, rows.weight, *_codes(rows.encoded)]


def _codes(encoded: Encoded) -> list[NDArray[Any]]:
    return [to_numpy(getattr(encoded, field.name)) for field in fields(Encoded)]


def _with_columns(rows: RuleRows, columns: list[NDArray[Any]]) -> RuleRows:
    scores, of_average, folds, weight, *codes = columns
    names = [field.name for field in fields(Encoded)]
    return replace(
        rows,
        scores=scores,
        of_average=of_average,
        folds=folds,
        weight=weight,
        encoded=Encoded(**dict(zip(names, codes, strict=True))),
    )


def _join(parts: list[RuleRows]) -> RuleRows:
    columns = zip(*map(_by_row, parts), strict=True)
    return _with_columns(parts[0], [np.concatenate(column) for column in columns])


def _take(rows: RuleRows, index: Codes) -> RuleRows:
    return _with_columns(rows, [column[index] for column in _by_row(rows)])


def rule_sums(state: FittedState) -> FoldSums | None:
    """Empty sums of the averaged functions of the rules; None if there are no such functions."""
    functions, solution = rule_functions(state), state.solved
    if functions is None or state.classes is None:
        return None
    return FoldSums(functions[1], solution.mean, state.pilot.n_folds, len(state.classes))


def stream_rules(
    state: FittedState, blocks: Callable[[], Iterable[Data]], sums: FoldSums | None = None
) -> tuple[RuleRows, DecisionFit] | None:
    """Choose rules from rows that are read again; None if the fit does not remove dependence on new rows.

    Up to 200,000 rows, the rules are those of all rows in memory. Beyond, probabilities and rate codes are
    fitted on a uniform sample. If a rule depends on two numbers of a row (two classes, two groups, one
    cell), the rows are read once more to count all of them in a histogram. Otherwise the rules, too, are
    chosen from the sample. The rows are added to ``sums``.
    """
    sample = RuleSample(SAMPLE_ROWS, state.pilot.seed)
    for positions, rows in _predicted(state, blocks):
        if rows is None:
            return None
        sample.add(positions, rows)
        if sums is not None:
            codes = to_numpy(rows.encoded.levels)[:, len(state.pilot.coders)]
            sums.add(rows.folds, codes, rows.of_average, rows.weight)
    if sample.n_rows == 0:
        msg = "fit_head was given no rows."
        raise ValueError(msg)
    kept = sample.rows()
    fit = choose_rules(state, kept)
    if sample.n_rows <= SAMPLE_ROWS:
        return kept, fit
    fit = replace(fit, n_streamed=sample.n_rows)
    empty = _empty_histogram(state, fit)
    if empty is None:
        return kept, fit
    histogram = empty
    for _, rows in _predicted(state, blocks):
        assert rows is not None
        histogram = _add(histogram, state, fit, rows)
    return kept, _from_histogram(state, fit, histogram)


def _predicted(
    state: FittedState, blocks: Callable[[], Iterable[Data]]
) -> Iterable[tuple[Codes, RuleRows | None]]:
    """Positions and predictions of the rows of each block."""
    counter = state.pilot.counter()
    for data in blocks():
        start = counter.position
        if data.n == 0:  # rows of weight zero still advance the counter
            counter.assign(np.empty((0, 1), dtype=np.intp), None, data.given)
            continue
        index = np.arange(data.n) if data.index is None else to_numpy(data.index)
        yield start + index, predict_rows(state, data, counter)


def _empty_histogram(state: FittedState, fit: DecisionFit) -> PairHistogram | None:
    """Histogram without rows, for rules that depend on two numbers; else None."""
    problem, coders = fit.problem, state.pilot.coders
    assert problem is not None
    two = problem.n_classes == 2 and len(coders) == 1 and coders[0].n_levels == 2
    if not two or len(problem.blocks) != 1:
        return None
    block, difference = problem.blocks[0], fit.matrix[:, 0] - fit.matrix[:, 1]
    square = float(difference @ difference)
    shares = difference @ fit.matrix / square if square > 0.0 else np.array([0.5, -0.5])
    inner = np.arange(1, BINS) / BINS
    values = (problem.probability, problem.codes[:, 0] - problem.codes[:, 1])
    edges = [np.unique(np.quantile(v, inner)) for v in values]
    return PairHistogram.empty(
        block.attribute,
        (block.groups[0], block.groups[1]),
        (edges[0], edges[1]),
        block.cell,
        (float(shares[0]), float(shares[1])),
    )


def _add(
    histogram: PairHistogram, state: FittedState, fit: DecisionFit, rows: RuleRows
) -> PairHistogram:
    """Count the rows of a block by probability, code, group and class."""
    assert fit.fold_matrices is not None
    p = probabilities(rows.scores, fit.contrasts, fit.slope, fit.intercepts)[:, fit.favourable]
    codes = apply_by_fold(rows.scores, rows.folds, fit.fold_matrices)
    levels = to_numpy(rows.encoded.levels)
    y = (levels[:, len(state.pilot.coders)] == fit.favourable).astype(np.intp)
    return histogram.add(p, codes[:, 0] - codes[:, 1], levels[:, 0], y, rows.weight)


def _from_histogram(state: FittedState, fit: DecisionFit, histogram: PairHistogram) -> DecisionFit:
    """The rules that are chosen from the counts of all rows."""
    of_sample = fit.problem
    assert of_sample is not None
    problem = histogram.problem(of_sample.selection_rate, of_sample.cost)
    attribute = problem.blocks[0].attribute
    judged = histogram.judged(problem.blocks[0], state.pilot.clusters_per_row(attribute))
    path = rule_path(problem, gap_limits(problem, N_LIMITS))
    out = replace(fit, problem=problem, sample=of_sample, histogram=histogram, judged=(judged,))
    return replace(
        out,
        n_rows=histogram.n_rows,
        path=replace(
            path,
            points=tuple(map(out.with_rate_error, path.points)),
            smallest=out.with_rate_error(path.smallest),
        ),
    )
