"""An audit in words: the summary of ``repr``, what must not be missed, and the model card section."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import accuracy_score, mean_squared_error

from fairspan._system import inert
from fairspan.auditing.bound import ASSUMPTIONS as BOUND_ASSUMPTIONS
from fairspan.auditing.findings import SECTIONS, Finding
from fairspan.auditing.reading import Audited

__all__ = [
    "ASSUMPTIONS",
    "markdown",
    "metric_frame",
    "summary",
    "warnings_of",
]

if TYPE_CHECKING:
    from fairspan.auditing.results import Audit


ASSUMPTIONS = (
    "All intervals speak of the sampling of the rows audited, not of the fit: the model is taken as it "
    "is. They hold if these rows were not used to fit it, are drawn independently of each other, and "
    "alike to those it will meet. Intervals of gaps hold for all comparisons of groups at once, "
    "conservatively except at exact parity; those of single rates are percentiles of resamples. "
    "Tests that do not reject, and attackers that fail, are no proof of independence. "
    "Correlations and gaps compare means of groups and slices; equal means are not equal distributions. "
    + BOUND_ASSUMPTIONS
)

# What a few lines have room for; of more than two classes, each in turn.
_SUMMARY = (
    "statistical_parity_correlation",
    "equal_opportunity_correlation",
    "equalized_odds_correlation",
    "demographic_parity_difference",
    "equalized_odds_difference",
    "mean_prediction_difference",
    "largest_correlation_of_any_function",
)
NONE = "-"  # where there is no number
# Of the attacks, what blind guessing reaches.
_BLIND = {"auc": 0.5, "r2": 0.0}


def _number(value: float) -> str:
    if not math.isfinite(value):
        return NONE
    if value != 0.0 and abs(value) < 5e-4:
        return f"{value:.0e}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.4g}"


def _interval(one: Finding) -> str:
    """``value [low, high]``."""
    if not math.isfinite(one.value):
        return NONE
    if not math.isfinite(one.low):
        return _number(one.value)
    return f"{_number(one.value)} [{_number(one.low)}, {_number(one.high)}]"


def _p(value: float) -> str:
    if not math.isfinite(value):
        return NONE
    return "<0.001" if value < 0.001 else f"{value:.3f}"


# What draws lines, links, pictures, formulas or letters of another kind.
_ACTIVE = re.compile(r"([\\`*_\[\]!|~#$]|(?<=:)(?=//)|(?<=www)(?=\.))", re.I)
_LIST = re.compile(r"^(\d*)([-+.)])")
# Of a line or a cell; names from data have no end of their own.
_LONGEST = 2000


def _flat(text: str) -> str:
    """One line of what can be printed."""
    return " ".join(inert(text, _LONGEST).split())


def _cell(text: str) -> str:
    """Text from data in a table's cell: it must not draw lines, links or pictures of its own."""
    flat = _flat(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _ACTIVE.sub(r"\\\1", flat)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [
        [_cell(c) for c in head],
        ["---"] * len(head),
        *([_cell(c) for c in row] for row in rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _spaced(name: str) -> str:
    return name.replace("_", " ")


# ------------------------------------------------------------------ what must not be missed


def warnings_of(audit: Audit) -> tuple[str, ...]:
    """One sentence for each thing that stands out; the first is about rows of the fit, if any."""
    out = [] if audit.fitted_share is None else [_fitted_rows(audit.fitted_share)]
    out += [
        f"{attribute}, beyond sampling noise: {', '.join(open_)}."
        for attribute in audit.groups
        if (open_ := [_named(f) for f in audit.findings if f.attribute == attribute and _open(f)])
    ]
    for attribute in audit.groups:
        small = {f.group: None for f in audit.select("decisions", attribute=attribute)
                 if f.small and f.group and not f.where}  # fmt: skip
        if small:
            some = ", ".join(small) if len(small) <= 3 else f"{len(small)} of its groups"
            out.append(
                f"{attribute}: too few rows for some or all rates of {some}; left out of those gaps."
            )
    for attribute in {f.attribute: None for f in audit.select("attacks")}:
        found = _recovered(audit, attribute)
        if found is not None:
            out.append(found)
    rejected = sorted(
        {(f.attribute, f.metric.partition(" of ")[2], f.where) for f in audit.select("tests")
         if f.p_adjusted < 1.0 - audit.level}
    )  # fmt: skip
    out += [
        f"The {what} depends on {attribute}{' at the same y' if where else ''}: a test of independence "
        f"rejects."
        for attribute, what, where in rejected
    ]
    for proxy in audit.select("proxies"):
        if not proxy.small and (proxy.low > 0.0 or proxy.high < 0.0):
            out.append(
                f"A component of the score stands for {proxy.attribute}: held-out correlation "
                f"{_interval(proxy)}, {proxy.note}."
            )
    if audit.kernel is not None and audit.kernel.misspecified:
        out.append(audit.kernel.message)
    return tuple(out)


def _fitted_rows(share: float) -> str:
    return (
        f"About {share:.0%} of these rows were used for fitting; the numbers below do not hold for new "
        f"people."
    )


def _named(f: Finding) -> str:
    return f"{_spaced(f.metric)}{f' ({f.where})' if f.where else ''} {_number(f.value)}"


def _open(f: Finding) -> bool:
    """A gap or correlation that is there, as far as the interval can tell."""
    if f.group or f.section not in ("scores", "decisions"):
        return False
    return f.high < 1.0 if f.metric.startswith("demographic_parity_ratio") else f.low > 0.0


def _recovered(audit: Audit, attribute: str) -> str | None:
    """The best attack on what the model gives, if it is better than guessing."""
    best: Finding | None = None
    for one in audit.select("attacks", attribute=attribute):
        if not one.p_adjusted < 1.0 - audit.level:
            continue
        if best is None or one.value > best.value:
            best = one
    if best is None:
        return None
    attacker, measure, _, source = best.metric.split(" ", 3)
    name = {"auc": "AUC", "r2": "R^2"}[measure]
    return (
        f"{attribute} can be recovered from the {source}: {attacker} attacker, {name} {_interval(best)} "
        f"({_BLIND[measure]:g} is guessing)."
    )


# ------------------------------------------------------------------ a few lines


def summary(audit: Audit) -> str:
    """What ``print(audit)`` shows."""
    lines = [
        f"Audit of {audit.model} on {audit.n_rows:,} rows, intervals of {audit.level:.0%}."
        f"{_positive(audit)}"
    ]
    texts = [f"  ! {text}" for text in audit.warnings]
    if audit.fitted_share is not None:
        lines.append(texts.pop(0))
    lines += [f"  {_spaced(one.metric)}: {_interval(one)}" for one in audit.select("performance")]
    for attribute in audit.groups:
        mine = [one for one in audit.findings if one.attribute == attribute and not one.group]
        found = [
            f"    {_spaced(one.metric)}{f' ({one.where})' if one.where else ''}: {_interval(one)}"
            for metric in _SUMMARY
            for one in mine
            if one.metric.startswith(metric) and (one.section == "certificate" or not one.where)
        ]
        if found:
            lines += [f"  {attribute}", *found]
    lines += texts
    missing: dict[str, str] = audit.settings.get("not_made", {})
    lines += [f"  not made, {part}: {why}" for part, why in missing.items()]
    return "\n".join(inert(line, _LONGEST) for line in lines)


# ------------------------------------------------------------------ the model card section


def markdown(audit: Audit) -> str:
    """The whole audit as a section of a model card."""
    parts = [
        "## Fairness audit",
        f"{_cell(audit.model)}, audited on {audit.n_rows:,} rows.{_cell_after(_positive(audit))} "
        f"Intervals and bounds: {audit.level:.0%}. † marks groups with fewer than "
        f"{audit.settings.get('min_rows', 30)} effective rows: no statement.",
        _section("What stands out", _bullets(audit.warnings) or "Nothing beyond sampling noise."),
        _section("Not looked at", _bullets(_not_made(audit))),
        _section("Groups", _groups(audit)),
        _section("Performance", _plain_rows(audit, "performance")),
        _section("Dependence of scores on attributes", _gaps(audit, "scores")),
        _section("Gaps between groups", _gaps(audit, "decisions")),
        _section("By group", _by_group(audit)),
        _section("Tests of independence", _tests(audit)),
        _section("What attackers recover", _attacks(audit)),
        _section("Proxies inside the score", _gaps(audit, "proxies")),
        _section("Certificate for every function of the representation", _certificate(audit)),
        _section("Is the kernel good enough?", _plain_rows(audit, "kernel")),
        _section("What this rests on", audit.assumptions),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _cell_after(text: str) -> str:
    return f" {_cell(text)}" if text else ""


def _not_made(audit: Audit) -> list[str]:
    """Parts that could not be made, and those nobody asked for."""
    missing: dict[str, str] = audit.settings.get("not_made", {})
    asked = audit.settings.get("parts", SECTIONS[1:])
    out = [f"{part}: {why}" for part, why in missing.items()]
    return out + [f"{part}: not asked for" for part in SECTIONS[1:] if part not in asked]


def _positive(audit: Audit) -> str:
    """The favourable class, which every rate is about."""
    found = audit.settings.get("positive", [])
    return f" Positive class: {found[0]}." if len(found) == 1 else ""


def _section(title: str, body: str) -> str:
    return f"### {title}\n\n{body}" if body else ""


def _bullets(texts: Sequence[str]) -> str:
    # Text that begins like an item of a list would open one inside this one.
    return "\n".join("- " + _LIST.sub(r"\1\\\2", _cell(text)) for text in texts)


def _groups(audit: Audit) -> str:
    rows = [
        (name, label, f"{n:,}", f"{n / audit.n_rows:.1%}")
        for name, sizes in audit.groups.items()
        for label, n in sizes.items()
        if n
    ]
    return _table(("attribute", "group", "rows", "share"), rows)


def _plain_rows(audit: Audit, section: str) -> str:
    rows = [(_spaced(f.metric), _interval(f), f"{f.n_rows:,}") for f in audit.select(section)]
    return _table(("metric", "value", "rows"), rows) if rows else ""


def _gaps(audit: Audit, section: str) -> str:
    rows = [
        (
            f.attribute,
            f.where or "all rows",
            _spaced(f.metric),
            _interval(f),
            f"{f.n_rows:,}",
            f.note,
        )
        for f in audit.select(section)
        if not f.group or section == "proxies"
    ]
    return (
        _table(("attribute", "rows looked at", "metric", "value", "rows", "note"), rows)
        if rows
        else ""
    )


def _by_group(audit: Audit) -> str:
    """One table for each attribute and place: groups down, rates across."""
    out = []
    found = [f for f in audit.select("decisions") if f.group]
    for attribute, where in {(f.attribute, f.where): None for f in found}:
        mine = [f for f in found if (f.attribute, f.where) == (attribute, where)]
        metrics = list({f.metric: None for f in mine})
        by = {(f.group, f.metric): f for f in mine}
        rows = []
        for group in {f.group: None for f in mine}:
            cells = [by.get((group, metric)) for metric in metrics]
            rows.append((group, *(_rate(f) for f in cells)))
        place = f" where {where}" if where else ""
        head = ("group", *(_spaced(metric) for metric in metrics))
        out.append(
            f"**{_cell(attribute)}{_cell(place) and ' ' + _cell(place)}**\n\n{_table(head, rows)}"
        )
    return "\n\n".join(out)


def _rate(one: Finding | None) -> str:
    if one is None:
        return NONE
    return _interval(one) + (" †" if one.small else "")


def _tests(audit: Audit) -> str:
    rows = [
        (f.attribute, f.metric, f.where or "all rows", _number(f.value), _p(f.p_value),
         _p(f.p_adjusted), f"{f.n_rows:,}", f.note)
        for f in audit.select("tests")
    ]  # fmt: skip
    head = ("attribute", "test", "rows looked at", "statistic", "p", "p corrected", "rows", "note")
    return _table(head, rows) if rows else ""


def _attacks(audit: Audit) -> str:
    found = audit.select("attacks")
    cells = {}
    for f in found:
        attacker, measure, _, source = f.metric.split(" ", 3)
        cells[f.attribute, measure, source, attacker] = f
    attackers = list({key[3]: None for key in cells})
    rows = []
    for attribute, measure, source in {key[:3]: None for key in cells}:
        each = [cells.get((attribute, measure, source, attacker)) for attacker in attackers]
        name = {"auc": "AUC", "r2": "R^2"}[measure]
        rows.append((attribute, name, source, *(NONE if f is None else _interval(f) for f in each)))
    return _table(("attribute", "measure", "from", *attackers), rows) if rows else ""


def _certificate(audit: Audit) -> str:
    rows = [
        (b.attribute, b.cell or "all rows", str(b.n_functions), str(b.n_codes), _number(b.supremum),
         _number(b.bound), f"{b.n_rows:,}", b.note)
        for b in audit.bounds
    ]  # fmt: skip
    head = (
        "attribute", "rows looked at", "functions", "codes", "in these rows",
        f"at most ({audit.level:.0%})", "rows", "note",
    )  # fmt: skip
    return _table(head, rows) if rows else ""


def _mean_prediction(y_true: Any, y_pred: Any, sample_weight: Any = None) -> float:
    del y_true
    return float(np.average(y_pred, weights=sample_weight))


def metric_frame(data: Audited, metrics: Any) -> Any:
    """Decisions (1 for the positive class of two) or predictions, by all attributes at once."""
    try:
        from fairlearn.metrics import (
            MetricFrame,
            false_positive_rate,
            selection_rate,
            true_positive_rate,
        )
    except ImportError as error:
        msg = 'metric_frame needs fairlearn: pip install "fairlearn>=0.12".'
        raise ImportError(msg) from error
    if data.target is None:
        raise ValueError("metric_frame needs y; the audit was made without.")
    y: Any
    predicted: Any
    if data.classes is not None:
        if data.decided is None:
            raise ValueError("metric_frame needs decisions; the audit was given scores alone.")
        if len(data.positive) == 1:
            (k,) = data.positive
            y, predicted = (data.target.codes == k).astype(int), (data.decided == k).astype(int)
        else:
            y, predicted = data.classes[data.target.codes], data.classes[data.decided]
        standard = {
            "selection_rate": selection_rate, "true_positive_rate": true_positive_rate,
            "false_positive_rate": false_positive_rate, "accuracy": accuracy_score,
        }  # fmt: skip
        if len(data.positive) > 1:
            standard = {"accuracy": accuracy_score}
    else:
        if data.scores is None or data.scores.shape[1] != 1 or data.target.values is None:
            raise ValueError("metric_frame needs one prediction per row.")
        y, predicted = data.target.values, data.scores[:, 0]
        standard = {"mean_prediction": _mean_prediction, "mean_squared_error": mean_squared_error}
    metrics = standard if metrics is None else metrics
    weights: Any = {"sample_weight": data.weight}
    names = list(metrics) if isinstance(metrics, dict) else None
    labels = {one.name: np.array(one.labels, dtype=object)[one.codes] for one in data.attributes}
    strata = data.strata
    control = None if strata is None else {strata.name: np.array(strata.labels)[strata.codes]}
    return MetricFrame(
        metrics=metrics, y_true=y, y_pred=predicted, sensitive_features=labels,
        control_features=control,
        sample_params=weights if names is None else dict.fromkeys(names, weights),
    )  # fmt: skip
