"""What an audit is given, as clean arrays: scores, decisions, labels, groups."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

from fairspan._columns import as_frame, named_columns_of, read_attributes
from fairspan._linalg import Array
from fairspan._metric_inputs import (
    Labels,
    Rows,
    SensitiveKind,
    read_labels,
    read_rows,
    read_scores,
)
from fairspan.auditing._representation import Representation, find_representation
from fairspan.auditing._rows import Protected, cross
from fairspan.codes import Coder, Codes, infer_kind
from fairspan.encoding import table_encoder

__all__ = ["Audited", "read_audit"]

# Slices of a number among control features, and in combinations of attributes.
_STRATA = 4


@dataclass(frozen=True)
class Audited:
    """Clean rows of one length; what was not given is None.

    Attributes
    ----------
    attributes : the protected attributes, one by one.
    crossed : all of them as one, if there are several and it was asked for.
    strata : what the control features make.
    target : y as groups: classes, or slices of a number (then with ``values``).
    classes : labels of a classification, in the order of the codes of ``target`` and ``decided``.
    positive : codes of the classes whose decisions are compared.
    scores : (n, k) real-valued outputs, larger towards the positive class.
    decided : (n,) class decided on.
    probability : (n,) probability of the positive class.
    features : (n, p) what the model was given, as numbers, without protected columns.
    representation : the coordinates that the model's functions are made of.
    """

    name: str
    weight: Array
    attributes: tuple[Protected, ...]
    crossed: Protected | None
    strata: Protected | None
    target: Protected | None
    classes: Labels | None
    positive: tuple[int, ...]
    scores: Array | None
    decided: Codes | None
    probability: Array | None
    features: Array | None
    representation: Representation | None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.weight)

    @property
    def groupings(self) -> tuple[Protected, ...]:
        """The attributes, and all of them as one."""
        return self.attributes if self.crossed is None else (*self.attributes, self.crossed)


@dataclass(frozen=True)
class _Outputs:
    """What a model says about rows, in its own terms."""

    name: str
    scores: Array | None = None
    decisions: Labels | None = None
    probabilities: Array | None = None  # (n, classes)
    classes: Labels | None = None


def is_model(given: Any) -> bool:
    """Whether it predicts or transforms, rather than being scores."""
    if hasattr(given, "__array__") or hasattr(given, "__len__"):  # a Series transforms, too
        return hasattr(given, "fit")  # a pipeline has a length
    return any(callable(getattr(given, name, None)) for name in ("predict", "transform"))


def read_audit(
    given: Any, X: Any, y: Any, *, sensitive_features: Any, control_features: Any,
    sample_weight: Any, decisions: Any, representation: Any, pos_label: Any,
    sensitive_kind: SensitiveKind, n_bins: int, intersectional: bool,
) -> Audited:  # fmt: skip
    """Everything the user passed, without rows of weight zero."""
    if sensitive_features is None:
        msg = (
            "audit needs the protected attributes: audit(model, X, y, sensitive_features=s), an array, "
            "a frame, or column names of X."
        )
        raise ValueError(msg)
    frame = None if X is None else as_frame(X, "X")
    named: list[str] = []
    sensitive_features = _taken(frame, sensitive_features, "sensitive_features", named)
    control_features = _taken(frame, control_features, "control_features", named)
    if is_model(given):
        if X is None:
            raise ValueError(f"audit of a {type(given).__name__} needs X, the rows to audit it on.")
        seen = _model_rows(given, X, frame, named)
        outputs, found = _ask(given, seen), find_representation(given, seen, representation)
    else:
        outputs = _plain(given)
        found = find_representation(None, None, representation)
    if decisions is not None:
        outputs = _replace_decisions(outputs, read_labels(decisions, "decisions"))
    labels = None if y is None else read_labels(y, "y")
    features = None if X is None else _numbers(X, frame, named)
    sizes = {
        name: len(part)
        for name, part in (
            ("scores", outputs.scores), ("decisions", outputs.decisions), ("y", labels),
            ("X", features), ("representation", None if found is None else found.Z),
        )
        if part is not None
    }  # fmt: skip
    rows = read_rows(sensitive_features, sensitive_kind, sample_weight, sizes)
    keep = rows.weight > 0.0
    rows = rows.take(keep)
    attributes = tuple(
        Protected(
            name, rows.kinds[name], codes, names,
            rows.attributes[name].values.astype(np.float64)
            if rows.kinds[name] == "continuous" else None,
        )
        for name, codes, names in rows.groups(n_bins)
    )  # fmt: skip
    outputs = _rows_of(outputs, keep)
    labels = None if labels is None else labels[keep]
    classes = _classes(given, outputs, labels)
    target = None if labels is None else _target(labels, classes, n_bins, rows.weight)
    positive = () if classes is None else _positive(classes, pos_label)
    one = positive[0] if len(positive) == 1 else None
    return Audited(
        outputs.name, rows.weight, attributes,
        _crossed(rows, n_bins) if intersectional and len(attributes) > 1 else None,
        _strata(control_features, keep, rows.weight), target, classes, positive,
        _oriented(outputs, classes, one),
        None if outputs.decisions is None or classes is None
        else _codes_of(outputs.decisions, classes, "decisions"),
        _probability(outputs, classes, one),
        None if features is None else features[keep],
        None if found is None else found.take(keep),
    )  # fmt: skip


# ------------------------------------------------------------------ the model's side


def _taken(frame: Any, given: Any, role: str, named: list[str]) -> Any:
    """Columns of X asked for by name."""
    names = None if given is None else named_columns_of(frame, given, role)
    if names is None:
        return given
    named += names
    return frame.select(names).to_native()


def _model_rows(model: Any, X: Any, frame: Any, named: list[str]) -> Any:
    """X as the model knows it: protected columns stay where it was fitted on them."""
    known = getattr(model, "feature_names_in_", None)
    if frame is None or not named or known is None:
        return X
    extra = [name for name in named if name not in set(known)]
    return frame.drop(extra).to_native() if extra else X


def _ask(model: Any, X: Any) -> _Outputs:
    name = type(model[-1] if hasattr(model, "steps") else model).__name__
    if not hasattr(model, "predict"):
        if hasattr(model, "score_coef_") and len(model.score_coef_):
            return _Outputs(name, read_scores(model._outputs(X)))
        return _Outputs(name)
    decisions = np.asarray(model.predict(X))
    if not is_classifier(model):
        return _Outputs(name, read_scores(decisions, "predictions"))
    probabilities = np.asarray(model.predict_proba(X)) if hasattr(model, "predict_proba") else None
    scores: Any = probabilities
    if hasattr(model, "decision_function"):
        scores = model.decision_function(X)
    elif probabilities is not None and probabilities.shape[1] == 2:
        scores = probabilities[:, 1]
    classes = np.asarray(model.classes_)
    return _Outputs(
        name, None if scores is None else read_scores(scores), decisions, probabilities, classes
    )


def _plain(given: Any) -> _Outputs:
    """Scores, or decisions where they are no numbers."""
    labels = np.asarray(given)
    if labels.ndim == 1 and labels.dtype.kind in "OUSb":
        return _Outputs("decisions", None, read_labels(given, "decisions"))
    return _Outputs("scores", read_scores(given, "model_or_scores"))


def _replace_decisions(outputs: _Outputs, decisions: Labels) -> _Outputs:
    return _Outputs(outputs.name, outputs.scores, decisions, outputs.probabilities, outputs.classes)


def _rows_of(outputs: _Outputs, keep: Any) -> _Outputs:
    def some(part: Any) -> Any:
        return None if part is None else part[keep]

    return _Outputs(
        outputs.name, some(outputs.scores), some(outputs.decisions), some(outputs.probabilities),
        outputs.classes,
    )  # fmt: skip


def _oriented(outputs: _Outputs, classes: Labels | None, positive: int | None) -> Array | None:
    """Scores that grow towards the positive class; of decisions alone, their indicator."""
    scores = outputs.scores
    if scores is None and outputs.decisions is not None and classes is not None:
        codes = _codes_of(outputs.decisions, classes, "decisions")
        each = codes[:, None] == np.arange(len(classes))
        return np.asarray(each if positive is None else each[:, [positive]], dtype=np.float64)
    if scores is None or outputs.classes is None or positive is None or scores.shape[1] > 1:
        return scores
    return -scores if positive == 0 else scores


def _probability(outputs: _Outputs, classes: Labels | None, positive: int | None) -> Array | None:
    if classes is None or positive is None:
        return None
    if outputs.probabilities is not None:
        return np.asarray(outputs.probabilities[:, positive], dtype=np.float64)
    scores = outputs.scores
    inside = outputs.classes is None and scores is not None and scores.shape[1] == 1
    if not inside or scores is None or scores.min() < 0.0 or scores.max() > 1.0:
        return None
    if np.isin(scores, (0.0, 1.0)).all():  # decisions, not probabilities
        return None
    return scores[:, 0]


# ------------------------------------------------------------------ labels and groups


def _classes(given: Any, outputs: _Outputs, y: Labels | None) -> Labels | None:
    """Labels of a classification; None for numbers."""
    if outputs.classes is None and (is_model(given) and is_regressor(given)):
        return None
    seen = [part for part in (y, outputs.decisions) if part is not None]
    if not seen:
        return None
    if outputs.classes is None and outputs.decisions is None:
        column = read_attributes({"y": seen[0]}, len(seen[0]), "y", "y")["y"]
        if infer_kind(column) == "continuous":
            return None
    known = [] if outputs.classes is None else [np.asarray(outputs.classes)]
    kinds = {part.dtype.kind in "OUS" for part in (*seen, *known)}
    if len(kinds) > 1:
        shown = ", ".join(repr(part[0]) for part in (*seen, *known) if len(part))
        msg = f"Labels of y, of the decisions and of the model do not compare: {shown}, ..."
        raise ValueError(msg)
    return np.unique(np.concatenate([*seen, *known]))


def _codes_of(labels: Labels, classes: Labels, what: str) -> Codes:
    codes = np.searchsorted(classes, labels)
    if (classes[np.minimum(codes, len(classes) - 1)] != labels).any():
        raise ValueError(f"{what} holds labels that are not among {classes[:5].tolist()}")
    return np.asarray(codes, dtype=np.intp)


def _positive(classes: Labels, pos_label: Any) -> tuple[int, ...]:
    """Two classes: the larger label, as in scikit-learn. More: each in turn, unless one is named."""
    if pos_label is not None:
        found = np.flatnonzero(np.broadcast_to(np.asarray(classes == pos_label), classes.shape))
        if len(found) == 0:
            shown = ", ".join(map(repr, classes[:5].tolist()))
            raise ValueError(f"pos_label={pos_label!r} is not among the labels {shown}")
        return (int(found[0]),)
    return (1,) if len(classes) == 2 else tuple(range(len(classes)))


def _target(y: Labels, classes: Labels | None, n_bins: int, weight: Array) -> Protected:
    if classes is not None:
        return Protected(
            "y", "categorical", _codes_of(y, classes, "y"), tuple(str(c) for c in classes.tolist())
        )
    values = read_scores(y, "y")[:, 0]
    column = read_attributes({"y": values}, len(values), "y", "y")
    coder = Coder.learn(column["y"], "continuous", n_bins, weight)
    return Protected("y", "continuous", coder.codes(column), coder.labels, values)


def _crossed(rows: Rows, n_bins: int) -> Protected:
    """Combinations of the attributes; numbers in few slices, as there are many combinations."""
    parts = [
        Protected(name, "categorical", codes, labels)
        for name, codes, labels in rows.groups(min(n_bins, _STRATA))
    ]
    return cross(parts)


def _strata(given: Any, keep: Any, weight: Array) -> Protected | None:
    if given is None:
        return None
    columns = read_attributes(given, len(keep), "control_features", "control_feature")
    parts = []
    for name, column in columns.items():
        if column.missing.any():
            msg = (
                f"control_features {name!r} is missing in {int(column.missing.sum())} rows; every row "
                f"needs a stratum. Give those rows a category of their own."
            )
            raise ValueError(msg)
        column = column.take(keep)
        coder = Coder.learn(column, infer_kind(column), _STRATA, weight)
        labels = tuple(f"{name} {label}" if coder.kind == "continuous" else f"{name} = {label}"
                       for label in coder.labels)  # fmt: skip
        parts.append(Protected(name, coder.kind, coder.codes({name: column}), labels))
    return cross(parts)


def _filled(table: Array) -> Array:
    """Missing numbers by the column's median, and an indicator of each column that has any."""
    missing = ~np.isfinite(table)
    some = missing.any(axis=0)
    if not some.any():
        return table
    known = np.where(missing, np.nan, table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without any number
        middle = np.nan_to_num(np.nanmedian(known, axis=0))
    return np.concatenate([np.where(missing, middle, table), missing[:, some]], axis=1)


def _numbers(X: Any, frame: Any, named: list[str]) -> Array:
    """Features as a matrix of numbers, for those who try to recover S from them."""
    if frame is None:
        table = np.asarray(X)
        if table.ndim != 2:
            raise ValueError(f"X must be a table of features, got shape {table.shape}")
        try:
            table = table.astype(np.float64)
        except (TypeError, ValueError):
            msg = "X is an array that holds text; give a data frame, whose columns can be encoded."
            raise ValueError(msg) from None
        return _filled(table)
    rest = frame.drop([name for name in named if name in frame.columns])
    if all(dtype.is_numeric() for dtype in rest.schema.values()):
        table = rest.to_numpy().astype(np.float64)
        if np.isfinite(table).all():
            return np.asarray(table)
    native = rest.to_native()
    encoder: Any = table_encoder(native)  # type: ignore[no-untyped-call]
    return np.asarray(encoder.fit_transform(native), dtype=np.float64)
