"""An audit as text: the summary of ``repr``, its warnings, and a section for a model card."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from scipy.stats import norm

from fairspan._system import inert
from fairspan.auditing.documents import LONGEST, bullets, cell, table
from fairspan.auditing.findings import COVERED, SECTIONS, Finding
from fairspan.auditing.model_space import ASSUMPTIONS as BOUND_ASSUMPTIONS
from fairspan.auditing.outputs import COVERAGE

if TYPE_CHECKING:
    from fairspan.auditing.results import Audit

ASSUMPTIONS = (
    "All intervals are about the sampling of the audited rows, not about the fit: the model is taken "
    "as given. They hold if these rows were not used to fit it, are drawn independently of each other "
    "(with groups=, clusters of rows are), "
    "and come from the population that it will be used on. Intervals of gaps hold for all comparisons of "
    "groups at once, conservatively except at exact parity; those of single rates are percentiles of "
    "resamples. Groups of fewer than 30 effective rows get exact intervals of their rates. "
    "Tests that do not reject, and attackers that fail, are no proof of independence. "
    "Correlations and gaps compare means of groups and slices; equal means are not equal distributions. "
    + BOUND_ASSUMPTIONS
)

# Metrics of the summary; with more than two classes, of each class.
_SUMMARY = (
    "statistical_parity_correlation",
    "equal_opportunity_correlation",
    "equalized_odds_correlation",
    "demographic_parity_difference",
    "equalized_odds_difference",
    "mean_prediction_difference",
    f"{COVERED}_difference",
    "largest_correlation_of_any_function",
)
NONE = "-"  # shown where there is no number
# Measure of an attack -> its name, and the value of guessing.
_MEASURES = {"auc": ("AUC", 0.5), "r2": ("R^2", 0.0)}


def _number(value: float) -> str:
    if not math.isfinite(value):
        return NONE
    if value != 0.0 and abs(value) < 5e-4:
        return f"{value:.0e}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.4g}"


def interval_text(f: Finding) -> str:
    """``value [low, high]``, also where the value is not known and its limits are."""
    if math.isnan(f.low + f.high) or (math.isnan(f.value) and math.isinf(f.high)):
        return _number(f.value)
    low, high = (f"{end}" if math.isinf(end) else _number(end) for end in (f.low, f.high))
    return f"{_number(f.value)} [{low}, {high}]"


def _p(value: float) -> str:
    if not math.isfinite(value):
        return NONE
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _rate(f: Finding | None) -> str:
    if f is None:
        return NONE
    return interval_text(f) + (" †" if f.small else "")


def spaced(name: str) -> str:
    """Name of a metric with spaces."""
    return name.replace("_", " ")


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


# ------------------------------------------------------------------ warnings


def warnings_of(audit: Audit) -> tuple[str, ...]:
    """One sentence for each finding that stands out; the first is about rows of the fit, if any."""
    out = []
    if audit.fitted_share is not None:
        out.append(
            f"About {audit.fitted_share:.0%} of these rows were used for fitting; the numbers below do "
            f"not hold for new people."
        )
    for attribute in audit.group_sizes:
        gaps = [f for f in audit.findings if f.attribute == attribute and _is_gap(f)]
        if gaps:
            texts = [f"{spaced(f.metric)}{_in_brackets(f.where)} {_number(f.value)}" for f in gaps]
            out.append(f"{attribute}, beyond sampling noise: {', '.join(texts)}.")
    for attribute in audit.group_sizes:
        rates = audit.select("decisions", attribute=attribute, where="")
        small = {f.group: None for f in rates if f.small and f.group}
        if small:
            names = ", ".join(small) if len(small) <= 3 else f"{len(small)} of its groups"
            out.append(
                f"{attribute}: too few rows for some or all rates of {names}; left out of those gaps, or "
                f"compared with wide intervals if no two groups are left."
            )
    out += [_coverage_warning(audit, attribute) for attribute in audit.group_sizes]
    out += [f"{b.attribute}: {b.caution}." for b in audit.bounds if b.caution]
    alpha = 1.0 - audit.level
    for attribute in {f.attribute: None for f in audit.select("attacks")}:
        attacks = audit.select("attacks", attribute=attribute)
        successful = [f for f in attacks if f.p_adjusted < alpha]
        if successful:
            best = max(successful, key=lambda f: f.value)
            attacker, measure, _, source = best.metric.split(" ", 3)
            name, blind = _MEASURES[measure]
            out.append(
                f"{attribute} can be recovered from the {source}: {attacker} attacker, {name} "
                f"{interval_text(best)} ({blind:g} is guessing)."
            )
    rejected = {
        (f.attribute, f.metric.partition(" of ")[2], f.where)
        for f in audit.select("tests")
        if f.p_adjusted < alpha
    }
    for attribute, source, where in sorted(rejected):
        given = " at the same y" if where else ""
        out.append(f"The {source} depends on {attribute}{given}: a test of independence rejects.")
    out += [
        f"A component of the score stands for {proxy.attribute}: held-out correlation "
        f"{interval_text(proxy)}, {proxy.note}."
        for proxy in audit.select("proxies")
        if not proxy.small and (proxy.low > 0.0 or proxy.high < 0.0)
    ]
    if audit.kernel is not None and audit.kernel.misspecified:
        out.append(audit.kernel.message)
    return tuple(filter(None, out))


def _coverage_warning(audit: Audit, attribute: str) -> str:
    """Groups of which clearly fewer than 90 % of the rows are inside the model's intervals."""
    rates = audit.select(metric=COVERED, attribute=attribute, where="")
    z, joint = (norm.isf((1.0 - audit.level) / (2 * n)) for n in (1, max(len(rates), 1)))
    below = [
        f"{f.group} {interval_text(f)}"
        for f in rates
        if f.group and f.value + (f.high - f.value) * joint / z < COVERAGE
    ]
    if not below:
        return ""
    return (
        f"{attribute}: 90 % intervals contain y too seldom for {', '.join(below)}. Intervals that do not "
        f"use {attribute} cannot give every group its coverage; conformalize(X, y, sensitive_features=) "
        f"calibrates each group, the better the more rows of the group it has."
    )


def _is_gap(f: Finding) -> bool:
    """Whether the interval of a gap or correlation excludes parity."""
    if f.group or f.section not in ("scores", "decisions"):
        return False
    return f.high < 1.0 if f.metric.startswith("demographic_parity_ratio") else f.low > 0.0


# ------------------------------------------------------------------ summary


def n_rows(audit: Audit) -> str:
    """Number of rows, and of clusters if there are any."""
    clusters = "" if audit.n_clusters is None else f" in {audit.n_clusters:,} clusters"
    missing = ""
    if audit.n_without_sensitive:
        missing = f" (without {audit.n_without_sensitive:,} that lack a protected attribute)"
    return f"{audit.n_rows:,} rows{clusters}{missing}"


def summary(audit: Audit) -> str:
    """Text of ``print(audit)``."""
    head = f"Audit of {audit.model} on {n_rows(audit)}, intervals of {audit.level:.0%}."
    lines = [f"{head}{_positive(audit)}"]
    warnings = [f"  ! {text}" for text in audit.warnings]
    if audit.fitted_share is not None:
        lines.append(warnings.pop(0))
    lines += [f"  {spaced(f.metric)}: {interval_text(f)}" for f in audit.select("performance")]
    for attribute in audit.group_sizes:
        comparisons = audit.select(attribute=attribute, group="")
        shown = [
            f"    {spaced(f.metric)}{_in_brackets(f.where)}: {interval_text(f)}"
            for metric in _SUMMARY
            for f in comparisons
            if f.metric.startswith(metric) and (f.section == "certificate" or not f.where)
        ]
        covered = [
            f for f in audit.select(metric=COVERED, attribute=attribute, where="") if f.group
        ]
        if covered:
            rates = ", ".join(f"{f.group} {interval_text(f)}" for f in covered)
            shown.append(f"    90% intervals contain y: {rates}")
        if shown:
            lines += [f"  {attribute}", *shown]
    lines += warnings
    unavailable: dict[str, str] = audit.settings.get("not_made", {})
    lines += [f"  skipped, {part}: {reason}" for part, reason in unavailable.items()]
    return "\n".join(inert(line, LONGEST) for line in lines)


# ------------------------------------------------------------------ model card


def markdown(audit: Audit) -> str:
    """The whole audit as a section of a model card."""
    positive = _positive(audit)
    sections = {
        "What stands out": bullets(audit.warnings) or "Nothing beyond sampling noise.",
        "Not computed": bullets(_not_computed(audit)),
        "Groups": _groups(audit),
        "Performance": _findings(audit.select("performance"), _VALUES),
        "Dependence of scores on attributes": _findings(audit.select("scores"), _GAPS),
        "Gaps between groups": _findings(audit.select("decisions", group=""), _GAPS),
        "By group": _by_group(audit),
        "Tests of independence": _findings(audit.select("tests"), _TESTS),
        "What attackers recover": _attacks(audit),
        "Proxies inside the score": _findings(audit.select("proxies"), _GAPS),
        "Certificate for every function of the representation": _certificate(audit),
        "Is the kernel good enough?": _findings(audit.select("kernel"), _VALUES),
        "What this rests on": audit.assumptions,
    }
    unit = "rows" if audit.n_clusters is None else "clusters"
    head = (
        f"{cell(audit.model)}, audited on {n_rows(audit)}.{positive and f' {cell(positive)}'} "
        f"Intervals and bounds: {audit.level:.0%}. † marks groups with fewer than "
        f"{audit.settings.get('min_rows', 30)} effective {unit}."
    )
    parts = [f"### {title}\n\n{body}" for title, body in sections.items() if body]
    return "\n\n".join(["## Fairness audit", head, *parts]) + "\n"


def _not_computed(audit: Audit) -> list[str]:
    """Parts that could not be computed, with the reason, and parts that were not requested."""
    unavailable: dict[str, str] = audit.settings.get("not_made", {})
    requested = audit.settings.get("parts", SECTIONS[1:])
    out = [f"{part}: {reason}" for part, reason in unavailable.items()]
    return out + [f"{part}: not requested" for part in SECTIONS[1:] if part not in requested]


def _positive(audit: Audit) -> str:
    """The favourable class of all rates, if there is a single one."""
    positive = audit.settings.get("positive", [])
    return f" Positive class: {positive[0]}." if len(positive) == 1 else ""


def _groups(audit: Audit) -> str:
    clusters = audit.group_clusters
    rows = [
        (
            *(name, label, f"{n:,}", f"{n / audit.n_rows:.1%}"),
            *((f"{clusters[name][label]:,}",) if clusters else ()),
        )
        for name, sizes in audit.group_sizes.items()
        for label, n in sizes.items()
        if n
    ]
    head = ("attribute", "group", "rows", "share", *(("clusters",) if clusters else ()))
    return table(head, rows)


# Column of a table -> its text for one finding.
_COLUMNS: dict[str, Callable[[Finding], str]] = {
    "attribute": lambda f: f.attribute,
    "rows used": lambda f: f.where or "all rows",
    "metric": lambda f: spaced(f.metric),
    "test": lambda f: f.metric,
    "value": interval_text,
    "statistic": lambda f: _number(f.value),
    "p": lambda f: _p(f.p_value),
    "p corrected": lambda f: _p(f.p_adjusted),
    "rows": lambda f: f"{f.n_rows:,}",
    "note": lambda f: f.note,
}
_VALUES = ("metric", "value", "rows")
_GAPS = ("attribute", "rows used", "metric", "value", "rows", "note")
_TESTS = ("attribute", "test", "rows used", "statistic", "p", "p corrected", "rows", "note")


def _findings(findings: Iterable[Finding], columns: Sequence[str]) -> str:
    """A table with one line for each finding."""
    return table(columns, ([_COLUMNS[name](f) for name in columns] for f in findings))


def _by_group(audit: Audit) -> str:
    """One table for each attribute and stratum: groups down, rates across."""
    out = []
    rates = [f for f in audit.select("decisions") if f.group]
    for attribute, where in {(f.attribute, f.where): None for f in rates}:
        by_name = {
            (f.group, f.metric): f for f in rates if (f.attribute, f.where) == (attribute, where)
        }
        metrics = list({metric: None for _, metric in by_name})
        rows = [
            (group, *(_rate(by_name.get((group, metric))) for metric in metrics))
            for group in {group: None for group, _ in by_name}
        ]
        stratum = f" where {cell(where)}" if where else ""
        rates_table = table(("group", *map(spaced, metrics)), rows)
        out.append(f"**{cell(attribute)}{stratum}**\n\n{rates_table}")
    return "\n\n".join(out)


def _attacks(audit: Audit) -> str:
    cells = {}
    for f in audit.select("attacks"):
        attacker, measure, _, source = f.metric.split(" ", 3)
        cells[f.attribute, _MEASURES[measure][0], source, attacker] = interval_text(f)
    attackers = list({key[3]: None for key in cells})
    rows = [
        (*line, *(cells.get((*line, attacker), NONE) for attacker in attackers))
        for line in {key[:3]: None for key in cells}
    ]
    return table(("attribute", "measure", "from", *attackers), rows)


def _certificate(audit: Audit) -> str:
    limit = f"at most ({audit.level:.0%})"
    head = ("attribute", "rows used", "functions", "codes", "in these rows", limit, "rows", "note")
    rows = [
        (
            *(b.attribute, b.cell or "all rows", str(b.n_functions), str(b.n_codes)),
            *(_number(b.supremum), _number(b.bound), f"{b.n_rows:,}", b.note),
        )
        for b in audit.bounds
    ]
    return table(head, rows)
