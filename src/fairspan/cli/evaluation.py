"""`fairspan predict` and `fairspan audit`: apply a saved model, or measure what it does to groups."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairspan._system import atomic_write, is_formula, printable_json
from fairspan.cli import common
from fairspan.cli.messages import collect_warnings, for_command
from fairspan.cli.models import load_model_file
from fairspan.cli.read_options import Dictionary, InputOptions, Keep, expand_options

if TYPE_CHECKING:
    from fairspan.cli import column_kinds
    from fairspan.cli.read import Input, Source
    from fairspan.estimators.receipts import FairnessReceipt
    from fairspan.report.training import Favourable
    from fairspan.tables.dictionary import ColumnWords


MARGIN = "margin of the rule"


@expand_options
def predict_command(
    *,
    data: InputOptions,
    model: Annotated[
        Path, typer.Option(help="Model file of `fairspan fit`, `fairspan explore` or save_model.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="CSV file for the predictions; standard output if not given."),
    ] = None,
    json_file: common.Json = None,
    fairness: Annotated[
        float | None,
        typer.Option(
            help=common.parameter_help("fairness", "That of the saved model if not given.")
        ),
    ] = None,
    receipts: Annotated[
        bool,
        typer.Option(
            "--receipts",
            help="Add what fairness changed in each score: before, after, a part for each protected "
            "attribute, rescaling.",
        ),
    ] = False,
    trust: common.Trust = None,
) -> None:
    """Predict the rows of a table with a saved model; needs no protected attribute."""
    from fairspan.cli import tables
    from fairspan.cli.read import Input, read_data, text_for
    from fairspan.estimators import FairRepresentation
    from fairspan.inputs.columns import require_columns
    from fairspan.tables.columns import date_parts_of

    given = Input.of(data)
    if out not in (None, common.STDOUT):
        common.check_output_file(out, "--out")
    common.check_json(json_file)
    common.check_distinct(given.files | {"--model": model}, {"--out": out, "--json": json_file})
    common.check_kind(out, "--out", common.TABLE_KINDS)
    common.check_fairness(fairness)
    if out in (None, common.STDOUT) and json_file == common.STDOUT:
        out = None
    fitted, names = load_model_file(model, trust)
    frame = date_parts_of(read_data(given, text_for(fitted)).frame, names)
    require_columns(names, frame.columns, f"{model} was fitted with")
    tables.check_features(frame, names)
    if isinstance(fitted, FairRepresentation):
        msg = f"{model} holds a FairRepresentation, which makes features and predicts nothing."
        raise ValueError(msg)
    with collect_warnings() as warnings_seen:
        if fairness is not None:
            fitted = fitted.at(fairness)
        columns = _predictions(fitted, frame[names])
        receipt = _receipt(fitted, frame[names], model) if receipts else None
    words = [] if receipt is None else [_receipt_words(receipt)]
    if receipt is not None:
        columns |= {name: values.tolist() for name, values in receipt.to_dict().items()}
    common.print_warnings(warnings_seen)
    for text in (*tables.missing_values_note(frame, names), *_explanation(fitted), *words):
        common.print_status(text)
    if json_file is not None:
        common.write_json(json_file, columns, indent=None)
    if out is not None or json_file is None:
        labels = dict.fromkeys(columns["prediction"])
        quoted = [repr(label) for label in labels if isinstance(label, str) and is_formula(label)]
        if quoted:
            common.print_status(
                f"Warning: a spreadsheet would run the label {common.first_few(quoted)} as a formula, so the "
                f"CSV file has a quote before it. Rename the label, or use --json, which has it as it is."
            )
        common.write_text(out or common.STDOUT, _as_csv(columns))
    for path in (out, json_file):
        if path not in (None, common.STDOUT):
            common.print_status(f"Predictions of {len(frame):,} rows written to {path}")


def _predictions(model: Any, X: Any) -> dict[str, list[Any]]:
    """Return columns: the row of the file from 1, the prediction, a number for each class."""
    import numpy as np

    out: dict[str, list[Any]] = {"row": list(range(1, len(X) + 1))}
    out["prediction"] = np.asarray(model.predict(X)).tolist()
    classes = getattr(model, "classes_", None)
    if classes is None:
        return out
    if _decides(model):
        margins = np.asarray(model.decision_function(X))
        if margins.ndim == 1:
            out[MARGIN] = margins.tolist()
        else:
            out |= {f"{MARGIN} of {k}": m.tolist() for k, m in zip(classes, margins.T, strict=True)}
    if _has_probabilities(model):
        word, values = "probability", model.predict_proba(X)
    else:
        word, values = "score", np.asarray(model.decision_function(X))
        if values.ndim == 1:
            classes, values = classes[-1:], values[:, None]
    for j, label in enumerate(classes):
        out[f"{word} of {label}"] = values[:, j].tolist()
    return out


def _receipt(model: Any, X: Any, path: Path) -> FairnessReceipt:
    """Return the receipts of the rows; raise for a model that has none."""
    from fairspan.estimators.receipts import check_has_form

    try:
        check_has_form(model._config)
    except ValueError as error:
        raise ValueError(f"--receipts: {path} has none. {error}") from error
    found: FairnessReceipt = model.explain_fairness(X, columns=False)
    return found


def _receipt_words(receipt: FairnessReceipt) -> str:
    """Return what the columns of the receipts mean."""
    parts = common.first_few([f"part_{name}" for name in receipt.names])
    return (
        f"Receipts: 'before' (fairness 0) minus 'after' (this model), each a {receipt.scale}, is the sum of "
        f"{parts} and 'rescaling'. A part is what the model subtracts because the columns predict the "
        f"attribute. It is not the effect of the attribute on the target, and not the reason for a decision."
    )


def _has_probabilities(model: Any) -> bool:
    from fairspan.estimators import FairClassifier, FairGPClassifier

    return isinstance(model, FairGPClassifier | FairClassifier) or _decides(model)


def _decides(model: Any) -> bool:
    """Whether a rule that equalizes decisions makes the predictions."""
    return getattr(model, "equalize", "scores") == "decisions"


def _explanation(model: Any) -> Iterator[str]:
    """Yield what the predictions mean: the model, the threshold, the favourable class."""
    certificate = model.certificate_
    yield (
        f"Model: {type(model).__name__}, {certificate.criterion}, fairness {certificate.fairness:g} "
        f"({certificate.dial} dial)."
    )
    classes = getattr(model, "classes_", None)
    if classes is None:
        yield "'prediction' is the predicted number."
        return
    word, threshold = ("probability", 0.5) if _has_probabilities(model) else ("score", 0.0)
    labels = classes.tolist()
    if _decides(model):
        where = f"the class with the largest '{MARGIN}'"
        if len(labels) == 2:
            where = f"{labels[1]!r} where '{MARGIN}' is above 0, and {labels[0]!r} elsewhere"
        yield (
            f"'prediction' is {where}: the rule that equalizes decisions. Probabilities are about the target "
            f"alone; no threshold on them gives the decisions."
        )
    elif len(labels) == 2:
        yield (
            f"'prediction' is {labels[1]!r} where '{word} of {labels[1]}' is above {threshold:g}, and "
            f"{labels[0]!r} elsewhere."
        )
    else:
        yield f"'prediction' is the class with the largest {word}."
    if model.pos_label is not None:
        yield f"Favourable class when the model was fitted: {model.pos_label!r}."


def _as_csv(columns: dict[str, list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_cell(name) for name in columns])
    writer.writerows([_cell(v) for v in row] for row in zip(*columns.values(), strict=True))
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Put a quote before a text that a spreadsheet would run as a formula."""
    return f"'{value}" if isinstance(value, str) and is_formula(value) else value


# ------------------------------------------------------------------ audit


@expand_options
def audit_command(
    *,
    data: InputOptions,
    protected: common.Protected = None,
    protected_probability: common.ProtectedProbability = None,
    target: Annotated[
        str | None,
        typer.Option(help="Column of the true outcome; without it, fewer metrics are computed."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Model file of `fairspan fit` or save_model.")
    ] = None,
    scores: Annotated[
        str | None,
        typer.Option(help="Instead of --model: column of scores, larger for the favourable class."),
    ] = None,
    decisions: Annotated[
        str | None,
        typer.Option(
            help="Instead of --model, or with --scores: column of decisions, labelled as the target."
        ),
    ] = None,
    control: common.Control = None,
    weight: common.Weight = None,
    drop: common.Drop = None,
    no_features: Annotated[
        bool, typer.Option("--no-features", help="Columns without a role are not features.")
    ] = False,
    positive: common.Positive = None,
    kind: common.Kind = None,
    trust: common.Trust = None,
    parts: common.Parts = None,
    attackers: Annotated[
        list[str] | None, typer.Option(help="Of linear, kernel, boosted; all if not given.")
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of intervals and bounds.")] = 0.95,
    min_rows: Annotated[
        int, typer.Option(help="Groups with fewer rows are marked, not judged.")
    ] = 30,
    any_classifier: Annotated[
        int | None,
        typer.Option(
            help="Cut the score into so many cells, and limit the gap of every classifier that reads the "
            "cell: with confidence --level, for all of them at once.",
        ),
    ] = None,
    json_file: common.Json = None,
    markdown: common.Markdown = None,
    plot: common.Plot = None,
    template: common.Template = None,
    out: common.Document = None,
    keep: Keep = None,
    dictionary: Dictionary = None,
    drop_missing: common.DropMissing = False,
    missing_protected: common.MissingProtected = "raise",
    seed: common.Seed = 0,
) -> None:
    """Audit a saved model, or scores and decisions in a table, on rows it was not fitted on."""
    from fairspan.cli import checks, column_kinds, tables
    from fairspan.cli.probabilities import read_probability_columns
    from fairspan.cli.read import Input
    from fairspan.inputs.columns import require_columns
    from fairspan.tables.columns import date_parts_of, unlearnable

    given = Input.of(data)
    if model is not None and (scores or decisions):
        msg = "--model brings its own scores and decisions; leave --scores and --decisions out."
        raise ValueError(msg)
    if model is None and not (scores or decisions):
        msg = "There is nothing to audit: pass --model FILE, or --scores or --decisions COLUMN."
        raise ValueError(msg)
    common.check_template(template, out)
    files = common.AuditFiles(json_file, markdown, plot, out)
    files.check()
    audit_parts = common.read_parts(parts)
    common.check_audit(level, min_rows, attackers)
    if any_classifier is not None and any_classifier < 2:
        raise ValueError(f"--any-classifier {any_classifier} is not allowed; give 2 or more cells.")
    common.check_missing(missing_protected)
    inputs: dict[str, Path | None] = {**given.files, "--model": model}
    common.check_distinct(inputs, files.by_option)
    fitted, names = (None, []) if model is None else load_model_file(model, trust)
    source = read_for_audit(given, fitted, target, protected, kind)
    probable = read_probability_columns(protected_probability, list(source.frame.columns))
    roles = tables.find_roles(
        source.frame,
        target=target or source.target,
        protected=[*(protected or ()), *probable.columns] or source.protected,
        control=control,
        weight=weight,
        scores=scores,
        decisions=decisions,
    )
    target = next(iter(roles["target"]), None)
    others = tables.columns_without_role(source.frame, roles, drop)
    words = tables.read_words(dictionary, source)
    frame = date_parts_of(source.frame, names)
    chosen = column_kinds.read_kinds(frame, kind, words) | probable.as_numbers
    frame, kinds = column_kinds.set_kinds(frame, chosen, roles)
    frame = tables.drop_incomplete_rows(frame, roles, drop=drop_missing, missing=missing_protected)
    if model is not None:
        require_columns(names, frame.columns, f"{model} was fitted with")
    left_out: dict[str, str] = {}
    if model is None and not no_features:
        kept = tables.pick_columns(frame, keep, "--keep")
        left_out = unlearnable(frame, [name for name in others if name not in kept])
        names = [name for name in others if name not in left_out]
    if names:
        tables.check_features(frame, names)
    arguments = tables.audit_arguments(frame, names, roles)
    audited: Any = fitted if model is not None else frame[scores or decisions].to_numpy()
    if decisions:
        column_kinds.check_decisions(frame, decisions, target)
    if decisions and scores:
        arguments["decisions"] = frame[decisions]
    elif decisions:
        # Numbers alone would be taken for scores. Objects are comparable only with objects.
        audited = audited.astype(object)
        arguments["y"] = None if target is None else arguments["y"].to_numpy().astype(object)
    favourable = favourable_class(fitted, frame, roles, positive, str(model))
    if favourable is not None:
        common.print_status(favourable.sentence(common.POSITIVE))
        if scores and target:
            _warn_of_direction(frame, scores, target, favourable)
    print_roles(frame, roles, kinds, fitted)
    if model is not None:
        for text in tables.missing_values_note(frame, names):
            common.print_status(text)
    elif names:
        for text in checks.left_out_note(left_out):
            common.print_status(text)
        common.print_status(
            f"Features that attackers may compare with ({len(names)}): {common.first_few(names)}. --drop or "
            f"--no-features leaves them out."
        )
    if attackers is not None:
        arguments["attackers"] = common.split_commas(attackers)
    write_audit(
        files,
        audited,
        favourable,
        words,
        template,
        any_classifier,
        **arguments,
        sensitive_kind=probable.sensitive_kind(kinds.protected) or "auto",
        parts=audit_parts,
        level=level,
        min_rows=min_rows,
        missing_sensitive=missing_protected,
        random_state=seed,
    )


def read_for_audit(
    given: Input,
    fitted: Any,
    target: str | None,
    protected: list[str] | None,
    kind: list[str] | None,
) -> Source:
    """Read the table; groups are written as in the file, and features as the model was trained."""
    from fairspan.cli import column_kinds, tables
    from fairspan.cli.read import read_data, text_for

    text = text_for(fitted, target)
    source = read_data(given, text)
    named = tables.pick_columns(source.frame, protected, "--protected")
    more, notes = column_kinds.groups_as_text(
        source, column_kinds.read_kinds(source.frame, kind), named
    )
    for note in notes:
        common.print_status(note)
    if not more:
        return source
    return read_data(given, [*text, *more], quiet=True)


def _is_regressor(model: Any) -> bool:
    from fairspan.estimators import FairRepresentation

    if model is None or isinstance(model, FairRepresentation):
        return False
    return getattr(model, "classes_", None) is None


def favourable_class(
    fitted: Any, frame: Any, roles: column_kinds.Named, positive: str | None, model: str
) -> Favourable | None:
    """Return the favourable class: of the option, of the saved model, or guessed from the labels."""
    from fairspan.cli import column_kinds
    from fairspan.report.training import Favourable, choose_favourable

    columns = [] if _is_regressor(fitted) else [*roles["target"], *roles["decisions"]]
    classes = getattr(fitted, "classes_", None)
    model_labels = [] if classes is None else classes.tolist()
    in_columns = [label for name in columns for label in frame[name].unique().tolist()]
    labels = list(dict.fromkeys([*model_labels, *in_columns]))
    column = columns[0] if columns else ""
    if positive is not None:
        if not labels:
            msg = "--positive needs labels to be one of: pass --target or --decisions too."
            raise ValueError(msg)
        label = column_kinds.match_label(positive, model_labels or labels, repr(column or model))
        return choose_favourable(labels, column, label)
    if model_labels and fitted.pos_label is not None:
        return Favourable(fitted.pos_label, False, "as the model was fitted")
    return choose_favourable(labels, column)


def _warn_of_direction(frame: Any, scores: str, target: str, favourable: Favourable) -> None:
    """Warn if scores are smaller, not larger, for the favourable class."""
    from sklearn.metrics import roc_auc_score

    is_favourable = frame[target] == favourable.label
    if is_favourable.nunique() == 2 and (auc := roc_auc_score(is_favourable, frame[scores])) < 0.5:
        common.print_status(
            f"Warning: the scores {scores!r} are smaller for the favourable class {favourable.label!r} "
            f"(AUC {auc:.2f}). If they are the scores of another class, name that class: {common.POSITIVE}."
        )


def print_roles(
    frame: Any, roles: column_kinds.Named, kinds: column_kinds.Kinds, fitted: Any
) -> None:
    """Print how the target and the protected attributes are read."""
    from fairspan.cli import column_kinds

    lines = []
    for name in roles["target"]:
        given = "continuous" if _is_regressor(fitted) else kinds.target
        kind = given or column_kinds.kind_of(frame, name)
        lines.append(f"target {name} ({column_kinds.describe_kind(frame, name, kind)})")
    for name in roles["protected"]:
        kind = kinds.protected.get(name) or column_kinds.kind_of(frame, name)
        lines.append(f"protected {name} ({column_kinds.describe_kind(frame, name, kind)})")
    common.print_status(f"Columns read as: {', '.join(lines)}. {column_kinds.KIND_HINT}")


def write_audit(
    files: common.AuditFiles,
    audited: Any,
    favourable: Favourable | None = None,
    words: Mapping[str, ColumnWords] | None = None,
    template: str | None = None,
    n_cells: int | None = None,
    **arguments: Any,
) -> None:
    """Audit a model or scores, print the result and write the files.

    Parameters
    ----------
    files : the files to write.
    audited : fitted model, scores or decisions.
    favourable : the favourable class; its origin is part of the JSON.
    words : labels of columns, which the result shows.
    template : the document of ``files.out``.
    n_cells : cells of the score, to limit every classifier of them; the JSON file has the limits.
    **arguments : of :func:`fairspan.audit`.
    """
    from fairspan.auditing import audit
    from fairspan.plotting import require_pyplot
    from fairspan.report.labels import label_audit

    label = None if favourable is None else favourable.label
    with collect_warnings() as warnings_seen:
        result = audit(audited, verbose=int(sys.stderr.isatty()), pos_label=label, **arguments)
    if favourable is not None:
        result = replace(result, settings=result.settings | {"favourable": asdict(favourable)})
    limits, problem = "", None
    if n_cells is not None:
        try:
            found = result.any_classifier(n_cells)
        except ValueError as error:  # after the audit itself was printed and written
            problem = error
        else:
            limits = str(found)
            result = replace(result, settings=result.settings | {"any_classifier": found.to_dict()})
    result = label_audit(result, words or {})
    # The audit's own warnings are part of everything that is printed and written below.
    inside = set(map(for_command, result.warnings))
    common.print_warnings(text for text in warnings_seen if text not in inside)
    if not files.to_stdout:
        common.print_result(repr(result) + (limits and f"\n\n{limits}"))
    elif limits:
        common.print_status(limits)
    for path, to_text in ((files.json, result.to_json), (files.markdown, result.to_markdown)):
        if path == common.STDOUT:
            common.write_stdout(printable_json(to_text()))
        elif path is not None:
            to_text(path)
    if files.out is not None:
        page = files.out.suffix.lower() in common.PAGE_KINDS
        (result.to_html if page else result.to_markdown)(files.out, template=template)
    if files.plot is not None:
        figure = result.plot().figure_
        with atomic_write(files.plot) as part:
            figure.savefig(part, format=files.plot.suffix[1:].lower(), dpi=150)
        require_pyplot().close(figure)
    written = [str(path) for path in files if path not in (None, common.STDOUT)]
    if written:
        line = f"Audit written to {', '.join(written)}"
        common.print_status(line) if files.to_stdout else common.print_result(f"\n{line}")
    if problem is not None:
        raise ValueError(f"--any-classifier {n_cells}: {for_command(str(problem))}") from problem
