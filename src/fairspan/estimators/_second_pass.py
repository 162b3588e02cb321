"""What a likelihood for labels needs of the rows once the moments are known: one pass, or two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError

from fairspan._arrays import to_home
from fairspan._linalg import Array
from fairspan._validation import Data
from fairspan.estimators._curvature import RowCurvature, weighted_cov
from fairspan.estimators._predictor import FairClassifier
from fairspan.estimators._solve import solve
from fairspan.estimators._training_rows import TrainingRows, same_folds
from fairspan.exceptions import DataWarning, warn_user


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
