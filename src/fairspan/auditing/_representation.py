"""The coordinates that a model's functions are made of, and the score's weights on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.estimators.base import FairKernelEstimator
from fairspan.method.linalg import Array, take
from fairspan.metrics.inputs import read_scores

__all__ = ["Representation", "find_representation", "share_of_fitted_rows"]


@dataclass(frozen=True)
class Representation:
    """Coordinates of the rows audited.

    Attributes
    ----------
    Z : (n, d)
    names : of the coordinates.
    coef : (d, k) weights of a score that is linear in them; None if it is not, or not known.
    psi : (n, D) kernel coordinates of a fairspan model; None for others.
    own : it is the model space of a fairspan model.
    given : the user passed it.
    cells : what its criterion conditions on: "", "target", "positive" or "strata".
    """

    Z: Array
    names: tuple[str, ...]
    coef: Array | None = None
    psi: Any = None
    own: bool = False
    given: bool = False
    cells: str = ""

    def take(self, keep: Any) -> Representation:
        """Some of the rows."""
        return replace(self, Z=self.Z[keep], psi=None if self.psi is None else self.psi.take(keep))


class KernelRows:
    """Kernel coordinates of rows, computed for those that are asked for."""

    def __init__(self, model: FairKernelEstimator, X: Array) -> None:
        self._model, self._X = model, X

    def take(self, keep: Any) -> KernelRows:
        """Some of the rows."""
        return KernelRows(self._model, self._X[keep])

    def __getitem__(self, rows: Any) -> Array:
        return self._model._coordinates(self._X[rows])


_CELLS = {"all": "", "target": "target", "class": "positive", "strata": "strata"}


def find_representation(model: Any, X: Any, given: Any) -> Representation | None:
    """What the user gave, or what the model shows of itself; None if neither."""
    if given is not None:
        Z = read_scores(given, "representation")
        return Representation(Z, _names(None, Z.shape[1]), given=True)
    if model is None:
        return None
    model = getattr(model, "best_estimator_", model)  # of a search
    if hasattr(model, "steps"):
        last, X = model[-1], model[:-1].transform(X) if len(model) > 1 else X
    else:
        last = model
    if isinstance(last, FairKernelEstimator):
        read = last._read_new(X)
        Z = last._scores(read)
        coef = last.score_coef_ if len(last.score_coef_) == Z.shape[1] else None
        return Representation(
            Z, _names(None, Z.shape[1]), coef, KernelRows(last, read), own=True,
            cells=_CELLS[last.pilot_.cells.rule],
        )  # fmt: skip
    coef = getattr(last, "coef_", None)
    if coef is not None:
        return _linear(X, np.asarray(coef, dtype=np.float64))
    if hasattr(last, "transform") and not hasattr(last, "predict"):
        Z = read_scores(_dense(last.transform(X)), "transform(X)")
        return Representation(Z, _names(None, Z.shape[1]))
    return None


def share_of_fitted_rows(model: Any, X: Any, keep: Any) -> float | None:
    """Share of the rows ``X[keep]`` that a fairspan model was fitted on; None if none can be shown.

    The model may be a step of a pipeline, or the best one of a search; other wrappers are not opened.
    """
    model, step = getattr(model, "best_estimator_", model), None
    if isinstance(model, FairKernelEstimator):
        step = model
    for i, (_, part) in enumerate(getattr(model, "steps", ())):
        if isinstance(part, FairKernelEstimator):
            step, X = part, model[:i].transform(X) if i else X
            break
    sketch = None if step is None else step._fitted_rows
    if step is None or sketch is None:
        return None
    return sketch.share_of(take(step._read_new(X), keep))


def _linear(X: Any, coef: Array) -> Representation | None:
    """A linear model's inputs: X itself, or what the steps before it made."""
    names = getattr(X, "columns", None)
    try:
        Z = np.asarray(_dense(X), dtype=np.float64)
    except (TypeError, ValueError):  # it knows how to encode, and so is not linear in X
        return None
    coef = np.atleast_2d(coef).T  # scikit-learn's is (outputs, features), or (features,)
    if Z.ndim != 2 or coef.shape[0] != Z.shape[1] or not np.isfinite(Z).all():
        return None
    return Representation(Z, _names(names, Z.shape[1]), coef)


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X


def _names(given: Any, d: int) -> tuple[str, ...]:
    return tuple(map(str, given)) if given is not None else tuple(f"z{i}" for i in range(d))
