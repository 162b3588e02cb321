"""Tests of independence by permutation (few rows) and by blocks of rows (many rows), and Holm's correction.

HSIC and distance covariance are the same statistic of different matrices: the inner product
``(A.B) = sum_{i != j} A_ij B_ij / (n(n-3))`` of two U-centred matrices (zero diagonal, zero row sums).
A and B hold kernels for HSIC and distances for distance covariance. Its mean is 0 if f and S are
independent. Its exact variance and skewness over permutations of S are known, so a sum over many
blocks of rows can be tested without drawing permutations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, nan, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from fairspan.auditing.reading import Protected
from fairspan.auditing.scores import distances
from fairspan.method.linalg import Array
from fairspan.method.problem import Codes
from fairspan.metrics.groups import standardize

Rows = NDArray[np.intp]
Statistic = Literal["hsic", "dcor"]

MIN_ROWS = 4  # a U-centred product divides by n - 3
_ZERO = 1e-20  # products of similarities of standardised rows below this are rounding
_WIDTH_ROWS = 500  # rows used for the kernel width of a block test
_PAIRS = 25_600_000  # pairs of rows that a block test compares: blocks of 256 at 100,000 rows
_SMALLEST_BLOCK = 64
_SKEW_BLOCKS, _SKEW_ROWS = 16, 256  # number of blocks, and rows of each, used for the skewness
_TILE = 64  # rows of a tile: the entries gathered by a permutation stay in the cache
# Above this many levels gathering entries is cheaper than one matrix product per level.
_MANY_LEVELS = 12


def _width(values: Array | Codes, statistic: Statistic) -> float:
    """Width of the Gaussian kernel: the median distance of two rows that differ; 0 without a kernel.

    Equal rows are left out because the median distance of mostly tied scores is 0.
    """
    if statistic == "dcor" or values.dtype.kind == "i":
        return 0.0
    gaps = distances(np.asarray(values, dtype=np.float64))
    gaps = gaps[np.triu_indices(len(gaps), k=1)]
    gaps = gaps[gaps > 1e-6]  # rows are standardised: smaller distances are rounding
    return float(np.median(gaps)) if len(gaps) else 1.0


def similarity(values: Array | Codes, width: float) -> Array:
    """Similarity matrix: 1[equal] for codes; the Gaussian kernel, or minus the distance if width is 0."""
    if values.dtype.kind == "i":
        return np.asarray(values[:, None] == values, dtype=np.float64)
    gaps = distances(np.asarray(values, dtype=np.float64))
    return np.asarray(np.exp(-0.5 * (gaps / width) ** 2) if width > 0.0 else -gaps)


def u_centred(matrix: Array) -> Array:
    """Centre to zero diagonal and zero row sums: inner products are then unbiased (Szekely-Rizzo)."""
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
    fs = product(f, s)
    if fs.variance <= _ZERO:
        return nan
    return _third_moment(f, s) / (fs.n * (fs.n - 3)) ** 3 / sqrt(fs.variance) ** 3


def _third_moment(f: Array, s: Array) -> float:
    """``E (sum_ij f_ij s_p(i)p(j))^3`` over all permutations p, of U-centred matrices.

    Three edges of the complete graph form one of eight shapes. Rows sum to 0, so the sum over a shape
    of the product of the entries is ``t * trace(M^3) + c * sum(M_ij^3)``. A permutation maps a shape
    onto itself, so the moment is the sum over shapes of (sum of f) (sum of s) / (number of shapes).
    """
    n = len(f)
    falling = np.cumprod(np.maximum(n - np.arange(6.0), 0.0))  # n, n(n-1), ...
    shapes = np.array(
        [  # t, c, and for the number of shapes: its factor and the number of vertices
            [0.0, 0.5, 0.5, 2],  # one edge three times
            [0.0, -3.0, 3.0, 3],  # one edge twice, one that touches it
            [0.0, 1.5, 0.75, 4],  # one edge twice, one disjoint
            [1.0, 0.0, 1.0, 3],  # triangle
            [0.0, 2.0, 1.0, 4],  # star
            [-3.0, 3.0, 3.0, 4],  # path
            [3.0, -6.0, 1.5, 5],  # two that touch, one disjoint
            [-1.0, 2.0, 0.125, 6],  # three disjoint
        ]
    )
    count = shapes[:, 2] * falling[shapes[:, 3].astype(np.intp) - 1]
    sums = [shapes[:, :2] @ [float(np.vdot(m @ m, m)), float(np.vdot(m * m, m))] for m in (f, s)]
    return 8.0 * float(np.sum((sums[0] * sums[1])[count > 0] / count[count > 0]))


def gamma_p_value(z: float, skew: float) -> float:
    """Upper tail at z of the shifted gamma distribution of mean 0, variance 1 and this skewness."""
    shape = 4.0 / max(skew, 1e-3) ** 2  # smaller or negative skewness: nearly normal
    return float(gammaincc(shape, max(shape + z * np.sqrt(shape), 0.0)))


def normalised(products: Sequence[Product]) -> float:
    """Normalised statistic of all blocks, weighted by their rows; at most 1.

    It is 0.0 if f does not vary inside blocks, and NaN if S does not.
    """
    fs = sum(p.n * p.fs for p in products)
    ff = sum(p.n * p.ff for p in products)
    ss = sum(p.n * p.ss for p in products)
    if min(ff, ss) <= _ZERO:
        return nan if ss <= _ZERO else 0.0
    return fs / sqrt(ff * ss)


def _spread(products: Sequence[Product]) -> float:
    """Standard deviation of the weighted sum of products over permutations of S inside blocks."""
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
    """Exact test that permutes S inside each stratum: products of the strata, p-value."""
    products = []
    null = np.zeros(1 + n_permutations)  # the first permutation is the identity
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
    """Test by a sum over random blocks of each stratum: products of the blocks, p-value.

    The null distribution is that of permutations of S inside blocks. They are not drawn: a sum of many
    blocks is nearly normal, and a gamma distribution of the same mean, variance and skewness corrects
    for what skewness is left. The skewness is estimated from a few blocks.
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

    ``f`` is U-centred, so ``s`` need not be. ``codes`` are the levels if ``s`` compares levels.
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
    # The matrices are symmetric, so half of one is enough. In single precision rounding changes a sum
    # by 1e-7 of its standard deviation, and gathering is twice as fast.
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


@dataclass(frozen=True, kw_only=True)
class Independence:
    """Result of a test of independence of f and one protected attribute.

    Attributes
    ----------
    statistic_name : "hsic" or "dcor"
    statistic : normalised and unbiased, at most 1, about 0 (of either sign) if independent: the
        bias-corrected squared distance correlation, or the same of kernels (a centred alignment).
        0.0 for a constant f, NaN where the attribute has one level.
    p_value : NaN where there is nothing to test; ``note`` has the reason.
    n_rows : rows used: fewer than given if they have weights, or are in strata that are too small.
    n_blocks : number of strata, or of blocks of them; rows are compared inside each.
    method : "permutation" or "blocks"
    note : rows that were left out, with the reason.
    """

    statistic_name: Statistic
    statistic: float
    p_value: float
    n_rows: int
    n_blocks: int
    method: Literal["permutation", "blocks"]
    note: str = ""


def independence_test(
    f: Array,
    protected: Protected,
    *,
    statistic: Statistic = "hsic",
    given: Codes | None = None,
    weight: Array,
    n_permutations: int = 499,
    max_rows: int = 1000,
    rng: np.random.Generator,
) -> Independence:
    """Test that f is independent of a protected attribute, or is so within strata.

    "hsic" compares kernels: Gaussian ones with the median distance as width, 1[same level] for
    categories. "dcor" compares distances: between numbers, 1[other level] for categories. With
    enough rows both detect any kind of dependence, whether or not it is a correlation.

    Parameters
    ----------
    f : array of shape (n,) or (n, d)
        Scores or a representation; its columns are standardised.
    protected : Protected
        The attribute.
    statistic : "hsic" or "dcor", default="hsic"
        Statistic to compute.
    given : array of shape (n,), default=None
        Strata: rows are compared, and S permuted, inside each (class codes: equalized odds).
    weight : array of shape (n,)
        Rows are kept with probability weight / largest weight: a sample of the weighted population
        that needs no weights.
    n_permutations : int, default=499
        Permutations of S; no p-value is below ``1 / (1 + n_permutations)``.
    max_rows : int, default=1000
        Up to this many rows the test permutes S and its level is exact. More rows are cut at random
        into blocks of at most this many (256 at 100,000 rows, never below 64), so that the cost is
        linear in n (Zaremba, Gretton and Blaschko 2013, "B-tests"). The sum over blocks is compared
        with a gamma distribution of the mean, variance and skewness it has over permutations of S
        inside blocks. No permutation is drawn: mean and variance are exact, and the skewness is
        estimated from some of the blocks. Levels with few rows in a block contribute little.
    rng : numpy Generator

    Returns
    -------
    Independence
    """
    if statistic not in ("hsic", "dcor"):
        raise ValueError(f'statistic must be "hsic" or "dcor", not {statistic!r}')
    notes: list[str] = []
    n = len(weight)
    f = np.asarray(f, dtype=np.float64).reshape(n, -1)
    rows = _thinned(weight, rng)
    if len(rows) < n:
        notes.append(f"{len(rows)} of {n} rows kept, by weight")
    strata, n_small = _strata(rows, given)
    if n_small:
        notes.append(f"{n_small} strata of fewer than {MIN_ROWS} rows left out")
    rows = np.concatenate([*strata, rows[:0]])
    method: Literal["permutation", "blocks"] = "permutation" if len(rows) <= max_rows else "blocks"

    def result(value: float, p: float, n_blocks: int, *more: str) -> Independence:
        note = "; ".join([*more, *notes])
        return Independence(
            statistic_name=statistic,
            statistic=value,
            p_value=p,
            n_rows=len(rows),
            n_blocks=n_blocks,
            method=method,
            note=note,
        )

    if not strata:
        return result(nan, nan, 0, "too few rows")
    z = np.zeros_like(f)
    z[rows] = standardize(f[rows], np.ones(len(rows)))
    s = _attribute_side(protected, rows)
    if np.all(s[rows] == s[rows[0]]):
        return result(nan, nan, 0, f"{protected.name} has one level")
    if not z.any():
        return result(0.0, nan, 0, "the score is constant")
    if method == "permutation":
        products, p = permutation_test(z, s, strata, statistic, n_permutations, rng)
    else:
        products, p = block_test(z, s, strata, statistic, max_rows, rng)
    value = normalised(products)
    constant = (
        ["the score or the attribute hardly varies among rows compared"] if np.isnan(p) else []
    )
    return result(value, p, len(products), *constant)


def _thinned(weight: Array, rng: np.random.Generator) -> Rows:
    """Draw rows with probability weight / largest weight; equal weights keep all rows."""
    share = weight / weight.max()
    if np.all(share == 1.0):
        return np.arange(len(weight))
    return np.flatnonzero(rng.random(len(weight)) < share)


def _strata(rows: Rows, given: Codes | None) -> tuple[list[Rows], int]:
    """Rows of each stratum that has enough of them, and the number of smaller strata."""
    codes = np.zeros(len(rows)) if given is None else given[rows]
    strata = [rows[codes == code] for code in np.unique(codes)]
    large = [stratum for stratum in strata if len(stratum) >= MIN_ROWS]
    return large, len(strata) - len(large)


def _attribute_side(protected: Protected, rows: Rows) -> Array | Codes:
    """Levels of the attribute, or its numbers as a column standardised over the rows used."""
    if protected.values is None:
        return protected.codes
    out = np.zeros((len(protected.values), 1))
    out[rows] = standardize(protected.values[rows, None].astype(np.float64), np.ones(len(rows)))
    return out


def holm(p_values: Array) -> Array:
    """Adjust p-values for their number (Holm's step-down); NaN is no test and stays NaN.

    Reject where the adjusted value is at most alpha: the probability of any wrong rejection is then
    at most alpha, however the tests depend on each other.

    Parameters
    ----------
    p_values : array of shape (n_tests,)

    Returns
    -------
    array of shape (n_tests,)
        In the order given.
    """
    p = np.asarray(p_values, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    out = np.full(p.shape, nan)
    out[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return out
