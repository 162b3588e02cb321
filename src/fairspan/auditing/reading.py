"""Protected attributes as an audit sees them: groups of rows, and numbers where they are numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.auditing.outputs import Outputs, ask, codes_of, looks_like, plain, read_numbers
from fairspan.estimators.base import FairKernelEstimator
from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.alignment import align_rows
from fairspan.inputs.columns import as_frame, named_columns_of, read_attributes
from fairspan.method.codes import (
    Coder,
    infer_kind,
    numbered,
    warn_of_doubtful_labels,
    warn_of_few_values,
)
from fairspan.method.data import Codes, Kind
from fairspan.method.linalg import Array, take
from fairspan.metrics.groups import STRATA, GroupSums
from fairspan.metrics.inputs import (
    Labels,
    Rows,
    SensitiveKind,
    check_bins,
    check_decisions,
    read_labels,
    read_rows,
    read_scores,
)

__all__ = [
    "Audited",
    "Protected",
    "Representation",
    "cross",
    "find_representation",
    "read_audit",
    "share_of_fitted_rows",
]


@dataclass(frozen=True)
class Protected:
    """One protected attribute of every row audited; nothing is missing.

    Attributes
    ----------
    name, kind : "categorical" or "continuous"
    codes : (n,) level of each row, or slice of a continuous attribute.
    labels : names of the levels or slices.
    values : (n,) the numbers of a continuous attribute, None for a categorical one.
    """

    name: str
    kind: Kind
    codes: Codes
    labels: tuple[str, ...]
    values: Array | None = None

    def take(self, rows: Any) -> Protected:
        """Rows by index or mask; levels without a row stay in ``labels``."""
        values = None if self.values is None else self.values[rows]
        return replace(self, codes=self.codes[rows], values=values)

    def columns(self) -> Array:
        """What a test of dependence compares: the number itself, or one indicator per level seen."""
        if self.values is not None:
            return self.values[:, None]
        seen = np.unique(self.codes)
        return np.asarray(self.codes[:, None] == seen, dtype=np.float64)


def cross(parts: Sequence[Protected]) -> Protected:
    """Attributes as one: a level is a combination that occurs (continuous ones by their slices)."""
    codes = np.stack([part.codes for part in parts], axis=1)
    seen, crossed = np.unique(codes, axis=0, return_inverse=True)
    labels = numbered(  # "a & b" & "c", and "a" & "b & c"
        [
            " & ".join(part.labels[code] for part, code in zip(parts, row, strict=True))
            for row in seen
        ]
    )
    name = " x ".join(part.name for part in parts)
    return Protected(name, "categorical", crossed.ravel().astype(np.intp), labels)


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
    fitted_share : share of the rows that the model was fitted on, if it can be shown.
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
    fitted_share: float | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.weight)

    @property
    def groupings(self) -> tuple[Protected, ...]:
        """The attributes, and all of them as one."""
        return self.attributes if self.crossed is None else (*self.attributes, self.crossed)

    def in_strata(self, sums: GroupSums) -> Iterator[tuple[str, GroupSums]]:
        """Sums of all rows, then of the rows of each stratum, with its name ("" for all rows)."""
        yield "", sums
        if self.strata is not None:
            for code, label in enumerate(self.strata.labels):
                yield label, sums.where(sums.factors[STRATA] == code)


def is_model(given: Any) -> bool:
    """Whether it predicts or transforms, rather than being scores."""
    if hasattr(given, "__array__") or hasattr(given, "__len__"):  # a Series transforms, too
        return hasattr(given, "fit")  # a pipeline has a length
    return any(callable(getattr(given, name, None)) for name in ("predict", "transform"))


def read_audit(
    given: Any, X: Any, y: Any, *, sensitive_features: Any, control_features: Any,
    sample_weight: Any, decisions: Any, representation: Any, pos_label: Any,
    sensitive_kind: SensitiveKind, n_bins: int, intersectional: bool, with_features: bool,
) -> Audited:  # fmt: skip
    """Everything the user passed, without rows of weight zero."""
    _refuse(given, X, sensitive_features)
    check_bins(n_bins)
    frame = None if X is None else as_frame(X, "X")
    named: list[str] = []
    sensitive_features = _taken(frame, sensitive_features, "sensitive_features", named)
    control_features = _taken(frame, control_features, "control_features", named)
    model = given if is_model(given) else None
    if pos_label is None:  # what the model was fitted to favour
        pos_label = getattr(_last_step(model), "pos_label", None)
    rows_given = align_rows(
        X=X, scores=None if model is not None else given, y=y, decisions=decisions,
        representation=representation, sensitive_features=sensitive_features,
        control_features=control_features, sample_weight=sample_weight,
    )  # fmt: skip
    given = model if model is not None else rows_given["scores"]
    y, decisions = rows_given["y"], rows_given["decisions"]
    representation, sample_weight = rows_given["representation"], rows_given["sample_weight"]
    sensitive_features = rows_given["sensitive_features"]
    control_features = rows_given["control_features"]
    seen = None if model is None else _model_rows(model, X, frame, named)
    outputs = plain(given) if model is None else ask(model, seen)
    found = find_representation(model, seen, representation)
    if decisions is not None:
        outputs = replace(outputs, decisions=read_labels(decisions, "decisions"))
    labels = None if y is None else read_labels(y, "y")
    given_rows = {
        "scores": outputs.scores, "decisions": outputs.decisions, "y": labels, "X": X,
        "representation": None if found is None else found.Z,
    }  # fmt: skip
    sizes = {name: _n_rows(part) for name, part in given_rows.items() if part is not None}
    rows = read_rows(sensitive_features, sensitive_kind, sample_weight, sizes, _fitted_kinds(model))
    keep = rows.weight > 0.0
    rows = _varying(rows.take(keep))
    outputs = outputs.take(keep)
    labels = None if labels is None else labels[keep]
    outputs = _recognised(outputs, labels)
    if outputs.decisions is not None and outputs.classes is None:  # a model knows all its classes
        check_decisions(outputs.decisions, labels, "decisions", "y")
    classes = _classes(model, outputs, labels)
    if classes is not None and len(classes) == 1 and pos_label is not None:
        classes = np.unique(np.append(classes, pos_label))  # nobody is selected, or everybody
    target = None if labels is None else _target(labels, classes, n_bins, rows.weight)
    positive = () if classes is None else _positive(classes, pos_label)
    attributes = _attributes(rows, n_bins)
    features = None
    # A linear model's representation may be the features themselves, which is then seen.
    inputs = found is not None and not found.own and not found.given
    if (with_features or inputs) and X is not None:
        names = [*named, *(one.name for one in attributes)]
        features = read_numbers(X, frame, names)[keep]
    return Audited(
        outputs.name, rows.weight, attributes,
        _crossed(rows, n_bins) if intersectional and len(attributes) > 1 else None,
        _strata(control_features, keep, rows.weight), target, classes, positive,
        outputs.oriented(classes, positive),
        None if outputs.decisions is None or classes is None
        else codes_of(outputs.decisions, classes, "decisions"),
        outputs.probability(classes, positive), features,
        None if found is None else found.take(keep),
        None if model is None else share_of_fitted_rows(model, seen, keep),
    )  # fmt: skip


def _n_rows(part: Any) -> int:
    return int(part.shape[0]) if hasattr(part, "shape") else len(part)  # sparse X has no length


def _refuse(given: Any, X: Any, sensitive_features: Any) -> None:
    """What cannot be audited, in words."""
    if sensitive_features is None:
        msg = (
            "audit needs the protected attributes: audit(model, X, y, sensitive_features=s), an array, "
            "a frame, or column names of X."
        )
        raise ValueError(msg)
    if hasattr(given, "select") and hasattr(given, "curve"):
        msg = "A path holds many models; audit one of them: audit(path.select(...), X, y, ...)."
        raise ValueError(msg)
    if isinstance(given, type):
        raise ValueError(
            f"{given.__name__} is a class; give a fitted model, {given.__name__}(...).fit(...)."
        )
    if is_model(given) and X is None:
        raise ValueError(f"audit of a {type(given).__name__} needs X, the rows to audit it on.")


def _last_step(model: Any) -> Any:
    """The estimator itself, inside a search or a pipeline."""
    model = getattr(model, "best_estimator_", model)  # of a search
    return model[-1] if hasattr(model, "steps") else model


def _fitted_kinds(model: Any) -> dict[str, Any]:
    """Kinds of the protected attributes that a fairspan model was fitted with, {} for other models."""
    return getattr(_last_step(model), "sensitive_kinds_", {})


def _varying(rows: Rows) -> Rows:
    """Attributes that are the same everywhere here have no groups to compare."""
    constant = [name for name, one in rows.attributes.items() if len(np.unique(one.values)) < 2]
    if len(constant) == len(rows.attributes):
        raise ValueError(f"sensitive feature {constant[0]!r} is constant: no groups to compare")
    if constant:
        warn_user(f"Left out, the same in every row: {', '.join(constant)}.", DataWarning)
        rest = {name: one for name, one in rows.attributes.items() if name not in constant}
        return replace(rows, attributes=rest)
    return rows


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


# ------------------------------------------------------------------ labels and groups


def _attributes(rows: Rows, n_bins: int) -> tuple[Protected, ...]:
    def numbers(name: str) -> Array | None:
        continuous = rows.kinds[name] == "continuous"
        return rows.attributes[name].values.astype(np.float64) if continuous else None

    return tuple(
        Protected(name, rows.kinds[name], codes, labels, numbers(name))
        for name, codes, labels in rows.groups(n_bins)
    )


def _recognised(outputs: Outputs, y: Labels | None) -> Outputs:
    """Plain numbers that are labels of y are decisions; two columns that sum to 1, probabilities."""
    scores = outputs.scores
    if scores is None or y is None or outputs.name != "scores" or outputs.decisions is not None:
        return outputs
    known = np.unique(y)
    if y.dtype.kind in "iufb" and scores.shape[1] == 1 and len(known) <= 20:
        if np.isin(scores[:, 0], known.astype(np.float64)).all():
            return replace(outputs, decisions=scores[:, 0].astype(y.dtype), scores=None)
    elif scores.shape[1] == 2 and len(known) == 2 and np.allclose(scores.sum(axis=1), 1.0):
        return replace(outputs, scores=scores[:, 1:], probabilities=scores, classes=known)
    return outputs


def _classes(model: Any, outputs: Outputs, y: Labels | None) -> Labels | None:
    """Labels of a classification; None for numbers."""
    if outputs.classes is None and model is not None and looks_like(model, "regressor"):
        return None
    seen = [part for part in (y, outputs.decisions) if part is not None]
    if not seen:
        return None
    if outputs.classes is None and y is not None:
        column = read_attributes({"y": y}, len(y), "y", "y")["y"]
        if infer_kind(column) == "continuous":
            if outputs.decisions is None:
                return None
            msg = (
                f"y holds numbers ({len(np.unique(y))} of them), and the decisions are labels: give the "
                f"true labels as y, or leave the decisions out."
            )
            raise ValueError(msg)
    known = [] if outputs.classes is None else [np.asarray(outputs.classes)]
    parts = [_tidy(part) for part in (*seen, *known)]
    if len({part.dtype.kind in "OUS" for part in parts}) > 1:
        shown = ", ".join(repr(part[0]) for part in parts if len(part))
        msg = f"Labels of y, of the decisions and of the model do not compare: {shown}, ..."
        raise ValueError(msg)
    if y is not None:
        _check_labels(y, outputs)
    return np.unique(np.concatenate(parts))


def _check_labels(y: Labels, outputs: Outputs) -> None:
    """Refuse true labels of which the model knows none; warn of labels that only one side has."""
    true = _distinct(y)
    if outputs.classes is not None:
        known = _distinct(outputs.classes)
        unknown = [label for label in true if label not in known]
        if len(unknown) == len(true):
            msg = (
                f"y holds {_shown(true)}, and the model predicts {_shown(known)}: they have no label in "
                f"common, so every decision would count as wrong. Write the labels of y as in training."
            )
            raise ValueError(msg)
        if unknown:
            n = int(np.isin(_tidy(y), unknown).sum())
            warn_user(
                f"y holds labels that the model cannot predict: {_shown(unknown)} ({n:,} of {len(y):,} "
                f"rows). Every decision for these rows counts as wrong. The model predicts "
                f"{_shown(known)}; if a label is only written in another way, write it as in training.",
                DataWarning,
            )


def _distinct(labels: Labels) -> list[Any]:
    out: list[Any] = np.unique(_tidy(np.asarray(labels))).tolist()
    return out


def _shown(labels: list[Any]) -> str:
    return ", ".join([*map(repr, labels[:5]), *(["..."] if len(labels) > 5 else [])])


def _tidy(labels: Labels) -> Labels:
    """Numbers kept as objects, as numbers; booleans stay apart from text."""
    return np.array(labels.tolist()) if labels.dtype.kind == "O" else labels


def _positive(classes: Labels, pos_label: Any) -> tuple[int, ...]:
    """Two classes: the larger label, as in scikit-learn. More: each in turn, unless one is named."""
    if pos_label is not None:
        found = np.flatnonzero(np.broadcast_to(np.asarray(classes == pos_label), classes.shape))
        if len(found) == 0:
            shown = ", ".join(map(repr, classes[:5].tolist()))
            raise ValueError(f"pos_label={pos_label!r} is not among the labels {shown}")
        return (int(found[0]),)
    if len(classes) == 1:
        msg = f"There is one label alone, {classes[0]!r}: pos_label must say which class is the positive one."
        raise ValueError(msg)
    return (1,) if len(classes) == 2 else tuple(range(len(classes)))


def _target(y: Labels, classes: Labels | None, n_bins: int, weight: Array) -> Protected:
    if classes is not None:
        return Protected(
            "y", "categorical", codes_of(y, classes, "y"), tuple(str(c) for c in classes.tolist())
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
    warn_of_doubtful_labels(columns, "control_features")
    warn_of_few_values(columns, _STRATA, "control_features")
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
