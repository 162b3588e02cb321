"""Verdicts of a report: whether limits on differences between groups hold on the held-out rows.

The estimates and intervals are the audit's. Each verdict has one sentence with the numbers, the groups
and the number of people. No sentence draws a legal conclusion.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairspan.auditing import Finding, Protected
from fairspan.metrics.yardsticks import FOUR_FIFTHS, Verdict, Yardstick, read_yardstick
from fairspan.report.dial_points import FEWEST, DialPoint, HeldOut, count_groups
from fairspan.report.likely import LikelyGroups
from fairspan.report.training import Favourable
from fairspan.report.views import estimate
from fairspan.report.words import ReportContext

# Cohen (1988) calls a correlation of 0.1 small. There is no legal rule for scores.
SMALL_CORRELATION = 0.1
_METRICS = {
    "ratio": "demographic_parity_ratio",
    "gap": "demographic_parity_difference",
    "correlation": "statistical_parity_correlation",
}
_LONGEST_NAME = 40


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits that a report judges.

    Attributes
    ----------
    yardsticks : tuple of Yardstick
    stated : bool
        Whether the user has stated them; otherwise they are the default.
    """

    yardsticks: tuple[Yardstick, ...]
    stated: bool


# ------------------------------------------------------------------ the limits


def read_limits(given: Any) -> tuple[Yardstick, ...]:
    """Read limits such as ``["gap=0.05", "ratio=0.8"]`` or ``{"gap": 0.05}``, each once.

    Raises
    ------
    ValueError
        A limit has another form.
    """
    if given is None:
        return ()
    if isinstance(given, Mapping):
        given = [f"{measure}={limit}" for measure, limit in given.items()]
    several = [given] if isinstance(given, str | Yardstick) else list(given)
    return tuple(dict.fromkeys(read_yardstick(text) for text in several))


def choose_limits(
    given: Sequence[Yardstick], target: str, classes: int | None, favourable: Favourable | None
) -> Limits:
    """Take the stated limits, or the default: the four-fifths ratio, or a correlation without rates.

    Parameters
    ----------
    given : limits that the user has stated.
    target, classes : name of the target, and its number of classes; None for a number.
    favourable : the class whose selection rates are compared, if there is one.

    Raises
    ------
    ValueError
        A ratio or a gap is stated, and there is no favourable class.
    """
    if not given:
        measure, limit = (
            ("ratio", FOUR_FIFTHS) if favourable else ("correlation", SMALL_CORRELATION)
        )
        return Limits(yardsticks=(Yardstick(measure=measure, limit=limit),), stated=False)
    rates = [str(y) for y in given if y.measure != "correlation"]
    if rates and favourable is None:
        rule = f"The limit {rates[0]} compares how often groups get the favourable class"
        if classes is None:
            raise ValueError(
                f"{rule}, but the target {target!r} is a number. Limit the correlation, as "
                f"correlation={SMALL_CORRELATION}."
            )
        raise ValueError(
            f"{rule}; {target!r} has {classes} classes, and none is named. Name it with --positive (in "
            f"Python, pos_label), or limit the correlation, as correlation={SMALL_CORRELATION}."
        )
    return Limits(yardsticks=tuple(given), stated=True)


def limit_words(yardstick: Yardstick) -> str:
    """A limit in words, as "four-fifths ratio" or "limit of 5 points on the gap"."""
    if yardstick.measure == "gap":
        return f"limit of {100.0 * yardstick.limit:g} points on the gap"
    if yardstick.measure == "ratio" and yardstick.limit == FOUR_FIFTHS:
        return "four-fifths ratio"
    return f"limit of {yardstick.limit:g} on the {yardstick.measure}"


# ------------------------------------------------------------------ verdicts


def verdicts(
    point: DialPoint, held_out: HeldOut, limits: Limits, context: ReportContext
) -> list[dict[str, Any]]:
    """Judge every limit for every protected attribute at one dial value, on all held-out rows.

    Returns
    -------
    list of dict
        "attribute", "limit", "verdict", the estimate and interval of the measure, and "words".
    """
    out = []
    for groups in held_out.attributes:
        compared = _Compared.of(point, held_out, groups)
        judged = [_verdict(point, held_out, compared, y, context) for y in limits.yardsticks]
        # Named once for each attribute, after the first limit.
        judged[0]["words"] += compared.left_out()
        out += judged
    return out


def _verdict(
    point: DialPoint,
    held_out: HeldOut,
    compared: _Compared,
    yardstick: Yardstick,
    context: ReportContext,
) -> dict[str, Any]:
    key = (_METRICS[yardstick.measure], compared.attribute, "", "")
    finding = point.findings.get(key, Finding("", ""))
    low, high = (finding.low, finding.high) if math.isfinite(finding.value) else (math.nan,) * 2
    verdict = yardstick.judge(low, high)
    words = _sentence(verdict, finding, compared, yardstick, held_out, context)
    if verdict == "not provable" and math.isfinite(finding.value):
        words += compared.least_certain(yardstick)
    return {
        "attribute": compared.attribute,
        "limit": str(yardstick),
        "verdict": verdict,
        **{key: x for key, x in estimate(finding).items() if key in ("value", "low", "high")},
        "words": words,
    }


@dataclass(frozen=True, kw_only=True)
class _Compared:
    """Groups of an attribute that the audit compares, with their selection rates if there are any."""

    attribute: str
    rates: dict[str, Finding]  # label -> selection rate of a group that is compared
    counts: dict[str, int]  # label -> held-out rows, of all groups
    small: tuple[str, ...]  # labels that are not compared
    is_number: bool
    is_likely: bool = False  # groups are known as probabilities, so that counts are expected ones

    @classmethod
    def of(cls, point: DialPoint, held_out: HeldOut, groups: Protected | LikelyGroups) -> _Compared:
        counts = dict(zip(groups.labels, count_groups(groups), strict=True))
        rates = {
            label: f
            for label in groups.labels
            if (f := point.findings.get(("selection_rate", groups.name, label, "")))
        }
        # The rule of the audit: small groups are compared only if fewer than two others are left.
        if rates:
            large = [label for label, f in rates.items() if not f.small]
        else:
            large = [label for label, n in counts.items() if n >= held_out.settings.min_rows]
        present = [label for label, n in counts.items() if n]
        used = large if len(large) > 1 else present
        return cls(
            attribute=groups.name,
            rates={label: f for label, f in rates.items() if label in used},
            counts=counts,
            small=tuple(label for label in present if label not in used),
            is_number=groups.values is not None,
            is_likely=isinstance(groups, LikelyGroups) and not groups.certain,
        )

    def named(self, label: str) -> str:
        return group_words(self.attribute, label)

    def people(self, label: str) -> str:
        return f"{'about ' if self.is_likely else ''}{_people(self.counts[label])}"

    def ends(self) -> tuple[str, str]:
        """The groups with the lowest and the highest rate."""
        order = sorted(self.rates, key=lambda label: self.rates[label].value)
        return order[0], order[-1]

    def rate(self, label: str) -> str:
        return f"{self.named(label)}, {_percent(self.rates[label].value)} of {self.people(label)}"

    def least_certain(self, yardstick: Yardstick) -> str:
        """A sentence about the group that makes the interval wide."""
        if yardstick.measure == "correlation":
            used = [label for label, n in self.counts.items() if n and label not in self.small]
            if self.is_number or len(used) < 2:
                return ""
            label = min(used, key=lambda label: self.counts[label])
            return f" The smallest group is {self.named(label)}, with {self.people(label)}."

        def width(label: str) -> float:
            f = self.rates[label]
            scale = f.value if yardstick.measure == "ratio" else 1.0
            return (f.high - f.low) / scale if scale > 0.0 else math.inf

        label = max(self.rates, key=width)
        return f" The least certain rate is that of {self.named(label)}, with {self.people(label)}."

    def left_out(self) -> str:
        """A sentence about the groups that are not compared."""
        if not self.small or self.is_number:
            return ""
        some = [f"{self.named(label)} ({self.people(label)})" for label in self.small[:5]]
        more = f" and {len(self.small) - 5} more" if len(self.small) > 5 else ""
        return f" Too few people to judge: {', '.join(some)}{more}."


def _sentence(
    verdict: Verdict,
    finding: Finding,
    compared: _Compared,
    yardstick: Yardstick,
    held_out: HeldOut,
    context: ReportContext,
) -> str:
    """One sentence with the verdict, the numbers and the groups."""
    by, n = _brief(compared.attribute), f"{finding.n_rows:,}"
    limit, on = f"he {limit_words(yardstick)} by {by}", "these people"
    if yardstick.measure == "correlation":
        limit = f"he {limit_words(yardstick)} of {_score(held_out, context)} with {by}"
        on = f"these {n} people"
    start = f"T{limit} is {verdict} on {on}"
    if verdict == "not provable":
        start = f"Whether t{limit} is kept is not provable with this many people"
    if not math.isfinite(finding.value):
        return f"{start}: {_unknown(compared)}."
    level = f"{100.0 * held_out.settings.level:g}%"
    lies = f"with {level} confidence between {{}} and {{}}"
    if yardstick.measure == "correlation":
        low, high = (_apart(x, yardstick.limit) for x in (finding.low, finding.high))
        among = f"among {n} people it is" if verdict == "not provable" else "it is"
        return f"{start}: {among} {finding.value:.3f}, {lies.format(low, high)}."
    lowest, highest = compared.ends()
    if compared.rates[highest].value <= 0.0:
        return f"{start}: nobody is selected in any group."
    ends = compared.rate(lowest), compared.rate(highest)
    if yardstick.measure == "ratio":
        low, high = (_apart(x, yardstick.limit) for x in (finding.low, finding.high))
        return (
            f"{start}: the lowest selection rate ({ends[0]}) is {finding.value:.3f} times the highest "
            f"({ends[1]}), {lies.format(low, high)}, and at least {yardstick.limit:g} is required."
        )
    low, high = (_apart(100.0 * x, 100.0 * yardstick.limit, 1) for x in (finding.low, finding.high))
    return (
        f"{start}: the lowest selection rate ({ends[0]}) is {100.0 * finding.value:.1f} points below the "
        f"highest ({ends[1]}), {lies.format(low, high)} points."
    )


def _unknown(compared: _Compared) -> str:
    """Why there is no estimate."""
    few = [label for label, n in compared.counts.items() if 0 < n < FEWEST]
    if few:
        label = few[0]
        return f"{compared.named(label)} has only {compared.people(label)}"
    return "there are not two groups of people to compare"


def _score(held_out: HeldOut, context: ReportContext) -> str:
    if held_out.task == "regression":
        return "the prediction"
    return "the rule's margin" if context.decides else "the score"


# ------------------------------------------------------------------ how to read the page


def how_to_read(
    held_out: HeldOut,
    context: ReportContext,
    limits: Limits,
    target: str,
    favourable: Favourable | None,
) -> list[str]:
    """Ten sentences for a reader who knows neither the model nor statistics."""
    numeric, n = held_out.task == "regression", held_out.data.n
    level, min_rows = held_out.settings.level, held_out.settings.min_rows
    if favourable is not None:
        label = group_words(target, str(favourable.label))
        guess = "" if favourable.named else ", a class that was guessed and not named"
        unit = f"A selection rate is the share of a group that the model decides “{label}”{guess}."
    elif numeric:
        unit = (
            "A mean prediction is the average of what the model predicts for the people of a group."
        )
    else:
        unit = "A share is the part of a group that the model decides to be of a class."
    if any(y.measure != "correlation" for y in limits.yardsticks):
        measure = (
            "The ratio is the lowest selection rate divided by the highest, the gap is the highest minus "
            "the lowest, and equal rates have ratio 1 and gap 0."
        )
    else:
        measure = (
            "A correlation is 0 if averages are the same in every group and 1 if they follow the group "
            "exactly; of several groups the largest correlation counts."
        )
    change = (
        "Changes compare with the model at fairness 0, which is trained for accuracy alone."
        if numeric
        else "Changed decisions are counted against those of the model at fairness 0, which is trained for "
        "accuracy alone."
    )
    slider = "rates of decisions" if context.decides else "average scores"
    if numeric:
        slider = "average predictions"
    among = "" if context.criterion == "statistical_parity" else _among(context.criterion)
    return [
        f"The verdicts are about {n:,} held-out people, whose rows were not used to train the model.",
        unit,
        measure,
        f"The range after a number is its {100.0 * level:g}% interval, for each number and each setting by "
        f"itself: a setting that is picked for its verdict looks better than it is.",
        "Kept means that the whole interval keeps the limit, broken that none of it does, and not "
        "provable that the limit lies inside, so that these people are too few to say.",
        f"{_origin(limits)}, and a verdict is a measurement on these people, not a legal conclusion.",
        f"The slider makes {slider} more equal{among}; errors and everything else can still differ "
        f"between groups, and the sections below show by how much.",
        change,
        f"Groups of fewer than {min_rows} people are not compared if larger ones are there, and harm to "
        f"groups without a column, or to people who are missing from the data, does not show here.",
        "All of this holds for people who are drawn like these, whose recorded outcomes may be unfair "
        "themselves, and for exactly the data and the model with the digests on this page.",
    ]


def _origin(limits: Limits) -> str:
    """Where the limits come from."""
    if limits.stated:
        several = len(limits.yardsticks) > 1
        return f"The limit{'s were' if several else ' was'} stated by the person who made this page"
    if limits.yardsticks[0].measure == "ratio":
        return (
            "No limit was stated, so the ratio is compared with 0.8, the four-fifths rule of the US "
            "Uniform Guidelines of 1978"
        )
    return (
        f"No limit was stated and no class is favourable, so the correlation is compared with "
        f"{SMALL_CORRELATION}, which is a small one by convention (Cohen 1988)"
    )


def _among(criterion: str) -> str:
    words = {
        "equalized_odds": " among people with the same true outcome",
        "equal_opportunity": " among people whose true outcome is the favourable one",
        "conditional_statistical_parity": " inside each stratum of the control features",
    }
    return f"{words[criterion]}, whereas the verdicts are about all people"


# ------------------------------------------------------------------ numbers and names


def _percent(x: float) -> str:
    return f"{100.0 * x:.1f}%"


def _people(n: int) -> str:
    return "1 person" if n == 1 else f"{n:,} people"


def _apart(x: float, limit: float, digits: int = 3) -> str:
    """A number with so many decimals that it differs from the limit if it is different."""
    while digits < 6 and x != limit and float(f"{x:.{digits}f}") == limit:
        digits += 1
    return f"{x:.{digits}f}"


def _brief(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


_NUMBER = r"(-?[\d.]+(?:e[+-]?\d+)?)"
_SLICES = (
    (re.compile(rf"^< {_NUMBER}$"), r"under \1"),
    (re.compile(rf"^>= {_NUMBER}$"), r"\1 and over"),
    (re.compile(rf"^\[{_NUMBER}, {_NUMBER}\)$"), r"\1 to under \2"),
)
_BARE = re.compile(r"-?[\d.,]+|true|false|yes|no|y|n", re.IGNORECASE)


def group_words(attribute: str, label: str) -> str:
    """Name of a group that is clear by itself: "age under 25", "member = yes", "black"."""
    name = _brief(attribute)
    if _BARE.fullmatch(label.strip()):
        return f"{name} = {label}"
    for pattern, words in _SLICES:
        if pattern.match(label):
            return f"{name} {pattern.sub(words, label)}"
    return _brief(label)
