"""Read and check the input of metrics: scores, labels, weights and protected attributes."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.columns import align_rows, as_array, read_attributes, refuse_dates, unmasked
from fairspan.inputs.probabilities import gather_probabilities
from fairspan.method.codes import (
    Coder,
    CrossedCoder,
    infer_kinds,
    kinds_by_name,
    warn_of_doubtful_labels,
)
from fairspan.method.linalg import Array
from fairspan.method.problem import Attribute, Codes, GroupProbabilities, Kind
from fairspan.metrics.probabilities import NEEDS_GROUPS

Labels: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[np.bool_]
SensitiveKind: TypeAlias = str | Sequence[str] | Mapping[str, str]


@dataclass(frozen=True)
class Rows:
    """Protected attributes and weights of the rows of a metric."""

    attributes: dict[str, Attribute]
    kinds: dict[str, Kind]
    weight: Array

    def take(self, mask: Mask) -> Rows:
        """Select rows by a mask; the kinds stay those of all rows."""
        some = {name: attribute.take(mask) for name, attribute in self.attributes.items()}
        return Rows(some, self.kinds, self.weight[mask])

    @property
    def probable(self) -> list[GroupProbabilities]:
        """Attributes that are given as probabilities."""
        return [a for a in self.attributes.values() if isinstance(a, GroupProbabilities)]

    def groups(
        self, n_bins: int, intersectional: bool = False, *, known_only: bool = False
    ) -> Iterator[tuple[str, Codes, tuple[str, ...]]]:
        """Name, group of each row and group names of each attribute; continuous ones are sliced.

        Attributes with probabilities are refused, or left out with ``known_only``.
        """
        check_bins(n_bins)
        if self.probable and (intersectional or not known_only):
            what = "intersectional=True" if intersectional else "this"
            raise ValueError(NEEDS_GROUPS.format(what=what, name=self.probable[0].name))
        parts: list[Coder] = []
        for name, attribute in self.attributes.items():
            if isinstance(attribute, GroupProbabilities):
                continue
            coder = Coder.learn(attribute, self.kinds[name], n_bins, self.weight)
            if coder.n_levels < 2:
                raise ValueError(f"sensitive feature {name!r} is constant: no groups to compare")
            parts.append(coder)
        crossed = [CrossedCoder.learn(parts, self.attributes)] if intersectional else []
        for used in crossed or parts:
            yield used.name, used.codes(self.attributes), used.labels


def check_bins(n_bins: Any) -> None:
    """Raise unless ``n_bins`` is a whole number of at least 2."""
    whole = isinstance(n_bins, numbers.Integral) and not isinstance(n_bins, bool)
    if not whole or n_bins < 2:
        raise ValueError(f"n_bins must be at least 2, a whole number; got {n_bins!r}")


def read_labels(data: Any, argument: str) -> Labels:
    """Read one column of labels or target values; nothing may be missing."""
    try:
        labels = as_array(data)
    except ValueError:
        raise ValueError(
            f"{argument} holds sequences of several lengths; give one value per row"
        ) from None
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"{argument} must be one column, got shape {labels.shape}")
    (column,) = read_attributes({argument: labels}, len(labels), argument, argument).values()
    if column.missing.any():
        raise ValueError(f"{argument} is missing (NaN or None) in {column.missing.sum()} rows")
    return labels


def read_scores(data: Any, argument: str = "scores") -> Array:
    """Read real-valued scores, (n, n_outputs)."""
    try:
        scores = np.asarray(unmasked(data))
    except ValueError:
        raise ValueError(
            f"{argument} has rows of several lengths; give one number per output"
        ) from None
    refuse_dates(scores, argument)
    if scores.dtype.kind == "c":
        raise ValueError(f"{argument} must be real numbers, got complex ones")
    if scores.ndim not in (1, 2) or scores.size == 0:
        raise ValueError(f"{argument} must be 1D or 2D and not empty, got shape {scores.shape}")
    try:
        scores = scores.reshape(len(scores), -1).astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{argument} must be numbers, got {scores.flat[0]!r}") from None
    if not np.isfinite(scores).all():
        raise ValueError(f"{argument} has NaN or infinite values")
    return scores


def _resolve_kinds(
    attributes: dict[str, Attribute], given: SensitiveKind, fitted: Mapping[str, Kind]
) -> dict[str, Kind]:
    wanted = kinds_by_name(given, list(attributes))
    for name, attribute in attributes.items():
        if isinstance(attribute, GroupProbabilities):
            wanted[name] = "probabilities"
            continue
        numeric = attribute.values.dtype.kind == "f"
        if wanted[name] == "auto" and numeric:
            wanted[name] = fitted.get(name, "auto")
        if wanted[name] == "continuous" and not numeric:
            raise ValueError(f"sensitive feature {name!r} holds text: it cannot be continuous")
    guessed = infer_kinds({name: a for name, a in attributes.items() if wanted[name] == "auto"})
    chosen: dict[str, Any] = {name: guessed.get(name, wanted[name]) for name in attributes}
    return chosen


def _with_fitted(
    given: SensitiveKind, columns: list[str], fitted: Mapping[str, Kind]
) -> SensitiveKind:
    """Kinds with those attributes that a model was fitted on as probabilities, if their columns are here."""
    known = [
        name
        for name, kind in fitted.items()
        if kind == "probabilities" and any(c.startswith(f"{name}_") for c in columns)
    ]
    if not known or (given != "auto" and not isinstance(given, Mapping)):
        return given
    others = dict(given) if isinstance(given, Mapping) else {}
    return {**dict.fromkeys(known, "probabilities"), **others}


def _read_weight(sample_weight: Any, n: int) -> Array:
    if sample_weight is None:
        return np.ones(n)
    columns = read_scores(sample_weight, "sample_weight")
    if columns.shape[1] != 1:
        raise ValueError(f"sample_weight must be one column, got {columns.shape[1]}")
    weight = columns[:, 0]
    if (weight < 0).any():
        raise ValueError(f"sample_weight is negative in {(weight < 0).sum()} rows")
    if not (weight > 0).any():
        raise ValueError("sample_weight is zero in every row")
    return weight


def read_rows(
    sensitive_features: Any,
    sensitive_kind: SensitiveKind,
    sample_weight: Any,
    sizes: dict[str, int],
    fitted: Mapping[str, Kind] = MappingProxyType({}),
    *,
    omit_missing: bool = False,
) -> Rows:
    """Read and check protected attributes and weights.

    Rows of weight zero may lack an attribute; with ``omit_missing``, rows that lack one get the weight zero.

    ``sizes`` are the numbers of rows of the other arguments. ``fitted`` are the kinds of numeric
    attributes of a fitted model: they replace the guess "auto", which may differ on fewer rows.
    """
    n = next(iter(sizes.values()))
    weight = _read_weight(sample_weight, n)
    if sample_weight is not None:
        sizes = {**sizes, "sample_weight": len(weight)}
    if hasattr(sensitive_features, "__len__") and not isinstance(sensitive_features, Mapping):
        sizes = {**sizes, "sensitive_features": len(sensitive_features)}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{argument} has {size}" for argument, size in sizes.items())
        raise ValueError(f"numbers of rows differ: {shown}")
    attributes = read_attributes(sensitive_features, n, "sensitive_features", "sensitive_feature")
    sensitive_kind = _with_fitted(sensitive_kind, list(attributes), fitted)
    attributes = gather_probabilities(attributes, sensitive_kind)
    if omit_missing:
        lacks = [attribute.missing for attribute in attributes.values()]
        weight = np.where(np.any(lacks, axis=0), 0.0, weight)
        if not (weight > 0).any():
            raise ValueError("no row has all sensitive features and a weight above zero")
    for name, attribute in attributes.items():
        if count := int((attribute.missing & (weight > 0)).sum()):
            raise ValueError(
                f"sensitive feature {name!r} is missing (NaN or None) in {count} rows; drop these rows, or "
                f"give them the sample_weight 0, to measure the others"
            )
    used = {name: attribute.take(weight > 0) for name, attribute in attributes.items()}
    warn_of_doubtful_labels(used, "sensitive_features")
    return Rows(attributes, _resolve_kinds(used, sensitive_kind, fitted), weight)


def read(
    sensitive_features: Any, sensitive_kind: SensitiveKind, sample_weight: Any, **columns: Any
) -> tuple[Rows, list[Labels]]:
    """Read rows of one length and drop those of weight zero (METHOD 0).

    ``columns`` are ``scores`` or labels by name. The last one is the prediction of the model: the
    other columns are put into the order of its rows.
    """
    predicted = list(columns)[-1]
    others = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
    given = align_rows(**{predicted: columns[predicted], **columns, **others})
    arrays = {
        name: read_scores(given[name]) if name == "scores" else read_labels(given[name], name)
        for name in columns
    }
    sizes = {argument: len(array) for argument, array in arrays.items()}
    rows = read_rows(given["sensitive_features"], sensitive_kind, given["sample_weight"], sizes)
    keep = rows.weight > 0
    return rows.take(keep), [array[keep] for array in arrays.values()]


def check_decisions(decisions: Labels, labels: Labels | None, argument: str, true: str) -> None:
    """Check that decisions are labels, and comparable with the true labels if there are any.

    ``argument`` and ``true`` name the two arguments in messages. Decisions that never equal a label, such
    as scores or labels of another type, would select no row and so hide every gap between groups.
    """
    if not len(decisions):
        return
    seen = np.unique(decisions)
    known = np.unique(labels) if labels is not None else seen[:0]
    if len(known) and isinstance(seen[0], str) != isinstance(known[0], str):
        raise ValueError(
            f"{argument} and {true} hold labels of different types, e.g. {seen.tolist()[0]!r} and "
            f"{known.tolist()[0]!r}, which never are equal. Give both as text, or both as numbers"
        )
    unseen = np.setdiff1d(seen, known)
    if isinstance(seen[0], str) or not len(unseen):
        decimals = unseen[:0]
    else:
        decimals = unseen[unseen.astype(np.float64) % 1.0 != 0.0]
    if len(decimals):
        raise ValueError(
            f"{argument} holds numbers with decimals, e.g. {decimals.tolist()[0]!r:.8}: scores, not "
            f"decisions. Give labels, e.g. scores >= 0.5, or use a metric of scores"
        )
    if len(unseen) and len(known) == 2:
        warn_user(
            f"{argument} has labels that {true} does not have: {listed_labels(unseen)} (labels of "
            f"{true}: {listed_labels(known)}). If they are the same classes under other names, make them "
            f"equal first.",
            DataWarning,
        )


def listed_labels(labels: Labels) -> str:
    """The first five labels, separated by commas."""
    shown = ", ".join(map(repr, labels[:5].tolist()))
    return shown + (", ..." if len(labels) > 5 else "")


def choose_positive(pos_label: Any, *columns: Labels) -> Any:
    """Return the favourable label: the one given, or 1 if that is the larger label.

    Of the labels 1 and 2 the models favour 2, as scikit-learn does, so 1 must be given explicitly.
    """
    if pos_label is not None:
        return pos_label
    labels = np.unique(np.concatenate(columns))
    if is_positive(labels, 1).any() and labels[-1] > 1:
        raise ValueError(
            f"pos_label must name the favourable label, because 1 is not the larger of two labels here. "
            f"Labels: {listed_labels(labels)}"
        )
    return 1


def is_positive(labels: Labels, pos_label: Any) -> Mask:
    """Mask of the positive class; numpy returns a single False for types that do not compare."""
    return np.broadcast_to(np.asarray(labels == pos_label, dtype=bool), labels.shape)


def unknown_pos_label(pos_label: Any, labels: Labels, hint: str = "") -> ValueError:
    """Error for a positive class that does not occur."""
    seen = np.array(list(dict.fromkeys(labels.tolist())), dtype=object)
    return ValueError(
        f"pos_label={pos_label!r} is not among the labels {listed_labels(seen)}{hint}"
    )
