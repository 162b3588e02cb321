"""The table of a report: complete and held-out rows, roles of the columns, features that give others away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairspan.encoding import column_kinds, table_encoder
from fairspan.inputs.columns import is_temporal, read_attribute, require_columns
from fairspan.method.codes import Coder, infer_kind
from fairspan.streaming.sources import check_one_role
from fairspan.tables.columns import join_single_rows, unlearnable

_LARGEST_WHOLE = 2.0**53  # floats cannot represent all integers beyond this
_SLICES = 4  # slices of a number within which rows are held out


def is_continuous(frame: Any, name: str) -> bool:
    """Whether a column is continuous, by the rule for protected attributes."""
    return infer_kind(read_attribute(name, frame[name], "table")) == "continuous"


def complete_rows(frame: Any, columns: Iterable[str], optional: Iterable[str] = ()) -> Any:
    """Rows in which none of these columns is missing.

    Parameters
    ----------
    frame : pandas DataFrame
    columns : names of columns in which no value may be missing.
    optional : names of columns in which values may be missing.

    Returns
    -------
    DataFrame
        The frame itself if nothing is missing. Columns that had missing values get the type they would
        have without: booleans and integers, which pandas keeps as objects and floats. Optional columns get
        the types of pandas for booleans and integers with missing values.
    """
    optional = list(optional)
    columns = [name for name in dict.fromkeys(columns) if name not in optional]
    frame = _without_incomplete(frame, columns)
    gaps = [name for name in optional if frame[name].isna().any()]
    if gaps:
        known = {name: _without_incomplete(frame[[name]], [name])[name] for name in gaps}
        types = {"i": "Int64", "b": "boolean"}
        frame = frame.assign(
            **{
                name: frame[name].astype(types.get(column.dtype.kind, frame[name].dtype))
                for name, column in known.items()
            }
        )
    return frame


def _without_incomplete(frame: Any, columns: list[str]) -> Any:
    missing = frame[columns].isna()
    incomplete = missing.any(axis=1)
    if not incomplete.any():
        return frame
    frame = frame.loc[~incomplete].copy()
    for name in missing.columns[missing.any(axis=0)]:
        # Integers stored as floats would be read as continuous.
        values = frame[name].infer_objects()
        whole = values.dtype.kind == "f" and not np.mod(values, 1.0).any()
        if whole and values.abs().max() >= _LARGEST_WHOLE:
            raise ValueError(
                f"The column {name!r} has whole numbers beyond 2^53 and missing values; pandas stores them "
                f"as floats, which cannot tell such numbers apart. Write them as text (such as id-1), or "
                f"leave the incomplete rows out of the file."
            )
        frame[name] = values.astype(np.int64) if whole else values
    return frame


def check_share(share: float, says: str) -> None:
    """Raise ValueError for a share of held-out rows that is not between 0 and 1."""
    if not 0.0 < share < 1.0:
        raise ValueError(f"{says}{share:g} is not allowed; give a number between 0 and 1.")


def held_out_rows(
    frame: Any,
    columns: Iterable[str],
    *,
    kinds: Mapping[str, str] | None = None,
    share: float = 0.25,
    seed: int = 0,
    says: str = "share=",
) -> NDArray[np.bool_]:
    """Choose a random share of the rows, the same share of every class and group up to rounding.

    At least one row of every class and group is not held out.

    Parameters
    ----------
    frame : pandas DataFrame
    columns : the target and the protected attributes. Rows without one of them are not held out: they
        would show nothing about groups.
    kinds : "categorical" or "continuous", by column, where the guess is wrong.
    share : share of the rows to hold out, between 0 and 1.
    seed : the same seed holds out the same rows.
    says : name of ``share`` in messages.

    Returns
    -------
    ndarray of bool
        True for the rows held out.
    """
    check_share(share, says)
    columns = list(columns)
    incomplete = frame[columns].isna().any(axis=1).to_numpy()
    if incomplete.any():
        out = np.zeros(len(frame), dtype=bool)
        out[~incomplete] = held_out_rows(
            frame[~incomplete], columns, kinds=kinds, share=share, seed=seed, says=says
        )
        return out
    rng, n = np.random.default_rng(seed), len(frame)
    codes = []
    for name in columns:
        column = read_attribute(name, frame[name], "table")
        kind: Any = (kinds or {}).get(name) or infer_kind(column)
        codes.append(Coder.learn(column, kind, _SLICES).codes({name: column}))
    # Rows are sorted by group, in random order within groups; then every k-th row is taken.
    order = np.lexsort((rng.random(n), *reversed(codes)))
    taken = np.diff(np.floor(np.arange(n + 1) * share + rng.random())) > 0.0
    out = np.zeros(n, dtype=bool)
    out[order[taken]] = True
    for code in codes:
        # If all rows of a class or group were taken, one is put back to learn from.
        for level in np.setdiff1d(code[out], code[~out]):
            out[order[np.argmax(code[order] == level)]] = False
    if not out.any() or out.all():
        raise ValueError(f"{says}{share:g} of {n} rows leaves no rows on one side.")
    return out


def join_small_groups(
    frame: Any, sensitive: Iterable[str], kinds: Mapping[str, str]
) -> tuple[Any, list[str]]:
    """Join groups of one row of the categorical protected attributes; also return sentences about them.

    Parameters
    ----------
    frame : pandas DataFrame
    sensitive : columns of protected attributes, complete.
    kinds : "categorical" or "continuous", by column, where the guess is wrong.
    """
    names = [
        name
        for name in sensitive
        if kinds.get(name, "") == "categorical"
        or (name not in kinds and not is_continuous(frame, name))
    ]
    return join_single_rows(frame, names)


# A text column with a larger share of different values is free text, not a category.
_TEXT_SHARE = 0.5
# Columns of at most so many values, each on at least so many rows, do not agree by chance.
_FEW_LEVELS, _ROWS_PER_LEVEL = 50, 5
_FIRST_ROWS = 1000
# Reason to leave a column out.
NOT_ENCODED = "neither numbers, dates nor categories"
_ROLE_WORDS = {
    "target": "target",
    "sensitive_features": "protected attribute",
    "sample_weight": "weight",
}


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Names of the columns of the table by role."""

    target: str
    sensitive: tuple[str, ...]
    control: tuple[str, ...]
    weight: str | None
    features: tuple[str, ...]
    # Attributes whose groups are known as probabilities, with the columns of their groups.
    probable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the protected attributes; several columns may belong to one."""
        owner = {column: name for name, columns in self.probable.items() for column in columns}
        return tuple(dict.fromkeys(owner.get(column, column) for column in self.sensitive))

    @property
    def needed(self) -> list[str]:
        """Columns in which no value may be missing, unless ``optional``."""
        weight = [] if self.weight is None else [self.weight]
        return [self.target, *self.sensitive, *self.control, *weight]

    def optional(self, missing_sensitive: str) -> list[str]:
        """Protected attributes if they may be missing, by the parameter of the model."""
        strata = set(self.control)
        return [n for n in self.sensitive if missing_sensitive == "omit" and n not in strata]

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
    """Names of columns as a tuple; raise if one of them is unknown."""
    if given is None:
        return ()
    names = [given] if isinstance(given, str) else list(given)
    require_columns(names, known, f"{role} names")
    return tuple(dict.fromkeys(names))


def find_roles(
    frame: Any,
    *,
    target: str,
    sensitive_features: Any,
    control_features: Any,
    features: Any,
    sample_weight: Any,
) -> tuple[Roles, dict[str, str]]:
    """Check the roles of the columns; also return the columns that are left out, with the reason.

    Unless ``features`` are named, they are all columns that have no other role and can be encoded,
    without identifiers and free text.
    """
    known = list(frame.columns)
    given = {
        "target": _names(target, "target", known),
        "sensitive_features": _names(sensitive_features, "sensitive_features", known),
        "control_features": _names(control_features, "control_features", known),
        "sample_weight": _names(sample_weight, "sample_weight", known),
    }
    for role in ("target", "sensitive_features"):
        if not given[role]:
            raise ValueError(f"{role} names no column.")
    check_one_role(given, may_share=("sensitive_features", "control_features"))
    taken = {name: role for role, names in reversed(given.items()) for name in names}
    named = _names(features, "features", known)
    for name in named:
        role = taken.get(name, "control_features")
        if role != "control_features":
            raise ValueError(
                f"features names {name!r}, which is the {_ROLE_WORDS[role]}; a model must not learn from it. "
                f"Leave it out of features."
            )
    refused: dict[str, str] = {}
    if not named:
        others = [name for name in known if name not in taken]
        refused = {name: NOT_ENCODED for name in others if not _encodes(frame[[name]])}
        refused |= unlearnable(frame, [name for name in others if name not in refused])
        named = tuple(name for name in others if name not in refused)
    if not named:
        raise ValueError("No column is left for the features.")
    roles = Roles(
        target=given["target"][0],
        sensitive=given["sensitive_features"],
        control=given["control_features"],
        weight=given["sample_weight"][0] if given["sample_weight"] else None,
        features=named,
    )
    return roles, refused


def _encodes(column: Any) -> bool:
    try:
        table_encoder(column)
    except TypeError:
        return False
    return True


# ------------------------------------------------------------------ description


def describe_columns(
    frame: Any,
    roles: Roles,
    continuous: dict[str, bool],
    refused: Mapping[str, str],
    optional: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """Role and kind of every column, the number of missing values, and how it is encoded."""
    out = []
    probable = {column: name for name, columns in roles.probable.items() for column in columns}
    numbers, _ = column_kinds(frame[list(roles.features)])
    for name in frame.columns:
        column = frame[name]
        levels, kind = _kind(nw.from_native(column, series_only=True), len(frame))
        attribute = probable.get(name)
        if name in continuous and kind != "constant":
            kind = "number" if continuous[name] else "yes/no" if levels == 2 else "category"
        role, missing = roles.of(name), int(column.isna().sum())
        may_miss = name in optional
        note = _note(role, kind, missing, refused.get(name, ""), name in numbers, optional=may_miss)
        if attribute is not None:
            kind = "probability"
            group = f"the probability of a group of {attribute}"
            note = f"{group}; {note}" if note else group
        described = {"name": name, "role": role, "kind": kind, "missing": missing}
        out.append(described | {"levels": levels, "note": note})
    return out


def _kind(column: Any, n: int) -> tuple[int | None, str]:
    """Number of levels (None if unknown) and kind of a column."""
    if is_temporal(column.dtype):
        return None, "date"
    try:
        levels = int(column.drop_nulls().n_unique())
    except Exception:  # values that cannot be compared; each frame library has its own exception
        return None, "text"
    if levels < 2:
        return levels, "constant"
    if levels == 2:
        return levels, "yes/no"
    if column.dtype.is_numeric():
        return levels, "number"
    return levels, "text" if levels > max(_TEXT_SHARE * n, 20) else "category"


def _note(role: str, kind: str, missing: int, refused: str, number: bool, *, optional: bool) -> str:
    if refused:
        return f"left out: {refused}"
    if role != "feature":
        if optional and missing:
            return "rows without it are fitted on, and not held out"
        return "rows without it were left out" if missing and role != "left out" else ""
    if kind == "constant":
        if missing:
            return "constant where it is known: only its missing values carry information"
        return "constant: it carries no information"
    if number:
        gaps = "; missing values take the median, with an indicator column" if missing else ""
        return f"{'days since 1970, ' if kind == 'date' else ''}standardised{gaps}"
    gaps = "; missing is a category" if missing else ""
    if kind == "text":
        return f"nearly every value differs: rare ones are merged{gaps}"
    return f"one column per category, rare ones merged{gaps}"


# ------------------------------------------------------------------ features that give something away


def give_aways(frame: Any, roles: Roles) -> Iterator[str]:
    """Warnings about features that are the target or a protected attribute in another coding."""
    names = (*roles.features, roles.target, *roles.sensitive)
    # Most columns differ within the first rows; only the others are compared in full.
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
                    f"{other!r}: {how}. Leave it out, unless its value is known before the decision and "
                    f"you want the model to use it."
                )


Coded = tuple[NDArray[np.intp], bool]


def _codes(column: Any) -> Coded:
    """Sorted level of each row, -1 where missing, and whether the column is numeric."""
    numeric = column.dtype.kind in "iufb"
    missing = column.isna().to_numpy()
    values = column.to_numpy() if numeric else column.astype(str).to_numpy(dtype=object)
    out = np.full(len(values), -1, dtype=np.intp)
    out[~missing] = np.unique(values[~missing], return_inverse=True)[1]
    return out, numeric


def _both(feature: Coded, other: Coded) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """Levels of the rows where both are known, and the number of combinations."""
    known = (feature[0] >= 0) & (other[0] >= 0)
    a, b = (np.unique(codes[known], return_inverse=True)[1] for codes, _ in (feature, other))
    pairs = len(np.unique(a.astype(np.int64) * (int(b.max(initial=0)) + 1) + b))
    return a, b, pairs


def _agree(feature: Coded, other: Coded, *, target: bool) -> bool:
    """Whether these rows are consistent with the feature giving the other column away."""
    a, b, pairs = _both(feature, other)
    n_a, n_b = int(a.max(initial=-1)) + 1, int(b.max(initial=-1)) + 1
    if max(n_a, n_b) > _FEW_LEVELS:
        return feature[1] and other[1] and n_a == n_b and _ordered(a, b, n_a)
    return pairs == (n_a if target else n_b)


def _ordered(a: NDArray[np.intp], b: NDArray[np.intp], n_levels: int) -> bool:
    """Whether both have the same order, or the reverse."""
    return np.array_equal(a, b) or np.array_equal(a, n_levels - 1 - b)


def _same(feature: Coded, other: Coded, *, target: bool) -> str:
    """Describe how the feature gives the other column away; "" if it does not."""
    a, b, pairs = _both(feature, other)
    if 2 * len(a) < len(feature[0]):
        return ""
    n_a, n_b = int(a.max(initial=-1)) + 1, int(b.max(initial=-1)) + 1
    if n_a < 2 or n_b < 2:
        return ""
    if feature[1] and other[1] and n_a == n_b and _ordered(a, b, n_a):
        return "its values are the same up to their scale"
    if max(n_a, n_b) > min(_FEW_LEVELS, len(a) // _ROWS_PER_LEVEL):
        return ""  # columns with nearly one value per row agree by chance
    if pairs == n_a == n_b:
        return "its values name the same rows"
    if target and pairs == n_a:
        return "each value of the feature occurs with only one value of the target"
    if not target and pairs == n_b:
        return "the attribute determines the feature"
    return ""
