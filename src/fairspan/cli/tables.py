"""Columns and rows of a table as the options ask for them: roles, kinds, labels, complete rows.

Columns that are probably no features give warnings: numbers or dates as text, identifiers.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from fairspan._system import MISSING_WORDS, kind_of_texts
from fairspan.cli.common import first_few, print_status, quoted, split_commas
from fairspan.cli.read import LEADING_ZEROS, read_data
from fairspan.encoding import table_encoder
from fairspan.exceptions import FairspanWarning
from fairspan.inputs.columns import require_columns
from fairspan.method.problem import canonical_criterion
from fairspan.report import complete_rows
from fairspan.report.table import Roles, is_continuous
from fairspan.report.training import Favourable, choose_favourable
from fairspan.streaming.sources import check_one_role

KIND_HINT = "--kind NAME=categorical or NAME=continuous changes how a column is read."
# Values of a text column that are looked at, and rows with fewer of which all may differ by chance.
_SAMPLE, _MIN_ROWS = 1000, 20
_MISSING_WORDS = ", ".join(["Empty fields", *(word for word in MISSING_WORDS if word)])

# Columns by the option that names them: target, protected, control, weight, scores, decisions.
Named = Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class TrainingTable:
    """A table to train a model on.

    Attributes
    ----------
    name : DATA on the command line.
    all_rows : the table, with columns of the kinds that ``--kind`` names.
    frame : its complete rows.
    named : columns by option: target, protected, control, weight.
    roles : the same, and the columns to learn from.
    kinds : values of ``--kind``.
    positive : the class that ``--positive`` names, of the target's type; None if not given.
    text : columns that were read as text because of ``--kind NAME=categorical``.
    """

    name: str
    all_rows: Any
    frame: Any
    named: Named
    roles: Roles
    kinds: Kinds
    positive: Any
    text: list[str]

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
    data: str,
    data_home: Path | None,
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
) -> TrainingTable:
    """Read DATA and check all options about its columns before a model is fitted."""
    source = read_data(data, data_home)
    target = target or source.target
    if target is None:
        raise ValueError("--target is missing: name the column to predict, as --target repaid.")
    protected = protected or list(source.protected)
    named = find_roles(
        source.frame, target=target, protected=protected, control=control, weight=weight
    )
    chosen = _find_features(source.frame, named, features, drop)
    text = _categorical_features(source.frame, kind, named)
    if text:
        # Read again now that the columns are known: as a number, "01" would be the category "1".
        source = read_data(data, data_home, text, quiet=True)
    all_rows, kinds = set_kinds(source.frame, kind, named)
    frame = drop_incomplete_rows(all_rows, named, drop=drop_missing)
    check_features(frame, chosen)
    roles = Roles(
        target=target,
        sensitive=tuple(named["protected"]),
        control=tuple(named["control"]),
        weight=weight,
        features=tuple(chosen),
    )
    return TrainingTable(
        name=source.name,
        all_rows=all_rows,
        frame=frame,
        named=named,
        roles=roles,
        kinds=kinds,
        positive=None if positive is None else match_label(positive, frame[target], repr(target)),
        text=text,
    )


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
    frame: Any, roles: Named, features: Sequence[str] | None, drop: Sequence[str] | None
) -> list[str]:
    """Return the columns to learn from: those of ``--features``, or all without a role."""
    names = pick_columns(frame, features, "--features")
    dropped = pick_columns(frame, drop, "--drop")
    words = {"target": "the target", "protected": "a protected attribute", "weight": "the weight"}
    for role, word in words.items():
        for name in (name for name in roles[role] if name in names):
            msg = f"--features names {name!r}, which is {word}: leave it out of the features."
            raise ValueError(msg)
    check_one_role({"--features": names, "--drop": dropped})
    return names or columns_without_role(frame, roles, drop)


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


def _read_kinds(frame: Any, given: Sequence[str] | None) -> dict[str, str]:
    """Return kinds by column, from ``--kind NAME=KIND``."""
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
    return kinds


def _categorical_features(frame: Any, given: Sequence[str] | None, roles: Named) -> list[str]:
    """Return the features that ``--kind NAME=categorical`` names."""
    not_features = {*roles["protected"], *roles["target"]}
    kinds = _read_kinds(frame, given)
    return [name for name, k in kinds.items() if k == "categorical" and name not in not_features]


def set_kinds(frame: Any, given: Sequence[str] | None, roles: Named) -> tuple[Any, Kinds]:
    """Return the table with columns converted to the kinds of ``--kind``, and these kinds."""
    kinds = _read_kinds(frame, given)
    targets = roles.get("target", ())
    changed, lines = {}, []
    for name, kind in kinds.items():
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
    protected = {name: kind for name, kind in kinds.items() if name in roles["protected"]}
    target = next((kinds[name] for name in targets if name in kinds), None)
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
    shown = quoted(known)
    raise ValueError(f"--positive {text!r} is no label of {owner}: {shown}.")


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


# ------------------------------------------------------------------ doubtful columns


def doubtful_columns(frame: Any, names: Sequence[str]) -> Iterator[str]:
    """Yield one warning for each problem that some of the columns have."""
    columns: dict[str, list[str]] = {"numbers": [], "dates": [], "identifiers": []}
    for name in names:
        problem = _problem(frame[name])
        if problem is not None:
            columns[problem].append(name)
    remedies = {
        "numbers": "Write plain numbers (as 32.5) into the file",
        "dates": "Turn them into numbers (an age, a month)",
    }
    for problem, remedy in remedies.items():
        if doubtful := columns[problem]:
            example = str(frame[doubtful[0]].dropna().iloc[0])
            yield (
                f"{quoted(doubtful)}: {problem} as text, as {example!r}; each different text is a category. "
                f"{remedy}, or leave them out: {_drop_options(doubtful)}"
            )
    zeros = {name: frame.attrs.get(LEADING_ZEROS, {}).get(name) for name in names}
    if doubtful := [name for name, value in zeros.items() if value is not None]:
        options = [f"--kind {shlex.quote(f'{name}=categorical')}" for name in doubtful]
        yield (
            f"{quoted(doubtful)}: read as numbers, although values begin with 0, as "
            f"{zeros[doubtful[0]]!r}. If they are codes, read them as text: {first_few(options, ' ')}"
        )
    if doubtful := columns["identifiers"]:
        yield (
            f"{quoted(doubtful)}: a different value in every row, as identifiers have. Leave identifiers "
            f"out: {_drop_options(doubtful)}"
        )


def _drop_options(names: Sequence[str]) -> str:
    return first_few([f"--drop {shlex.quote(name)}" for name in names], " ")


def _problem(column: Any) -> str | None:
    """Return why a column is probably not a feature: "numbers", "dates", "identifiers" or None."""
    import pandas as pd

    values = column.dropna()
    is_text = values.dtype.kind == "O" and not isinstance(values.dtype, pd.CategoricalDtype)
    if is_text:
        sample = values.iloc[:: max(len(values) // _SAMPLE, 1)].astype(str)
        if (kind := kind_of_texts(sample)) is not None:
            return kind
    if len(values) >= _MIN_ROWS and (is_text or values.dtype.kind in "iu") and values.is_unique:
        return "identifiers"
    return None
