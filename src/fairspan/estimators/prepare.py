"""Build the pilot: feature map, bandwidth and landmarks, chosen from the training rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.optimize
from sklearn.base import clone

from fairspan._system import memory_bytes
from fairspan.estimators.prepare_codes import check_levels, learn_cells, learn_coders, learn_target
from fairspan.inputs.rows import read_seed
from fairspan.method.accumulate import MomentsPass
from fairspan.method.codes import Cells, Coder, CrossedCoder, code_slices, slice_edges
from fairspan.method.features import (
    LandmarkMap,
    TransformerMap,
    group_means,
    pivoted_cholesky_landmarks,
    stratified_landmarks,
)
from fairspan.method.gp import evidence_ridge
from fairspan.method.kernels import (
    GAMMA_KERNELS,
    WIDTH_KERNELS,
    Kernel,
    median_distance,
    width_to_gamma,
)
from fairspan.method.linalg import Array
from fairspan.method.moments import Moments
from fairspan.method.pilot import N_FOLDS, Pilot, fingerprint
from fairspan.method.problem import Attribute, Codes, Data, FitConfig
from fairspan.method.sdr import kfold_errors, ridge_grid, target_covariance

AUTO_COMPONENTS = 1000
_RESIDUAL_ROWS, _RESIDUAL_GROUP = 500, 50
_LANDMARK_POOL = 20_000
_LANDMARK_SLICES = 4


def build_features(
    config: FitConfig, data: Data, pilot: Pilot, rng: np.random.Generator
) -> tuple[LandmarkMap | TransformerMap, float | None, Codes]:
    """Feature map, bandwidth, and the landmark rows (empty if there are none)."""
    none = np.empty(0, dtype=np.intp)
    if config.kernel != "precomputed" and not np.ptp(data.X, axis=0).any():
        msg = "X is constant: every row is the same, so there is nothing to learn from it."
        raise ValueError(msg)
    if config.feature_map is not None:
        transformer = clone(config.feature_map)
        y = None if data.y is None else data.y.values
        transformer.fit(data.X, y)
        width = transformer.transform(data.X[:1]).shape[1]
        _check_memory(pilot, config, int(width), 0)
        return TransformerMap(transformer, int(width)), None, none
    if config.kernel == "linear":
        _check_memory(pilot, config, data.X.shape[1], 0)
        return TransformerMap(None, data.X.shape[1]), None, none
    params = dict(config.kernel_params or {})
    gamma = None
    if callable(config.kernel):
        kernel = Kernel.from_callable(config.kernel, params, data.X)
    else:
        if config.kernel in GAMMA_KERNELS:
            gamma = choose_gamma(config, data, pilot, rng)
            params["gamma"] = gamma
        kernel = Kernel(str(config.kernel), params)
    if config.mean == "linear":
        kernel = kernel.with_trend(data.X)
    if config.kernel == "precomputed":
        rows, exact = _landmark_rows(config, data, pilot, kernel, rng)
        columns = rows if data.index is None else data.index[rows]  # zero-weight rows are gone
        _check_memory(pilot, config, len(rows), len(rows))
        gram = data.X[np.ix_(rows, columns)]
        index = columns[:, None].astype(np.float64)
        return LandmarkMap.build(kernel, index, gram, exact=exact), None, rows
    if not isinstance(config.landmarks, str):
        try:
            landmarks = np.asarray(config.landmarks, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
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
        if not isinstance(config.n_components, str) and config.n_components != len(landmarks):
            msg = (
                f"n_components={config.n_components} does not fit the {len(landmarks)} landmarks given. "
                f"Leave n_components='auto'."
            )
            raise ValueError(msg)
        landmarks = np.unique(landmarks, axis=0)
        _check_memory(pilot, config, len(landmarks), len(landmarks))
        return LandmarkMap.build(kernel, landmarks, None, exact=False), gamma, none
    rows, exact = _landmark_rows(config, data, pilot, kernel, rng)
    # Sorted distinct rows: the map does not depend on the order of the data.
    landmarks = np.unique(data.X[rows], axis=0)
    _check_memory(pilot, config, len(landmarks), len(landmarks))
    return LandmarkMap.build(kernel, landmarks, None, exact=exact), gamma, rows


def _check_memory(pilot: Pilot, config: FitConfig, n_columns: int, n_landmarks: int) -> None:
    """Refuse before the first large array: moments, and the landmarks' eigendecomposition."""
    need = 2 * Moments.bytes_needed(
        n_cells=pilot.cells.n_groups,
        n_folds=pilot.n_folds,
        n_levels=sum(pilot.level_sizes),
        n_numeric=len(pilot.numeric),
        n_columns=n_columns,
    )
    need += 4 * 8 * n_landmarks**2
    if config.verbose:
        print(f"[fairspan] fitting takes about {need / 2**20:,.0f} MiB", flush=True)
    ram = memory_bytes()
    if ram is not None and need > ram / 4:
        msg = (
            f"{n_columns} feature columns in {pilot.cells.n_groups} cells and {pilot.n_folds} folds would "
            f"take {need / 2**30:.1f} GiB, more than a quarter of this machine's {ram / 2**30:.1f} GiB. "
            f"Lower n_components, use fewer strata or n_slices, or do without folds (one instead of "
            f"{N_FOLDS}): fix alpha, and calibrate=False for a classifier with probabilities."
        )
        raise ValueError(msg)


def _landmark_rows(
    config: FitConfig, data: Data, pilot: Pilot, kernel: Kernel, rng: np.random.Generator
) -> tuple[Codes, bool]:
    """Rows to use as landmarks, and whether they are all distinct rows (the exact method)."""
    n = data.n
    everything = np.arange(n, dtype=np.intp)
    if config.n_components == "all" or (config.n_components == "auto" and n <= AUTO_COMPONENTS):
        return everything, True
    size = AUTO_COMPONENTS if config.n_components == "auto" else int(config.n_components)
    if size > n:
        msg = f"n_components={size} is more than the {n} rows of X. Give at most {n}, 'auto' or 'all'."
        raise ValueError(msg)
    if size == n:
        return everything, True
    if config.landmarks == "rpcholesky" and config.kernel != "precomputed":
        pool = rng.choice(n, size=min(n, _LANDMARK_POOL), replace=False)
        return pool[pivoted_cholesky_landmarks(kernel, data.X[pool], size, rng)], False
    if config.landmarks == "rpcholesky":
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


MEDIAN_WIDTH = 1.5
CV_WIDTHS = (0.7, 1.5, 3.0)
_MEDIAN_ROWS = 1000
_CV_ROWS, _CV_LANDMARKS = 1500, 200
# Evidence: exact on few rows; widths, in median distances, from which a search starts.
_EVIDENCE_ROWS = 500
_EVIDENCE_STARTS = (0.1, 0.3, 1.0, 3.0, 10.0)


def choose_gamma(config: FitConfig, data: Data, pilot: Pilot, rng: np.random.Generator) -> float:
    """Bandwidth of the kernel by the rule that ``gamma`` names."""
    if not isinstance(config.gamma, str):
        return float(config.gamma)
    variance = float(data.X.var())
    scale = 1.0 / (data.X.shape[1] * variance) if variance > 0 else 1.0
    if config.gamma == "scale" or config.kernel not in WIDTH_KERNELS:
        return 1.0 if config.kernel == "chi2" else scale
    rows = rng.choice(data.n, size=min(data.n, _MEDIAN_ROWS), replace=False)
    median = median_distance(data.X[rows], config.kernel)
    if config.gamma == "median" or data.y is None:
        return width_to_gamma(MEDIAN_WIDTH * median, str(config.kernel))
    if config.gamma == "evidence":
        few = data.take(rng.choice(data.n, size=min(data.n, _EVIDENCE_ROWS), replace=False))
        return _by_evidence(config, few, pilot, median)
    sample = data.take(rng.choice(data.n, size=min(data.n, _CV_ROWS), replace=False))
    candidates = [width_to_gamma(m * median, str(config.kernel)) for m in CV_WIDTHS]
    errors = [_cv_error(config, sample, pilot, gamma) for gamma in candidates]
    return candidates[int(np.argmin(errors))]


def _cv_error(config: FitConfig, sample: Data, pilot: Pilot, gamma: float) -> float:
    """Smallest 5-fold error of kernel ridge over the ridge grid, on a subsample."""
    landmarks = np.unique(sample.X[:_CV_LANDMARKS], axis=0)
    moments, small = _target_moments(config, sample, pilot, gamma, landmarks)
    grid = ridge_grid(float(np.trace(moments.pool().cov)))
    return float(kfold_errors(moments, small.target_position(), grid).min())


def _by_evidence(config: FitConfig, sample: Data, pilot: Pilot, median: float) -> float:
    """The width of largest evidence, noise and prior precision at their best for each.

    Evidence has several local optima in the width, so the search starts from several.
    """
    landmarks = np.unique(sample.X, axis=0)

    def minus_two(log_width: float) -> float:
        gamma = width_to_gamma(float(np.exp(log_width)) * median, str(config.kernel))
        moments, small = _target_moments(config, sample, pilot, gamma, landmarks)
        total = moments.pool()
        kind, index = small.target_position()
        target = total.levels[index] if kind == "levels" else total.columns[index]
        cross, _, variance = target_covariance(total, target)
        found = evidence_ridge(
            total.cov,
            cross,
            variance,
            total.rows,
            total.weight,
            deeper=small.features.trend_decades,
        )
        return found.minus_two

    starts = np.log(_EVIDENCE_STARTS)
    reach = np.diff(starts).max()
    found = [
        scipy.optimize.minimize_scalar(
            minus_two,
            bounds=(start - reach, start + reach),
            method="bounded",
            options={"xatol": 0.05, "maxiter": 12},
        )
        for start in starts
    ]
    best = min(found, key=lambda one: float(one.fun))
    return width_to_gamma(float(np.exp(best.x)) * median, str(config.kernel))


def _target_moments(
    config: FitConfig, sample: Data, pilot: Pilot, gamma: float, landmarks: Array
) -> tuple[Moments, Pilot]:
    """Moments of the target alone: no attributes, one cell."""
    kernel = Kernel(str(config.kernel), {**dict(config.kernel_params or {}), "gamma": gamma})
    if config.mean == "linear":
        kernel = kernel.with_trend(sample.X)
    features = LandmarkMap.build(kernel, landmarks, None, exact=False)
    small = replace(
        pilot,
        coders=(),
        features=features,
        n_folds=N_FOLDS,
        cells=Cells("all", ("all rows",)),
        code_target=not pilot.target_is_numeric,
    )
    row_pass = MomentsPass(small, small.empty_moments())
    row_pass.add(replace(sample, sensitive={}, control={}), small.counter())
    return row_pass.moments().project(features.whitening), small


def build_pilot(config: FitConfig, data: Data, fold_rule: str = "strata") -> Pilot:
    """Freeze everything that is chosen before the moments are taken, on these rows."""
    rng = np.random.default_rng(read_seed(config.random_state).randint(2**31 - 1))
    coders = learn_coders(config, data)
    target = learn_target(config, data)
    # Classes are codes; a numeric y needs its slices only for SIR directions.
    code_target = target is not None and (
        target.kind == "categorical"
        or not config.variant.exact
        or (config.n_predictive_directions != "auto" and config.subspace == "model")
    )
    pilot = Pilot(
        features=TransformerMap(None, data.X.shape[1]),
        gamma=None,
        coders=tuple(coders),
        target=target,
        code_target=code_target,
        cells=learn_cells(config, data, target),
        n_folds=N_FOLDS if target is not None and config.needs_folds else 1,
        fold_offset=int(rng.integers(N_FOLDS)),
        residual={},
        fold_rule=fold_rule,
    )
    check_levels(pilot, pilot.encode(data), config, data.weights)
    features, gamma, landmark_rows = build_features(config, data, pilot, rng)
    pilot = replace(pilot, features=features, gamma=gamma)
    pilot = replace(pilot, residual=group_residual(pilot, data, landmark_rows, rng))
    return replace(pilot, fingerprint=fingerprint(pilot, data.X[:16]))
