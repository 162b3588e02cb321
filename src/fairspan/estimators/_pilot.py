"""The pilot: what is frozen before the first moment is taken (METHOD 1 to 3)."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from fairspan._linalg import Array
from fairspan._validation import Data, canonical_criterion
from fairspan.codes import (
    Attribute,
    Cells,
    Coder,
    Codes,
    CrossedCoder,
    code_slices,
    infer_kind,
    slice_edges,
)
from fairspan.exceptions import DataWarning
from fairspan.features import (
    GAMMA_KERNELS,
    WIDTH_KERNELS,
    Kernel,
    LandmarkMap,
    TransformerMap,
    group_means,
    median_distance,
    pivoted_cholesky_landmarks,
    stratified_landmarks,
    width_to_gamma,
)
from fairspan.moments import Accumulator, FoldCounter, Moments
from fairspan.sdr import MIN_ROWS, kfold_errors, ridge_grid, usable_levels

N_FOLDS = 5
AUTO_COMPONENTS = 1000
MEDIAN_WIDTH = 1.5
CV_WIDTHS = (0.7, 1.5, 3.0)
_MEDIAN_ROWS = 1000
_CV_ROWS, _CV_LANDMARKS = 2000, 300
_RESIDUAL_ROWS = 500
_LANDMARK_POOL = 20_000
_BLOCK_ROWS = 2048
_MAX_GROUPS = 20
_LANDMARK_SLICES = 4


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
            np.stack(levels, axis=1),
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
    for start in range(0, data.n, _BLOCK_ROWS):
        rows = order[start : start + _BLOCK_ROWS]
        accumulator.add(
            pilot.features.columns(data.X[rows]),
            groups[rows],
            encoded.levels[rows],
            encoded.values[rows],
            None if data.weights is None else data.weights[rows],
        )
        if verbose and (start // _BLOCK_ROWS) % 25 == 24:
            done = min(start + _BLOCK_ROWS, data.n)
            print(f"[fairspan] moments: {done:,} of {data.n:,} rows", flush=True)
    log_weight = 0.0 if data.weights is None else float(np.log(data.weights).sum())
    return accumulator.finish(log_weight, moments.n_rows, pilot.features.columns(data.X[:1])[0])


# --------------------------------------------------------------------------- building


def build_pilot(est: Any, data: Data) -> Pilot:
    """Freeze everything on these rows; no moments are taken."""
    rng = np.random.default_rng(check_random_state(est.random_state).randint(2**31 - 1))
    n_slices = None if est.n_slices == "distinct" else int(est.n_slices)
    coders = _learn_coders(est, data, n_slices)
    target = _learn_target(est, data, n_slices)
    cells = _learn_cells(est, data, target, n_slices)
    # Classes are codes; a numeric y needs its slices only for SIR directions.
    code_target = target is not None and (
        target.kind == "categorical"
        or est.method == "paper"
        or (est.n_predictive_directions != "auto" and est.subspace == "model")
    )
    wants_folds = target is not None and est.alpha == "auto" and est.method != "paper"
    pilot = Pilot(
        TransformerMap(None, data.X.shape[1]), None, tuple(coders), target, code_target, cells,
        N_FOLDS if wants_folds else 1, int(rng.integers(N_FOLDS)), {},
    )  # fmt: skip
    check_levels(pilot, pilot.encode(data), est)
    features, gamma, landmark_rows = _build_features(est, data, pilot, rng)
    pilot = replace(pilot, features=features, gamma=gamma)
    _check_memory(pilot, est)
    pilot = replace(pilot, residual=_group_residual(pilot, data, landmark_rows, rng))
    return replace(pilot, fingerprint=_fingerprint(pilot))


def _kinds(est: Any, data: Data) -> dict[str, str]:
    given = est.sensitive_kind
    names = list(data.sensitive)
    if isinstance(given, str):
        wanted = dict.fromkeys(names, given)
    elif isinstance(given, Mapping):
        wanted = {**dict.fromkeys(names, "auto"), **given}
    else:
        fits = isinstance(given, list | tuple) and len(given) == len(names)
        wanted = dict(zip(names, given, strict=True)) if fits else {}
    allowed = ("auto", "categorical", "continuous")
    if set(wanted) != set(names) or any(kind not in allowed for kind in wanted.values()):
        msg = (
            f"sensitive_kind={given!r} does not fit the attributes {names}. Give 'auto', "
            f"'categorical' or 'continuous', or one of them per attribute (a list in order, or a "
            f"dict by name)."
        )
        raise ValueError(msg)
    return {
        name: infer_kind(data.sensitive[name]) if kind == "auto" else kind
        for name, kind in wanted.items()
    }


def _learn_coders(est: Any, data: Data, n_slices: int | None) -> list[Coder | CrossedCoder]:
    coders: list[Coder] = []
    for name, kind in _kinds(est, data).items():
        attribute = data.sensitive[name]
        distinct = np.unique(attribute.values[~attribute.missing])
        if len(distinct) < 2:
            only = f"only {distinct[0].item()!r}" if len(distinct) else "no value at all"
            msg = (
                f"sensitive_features {name!r} is constant ({only}); there is nothing to be fair "
                f"about. Leave it out."
            )
            raise ValueError(msg)
        if est.n_slices == "distinct" and kind == "continuous" and len(distinct) > data.n / 2:
            msg = (
                f"n_slices='distinct' would cut sensitive_features {name!r} into {len(distinct)} "
                f"slices for {data.n} rows; more than half of them single. Give an integer n_slices."
            )
            raise ValueError(msg)
        coder = Coder.learn(attribute, kind, n_slices, data.weights)  # type: ignore[arg-type]
        if kind == "categorical" and est.method != "paper":
            counts = np.bincount(
                coder.codes(data.sensitive)[~attribute.missing], minlength=coder.n_levels
            )
            _warn_groups(name, coder, counts)
        coders.append(coder)
    if est.intersectional and len(coders) > 1:
        crossed = CrossedCoder.learn(coders, data.sensitive)
        codes = crossed.codes(data.sensitive)
        _warn_groups(
            crossed.name, crossed, np.bincount(codes[codes >= 0], minlength=crossed.n_levels)
        )
        return [crossed]
    return list(coders)


def _warn_groups(name: str, coder: Coder | CrossedCoder, counts: Codes) -> None:
    small = [f"{coder.labels[h]!r} ({n} rows)" for h, n in enumerate(counts) if n < MIN_ROWS]
    if small:
        warnings.warn(
            f"Attribute {name!r} has groups of fewer than {MIN_ROWS} rows, which are left out of its "
            f"constraint: {', '.join(small[:5])}{', ...' if len(small) > 5 else ''}. Merge them with "
            f"others, or collect more.",
            DataWarning,
            stacklevel=6,
        )
    if coder.n_levels > _MAX_GROUPS:
        warnings.warn(
            f"Attribute {name!r} has {coder.n_levels} groups; parity between so many costs accuracy "
            f"and is estimated from few rows each. If it is a number, pass sensitive_kind='continuous'.",
            DataWarning,
            stacklevel=6,
        )


def _learn_target(est: Any, data: Data, n_slices: int | None) -> Coder | None:
    if data.y is None:
        return None
    wanted = getattr(est, "_target_kind", None)
    kind = wanted or infer_kind(data.y)
    distinct = np.unique(data.y.values)
    if len(distinct) < 2 and kind == "categorical":
        msg = f"y holds one class only ({distinct[0].item()!r}); two or more are needed to learn from it."
        raise ValueError(msg)
    if est.n_slices == "distinct" and kind == "continuous" and len(distinct) > data.n / 2:
        msg = (
            f"n_slices='distinct' would cut y into {len(distinct)} slices for {data.n} rows. Give an "
            f"integer n_slices, or round y."
        )
        raise ValueError(msg)
    return Coder.learn(data.y, kind, n_slices, data.weights)


def _learn_cells(est: Any, data: Data, target: Coder | None, n_slices: int | None) -> Cells:
    criterion = canonical_criterion(est.criterion)
    if criterion == "statistical_parity":
        return Cells("all", ("all rows",))
    if criterion == "conditional_statistical_parity":
        parts = [
            Coder.learn(attribute, infer_kind(attribute), n_slices, data.weights)
            for attribute in data.control.values()
        ]
        strata = CrossedCoder.learn(parts, data.control)
        prefix = " x ".join(data.control)
        return Cells("strata", tuple(f"{prefix}={label}" for label in strata.labels), strata=strata)
    assert target is not None
    if criterion == "equalized_odds":
        sign = "=" if target.kind == "categorical" else " "
        return Cells("target", tuple(f"y{sign}{label}" for label in target.labels))
    if target.kind == "continuous":
        msg = (
            "criterion='equal_opportunity' needs classes: y is numeric. For a numeric y use "
            "criterion='equalized_odds', which asks for independence within slices of y."
        )
        raise ValueError(msg)
    positive = _positive_class(est, data)
    return Cells("class", (f"y={target.labels[positive]}",), positive=positive)


def _positive_class(est: Any, data: Data) -> int:
    assert data.classes is not None
    classes = data.classes.tolist()
    if est.pos_label is not None:
        if est.pos_label not in classes:
            msg = f"pos_label={est.pos_label!r} is not in y, whose classes are {classes}."
            raise ValueError(msg)
        return classes.index(est.pos_label)
    if len(classes) == 2:
        return 1  # scikit-learn's convention: the larger label is the positive one
    msg = f"y has {len(classes)} classes ({classes[:5]}); pass pos_label to say which one is the opportunity."
    raise ValueError(msg)


def check_levels(pilot: Pilot, encoded: Encoded, est: Any) -> None:
    """Refuse an attribute that no cell can constrain, before the pass over the data."""
    min_rows = 1 if est.method == "paper" else MIN_ROWS
    for j, coder in enumerate(pilot.coders):
        usable = False
        for c in range(pilot.cells.n_constrained):
            codes = encoded.levels[encoded.cells == c, j]
            rows = np.bincount(codes[codes >= 0], minlength=coder.n_levels).tolist()
            groups = usable_levels(rows, ordered=coder.kind == "continuous", min_rows=min_rows)
            usable |= len(groups) >= 2
        if not usable:
            refuse_attribute(coder.name, pilot.cells, min_rows)


def refuse_attribute(name: str, cells: Cells, min_rows: int) -> None:
    """The error for an attribute without a usable block."""
    where = "the data" if cells.rule == "all" else f"any cell ({', '.join(cells.names[:4])})"
    msg = (
        f"sensitive_features {name!r} does not have two levels of at least {min_rows} rows in {where}, "
        f"so it cannot be constrained. Merge levels, add rows, or choose another criterion."
    )
    raise ValueError(msg)


# --------------------------------------------------------------------------- features


def _build_features(
    est: Any, data: Data, pilot: Pilot, rng: np.random.Generator
) -> tuple[LandmarkMap | TransformerMap, float | None, Codes]:
    none = np.empty(0, dtype=np.intp)
    if est.feature_map is not None:
        transformer = clone(est.feature_map)
        y = None if data.y is None else data.y.values
        transformer.fit(data.X, y)
        width = transformer.transform(data.X[:1]).shape[1]
        return TransformerMap(transformer, int(width)), None, none
    if est.kernel == "linear":
        return TransformerMap(None, data.X.shape[1]), None, none
    params = dict(est.kernel_params or {})
    gamma = None
    if callable(est.kernel):
        kernel = Kernel.from_callable(est.kernel, params, data.X)
    else:
        if est.kernel in GAMMA_KERNELS:
            gamma = _choose_gamma(est, data, pilot, rng)
            params["gamma"] = gamma
        kernel = Kernel(str(est.kernel), params)
    if est.kernel == "precomputed":
        rows, exact = _landmark_rows(est, data, pilot, kernel, rng)
        columns = rows if data.index is None else data.index[rows]  # zero-weight rows are gone
        gram = data.X[np.ix_(rows, columns)]
        index = columns[:, None].astype(np.float64)
        return LandmarkMap.build(kernel, index, gram, exact=exact), None, rows
    if not isinstance(est.landmarks, str):
        try:
            landmarks = np.asarray(est.landmarks, dtype=np.float64)
        except (TypeError, ValueError):
            landmarks = np.empty(0)
        if (
            landmarks.ndim != 2
            or landmarks.shape[1] != data.X.shape[1]
            or not np.isfinite(landmarks).all()
        ):
            msg = (
                f"landmarks must be finite rows like those of X, (m, {data.X.shape[1]}); got shape "
                f"{landmarks.shape}."
            )
            raise ValueError(msg)
        if not isinstance(est.n_components, str) and est.n_components != len(landmarks):
            msg = (
                f"n_components={est.n_components} does not fit the {len(landmarks)} landmarks given. "
                f"Leave n_components='auto'."
            )
            raise ValueError(msg)
        return (
            LandmarkMap.build(kernel, np.unique(landmarks, axis=0), None, exact=False),
            gamma,
            none,
        )
    rows, exact = _landmark_rows(est, data, pilot, kernel, rng)
    # Sorted distinct rows: the map does not depend on the order of the data.
    landmarks = np.unique(data.X[rows], axis=0)
    return LandmarkMap.build(kernel, landmarks, None, exact=exact), gamma, rows


def _landmark_rows(
    est: Any, data: Data, pilot: Pilot, kernel: Kernel, rng: np.random.Generator
) -> tuple[Codes, bool]:
    """Rows to use as landmarks, and whether they are all distinct rows (the exact method)."""
    n = data.n
    everything = np.arange(n, dtype=np.intp)
    if est.n_components == "all" or (est.n_components == "auto" and n <= AUTO_COMPONENTS):
        return everything, True
    size = AUTO_COMPONENTS if est.n_components == "auto" else int(est.n_components)
    if size > n:
        msg = f"n_components={size} is more than the {n} rows of X. Give at most {n}, 'auto' or 'all'."
        raise ValueError(msg)
    if size == n:
        return everything, True
    if est.landmarks == "rpcholesky" and est.kernel != "precomputed":
        pool = rng.choice(n, size=min(n, _LANDMARK_POOL), replace=False)
        return pool[pivoted_cholesky_landmarks(kernel, data.X[pool], size, rng)], False
    if est.landmarks == "rpcholesky":
        msg = "landmarks='rpcholesky' needs a kernel it can evaluate; with 'precomputed' use 'stratified'."
        raise ValueError(msg)
    return stratified_landmarks(_landmark_strata(pilot, data), size, rng), False


def _landmark_strata(pilot: Pilot, data: Data) -> Codes:
    """Strata cross all attributes and y, numeric ones in at most 4 slices."""
    columns: list[Codes] = []
    for coder in pilot.coders:
        parts = coder.parts if isinstance(coder, CrossedCoder) else (coder,)
        columns += [_coarse(part, data.sensitive[part.name], data.weights) for part in parts]
    if pilot.target is not None and data.y is not None:
        columns.append(_coarse(pilot.target, data.y, data.weights))
    _, strata = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return strata.ravel().astype(np.intp)


def _coarse(coder: Coder, attribute: Attribute, weights: Array | None) -> Codes:
    if coder.kind == "categorical":
        return coder.codes({coder.name: attribute})
    present = ~attribute.missing
    out = np.full(len(present), -1, dtype=np.intp)
    values = attribute.values[present].astype(np.float64)
    edges = slice_edges(values, _LANDMARK_SLICES, None if weights is None else weights[present])
    out[present] = code_slices(values, edges)
    return out


def _choose_gamma(est: Any, data: Data, pilot: Pilot, rng: np.random.Generator) -> float:
    if not isinstance(est.gamma, str):
        return float(est.gamma)
    variance = float(data.X.var())
    scale = 1.0 / (data.X.shape[1] * variance) if variance > 0 else 1.0
    if est.gamma == "scale" or est.kernel not in WIDTH_KERNELS:
        return 1.0 if est.kernel == "chi2" else scale
    rows = rng.choice(data.n, size=min(data.n, _MEDIAN_ROWS), replace=False)
    median = median_distance(data.X[rows], est.kernel)
    if est.gamma == "median" or data.y is None:
        return width_to_gamma(MEDIAN_WIDTH * median, est.kernel)
    sample = data.take(rng.choice(data.n, size=min(data.n, _CV_ROWS), replace=False))
    candidates = [width_to_gamma(m * median, est.kernel) for m in CV_WIDTHS]
    errors = [_cv_error(est, sample, pilot, gamma) for gamma in candidates]
    return candidates[int(np.argmin(errors))]


def _cv_error(est: Any, sample: Data, pilot: Pilot, gamma: float) -> float:
    """Smallest 5-fold error of kernel ridge over the ridge grid, on a subsample."""
    kernel = Kernel(str(est.kernel), {**dict(est.kernel_params or {}), "gamma": gamma})
    landmarks = np.unique(sample.X[:_CV_LANDMARKS], axis=0)
    features = LandmarkMap.build(kernel, landmarks, None, exact=False)
    # Only the target's moments are needed: no attributes, one cell.
    small = replace(
        pilot, features=features, n_folds=N_FOLDS, cells=Cells("all", ("all rows",)),
        code_target=not pilot.target_is_numeric,
    )  # fmt: skip
    moments = accumulate(small, small.empty_moments(), small.counter(), sample)
    moments = moments.project(features.whitening)
    grid = ridge_grid(float(np.trace(moments.pool().cov)))
    return float(kfold_errors(moments, small.target_position(), grid).min())


def _group_residual(
    pilot: Pilot, data: Data, landmark_rows: Codes, rng: np.random.Generator
) -> dict[str, dict[str, float]]:
    """Mean share of each group that the landmarks cannot see, on rows that are not landmarks."""
    features = pilot.features
    if isinstance(features, LandmarkMap) and features.kernel.name == "precomputed":
        return {}
    others = np.setdiff1d(np.arange(data.n), landmark_rows)
    if len(others) == 0 or features.exact:
        others = np.arange(data.n)
    rows = rng.choice(others, size=min(len(others), _RESIDUAL_ROWS), replace=False)
    part = data.take(rows)
    codes = {coder.name: coder.codes(part.sensitive) for coder in pilot.coders}
    labels = {coder.name: coder.labels for coder in pilot.coders}
    return group_means(features.residual(part.X), codes, labels)


# --------------------------------------------------------------------------- limits, identity


def _check_memory(pilot: Pilot, est: Any) -> None:
    need = 2 * Moments.bytes_needed(
        pilot.cells.n_groups, pilot.n_folds, sum(pilot.level_sizes), len(pilot.numeric),
        pilot.features.n_columns,
    )  # fmt: skip
    if est.verbose:
        print(f"[fairspan] moments take about {need / 2**20:,.0f} MiB", flush=True)
    ram = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > ram / 4:
        msg = (
            f"The moments of {pilot.features.n_columns} feature columns in {pilot.cells.n_groups} "
            f"cells and {pilot.n_folds} folds would take {need / 2**30:.1f} GiB, more than a quarter "
            f"of this machine's {ram / 2**30:.1f} GiB. Lower n_components, use fewer strata or "
            f"n_slices, or fix alpha (one fold instead of {N_FOLDS})."
        )
        raise ValueError(msg)


def _fingerprint(pilot: Pilot) -> str:
    """Hash of everything that must agree before moments may be added."""
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
        else:  # a fitted transformer: its learnt arrays are its identity
            digest.update(type(value).__qualname__.encode())
            feed({str(k): v for k, v in sorted(vars(value).items()) if isinstance(v, np.ndarray)})

    feed(pilot)
    return digest.hexdigest()
