"""Rows of a search for alternatives: the incumbent's outputs, its own rows, and the rows held out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairspan.auditing.paired import ModelRows, Ranking, comparable_groups
from fairspan.auditing.reading import Audited
from fairspan.estimators.path_rows import balanced_share
from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.columns import as_frame
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.metrics.groups import combinations
from fairspan.metrics.inputs import Mask

# A feature with at most so many values may be a coarser form of the incumbent's output.
_FEW_VALUES = 50

# ------------------------------------------------------------------ the incumbent


def what_to_compare(
    data: Audited, criterion: str, compare: str, threshold: float | None
) -> tuple[Audited, str]:
    """The rows with the incumbent's decisions, if they are compared, and what is compared."""
    if data.target is None:
        raise ValueError("alternatives needs the true labels y.")
    if data.table is None:
        raise ValueError("alternatives needs X, the columns to learn from.")
    if data.probable:
        name = data.probable[0].name
        raise ValueError(
            f"alternatives compares groups of rows, and {name!r} is given as probabilities of groups."
        )
    if data.classes is None:
        if threshold is not None or compare == "decisions":
            raise ValueError("The target holds numbers, so there are no decisions to compare.")
        if criterion != "statistical_parity":
            raise ValueError(
                f"criterion={criterion!r} compares groups within classes, but the target holds numbers. Use "
                f"criterion='statistical_parity'."
            )
        if data.scores is None or data.scores.shape[1] != 1:
            raise ValueError("alternatives needs one prediction per row of the incumbent.")
        return data, "numbers"
    if len(data.positive) != 1:
        raise ValueError(
            f"The target has {len(data.classes)} classes; name the favourable one with pos_label."
        )
    if len(np.unique(data.target.codes)) < 2:
        raise ValueError("The target is the same in every row: nothing can be learned.")
    if threshold is not None:
        if data.scores is None or data.scores.shape[1] != 1:
            raise ValueError("threshold is for one score per row, and the incumbent has none.")
        if len(data.classes) != 2:
            raise ValueError("threshold is for two classes; give the decisions of more classes.")
        (k,) = data.positive
        above = data.scores[:, 0] >= threshold
        return replace(data, decided=np.where(above, k, 1 - k)), "decisions"
    if compare == "scores" or (compare == "auto" and data.decided is None):
        if data.scores is None or data.scores.shape[1] != 1:
            raise ValueError("compare='scores' needs one score per row of the incumbent.")
        _check_direction(data)
        return data, "scores"
    if data.decided is None:
        raise ValueError(
            "The incumbent has scores and no decisions: give threshold, decisions, or compare='scores'."
        )
    return data, "decisions"


def _check_direction(data: Audited) -> None:
    """Warn if scores are smaller, not larger, for the favourable class."""
    assert data.target is not None
    assert data.scores is not None
    assert data.classes is not None
    (k,) = data.positive
    area = Ranking(data.scores[:, 0], data.target.codes == k).auc(data.weight[:, None])[0]
    if area < 0.5:
        warn_user(
            f"The incumbent's scores are smaller for the favourable class {data.classes[k].item()!r} (AUC "
            f"{area:.2f}). If they are the scores of another class, name that class with pos_label.",
            DataWarning,
        )


def incumbent_rows(data: Audited, compares: str) -> ModelRows:
    """What is compared of the incumbent."""
    if compares == "decisions":
        return ModelRows(decided=data.decided)
    assert data.scores is not None
    return ModelRows(scores=data.scores[:, 0])


def at_rows(model: ModelRows, rows: Codes) -> ModelRows:
    """Select rows of a model's outputs."""
    if model.decided is not None:
        return ModelRows(decided=model.decided[rows])
    assert model.scores is not None
    return ModelRows(scores=model.scores[rows])


def without_outputs(table: Any, data: Audited, compares: str) -> tuple[Any, list[str]]:
    """Take columns that are the incumbent's own outputs out of the features; name doubtful ones."""
    outputs: dict[str, Any] = {}
    if data.decided is not None:
        outputs["decisions"] = data.decided
    if data.scores is not None and data.scores.shape[1] == 1:
        outputs["scores"] = data.scores[:, 0]
    frame = as_frame(table, "X")
    if frame is None:
        array = np.asarray(table.toarray() if hasattr(table, "toarray") else table)
        columns = {f"column {j}": array[:, j] for j in range(array.shape[1])}
    else:
        columns = {name: frame[name].to_numpy() for name in frame.columns}
    same, determine = [], []
    for name, column in columns.items():
        kinds = {_relation(column, values) for values in outputs.values()}
        if "same" in kinds:
            same.append(name)
        elif "determines" in kinds:
            determine.append(name)
    notes = []
    if same:
        if len(same) == len(columns):
            raise ValueError(
                "X holds nothing but the incumbent's output; give columns to learn from."
            )
        shown = ", ".join(map(repr, same))
        notes.append(f"Left out of the features, because they are the incumbent's output: {shown}.")
        if frame is None:
            keep = [j for j, name in enumerate(columns) if name not in same]
            table = table[:, keep] if hasattr(table, "tocsr") else np.asarray(table)[:, keep]
        else:
            table = frame.drop(same).to_native()
    if determine:
        shown = ", ".join(map(repr, determine[:5]))
        text = (
            f"Each value of {shown} goes with one {compares[:-1]} of the incumbent. If such a column is an "
            f"output of the incumbent rather than something known before, leave it out of X."
        )
        notes.append(text)
        warn_user(text, DataWarning)
    return table, notes


def _relation(column: Any, output: Array) -> str:
    """Whether a column is the "same" as the output up to scale or names, or "determines" it; else ""."""
    missing = np.array([v is None or v != v for v in column.tolist()])
    if missing.all() or missing.any():
        return ""
    try:
        values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.asarray(column).astype(str)
    a, b = (np.unique(v, return_inverse=True)[1].ravel() for v in (values, output))
    n_a, n_b = int(a.max()) + 1, int(b.max()) + 1
    if min(n_a, n_b) < 2:
        return ""
    ordered = n_a == n_b and (values.dtype.kind == "f" or n_a == 2)
    if ordered and (np.array_equal(a, b) or np.array_equal(a, n_a - 1 - b)):
        return "same"
    few = n_a <= min(_FEW_VALUES, len(a) // 20)
    if few and len(combinations([a, b])[0]) == n_a:
        return "same" if n_a == n_b else "determines"
    return ""


# ------------------------------------------------------------------ rows


def may_be_fitted(data: Audited) -> Mask:
    """Rows that the incumbent was fitted on, or that its sketch cannot look up if it was fitted on some."""
    none = np.zeros(data.n, dtype=bool)
    if data.fitted is None or data.fitted.share is None:
        return none
    return np.asarray(data.fitted.match | ~data.fitted.known)


def held_out(data: Audited, fitted: Mask, share: float, seed: Any) -> Codes:
    """Rows to compare on: a share of all rows, balanced, from those the incumbent was not fitted on."""
    free = np.flatnonzero(~fitted)
    n_test = min(round(share * data.n), len(free) // 2)
    if n_test < 1:
        return free[:0]
    if data.clusters is not None:
        clusters = data.clusters[free]
        order = seed.permutation(int(data.clusters.max()) + 1)
        size = np.cumsum(np.bincount(clusters, minlength=len(order))[order])
        taken = order[: int(np.searchsorted(size, n_test)) + 1]
        if fitted.any():  # rows of the fit must not share a cluster with rows that are held out
            taken = np.setdiff1d(taken, np.unique(data.clusters[fitted]))
        return free[np.isin(clusters, taken)]
    assert data.target is not None
    strata = [data.target.codes, *(attribute.codes for attribute in data.attributes)]
    order = seed.permutation(len(free))
    return np.asarray(free[balanced_share([s[free] for s in strata], n_test / len(free), order)])


def groups_compared(
    data: Audited, criterion: str, parts: tuple[Codes, Codes], min_rows: int
) -> tuple[dict[str, Mask], list[str]]:
    """Groups that have enough rows in both parts, and a note about the others."""
    masks = [comparable_groups(data.take(rows), criterion, min_rows) for rows in parts]
    out, small = {}, []
    for attribute in data.attributes:
        both = [m[attribute.name] for m in masks if attribute.name in m]
        groups = np.logical_and.reduce(both) if len(both) == len(parts) else np.zeros(1, dtype=bool)
        if groups.sum() >= 2:
            out[attribute.name] = groups
            small += [
                f"{attribute.name} = {label}"
                for label, used in zip(attribute.labels, groups, strict=True)
                if not used and attribute.values is None
            ]
        else:
            small.append(attribute.name)
    if not out:
        raise ValueError(
            f"No protected attribute has two groups of {min_rows} effective rows among the rows to choose on "
            f"and among those held out. Give more rows, or a smaller number in place of min_rows={min_rows}."
        )
    shown = ", ".join(small[:8]) + (", ..." if len(small) > 8 else "")
    return out, [f"Left out of gaps, too few rows: {shown}."] if small else []


def about_rows(data: Audited, fitted: Mask) -> list[str]:
    """What is known about the rows that the incumbent was fitted on."""
    if data.fitted is None:
        return [
            "Which rows the incumbent was fitted on is not known. If some of the held-out rows are among "
            "them, it does worse on new people than here."
        ]
    if not fitted.any():
        return ["None of these rows was recognised as one that the incumbent was fitted on."]
    unknown = int((~data.fitted.known).sum())
    texts = [
        f"{int(data.fitted.match.sum()):,} rows match rows that the incumbent was fitted on, and are only "
        f"trained on. New people with the same values as one of them are left out with them."
    ]
    if unknown:
        texts.append(
            f"The file of the incumbent can look up a sample of the rows: {unknown:,} others are only "
            f"trained on, too."
        )
    return texts
