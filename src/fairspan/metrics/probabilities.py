"""Means by group where groups are known as probabilities: the weighted estimator (METHOD 14).

``E[f | s] = E[f p'] E[p p']^-1`` holds if the probabilities p are calibrated and f depends on p only through
the group s. To take the most likely group of each row instead (the threshold estimator) is biased: it mixes
the groups, so gaps look smaller than they are, and groups that are never the most likely one disappear.
"""

from __future__ import annotations

import numpy as np

from fairspan.method.linalg import Array
from fairspan.method.probabilities import group_weights, information
from fairspan.method.problem import GroupProbabilities

NEEDS_GROUPS = (
    "sensitive feature {name!r} is given as probabilities, and {what} needs the group of each row. To take "
    "the most likely group would make gaps look smaller than they are. Take a metric of means or rates, e.g. "
    "selection_rates, statistical_parity_correlation or correlation_ratio, or rows whose group is known."
)


def weights_of(attribute: GroupProbabilities, weight: Array, where: str = "") -> Array:
    """Weights, (n, J), with which sums over rows are means over the true groups."""
    try:
        return np.asarray(weight[:, None] * group_weights(_numbers(attribute), weight))
    except np.linalg.LinAlgError:
        raise ValueError(
            f"the probabilities of sensitive feature {attribute.name!r} do not tell its groups apart{where}: "
            f"merge groups, or add rows whose group is known"
        ) from None


def shares_of(attribute: GroupProbabilities, weight: Array) -> Array:
    """Share of each group, (J,)."""
    return np.asarray(weight @ _numbers(attribute) / weight.sum())


def equivalent_rows(attribute: GroupProbabilities, weight: Array) -> float:
    """Number of rows with a known group that tell as much about differences of groups."""
    return information(_numbers(attribute), weight) * float(weight.sum() ** 2 / (weight @ weight))


def _numbers(attribute: GroupProbabilities) -> Array:
    return np.asarray(attribute.values, dtype=np.float64)


def rates_of(
    selected: Array, attribute: GroupProbabilities, weight: Array, where: str = ""
) -> dict[str, float]:
    """Rate of decisions in each true group; estimates beyond 0 and 1 are cut there."""
    rates = np.clip(selected @ weights_of(attribute, weight, where), 0.0, 1.0)
    return dict(zip(attribute.groups, rates.tolist(), strict=True))


def level_correlations(f: Array, attribute: GroupProbabilities, weight: Array, where: str) -> Array:
    """``|corr(f, 1[S=h])|`` for the true groups h, (outputs, J); f is standardized."""
    share = shares_of(attribute, weight)
    means = f.T @ weights_of(attribute, weight, where)
    return np.asarray(np.abs(means) * np.sqrt(share / np.maximum(1.0 - share, 1e-300)))


def between_groups(f: Array, attribute: GroupProbabilities, weight: Array) -> Array:
    """``Var(E[f|S])`` of each output, (outputs,); f is standardized."""
    share = shares_of(attribute, weight)
    means = f.T @ weights_of(attribute, weight)
    return np.asarray((means - (means @ share)[:, None]) ** 2 @ share)
