"""Vectors such as embeddings without what predicts the protected attributes, in their own shape."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self

from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import estimator_html_repr
from sklearn.utils.metadata_routing import UNUSED

from fairspan._threads import few_threads
from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.prepare import build_pilot, learn_coders
from fairspan.estimators.private_fit import WithheldLevels
from fairspan.estimators.state import FittedAttribute, FittedState
from fairspan.inputs.config import document_parameters, read_config
from fairspan.inputs.probabilities import has_probabilities
from fairspan.method.codes import Cells, Coder, CrossedCoder
from fairspan.method.erasure import Erasure, solve_erasure
from fairspan.method.erasure_left import ErasureCertificate
from fairspan.method.expected import OutOfFoldScores
from fairspan.method.linalg import is_tensor, to_home
from fairspan.method.pilot import Pilot
from fairspan.method.problem import Data, FitConfig

__all__ = ["FairEraser"]


# Five pairs: the rows of a pair are held out together, and their halves show how large the noise is.
_N_FOLDS = 10


class _NotForErasers:
    """A method of kernel estimators that an eraser does not have."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __get__(self, estimator: Any, owner: type) -> Any:
        msg = f"{owner.__name__} {self._reason}"
        raise AttributeError(msg)


_NO_FILES_OF_SITES = _NotForErasers(
    "has no files for several sites. Add blocks of rows with `partial_fit` or `merge`."
)
_NO_SCORES = _NotForErasers("has no scores and no model of y.")


def _erasure(state: FittedState) -> Erasure:
    """The map of a fit, which must exist."""
    assert state.erasure is not None
    return state.erasure


def _fairness(state: FittedState) -> float:
    """The dial value of a fit, which a parameter that is set afterwards does not change."""
    fairness: Any = state.config.fairness
    return float(fairness)


def _certificate(state: FittedState) -> ErasureCertificate:
    """What holds at the dial value of a fit."""
    return _erasure(state).certificate(_fairness(state))


@document_parameters
class FairEraser(OneToOneFeatureMixin, TransformerMixin, FairKernelEstimator):
    """Vectors, such as embeddings, without what predicts the protected attributes linearly.

    ``transform`` maps vectors of d numbers to vectors of d numbers and changes them as little as possible.
    On the transformed training rows no linear predictor of S does better than a constant (LEACE [1]_).
    Transforming never needs S. Nonlinear predictors still find S; ``order=2`` makes it harder, at a price.

    Parameters
    ----------
    order : {1, 2}, default=1
        What becomes equal between groups. 1: the means. 2: also the covariances, in as many directions as
        ``n_directions`` allows; directions in which the groups differ are removed for it.
    keep_target : bool, default=False
        Keep the covariance of the vectors with y (SPLINCE [2]_); ``fit`` then needs y. It matters for models
        that are penalised or not trained again. Other linear models predict the same without it.
    n_directions : "auto" or int, default="auto"
        With ``order=2``: directions that are removed because of covariances. "auto": until the differences
        left are what chance gives between groups of this size. Between two groups, one direction takes two
        differences of opposite sign.
    fairness : float in [0, 1], default=1.0
        Share of the removed part that is subtracted; 0 returns the vectors as they are. Below 1 the map can
        be undone, so use 1 to hide S, and values below 1 to move the means of groups together.
    random_state : int, RandomState or None
        Seed of the folds of ``certificate_``. None is 0: the same rows give the same result, in any order.

    Attributes
    ----------
    certificate_ : ErasureCertificate
        What linear predictors find out about S: on the training rows, and out of fold on new rows with an
        interval.
    mean_ : ndarray of shape (n_features,)
        Mean of the vectors, which stays.
    removed_ : ndarray of shape (n_features, n_features)
        ``transform(x)`` is ``x - fairness * removed_ @ (x - mean_)``.
    n_removed_ : int
        Rank of ``removed_``: directions that are lost at ``fairness=1``.
    sensitive_kinds_ : dict
        Kind of each attribute.
    pilot_, moments_
        What was frozen before the pass, and what the pass gathered.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    A torch tensor is fitted and transformed on its device, and gives a tensor there. Rows count as
    independent. Cost: one pass of O(n d^2) over the rows and O(d^3) to solve, six times for the
    certificate. Memory O(10 d^2), times the number of groups with ``order=2``.

    References
    ----------
    .. [1] N. Belrose, D. Schneider-Joseph, S. Ravfogel, R. Cotterell, E. Raff, S. Biderman. LEACE: Perfect
       linear concept erasure in closed form. NeurIPS 2023.
    .. [2] F. Holstege, S. Ravfogel, B. Wouters. Preserving Task-Relevant Information Under Linear Concept
       Removal. 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairEraser
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, 300)
    >>> X = rng.normal(size=(300, 3)) + s[:, None] * [1.0, 0.5, 0.0]
    >>> eraser = FairEraser().fit(X, sensitive_features=s)
    >>> Z = eraser.transform(X)
    >>> Z.shape
    (300, 3)
    >>> bool(np.abs(Z[s == 1].mean(axis=0) - Z[s == 0].mean(axis=0)).max() < 1e-12)
    True
    """

    __metadata_request__fit = {
        "sensitive_features": True,
        "control_features": UNUSED,
        "groups": UNUSED,
    }
    __metadata_request__partial_fit = __metadata_request__fit

    kernel = "linear"
    dial = "auto"
    _takes_sparse = False  # erased vectors are dense
    _own_parameters = frozenset(("order", "keep_target", "n_directions"))
    _fixed_parameters = MappingProxyType(
        {
            "kernel": "linear",
            "gamma": "median",
            "kernel_params": None,
            "feature_map": None,
            "n_components": "auto",
            "landmarks": "stratified",
            "criterion": "statistical_parity",
            "dial": "auto",
            "pos_label": None,
            "n_sensitive_directions": "all",
            "n_predictive_directions": "auto",
            "eta": "auto",
            "alpha": "auto",
            "subspace": "fair",  # y is optional
            "method": "optimal",
            "removal": "training_rows",
            "encoder": None,
        }
    )

    export_pilot = _NO_FILES_OF_SITES
    export_moments = _NO_FILES_OF_SITES
    from_moments = _NO_FILES_OF_SITES

    _solution = _NO_SCORES
    _position = _NO_SCORES
    _native_dial = _NO_SCORES

    certificate_: FittedAttribute[Any] = FittedAttribute(_certificate, after="erasure")
    sensitive_kinds_ = FittedAttribute(
        lambda s: {c.name: c.kind for c in s.pilot.coders}, after="erasure"
    )
    mean_ = FittedAttribute(lambda s: _erasure(s).mean, after="erasure")
    removed_ = FittedAttribute(lambda s: _erasure(s).left @ _erasure(s).right.T, after="erasure")
    n_removed_ = FittedAttribute(lambda s: int(_erasure(s).left.shape[1]), after="erasure")

    def __init__(
        self,
        order: Any = 1,
        *,
        keep_target: Any = False,
        n_directions: Any = "auto",
        fairness: Any = 1.0,
        sensitive_kind: Any = "auto",
        dependence: Any = "mean",
        n_slices: Any = 10,
        intersectional: Any = False,
        missing_sensitive: Any = "raise",
        random_state: Any = None,
        verbose: Any = 0,
    ) -> None:
        self.order = order
        self.keep_target = keep_target
        self.n_directions = n_directions
        self.fairness = fairness
        self.sensitive_kind = sensitive_kind
        self.dependence = dependence
        self.n_slices = n_slices
        self.intersectional = intersectional
        self.missing_sensitive = missing_sensitive
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = bool(self.keep_target)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return self._state is not None and self._state.erasure is not None

    def _repr_html_inner(self) -> str:
        diagram: str = estimator_html_repr(self)
        certificate = getattr(self, "certificate_", None)
        return diagram if certificate is None else diagram + certificate._repr_html_()

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Learn the map from rows in memory.

        Parameters
        ----------
        X : array-like, frame or torch tensor of shape (n_samples, n_features)
            Vectors.
        y : array-like of shape (n_samples,), optional
            Classes or numbers, for ``keep_target=True``; not used otherwise.
        sensitive_features : array-like, frame, or column name(s) of X
            One or several protected attributes. Never needed again after fitting.
        sample_weight : array-like of shape (n_samples,), optional
            Weight k counts as k copies.

        Returns
        -------
        self
        """
        return super().fit(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)

    def transform(self, X: Any) -> Any:
        """Vectors without what predicts S.

        Parameters
        ----------
        X : array-like, frame or torch tensor of shape (n_samples, n_features)

        Returns
        -------
        ndarray, or tensor on the device of X, of shape (n_samples, n_features)
            No protected attribute is read.
        """
        X = self._read_new(X)
        state = self._fit_state
        erasure, fairness = _erasure(state), _fairness(state)
        if fairness == 0.0:
            return X if is_tensor(X) else X.copy()
        mean, left, right = erasure.mean, fairness * erasure.left, erasure.right
        if is_tensor(X):
            mean, left, right = (
                to_home(part.astype(str(X.dtype).removeprefix("torch.")), X.device)
                for part in (mean, left, right)
            )
        return X - ((X - mean) @ right) @ left.T

    def at(self, fairness: Any = None) -> Self:  # type: ignore[override]
        """The same fit at another dial value: a new estimator, without the data.

        Parameters
        ----------
        fairness : float in [0, 1]
            Share of the removed part that is subtracted.

        Returns
        -------
        estimator
            Fitted, sharing the moments.
        """
        self._check_fitted()
        self._check_unchanged()
        out = copy.copy(self)
        out.fairness = fairness
        read_config(out)
        out._locate()
        return out

    # ------------------------------------------------------------------ steps of a fit

    def _read(self, X: Any, y: Any, *given: Any, **options: Any) -> Data:
        if self.keep_target and y is None:
            msg = "keep_target=True needs y: the target whose covariance with the vectors is kept."
            raise ValueError(msg)
        if self.order == 2 and has_probabilities(self.sensitive_kind):
            raise ValueError(
                "order=2 needs the groups of rows, and sensitive_kind='probabilities' does not have them. "
                "Use order=1."
            )
        data = super()._read(X, y if self.keep_target else None, *given, **options)
        if self.order == 1:
            return data
        for attribute in data.sensitive.values():
            if attribute.missing.any():
                raise ValueError(
                    f"order=2 needs the groups of all rows, and sensitive_features {attribute.name!r} is "
                    f"missing in {int(attribute.missing.sum())} rows. Drop these rows, give them a category "
                    f"of their own, or use order=1."
                )
        return replace(data, control=data.sensitive)

    def _build_pilot(self, config: FitConfig, data: Data, fold_rule: str) -> Pilot:
        cells = None
        if self.order == 2:
            parts: list[Coder] = []
            for coder in learn_coders(config, data):
                if isinstance(coder, CrossedCoder):
                    parts += coder.parts
                elif isinstance(coder, Coder):
                    parts.append(coder)
            strata = CrossedCoder.learn(parts, data.sensitive)
            cells = Cells("strata", strata.labels, strata=strata)
        return build_pilot(config, data, fold_rule, n_folds=_N_FOLDS, cells=cells, own_columns=True)

    def _solve(self, data: Data | None = None, withheld: WithheldLevels | None = None) -> None:  # noqa: ARG002
        state = self._fit_state
        assert state.moments is not None
        with few_threads(0, state.moments.n_columns):
            erasure = solve_erasure(
                state.moments,
                state.pilot,
                state.config,
                order=int(self.order),
                keep_target=bool(self.keep_target),
                n_directions=self.n_directions,
            )
        self._state = replace(state, erasure=erasure)
        self._locate()

    def _locate(self) -> None:
        self._check_unchanged()
        self._state = self._current_state

    def _with_spread(
        self,
        state: FittedState,
        data: Data,  # noqa: ARG002
        known: OutOfFoldScores | None = None,  # noqa: ARG002
    ) -> FittedState:
        return state
