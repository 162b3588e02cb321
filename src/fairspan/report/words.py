"""Sentences of the report, for a reader who is responsible for a model and does not read code.

Names of models, metrics and criteria, the promises of a certificate, and notes on everything that was
left out, filled in, merged or sampled. :class:`ReportContext` holds what all sentences share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairspan.method.certificates import Certificate, NewRowsCertificate
from fairspan.method.decision_certificate import DecisionCertificate
from fairspan.method.problem import Codes
from fairspan.report.dial_points import FEWEST, DialPoint, HeldOut, count_groups
from fairspan.report.likely import promise_words
from fairspan.report.slopes import Line
from fairspan.report.table import NOT_ENCODED, Roles
from fairspan.report.training import Favourable

CHANGE_CLASS = "--positive CLASS (in Python, pos_label)"
KEEP_COLUMN = "--keep NAME (in Python, features=) uses a column all the same."
# Correlations below this are zero up to rounding.
_ZERO = 1e-6

_MODELS = {
    "FairGPClassifier": "Gaussian process classifier",
    "FairGPRegressor": "Gaussian process regression",
    "FairClassifier": "cross-fitted classifier",
    "FairRegressor": "cross-fitted regression",
    "FairRidge": "kernel ridge regression",
    "FairRidgeClassifier": "kernel least-squares classifier",
}

_METRICS = {
    "statistical_parity_correlation": "correlation of the score with the attribute",
    "correlation_ratio": "share of the score's spread that lies between the groups (as a root)",
    "equal_opportunity_correlation": (
        "correlation of the score with the attribute among the truly positive"
    ),
    "equalized_odds_correlation": (
        "correlation of the score with the attribute at the same true outcome"
    ),
    "demographic_parity_difference": "difference of selection rates",
    "demographic_parity_ratio": "lowest selection rate over the highest",
    "equal_opportunity_difference": "difference of true positive rates",
    "equalized_odds_difference": "difference of true or false positive rates, the larger",
    "predictive_parity_difference": "difference of how often the selected are truly positive",
    "accuracy_difference": "difference of the shares of right decisions",
    "calibration_difference": "difference of how far probabilities are too high",
    "mean_prediction_difference": "difference of mean predictions",
    "mean_error_difference": "difference of mean errors",
    "root_mean_squared_error_difference": "difference of root mean squared errors",
}

_CRITERIA = {
    "statistical_parity": "Statistical parity:",
    "equalized_odds": "Equalized odds: among people with the same true {target},",
    "equal_opportunity": "Equal opportunity: among people whose true {target} is {positive},",
    "conditional_statistical_parity": (
        "Conditional statistical parity: among people of the same {strata},"
    ),
}
# The rows that a promise is about, after the names of the attributes.
_CELLS = {
    "statistical_parity": "",
    "equalized_odds": ", at each true outcome",
    "equal_opportunity": ", among those whose true outcome is the favourable one",
    "conditional_statistical_parity": ", inside each stratum of the control features",
}


@dataclass(frozen=True, kw_only=True)
class ReportContext:
    """Everything that all dial values of a report share, besides the held-out rows."""

    criterion: str  # full name
    n_train: int  # rows fitted on
    n_test: int  # rows held out
    noise: float  # rough size by chance of a held-out correlation that is truly 0; NaN if unknown
    end: Certificate  # certificate at fairness 1
    latent: bool = False  # the page shows probabilities, while the criterion is about the raw score
    decides: bool = False  # a rule equalizes decisions; scores are about the target alone
    unseen_groups: tuple[str, ...] = ()  # groups that no training row belongs to
    # Number of the class whose scores are drawn, of several; None for one score.
    drawn_class: int | None = None
    displayed: Codes | None = None  # rows of the scatter plots
    # Numeric protected attributes, by name, as slopes need them.
    lines: Mapping[str, Line] = field(default_factory=dict)


def metric_words(metric: str, *, decides: bool = False) -> str:
    """Plain name of a metric; of several classes, with the class.

    The score of a rule that equalizes decisions is its margin.
    """
    name, bracket, label = metric.partition(" (")
    words = _METRICS.get(name, name.replace("_", " "))
    if decides:
        words = words.replace("the score", "the rule's margin")
    return f"{words}{bracket}{label}"


def _listed(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _some(texts: Sequence[str]) -> str:
    return ", ".join(texts[:6]) + (f" and {len(texts) - 6} more" if len(texts) > 6 else "")


def _rounded(correlation: float) -> str:
    return f"{correlation:.3f}" if correlation >= 5e-4 else f"{correlation:.0e}"


# ------------------------------------------------------------------ the criterion


def criterion_words(
    criterion: str,
    attributes: Sequence[str],
    strata: Sequence[str],
    target: str,
    positive: str,
    *,
    latent: bool = False,
    decides: bool = False,
) -> str:
    """Explain a criterion: which mean or rate must not depend on which attributes.

    Parameters
    ----------
    criterion, attributes, strata, target, positive : full name, columns, and the favourable class.
    latent : the page shows probabilities, while the criterion is about the raw score.
    decides : the criterion is about decisions.
    """
    groups, among = _listed(attributes), _listed(strata)
    among = _CRITERIA[criterion].format(strata=among, target=target, positive=positive)
    if decides:
        return (
            f"{among} the share of people who get each decision must not depend on {groups}. The slider "
            f"moves decisions; probabilities are about {target} alone, and stay as they are."
        )
    out = f"{among} the mean score must not depend on {groups}."
    if latent:
        out += (
            ' "Score" is the model\'s raw score; averages of the probabilities can still differ a '
            "little."
        )
    return out


# ------------------------------------------------------------------ the certificate


def certificate_words(
    certificate: Certificate, fairness: float, context: ReportContext
) -> list[str]:
    """Explain a certificate: what is promised, on which rows, and what is not promised."""
    if certificate.decisions is not None:
        return list(_decision_words(certificate.decisions, fairness, context))
    raw = "raw score" if context.latent else "score"
    used = list(dict.fromkeys(b.attribute for b in certificate.blocks if b.constrained))
    who = (_listed(used) or "any protected attribute") + _CELLS[certificate.criterion]
    rows = f"the {context.n_train:,} training rows"
    expected = certificate.new_rows if certificate.n_functions else None
    on_training_rows = _removes_on_training_rows(certificate)
    out = [] if expected is None else [_expectation(expected, fairness, rows, raw, who)]
    if expected is not None and not on_training_rows:
        if 0.0 < fairness < 1.0:
            share = f"{100 * fairness:.0f} %"
            out.append(
                f"At this value {share} of the dependence that was expected at fairness 0 is gone."
            )
        if left := expected.directions_left():
            out.append(f"Not removed whole, even at fairness 1: {_some(left)}.")
    elif expected is None or fairness > 0.0:
        out.append(_promise(certificate, fairness, f"On {rows}", raw, who))
        if certificate.n_functions and 0.0 < fairness < 1.0:
            out.append(f"Between the two ends the promise is partial: {_rest(context.end)}.")
    if fairness > 0.0 and certificate.n_functions and on_training_rows:
        out.append(
            "Among new people some dependence remains. Most of it is systematic: the fit removes the "
            "dependence that the training rows show, and too little of it elsewhere. It is larger if "
            "rows or groups are few, or columns many."
        )
        if certificate.no_estimate:
            out.append(f"How large it is was not estimated, because {certificate.no_estimate}.")
    chance = "Numbers about new people also vary by chance"
    if math.isfinite(context.noise):
        chance += (
            f": on {context.n_test:,} held-out rows a correlation that is truly zero is measured as about "
            f"{_rounded(context.noise)}"
        )
    out.append(
        f"{chance}. This assumes that new people are drawn like these rows, and independently of each "
        f"other; it no longer holds if the population changes, or the way data are recorded."
    )
    more = " Averages of the probabilities, which this page draws, can still differ a little."
    out.append(
        f"The promise is about means of the {raw}.{more if context.latent else ''} It does not say that "
        f"scores have the same spread or shape in every group, that decisions at a threshold are equally "
        f"frequent, or that the attribute cannot be guessed from the score. See the other views for those."
    )
    return [*out, *promise_words(certificate), *_exceptions(certificate, fairness, context)]


def _decision_words(
    rates: DecisionCertificate, fairness: float, context: ReportContext
) -> Iterator[str]:
    """Explain the rates of a decision rule that are expected among new people."""
    who = _listed(list(dict.fromkeys(rate.attribute for rate in rates.rates)))
    who += f"{cells}," if (cells := _CELLS[context.criterion]) else ""
    free = "Fairness 0 promises nothing: these decisions are made for accuracy alone. "
    expected = "" if rates.has_few_rows else f"are expected to differ by {rates.gap:.3f}, and "
    yield (
        f"{free if fairness <= 0.0 else ''}Among new people, the rates at which groups of {who} get "
        f"decisions {expected}differ by at most {rates.gap_high:.3f} with {100 * rates.confidence:.0f} % "
        f"confidence. "
        f"They were counted on the {context.n_train:,} training rows, each decided by functions that were "
        f"not fitted on it."
    )
    if 0.0 < fairness < 1.0:
        yield f"At this value {100 * fairness:.0f} % of the difference at fairness 0 is gone."
    if fairness >= 1.0:
        yield "This is the smallest difference that a rule reached without using the attributes."
    yield (
        f"Numbers about new people also vary by chance; the smallest group, {rates.smallest}, has "
        f"{rates.smallest_rows:,} rows. This assumes that new people are drawn like these rows, and "
        f"independently of each other; it no longer holds if the population changes, or the way data are "
        f"recorded."
    )
    yield (
        "The promise is about how often groups get each decision. It does not say that probabilities are "
        "equal on average, that errors are equally frequent unless the criterion is about them, or that the "
        "attribute cannot be guessed from the decisions. See the other views for those."
    )
    if left_out := list(dict.fromkeys([*rates.left_out, *context.unseen_groups])):
        yield f"Nothing is promised for groups with too few training rows: {_some(left_out)}."


def _removes_on_training_rows(certificate: Certificate) -> bool:
    """Whether fairness 1 removes the dependence of the training rows, not that expected on new rows."""
    return certificate.new_rows is None or certificate.new_rows.removal == "training_rows"


def _expectation(
    expected: NewRowsCertificate, fairness: float, rows: str, raw: str, who: str
) -> str:
    """What is expected among new people at one dial value."""
    percent = f"{100 * expected.confidence:.0f} %"
    measured = f"This was estimated on {rows}, each by functions that were not fitted on it."
    if expected.removal == "training_rows":
        measured = (
            f"This is an estimate for new people, from models that were refitted without a part of {rows} "
            f"and compared with that part."
        )
    bound = f"with {percent} confidence it is at most {_rounded(expected.high)}"
    if fairness <= 0.0:
        return (
            f"Fairness 0 promises nothing: this model is fitted for accuracy alone. Among new people its "
            f"{raw} is expected to correlate with {who} by {_rounded(expected.correlation)}; {bound}. "
            f"{measured}"
        )
    if expected.correlation < _ZERO:
        return f"Among new people no correlation of the {raw} with {who} is expected; {bound}. {measured}"
    return (
        f"Among new people the {raw} is expected to correlate with {who} by "
        f"{_rounded(expected.correlation)}; {bound}. {measured}"
    )


def _promise(certificate: Certificate, fairness: float, on_rows: str, raw: str, who: str) -> str:
    """The main promise at one dial value."""
    if certificate.n_functions == 0:
        return (
            f"{on_rows}: no function that predicts is left after the protected attributes were removed; "
            f"everybody gets the same score."
        )
    if fairness <= 0.0:
        return (
            f"Fairness 0 promises nothing: this model is fitted for accuracy alone. {on_rows} its {raw} "
            f"correlates with {who} by up to {_rounded(certificate.supremum)}."
        )
    if fairness >= 1.0 and certificate.supremum < _ZERO:
        return (
            f"{on_rows} the mean {raw} is the same for all groups and slices of {who}: the correlation is "
            f"zero up to rounding. This is an exact property of the fit, and holds for every model that "
            f"could be built from the same functions, not only for this one."
        )
    return (
        f"{on_rows} no model built from the same functions has a {raw} that correlates with {who} by more "
        f"than {_rounded(certificate.supremum)}. This is an exact property of the fit."
    )


def _exceptions(certificate: Certificate, fairness: float, context: ReportContext) -> Iterator[str]:
    """Groups, slices and cells that the promise does not cover."""
    left_out = [f"{b.attribute}: {v}" for b in certificate.blocks for v in b.left_out]
    left_out = list(dict.fromkeys([*left_out, *context.unseen_groups]))
    if left_out:
        yield f"Nothing is promised for groups with too few training rows: {_some(left_out)}."
    if merged := certificate.merged_slices():
        yield (
            f"Slices with too few training rows were merged with a neighbour: {_some(merged)}. The promise "
            f"covers merged slices together; the mean score may differ between them."
        )
    free = {(b.cell, b.attribute) for b in certificate.blocks} - {
        (b.cell, b.attribute) for b in certificate.blocks if b.constrained
    }
    if free:
        where = sorted(f"{attribute} in {cell}" for cell, attribute in free)
        yield f"Not constrained, for too few rows or no variation: {_some(where)}."
    if (_removes_on_training_rows(certificate) and fairness >= 1.0) and any(
        b.constrained and b.n_removed < b.n_codes for b in certificate.blocks
    ):
        yield "Not all directions of the attributes were removed, so zero is not reached."


def _rest(end: Certificate) -> str:
    """What fairness 1 does to the remaining dependence."""
    complete = all(b.n_removed == b.n_codes for b in end.blocks if b.constrained)
    if complete and end.supremum < _ZERO:
        return "fairness 1 removes the rest"
    return f"at fairness 1 the correlation is at most {_rounded(end.supremum)}"


# ------------------------------------------------------------------ the data


def about(
    held_out: HeldOut, context: ReportContext, roles: Roles, model: Any, first: DialPoint
) -> dict[str, Any]:
    """Describe the model, the criterion and the score."""
    from fairspan import __version__

    classes, positive = held_out.data.classes, ""
    if classes is not None and len(held_out.data.positive) == 1:
        positive = str(classes[held_out.data.positive[0]])
    columns = roles.attributes, roles.control, roles.target, positive
    name = type(model).__name__
    return {
        "version": __version__,
        "n_train": context.n_train,
        "n_test": held_out.data.n,
        "model": name,
        "model_words": _MODELS.get(name, name),
        "criterion": context.criterion,
        "criterion_words": criterion_words(
            context.criterion, *columns, latent=context.latent, decides=context.decides
        ),
        "equalize": "decisions" if context.decides else "scores",
        "score_words": _score_words(held_out, context, roles, first),
        "probable": first.has_probabilities,
        "level": held_out.settings.level,
        "weighted": roles.weight is not None,
    }


def _score_words(held_out: HeldOut, context: ReportContext, roles: Roles, first: DialPoint) -> str:
    """Name of the score whose distribution is drawn."""
    classes = held_out.data.classes
    if classes is None:
        return f"prediction of {roles.target}"
    k = held_out.data.positive[0] if context.drawn_class is None else context.drawn_class
    kind = "probability" if first.has_probabilities else "score"
    return f"{kind} of {roles.target} = {classes[k]}"


def notes(
    whole: Any,
    table: Any,
    roles: Roles,
    refused: Mapping[str, str],
    held_out: HeldOut,
    context: ReportContext,
    favourable: Favourable | None,
    optional: Sequence[str] = (),
) -> Iterator[str]:
    """One sentence for everything that was left out, filled in, merged, sampled or binned.

    Parameters
    ----------
    whole, table : all rows, and those without missing values in the columns needed.
    roles, refused : roles of the columns, and columns that are left out, with the reason.
    held_out, context, favourable : of the report.
    optional : protected attributes that may be missing.
    """
    if len(table) < len(whole):
        needed = [name for name in roles.needed if name not in optional]
        counts = whole[needed].isna().sum()
        columns = ", ".join(f"{name} ({int(n):,})" for name, n in counts.items() if n)
        n_left_out = len(whole) - len(table)
        yield (
            f"{n_left_out:,} of {len(whole):,} rows were left out, because values are missing in "
            f"{columns}."
        )
    for reason in dict.fromkeys(refused.values()):
        names = [repr(name) for name, why in refused.items() if why == reason]
        if reason == NOT_ENCODED:
            yield f"Columns left out, because they are {reason}: {', '.join(names)}."
        else:
            yield f"Columns left out, because they look like {reason}: {_some(names)}. {KEEP_COLUMN}"
    gaps = [repr(name) for name in roles.features if table[name].isna().any()]
    if gaps:
        yield (
            f"Missing values were filled in: numbers by the median of the training rows, with an indicator "
            f"column; categories by a category of their own ({', '.join(gaps[:8])}"
            f"{', ...' if len(gaps) > 8 else ''})."
        )
    yield (
        f"The model was fitted on {context.n_train:,} rows. All numbers are about the "
        f"{held_out.data.n:,} rows held out, drawn at random within groups, unless they are called in-sample."
    )
    weightless = 0 if roles.weight is None else int((table[roles.weight] == 0.0).sum())
    if weightless:
        yield (
            f"{weightless:,} rows of weight zero are ignored: they are neither among the rows fitted on "
            f"nor among those held out."
        )
    if favourable is not None:
        yield favourable.sentence(CHANGE_CLASS)
    if held_out.likely and held_out.task != "regression":
        likely = _listed([groups.name for groups in held_out.likely])
        yield (
            f"Scores are made equal, not decisions: how often groups of {likely} are selected is estimated "
            f"from probabilities, and rules for decisions are chosen by rows whose group is known."
        )
    yield from _display_notes(held_out, context)
    yield from _privacy_notes(held_out)


def _display_notes(held_out: HeldOut, context: ReportContext) -> Iterator[str]:
    """Merged groups, slices, small groups and samples of rows."""
    data = held_out.data
    if context.drawn_class is not None and data.classes is not None:
        yield (
            f"Of the {len(data.classes)} classes, scores are drawn for {data.classes[context.drawn_class]}: "
            f"its mean scores differ most between groups where fairness is 0."
        )
    continuous = [groups for groups in data.attributes if groups.values is not None]
    for groups in continuous:
        yield f"{groups.name} is a number; its groups are {len(groups.labels)} slices of it."
    for name, groups in held_out.shown.items():
        if groups.name != name:
            yield (
                f"{name} has many groups: the {len(groups.labels) - 1} largest are shown, and the others "
                f"together."
            )
    min_rows = held_out.settings.min_rows
    likely = {groups.name: groups for groups in held_out.likely}
    small = [
        f"{name}: {label}"
        for name, groups in (held_out.shown | likely).items()
        if name != held_out.crossed
        for label, n in zip(groups.labels, count_groups(groups), strict=True)
        if n < min_rows
    ]
    if small:
        yield (
            f"Groups of fewer than {min_rows} held-out rows are shown, but left out of gaps: "
            f"{_some(small)}."
        )
    if continuous and context.displayed is not None:
        n = len(context.displayed)
        sample = f"{n:,} of the {data.n:,} held-out rows, drawn at random"
        yield (
            f"Scatter plots show {sample if n < data.n else 'all rows'}; lines and numbers are computed "
            f"from all rows."
        )
    if context.criterion == "conditional_statistical_parity":
        yield "Intervals of single strata are not corrected for the number of strata."


def _privacy_notes(held_out: HeldOut) -> Iterator[str]:
    """What the file contains about few people."""
    names = {groups.name: name for name, groups in held_out.shown.items()}
    names |= {groups.name: groups.name for groups in held_out.likely}
    few = sorted(f"{names[a]}: {label}" for a, label in held_out.too_few if a in names)
    if few:
        yield (
            f"For groups of fewer than {FEWEST} held-out rows only the number of rows is shown: "
            f"{_some(few)}. Other numbers may still follow from those of larger groups by subtraction."
        )
    rows = ""
    if any(groups.values is not None for groups in held_out.data.attributes):
        rows = ", and the attribute and the score of every single row of a scatter plot"
    yield (
        f"This file contains counts of rows by group and decision{rows}: share it as you would share those."
    )
