"""Protected attributes whose groups are known as probabilities: what their numbers are worth, in words.

Their rates, gaps and correlations are those of an audit (METHOD 14). What needs the group of each row is
not on the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairspan.method.certificates import Certificate
from fairspan.method.linalg import Array
from fairspan.method.problem import GroupProbabilities
from fairspan.metrics.probabilities import equivalent_rows

__all__ = ["LikelyGroups", "equivalent_words", "likely_words", "promise_words"]

# What has to hold.
_ASSUMED = (
    "the probabilities are calibrated (of the people with probability p of a group, the share p is in it) "
    "and {what} on them only through the group"
)


@dataclass(frozen=True, kw_only=True)
class LikelyGroups:
    """Groups of a protected attribute that are known as probabilities.

    Attributes
    ----------
    name, labels : the attribute and its groups.
    counts : expected number of held-out rows of each group.
    n_equivalent : number of rows with a known group that tell as much as all held-out rows.
    certain : all probabilities are 0 or 1, so that the groups are known.
    kind, values : "probabilities", and None: there are no numbers.
    """

    name: str
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    n_equivalent: float
    certain: bool
    kind: str = "probabilities"
    values: None = None

    @classmethod
    def of(cls, attribute: GroupProbabilities, weight: Array) -> LikelyGroups:
        """Describe the held-out rows."""
        p = attribute.values.astype(np.float64)
        return cls(
            name=attribute.name,
            labels=attribute.groups,
            counts=tuple(np.rint(p.sum(axis=0)).astype(int).tolist()),
            n_equivalent=equivalent_rows(attribute, weight),
            certain=bool(np.isin(p, (0.0, 1.0)).all()),
        )


def likely_words(groups: LikelyGroups, n: int) -> str:
    """What numbers about the groups are worth among n held-out rows, and what they rest on."""
    name = groups.name
    if groups.certain:
        return f"All probabilities of the groups of {name} are 0 or 1: the groups are known."
    assumed = _ASSUMED.format(what="the scores and decisions of the model depend")
    return (
        f"The groups of {name} are known as probabilities: these {n:,} held-out rows tell as much as "
        f"{groups.n_equivalent:,.0f} with a known group. Numbers about {name} are estimates for the true "
        f"groups. They hold if {assumed}; where people with the same true outcome are compared, both must "
        f"hold among them. The data cannot show either."
    )


def equivalent_words(groups: LikelyGroups) -> str:
    """A note beside one number."""
    if groups.certain:
        return ""
    return (
        f"groups known as probabilities, worth {groups.n_equivalent:,.0f} rows with a known group"
    )


def promise_words(certificate: Certificate) -> Iterator[str]:
    """What the promise of a certificate rests on, if it is about such groups."""
    rows = {b.attribute: b for b in certificate.blocks if b.n_equivalent is not None}
    for name, block in rows.items():
        assert block.n_equivalent is not None
        if block.n_equivalent < block.n_rows - 0.5:
            where = "" if block.cell == "all rows" else f" in {block.cell}"
            yield (
                f"The groups of {name} are known as probabilities: {block.n_rows:,} training rows{where} "
                f"tell as much as {block.n_equivalent:,.0f} with a known group. The promise is about the "
                f"true groups if {_ASSUMED.format(what='the columns of the model depend')}."
            )
