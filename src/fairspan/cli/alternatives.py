"""`fairspan alternatives`: a model in use beside models of fairspan on the same held-out rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fairspan._system import printable_json
from fairspan.cli import common
from fairspan.cli.evaluation import favourable_class, print_roles, read_for_audit
from fairspan.cli.messages import collect_warnings
from fairspan.cli.models import load_model_file
from fairspan.cli.read_options import Dictionary, InputOptions, Keep, expand_options

SEARCHES = ("kernel", "auto", "boosting")


@expand_options
def alternatives_command(
    *,
    data: InputOptions,
    target: common.Target = None,
    protected: common.Protected = None,
    scores: Annotated[
        str | None,
        typer.Option(
            help="Column of the scores of the model in use, larger for the favourable class; for a numeric "
            "target, of its predictions."
        ),
    ] = None,
    decisions: Annotated[
        str | None,
        typer.Option(help="Instead of --scores: column of its decisions, labelled as the target."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Instead of a column: model file of `fairspan fit` or save_model."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="With --scores: decide in favour where the score is at least this."),
    ] = None,
    search: Annotated[
        str,
        typer.Option(
            help="The alternatives: kernel, boosting, or auto (boosted trees and a kernel together, often "
            "the most accurate, and slower)."
        ),
    ] = "kernel",
    criterion: common.Criterion = "statistical_parity",
    weight: common.Weight = None,
    drop: common.Drop = None,
    keep: Keep = None,
    kind: common.Kind = None,
    dictionary: Dictionary = None,
    positive: common.Positive = None,
    drop_missing: common.DropMissing = False,
    trust: common.Trust = None,
    test_share: Annotated[float, typer.Option(help="Share of rows held out.")] = 0.25,
    level: Annotated[float, typer.Option(help="Confidence level of intervals.")] = 0.95,
    min_rows: Annotated[
        int, typer.Option(help="Groups with fewer rows are left out of gaps.")
    ] = 30,
    json_file: common.Json = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Markdown file for the result; - is standard output.")
    ] = None,
    seed: common.Seed = 0,
) -> None:
    """Look for models with a smaller gap or error than the model in use, on rows neither was fitted on."""
    from fairspan.auditing.alternatives import SearchSettings, alternatives
    from fairspan.cli import checks, column_kinds, tables
    from fairspan.cli.read import Input
    from fairspan.inputs.columns import require_columns
    from fairspan.tables.columns import date_parts_of, unlearnable

    given = Input.of(data)
    _check_incumbent(scores, decisions, model, threshold)
    files = common.AuditFiles(json_file, markdown, None)
    files.check()
    common.check_distinct({**given.files, "--model": model}, files.by_option)
    if search not in SEARCHES:
        raise ValueError(f"--search {search} is not allowed; give {', '.join(SEARCHES)}.")
    settings = SearchSettings(
        search=search,
        criterion=criterion,
        threshold=threshold,
        test_share=test_share,
        level=level,
        min_rows=min_rows,
        random_state=seed,
    )
    fitted, names = (None, []) if model is None else load_model_file(model, trust)
    source = read_for_audit(given, fitted, target, protected, kind)
    target = target or source.target
    if target is None:
        raise ValueError("--target is missing: name the column of the true outcome.")
    roles = tables.find_roles(
        source.frame,
        target=target,
        protected=protected or source.protected,
        control=None,
        weight=weight,
        scores=scores,
        decisions=decisions,
    )
    others = tables.columns_without_role(source.frame, roles, drop)
    words = tables.read_words(dictionary, source)
    frame = date_parts_of(source.frame, names)
    frame, kinds = column_kinds.set_kinds(frame, column_kinds.read_kinds(frame, kind, words), roles)
    frame = tables.drop_incomplete_rows(frame, roles, drop=drop_missing)
    if model is not None:
        require_columns(names, frame.columns, f"{model} was fitted with")
        features, left_out = names, {}
    else:
        kept = tables.pick_columns(frame, keep, "--keep")
        left_out = unlearnable(frame, [name for name in others if name not in kept])
        features = [name for name in others if name not in left_out]
    tables.check_features(frame, features)
    if decisions:
        column_kinds.check_decisions(frame, decisions, target)
    favourable = favourable_class(fitted, frame, roles, positive, str(model))
    if favourable is not None:
        common.print_status(favourable.sentence(common.POSITIVE))
    print_roles(frame, roles, kinds, fitted)
    for text in checks.left_out_note(left_out):
        common.print_status(text)
    if column := scores or decisions:
        common.print_status(f"{column} is the model in use, so it is not among the features.")
    common.print_status(f"Features ({len(features)}): {common.first_few(features)}")
    arguments = tables.audit_arguments(frame, features, roles)
    del arguments["control_features"]
    incumbent: Any = fitted
    if model is None:
        incumbent = frame[column].to_numpy()
    if decisions:
        # Numbers alone would be taken for scores. Objects are comparable only with objects.
        incumbent = incumbent.astype(object)
        arguments["y"] = arguments["y"].to_numpy().astype(object)
    with collect_warnings() as warnings_seen:
        result = alternatives(
            incumbent,
            **arguments,
            pos_label=None if favourable is None else favourable.label,
            sensitive_kind=kinds.protected or "auto",
            **{name: getattr(settings, name) for name in settings.__dataclass_fields__},
        )
    if column:
        result = replace(result, incumbent=column)
    common.print_warnings(warnings_seen)
    if not files.to_stdout:
        common.print_result(repr(result))
    for path, to_text in ((files.json, result.to_json), (files.markdown, result.to_markdown)):
        if path == common.STDOUT:
            common.write_stdout(printable_json(to_text()))
        elif path is not None:
            to_text(path)
    written = [str(path) for path in files if path not in (None, common.STDOUT)]
    if written:
        line = f"Alternatives written to {', '.join(written)}"
        common.print_status(line) if files.to_stdout else common.print_result(f"\n{line}")


def _check_incumbent(
    scores: str | None, decisions: str | None, model: Path | None, threshold: float | None
) -> None:
    """Raise unless exactly one option names the model in use."""
    options = {"--scores": scores, "--decisions": decisions, "--model": model}
    given = [option for option, value in options.items() if value is not None]
    if not given:
        raise ValueError(
            "There is no model to compare with: pass --scores COLUMN, --decisions COLUMN or --model FILE."
        )
    if len(given) > 1:
        hint = ""
        if "--model" not in given:
            hint = " --scores COLUMN --threshold NUMBER makes decisions from scores."
        raise ValueError(f"{given[0]} and {given[1]} exclude each other; give one of them.{hint}")
    if threshold is not None and scores is None:
        raise ValueError("--threshold makes decisions from scores: pass --scores COLUMN too.")
