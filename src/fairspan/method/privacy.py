"""Differential privacy of S: the Gaussian mechanism on sums over rows, and its accountant (METHOD 15).

Two tables of rows are neighbours if they differ in the protected attributes of one row (of all rows of one
cluster, if rows come in clusters). X, y, weights, control features and clusters are public. A sum over the
rows of each level of S changes by one row that leaves a level and enters another. Several sums are a
composition of Gaussian mechanisms, which is itself one: their values of mu add up in squares (Dong, Roth and
Su 2022), also if later sums depend on the noisy results of earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize
import scipy.sparse
import scipy.special

from fairspan.method.features import LandmarkMap, TransformerMap
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes

# Sensitivities are computed with rounding, of which this is far more than an upper bound.
_ROUNDING = 1e-9
# Rows whose functions are evaluated at once.
_BLOCK_ROWS = 2**14


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Smallest delta at which a Gaussian mechanism is (epsilon, delta)-private (Balle and Wang 2018).

    ``mu`` is its sensitivity over its standard deviation.
    """
    if mu <= 0.0:
        return 0.0
    low, high = mu / 2.0 - epsilon / mu, -mu / 2.0 - epsilon / mu
    second = np.exp(epsilon + float(scipy.special.log_ndtr(high)))
    return max(float(scipy.special.ndtr(low)) - float(second), 0.0)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu at which a Gaussian mechanism is (epsilon, delta)-private."""
    high = 1.0
    while gaussian_delta(epsilon, high) < delta:
        high *= 2.0
    low = high
    while gaussian_delta(epsilon, low) > delta:
        low /= 2.0
    if low == high:
        return low
    found = scipy.optimize.brentq(lambda mu: gaussian_delta(epsilon, mu) - delta, low, high)
    # The root of the equation within its tolerance, from the safe side.
    return float(found) * (1.0 - 1e-9)


def composed_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon at which a Gaussian mechanism is (epsilon, delta)-private.

    Several fits on the same rows together have the root of the sum of their squares as ``mu``.
    """
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(high, mu) > delta:
        high *= 2.0
    return float(scipy.optimize.brentq(lambda eps: gaussian_delta(eps, mu) - delta, 0.0, high))


@dataclass(frozen=True, kw_only=True)
class NoisySums:
    """Sums of functions over the rows of each level, with noise."""

    # One per attribute: (cells, levels, functions). The sums of all levels are 0.
    sums: tuple[Array, ...]
    sd: float  # standard deviation of the noise in one sum


class SensitiveRows:
    """Rows whose levels of S can only be read through sums with noise.

    Every attribute and every call takes a share of the budget; the shares of all calls are at most 1. Cells
    and folds are disjoint sets of rows, so their sums together change as those of one cell do.

    Parameters
    ----------
    codes : (n, attributes), level of each row.
    sizes : number of levels of each attribute.
    groups : (n,), cell of the row times the number of folds, plus its fold.
    n_folds : number of folds.
    n_cells : number of cells that are constrained; the groups of later cells are left out.
    mu : the whole budget, see :func:`gaussian_mu`.
    rng : source of the noise.
    """

    def __init__(
        self,
        X: Array,
        features: LandmarkMap | TransformerMap,
        codes: Codes,
        *,
        sizes: Sequence[int],
        groups: Codes,
        n_folds: int,
        n_cells: int,
        weights: Array | None,
        clusters: Codes | None,
        mu: float,
        rng: np.random.Generator,
    ) -> None:
        self._X, self._features, self._codes = X, features, codes
        self._sizes, self._groups, self._n_folds = tuple(sizes), groups, n_folds
        self._weights = np.ones(len(X)) if weights is None else weights
        self._cells = groups // n_folds
        self._n_cells = n_cells
        self._cluster = None if clusters is None else np.unique(clusters, return_inverse=True)[1]
        self._left, self._mu, self._rng = 1.0, mu, rng

    @property
    def n_cells(self) -> int:
        """Number of cells with sums."""
        return self._n_cells

    def _spend(self, share: float) -> float:
        """Take a share of the budget; return mu for one attribute."""
        self._left -= share
        if self._left < -1e-12:
            msg = "The sums would take more than the budget of epsilon_sensitive."
            raise AssertionError(msg)
        return self._mu * float(np.sqrt(share / len(self._sizes)))

    def _sensitivity(self, size: Array) -> float:
        """L2 distance of sums of neighbours; ``size`` has the length of what each row adds."""
        most = float(size.max(initial=0.0))
        if self._cluster is not None:  # all rows of a cluster change at once
            most = float(np.bincount(self._cluster, weights=size).max(initial=0.0))
        return float(np.sqrt(2.0)) * most * (1.0 + _ROUNDING)

    def weights(self, share: float) -> tuple[tuple[Array, ...], float]:
        """Weight of each level, (cells, levels) for each attribute, and the noise's standard deviation.

        The weights of a cell add up to that of its rows, which is public.
        """
        mu = self._spend(share)
        inside = self._cells < self._n_cells
        sd = self._sensitivity(self._weights * inside) / mu
        cells, weight = self._cells[inside], self._weights[inside]
        total = np.bincount(cells, weights=weight, minlength=self._n_cells)
        out = []
        for j, size in enumerate(self._sizes):
            flat = cells * size + self._codes[inside, j]
            found = np.bincount(flat, weights=weight, minlength=self._n_cells * size)
            noisy = found.reshape(self._n_cells, size) + self._noise((self._n_cells, size), sd)
            out.append(noisy + (total - noisy.sum(axis=1))[:, None] / size)
        return tuple(out), sd

    def sums(self, functions: Array, centres: Array, share: float) -> NoisySums:
        """Sums of weighted functions of x over the rows of each level, in every cell.

        Parameters
        ----------
        functions : (folds, D, m), or (1, D, m) if they are the same in all folds; coordinates of psi.
        centres : (groups, m), their means in each group, which are subtracted.
        share : of the budget.
        """
        mu, m = self._spend(share), functions.shape[2]
        by_fold = len(functions) > 1
        flat = functions.transpose(1, 0, 2).reshape(functions.shape[1], -1)
        found = [np.zeros((self._n_cells, size, m)) for size in self._sizes]
        length = np.zeros(len(self._X))
        for start in range(0, len(self._X), _BLOCK_ROWS):
            rows = np.arange(start, min(start + _BLOCK_ROWS, len(self._X)))
            rows = rows[self._cells[rows] < self._n_cells]
            if not len(rows):
                continue
            values = self._features.scores(self._X[rows], flat).reshape(len(rows), -1, m)
            fold = self._groups[rows] % self._n_folds if by_fold else np.zeros(len(rows), np.intp)
            values = values[np.arange(len(rows)), fold] - centres[self._groups[rows]]
            values *= self._weights[rows, None]
            length[rows] = np.linalg.norm(values, axis=1)
            for j, sums in enumerate(found):
                level = self._cells[rows] * self._sizes[j] + self._codes[rows, j]
                shape = (self._n_cells * self._sizes[j], len(rows))
                add = scipy.sparse.csr_array((np.ones(len(rows)), (level, range(len(rows)))), shape)
                sums += (add @ values).reshape(sums.shape)
        sd = self._sensitivity(length) / mu
        noisy = [sums + self._noise(sums.shape, sd) for sums in found]
        # Functions are centred, so the exact sums of all levels are 0.
        return NoisySums(sums=tuple(s - s.mean(axis=1, keepdims=True) for s in noisy), sd=sd)

    def _noise(self, shape: tuple[int, ...], sd: float) -> Array:
        return sd * self._rng.standard_normal(shape)
