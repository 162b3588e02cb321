"""`fairspan explore` and `fairspan fit`: train a fair model on a table."""

from __future__ import annotations

import math
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairspan._system import printable_json
from fairspan.cli import common, read_options

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
# A target with more different texts is a name or a remark, not a class.
_MAX_CLASSES = 100
_DIALS_SHOWN = (0.0, 0.25, 0.5, 0.75, 1.0)

# Models that suit any target.
_FOR_ANY = ("kernel", "auto", "boosting")
# Models that predict numbers.
_FOR_NUMBERS = ("gp", "ridge")
Model = Annotated[
    str,
    typer.Option(
        help="kernel: a Gaussian process. boosting: boosted trees. auto: boosted trees and a kernel "
        "together, often the most accurate on tables, and slower. Or one of "
        f"{', '.join(MODELS)}."
    ),
]


def explore_command(
    data: read_options.Data = None,
    target: common.Target = None,
    protected: common.Protected = None,
    criterion: common.Criterion = "statistical_parity",
    positive: common.Positive = None,
    out: Annotated[Path, typer.Option(help="File for the report.")] = Path("report.html"),
    save_model: Annotated[
        Path | None, typer.Option(help="File for the model at --fairness, too.")
    ] = None,
    with_moments: common.WithMoments = False,
    fairness: Annotated[
        float, typer.Option(help=common.parameter_help("fairness", "The slider starts there, too."))
    ] = 1.0,
    equalize: common.Equalize = "auto",
    selection_rate: common.SelectionRate = None,
    control: common.Control = None,
    weight: common.Weight = None,
    features: common.Features = None,
    drop: common.Drop = None,
    kind: common.Kind = None,
    model: Model = "kernel",
    test_share: Annotated[float, typer.Option(help="Share of rows held out.")] = 0.25,
    points: Annotated[int, typer.Option(help="Number of dial values of the slider.")] = 41,
    parts: common.Parts = None,
    json_file: common.Json = None,
    keep: read_options.Keep = None,
    dictionary: read_options.Dictionary = None,
    date_parts: read_options.DateParts = None,
    sep: read_options.Sep = None,
    decimal: read_options.Decimal = None,
    encoding: read_options.Encoding = None,
    sheet: read_options.Sheet = None,
    sql: read_options.Sql = None,
    database: read_options.Database = None,
    drop_missing: common.DropMissing = False,
    data_home: common.DataHome = None,
    seed: common.Seed = 0,
) -> None:
    """Show what fairness costs: one page with a slider, from one fit on a table."""
    from fairspan.cli import tables
    from fairspan.cli.read import Input
    from fairspan.method.problem import canonical_criterion
    from fairspan.report import explore
    from fairspan.report.pipeline import check_options

    given = Input(
        data,
        data_home,
        sep=sep,
        decimal=decimal,
        encoding=encoding,
        sheet=sheet,
        sql=sql,
        database=database,
    )
    common.check_output_file(out, "--out")
    common.check_json(json_file)
    if save_model is not None:
        common.check_model_file(save_model, "--save-model")
    outputs = {"--out": out, "--json": json_file, "--save-model": save_model}
    common.check_distinct(given.files, outputs)
    common.check_kind(out, "--out", common.PAGE_KINDS)
    common.check_kind(save_model, "--save-model", common.MODEL_KINDS)
    common.check_fairness(fairness)
    audit_parts = common.read_parts(parts)
    table = tables.read_training_table(
        given,
        target=target,
        protected=protected,
        control=control,
        weight=weight,
        features=features,
        drop=drop,
        kind=kind,
        drop_missing=drop_missing,
        positive=positive,
        keep=keep,
        dictionary=dictionary,
        date_parts=date_parts,
        numeric_target=model in _FOR_NUMBERS,
    )
    check_options(points, seed, fairness, test_share)
    canonical_criterion(criterion)
    roles, sensitive_kind = table.roles, table.kinds.protected or "auto"
    equalize = _what_to_equalize(equalize, {"selection_rate": selection_rate})
    estimator = make_estimator(
        model,
        table.frame,
        roles.target,
        table.kinds.target,
        criterion=criterion,
        pos_label=table.positive,
        sensitive_kind=sensitive_kind,
        random_state=seed,
        **_decision_parameters(equalize, selection_rate),
    )
    print_line = common.print_status if json_file == common.STDOUT else common.print_result
    _print_notes(table, table.favourable(estimator))
    groups = ", ".join(roles.sensitive)
    n, n_features = len(table.frame), len(roles.features)
    print_line(f"{table.name}: {n:,} rows; {roles.target} from {n_features} columns; {groups}")
    _print_unused(table, print_line)

    with common.collect_warnings() as warnings_seen:
        # All rows: the report itself states which are left out.
        report = explore(
            table.all_rows,
            target=roles.target,
            sensitive_features=roles.sensitive,
            control_features=roles.control or None,
            features=roles.features,
            sample_weight=roles.weight,
            pos_label=table.positive,
            model=estimator,
            equalize=equalize,
            sensitive_kind=sensitive_kind,
            fairness=fairness,
            n_points=points,
            test_share=test_share,
            audit_parts=audit_parts,
            random_state=seed,
            verbose=int(sys.stderr.isatty()),
            name=table.name,
            command=" ".join(["fairspan", *map(shlex.quote, sys.argv[1:])]),
            source=table.code,
            dictionary=table.words,
        )
    # Files come first: the reader of the printed lines may close the pipe after the first one.
    report.to_html(out)
    if json_file not in (None, common.STDOUT):
        report.to_json(json_file)
    if save_model is not None:
        from fairspan.persistence import save_model as write_model

        write_model(report.model, save_model, keep_moments=with_moments)
    common.print_warnings(warnings_seen)
    print_line(_kinds_line(report.study))
    if report.study["task"] != "regression":
        print_line(_equal_line(report.model))
    print_line(_dial_table(report.study, test_share))
    if save_model is not None:
        _print_written(save_model, print_line)
    if json_file == common.STDOUT:
        common.write_stdout(printable_json(report.to_json()))
    elif json_file is not None:
        print_line(f"Numbers written to {json_file}")
    size, address = out.stat().st_size / 1e6, out.resolve().as_uri()
    print_line(f"Report written to {out} ({size:.1f} MB). Open it in a browser: {address}")


def fit_command(
    data: read_options.Data = None,
    target: common.Target = None,
    protected: common.Protected = None,
    protected_probability: common.ProtectedProbability = None,
    control: common.Control = None,
    weight: common.Weight = None,
    features: common.Features = None,
    drop: common.Drop = None,
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
    positive: common.Positive = None,
    kind: common.Kind = None,
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
    keep: read_options.Keep = None,
    dictionary: read_options.Dictionary = None,
    date_parts: read_options.DateParts = None,
    sep: read_options.Sep = None,
    decimal: read_options.Decimal = None,
    encoding: read_options.Encoding = None,
    sheet: read_options.Sheet = None,
    sql: read_options.Sql = None,
    database: read_options.Database = None,
    drop_missing: common.DropMissing = False,
    data_home: common.DataHome = None,
    seed: common.Seed = 0,
) -> None:
    """Fit a fair model on a table; with --audit, test it on held-out rows."""
    from fairspan.cli import checks, tables
    from fairspan.cli.evaluation import write_audit
    from fairspan.cli.read import Input
    from fairspan.exceptions import DataWarning, warn_user
    from fairspan.report import held_out_rows
    from fairspan.report.training import by_stratum, fit_model, set_equalize

    given = Input(
        data,
        data_home,
        sep=sep,
        decimal=decimal,
        encoding=encoding,
        sheet=sheet,
        sql=sql,
        database=database,
    )
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
    equalize = _what_to_equalize(equalize, limit | {"selection_rate": selection_rate})
    if protected_probability and equalize == "auto":  # decisions need the group of each row
        equalize = "scores"
    decisions = _decision_parameters(equalize, selection_rate)
    limit = _limits(limit, confidence, equalize)
    table = tables.read_training_table(
        given,
        target=target,
        protected=protected,
        control=control,
        weight=weight,
        features=features,
        drop=drop,
        kind=kind,
        drop_missing=drop_missing,
        positive=positive,
        keep=keep,
        dictionary=dictionary,
        date_parts=date_parts,
        numeric_target=model in _FOR_NUMBERS,
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
    if control and not (by_stratum(estimator) or audit):
        msg = "--control is for --audit, or for --criterion conditional_statistical_parity."
        raise ValueError(msg)
    set_equalize(estimator, equalize, int(table.frame[roles.target].nunique()))
    favourable = table.favourable(estimator)
    if favourable is not None:
        estimator.set_params(pos_label=favourable.label)
    _print_notes(table, favourable)
    with common.collect_warnings() as warnings_seen:
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
    _print_written(out, print_line)
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


# ------------------------------------------------------------------ models


def make_estimator(
    choice: str, frame: Any, target: str, kind: str | None = None, **parameters: Any
) -> Any:
    """Return the unfitted model that ``--model`` names, for classes or numbers as the target has them."""
    from fairspan import estimators
    from fairspan.report.table import is_continuous
    from fairspan.report.training import named_model

    if choice not in (*_FOR_ANY, *MODELS):
        known = ", ".join((*_FOR_ANY, *MODELS))
        raise ValueError(f"--model {choice!r} is unknown; known are {known}.")
    numeric = choice in _FOR_NUMBERS
    if choice in _FOR_ANY:
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
    if choice in _FOR_ANY:
        return named_model(choice, numeric=numeric, **parameters)
    return getattr(estimators, MODELS[choice])(**parameters)


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


def _decision_parameters(equalize: str, selection_rate: float | None) -> dict[str, Any]:
    """Parameters that only classifiers have, if they are asked for."""
    given = {"equalize": equalize, "selection_rate": selection_rate}
    return {name: value for name, value in given.items() if value not in ("auto", "scores", None)}


def _what_to_equalize(equalize: str, options: dict[str, Any]) -> str:
    """What an option asks for that is about scores or about decisions alone, in place of "auto"."""
    given = {name for name, value in options.items() if value is not None}
    if equalize != "auto" or not given:
        return equalize
    return "scores" if "max_correlation" in given else "decisions"


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


# ------------------------------------------------------------------ printed lines


def _print_notes(table: tables.TrainingTable, favourable: Favourable | None) -> None:
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


def _print_written(path: Path, print_line: Callable[[str], None]) -> None:
    """Print where the model is, and how to load it if it has types that are not trusted by themselves."""
    from fairspan.persistence import untrusted_types

    print_line(f"Model written to {path} ({path.stat().st_size / 1e6:.1f} MB)")
    if names := untrusted_types(path):
        print_line(
            f"Its trees are read without checks, so load it only if you know where the file comes from:\n"
            f"  fairspan predict DATA --model {shlex.quote(str(path))} --trust {','.join(names)}\n"
            f"  fairspan.load_model({str(path)!r}, trusted={names!r})"
        )


def _print_unused(table: tables.TrainingTable, print_line: Callable[[str], None]) -> None:
    if unused := table.unused_columns:
        print_line(f"Columns not used ({len(unused)}): {common.first_few(unused)}")


def _print_model(
    estimator: Any, table: tables.TrainingTable, print_line: Callable[[str], None]
) -> None:
    """Print the model, how it reads the columns, and its certificate."""
    from fairspan.cli import tables

    classes = getattr(estimator, "classes_", None)
    kind = "a number"
    if classes is not None:
        kind = f"{len(classes)} classes: {common.quoted(classes.tolist())}"
    groups = ", ".join(
        f"{name} ({tables.describe_kind(table.frame, name, kind)})"
        for name, kind in estimator.sensitive_kinds_.items()
    )
    print_line(f"{type(estimator).__name__} of {table.roles.target} ({kind})")
    print_line(f"Features ({len(table.roles.features)}): {common.first_few(table.roles.features)}")
    _print_unused(table, print_line)
    print_line(f"Protected: {groups}")
    print_line(tables.KIND_HINT)
    if classes is not None:
        print_line(_equal_line(estimator))
    print_line(f"\n{estimator.certificate_}\n")


def _equal_line(estimator: Any) -> str:
    """Return what the model makes equal between groups, and the option that changes it."""
    what, other = ("decisions", "scores")
    if estimator.equalize == "scores":
        what, other = other, what
    return f"Made equal between groups: {what} (equalize='{what}'); --equalize {other} changes it."


def _kinds_line(study: dict[str, Any]) -> str:
    """Return how columns were read: features as counts, target and protected attributes by name."""
    from fairspan.cli import tables

    features = Counter(c["kind"] for c in study["columns"] if c["role"] == "feature")
    counts = ", ".join(f"{n} {kind}" for kind, n in features.most_common())
    labels = {a["name"]: [g["label"] for g in a["groups"]] for a in study["attributes"]}
    roles = ", ".join(
        f"{role} {common.shortened(c['name'])} ({_levels(c, words, labels.get(c['name'], ()))})"
        for role, words in (("target", "classes"), ("protected", "groups"))
        for c in study["columns"]
        if c["role"] == role
    )
    return f"Columns read as: features {counts}; {roles}. The report lists each. {tables.KIND_HINT}"


def _levels(column: dict[str, Any], words: str, labels: Sequence[str]) -> str:
    """Return the kind of a column in words, with groups that are numbers: they may be amounts."""
    if column["kind"] == "number":
        return "number"
    shown = f": {common.first_few(labels)}" if labels and all(map(_is_number, labels)) else ""
    return f"{column['levels']} {words}{shown}"


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def _dial_table(study: dict[str, Any], test_share: float) -> str:
    """Return a table of the error and the correlations or gaps at a few dial values."""
    import numpy as np

    dials, curves = np.array(study["fairness"]), study["tradeoff"]
    parity = curves["parity"]
    # A name as wide as a screen would break the table.
    word = "gap" if study["about"]["equalize"] == "decisions" else "corr."
    head = ["fairness", curves["error_name"], *(f"{word} {common.shortened(n)}" for n in parity)]
    body = [
        [f"{dials[i]:.2f}", *(_interval(curve, i) for curve in (curves["error"], *parity.values()))]
        for i in sorted({int(np.abs(dials - f).argmin()) for f in _DIALS_SHOWN})
    ]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in (head, *body)]
    n_test, level = study["about"]["n_test"], study["about"]["level"]
    title = f"Held-out rows ({n_test:,}, --test-share {test_share:g}), with {level:.0%} intervals:"
    note = "- : too few held-out rows in a group (a larger --test-share gives more)"
    notes = [note] if any("-" in row for row in body) else []
    return "\n".join(["", title, *(text.rstrip() for text in lines), *notes, ""])


def _interval(curve: dict[str, list[float | None]], i: int) -> str:
    """Value and interval, with the decimals that show three digits of the largest number of the curve."""
    known = [abs(x) for key in ("value", "low", "high") for x in curve[key] if x is not None]
    largest = max(known, default=0.0)
    decimals = 3 if largest < 1.0 else max(2 - math.floor(math.log10(largest)), 0)
    value, low, high = (curve[key][i] for key in ("value", "low", "high"))
    if value is None:
        return "-"
    if low is None or high is None:
        return f"{value:.{decimals}f}"
    return f"{value:.{decimals}f} ({low:.{decimals}f} to {high:.{decimals}f})"
