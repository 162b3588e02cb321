"""Similarity matrices of blocks of rows, and how their product varies when S is permuted.

HSIC and distance covariance are one statistic, ``(A.B) = sum_{i != j} A_ij B_ij / (n(n-3))`` of two
U-centred matrices (zero diagonal, zero row sums): of kernels for HSIC, of distances for distance
covariance. Its mean is 0 if f and S are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, nan, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from fairspan.method.data import Codes
from fairspan.method.linalg import Array

Rows = NDArray[np.intp]
Statistic = Literal["hsic", "dcor"]

__all__ = [
    "MIN_ROWS",
    "Product",
    "Rows",
    "Statistic",
    "block_test",
    "distances",
    "gamma_p_value",
    "normalised",
    "permutation_skew",
    "permutation_test",
    "permuted_sums",
    "product",
    "similarity",
    "u_centred",
]

MIN_ROWS = 4  # a U-centred product divides by n - 3
_ZERO = 1e-20  # products of similarities of standardised rows below this are rounding
_WIDTH_ROWS = 500  # rows that set the width of a kernel where there are many
_PAIRS = 25_600_000  # pairs of rows that a block test compares: blocks of 256 at 100,000 rows
_SMALLEST_BLOCK = 64
_SKEW_BLOCKS, _SKEW_ROWS = 16, 256  # so much of the blocks gives the skewness of all
# Rows of a tile: small enough that what a permutation gathers stays in the cache.
_TILE = 64
# Above this many levels gathering entries is cheaper than one matrix product per level.
_MANY_LEVELS = 12


def distances(values: Array) -> Array:
    """Euclidean distance of every two rows of (n, d)."""
    if values.shape[1] == 1:
        return np.abs(values - values[:, 0])
    squares = np.einsum("ij,ij->i", values, values)
    squared = squares[:, None] + squares - 2.0 * (values @ values.T)
    np.fill_diagonal(squared, 0.0)
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


def _width(values: Array | Codes, statistic: Statistic) -> float:
    """Width of the Gaussian kernel, the median distance of two rows that differ; 0 without kernel.

    Equal rows do not count: of scores that are mostly tied the median distance is 0.
    """
    if statistic == "dcor" or values.dtype.kind == "i":
        return 0.0
    gaps = distances(np.asarray(values, dtype=np.float64))
    gaps = gaps[np.triu_indices(len(gaps), k=1)]
    gaps = gaps[gaps > 1e-6]  # rows are standardised: below, it is rounding
    return float(np.median(gaps)) if len(gaps) else 1.0


def similarity(values: Array | Codes, width: float) -> Array:
    """1[equal] of codes; of (n, d) numbers the Gaussian kernel, or minus the distance at width 0."""
    if values.dtype.kind == "i":
        return np.asarray(values[:, None] == values, dtype=np.float64)
    gaps = distances(np.asarray(values, dtype=np.float64))
    return np.asarray(np.exp(-0.5 * (gaps / width) ** 2) if width > 0.0 else -gaps)


def u_centred(matrix: Array) -> Array:
    """Zero diagonal and zero row sums, so that products with it are unbiased (Szekely-Rizzo)."""
    n = len(matrix)
    out = matrix.copy()
    np.fill_diagonal(out, 0.0)
    row = out.sum(axis=0) / (n - 2)
    out -= row
    out -= (row - row.sum() / (n - 1))[:, None]
    np.fill_diagonal(out, 0.0)
    return out


@dataclass(frozen=True)
class Product:
    """Inner products of one block: f with S, f with itself, S with itself."""

    n: int
    fs: float
    ff: float
    ss: float

    @property
    def variance(self) -> float:
        """Variance of ``fs`` over all permutations of S (exact; its mean is 0)."""
        return 2.0 * self.ff * self.ss / (self.n * (self.n - 3))


def product(f: Array, s: Array) -> Product:
    """Inner products of two U-centred matrices."""
    n = len(f)
    fs, ff, ss = (float(np.vdot(a, b)) / (n * (n - 3)) for a, b in ((f, s), (f, f), (s, s)))
    return Product(n, fs, ff, ss)


def permutation_skew(f: Array, s: Array) -> float:
    """Skewness of the product of two U-centred matrices over all permutations of S (exact)."""
    found = product(f, s)
    if found.variance <= _ZERO:
        return nan
    return _third_moment(f, s) / (found.n * (found.n - 3)) ** 3 / sqrt(found.variance) ** 3


def _third_moment(f: Array, s: Array) -> float:
    """``E (sum_ij f_ij s_p(i)p(j))^3`` over all permutations p, of U-centred matrices.

    Three edges of the complete graph form one of eight shapes. The sum over a shape of the product
    of the entries is ``t * trace(M^3) + c * sum(M_ij^3)``, as rows sum to 0, and a permutation maps
    a shape onto itself: the moment is a sum over shapes of both sums over the number of them.
    """
    n = len(f)
    falling = np.cumprod(np.maximum(n - np.arange(6.0), 0.0))  # n, n(n-1), ...
    shapes = np.array(
        [  # t, c, how many: multiple of, and vertices
            [0.0, 0.5, 0.5, 2],  # one edge three times
            [0.0, -3.0, 3.0, 3],  # one edge twice, one that touches it
            [0.0, 1.5, 0.75, 4],  # one edge twice, one apart
            [1.0, 0.0, 1.0, 3],  # triangle
            [0.0, 2.0, 1.0, 4],  # star
            [-3.0, 3.0, 3.0, 4],  # path
            [3.0, -6.0, 1.5, 5],  # two that touch, one apart
            [-1.0, 2.0, 0.125, 6],  # three apart
        ]
    )
    count = shapes[:, 2] * falling[shapes[:, 3].astype(np.intp) - 1]
    sums = [shapes[:, :2] @ [float(np.vdot(m @ m, m)), float(np.vdot(m * m, m))] for m in (f, s)]
    return 8.0 * float(np.sum((sums[0] * sums[1])[count > 0] / count[count > 0]))


def gamma_p_value(z: float, skew: float) -> float:
    """Upper tail at z of the shifted gamma distribution of mean 0, variance 1 and this skewness."""
    shape = 4.0 / max(skew, 1e-3) ** 2  # hardly skewed, or to the left: as good as normal
    return float(gammaincc(shape, max(shape + z * np.sqrt(shape), 0.0)))


def normalised(products: Sequence[Product]) -> float:
    """Products of blocks, weighted by their rows, as one number of at most 1.

    0.0 where f does not vary inside blocks, NaN where S does not.
    """
    fs = sum(p.n * p.fs for p in products)
    ff = sum(p.n * p.ff for p in products)
    ss = sum(p.n * p.ss for p in products)
    if min(ff, ss) <= _ZERO:
        return nan if ss <= _ZERO else 0.0
    return fs / sqrt(ff * ss)


def _spread(products: Sequence[Product]) -> float:
    """Standard deviation of the weighted sum of products if S is permuted inside blocks."""
    variance = sum(p.n**2 * p.variance for p in products)
    return sqrt(variance) if variance > _ZERO else 0.0


def permutation_test(
    f: Array,
    s: Array | Codes,
    strata: Sequence[Rows],
    statistic: Statistic,
    n_permutations: int,
    rng: np.random.Generator,
) -> tuple[list[Product], float]:
    """Exact test, with S permuted inside each stratum: products of the strata, p-value."""
    products = []
    null = np.zeros(1 + n_permutations)  # the first is the order as it is
    for rows in strata:
        order = np.tile(np.arange(len(rows)), (len(null), 1))
        order[1:] = rng.permuted(order[1:], axis=1)
        a = u_centred(similarity(f[rows], _width(f[rows], statistic)))
        b = similarity(s[rows], _width(s[rows], statistic))
        products.append(product(a, u_centred(b)))
        codes = s[rows].astype(np.intp) if s.dtype.kind == "i" else None
        null += permuted_sums(a, b, codes, order) / (len(rows) - 3)
    spread = _spread(products)
    if spread == 0.0:
        return products, nan
    return products, float(np.mean(null >= null[0] - 1e-5 * spread))  # ties, up to rounding


def block_test(
    f: Array,
    s: Array | Codes,
    strata: Sequence[Rows],
    statistic: Statistic,
    max_rows: int,
    rng: np.random.Generator,
) -> tuple[list[Product], float]:
    """Sum over random blocks of each stratum, against permutations of S inside the blocks.

    They are not drawn: a sum of many blocks is nearly normal, and a gamma distribution of the same
    mean, variance and skewness takes care of the rest. The skewness is that of a few blocks.
    """
    size = max(_PAIRS // sum(map(len, strata)), _SMALLEST_BLOCK)
    size = max(min(size, max_rows), MIN_ROWS)
    blocks: list[tuple[Rows, float, float]] = []
    for rows in strata:
        mixed = rng.permutation(rows)
        some = mixed[:_WIDTH_ROWS]
        widths = _width(f[some], statistic), _width(s[some], statistic)
        blocks.extend((part, *widths) for part in np.array_split(mixed, ceil(len(rows) / size)))
    step = ceil(len(blocks) / _SKEW_BLOCKS)
    products, skews = [], []
    for i, (rows, f_width, s_width) in enumerate(blocks):
        a = u_centred(similarity(f[rows], f_width))
        b = u_centred(similarity(s[rows], s_width))
        products.append(product(a, b))
        if i % step == 0:
            m = _SKEW_ROWS
            skews.append(permutation_skew(u_centred(a[:m, :m]), u_centred(b[:m, :m])))
    spread = _spread(products)
    if spread == 0.0:
        return products, nan
    known = [skew for skew in skews if not np.isnan(skew)]
    cubes = sum((p.n * sqrt(p.variance)) ** 3 for p in products)
    skew = float(np.mean(known)) * cubes / spread**3 if known else 0.0
    return products, gamma_p_value(sum(p.n * p.fs for p in products) / spread, skew)


def permuted_sums(f: Array, s: Array, codes: Codes | None, order: NDArray[np.intp]) -> Array:
    """``sum_ij f_ij s_p(i)p(j)`` for each permutation p, a row of ``order``.

    ``f`` is U-centred, so ``s`` need not be. ``codes``: the levels whose similarity ``s`` is, if so.
    """
    if codes is not None:
        levels = np.unique(codes)
        if len(levels) <= _MANY_LEVELS:
            permuted = codes[order].T
            total = np.zeros(len(order))
            for level in levels:
                member = np.asarray(permuted == level, dtype=np.float64)
                total += np.einsum("ij,ij->j", member, f @ member)
            return total
    # The matrices are symmetric, half of one will do. Single precision: rounding moves a sum by
    # 1e-7 of its standard deviation, and gathering is twice as fast.
    upper = (2.0 * np.triu(f, k=1)).astype(np.float32)
    small = s.astype(np.float32)
    tiles = [(i, upper[i : i + _TILE, i:].copy()) for i in range(0, len(f), _TILE)]
    return np.array([_tiled_sum(tiles, small, p) for p in order])


def _tiled_sum(
    tiles: Sequence[tuple[int, NDArray[np.float32]]], s: NDArray[np.float32], p: NDArray[np.intp]
) -> float:
    return sum(
        float(np.vdot(tile, s.take(p[i : i + len(tile)], axis=0).take(p[i:], axis=1)))
        for i, tile in tiles
    )
