"""Samples of rows, by a hash of their positions: of a stream, and of a large tensor.

The pass that samples a stream also checks every row, and decides whether X needs an encoder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairspan.device.passes import precision_for
from fairspan.exceptions import RowError
from fairspan.inputs.columns import as_frame, without_tensors
from fairspan.inputs.config import draw_seed
from fairspan.method.known_rows import ClusterCounts
from fairspan.method.linalg import home_of, is_tensor, mix, to_home, to_numpy
from fairspan.method.problem import Attribute, Data, FitConfig, GroupProbabilities
from fairspan.streaming.row_keys import content_keys
from fairspan.streaming.rows import Rows, StreamedEstimator, join, naming_rows

Integers = NDArray[np.int64]

# Rows of the sample that landmarks, edges and category lists are frozen on.
SAMPLE_ROWS = 20_000
# Rows of each level that a sample holds, if there are so many.
LEVEL_ROWS = 10
# Rare levels are filled up in columns of at most this many different numbers, or texts.
MAX_LEVELS, MAX_TEXT_LEVELS = 64, 1024
# A tensor of at most this many rows is not sampled, like an array.
RESIDENT_PILOT = 100_000
_NEVER = np.iinfo(np.int64).max


class Sample:
    """Rows with the smallest hashes of their positions, and a few of every level of y, S and strata.

    A uniform sample hardly has rows of a minority of a hundred in a million: it would have no category,
    no landmark and no row to judge the landmarks by. The hash depends only on the position of the row, so
    samples of blocks, files and workers add up to the sample of all rows.

    Parameters
    ----------
    size : int
        How many rows to keep, without those that fill up a level.
    seed : int
        Seed of the hash.
    crossed : bool, default=False
        Also keep rows of every combination of levels of the protected attributes.
    by_content : bool, default=False
        Hash the content of a row instead of its position, so that the order of rows does not matter.
    """

    def __init__(
        self, size: int, seed: int, *, crossed: bool = False, by_content: bool = False
    ) -> None:
        self.size, self.seed, self.crossed = size, seed, crossed
        self.by_content = by_content
        self.n_rows = 0
        self.digest = 0  # sum of the digests of all blocks; the caller adds them up
        self.clusters: ClusterCounts | None = None  # groups of rows; the caller counts them
        self._pieces: list[tuple[Integers, Integers, Rows]] = []  # positions, hashes, rows
        self._limit = _NEVER  # hashes from this one on are not kept
        # Hashes of the rows that fill up each level of a variable; None: it has too many levels.
        self._levels: dict[str, dict[str, Integers] | None] = {}
        self._max_levels: dict[str, int] = {}

    def add(
        self,
        offset: int,
        rows: Rows,
        variables: Mapping[str, Mapping[str, Attribute]],
        index: Integers | None = None,
        keys: tuple[Integers, Integers] | None = None,
    ) -> None:
        """Add consecutive rows.

        Parameters
        ----------
        offset : int
            Position of the first of the rows among all.
        rows : Rows
        variables : dict of dict of Attribute
            Clean columns by kind ("y", "sensitive", "control"), whose rare levels are filled up.
        index : array of int, optional
            Which of the rows count, and have variables; all if None.
        keys : pair of arrays of int, optional
            By which the counted rows are ordered and drawn, instead of their positions.
        """
        self.n_rows += len(rows)
        index = np.arange(len(rows)) if index is None else index
        positions = offset + index.astype(np.int64)
        positions, drawn = (positions, positions) if keys is None else keys
        hashes = mix(drawn, self.seed)
        wanted = hashes < self._limit
        if (
            len(hashes) > self.size
        ):  # no row beyond the smallest hashes of these can be in the sample
            wanted &= hashes <= np.partition(hashes, self.size - 1)[self.size - 1]
        for name, (levels, missing, most) in self._levels_of(variables).items():
            self._max_levels[name] = min(most, self._max_levels.get(name, most))
            present = np.flatnonzero(~missing)
            wanted[present[self._fill_levels(name, levels[present], hashes[present])]] = True
        chosen = np.flatnonzero(wanted)
        if len(chosen):
            arguments = rows.take(index[chosen]).arguments
            on_host = Rows.of(without_tensors(column) for column in arguments)
            self._pieces.append((positions[chosen], hashes[chosen], on_host))
        if sum(len(positions) for positions, _, _ in self._pieces) > 3 * self.size:
            self._compact()

    def __add__(self, other: Sample) -> Sample:
        """The sample of both sets of rows."""
        out = Sample(self.size, self.seed, crossed=self.crossed, by_content=self.by_content)
        out.n_rows = self.n_rows + other.n_rows
        out.digest = (self.digest + other.digest) % 2**64
        out.clusters = self.clusters or other.clusters
        if self.clusters is not None and other.clusters is not None:
            out.clusters = self.clusters + other.clusters
        out._pieces = [*self._pieces, *other._pieces]
        for name in dict.fromkeys([*self._levels, *other._levels]):
            a, b = self._levels.get(name, {}), other._levels.get(name, {})
            if a is None or b is None:
                out._levels[name] = None
                continue
            both = {level: _smallest(a.get(level), b.get(level)) for level in {**a, **b}}
            most = min(s._max_levels.get(name, MAX_TEXT_LEVELS) for s in (self, other))
            out._levels[name] = both if len(both) <= most else None
            out._max_levels[name] = most
        out._compact()
        return out

    def rows(self) -> Rows | None:
        """The sampled rows in order of position; None if no rows were added."""
        self._compact()
        return self._pieces[0][2] if self._pieces else None

    # ------------------------------------------------------------------ inside

    def _levels_of(
        self, variables: Mapping[str, Mapping[str, Attribute]]
    ) -> dict[str, tuple[NDArray[np.generic], NDArray[np.bool_], int]]:
        """Columns that may have few levels: the level of each row, missing ones, most levels."""
        out: dict[str, tuple[NDArray[np.generic], NDArray[np.bool_], int]] = {}
        for kind, attributes in variables.items():
            names = [f"{kind} {name}" for name in attributes]
            for name, column in zip(names, attributes.values(), strict=True):
                if self._levels.get(name, {}) is not None:
                    values = np.asarray(to_numpy(column.values))
                    if isinstance(column, GroupProbabilities):
                        values = np.array(column.groups)[values.argmax(axis=1)]
                    most = MAX_TEXT_LEVELS if values.dtype.kind == "U" else MAX_LEVELS
                    out[name] = values, np.asarray(to_numpy(column.missing)), most
            # Attributes that are crossed into cells or groups need rows of every combination.
            cross, crossed = (
                kind == "control" or (kind == "sensitive" and self.crossed),
                f"{kind} crossed",
            )
            if not cross or len(names) < 2 or self._levels.get(crossed, {}) is None:
                continue
            if all(name in out for name in names):
                joined = out[names[0]][0].astype(str)
                for name in names[1:]:
                    joined = np.char.add(np.char.add(joined, " & "), out[name][0].astype(str))
                missing = np.any([out[name][1] for name in names], axis=0)
                out[crossed] = joined, missing, min(out[name][2] for name in names)
        return out

    def _fill_levels(
        self, name: str, values: NDArray[np.generic], hashes: Integers
    ) -> NDArray[np.intp]:
        """Rows to keep so that every level has enough; remember their hashes."""
        known = self._levels.setdefault(name, {})
        assert known is not None
        levels, most = np.unique(values), self._max_levels[name]
        labels = [str(level) for level in levels[: most + 1].tolist()]
        if len({*known, *labels}) > most:
            self._levels[name] = None
            return np.empty(0, dtype=np.intp)
        largest = [self._largest(known.get(label)) for label in labels]
        # Rows beyond the largest hash that any level still needs are not looked at.
        near = np.flatnonzero(hashes < max(largest, default=_NEVER))
        inverse, hashes = np.searchsorted(levels, values[near]), hashes[near]
        out = [np.empty(0, dtype=np.intp)]
        for h, label in enumerate(labels):
            members = np.flatnonzero((inverse == h) & (hashes < largest[h]))
            if len(members) > LEVEL_ROWS:
                smallest = np.argpartition(hashes[members], LEVEL_ROWS)[:LEVEL_ROWS]
                members = members[smallest]
            if len(members):
                known[label] = _smallest(known.get(label), hashes[members])
                out.append(near[members])
        return np.concatenate(out)

    @staticmethod
    def _largest(known: Integers | None) -> int:
        """The hash from which on a level needs no more rows."""
        return _NEVER if known is None or len(known) < LEVEL_ROWS else int(known[-1])

    def _compact(self) -> None:
        """Drop rows that are no longer among those of the smallest hashes."""
        if not self._pieces:
            return
        positions = np.concatenate([piece[0] for piece in self._pieces])
        hashes = np.concatenate([piece[1] for piece in self._pieces])
        rows = join([piece[2] for piece in self._pieces])
        order = np.argsort(hashes, kind="stable")
        if len(order) > self.size:
            self._limit = int(hashes[order[self.size - 1]]) + 1
        chosen = np.zeros(len(hashes), dtype=bool)
        chosen[order[: self.size]] = True
        for levels in self._levels.values():
            for few in (levels or {}).values():
                chosen |= np.isin(hashes, few)
        index = np.flatnonzero(chosen)
        index = index[np.argsort(positions[index], kind="stable")]
        self._pieces = [(positions[index], hashes[index], rows.take(index))]


def _smallest(a: Integers | None, b: Integers | None) -> Integers:
    both = np.concatenate([hashes for hashes in (a, b) if hashes is not None])
    return np.sort(both)[:LEVEL_ROWS]


# --------------------------------------------------------------------------- the pass over a stream


class SamplePass:
    """Reads blocks as the pass over the moments will, and adds them to a sample.

    ``encoder`` is the argument of ``fit_stream``. With ``digest``, hashes of all blocks are summed, by
    which a checkpoint recognises the rows.
    """

    def __init__(
        self, est: StreamedEstimator, sample: Sample, encoder: Any, *, digest: bool
    ) -> None:
        self.sample = sample
        self.precision, self.on_device = "float64", False
        self.encodes: bool | None = None  # whether X needs an encoder; None until a block was added
        self._reader, self._encoder, self._digest = est.copy(), encoder, digest

    def add(self, offset: int, rows: Rows, base: int = 0) -> None:
        """Read a block and add it to the sample.

        Its first row has this offset, which errors name, and the position ``base + offset`` among all.
        """
        given, first = rows.as_given, self.encodes is None
        if self.encodes is None:
            # Decided on the first block: missing values may change the type of a column in a later one.
            self.encodes = wants_encoder(self._encoder, given.X)
        if self.encodes:
            rows = given  # a column of text may be all missing in a block, which looks like numbers
            _refuse_infinity(rows, offset)
            # The encoder is fitted on the sample, so its output is not known yet.
            rows = replace(rows, X=np.zeros((len(rows), 1)))
        with naming_rows(rows.as_given, offset, self._reader.read):
            if first:
                self._reader.read_columns(rows.X if self.encodes else given.X)
            data = self._reader.read(rows)
        self.precision, self.on_device = precision_for(data.X), is_tensor(data.X)
        if data.clusters is not None:
            self.sample.clusters = (self.sample.clusters or ClusterCounts()).add(data)
        if self._digest:
            table = given.X if self.encodes else None
            if table is None and rows.given is not None:  # moved to a device, or not: the same hash
                table = to_numpy(data.X)
            digest = _digest(data, offset, table)
            self.sample.digest = (self.sample.digest + digest) % 2**64
        index, keys = None if data.index is None else to_numpy(data.index), None
        if self.sample.by_content:
            at = np.arange(data.n) if index is None else index
            keys = content_keys(data, given.X if self.encodes else None, base + offset + at)
        self.sample.add(base + offset, given, variables_of(data), index, keys)


def variables_of(data: Data) -> dict[str, Mapping[str, Attribute]]:
    """The columns whose rare levels a sample fills up, by kind."""
    y = {} if data.y is None else {"y": data.y}
    return {"y": y, "sensitive": data.sensitive, "control": data.control}


def wants_encoder(encoder: Any, X: Any) -> bool:
    """Whether X is to be encoded, by the argument ``encoder`` of ``fit_stream``."""
    if encoder is None:
        return False
    if not isinstance(encoder, str) or encoder == "table":
        return True
    frame = as_frame(X, "X")
    return frame is not None and not all(
        is_number(frame.get_column(name)) for name in frame.columns
    )


def is_number(column: Any) -> bool:
    """True for numbers and booleans; pandas holds booleans with missing values as objects."""
    if column.dtype == nw.Object:
        known = column.drop_nulls().to_list()
        return bool(known) and all(isinstance(value, bool | np.bool_) for value in known)
    return bool(column.dtype.is_numeric() or column.dtype == nw.Boolean)


def _refuse_infinity(rows: Rows, offset: int) -> None:
    """Raise for infinity in X; an encoder only fills up missing values."""
    frame = as_frame(rows.X, "X")
    for name, kind in {} if frame is None else frame.schema.items():
        if kind not in (nw.Float32, nw.Float64):
            continue
        assert frame is not None
        bad = np.flatnonzero(np.isinf(frame.get_column(name).to_numpy()))
        if len(bad):
            file, row = rows.place(int(bad[0]))
            why = f"column {name!r} holds infinity (row {offset + bad[0]} of all)."
            raise RowError(file, row, why)


def _digest(data: Data, offset: int, table: Any) -> int:
    """Hash of a block: other rows, labels or groups are another fit. Tensors X are left out."""
    out = hashlib.sha256(str(offset).encode())
    data = replace(data.on_host(), X=data.X) if is_tensor(data.X) else data
    if table is None:
        table = data.X
    if isinstance(table, np.ndarray):
        out.update(np.ascontiguousarray(table, dtype=np.float64).tobytes())
    elif type(table).__module__.startswith("pandas"):
        from pandas.util import hash_pandas_object

        out.update(hash_pandas_object(table, index=False).to_numpy().tobytes())
    elif type(table).__module__.startswith("polars"):
        out.update(table.hash_rows().to_numpy().tobytes())
    for attributes in variables_of(data).values():
        for name, attribute in attributes.items():
            out.update(name.encode())
            out.update(np.asarray(attribute.values).tobytes())
            out.update(np.asarray(attribute.missing).tobytes())
    for column in (data.weights, data.clusters):
        if column is not None:
            out.update(np.asarray(column).tobytes())
    return int.from_bytes(out.digest()[:8], "little")


# --------------------------------------------------------------------------- tensors


def pilot_rows(config: FitConfig, data: Data) -> tuple[Data, str]:
    """Rows to prepare an estimator on, and the rule that assigns folds.

    A large tensor is sampled by a hash of the rows' positions, on its device, and rare levels of y, of S
    and of control features are filled up. The sample is the same for the same rows on any device.
    """
    everything = config.n_components == "all" or config.kernel == "precomputed"
    if not is_tensor(data.X) or data.n <= RESIDENT_PILOT or everything:
        return data, "keys"
    import torch

    home, positions = home_of(data.X), data.index
    if positions is None:
        positions = torch.arange(data.n, device=home)
    hashes = mix(positions, draw_seed(config.random_state))
    wanted = 0 if isinstance(config.n_components, str) else int(config.n_components)
    size = min(data.n, max(SAMPLE_ROWS, wanted))
    rows = hashes.topk(size, largest=False).indices
    sensitive = [_level_codes(column, rows, home) for column in data.sensitive.values()]
    control = [_level_codes(column, rows, home) for column in data.control.values()]
    codes = [*sensitive, _crossed(control)]
    if config.intersectional:
        codes.append(_crossed(sensitive))
    if data.y is not None:
        codes.append(_level_codes(data.y, rows, home))
    for column in codes:
        if column is not None:
            rows = _fill_up(rows, column, hashes)
    rule = "position" if data.clusters is None else "hash"
    return data.take(torch.unique(rows)), rule


def _level_codes(attribute: Attribute, rows: Any, home: Any) -> Any:
    """Number of each row's level, -1 where missing; None for a column of too many levels."""
    import torch

    if len(np.unique(to_numpy(attribute.take(rows).values))) > MAX_LEVELS:
        return None
    if is_tensor(attribute.values):
        levels, codes = torch.unique(attribute.values, return_inverse=True)
    else:
        levels, codes = np.unique(attribute.values, return_inverse=True)
    if len(levels) > MAX_LEVELS:
        return None
    return to_home(codes, home).masked_fill(to_home(attribute.missing, home), -1)


def _crossed(columns: list[Any]) -> Any:
    """Combinations of levels as levels; None if there are no levels, or too many combinations."""
    import torch

    known = [column for column in columns if column is not None]
    if not known:
        return None
    key, complete = torch.zeros_like(known[0]), torch.ones_like(known[0], dtype=torch.bool)
    for column in known[:8]:  # 64-bit integers can number the 64^8 combinations of eight columns
        key = key * MAX_LEVELS + column.clamp(min=0)
        complete &= column >= 0
    levels, codes = torch.unique(key, return_inverse=True)
    return None if len(levels) > MAX_LEVELS**2 else codes.masked_fill_(~complete, -1)


def _fill_up(rows: Any, codes: Any, hashes: Any) -> Any:
    """Add the rows of smallest hash of every level that has too few rows in the sample."""
    import torch

    shifted = codes + 1  # 0: missing
    size = int(shifted.max()) + 1
    total = torch.bincount(shifted, minlength=size).clamp(max=LEVEL_ROWS)
    short = torch.bincount(shifted[rows], minlength=size) < total
    short[0] = False
    for level in short.nonzero()[:, 0].tolist():
        members = (shifted == level).nonzero()[:, 0]
        first = hashes[members].topk(min(LEVEL_ROWS, len(members)), largest=False).indices
        rows = torch.cat([rows, members[first]])
    return rows
