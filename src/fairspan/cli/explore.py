"""`fairspan explore`: one page with a slider, from one fit on a table."""

from __future__ import annotations

import math
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fairspan._system import printable_json
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

_DIALS_SHOWN = (0.0, 0.25, 0.5, 0.75, 1.0)


@expand_options
def explore_command(
    *,
    data: InputOptions,
    columns: ColumnOptions,
    protected_probability: common.ProtectedProbability = None,
    criterion: common.Criterion = "statistical_parity",
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
    model: Model = "kernel",
    test_share: Annotated[float, typer.Option(help="Share of rows held out.")] = 0.25,
    points: Annotated[int, typer.Option(help="Number of dial values of the slider.")] = 41,
    parts: common.Parts = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            help="ratio=0.8, gap=0.05 or correlation=0.1: limit that the report judges for each protected "
            "attribute. The default is the four-fifths ratio; correlation=0.1 without a favourable class.",
            metavar="LIMIT",
        ),
    ] = None,
    date: Annotated[
        str | None, typer.Option(help="Date on the report, as 2024-05-31; today if not given.")
    ] = None,
    people: Annotated[
        bool,
        typer.Option(
            "--people",
            help="Show, by row number, what fairness changed in the scores of single held-out rows.",
        ),
    ] = False,
    compare: Annotated[
        list[Path] | None,
        typer.Option(
            help="Model file to show beside the report's model on the same held-out rows; repeat it for "
            "several. Differences are from the first."
        ),
    ] = None,
    trust: common.Trust = None,
    json_file: common.Json = None,
    seed: common.Seed = 0,
) -> None:
    """Show what fairness costs: one page with a slider, from one fit on a table."""
    from fairspan.cli import tables
    from fairspan.cli.comparison import comparison_table, load_saved_models
    from fairspan.cli.read import Input
    from fairspan.method.problem import canonical_criterion
    from fairspan.report import explore
    from fairspan.report.pipeline import check_options
    from fairspan.report.provenance import read_date
    from fairspan.report.verdicts import read_limits

    given = Input.of(data)
    common.check_output_file(out, "--out")
    common.check_json(json_file)
    if save_model is not None:
        common.check_model_file(save_model, "--save-model")
    outputs = {"--out": out, "--json": json_file, "--save-model": save_model}
    compared = {f"--compare ({k})": path for k, path in enumerate(compare or (), 1)}
    common.check_distinct({**given.files, **compared}, outputs)
    common.check_kind(out, "--out", common.PAGE_KINDS)
    common.check_kind(save_model, "--save-model", common.MODEL_KINDS)
    common.check_fairness(fairness)
    audit_parts = common.read_parts(parts)
    limits = _read("--limit", read_limits, common.split_commas(limit))
    day = _read("--date", read_date, date)
    saved_models = load_saved_models(compare, trust, given)
    table = tables.read_training_table(
        given,
        columns,
        numeric_target=model in FOR_NUMBERS,
        probability=protected_probability,
    )
    check_options(points, seed, fairness, test_share)
    canonical_criterion(criterion)
    roles, sensitive_kind = table.roles, table.sensitive_kind
    equalize = what_to_equalize(equalize, {"selection_rate": selection_rate})
    check_known_groups(protected_probability, equalize)
    estimator = make_estimator(
        model,
        table.frame,
        roles.target,
        table.kinds.target,
        criterion=criterion,
        pos_label=table.positive,
        sensitive_kind=sensitive_kind,
        random_state=seed,
        **decision_parameters(equalize, selection_rate),
    )
    print_line = common.print_status if json_file == common.STDOUT else common.print_result
    print_notes(table, table.favourable(estimator))
    groups = ", ".join(roles.attributes)
    n, n_features = len(table.frame), len(roles.features)
    print_line(f"{table.name}: {n:,} rows; {roles.target} from {n_features} columns; {groups}")
    print_unused(table, print_line)

    with collect_warnings() as warnings_seen:
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
            missing_sensitive=columns.missing_protected,
            limits=limits,
            date=day,
            data_file=given.file,
            people=people,
            compare=saved_models,
        )
    # Files come first: the reader of the printed lines may close the pipe after the first one.
    if save_model is not None:
        from fairspan.persistence import save_model as write_model

        write_model(report.model, save_model, keep_moments=with_moments)
        report = report.with_model_file(save_model)
    report.to_html(out)
    if json_file not in (None, common.STDOUT):
        report.to_json(json_file)
    common.print_warnings(warnings_seen)
    print_line(_kinds_line(report.study))
    if report.study["task"] != "regression":
        print_line(equal_line(report.model))
    print_line(_dial_table(report.study, test_share))
    print_line(_verdict_lines(report.study))
    if "comparison" in report.study:
        print_line(comparison_table(report.study["comparison"], report.study["about"]["level"]))
    if save_model is not None:
        print_written(save_model, print_line)
    if json_file == common.STDOUT:
        common.write_stdout(printable_json(report.to_json()))
    elif json_file is not None:
        print_line(f"Numbers written to {json_file}")
    size, address = out.stat().st_size / 1e6, out.resolve().as_uri()
    print_line(f"Report written to {out} ({size:.1f} MB). Open it in a browser: {address}")


def _read(option: str, read: Callable[[Any], Any], given: Any) -> Any:
    """Read the value of an option; an error names the option."""
    try:
        return read(given)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from error


def _kinds_line(study: dict[str, Any]) -> str:
    """Return how columns were read: features as counts, target and protected attributes by name."""
    from fairspan.cli import column_kinds

    features = Counter(c["kind"] for c in study["columns"] if c["role"] == "feature")
    counts = ", ".join(f"{n} {kind}" for kind, n in features.most_common())
    labels = {a["name"]: [g["label"] for g in a["groups"]] for a in study["attributes"]}
    roles = ", ".join(
        f"{role} {common.shortened(c['name'])} ({_levels(c, words, labels.get(c['name'], ()))})"
        for role, words in (("target", "classes"), ("protected", "groups"))
        for c in study["columns"]
        if c["role"] == role
    )
    return f"Columns read as: features {counts}; {roles}. The report lists each. {column_kinds.KIND_HINT}"


def _levels(column: dict[str, Any], words: str, labels: Sequence[str]) -> str:
    """Return the kind of a column in words, with groups that are numbers: they may be amounts."""
    if column["kind"] in ("number", "probability"):
        return str(column["kind"])
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
    notes += [
        f"{common.shortened(a['name'])}: {n_test:,} rows with probabilities of the groups tell as much as "
        f"{a['n_equivalent']:,.0f} with a known group"
        for a in study["attributes"]
        if a["kind"] == "probabilities"
    ]
    return "\n".join(["", title, *(text.rstrip() for text in lines), *notes, ""])


def _verdict_lines(study: dict[str, Any]) -> str:
    """Return the verdicts on the limits where the slider starts, one sentence each."""
    at = study["start"]
    title = f"Limits at fairness {study['fairness'][at]:g}, with {study['about']['level']:.0%} intervals:"
    return "\n".join([title, *(v["words"] for v in study["positions"][at]["verdicts"]), ""])


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
