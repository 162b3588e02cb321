"""Tables of the command line: find their columns, leave out rows, hold some out."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan._system import MISSING_WORDS
from fairspan.encoding import table_encoder
from fairspan.exceptions import FairspanWarning
from fairspan.report import table as rows
from fairspan.report.table import is_continuous

__all__ = [
    "KIND_HINT",
    "Kinds",
    "arguments",
    "categories",
    "check_columns",
    "check_decisions",
    "check_features",
    "check_leaks",
    "complete_rows",
    "filled_gaps",
    "find_features",
    "find_roles",
    "held_out_rows",
    "is_continuous",
    "kind_of",
    "kind_shown",
    "label_like",
    "left_out",
    "listed",
    "pick",
    "set_kinds",
    "shortened",
    "some",
    "without_role",
]

_SHOWN = 6  # names in a message
KIND_HINT = "--kind NAME=categorical or NAME=continuous changes how a column is read."
_MISSING_WORDS = ", ".join(["Empty fields", *(word for word in MISSING_WORDS if word)])


def listed(given: list[str] | None) -> list[str] | None:
    """Values of a repeated option, of which each may hold several."""
    if given is None:
        return None
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


# ------------------------------------------------------------------ columns


def pick(frame: Any, given: Sequence[str] | None, option: str) -> list[str]:
    """Columns of the table that an option names, several in a text perhaps."""
    names: list[str] = []
    for text in given or ():
        several = listed([text]) or []
        # A name may hold a comma of its own.
        if text in frame.columns and len(several) > 1 and all(n in frame.columns for n in several):
            msg = (
                f"{option} {text!r} names one column, and also the columns {some(list(map(repr, several)))}. "
                f"Rename the column with the comma, or repeat the option for each of the others."
            )
            raise ValueError(msg)
        names += [text] if text in frame.columns else several
    check_columns(frame, names, f"{option} names")
    return list(dict.fromkeys(names))


def check_columns(frame: Any, names: Sequence[str], says: str) -> None:
    """Refuse a name that is no column's; ``says`` begins the message."""
    for name in names:
        if name not in frame.columns:
            near = _nearest(name, list(frame.columns))
            raise ValueError(f"{says} the column {name!r}, which is not there. {near}")


def _nearest(name: str, known: Sequence[str]) -> str:
    lower = {column.lower(): column for column in reversed(known)}
    near = difflib.get_close_matches(name.lower(), list(lower), n=3)
    if near:
        return f"Did you mean {' or '.join(repr(lower[one]) for one in near)}?"
    return f"Its columns: {some([repr(one) for one in known])}."


def some(texts: Sequence[str], comma: str = ", ") -> str:
    """The first few of a list."""
    return comma.join([*texts[:_SHOWN], *(["..."] if len(texts) > _SHOWN else [])])


def shortened(name: str, longest: int = 24) -> str:
    """A name that leaves room for others on its line."""
    return name if len(name) <= longest else f"{name[: longest - 3]}..."


def find_roles(frame: Any, **given: str | Sequence[str] | None) -> dict[str, list[str]]:
    """Columns that the options of these names name; each can be one thing only."""
    out: dict[str, list[str]] = {}
    seen: dict[str, str] = {}
    for option, names in given.items():
        if isinstance(names, str):
            check_columns(frame, [names], f"--{option} names")
            out[option] = [names]
        else:
            out[option] = pick(frame, names, f"--{option}")
        for name in out[option]:
            if name in seen:
                msg = f"The column {name!r} cannot be both --{seen[name]} and --{option}."
                raise ValueError(msg)
            seen[name] = option
    if not out["protected"]:
        raise ValueError("--protected names no column.")
    return out


def without_role(
    frame: Any, roles: Mapping[str, Sequence[str]], drop: Sequence[str] | None
) -> list[str]:
    """All other columns: the features, where none are named."""
    taken = {name for names in roles.values() for name in names}
    taken.update(pick(frame, drop, "--drop"))
    return [name for name in frame.columns if name not in taken]


def find_features(
    frame: Any, roles: Mapping[str, Sequence[str]], given: Sequence[str] | None,
    drop: Sequence[str] | None,
) -> list[str]:  # fmt: skip
    """Columns to learn from: those named, or all without a role that ``--drop`` does not name."""
    names, dropped = pick(frame, given, "--features"), pick(frame, drop, "--drop")
    check_leaks(names, roles)
    for name in names:
        if name in dropped:
            raise ValueError(f"The column {name!r} cannot be both --features and --drop.")
    return names or without_role(frame, roles, drop)


def left_out(frame: Any, names: Sequence[str], roles: Mapping[str, Sequence[str]]) -> list[str]:
    """Columns of the table that are neither features nor have a role."""
    used = {*names, *(name for role in roles.values() for name in role)}
    return [name for name in frame.columns if name not in used]


def filled_gaps(frame: Any, names: Sequence[str]) -> Iterator[str]:
    """One sentence about features with missing values, if there are any."""
    counts = {name: int(frame[name].isna().sum()) for name in names}
    gaps = [f"{name} ({n:,})" for name, n in counts.items() if n]
    if gaps:
        yield (
            f"Missing values of {some(gaps)} are filled in: numbers take the median and get an indicator, "
            f"categories get a category of their own."
        )


def kind_of(frame: Any, name: str) -> str:
    """Kind of a column, "continuous" or "categorical", by the rule for protected attributes."""
    return "continuous" if is_continuous(frame, name) else "categorical"


def kind_shown(frame: Any, name: str, kind: str) -> str:
    """A kind in words, with the first few groups or classes of a categorical column."""
    if kind != "categorical":
        return kind
    return f"categorical: {some([repr(label) for label in sorted(frame[name].unique().tolist(), key=str)])}"


def check_leaks(names: Sequence[str], roles: Mapping[str, Sequence[str]]) -> None:
    """Refuse the answer among the features, and what prediction is to do without."""
    what = {"target": "the target", "protected": "a protected attribute", "weight": "the weight"}
    for role, says in what.items():
        for name in roles.get(role, ()):
            if name in names:
                msg = f"--features names {name!r}, which is {says}: leave it out of the features."
                raise ValueError(msg)


def _check_numbers(column: Any, option: str) -> None:
    if column.dtype.kind not in "biuf":
        first = str(column.iloc[0])
        msg = f"{option} names the column {column.name!r}, which holds no numbers: {first!r}."
        raise ValueError(msg)


def check_features(frame: Any, names: Sequence[str]) -> None:
    """Refuse what no encoder can turn into numbers, and infinity, in the words of the options."""
    if not names:
        raise ValueError("No column is left for the features.")
    try:
        with warnings.catch_warnings():  # the fit will warn of the same
            warnings.simplefilter("ignore", FairspanWarning)
            table_encoder(frame[list(names)])  # type: ignore[no-untyped-call]
    except TypeError as error:
        why = str(error).replace("table_encoder takes", "Features can be")
        raise ValueError(f"{why}. (--drop leaves a column out.)") from error
    _refuse_infinity(frame, names)


def _refuse_infinity(frame: Any, names: Sequence[str]) -> None:
    for name in names:
        column = frame[name]
        if column.dtype.kind == "f" and (bad := np.isinf(column.to_numpy())).any():
            where = f"({bad.sum():,} in all), first in row {frame.index[bad][0] + 1}"
            raise ValueError(
                f"The column {name!r} holds infinity {where}; leave such fields empty."
            )


def arguments(frame: Any, names: Sequence[str], roles: Mapping[str, list[str]]) -> dict[str, Any]:
    """Arguments of an audit; protected columns stay in X, from where it takes them by name."""
    beside = {role: roles[role] or None for role in ("protected", "control")}
    single = {role: frame[roles[role][0]] if roles[role] else None for role in ("target", "weight")}
    X = None
    if names:
        X = frame[list(dict.fromkeys([*names, *roles["protected"], *roles["control"]]))]
    else:
        beside = {role: frame[known] if known else None for role, known in beside.items()}
    return {
        "X": X, "y": single["target"], "sensitive_features": beside["protected"],
        "control_features": beside["control"], "sample_weight": single["weight"],
    }  # fmt: skip


@dataclass(frozen=True)
class Kinds:
    """What ``--kind`` says: of protected attributes, of the target, and as Python about ``table``."""

    protected: dict[str, str]
    target: str | None
    lines: tuple[str, ...]


def categories(
    frame: Any, given: list[str] | None, roles: Mapping[str, Sequence[str]]
) -> list[str]:
    """Features that ``--kind NAME=categorical`` names."""
    kinds = _read_kinds(frame, given)
    taken = {*roles["protected"], *roles.get("target", ())}
    return [name for name, kind in kinds.items() if kind == "categorical" and name not in taken]


def _read_kinds(frame: Any, given: list[str] | None) -> dict[str, str]:
    """Kinds by column, from ``--kind NAME=KIND``."""
    kinds: dict[str, str] = {}
    for text in _kind_texts(frame, given):
        name, sign, kind = text.rpartition("=")
        if not sign or kind not in ("categorical", "continuous"):
            msg = f"--kind {text!r} is not allowed; write NAME=categorical or NAME=continuous."
            raise ValueError(msg)
        check_columns(frame, [name], f"--kind {text!r} names")
        if kinds.get(name, kind) != kind:
            msg = f"--kind says both {kinds[name]} and {kind} of the column {name!r}; say one of them."
            raise ValueError(msg)
        kinds[name] = kind
    return kinds


def set_kinds(
    frame: Any, given: list[str] | None, roles: Mapping[str, Sequence[str]]
) -> tuple[Any, Kinds]:
    """Return the table with its columns of the kinds of ``--kind NAME=KIND``."""
    kinds = _read_kinds(frame, given)
    changed, lines = {}, []
    for name, kind in kinds.items():
        if kind == "continuous":
            changed[name], how = _numbers(frame[name]), "pd.to_numeric(table[{0}])"
        elif name in roles.get("target", ()):
            # Labels are texts; whole numbers alike, whether or not the column has gaps.
            changed[name] = frame[name].convert_dtypes().astype(object).map(str, na_action="ignore")
            how = 'table[{0}].convert_dtypes().astype(object).map(str, na_action="ignore")'
        elif name not in roles["protected"]:  # of those the model is told
            changed[name], how = frame[name].astype("category"), 'table[{0}].astype("category")'
        else:
            continue
        lines.append(f"table[{name!a}] = {how.format(ascii(name))}")
    protected = {name: kind for name, kind in kinds.items() if name in roles["protected"]}
    target = next((kinds[name] for name in roles.get("target", ()) if name in kinds), None)
    return frame.assign(**changed), Kinds(protected, target, tuple(lines))


def _kind_texts(frame: Any, given: list[str] | None) -> Iterator[str]:
    """Each ``NAME=KIND``; a name may hold a comma of its own."""
    for text in given or ():
        whole = text.rpartition("=")[0] in frame.columns
        yield from [text] if whole else listed([text]) or []


def _numbers(column: Any) -> Any:
    import pandas as pd

    try:
        return pd.to_numeric(column)
    except (ValueError, TypeError) as error:
        first = next(str(v) for v in column.dropna() if not _is_number(v))
        says = f"--kind '{column.name}=continuous'"
        msg = f"{says} names the column {column.name!r}, which holds no numbers: {first!r}."
        raise ValueError(msg) from error


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def label_like(text: str, labels: Any, where: str) -> Any:
    """The label that a text on the command line stands for: 1 for "1", where labels are numbers."""
    known = list(dict.fromkeys(np.asarray(labels).tolist()))
    for one in known:
        if str(one) == text or (isinstance(one, bool) and str(one).lower() == text.lower()):
            return one
    for one in known:
        try:
            if not isinstance(one, str) and float(one) == float(text):
                return one
        except ValueError:
            break
    raise ValueError(
        f"--positive {text!r} is no label of {where}: {some([repr(v) for v in known])}."
    )


def check_decisions(frame: Any, decisions: str, target: str | None) -> None:
    """Decisions are classes, those of the truth where it is known."""
    if is_continuous(frame, decisions):
        msg = f"--decisions names {decisions!r}, which measures rather than decides; try --scores."
        raise ValueError(msg)
    decided, true = (frame[name].unique().tolist() for name in (decisions, target or decisions))
    if not set(decided) & set(true):
        shown, known = (some([repr(one) for one in labels]) for labels in (decided, true))
        msg = (
            f"Decisions need the labels of the target: {decisions!r} holds {shown}, and {target!r} "
            f"holds {known}."
        )
        raise ValueError(msg)


# ------------------------------------------------------------------ rows


def complete_rows(
    frame: Any, roles: Mapping[str, Sequence[str]], *, drop: bool, say: Callable[[str], None]
) -> Any:
    """Rows in which nothing with a role is missing; others are refused, or left out if ``drop``."""
    for role in ("weight", "scores"):
        for name in roles.get(role, ()):
            _check_numbers(frame[name], f"--{role}")
    used = [name for names in roles.values() for name in names]
    _refuse_infinity(frame, used)
    missing = frame[used].isna()
    counts = {name: int(n) for name, n in missing.sum().items() if n}
    if not counts:
        return frame
    gone = missing.any(axis=1)
    which = ", ".join(f"{name!r} ({n:,})" for name, n in counts.items())
    if not drop:
        msg = (
            f"{int(gone.sum()):,} of {len(frame):,} rows miss a value of {which}. Fill them in, or pass "
            f"--drop-missing to leave those rows out. ({_MISSING_WORDS} of a CSV file count as missing; a "
            f"group of such a name needs another name.)"
        )
        raise ValueError(msg)
    frame = rows.complete_rows(frame, used)
    if frame.empty:
        raise ValueError(f"Every row misses a value of {which}; no rows are left.")
    say(f"Left out {int(gone.sum()):,} rows that miss a value of {which}.")
    return frame


def held_out_rows(
    frame: Any, roles: Mapping[str, Sequence[str]], kinds: Mapping[str, str], share: float, seed: int
) -> NDArray[np.bool_]:  # fmt: skip
    """A random share of the rows, of every class and group as nearly as whole rows allow."""
    columns = [*roles["target"], *roles["protected"]]
    return rows.held_out_rows(
        frame, columns, kinds=kinds, share=share, seed=seed, says="--test-share "
    )
