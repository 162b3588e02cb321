"""The fit shared by all estimators: rows -> pilot -> moments -> solution -> model at a dial value."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from fairspan._html import estimator_html
from fairspan.device.passes import accumulate, for_precision, precision_for
from fairspan.estimators.prepare import build_pilot
from fairspan.estimators.state import FittedAttribute, FittedState, read_old_state
from fairspan.estimators.stream_methods import StreamFit
from fairspan.exceptions import (
    DataWarning,
    IncompatibleMomentsError,
    each_warning_once,
    warn_user,
)
from fairspan.inputs.config import FitConfig, check_new_fit, read_config
from fairspan.inputs.refit import changed_parameters, check_search, snapshot
from fairspan.inputs.rows import ColumnSchema, check_rows, read_features, read_training_data
from fairspan.method.data import Data, Kind
from fairspan.method.features import LandmarkMap
from fairspan.method.laplace import RowCurvature
from fairspan.method.linalg import Array, to_numpy
from fairspan.method.pilot import Pilot, move_to
from fairspan.method.row_sketch import RowSketch
from fairspan.method.solution import Solution, solve
from fairspan.method.spaces import ModelSpace, Position, SeparateLimits, Space, locate
from fairspan.streaming.sample import pilot_rows

# Attributes of an instance that are not parameters.
_OF_A_FIT = frozenset(("_state", "_schema", "n_features_in_", "feature_names_in_", "selection_"))


def _target_kind_name(state: FittedState) -> str | None:
    if state.pilot.target is None:
        return None
    return "numeric" if state.pilot.target_is_numeric else "classes"


def _directions_by_cell(state: FittedState) -> dict[str, dict[str, int]]:
    reports = [report for report in state.solved.reports if report.constrained]
    return {
        cell: {r.attribute: r.n_directions for r in reports if r.cell == cell}
        for cell in state.pilot.cells.names
    }


@dataclass(frozen=True)
class ScoredRows:
    """Clean rows with their scores on the basis of the path; predictions accept them in place of X.

    Every model of the path is a blend of the functions of the basis, so its scores need no further
    pass over the kernel columns.
    """

    X: Array  # (n, p), as `_read_new` returns it
    on_basis: Array  # (n, 2d)

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: slice) -> Array:
        return self.X[rows]


class FairKernelEstimator(StreamFit, BaseEstimator):
    """Shared parameters, fitting, merging and the dial of every fair kernel estimator."""

    _state: FittedState | None = None
    _schema: ColumnSchema = ColumnSchema()
    # Kind of y that the estimator predicts; None: y is read as it is.
    _target_kind: Kind | None = None
    # Likelihood of an estimator that has no such parameter.
    _likelihood: str | None = None

    pilot_ = FittedAttribute(lambda s: s.pilot, after="pilot")
    moments_ = FittedAttribute(lambda s: s.moments, after="moments")
    classes_ = FittedAttribute(lambda s: s.classes, after="pilot")
    n_samples_seen_ = FittedAttribute(lambda s: s.n_samples_seen, after="pilot")
    smallest_eigenvalue_ = FittedAttribute(lambda s: s.smallest_eigenvalue, after="pilot")
    gamma_ = FittedAttribute(lambda s: s.pilot.gamma, optional=True)
    n_components_ = FittedAttribute(lambda s: s.pilot.features.rank)
    landmarks_ = FittedAttribute(
        lambda s: s.pilot.features.landmarks if isinstance(s.pilot.features, LandmarkMap) else None,
        optional=True,
    )
    dropped_mass_ = FittedAttribute(lambda s: s.pilot.features.dropped_mass)
    approximation_residual_ = FittedAttribute(lambda s: s.pilot.residual)
    sensitive_kinds_ = FittedAttribute(lambda s: {c.name: c.kind for c in s.pilot.coders})
    target_kind_ = FittedAttribute(_target_kind_name, optional=True)
    cells_ = FittedAttribute(lambda s: list(s.pilot.cells.names))
    alpha_ = FittedAttribute(
        lambda s: None if s.pilot.target is None else s.solved.eta_y * s.solved.weight,
        optional=True,
    )
    cosines_ = FittedAttribute(lambda s: s.solved.pair.cosines)
    angles_ = FittedAttribute(lambda s: s.solved.pair.angles)
    n_removed_ = FittedAttribute(lambda s: s.solved.n_removed)
    blocks_ = FittedAttribute(lambda s: s.solved.reports)
    n_directions_ = FittedAttribute(_directions_by_cell)
    certificate_ = FittedAttribute(lambda s: s.located.certificate, after="position")
    score_coef_ = FittedAttribute(lambda s: s.located.coef, after="position")
    score_intercept_ = FittedAttribute(lambda s: s.located.intercept, after="position")
    fairness_ = FittedAttribute(lambda s: s.located.fairness, after="position")

    # S and control features are requested by default, so Pipeline, GridSearchCV and cross_validate
    # route them without a `set_fit_request` of the user's.
    __metadata_request__fit = {"sensitive_features": True, "control_features": True}
    __metadata_request__partial_fit = {"sensitive_features": True, "control_features": True}

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = "cv",
        kernel_params: Any = None,
        feature_map: Any = None,
        n_components: Any = "auto",
        landmarks: Any = "stratified",
        criterion: Any = "statistical_parity",
        fairness: Any = 1.0,
        dial: Any = "angle",
        sensitive_kind: Any = "auto",
        dependence: Any = "mean",
        n_slices: Any = 10,
        intersectional: Any = False,
        pos_label: Any = None,
        n_sensitive_directions: Any = "auto",
        n_predictive_directions: Any = "auto",
        eta: Any = "auto",
        alpha: Any = "auto",
        subspace: Any = "model",
        method: Any = "optimal",
        missing_sensitive: Any = "raise",
        random_state: Any = None,
        verbose: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.feature_map = feature_map
        self.n_components = n_components
        self.landmarks = landmarks
        self.criterion = criterion
        self.fairness = fairness
        self.dial = dial
        self.sensitive_kind = sensitive_kind
        self.dependence = dependence
        self.n_slices = n_slices
        self.intersectional = intersectional
        self.pos_label = pos_label
        self.n_sensitive_directions = n_sensitive_directions
        self.n_predictive_directions = n_predictive_directions
        self.eta = eta
        self.alpha = alpha
        self.subspace = subspace
        self.method = method
        self.missing_sensitive = missing_sensitive
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    # `_repr_html_` stays scikit-learn's: it is there only where its `display` option asks for it.
    def _repr_html_inner(self) -> str:
        return estimator_html(estimator_html_repr(self), self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        out = super()._repr_mimebundle_(**kwargs)
        if "text/html" in out:
            out["text/html"] = self._repr_html_inner()
        bundle: dict[str, str] = out
        return bundle

    # ------------------------------------------------------------------ fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Learn the fair subspace and the model space from rows in memory.

        Parameters
        ----------
        X : array-like, frame or torch tensor of shape (n_samples, n_features)
            Numbers without gaps; see :func:`fairspan.table_encoder` for everything else. The moments
            of a tensor are taken on its device, and beyond 100,000 of its rows a sample decides what
            :meth:`prepare` decides.
        y : array-like of shape (n_samples,)
            Classes (text, booleans, two values, integers with at most 20 values) or numbers.
        sensitive_features : array-like, frame, or column name(s) of X
            One or several protected attributes. Never needed again after fitting. pandas objects are
            matched with X by their index, here and for y, control features and weights.
        control_features : array-like, frame, or column name(s) of X, optional
            Strata for ``criterion="conditional_statistical_parity"``.
        sample_weight : array-like of shape (n_samples,), optional
            Weight k counts as k copies in every moment. The automatic choices (gamma, alpha, eta,
            landmarks, tests) use effective sizes instead, so exact equivalence holds when those are
            fixed.

        Returns
        -------
        self
        """
        check_search()
        with self._new_fit() as work:
            data = work._read(X, y, sensitive_features, control_features, sample_weight, reset=True)
            work._prepare(*pilot_rows(work._config, data))
            work._absorb(data)
            work._solve(data)
        return self

    def prepare(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        folds: Any = "strata",
    ) -> Self:
        """Freeze landmarks, bandwidth, slice edges and category lists on these rows; no moments.

        Follow with :meth:`partial_fit` on blocks, on this estimator or on copies of it whose moments
        are brought together by :meth:`merge`.

        Parameters
        ----------
        X, y, sensitive_features, control_features, sample_weight
            As in :meth:`fit`.
        folds : {"strata", "position"}, default="strata"
            How rows are dealt into folds for the choices that cross-validate. "strata": in turn within
            each combination of y and S, as :meth:`fit` does; workers begin anew, each with its own
            turns. "position": by the place of a row in all the data, so that workers that pass
            ``start`` to :meth:`partial_fit` end in the model of one pass.
        """
        if folds not in ("strata", "position"):
            msg = f"folds={folds!r} is not allowed; give 'strata' or 'position'."
            raise ValueError(msg)
        with self._new_fit() as work:
            data = work._read(X, y, sensitive_features, control_features, sample_weight, reset=True)
            if self.kernel == "precomputed":
                msg = (
                    "kernel='precomputed' cannot stream: a block of rows has no kernel columns of its "
                    "own. Use `fit` with the whole matrix, or a kernel that can be evaluated."
                )
                raise ValueError(msg)
            work._prepare(data, folds)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        solve: Any = True,
        start: Any = None,
    ) -> Self:
        """Add a block of rows.

        An estimator that was not prepared is prepared on this first block (and says so). Any
        partition of the same rows gives the same moments.

        Parameters
        ----------
        X, y, sensitive_features, control_features, sample_weight
            As in :meth:`fit`.
        solve : bool, default=True
            Solve for the model after adding. In a long loop pass False and call :meth:`solve` once:
            adding costs O(rows D^2), solving O(D^3).
        start : int, optional
            Place of the block's first row in all the data, for workers that begin in the middle. After
            ``prepare(..., folds="position")`` any partition then ends in the same model,
            ``alpha="auto"`` included. The row after the last block if not given.
        """
        first = self._state is None
        if not first:
            self._check_unchanged()
            self._need_moments("partial_fit")
        with self._new_fit() if first else self._step() as work:
            data = work._read(
                X, y, sensitive_features, control_features, sample_weight, reset=first
            )
            if first:
                if self.kernel == "precomputed":
                    msg = "kernel='precomputed' cannot stream. Use `fit` with the whole matrix."
                    raise ValueError(msg)
                warn_user(
                    f"partial_fit prepares on its first block: landmarks, bandwidth, slice edges and "
                    f"category lists are frozen on these {data.n} rows. Call `prepare` on a "
                    f"representative sample to choose them yourself.",
                    DataWarning,
                )
                work._prepare(data)
            work._absorb(data, start)
            if solve:
                work.solve()
        return self

    def merge(self, other: FairKernelEstimator, *, solve: bool = True) -> Self:
        """Add the moments of another estimator with the same pilot (a worker's copy of this one)."""
        for name, est in (("this estimator", self), ("the other estimator", other)):
            if est._state is None or est._state.moments is None:
                msg = f"merge needs moments on both sides, but {name} has none: call partial_fit on it."
                raise IncompatibleMomentsError(msg)
            est._check_unchanged()
        with self._step() as work:
            work._state = replace(
                work._fit_state, moments=self.moments_ + other.moments_, merged=True
            )
            if solve:
                work._solve()
        return self

    def solve(self) -> Self:
        """Solve for the model from the moments gathered so far."""
        self._check_unchanged()
        if self._state is not None and self._state.solution is not None:
            self._need_moments("solve")
        if self._state is None or self._state.moments is None or self._state.moments.n_rows == 0:
            msg = f"This {type(self).__name__} has seen no rows yet; call `fit` or `partial_fit`."
            raise NotFittedError(msg)
        with self._step() as work:
            work._solve()
        return self

    # ------------------------------------------------------------------ the dial

    def at(self, fairness: Any = None, *, dial: Any = None, max_correlation: Any = None) -> Self:
        """The same fit at another dial value: a new estimator, without the data.

        Parameters
        ----------
        fairness : float in [0, 1], optional
            0 is the unconstrained model, 1 the fairest.
        dial : {"angle", "cosine", "correlation"}, optional
            Scale on which ``fairness`` is read; the estimator's own if not given.
        max_correlation : float in [0, 1], or dict of such, optional
            Instead of ``fairness``: the largest in-sample multiple correlation of the fitted score
            with any protected attribute in any cell. A dict gives every attribute it names a limit
            of its own (the others have none), e.g. ``{"sex": 0.05, "age": 0.1}``. The model is then
            the nearest to the unconstrained one that keeps them all, off the line of the other dials.
            For least squares it has the lowest penalised squared error on the training rows within the
            limits, among all combinations of the unconstrained score and the regressions of the
            protected attributes on the features; a warning says where this could not be proved. For one
            predictive direction (a numeric y, or two classes).

        Returns
        -------
        estimator
            Fitted, sharing the moments; ``get_params()`` shows the new dial.

        Raises
        ------
        ValueError
            If a parameter other than ``fairness``, ``dial`` and ``verbose`` was changed after the fit.
        """
        self._check_fitted()
        self._check_unchanged()
        if (fairness is None) == (max_correlation is None):
            msg = (
                "at() takes either `fairness` or `max_correlation`, e.g. at(0.7) or "
                "at(max_correlation=0.05)."
            )
            raise ValueError(msg)
        if max_correlation is not None:
            if dial not in (None, "correlation"):
                msg = f"max_correlation is read on dial='correlation', not {dial!r}; leave `dial` out."
                raise ValueError(msg)
            fairness, dial = _one_minus(max_correlation), "correlation"
        out = copy.copy(self)
        out.fairness = fairness
        out.dial = self.dial if dial is None else dial
        read_config(out)
        out._locate()
        return out

    # ------------------------------------------------------------------ steps of a fit

    @contextmanager
    def _step(self) -> Iterator[Self]:
        """Yield a copy to work on; the estimator takes its state over if no error is raised."""
        work = copy.copy(self)
        with each_warning_once():
            yield work
        found = {name: work.__dict__[name] for name in _OF_A_FIT if name in work.__dict__}
        for name in _OF_A_FIT.difference(found):
            self.__dict__.pop(name, None)
        self.__dict__.update(found)

    @contextmanager
    def _new_fit(self) -> Iterator[Self]:
        """Yield a copy without fitted state, as :meth:`_step` does."""
        with self._step() as work:
            for name in _OF_A_FIT:
                work.__dict__.pop(name, None)
            check_new_fit(read_config(work))  # raises before any data is read
            yield work

    def _read(
        self, X: Any, y: Any, sensitive: Any, control: Any, weight: Any, *, reset: bool
    ) -> Data:
        data = read_training_data(self, self._config, X, y, sensitive, control, weight, reset=reset)
        if reset:
            self._schema = replace(self._schema, sensitive_columns=data.sensitive_columns)
        return data

    def _prepare(self, data: Data, fold_rule: str = "strata") -> None:
        """Freeze the pilot on these rows, with no moments yet."""
        config = self._config
        precision, data = precision_for(data.X), data.on_host()
        if data.n < 2:
            msg = (
                f"n_samples={data.n}: at least two rows are needed to learn anything about groups."
            )
            raise ValueError(msg)
        check_rows(self, config, data)
        pilot = for_precision(build_pilot(config, data, fold_rule), precision)
        classes = None
        if pilot.target is not None and not pilot.target_is_numeric and data.classes is not None:
            classes = data.classes.in_order_of(pilot.target)
        self._state = FittedState(
            config=config,
            given=snapshot(self.get_params(deep=False)),
            pilot=pilot,
            moments=pilot.empty_moments(),
            counter=pilot.counter(),
            classes=classes,
        )

    def _absorb(self, data: Data, start: int | None = None) -> None:
        """Add the moments of these rows."""
        state = self._fit_state
        assert state.moments is not None
        assert state.counter is not None
        counter = state.counter.copy()
        if start is not None:
            move_to(counter, start)
        moments, smallest = accumulate(
            state.pilot, state.moments, counter, data, verbose=self.verbose
        )
        self._state = replace(
            state,
            moments=moments,
            counter=counter,
            n_samples_seen=None if state.n_samples_seen is None else counter.position,
            smallest_eigenvalue=state.smallest_eigenvalue if smallest is None else smallest,
        )

    def _solve(self, data: Data | None = None) -> None:
        """Solve from the moments; ``data`` are all the rows, if they are in memory."""
        state = self._fit_state
        assert state.moments is not None
        curvature = self._row_curvature(state, data)
        solution = solve(state.moments, state.pilot, state.config, curvature)
        self._state = self._with_rows(replace(state, solution=solution), data)
        self._locate()

    def _row_curvature(
        self,
        state: FittedState,  # noqa: ARG002
        data: Data | None,  # noqa: ARG002
    ) -> RowCurvature | None:
        """Metric of a likelihood, computed from the rows; None is the metric of the moments."""
        return None

    def _with_rows(self, state: FittedState, data: Data | None) -> FittedState:  # noqa: ARG002
        """State with what the head needs of the training rows."""
        return state

    def _locate(self) -> None:
        """Move the model to the dial value of the parameters."""
        self._check_unchanged()
        self.__dict__.pop("selection_", None)  # `selection_` describes the previous dial value
        self._state = self._positioned(self._current_state)

    def _positioned(self, state: FittedState) -> FittedState:
        """State with the model at its dial value."""
        return replace(state, position=locate(self._space(state), state.config))

    def _space(self, state: FittedState) -> Space:
        """The family of models that the dial moves along."""
        limits = isinstance(state.config.fairness, Mapping)
        return (SeparateLimits if limits else ModelSpace)(state.solved, state.config)

    def _follow(self, earlier: list[Any]) -> None:
        """Start from the models before this one on a path."""

    def _path_head(self) -> tuple[Position, Array, Array]:
        """Position on the dial, coefficients and intercepts, without a full :meth:`_locate`."""
        self._check_unchanged()
        state = self._current_state
        position = locate(self._space(state), state.config)
        return position, position.coef, position.intercept

    # ------------------------------------------------------------------ fitted state

    @property
    def _fit_state(self) -> FittedState:
        """The state, which must exist."""
        assert self._state is not None
        return self._state

    @property
    def _current_state(self) -> FittedState:
        """The state with the dial value of the parameters."""
        state = self._fit_state
        config = replace(state.config, fairness=self.fairness, dial=self.dial, verbose=self.verbose)
        return replace(state, config=config)

    @property
    def _config(self) -> FitConfig:
        """Parameters of the fit; before a fit, the current ones."""
        return read_config(self) if self._state is None else self._state.config

    @property
    def _solution(self) -> Solution:
        return self._fit_state.solved

    @property
    def _position(self) -> Position:
        return self._fit_state.located

    @property
    def _pilot(self) -> Pilot:
        return self._fit_state.pilot

    @property
    def _fitted_rows(self) -> RowSketch | None:
        return None if self._state is None else self._state.fitted_rows

    @property
    def _n_features_out(self) -> int:
        return int(self._position.directions.shape[1])

    @property
    def encoder_(self) -> Any:
        """Fitted transformer of tables, if :meth:`fit_stream` made one."""
        if self._schema.encoder is None:
            msg = f"{type(self).__name__!r} object has no attribute 'encoder_'"
            raise AttributeError(msg)
        return self._schema.encoder

    @property
    def text_features_(self) -> list[str]:
        """Columns that held text, if :meth:`fit_stream` encoded a table."""
        if self._schema.text_features is None:
            msg = f"{type(self).__name__!r} object has no attribute 'text_features_'"
            raise AttributeError(msg)
        return list(self._schema.text_features)

    def _scores(self, X: Array | ScoredRows) -> Array:
        """``Pi(x) = E'(psi(x) - mu)``."""
        position = self._position
        if isinstance(X, ScoredRows):
            return np.asarray(X.on_basis @ position.blend - position.offset)
        return self._pilot.features.scores(X, position.directions) - position.offset

    def _outputs(self, X: Any) -> Array:
        """The fitted score of new rows: one column per output."""
        return self._scores(self._read_new(X)) @ self.score_coef_ + self.score_intercept_

    def _coordinates(self, X: Array) -> Array:
        """``psi(x) - mu``, for what needs all of psi and not only scores."""
        return np.asarray(to_numpy(self._pilot.features.coordinates(X)) - self._solution.mean)

    def _need_moments(self, what: str) -> None:
        if self._fit_state.moments is None:
            msg = f"{what} needs the moments, which this model was saved without (keep_moments=False)."
            raise ValueError(msg)

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def _read_new(self, X: Any) -> Array:
        self._check_fitted()
        if isinstance(X, ScoredRows):
            return X  # type: ignore[return-value]  # `_scores` reads it in place of an array
        return read_features(self, X, reset=False, config=self._config)

    def __sklearn_is_fitted__(self) -> bool:
        return self._state is not None and self._state.position is not None

    def _check_unchanged(self) -> None:
        """Raise if a parameter that the fit depends on was changed since."""
        if self._state is None or not (changed := changed_parameters(self._state.given, self)):
            return
        name = changed[0]
        msg = (
            f"{name} was changed after the fit (fitted with {self._state.given[name]!r:.80}, now "
            f"{getattr(self, name)!r:.80}), and this model was never fitted with the new value. Call "
            f"fit again, or set {name} back. Only fairness, dial and verbose can change without a fit."
        )
        raise ValueError(msg)

    # ------------------------------------------------------------------ files

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from a file or a pickle.

        Parameters are not repeated in the file: a model is saved only while they are those of the fit.
        """
        super().__setstate__(state)
        attributes = self.__dict__
        # A file may be older than a parameter, which then had its default value.
        for name, parameter in inspect.signature(type(self)).parameters.items():
            attributes.setdefault(name, parameter.default)
        if "pilot_" in attributes:
            self._read_old_attributes(attributes)
        fitted = attributes.get("_state")
        if fitted is not None and "config" not in fitted.__dict__:
            complete = {"config": read_config(self), "given": snapshot(self.get_params(deep=False))}
            fitted.__dict__.update(complete)

    def _read_old_attributes(self, attributes: dict[str, Any]) -> None:
        """Turn the attributes of version 0.1.0 into the state and the schema of columns."""
        encoder, text = attributes.pop("encoder_", None), attributes.pop("text_features_", None)
        numbers = attributes.pop("_column_numbers", None)
        self._schema = ColumnSchema(
            encoder=encoder,
            text_features=None if text is None else tuple(text),
            sensitive_columns=tuple(attributes.pop("_sensitive_columns", ())),
            column_numbers=None if numbers is None else tuple(numbers),
        )
        state = read_old_state(attributes, read_config(self))
        state = replace(
            state, given=snapshot(self.get_params(deep=False)), head=self._read_old_head(attributes)
        )
        for name in set(attributes) - set(self.get_params(deep=False)):
            if isinstance(getattr(type(self), name, None), FittedAttribute | property):
                del attributes[name]
        self._state = state

    def _read_old_head(self, attributes: dict[str, Any]) -> Any:  # noqa: ARG002
        """The head of a file that version 0.1.0 wrote."""
        return None


def _one_minus(max_correlation: Any) -> Any:
    """Fairness on the correlation dial for a limit, or for one limit per attribute."""
    limits = max_correlation if isinstance(max_correlation, Mapping) else {"": max_correlation}
    for limit in limits.values():
        number = isinstance(limit, int | float | np.number) and not isinstance(limit, bool)
        if not number or not 0.0 <= limit <= 1.0:
            msg = (
                f"max_correlation={max_correlation!r} is not allowed; give a number from 0 to 1, or a "
                f"dict with one for each attribute that is to have a limit."
            )
            raise ValueError(msg)
    if isinstance(max_correlation, Mapping):
        return {name: 1.0 - float(limit) for name, limit in max_correlation.items()}
    return 1.0 - max_correlation
