"""Parts of `fairspan explore` and `fairspan fit`: the model that they train, and lines about it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairspan.cli import common

if TYPE_CHECKING:
    from fairspan.cli import tables
    from fairspan.report.training import Favourable

# Estimators of `fairspan.estimators`.
MODELS = {
    "ridge": "FairRidge",
    "ridge-classifier": "FairRidgeClassifier",
    "gp": "FairGPRegressor",
    "gp-classifier": "FairGPClassifier",
}
# Models that suit any target, and models that predict numbers.
FOR_ANY = ("kernel", "auto", "boosting")
FOR_NUMBERS = ("gp", "ridge")
# A target with more different texts is a name or a remark, not a class.
_MAX_CLASSES = 100
Model = Annotated[
    str,
    typer.Option(
        help="kernel: a Gaussian process. boosting: boosted trees. auto: boosted trees and a kernel "
        "together, often the most accurate on tables, and slower. Or one of "
        f"{', '.join(MODELS)}."
    ),
]


def make_estimator(
    choice: str, frame: Any, target: str, kind: str | None = None, **parameters: Any
) -> Any:
    """Return the unfitted model that ``--model`` names, for classes or numbers as the target has them."""
    from fairspan import estimators
    from fairspan.estimators.named import named_model
    from fairspan.report.table import is_continuous

    if choice not in (*FOR_ANY, *MODELS):
        known = ", ".join((*FOR_ANY, *MODELS))
        raise ValueError(f"--model {choice!r} is unknown; known are {known}.")
    numeric = choice in FOR_NUMBERS
    if choice in FOR_ANY:
        numeric = is_continuous(frame, target) if kind is None else kind == "continuous"
        if not numeric and (n := frame[target].nunique()) > _MAX_CLASSES:
            example = str(frame[target].iloc[0])
            msg = f"The target {target!r} holds {n:,} different texts, as {example!r}: no classes."
            raise ValueError(msg)
    if numeric and {"equalize", "selection_rate"} & parameters.keys():
        raise ValueError(
            f"Equal decisions (--equalize decisions, --max-gap, --min-ratio, --selection-rate) are for "
            f"classes, but {choice} predicts the target {target!r} as a number."
        )
    if choice in FOR_ANY:
        return named_model(choice, numeric=numeric, **parameters)
    return getattr(estimators, MODELS[choice])(**parameters)


def decision_parameters(equalize: str, selection_rate: float | None) -> dict[str, Any]:
    """Parameters that only classifiers have, if they are asked for."""
    given = {"equalize": equalize, "selection_rate": selection_rate}
    return {name: value for name, value in given.items() if value not in ("auto", "scores", None)}


def what_to_equalize(equalize: str, options: dict[str, Any]) -> str:
    """What an option asks for that is about scores or about decisions alone, in place of "auto"."""
    given = {name for name, value in options.items() if value is not None}
    if equalize != "auto" or not given:
        return equalize
    return "scores" if "max_correlation" in given else "decisions"


def check_known_groups(probability: Sequence[str] | None, equalize: str) -> None:
    """Raise if decisions are to be equal between groups that are known as probabilities."""
    if probability and equalize == "decisions":
        raise ValueError(
            "--protected-probability is for equal scores: rules for decisions (--equalize decisions, "
            "--max-gap, --min-ratio, --selection-rate) are chosen by rows whose group is known. Leave these "
            "options out."
        )


def print_notes(table: tables.TrainingTable, favourable: Favourable | None) -> None:
    """Print doubtful columns, the favourable class and missing values on standard error."""
    from fairspan.cli import checks, tables

    for text in (*table.notes, *checks.left_out_note(table.left_out)):
        common.print_status(text)
    for text in checks.constant_note(table.frame, table.roles.features):
        common.print_status(text)
    common.print_warnings(checks.doubtful_columns(table.frame, table.roles.features))
    protected = table.roles.sensitive
    common.print_warnings(checks.code_like(table.frame, protected, table.kinds.protected))
    if favourable is not None:
        common.print_status(favourable.sentence(common.POSITIVE))
    for text in tables.missing_values_note(table.frame, table.roles.features):
        common.print_status(text)


def print_written(path: Path, print_line: Callable[[str], None]) -> None:
    """Print where the model is, and how to load it if it has types that are not trusted by themselves."""
    from fairspan.persistence import untrusted_types

    print_line(f"Model written to {path} ({path.stat().st_size / 1e6:.1f} MB)")
    if names := untrusted_types(path):
        print_line(
            f"Its trees are read without checks, so load it only if you know where the file comes from:\n"
            f"  fairspan predict DATA --model {shlex.quote(str(path))} --trust {','.join(names)}\n"
            f"  fairspan.load_model({str(path)!r}, trusted={names!r})"
        )


def print_unused(table: tables.TrainingTable, print_line: Callable[[str], None]) -> None:
    """Print columns that are neither features nor have a role."""
    if unused := table.unused_columns:
        print_line(f"Columns not used ({len(unused)}): {common.first_few(unused)}")


def equal_line(estimator: Any) -> str:
    """Return what the model makes equal between groups, and the option that changes it."""
    from fairspan.inputs.probabilities import has_probabilities

    what, other = ("decisions", "scores")
    if estimator.equalize == "scores":
        what, other = other, what
    if has_probabilities(estimator.sensitive_kind):
        return f"Made equal between groups: {what} (equalize='{what}'); decisions need the group of each row."
    return f"Made equal between groups: {what} (equalize='{what}'); --equalize {other} changes it."
