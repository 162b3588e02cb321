"""Templates about selection: adverse impact, and the tables of New York City's Local Law 144."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairspan.auditing.documents import Block, Bullets, Heading, Paragraph, Table, ToFill
from fairspan.auditing.impact import GroupImpact, Impact, all_groupings, impacts
from fairspan.auditing.markdown import n_rows
from fairspan.auditing.reading import Audited
from fairspan.metrics.impact import (
    FISHER,
    standardized_mean_differences,
    weighted_median,
)
from fairspan.metrics.inputs import Mask
from fairspan.metrics.yardsticks import FOUR_FIFTHS, Yardstick

if TYPE_CHECKING:
    from fairspan.auditing.results import Audit

NO_JUDGEMENT = (
    "This document describes differences between groups and how sure they are. It judges no person and no "
    "organisation, and does not say whether a rule is kept: that depends on facts that are not in the data."
)
ASSUMES = (
    "Intervals are about the sampling of these people; the model is taken as given. They hold if it was not "
    "fitted on these people, if these are drawn independently (or in the clusters that were given), and if "
    "they come from the people that it is used on. Each is a statement on its own, and allows for the choice "
    "of the highest rate after looking. A difference that is not shown is not shown to be absent."
)
# Categories below this share of the data may be left out of impact ratios (6 RCNY 5-301 (d)).
SMALLEST_SHARE = 0.02
_FOUR_FIFTHS = Yardstick(measure="ratio", limit=FOUR_FIFTHS)


def needed_rows(audit: Audit) -> Audited:
    """The audited rows; raise if the audit does not hold them or has no groups of rows."""
    if audit.rows is None:
        raise ValueError("A template needs the rows, which this audit does not hold.")
    if audit.rows.probable:
        name = audit.rows.probable[0].name
        raise ValueError(
            f"This template needs the group of each row, and {name!r} is probabilities."
        )
    return audit.rows


# ------------------------------------------------------------------ shared parts


def rows_sentences(audit: Audit) -> list[str]:
    """What the numbers are about."""
    out = [f"{audit.model}, measured on {n_rows(audit)}. Intervals of {audit.level:.0%}."]
    if audit.fitted_share is not None:
        out.append(audit.warnings[0])
    return out


def selections(data: Audited) -> list[tuple[str, Mask]]:
    """Favourable decisions: a sentence about each, and which rows have it."""
    if data.decided is None or data.classes is None:
        return []
    many = len(data.positive) > 1
    return [
        (
            f"Favourable decision: {data.classes[k]}{' (one of several)' if many else ''}.",
            np.asarray(data.decided == k),
        )
        for k in data.positive
    ]


def percent(value: float) -> str:
    """A share in percent; "-" if it is not known."""
    return "-" if np.isnan(value) else f"{100.0 * value:.1f} %"


def _rate(g: GroupImpact) -> str:
    return f"{percent(g.rate.value)} ({100.0 * g.rate.low:.1f} to {100.0 * g.rate.high:.1f})"


def _ratio(g: GroupImpact) -> str:
    if np.isnan(g.ratio.value):
        return "-"
    return f"{g.ratio.value:.2f} ({g.ratio.low:.2f} to {g.ratio.high:.2f})"


def _people(value: float) -> str:
    return f"{value:,.0f}" if abs(value - round(value)) < 1e-9 else f"{value:,.1f}"


def _p(value: float) -> str:
    if np.isnan(value):
        return "-"
    return "below 0.001" if value < 0.001 else f"{value:.3f}"


def four_fifths(g: GroupImpact) -> str:
    """Whether the ratio is shown to be at least 0.8; "-" for groups that are not compared."""
    if g.test is None:
        return "-"
    return _FOUR_FIFTHS.judge(g.ratio.low, g.ratio.high)


def rates_table(found: Impact, title: str) -> Table:
    """People, selections, rates, ratios and shortfalls of the groups."""
    rows = [
        (
            *(
                g.group,
                _people(g.people),
                percent(g.share),
                _people(g.selected),
                _rate(g),
                _ratio(g),
            ),
            *(four_fifths(g), _shortfall(g)),
        )
        for g in found.groups
    ]
    head = (
        "group",
        "people",
        "share",
        "selected",
        "rate",
        "impact ratio",
        "at least 0.8",
        "shortfall",
    )
    return Table(f"{title} by {found.attribute}", head, tuple(rows))


def _shortfall(g: GroupImpact) -> str:
    if np.isnan(g.shortfall.value):
        return g.left_out and "not compared"
    if g.test is None:
        return "-"
    value, low, high = (max(x, 0.0) for x in (g.shortfall.value, g.shortfall.low, g.shortfall.high))
    return f"{value:,.1f} ({low:,.1f} to {high:,.1f})"


def tests_table(found: Impact) -> Table:
    """Significance of the differences from the highest rate."""
    rows = [
        (
            g.group,
            f"{g.test.z:.2f}",
            *(_p(g.test.p_value), _p(g.p_adjusted)),
            "yes" if g.test.flips_with_one else "no",
            f"{g.test.ratio_with_one:.2f}",
        )
        for g in found.groups
        if g.test is not None
    ]
    head = (
        "group",
        "standard deviations",
        *("p, two-sided", "p, corrected"),
        *("one person turns the order", "ratio with one person moved"),
    )
    return Table(f"Compared with {found.reference}, by {found.attribute}", head, tuple(rows))


def sentences(found: Impact, level: float) -> Iterator[str]:
    """One sentence for each group that is compared, and one for those that are not."""
    for g in found.groups:
        if g.test is None:
            continue
        verdict = {
            "kept": f"the ratio is shown to be at least {FOUR_FIFTHS:g}",
            "broken": f"the ratio is shown to be below {FOUR_FIFTHS:g}",
            "not provable": f"these people do not show whether the ratio is at least {FOUR_FIFTHS:g}",
        }[four_fifths(g)]
        chance = "is" if g.p_adjusted < 1.0 - level else "is not"
        one = ", and one person would turn the order around" if g.test.flips_with_one else ""
        yield (
            f"{g.group}: selected {g.ratio.value:.2f} times as often as {found.reference}; {verdict}. The "
            f"difference {chance} beyond chance at {1.0 - level:.2g}, two-sided and corrected{one}."
        )
    for g in found.groups:
        if g.left_out:
            yield f"{g.group}: not compared, {g.left_out}."


def unclear(data: Audited) -> str:
    """People whose groups are not known."""
    n = data.n_without_sensitive
    return f"People left out because a group is not known: {n:,}."


def _labels(data: Audited) -> dict[str, Any]:
    return {a.name: np.array(a.labels, object)[a.codes] for a in all_groupings(data)}


def _single_score(data: Audited) -> Any:
    """Scores of the favourable class, if there is one column of them."""
    given = data.scores is not None and data.scores.shape[1] == 1
    # Decisions alone are read as scores of 0 and 1, of which no median says anything.
    if not given or data.scores is None or len(np.unique(data.scores)) < 3:
        return None
    return data.scores[:, 0]


# ------------------------------------------------------------------ adverse impact


def adverse_impact(audit: Audit) -> Iterator[Block]:
    """Selection rates, impact ratios, shortfalls and their significance; score differences."""
    data = needed_rows(audit)
    chosen, score = selections(data), _single_score(data)
    if not chosen and score is None:
        raise ValueError(
            "template='adverse-impact' needs decisions or a score: audit(model, X, ...), or decisions=."
        )
    options: Any = {"level": audit.level, "n_boot": audit.settings.get("n_boot", 500)}
    yield Heading("Adverse impact analysis", 1)
    yield Paragraph(NO_JUDGEMENT)
    yield Bullets((*rows_sentences(audit), unclear(data)))
    yield ToFill(
        (
            "organisation, position or product, and period of these decisions",
            "step of the process that the decisions are part of, and who takes the final decision",
            "how the people in the data were found, and who is missing",
            "how the groups were recorded (by the people themselves, or by others)",
        )
    )
    for text, mask in chosen:
        yield Heading("Selection rates")
        yield Paragraph(text)
        found = impacts(data, mask, min_rows=audit.settings.get("min_rows", 30), **options)
        for each in found:
            yield Heading(f"By {each.attribute}", 3)
            yield Bullets(tuple(sentences(each, audit.level)))
            yield rates_table(each, "Selection")
            yield tests_table(each)
    if score is not None:
        yield from _score_parts(data, score)
    yield Heading("How to read this")
    exact = data.clusters is None and bool(np.ptp(data.weight) == 0.0)
    yield Bullets(_explanations(exact))
    yield Heading("What the intervals rest on")
    yield Paragraph(ASSUMES)
    yield Heading("What only the people responsible can add")
    yield ToFill(
        (
            "what the selection is meant to find, and the evidence that it does",
            "alternatives that were looked at, with a smaller difference and the same use",
            "date, name and signature",
        )
    )


def _score_parts(data: Audited, score: Any) -> Iterator[Block]:
    rows = []
    within = standardized_mean_differences(score, **_given(data))
    overall = standardized_mean_differences(score, scale="all", **_given(data))
    for name, by_group in within.items():
        rows += [
            (f"{name}: {group}", f"{d:.2f}", f"{overall[name][group]:.2f}")
            for group, d in by_group.items()
        ]
    head = ("group", "within groups", "of all people")
    yield Heading("Scores")
    yield Paragraph(
        "Mean score of each group minus the highest mean of a group, in standard deviations. These are "
        "estimates without intervals; small groups vary."
    )
    yield Table("Standardised mean differences", head, tuple(rows))


def _given(data: Audited) -> dict[str, Any]:
    return {"sensitive_features": _labels(data), "sample_weight": data.weight}


def _explanations(exact: bool) -> tuple[str, ...]:
    test = FISHER if exact else "the z-test of two rates with effective numbers of rows"
    return (
        "Impact ratio: the selection rate of a group over the highest rate of the groups compared. The "
        "four-fifths rule of the Uniform Guidelines on Employee Selection Procedures (29 CFR 1607.4 D) takes "
        "0.8 as its rule of thumb; smaller differences may matter, and larger ones may be chance.",
        "At least 0.8: kept if the whole interval of the ratio is at least 0.8, broken if none of it is, and "
        "not provable otherwise.",
        "Shortfall: how many more people of the group would have been selected at the highest rate.",
        f"Statistical significance: {test}, two-sided. Corrected for the number of groups by Holm's method. "
        "The tests take the highest rate as if it had been named before; the intervals of ratios do not, so "
        "in close cases they may differ.",
        "Standard deviations: the difference of the two rates over its standard error if both were equal. "
        "US courts have taken two or three as a sign that chance is an unlikely explanation (Hazelwood "
        "School District v. United States, 1977).",
        "Practical significance: besides the ratio, whether one more person of the group selected, and one "
        "fewer of the other, would turn the order around (Questions and Answers 21 on the Guidelines).",
    )


# ------------------------------------------------------------------ Local Law 144


def local_law_144(audit: Audit) -> Iterator[Block]:
    """Impact ratios by category and intersection as the rules of New York City define them."""
    data = needed_rows(audit)
    chosen, score = selections(data), _single_score(data)
    if not chosen and score is None:
        raise ValueError(
            "template='ll144' needs decisions or a score: audit(model, X, ...), or decisions=."
        )
    options: Any = {
        "level": audit.level,
        "n_boot": audit.settings.get("n_boot", 500),
        "min_rows": 0,
        "min_share": SMALLEST_SHARE,
    }
    yield Heading("Selection and scoring rates by category", 1)
    yield Paragraph(
        "Tables in the form of the rules on automated employment decision tools of the City of New York (6 "
        f"RCNY 5-300 and following, for Local Law 144 of 2021). {NO_JUDGEMENT}"
    )
    yield Bullets((*rows_sentences(audit), unclear(data)))
    yield ToFill(
        (
            "name of the tool, its distribution date, and the employer or employment agency",
            "independent auditor, and date of the bias audit",
            "source of the data (historical data or test data), its period, and how it was collected",
            "which attribute is sex and which is race or ethnicity, in the categories of the EEO-1 report",
            "if test data were used: why, and how they were made",
        )
    )
    for text, mask in chosen:
        yield Heading("Selection rates")
        yield Paragraph(f"{text} Impact ratio: selection rate over the highest selection rate.")
        yield from _categories(impacts(data, mask, **options), "selection rate", "selected")
    if score is not None:
        median = weighted_median(score, data.weight)
        yield Heading("Scoring rates")
        yield Paragraph(
            f"Scoring rate: share of a category with a score above the median of all people, {median:.4g}. "
            f"Impact ratio: scoring rate over the highest scoring rate."
        )
        above = np.asarray(score > median)
        yield from _categories(impacts(data, above, **options), "scoring rate", "above median")
    if len(data.attributes) == 1:
        yield ToFill(
            ("a second attribute, for the table of intersections: only one was part of this audit",)
        )
    yield Heading("Notes")
    yield Bullets(
        (
            f"Categories with fewer than {SMALLEST_SHARE:.0%} of the people are left out of the comparison, "
            "as the rules allow (6 RCNY 5-301 (d)); their numbers and rates are shown. The reason is their "
            "number alone.",
            "The rules ask for no intervals. They are added because a ratio of few people varies.",
            *(text for text in (_ties(data, score),) if text),
            ASSUMES,
        )
    )


def _ties(data: Audited, score: Any) -> str:
    """A note where many people have exactly the median score."""
    if score is None:
        return ""
    median = weighted_median(score, data.weight)
    share = float(data.weight @ (score == median) / data.weight.sum())
    if share < 0.05:
        return ""
    return (
        f"{share:.0%} of the people have exactly the median score and do not count as above it; with so "
        f"many equal scores, scoring rates depend on where the median falls."
    )


def _categories(found: Sequence[Impact], rate: str, chosen: str) -> Iterator[Block]:
    for each in found:
        rows = [
            (
                *(g.group, _people(g.people), _people(g.selected), percent(g.rate.value)),
                f"left out: {percent(g.share)} of the people" if g.left_out else _ratio(g),
            )
            for g in each.groups
        ]
        head = ("category", "people", chosen, rate, "impact ratio")
        yield Table(f"{rate.capitalize()}s by {each.attribute}", head, tuple(rows))
