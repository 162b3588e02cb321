"""Estimators that predict from the scores by a head."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from fairspan.estimators.base import FairKernelEstimator
from fairspan.method.linalg import to_numpy


class FairPredictor(FairKernelEstimator):
    """An estimator that predicts from the scores of the model space."""

    def _path(self, X: Any, y: Any, *, control_features: Any = None, **options: Any) -> Any:
        """``FairnessPath.from_estimator`` of this model, for displays, which cannot import it.

        Control features are ignored unless the criterion needs them.
        """
        from fairspan.estimators.path import FairnessPath  # it imports this module

        if self._config.criterion_name != "conditional_statistical_parity":
            control_features = None
        options["control_features"] = control_features
        return FairnessPath.from_estimator(self, X, y, **options)


class FairClassifier(FairPredictor):
    """An estimator that predicts classes."""

    _target_kind = "categorical"

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        classes: Any = None,
        sensitive_features: Any = None,
        control_features: Any = None,
        sample_weight: Any = None,
        solve: Any = True,
        start: Any = None,
    ) -> Self:
        """Add a block of rows.

        As in :class:`FairRepresentation`: an estimator that was not prepared is prepared on this
        first block, which must then show every class.

        Parameters
        ----------
        X, y, sensitive_features, control_features, sample_weight
            As in :meth:`fit`.
        classes : array-like, optional
            All labels, as in scikit-learn; an error if they differ from those of the prepared rows.
        solve : bool, default=True
            Solve for the model after adding.
        start : int, optional
            Position of the block's first row in all the data.
        """
        if classes is not None:
            seen = None if self._state is None else self._state.classes
            known = np.unique(to_numpy(y)) if seen is None else seen
            if not np.array_equal(np.unique(classes), known):
                msg = (
                    f"classes={list(classes)!r}, but the rows that the estimator is prepared on have "
                    f"{list(known)!r}. Call `prepare` on rows that show every class."
                )
                raise ValueError(msg)
        return super().partial_fit(
            X,
            y,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
            solve=solve,
            start=start,
        )
