"""Rates of decisions by group, and the codes whose products with decisions are their differences (METHOD 13).

The code of group j is ``1[s=j] / P(j) - 1``, so that its mean product with decisions is the rate of the
group minus the rate of all. In a cell of y it is ``1[y=k, s=j] / P(k, j) - 1[y=k] / P(k)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairspan.method.linalg import Array
from fairspan.method.problem import Codes

RateCriterion = Literal["statistical_parity", "equal_opportunity", "equalized_odds"]

# Groups with fewer rows in a cell are not judged.
MIN_JUDGED_ROWS = 30


@dataclass(frozen=True, kw_only=True)
class RateBlock:
    """Groups of one attribute whose rates are compared, in one cell."""

    attribute: str
    cell: int | None  # class of y whose rows are compared; None for all rows
    groups: tuple[str, ...]  # names of the groups
    # (n,) number of the group of each row; -1 outside the cell and in groups left out.
    member: Codes
    share: Array  # (J,) share of each group, with the cell, in the weight of all rows
    cell_share: float  # share of the cell in the weight of all rows
    # Names of groups with fewer than the least number of rows in the cell.
    left_out: tuple[str, ...] = ()

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.groups)

    def codes(self, y: Codes) -> Array:
        """Rate codes of rows whose group is known, (n, J)."""
        own = (self.member[:, None] == np.arange(self.n_groups)) / self.share
        inside = np.ones(len(y), dtype=bool) if self.cell is None else y == self.cell
        return np.asarray(own - (inside / self.cell_share)[:, None])

    def rates(self, decisions: Array, weight: Array) -> Array:
        """Weighted mean of decisions in each group: (J,) of (n,), or (J, K) of (n, K)."""
        columns = decisions.reshape(len(decisions), -1)
        known = self.member >= 0
        sums = [
            np.bincount(self.member[known], weight[known] * column[known], self.n_groups)
            for column in columns.T
        ]
        mass = np.bincount(self.member[known], weight[known], self.n_groups)
        rates = np.stack(sums, axis=1) / mass[:, None]
        return np.asarray(rates[:, 0] if decisions.ndim == 1 else rates)


def rate_blocks(
    attributes: Mapping[str, tuple[Codes, Sequence[str]]],
    y: Codes,
    weight: Array,
    *,
    criterion: RateCriterion = "statistical_parity",
    positive: int = 1,
    min_rows: int = MIN_JUDGED_ROWS,
    copies: Array | None = None,
) -> tuple[RateBlock, ...]:
    """Groups to compare, for every attribute and every cell of the criterion.

    Parameters
    ----------
    attributes : by name, the group number of each row (-1 if missing) and the names of the groups.
    y : (n,) class numbers.
    weight : (n,)
    criterion : statistical parity compares rates in all rows, equal opportunity in those of class
        ``positive``, equalized odds in those of every class.
    positive : class of equal opportunity.
    min_rows : groups with fewer rows of positive weight in a cell are left out.
    copies : (n,) number of rows that each row stands for; 1 by default.

    Returns
    -------
    tuple of RateBlock
        Without those that have fewer than two groups.
    """
    cells: list[int | None] = [None]
    if criterion == "equal_opportunity":
        cells = [positive]
    elif criterion == "equalized_odds":
        cells = list(range(int(y.max()) + 1))
    total, blocks = float(weight.sum()), []
    for name, (codes, labels) in attributes.items():
        for cell in cells:
            inside = weight > 0.0 if cell is None else (y == cell) & (weight > 0.0)
            known = inside & (codes >= 0)
            each = None if copies is None else copies[known]
            rows = np.bincount(codes[known], each, minlength=len(labels))
            mass = np.bincount(codes[known], weight[known], minlength=len(labels))
            used = np.flatnonzero(rows >= min_rows).tolist()
            if len(used) < 2:
                continue
            number = np.full(len(labels), -1, dtype=np.intp)
            number[used] = np.arange(len(used))
            small = np.flatnonzero((rows > 0) & (rows < min_rows)).tolist()
            blocks.append(
                RateBlock(
                    attribute=name,
                    cell=cell,
                    groups=tuple(str(labels[j]) for j in used),
                    member=np.where(known, number[codes], -1),
                    share=mass[used] / total,
                    cell_share=float(weight[inside].sum()) / total,
                    left_out=tuple(str(labels[j]) for j in small),
                )
            )
    return tuple(blocks)


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Limit on the rates of groups: the largest difference, or the smallest ratio of two of them."""

    kind: Literal["gap", "ratio"] = "gap"
    # Of all attributes, or by name; attributes that are not named have no limit.
    value: float | Mapping[str, float]

    def of(self, blocks: Sequence[RateBlock]) -> Array:
        """Limit of each block; 1 (a gap) or 0 (a ratio) means none."""
        none = 1.0 if self.kind == "gap" else 0.0
        if not isinstance(self.value, Mapping):
            values = np.full(len(blocks), float(self.value))
        else:
            names = sorted({block.attribute for block in blocks})
            unknown = [name for name in self.value if name not in names]
            if unknown:
                msg = f"A limit is given for {unknown[0]!r}; attributes with rates are {names}."
                raise ValueError(msg)
            values = np.array([float(self.value.get(b.attribute, none)) for b in blocks])
        if not ((values >= 0.0) & (values <= 1.0)).all():
            raise ValueError(f"Limits on rates are from 0 to 1, but {self.value!r} was given.")
        return values

    def excess(self, rates: Sequence[Array], blocks: Sequence[RateBlock]) -> Array:
        """How far the rates are beyond the limit, 0 or less if it is kept.

        ``rates`` has an array for each block with the groups on the last axis but one (classes on the
        last).
        """
        over = self.excesses(rates, blocks)
        return np.asarray(np.max(over, axis=0)) if over else np.asarray(0.0)

    def excesses(self, rates: Sequence[Array], blocks: Sequence[RateBlock]) -> list[Array]:
        """Excess of every block."""
        return [
            spread(rate) - limit if self.kind == "gap" else limit - ratio(rate)
            for rate, limit in zip(rates, self.of(blocks), strict=True)
        ]


def spread(rates: Array) -> Array:
    """Largest difference of two groups, (...), of rates (..., J, K)."""
    return np.asarray(np.max(rates.max(axis=-2) - rates.min(axis=-2), axis=-1))


def ratio(rates: Array) -> Array:
    """Smallest ratio of two groups, (...), of rates (..., J, K); 1 if all are 0."""
    largest = rates.max(axis=-2)
    quotient = rates.min(axis=-2) / np.where(largest > 0.0, largest, 1.0)
    return np.asarray(np.min(np.where(largest > 0.0, quotient, 1.0), axis=-1))
