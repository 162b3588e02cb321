"""Exact solver of the dual of decisions under limits on rates (METHOD 13).

Decisions d in [0, 1] with the largest mean utility, among those whose mean products with the codes are in
intervals, up to a free offset that the codes of a block share::

    maximise E[u d]    subject to    lower_m <= E[b_m d] - offset <= upper_m.

The dual is piecewise linear and convex in few multipliers::

    minimise E[(u - b'v)_+] + sum_m sup {z v_m : lower_m <= z <= upper_m}
    subject to sum v = 0 in each block.

With K classes, ``(u - b'v)_+`` is ``max_k (u_k - b'v_k)``, and the limits hold for every class.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.optimize
import scipy.sparse

from fairspan.method.fold_codes import Flags
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes

__all__ = ["Dual"]

# Entries d of the largest linear program. More rows are solved in boxes of multipliers.
_PROGRAM_SIZE = 4000
_BOX_SIZE = 1500
_GROWTH = 2


@dataclass(frozen=True, kw_only=True)
class Dual:
    """Rows of the dual; the limits are arguments of its methods.

    Parameters
    ----------
    utility : utility of the decision, (n,); or of each of K classes, (n, K).
    codes : (n, M).
    weight : weights of the rows, with the sum 1.
    block : (M,); codes with the same number share a free offset, those with -1 have none.
    """

    utility: Array
    codes: Array
    weight: Array
    block: Codes

    def value(self, multipliers: Array, lower: Array, upper: Array) -> float:
        """Compute the objective of the dual at multipliers (M,) or (M, K)."""
        margin = self.utility - self.codes @ multipliers
        best = np.maximum(margin, 0.0) if margin.ndim == 1 else margin.max(axis=1)
        v = multipliers[:, None] if multipliers.ndim == 1 else multipliers
        up, down = np.maximum(v, 0.0).sum(axis=1), np.maximum(-v, 0.0).sum(axis=1)
        # An infinite limit has no multiplier, up to rounding.
        penalty = np.where(np.isfinite(upper), upper, 0.0) @ up
        penalty -= np.where(np.isfinite(lower), lower, 0.0) @ down
        return float(self.weight @ best + penalty)

    def solve(self, lower: Array, upper: Array, start: Array | None = None) -> Array:
        """Find the optimal multipliers, (M,) or (M, K).

        ``start`` are multipliers near the optimum, e.g. those of a similar limit. They save time and do
        not change the value.
        """
        if self.codes.shape[1] == 0:
            return np.zeros((0, *self.utility.shape[1:]))
        if self._line is not None and lower[0] == lower[1] == 0.0 and upper[0] == upper[1]:
            move = self._line.solve(float(upper[0]))
            return np.array([move, -move])
        every = np.ones(len(self.utility), dtype=bool)
        if self.utility.size <= _PROGRAM_SIZE:
            return self._program(every, lower, upper, None)
        centre = self._coarse(lower, upper) if start is None else start
        size = _BOX_SIZE
        while size < self.utility.size:
            inside, radius = self._box(centre, size)
            found = self._program(inside, lower, upper, (centre, radius))
            moved = np.abs(found - centre) / radius.reshape(-1, *(1,) * (found.ndim - 1))
            # Within the box the program has the same objective as all rows, so an optimum that is not at
            # its boundary is that of all rows.
            if moved.max() < 1.0 - 1e-6:
                return found
            centre, size = found, _GROWTH * size
        return self._program(every, lower, upper, None)

    @cached_property
    def _line(self) -> _Line | None:
        """The problem in one unknown, if there are two codes with a common offset and two classes."""
        if self.utility.ndim > 1 or self.codes.shape[1] != 2:
            return None
        if self.block[0] < 0 or self.block[0] != self.block[1]:
            return None
        return _Line(self.utility, self.codes[:, 0] - self.codes[:, 1], self.weight)

    @cached_property
    def _centred(self) -> Array:
        """Codes without the mean over their block, which the shared offset makes irrelevant."""
        out = self.codes.copy()
        for number in set(self.block[self.block >= 0].tolist()):
            columns = self.block == number
            out[:, columns] -= out[:, columns].mean(axis=1, keepdims=True)
        return out

    @cached_property
    def _spread(self) -> Array:
        """Root mean square of every code, 1 if it is 0."""
        spread = np.sqrt(self.weight @ self._centred**2)
        return np.where(spread > 0.0, spread, 1.0)

    @cached_property
    def _weighted(self) -> Array:
        return self._centred * self.weight[:, None]

    @cached_property
    def _reach(self) -> Array:
        """Most that the margin of a row moves if every multiplier moves by 1 / spread."""
        return np.asarray(np.abs(self._centred / self._spread).sum(axis=1))

    def _coarse(self, lower: Array, upper: Array) -> Array:
        """Solve for every k-th row in the order of the utility."""
        first = self.utility.reshape(len(self.utility), -1)
        order = np.lexsort((*self._centred.T, *first.T))
        step = -(-self.utility.size // _PROGRAM_SIZE)
        rows = order[step // 2 :: step]
        weight = self.weight[rows] / self.weight[rows].sum()
        # The means of the codes decide which rates are possible.
        codes = self.codes[rows] + (self.weight @ self.codes - weight @ self.codes[rows])
        few = Dual(utility=self.utility[rows], codes=codes, weight=weight, block=self.block)
        return few.solve(lower, upper)

    def _box(self, centre: Array, size: int) -> tuple[Flags, Array]:
        """Rows whose decision can change in a box around multipliers, and the half width of the box."""
        margin = self.utility - self._centred @ centre
        if (
            margin.ndim > 1
        ):  # the best class changes if the gap to the second is closed from both sides
            top = np.partition(margin, -2, axis=1)
            margin = (top[:, -1] - top[:, -2]) / 2.0
            size = size // self.utility.shape[1]
        need = np.abs(margin) / np.maximum(self._reach, 1e-300)
        radius = max(float(np.partition(need, size)[size]), 1e-9)
        return need <= radius, radius / self._spread

    def _program(
        self, inside: Flags, lower: Array, upper: Array, box: tuple[Array, Array] | None
    ) -> Array:
        """Solve the linear program of the rows ``inside``, the decisions of the others being fixed.

        ``box`` has the centre and half widths of an interval for each multiplier.
        """
        K = self.utility.shape[1] if self.utility.ndim > 1 else 1
        M, n = len(self._spread), float(len(self.utility))
        w = self.weight[inside] * n
        B = (self._centred[inside] / self._spread * w[:, None]).T
        gain = (self.utility[inside] * (w if K == 1 else w[:, None])).T.reshape(-1)
        fixed = self._fixed(inside, box)
        number = self.block.max() + 1
        # Columns for each class: the offsets of the blocks, and the interval of every code; both are in
        # the units of its row.
        offsets = (self.block[:, None] == np.arange(number)) / self._spread[:, None]
        free = np.full((number, 2), [-np.inf, np.inf])
        interval = n * np.stack([lower, upper], axis=1) / self._spread[:, None]
        columns, costs, bounds = [-offsets, -np.eye(M)], [np.zeros(number + M)], [free, interval]
        if box is not None:
            columns += [-np.eye(M), np.eye(M)]
            bounds.append(np.full((2 * M, 2), [0.0, np.inf]))
        every, class_costs = np.concatenate(columns, axis=1), []
        for k in range(K):
            class_costs += costs
            if box is not None:
                centre = box[0].reshape(M, K)[:, k] * self._spread
                half = box[1] * self._spread
                class_costs += [centre + half, half - centre]
        # Of arrays, `block_diag` makes another type from SciPy 1.18 on, with a warning.
        blocks = [[scipy.sparse.coo_matrix(part)] * K for part in (B, every)]
        A = scipy.sparse.hstack(list(map(scipy.sparse.block_diag, blocks)), format="csc")
        right = -n * (fixed / self._spread[:, None]).T.reshape(-1)
        if K > 1:  # the decisions of a row add up to 1
            ones = scipy.sparse.hstack([scipy.sparse.identity(len(w))] * K)
            A = scipy.sparse.vstack([A, scipy.sparse.hstack([ones, _zeros(len(w), A, ones)])])
            right = np.concatenate([right, np.ones(len(w))])
        marginals = _solve_program(
            np.concatenate([-gain, *class_costs]),
            A,
            right,
            np.concatenate([np.tile([0.0, 1.0], (len(gain), 1)), *(bounds * K)]),
            n,
        )
        multipliers = -marginals[: M * K].reshape(K, M).T / self._spread[:, None]
        return np.asarray(multipliers[:, 0] if self.utility.ndim == 1 else multipliers)

    def _fixed(self, inside: Flags, box: tuple[Array, Array] | None) -> Array:
        """Mean products of the codes with the decisions of the rows that cannot change, (M, K)."""
        K = self.utility.shape[1] if self.utility.ndim > 1 else 1
        if box is None:
            return np.zeros((len(self._spread), K))
        margin = self.utility - self._centred @ box[0]
        decisions = (margin > 0.0)[:, None]
        if K > 1:
            decisions = np.arange(K) == margin.argmax(axis=1)[:, None]
        decisions[inside] = False
        return np.asarray(self._weighted.T @ decisions)


def _solve_program(
    cost: Array, A: scipy.sparse.spmatrix, right: Array, bounds: Array, n: float
) -> Array:
    """Multipliers of the rows of a linear program; n is the unit of its right side."""
    # Rates to 1e-10; HiGHS can fail at a tolerance near the rounding of n rows.
    tolerance = {"primal_feasibility_tolerance": max(1e-10 * n, 1e-7)}
    # Its presolve takes longer than the few steps of the dual simplex, so it is for hard cases.
    attempts: tuple[tuple[str, dict[str, bool]], ...]
    attempts = ("highs-ds", {"presolve": False}), ("highs-ds", {}), ("highs-ipm", {})
    for method, options in attempts:
        result = scipy.optimize.linprog(
            cost,
            A_eq=A,
            b_eq=right,
            bounds=bounds,
            method=method,
            options={**tolerance, **options},
        )
        if result.status == 0:
            return np.asarray(result.eqlin.marginals)
    msg = (
        f"The linear program of the decision rule has no solution: {result.message} Check that "
        f"probabilities, codes and weights are finite and of usual size."
    )
    raise ValueError(msg)


def _zeros(
    rows: int, A: scipy.sparse.spmatrix, ones: scipy.sparse.spmatrix
) -> scipy.sparse.spmatrix:
    return scipy.sparse.csc_matrix((rows, A.shape[1] - ones.shape[1]))


class _Line:
    """The dual in one unknown l: ``E[(u - c l)_+] + limit |l|``, solved by one sort for all limits."""

    def __init__(self, utility: Array, code: Array, weight: Array) -> None:
        with np.errstate(divide="ignore", invalid="ignore"):
            breaks = utility / code
        moves = code != 0.0
        order = np.flatnonzero(moves)[np.argsort(breaks[moves], kind="stable")]
        self.breaks = breaks[order]
        # E[c d] at l falls by w |c| at every break. Its largest value is at l = -inf.
        drop = np.cumsum(weight[order] * np.abs(code[order]))
        still = ~moves & (utility > 0.0)
        largest = float(weight[moves] @ np.maximum(code[moves], 0.0) + weight[still] @ code[still])
        self.after = largest - drop
        self.at_zero = float(weight @ (code * (utility > 0.0)))

    def solve(self, limit: float) -> float:
        """Multiplier of least absolute value at which ``|E[c d]| <= limit`` is attained by some d."""
        if len(self.breaks) == 0:
            return 0.0
        rounding = 1e-12 * max(float(np.abs(self.after).max()), 1e-300)
        if self.at_zero > limit:
            # First break after which the mean is at most the limit.
            first = int(np.searchsorted(-self.after, -(limit + rounding)))
            return max(float(self.breaks[min(first, len(self.breaks) - 1)]), 0.0)
        if self.at_zero < -limit:
            # Last break before which the mean is at least -limit.
            first = int(np.searchsorted(-self.after, limit + rounding, side="right"))
            return min(float(self.breaks[min(first, len(self.breaks) - 1)]), 0.0)
        return 0.0
