"""Upper limits for the gap of every rule that reads only the cell of a row, between groups of people.

A rule selects a row of cell c with probability d(c). Its rates in two groups differ by
``sum_c d(c) (p(c) - q(c))``, where p and q are the shares of the cells in both groups. That is at most
``p(A) - q(A)`` for the set A of cells where p is larger: the total variation distance of p and q. For
rules that select above or below an edge, A is one of these sets, and the distance is Kolmogorov's.

**Why no correction for the number of sets is needed.** Let u(A) be an upper limit of p(A) - q(A) that
fails with probability alpha for each set A on its own. The set A* and the two groups with the largest
difference in the population are fixed, though not known. So the maximum of u over all sets and pairs fails
only if u(A*) does: with probability alpha at most (an intersection-union argument, Berger 1982). The price
is that the estimate, a maximum, is too large by about the noise of the cells.

**Limit for one set.** The numbers of rows of A in both groups are independent and binomial. A difference
delta is rejected if the observed difference or a smaller one has a probability of at most alpha - beta
under delta, for every share in the larger group that its Clopper-Pearson interval of confidence 1 - beta
contains (Berger and Boos 1994). The limit is the largest delta that is not rejected. Probabilities are
sums over blocks of counts, each rounded upwards. The maximum over shares is taken on a grid, for which a
little of alpha is set aside.

**Weights and clusters.** The weighted share of a set A has the variance v(A) = 1'V1 over the cells of A,
where V is the variance of the shares by linearisation. The set counts as p(A) (1 - p(A)) / v(A) rows, the
number at which a binomial share has this variance (Korn and Graubard 1998), but never more than Kish's
number, which is right if weights and clusters have nothing to do with the score. The smallest number over
all sets, and over all functions of the cell, is 1 / lambda: lambda is the largest eigenvalue of
diag(p)^(-1/2) V diag(p)^(-1/2) (Rao and Scott 1981). It is used where sets are not listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
import scipy.sparse
from scipy.special import bdtr

from fairspan.auditing.small_groups import exact_interval
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes

# Share of the error probability that the interval of the unknown share gets, and part that makes up for
# shares between those of the grid (the chance differs by less than .8 % of .05 there).
_FOR_SHARE, _FOR_GRID = 0.05, 0.01
# Values of the unknown share; blocks of counts; pieces of the boundary of all sets.
_N_SHARES, _N_BLOCKS, _N_PIECES = 17, 160, 32
# Blocks cover this many standard deviations to each side; the rest counts as reached.
_REACH = 7.0
# Up to this number of cells every set is listed.
_FEW_CELLS = 10
# The limit is exact up to this number, upwards.
_WIDTH = 1e-5


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Sets of cells with a similar share in the larger group, for one pair of groups.

    Attributes
    ----------
    difference : largest difference of shares, smaller group minus larger group, of these sets.
    low, high : interval of the share in the larger group, of confidence 1 - beta for each set.
    n_small, n_large : numbers of rows.
    tail : error probability that is left, alpha - beta, less a little for the grid.
    """

    difference: float
    low: float
    high: float
    n_small: int
    n_large: int
    tail: float

    @property
    def farthest(self) -> float:
        """Hoeffding's limit: the exact one is not larger."""
        noise = (1.0 / self.n_small + 1.0 / self.n_large) / 2.0
        return min(self.difference + sqrt(-log(self.tail) * noise), 1.0)

    def rejects(self, delta: float) -> bool:
        """Whether the difference delta is rejected."""
        high = min(self.high, 1.0 - delta)
        if high < self.low:
            return True
        shares = np.linspace(self.low, high, _N_SHARES)
        chance = chance_at_most(self.difference, delta, shares, self.n_small, self.n_large)
        return bool(chance.max() <= self.tail)

    def limit(self, start: float) -> float:
        """The limit, or ``start`` or the difference if that is larger."""
        below, above = max(start, self.difference), self.farthest
        if below >= above or self.rejects(below):
            return below
        while above - below > _WIDTH:
            middle = (below + above) / 2.0
            below, above = (below, middle) if self.rejects(middle) else (middle, above)
        return above


def chance_at_most(
    difference: float, delta: float, shares: Array, n_small: int, n_large: int
) -> Array:
    """Upper limit of the probability that a difference of two shares is observed, or a smaller one.

    Parameters
    ----------
    difference : share observed in the smaller group minus that in the larger group.
    delta : the same difference in the population.
    shares : possible shares of the larger group in the population.
    n_small, n_large : numbers of rows.
    """
    q = shares[:, None]
    spread = np.sqrt(n_large * q * (1.0 - q)) * _REACH + 1.0
    first = np.maximum(np.floor(n_large * q - spread), 0.0)
    last = np.minimum(np.ceil(n_large * q + spread), float(n_large))
    ends = np.floor(first + (last - first) * np.linspace(0.0, 1.0, _N_BLOCKS))
    below = bdtr(ends, n_large, np.broadcast_to(q, ends.shape))
    mass = np.diff(below, axis=1, prepend=0.0)
    # Every count of a block is moved to its upper end, where the condition is weakest.
    most = np.floor(n_small * (difference + ends / n_large) + 1e-9)
    p = np.broadcast_to(np.clip(q + delta, 0.0, 1.0), ends.shape)
    chance = np.where(most < 0.0, 0.0, bdtr(np.clip(most, 0.0, n_small), n_small, p))
    return np.asarray((mass * chance).sum(axis=1) + 1.0 - below[:, -1])


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Shares of the cells in the groups of one attribute, among the rows of one condition.

    Attributes
    ----------
    shares : (groups, k) shares of the cells; each row sums to 1.
    n : (groups,) effective numbers of rows, whole numbers.
    variances : (groups, k, k) variances of the shares; None if rows are independent and of equal weight.
    """

    shares: Array
    n: tuple[int, ...]
    variances: Array | None = None

    def numbers(self, sets: Array) -> Array:
        """Effective numbers of rows of sets of cells, (groups, sets); ``sets`` are (sets, k) indicators."""
        kish = np.repeat(np.array(self.n)[:, None], len(sets), axis=1)
        if self.variances is None:
            return kish
        rates = self.shares @ sets.T
        binomial = rates * (1.0 - rates)
        variance = np.einsum("sa,gab,sb->gs", sets, self.variances, sets, optimize=True)
        # A set without rows, or with all of them, shows no variance.
        known = (binomial > 1e-12) & (variance * kish > binomial)
        return _whole(np.divide(binomial, variance, out=kish.astype(np.float64), where=known))

    def _fewest(self) -> Array:
        """Effective numbers of rows that no set of cells is below, (groups,)."""
        out = np.array(self.n)
        if self.variances is None:
            return out
        for h, (share, variance) in enumerate(zip(self.shares, self.variances, strict=True)):
            root = np.sqrt(share[share > 0.0])
            scaled = variance[np.ix_(share > 0.0, share > 0.0)] / np.outer(root, root)
            largest = float(np.linalg.eigvalsh(scaled)[-1])
            if largest * out[h] > 1.0:
                out[h] = _whole(np.array(1.0 / largest))
        return out

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Every pair of groups once, the one with fewer rows first."""
        for i in range(len(self.n)):
            for j in range(i):
                yield (i, j) if self.n[i] <= self.n[j] else (j, i)

    def distances(self) -> tuple[float, float]:
        """Observed total variation and Kolmogorov distance, the largest over pairs."""
        differences = [self.shares[i] - self.shares[j] for i, j in self.pairs()]
        any_rule = max(float(np.abs(d).sum()) / 2.0 for d in differences)
        return any_rule, max(float(np.abs(np.cumsum(d)).max()) for d in differences)

    def of_any_rule(self, tail: float) -> Iterator[Piece]:
        """Pieces that contain all sets of cells."""
        k = self.shares.shape[1]
        few = k <= _FEW_CELLS
        numbers = self.numbers(_all_sets(k)) if few else self._fewest()[:, None]
        for i, j in self.pairs():
            differences, across = (_sets if few else _boundary)(self.shares[i], self.shares[j])
            piece = np.minimum(across * _N_PIECES, _N_PIECES - 1.0).astype(np.intp)
            for one in np.unique(piece):
                largest = float(differences[piece == one].max())
                low, high = float(across[piece == one].min()), float(across[piece == one].max())
                if not few:  # the sets are between the points
                    low, high = one / _N_PIECES, (one + 1) / _N_PIECES
                n = numbers[:, piece == one if few else [0]].min(axis=1)
                yield self._piece(n[i], n[j], largest, low, high, tail)

    def of_thresholds(self, tail: float) -> Iterator[Piece]:
        """One piece for each edge and side."""
        lowest = np.tri(self.shares.shape[1])[:-1]
        numbers = [self.numbers(sets) for sets in (lowest, lowest[:, ::-1])]
        for i, j in self.pairs():
            for shares, n in zip((self.shares, self.shares[:, ::-1]), numbers, strict=True):
                up, across = np.cumsum(shares[i])[:-1], np.cumsum(shares[j])[:-1]
                for edge, (a, b) in enumerate(zip(up.tolist(), across.tolist(), strict=True)):
                    yield self._piece(n[i, edge], n[j, edge], a - b, b, b, tail)

    def _piece(
        self, n_small: int, n_large: int, largest: float, low: float, high: float, tail: float
    ) -> Piece:
        beta = _FOR_SHARE * tail
        return Piece(
            difference=largest,
            low=exact_interval(min(low, 1.0), n_large, beta / 2.0)[0],
            high=exact_interval(min(high, 1.0), n_large, beta / 2.0)[1],
            n_small=int(n_small),
            n_large=int(n_large),
            tail=tail * (1.0 - _FOR_GRID) - beta,
        )


def linearised_variance(cell: Codes, k: int, weight: Array, clusters: Codes | None) -> Array:
    """Variance of the weighted shares of k cells in the rows of one group, (k, k).

    Parameters
    ----------
    cell : (n,) cell of each row, from 0.
    k : number of cells.
    weight : (n,) of each row, at least one above 0.
    clusters : (n,) rows that belong together; None if rows are independent.
    """
    unit = np.arange(len(cell)) if clusters is None else clusters
    shape = int(unit.max()) + 1, k
    sums = scipy.sparse.csr_array((weight, (unit, cell)), shape=shape)
    mass = np.asarray(sums.sum(axis=1)).ravel()
    share = np.bincount(cell, weight, minlength=k) / weight.sum()
    cross = np.outer(sums.T @ mass, share)
    scatter = (sums.T @ sums).toarray() - cross - cross.T + mass @ mass * np.outer(share, share)
    return np.asarray(scatter / weight.sum() ** 2)


def _whole(numbers: Array) -> Array:
    """Round down, but not for rounding errors; at least 1."""
    return np.maximum(np.floor(numbers * (1.0 + 1e-9)), 1.0).astype(np.intp)


def _all_sets(k: int) -> Array:
    """Indicators of every set of k cells, (2^k, k), in the order of :func:`_sets`."""
    return np.asarray((np.arange(2**k)[:, None] >> np.arange(k)) & 1, dtype=np.float64)


def _sets(p: Array, q: Array) -> tuple[Array, Array]:
    """Difference, and share in the larger group, of every set of cells."""
    sums = np.zeros((1, 2))
    for cell in np.stack([p - q, q], axis=1):
        sums = np.concatenate([sums, sums + cell])
    return sums[:, 0], np.clip(sums[:, 1], 0.0, 1.0)


def _boundary(p: Array, q: Array) -> tuple[Array, Array]:
    """The largest difference at each share in the larger group, at points of a line.

    With cells in the order of p / q, no set is beyond the line through their sums. The line is concave,
    so that between two points the larger of both differences is a limit only if every corner and every
    end of a piece is among the points.
    """
    order = np.argsort(np.divide(-p, q, out=np.full(len(p), -np.inf), where=q > 0.0))
    across = np.clip(np.concatenate([[0.0], np.cumsum(q[order])]), 0.0, 1.0)
    up = np.concatenate([[0.0], np.cumsum(p[order])])
    start = int(np.flatnonzero(across <= 0.0)[-1])
    across, up = across[start:], up[start:]
    ends = np.linspace(0.0, 1.0, _N_PIECES + 1)
    points = np.union1d(across, np.concatenate([ends, np.nextafter(ends[1:], 0.0)]))
    return np.interp(points, across, up) - points, points


def upper_limit(pieces: Iterator[Piece]) -> float:
    """The largest limit of all pieces."""
    best = 0.0
    for piece in sorted(pieces, key=lambda piece: -piece.farthest):
        if piece.farthest <= best:
            break
        best = piece.limit(best)
    return min(best, 1.0)
