"""One fit that has met rows: what it says about them at any place on the dial, from one pass."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from fairspan.method.linalg import Array

__all__ = ["Met"]


class Met:
    """A fitted predictor and clean rows, whose kernel columns were computed once.

    Every model of the path is a blend of the same few functions, so their values on the rows are all
    that predictions need.

    Parameters
    ----------
    model : fitted fairspan predictor
    X : (n, p) rows as its kernel takes them: ``model._read_new(table)``.
    """

    def __init__(self, model: Any, X: Array) -> None:
        self.model, self.X = model, X
        self._on_basis: Array = np.asarray(
            model.pilot_.features.scores(X, model._solution.basis), dtype=np.float64
        )

    def at(self, fairness: float) -> Any:
        """``model.at(fairness)``, which answers for these rows, whatever X it is asked about."""
        model = self.model
        if model.dial == "angle" and model.fairness == fairness:  # it is there already
            return self.meet(copy.copy(model))
        return self.meet(model.at(float(fairness), dial="angle"))

    def meet(self, moved: Any) -> Any:
        """The same for a model that was moved already."""
        place, X = moved._position, self.X
        kept = self._on_basis @ place.blend - place.offset
        # On the instance alone: all that it says is still computed by its own class.
        moved._read_new = lambda _: X
        moved._scores = lambda _: kept
        return moved
