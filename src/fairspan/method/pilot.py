"""The pilot: everything that is fixed before moments are computed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from fairspan.method.codes import Cells, Coder, CrossedCoder
from fairspan.method.features import LandmarkMap, TransformerMap, group_means
from fairspan.method.folds import (
    Counter,
    FoldCounter,
    HashFolds,
    KeyFolds,
    PositionFolds,
    RowKeys,
    hash_ranks,
    hash_rows,
)
from fairspan.method.linalg import Array, home_of, to_home, to_numpy
from fairspan.method.moments import Moments
from fairspan.method.probabilities import ProbabilityCoder
from fairspan.method.problem import Attribute, Codes, Data

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
    probabilities: Array  # (n, groups of all attributes with probabilities), NaN where missing


@dataclass(frozen=True)
class Pilot:
    """Frozen before the pass: feature map, category lists, slice edges, cells, folds."""

    features: LandmarkMap | TransformerMap
    gamma: float | None
    coders: tuple[Coder | CrossedCoder | ProbabilityCoder, ...]
    target: Coder | None
    code_target: bool
    cells: Cells
    n_folds: int
    fold_offset: int
    residual: dict[str, dict[str, float]]
    fingerprint: str = ""
    fold_rule: str = "strata"  # or "keys", "position", "hash": see `fairspan.method.folds`
    precision: str = "float64"  # or "float32": of moments taken on a device that is slow at float64
    seed: int = 0  # of the keys of rows
    cluster_share: float = 1.0  # number of clusters of rows that belong together, per row
    # The same of the rows that have S, by attribute; empty: that of all rows.
    known_cluster_shares: tuple[float, ...] = ()
    clustered: bool = False  # rows come with the clusters that they belong to
    pairwise: bool = False  # columns of X are rows too, so their order has no meaning

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
    def pair_variables(self) -> tuple[int, ...]:
        """Attributes whose rows have probabilities of the groups."""
        return tuple(j for j, c in enumerate(self.coders) if isinstance(c, ProbabilityCoder))

    def probability_columns(self, j: int) -> slice:
        """Columns of an attribute among the probabilities of encoded rows."""
        first = sum(self.level_sizes[i] for i in self.pair_variables if i < j)
        return slice(first, first + self.level_sizes[j])

    @property
    def numeric(self) -> tuple[Coder, ...]:
        """Numeric variables: continuous attributes, then a numeric target."""
        attributes = tuple(
            c for c in self.coders if isinstance(c, Coder) and c.kind == "continuous"
        )
        if self.target is not None and self.target_is_numeric:
            return (*attributes, self.target)
        return attributes

    def clusters_per_row(self, attribute: str) -> float:
        """Number of clusters per row, among the rows that have an attribute."""
        names = [coder.name for coder in self.coders]
        if not self.known_cluster_shares or attribute not in names:
            return self.cluster_share
        return self.known_cluster_shares[names.index(attribute)]

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
                raise ValueError(
                    f"{role} has the columns {list(given)}, but the estimator was prepared with "
                    f"{known}. Give the same columns, by the same names, to every block."
                )
        if self.target is not None and data.y is None:
            raise ValueError("The estimator was prepared with y, so every block needs y.")

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
        coders = (c for c in self.coders if isinstance(c, ProbabilityCoder))
        known = [coder.probabilities(data.sensitive) for coder in coders]
        return Encoded(
            self.cells.assign(target, data.control, n, home),
            _side_by_side(strata, n, np.intp, home),
            _side_by_side(levels, n, np.intp, home),
            _side_by_side(values, n, np.float64, home),
            np.concatenate([np.empty((n, 0)), *known], axis=1),
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
            pair_variables=self.pair_variables,
        )

    def counter(self) -> Counter:
        """Fresh fold counters."""
        if self.fold_rule in ("keys", "hash"):
            return (KeyFolds if self.fold_rule == "keys" else HashFolds)(self.n_folds)
        rule = PositionFolds if self.fold_rule == "position" else FoldCounter
        return rule(self.n_folds, self.fold_offset)

    def row_keys(self, data: Data, encoded: Encoded) -> RowKeys:
        """Compute the keys of rows: hashes of ranks, or of the numbers where blocks must not matter.

        A class counts by its stratum, not by its number, so that classes can be renamed.
        """
        known = data.__dict__.setdefault("_row_keys", {})  # a fit needs them several times
        identity = (self.seed, self.fold_rule, self.pairwise, len(self.coders))
        if identity in known:
            return known[identity]  # type: ignore[no-any-return]
        y = encoded.values[:, -1] if self.target_is_numeric else None
        if self.fold_rule != "hash":
            keys = hash_ranks(data.X, y, self.seed, ordered=not self.pairwise)
        else:
            label = y if y is not None or self.target is None else encoded.strata[:, -1]
            keys = hash_rows(data.X, label, self.seed, ordered=not self.pairwise)
        ties = (to_numpy(encoded.cells), *to_numpy(encoded.values).T)
        ties = (*encoded.probabilities.T, *ties)
        if data.weights is not None:
            ties = (*ties, to_numpy(data.weights))
        known[identity] = RowKeys.of(keys, to_numpy(encoded.strata), ties, data.clusters)
        return known[identity]  # type: ignore[no-any-return]

    def folds(self, data: Data, encoded: Encoded, counter: Counter) -> Codes:
        """Fold of each row; ``counter`` advances."""

        def keys() -> RowKeys:
            if self.fold_rule == "hash" and data.clusters is not None:
                return RowKeys.of_clusters(data.clusters)
            return self.row_keys(data, encoded)

        return counter.assign(encoded.strata, data.index, data.given, keys)


def _side_by_side(columns: list[Any], n: int, dtype: type, home: Any) -> Any:
    """Columns as one matrix, in a tensor where the rows are in one."""
    if not columns:
        return to_home(np.empty((n, 0), dtype=np.dtype(dtype)), home)
    if home is None:
        return np.stack(columns, axis=1)
    import torch  # there is a tensor, so it is installed

    return torch.stack([to_home(column, home) for column in columns], dim=1)


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
    pilot: Pilot, data: Data, landmark_rows: Codes, order: Codes
) -> dict[str, dict[str, float]]:
    """Mean share of each group that the landmarks cannot see, on rows that are not landmarks.

    ``order`` has all rows in a random order. A group too small for the subsample is added to it; one
    whose rows are all landmarks is seen.
    """
    features = pilot.features
    if isinstance(features, LandmarkMap) and features.kernel.name == "precomputed":
        return {}
    other = np.ones(data.n, dtype=bool)
    other[landmark_rows] = features.exact or len(landmark_rows) == data.n
    rows = order[other[order]][:_RESIDUAL_ROWS]
    for coder in pilot.coders:
        code = coder.codes(data.sensitive)
        by_level = order[np.argsort(code[order], kind="stable")]
        starts = np.searchsorted(code[by_level], np.arange(coder.n_levels + 1))
        more = [rows]
        for level in np.setdiff1d(np.arange(coder.n_levels), code[rows]):
            members = by_level[starts[level] : starts[level + 1]]
            unseen = members[other[members]]
            more.append((unseen if len(unseen) else members)[:_RESIDUAL_GROUP])
        rows = np.concatenate(more)
    part = data.take(rows)
    codes = {coder.name: coder.codes(part.sensitive) for coder in pilot.coders}
    labels = {coder.name: coder.labels for coder in pilot.coders}
    residual = features.residual(part.X)
    out = group_means(residual, codes, labels)
    for coder in pilot.coders:
        if isinstance(coder, ProbabilityCoder):
            p = np.nan_to_num(coder.probabilities(part.sensitive))
            means = p.T @ residual / np.maximum(p.sum(axis=0), 1e-300)
            out[coder.name] = dict(zip(coder.groups, means.tolist(), strict=True))
    return out
