"""The pilot: what is frozen before the first moment is taken; and the pass that uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairspan._linalg import Array
from fairspan._progress import track
from fairspan._validation import Data
from fairspan.codes import Attribute, Cells, Coder, Codes, CrossedCoder
from fairspan.features import LandmarkMap, TransformerMap
from fairspan.folds import FoldCounter
from fairspan.moments import Accumulator, Moments

N_FOLDS = 5
_BLOCK_ROWS = 2048


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
        n = data.n
        return Encoded(
            self.cells.assign(target, data.control, n),
            np.stack(strata, axis=1),
            np.stack(levels, axis=1) if levels else np.empty((n, 0), dtype=np.intp),
            np.stack(values, axis=1) if values else np.empty((n, 0)),
        )

    def empty_moments(self) -> Moments:
        """Moments of no rows under this pilot."""
        return Moments.empty(
            self.fingerprint,
            self.cells.n_groups,
            self.n_folds,
            self.level_sizes,
            len(self.numeric),
            self.features.n_columns,
        )

    def counter(self) -> FoldCounter:
        """Fresh fold counters."""
        return FoldCounter(self.n_folds, self.fold_offset)


def accumulate(
    pilot: Pilot, moments: Moments, counter: FoldCounter, data: Data, *, verbose: int = 0
) -> Moments:
    """Moments of earlier rows and these; ``counter`` advances, ``moments`` stays as it is."""
    if data.n == 0:
        return moments
    encoded = pilot.encode(data)
    groups = encoded.cells * pilot.n_folds + counter.assign(encoded.strata)
    # Sorting X (p columns) puts each group's rows side by side before the D kernel columns exist.
    order = np.argsort(groups, kind="stable")
    accumulator = Accumulator(moments)
    starts = range(0, data.n, _BLOCK_ROWS)
    label = f"moments of {data.n:,} rows"
    for start in track(starts, len(starts), label, verbose=verbose):
        rows = order[start : start + _BLOCK_ROWS]
        accumulator.add(
            pilot.features.columns(data.X[rows]),
            groups[rows],
            encoded.levels[rows],
            encoded.values[rows],
            None if data.weights is None else data.weights[rows],
        )
    log_weight = 0.0 if data.weights is None else float(np.log(data.weights).sum())
    return accumulator.finish(log_weight, moments.n_rows, pilot.features.columns(data.X[:1])[0])
