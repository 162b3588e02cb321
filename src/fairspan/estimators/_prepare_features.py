"""Building the feature map on the pilot rows: landmarks, bandwidth, residual (METHOD 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from fairspan._linalg import Array
from fairspan._system import memory_bytes
from fairspan._validation import Data
from fairspan.codes import Attribute, Coder, Codes, CrossedCoder, code_slices, slice_edges
from fairspan.estimators._pilot import N_FOLDS, Pilot
from fairspan.estimators._prepare_gamma import choose_gamma
from fairspan.features import (
    GAMMA_KERNELS,
    Kernel,
    LandmarkMap,
    TransformerMap,
    group_means,
    pivoted_cholesky_landmarks,
    stratified_landmarks,
)
from fairspan.moments import Moments

AUTO_COMPONENTS = 1000
_RESIDUAL_ROWS, _RESIDUAL_GROUP = 500, 50
_LANDMARK_POOL = 20_000
_LANDMARK_SLICES = 4


def build_features(
    est: Any, data: Data, pilot: Pilot, rng: np.random.Generator
) -> tuple[LandmarkMap | TransformerMap, float | None, Codes]:
    none = np.empty(0, dtype=np.intp)
    if est.kernel != "precomputed" and not np.ptp(data.X, axis=0).any():
        msg = "X is constant: every row is the same, so there is nothing to learn from it."
        raise ValueError(msg)
    if est.feature_map is not None:
        transformer = clone(est.feature_map)
        y = None if data.y is None else data.y.values
        transformer.fit(data.X, y)
        width = transformer.transform(data.X[:1]).shape[1]
        _check_memory(pilot, est, int(width), 0)
        return TransformerMap(transformer, int(width)), None, none
    if est.kernel == "linear":
        _check_memory(pilot, est, data.X.shape[1], 0)
        return TransformerMap(None, data.X.shape[1]), None, none
    params = dict(est.kernel_params or {})
    gamma = None
    if callable(est.kernel):
        kernel = Kernel.from_callable(est.kernel, params, data.X)
    else:
        if est.kernel in GAMMA_KERNELS:
            gamma = choose_gamma(est, data, pilot, rng)
            params["gamma"] = gamma
        kernel = Kernel(str(est.kernel), params)
    if getattr(est, "mean", "constant") == "linear":
        kernel = kernel.with_trend(data.X)
    if est.kernel == "precomputed":
        rows, exact = _landmark_rows(est, data, pilot, kernel, rng)
        columns = rows if data.index is None else data.index[rows]  # zero-weight rows are gone
        _check_memory(pilot, est, len(rows), len(rows))
        gram = data.X[np.ix_(rows, columns)]
        index = columns[:, None].astype(np.float64)
        return LandmarkMap.build(kernel, index, gram, exact=exact), None, rows
    if not isinstance(est.landmarks, str):
        try:
            landmarks = np.asarray(est.landmarks, dtype=np.float64)
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
        if not isinstance(est.n_components, str) and est.n_components != len(landmarks):
            msg = (
                f"n_components={est.n_components} does not fit the {len(landmarks)} landmarks given. "
                f"Leave n_components='auto'."
            )
            raise ValueError(msg)
        landmarks = np.unique(landmarks, axis=0)
        _check_memory(pilot, est, len(landmarks), len(landmarks))
        return LandmarkMap.build(kernel, landmarks, None, exact=False), gamma, none
    rows, exact = _landmark_rows(est, data, pilot, kernel, rng)
    # Sorted distinct rows: the map does not depend on the order of the data.
    landmarks = np.unique(data.X[rows], axis=0)
    _check_memory(pilot, est, len(landmarks), len(landmarks))
    return LandmarkMap.build(kernel, landmarks, None, exact=exact), gamma, rows


def _check_memory(pilot: Pilot, est: Any, n_columns: int, n_landmarks: int) -> None:
    """Refuse before the first large array: moments, and the landmarks' eigendecomposition."""
    need = 2 * Moments.bytes_needed(
        pilot.cells.n_groups, pilot.n_folds, sum(pilot.level_sizes), len(pilot.numeric), n_columns
    )
    need += 4 * 8 * n_landmarks**2
    if est.verbose:
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
