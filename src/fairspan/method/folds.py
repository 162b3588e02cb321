"""Hashes of the content of rows, and folds: which rows are left out together in cross-fitting.

``fit`` deals rows by their keys, so that neither their order nor the names of groups matter. Blocks of a
stream are dealt in turn, by position or by hash, so that no second pass is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan.method.linalg import Array, is_tensor, mix, row_numbers, to_home, to_numpy
from fairspan.method.sparse_rows import is_sparse

__all__ = [
    "Counter",
    "FoldCounter",
    "GivenFolds",
    "HashFolds",
    "KeyFolds",
    "PositionFolds",
    "RowKeys",
    "centre_within",
    "check_block_groups",
    "check_groups",
    "hash_ranks",
    "hash_rows",
    "move_to",
]

Codes = NDArray[np.intp]
Integers = NDArray[np.int64]

# More attributes than MAX_CROSSED are not crossed but hashed into MAX_STRATA strata.
MAX_CROSSED, MAX_STRATA = 6, 4096
# Numbers of X that are hashed at a time.
_HASHED_NUMBERS = 2**17


def hash_rows(X: Any, y: Array | Codes | None, seed: int, *, ordered: bool = True) -> Integers:
    """Hash the numbers of each row of X and y, without S: groups may be renamed.

    Equal rows have equal hashes. With ``ordered=False`` the order of the columns does not matter, as for
    a matrix of kernels between rows.
    """
    X = to_numpy(X)
    out = np.empty(len(X), dtype=np.int64)
    factors = mix(np.arange(X.shape[1], dtype=np.int64), 1) | 1
    step = max(1, _HASHED_NUMBERS // max(1, X.shape[1]))
    if is_sparse(X):  # the bits of 0.0 are 0, so zeros add nothing
        assert ordered
        bits = _bits(X.values)
        out = X.products(bits ^ (bits >> 32), factors)
    for start in range(0, 0 if is_sparse(X) else len(X), step):
        rows = slice(start, start + step)
        bits = _bits(X[rows])
        # Small whole numbers differ in their upper bits only, which a product would lose.
        parts = (bits ^ (bits >> 32)) * factors if ordered else mix(bits)
        out[rows] = parts.sum(axis=1)
    if y is not None:
        out += mix(_bits(to_numpy(y)), 2)
    return mix(out, seed)  # type: ignore[no-any-return]


def hash_ranks(X: Array, y: Array | None, seed: int, *, ordered: bool = True) -> Integers:
    """Hash the rank of each number of X and y within its column, so that units do not matter.

    A rank counts the smaller numbers in the column. So it does not depend on the order of rows, and a
    number that rounding makes equal to another one changes no other rank. Columns of X are used in their
    order, up to one at which all rows differ: sorting a thousand columns would take longer than a fit.
    """
    X = to_numpy(X)
    out = np.zeros(len(X), dtype=np.int64)
    if y is not None:
        out += mix(_ranks(to_numpy(y)), 2)
    factors = mix(np.arange(X.shape[1], dtype=np.int64), 1) | 1
    if is_sparse(X):
        assert ordered
        return mix(_sparse_ranks(X, out, factors), seed)  # type: ignore[no-any-return]
    for j, column in enumerate(X.T):
        # A matrix of kernels has all its columns counted alike.
        if ordered and _all_differ(out, j):
            break
        out += _ranks(column) * factors[j] if ordered else mix(_ranks(column))
    return mix(out, seed)  # type: ignore[no-any-return]


def _all_differ(hashes: Integers, j: int) -> bool:
    """Whether the first j columns tell all rows apart; looks after 1, 2, 4, ... columns only."""
    return j & (j - 1) == 0 and len(np.unique(hashes)) == len(hashes)


def _sparse_ranks(X: Any, out: Integers, factors: Integers) -> Integers:
    """Add the ranks of the columns of sparse rows to ``out``, as :func:`hash_ranks` does.

    Zeros are above the negative numbers of their column and below the positive ones.
    """
    by_column = X.by_column()
    for j, (start, stop) in enumerate(zip(by_column.indptr, by_column.indptr[1:], strict=False)):
        if _all_differ(out, j):
            break
        rows, values = by_column.indices[start:stop], by_column.data[start:stop]
        if len(values) == 0:
            continue
        negative = values < 0.0
        below_zero = np.array([negative.sum()], dtype=np.int64)
        ranks = _ranks(values) + np.where(negative, 0, len(X) - len(values))
        factor = factors[j : j + 1]
        if below_zero[0]:
            out += below_zero * factor
        out[rows] += (ranks - below_zero) * factor
    return out


def _ranks(column: NDArray[Any]) -> Integers:
    _, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - counts)[inverse]


def _bits(numbers: NDArray[Any]) -> Integers:
    """Bits of float64 numbers; -0.0 counts as 0.0."""
    return np.ascontiguousarray(numbers + 0.0, dtype=np.float64).view(np.int64)


@dataclass(frozen=True, kw_only=True)
class RowKeys:
    """Rows by their keys: an order that depends on their content, not on how they are stored.

    Rows of one key differ in S or weight at most, or are copies. Strata are ordered by the sum of their
    keys, so the names of groups do not matter.
    """

    keys: Integers
    stratum: Codes  # number of each row's stratum, in their order
    ties: tuple[NDArray[Any], ...]  # order rows of one key and stratum, last one first
    clusters: Integers | None = None  # rows of one number belong together

    @classmethod
    def of(
        cls,
        keys: Integers,
        strata: Codes,
        ties: tuple[NDArray[Any], ...],
        clusters: Integers | None = None,
    ) -> RowKeys:
        """Order the strata, given as combinations of codes, (n, k)."""
        _, inverse = np.unique(_stratum_numbers(strata), return_inverse=True)
        return cls(
            keys=keys, stratum=_rank(_sums(keys, inverse))[inverse], ties=ties, clusters=clusters
        )

    @classmethod
    def of_clusters(cls, clusters: Integers) -> RowKeys:
        """Keys of clusters alone, which :class:`HashFolds` needs: those of rows cost a pass over X."""
        none = np.zeros(len(clusters), dtype=np.intp)
        return cls(keys=clusters, stratum=none, ties=(), clusters=clusters)

    @cached_property
    def _order(self) -> Codes:
        """Rows by key; those of one key are side by side."""
        return np.lexsort((*self.ties, self.stratum, self.keys))

    def folds(self, n_folds: int, first: int = 0) -> Codes:
        """Deal the rows of each stratum in turn, beginning with the fold ``first``.

        The turn runs on from stratum to stratum, so all folds have the same number of rows, up to one.
        Copies of a row get different folds. Rows of one cluster share a fold: clusters are dealt instead
        of rows, by the stratum that most of their rows are in and then by size.
        """
        if self.clusters is None:
            order = np.lexsort((*self.ties, self.keys, self.stratum))
            out = np.empty(len(order), dtype=np.intp)
            out[order] = (first + np.arange(len(order))) % n_folds
            return out
        _, cluster, sizes = np.unique(self.clusters, return_inverse=True, return_counts=True)
        pairs, counts = np.unique(
            np.stack([cluster, self.stratum], axis=1), axis=0, return_counts=True
        )
        main = np.empty(len(sizes), dtype=np.intp)
        by_count = np.lexsort((-pairs[:, 1], counts))  # the last entry of a cluster stays
        main[pairs[by_count, 0]] = pairs[by_count, 1]
        keys = _sums(mix(self.keys ^ mix(self.stratum)), cluster)  # classes are in strata alone
        order = np.lexsort((keys, -sizes, main))
        fold = np.empty(len(sizes), dtype=np.intp)
        fold[order] = (first + np.arange(len(order))) % n_folds
        return fold[cluster]

    def shuffled(self, salt: int) -> Codes:
        """All rows in a random order that depends on their content; its first rows are a sample."""
        order = self._order
        keys = self.keys[order]
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        copy = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
        return order[np.argsort(mix(keys ^ mix(copy), salt), kind="stable")]


def _sums(keys: Integers, groups: Codes) -> Integers:
    """Sum of the keys of each group, modulo 2^64."""
    out = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(out, groups, keys)
    return out


def _rank(values: Integers) -> Codes:
    out = np.empty(len(values), dtype=np.intp)
    out[np.argsort(values)] = np.arange(len(values))
    return out


def _stratum_numbers(strata: Codes) -> Integers:
    """Number the combination of codes in each row; more than ``MAX_CROSSED`` codes are hashed.

    Crossing many attributes would give strata of one row.
    """
    if strata.shape[1] <= MAX_CROSSED:
        return _single_key(strata)
    odd = 2 * np.arange(1, strata.shape[1] + 1) ** 2 + 1
    return np.asarray((strata + 1) @ odd % MAX_STRATA, dtype=np.int64)


def _single_key(codes: Codes) -> Integers:
    """Return one integer per row, equal for equal combinations of codes; -1 counts as a level."""
    key = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        size = int(column.max(initial=-1)) + 2
        if int(key.max(initial=0)) >= 2**62 // size:  # avoid overflow: renumber the combinations
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
        key = key * size + column + 1
    return key


class KeyFolds:
    """Folds of ``fit``: rows are dealt by their keys, balanced within strata (see :class:`RowKeys`).

    The rows of a later block are dealt among themselves.
    """

    def __init__(self, n_folds: int) -> None:
        self.n_folds = n_folds
        self.position = 0  # number of rows so far

    def copy(self) -> KeyFolds:
        """Return an independent copy."""
        out = type(self)(self.n_folds)
        out.position = self.position
        return out

    def assign(
        self,
        strata: Codes,
        index: Codes | None = None,  # noqa: ARG002
        given: int | None = None,
        keys: Callable[[], RowKeys] | None = None,
    ) -> Codes:
        """Return the fold of each row, and count the rows; see :meth:`PositionFolds.assign`.

        ``keys`` returns the keys of the rows.
        """
        first = self.position % self.n_folds
        self.position += len(strata) if given is None else given
        if self.n_folds == 1 or len(strata) == 0:
            return row_numbers(strata) * 0  # type: ignore[no-any-return]
        assert keys is not None
        folds = self._deal(keys(), first)
        return to_home(folds, strata.device) if is_tensor(strata) else folds

    def _deal(self, rows: RowKeys, first: int) -> Codes:
        return rows.folds(self.n_folds, first)


class HashFolds(KeyFolds):
    """Folds by the key of a row, or of its cluster, modulo K.

    They do not depend on the order of rows, blocks, files or workers. Copies of a row share a fold.
    """

    def _deal(self, rows: RowKeys, first: int) -> Codes:  # noqa: ARG002
        keys = rows.keys if rows.clusters is None else mix(rows.clusters, 3)
        return np.asarray(mix(keys, 4) % self.n_folds, dtype=np.intp)


class GivenFolds(KeyFolds):
    """Folds of rows in memory that were dealt before."""

    def __init__(self, n_folds: int, folds: Codes) -> None:
        super().__init__(n_folds)
        self._given = folds

    def _deal(self, rows: RowKeys, first: int) -> Codes:  # noqa: ARG002
        return self._given


class FoldCounter:
    """Folds that are balanced within strata (the target crossed with the levels of S).

    Strata are numbered in the order in which they occur. The i-th row of stratum s gets the fold
    ``(offset + s + i) mod K``. The counts continue across blocks, so several blocks get the folds of one
    batch. The shift by s keeps small strata from all starting in the same fold, and does not depend on
    the names of levels.
    """

    def __init__(self, n_folds: int, offset: int) -> None:
        self.n_folds = n_folds
        self.offset = offset
        self.position = 0  # number of rows so far
        self.counts: dict[str, int] = {}  # rows so far, by stratum
        self.ranks: dict[str, int] = {}  # number s of each stratum

    def copy(self) -> FoldCounter:
        """Return an independent copy."""
        out = FoldCounter(self.n_folds, self.offset)
        out.position, out.counts, out.ranks = self.position, dict(self.counts), dict(self.ranks)
        return out

    def assign(
        self,
        strata: Codes,
        index: Codes | None = None,  # noqa: ARG002
        given: int | None = None,
        keys: Callable[[], RowKeys] | None = None,  # noqa: ARG002
    ) -> Codes:
        """Return the fold of each row, and count the rows; see :meth:`PositionFolds.assign`."""
        self.position += len(strata) if given is None else given
        if self.n_folds == 1:
            return row_numbers(strata) * 0  # type: ignore[no-any-return]
        if is_tensor(strata):  # streams of tensors use PositionFolds, which needs no copy
            folds = self._balanced_folds(to_numpy(strata))
            return to_home(folds, strata.device)  # type: ignore[no-any-return]
        return self._balanced_folds(strata)

    def _balanced_folds(self, strata: Codes) -> Codes:
        if strata.shape[1] > MAX_CROSSED:
            strata = _stratum_numbers(strata)[:, None]
        _, first, inverse, sizes = np.unique(
            _single_key(strata), return_index=True, return_inverse=True, return_counts=True
        )
        keys = [",".join(map(str, row)) for row in strata[first].tolist()]
        start = np.empty(len(keys), dtype=np.intp)
        for s in np.argsort(first):
            rank = self.ranks.setdefault(keys[s], len(self.ranks))
            seen = self.counts.get(keys[s], 0)
            start[s] = self.offset + rank + seen
            self.counts[keys[s]] = seen + int(sizes[s])
        order = np.argsort(inverse, kind="stable")
        position = np.empty(len(strata), dtype=np.intp)
        position[order] = np.arange(len(strata)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return (start[inverse] + position) % self.n_folds


class PositionFolds:
    """Folds by the index of a row in all the data, for streams.

    The folds do not depend on the division into blocks, files or workers, if the start of each block is
    known. Of every K consecutive rows (from a multiple of K) each fold gets one, so rows sorted by group
    are balanced within groups. A hash rotates the folds, so periodic data are balanced too.
    """

    def __init__(self, n_folds: int, offset: int, position: int = 0) -> None:
        self.n_folds = n_folds
        self.offset = offset
        self.position = position

    def copy(self) -> PositionFolds:
        """Return an independent copy."""
        return PositionFolds(self.n_folds, self.offset, self.position)

    def assign(
        self,
        strata: Codes,
        index: Codes | None = None,
        given: int | None = None,
        keys: Callable[[], RowKeys] | None = None,  # noqa: ARG002
    ) -> Codes:
        """Return the fold of each row, and advance the position.

        Parameters
        ----------
        strata : (n, k) integers
            Codes of the strata, -1 where missing; here only their number is used.
        index : (n,) integers, optional
            Indices of the rows in the user's block, if some of its rows were dropped.
        given : int, optional
            Number of rows of the user's block, if some were dropped.
        keys : callable, optional
            Returns the keys of the rows, which only :class:`KeyFolds` needs.
        """
        positions = self.position + (row_numbers(strata) if index is None else index)
        self.position += len(strata) if given is None else given
        return self.folds(positions)  # type: ignore[no-any-return]

    def folds(self, positions: Any) -> Any:
        """Return the folds of the rows at these positions, a numpy or torch vector of 64-bit integers."""
        K = self.n_folds
        rotation = mix(positions // K) % K
        return (positions + rotation + self.offset) % K


Counter = FoldCounter | PositionFolds | KeyFolds


def centre_within(values: Array, folds: Codes, weight: Array) -> Array:
    """Subtract the weighted mean of every fold from the rows of the fold."""
    out = values.copy()
    for fold in np.unique(folds):
        rows = folds == fold
        out[rows] -= weight[rows] @ values[rows] / weight[rows].sum()
    return out


def check_groups(clusters: Integers | None, rule: str) -> None:
    """Refuse groups of rows under a rule that would divide them between folds."""
    if clusters is not None and rule not in ("keys", "hash"):
        msg = (
            f"groups was given, but folds={rule!r} would divide a group. Use `fit`, or call "
            f"`prepare(..., folds='hash')` before partial_fit."
        )
        raise ValueError(msg)


def check_block_groups(clusters: Integers | None, rule: str, *, clustered: bool) -> None:
    """Refuse a later block whose groups would be divided, or that has groups where others have none."""
    if rule == "keys" and (clustered or clusters is not None):
        msg = (
            "`fit` deals its own rows into folds, so a group with rows in a later block would be divided. "
            "Call `prepare(..., groups=..., folds='hash')` and then partial_fit with all rows."
        )
        raise ValueError(msg)
    check_groups(clusters, rule)
    if clustered and clusters is None:
        msg = "The estimator was prepared with groups, so every block of rows needs groups."
        raise ValueError(msg)
    if clusters is not None and not clustered:
        msg = (
            "groups was given, but the estimator was prepared without: a row and its group would have "
            "different folds. Give groups to `prepare` too, or leave them out."
        )
        raise ValueError(msg)


def move_to(counter: Counter, start: Any) -> None:
    """Set the position of the next row among all rows."""
    is_integer = isinstance(start, int | np.integer) and not isinstance(start, bool)
    if not is_integer or start < 0:
        msg = f"start={start!r} is not allowed; give the position of the first row, 0 or more."
        raise ValueError(msg)
    # Folds by a hash do not depend on the position; it only tells which row is the first of all.
    if not isinstance(counter, PositionFolds | HashFolds):
        msg = (
            "start needs folds that are assigned by position or by a hash: call `prepare(..., "
            "folds='position')` before partial_fit, or leave start out."
        )
        raise ValueError(msg)
    counter.position = int(start)
