"""Held-out bounds that hold for all functions of a model space at once.

The bound is on the correlation of every function of the space with protected attributes.
The supremum is the largest correlation between a function h of the space and a function a of the
levels: the canonical correlation of Z with the level indicators. Let (h0, a0) be the pair that
attains it in the population. This pair does not depend on the rows, so an ordinary one-sided limit
U(h0, a0) for the correlation of two given variables covers it with the stated probability. As
``max_{h, a} U(h, a) >= U(h0, a0)``, the largest limit of all single pairs covers the supremum, for any
number of functions and without Gaussian assumptions. U is the limit on Fisher's scale,
``atanh r + z se``, with the standard error of the influence function of r,
``(h a - r (h^2 + a^2) / 2) / (1 - r^2)`` for standardized h and a. For Gaussian pairs se is 1/sqrt(n)
for every pair, so the maximum does not widen the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.stats

from fairspan.auditing.reading import Protected
from fairspan.method.linalg import Array, psd_eigh
from fairspan.method.problem import Codes
from fairspan.method.sdr import MIN_SHARE
from fairspan.metrics.groups import (
    ALL,
    count_clusters,
    group_sums,
    membership,
    renumbered,
    unit_of,
)

ASSUMPTIONS = (
    "The bound holds for every function of the model space at once, with the stated confidence for "
    "all blocks together, if: the rows had no part in the fit, in the choice of the model space or of "
    "its settings; they are drawn from the population the model will be used on, independently of "
    "each other, or in the clusters that were given (weights, if any, make up for unequal chances of "
    "being drawn). Slices of numbers are "
    "cut at quantiles of these rows, as if the edges had been set beforehand. It is about means of "
    "groups or slices: functions of the space may still differ in spread or shape between groups. It "
    "is about the levels that are covered, not about those left out for too few rows or too little "
    "weight. The confidence "
    "is approximate: it uses the normal approximation for the correlation of two variables, which "
    "needs more rows where tails are heavy or groups are rare."
)

_RANK = 1e-12  # least eigenvalue of the correlation matrix of Z, against the largest
_TINY = 1e-150  # keeps divisions finite; its square does not underflow
_N_STARTS = 3  # leading canonical pairs from which the largest limit is searched
_DOUBTFUL = 0.25  # a caution names levels where skewness could raise the limit by more of its standard errors
_LOOSE = 0.2  # a note warns if independent rows would show a larger supremum by chance


@dataclass(frozen=True, kw_only=True)
class HeldOutBound:
    """Bound for one attribute in one cell of the rows.

    Attributes
    ----------
    attribute, cell : names.
    supremum : largest multiple correlation with the codes in these rows, over all functions.
    bound : upper confidence limit of the supremum in the population.
    level : confidence level of all bounds together.
    n_rows : rows of the cell, without those of levels left out.
    n_functions : dimension of the space on these rows, without constants.
    n_codes : number of levels or slices compared.
    note : reason of a missing number, levels left out, or a warning about few rows.
    caution : why the bound may hold less often than stated: a few rows of a small level determine it.
    """

    attribute: str
    cell: str
    supremum: float
    bound: float
    level: float
    n_rows: int
    n_functions: int
    n_codes: int
    note: str = ""
    caution: str = ""


def held_out_bound(
    Z: Array,
    protected: Sequence[Protected],
    *,
    cells: Codes | None = None,
    cell_names: Sequence[str] = ("all rows",),
    weight: Array,
    level: float = 0.95,
    min_rows: int = 30,
    clusters: Codes | None = None,
) -> list[HeldOutBound]:
    """Bounds on the multiple correlation of every function of a space with protected attributes.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Values of functions that span the space, on rows that had no part in its choice.
    protected : sequence of Protected
        Attributes; a continuous one by its slices.
    cells : ndarray of shape (n,), optional
        Cell of each row, such as its class for equalized odds: an index into ``cell_names``. Other
        numbers mean no cell. Default: one cell of all rows.
    cell_names : sequence of str
        Names of the cells.
    weight : ndarray of shape (n,)
        Weights of the rows.
    level : float, default=0.95
        Confidence of all bounds together (Bonferroni).
    min_rows : int, default=30
        Levels of fewer rows, or clusters, are left out.
    clusters : ndarray of shape (n,), optional
        Rows that belong together. The standard error is then that of sums over clusters, with the
        jackknife's correction for the leverage of a whole cluster. Default: rows are independent.

    Returns
    -------
    list of HeldOutBound
        By attribute, then by cell. NaN, with a note, where fewer than two levels are left or no
        function varies. ``ASSUMPTIONS`` lists the assumptions.
    """
    cells = np.zeros(len(Z), dtype=np.intp) if cells is None else cells
    blocks = [
        _Block.of(
            Z[cells == i],
            attribute.take(cells == i),
            weight[cells == i],
            cell,
            min_rows,
            None if clusters is None else clusters[cells == i],
        )
        for attribute in protected
        for i, cell in enumerate(cell_names)
    ]
    known = sum(block.known for block in blocks)
    factor = float(scipy.stats.norm.isf((1.0 - level) / max(known, 1)))
    return [block.bound(level, factor) for block in blocks]


@dataclass(frozen=True, kw_only=True)
class _Block:
    """Whitened functions and codes of one cell, without rows of levels that are too small."""

    attribute: str
    cell: str
    Z: Array  # (n, rank), mean 0 and covariance 1
    codes: Codes
    contrasts: Array  # (levels, levels - 1), mean 0 and covariance 1 over the rows
    share: Array
    pull: Array  # share / (1 - leverage) of each row, as in a jackknife
    left_out: tuple[str, ...]
    clusters: Codes | None
    labels: tuple[str, ...]

    @classmethod
    def of(
        cls,
        Z: Array,
        protected: Protected,
        weight: Array,
        cell: str,
        min_rows: int,
        clusters: Codes | None = None,
    ) -> _Block:
        count = count_clusters(protected.codes, len(protected.labels), clusters)
        mass = np.bincount(protected.codes, weight, minlength=len(protected.labels))
        large = (count >= max(min_rows, 2)) & (mass > MIN_SHARE * weight.sum())
        left_out = tuple(protected.labels[i] for i in np.flatnonzero((count > 0) & ~large))
        rows = large[protected.codes]
        levels, codes = np.unique(protected.codes[rows], return_inverse=True)
        share = weight[rows] / weight[rows].sum()
        root = np.sqrt(np.bincount(codes, share, minlength=len(levels)))
        others = scipy.linalg.null_space(root[None]) if len(levels) > 1 else np.zeros((0, 0))
        white = _whiten(Z[rows], share)
        clusters = renumbered(clusters, rows)
        if clusters is None:
            leverage = share * (np.sum(white**2, axis=1) + (root**-2)[codes])
        else:
            levels_white = (codes[:, None] == np.arange(len(levels))) / root
            leverage = _leverage(
                np.sqrt(share)[:, None] * np.hstack([white, levels_white]), clusters
            )
        return cls(
            attribute=protected.name,
            cell=cell,
            Z=white,
            codes=codes.astype(np.intp),
            contrasts=others / root[:, None] if len(levels) > 1 else others,
            share=share,
            pull=share / (1.0 - np.minimum(leverage, 0.9)),
            left_out=left_out,
            clusters=clusters,
            labels=tuple(protected.labels[i] for i in levels),
        )

    @property
    def known(self) -> bool:
        """Whether there are levels and functions to compare."""
        return self.contrasts.size > 0 and self.Z.size > 0

    def bound(self, level: float, factor: float) -> HeldOutBound:
        """The supremum, and its upper limit ``factor`` standard errors above."""
        (n, d), n_codes = self.Z.shape, len(self.contrasts)
        notes = []
        supremum = bound = np.nan
        caution = ""
        if self.left_out:
            notes.append(
                f"levels left out, too few rows or too little weight: {', '.join(self.left_out)}"
            )
        if self.contrasts.size == 0:
            notes.append("fewer than two levels to compare")
        elif d == 0:
            notes.append("no function varies")
        else:
            M = self._correlations()
            left, singular, right = scipy.linalg.svd(M, full_matrices=False)
            supremum = min(float(singular[0]), 1.0)
            bound = self._limit(M, left, right, factor) if supremum < 1.0 - 1e-9 else 1.0
            if doubtful := self._doubtful_levels(left[:, 0], factor):
                caution = (
                    f"heavy tails in few {unit_of(self.clusters)} of {', '.join(doubtful)}: "
                    f"the bound may hold less often than stated"
                )
                notes.append(caution)
            chance = (np.sqrt(d) + np.sqrt(n_codes - 1)) * float(
                np.linalg.norm(self._totals(self.share))
            )
            if chance > _LOOSE:
                notes.append(
                    f"few rows for {d} functions and {n_codes} levels: independence itself would "
                    f"show about {min(chance, 1.0):.2f}"
                )
        return HeldOutBound(
            attribute=self.attribute,
            cell=self.cell,
            supremum=supremum,
            bound=bound,
            level=level,
            n_rows=n,
            n_functions=d,
            n_codes=n_codes,
            note="; ".join(notes),
            caution=caution,
        )

    def _doubtful_levels(self, u: Array, factor: float) -> list[str]:
        """Levels with too few rows for the skewness of the function along u.

        A few rows often lack the tail, so their own skewness is too small. That of all rows about the
        means of their levels shows how far Edgeworth's term could raise the limit.
        """
        h = self.Z @ u
        mass = np.bincount(self.codes, self.share)
        centred = h - (np.bincount(self.codes, self.share * h) / mass)[self.codes]
        spread = float(self.share @ centred**2)
        if spread <= 0.0:
            return []
        skewness = abs(float(self.share @ centred**3)) / spread**1.5
        factors = {ALL: self.codes}
        n = group_sums(factors, {}, self.share, clusters=self.clusters).effective(ALL, len(mass))
        raised = skewness * (2.0 * factor**2 + 1.0) / (6.0 * np.sqrt(n))
        return [self.labels[i] for i in np.flatnonzero(raised > _DOUBTFUL * factor)]

    def _correlations(self) -> Array:
        """(d, levels - 1) correlations of the whitened functions with the whitened codes."""
        sums = membership(self.codes, len(self.contrasts), self.share) @ self.Z
        return np.asarray(sums.T @ self.contrasts)

    def _limit(self, M: Array, left: Array, right: Array, factor: float) -> float:
        """The largest limit of a pair, by ascent from the leading canonical pairs."""
        best = 0.0
        options = {"maxiter": 50, "ftol": 1e-7}
        ascend = partial(scipy.optimize.minimize, method="L-BFGS-B", jac=True, options=options)
        for u, v in zip(left.T[:_N_STARTS], right[:_N_STARTS], strict=False):
            pairs = [np.concatenate([u, v])]
            if len(pairs[0]) > 2:  # with two numbers, only their signs are free
                pairs.append(ascend(self._minus_limit, pairs[0], (M, factor)).x)
            best = max(best, *(self._corrected(x, M, factor) for x in pairs))
        return float(np.tanh(best))

    def _corrected(self, x: Array, M: Array, factor: float) -> float:
        """Limit of the pair along x on Fisher's scale, raised if the influence is skewed.

        With skewness, a low correlation goes along with a low standard error. Edgeworth's term for a
        studentized mean corrects for this; it is never used to lower the limit. Student's quantile,
        with Satterthwaite's degrees of freedom, accounts for the noise of a standard error that few
        rows determine.
        """
        h, a, r = self._pair(x, M)
        totals = self._totals(self.pull * (h * a - r * (h**2 + a**2) / 2.0))
        root = float(np.linalg.norm(totals)) + _TINY
        skewness = max(float(np.sum((totals / root) ** 3)), 0.0)
        freedom = 2.0 / float(np.sum((totals / root) ** 4))
        factor = float(scipy.stats.t.isf(scipy.stats.norm.sf(factor), freedom))
        steps = factor + skewness * (2.0 * factor**2 + 1.0) / 6.0
        return float(np.arctanh(r)) + steps * root / (1.0 - r**2)

    def _totals(self, by_row: Array) -> Array:
        """Sums over the clusters; without clusters, the rows themselves."""
        if self.clusters is None:
            return by_row
        return np.bincount(self.clusters, by_row).astype(np.float64)

    def _pair(self, x: Array, M: Array) -> tuple[Array, Array, float]:
        """The function of the space and the function of the levels along x; their correlation."""
        u, v = x[: len(M)], x[len(M) :]
        u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
        r = float(np.clip(u @ M @ v, -1.0 + 1e-9, 1.0 - 1e-9))
        return self.Z @ u, (self.contrasts @ v)[self.codes], r

    def _minus_limit(self, x: Array, M: Array, factor: float) -> tuple[float, Array]:
        """Minus the limit of the pair along x on Fisher's scale, and its gradient."""
        h, a, r = self._pair(x, M)
        norms = np.linalg.norm(x[: len(M)]), np.linalg.norm(x[len(M) :])
        u, v = x[: len(M)] / norms[0], x[len(M) :] / norms[1]
        rest = 1.0 - r**2
        half = (h**2 + a**2) / 2.0
        influence = h * a - r * half
        by_row = self.pull**2 * influence
        if self.clusters is not None:  # the cluster's sum in place of the row's own term
            by_row = self.pull * self._totals(self.pull * influence)[self.clusters]
        root = float(np.sqrt(by_row @ influence)) + _TINY
        error = root / rest
        # d error = d root / rest + 2 r error / rest * dr, and the influence depends on r as well
        by_r = (1.0 + factor * (2.0 * r * error - by_row @ half / root)) / rest
        scale = factor / (root * rest)
        to_levels = np.bincount(self.codes, by_row * (h - r * a), minlength=len(self.contrasts))
        by_u = by_r * (M @ v) + scale * (self.Z.T @ (by_row * (a - r * h)))
        by_v = by_r * (M.T @ u) + scale * (self.contrasts.T @ to_levels)
        by_u, by_v = (by_u - u * (u @ by_u)) / norms[0], (by_v - v * (v @ by_v)) / norms[1]
        return -(float(np.arctanh(r)) + factor * error), -np.concatenate([by_u, by_v])


def _leverage(columns: Array, clusters: Codes) -> Array:
    """Largest eigenvalue of the hat matrix of each row's cluster, for columns with orthonormal parts."""
    order = np.argsort(clusters, kind="stable")
    size = np.bincount(clusters)
    out = np.empty(len(clusters))
    for m in np.unique(size):  # clusters of one size at once
        rows = order[size[clusters[order]] == m].reshape(-1, m)
        out[rows] = np.linalg.norm(columns[rows], 2, axis=(1, 2))[:, None] ** 2
    return out


def _whiten(Z: Array, share: Array) -> Array:
    """Uncorrelated columns of mean 0 and variance 1 with the span of those of Z, without constants."""
    if len(Z) == 0:
        return np.zeros((0, 0))
    centred = Z - share @ Z
    spread = np.sqrt(share @ centred**2)
    varies = np.ptp(Z, axis=0) > _RANK * np.abs(Z).max(axis=0)
    if not varies.any():
        return np.zeros((len(Z), 0))
    scaled = centred[:, varies] / spread[varies]
    values, vectors = psd_eigh((scaled.T * share) @ scaled)
    keep = values > _RANK * values[0]
    return np.asarray(scaled @ (vectors[:, keep] / np.sqrt(values[keep])))
