"""Sentences for a reader who is responsible for a model and does not read code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairspan.method.certificates import Certificate

__all__ = [
    "Setting", "certificate_words", "criterion_words", "metric_words", "model_words", "score_meant",
]  # fmt: skip

# Correlations below are zero up to rounding.
_ZERO = 1e-6

_MODELS = {
    "FairGPClassifier": "Gaussian process classifier",
    "FairGPRegressor": "Gaussian process regression",
    "FairRidge": "kernel ridge regression",
    "FairRidgeClassifier": "kernel least-squares classifier",
}

_METRICS = {
    "statistical_parity_correlation": "correlation of the score with the attribute",
    "correlation_ratio": "share of the score's spread that lies between the groups (as a root)",
    "equal_opportunity_correlation":
        "correlation of the score with the attribute among the truly positive",
    "equalized_odds_correlation":
        "correlation of the score with the attribute at the same true outcome",
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
}  # fmt: skip


def model_words(model: Any) -> str:
    """What kind of model it is."""
    name = type(model).__name__
    return _MODELS.get(name, name)


def metric_words(metric: str) -> str:
    """Plain name of a metric; of several classes, with the class."""
    name, bracket, label = metric.partition(" (")
    return f"{_METRICS.get(name, name.replace('_', ' '))}{bracket}{label}"


def score_meant(latent: bool) -> str:
    """Which score is meant, in brackets, where the page shows another one as well."""
    return " (before it is turned into a probability)" if latent else ""


def _listed(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def criterion_words(
    criterion: str, attributes: Sequence[str], strata: Sequence[str], target: str, positive: str,
    *, latent: bool = False,
) -> str:  # fmt: skip
    """What must not depend on what.

    Parameters
    ----------
    criterion, attributes, strata, target, positive : full name, columns, and the favourable class.
    latent : the page shows probabilities, while the criterion is about the score behind them.
    """
    out = _criterion(criterion, _listed(attributes), strata, target, positive)
    if latent:
        out += (
            " The score is meant before it is turned into a probability: mean probabilities can still "
            "differ."
        )
    return out


def _criterion(
    criterion: str, groups: str, strata: Sequence[str], target: str, positive: str
) -> str:
    if criterion == "statistical_parity":
        return f"Statistical parity: the mean score must not depend on {groups}."
    if criterion == "equalized_odds":
        return (
            f"Equalized odds: among people with the same true {target}, the mean score must not depend "
            f"on {groups}."
        )
    if criterion == "equal_opportunity":
        return (
            f"Equal opportunity: among people whose true {target} is {positive}, the mean score must not "
            f"depend on {groups}."
        )
    return (
        f"Conditional statistical parity: among people of the same {_listed(strata)}, the mean score must "
        f"not depend on {groups}."
    )


_INSIDE = {
    "statistical_parity": "",
    "equalized_odds": ", at each true outcome",
    "equal_opportunity": ", among those whose true outcome is the favourable one",
    "conditional_statistical_parity": ", inside each stratum of the control features",
}


@dataclass(frozen=True)
class Setting:
    """What certificates of all places have in common.

    Attributes
    ----------
    n_train, n_test : rows fitted on, and held out.
    noise : rough size by chance of a held-out correlation that is truly 0; NaN if no row tells.
    end : certificate at fairness 1.
    latent : the page shows probabilities, while the promise is about the score behind them.
    unmet : groups that no training row belongs to.
    """

    n_train: int
    n_test: int
    noise: float
    end: Certificate
    latent: bool = False
    unmet: tuple[str, ...] = ()


def certificate_words(found: Certificate, fairness: float, setting: Setting) -> list[str]:
    """What is promised, on which rows, under which assumptions, and what is not promised."""
    inside = _INSIDE[found.criterion]
    used = list(dict.fromkeys(b.attribute for b in found.blocks if b.constrained))
    who = _listed(used) or "any protected attribute"
    rows, meant = f"the {setting.n_train:,} training rows", score_meant(setting.latent)
    if found.n_functions == 0:
        out = [
            f"On {rows}: nothing that predicts is left after the protected attributes were removed; "
            f"everybody gets the same score."
        ]
    elif fairness <= 0.0:
        out = [
            f"Fairness 0 promises nothing: this model is fitted for accuracy alone. On {rows} its "
            f"score{meant} correlates with {who}{inside} by up to {_shown(found.supremum)}."
        ]
    elif fairness >= 1.0 and found.supremum < _ZERO:
        out = [
            f"On {rows} the mean score{meant} is the same for all groups and slices of {who}{inside}: the "
            f"correlation is zero up to rounding. This is an exact property of the fit, and holds for "
            f"every model that could be built from the same functions, not only for this one."
        ]
    else:
        out = [
            f"On {rows} no model built from the same functions has a score{meant} that correlates with "
            f"{who}{inside} by more than {_shown(found.supremum)}. This is an exact property of the fit."
        ]
        if fairness < 1.0:
            out.append(f"Between the two ends the promise is partial: {_rest(setting.end)}.")
    if fairness > 0.0 and found.n_functions:
        out.append(
            "Among new people some dependence remains. Most of it is systematic: the fit removes what the "
            "training rows show, chance included, and takes away too little elsewhere. It is larger "
            "where rows or groups are few, or columns many."
        )
    chance = "Numbers about new people also move by chance"
    if math.isfinite(setting.noise):
        chance += (
            f": on {setting.n_test:,} held-out rows a correlation that is truly zero comes out at about "
            f"{_shown(setting.noise)}"
        )
    out.append(
        f"{chance}. This assumes that new people are drawn like these rows, and independently of each "
        f"other; a change of population or of how data are recorded ends it."
    )
    which = ""
    if setting.latent:
        which = (
            " before it is turned into a probability: mean probabilities, which this page draws, can "
            "still differ"
        )
    out.append(
        f"The promise is about means of the score{which}. It does not say that scores have the same spread "
        f"or shape in every group, that decisions at a threshold are equally frequent, or that the "
        f"attribute cannot be guessed from the score. Look at the other views for those."
    )
    left = [f"{b.attribute}: {v}" for b in found.blocks for v in b.left_out]
    left = list(dict.fromkeys([*left, *setting.unmet]))
    if left:
        out.append(f"Nothing is promised for groups with too few training rows: {_some(left)}.")
    if merged := found.merged_slices():
        out.append(
            f"Slices with too few training rows were merged with a neighbour: {_some(merged)}. The promise "
            f"covers merged slices together; the mean score may differ between them."
        )
    free = {(b.cell, b.attribute) for b in found.blocks} - {
        (b.cell, b.attribute) for b in found.blocks if b.constrained
    }
    if free:
        where = sorted(f"{attribute} in {cell}" for cell, attribute in free)
        out.append(f"Not constrained, for too few rows or no variation: {_some(where)}.")
    if fairness >= 1.0 and any(b.constrained and b.n_removed < b.n_codes for b in found.blocks):
        out.append("Not all directions of the attributes were removed, so zero is not reached.")
    return out


def _rest(end: Certificate) -> str:
    """What fairness 1 does to what is left."""
    whole = all(b.n_removed == b.n_codes for b in end.blocks if b.constrained)
    if whole and end.supremum < _ZERO:
        return "fairness 1 removes the rest"
    return f"at fairness 1 the correlation is at most {_shown(end.supremum)}"


def _some(texts: Sequence[str]) -> str:
    return ", ".join(texts[:6]) + (f" and {len(texts) - 6} more" if len(texts) > 6 else "")


def _shown(correlation: float) -> str:
    return f"{correlation:.3f}" if correlation >= 5e-4 else f"{correlation:.0e}"
