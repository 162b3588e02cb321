"""A sample of the rows that does not depend on how they are cut into blocks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fairspan.inputs.tensors import without_tensors
from fairspan.method.data import Attribute
from fairspan.method.linalg import mix, to_numpy
from fairspan.streaming.rows import Rows, join

__all__ = ["Sample"]

Integers = NDArray[np.int64]

# Rows of a sample that everything is frozen on.
SAMPLE_ROWS = 20_000
# Rows of each level that a sample has if there are so many.
LEVEL_ROWS = 10
# A column with more values than this has no levels to look after: numbers, and text.
MAX_LEVELS, MAX_TEXT_LEVELS = 64, 1024
_NEVER = np.iinfo(np.int64).max


class Sample:
    """Rows with the smallest hash of their place, and of every level of y, S and strata a few.

    A uniform sample of a minority of a hundred in a million rows is empty: it would have no category, no
    landmark and no row to judge the landmarks by. The hash is the row's own, so samples of blocks, files
    and workers add up to the sample of all.

    Parameters
    ----------
    size : int
        How many rows to keep, those kept for the sake of a level not counted.
    seed : int
        Of the hash.
    crossed : bool, default=False
        Keep rows of every combination of levels of the protected attributes, too.
    """

    def __init__(self, size: int, seed: int, *, crossed: bool = False) -> None:
        self.size, self.seed, self.crossed = size, seed, crossed
        self.n_rows = 0
        self.digest = 0  # of all rows looked at, whoever adds them up
        self._kept: list[tuple[Integers, Integers, Rows]] = []  # places, hashes, rows
        self._limit = _NEVER  # hash of the last row that would be kept
        # Of each variable and level the hashes of the rows kept for it; None: too many levels.
        self._levels: dict[str, dict[str, Integers] | None] = {}
        self._most: dict[str, int] = {}

    def add(
        self, place: int, rows: Rows, variables: Mapping[str, Mapping[str, Attribute]],
        index: Integers | None = None,
    ) -> None:  # fmt: skip
        """Look at consecutive rows, the first of them at this place.

        Parameters
        ----------
        place : int
        rows : Rows
        variables : clean columns by kind ("y", "sensitive", "control"), to look after their levels.
        index : which of the rows count, and have variables; all if None.
        """
        self.n_rows += len(rows)
        index = np.arange(len(rows)) if index is None else index
        places = place + index.astype(np.int64)
        hashes = mix(places, self.seed)
        wanted = hashes < self._limit
        for name, (levels, absent, most) in self._levels_of(variables).items():
            self._most[name] = min(most, self._most.get(name, most))
            there = np.flatnonzero(~absent)
            wanted[there[self._note(name, levels[there], hashes[there])]] = True
        chosen = np.flatnonzero(wanted)
        if len(chosen):
            kept = rows.take(index[chosen])
            host = Rows.of(without_tensors(one) for one in kept.arguments)
            self._kept.append((places[chosen], hashes[chosen], host))
        if sum(len(places) for places, _, _ in self._kept) > 3 * self.size:
            self._compact()

    def __add__(self, other: Sample) -> Sample:
        """The sample of both sets of rows."""
        out = Sample(self.size, self.seed, crossed=self.crossed)
        out.n_rows = self.n_rows + other.n_rows
        out.digest = (self.digest + other.digest) % 2**64
        out._kept = [*self._kept, *other._kept]
        for name in dict.fromkeys([*self._levels, *other._levels]):
            mine, theirs = self._levels.get(name, {}), other._levels.get(name, {})
            if mine is None or theirs is None:
                out._levels[name] = None
                continue
            both = {
                level: _smallest(mine.get(level), theirs.get(level)) for level in {**mine, **theirs}
            }
            most = min(s._most.get(name, MAX_TEXT_LEVELS) for s in (self, other))
            out._levels[name], out._most[name] = both if len(both) <= most else None, most
        out._compact()
        return out

    def rows(self) -> Rows | None:
        """The sample, in order of place; None if nothing was seen."""
        self._compact()
        return self._kept[0][2] if self._kept else None

    # ------------------------------------------------------------------ inside

    def _levels_of(
        self, variables: Mapping[str, Mapping[str, Attribute]]
    ) -> dict[str, tuple[NDArray[np.generic], NDArray[np.bool_], int]]:
        """Level of each row, where there is none, and how many there may be, of what may have few."""
        out: dict[str, NDArray[np.generic]] = {}
        absent: dict[str, NDArray[np.bool_]] = {}
        most: dict[str, int] = {}
        for kind, attributes in variables.items():
            names = [f"{kind} {name}" for name in attributes]
            for name, column in zip(names, attributes.values(), strict=True):
                if self._levels.get(name, {}) is not None:
                    out[name] = np.asarray(to_numpy(column.values))
                    absent[name] = np.asarray(to_numpy(column.missing))
                    most[name] = MAX_TEXT_LEVELS if out[name].dtype.kind == "U" else MAX_LEVELS
            # What is crossed into cells or groups needs rows of every combination.
            cross = kind == "control" or (kind == "sensitive" and self.crossed)
            if cross and len(names) > 1 and all(name in out for name in names):
                text = [out[name].astype(str) for name in names]
                joined = text[0]
                for one in text[1:]:
                    joined = np.char.add(np.char.add(joined, " & "), one)
                if self._levels.get(f"{kind} crossed", {}) is not None:
                    out[f"{kind} crossed"] = joined
                    absent[f"{kind} crossed"] = np.any([absent[name] for name in names], axis=0)
                    most[f"{kind} crossed"] = min(most[name] for name in names)
        return {name: (values, absent[name], most[name]) for name, values in out.items()}

    def _note(self, name: str, values: NDArray[np.generic], hashes: Integers) -> Integers:
        """Rows to keep because of their level."""
        known = self._levels.setdefault(name, {})
        assert known is not None
        levels, inverse = np.unique(values, return_inverse=True)
        labels = [str(level) for level in levels.tolist()]
        if len({*known, *labels}) > self._most[name]:
            self._levels[name] = None
            return np.empty(0, dtype=np.int64)
        out = []
        for h, label in enumerate(labels):
            old = known.get(label)
            worst = _NEVER if old is None or len(old) < LEVEL_ROWS else int(old[-1])
            members = np.flatnonzero((inverse == h) & (hashes < worst))
            if len(members) > LEVEL_ROWS:
                nearest = np.argpartition(hashes[members], LEVEL_ROWS)[:LEVEL_ROWS]
                members = members[nearest]
            if len(members):
                known[label] = _smallest(old, hashes[members])
                out.append(members)
        return np.concatenate(out) if out else np.empty(0, dtype=np.int64)

    def _compact(self) -> None:
        """Drop rows that smaller hashes have pushed out."""
        if not self._kept:
            return
        places = np.concatenate([one[0] for one in self._kept])
        hashes = np.concatenate([one[1] for one in self._kept])
        rows = join([one[2] for one in self._kept])
        order = np.argsort(hashes, kind="stable")
        if len(order) > self.size:
            self._limit = int(hashes[order[self.size - 1]]) + 1
        chosen = np.zeros(len(hashes), dtype=bool)
        chosen[order[: self.size]] = True
        for levels in self._levels.values():
            if levels is not None:
                for few in levels.values():
                    chosen |= np.isin(hashes, few)
        index = np.flatnonzero(chosen)
        index = index[np.argsort(places[index], kind="stable")]
        self._kept = [(places[index], hashes[index], rows.take(index))]


def _smallest(a: Integers | None, b: Integers | None) -> Integers:
    both = np.concatenate([one for one in (a, b) if one is not None])
    return np.sort(both)[:LEVEL_ROWS]
