"""``forget``: the model as if some rows had never been fitted, by subtraction of their moments."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import RBFSampler, SkewedChi2Sampler
from sklearn.preprocessing import PolynomialFeatures

from fairspan._threads import few_threads
from fairspan.estimators.private_fit import refuse_private
from fairspan.estimators.state import FittedEstimator, FittedState
from fairspan.method.accumulate import MomentsPass
from fairspan.method.features import LandmarkMap, TransformerMap
from fairspan.method.folds import (
    HashFolds,
    PositionFolds,
    check_block_groups,
    hash_rows,
    move_to,
)
from fairspan.method.moments import Moments
from fairspan.method.problem import Data, FitConfig

__all__ = ["Forgetting", "fitted_on_rows"]

# Transformers that look at the number of columns only, never at the rows they are fitted on.
_WITHOUT_ROWS = (RBFSampler, SkewedChi2Sampler, PolynomialFeatures)
_NAMED = 5
_REFIT = "Fit the model again on the rows that remain."


class Forgetting(FittedEstimator):
    """Adds :meth:`forget` to an estimator."""

    if TYPE_CHECKING:

        def _step(self) -> AbstractContextManager[Self]: ...
        def _read(
            self,
            X: Any,
            y: Any,
            sensitive: Any,
            control: Any,
            weight: Any,
            *,
            reset: bool,
            groups: Any = None,
            encode: bool = False,
        ) -> Data: ...
        def _solve(self, data: Data | None = None) -> None: ...

    def forget(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        solve: bool = True,
        start: Any = None,
    ) -> Self:
        """Remove rows from the fit: the model as if they had never been part of it.

        The moments of the rows are subtracted, which costs as much as adding them. Landmarks, bandwidth,
        slice edges and category lists stay as they were chosen, so the result is the model of the same
        :meth:`prepare` on the other rows. What needs rows (a logistic likelihood, decision rules) waits
        for :meth:`fit_head` with the rows that remain. If an error is raised, nothing has changed.

        Parameters
        ----------
        X, y, sensitive_features, control_features, sample_weight, groups
            The rows as they were fitted.
        solve : bool, default=True
            Solve for the model afterwards; pass False to add or forget further rows first.
        start : int, optional
            After ``prepare(..., folds="position")``: place of the first of these rows in all the data,
            as :meth:`partial_fit` was given it; the rows must be consecutive.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a row is a landmark, which stays in the model until it is fitted again; if the rows are not
            those of the fit (another X, y, group or weight), as far as moments show it; or if folds were
            dealt among all rows, so that other rows would have other folds without these.
        NumericalError
            If the rows dominate the sums, so that too few digits of the others remain.
        """
        if self._state is None or self._state.moments is None or not self._state.moments.n_rows:
            msg = "forget needs the moments of a fit, and this estimator has none: call fit or partial_fit."
            raise ValueError(msg)
        self._check_unchanged()
        with self._step() as work:
            state = work._fit_state
            _check_form(state)
            given = (X, y, sensitive_features, control_features, sample_weight)
            data = work._read(*given, reset=False, groups=groups).on_host()
            _check_landmarks(state, data)
            _check_folds(state, data)
            with few_threads(data.n, self._state.moments.n_columns):
                moments = self._state.moments - _moments_of(state, data, start)
            n_seen = state.n_samples_seen
            work._state = replace(
                state,
                moments=moments,
                merged=True,  # the rows have no common order any more
                n_samples_seen=None if n_seen is None else n_seen - data.n,
            )
            if moments.n_rows == 0:
                work._state = _without_model(work._fit_state)
            elif solve:
                work._solve()
        return self


def _check_form(state: FittedState) -> None:
    """Raise for fits whose moments are not sums over rows that could be taken apart."""
    pilot, config = state.pilot, state.config
    refuse_private(config, "forget", f"the sums of S were not kept. {_REFIT.removesuffix('.')}")
    if not config.variant.exact:
        msg = (
            f"method={config.method!r} takes the sign of its scores from the first row, which may be one "
            f"of those to forget. {_REFIT}"
        )
        raise ValueError(msg)
    if pilot.precision != "float64":
        msg = (
            f"These moments were computed in {pilot.precision}, and a difference would have too few "
            f"digits. {_REFIT}"
        )
        raise ValueError(msg)
    if pilot.pairwise:
        msg = f"kernel='precomputed' has all rows in its columns. {_REFIT}"
        raise ValueError(msg)


def _check_folds(state: FittedState, data: Data) -> None:
    """Raise if the folds of other rows would have been others without these rows."""
    pilot = state.pilot
    if pilot.n_folds > 1 and pilot.fold_rule not in ("hash", "position"):
        msg = (
            "Folds were dealt among all rows, so without these rows the others would have other folds. "
            f"Prepare with prepare(..., folds='hash') and add rows with partial_fit. Or: {_REFIT.lower()}"
        )
        raise ValueError(msg)
    if pilot.fold_rule != "keys":
        check_block_groups(data.clusters, pilot.fold_rule, clustered=pilot.clustered)


def fitted_on_rows(features: LandmarkMap | TransformerMap, config: FitConfig) -> str | None:
    """What of a feature map was made of the rows given to ``prepare``; None if nothing was."""
    if isinstance(features, LandmarkMap):
        return "landmarks" if isinstance(config.landmarks, str) else None
    if features.transformer is None or isinstance(features.transformer, _WITHOUT_ROWS):
        return None
    return f"feature_map {type(features.transformer).__name__}"


def _check_landmarks(state: FittedState, data: Data) -> None:
    """Raise if rows to forget are part of the feature map."""
    features = state.pilot.features
    made_of = fitted_on_rows(features, state.config)
    if made_of is None:
        return
    if not isinstance(features, LandmarkMap):
        msg = f"{made_of} was fitted on rows, and may have been on these: it cannot be taken back. {_REFIT}"
        raise ValueError(msg)
    rows: NDArray[np.intp] = np.arange(data.n) if data.index is None else data.index
    known = {key: i for i, key in enumerate(hash_rows(features.landmarks, None, 0).tolist())}
    hashes = hash_rows(data.X, None, 0).tolist()
    found = [(int(rows[i]), known.get(key)) for i, key in enumerate(hashes)]
    hits = [(row, landmark) for row, landmark in found if landmark is not None]
    if hits:
        shown = ", ".join(f"row {row} is landmark {landmark}" for row, landmark in hits[:_NAMED])
        more = f" and {len(hits) - _NAMED} more" if len(hits) > _NAMED else ""
        msg = (
            f"{len(hits)} of the rows to forget are landmarks of the kernel, and stay in the model as long "
            f"as these do: {shown}{more} (of landmarks_). Fit the model again on the rows that remain; with "
            f"landmarks=array of public rows, or kernel='linear' on the columns of X, no row is ever "
            f"part of the model."
        )
        raise ValueError(msg)


def _moments_of(state: FittedState, data: Data, start: Any) -> Moments:
    """Moments of the rows to forget, in their folds."""
    pilot = state.pilot
    counter = pilot.counter()
    if isinstance(counter, PositionFolds) and pilot.n_folds > 1 and start is None:
        msg = (
            "Folds go by position, so forget needs start: the place of the first of these rows in all the "
            "data. After prepare(..., folds='hash') it is not needed."
        )
        raise ValueError(msg)
    if start is not None and isinstance(counter, PositionFolds | HashFolds):
        move_to(counter, start)
    row_pass = MomentsPass(pilot, pilot.empty_moments())
    row_pass.add(data, counter)
    return row_pass.moments()


def _without_model(state: FittedState) -> FittedState:
    """State of an estimator that is prepared and has no rows."""
    return FittedState(
        config=state.config,
        given=state.given,
        pilot=state.pilot,
        moments=state.pilot.empty_moments(),
        counter=state.pilot.counter(),
        classes=state.classes,
    )
