"""The pilot: everything that is fixed before moments are computed, and the folds of rows.

Rows are assigned to folds during the pass, so that cross-validation needs no second pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairspan.method.codes import Cells, Coder, CrossedCoder
from fairspan.method.features import LandmarkMap, TransformerMap, group_means
from fairspan.method.linalg import Array, home_of, is_tensor, mix, row_numbers, to_home, to_numpy
from fairspan.method.moments import Moments
from fairspan.method.problem import Attribute, Codes, Data

# More attributes than MAX_CROSSED are not crossed but hashed into MAX_STRATA strata.
MAX_CROSSED, MAX_STRATA = 6, 4096


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
            # Crossing many attributes gives strata of one row, so hash them into a bounded number.
            odd = 2 * np.arange(1, strata.shape[1] + 1) ** 2 + 1
            strata = ((strata + 1) @ odd % MAX_STRATA)[:, None]
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

    def assign(self, strata: Codes, index: Codes | None = None, given: int | None = None) -> Codes:
        """Return the fold of each row, and advance the position.

        Parameters
        ----------
        strata : (n, k) integers
            Codes of the strata, -1 where missing; here only their number is used.
        index : (n,) integers, optional
            Indices of the rows in the user's block, if some of its rows were dropped.
        given : int, optional
            Number of rows of the user's block, if some were dropped.
        """
        positions = self.position + (row_numbers(strata) if index is None else index)
        self.position += len(strata) if given is None else given
        return self.folds(positions)  # type: ignore[no-any-return]

    def folds(self, positions: Any) -> Any:
        """Return the folds of the rows at these positions, a numpy or torch vector of 64-bit integers."""
        K = self.n_folds
        rotation = mix(positions // K) % K
        return (positions + rotation + self.offset) % K


def _single_key(codes: Codes) -> NDArray[np.int64]:
    """Return one integer per row, equal for equal combinations of codes; -1 counts as a level."""
    key = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        size = int(column.max(initial=-1)) + 2
        if int(key.max(initial=0)) >= 2**62 // size:  # avoid overflow: renumber the combinations
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
        key = key * size + column + 1
    return key


Counter = FoldCounter | PositionFolds

N_FOLDS = 5
# Rows that the residual of the landmarks is estimated on, in all and of a group that would have none.
_RESIDUAL_ROWS, _RESIDUAL_GROUP = 500, 50


@dataclass(frozen=True)
class Encoded:
    """Codes of a block of rows, in sample order."""

    cells: Codes
    strata: Codes  # (n, k): what folds are balanced over
    levels: Codes  # (n, coded variables)
    values: Array  # (n, numeric variables)


@dataclass(frozen=True)
class Pilot:
    """Frozen before the pass: feature map, category lists, slice edges, cells, folds."""

    features: LandmarkMap | TransformerMap
    gamma: float | None
    coders: tuple[Coder | CrossedCoder, ...]
    target: Coder | None
    code_target: bool
    cells: Cells
    n_folds: int
    fold_offset: int
    residual: dict[str, dict[str, float]]
    fingerprint: str = ""
    fold_rule: str = "strata"  # or "position": the same folds for any partition of a stream
    precision: str = "float64"  # or "float32": of moments taken on a device that is slow at float64

    @property
    def target_is_numeric(self) -> bool:
        """The target is a number to regress on, not a class."""
        return self.target is not None and self.target.kind == "continuous"

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """Levels of every coded variable: the attributes, then the target if coded."""
        sizes = tuple(coder.n_levels for coder in self.coders)
        return (*sizes, self.target.n_levels) if self.code_target and self.target else sizes

    @property
    def numeric(self) -> tuple[Coder, ...]:
        """Numeric variables: continuous attributes, then a numeric target."""
        attributes = tuple(
            c for c in self.coders if isinstance(c, Coder) and c.kind == "continuous"
        )
        if self.target is not None and self.target_is_numeric:
            return (*attributes, self.target)
        return attributes

    def target_position(self) -> tuple[str, int]:
        """Where the target's statistics are: ("levels" or "columns", index)."""
        if self.target_is_numeric:
            return "columns", len(self.numeric) - 1
        return "levels", len(self.coders)

    def _check_same_variables(self, data: Data) -> None:
        """A later block must bring the variables that the estimator was prepared with."""
        parts = [c.parts if isinstance(c, CrossedCoder) else (c,) for c in self.coders]
        strata = () if self.cells.strata is None else self.cells.strata.parts
        for role, given, known in (
            ("sensitive_features", data.sensitive, [p.name for part in parts for p in part]),
            ("control_features", data.control, [p.name for p in strata]),
        ):
            if set(given) != set(known):
                msg = (
                    f"{role} has the columns {list(given)}, but the estimator was prepared with "
                    f"{known}. Give the same columns, by the same names, to every block."
                )
                raise ValueError(msg)
        if self.target is not None and data.y is None:
            msg = "The estimator was prepared with y, so every block needs y."
            raise ValueError(msg)

    def encode(self, data: Data) -> Encoded:
        """Codes of clean rows under the frozen rules."""
        self._check_same_variables(data)
        y = {} if data.y is None else {"y": data.y}
        coded = [coder.codes(data.sensitive) for coder in self.coders]
        target = None if self.target is None else self.target.codes(y)
        levels = [*coded, target] if self.code_target and target is not None else coded
        strata = coded if target is None else [*coded, target]
        merged: Mapping[str, Attribute] = {**data.sensitive, **y}
        values = [coder.column(merged) for coder in self.numeric]
        n, home = data.n, home_of(data.X)
        return Encoded(
            self.cells.assign(target, data.control, n, home),
            _side_by_side(strata, n, np.intp, home),
            _side_by_side(levels, n, np.intp, home),
            _side_by_side(values, n, np.float64, home),
        )

    def empty_moments(self) -> Moments:
        """Moments of no rows under this pilot."""
        return Moments.empty(
            self.fingerprint,
            n_cells=self.cells.n_groups,
            n_folds=self.n_folds,
            level_sizes=self.level_sizes,
            n_numeric=len(self.numeric),
            n_columns=self.features.n_columns,
        )

    def counter(self) -> Counter:
        """Fresh fold counters."""
        rule = PositionFolds if self.fold_rule == "position" else FoldCounter
        return rule(self.n_folds, self.fold_offset)


def _side_by_side(columns: list[Any], n: int, dtype: type, home: Any) -> Any:
    """Columns as one matrix, in a tensor where the rows are in one."""
    if not columns:
        return to_home(np.empty((n, 0), dtype=np.dtype(dtype)), home)
    if home is None:
        return np.stack(columns, axis=1)
    import torch  # there is a tensor, so it is installed

    return torch.stack([to_home(column, home) for column in columns], dim=1)


def move_to(counter: Counter, start: Any) -> None:
    """Set the position of the next row among all rows."""
    is_integer = isinstance(start, int | np.integer) and not isinstance(start, bool)
    if not is_integer or start < 0:
        msg = f"start={start!r} is not allowed; give the position of the first row, 0 or more."
        raise ValueError(msg)
    if not isinstance(counter, PositionFolds):
        msg = (
            "start needs folds that are assigned by position: call `prepare(..., folds='position')` "
            "before partial_fit, or leave start out."
        )
        raise ValueError(msg)
    counter.position = int(start)


def fingerprint(pilot: Pilot, probe: Array | None = None) -> str:
    """Hash of everything that must agree before moments may be added.

    A user's transformer is known by what it makes of the rows of ``probe``.
    """
    digest = hashlib.sha256()

    def feed(value: Any) -> None:
        if isinstance(value, np.ndarray):
            digest.update(str((value.dtype.str, value.shape)).encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        elif is_dataclass(value) and not isinstance(value, type):
            for item in fields(value):
                if item.name not in ("fingerprint", "residual"):
                    digest.update(item.name.encode())
                    feed(getattr(value, item.name))
        elif isinstance(value, dict):
            for key in sorted(value):
                digest.update(str(key).encode())
                feed(value[key])
        elif isinstance(value, list | tuple):
            digest.update(str(len(value)).encode())
            for item in value:
                feed(item)
        elif callable(value):
            name = getattr(value, "__qualname__", type(value).__qualname__)
            digest.update(f"{getattr(value, '__module__', '')}.{name}".encode())
        elif value is None or isinstance(value, str | int | float | bool | np.generic):
            digest.update(repr(value).encode())
        else:  # a fitted transformer: what it does to a few rows is its identity
            digest.update(type(value).__qualname__.encode())

    if isinstance(pilot.features, TransformerMap) and probe is not None:
        feed(pilot.features.columns(probe))
    feed(pilot)
    return digest.hexdigest()


def group_residual(
    pilot: Pilot, data: Data, landmark_rows: Codes, rng: np.random.Generator
) -> dict[str, dict[str, float]]:
    """Mean share of each group that the landmarks cannot see, on rows that are not landmarks.

    A group too small for the subsample is added to it; one whose rows are all landmarks is seen.
    """
    features = pilot.features
    if isinstance(features, LandmarkMap) and features.kernel.name == "precomputed":
        return {}
    others = np.setdiff1d(np.arange(data.n), landmark_rows)
    if len(others) == 0 or features.exact:
        others = np.arange(data.n)
    rows = rng.choice(others, size=min(len(others), _RESIDUAL_ROWS), replace=False)
    other = np.zeros(data.n, dtype=bool)
    other[others] = True
    for coder in pilot.coders:
        code = coder.codes(data.sensitive)
        order = np.argsort(code, kind="stable")
        starts = np.searchsorted(code[order], np.arange(coder.n_levels + 1))
        more = [rows]
        for level in np.setdiff1d(np.arange(coder.n_levels), code[rows]):
            members = order[starts[level] : starts[level + 1]]
            unseen = members[other[members]]
            more.append((unseen if len(unseen) else members)[:_RESIDUAL_GROUP])
        rows = np.concatenate(more)
    part = data.take(rows)
    codes = {coder.name: coder.codes(part.sensitive) for coder in pilot.coders}
    labels = {coder.name: coder.labels for coder in pilot.coders}
    return group_means(features.residual(part.X), codes, labels)
