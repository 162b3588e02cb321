"""The one shared fit: (X, y, S) -> pilot -> moments -> solution -> place on the dial.

Subclasses add what they do with the scores. Nothing here knows about heads other than the ridge
head that certificates speak about.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from fairspan._html import estimator_html
from fairspan.device.passes import accumulate, for_precision, precision_for
from fairspan.estimators.prepare import build_pilot
from fairspan.estimators.stream_methods import StreamFit
from fairspan.exceptions import (
    DataWarning,
    IncompatibleMomentsError,
    each_warning_once,
    warn_user,
)
from fairspan.inputs.config import (
    FitConfig,
    canonical_criterion,
    check_parameters,
    check_search,
)
from fairspan.inputs.rows import check_rows, read_features, read_training_data
from fairspan.method.data import Data
from fairspan.method.features import LandmarkMap
from fairspan.method.laplace import RowCurvature
from fairspan.method.linalg import Array, to_numpy
from fairspan.method.moments import Moments
from fairspan.method.pilot import Pilot, move_to
from fairspan.method.row_sketch import RowSketch
from fairspan.method.solution import solve
from fairspan.method.spaces import Position, locate
from fairspan.streaming.tensor_sample import pilot_rows


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

    # S and control features are requested by default, so Pipeline, GridSearchCV and cross_validate
    # route them without a `set_fit_request` of the user's.
    __metadata_request__fit = {"sensitive_features": True, "control_features": True}
    __metadata_request__partial_fit = {"sensitive_features": True, "control_features": True}

    def __init__(
        self,
        kernel="rbf",
        *,
        gamma="cv",
        kernel_params=None,
        feature_map=None,
        n_components="auto",
        landmarks="stratified",
        criterion="statistical_parity",
        fairness=1.0,
        dial="angle",
        sensitive_kind="auto",
        dependence="mean",
        n_slices=10,
        intersectional=False,
        pos_label=None,
        n_sensitive_directions="auto",
        n_predictive_directions="auto",
        eta="auto",
        alpha="auto",
        subspace="model",
        method="optimal",
        missing_sensitive="raise",
        random_state=None,
        verbose=0,
    ):
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

    def __sklearn_tags__(self):
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
        return out

    # ------------------------------------------------------------------ fitting

    def fit(
        self, X, y=None, *, sensitive_features=None, control_features=None, sample_weight=None
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
        with self._unchanged_on_error():
            check_search()
            self._start_fit()
            data = self._read(X, y, sensitive_features, control_features, sample_weight, reset=True)
            self._prepare(*pilot_rows(self, data))
            self._absorb(data)
            self._solve(data)
        return self

    def prepare(
        self, X, y=None, *, sensitive_features=None, control_features=None, sample_weight=None,
        folds="strata",
    ) -> Self:  # fmt: skip
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
        with self._unchanged_on_error():
            self._start_fit()
            data = self._read(X, y, sensitive_features, control_features, sample_weight, reset=True)
            if self.kernel == "precomputed":
                msg = (
                    "kernel='precomputed' cannot stream: a block of rows has no kernel columns of its "
                    "own. Use `fit` with the whole matrix, or a kernel that can be evaluated."
                )
                raise ValueError(msg)
            self._prepare(data, folds)
        return self

    def partial_fit(
        self, X, y=None, *, sensitive_features=None, control_features=None, sample_weight=None,
        solve=True, start=None,
    ) -> Self:  # fmt: skip
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
        with self._unchanged_on_error():
            first = not hasattr(self, "pilot_")
            if first:
                self._start_fit()
            else:
                self._check_unchanged()
                self._need_moments("partial_fit")
            data = self._read(
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
                self._prepare(data)
            self._absorb(data, start)
            if solve:
                self.solve()
        return self

    def merge(self, other: FairKernelEstimator, *, solve: bool = True) -> Self:
        """Add the moments of another estimator with the same pilot (a worker's copy of this one)."""
        with self._unchanged_on_error():
            for name, est in (("this estimator", self), ("the other estimator", other)):
                if not hasattr(est, "moments_"):
                    msg = f"merge needs moments on both sides, but {name} has none: call partial_fit on it."
                    raise IncompatibleMomentsError(msg)
                est._check_unchanged()
            self.moments_: Moments = self.moments_ + other.moments_
            if solve:
                self._solve()
        return self

    def solve(self) -> Self:
        """Solve for the model from the moments gathered so far."""
        with self._unchanged_on_error():
            self._check_unchanged()
            if hasattr(self, "_solution"):
                self._need_moments("solve")
            if not hasattr(self, "moments_") or self.moments_.n_rows == 0:
                msg = (
                    f"This {type(self).__name__} has seen no rows yet; call `fit` or `partial_fit`."
                )
                raise NotFittedError(msg)
            self._solve()
        return self

    # ------------------------------------------------------------------ the dial

    def at(self, fairness=None, *, dial=None, max_correlation=None) -> Self:
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
        check_parameters(out)
        out._locate()
        return out

    # ------------------------------------------------------------------ inside

    def _read(self, X, y, sensitive, control, weight, *, reset: bool) -> Data:
        check_parameters(self)
        data = read_training_data(self, X, y, sensitive, control, weight, reset=reset)
        if reset:
            self._sensitive_columns = data.sensitive_columns
        return data

    def _prepare(self, data: Data, fold_rule: str = "strata") -> None:
        precision, data = precision_for(data.X), data.on_host()
        if data.n < 2:
            msg = (
                f"n_samples={data.n}: at least two rows are needed to learn anything about groups."
            )
            raise ValueError(msg)
        check_rows(self, data)
        self.pilot_: Pilot = for_precision(build_pilot(self, data, fold_rule), precision)
        self.moments_ = self.pilot_.empty_moments()
        self._counter = self.pilot_.counter()
        if self.pilot_.target is not None and not self.pilot_.target_is_numeric:
            labels = data.classes
            self.classes_ = None if labels is None else labels.in_order_of(self.pilot_.target)

    def _absorb(self, data: Data, start: int | None = None) -> None:
        counter = self._counter.copy()
        if start is not None:
            move_to(counter, start)
        self.moments_ = accumulate(
            self.pilot_, self.moments_, counter, data, verbose=self.verbose, told=self._told
        )
        self._counter = counter
        if hasattr(self, "n_samples_seen_"):
            self.n_samples_seen_ = counter.position

    def _told(self, smallest_eigenvalue: float) -> None:
        """What a pass on a device found of its own rounding."""
        self.smallest_eigenvalue_ = smallest_eigenvalue

    def _solve(self, data: Data | None = None) -> None:
        """From moments to a model; ``data`` is at hand where all the rows are in memory."""
        self._solution = solve(self.moments_, self.pilot_, self, self._row_curvature(data))
        self._look_at_rows(data)
        self._locate()
        self._publish()

    def _row_curvature(self, data: Data | None) -> RowCurvature | None:  # noqa: ARG002
        """The geometry of a likelihood that needs the rows; None is that of the moments."""
        return None

    def _look_at_rows(self, data: Data | None) -> None:
        """For heads that moments do not suffice for."""

    def _locate(self) -> None:
        self._check_unchanged()
        self.__dict__.pop("selection_", None)  # it describes the previous dial value
        self._position = self._find_position()
        self.certificate_ = self._position.certificate
        self.score_coef_ = self._position.coef
        self.score_intercept_ = self._position.intercept
        self.fairness_ = self._position.fairness
        self._n_features_out = self._position.directions.shape[1]

    def _follow(self, earlier: list[Any]) -> None:
        """Start from the models before this one on a path."""

    def _path_head(self) -> tuple[Position, Array, Array]:
        """Position on the dial, coefficients and intercepts, without a full :meth:`_locate`."""
        self._check_unchanged()
        position = self._find_position()
        return position, position.coef, position.intercept

    def _find_position(self) -> Position:
        return locate(self._solution, self, canonical_criterion(self.criterion))

    def _publish(self) -> None:
        """Fitted attributes a user reads."""
        pilot, solution = self.pilot_, self._solution
        features = pilot.features
        self.gamma_ = pilot.gamma
        self.n_components_ = features.rank
        self.landmarks_ = features.landmarks if isinstance(features, LandmarkMap) else None
        self.dropped_mass_ = features.dropped_mass
        self.approximation_residual_ = pilot.residual
        self.sensitive_kinds_ = {coder.name: coder.kind for coder in pilot.coders}
        self.target_kind_ = (
            None if pilot.target is None else "numeric" if pilot.target_is_numeric else "classes"
        )
        self.cells_ = list(pilot.cells.names)
        self.alpha_ = None if pilot.target is None else solution.eta_y * solution.weight
        self.cosines_ = solution.pair.cosines
        self.angles_ = solution.pair.angles
        self.n_removed_ = solution.n_removed
        self.blocks_ = solution.reports
        self.n_directions_ = {
            cell: {
                r.attribute: r.n_directions
                for r in solution.reports
                if r.cell == cell and r.constrained
            }
            for cell in self.cells_
        }

    def _scores(self, X: Array | ScoredRows) -> Array:
        """``Pi(x) = E'(psi(x) - mu)``."""
        position = self._position
        if isinstance(X, ScoredRows):
            return X.on_basis @ position.blend - position.offset
        return self.pilot_.features.scores(X, position.directions) - position.offset

    def _outputs(self, X) -> Array:
        """The fitted score of new rows: one column per output."""
        return self._scores(self._read_new(X)) @ self.score_coef_ + self.score_intercept_

    def _coordinates(self, X: Array) -> Array:
        """``psi(x) - mu``, for what needs all of psi and not only scores."""
        return np.asarray(to_numpy(self.pilot_.features.coordinates(X)) - self._solution.mean)

    def _need_moments(self, what: str) -> None:
        if not hasattr(self, "moments_"):
            msg = f"{what} needs the moments, which this model was saved without (keep_moments=False)."
            raise ValueError(msg)

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def _read_new(self, X) -> Array:
        self._check_fitted()
        if isinstance(X, ScoredRows):
            return X  # type: ignore[return-value]  # `_scores` reads it in place of an array
        return read_features(self, X, reset=False)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_position")

    @property
    def _fitted_rows(self) -> RowSketch | None:
        """Sketch of the rows of the fit; None for a model that was saved without it."""
        moments = vars(self).get("moments_")
        return vars(self).get("_row_sketch") if moments is None else moments.row_sketch

    @property
    def _config(self) -> Any:
        """The parameters of the fit; before a fit, the estimator with its current ones."""
        return vars(self).get("_fit_config", self)

    def _check_unchanged(self) -> None:
        """Raise if a parameter that the fit depends on was changed since."""
        config = vars(self).get("_fit_config")
        if config is None or not (changed := config.changes(self)):
            return
        name = changed[0]
        msg = (
            f"{name} was changed after the fit (fitted with {getattr(config, name)!r:.80}, now "
            f"{getattr(self, name)!r:.80}), and this model was never fitted with the new value. Call "
            f"fit again, or set {name} back. Only fairness, dial and verbose can change without a fit."
        )
        raise ValueError(msg)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_fit_config" not in vars(self) and "pilot_" in vars(self):
            # A file without the record is written only while the parameters are those of the fit.
            self._fit_config = FitConfig(self)

    def _start_fit(self) -> None:
        """Drop everything of an earlier fit, and keep the parameters of this one."""
        check_parameters(self)
        params = set(self.get_params(deep=False))
        for name in list(vars(self)):
            if name not in params and (name.endswith("_") or name in _PRIVATE_STATE):
                delattr(self, name)
        self._fit_config = FitConfig(self)

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """Whatever goes wrong inside, an interrupt included, the estimator is as before the call."""
        before = dict(vars(self))
        try:
            with each_warning_once():
                yield
        except BaseException:
            self.__dict__ = before  # at once: a second interrupt finds no half of it
            raise


def _one_minus(max_correlation: Any) -> Any:
    """The fairness that stands for a limit, or for one limit per attribute."""
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


_PRIVATE_STATE = frozenset(
    (
        *("_counter", "_solution", "_position", "_fair_space", "_sensitive_columns"),
        *("_n_features_out", "_posterior", "_prior", "_rows", "_laplace", "_link"),
        *("_functions", "_merged", "_start", "_fit_config", "_row_sketch", "_column_numbers"),
    )
)
