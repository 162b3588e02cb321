"""Weighted sums by group, in the data and in bootstrap resamples.

This is the engine of metrics and audits. Every correlation, rate and gap is a function of weighted
sums over the joint cells of some factors: protected attributes, classes, decisions, strata. Each column
is summed once per cell; all statistics are then computed from the sums of the cells.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fairspan.method.linalg import Array
from fairspan.method.problem import Codes

Levels: TypeAlias = NDArray[np.integer[Any]]  # codes of any integer type
# Names of factors other than the protected attributes: the class of y, the decision, the stratum of
# the control features, the bin of the probability, and one level for all rows. Users name the
# attributes; the leading null character keeps these names apart from theirs.
TARGET, DECIDED, STRATA, BIN, ALL = "\0y", "\0decided", "\0strata", "\0bin", "\0all"
# Bootstrap counts held at once: 64 MiB.
_BATCH_NUMBERS = 8 * 2**20


@dataclass(frozen=True, kw_only=True)
class GroupSums:
    """Weighted sums over joint cells: of the data in column 0, of the resamples in columns 1 to B."""

    factors: dict[str, Codes]  # factor name -> level of each of the K cells
    rows: Codes | Array  # (K,) number of rows; expected ones where groups are probabilities
    squares: Array  # (K,) sum of squared weights
    # Column name -> (K, 1 + B) weighted sums; the column "" holds the sums of the weights.
    columns: dict[str, Array]
    # (K, clusters) weight of each cluster in each cell; None if rows are independent.
    cluster_weight: scipy.sparse.csr_array | None = None

    def over(self, *names: str, columns: Iterable[str] | None = None) -> GroupSums:
        """Sum over all factors but those named; names that are no factor are ignored.

        ``columns`` are those to keep besides the weights; all by default.
        """
        names = tuple(name for name in names if name in self.factors)
        levels, cell = combinations([self.factors[name] for name in names])
        onto = membership(cell, len(levels))
        names_summed = self.columns if columns is None else ("", *columns)
        return GroupSums(
            factors={name: levels[:, j] for j, name in enumerate(names)},
            rows=(onto @ self.rows).astype(self.rows.dtype),
            squares=onto @ self.squares,
            columns={name: onto @ self.columns[name] for name in names_summed},
            cluster_weight=None if self.cluster_weight is None else onto @ self.cluster_weight,
        )

    def where(self, mask: NDArray[np.bool_]) -> GroupSums:
        """Keep the cells of a mask."""
        return GroupSums(
            factors={name: codes[mask] for name, codes in self.factors.items()},
            rows=self.rows[mask],
            squares=self.squares[mask],
            columns={name: values[mask] for name, values in self.columns.items()},
            cluster_weight=None if self.cluster_weight is None else self.cluster_weight[mask],
        )

    def by(self, name: str, n_levels: int, column: str = "") -> Array:
        """Sums of a column for each level of a factor, (n_levels, 1 + B)."""
        return np.asarray(membership(self.factors[name], n_levels) @ self.columns[column])

    def count(self, name: str, n_levels: int) -> Codes:
        """Number of rows of each level."""
        rows = np.bincount(self.factors[name], self.rows, minlength=n_levels)
        return np.rint(rows).astype(np.intp)

    def effective(self, name: str, n_levels: int) -> Array:
        """Kish's effective number of rows of each level, ``(sum w)^2 / sum w^2``.

        With clusters it is that of clusters, as if all rows of a cluster were copies of one row.
        """
        codes = self.factors[name]
        mass = np.bincount(codes, self.columns[""][:, 0], minlength=n_levels)
        if self.cluster_weight is None:
            squares = np.bincount(codes, self.squares, minlength=n_levels)
        else:
            by_level = membership(codes, n_levels) @ self.cluster_weight
            squares = np.asarray((by_level**2).sum(axis=1), dtype=np.float64)
        return np.divide(mass**2, squares, out=np.zeros(n_levels), where=squares > 0.0)


def membership(codes: Codes, n_levels: int, weight: Array | None = None) -> scipy.sparse.csr_array:
    """Sparse indicators of the levels, (n_levels, n): its product with a column sums it by level."""
    weight = np.ones(len(codes)) if weight is None else weight
    where = (codes, np.arange(len(codes)))
    return scipy.sparse.csr_array((weight, where), shape=(n_levels, len(codes)))


def count_cells(factors: Mapping[str, Codes]) -> int:
    """Number of combinations of all factors that occur."""
    return len(combinations(list(factors.values()))[0])


def combinations(factors: Sequence[Levels]) -> tuple[Codes, Codes]:
    """Sorted combinations of levels that occur, (K, factors), and the combination of each row."""
    sizes = tuple(int(codes.max(initial=0)) + 1 for codes in factors)
    n_possible = np.prod(np.array(sizes, dtype=float))
    if n_possible >= 2.0**62:  # too many for one integer each
        levels, cell = np.unique(np.stack(factors, axis=1), axis=0, return_inverse=True)
        return levels.astype(np.intp), cell.ravel()
    keys = np.ravel_multi_index(tuple(factors), sizes)
    if n_possible <= len(keys):  # counting is faster than sorting
        occurs = np.bincount(keys, minlength=int(n_possible)) > 0
        seen = np.flatnonzero(occurs)
        cell = keys if len(seen) == n_possible else (np.cumsum(occurs) - 1)[keys]
    else:
        seen, cell = np.unique(keys, return_inverse=True)
    return np.stack(np.unravel_index(seen, sizes), axis=1).astype(np.intp), cell.ravel()


def clusters_of(labels: Iterable[Hashable]) -> Codes:
    """Number the clusters 0, 1, ... in the order of their first row, so that names do not matter."""
    seen: dict[Hashable, int] = {}
    codes = [seen.setdefault(label, len(seen)) for label in labels]
    return np.array(codes, dtype=np.intp)


def renumbered(clusters: Codes | None, rows: Any) -> Codes | None:
    """Clusters of some of the rows, numbered as in :func:`clusters_of`."""
    return None if clusters is None else clusters_of(clusters[rows].tolist())


def unit_of(clusters: Codes | None) -> str:
    """What is drawn independently of each other."""
    return "rows" if clusters is None else "clusters"


def count_clusters(levels: Codes, n_levels: int, clusters: Codes | None) -> Codes:
    """Number of clusters with a row of each level; without clusters, the number of rows."""
    if clusters is not None:
        levels = combinations([levels, clusters])[0][:, 0]
    return np.bincount(levels, minlength=n_levels)


def strata_of_clusters(strata: Codes, clusters: Codes) -> Codes:
    """Stratum of each cluster: of several, the one that occurs in the fewest clusters."""
    frequency = count_clusters(strata, 0, clusters)
    order = np.lexsort((np.arange(len(frequency)), frequency))
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    rarest = np.full(int(clusters.max()) + 1, len(order), dtype=np.intp)
    np.minimum.at(rarest, clusters, rank[strata])
    return np.asarray(order[rarest], dtype=np.intp)


def bootstrap_counts(
    n: int,
    n_boot: int,
    rng: np.random.Generator,
    strata: Codes | None = None,
    clusters: Codes | None = None,
) -> Array:
    """How often each of n rows is drawn in each of the resamples, (n, n_boot).

    Every resample has n rows, drawn with replacement; with ``strata``, within each stratum. With
    ``clusters``, numbered as in :func:`clusters_of`, whole clusters are drawn instead of rows.
    """
    if clusters is not None:
        n_clusters = int(clusters.max()) + 1
        by_cluster = None if strata is None else strata_of_clusters(strata, clusters)
        return bootstrap_counts(n_clusters, n_boot, rng, by_cluster)[clusters]
    counts = np.empty((n, n_boot))
    if strata is None:
        for b in range(n_boot):
            counts[:, b] = np.bincount(rng.integers(0, n, n), minlength=n)
        return counts
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        counts[rows] = bootstrap_counts(len(rows), n_boot, rng)
    return counts


def group_sums(
    factors: Mapping[str, Levels],
    columns: Mapping[str, Array],
    weight: Array,
    counts: Iterable[Array] = (),
    clusters: Codes | None = None,
) -> GroupSums:
    """Sum every column over the joint cells of the factors.

    Parameters
    ----------
    factors : factor name -> (n,) level of each row.
    columns : column name -> (n,) numbers.
    weight : (n,)
    counts : resamples to sum over as well, in batches (n, b) as of :func:`bootstrap_counts`.
    clusters : (n,) cluster of each row, for effective numbers; None if rows are independent.
    """
    levels, cell = combinations(list(factors.values()))
    n_cells = len(levels)
    weighted = {"": weight, **{name: weight * column for name, column in columns.items()}}
    sums = {
        name: [np.bincount(cell, v, minlength=n_cells)[:, None]] for name, v in weighted.items()
    }
    onto: scipy.sparse.csr_array | None = None  # slow to build, and of no use without resamples
    for batch in counts:
        onto = membership(cell, n_cells) if onto is None else onto
        for name, values in weighted.items():
            scaled = (values[onto.indices], onto.indices, onto.indptr)
            sums[name].append(scipy.sparse.csr_array(scaled, shape=onto.shape) @ batch)
    return GroupSums(
        factors={name: levels[:, j] for j, name in enumerate(factors)},
        rows=np.bincount(cell, minlength=n_cells),
        squares=np.bincount(cell, weight**2, minlength=n_cells).astype(np.float64),
        columns={name: np.concatenate(sums.pop(name), axis=1) for name in weighted},
        cluster_weight=None
        if clusters is None
        else scipy.sparse.csr_array(
            (weight, (cell, clusters)), shape=(n_cells, clusters.max() + 1)
        ),
    )


def resample(
    factors: Mapping[str, Codes],
    columns: Mapping[str, Array],
    weight: Array,
    n_boot: int,
    rng: np.random.Generator,
    clusters: Codes | None = None,
) -> GroupSums:
    """Sum every column over the joint cells, in the rows and in bootstrap resamples of them.

    Parameters
    ----------
    factors, columns, weight, clusters
        As in :func:`group_sums`.
    n_boot : number of resamples, each of n rows drawn with replacement, or of whole clusters.
    rng : their source; they are drawn one after the other, in batches of 64 MiB.
    """
    counts = count_batches(len(weight), n_boot, rng, clusters)
    return group_sums(factors, columns, weight, counts, clusters)


def count_batches(
    n: int, n_boot: int, rng: np.random.Generator, clusters: Codes | None = None
) -> Iterator[Array]:
    """Yield the resamples of :func:`resample`, in batches (n, b) of :func:`bootstrap_counts`."""
    batch = max(1, _BATCH_NUMBERS // n)
    for start in range(0, n_boot, batch):
        yield bootstrap_counts(n, min(batch, n_boot - start), rng, clusters=clusters)


def standardize(columns: Array, weight: Array) -> Array:
    """Scale columns to weighted mean 0 and variance 1; columns constant to rounding become 0."""
    low, high = columns.min(axis=0), columns.max(axis=0)
    half = high / 2 - low / 2  # halved: the range itself may overflow
    constant = half <= 1e-12 * np.maximum(np.abs(low), np.abs(high))
    share = weight / weight.sum()
    scaled = (columns / 2 - low / 2) / np.where(constant, 1.0, half)
    centred = scaled - share @ scaled
    norm = np.sqrt(share @ centred**2)
    return np.asarray(np.where(constant, 0.0, centred) / np.where(constant, 1.0, norm))


def correlation_noise(n_test: float, n_train: float) -> float:
    """Rough size of a held-out correlation that is truly 0, ``1/sqrt(n_test) + 1/sqrt(n_train)``.

    Parameters
    ----------
    n_test, n_train : float
        Numbers of rows, or Kish sizes ``(sum w)^2 / sum w^2`` of weighted ones.

    Returns
    -------
    float
        Standard of comparison to print next to a correlation.
    """
    sizes: tuple[Any, Any] = n_test, n_train
    if not all(isinstance(n, int | float | np.number) and n > 0 for n in sizes):
        raise ValueError(f"n_test and n_train must be positive, got {n_test!r} and {n_train!r}")
    return 1.0 / sqrt(n_test) + 1.0 / sqrt(n_train)


def largest_ks(
    score: Array, codes: Codes, weight: Array, large: NDArray[np.bool_]
) -> tuple[float, tuple[int, ...]]:
    """Largest Kolmogorov distance between two groups, and the two groups.

    At every score the largest difference between two groups is the range of all groups' shares below
    it, so pairs need not be tried. ``large`` are the groups compared; NaN if they are fewer than two.
    """
    levels = np.flatnonzero(large)
    if len(levels) < 2:
        return float("nan"), ()
    order = np.argsort(score, kind="stable")
    score, codes, weight = score[order], codes[order], weight[order]
    last = np.append(np.flatnonzero(np.diff(score)), len(score) - 1)
    below = np.stack([np.cumsum(np.where(codes == h, weight, 0.0))[last] for h in levels])
    below /= below[:, -1:]
    spread = below.max(axis=0) - below.min(axis=0)
    at = int(np.argmax(spread))
    high, low = int(np.argmax(below[:, at])), int(np.argmin(below[:, at]))
    if high == low:  # all groups have the same distribution
        high, low = 0, 1
    pair = tuple(int(levels[h]) for h in sorted((high, low)))
    return float(spread[at]), pair


def level_sums(f: Array, codes: Codes, share: Array) -> tuple[Array, Array]:
    """Weight of each level that occurs, and weighted sums of the columns of f, (n_outputs, levels)."""
    columns = {str(j): column for j, column in enumerate(f.T)}
    sums = group_sums({ALL: codes}, columns, share).columns
    return sums[""][:, 0], np.stack([sums[name][:, 0] for name in columns])
