"""Which rows have a protected attribute, and how many independent ones these are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fairspan.method.codes import Coder, CrossedCoder
from fairspan.method.distinct import DistinctCount
from fairspan.method.fold_codes import Flags
from fairspan.method.linalg import to_numpy
from fairspan.method.probabilities import ProbabilityCoder
from fairspan.method.problem import Data

__all__ = ["ClusterCounts", "cluster_shares"]


def cluster_shares(
    data: Data, coders: Sequence[Coder | CrossedCoder | ProbabilityCoder]
) -> tuple[float, tuple[float, ...]]:
    """Clusters per row, and the same among the rows that have each attribute (none if no S is missing)."""
    if data.clusters is None:
        return 1.0, ()

    def share(rows: Flags | slice) -> float:
        assert data.clusters is not None
        clusters = data.clusters[rows]
        return len(np.unique(clusters)) / max(len(clusters), 1)

    known = [_has(data, coder) for coder in coders]
    if all(mask.all() for mask in known):
        return share(slice(None)), ()
    return share(slice(None)), tuple(share(mask) for mask in known)


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterCounts:
    """Distinct clusters of all rows of a stream, and of those that have each attribute."""

    every: DistinctCount = field(default_factory=DistinctCount)
    # By attribute; None stands for the rows that have all of them.
    known: dict[str | None, DistinctCount] = field(default_factory=dict)

    def add(self, data: Data) -> ClusterCounts:
        """Return the counts with rows added."""
        assert data.clusters is not None
        known: dict[str | None, DistinctCount] = {}
        complete = np.ones(data.n, dtype=bool)
        for name, attribute in data.sensitive.items():
            present = ~np.asarray(to_numpy(attribute.missing))
            complete &= present
            known[name] = DistinctCount().add(data.clusters[present])
        known[None] = DistinctCount().add(data.clusters[complete])
        return self + ClusterCounts(every=DistinctCount().add(data.clusters), known=known)

    def __add__(self, other: ClusterCounts) -> ClusterCounts:
        names = dict.fromkeys([*self.known, *other.known])
        none = DistinctCount()
        return ClusterCounts(
            every=self.every + other.every,
            known={n: self.known.get(n, none) + other.known.get(n, none) for n in names},
        )

    def shares(
        self, coders: Sequence[Coder | CrossedCoder | ProbabilityCoder]
    ) -> tuple[float, tuple[float, ...]]:
        """As :func:`cluster_shares`."""
        counts = [
            self.known[None if isinstance(coder, CrossedCoder) else coder.name] for coder in coders
        ]
        if all(count.n_rows == self.every.n_rows for count in counts):
            return self.every.share, ()
        return self.every.share, tuple(count.share for count in counts)


def _has(data: Data, coder: Coder | CrossedCoder | ProbabilityCoder) -> Flags:
    """Rows that have an attribute, or all attributes that are crossed."""
    parts = coder.parts if isinstance(coder, CrossedCoder) else (coder,)
    known = np.ones(data.n, dtype=bool)
    for part in parts:
        known &= ~np.asarray(to_numpy(data.sensitive[part.name].missing))
    return known
