"""Passes over the training rows for likelihoods that moments do not suffice for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError

from fairspan.estimators.likelihood_metric import LikelihoodMetric
from fairspan.estimators.predictors import RuleClassifier
from fairspan.estimators.rows_again import FoldSums, check_starts_anew, refuse_rows
from fairspan.estimators.state import FittedState
from fairspan.exceptions import DataWarning, warn_user
from fairspan.method.fair_prior import squared_lengths
from fairspan.method.folds import Counter
from fairspan.method.laplace import RowCurvature, ScoreBlock
from fairspan.method.linalg import Array, is_tensor, to_home, to_numpy
from fairspan.method.moments import Moments
from fairspan.method.pilot import Pilot
from fairspan.method.problem import Codes, Data
from fairspan.method.solution import Solution, solve

# Rows whose kernel columns, or Newton terms, are formed at once.
_PASS_ROWS = 2**16
# Tensors are cut into blocks where they live: this only bounds what comes back at once.
_TENSOR_ROWS = 2**20
_NEWTON_ROWS = 2**14
# Up to here what Newton needs of a row is kept from step to step (48 bytes for two classes).
_KEPT_ROWS = 2**20


@dataclass(frozen=True)
class TrainingRows:
    """Per-row scores kept for the Laplace approximation (2d numbers per row)."""

    scores: Array  # B'(psi - mu), (n, 2d)
    held_out: Array | None  # of the path's functions, by functions that did not see the row
    codes: Codes  # class numbers
    weight: Array | None
    lengths: Array | None  # (n, 2), for subspace="fair": see `squared_lengths`

    @classmethod
    def gather(
        cls,
        solution: Solution,
        pilot: Pilot,
        data: Data,
        counter: Counter,
        sums: FoldSums | None = None,
    ) -> TrainingRows:
        """Compute the scores in one pass over the kernel columns; ``counter`` deals rows into folds.

        The rows are added to ``sums`` of the functions of the basis.
        """
        encoded = pilot.encode(data)
        folds = to_numpy(pilot.folds(data, encoded, counter))
        parts = [
            _row_scores(solution, pilot, data.X[rows], folds[rows])
            for rows in _slices(data.n, _TENSOR_ROWS if is_tensor(data.X) else _PASS_ROWS)
        ]
        scores, honest, lengths = zip(*parts, strict=True)
        codes = to_numpy(encoded.levels[:, len(pilot.coders)])
        weights = to_numpy(data.weights)
        if sums is not None:
            sums.add(folds, codes, np.concatenate(scores), weights)
        return cls(np.concatenate(scores), _join(honest), codes, weights, _join(lengths))

    def __add__(self, other: TrainingRows) -> TrainingRows:
        """Rows of two blocks of one pass."""
        weights = None
        if self.weight is not None or other.weight is not None:
            weights = np.concatenate([_or_ones(rows.weight, rows.codes) for rows in (self, other)])
        return TrainingRows(
            np.concatenate([self.scores, other.scores]),
            _join([self.held_out, other.held_out]),
            np.concatenate([self.codes, other.codes]),
            weights,
            _join([self.lengths, other.lengths]),
        )

    @property
    def out_of_fold_scores(self) -> Array | None:
        """Out-of-fold scores on the path, and scores on the extra directions of separate limits.

        The extra directions are regressions of S, which do not depend on labels and are the same for
        every fold.
        """
        if self.held_out is None:
            return None
        return np.concatenate([self.held_out, self.scores[:, self.held_out.shape[1] :]], axis=1)

    def blocks(
        self, C: Array, weight: Array | None, n_classes: int
    ) -> Callable[[], Iterable[ScoreBlock]]:
        """Scores of the functions in the columns of C, block by block, as often as asked."""
        used = np.flatnonzero(C.any(axis=1))  # most functions are of the path alone
        few = C[used]

        def make() -> Iterator[ScoreBlock]:
            for rows in _slices(len(self.codes), _NEWTON_ROWS):
                w = None if weight is None else weight[rows]
                scores = self.scores[rows][:, used] @ few
                yield ScoreBlock.of(scores, self.codes[rows], w, n_classes)

        if len(self.codes) > _KEPT_ROWS:
            return make
        kept = list(make())
        return lambda: kept


def _join(parts: Sequence[Array | None]) -> Array | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def _or_ones(weight: Array | None, codes: Codes) -> Array:
    return np.ones(len(codes)) if weight is None else weight


def _slices(n: int, step: int) -> Iterator[slice]:
    return (slice(start, start + step) for start in range(0, n, step))


def _row_scores(
    solution: Solution, pilot: Pilot, X: Array, folds: Codes
) -> tuple[Array, Array | None, Array | None]:
    """Scores of rows, their held-out scores, and their squared lengths on all of F."""
    held_out = solution.held_out
    bases, m = [solution.basis], solution.basis.shape[1]
    if held_out is not None:
        bases += list(held_out.bases)
    columns = pilot.features.scores(X, np.concatenate(bases, axis=1))
    scores = columns[:, :m] - solution.centre
    honest = None
    if held_out is not None:
        by_fold = columns[:, m:].reshape(len(X), -1, held_out.bases.shape[2])
        honest = by_fold[np.arange(len(X)), folds] - held_out.centres[folds]
    lengths = None
    if solution.fair is not None:
        lengths = squared_lengths(solution, pilot.features, X)
    return scores, honest, lengths


class SecondPass(RuleClassifier):
    """A classifier whose metric and head are fitted on rows, in memory or streamed again."""

    likelihood: str
    _device: Any = None  # where a stream is computed

    def fit_head(self, blocks: Iterable[Any]) -> Self:
        """Fit the likelihood in a second pass, after :meth:`partial_fit` or :meth:`merge`.

        :meth:`fit` has the rows at hand and needs no second call; ``likelihood="gaussian"`` needs none
        at all.

        Parameters
        ----------
        blocks : iterable
            Rows again, as ``(X, y, sensitive_features)`` or as dicts of the arguments of :meth:`fit`. In
            the order of :meth:`partial_fit`, the link can be fitted on scores by functions that did
            not see them; other rows or another order warn, and the link is fitted on the scores as
            they are. Merged workers that did not say where they began have no common order and take
            the latter way.
            ``curvature="likelihood"`` reads them two or three times, so pass a list or another iterable that
            starts anew, not a generator. So does ``equalize="decisions"``, which needs the folds: there
            other rows or another order are an error.
        """
        if self._state is None or self._state.solution is None:
            msg = "fit_head comes after partial_fit, merge or solve: there are no directions yet."
            raise NotFittedError(msg)
        self._check_unchanged()
        if self._config.equalize == "decisions":
            super().fit_head(blocks)
        elif self._config.likelihood == "gaussian":
            msg = "likelihood='gaussian' is fitted from moments alone; fit_head has nothing to do."
            raise ValueError(msg)
        if self._config.likelihood == "logistic":
            self._fit_likelihood(blocks)
        return self

    def _fit_likelihood(self, blocks: Iterable[Any]) -> None:
        with self._step() as work:
            state = work._fit_state
            if state.config.uses_likelihood_metric:
                work._need_moments("fit_head")
                check_starts_anew(blocks, "curvature='likelihood'", "curvature='constant'")
                assert state.moments is not None
                state = replace(state, solution=work._solved_again(state, state.moments, blocks))
            work._state = replace(state, rows=work._gather(state, blocks), ends=None)
            work._locate()

    def _solved_again(
        self, state: FittedState, moments: Moments, blocks: Iterable[Any]
    ) -> Solution:
        """The solution in the metric of the likelihood."""
        pilot, before = state.pilot, state.solved
        assert state.classes is not None
        sums = FoldSums(before.basis, before.mean, pilot.n_folds, len(state.classes))
        metric = LikelihoodMetric(pilot, lambda: map(self._read_block, blocks), sums)
        solution = solve(moments, pilot, state.config, metric)
        if not sums.n_rows or sums.agree_with(moments, pilot):
            return solution
        if solution.new_rows is not None:
            refuse_rows(sums.n_rows, moments.n_rows)
        # Only the estimate about new rows needs the folds of the rows.
        return replace(
            solution,
            refits=None,
            no_estimate="fit_head was given other rows than partial_fit, or another order",
        )

    def _gather(self, state: FittedState, blocks: Iterable[Any]) -> TrainingRows:
        """Scores of the rows of all blocks."""
        solution, pilot = state.solved, state.pilot
        assert state.classes is not None
        counter, rows = pilot.counter(), None
        n_classes = len(state.classes)
        sums = FoldSums(solution.basis, solution.mean, pilot.n_folds, n_classes)
        for block in blocks:
            data = self._read_block(block)
            if data.n:
                part = TrainingRows.gather(solution, pilot, data, counter, sums)
                rows = part if rows is None else rows + part
            else:  # rows of weight zero still advance the counter
                counter.assign(np.empty((0, 1), dtype=np.intp), None, data.given)
        if rows is None:
            msg = "fit_head was given no rows."
            raise ValueError(msg)
        if rows.held_out is None:
            return rows
        if state.moments is None:  # nothing to compare the rows with
            return replace(rows, held_out=None)
        if sums.agree_with(state.moments, pilot):
            return rows
        if not state.merged:
            warn_user(
                f"fit_head was given {len(rows.codes)} rows that are not those of partial_fit, or in "
                f"another order ({state.moments.n_rows} rows): probabilities are calibrated on the "
                f"scores as they are. Give the same rows in the same order to calibrate held out.",
                DataWarning,
            )
        return replace(rows, held_out=None)

    @property
    def _reads_rows_again(self) -> bool:
        return self.likelihood == "logistic"

    def _read_rows_again(self, blocks: Iterable[Mapping[str, Any]], device: Any) -> None:
        self._device = device
        self._fit_likelihood(blocks)
        del self._device

    def _row_curvature(self, state: FittedState, data: Data | None) -> RowCurvature | None:
        if data is None or not state.config.uses_likelihood_metric:
            return None
        return LikelihoodMetric(state.pilot, lambda: [data])

    def _read_block(self, block: Any) -> Data:
        data = super()._read_block(block)
        return data if self._device is None else replace(data, X=to_home(data.X, self._device))
