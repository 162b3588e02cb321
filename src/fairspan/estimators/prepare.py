"""Build the pilot from the training rows: category lists, slice edges and cells, bandwidth and landmarks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from fairspan._system import memory_bytes
from fairspan.estimators.probability_coders import learn_probability_coder
from fairspan.exceptions import DataWarning, warn_user
from fairspan.inputs.config import draw_seed
from fairspan.method.accumulate import MomentsPass
from fairspan.method.codes import (
    MAX_INTEGER_CATEGORIES,
    Cells,
    Coder,
    CrossedCoder,
    code_slices,
    infer_kind,
    infer_kinds,
    kinds_by_name,
    slice_edges,
    warn_of_doubtful_labels,
    warn_of_few_values,
)
from fairspan.method.features import (
    LandmarkMap,
    TransformerMap,
    pivoted_cholesky_landmarks,
    stratified_landmarks,
)
from fairspan.method.folds import RowKeys, hash_rows
from fairspan.method.gp import evidence_ridge
from fairspan.method.kernels import (
    GAMMA_KERNELS,
    WIDTH_KERNELS,
    Kernel,
    median_distance,
    width_to_gamma,
)
from fairspan.method.known_rows import cluster_shares
from fairspan.method.linalg import Array
from fairspan.method.moments import Moments
from fairspan.method.pilot import N_FOLDS, Pilot, fingerprint, group_residual
from fairspan.method.probabilities import ProbabilityCoder
from fairspan.method.problem import Attribute, Codes, Data, FitConfig, GroupProbabilities
from fairspan.method.removal import check_levels
from fairspan.method.sdr import kfold_errors, ridge_grid, target_covariance
from fairspan.method.sparse_rows import SparseRows, as_matrix, column_ranges, is_sparse

_MAX_GROUPS = 20


def _kinds(config: FitConfig, data: Data) -> dict[str, str]:
    wanted = kinds_by_name(config.sensitive_kind, list(data.sensitive))
    auto = {name: data.sensitive[name] for name, kind in wanted.items() if kind == "auto"}
    if not config.variant.exact and config.max_slices is None:  # every value is a level in any case
        guessed = {name: infer_kind(attribute) for name, attribute in auto.items()}
    else:
        guessed = infer_kinds(auto)
    return {name: guessed.get(name, kind) for name, kind in wanted.items()}


def learn_coders(config: FitConfig, data: Data) -> list[Coder | CrossedCoder | ProbabilityCoder]:
    """One coder per protected attribute, and one for their combinations if these are asked for."""
    warn_of_doubtful_labels(data.sensitive, "sensitive_features")
    coders: list[Coder] = []
    out: list[Coder | CrossedCoder | ProbabilityCoder] = []
    for name, kind in _kinds(config, data).items():
        attribute = data.sensitive[name]
        if isinstance(attribute, GroupProbabilities):
            probable, size = learn_probability_coder(config, attribute, data.weights)
            _warn_groups(name, probable, size, config.variant.min_rows)
            out.append(probable)
            continue
        distinct = np.unique(attribute.values[~attribute.missing])
        if len(distinct) < 2:
            only = f"only {distinct[0].item()!r}" if len(distinct) else "no value at all"
            msg = (
                f"sensitive_features {name!r} is constant ({only}); there is nothing to be fair "
                f"about. Leave it out."
            )
            raise ValueError(msg)
        if config.max_slices is None and kind == "continuous" and len(distinct) > data.n / 2:
            msg = (
                f"n_slices='distinct' would cut sensitive_features {name!r} into {len(distinct)} "
                f"slices for {data.n} rows; more than half of them single. Give an integer n_slices."
            )
            raise ValueError(msg)
        coder = Coder.learn(attribute, kind, config.max_slices, data.weights)  # type: ignore[arg-type]
        if kind == "categorical" and config.variant.exact:
            counts = np.bincount(
                coder.codes(data.sensitive)[~attribute.missing], minlength=coder.n_levels
            )
            _warn_groups(name, coder, counts, config.variant.min_rows)
        coders.append(coder)
        out.append(coder)
    if config.intersectional and len(coders) > 1:
        crossed = CrossedCoder.learn(coders, data.sensitive)
        codes = crossed.codes(data.sensitive)
        counts = np.bincount(codes[codes >= 0], minlength=crossed.n_levels)
        _warn_groups(crossed.name, crossed, counts, config.variant.min_rows)
        return [crossed]
    return out


def _warn_groups(
    name: str,
    coder: Coder | CrossedCoder | ProbabilityCoder,
    counts: Codes | Array,
    min_rows: int,
) -> None:
    labels = coder.labels  # computed at every access
    small = [f"{labels[h]!r} ({n:.6g} rows)" for h, n in enumerate(counts) if n < min_rows]
    if small:
        warn_user(
            f"Attribute {name!r} has groups of fewer than {min_rows} rows, which are left out of its "
            f"constraint: {', '.join(small[:5])}{', ...' if len(small) > 5 else ''}. Merge them with "
            f"others, or collect more.",
            DataWarning,
        )
    if coder.n_levels > _MAX_GROUPS:
        warn_user(
            f"Attribute {name!r} has {coder.n_levels} groups; parity between so many costs accuracy "
            f"and is estimated from few rows each. If it is a number, pass "
            f"sensitive_kind={ {name: 'continuous'} }.",
            DataWarning,
        )


def learn_target(config: FitConfig, data: Data) -> Coder | None:
    """The coder of y; None without y."""
    if data.y is None:
        return None
    wanted = config.target_kind
    kind = wanted or infer_kind(data.y)
    warn_of_doubtful_labels({"y": data.y}, "target")
    distinct = np.unique(data.y.values)
    numbers = distinct.dtype.kind == "f"
    if wanted == "continuous" and not numbers:
        msg = (
            f"y does not hold numbers (its first value is {distinct[0].item()!r}), which "
            f"{config.estimator} needs. For classes use a classifier, e.g. FairRidgeClassifier."
        )
        raise ValueError(msg)
    if wanted == "categorical" and numbers and (distinct != np.floor(distinct)).any():
        msg = (
            f"Unknown label type: continuous. y holds numbers with decimals, and {config.estimator} "
            f"needs classes. Use a regressor, e.g. FairRidge, or turn y into text."
        )
        raise ValueError(msg)
    few = numbers and len(distinct) <= MAX_INTEGER_CATEGORIES
    if wanted is None and kind == "continuous" and few and (distinct == np.floor(distinct)).all():
        warn_user(
            f"y holds {len(distinct)} distinct whole numbers as floats, and {config.estimator} reads "
            f"floats as amounts. If they are classes, give integers or text (in Python, y.astype(int)).",
            DataWarning,
        )
    if len(distinct) < 2 and kind == "categorical":
        msg = f"y holds one class only ({distinct[0].item()!r}); two or more are needed to learn from it."
        raise ValueError(msg)
    if config.max_slices is None and kind == "continuous" and len(distinct) > data.n / 2:
        msg = (
            f"n_slices='distinct' would cut y into {len(distinct)} slices for {data.n} rows. Give an "
            f"integer n_slices, or round y."
        )
        raise ValueError(msg)
    return Coder.learn(data.y, kind, config.max_slices, data.weights)


def learn_cells(config: FitConfig, data: Data, target: Coder | None) -> Cells:
    """The cells in which the criterion asks for parity."""
    criterion = config.criterion_name
    if config.pos_label is not None and target is not None and target.kind == "categorical":
        # A class that y does not have is an error for every criterion.
        _positive_class(config, data, target)
    if criterion == "statistical_parity":
        return Cells("all", ("all rows",))
    if criterion == "conditional_statistical_parity":
        warn_of_doubtful_labels(data.control, "control_features")
        warn_of_few_values(data.control, config.max_slices, "control_features")
        parts = [
            Coder.learn(attribute, infer_kind(attribute), config.max_slices, data.weights)
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
    positive = _positive_class(config, data, target)
    return Cells("class", (f"y={target.labels[positive]}",), positive=positive)


def _positive_class(config: FitConfig, data: Data, target: Coder) -> int:
    assert data.classes is not None
    classes = data.classes.in_order_of(target).tolist()
    if config.pos_label is not None:
        if config.pos_label not in classes:
            msg = f"pos_label={config.pos_label!r} is not in y, whose classes are {classes}."
            raise ValueError(msg)
        return int(classes.index(config.pos_label))
    if len(classes) == 2 and not isinstance(classes[0], str):
        return 1  # scikit-learn's convention: the larger label is the positive one
    msg = f"y has {len(classes)} classes ({classes[:5]}); pass pos_label to say which one is the opportunity."
    raise ValueError(msg)


AUTO_COMPONENTS = 1000
# Columns of sparse X whose moments a linear kernel takes. Ten times as many would take 80 GB in five folds.
MOST_LINEAR = 4000
_LANDMARK_POOL = 20_000
_LANDMARK_SLICES = 4
# Each sample has an order of the rows of its own.
_SALTS = {"landmarks": 11, "median": 12, "evidence": 13, "validation": 14, "residual": 15}


def _as_given(attribute: Attribute) -> Any:
    """Values of an attribute with integers as integers, and None for those that are missing."""
    values: Any = attribute.values
    if attribute.dtype_kind == "i":
        values = values.astype(np.int64)
    if attribute.missing.any():
        values = values.astype(object)
        values[attribute.missing] = None
    return values


def build_features(
    config: FitConfig, data: Data, pilot: Pilot, keys: RowKeys, *, own_columns: bool = False
) -> tuple[LandmarkMap | TransformerMap, float | None, Codes]:
    """Feature map, bandwidth, and the landmark rows (empty if there are none).

    With ``own_columns`` a linear kernel has the columns of X, however many there are.
    """
    none = np.empty(0, dtype=np.intp)
    if config.kernel != "precomputed" and not column_ranges(data.X).any():
        msg = "X is constant: every row is the same, so there is nothing to learn from it."
        raise ValueError(msg)
    if config.feature_map is not None:
        transformer = clone(config.feature_map)
        given = {}
        if has_fit_parameter(transformer, "sensitive_features"):
            if pilot.pair_variables:
                msg = (
                    f"{type(transformer).__name__} uses the groups of rows, and sensitive_kind="
                    f"'probabilities' does not have them. Use a feature_map without sensitive_features, or a "
                    f"kernel."
                )
                raise ValueError(msg)
            given["sensitive_features"] = {k: _as_given(a) for k, a in data.sensitive.items()}
            if data.clusters is not None:
                msg = (
                    f"groups was given, but {type(transformer).__name__} would divide the rows of a group "
                    f"between its own folds. Use another feature_map, or leave groups out."
                )
                raise ValueError(msg)
            if data.weights is not None:
                warn_user(
                    f"{type(transformer).__name__} does not use sample_weight; the model on its columns "
                    f"does.",
                    DataWarning,
                )
        y: Any = None
        if data.y is not None:
            y = data.y.values if pilot.target_is_numeric else _as_given(data.y)
        transformer.fit(as_matrix(data.X), y, **given)
        width = transformer.transform(as_matrix(data.X[:1])).shape[1]
        _check_memory(pilot, config, int(width), 0)
        return TransformerMap(transformer, int(width)), None, none
    if config.kernel == "linear" and (own_columns or not _needs_landmarks(config, data, pilot)):
        _check_memory(pilot, config, data.X.shape[1], 0)
        return TransformerMap(None, data.X.shape[1]), None, none
    params = dict(config.kernel_params or {})
    gamma = None
    if callable(config.kernel):
        kernel = Kernel.from_callable(config.kernel, params, data.X)
    else:
        if config.kernel in GAMMA_KERNELS:
            gamma = choose_gamma(config, data, pilot, keys)
            params["gamma"] = gamma
        kernel = Kernel(str(config.kernel), params)
    if config.mean == "linear":
        kernel = kernel.with_trend(data.X)
    if config.kernel == "precomputed":
        rows, exact = _landmark_rows(config, data, pilot, kernel, keys)
        columns = rows if data.index is None else data.index[rows]  # zero-weight rows are gone
        _check_memory(pilot, config, len(rows), len(rows))
        gram = data.X[np.ix_(rows, columns)]
        index = columns[:, None].astype(np.float64)
        return LandmarkMap.build(kernel, index, gram, exact=exact), None, rows
    if not isinstance(config.landmarks, str):
        landmarks = _given_landmarks(config)
        if (
            landmarks.ndim != 2
            or landmarks.shape[1] != data.X.shape[1]
            or not np.isfinite(landmarks.values if is_sparse(landmarks) else landmarks).all()
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
        landmarks = _distinct(landmarks)
        _check_memory(pilot, config, len(landmarks), len(landmarks))
        return LandmarkMap.build(kernel, landmarks, None, exact=False), gamma, none
    rows, exact = _landmark_rows(config, data, pilot, kernel, keys)
    landmarks = _distinct(data.X[rows], by_hash=config.kernel == "linear")
    _check_memory(pilot, config, len(landmarks), len(landmarks))
    return LandmarkMap.build(kernel, landmarks, None, exact=exact), gamma, rows


def _keeps_columns(data: Data, pilot: Pilot) -> bool:
    """Whether X is dense, and the moments of its columns fit into memory."""
    return not is_sparse(data.X) and _memory_excess(pilot, int(data.X.shape[1]), 0) is None


def _given_landmarks(config: FitConfig) -> Any:
    """Landmarks of the user as numbers; of no rows if they are something else."""
    given: Any = config.landmarks
    try:
        if scipy.sparse.issparse(given):
            return SparseRows.of(given) if config.kernel == "linear" else given.toarray()
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.empty(0)


def _distinct(rows: Any, *, by_hash: bool = False) -> Any:
    """Sorted distinct rows, so that the map does not depend on the order of the data.

    The order by hash is the same for sparse rows and arrays.
    """
    if not by_hash and not is_sparse(rows):
        return np.unique(rows, axis=0)
    _, first = np.unique(hash_rows(rows, None, 0), return_index=True)
    return rows[first]


def _needs_landmarks(config: FitConfig, data: Data, pilot: Pilot) -> bool:
    """Whether a linear kernel uses rows as landmarks, because X has more columns than moments can take.

    A function of the columns is then a combination of these rows. It is the same function if they are
    all rows, because the best function is such a combination (the representer theorem). Fewer rows can cost
    much accuracy, so dense X, which is large already, keeps its columns as long as memory allows.
    """
    n_columns = int(data.X.shape[1])
    if n_columns <= MOST_LINEAR or _keeps_columns(data, pilot):
        return False
    if not isinstance(config.landmarks, str):
        given = _given_landmarks(config)
        return given.ndim != 2 or int(given.shape[0]) < n_columns
    n_landmarks = {"all": data.n, "auto": min(data.n, AUTO_COMPONENTS)}
    return int(n_landmarks.get(str(config.n_components), config.n_components)) < n_columns


def _warn_wide(config: FitConfig, data: Data, pilot: Pilot) -> None:
    """Say how much a linear kernel loses because it has landmarks."""
    features = pilot.features
    if config.kernel != "linear" or not isinstance(features, LandmarkMap) or features.exact:
        return
    shares = {
        f"{name}={label}": share
        for name, groups in pilot.residual.items()
        for label, share in groups.items()
    }
    worst = max(shares, key=shares.__getitem__)
    warn_user(
        f"X has {data.X.shape[1]:,} columns, more than {MOST_LINEAR:,}, so kernel='linear' uses "
        f"{len(features.landmarks):,} of the {data.n:,} rows as landmarks, and the model is a combination of "
        f"these. They leave out {shares[worst]:.0%} of the squared length of rows with {worst} "
        f"(approximation_residual_ has all groups), and the model may be much less accurate. Give "
        f"n_components='all' for all rows, or X with fewer columns, e.g. "
        f"TfidfVectorizer(max_features={MOST_LINEAR}) or feature_map=TruncatedSVD(300).",
        DataWarning,
    )


def _bytes_needed(pilot: Pilot, n_columns: int, n_landmarks: int) -> int:
    """Memory of the moments, and of the landmarks' eigendecomposition."""
    moments = Moments.bytes_needed(
        n_cells=pilot.cells.n_groups,
        n_folds=pilot.n_folds,
        n_levels=sum(pilot.level_sizes),
        n_numeric=len(pilot.numeric),
        n_columns=n_columns,
    )
    return int(2 * moments + 4 * 8 * n_landmarks**2)


def _memory_excess(pilot: Pilot, n_columns: int, n_landmarks: int) -> tuple[int, int] | None:
    """Bytes that a fit takes and bytes of the machine, if those are more than a quarter of these."""
    need, ram = _bytes_needed(pilot, n_columns, n_landmarks), memory_bytes()
    return (need, ram) if ram is not None and need > ram / 4 else None


def _check_memory(pilot: Pilot, config: FitConfig, n_columns: int, n_landmarks: int) -> None:
    """Refuse before the first large array."""
    if config.verbose:
        need = _bytes_needed(pilot, n_columns, n_landmarks)
        print(f"[fairspan] fitting takes about {need / 2**20:,.0f} MiB", flush=True)
    if (excess := _memory_excess(pilot, n_columns, n_landmarks)) is not None:
        need, ram = excess
        msg = (
            f"{n_columns} feature columns in {pilot.cells.n_groups} cells and {pilot.n_folds} folds would "
            f"take {need / 2**30:.1f} GiB, more than a quarter of this machine's {ram / 2**30:.1f} GiB. "
            f"Lower n_components, use fewer strata or n_slices, or do without folds (one instead of "
            f"{N_FOLDS}): fix alpha, and calibrate=False for a classifier with probabilities."
        )
        raise ValueError(msg)


def _landmark_rows(
    config: FitConfig, data: Data, pilot: Pilot, kernel: Kernel, keys: RowKeys
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
        pool = keys.shuffled(_SALTS["landmarks"])[:_LANDMARK_POOL]
        rng = np.random.default_rng(pilot.seed)
        return pool[pivoted_cholesky_landmarks(kernel, data.X[pool], size, rng)], False
    if config.landmarks == "rpcholesky":
        msg = "landmarks='rpcholesky' needs a kernel it can evaluate; with 'precomputed' use 'stratified'."
        raise ValueError(msg)
    order = keys.shuffled(_SALTS["landmarks"])
    _, first = np.unique(hash_rows(data.X, None, 0)[order], return_index=True)
    order = order[np.sort(first)]  # copies of a row give one landmark
    return order[stratified_landmarks(_landmark_strata(pilot, data)[order], size)], False


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


def _coarse(coder: Coder | ProbabilityCoder, attribute: Attribute, weights: Array | None) -> Codes:
    if coder.kind != "continuous":
        return coder.codes({coder.name: attribute})
    present = ~attribute.missing
    out = np.full(len(present), -1, dtype=np.intp)
    values = attribute.values[present].astype(np.float64)
    edges = slice_edges(values, _LANDMARK_SLICES, None if weights is None else weights[present])
    out[present] = code_slices(values, edges)
    return out


MEDIAN_WIDTH = 1.5
CV_WIDTHS = (0.7, 1.5, 3.0)
_MEDIAN_ROWS = 1000
_CV_ROWS, _CV_LANDMARKS = 1500, 200
# Evidence: exact on few rows; widths, in median distances, from which a search starts.
_EVIDENCE_ROWS = 500
_EVIDENCE_STARTS = (0.1, 0.3, 1.0, 3.0, 10.0)


def choose_gamma(config: FitConfig, data: Data, pilot: Pilot, keys: RowKeys) -> float:
    """Bandwidth of the kernel by the rule that ``gamma`` names."""
    if not isinstance(config.gamma, str):
        return float(config.gamma)
    variance = float(data.X.var())
    scale = 1.0 / (data.X.shape[1] * variance) if variance > 0 else 1.0
    if config.gamma == "scale" or config.kernel not in WIDTH_KERNELS:
        return 1.0 if config.kernel == "chi2" else scale
    rows = keys.shuffled(_SALTS["median"])[:_MEDIAN_ROWS]
    median = median_distance(data.X[rows], config.kernel)
    if config.gamma == "median" or data.y is None:
        return width_to_gamma(MEDIAN_WIDTH * median, str(config.kernel))
    if config.gamma == "evidence":
        few = data.take(keys.shuffled(_SALTS["evidence"])[:_EVIDENCE_ROWS])
        return _by_evidence(config, few, pilot, median)
    sample = data.take(keys.shuffled(_SALTS["validation"])[:_CV_ROWS])
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
        decades = small.features.trend_decades
        return evidence_ridge(
            total.cov, cross, variance, total.rows, total.weight, deeper=decades
        ).minus_two

    starts = np.log(_EVIDENCE_STARTS)
    reach = np.diff(starts).max()
    optima = [
        scipy.optimize.minimize_scalar(
            minus_two,
            bounds=(start - reach, start + reach),
            method="bounded",
            options={"xatol": 0.05, "maxiter": 12},
        )
        for start in starts
    ]
    best = min(optima, key=lambda optimum: float(optimum.fun))
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


def codes_target(config: FitConfig, target: Coder | None) -> bool:
    """Whether y is coded: classes are, and a numeric y needs its slices only for SIR directions."""
    return target is not None and (
        target.kind == "categorical"
        or not config.variant.exact
        or (config.n_predictive_directions != "auto" and config.subspace == "model")
    )


def number_of_folds(config: FitConfig, target: Coder | None) -> int:
    """Folds that the moments are kept by."""
    return N_FOLDS if target is not None and config.needs_folds else 1


def build_pilot(
    config: FitConfig,
    data: Data,
    fold_rule: str = "keys",
    *,
    n_folds: int | None = None,
    cells: Cells | None = None,
    own_columns: bool = False,
) -> Pilot:
    """Freeze everything that is chosen before the moments are taken, on these rows.

    ``n_folds`` and ``cells`` replace those that the parameters ask for. ``own_columns``: a linear kernel has
    no landmarks.
    """
    seed = draw_seed(config.random_state)
    coders = learn_coders(config, data)
    target = learn_target(config, data)
    cluster_share, known_shares = cluster_shares(data, coders)
    pilot = Pilot(
        features=TransformerMap(None, data.X.shape[1]),
        gamma=None,
        coders=tuple(coders),
        target=target,
        code_target=codes_target(config, target),
        cells=learn_cells(config, data, target),
        n_folds=number_of_folds(config, target) if n_folds is None else n_folds,
        fold_offset=seed % N_FOLDS,
        residual={},
        fold_rule=fold_rule,
        seed=seed,
        cluster_share=cluster_share,
        known_cluster_shares=known_shares,
        clustered=data.clusters is not None,
        pairwise=config.kernel == "precomputed" and config.feature_map is None,
    )
    encoded = pilot.encode(data if cells is None else replace(data, control={}))
    check_levels(pilot, encoded, config, data.weights)
    if cells is not None:  # after the check: each may have a single group
        pilot = replace(pilot, cells=cells)
        encoded = pilot.encode(data)
    keys = pilot.row_keys(data, encoded)
    by_row = fold_rule == "hash" and data.clusters is None
    distinct = len(np.unique(keys.keys)) if by_row else data.n
    if distinct < data.n / 2:
        warn_user(
            f"Only {distinct} of {data.n} rows differ in X or y. With folds='hash' copies of a row share a "
            f"fold, so the model is judged on rows unlike those it was fitted on. Use folds='position', or "
            f"groups that identify each row.",
            DataWarning,
        )
    features, gamma, landmark_rows = build_features(
        config, data, pilot, keys, own_columns=own_columns
    )
    pilot = replace(pilot, features=features, gamma=gamma)
    order = keys.shuffled(_SALTS["residual"])
    pilot = replace(pilot, residual=group_residual(pilot, data, landmark_rows, order))
    if isinstance(config.landmarks, str):
        _warn_wide(config, data, pilot)
    return replace(pilot, fingerprint=fingerprint(pilot, data.X[:16]))
