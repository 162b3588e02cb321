"""Scores of a model that was fitted elsewhere and is never fitted again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fairspan.inputs.checks import refuse
from fairspan.method.laplace import softmax
from fairspan.method.linalg import Array, to_numpy

_CALL = "__call__"


@dataclass(frozen=True, kw_only=True)
class FrozenScores:
    """A fitted model, or a function of the rows, and the method that gives its scores."""

    model: Any
    method: str  # "predict_proba", "decision_function", "predict" or "__call__"

    @classmethod
    def of(cls, model: Any, *, classes: bool) -> FrozenScores:
        """Choose the method; raise if the model has none, or is not fitted."""
        other = "FairPostprocessorRegressor" if classes else "FairPostprocessor"
        methods = ("predict_proba", "decision_function") if classes else ("predict",)
        wrong_kind = not classes and hasattr(model, "predict_proba")
        found = [name for name in methods if hasattr(model, name)]
        if isinstance(model, type) or wrong_kind or not (found or callable(model)):
            listed = " or ".join(methods)
            refuse(
                "model",
                model,
                f"a fitted model with {listed}, or a function of X that returns scores, such as "
                f"model.predict. {'Regressors' if classes else 'Classifiers'} go into {other}",
            )
        if found and isinstance(model, BaseEstimator):
            check_is_fitted(
                model,
                msg="This %(name)s is not fitted. Fit it on other rows first: a postprocessor corrects "
                "the scores of a model and never trains it.",
            )
        return cls(model=model, method=found[0] if found else _CALL)

    def columns(self, X: Any) -> Array:
        """Scores of the rows, (n, columns): probabilities, or the values that the model gives."""
        out = np.asarray(to_numpy(getattr(self.model, self.method)(X)))
        if out.ndim == 1:
            out = out[:, None]
        n = len(X)
        if out.ndim != 2 or len(out) != n or out.dtype.kind not in "fiub":
            raise ValueError(
                f"{self._name} gave an array of shape {out.shape} and type {out.dtype} for {n} rows; one "
                f"number per row, or one per row and class, is needed."
            )
        out = out.astype(np.float64)
        if not np.isfinite(out).all():
            msg = f"{self._name} gave {int((~np.isfinite(out)).sum())} scores that are not finite."
            raise ValueError(msg)
        return softmax(out) if self.method == "decision_function" and out.shape[1] > 1 else out

    def to_contrasts(self, n_columns: int, labels: NDArray[Any] | None, contrasts: Array) -> Array:
        """Matrix from the columns to contrasts of y, (columns, L); ``labels`` in the order of codes."""
        K = 1 if labels is None else len(labels)
        if labels is None or (K == 2 and n_columns == 1):
            if n_columns != 1:
                msg = f"{self._name} gave {n_columns} numbers per row; a regressor gives one."
                raise ValueError(msg)
            return contrasts[-1:] - (contrasts[:1] if K == 2 else 0.0)
        known = np.asarray(getattr(self.model, "classes_", np.sort(labels)))
        if len(known) != n_columns or set(known.tolist()) != set(labels.tolist()):
            have = f"the classes {known.tolist()[:8]!r}" if len(known) == n_columns else ""
            raise ValueError(
                f"{self._name} gave {have or f'{n_columns} scores per row'}, but y has the classes "
                f"{np.sort(labels).tolist()[:8]!r}. Calibrate on rows of all classes of the model."
            )
        code = {label: k for k, label in enumerate(labels.tolist())}
        return contrasts[[code[label] for label in known.tolist()]]

    @property
    def _name(self) -> str:
        if self.method == _CALL:
            return f"The function {getattr(self.model, '__name__', type(self.model).__name__)!r}"
        return f"{type(self.model).__name__}.{self.method}"
