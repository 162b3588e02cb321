"""Scores and decisions by groups that are known as probabilities (METHOD 14).

A row stands for one copy in each group j, with the weight ``w_i P(j) q_ij`` of `group_weights`. Sums over the
copies in a group then estimate sums over its true members, and those over all copies are sums over the rows.
Weights may be negative. Copies of a row share a cluster, so that resamples draw rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairspan.auditing.reading import Audited, Protected
from fairspan.method.linalg import Array
from fairspan.method.problem import GroupProbabilities
from fairspan.metrics.probabilities import shares_of, weights_of

__all__ = ["copies_of_groups"]


def copies_of_groups(data: Audited, attribute: GroupProbabilities, *, within_y: bool) -> Audited:
    """Rows as copies in each group, with this attribute only.

    ``within_y``: the probabilities are taken as calibrated within the rows of each y; else y is left out.
    """
    n, J = data.n, len(attribute.groups)
    rows = np.repeat(np.arange(n), J)
    target = None if data.target is None or not within_y else data.target.take(rows)
    return replace(
        data,
        weight=_weights(data, attribute, within_y=within_y).ravel(),
        attributes=(
            Protected(
                attribute.name,
                "categorical",
                np.tile(np.arange(J, dtype=np.intp), n),
                attribute.groups,
            ),
        ),
        crossed=None,
        strata=None if data.strata is None else data.strata.take(rows),
        target=target,
        scores=None if data.scores is None else data.scores[rows],
        decided=None if data.decided is None else data.decided[rows],
        probability=None,
        features=None,
        representation=None,
        covered=None if data.covered is None else data.covered[rows],
        clusters=rows if data.clusters is None else data.clusters[rows],
        copied_rows=n,
        clustered=data.clusters is not None,
        probable=(),
    )


def _weights(data: Audited, attribute: GroupProbabilities, *, within_y: bool) -> Array:
    """Weight of every row in each group, (n, J)."""
    if not within_y or data.target is None:
        total = data.weight.sum()
        q = weights_of(attribute, data.weight)
        return np.asarray(q * shares_of(attribute, data.weight) * total)
    out = np.zeros((data.n, len(attribute.groups)))
    for code, label in enumerate(data.target.labels):
        inside = data.target.codes == code
        if not inside.any():
            continue
        part, weight = attribute.take(inside), data.weight[inside]
        assert isinstance(part, GroupProbabilities)
        q = weights_of(part, weight, f" where y is {label}")
        out[inside] = q * shares_of(part, weight) * weight.sum()
    return out
