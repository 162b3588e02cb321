"""A model at each place of its dial, for displays that are given a model and no path."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.alignment import align_rows
from fairspan.inputs.columns import as_frame, named_columns_of, read_attributes
from fairspan.inputs.config import canonical_criterion
from fairspan.method.codes import Coder, infer_kind
from fairspan.method.linalg import Array
from fairspan.metrics import by_attribute, correlation_noise
from fairspan.metrics.inputs import Rows, is_positive, read_labels, read_rows

Metric = str | Callable[..., float]
_DECISIONS = ("demographic_parity_difference", "equalized_odds_difference")
_KNOWN = (
    "correlation",
    "statistical_parity_correlation",
    "correlation_ratio",
    *_DECISIONS,
    "error",
)
# No rows but those of the fit have correlations as small as this.
_EXACT = 1e-9


def values_of(X: Any, given: Any, role: str = "sensitive_features") -> Any:
    """Columns of X where ``given`` names them."""
    frame = as_frame(X, "X")
    names = None if given is None else named_columns_of(frame, given, role)
    return given if names is None or frame is None else frame.select(names).to_native()


def check_rows_said(path: Any, rows: str) -> None:
    """Warn where rows that are said to be held out give themselves away as those of the fit."""
    ends = np.flatnonzero(np.isclose(path.fairness, 1.0))
    if rows == "in-sample" or len(ends) == 0:
        return
    if path.curve("correlation")[ends[0]] < _EXACT < path.curve("correlation")[0]:
        warn_user(
            f"The display says {rows!r}, but no correlation is left at fairness 1, as on the rows a "
            f"model was fitted on. Give held-out rows, or rows='in-sample'.",
            DataWarning,
        )


class Dialled:
    """Error and parity of a fitted model along its dial, moved by its ``at``: what a path tells.

    Every dial value predicts anew; a ``FairnessPath`` does it in one pass.
    """

    def __init__(
        self, model: Any, X: Any, y: Any, *, sensitive_features: Any, control_features: Any = None,
        sample_weight: Any = None, n_points: Any = 21,
    ) -> None:  # fmt: skip
        for method in ("at", "predict"):
            if not hasattr(model, method):
                msg = (
                    f"{type(model).__name__} has no `{method}`. Give a fairspan model that predicts; "
                    f"for a FairRepresentation make a FairnessPath and use `from_path`."
                )
                raise TypeError(msg)
        if type(n_points) is bool or not isinstance(n_points, int | np.integer) or n_points < 2:
            msg = f"n_points={n_points!r} is not allowed; give an integer of at least 2."
            raise ValueError(msg)
        _, y, sensitive_features, control_features, sample_weight = align_rows(
            X=X, y=y, sensitive_features=values_of(X, sensitive_features),
            control_features=values_of(X, control_features, "control_features"),
            sample_weight=sample_weight,
        ).values()  # fmt: skip
        labels = read_labels(y, "y")
        rows = read_rows(
            sensitive_features, getattr(model, "sensitive_kinds_", "auto"), sample_weight,
            {"y": len(labels)},
        )  # fmt: skip
        keep = rows.weight > 0.0
        self._rows, self._y, self._weighted = (
            rows.take(keep),
            labels[keep],
            sample_weight is not None,
        )
        self._classes, self._pos_label = is_classifier(model), model.pos_label
        self.fairness = np.linspace(0.0, 1.0, int(n_points))
        self.error_name = "misclassification" if self._classes else "RMSE"
        self.attributes = list(rows.attributes)
        self._predictions: list[Any] = []
        self._scores: list[Array] = []
        for place in self.fairness:
            at = model.at(float(place), dial="angle")
            self._predictions.append(np.asarray(at.predict(X))[keep])
            scores = at.decision_function(X) if self._classes else at.predict(X)
            self._scores.append(np.asarray(scores, dtype=np.float64)[keep])
        share = self._rows.weight / self._rows.weight.sum()
        self.error = np.array([share @ self._loss(p) for p in self._predictions])
        if not self._classes:
            self.error = np.sqrt(self.error)
        self._cells = self._find_cells(model, control_features, keep)
        self.noise = self._noise(model)

    def curve(self, metric: Metric = "correlation", attribute: str | None = None) -> Array:
        """A metric at every dial value; the worst attribute if none is named."""
        rows = self._of(attribute)
        if callable(metric):
            return np.array([self._call(metric, rows, p) for p in self._predictions])
        if metric not in _KNOWN:
            msg = f"metric={metric!r} is unknown. Known: {', '.join(_KNOWN)}; or give a callable."
            raise ValueError(msg)
        if metric == "error":
            return self.error
        if metric in _DECISIONS:
            return np.array([self._gap(metric, rows, p) for p in self._predictions])
        cells = [np.ones(len(self._y), dtype=bool)] if metric.startswith("stat") else self._cells
        name = "correlation_ratio" if metric == "correlation_ratio" else _KNOWN[1]
        parts = [(cell, rows.take(cell)) for cell in cells]
        found = [[_worst(name, f[cell], part) for cell, part in parts] for f in self._scores]
        return np.asarray(np.fmax.reduce(np.array(found), axis=1))

    # ------------------------------------------------------------------ inside

    def _loss(self, predictions: Any) -> Array:
        if self._classes:
            return np.asarray(predictions != self._y, dtype=np.float64)
        return np.asarray((predictions - self._y.astype(np.float64)) ** 2)

    def _of(self, attribute: str | None) -> Rows:
        if attribute is None:
            return self._rows
        if attribute not in self.attributes:
            known = ", ".join(map(repr, self.attributes))
            raise ValueError(f"attribute={attribute!r} is unknown. Known: {known}.")
        rows = self._rows
        return Rows({attribute: rows.attributes[attribute]}, rows.kinds, rows.weight)

    def _call(self, metric: Callable[..., float], rows: Rows, predictions: Any) -> float:
        sensitive: Any = {name: a.as_given() for name, a in rows.attributes.items()}
        if len(sensitive) == 1:
            (sensitive,) = sensitive.values()
        takes = "sample_weight" in inspect.signature(metric).parameters
        options = {"sample_weight": rows.weight} if takes and self._weighted else {}
        return float(metric(self._y, predictions, sensitive_features=sensitive, **options))

    def _gap(self, metric: str, rows: Rows, predictions: Any) -> float:
        found = np.unique(self._y)
        if not self._classes or (len(found) != 2 and self._pos_label is None):
            raise ValueError(f"{metric} needs decisions of two classes, or pos_label of the model.")
        label = found[1] if self._pos_label is None else self._pos_label
        return max(
            by_attribute(
                metric, self._y, predictions, pos_label=label, sample_weight=rows.weight,
                **_sensitive(rows),
            ).values()
        )  # fmt: skip

    def _find_cells(self, model: Any, control: Any, keep: Any) -> list[Any]:
        """Rows on which the model's criterion asks for independence, cell by cell."""
        criterion = canonical_criterion(model.criterion)
        y, n_slices = self._y, None if model.n_slices == "distinct" else model.n_slices
        if criterion == "statistical_parity":
            return [np.ones(len(y), dtype=bool)]
        if criterion == "equal_opportunity":
            label = model.classes_[-1] if self._pos_label is None else self._pos_label
            return [is_positive(y, label)]
        if criterion == "equalized_odds":
            column = read_attributes({"y": y}, len(y), "y", "y")
            kind = "categorical" if self._classes else infer_kind(column["y"])
            codes = Coder.learn(column["y"], kind, n_slices, self._rows.weight).codes(column)
            return [codes == i for i in np.unique(codes)]
        if control is None:
            raise ValueError(f"criterion={model.criterion!r} needs control_features.")
        strata = np.zeros(len(y), dtype=np.intp)
        for name, given in read_attributes(control, len(keep), "control_features", "c").items():
            part = {name: given.take(keep)}
            coder = Coder.learn(part[name], infer_kind(part[name]), n_slices)
            strata = strata * (coder.n_levels + 1) + coder.codes(part) + 1
        return [strata == i for i in np.unique(strata)]

    def _noise(self, model: Any) -> float:
        """Of a correlation, in the smallest cell here and in the fit."""
        fitted = [block.n_rows for block in model.certificate_.blocks if block.constrained]
        weights = [self._rows.weight[cell] for cell in self._cells if cell.any()]
        if not fitted or not weights:
            return float("nan")
        smallest = min(float(w.sum() ** 2 / (w @ w)) for w in weights)
        return correlation_noise(smallest, min(fitted))


def _sensitive(rows: Rows) -> dict[str, Any]:
    """Attributes as the functions of `metrics` take them."""
    values = {name: attribute.values for name, attribute in rows.attributes.items()}
    return {"sensitive_features": values, "sensitive_kind": {n: rows.kinds[n] for n in values}}


def _worst(name: str, scores: Array, rows: Rows) -> float:
    """The largest over attributes; NaN where all are constant on these rows."""
    varied = {
        key: one for key, one in rows.attributes.items()
        if len(one.values) and (one.values != one.values[0]).any()
    }  # fmt: skip
    if not varied:
        return float("nan")
    some = Rows(varied, rows.kinds, rows.weight)
    return max(by_attribute(name, scores, sample_weight=rows.weight, **_sensitive(some)).values())
