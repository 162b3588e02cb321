"""Passes over the training rows for likelihoods that moments do not suffice for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError

from fairspan.estimators.predictor import FairClassifier
from fairspan.exceptions import DataWarning, warn_user
from fairspan.method.data import Codes, Data
from fairspan.method.features import LandmarkMap, TransformerMap
from fairspan.method.laplace import LEAST_CURVATURE, RowCurvature, ScoreBlock, row_curvature
from fairspan.method.linalg import Array, is_tensor, to_float64, to_home, to_numpy
from fairspan.method.pilot import Counter
from fairspan.method.solution import solve
from fairspan.method.spaces import squared_lengths
from fairspan.method.torch_columns import compute_dtype, exact_float32, row_blocks

# Rows as they come: features and weights.
Blocks = Iterable[tuple[Array, Array | None]]

# Rows whose coordinates are formed at once.
_BLOCK_ROWS = 2**13


def weighted_cov(
    features: LandmarkMap | TransformerMap, blocks: Callable[[], Blocks]
) -> RowCurvature:
    """Covariance of psi with rows weighted by the curvature of the likelihood, in one pass.

    Class probabilities are those of the regression on one-hot labels, which moments give: no Newton
    steps before the geometry is known. Weights are shares of their sum, so a ridge means the same as
    beside the plain covariance.
    """

    def cov(mean: Array, functions: Array, shares: Array) -> Array:
        total, first, second = 0.0, np.zeros(len(mean)), np.zeros((len(mean), len(mean)))
        for X, weight in blocks():
            if is_tensor(X):
                sums = _tensor_sums(features, X, weight, mean, functions, shares)
                total, first, second = total + sums[0], first + sums[1], second + sums[2]
                continue
            for start in range(0, len(X), _BLOCK_ROWS):
                rows = slice(start, start + _BLOCK_ROWS)
                psi = features.coordinates(X[rows]) - mean
                v = row_curvature(shares + psi @ functions)
                v = v if weight is None else v * weight[rows]
                root = psi * np.sqrt(v)[:, None]
                total, first, second = (
                    total + float(v.sum()),
                    first + v @ psi,
                    second + root.T @ root,
                )
        if total == 0.0:
            msg = "fit_head was given no rows."
            raise ValueError(msg)
        first /= total
        return np.asarray(second / total - np.outer(first, first))

    return cov


def _tensor_sums(
    features: LandmarkMap | TransformerMap, X: Any, weight: Any, mean: Array, functions: Array,
    shares: Array,
) -> tuple[float, Array, Array]:  # fmt: skip
    """Sums of weights, of weighted rows and of their products, on the device of the rows."""
    import torch

    dtype, device = compute_dtype(X), X.device
    make = features.psi_on(device, dtype)
    centre, slopes, level = (
        torch.tensor(v, dtype=dtype, device=device) for v in (mean, functions, shares)
    )
    total, first = centre[:0].sum(), torch.zeros_like(centre)
    second = torch.zeros((len(mean), len(mean)), dtype=dtype, device=device)
    with exact_float32(dtype):
        for rows in row_blocks(X, 2 * len(mean)):
            psi = make(X[rows]).sub_(centre)
            p = torch.addmm(level, psi, slopes)
            v = (1.0 - p.square().sum(dim=1)).clamp_(min=LEAST_CURVATURE)
            v = v if weight is None else v * weight[rows].to(v)
            total, first = total + v.sum(), first + v @ psi
            psi *= v.sqrt()[:, None]
            second.addmm_(psi.T, psi)
    return float(total), to_float64(first), to_float64(second)


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


class SecondPass(FairClassifier):
    """A classifier whose geometry and head look at rows, in memory or streamed again."""

    likelihood: str
    curvature: str
    classes_: np.ndarray
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
            the latter way. The default
            ``curvature="likelihood"`` reads them twice, so pass a list or another iterable that
            starts anew, not a generator.
        """
        with self._unchanged_on_error():
            if not hasattr(self, "_solution"):
                msg = (
                    "fit_head comes after partial_fit, merge or solve: there are no directions yet."
                )
                raise NotFittedError(msg)
            self._check_unchanged()
            if self.likelihood == "gaussian":
                msg = "likelihood='gaussian' is fitted from moments alone; fit_head has nothing to do."
                raise ValueError(msg)
            if self._bends:
                self._need_moments("fit_head")
                _check_starts_anew(blocks)
                self._solution = solve(self.moments_, self.pilot_, self, self._curved_by(blocks))
            counter, rows = self.pilot_.counter(), None
            width = len(self.classes_) + self._solution.basis.shape[1]
            sums = np.zeros((self.pilot_.n_folds, width))
            for block in blocks:
                data = self._read_block(block)
                if data.n:
                    part = TrainingRows.gather(self, data, counter, sums)
                    rows = part if rows is None else rows + part
                else:  # its places count
                    counter.assign(np.empty((0, 1), dtype=np.intp), None, data.given)
            if rows is None:
                msg = "fit_head was given no rows."
                raise ValueError(msg)
            self._rows = self._checked(rows, sums)
            self._locate()
            self._publish()
        return self

    @property
    def _reads_rows_again(self) -> bool:
        return self.likelihood == "logistic"

    def _read_rows_again(self, blocks: Iterable[Mapping[str, Any]], device: Any) -> None:
        self._device = device
        self.fit_head(blocks)
        del self._device

    def _row_curvature(self, data: Data | None) -> RowCurvature | None:
        if data is None or not self._bends:
            return None
        return weighted_cov(self.pilot_.features, lambda: [(data.X, data.weights)])

    def _curved_by(self, blocks: Iterable[Any]) -> RowCurvature:
        def read() -> Iterator[tuple[Array, Array | None]]:
            for block in blocks:
                data = self._read_block(block)
                yield data.X, data.weights

        return weighted_cov(self.pilot_.features, read)

    def _checked(self, rows: TrainingRows, sums: Array) -> TrainingRows:
        """The rows without their held-out scores, where these would not be held out."""
        if rows.held_out is None:
            return rows
        merged = getattr(self, "_merged", False)
        if same_folds(self, sums):
            return rows
        if not merged:
            warn_user(
                f"fit_head was given {len(rows.codes)} rows that are not those of partial_fit, or in "
                f"another order ({self.moments_.n_rows} rows): probabilities are calibrated on the "
                f"scores as they are. Give the same rows in the same order to calibrate held out.",
                DataWarning,
            )
        return replace(rows, held_out=None)

    def _read_block(self, block: Any) -> Data:
        if not isinstance(block, Mapping):
            if not isinstance(block, tuple | list) or len(block) != 3:
                msg = "A block of fit_head is (X, y, sensitive_features), or a dict of fit's arguments."
                raise ValueError(msg)
            block = dict(zip(("X", "y", "sensitive_features"), block, strict=True))
        roles = ("X", "y", "sensitive_features", "control_features", "sample_weight")
        if unknown := sorted(set(block) - set(roles)):
            msg = f"A block of fit_head has {unknown[0]!r}; allowed are {', '.join(roles)}."
            raise ValueError(msg)
        data = self._read(*(block.get(role) for role in roles), reset=False)
        return data if self._device is None else replace(data, X=to_home(data.X, self._device))

    def merge(self, other, *, solve: bool = True) -> Self:
        """Add the moments of another estimator with the same pilot (a worker's copy of this one)."""
        super().merge(other, solve=solve)
        self._merged = True
        return self

    @property
    def _bends(self) -> bool:
        """The geometry is that of the likelihood, not of least squares."""
        wanted = self.curvature == "likelihood" and self.likelihood == "logistic"
        return wanted and self.method == "optimal" and self.subspace == "model"


def _check_starts_anew(blocks: Iterable[Any]) -> None:
    if isinstance(blocks, Iterator):
        msg = (
            "fit_head with curvature='likelihood' reads the blocks twice, but was given an iterator, "
            "which ends after once. Pass a list, or another object whose iter() starts anew; or use "
            "curvature='constant'."
        )
        raise ValueError(msg)
