"""Columns and rows of a table as the options ask for them: roles, kinds, labels, complete rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from fairspan._system import MISSING_WORDS
from fairspan.cli.column_kinds import (
    Kinds,
    Named,
    columns_as_text,
    match_label,
    no_numbers,
    read_kinds,
    set_kinds,
)
from fairspan.cli.common import check_missing, first_few, print_status, quoted, split_commas
from fairspan.cli.probabilities import ProbabilityColumns, read_probability_columns
from fairspan.cli.read import Input, Source, read_data
from fairspan.cli.read_options import ColumnOptions
from fairspan.encoding import table_encoder
from fairspan.exceptions import FairspanWarning
from fairspan.inputs.columns import require_columns
from fairspan.method.problem import canonical_criterion
from fairspan.report import complete_rows, join_small_groups
from fairspan.report.table import Roles
from fairspan.report.training import Favourable, choose_favourable
from fairspan.streaming.sources import check_one_role
from fairspan.tables.columns import is_dates, unlearnable, with_date_parts
from fairspan.tables.dictionary import ColumnWords, check_labels, read_dictionary

_MISSING_WORDS = ", ".join(["Empty fields", *(word for word in MISSING_WORDS if word)])

_NO_WORDS = ColumnWords()
_ANY = ("", "identifier")  # kinds that do not make a column a feature


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
    options: ColumnOptions,
    *,
    numeric_target: bool = False,
    probability: list[str] | None = None,
) -> TrainingTable:
    """Read DATA and check all options about its columns before a model is fitted.

    Parameters
    ----------
    given : DATA and how to read it.
    options : roles and kinds of its columns.
    numeric_target : the model predicts numbers, so that labels are no text.
    probability : ``--protected-probability``.
    """
    check_missing(options.missing_protected)
    source = read_data(given)
    words = read_words(options.dictionary, source)
    target = options.target or source.target
    if target is None:
        raise ValueError("--target is missing: name the column to predict, as --target repaid.")
    probable = read_probability_columns(probability, list(source.frame.columns))
    protected = [*(options.protected or ()), *probable.columns] or list(source.protected)
    named = find_roles(
        source.frame,
        target=target,
        protected=protected,
        control=options.control,
        weight=options.weight,
    )
    chosen = read_kinds(source.frame, options.kind, words) | probable.as_numbers
    text, notes = columns_as_text(source, chosen, named, numeric_target)
    if text:
        # Read again now that the columns are known: as a number, "01" would be the category "1".
        source = read_data(given, text, quiet=True)
    all_rows, lines = _with_parts(source.frame, options.date_parts, named)
    learned, left_out = _find_features(all_rows, named, options, words)
    all_rows, kinds = set_kinds(all_rows, chosen, named)
    frame = drop_incomplete_rows(
        all_rows, named, drop=options.drop_missing, missing=options.missing_protected
    )
    frame, joined = join_small_groups(frame, named["protected"], kinds.protected)
    check_features(frame, learned)
    if frame[target].nunique() < 2:
        msg = f"The target {target!r} is the same in every row: nothing can be learned."
        raise ValueError(msg)
    positive = options.positive
    if positive is not None:
        positive = match_label(positive, frame[target], repr(target))
    roles = Roles(
        target=target,
        sensitive=tuple(named["protected"]),
        control=tuple(named["control"]),
        weight=options.weight,
        features=tuple(learned),
        probable=probable.by_attribute,
    )
    return TrainingTable(
        name=source.name,
        all_rows=all_rows,
        frame=frame,
        named=named,
        roles=roles,
        kinds=kinds,
        positive=positive,
        code="\n".join([source.code, *lines, *kinds.lines]),
        left_out=left_out,
        notes=(*notes, *joined),
        words=words,
        probable=probable,
    )


def read_words(dictionary: Path | None, source: Source) -> Mapping[str, ColumnWords]:
    """Return the words of ``--dictionary``; print the columns that the table does not have."""
    frame = source.frame
    if dictionary is None:
        return source.words
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
        raise ValueError(f"--date-parts: {str(error).replace('parts=', '')}") from error
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
    options: ColumnOptions,
    words: Mapping[str, ColumnWords],
) -> tuple[list[str], dict[str, str]]:
    """Return the columns to learn from, and those that are left out as no features, with the reason.

    These are the columns of ``--features``, or all without a role; identifiers and free text only with
    ``--keep``.
    """
    names = pick_columns(frame, options.features, "--features")
    dropped = pick_columns(frame, options.drop, "--drop")
    kept = pick_columns(frame, options.keep, "--keep")
    used = {"target": "the target", "protected": "a protected attribute", "weight": "the weight"}
    for option, chosen in (("--features", names), ("--keep", kept)):
        for role, word in used.items():
            for name in (name for name in roles[role] if name in chosen):
                msg = f"{option} names {name!r}, which is {word}: leave it out of the features."
                raise ValueError(msg)
        check_one_role({option: chosen, "--drop": dropped})
    if names:
        return [*names, *(name for name in kept if name not in names)], {}
    names = columns_without_role(frame, roles, options.drop)
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


# ------------------------------------------------------------------ rows


def drop_incomplete_rows(frame: Any, roles: Named, *, drop: bool, missing: str = "raise") -> Any:
    """Return the rows in which no column with a role is missing; raise if some are, unless ``drop``.

    ``missing`` is ``--missing-protected``: with "omit", protected attributes may be missing.
    """
    for role in ("weight", "scores"):
        for name in roles.get(role, ()):
            if frame[name].dtype.kind not in "biuf":
                raise no_numbers(f"--{role}", name, frame[name].iloc[0])
    used = [name for names in roles.values() for name in names]
    _check_finite(frame, used)
    optional = [] if missing == "raise" else list(roles["protected"])
    for name in optional:
        if n := int(frame[name].isna().sum()):
            print_status(
                f"{name} is known for {len(frame) - n:,} of {len(frame):,} rows; groups are compared on "
                f"these."
            )
    used = [name for name in used if name not in optional]
    gaps = frame[used].isna()
    counts = {name: int(n) for name, n in gaps.sum().items() if n}
    if not counts:
        return complete_rows(frame, [], optional)
    n_incomplete = int(gaps.any(axis=1).sum())
    columns = ", ".join(f"{name!r} ({n:,})" for name, n in counts.items())
    if not drop:
        also = ""
        if missing == "raise" and set(counts) <= set(roles["protected"]):
            also = ", or --missing-protected omit to learn from them without comparing their groups"
        raise ValueError(
            f"{n_incomplete:,} of {len(frame):,} rows miss a value of {columns}. Fill them in, or pass "
            f"--drop-missing to leave those rows out{also}. ({_MISSING_WORDS} of a CSV file count as "
            f"missing; a group of such a name needs another name.)"
        )
    frame = complete_rows(frame, used, optional)
    if frame.empty:
        raise ValueError(f"Every row misses a value of {columns}; no rows are left.")
    some = "1 row that misses" if n_incomplete == 1 else f"{n_incomplete:,} rows that miss"
    print_status(f"Left out {some} a value of {columns}.")
    return frame
