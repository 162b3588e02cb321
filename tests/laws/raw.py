"""Cells, codes and correlations straight from the rows: nothing here is shared with the library.

A block is one cell and one attribute. Its codes are either groups of rows (levels or slices, -1
where a row is left out) or a column of numbers (NaN where a row is left out); for groups the
whitened covariance with the codes has the length of the spread of the group means, so no code matrix
is ever formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tests.support.strategies import Problem

MIN_ROWS = 5


@dataclass(frozen=True)
class Block:
    """One cell and one attribute, on the rows of positive weight."""

    cell: np.ndarray  # mask
    attribute: str
    groups: np.ndarray | None  # group of each row, -1 outside
    column: np.ndarray | None  # value of each row, NaN outside
    w: np.ndarray

    @property
    def used(self) -> np.ndarray:
        """Rows of the cell that the block uses."""
        if self.groups is not None:
            return self.groups >= 0
        return np.isfinite(self.column)

    def explained(self, f: np.ndarray) -> float:
        """Length of the covariance of f with the whitened codes, among the rows used."""
        w, g = self.w[self.used], f[self.used]
        mean = w @ g / w.sum()
        if self.groups is not None:
            label = self.groups[self.used]
            share = [w[label == h].sum() for h in np.unique(label)]
            means = [w[label == h] @ g[label == h] / w[label == h].sum() for h in np.unique(label)]
            between = np.asarray(share) @ (np.asarray(means) - mean) ** 2 / w.sum()
        else:
            v = self.column[self.used]
            v = v - w @ v / w.sum()
            between = (w @ (v * (g - mean))) ** 2 / (w.sum() * (w @ v**2))
        return float(np.sqrt(between))

    def deviation(self, f: np.ndarray) -> float:
        """Standard deviation of f in the cell."""
        w, g = self.w[self.cell], f[self.cell]
        return float(np.sqrt(w @ (g - w @ g / w.sum()) ** 2 / w.sum()))

    def correlation(self, f: np.ndarray) -> float:
        """Multiple correlation of f with the codes, at most 1: f may vary less in the whole cell."""
        return min(self.explained(f) / self.deviation(f), 1.0)

    def codes(self) -> np.ndarray:
        """Code matrix, NaN on rows not used (what the dense oracle reads)."""
        if self.groups is None:
            return self.column[:, None]
        out = (self.groups[:, None] == np.unique(self.groups[self.used])).astype(float)
        out[~self.used] = np.nan
        return out


def quantile_slices(values: np.ndarray, n_slices: int, w: np.ndarray) -> np.ndarray:
    """Slice of each value: between inner quantiles of the inverted weighted distribution."""
    distinct = np.unique(values)
    if len(distinct) <= n_slices:
        return np.searchsorted(distinct, values)
    below = np.array([w[values <= v].sum() for v in distinct]) / w.sum()
    cuts = {min(distinct[below >= i / n_slices - 1e-9]) for i in range(1, n_slices)}
    # Nearly all weight on the smallest value: what lies above it is one slice.
    edges = sorted(cuts - {distinct[0]}) or [distinct[1]]
    return np.array([sum(v >= edge for edge in edges) for v in values])


def _merged_slices(label: np.ndarray) -> np.ndarray:
    """A slice of fewer than five rows joins its smaller neighbour, smallest slice first."""
    parts = [[h] for h in np.unique(label)]
    while len(parts) > 1:
        size = [int(np.isin(label, part).sum()) for part in parts]
        i = int(np.argmin(size))
        if size[i] >= MIN_ROWS:
            break
        beside = [k for k in (i - 1, i + 1) if 0 <= k < len(parts)]
        k = min(beside, key=size.__getitem__)
        parts[min(i, k)] = parts[min(i, k)] + parts[max(i, k)]
        del parts[max(i, k)]
    out = np.empty(len(label), dtype=int)
    for h, part in enumerate(parts):
        out[np.isin(label, part)] = h
    return out


def _kept_categories(label: np.ndarray) -> np.ndarray:
    """A category of fewer than five rows is left out."""
    values, inverse, counts = np.unique(label, return_inverse=True, return_counts=True)
    return np.where(counts[inverse] >= MIN_ROWS, np.arange(len(values))[inverse], -1)


def present(values: np.ndarray) -> np.ndarray:
    """Where a protected attribute is known."""
    return np.array([v is not None and v == v for v in values.tolist()])


def cells(problem: Problem) -> list[np.ndarray]:
    """Rows on which the criterion asks for independence, in the library's order."""
    y, criterion = problem.y, problem.params["criterion"]
    if criterion == "sp":
        return [np.ones(problem.n, dtype=bool)]
    if criterion == "conditional_statistical_parity":
        stratum = np.stack(list(problem.control.values()), axis=1)
        return [(stratum == row).all(axis=1) for row in np.unique(stratum, axis=0)]
    if criterion == "eop":
        return [y == problem.params.get("pos_label", max(np.unique(y)))]
    if not problem.classes:
        y = quantile_slices(y, problem.params["n_slices"], problem.w)
    return [y == value for value in np.unique(y)]


def _levels(problem: Problem, name: str) -> tuple[np.ndarray, bool]:
    """Global levels of an attribute (-1 where missing), and whether they are slices."""
    values = problem.sensitive[name]
    known = present(values)
    out = np.full(problem.n, -1)
    ordered = problem.params["sensitive_kind"][name] == "continuous"
    if ordered:
        number = values[known].astype(float)
        out[known] = quantile_slices(number, problem.params["n_slices"], problem.w[known])
    else:
        out[known] = np.unique(np.array(values[known].tolist()), return_inverse=True)[1]
    return out, ordered


def blocks(problem: Problem) -> Iterator[Block]:
    """Constrained blocks, cell by cell and attribute by attribute; unusable ones are skipped.

    The problem must hold no rows of zero weight.
    """
    names = list(problem.sensitive)
    levels = {name: _levels(problem, name) for name in names}
    if problem.params.get("intersectional") and len(names) > 1:
        codes = np.stack([levels[name][0] for name in names], axis=1)
        crossed = np.unique(codes, axis=0, return_inverse=True)[1].ravel()
        crossed[(codes < 0).any(axis=1)] = -1
        levels = {" x ".join(names): (crossed, False)}
    for cell in cells(problem):
        for name, (level, ordered) in levels.items():
            rows = np.flatnonzero(cell & (level >= 0))
            if ordered and problem.params["dependence"] == "correlation":
                if len(rows) < 2 * MIN_ROWS:
                    continue
                column = np.full(problem.n, np.nan)
                column[rows] = problem.sensitive[name][rows].astype(float)
                yield Block(cell, name, None, column, problem.w)
                continue
            groups = np.full(problem.n, -1)
            groups[rows] = (_merged_slices if ordered else _kept_categories)(level[rows])
            if len(np.unique(groups[groups >= 0])) >= 2:
                yield Block(cell, name, groups, None, problem.w)


def positive_weight(problem: Problem) -> Problem:
    """The rows that count."""
    return problem if problem.weights is None else problem.take(problem.weights > 0)
