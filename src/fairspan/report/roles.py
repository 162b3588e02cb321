"""Which column is what: roles, kinds, and features that give away what they must not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairspan.encoding import column_kinds, table_encoder
from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.columns import check_one_role, is_temporal, require_columns

__all__ = ["Roles", "describe_columns", "find_roles", "give_aways", "warn_of"]

# A column of text with more different values, nearly one a row, is no category.
_TEXT_SHARE = 0.5
# A column of so few values, each on so many rows, does not match the target by chance.
_FEW_LEVELS, _ROWS_PER_LEVEL = 50, 5
_FIRST_ROWS = 1000


@dataclass(frozen=True)
class Roles:
    """Columns of the table by what they are for."""

    target: str
    sensitive: tuple[str, ...]
    control: tuple[str, ...]
    weight: str | None
    features: tuple[str, ...]

    @property
    def needed(self) -> list[str]:
        """Columns that no row can do without."""
        weight = [] if self.weight is None else [self.weight]
        return [self.target, *self.sensitive, *self.control, *weight]

    def of(self, name: str) -> str:
        """Role of a column."""
        if name == self.target:
            return "target"
        if name in self.sensitive:
            return "protected"
        if name in self.control:
            return "control"
        if name == self.weight:
            return "weight"
        return "feature" if name in self.features else "left out"


def _names(given: Any, role: str, known: Sequence[str]) -> tuple[str, ...]:
    if given is None:
        return ()
    names = [given] if isinstance(given, str) else list(given)
    require_columns(names, known, f"{role} names")
    return tuple(dict.fromkeys(names))


def find_roles(
    frame: Any, *, target: str, sensitive_features: Any, control_features: Any, features: Any,
    sample_weight: Any,
) -> tuple[Roles, list[str]]:  # fmt: skip
    """Roles of the columns, and those that no encoder takes: left out unless they are named."""
    known = list(frame.columns)
    found = {
        "target": _names(target, "target", known),
        "sensitive_features": _names(sensitive_features, "sensitive_features", known),
        "control_features": _names(control_features, "control_features", known),
        "sample_weight": _names(sample_weight, "sample_weight", known),
    }
    for role in ("target", "sensitive_features"):
        if not found[role]:
            raise ValueError(f"{role} names no column.")
    check_one_role(found, may_share=("sensitive_features", "control_features"))
    seen = {name: role for role, names in reversed(found.items()) for name in names}
    named = _names(features, "features", known)
    for name in named:
        role = seen.get(name, "control_features")
        if role != "control_features":
            msg = (
                f"features names {name!r}, which is the {_ROLE_WORDS[role]}; a model must not learn from it. "
                f"Leave it out of features."
            )
            raise ValueError(msg)
    refused = []
    if not named:
        others = [name for name in known if name not in seen]
        refused = [name for name in others if not _encodes(frame[[name]])]
        named = tuple(name for name in others if name not in refused)
    if not named:
        raise ValueError("No column is left for the features.")
    weight = found["sample_weight"]
    roles = Roles(
        found["target"][0], found["sensitive_features"], found["control_features"],
        weight[0] if weight else None, named,
    )  # fmt: skip
    return roles, refused


_ROLE_WORDS = {
    "target": "target", "sensitive_features": "protected attribute", "sample_weight": "weight",
}  # fmt: skip


def _encodes(column: Any) -> bool:
    try:
        table_encoder(column)
    except TypeError:
        return False
    return True


# ------------------------------------------------------------------ what was read


def describe_columns(
    frame: Any, roles: Roles, continuous: dict[str, bool], refused: Sequence[str]
) -> list[dict[str, Any]]:
    """Role and kind of every column, what is missing, and what is made of it."""
    out = []
    numbers, _ = column_kinds(frame[list(roles.features)])
    for name in frame.columns:
        column = frame[name]
        levels, kind = _kind(nw.from_native(column, series_only=True), len(frame))
        if name in continuous and kind != "constant":
            kind = "number" if continuous[name] else "yes/no" if levels == 2 else "category"
        role, missing = roles.of(name), int(column.isna().sum())
        out.append(
            {"name": name, "role": role, "kind": kind, "missing": missing, "levels": levels,
             "note": _note(role, kind, missing, name in refused, name in numbers)}
        )  # fmt: skip
    return out


def _kind(column: Any, n: int) -> tuple[int | None, str]:
    if is_temporal(column.dtype):
        return None, "date"
    try:
        levels = int(column.drop_nulls().n_unique())
    except Exception:  # values that do not compare: each frame library has its own class
        return None, "text"
    if levels < 2:
        return levels, "constant"
    if levels == 2:
        return levels, "yes/no"
    if column.dtype.is_numeric():
        return levels, "number"
    return levels, "text" if levels > max(_TEXT_SHARE * n, 20) else "category"


def _note(role: str, kind: str, missing: int, refused: bool, number: bool) -> str:
    if refused:
        return "left out: neither a number nor a category" + (
            " (turn a date into an age, a month or a weekday)" if kind == "date" else ""
        )
    if role != "feature":
        return "rows without it were left out" if missing and role != "left out" else ""
    if kind == "constant":
        if missing:
            return "the same wherever it is known: only its gaps can tell something"
        return "the same everywhere: it tells nothing"
    if number:
        gaps = "; gaps take the median, and an indicator tells of them" if missing else ""
        return f"standardised{gaps}"
    gaps = "; missing is a category" if missing else ""
    if kind == "text":
        return f"nearly every value differs: rare ones are merged{gaps}"
    return f"one column per category, rare ones merged{gaps}"


# ------------------------------------------------------------------ give-aways


def warn_of(found: Iterable[str]) -> list[str]:
    """The same sentences, each warned of."""
    out = list(found)
    for text in out:
        warn_user(text, DataWarning)
    return out


def give_aways(frame: Any, roles: Roles) -> Iterator[str]:
    """Features that are the target or a protected attribute in another coding: a sentence each."""
    names = (*roles.features, roles.target, *roles.sensitive)
    # Most columns differ within a few rows; the others are looked at in full.
    few = {name: _codes(frame[name].iloc[:_FIRST_ROWS]) for name in names}
    for feature in roles.features:
        for other in (roles.target, *roles.sensitive):
            target = other == roles.target
            if not _agree(few[feature], few[other], target=target):
                continue
            how = _same(_codes(frame[feature]), _codes(frame[other]), target=target)
            if how:
                yield (
                    f"The feature {feature!r} gives away the {'target' if target else 'protected attribute'} "
                    f"{other!r}: {how}. Leave it out unless it is known before and meant to be used."
                )


Coded = tuple[NDArray[np.intp], bool]


def _codes(column: Any) -> Coded:
    """Level of each row in sorted order, -1 where missing, and whether the order means anything."""
    numeric = column.dtype.kind in "iufb"
    missing = column.isna().to_numpy()
    values = column.to_numpy() if numeric else column.astype(str).to_numpy(dtype=object)
    out = np.full(len(values), -1, dtype=np.intp)
    out[~missing] = np.unique(values[~missing], return_inverse=True)[1]
    return out, numeric


def _both(feature: Coded, other: Coded) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """Levels of the rows where both are known, and the number of combinations."""
    known = (feature[0] >= 0) & (other[0] >= 0)
    a, b = (np.unique(one[0][known], return_inverse=True)[1] for one in (feature, other))
    pairs = len(np.unique(a.astype(np.int64) * (int(b.max(initial=0)) + 1) + b))
    return a, b, pairs


def _agree(feature: Coded, other: Coded, *, target: bool) -> bool:
    """Whether nothing in these rows speaks against it."""
    a, b, pairs = _both(feature, other)
    n_a, n_b = int(a.max(initial=-1)) + 1, int(b.max(initial=-1)) + 1
    if max(n_a, n_b) > _FEW_LEVELS:
        return feature[1] and other[1] and n_a == n_b and _ordered(a, b, n_a)
    return pairs == (n_a if target else n_b)


def _ordered(a: NDArray[np.intp], b: NDArray[np.intp], n_levels: int) -> bool:
    """The same order, or the reverse."""
    return np.array_equal(a, b) or np.array_equal(a, n_levels - 1 - b)


def _same(feature: Coded, other: Coded, *, target: bool) -> str:
    """How the feature gives the other away, "" if it does not."""
    a, b, pairs = _both(feature, other)
    if 2 * len(a) < len(feature[0]):
        return ""
    n_a, n_b = int(a.max(initial=-1)) + 1, int(b.max(initial=-1)) + 1
    if n_a < 2 or n_b < 2:
        return ""
    if feature[1] and other[1] and n_a == n_b and _ordered(a, b, n_a):
        return "its values are the same up to their scale"
    if max(n_a, n_b) > min(_FEW_LEVELS, len(a) // _ROWS_PER_LEVEL):
        return ""  # nearly a value a row: such columns agree by chance
    if pairs == n_a == n_b:
        return "its values name the same rows"
    if target and pairs == n_a:
        return "each of its values goes with one value of it alone"
    if not target and pairs == n_b:
        return "it follows from it"
    return ""
