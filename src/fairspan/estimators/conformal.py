"""Conformal prediction: intervals and sets whose coverage holds on new rows, for all rows or by group.

Split conformal prediction (Papadopoulos et al. 2002; Lei et al. 2018): rows that the model was not fitted on
get a nonconformity, and the k-th smallest with ``k = ceil((n + 1) coverage)`` bounds that of a new row with
at least the wanted probability, whatever the model. Within groups (Mondrian), the same holds in every group.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from fairspan.estimators.base import FairKernelEstimator
from fairspan.estimators.private_fit import refuse_private
from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.columns import align_rows, read_attributes
from fairspan.method.linalg import Array
from fairspan.method.problem import Attribute
from fairspan.metrics.inputs import read_labels, read_scores


@dataclass(frozen=True, kw_only=True)
class Conformal:
    """Nonconformities of the calibration rows, by group if groups were given."""

    attributes: tuple[str, ...]  # of the groups; empty: all rows together
    groups: tuple[str, ...]
    scores: tuple[Array, ...]  # sorted, one entry per group

    def radius(self, coverage: float) -> Array:
        """Bound of the nonconformity of a new row, per group; infinite for a group with too few rows."""
        out = np.full(len(self.scores), np.inf)
        for i, scores in enumerate(self.scores):
            k = math.ceil((len(scores) + 1) * coverage - 1e-9)
            if k <= len(scores):
                out[i] = scores[k - 1]
        return out


class _Calibrated(FairKernelEstimator):
    """Calibration shared by regressors and classifiers."""

    def conformalize(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Self:
        """Calibrate intervals or sets on rows that the model was not fitted on.

        Parameters
        ----------
        X, y : array-like
            Calibration rows. They must not be training rows, for which errors are too small.
        sensitive_features : array-like or frame, optional
            Groups to calibrate separately, so that each has the coverage. Prediction of intervals or sets
            then needs the groups of the new rows: this is the one place where fairspan uses a protected
            attribute after the fit. Without it, coverage holds for all rows together, and groups may differ.

        Returns
        -------
        estimator
            A copy; predictions stay the same. Moving it along the dial drops the calibration.
        """
        self._check_fitted()
        if sensitive_features is not None:
            reason = (
                "it would count the groups of the calibration rows. Leave sensitive_features out; coverage "
                "then holds for all rows together"
            )
            refuse_private(self._config, "conformalize by group", reason)
        X, y, groups = align_rows(X=X, y=y, sensitive_features=sensitive_features).values()
        if self._fitted_share(self._read_new(X)) is not None:
            warn_user(
                "Some of the calibration rows are training rows, on which errors are too small. Calibrate on "
                "rows that the model was not fitted on.",
                DataWarning,
            )
        scores = self._nonconformity(X, y)
        names: tuple[str, ...] = ()
        labels = np.zeros(len(scores), dtype=np.intp).astype(str)
        if groups is not None:
            attributes = read_attributes(
                groups, len(scores), "sensitive_features", "sensitive_feature"
            )
            names, labels = tuple(attributes), _group_names(attributes)
        kinds = np.unique(labels)
        out = copy.copy(self)
        conformal = Conformal(
            attributes=names,
            groups=tuple(kinds.tolist()),
            scores=tuple(np.sort(scores[labels == kind]) for kind in kinds),
        )
        out._state = replace(out._fit_state, conformal=conformal)
        return out

    @abstractmethod
    def _nonconformity(self, X: Any, y: Any) -> Array:
        """How far each row is from its prediction, (n,)."""

    def _radius(self, X: Any, coverage: Any, sensitive_features: Any) -> tuple[Any, Array]:
        """Rows, and the bound of the nonconformity of each."""
        self._check_fitted()
        conformal = self._fit_state.conformal
        if conformal is None:
            msg = f"Calibrate this {type(self).__name__} first: conformalize(X, y) on rows not fitted on."
            raise ValueError(msg)
        number = isinstance(coverage, int | float | np.number) and not isinstance(coverage, bool)
        if not number or not 0.0 < coverage < 1.0:
            msg = f"coverage={coverage!r} is not allowed; give a number between 0 and 1, e.g. 0.9."
            raise ValueError(msg)
        by_group = conformal.radius(float(coverage))
        if (sensitive_features is None) == bool(conformal.attributes):
            if conformal.attributes:
                names = ", ".join(conformal.attributes)
                what, do = (
                    f"by group ({names})",
                    "pass sensitive_features= with the groups of these rows",
                )
            else:
                what, do = (
                    "without groups",
                    "leave sensitive_features out, or call conformalize with them",
                )
            raise ValueError(f"This model was calibrated {what}; {do}.")
        X, groups = align_rows(X=X, sensitive_features=sensitive_features).values()
        if groups is None:
            radius = np.full(len(self._read_new(X)), by_group[0])
        else:
            n = len(self._read_new(X))
            attributes = read_attributes(groups, n, "sensitive_features", "sensitive_feature")
            if set(attributes) != set(conformal.attributes):
                raise ValueError(
                    f"sensitive_features has {list(attributes)}, but the model was calibrated with "
                    f"{list(conformal.attributes)}."
                )
            labels = _group_names({name: attributes[name] for name in conformal.attributes})
            table = dict(zip(conformal.groups, by_group, strict=True))
            if unknown := sorted(set(labels.tolist()) - set(table)):
                msg = f"No calibration row has {unknown[0]}. Groups: {', '.join(conformal.groups[:10])}."
                raise ValueError(msg)
            radius = np.array([table[label] for label in labels.tolist()])
        endless = [g for g, r in zip(conformal.groups, by_group, strict=True) if np.isinf(r)]
        if endless:
            least = math.ceil(coverage / (1.0 - coverage) - 1e-9)
            which = f" of {', '.join(endless[:5])}" if conformal.attributes else ""
            warn_user(
                f"Too few calibration rows{which} for a coverage of {coverage:g} (at least {least} are "
                f"needed): their intervals are unbounded, their sets hold every class.",
                DataWarning,
            )
        return X, radius


class ConformalIntervals(_Calibrated):
    """Intervals of a regressor."""

    def predict_interval(
        self, X: Any, coverage: Any = 0.9, *, sensitive_features: Any = None
    ) -> Array:
        """Intervals that contain y on new rows with the given probability, (n_samples, 2).

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
        coverage : float in (0, 1), default=0.9
        sensitive_features : array-like or frame, optional
            Groups of the rows, if and only if the model was calibrated by group.
        """
        X, radius = self._radius(X, coverage, sensitive_features)
        centre, scale = self._centre_and_scale(X)
        return np.stack([centre - radius * scale, centre + radius * scale], axis=1)

    def _centre_and_scale(self, X: Any) -> tuple[Array, Array]:
        """Prediction, and the scale that errors are measured in."""
        centre = np.asarray(self._outputs(X)[:, 0])
        return centre, np.ones(len(centre))

    def _nonconformity(self, X: Any, y: Any) -> Array:
        centre, scale = self._centre_and_scale(X)
        target = read_scores(y, "y")
        target = target[:, 0] if target.ndim == 2 else target
        if len(target) != len(centre):
            msg = f"Found input variables with inconsistent numbers of samples: {len(target)}, {len(centre)}."
            raise ValueError(msg)
        return np.asarray(np.abs(target - centre) / scale)


class ConformalSets(_Calibrated):
    """Sets of classes of a classifier."""

    def predict_set(
        self, X: Any, coverage: Any = 0.9, *, sensitive_features: Any = None
    ) -> np.ndarray:
        """Sets that contain the class on new rows with the given probability.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
        coverage : float in (0, 1), default=0.9
        sensitive_features : array-like or frame, optional
            Groups of the rows, if and only if the model was calibrated by group.

        Returns
        -------
        ndarray of bool of shape (n_samples, n_classes)
            Whether each class, in the order of ``classes_``, is in the set. A set may be empty.
        """
        X, radius = self._radius(X, coverage, sensitive_features)
        return np.asarray(-self._class_scores(X) <= radius[:, None])

    def _class_scores(self, X: Any) -> Array:
        """A score for every class, larger for more likely ones, (n, K)."""
        outputs = self._outputs(X)
        return outputs if outputs.shape[1] > 1 else np.concatenate([-outputs, outputs], axis=1)

    def _nonconformity(self, X: Any, y: Any) -> Array:
        values, classes = read_labels(y, "y").tolist(), np.asarray(self.classes_)
        position = {label: k for k, label in enumerate(classes.tolist())}
        if unknown := [v for v in values if v not in position]:
            msg = f"y has the class {unknown[0]!r}, which the model does not know: {classes.tolist()}."
            raise ValueError(msg)
        codes, scores = np.array([position[v] for v in values]), self._class_scores(X)
        if len(codes) != len(scores):
            msg = f"Found input variables with inconsistent numbers of samples: {len(codes)}, {len(scores)}."
            raise ValueError(msg)
        return np.asarray(-scores[np.arange(len(codes)), codes])


def _group_names(attributes: dict[str, Attribute]) -> np.ndarray:
    """One name per row, for the combination of its groups."""
    parts = []
    for name, attribute in attributes.items():
        if attribute.missing.any():
            raise ValueError(f"sensitive_features {name!r} has gaps; every row needs its group.")
        parts.append([f"{name}={value}" for value in attribute.values.tolist()])
    return np.array([", ".join(row) for row in zip(*parts, strict=True)])
