"""A keyed sketch of the training rows: an audit can recognise them, but they cannot be rebuilt from it.

Hash. The p features of a row are rounded to float32 (so that float32 copies and recomputed features
agree) and read as p words of 32 bits. The sum ``(b + sum a_j x_j) mod 2^64`` has random a and b, drawn
from a key of the fit. Two different rows have the same sum with a probability of at most 2^-33. On a
grid many pairs of rows have sums with the same difference and would agree together, so SplitMix64
scatters the sums. The first 32 bits are the hash. They are treated as independent and uniform.

Sample. The sketch keeps the distinct hashes whose first ``level`` bits are zero, with the number of rows
that have each. The level grows until there are at most ``SIZE``. An audited row is looked up only if its
hash passes the same test. So every row that is looked up either is a training row and matches, or is
not and matches only by chance. Sketches of two sets of rows merge exactly, in any order.

Estimate. Of n rows looked up, a share r matches in the next ``BITS`` bits. With M different stored
prefixes, a new row matches by chance with probability ``q = M / 2^BITS`` (6 % at most, if all bits are
stored). So ``(r - q)/(1 - q)`` estimates the share of rows whose X equals that of a training row.

Copies. In discrete data a new person can have the X of a training row. The probability is one minus the
mass of unseen values. Good and Turing's estimate of it is c, the share of training rows that have a copy
among the others. If a share s of the audited rows are training rows, ``s + (1 - s) c`` of them match,
which gives s.

Test. If no audited row is a training row, and the probability of copies is at most 2c with c at its
upper confidence limit, the number of matches is binomial with probability ``2c + (1 - 2c) q``. Copies of
a row among the audited rows match together, so n is replaced by Kish's effective number of distinct
rows. A share is returned only if this hypothesis is rejected at the level ``_ALPHA`` and the share is at
least ``_SMALLEST``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from fairspan.method.linalg import is_tensor, mix, to_numpy
from fairspan.method.sparse_rows import is_sparse

SIZE = 4096  # largest number of distinct rows in a sketch
BITS = 16  # number of bits after the level that are compared, and stored in a file
_HASH_BITS = 32
_MIX_SHIFT = 63 - _HASH_BITS  # `mix` gives 63 bits
_ALPHA = 1e-3
_SMALLEST = 0.01
_COPIES_LEVEL = 0.975  # level of the upper confidence limit of the share of copies
_BLOCK_VALUES = 2**20  # number of values of X that are hashed at once

Hashes = NDArray[np.uint32]
Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSketch:
    """Hashes of a sample of rows, and the number of rows that have each; see the module."""

    key: str  # key of the hash
    level: int  # number of leading bits that are zero in every hash
    known: int  # number of leading bits that are stored; the others are set to zero
    hashes: Hashes  # distinct hashes, sorted
    counts: Counts  # number of rows that have each hash
    rows: int = -1  # number of rows that were added; -1 in files of earlier versions

    @classmethod
    def empty(cls, key: str) -> RowSketch:
        """Return the sketch of no rows."""
        hashes, counts = np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=np.int64)
        return cls(key=key, level=0, known=_HASH_BITS, hashes=hashes, counts=counts, rows=0)

    @classmethod
    def checked(cls, key: str, level: Any, known: Any, hashes: Any, counts: Any) -> RowSketch:
        """Build a sketch from the contents of a file; raise ValueError if they are not valid."""
        bits = all(type(n) is int and 0 <= n <= _HASH_BITS for n in (level, known))
        vectors = all(isinstance(a, np.ndarray) and a.ndim == 1 for a in (hashes, counts))
        if not (bits and vectors and level <= known and len(hashes) == len(counts) <= SIZE):
            raise ValueError("its sketch of rows has parts that do not belong together")
        if hashes.dtype != np.uint32 or counts.dtype != np.int64 or (counts < 1).any():
            raise ValueError("its sketch of rows holds other numbers than hashes and counts")
        return cls(key=key, level=level, known=known, hashes=hashes, counts=counts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowSketch) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in vars(self)
        )

    __hash__ = None  # type: ignore[assignment]

    def add(self, X: Any) -> RowSketch:
        """Return the sketch with the rows of an array or tensor X (n, p) added."""
        out = self
        for block in _hash_blocks(X, self.key):
            hashes, counts = np.unique(_sampled(block, out.level), return_counts=True)
            added = replace(
                out,
                known=_HASH_BITS,
                hashes=hashes,
                counts=counts.astype(np.int64),
                rows=len(block),
            )
            out = out + added
        return out

    def __add__(self, other: RowSketch) -> RowSketch:
        """Merge the sketches of two sets of rows, which have the same key."""
        level, known = max(self.level, other.level), min(self.known, other.known)
        both = np.concatenate([self.hashes, other.hashes])
        hashes, inverse = np.unique(_leading(both, known), return_inverse=True)
        counts = np.zeros(len(hashes), dtype=np.int64)
        np.add.at(counts, inverse.ravel(), np.concatenate([self.counts, other.counts]))
        passing = _passes(hashes, level)
        while passing.sum() > SIZE:
            level += 1
            passing = _passes(hashes, level)
        return replace(
            self,
            level=level,
            known=known,
            hashes=hashes[passing],
            counts=counts[passing],
            rows=-1 if min(self.rows, other.rows) < 0 else self.rows + other.rows,
        )

    def __sub__(self, other: RowSketch) -> RowSketch:
        """Return the sketch without the rows of ``other``, which has the same key.

        Raises
        ------
        ValueError
            If rows of ``other`` are not in this sketch. Of large data a sample of the rows is known.
        """
        level, known = max(self.level, other.level), min(self.known, other.known)
        hashes, counts = self._shared(level, known)
        theirs, n_theirs = other._shared(level, known)
        place = np.searchsorted(hashes, theirs)
        inside = place < len(hashes)
        inside[inside] = hashes[place[inside]] == theirs[inside]
        absent = int(n_theirs[~inside].sum())
        counts[place[inside]] -= n_theirs[inside]
        absent -= int(np.minimum(counts, 0).sum())
        if absent:
            msg = (
                f"{absent} of the {int(n_theirs.sum())} rows to forget that can be looked up were not part "
                f"of the fit: their X is not among the fitted rows, or more often than there. Give the rows "
                f"as they were fitted."
            )
            raise ValueError(msg)
        left = counts > 0
        return replace(
            self,
            level=level,
            known=known,
            hashes=hashes[left],
            counts=counts[left],
            rows=self.rows - other.rows,
        )

    def _shared(self, level: int, known: int) -> tuple[Hashes, Counts]:
        """Distinct hashes that pass a level, with ``known`` leading bits, and their counts."""
        hashes, inverse = np.unique(_leading(self.hashes, known), return_inverse=True)
        counts = np.zeros(len(hashes), dtype=np.int64)
        np.add.at(counts, inverse.ravel(), self.counts)
        passing = _passes(hashes, level)
        return hashes[passing], counts[passing]

    def shortened(self) -> RowSketch:
        """Return the sketch with only ``BITS`` bits of each hash after the level, as stored in files."""
        known = min(self.known, self.level + BITS)
        return replace(self, known=known, hashes=_leading(self.hashes, known))

    def share_of(self, X: Any) -> float | None:
        """Estimate the share of the rows of X that are training rows.

        None if copies and chance can explain the matches, see the module.
        """
        hashes = _hash_rows(X, self.key, self.level)
        bits = min(BITS, self.known - self.level)
        stored = np.unique(_leading(self.hashes, self.level + bits))
        q = len(stored) / 2.0**bits
        n_rows, n_copied = int(self.counts.sum()), int(self.counts[self.counts > 1].sum())
        if len(hashes) == 0 or q >= 1.0 or n_rows == n_copied:
            return None
        distinct, n_each = np.unique(hashes, return_counts=True)
        match = np.isin(_leading(distinct, self.level + bits), stored)
        r = float(n_each @ match) / len(hashes)
        n_effective = int(len(hashes) ** 2 / float(n_each @ n_each))
        copies = scipy.stats.beta.ppf(_COPIES_LEVEL, n_copied + 1, n_rows - n_copied)
        chance = min(2.0 * copies + (1.0 - 2.0 * copies) * q, 1.0)
        n_matches = int(r * n_effective + 1e-9)
        if scipy.stats.binom.sf(n_matches - 1, n_effective, chance) > _ALPHA:
            return None
        c = n_copied / n_rows
        share = ((r - q) / (1.0 - q) - c) / (1.0 - c)
        return min(share, 1.0) if share >= _SMALLEST else None

    def look_up(self, X: Any) -> tuple[Mask, Mask]:
        """Which rows of X can be looked up, and which of these have the hash of a training row.

        All rows can be looked up if there are at most ``SIZE`` distinct training rows; otherwise those
        that the sample of hashes would contain. A few new rows match by chance, see the module.
        """
        blocks = [np.asarray(to_numpy(b), dtype=np.uint32) for b in _hash_blocks(X, self.key)]
        hashes = np.concatenate([np.zeros(0, dtype=np.uint32), *blocks])
        known = _passes(hashes, self.level)
        return known, known & np.isin(_leading(hashes, self.known), self.hashes)

    @property
    def chance(self) -> float:
        """Probability that a new row that can be looked up matches a stored hash by chance."""
        return len(self.hashes) / 2.0 ** (self.known - self.level)


def _leading(hashes: Hashes, bits: int) -> Hashes:
    """Set all but the leading bits of hashes to zero."""
    return hashes & np.uint32((2**bits - 1) << (_HASH_BITS - bits))


def _passes(hashes: Any, level: int) -> Any:
    """Return whether the first ``level`` bits are zero, for an array or a tensor of hashes."""
    return hashes < 2 ** (_HASH_BITS - level)


def _sampled(hashes: Any, level: int) -> Hashes:
    """Return those hashes of an array or a tensor that pass the level."""
    return np.asarray(to_numpy(hashes[_passes(hashes, level)]), dtype=np.uint32)


def _hash_rows(X: Any, key: str, level: int) -> Hashes:
    """Compute the hashes of the rows of X (n, p), and return those that pass the level."""
    blocks = [_sampled(block, level) for block in _hash_blocks(X, key)]
    return np.concatenate([np.zeros(0, dtype=np.uint32), *blocks])


def _hash_blocks(X: Any, key: str) -> Iterator[Any]:
    """Compute the hashes of the rows of X (n, p), in blocks: arrays, or tensors on the device of X."""
    offset, factors = _multipliers(key, int(X.shape[1]))
    if is_sparse(X):  # the word of 0.0 is 0, so zeros add nothing
        words = _words(X.values).astype(np.uint64)
        sums = X.products(words.view(np.int64), factors.view(np.int64)).view(np.uint64) + offset
        yield mix(sums.view(np.int64)) >> _MIX_SHIFT
        return
    step = max(_BLOCK_VALUES // max(int(X.shape[1]), 1), 1)
    hash_block = _hash_tensor if is_tensor(X) else _hash_array
    for start in range(0, len(X), step):
        yield hash_block(X[start : start + step], offset, factors)


def _hash_array(X: NDArray[np.generic], offset: np.uint64, factors: NDArray[np.uint64]) -> Counts:
    sums = _words(X).astype(np.uint64) @ factors + offset
    hashes: Counts = mix(sums.view(np.int64)) >> _MIX_SHIFT
    return hashes


def _words(X: NDArray[np.generic]) -> NDArray[np.uint32]:
    """Bits of the numbers, rounded to float32."""
    with np.errstate(over="ignore"):  # values beyond the range of float32 become infinity
        rounded = X.astype(np.float32, order="C")
    return (rounded + np.float32(0.0)).view(np.uint32)  # turns -0.0 into 0.0


def _hash_tensor(X: Any, offset: np.uint64, factors: NDArray[np.uint64]) -> Any:
    """Compute the same hashes on the device of a tensor: int64 overflows as uint64 does."""
    import torch  # X is a tensor, so torch is installed

    a = torch.from_numpy(factors.view(np.int64).copy()).to(X.device)
    rounded = X.to(torch.float32).contiguous() + 0.0
    words = rounded.view(torch.int32).to(torch.int64).bitwise_and(2**32 - 1)
    return mix((words * a).sum(dim=1) + int(offset.view(np.int64))) >> _MIX_SHIFT


def _multipliers(key: str, n_features: int) -> tuple[np.uint64, NDArray[np.uint64]]:
    """Draw the offset b and the factors a of the sum from the key: 64 random bits each."""
    stream = hashlib.shake_256(b"fairspan rows " + key.encode()).digest(8 * (1 + n_features))
    drawn = np.frombuffer(stream, dtype="<u8").astype(np.uint64)
    return drawn[0], drawn[1:]
