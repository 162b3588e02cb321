"""Saved models beside the model of a report: the same held-out rows, and paired intervals.

Rows that a model was fitted on are left out for all models. Every number of one model is the one of
:func:`fairspan.audit` on the rows that are left; differences use resamples that all models share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan.auditing import Finding, Protected
from fairspan.auditing.contrasts import (
    Contrasts,
    Difference,
    correlation_contrasts,
    difference_of_errors,
    difference_of_gaps,
    error_values,
    gap_contrasts,
    resampled_sums,
)
from fairspan.auditing.findings import unseen_rate
from fairspan.auditing.outputs import NewRows, find_new_rows, looks_like
from fairspan.auditing.parts import Case, Settings, probable_sums, resample_sources, sums
from fairspan.auditing.probable import copies_of_groups
from fairspan.auditing.reading import Audited, read_audit
from fairspan.exceptions import DataWarning, warn_user
from fairspan.method.linalg import Array
from fairspan.method.problem import GroupProbabilities
from fairspan.report.table import Roles
from fairspan.report.views import own_metrics
from fairspan.report.words import metric_words

# Fewer rows say nothing about a difference between two models.
_FEWEST_ROWS = 30
_MOST_MODELS = 6


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """A fitted model to compare.

    Attributes
    ----------
    name : shown to readers.
    model : fitted, with ``predict``.
    rows : the table as this model reads it, with the index of the report's table; None if that is the
        report's table itself.
    """

    name: str
    model: Any
    rows: Any = None


@dataclass(frozen=True, kw_only=True)
class CompareRows:
    """Held-out rows as every model is audited on them."""

    held: Any  # pandas DataFrame
    roles: Roles
    sensitive_kind: Any  # of the audits: the kind of every protected attribute
    pos_label: Any
    settings: Settings
    seed: int  # of the audit
    criterion: str
    task: str  # "regression", "binary" or "multiclass"
    by_stratum: bool

    def take(self, keep: NDArray[np.bool_]) -> CompareRows:
        """Select rows."""
        return replace(self, held=self.held[keep])


def read_models(given: Any) -> list[SavedModel]:
    """Read ``compare=``: fitted models by name, or in a list."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        pairs = [(_name_of(one, k), one) for k, one in enumerate(given)]
    else:
        raise TypeError(
            f"compare={type(given).__name__} is not allowed; give fitted models by name, as "
            f"{{'last year': model}}, or in a list."
        )
    models = [
        one if isinstance(one, SavedModel) else SavedModel(name=str(name), model=one)
        for name, one in pairs
    ]
    if len(models) > _MOST_MODELS:
        raise ValueError(f"compare has {len(models)} models; give at most {_MOST_MODELS}.")
    names = [saved.name for saved in models]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"compare has two models named {twice[0]!r}; give each its own name.")
    for saved in models:
        if not callable(getattr(saved.model, "predict", None)) or isinstance(saved.model, type):
            kind = type(saved.model).__name__
            raise TypeError(
                f"compare has {kind} as {saved.name!r}, which predicts nothing; give fitted models. "
                f"load_model reads them from files."
            )
    return models


def _name_of(given: Any, k: int) -> str:
    return given.name if isinstance(given, SavedModel) else f"model {k + 1}"


def check_models(models: Sequence[SavedModel], table: Any, target: str, *, numeric: bool) -> None:
    """Raise if a model predicts another target, or reads columns that the table does not have."""
    for saved in models:
        frame = table if saved.rows is None else saved.rows
        features = _features(saved.model)
        missing = [n for n in features or () if n not in frame.columns]
        if missing:
            some = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
            raise ValueError(
                f"{saved.name} cannot be compared: it was fitted with {len(features or ())} columns, and the "
                f"table does not have {some}. Compare models on a table that has the columns of all of them."
            )
        if features is not None and target in features:
            raise ValueError(
                f"{saved.name} cannot be compared: it reads {target!r}, which is the target here."
            )
        classifies = looks_like(saved.model, "classifier")
        if classifies == numeric:
            kinds = ("classes", "numbers") if classifies else ("numbers", "classes")
            raise ValueError(
                f"{saved.name} cannot be compared: it predicts {kinds[0]}, and the target {target!r} holds "
                f"{kinds[1]}."
            )
        classes = getattr(saved.model, "classes_", None)
        if classes is not None:
            labels = table[target].dropna().unique().tolist()
            unknown = [label for label in np.asarray(classes).tolist() if label not in labels]
            if unknown:
                raise ValueError(
                    f"{saved.name} cannot be compared: it predicts {unknown[0]!r}, which is no value of "
                    f"the target {target!r} ({', '.join(map(repr, labels[:6]))})."
                )


def _features(model: Any) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def compare_models(
    models: Sequence[SavedModel], own: SavedModel, rows: CompareRows
) -> dict[str, Any]:
    """The comparison of saved models with each other and with the report's model, as plain values.

    Parameters
    ----------
    models : the saved models; differences are from the first.
    own : the model of the report, which comes last.
    rows : the held-out rows.
    """
    fitted = [_new_rows(saved, rows) for saved in models]
    new = np.ones(len(rows.held), dtype=bool)
    for part in fitted:
        if part is not None:
            new &= part.new
    kept = rows.take(new)
    _check_rows(models, fitted, len(rows.held), kept)
    everyone = [*models, own]
    data = [_audited(saved, kept) for saved in everyone]
    level, seed = rows.settings.level, rows.seed
    findings = [_findings(one, rows.settings, seed) for one in data]
    measures = []
    for metric, attribute in _wanted(data[0], rows):
        name = "" if attribute is None else attribute.name
        inside = rows.by_stratum and attribute is not None
        estimates = [_estimate(found, metric, name, inside) for found in findings]
        draws = [_draws(one, metric, attribute, rows, inside) for one in data]
        differences = [_difference(part, draws[0], level) for part in draws[1:]]
        measures.append(
            {
                "measure": _kind(metric),
                "metric": metric,
                "words": _words(metric),
                "attribute": name,
                "models": estimates,
                "differences": [None, *differences],
            }
        )
    left_out = len(rows.held) - len(kept.held)
    return {
        "names": [saved.name for saved in everyone],
        "models": [
            _description(saved, part, rows)
            for saved, part in zip(everyone, [*fitted, None], strict=True)
        ],
        "n_rows": len(kept.held),
        "n_left_out": left_out,
        "measures": measures,
        "notes": [
            *_notes(models, fitted, len(rows.held), len(kept.held)),
            *_unknown(measures, rows.settings.min_rows),
        ],
    }


# ------------------------------------------------------------------ rows


def _rows_of(saved: SavedModel, rows: CompareRows) -> Any:
    """The held-out rows as the model reads them."""
    frame = rows.held if saved.rows is None else saved.rows.loc[rows.held.index]
    names = _features(saved.model)
    return frame[list(rows.roles.features) if names is None else names]


def _new_rows(saved: SavedModel, rows: CompareRows) -> NewRows | None:
    with _named(saved):
        return find_new_rows(saved.model, _rows_of(saved, rows))


@contextmanager
def _named(saved: SavedModel) -> Iterator[None]:
    """Put the name of the model before an error about its rows."""
    try:
        yield
    except (ValueError, TypeError) as error:
        msg = f"{saved.name} cannot be compared on this table: {error}"
        raise ValueError(msg) from error


def _check_rows(
    models: Sequence[SavedModel],
    fitted: Sequence[NewRows | None],
    n_held: int,
    kept: CompareRows,
) -> None:
    n = len(kept.held)
    if n >= _FEWEST_ROWS:
        return
    raise ValueError(
        f"{n:,} of the {n_held:,} held-out rows are left that no compared model was fitted on "
        f"({_left_out(models, fitted)}); at least {_FEWEST_ROWS} are needed. Compare on a table of other "
        f"people, or models that held out the same rows: `fairspan explore --save-model` and `fairspan fit "
        f"--audit` do, with the same seed and share."
    )


def _left_out(models: Sequence[SavedModel], fitted: Sequence[NewRows | None]) -> str:
    """How many rows each model leaves out, as "a.skops 12, b.skops 3"."""
    return ", ".join(
        f"{saved.name} {part.n_left_out:,}"
        for saved, part in zip(models, fitted, strict=True)
        if part is not None and part.n_left_out
    )


def _audited(saved: SavedModel, rows: CompareRows) -> Audited:
    roles, held = rows.roles, rows.held
    with _named(saved):
        return read_audit(
            saved.model,
            _rows_of(saved, rows),
            held[roles.target],
            sensitive_features=held[list(roles.sensitive)],
            control_features=held[list(roles.control)] if roles.control else None,
            sample_weight=None if roles.weight is None else held[roles.weight],
            sensitive_kind=rows.sensitive_kind,
            pos_label=rows.pos_label,
            intersectional=False,
        )


# ------------------------------------------------------------------ numbers


def _wanted(
    data: Audited, rows: CompareRows
) -> Iterator[tuple[str, Protected | GroupProbabilities | None]]:
    """Metrics to compare: the error, then the gap and the correlation for every attribute."""
    numeric = rows.task == "regression"
    yield "root_mean_squared_error" if numeric else "error", None
    correlation, gap = own_metrics(rows.criterion, rows.task)
    for attribute in data.attributes:
        # Of a number, the slope says more than the largest difference between its slices.
        if attribute.values is None:
            yield gap, attribute
        yield correlation, attribute
    for probable in data.probable:
        yield gap, probable
        yield correlation, probable


def _kind(metric: str) -> str:
    if metric.endswith("correlation"):
        return "correlation"
    return "gap" if metric.endswith("difference") else "error"


def _words(metric: str) -> str:
    own = {"error": "error rate", "root_mean_squared_error": "RMSE"}
    return own.get(metric) or metric_words(metric)


def _findings(data: Audited, settings: Settings, seed: int) -> list[Finding]:
    case = Case(data=data, settings=replace(settings, parts=("scores", "decisions")))
    source, *sources = resample_sources(data.weight, seed, len(data.probable))
    sums(case, source)
    for attribute, rng in zip(data.probable, sources, strict=True):
        probable_sums(case, attribute, rng)
    return case.findings


def _estimate(
    findings: Sequence[Finding], metric: str, attribute: str, inside: bool
) -> dict[str, Any]:
    """The number of one model; of several classes or strata, the largest."""
    name = "accuracy" if metric == "error" else metric
    some = [
        f
        for f in findings
        if f.metric.partition(" (")[0] == name
        and f.attribute == attribute
        and not f.group
        and bool(f.where) == inside
        and np.isfinite(f.value)
    ]
    if not some:
        return {"value": None, "low": None, "high": None}
    f = max(some, key=lambda one: one.value)
    value, low, high = f.value, f.low, f.high
    if metric == "error":
        value, low, high = 1.0 - value, 1.0 - high, 1.0 - low
    out: dict[str, Any] = {"value": value, "low": low, "high": high}
    return out | ({"small": True} if f.small else {})


Draws = tuple[Array, float] | Contrasts | None


def _draws(
    data: Audited,
    metric: str,
    attribute: Protected | GroupProbabilities | None,
    rows: CompareRows,
    inside: bool,
) -> Draws:
    """The numbers behind a metric, in the rows and in resamples that all models share."""
    settings = rows.settings
    if isinstance(attribute, GroupProbabilities):
        within_y = rows.criterion in ("equalized_odds", "equal_opportunity")
        data = copies_of_groups(data, attribute, within_y=within_y)
        (attribute,) = data.attributes
    by = attribute
    if by is None:  # the error is that of all rows, whatever the groups
        everyone = Protected("all", "categorical", np.zeros(data.n, dtype=np.intp), ("all",))
        by = next(iter(data.attributes), everyone)
    part = resampled_sums(data, by, settings.n_boot, rows.seed)
    if attribute is None:
        values, n = error_values(data, part)
        tail = (1.0 - settings.level) / 2.0
        return values, 0.0 if rows.task == "regression" else unseen_rate(n, tail)
    if _kind(metric) == "correlation":
        return correlation_contrasts(
            data, by, part, metric, min_rows=settings.min_rows, strata=inside
        )
    options = {"level": settings.level, "min_rows": settings.min_rows}
    return gap_contrasts(data, by, part, metric, **options, strata=inside)  # type: ignore[arg-type]


def _difference(a: Draws, b: Draws, level: float) -> dict[str, Any]:
    found: Difference | None = None
    if isinstance(a, tuple) and isinstance(b, tuple):
        found = difference_of_errors(a[0], b[0], level, a[1])
    elif isinstance(a, Contrasts) and isinstance(b, Contrasts):
        found = difference_of_gaps(a, b, level)
    if found is None:
        return {"value": None, "low": None, "high": None}
    return {"value": found.value, "low": found.low, "high": found.high}


# ------------------------------------------------------------------ words


def _description(saved: SavedModel, new: NewRows | None, rows: CompareRows) -> dict[str, Any]:
    """What a model is: its class, criterion, dial value and columns."""
    certificate = getattr(saved.model, "certificate_", None)
    features = _features(saved.model)
    ours = set(rows.roles.features)
    return {
        "kind": type(saved.model).__name__,
        "fairness": None if certificate is None else float(certificate.fairness),
        "criterion": None if certificate is None else str(certificate.criterion).replace("_", " "),
        "equalize": getattr(saved.model, "equalize", None) if rows.task != "regression" else None,
        "n_features": len(ours if features is None else features),
        "columns_added": sorted(set(features or ours) - ours),
        "columns_missing": sorted(ours - set(features or ours)),
        "n_left_out": 0 if new is None else new.n_left_out,
    }


def _unknown(measures: Sequence[dict[str, Any]], min_rows: int) -> Iterator[str]:
    names = [one["attribute"] for one in measures if one["differences"][-1]["value"] is None]
    if names:
        yield (
            f"Some differences between groups of {', '.join(dict.fromkeys(names))} are not known: fewer than "
            f"two groups have {min_rows} rows."
        )


def _notes(
    models: Sequence[SavedModel], fitted: Sequence[NewRows | None], n_held: int, n: int
) -> Iterator[str]:
    if n < n_held:
        chance = max(part.by_chance for part in fitted if part is not None)
        yield (
            f"{n_held - n:,} of the {n_held:,} held-out rows were left out for all models, because they "
            f"match a row that a model was fitted on ({_left_out(models, fitted)}). Chance alone makes "
            f"about {chance:,.0f} new rows match one model."
        )
    for saved, part in zip(models, fitted, strict=True):
        if part is not None and part.sampled:
            yield (
                f"{saved.name} was fitted on held-out rows, and on too many rows to recognise each of them: "
                f"the comparison uses the held-out rows of a random sample that can be looked up."
            )
        if part is None:
            text = (
                f"It is not known which rows {saved.name} was fitted on: its numbers are too good if "
                f"held-out rows are among them."
            )
            warn_user(text, DataWarning)
            yield text
