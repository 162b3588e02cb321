"""Read the input of an audit: rows, labels, protected attributes and strata as clean arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.auditing.model_facts import ModelFacts, model_facts
from fairspan.auditing.outputs import (
    FittedRows,
    Outputs,
    Representation,
    codes_of,
    find_representation,
    fitted_rows,
    last_step,
    looks_like,
    model_outputs,
    plain_outputs,
    prediction_intervals,
    read_numbers,
)
from fairspan.estimators.path import FairnessPath
from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.columns import align_rows, as_frame, named_columns_of, read_attributes
from fairspan.method.codes import (
    Coder,
    infer_kind,
    numbered,
    warn_of_doubtful_labels,
    warn_of_few_values,
)
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes, GroupProbabilities, Kind
from fairspan.metrics.groups import (
    STRATA,
    GroupSums,
    clusters_of,
    combinations,
    renumbered,
    unit_of,
)
from fairspan.metrics.inputs import (
    Labels,
    Mask,
    Rows,
    SensitiveKind,
    check_bins,
    check_decisions,
    is_positive,
    listed_labels,
    read_labels,
    read_rows,
    read_scores,
    unknown_pos_label,
)
from fairspan.streaming.rows import take_rows

# Slices of a number among control features, and in combinations of attributes.
_STRATA = 4


@dataclass(frozen=True)
class Protected:
    """One protected attribute of every audited row; nothing is missing.

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
        """Select rows by index or mask; levels without a row stay in ``labels``."""
        values = None if self.values is None else self.values[rows]
        return replace(self, codes=self.codes[rows], values=values)

    def columns(self) -> Array:
        """The attribute as columns: the number itself, or one indicator per level that occurs."""
        if self.values is not None:
            return self.values[:, None]
        return np.asarray(self.codes[:, None] == np.unique(self.codes), dtype=np.float64)


def cross(parts: Sequence[Protected]) -> Protected:
    """Cross attributes into one: a level is a combination of levels or slices that occurs."""
    levels, codes = combinations([part.codes for part in parts])
    labels = [
        " & ".join(part.labels[code] for part, code in zip(parts, row, strict=True))
        for row in levels
    ]
    name = " x ".join(part.name for part in parts)
    # Equal labels of different combinations, "a & b" & "c" and "a" & "b & c", get numbers.
    return Protected(name, "categorical", codes.astype(np.intp), numbered(labels))


@dataclass(frozen=True, kw_only=True)
class Audited:
    """Clean rows of one length; parts that were not given are None."""

    name: str
    weight: Array
    attributes: tuple[Protected, ...]  # the protected attributes, one by one
    crossed: Protected | None  # all of them as one, if there are several and this was requested
    strata: Protected | None  # strata of the control features
    target: Protected | None  # y as groups: classes, or slices of a number (then with ``values``)
    # Labels of a classification, in the order of the codes of ``target`` and ``decided``.
    classes: Labels | None
    positive: tuple[int, ...]  # codes of the classes whose decisions are compared
    scores: Array | None  # (n, k) real-valued outputs, larger towards the positive class
    decided: Codes | None  # (n,) predicted class
    probability: Array | None  # (n,) probability of the positive class
    features: Array | None  # (n, p) features of the model as numbers, without protected columns
    # Coordinates that the functions of the model are linear in.
    representation: Representation | None
    # Rows that the model was fitted on; None if unknown.
    fitted: FittedRows | None = None
    table: Any = None  # rows of X as given, without protected columns; None without X
    facts: ModelFacts | None = None  # of the model; None for scores and decisions
    # (n,) rows that belong together, numbered by their first row; None if rows are independent.
    clusters: Codes | None = None
    # (n,) 1 where the model's 90 % interval contains y, 0 elsewhere; None without intervals.
    covered: Array | None = None
    n_without_sensitive: int = 0  # rows left out because they lack a protected attribute
    # Attributes whose groups are known as probabilities.
    probable: tuple[GroupProbabilities, ...] = ()
    # Number of rows that these are copies of, for each group that a row may be in (see
    # `fairspan.auditing.probable`); None for rows as given.
    copied_rows: int | None = None
    clustered: bool = True  # the clusters are the user's, not copies of a row
    negated: bool = (
        False  # whether ``scores`` are the model's output, or the given scores, times -1
    )
    score_text: str = "the score"  # which output ``scores`` are, before a change of sign

    @property
    def fitted_share(self) -> float | None:
        """Share of the rows that the model was fitted on; None if no such row was recognised."""
        return None if self.fitted is None else self.fitted.share

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.weight)

    @property
    def unit(self) -> str:
        """What is drawn independently of each other: "rows" or "clusters"."""
        return unit_of(self.clusters if self.clustered else None)

    @property
    def groupings(self) -> tuple[Protected, ...]:
        """The attributes, and all of them as one."""
        return self.attributes if self.crossed is None else (*self.attributes, self.crossed)

    def take(self, rows: Any) -> Audited:
        """Select rows by an index: outputs, target, groups, weights and clusters; the rest is dropped."""
        return Audited(
            name=self.name,
            weight=self.weight[rows],
            attributes=tuple(attribute.take(rows) for attribute in self.attributes),
            crossed=None if self.crossed is None else self.crossed.take(rows),
            strata=None if self.strata is None else self.strata.take(rows),
            target=None if self.target is None else self.target.take(rows),
            classes=self.classes,
            positive=self.positive,
            scores=None if self.scores is None else self.scores[rows],
            decided=None if self.decided is None else self.decided[rows],
            probability=None if self.probability is None else self.probability[rows],
            features=None,
            representation=None,
            clusters=renumbered(self.clusters, rows),
            negated=self.negated,
            score_text=self.score_text,
        )

    def in_strata(self, sums: GroupSums) -> Iterator[tuple[str, GroupSums]]:
        """Sums of all rows, then of the rows of each stratum, with its name ("" for all rows)."""
        yield "", sums
        if self.strata is not None:
            for code, label in enumerate(self.strata.labels):
                yield label, sums.where(sums.factors[STRATA] == code)


def read_audit(
    given: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    control_features: Any,
    sample_weight: Any,
    pos_label: Any,
    sensitive_kind: SensitiveKind,
    decisions: Any = None,
    representation: Any = None,
    n_bins: int = 10,
    intersectional: bool = True,
    with_features: bool = False,
    groups: Any = None,
    with_intervals: bool = False,
    omit_missing: bool = False,
) -> Audited:
    """Read and check the arguments of :func:`fairspan.audit`; rows of weight zero are dropped.

    ``with_features``: read X as numbers, for attackers and the kernel check. ``with_intervals``: predict
    the model's intervals, for their coverage. ``omit_missing``: leave out rows that lack a protected
    attribute.
    """
    _check_arguments(given, X, sensitive_features)
    check_bins(n_bins)
    frame = None if X is None else as_frame(X, "X")
    named: list[str] = []  # columns of X that hold protected attributes or control features
    sensitive_features = _columns_of(frame, sensitive_features, "sensitive_features", named)
    control_features = _columns_of(frame, control_features, "control_features", named)
    groups = _columns_of(frame, groups, "groups", named)
    model = given if _is_model(given) else None
    if pos_label is None:  # the class that the model was fitted to favour
        pos_label = getattr(last_step(model), "pos_label", None)
    aligned = align_rows(
        X=X,
        scores=given if model is None else None,
        y=y,
        decisions=decisions,
        representation=representation,
        sensitive_features=sensitive_features,
        control_features=control_features,
        sample_weight=sample_weight,
        groups=groups,
    )
    model_X = None if model is None else _model_rows(model, X, frame, named)
    outputs = plain_outputs(aligned["scores"]) if model is None else model_outputs(model, model_X)
    space = find_representation(model, model_X, aligned["representation"])
    if aligned["decisions"] is not None:
        outputs = replace(outputs, decisions=read_labels(aligned["decisions"], "decisions"))
    labels = None if aligned["y"] is None else read_labels(aligned["y"], "y")
    sizes, clusters = _sizes(outputs, labels, X, space), None
    if aligned["groups"] is not None:
        clusters = read_labels(aligned["groups"], "groups")
        sizes["groups"] = len(clusters)
    rows = read_rows(
        aligned["sensitive_features"],
        sensitive_kind,
        aligned["sample_weight"],
        sizes,
        getattr(last_step(model), "sensitive_kinds_", {}),
        omit_missing=omit_missing,
    )
    lacks = np.any([attribute.missing for attribute in rows.attributes.values()], axis=0)
    keep = rows.weight > 0.0
    rows = _without_constant(rows.take(keep))
    labels = None if labels is None else labels[keep]
    outputs = _recognise_labels(outputs.take(keep), labels)
    if outputs.decisions is not None and outputs.classes is None:  # a model has all its classes
        check_decisions(outputs.decisions, labels, "decisions", "y")
    classes = _classes(model, outputs, labels)
    if classes is not None and len(classes) == 1 and pos_label is not None:
        classes = np.unique(np.append(classes, pos_label))  # no row is selected, or every row
    positive = () if classes is None else _positive(classes, pos_label)
    attributes = _attributes(rows, n_bins)
    _warn_of_probabilities(rows)
    decided = None
    if outputs.decisions is not None and classes is not None:
        decided = codes_of(outputs.decisions, classes, "decisions")
    target = None if labels is None else _target(labels, classes, n_bins, rows.weight)
    features = None
    # The representation of a linear model may be the features themselves: they are compared.
    is_input = space is not None and not space.is_model_space and not space.is_given
    protected = [*named, *(attribute.name for attribute in attributes)]
    if (with_features or is_input) and X is not None:
        features = read_numbers(X, frame, protected)[keep]
    return Audited(
        name=outputs.name,
        weight=rows.weight,
        attributes=attributes,
        crossed=_crossed(rows, n_bins) if intersectional and len(attributes) > 1 else None,
        probable=tuple(rows.probable),
        strata=_strata(aligned["control_features"], keep, rows.weight),
        target=target,
        classes=classes,
        positive=positive,
        scores=outputs.oriented(classes, positive),
        decided=decided,
        probability=outputs.probability(classes, positive),
        features=features,
        representation=None if space is None else space.take(keep),
        fitted=None if model is None else fitted_rows(model, model_X, keep),
        facts=model_facts(model),
        table=None if X is None else _table(X, frame, protected, keep),
        clusters=None if clusters is None else _clusters(clusters[keep]),
        covered=_covered(model, model_X, target, aligned["sensitive_features"], keep)
        if with_intervals and model is not None
        else None,
        n_without_sensitive=int(lacks.sum()),
        negated=outputs.negated(classes, positive),
        score_text=outputs.score_text(classes, positive),
    )


# ------------------------------------------------------------------ the model and X


def _table(X: Any, frame: Any, protected: Sequence[str], keep: Mask) -> Any:
    """Some rows of X as given, without protected columns."""
    if frame is not None:
        X = frame.drop([name for name in protected if name in frame.columns]).to_native()
    if keep.all():
        return X
    rows = np.flatnonzero(keep)
    return X[rows] if hasattr(X, "tocsr") else take_rows(X, rows)


def _is_model(given: Any) -> bool:
    """Whether it is a model, with ``predict`` or ``transform``, rather than scores."""
    if hasattr(given, "__array__") or hasattr(given, "__len__"):  # a pandas Series has transform
        return hasattr(given, "fit")  # a pipeline has a length
    return any(callable(getattr(given, name, None)) for name in ("predict", "transform"))


def _check_arguments(given: Any, X: Any, sensitive_features: Any) -> None:
    """Raise if there is no protected attribute or no model or scores that can be audited."""
    if sensitive_features is None:
        raise ValueError(
            "audit needs the protected attributes: audit(model, X, y, sensitive_features=s), an array, "
            "a frame, or column names of X."
        )
    if isinstance(given, FairnessPath):
        msg = "A path holds many models; audit one of them: audit(path.select(...), X, y, ...)."
        raise ValueError(msg)
    if isinstance(given, type):
        name = given.__name__
        raise ValueError(f"{name} is a class; give a fitted model, {name}(...).fit(...).")
    if _is_model(given) and X is None:
        raise ValueError(f"audit of a {type(given).__name__} needs X, the rows to audit it on.")


def _columns_of(frame: Any, given: Any, role: str, named: list[str]) -> Any:
    """Replace column names by the columns of X, and add the names to ``named``."""
    names = None if given is None else named_columns_of(frame, given, role)
    if names is None:
        return given
    named += names
    return frame.select(names).to_native()


def _model_rows(model: Any, X: Any, frame: Any, named: list[str]) -> Any:
    """X with the columns that the model was fitted on: protected columns are dropped otherwise."""
    known = getattr(model, "feature_names_in_", None)
    if frame is None or not named or known is None:
        return X
    extra = [name for name in named if name not in set(known)]
    return frame.drop(extra).to_native() if extra else X


def _sizes(
    outputs: Outputs, labels: Labels | None, X: Any, space: Representation | None
) -> dict[str, int]:
    """Number of rows of every argument that was given."""
    arrays = {"scores": outputs.scores, "decisions": outputs.decisions, "y": labels, "X": X}
    arrays["representation"] = None if space is None else space.Z

    def n_rows(array: Any) -> int:
        return int(array.shape[0]) if hasattr(array, "shape") else len(array)  # X may be sparse

    return {name: n_rows(array) for name, array in arrays.items() if array is not None}


def _clusters(labels: Labels) -> Codes:
    """Number the clusters; raise if there is only one."""
    clusters = clusters_of(labels.tolist())
    if clusters.max() == 0:
        raise ValueError(
            f"groups is {labels[0]!r} in every row: one cluster has no sampling error to estimate. Give "
            f"the label of each cluster of rows that belong together, or leave groups out."
        )
    return clusters


def _covered(
    model: Any, X: Any, target: Protected | None, sensitive_features: Any, keep: Any
) -> Array | None:
    """Whether y is in the model's interval, for a regressor that predicts intervals."""
    if target is None or target.values is None:
        return None
    limits = prediction_intervals(model, X, sensitive_features)
    if limits is None:
        return None
    low, high = limits[keep].T
    return np.asarray((low <= target.values) & (target.values <= high), dtype=np.float64)


# ------------------------------------------------------------------ labels


def _recognise_labels(outputs: Outputs, y: Labels | None) -> Outputs:
    """Read scores that are labels of y as decisions, and two columns of sum 1 as probabilities."""
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
    given = [part for part in (y, outputs.decisions) if part is not None]
    if not given:
        return None
    if outputs.classes is None and y is not None:
        column = read_attributes({"y": y}, len(y), "y", "y")["y"]
        if infer_kind(column) == "continuous":
            if outputs.decisions is None:
                return None
            raise ValueError(
                f"y holds numbers ({len(np.unique(y))} of them), and the decisions are labels: give the "
                f"true labels as y, or leave the decisions out."
            )
    known = [] if outputs.classes is None else [np.asarray(outputs.classes)]
    parts = [_unboxed(part) for part in (*given, *known)]
    if len({part.dtype.kind in "OUS" for part in parts}) > 1:
        shown = ", ".join(repr(part[0]) for part in parts if len(part))
        msg = f"Labels of y, of the decisions and of the model do not compare: {shown}, ..."
        raise ValueError(msg)
    if y is not None and outputs.classes is not None:
        _check_labels(y, outputs.classes)
    return np.unique(np.concatenate(parts))


def _check_labels(y: Labels, classes: Labels) -> None:
    """Raise if the model predicts none of the true labels; warn if it lacks some of them."""
    true, known = (np.unique(_unboxed(np.asarray(part))) for part in (y, classes))
    unknown = np.setdiff1d(true, known)
    if len(unknown) == len(true):
        raise ValueError(
            f"y holds {listed_labels(true)}, and the model predicts {listed_labels(known)}: they have no "
            f"label in common, so every decision would count as wrong. Write the labels of y as in training."
        )
    if len(unknown):
        n = int(np.isin(_unboxed(y), unknown).sum())
        warn_user(
            f"y holds labels that the model cannot predict: {listed_labels(unknown)} ({n:,} of {len(y):,} "
            f"rows). Every decision for these rows counts as wrong. The model predicts "
            f"{listed_labels(known)}; if a label is only written in another way, write it as in training.",
            DataWarning,
        )


def _unboxed(labels: Labels) -> Labels:
    """Convert objects that are numbers to numbers; booleans stay different from text."""
    return np.array(labels.tolist()) if labels.dtype.kind == "O" else labels


def _positive(classes: Labels, pos_label: Any) -> tuple[int, ...]:
    """The larger of two classes, as in scikit-learn; all of more, unless ``pos_label`` names one."""
    if pos_label is not None:
        index = np.flatnonzero(is_positive(classes, pos_label))
        if len(index) == 0:
            raise unknown_pos_label(pos_label, classes)
        return (int(index[0]),)
    if len(classes) == 1:
        msg = f"There is only one label, {listed_labels(classes)}: pos_label must name the positive class."
        raise ValueError(msg)
    return (1,) if len(classes) == 2 else tuple(range(len(classes)))


# ------------------------------------------------------------------ groups


def _without_constant(rows: Rows) -> Rows:
    """Drop attributes that are constant in these rows, with a warning: no groups to compare."""
    constant = [name for name, a in rows.attributes.items() if len(np.unique(a.values)) < 2]
    if len(constant) == len(rows.attributes):
        raise ValueError(f"sensitive feature {constant[0]!r} is constant: no groups to compare")
    if constant:
        warn_user(f"Left out, the same in every row: {', '.join(constant)}.", DataWarning)
        rest = {name: a for name, a in rows.attributes.items() if name not in constant}
        return replace(rows, attributes=rest)
    return rows


def _warn_of_probabilities(rows: Rows) -> None:
    """State what is assumed of attributes with probabilities, and what is not audited."""
    tables = {a.name: a.values.astype(np.float64) for a in rows.probable}
    given = [name for name, p in tables.items() if ((p > 0.0) & (p < 1.0)).any()]
    if given:
        warn_user(
            f"Groups are known as probabilities: {', '.join(given)}. Findings about them hold if the "
            f"probabilities are calibrated and the scores depend on them only through the group (given y, "
            f"both within the rows of each y). Tests, attacks, proxies, the certificate and calibration by "
            f"group need the group of each row, so they are not made for these attributes.",
            DataWarning,
            key=f"probabilities of {given}",
        )


def _attributes(rows: Rows, n_bins: int) -> tuple[Protected, ...]:
    def numbers(name: str) -> Array | None:
        continuous = rows.kinds[name] == "continuous"
        return rows.attributes[name].values.astype(np.float64) if continuous else None

    return tuple(
        Protected(name, rows.kinds[name], codes, labels, numbers(name))
        for name, codes, labels in rows.groups(n_bins, known_only=True)
    )


def _crossed(rows: Rows, n_bins: int) -> Protected:
    """Combinations of the attributes; numbers in few slices, as there are many combinations."""
    groups = rows.groups(min(n_bins, _STRATA), known_only=True)
    return cross([Protected(name, "categorical", codes, labels) for name, codes, labels in groups])


def _target(y: Labels, classes: Labels | None, n_bins: int, weight: Array) -> Protected:
    """Y as classes, or as slices of a number."""
    if classes is not None:
        labels = tuple(str(c) for c in classes.tolist())
        return Protected("y", "categorical", codes_of(y, classes, "y"), labels)
    values = read_scores(y, "y")[:, 0]
    column = read_attributes({"y": values}, len(values), "y", "y")
    coder = Coder.learn(column["y"], "continuous", n_bins, weight)
    return Protected("y", "continuous", coder.codes(column), coder.labels, values)


def _strata(given: Any, keep: Any, weight: Array) -> Protected | None:
    """Combinations of the control features; numbers in few slices."""
    if given is None:
        return None
    columns = read_attributes(given, len(keep), "control_features", "control_feature")
    warn_of_doubtful_labels(columns, "control_features")
    warn_of_few_values(columns, _STRATA, "control_features")
    parts = []
    for name, column in columns.items():
        if column.missing.any():
            raise ValueError(
                f"control_features {name!r} is missing in {int(column.missing.sum())} rows; every row "
                f"needs a stratum. Give those rows a category of their own."
            )
        column = column.take(keep)
        coder = Coder.learn(column, infer_kind(column), _STRATA, weight)
        sign = " " if coder.kind == "continuous" else " = "
        labels = tuple(f"{name}{sign}{label}" for label in coder.labels)
        parts.append(Protected(name, coder.kind, coder.codes({name: column}), labels))
    return cross(parts)
