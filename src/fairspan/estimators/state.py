"""The fitted state of an estimator, and what depends on it: attributes, scores of new rows, files.

The state is one frozen record, replaced as a whole.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, replace
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fairspan.exceptions import FairspanWarning, warn_user
from fairspan.inputs.config import Configurable, read_config
from fairspan.inputs.rows import ColumnSchema, read_features
from fairspan.method.decision_rule import RulePoint
from fairspan.method.erasure import Erasure
from fairspan.method.features import LandmarkMap
from fairspan.method.folded import FoldedMap
from fairspan.method.folds import Counter
from fairspan.method.linalg import Array, is_tensor, to_numpy
from fairspan.method.moments import Moments
from fairspan.method.new_rows_space import NewRowsEnds
from fairspan.method.pilot import Pilot
from fairspan.method.problem import Codes, FitConfig, Kind
from fairspan.method.row_sketch import Mask, RowSketch
from fairspan.method.site_dependence import SiteSums
from fairspan.method.solution import Solution
from fairspan.method.spaces import Position, native_dial
from fairspan.method.sparse_rows import as_matrix

if TYPE_CHECKING:
    from fairspan.estimators.conformal import Conformal
    from fairspan.estimators.decision_fit import DecisionFit, RuleRows
    from fairspan.estimators.likelihood_rows import TrainingRows

__all__ = [
    "FittedAttribute",
    "FittedEstimator",
    "FittedState",
    "ScoredRows",
    "check_search",
    "snapshot",
]


@dataclass(frozen=True, kw_only=True)
class FittedState:
    """Everything a fit has produced so far; steps that have not run yet are None."""

    config: FitConfig  # parameters of the fit, at the dial value of the model
    given: Mapping[str, Any]  # snapshot of the parameters, to notice changes
    pilot: Pilot
    moments: Moments | None  # None: saved without moments
    counter: Counter | None
    classes: NDArray[Any] | None = None
    row_sketch: RowSketch | None = None  # of a model that was saved without moments
    n_samples_seen: int | None = None  # only after `fit_stream`
    smallest_eigenvalue: float | None = None  # only after a pass on a device
    merged: bool = False  # moments of workers without a common order of rows were added
    sites: tuple[SiteSums, ...] = ()  # of a model that was merged from files
    solution: Solution | None = None
    folds: Codes | None = None  # of the training rows, for learners; not saved
    rows: TrainingRows | None = None  # scores of the training rows, for likelihoods of labels
    ends: NewRowsEnds | None = None  # both ends of the dial, of a likelihood on new rows
    decisions: DecisionFit | None = None  # rules of a classifier that equalizes decisions
    rule: RulePoint | None = None  # the rule at the dial value
    rule_rows: RuleRows | None = None  # rows in memory, from which rules can be chosen later
    position: Position | None = None
    conformal: Conformal | None = None  # calibration of intervals or sets, at this dial value
    erasure: Erasure | None = None  # of a FairEraser, which has no solution and no position
    head: Any = None  # what a Gaussian process adds to the head: noise, posterior, link

    def __getstate__(self) -> dict[str, Any]:
        """Copies and files have no rows from which rules could be chosen."""
        return {**vars(self), "rule_rows": None}

    @property
    def is_solved(self) -> bool:
        """Whether there is a model."""
        return self.solution is not None or self.erasure is not None

    @property
    def solved(self) -> Solution:
        """The solution, which must exist."""
        assert self.solution is not None
        return self.solution

    @property
    def located(self) -> Position:
        """The model at its dial value, which must exist."""
        assert self.position is not None
        return self.position

    @property
    def fitted_rows(self) -> RowSketch | None:
        """Sketch of the rows of the fit; None for a model that was saved without it."""
        return self.row_sketch if self.moments is None else self.moments.row_sketch


Value = TypeVar("Value")


class FittedAttribute(Generic[Value]):
    """Public read-only attribute of an estimator, computed from its fitted state.

    It does not exist before the step named by ``after``, nor where its value is None, unless
    ``optional`` allows None as a value.
    """

    def __init__(
        self,
        read: Callable[[FittedState], Value | None],
        *,
        after: str = "solution",
        optional: bool = False,
    ) -> None:
        self._read, self._after, self._optional = read, after, optional

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, estimator: None, owner: type) -> Self: ...

    @overload
    def __get__(self, estimator: object, owner: type) -> Value: ...

    def __get__(self, estimator: Any, owner: type) -> Self | Value:
        if estimator is None:
            return self
        state = estimator._state
        if state is not None and getattr(state, self._after) is not None:
            value = self._read(state)
            if value is not None or self._optional:
                return value  # type: ignore[return-value]
        msg = f"{type(estimator).__name__!r} object has no attribute {self._name!r}"
        raise AttributeError(msg)

    def __set__(self, estimator: Any, value: Value) -> None:
        msg = f"{self._name} belongs to the fit and cannot be set."
        raise AttributeError(msg)


def read_old_state(attributes: dict[str, Any], config: FitConfig) -> FittedState:
    """Build the state from the attributes that version 0.1.0 kept on an estimator.

    The attributes that become part of the state are taken out of the dict.
    """
    take = attributes.pop
    position, fair_space = take("_position", None), take("_fair_space", None)
    if position is not None:
        # A posterior with another prior than the isotropic one has coefficients of its own.
        coef = {"coef": take("score_coef_", position.coef), "fair_space": fair_space}
        vars(position).update(coef)
    return FittedState(
        config=config,
        given={},
        pilot=take("pilot_"),
        moments=take("moments_", None),
        counter=take("_counter", None),
        classes=take("classes_", None),
        row_sketch=take("_row_sketch", None),
        n_samples_seen=take("n_samples_seen_", None),
        smallest_eigenvalue=take("smallest_eigenvalue_", None),
        merged=take("_merged", False),
        solution=take("_solution", None),
        rows=take("_rows", None),
        position=position,
    )


def _target_kind_name(state: FittedState) -> str | None:
    if state.pilot.target is None:
        return None
    return "numeric" if state.pilot.target_is_numeric else "classes"


def _n_removed(state: FittedState) -> int:
    if state.solved.new_rows is None:
        return state.solved.n_removed
    return sum(sum(of_cell.values()) for of_cell in _directions_by_cell(state).values())


def _directions_by_cell(state: FittedState) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {cell: {} for cell in state.pilot.cells.names}
    for i in state.solved.constrained:
        report = state.solved.reports[i]
        found[report.cell][report.attribute] = report.n_directions
    if state.solved.new_rows is not None:
        for block in state.solved.new_rows.blocks:
            if block.codes.report.constrained:
                whole = sum(direction.weight == 1.0 for direction in block.directions)
                found[block.codes.report.cell][block.codes.report.attribute] = whole
    return found


@dataclass(frozen=True)
class ScoredRows:
    """Clean rows with their scores on the basis of the path; predictions accept them in place of X.

    Every model of the path is a blend of the functions of the basis, so its scores need no further
    pass over the kernel columns.
    """

    X: Array  # (n, p), as `_read_new` returns it
    on_basis: Array  # (n, 2d)
    for_decisions: Array | None = None  # (n, q + L), centred, if the model has a decision rule

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: slice) -> Array:
        return self.X[rows]


class FittedEstimator(BaseEstimator):
    """Access to the fitted state, its public attributes, and files that contain it."""

    # Parameters that can change without a new fit.
    fairness: Any
    dial: Any
    verbose: Any

    _state: FittedState | None = None
    _schema: ColumnSchema = ColumnSchema()
    # Kind of y that the estimator predicts; None: y is read as it is.
    _target_kind: Kind | None = None
    # Likelihood of an estimator that has no such parameter.
    _likelihood: str | None = None
    # Parameters that are no part of the record of a fit, and values of those that the estimator lacks.
    _own_parameters: frozenset[str] = frozenset()
    _fixed_parameters: Mapping[str, Any] = MappingProxyType({})

    pilot_ = FittedAttribute(lambda s: s.pilot, after="pilot")
    moments_ = FittedAttribute(lambda s: s.moments, after="moments")
    classes_ = FittedAttribute(lambda s: s.classes, after="pilot")
    n_samples_seen_ = FittedAttribute(lambda s: s.n_samples_seen, after="pilot")
    smallest_eigenvalue_ = FittedAttribute(lambda s: s.smallest_eigenvalue, after="pilot")
    gamma_ = FittedAttribute(lambda s: s.pilot.gamma, optional=True)
    n_components_ = FittedAttribute(lambda s: s.pilot.features.rank)
    landmarks_ = FittedAttribute(
        lambda s: (
            as_matrix(s.pilot.features.landmarks)
            if isinstance(s.pilot.features, LandmarkMap)
            else None
        ),
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
    cosines_ = FittedAttribute(lambda s: s.solved.cosines)
    angles_ = FittedAttribute(lambda s: s.solved.angles)
    n_removed_ = FittedAttribute(_n_removed)
    blocks_ = FittedAttribute(lambda s: s.solved.reports)
    n_directions_ = FittedAttribute(_directions_by_cell)
    certificate_ = FittedAttribute(lambda s: s.located.certificate, after="position")
    score_coef_ = FittedAttribute(lambda s: s.located.coef, after="position")
    score_intercept_ = FittedAttribute(lambda s: s.located.intercept, after="position")
    fairness_ = FittedAttribute(lambda s: s.located.fairness, after="position")

    def __sklearn_is_fitted__(self) -> bool:
        return self._state is not None and self._state.position is not None

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

    def _fitted_share(self, X: Any) -> float | None:
        """Share of clean rows (:meth:`_read_new`) that the model was fitted on; None if unknown or none."""
        return None if self._fitted_rows is None else self._fitted_rows.share_of(X)

    def _looked_up(self, X: Any) -> tuple[Mask, Mask]:
        """Which clean rows the sketch of training rows can look up, and which of them match one."""
        assert self._fitted_rows is not None
        return self._fitted_rows.look_up(X)

    @property
    def _native_dial(self) -> str:
        """The dial on which paths are drawn: that of the removal."""
        return native_dial(self._solution)

    @property
    def _n_features_out(self) -> int:
        return int(self._position.directions.shape[1])

    @property
    def encoder_(self) -> Any:
        """Fitted transformer of tables, if :meth:`fit` or :meth:`fit_stream` made one."""
        if self._schema.encoder is None:
            msg = f"{type(self).__name__!r} object has no attribute 'encoder_'"
            raise AttributeError(msg)
        return self._schema.encoder

    @property
    def text_features_(self) -> list[str]:
        """Columns that held text, if :meth:`fit` or :meth:`fit_stream` encoded a table."""
        if self._schema.text_features is None:
            msg = f"{type(self).__name__!r} object has no attribute 'text_features_'"
            raise AttributeError(msg)
        return list(self._schema.text_features)

    def _need_moments(self, method: str) -> None:
        if self._fit_state.moments is None:
            msg = (
                f"{method} needs the moments, which this model was saved without (keep_moments=False; on the "
                f"command line --with-moments saves them)."
            )
            raise ValueError(msg)

    def _check_fitted(self) -> None:
        check_is_fitted(self)

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

    # ------------------------------------------------------------------ scores

    def _read_new(self, X: Any) -> Array:
        self._check_fitted()
        if isinstance(X, ScoredRows):
            return X  # type: ignore[return-value]  # `_scores` reads it in place of an array
        return read_features(self, X, reset=False, config=self._config)

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
        if isinstance(self._pilot.features, FoldedMap):
            return self._pilot.features.centred(X)
        return np.asarray(to_numpy(self._pilot.features.coordinates(X)) - self._solution.mean)

    # ------------------------------------------------------------------ files

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from a file or a pickle.

        Parameters are not repeated in the file: a model is saved only while they are those of the fit.
        """
        super().__setstate__(state)
        attributes = self.__dict__
        # A file may be older than a parameter, which then had its default value; the dependence was
        # removed on the training rows.
        attributes.setdefault("removal", "training_rows")
        cls: type = type(self)
        for name, default in _defaults(cls).items():
            attributes.setdefault(name, default)
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


# A fitted model can be moved to another value of these without a new fit.
_FREE = frozenset(("fairness", "dial", "verbose"))


@functools.cache
def _defaults(cls: type) -> dict[str, Any]:
    return {name: part.default for name, part in inspect.signature(cls).parameters.items()}


def changed_parameters(fitted: Mapping[str, Any], estimator: Configurable) -> list[str]:
    """Names of parameters that differ from the snapshot of the fit and would need another fit."""
    bound = (
        (k, v, snapshot(getattr(estimator, k, None))) for k, v in fitted.items() if k not in _FREE
    )
    return [name for name, value, now in bound if not equal_values(value, now)]


def snapshot(value: Any) -> Any:
    """Copy parameters so that later changes in place are found.

    Arrays, dicts and lists are copied; a nested estimator is kept as its type and its parameters;
    functions and random generators are kept as they are.
    """
    if hasattr(value, "get_params") and not isinstance(value, type):
        return type(value), snapshot(value.get_params(deep=False))
    if isinstance(value, Mapping):
        return {key: snapshot(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [snapshot(part) for part in value]
    if is_tensor(value) or (hasattr(value, "__array__") and not isinstance(value, np.generic)):
        return np.array(to_numpy(value))
    return value


def equal_values(a: Any, b: Any) -> bool:
    """Whether two snapshots are equal, arrays included."""
    if a is b:
        return True
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal_values(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(equal_values, a, b))
    try:
        return bool(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b)
    except (TypeError, ValueError):  # values without a truth value, such as an array and a list
        return False


# ------------------------------------------------------------------ searches


def check_search() -> None:
    """Warn if this fit is the refit of a search that chose ``fairness`` by accuracy.

    Only the search knows how candidates are scored, and no argument carries that to an estimator, so
    look for the search among the callers. The refit runs once per search, in the process of the user,
    and after the choice; fits of single candidates are left alone.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module, function = frame.f_globals.get("__name__"), frame.f_code.co_name
        if module == "sklearn.model_selection._validation" and function == "_fit_and_score":
            return
        if module == "sklearn.model_selection._search" and function == "fit":
            _warn_unfair_search(frame.f_locals.get("self"))
            return
        frame = frame.f_back


def _warn_unfair_search(search: Any) -> None:
    chosen = getattr(search, "best_params_", {})
    names = [name for name in chosen if name.rpartition("__")[2] == "fairness"]
    names = [name for name in names if _n_candidates(search, name) > 1]
    if not names or not _ignores_groups(search.scoring, search.refit):
        return
    score = "the default score" if search.scoring is None else f"scoring={search.scoring!r:.80}"
    warn_user(
        f"{type(search).__name__} chose {names[0]}={chosen[names[0]]!r} by {score}, which does not "
        f"measure fairness: less fairness wins wherever it is more accurate. Score with "
        f"fairspan.metrics.fairness_scorer, or choose from one fit: "
        f"fairspan.fairness_path(model, X, y, sensitive_features=s).select(at_most=0.05).",
        FairspanWarning,
    )


def _n_candidates(search: Any, name: str) -> int:
    """Values that a search tries for a parameter; 2 for a distribution or where it is not known."""
    space = getattr(search, "param_grid", getattr(search, "param_distributions", None))
    if space is None:
        return 2
    grids = [space] if isinstance(space, Mapping) else space
    values = [grid[name] for grid in grids if name in grid]
    return sum(len(value) if isinstance(value, Sized) else 2 for value in values)


def _ignores_groups(scoring: Any, refit: Any) -> bool:
    """Whether candidates are ranked by a metric of scikit-learn, none of which sees groups."""
    if isinstance(scoring, Mapping):
        scoring = scoring.get(refit) if isinstance(refit, str) else refit
    elif isinstance(scoring, list | tuple | set):
        scoring = refit  # the name of one of them, or a function
    if scoring is None or isinstance(scoring, str):
        return True
    metric = getattr(scoring, "_score_func", scoring)  # of a scorer
    return str(getattr(metric, "__module__", "")).partition(".")[0] == "sklearn"
