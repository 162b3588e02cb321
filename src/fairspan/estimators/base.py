"""The fit shared by all estimators: rows -> pilot -> moments -> solution -> model at a dial value."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr

from fairspan._html import estimator_html
from fairspan._threads import MOST_COLUMNS, USUAL_COLUMNS, few_threads
from fairspan.device.passes import for_precision, precision_for, start_pass
from fairspan.estimators.federation import Federation
from fairspan.estimators.forgetting import Forgetting
from fairspan.estimators.prepare import build_pilot
from fairspan.estimators.private_fit import WithheldLevels, refuse_private, withhold
from fairspan.estimators.state import FittedEstimator, FittedState, check_search, snapshot
from fairspan.estimators.stream_methods import StreamFit
from fairspan.exceptions import DataWarning, IncompatibleMomentsError, each_warning_once, warn_user
from fairspan.inputs.callers import check_order
from fairspan.inputs.checks import check_confidence, check_new_fit, one_minus
from fairspan.inputs.config import read_config
from fairspan.inputs.rows import ColumnSchema, check_rows, read_training_data
from fairspan.inputs.sparse import is_sparse_input, takes_sparse
from fairspan.method.accumulate import MomentsPass, accumulate
from fairspan.method.expected import REFIT_ROWS, OutOfFoldScores, measure_spread
from fairspan.method.folds import check_block_groups, check_groups, move_to
from fairspan.method.known_rows import cluster_shares
from fairspan.method.laplace import RowCurvature
from fairspan.method.linalg import Array, accelerated, home_of, is_tensor
from fairspan.method.new_rows import cross_fit
from fairspan.method.new_rows_space import NewRows, model_space
from fairspan.method.pilot import Pilot, fingerprint
from fairspan.method.problem import Data, FitConfig
from fairspan.method.promises import rows_needed
from fairspan.method.solution import solve
from fairspan.method.spaces import FairLine, Head, LineHead, Position, Space, locate
from fairspan.streaming.sample import pilot_rows

# Why a private fit takes all rows at once.
_ONE_RELEASE = (
    "the budget is spent once, on sums over all rows, and later sums depend on the noisy results of earlier "
    "ones. Call fit with all rows"
)
# Attributes of an instance that are not parameters.
_OF_A_FIT = frozenset(("_state", "_schema", "n_features_in_", "feature_names_in_", "selection_"))


class FairKernelEstimator(StreamFit, Federation, Forgetting, FittedEstimator):
    """Shared parameters, fitting, merging and the dial of every fair kernel estimator."""

    # S and control features are requested by default, so Pipeline, GridSearchCV and cross_validate
    # route them without a `set_fit_request` of the user's.
    __metadata_request__fit = {"sensitive_features": True, "control_features": True, "groups": True}
    __metadata_request__partial_fit = __metadata_request__fit

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
        dial: Any = "auto",
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
        removal: Any = "auto",
        missing_sensitive: Any = "raise",
        encoder: Any = "auto",
        epsilon_sensitive: Any = None,
        delta_sensitive: Any = 1e-6,
        sensitive_groups: Any = None,
        noise_state: Any = None,
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
        self.removal = removal
        self.missing_sensitive = missing_sensitive
        self.encoder = encoder
        self.epsilon_sensitive = epsilon_sensitive
        self.delta_sensitive = delta_sensitive
        self.sensitive_groups = sensitive_groups
        self.noise_state = noise_state
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = takes_sparse(self)
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
        groups: Any = None,
    ) -> Self:
        """Learn the fair subspace and the model space from rows in memory.

        Parameters
        ----------
        X : array-like, sparse matrix, frame or torch tensor of shape (n_samples, n_features)
            Numbers; with ``encoder="auto"`` also a frame with text, categories, dates and missing
            values, which :func:`fairspan.table_encoder` turns into numbers. Sparse X needs
            ``kernel="linear"`` or a ``feature_map`` that takes it. The moments of a tensor are taken on
            its device, and beyond 100,000 of its rows a sample decides what :meth:`prepare` decides.
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
        groups : array-like of shape (n_samples,), optional
            Labels of rows that belong together, such as the visits of a patient. They are never divided
            between folds, and standard errors count groups instead of rows. Without labels, rows count
            as independent.

        Returns
        -------
        self
        """
        check_search()
        check_order(X, sensitive_features, sample_weight)
        given = (X, y, sensitive_features, control_features, sample_weight)
        with self._new_fit() as work:
            data = work._read(*given, reset=True, groups=groups, encode=True)
            withheld = None
            if work._config.private:
                data, withheld = withhold(work._config, data)
            sample = pilot_rows(work._config, data) if is_tensor(data.X) else (data,)
            with few_threads(data.n, _most_columns(work._config, data)):
                work._prepare(*sample)
                if data.clusters is not None and sample[0].n < data.n:
                    work._set_cluster_shares(cluster_shares(data, work._pilot.coders), sample[0])
                work._absorb(data)
                work._solve(data, withheld)
        return self

    def prepare(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        folds: Any = "strata",
    ) -> Self:
        """Freeze landmarks, bandwidth, slice edges and category lists on these rows; no moments.

        Follow with :meth:`partial_fit` on blocks, on this estimator or on copies of it whose moments
        are brought together by :meth:`merge`.

        Parameters
        ----------
        X, y, sensitive_features, control_features, sample_weight
            As in :meth:`fit`.
        groups : array-like of shape (n_samples,), optional
            As in :meth:`fit`, for ``folds="hash"``; then every block needs groups. Standard errors use
            the number of groups per row of these rows.
        folds : {"strata", "position", "hash"}, default="strata"
            How rows are dealt into folds for cross-fitting and for the choices that cross-validate.
            "strata": in turn within each combination of y and S; workers begin anew, each with its own
            turns. "position": by the place of a row in all the data, so that workers that pass
            ``start`` to :meth:`partial_fit` end in the model of one pass. "hash": by the content of
            a row (X and y) or by its group, so that the order of rows and blocks does not matter;
            copies of a row share a fold.
        """
        if folds not in ("strata", "position", "hash"):
            msg = f"folds={folds!r} is not allowed; give 'strata', 'position' or 'hash'."
            raise ValueError(msg)
        given = (X, y, sensitive_features, control_features, sample_weight)
        with self._new_fit() as work:
            refuse_private(work._config, "prepare", _ONE_RELEASE)
            data = work._read(*given, reset=True, groups=groups)
            if self.kernel == "precomputed":
                msg = (
                    "kernel='precomputed' cannot stream: a block of rows has no kernel columns of its "
                    "own. Use `fit` with the whole matrix, or a kernel that can be evaluated."
                )
                raise ValueError(msg)
            check_groups(data.clusters, folds)
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
        groups: Any = None,
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
        groups : array-like of shape (n_samples,), optional
            As in :meth:`fit`, after ``prepare(..., folds="hash")``.
        solve : bool, default=True
            Solve for the model after adding. In a long loop pass False and call :meth:`solve` once:
            adding costs O(rows D^2), solving O(D^3).
        start : int, optional
            Place of the block's first row in all the data, for workers that begin in the middle. After
            ``prepare(..., folds="position")`` any partition then ends in the same model,
            ``alpha="auto"`` included. The row after the last block if not given.
        """
        first = self._state is None
        refuse_private(read_config(self), "partial_fit", _ONE_RELEASE)
        if not first:
            self._check_unchanged()
            self._need_moments("partial_fit")
        with self._new_fit() if first else self._step() as work:
            given = (X, y, sensitive_features, control_features, sample_weight)
            data = work._read(*given, reset=first, groups=groups)
            if not first:
                pilot = work._pilot
                check_block_groups(data.clusters, pilot.fold_rule, clustered=pilot.clustered)
            else:
                check_groups(data.clusters, "strata")
                if self.kernel == "precomputed":
                    msg = "kernel='precomputed' cannot stream. Use `fit` with the whole matrix."
                    raise ValueError(msg)
                warn_user(
                    f"partial_fit prepares on its first block: landmarks, bandwidth, slice edges and "
                    f"category lists are frozen on these {data.n} rows. Call `prepare` on a "
                    f"representative sample to choose them yourself.",
                    DataWarning,
                )
                work._prepare(data, "strata")
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
            refuse_private(est._config, "merge", _ONE_RELEASE)
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
        refuse_private(self._config, "solve", _ONE_RELEASE)
        if self._state is not None and self._state.is_solved:
            self._need_moments("solve")
        if self._state is None or self._state.moments is None or self._state.moments.n_rows == 0:
            msg = f"This {type(self).__name__} has seen no rows yet; call `fit` or `partial_fit`."
            raise NotFittedError(msg)
        with self._step() as work:
            work._solve()
        return self

    # ------------------------------------------------------------------ the dial

    def at(
        self,
        fairness: Any = None,
        *,
        dial: Any = None,
        max_correlation: Any = None,
        confidence: Any = None,
    ) -> Self:
        """The same fit at another dial value: a new estimator, without the data.

        Parameters
        ----------
        fairness : float in [0, 1], optional
            0 is the unconstrained model, 1 the fairest.
        dial : {"auto", "share", "angle", "cosine", "correlation"}, optional
            Scale on which ``fairness`` is read; the estimator's own if not given.
        max_correlation : float in [0, 1], or dict of such, optional
            Instead of ``fairness``: the largest multiple correlation of the fitted score with any
            protected attribute in any cell, expected on new rows (with ``removal="training_rows"``:
            in sample). A dict gives every attribute it names a limit
            of its own (the others have none), e.g. ``{"sex": 0.05, "age": 0.1}``. The model is then
            the nearest to the unconstrained one that keeps them all, off the line of the other dials.
            For least squares it has the lowest penalised squared error on the training rows within the
            limits, among all combinations of the unconstrained score and the regressions of the
            protected attributes on the features; a warning says where this could not be proved. For one
            predictive direction (a numeric y, or two classes).
        confidence : float, optional
            With one ``max_correlation``: keep it with this confidence on new rows, e.g. 0.95. The model is
            the one of least fairness whose upper confidence bound, and those of all fairer models, are
            within the limit. A warning says if even fairness 1 cannot promise it.

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
            fairness, dial = one_minus(max_correlation), "correlation"
        if confidence is not None:
            fairness, dial = self._promised_share(max_correlation, confidence), "share"
        out = copy.copy(self)
        out.fairness = fairness
        out.dial = self.dial if dial is None else dial
        read_config(out)
        out._locate()
        return out

    def _promised_share(self, limit: Any, confidence: Any) -> float:
        """Smallest share of the dependence whose upper confidence bound keeps a limit."""
        check_confidence(confidence)
        if limit is None or isinstance(limit, Mapping):
            msg = "confidence goes with one max_correlation for all attributes."
            raise ValueError(msg)
        space = self._space(self._current_state)
        if not isinstance(space, NewRows):
            msg = (
                "confidence is about new rows, but this model removes dependence on the training rows. "
                "Fit with removal='new_rows', or choose on held-out rows: FairnessPath.from_estimator(...)."
                "select(...)."
            )
            raise ValueError(msg)
        share, upper = space.within(float(limit), confidence)
        if upper > limit:
            found = space.expected(share, confidence)
            names = dict.fromkeys(b.attribute for b in found.blocks if b.constrained)
            named = ", ".join(n for n in names if not n.startswith("sensitive_feature"))
            by = f" by {named}" if named else ""
            n = self._solution.n_rows
            needed = rows_needed(n, found.correlation, upper, float(limit))
            more = (
                f"The estimate itself is {found.correlation:.3g}, so more rows alone would not be enough."
                if needed is None
                else f"About {needed:,} rows would be needed."
            )
            warn_user(
                f"A correlation of at most {limit:.3g}{by} on new rows cannot be promised with "
                f"{100 * confidence:.4g} % confidence with {n:,} rows; the least that can is {upper:.3g}, "
                f"at fairness 1. {more}",
                DataWarning,
            )
        return share

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
    ) -> Data:
        data = read_training_data(
            self,
            self._config,
            X,
            y,
            sensitive,
            control,
            weight,
            reset=reset,
            groups=groups,
            make_schema=self._encoded_schema if encode else None,
        )
        if reset:
            self._schema = replace(self._schema, sensitive_columns=data.sensitive_columns)
        return data

    def _encoded_schema(self, X: Any) -> ColumnSchema:
        """Schema with a fitted encoder, if the features are a frame that needs one."""
        config = self._config
        of_kernel = config.kernel == "precomputed" and config.feature_map is None
        from fairspan.encoding import fit_if_needed  # late: it imports much of scikit-learn

        as_it_is = config.encoder is None or of_kernel or is_sparse_input(X)
        found = None if as_it_is else fit_if_needed(X)
        if found is None:
            return ColumnSchema()
        encoder, text = found
        return ColumnSchema(encoder=encoder, text_features=tuple(text))

    def _prepare(self, data: Data, fold_rule: str = "keys") -> None:
        """Freeze the pilot on these rows, with no moments yet."""
        config = self._config
        X, data = data.X, data.on_host()
        if data.n < 2:
            msg = (
                f"n_samples={data.n}: at least two rows are needed to learn anything about groups."
            )
            raise ValueError(msg)
        check_rows(self, config, data)
        with accelerated(home_of(X)):
            pilot = self._build_pilot(config, data, fold_rule)
        if is_tensor(X):
            pilot = for_precision(pilot, precision_for(X))
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

    def _build_pilot(self, config: FitConfig, data: Data, fold_rule: str) -> Pilot:
        """What is fixed before the pass."""
        return build_pilot(config, data, fold_rule)

    def _set_cluster_shares(self, shares: tuple[float, tuple[float, ...]], data: Data) -> None:
        """Count groups over all rows: ``data``, on which the pilot was frozen, has few rows of each."""
        state = self._fit_state
        pilot = replace(state.pilot, cluster_share=shares[0], known_cluster_shares=shares[1])
        pilot = replace(pilot, fingerprint=fingerprint(pilot, data.on_host().X[:16]))
        self._state = replace(state, pilot=pilot, moments=pilot.empty_moments())

    def _absorb(self, data: Data, start: int | None = None) -> None:
        """Add the moments of these rows."""
        state = self._fit_state
        assert state.moments is not None
        assert state.counter is not None
        counter = state.counter.copy()
        if start is not None:
            move_to(counter, start)
        if is_tensor(data.X):
            row_pass = start_pass(state.pilot, state.moments, X=data.X)
        else:
            row_pass = MomentsPass(state.pilot, state.moments)
        with few_threads(data.n, state.moments.n_columns):
            moments, smallest = accumulate(row_pass, data, counter, verbose=self.verbose)
        self._state = replace(
            state,
            moments=moments,
            counter=counter,
            n_samples_seen=None if state.n_samples_seen is None else counter.position,
            smallest_eigenvalue=state.smallest_eigenvalue if smallest is None else smallest,
        )

    def _solve(self, data: Data | None = None, withheld: WithheldLevels | None = None) -> None:
        """Solve from the moments; ``data`` are all the rows, if they are in memory.

        With ``withheld`` levels of S the state has none of S, until their noisy sums join at the end.
        """
        state = self._fit_state
        assert state.moments is not None
        curvature = self._row_curvature(state, data)
        removal, pilot, moments = cross_fit, state.pilot, state.moments
        home = None if data is None else home_of(data.X)
        with few_threads(0, state.moments.n_columns), accelerated(home):
            if withheld is not None:
                assert data is not None
                private, pilot, moments = withheld.open(state.config, data, pilot, moments)
                removal = private.cross_fit
            solution = solve(moments, pilot, state.config, curvature, removal)
        state = self._with_rows(replace(state, solution=solution, sites=()), data)
        if data is not None:
            state = self._with_spread(state, data, self._scores_out_of_fold(state))
        self._state = replace(state, pilot=pilot, moments=moments)
        self._locate()

    def _with_spread(
        self, state: FittedState, data: Data, known: OutOfFoldScores | None = None
    ) -> FittedState:
        """State with the joint spread of codes and out-of-fold scores, measured on all training rows."""
        solution = state.solved
        refits, new_rows = solution.refits, solution.new_rows
        if refits is not None:
            refits = measure_spread(refits, state.pilot, data, REFIT_ROWS)
        if new_rows is not None:
            # Rows of a private fit have no codes, so that only spreads of y are measured.
            blocks = new_rows.blocks if state.config.private else ()
            fit = replace(new_rows, blocks=()) if blocks else new_rows
            new_rows = measure_spread(fit, state.pilot, data, known=known)
            new_rows = replace(new_rows, blocks=blocks or new_rows.blocks)
        return replace(state, solution=replace(solution, refits=refits, new_rows=new_rows))

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

    def _scores_out_of_fold(self, state: FittedState) -> OutOfFoldScores | None:  # noqa: ARG002
        """Scores of all training rows by functions that did not see them, if there are any."""
        return None

    def _locate(self) -> None:
        """Move the model to the dial value of the parameters."""
        self._check_unchanged()
        self.__dict__.pop("selection_", None)  # `selection_` describes the previous dial value
        self._state = replace(self._positioned(self._current_state), conformal=None)

    def _positioned(self, state: FittedState) -> FittedState:
        """State with the model at its dial value."""
        return replace(state, position=locate(self._space(state), state.config))

    def _space(
        self, state: FittedState, head: Head | None = None, line_head: LineHead | None = None
    ) -> Space:
        """The family of models that the dial moves along.

        The heads are least squares if not given: ridge on the model space, the posterior mean on F.
        """
        if state.config.subspace == "fair":
            return FairLine(state.solved, state.config, line_head)
        return model_space(state.solved, state.config, head)

    def _follow(self, earlier: list[Any]) -> None:
        """Start from the models before this one on a path."""

    def _path_head(self) -> tuple[Position, Array, Array]:
        """Position on the dial, coefficients and intercepts, without a full :meth:`_locate`."""
        self._check_unchanged()
        state = self._current_state
        position = locate(self._space(state), state.config)
        return position, position.coef, position.intercept


def _most_columns(config: FitConfig, data: Data) -> int:
    """Columns of the feature map at most, before it is fitted; those of a transformer are not known."""
    if config.feature_map is not None:
        return MOST_COLUMNS + 1
    if config.kernel == "linear":
        return int(data.X.shape[1])
    if isinstance(config.n_components, str):
        return data.n if config.n_components == "all" else USUAL_COLUMNS
    return int(config.n_components)
