"""Kinds of columns as the options give them, and labels that a text on the command line means."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.cli.common import quoted, split_commas
from fairspan.cli.read import Source
from fairspan.encoding import days_since_1970
from fairspan.inputs.columns import require_columns
from fairspan.report import complete_rows
from fairspan.report.table import is_continuous
from fairspan.tables.columns import is_dates
from fairspan.tables.delimited import LEADING_ZEROS
from fairspan.tables.dictionary import ColumnWords

KIND_HINT = "--kind NAME=categorical or NAME=continuous changes how a column is read."
# Columns by the option that names them: target, protected, control, weight, scores, decisions.
Named = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Kinds:
    """Values of ``--kind``: for protected attributes, for the target, and as lines of Python."""

    protected: dict[str, str]
    target: str | None
    lines: tuple[str, ...]


def read_kinds(
    frame: Any, given: Sequence[str] | None, words: Mapping[str, ColumnWords] | None = None
) -> dict[str, str]:
    """Return kinds by column, from ``--kind NAME=KIND``, then from the dictionary."""
    kinds: dict[str, str] = {}
    for value in given or ():
        is_single = value.rpartition("=")[0] in frame.columns  # a name may contain a comma
        for text in [value] if is_single else split_commas([value]) or []:
            name, sign, kind = text.rpartition("=")
            if not sign or kind not in ("categorical", "continuous"):
                msg = f"--kind {text!r} is not allowed; write NAME=categorical or NAME=continuous."
                raise ValueError(msg)
            require_columns([name], frame.columns, f"--kind {text!r} names")
            if kinds.get(name, kind) != kind:
                both = f"{kinds[name]} and {kind}"
                msg = f"--kind gives the column {name!r} two kinds, {both}; give one of them."
                raise ValueError(msg)
            kinds[name] = kind
    of_words = {name: entry.kind for name, entry in (words or {}).items()}
    usable = {
        name: kind for name, kind in of_words.items() if kind in ("categorical", "continuous")
    }
    return usable | kinds


def columns_as_text(
    source: Source, kinds: Mapping[str, str], roles: Named, numeric_target: bool
) -> tuple[list[str], list[str]]:
    """Return the columns to read as text, and sentences about those that no option names.

    These are features that ``--kind`` makes categorical, protected attributes whose values begin with 0,
    and labels or groups that numbers would not write as the file does: "01", "1.0" beside a gap.
    """
    used = {*roles["target"], *roles["protected"]}
    out = [n for n, kind in kinds.items() if kind == "categorical" and n not in used]
    for name in roles["target"]:
        categorical = kinds.get(name) == "categorical"
        if not numeric_target and kinds.get(name) != "continuous":
            out += [name] * written_otherwise(source, name, categorical=categorical)
    groups, notes = groups_as_text(source, kinds, roles["protected"])
    return [*out, *groups], notes


def groups_as_text(
    source: Source, kinds: Mapping[str, str], protected: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the protected attributes to read as text, and sentences about those without a kind."""
    zeros = source.frame.attrs.get(LEADING_ZEROS, {})
    out, notes = [], []
    for name in protected:
        kind = kinds.get(name)
        if kind is None and name in zeros:
            out.append(name)
            notes.append(
                f"The protected attribute {name!r} is read as text, because values begin with 0, as "
                f"{zeros[name]!r}. --kind {shlex.quote(f'{name}=continuous')} reads it as a number."
            )
        elif kind != "continuous":
            categorical = kind == "categorical"
            out += [name] * written_otherwise(source, name, categorical=categorical, points=False)
    return out, notes


def written_otherwise(
    source: Source, name: str, *, categorical: bool = False, points: bool = True
) -> bool:
    """Whether a file writes the classes or groups of a column in another way than numbers are printed.

    Without ``points``, "1.0" is the number 1, which a gap elsewhere in the column turns into 1.0.
    """
    column = source.frame[name]
    if source.written is not None and is_dates(column):
        # Few different dates are labels or cohorts; more are amounts, as days.
        return not is_continuous(
            source.frame.assign(**{name: days_since_1970(column)}).dropna(subset=name), name
        )
    if source.written is None or column.dtype.kind not in "biuf":
        return False
    known = complete_rows(source.frame[[name]], [name])
    if known.empty or not (categorical or not is_continuous(known, name)):
        return False
    texts = {text.strip() for text in source.written([name])[name].dropna().unique().tolist()}
    labels = {str(label) for label in known[name].unique().tolist()}
    if not points:
        texts, labels = ({text.removesuffix(".0") for text in some} for some in (texts, labels))
    return texts != labels and len(texts) == len(labels)


def set_kinds(frame: Any, given: Mapping[str, str], roles: Named) -> tuple[Any, Kinds]:
    """Return the table with columns converted to their given kinds, and these kinds.

    Dates with a role are days since 1970-01-01, as dates among the features are.
    """
    targets = roles.get("target", ())
    changed, lines = {}, []
    for name, kind in given.items():
        if is_dates(frame[name]) and name in roles["protected"]:
            continue
        if kind == "continuous":
            changed[name], code = _as_numbers(frame[name]), "pd.to_numeric(table[{0}])"
        elif name in targets:
            # Labels are text. 1 is the label "1", also where a gap turned the column into floats.
            changed[name] = frame[name].convert_dtypes().astype(object).map(str, na_action="ignore")
            code = 'table[{0}].convert_dtypes().astype(object).map(str, na_action="ignore")'
        elif name not in roles["protected"]:  # the model gets their kinds as a parameter
            changed[name], code = frame[name].astype("category"), 'table[{0}].astype("category")'
        else:
            continue
        lines.append(f"table[{name!a}] = {code.format(ascii(name))}")
    for name in dict.fromkeys(n for option in roles.values() for n in option):
        if is_dates(frame[name]) and name not in changed:
            changed[name] = days_since_1970(frame[name])
            lines.append("from fairspan.tables import days_since_1970\n")
            lines.append(f"table[{name!a}] = days_since_1970(table[{name!a}])")
    protected = {name: kind for name, kind in given.items() if name in roles["protected"]}
    target = next((given[name] for name in targets if name in given), None)
    return frame.assign(**changed), Kinds(protected, target, tuple(lines))


def _as_numbers(column: Any) -> Any:
    import pandas as pd

    try:
        return pd.to_numeric(column)
    except (ValueError, TypeError) as error:
        known = column.dropna()
        example = known[pd.to_numeric(known, errors="coerce").isna()].iloc[0]
        option = f"--kind '{column.name}=continuous'"
        raise no_numbers(option, column.name, example) from error


def no_numbers(option: str, name: str, example: Any) -> ValueError:
    """Return the error about a text in a column that must hold numbers."""
    return ValueError(
        f"{option} names the column {name!r}, which holds no numbers: {str(example)!r}."
    )


def kind_of(frame: Any, name: str) -> str:
    """Return "continuous" or "categorical", by the rule for protected attributes."""
    return "continuous" if is_continuous(frame, name) else "categorical"


def describe_kind(frame: Any, name: str, kind: str) -> str:
    """Return the kind in words, with the first few groups or classes of a categorical column."""
    if kind != "categorical":
        return kind
    labels = sorted(frame[name].dropna().unique().tolist(), key=str)
    return f"categorical: {quoted(labels)}"


# ------------------------------------------------------------------ labels


def match_label(text: str, labels: Any, owner: str) -> Any:
    """Return the label that a text on the command line means: 1 for "1" if labels are numbers."""
    known = list(dict.fromkeys(np.asarray(labels).tolist()))
    for label in known:
        if str(label) == text or (isinstance(label, bool) and str(label).lower() == text.lower()):
            return label
    for label in known:
        try:
            if not isinstance(label, str) and float(label) == float(text):
                return label
        except ValueError:
            break
    # "true" for the label "TRUE", "1" for the label "01"; only if one label alone may be meant.
    alike = [label for label in known if isinstance(label, str) and _same_label(label, text)]
    if len(alike) == 1:
        return alike[0]
    shown = quoted(known)
    raise ValueError(f"--positive {text!r} is no label of {owner}: {shown}.")


def _same_label(label: str, text: str) -> bool:
    if label.strip().casefold() == text.strip().casefold():
        return True
    try:
        return float(label) == float(text)
    except ValueError:
        return False


def check_decisions(frame: Any, decisions: str, target: str | None) -> None:
    """Raise unless decisions are classes that the target has, too."""
    if is_continuous(frame, decisions):
        msg = f"--decisions names {decisions!r}, which holds measurements; try --scores."
        raise ValueError(msg)
    decided, true = (frame[name].unique().tolist() for name in (decisions, target or decisions))
    if not set(decided) & set(true):
        shown, known = (quoted(labels) for labels in (decided, true))
        raise ValueError(
            f"Decisions need the labels of the target: {decisions!r} holds {shown}, and {target!r} "
            f"holds {known}."
        )
