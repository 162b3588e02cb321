"""`fairspan fit` and `fairspan audit`: a model from a table, and what a model does to groups."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fairspan.cli import tables
from fairspan.cli.checks import doubtful_columns
from fairspan.cli.data import read_asked, read_data
from fairspan.cli.output import (
    STDOUT,
    AuditFiles,
    bring_audit,
    bring_json,
    check_apart,
    check_audit,
    check_fairness,
    check_model_file,
    check_parts,
    plain_errors,
    say,
    show,
)
from fairspan.cli.read import text_columns
from fairspan.inputs.config import canonical_criterion
from fairspan.report.favourable import Favourable, choose_favourable

__all__ = ["POSITIVE", "audit_command", "fit_command", "loaded_model", "make_estimator"]

POSITIVE = "--positive CLASS"

MODELS = {
    "ridge": "FairRidge",
    "ridge-classifier": "FairRidgeClassifier",
    "gp": "FairGPRegressor",
    "gp-classifier": "FairGPClassifier",
}
# A target of more different texts is a name or a remark rather than a class.
_MAX_CLASSES = 100

Data = Annotated[
    str, typer.Argument(help="CSV or Parquet file, one row per person; or the name of a data set.")
]
Target = Annotated[
    str | None, typer.Option(help="Column to predict; a known data set has its own.")
]
Protected = Annotated[
    list[str] | None,
    typer.Option(
        "--protected", "--sensitive",
        help="Protected attributes; repeat, or separate by commas. A known data set has its own.",
    ),
]  # fmt: skip
Control = Annotated[
    list[str] | None, typer.Option(help="Columns within whose strata groups are compared.")
]
Weight = Annotated[str | None, typer.Option(help="Column of weights; weight k is k copies.")]
Drop = Annotated[list[str] | None, typer.Option(help="Columns to leave out, as an identifier.")]
PosLabel = Annotated[
    str | None,
    typer.Option(
        "--positive", "--pos-label",
        help="The favourable class. Without it, one of two classes is guessed from their names, and "
        "the guess is printed.",
    ),
]  # fmt: skip
DataHome = Annotated[
    Path | None,
    typer.Option(help="Folder of the data sets' files; $FAIRSPAN_DATA or the cache if absent."),
]
Kind = Annotated[
    list[str] | None,
    typer.Option(help="NAME=continuous or NAME=categorical, where the guess is wrong."),
]
Parts = Annotated[
    list[str] | None,
    typer.Option(
        help="Of scores, decisions, tests, attacks, proxies, certificate, kernel; all if not given."
    ),
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows without a target, group or weight.")
]
Seed = Annotated[int, typer.Option(help="Makes the run repeatable.")]
Json = Annotated[
    Path | None, typer.Option("--json", help="File for the audit; - is standard output.")
]
Markdown = Annotated[
    Path | None, typer.Option(help="The same as a section of a model card; - likewise.")
]
Plot = Annotated[Path | None, typer.Option(help="The same as a picture: .png, .pdf or .svg.")]


def fit_command(
    data: Data,
    target: Target = None,
    protected: Protected = None,
    control: Control = None,
    weight: Weight = None,
    features: Annotated[
        list[str] | None, typer.Option(help="Columns to learn from; all others if not given.")
    ] = None,
    drop: Drop = None,
    model: Annotated[str, typer.Option(help=f"auto, {', '.join(MODELS)}.")] = "auto",
    criterion: Annotated[
        str,
        typer.Option(
            help="statistical_parity, equalized_odds, equal_opportunity or "
            "conditional_statistical_parity (with --control)."
        ),
    ] = "statistical_parity",
    fairness: Annotated[
        float | None, typer.Option(help="From 0, unconstrained, to 1, fairest (the default).")
    ] = None,
    max_correlation: Annotated[
        float | None,
        typer.Option(help="Instead of --fairness: how far the score may correlate with a group."),
    ] = None,
    pos_label: PosLabel = None,
    kind: Kind = None,
    out: Annotated[Path, typer.Option(help="File for the model.")] = Path("model.skops"),
    audit: Annotated[
        bool, typer.Option("--audit", help="Hold rows out, and audit the model on them.")
    ] = False,
    test_share: Annotated[float, typer.Option(help="Share of rows that --audit holds out.")] = 0.25,
    parts: Parts = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="File for the audit; without --audit, for the model's columns and certificate. - is "
            "standard output.",
        ),
    ] = None,
    markdown: Markdown = None,
    plot: Plot = None,
    drop_missing: DropMissing = False,
    data_home: DataHome = None,
    seed: Seed = 0,
) -> None:
    """Fit a fair model on a table; with --audit, test it on rows it has not seen."""
    files = AuditFiles(json_file, markdown, plot)
    if not audit and (parts or markdown or plot):
        msg = "--parts, --markdown and --plot are about the audit: pass --audit too."
        raise ValueError(msg)
    files.check()
    check_parts(parts)
    check_model_file(out)
    check_apart({"DATA": Path(data)}, {"--out": out, **files.written})
    check_fairness(fairness)
    asked = read_asked(
        data, data_home, say, target=target, protected=protected, control=control, weight=weight,
        features=features, drop=drop, kind=kind, drop_missing=drop_missing, positive=pos_label,
    )  # fmt: skip
    frame, roles, names, kinds = asked.frame, asked.roles, asked.names, asked.kinds
    estimator = make_estimator(
        model, frame, asked.target, kinds.target, criterion=criterion,
        sensitive_kind=kinds.protected or "auto", pos_label=asked.label, random_state=seed,
        verbose=int(sys.stderr.isatty()),
        **_dial(fairness, max_correlation),
    )  # fmt: skip
    train = test = frame
    if audit:
        held_out = tables.held_out_rows(frame, roles, kinds.protected, test_share, seed)
        train, test = frame[~held_out], frame[held_out]
    by_stratum = canonical_criterion(criterion) == "conditional_statistical_parity"
    if control and not (by_stratum or audit):
        msg = "--control is for --audit, or for --criterion conditional_statistical_parity."
        raise ValueError(msg)
    for text in doubtful_columns(frame, names):
        say(f"Warning: {text}")
    favourable = asked.favourable(estimator)
    if favourable is not None:
        estimator.set_params(pos_label=favourable.label)
        say(favourable.sentence(POSITIVE))
    for text in tables.filled_gaps(frame, names):
        say(text)
    _fit(estimator, data, train, roles if by_stratum else {**roles, "control": []}, names)
    from fairspan.persistence import save_model

    save_model(estimator, out)
    line = say if files.to_stdout else show
    split = f", {len(test):,} of them held out (--test-share {test_share:g})" if audit else ""
    line(f"{data}: {len(frame):,} rows{split}")
    groups = ", ".join(
        f"{name} ({tables.kind_shown(frame, name, kind)})"
        for name, kind in estimator.sensitive_kinds_.items()
    )
    line(f"{type(estimator).__name__} of {asked.target} ({_target_kind(estimator)})")
    line(f"Features ({len(names)}): {tables.some(names)}")
    if left_out := tables.left_out(frame, names, roles):
        line(f"Columns not used ({len(left_out)}): {tables.some(left_out)}")
    line(f"Protected: {groups}")
    line(tables.KIND_HINT)
    line(f"\n{estimator.certificate_}\n")
    line(f"Model written to {out}")
    if json_file is not None and not audit:
        bring_json(
            json_file,
            {
                "model": str(out), "estimator": type(estimator).__name__, "rows": len(frame),
                "target": asked.target, "features": names, "protected": estimator.sensitive_kinds_,
                "favourable": None if favourable is None else asdict(favourable),
                "certificate": estimator.certificate_.to_dict(),
            },
        )  # fmt: skip
        if json_file != STDOUT:
            line(f"Numbers written to {json_file}")
    if audit:
        line("")
        bring_audit(
            files, estimator, favourable, **tables.arguments(test, names, roles),
            sensitive_kind=kinds.protected or "auto", parts=check_parts(parts), random_state=seed,
        )  # fmt: skip


def audit_command(
    data: Data,
    protected: Protected = None,
    target: Annotated[
        str | None, typer.Option(help="Column of the truth; without it, less can be said.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Model that `fairspan fit` or save_model has written.")
    ] = None,
    scores: Annotated[
        str | None, typer.Option(help="Or: column of scores, larger for the favourable class.")
    ] = None,
    decisions: Annotated[
        str | None,
        typer.Option(help="Or, or with it: column of decisions, labelled as the target."),
    ] = None,
    control: Control = None,
    weight: Weight = None,
    drop: Drop = None,
    no_features: Annotated[
        bool, typer.Option("--no-features", help="Columns without a role are not features.")
    ] = False,
    pos_label: PosLabel = None,
    kind: Kind = None,
    parts: Parts = None,
    attackers: Annotated[
        list[str] | None, typer.Option(help="Of linear, kernel, boosted; all if not given.")
    ] = None,
    level: Annotated[float, typer.Option(help="Of intervals and bounds.")] = 0.95,
    min_rows: Annotated[int, typer.Option(help="Smaller groups are marked, not judged.")] = 30,
    json_file: Json = None,
    markdown: Markdown = None,
    plot: Plot = None,
    drop_missing: DropMissing = False,
    data_home: DataHome = None,
    seed: Seed = 0,
) -> None:
    """Audit a saved model, or scores and decisions in a table, on rows it was not fitted on."""
    if model is not None and (scores or decisions):
        msg = "--model brings its own scores and decisions; leave --scores and --decisions out."
        raise ValueError(msg)
    if model is None and not (scores or decisions):
        msg = "There is nothing to audit: pass --model FILE, or --scores or --decisions COLUMN."
        raise ValueError(msg)
    files = AuditFiles(json_file, markdown, plot)
    files.check()
    check_parts(parts)
    check_audit(level, min_rows, attackers)
    check_apart({"DATA": Path(data), "--model": model}, files.written)
    audited: Any = None
    names: list[str] = []
    if model is not None:
        audited, names = loaded_model(model)
    source = read_data(data, data_home, say, text_columns(audited, target))
    frame = source.frame
    target, protected = target or source.target, protected or list(source.protected)
    roles = tables.find_roles(
        frame, target=target, protected=protected, control=control, weight=weight, scores=scores,
        decisions=decisions,
    )  # fmt: skip
    others = tables.without_role(frame, roles, drop)
    frame, kinds = tables.set_kinds(frame, kind, roles)
    frame = tables.complete_rows(frame, roles, drop=drop_missing, say=say)
    if model is not None:
        tables.check_columns(frame, names, f"{model} was fitted with")
    else:
        audited, names = frame[scores or decisions].to_numpy(), [] if no_features else others
    if names:
        tables.check_features(frame, names)
    given = tables.arguments(frame, names, roles)
    if decisions:
        tables.check_decisions(frame, decisions, target)
    if decisions and scores:
        given["decisions"] = frame[decisions]
    elif decisions:
        # Numbers by themselves would be taken for scores, and objects compare with objects only.
        audited = audited.astype(object)
        given["y"] = None if target is None else given["y"].to_numpy().astype(object)
    favourable = _audited_class(audited, frame, roles, pos_label, str(model))
    if favourable is not None:
        say(favourable.sentence(POSITIVE))
        if scores and target:
            _warn_of_direction(frame, scores, target, favourable)
    _say_roles(frame, roles, kinds, audited, names if model is None else [])
    for text in tables.filled_gaps(frame, names if model is not None else []):
        say(text)
    if attackers is not None:
        given["attackers"] = tables.listed(attackers)
    bring_audit(
        files, audited, favourable, **given, sensitive_kind=kinds.protected or "auto",
        parts=check_parts(parts), level=level, min_rows=min_rows, random_state=seed,
    )  # fmt: skip


def _audited_class(
    audited: Any, frame: Any, roles: dict[str, list[str]], positive: str | None, model: str
) -> Favourable | None:
    """The favourable class of an audit: from the option, the saved model, or the labels' words."""
    columns = [*roles["target"], *roles["decisions"]]
    own = getattr(audited, "classes_", None)
    if own is None and hasattr(audited, "predict"):  # a regressor
        columns = []
    labels = [] if own is None else own.tolist()
    labels = list(
        dict.fromkeys([*labels, *(v for c in columns for v in frame[c].unique().tolist())])
    )
    where = columns[0] if columns else ""
    if positive is not None:
        if not labels:
            msg = "--positive needs labels to be one of: pass --target or --decisions too."
            raise ValueError(msg)
        known = labels if own is None else own.tolist()
        return choose_favourable(
            labels, where, tables.label_like(positive, known, repr(where or model))
        )
    if own is not None and getattr(audited, "pos_label", None) is not None:
        return Favourable(audited.pos_label, False, "as the model was fitted")
    return choose_favourable(labels, where)


def _warn_of_direction(frame: Any, scores: str, target: str, favourable: Favourable) -> None:
    """Warn if scores are smaller, not larger, for the favourable class."""
    from sklearn.metrics import roc_auc_score

    is_favourable = frame[target] == favourable.label
    if is_favourable.nunique() == 2 and (auc := roc_auc_score(is_favourable, frame[scores])) < 0.5:
        say(
            f"Warning: the scores {scores!r} are smaller for the favourable class {favourable.label!r} "
            f"(AUC {auc:.2f}). If they are the scores of another class, name that class: {POSITIVE}."
        )


def _say_roles(
    frame: Any, roles: dict[str, list[str]], kinds: tables.Kinds, audited: Any, names: Sequence[str]
) -> None:
    """Print how the target and the protected attributes are read, and which columns attackers see."""
    read = []
    for name in roles["protected"]:
        kind = kinds.protected.get(name) or tables.kind_of(frame, name)
        read.append(f"protected {name} ({tables.kind_shown(frame, name, kind)})")
    for name in roles["target"]:
        numbers = hasattr(audited, "predict") and not hasattr(audited, "classes_")
        kind = "continuous" if numbers else kinds.target or tables.kind_of(frame, name)
        read.insert(0, f"target {name} ({tables.kind_shown(frame, name, kind)})")
    say(f"Columns read as: {', '.join(read)}. {tables.KIND_HINT}")
    if names:
        say(
            f"Features that attackers may compare with ({len(names)}): {tables.some(names)}. --drop or "
            f"--no-features leaves them out."
        )


def _target_kind(estimator: Any) -> str:
    """What kind of target a fitted model predicts, in words."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return "a number"
    return f"{len(classes)} classes: {tables.some([repr(one) for one in classes.tolist()])}"


def _dial(fairness: float | None, max_correlation: float | None) -> dict[str, Any]:
    if max_correlation is None:
        return {"fairness": 1.0 if fairness is None else fairness}
    if fairness is not None:
        msg = "--fairness and --max-correlation are two ways to say how fair; give one of them."
        raise ValueError(msg)
    if not 0.0 <= max_correlation <= 1.0:
        msg = f"--max-correlation {max_correlation:g} is not allowed; give a number from 0 to 1."
        raise ValueError(msg)
    return {"fairness": 1.0 - max_correlation, "dial": "correlation"}


def make_estimator(
    choice: str, frame: Any, target: str, kind: str | None = None, **settings: Any
) -> Any:
    """An unfitted model: the one asked for, or the one for such a target."""
    from fairspan import estimators

    if choice != "auto" and choice not in MODELS:
        raise ValueError(f"--model {choice!r} is unknown; known are auto, {', '.join(MODELS)}.")
    if choice == "auto":
        measured = tables.is_continuous(frame, target) if kind is None else kind == "continuous"
        classes, n = not measured, frame[target].nunique()
        if classes and n > _MAX_CLASSES:
            first = str(frame[target].iloc[0])
            msg = f"The target {target!r} holds {n:,} different texts, as {first!r}: no classes."
            raise ValueError(msg)
        choice = "gp-classifier" if classes else "gp"
    return getattr(estimators, MODELS[choice])(**settings)


def _fit(
    estimator: Any, data: str, train: Any, roles: dict[str, list[str]], names: list[str]
) -> None:
    from fairspan.exceptions import RowError

    with plain_errors() as told:
        try:
            # Not encoder="auto": numbers have gaps and scales of their own, too.
            estimator.fit_stream(
                [train], target=roles["target"][0], sensitive_features=roles["protected"],
                control_features=roles["control"] or None, features=names,
                sample_weight=roles["weight"][0] if roles["weight"] else None, encoder="table",
            )  # fmt: skip
        except RowError as error:
            msg = f"{data}, row {train.index[error.row] + 1}: {error.why}"
            raise ValueError(msg) from error
    for text in told:
        say(f"Warning: {text}")


def loaded_model(path: Path) -> tuple[Any, list[str]]:
    """A saved model, and the columns it was fitted with."""
    from fairspan.persistence import load_model

    if not path.is_file():
        raise ValueError(f"--model {path} is no file; give one that `fairspan fit` has written.")
    model = load_model(path)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        msg = f"{path} was fitted on an array, whose columns have no names to look for in a table."
        raise ValueError(msg)
    return model, list(names)
