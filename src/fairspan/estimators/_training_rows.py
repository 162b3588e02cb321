"""What a likelihood that is not Gaussian must know of the training rows: 2d scores each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan._arrays import is_tensor, to_numpy
from fairspan._linalg import Array
from fairspan._validation import Data
from fairspan.codes import Codes
from fairspan.estimators._fair_space import squared_lengths
from fairspan.estimators._pilot import Counter
from fairspan.laplace import ScoreBlock

# Rows whose kernel columns, or Newton terms, are formed at once.
_PASS_ROWS = 2**16
# Tensors are cut into blocks where they live: this only bounds what comes back at once.
_TENSOR_ROWS = 2**20
_NEWTON_ROWS = 2**14
# Up to here what Newton needs of a row is kept from step to step (48 bytes for two classes).
_KEPT_ROWS = 2**20


@dataclass(frozen=True)
class TrainingRows:
    """Scores on the path's basis, so that every dial value can be fitted without the rows."""

    scores: Array  # B'(psi - mu), (n, 2d)
    held_out: Array | None  # of the path's functions, by functions that did not see the row
    codes: Codes  # class numbers
    weight: Array | None
    lengths: Array | None  # (n, 2), for subspace="fair": see `squared_lengths`

    @classmethod
    def gather(
        cls, est: Any, data: Data, counter: Counter, sums: Array | None = None
    ) -> TrainingRows:
        """One pass over the kernel columns; ``counter`` says which fold each row is in.

        ``sums`` (folds, classes + 2d) takes up the weight of each class and weighted scores by fold.
        """
        solution, pilot = est._solution, est.pilot_
        encoded = pilot.encode(data)
        held_out = solution.held_out
        folds = to_numpy(counter.assign(encoded.strata, data.index, data.given))
        parts = [
            _pass(est, solution, held_out, data.X[rows], folds[rows])
            for rows in _slices(data.n, _TENSOR_ROWS if is_tensor(data.X) else _PASS_ROWS)
        ]
        scores, honest, lengths = zip(*parts, strict=True)
        codes = to_numpy(encoded.levels[:, len(pilot.coders)])
        weights = to_numpy(data.weights)
        if sums is not None:
            weight = _or_ones(weights, codes)[:, None]
            one_hot = codes[:, None] == np.arange(sums.shape[1] - scores[0].shape[1])
            columns = np.concatenate([weight * one_hot, weight * np.concatenate(scores)], axis=1)
            np.add.at(sums, folds, columns)
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
    def honest(self) -> Array | None:
        """Scores by functions that did not see the row's label, as far as they depend on labels.

        Functions beyond the path, for separate limits, are regressions of S less what the path has of
        them, the same for every fold.
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


def same_folds(est: Any, sums: Array) -> bool:
    """Do the moments have these rows, fold by fold? Weights of classes and mean scores say it."""
    moments, pending = est.moments_.over_cells(), est.pilot_.features.pending
    target = len(est.pilot_.coders)
    for fold, row in enumerate(sums):
        pooled = moments.pool(folds=np.arange(moments.n_folds) == fold)
        mean = pooled.mean if pending is None else pooled.mean @ pending
        expected = pooled.weight * (mean @ est._solution.basis - est._solution.centre)
        scale = pooled.weight * np.sqrt(np.diag(est._solution.path.cov))
        classes = pooled.levels[target].weight
        mass, scores = row[: len(classes)], row[len(classes) :]
        if np.any(np.abs(mass - classes) > 1e-6 * pooled.weight):
            return False
        if np.any(np.abs(scores - expected) > 1e-6 * scale):
            return False
    return True


def _join(parts: Sequence[Array | None]) -> Array | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def _or_ones(weight: Array | None, codes: Codes) -> Array:
    return np.ones(len(codes)) if weight is None else weight


def _slices(n: int, step: int) -> Iterator[slice]:
    return (slice(start, start + step) for start in range(0, n, step))


def _pass(
    est: Any, solution: Any, held_out: Any, X: Array, folds: Codes
) -> tuple[Array, Array | None, Array | None]:
    bases, m = [solution.basis], solution.basis.shape[1]
    if held_out is not None:
        bases += list(held_out.bases)
        on_path = held_out.bases.shape[2]
    found = est.pilot_.features.scores(X, np.concatenate(bases, axis=1))
    scores = found[:, :m] - solution.centre
    honest = None
    if held_out is not None:
        by_fold = found[:, m:].reshape(len(X), -1, on_path)
        honest = by_fold[np.arange(len(X)), folds] - held_out.centres[folds]
    lengths = None if solution.fair is None else squared_lengths(est, X)
    return scores, honest, lengths
