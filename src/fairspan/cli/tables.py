"""Columns and rows of a table as the options ask for them: roles, kinds, labels, complete rows."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from fairspan._system import MISSING_WORDS
from fairspan.cli.common import first_few, print_status, quoted, split_commas
from fairspan.cli.probabilities import ProbabilityColumns, read_probability_columns
from fairspan.cli.read import Input, Source, read_data
from fairspan.encoding import days_since_1970, table_encoder
from fairspan.exceptions import FairspanWarning
from fairspan.inputs.columns import require_columns
from fairspan.method.problem import canonical_criterion
from fairspan.report import complete_rows, join_small_groups
from fairspan.report.table import Roles, is_continuous
from fairspan.report.training import Favourable, choose_favourable
from fairspan.streaming.sources import check_one_role
from fairspan.tables.columns import is_dates, unlearnable, with_date_parts
from fairspan.tables.delimited import LEADING_ZEROS
from fairspan.tables.dictionary import ColumnWords, check_labels, read_dictionary

KIND_HINT = "--kind NAME=categorical or NAME=continuous changes how a column is read."
_MISSING_WORDS = ", ".join(["Empty fields", *(word for word in MISSING_WORDS if word)])

_NO_WORDS = ColumnWords()
_ANY = ("", "identifier")  # kinds that do not make a column a feature

# Columns by the option that names them: target, protected, control, weight, scores, decisions.
Named = Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class TrainingTable:
    """A table to train a model on.

    Attributes
    ----------
    name : DATA on the command line.
    all_rows : the table, with columns of the kinds that ``--kind`` names.
    frame : its complete rows, in which no group has one row.
    named : columns by option: target, protected, control, weight.
    roles : the same, and the columns to learn from.
    kinds : kinds that were given or follow from how a column is written.
    positive : the class that ``--positive`` names, of the target's type; None if not given.
    code : Python lines that read the table.
    left_out : columns that are no features, with the reason.
    notes : what was done with groups of one row and with codes.
    words : labels and descriptions of columns.
    probable : columns with probabilities of groups.
    """

    name: str
    all_rows: Any
    frame: Any
    named: Named
    roles: Roles
    kinds: Kinds
    positive: Any
    code: str
    left_out: Mapping[str, str]
    notes: tuple[str, ...]
    words: Mapping[str, ColumnWords]
    probable: ProbabilityColumns

    @property
    def sensitive_kind(self) -> Any:
        """The parameter of the model."""
        return self.probable.sensitive_kind(self.kinds.protected) or "auto"

    @property
    def unused_columns(self) -> list[str]:
        """Columns that are neither features nor have a role."""
        return [name for name in self.frame.columns if self.roles.of(name) == "left out"]

    def favourable(self, estimator: Any) -> Favourable | None:
        """Return the favourable class of a classifier; None for numbers and for many classes."""
        if not is_classifier(estimator):
            return None
        target = self.roles.target
        labels = self.frame[target].unique().tolist()
        criterion = canonical_criterion(estimator.criterion)
        return choose_favourable(labels, target, self.positive, criterion)


def read_training_table(
    given: Input,
    *,
    target: str | None,
    protected: list[str] | None,
    control: list[str] | None,
    weight: str | None,
    features: list[str] | None,
    drop: list[str] | None,
    kind: list[str] | None,
    drop_missing: bool,
    positive: str | None,
    keep: list[str] | None = None,
    dictionary: Path | None = None,
    date_parts: list[str] | None = None,
    numeric_target: bool = False,
    probability: list[str] | None = None,
) -> TrainingTable:
    """Read DATA and check all options about its columns before a model is fitted.

    Parameters
    ----------
    given : DATA and how to read it.
    numeric_target : the model predicts numbers, so that labels are no text.
    """
    source = read_data(given)
    words = read_words(dictionary, source.frame)
    target = target or source.target
    if target is None:
        raise ValueError("--target is missing: name the column to predict, as --target repaid.")
    probable = read_probability_columns(probability, list(source.frame.columns))
    protected = [*(protected or ()), *probable.columns] or list(source.protected)
    named = find_roles(
        source.frame, target=target, protected=protected, control=control, weight=weight
    )
    chosen = read_kinds(source.frame, kind, words) | probable.as_numbers
    text, notes = _columns_as_text(source, chosen, named, numeric_target)
    if text:
        # Read again now that the columns are known: as a number, "01" would be the category "1".
        source = read_data(given, text, quiet=True)
    all_rows, lines = _with_parts(source.frame, date_parts, named)
    learned, left_out = _find_features(all_rows, named, features, drop, keep, words)
    all_rows, kinds = set_kinds(all_rows, chosen, named)
    frame = drop_incomplete_rows(all_rows, named, drop=drop_missing)
    frame, joined = join_small_groups(frame, named["protected"], kinds.protected)
    check_features(frame, learned)
    roles = Roles(
        target=target,
        sensitive=tuple(named["protected"]),
        control=tuple(named["control"]),
        weight=weight,
        features=tuple(learned),
    )
    return TrainingTable(
        name=source.name,
        all_rows=all_rows,
        frame=frame,
        named=named,
        roles=roles,
        kinds=kinds,
        positive=None if positive is None else match_label(positive, frame[target], repr(target)),
        code="\n".join([source.code, *lines, *kinds.lines]),
        left_out=left_out,
        notes=(*notes, *joined),
        words=words,
        probable=probable,
    )


def read_words(dictionary: Path | None, frame: Any) -> Mapping[str, ColumnWords]:
    """Return the words of ``--dictionary``; print the columns that the table does not have."""
    if dictionary is None:
        return {}
    words = read_dictionary(dictionary)
    unknown = [name for name in words if name not in frame.columns]
    if len(unknown) == len(words):
        raise ValueError(
            f"--dictionary {dictionary} names no column of the table: {quoted(unknown)}."
        )
    if unknown:
        print_status(
            f"--dictionary {dictionary} names columns that the table lacks: {quoted(unknown)}."
        )
    words = {name: entry for name, entry in words.items() if name in frame.columns}
    check_labels(words, frame.columns, str(dictionary))
    return words


def _with_parts(frame: Any, given: Sequence[str] | None, roles: Named) -> tuple[Any, list[str]]:
    """Return the table with the parts of dates of ``--date-parts``, and the lines of Python for them.

    Dates with a role have no parts: a model would learn from them.
    """
    parts = split_commas(list(given) if given else None) or []
    if not parts:
        return frame, []
    used = {name for names in roles.values() for name in names}
    dates = [n for n in frame.columns if n not in used and is_dates(frame[n])]
    if not dates:
        raise ValueError("--date-parts is for dates, and no feature holds dates as 2024-05-31.")
    try:
        out = with_date_parts(frame, parts, dates)
    except ValueError as error:
        raise ValueError(f"--date-parts: {error}") from error
    call = f"with_date_parts(table, {parts!a}, {dates!a})"
    return out, ["from fairspan.tables import with_date_parts\n", f"table = {call}"]


# ------------------------------------------------------------------ columns


def pick_columns(frame: Any, given: Sequence[str] | None, option: str) -> list[str]:
    """Return the columns that an option names; one value may list several, separated by commas."""
    names: list[str] = []
    for text in given or ():
        several = split_commas([text]) or []
        is_column = text in frame.columns  # a name may contain a comma
        if is_column and len(several) > 1 and all(name in frame.columns for name in several):
            raise ValueError(
                f"{option} {text!r} names one column, and also the columns "
                f"{quoted(several)}. Rename the column with the comma, or "
                f"repeat the option for each of the others."
            )
        names += [text] if is_column else several
    require_columns(names, frame.columns, f"{option} names")
    return list(dict.fromkeys(names))


def find_roles(frame: Any, **given: str | Sequence[str] | None) -> dict[str, list[str]]:
    """Return the columns that options name, by option; raise if a column has two roles."""
    roles: dict[str, list[str]] = {}
    for option, names in given.items():
        if isinstance(names, str):  # one column, whose name may contain a comma
            require_columns([names], frame.columns, f"--{option} names")
            roles[option] = [names]
        else:
            roles[option] = pick_columns(frame, names, f"--{option}")
    check_one_role({f"--{option}": names for option, names in roles.items()})
    if not roles["protected"]:
        raise ValueError("--protected: give at least one column name, as --protected sex,age.")
    return roles


def columns_without_role(frame: Any, roles: Named, drop: Sequence[str] | None) -> list[str]:
    """Return the columns that neither have a role nor are named by ``--drop``."""
    used = {name for names in roles.values() for name in names}
    used.update(pick_columns(frame, drop, "--drop"))
    return [name for name in frame.columns if name not in used]


def _find_features(
    frame: Any,
    roles: Named,
    features: Sequence[str] | None,
    drop: Sequence[str] | None,
    keep: Sequence[str] | None,
    words: Mapping[str, ColumnWords],
) -> tuple[list[str], dict[str, str]]:
    """Return the columns to learn from, and those that are left out as no features, with the reason.

    These are the columns of ``--features``, or all without a role; identifiers and free text only with
    ``--keep``.
    """
    names = pick_columns(frame, features, "--features")
    dropped = pick_columns(frame, drop, "--drop")
    kept = pick_columns(frame, keep, "--keep")
    used = {"target": "the target", "protected": "a protected attribute", "weight": "the weight"}
    for option, chosen in (("--features", names), ("--keep", kept)):
        for role, word in used.items():
            for name in (name for name in roles[role] if name in chosen):
                msg = f"{option} names {name!r}, which is {word}: leave it out of the features."
                raise ValueError(msg)
        check_one_role({option: chosen, "--drop": dropped})
    if names:
        return [*names, *(name for name in kept if name not in names)], {}
    names = columns_without_role(frame, roles, drop)
    # A kind that was given says that the column is a feature.
    doubtful = [
        name for name in names if name not in kept and words.get(name, _NO_WORDS).kind in _ANY
    ]
    left_out = unlearnable(frame, doubtful)
    left_out |= {n: "identifiers" for n in doubtful if words.get(n, _NO_WORDS).kind == "identifier"}
    if len(left_out) == len(names) > 0:
        raise ValueError(
            f"No column is left for the features: {quoted(names)} look like identifiers or free text. --keep "
            f"NAME uses a column all the same."
        )
    return [name for name in names if name not in left_out], left_out


def check_features(frame: Any, names: Sequence[str]) -> None:
    """Raise if a feature holds values that cannot be encoded, or infinity."""
    if not names:
        raise ValueError("No column is left for the features.")
    try:
        with warnings.catch_warnings():  # the fit repeats these warnings
            warnings.simplefilter("ignore", FairspanWarning)
            table_encoder(frame[list(names)])
    except TypeError as error:
        reason = str(error).replace("table_encoder takes", "Features can be")
        raise ValueError(f"{reason}. (--drop leaves a column out.)") from error
    _check_finite(frame, names)


def _check_finite(frame: Any, names: Sequence[str]) -> None:
    for name in names:
        column = frame[name]
        if column.dtype.kind == "f" and (infinite := np.isinf(column.to_numpy())).any():
            rows = f"({infinite.sum():,} in all), first in row {frame.index[infinite][0] + 1}"
            raise ValueError(f"The column {name!r} holds infinity {rows}; leave such fields empty.")


def missing_values_note(frame: Any, names: Sequence[str]) -> Iterator[str]:
    """Yield a sentence about features with missing values, if there are any."""
    counts = {name: int(frame[name].isna().sum()) for name in names}
    incomplete = [f"{name} ({n:,})" for name, n in counts.items() if n]
    if incomplete:
        yield (
            f"Missing values of {first_few(incomplete)} are filled in: numbers take the median and get "
            f"an indicator, categories get a category of their own."
        )


def audit_arguments(frame: Any, names: Sequence[str], roles: Named) -> dict[str, Any]:
    """Return arguments of :func:`fairspan.audit`; with features, groups are columns of X."""
    groups = {role: list(roles[role]) or None for role in ("protected", "control")}
    single = {role: frame[roles[role][0]] if roles[role] else None for role in ("target", "weight")}
    X = None
    if names:
        X = frame[list(dict.fromkeys([*names, *roles["protected"], *roles["control"]]))]
    else:
        groups = {role: columns and frame[columns] for role, columns in groups.items()}
    return {
        "X": X,
        "y": single["target"],
        "sensitive_features": groups["protected"],
        "control_features": groups["control"],
        "sample_weight": single["weight"],
    }


# ------------------------------------------------------------------ kinds of columns


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


def _columns_as_text(
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
        raise _no_numbers(option, column.name, example) from error


def _no_numbers(option: str, name: str, example: Any) -> ValueError:
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
    labels = sorted(frame[name].unique().tolist(), key=str)
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


# ------------------------------------------------------------------ rows


def drop_incomplete_rows(frame: Any, roles: Named, *, drop: bool) -> Any:
    """Return the rows in which no column with a role is missing; raise if some are, unless ``drop``."""
    for role in ("weight", "scores"):
        for name in roles.get(role, ()):
            if frame[name].dtype.kind not in "biuf":
                raise _no_numbers(f"--{role}", name, frame[name].iloc[0])
    used = [name for names in roles.values() for name in names]
    _check_finite(frame, used)
    missing = frame[used].isna()
    counts = {name: int(n) for name, n in missing.sum().items() if n}
    if not counts:
        return frame
    n_incomplete = int(missing.any(axis=1).sum())
    columns = ", ".join(f"{name!r} ({n:,})" for name, n in counts.items())
    if not drop:
        raise ValueError(
            f"{n_incomplete:,} of {len(frame):,} rows miss a value of {columns}. Fill them in, or pass "
            f"--drop-missing to leave those rows out. ({_MISSING_WORDS} of a CSV file count as missing; a "
            f"group of such a name needs another name.)"
        )
    frame = complete_rows(frame, used)
    if frame.empty:
        raise ValueError(f"Every row misses a value of {columns}; no rows are left.")
    print_status(f"Left out {n_incomplete:,} rows that miss a value of {columns}.")
    return frame
