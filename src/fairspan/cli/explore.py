"""`fairspan explore` and `fairspan predict`: a report from a table, and answers from a model."""

from __future__ import annotations

import csv
import io
import json
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fairspan._system import atomic_write, is_formula, printable_json
from fairspan.cli import tables
from fairspan.cli.checks import doubtful_columns
from fairspan.cli.data import read_asked, read_data
from fairspan.cli.models import (
    POSITIVE,
    Control,
    Data,
    DataHome,
    Drop,
    DropMissing,
    Kind,
    Parts,
    PosLabel,
    Protected,
    Seed,
    Target,
    Weight,
    loaded_model,
    make_estimator,
)  # fmt: skip
from fairspan.cli.output import (
    STDOUT,
    check_apart,
    check_fairness,
    check_folder,
    check_json,
    check_model_file,
    check_parts,
    plain_errors,
    say,
    show,
    write_out,
)
from fairspan.cli.read import text_columns
from fairspan.inputs.config import canonical_criterion
from fairspan.report import explore
from fairspan.report.pipeline import check_options
from fairspan.report.training import source_lines

__all__ = ["explore_command", "predict_command"]

_SHOWN_DIALS = (0.0, 0.25, 0.5, 0.75, 1.0)


def explore_command(
    data: Data,
    target: Target = None,
    protected: Protected = None,
    criterion: Annotated[
        str,
        typer.Option(
            help="statistical_parity (sp), equalized_odds (eo), equal_opportunity (eop) or "
            "conditional_statistical_parity (with --control)."
        ),
    ] = "statistical_parity",
    positive: PosLabel = None,
    out: Annotated[Path, typer.Option(help="File for the report.")] = Path("report.html"),
    save_model: Annotated[
        Path | None, typer.Option(help="File for the model of the chosen fairness, too.")
    ] = None,
    fairness: Annotated[
        float, typer.Option(help="Of that model, and where the slider begins: 0 to 1, fairest.")
    ] = 1.0,
    control: Control = None,
    weight: Weight = None,
    features: Annotated[
        list[str] | None, typer.Option(help="Columns to learn from; all others if not given.")
    ] = None,
    drop: Drop = None,
    kind: Kind = None,
    model: Annotated[
        str, typer.Option(help="auto, ridge, ridge-classifier, gp, gp-classifier.")
    ] = "auto",
    test_share: Annotated[float, typer.Option(help="Share of rows held out.")] = 0.25,
    points: Annotated[int, typer.Option(help="Places of the slider.")] = 41,
    parts: Parts = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="All numbers, for machines; - is standard output.")
    ] = None,
    drop_missing: DropMissing = False,
    data_home: DataHome = None,
    seed: Seed = 0,
) -> None:
    """What does fairness cost? One page with a slider, from a table; one fit makes all of it."""
    check_folder(out, "--out")
    check_json(json_file)
    if save_model is not None:
        check_model_file(save_model, "--save-model")
    written = {"--out": out, "--json": json_file, "--save-model": save_model}
    check_apart({"DATA": Path(data)}, written)
    check_fairness(fairness)
    check_parts(parts)
    asked = read_asked(
        data, data_home, say, target=target, protected=protected, control=control, weight=weight,
        features=features, drop=drop, kind=kind, drop_missing=drop_missing, positive=positive,
    )  # fmt: skip
    frame, roles, names, kinds = asked.frame, asked.roles, asked.names, asked.kinds
    check_options(points, seed, fairness, test_share)
    canonical_criterion(criterion)
    estimator = make_estimator(
        model, frame, asked.target, kinds.target, criterion=criterion, pos_label=asked.label,
        sensitive_kind=kinds.protected or "auto", random_state=seed,
    )  # fmt: skip
    line = say if json_file == STDOUT else show
    for text in doubtful_columns(frame, names):
        say(f"Warning: {text}")
    favourable = asked.favourable(estimator)
    if favourable is not None:
        say(favourable.sentence(POSITIVE))
    for text in tables.filled_gaps(frame, names):
        say(text)
    groups = ", ".join(roles["protected"])
    line(f"{data}: {len(frame):,} rows; {asked.target} from {len(names)} columns; {groups}")
    if left_out := tables.left_out(frame, names, roles):
        line(f"Columns not used ({len(left_out)}): {tables.some(left_out)}")

    with plain_errors() as told:
        # All rows: the report itself says which are left out.
        report = explore(
            asked.whole, target=asked.target, sensitive_features=roles["protected"],
            control_features=roles["control"] or None, features=names,
            sample_weight=roles["weight"][0] if roles["weight"] else None, pos_label=asked.label,
            model=estimator, sensitive_kind=kinds.protected or "auto", fairness=fairness, n_points=points,
            test_share=test_share, audit_parts=check_parts(parts), random_state=seed,
            verbose=int(sys.stderr.isatty()), name=data, command=_command(),
            source="\n".join([source_lines(data, asked.text), *kinds.lines]),
        )  # fmt: skip
    # Files first: whoever reads the lines may be gone after the first.
    report.to_html(out)
    if json_file not in (None, STDOUT):
        report.to_json(json_file)
    if save_model is not None:
        from fairspan.persistence import save_model as save

        save(report.model, save_model)
    for text in told:
        say(f"Warning: {text}")
    line(_kinds(report.study))
    line(_table(report.study, test_share))
    if save_model is not None:
        line(f"Model written to {save_model}")
    if json_file == STDOUT:
        write_out(printable_json(report.to_json()))
    elif json_file is not None:
        line(f"Numbers written to {json_file}")
    size = out.stat().st_size / 1e6
    line(f"Report written to {out} ({size:.1f} MB). Open it in a browser: {out.resolve().as_uri()}")


def _command() -> str:
    """What was typed, to be shown in the report."""
    return " ".join(["fairspan", *(shlex.quote(text) for text in sys.argv[1:])])


def _kinds(study: dict[str, Any]) -> str:
    """How the columns were read: features by number, the target and protected attributes by name."""
    features = Counter(c["kind"] for c in study["columns"] if c["role"] == "feature")
    counts = [f"{n} {kind}" for kind, n in features.most_common()]
    roles = [
        f"{role} {tables.shortened(c['name'])} ({_count(c, words)})"
        for role, words in (("target", "classes"), ("protected", "groups"))
        for c in study["columns"]
        if c["role"] == role
    ]
    return (
        f"Columns read as: features {', '.join(counts)}; {', '.join(roles)}. The report lists each. "
        f"{tables.KIND_HINT}"
    )


def _count(column: dict[str, Any], words: str) -> str:
    return "number" if column["kind"] == "number" else f"{column['levels']} {words}"


def _table(study: dict[str, Any], test_share: float) -> str:
    """Error and correlations at a few dial values, as text."""
    dials, curves = np.array(study["fairness"]), study["tradeoff"]
    rows = sorted({int(np.abs(dials - f).argmin()) for f in _SHOWN_DIALS})
    names = list(curves["parity"])
    # A name as wide as a screen would break the table.
    head = ["fairness", curves["error_name"], *(f"corr. {tables.shortened(n)}" for n in names)]
    body = [
        [
            f"{dials[i]:.2f}",
            _interval(curves["error"], i),
            *(_interval(curves["parity"][name], i) for name in names),
        ]
        for i in rows
    ]
    widths = [max(len(row[j]) for row in (head, *body)) for j in range(len(head))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)) for r in (head, *body)]
    about = study["about"]
    where = (
        f"Held-out rows ({about['n_test']:,}, --test-share {test_share:g}), with {about['level']:.0%} "
        f"intervals:"
    )
    dash = ["- : too few held-out rows in a group (a larger --test-share gives more)"]
    told = dash if any("-" in row for row in body) else []
    return "\n".join(["", where, *(text.rstrip() for text in lines), *told, ""])


def _interval(curve: dict[str, list[float | None]], i: int) -> str:
    value, low, high = (curve[key][i] for key in ("value", "low", "high"))
    if value is None:
        return "-"
    if low is None or high is None:
        return f"{value:.3g}"
    return f"{value:.3g} ({low:.3g} to {high:.3g})"


# ------------------------------------------------------------------ predict


def predict_command(
    data: Data,
    model: Annotated[
        Path, typer.Option(help="Model that `fairspan fit`, explore or save_model has written.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="CSV file for the predictions; standard output if not given."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="The same as JSON; - is standard output.")
    ] = None,
    fairness: Annotated[
        float | None, typer.Option(help="Another fairness than the model was saved with, 0 to 1.")
    ] = None,
    data_home: DataHome = None,
) -> None:
    """Predictions of a saved model for the rows of a table, which needs no protected attribute."""
    if out not in (None, STDOUT):
        check_folder(out, "--out")
    check_json(json_file)
    check_apart({"DATA": Path(data), "--model": model}, {"--out": out, "--json": json_file})
    check_fairness(fairness)
    if out in (None, STDOUT) and json_file == STDOUT:
        out = None
    fitted, names = loaded_model(model)
    frame = read_data(data, data_home, say, text_columns(fitted)).frame
    tables.check_columns(frame, names, f"{model} was fitted with")
    tables.check_features(frame, names)
    if not hasattr(fitted, "predict"):
        msg = f"{model} holds a {type(fitted).__name__}, which makes features and predicts nothing."
        raise ValueError(msg)
    with plain_errors() as told:
        if fairness is not None:
            fitted = fitted.at(fairness)
        columns = _predictions(fitted, frame[names])
    for text in told:
        say(f"Warning: {text}")
    for text in (*tables.filled_gaps(frame, names), *_meaning(fitted)):
        say(text)
    if json_file is not None:
        _bring(json_file, printable_json(json.dumps(columns, ensure_ascii=False)) + "\n")
    if out is not None or json_file is None:
        labels = dict.fromkeys(columns["prediction"])
        quoted = [repr(label) for label in labels if isinstance(label, str) and is_formula(label)]
        if quoted:
            say(
                f"Warning: a spreadsheet would run the label {tables.some(quoted)} as a formula, so the CSV "
                f"file has a quote before it. Rename the label, or use --json, which has it as it is."
            )
        _bring(out or STDOUT, _as_csv(columns))
    for path in (out, json_file):
        if path not in (None, STDOUT):
            say(f"Predictions of {len(frame):,} rows written to {path}")


def _predictions(model: Any, X: Any) -> dict[str, list[Any]]:
    """Row of the file, from 1; prediction; probability of each class."""
    out: dict[str, list[Any]] = {"row": list(range(1, len(X) + 1))}
    out["prediction"] = np.asarray(model.predict(X)).tolist()
    if hasattr(model, "predict_proba"):
        found = model.predict_proba(X)
        for j, label in enumerate(model.classes_):
            out[f"probability of {label}"] = found[:, j].tolist()
    elif hasattr(model, "decision_function"):
        found = np.asarray(model.decision_function(X))
        if found.ndim == 1:
            out[f"score of {model.classes_[-1]}"] = found.tolist()
        else:
            for j, label in enumerate(model.classes_):
                out[f"score of {label}"] = found[:, j].tolist()
    return out


def _meaning(model: Any) -> Iterator[str]:
    """What the columns of the predictions mean: the model, the threshold, the favourable class."""
    certificate = model.certificate_
    yield (
        f"Model: {type(model).__name__}, {certificate.criterion}, fairness {certificate.fairness:g} "
        f"({certificate.dial} dial)."
    )
    if not hasattr(model, "classes_"):
        yield "'prediction' is the predicted number."
        return
    what, threshold = ("probability", 0.5) if hasattr(model, "predict_proba") else ("score", 0.0)
    labels = model.classes_.tolist()
    if len(labels) == 2:
        yield (
            f"'prediction' is {labels[1]!r} where '{what} of {labels[1]}' is above {threshold:g}, and "
            f"{labels[0]!r} elsewhere."
        )
    else:
        yield f"'prediction' is the class with the largest {what}."
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


def _bring(path: Path, text: str) -> None:
    if path == STDOUT:
        write_out(text)
        return
    with atomic_write(path) as part:
        part.write_bytes(text.encode("utf-8", "backslashreplace"))
