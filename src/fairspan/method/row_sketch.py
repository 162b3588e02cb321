"""A keyed sketch of the rows of a fit: enough for an audit to recognise them, too little to rebuild them.

Hash. A row of p features is read as p words of 32 bits, its values rounded to float32 (so that float32
copies and recomputed features agree). Its sum ``(b + sum a_j x_j) mod 2^64`` has random a, b, drawn from
a key of the fit: two different rows have the same sum with a probability of at most 2^-33. SplitMix64
then scatters neighbouring sums, since on a grid many pairs of rows have sums with one difference and
would agree together. The first 32 bits are the hash, and are taken as independent and uniform.

Sample. Kept are the distinct hashes whose first ``level`` bits are zero, with the number of rows that
share each. The level grows while there are more than ``SIZE``. An audited row is looked up only if its
hash passes the same test, so every row that is looked up either was among the fitted rows and matches,
or was not and matches by chance. Sketches of two sets of rows merge exactly, in any order.

Estimate. Of n rows looked up, a share r matches on the next ``BITS`` bits. With M different stored
prefixes, a new row matches by chance with probability ``q = M / 2^BITS`` (6 % at most, if no bit was
used up), so ``(r - q)/(1 - q)`` estimates the share of rows whose X is that of a fitted row.

Copies. In discrete data, new people have the X of fitted ones. The probability of that is one minus the
mass of unseen values, and Good and Turing's estimate of it is c, the share of fitted rows that have a
copy among them (each such row, left out, would be found). If s of the audited rows were fitted on,
``s + (1 - s) c`` of them match, which gives s.

Test. Under the hypothesis that nothing was fitted on, and that c is twice its upper confidence limit,
matches are binomial with probability ``2c + (1 - 2c) q``. Copies of one row among the audited rows match
together, so n is replaced by Kish's effective number of distinct rows. No share is given unless this
hypothesis is rejected at the level ``_ALPHA`` and the share is at least ``_SMALLEST``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from fairspan.method.linalg import is_tensor, mix

__all__ = ["BITS", "SIZE", "RowSketch"]

SIZE = 4096  # distinct rows kept at most
BITS = 16  # of a hash after the level: what is compared, and what a file keeps
_HASH_BITS = 32
_MIX_SHIFT = 63 - _HASH_BITS  # `mix` gives 63 bits
_ALPHA = 1e-3
_SMALLEST = 0.01
_COPIES_LEVEL = 0.975  # of the upper confidence limit of the share of copies
_BLOCK_VALUES = 2**20  # values of X that are hashed at once

Hashes = NDArray[np.uint32]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowSketch:
    """Hashes of a sample of rows, and how many rows have each.

    Attributes
    ----------
    key : str
        Key of the hash.
    level : int
        Leading bits that are zero in every hash.
    known : int
        Leading bits of a hash that are kept; the others are zero.
    hashes : ndarray of uint32, sorted
    counts : ndarray of int64
        Rows that have each hash.
    """

    key: str
    level: int
    known: int
    hashes: Hashes
    counts: Counts

    @classmethod
    def empty(cls, key: str) -> RowSketch:
        """The sketch of no rows."""
        none = np.zeros(0, dtype=np.int64)
        return cls(key, 0, _HASH_BITS, none.astype(np.uint32), none)

    @classmethod
    def checked(cls, key: str, level: Any, known: Any, hashes: Any, counts: Any) -> RowSketch:
        """A sketch from a file; ValueError for parts that do not form one."""
        whole = all(type(bits) is int and 0 <= bits <= _HASH_BITS for bits in (level, known))
        arrays = all(
            isinstance(array, np.ndarray) and array.ndim == 1 for array in (hashes, counts)
        )
        if not (whole and arrays and level <= known and len(hashes) == len(counts) <= SIZE):
            raise ValueError("its sketch of rows has parts that do not belong together")
        if hashes.dtype != np.uint32 or counts.dtype != np.int64 or (counts < 1).any():
            raise ValueError("its sketch of rows holds other numbers than hashes and counts")
        return cls(key, level, known, hashes, counts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowSketch) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in vars(self)
        )

    __hash__ = None  # type: ignore[assignment]

    def add(self, X: Any) -> RowSketch:
        """The sketch with the rows of an array or tensor X (n, p) added."""
        out, step = self, max(_BLOCK_VALUES // max(int(X.shape[1]), 1), 1)
        for start in range(0, len(X), step):
            hashes = _hash_rows(X[start : start + step], self.key, out.level)
            values, counts = np.unique(hashes, return_counts=True)
            out = out + RowSketch(self.key, out.level, _HASH_BITS, values, counts.astype(np.int64))
        return out

    def __add__(self, other: RowSketch) -> RowSketch:
        """The sketch of both sets of rows; both have the same key."""
        level, known = max(self.level, other.level), min(self.known, other.known)
        both = np.concatenate([self.hashes, other.hashes])
        hashes, place = np.unique(_leading(both, known), return_inverse=True)
        counts = np.zeros(len(hashes), dtype=np.int64)
        np.add.at(counts, place.ravel(), np.concatenate([self.counts, other.counts]))
        kept = _passes(hashes, level)
        while kept.sum() > SIZE:
            level += 1
            kept = _passes(hashes, level)
        return RowSketch(self.key, level, known, hashes[kept], counts[kept])

    def shortened(self) -> RowSketch:
        """The sketch with ``BITS`` bits of each hash after the level, which is what a file keeps."""
        known = min(self.known, self.level + BITS)
        return replace(self, known=known, hashes=_leading(self.hashes, known))

    def share_of(self, X: Any) -> float | None:
        """Share of the rows of X that are among those of the sketch.

        None where the matches may be copies and chance, see the module.
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


def _leading(hashes: Hashes, bits: int) -> Hashes:
    """Hashes with all but their leading bits set to zero."""
    return hashes & np.uint32((2**bits - 1) << (_HASH_BITS - bits))


def _passes(hashes: Any, level: int) -> Any:
    """Whether the first ``level`` bits are zero, for an array or a tensor."""
    return hashes < 2 ** (_HASH_BITS - level)


def _hash_rows(X: Any, key: str, level: int) -> Hashes:
    """Hashes of those rows of X (n, p) that pass the level."""
    offset, factors = _multipliers(key, int(X.shape[1]))
    if is_tensor(X):
        return _hash_tensor(X, offset, factors, level)
    out, step = [np.zeros(0, dtype=np.uint32)], max(_BLOCK_VALUES // max(X.shape[1], 1), 1)
    for start in range(0, len(X), step):
        with np.errstate(over="ignore"):  # beyond the range of float32 is infinity there
            rounded = X[start : start + step].astype(np.float32, order="C")
        words = (rounded + np.float32(0.0)).view(np.uint32)  # -0.0 is 0.0
        sums = words.astype(np.uint64) @ factors + offset
        hashes = (mix(sums.view(np.int64)) >> _MIX_SHIFT).astype(np.uint32)
        out.append(hashes[_passes(hashes, level)])
    return np.concatenate(out)


def _hash_tensor(X: Any, offset: Any, factors: Any, level: int) -> Hashes:
    """The same hashes, computed where the tensor is: int64 wraps around as uint64 does."""
    import torch  # there is a tensor, so it is installed

    a = torch.from_numpy(factors.view(np.int64).copy()).to(X.device)
    b = int(offset.view(np.int64))
    out, step = [np.zeros(0, dtype=np.uint32)], max(_BLOCK_VALUES // max(X.shape[1], 1), 1)
    for start in range(0, len(X), step):
        rounded = X[start : start + step].to(torch.float32).contiguous() + 0.0
        words = rounded.view(torch.int32).to(torch.int64).bitwise_and(2**32 - 1)
        hashes = mix((words * a).sum(dim=1) + b) >> _MIX_SHIFT
        out.append(hashes[_passes(hashes, level)].cpu().numpy().astype(np.uint32))
    return np.concatenate(out)


def _multipliers(key: str, n_features: int) -> tuple[Any, Any]:
    """Offset b and factors a of the sum: 64 random bits each, drawn from the key."""
    stream = hashlib.shake_256(b"fairspan rows " + key.encode()).digest(8 * (1 + n_features))
    drawn = np.frombuffer(stream, dtype="<u8").astype(np.uint64)
    return drawn[0], drawn[1:]
