"""`fairspan fit`: train a fair model on a table, and write it to a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairspan.cli import common
from fairspan.cli.messages import collect_warnings
from fairspan.cli.read_options import ColumnOptions, InputOptions, expand_options
from fairspan.cli.training import (
    FOR_NUMBERS,
    Model,
    check_known_groups,
    decision_parameters,
    equal_line,
    make_estimator,
    print_notes,
    print_unused,
    print_written,
    what_to_equalize,
)

if TYPE_CHECKING:
    from fairspan.cli import tables


@expand_options
def fit_command(
    *,
    data: InputOptions,
    columns: ColumnOptions,
    protected_probability: common.ProtectedProbability = None,
    model: Model = "kernel",
    criterion: common.Criterion = "statistical_parity",
    fairness: Annotated[
        float | None, typer.Option(help=common.parameter_help("fairness", "1 if not given."))
    ] = None,
    max_correlation: Annotated[
        float | None,
        typer.Option(
            help="Instead of --fairness, for scores: largest correlation of the score with a group."
        ),
    ] = None,
    equalize: common.Equalize = "auto",
    max_gap: Annotated[
        str | None,
        typer.Option(
            help="Instead of --fairness, for decisions: largest difference between the rates of two groups, "
            "as 0.05; or for attributes by name, as sex=0.02,race=0.05."
        ),
    ] = None,
    min_ratio: Annotated[
        str | None,
        typer.Option(
            help="Instead of --fairness, for decisions: smallest ratio of the rates of two groups, as 0.8; "
            "or for attributes by name."
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            help="Keep --max-gap, --min-ratio or --max-correlation on new rows with this confidence, as "
            "0.95."
        ),
    ] = None,
    selection_rate: common.SelectionRate = None,
    out: Annotated[Path, typer.Option(help="File for the model.")] = Path("model.skops"),
    with_moments: common.WithMoments = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="Hold rows out, and audit the model on them.")
    ] = False,
    test_share: Annotated[float, typer.Option(help="Share of rows that --audit holds out.")] = 0.25,
    parts: common.Parts = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="JSON file for the audit; without --audit, for the model's columns and certificate. - "
            "is standard output.",
        ),
    ] = None,
    markdown: common.Markdown = None,
    plot: common.Plot = None,
    seed: common.Seed = 0,
) -> None:
    """Fit a fair model on a table; with --audit, test it on held-out rows."""
    from fairspan.cli import checks, tables
    from fairspan.cli.evaluation import write_audit
    from fairspan.cli.read import Input
    from fairspan.estimators.named import set_equalize
    from fairspan.exceptions import DataWarning, warn_user
    from fairspan.report import held_out_rows
    from fairspan.report.training import by_stratum, fit_model

    given = Input.of(data)
    files = common.AuditFiles(json_file, markdown, plot)
    if not audit and (parts or markdown or plot):
        raise ValueError("--parts, --markdown and --plot are about the audit: pass --audit too.")
    files.check()
    audit_parts = common.read_parts(parts)
    common.check_model_file(out)
    common.check_distinct(given.files, {"--out": out, **files.by_option})
    common.check_kind(out, "--out", common.MODEL_KINDS)
    common.check_fairness(fairness)
    limit = {
        "max_gap": common.read_limit(max_gap, "--max-gap"),
        "min_ratio": common.read_limit(min_ratio, "--min-ratio"),
    }
    dial = _dial_parameters(fairness, max_correlation, limit)
    limit |= {"max_correlation": max_correlation}
    equalize = what_to_equalize(equalize, limit | {"selection_rate": selection_rate})
    check_known_groups(protected_probability, equalize)
    decisions = decision_parameters(equalize, selection_rate)
    limit = _limits(limit, confidence, equalize)
    table = tables.read_training_table(
        given,
        columns,
        numeric_target=model in FOR_NUMBERS,
        probability=protected_probability,
    )
    roles, sensitive_kind = table.roles, table.sensitive_kind
    for name, value in limit.items():
        _check_attributes(name, value, roles.sensitive)
    estimator = make_estimator(
        model,
        table.frame,
        roles.target,
        table.kinds.target,
        criterion=criterion,
        sensitive_kind=sensitive_kind,
        pos_label=table.positive,
        missing_sensitive=columns.missing_protected,
        random_state=seed,
        verbose=int(sys.stderr.isatty()),
        **dial,
        **decisions,
    )
    train = test = table.frame
    if audit:
        held_out = held_out_rows(
            table.frame,
            [roles.target, *roles.sensitive],
            kinds=table.kinds.protected,
            share=test_share,
            seed=seed,
            says="--test-share ",
        )
        train, test = table.frame[~held_out], table.frame[held_out]
    if columns.control and not (by_stratum(estimator) or audit):
        msg = "--control is for --audit, or for --criterion conditional_statistical_parity."
        raise ValueError(msg)
    set_equalize(estimator, equalize, int(table.frame[roles.target].nunique()))
    favourable = table.favourable(estimator)
    if favourable is not None:
        estimator.set_params(pos_label=favourable.label)
    print_notes(table, favourable)
    with collect_warnings() as warnings_seen:
        for text in checks.target_copies(table.frame, roles):
            warn_user(text, DataWarning)
        fit_model(estimator, train, roles, table.name, or_scores=equalize == "auto")
        if limit:
            estimator = estimator.at(**limit)
    common.print_warnings(warnings_seen)
    from fairspan.persistence import save_model

    save_model(estimator, out, keep_moments=with_moments)
    print_line = common.print_status if files.to_stdout else common.print_result
    split = f", {len(test):,} of them held out (--test-share {test_share:g})" if audit else ""
    print_line(f"{table.name}: {len(table.frame):,} rows{split}")
    _print_model(estimator, table, print_line)
    print_written(out, print_line)
    if audit:
        print_line("")
        write_audit(
            files,
            estimator,
            favourable,
            table.words,
            **tables.audit_arguments(test, roles.features, table.named),
            sensitive_kind=sensitive_kind,
            parts=audit_parts,
            missing_sensitive=columns.missing_protected,
            random_state=seed,
        )
    elif json_file is not None:
        result = {
            "model": str(out),
            "estimator": type(estimator).__name__,
            "rows": len(table.frame),
            "target": roles.target,
            "features": list(roles.features),
            "protected": estimator.sensitive_kinds_,
            "favourable": None if favourable is None else asdict(favourable),
            "certificate": estimator.certificate_.to_dict(),
        }
        common.write_json(json_file, result)
        if json_file != common.STDOUT:
            print_line(f"Numbers written to {json_file}")


def _dial_parameters(
    fairness: float | None, max_correlation: float | None, limits: dict[str, Any]
) -> dict[str, Any]:
    given = {"--fairness": fairness, "--max-correlation": max_correlation}
    given |= {f"--{name.replace('_', '-')}": value for name, value in limits.items()}
    options = [option for option, value in given.items() if value is not None]
    if len(options) > 1:
        msg = f"{options[0]} and {options[1]} exclude each other; give one of them."
        raise ValueError(msg)
    common.check_fairness(max_correlation, "--max-correlation")
    if max_correlation is not None:
        return {"fairness": 1.0 - max_correlation, "dial": "correlation"}
    return {"fairness": 1.0 if fairness is None else fairness}


def _check_attributes(name: str, limit: Any, protected: Sequence[str]) -> None:
    """Raise if a limit is for a column that is not protected."""
    for attribute in limit if isinstance(limit, dict) else ():
        if attribute not in protected:
            msg = (
                f"--{name.replace('_', '-')} names {attribute!r}, which is no protected attribute; these are "
                f"{', '.join(map(repr, protected))}."
            )
            raise ValueError(msg)


def _limits(limits: dict[str, Any], confidence: float | None, equalize: str) -> dict[str, Any]:
    """Arguments of ``at`` for a limit that is kept after the fit; raise if options do not go together."""
    from fairspan.inputs.checks import check_confidence

    limits = {name: value for name, value in limits.items() if value is not None}
    on_rates = "max_correlation" not in limits
    if limits and on_rates and equalize == "scores":
        msg = "--max-gap and --min-ratio limit the rates of decisions: leave --equalize scores out."
        raise ValueError(msg)
    if confidence is None:
        return limits if on_rates else {}
    check_confidence(confidence)
    if not limits:
        msg = "--confidence goes with a limit: --max-gap, --min-ratio or --max-correlation."
        raise ValueError(msg)
    return {**limits, "confidence": confidence}


def _print_model(
    estimator: Any, table: tables.TrainingTable, print_line: Callable[[str], None]
) -> None:
    """Print the model, how it reads the columns, and its certificate."""
    from fairspan.cli import column_kinds

    classes = getattr(estimator, "classes_", None)
    kind = "a number"
    if classes is not None:
        kind = f"{len(classes)} classes: {common.quoted(classes.tolist())}"
    groups = ", ".join(
        f"{name} ({column_kinds.describe_kind(table.frame, name, kind)})"
        for name, kind in estimator.sensitive_kinds_.items()
    )
    print_line(f"{type(estimator).__name__} of {table.roles.target} ({kind})")
    print_line(f"Features ({len(table.roles.features)}): {common.first_few(table.roles.features)}")
    print_unused(table, print_line)
    print_line(f"Protected: {groups}")
    print_line(column_kinds.KIND_HINT)
    if classes is not None:
        print_line(equal_line(estimator))
    print_line(f"\n{estimator.certificate_}\n")
