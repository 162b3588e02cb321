"""Read a batch: favourable decisions, scores in [0, 1], groups, and ids of people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.inputs.columns import align_rows, read_attributes
from fairspan.method.codes import warn_of_doubtful_labels
from fairspan.metrics.inputs import (
    check_decisions,
    is_positive,
    listed_labels,
    read_labels,
    read_scores,
)

_DECIMALS = (
    "sensitive feature {name!r} holds numbers with decimals, such as {value:g}. A monitor compares "
    "groups: cut the numbers into slices first, e.g. with pandas.cut."
)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows of a batch, checked.

    Attributes
    ----------
    favourable : whether each decision is the favourable one; all False without decisions.
    scores : in [0, 1]; all 0 without scores.
    attributes : names of the protected attributes; empty if they come later.
    labels : groups of each row; None where one is missing.
    ids : of the people; None if not given.
    """

    favourable: list[bool]
    scores: list[float]
    attributes: tuple[str, ...]
    labels: list[tuple[str, ...] | None]
    ids: list[str] | None


def read_batch(
    scores: Any,
    decisions: Any,
    sensitive_features: Any,
    ids: Any,
    *,
    pos_label: Any,
    score_range: tuple[float, float],
) -> Batch:
    """Read the arguments of an update; nothing is changed if one of them is refused."""
    given = align_rows(
        decisions=decisions, scores=scores, sensitive_features=sensitive_features, ids=ids
    )
    columns: dict[str, Any] = {}
    if decisions is not None:
        columns["decisions"] = _read_decisions(given["decisions"], pos_label)
    if scores is not None:
        columns["scores"] = _read_scores(given["scores"], score_range)
    if not columns:
        raise ValueError("Give decisions=, scores= or both.")
    sizes = {name: len(values) for name, values in columns.items()}
    n = next(iter(sizes.values()))
    named: list[str] | None = None
    if ids is not None:
        named = read_ids(given["ids"])
        sizes["ids"] = len(named)
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise ValueError(f"numbers of rows differ: {shown}")
    attributes: tuple[str, ...] = ()
    labels: list[tuple[str, ...] | None] = [None] * n
    if sensitive_features is not None:
        attributes, labels = read_groups(given["sensitive_features"], n)
    return Batch(
        favourable=columns.get("decisions", [False] * n),
        scores=columns.get("scores", [0.0] * n),
        attributes=attributes,
        labels=labels,
        ids=named,
    )


def _read_decisions(decisions: Any, pos_label: Any) -> list[bool]:
    labels = read_labels(decisions, "decisions")
    seen = np.unique(labels)
    if not len(seen):
        raise ValueError("decisions has no rows; give at least one.")
    if pos_label is not None:
        check_decisions(labels, None, "decisions", "decisions")
    if pos_label is None:
        if not np.isin(seen, [0, 1]).all():
            raise ValueError(
                f"decisions holds {listed_labels(seen)}; give 1 for the favourable decision and 0 for the "
                f"other one, or name the favourable label with pos_label= of the monitor."
            )
        pos_label = 1
    elif isinstance(seen[0], str) != isinstance(pos_label, str):
        raise ValueError(
            f"decisions holds {listed_labels(seen)}, which never equals pos_label={pos_label!r}. Give both "
            f"as text, or both as numbers."
        )
    elif len(seen) > 2 or (len(seen) == 2 and not is_positive(seen, pos_label).any()):
        raise ValueError(
            f"decisions holds {listed_labels(seen)}; give two labels, one of them pos_label={pos_label!r}."
        )
    return [bool(value) for value in is_positive(labels, pos_label)]


def _read_scores(scores: Any, score_range: tuple[float, float]) -> list[float]:
    columns = read_scores(scores)
    if columns.shape[1] != 1:
        raise ValueError(f"scores has {columns.shape[1]} columns; give one of them.")
    low, high = score_range
    outside = (columns < low) | (columns > high)
    if outside.any():
        raise ValueError(
            f"scores has {columns[outside][0]:g}, outside of {low:g} to {high:g}. Bets need a range that is "
            f"stated before: give score_range=(smallest, largest) to the monitor."
        )
    return [float(score) for score in np.clip((columns[:, 0] - low) / (high - low), 0.0, 1.0)]


def read_groups(raw: Any, n: int) -> tuple[tuple[str, ...], list[tuple[str, ...] | None]]:
    """Names of the attributes, and the groups of each row as text; None where one is missing."""
    attributes = read_attributes(raw, n, "sensitive_features", "sensitive_feature")
    warn_of_doubtful_labels(attributes, "sensitive_features")
    missing = np.zeros(n, dtype=bool)
    columns: list[list[str]] = []
    for name, attribute in attributes.items():
        missing |= attribute.missing
        if attribute.values.dtype.kind == "f":
            columns.append(_whole_numbers(name, attribute.values[:].astype(np.float64)))
        else:
            columns.append([str(label) for label in attribute.values])
    labels = [
        None if lacks else row
        for row, lacks in zip(zip(*columns, strict=True), missing, strict=True)
    ]
    return tuple(attributes), labels


def _whole_numbers(name: str, values: Any) -> list[str]:
    decimals = values[values % 1.0 != 0.0]
    if len(decimals):
        raise ValueError(_DECIMALS.format(name=name, value=float(decimals[0])))
    return [str(int(value)) for value in values]


def read_ids(raw: Any) -> list[str]:
    """Ids as text; each occurs once. The number 7 and the text "7" are one id."""
    values = read_labels(raw, "ids")
    if values.dtype.kind == "f" and (values % 1.0 != 0.0).any():
        raise ValueError("ids holds numbers with decimals; give whole numbers or text.")
    ids = [str(int(v)) if isinstance(v, float | int) else str(v) for v in values.tolist()]
    refuse_twice(ids)
    return ids


def refuse_twice(ids: Sequence[str]) -> None:
    """Raise if an id occurs twice."""
    if len(set(ids)) < len(ids):
        twice = next(key for key, count in Counter(ids).items() if count > 1)
        raise ValueError(f"ids holds {twice!r} twice; each person has one id, and comes once.")
