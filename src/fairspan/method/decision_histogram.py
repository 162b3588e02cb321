"""Mergeable histograms of score pairs, for decision rules on streams (METHOD 13).

With two groups in one cell a rule depends on two numbers of a row: its probability p and the difference
of its two predicted rate codes. Counts of a grid of these pairs, by group and class, replace the rows.
The rates of a rule are then known up to the rows of the bins that its boundary crosses. With more codes
the grid would need bins for every combination of them; use a sample of the rows instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairspan.method.decision_certificate import JudgedGroups
from fairspan.method.decision_rule import DecisionProblem, DecisionRule
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.method.rate_codes import MIN_JUDGED_ROWS, RateBlock, rate_blocks

__all__ = ["PairHistogram"]


@dataclass(frozen=True, kw_only=True)
class PairHistogram:
    """Counts of pairs (p, c) by bin, group and class; histograms with the same edges can be added.

    Attributes
    ----------
    attribute, groups : names of the attribute and of its two groups.
    cell : class of y whose rows are compared; None for all rows.
    split : the two codes of a row whose codes differ by 1.
    edges : inner edges of the bins of p, and of those of c.
    weight, rows : (bins, 3, 2) sum of weights and number of rows by group (the last: neither) and class.
    sums : (bins, 2) weighted sums of p and c.
    low, high : (bins, 2) smallest and largest p and c.
    squares : (3, 2) sum of squared weights by group and class.
    """

    attribute: str
    groups: tuple[str, str]
    cell: int | None
    split: tuple[float, float]
    edges: tuple[Array, Array]
    weight: Array
    rows: Array
    sums: Array
    low: Array
    high: Array
    squares: Array

    @classmethod
    def empty(
        cls,
        attribute: str,
        groups: tuple[str, str],
        edges: tuple[Array, Array],
        cell: int | None = None,
        split: tuple[float, float] = (0.5, -0.5),
    ) -> PairHistogram:
        """Histogram without rows. Take the edges from quantiles of a sample."""
        bins = (len(edges[0]) + 1) * (len(edges[1]) + 1)
        return cls(
            attribute=attribute,
            groups=groups,
            cell=cell,
            split=split,
            edges=edges,
            weight=np.zeros((bins, 3, 2)),
            rows=np.zeros((bins, 3, 2)),
            sums=np.zeros((bins, 2)),
            low=np.full((bins, 2), np.inf),
            high=np.full((bins, 2), -np.inf),
            squares=np.zeros((3, 2)),
        )

    def add(self, p: Array, c: Array, group: Codes, y: Codes, weight: Array) -> PairHistogram:
        """Add rows: probabilities, differences of codes, groups (0, 1, or -1), classes and weights."""
        pairs, bins = np.stack([p, c], axis=1), len(self.sums)
        of_p, of_c = (
            np.searchsorted(edge, v, "right") for edge, v in zip(self.edges, (p, c), strict=True)
        )
        number = of_p * (len(self.edges[1]) + 1) + of_c
        of_group = np.where(group < 0, 2, group) * 2 + y
        entry = number * 6 + of_group
        block = PairHistogram.empty(self.attribute, self.groups, self.edges, self.cell, self.split)
        np.minimum.at(block.low, number, pairs)
        np.maximum.at(block.high, number, pairs)
        weights, rows = (
            np.asarray(np.bincount(entry, v, bins * 6).reshape(bins, 3, 2), dtype=np.float64)
            for v in (weight, weight > 0.0)
        )
        counted = replace(
            block,
            weight=weights,
            rows=rows,
            sums=np.stack([np.bincount(number, weight * v, bins) for v in (p, c)], axis=1),
            squares=np.asarray(np.bincount(of_group, weight**2, 6), dtype=np.float64).reshape(3, 2),
        )
        return self + counted

    def __add__(self, other: PairHistogram) -> PairHistogram:
        same = all(np.array_equal(a, b) for a, b in zip(self.edges, other.edges, strict=True))
        names, others = ((h.attribute, h.groups, h.cell, h.split) for h in (self, other))
        if not same or names != others:
            msg = "Histograms can be added only if edges, attribute, groups, cell and split are the same."
            raise ValueError(msg)
        return replace(
            self,
            weight=self.weight + other.weight,
            rows=self.rows + other.rows,
            sums=self.sums + other.sums,
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
            squares=self.squares + other.squares,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.rows.sum())

    def judged(self, block: RateBlock, cluster_share: float = 1.0) -> JudgedGroups:
        """Sizes of the groups of the block of :meth:`problem`."""
        inside = slice(None) if self.cell is None else slice(self.cell, self.cell + 1)
        n, weight, squares = (
            by_group[:2, inside].sum(axis=1)
            for by_group in (self.rows.sum(axis=0), self.weight.sum(axis=0), self.squares)
        )
        return JudgedGroups(
            block=replace(block, member=block.member[:0]),
            n_rows=n.astype(np.intp),
            n_effective=weight**2 / squares * cluster_share,
        )

    def problem(
        self,
        selection_rate: float | None = None,
        cost: Array | None = None,
        min_rows: int = MIN_JUDGED_ROWS,
    ) -> DecisionProblem:
        """The decision problem with one row for every bin, group and class, at the mean of its bin."""
        number, group, y = np.nonzero(self.weight)
        weight = self.weight[number, group, y]
        mean = self.sums[number] / self.weight[number].sum(axis=(1, 2))[:, None]
        blocks = rate_blocks(
            {self.attribute: (np.where(group == 2, -1, group), self.groups)},
            y,
            weight,
            criterion="statistical_parity" if self.cell is None else "equal_opportunity",
            positive=self.cell or 0,
            min_rows=min_rows,
            copies=self.rows[number, group, y],
        )
        codes = np.outer(mean[:, 1], self.split)
        return DecisionProblem(
            probability=mean[:, 0],
            codes=codes if blocks else codes[:, :0],
            blocks=blocks,
            y=y,
            weight=weight,
            cost=cost,
            selection_rate=selection_rate,
        )

    def rate_error(self, rule: DecisionRule) -> Array:
        """Largest error of the rate of each group, (2,).

        The rows of a bin are decided as its mean is. Only in bins that the boundary crosses, some of them
        may be decided otherwise: a rate is too large by at most the share of crossed bins with a mean
        that is selected, and too small by at most that of the others.

        The margin of a rule is linear in p and c, so the corners of a bin tell whether it is crossed.
        """
        used = np.flatnonzero(self.rows.sum(axis=(1, 2)))
        corners = []
        for p in (self.low[used, 0], self.high[used, 0]):
            for c in (self.low[used, 1], self.high[used, 1]):
                codes = np.outer(c, self.split)
                corners.append(rule.margin(p, codes[:, : len(rule.code_mean)]) > 0.0)
        crossed = np.any(corners, axis=0) & ~np.all(corners, axis=0)
        inside = (
            self.weight[used, :2] if self.cell is None else self.weight[used, :2, self.cell, None]
        )
        mass = inside.sum(axis=2)
        mean = self.sums[used] / self.weight[used].sum(axis=(1, 2))[:, None]
        codes = np.outer(mean[:, 1], self.split)
        selected = rule.margin(mean[:, 0], codes[:, : len(rule.code_mean)]) > 0.0
        wrong = [mass[crossed & side].sum(axis=0) for side in (selected, ~selected)]
        return np.asarray(np.max(wrong, axis=0) / mass.sum(axis=0))
