"""The only file that meets user input; everything below it gets clean arrays."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.metrics.pairwise import KERNEL_PARAMS
from sklearn.utils import check_array
from sklearn.utils.validation import column_or_1d, validate_data

from fairspan._linalg import Array
from fairspan.codes import Attribute
from fairspan.exceptions import DataWarning
from fairspan.features import GAMMA_KERNELS, kernel_names

__all__ = [
    "Data",
    "canonical_criterion",
    "check_parameters",
    "check_rows",
    "read_features",
    "read_training_data",
]

CRITERIA = {
    "statistical_parity": ("demographic_parity", "sp", "proxy_nondiscrimination"),
    "equalized_odds": ("eo",),
    "equal_opportunity": ("eop", "true_positive_rate_parity"),
    "conditional_statistical_parity": (),
}

_MISSING_S = """\
fit needs the protected attributes: `sensitive_features` was not given. Three ways to pass it:
  1. directly:   model.fit(X, y, sensitive_features=s)        (an array, a frame, or column names of X)
  2. routed:     sklearn.set_config(enable_metadata_routing=True); \
cross_validate(model, X, y, params={"sensitive_features": s})
  3. by step:    pipeline.fit(X, y, stepname__sensitive_features=s)   (routing off)
An unfair model is never fitted silently; for one, ask for fairness=0."""


@dataclass(frozen=True)
class Data:
    """Clean training rows."""

    X: Array
    y: Attribute | None
    classes: np.ndarray | None  # original labels, sorted, for classes
    sensitive: dict[str, Attribute]
    control: dict[str, Attribute]
    weights: Array | None
    sensitive_columns: tuple[str, ...] = ()  # columns of X that held S or control features
    index: np.ndarray | None = None  # places of these rows among those given, if not all are left

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.X)

    def take(self, rows: np.ndarray) -> Data:
        """Rows by index or mask."""
        return replace(
            self,
            index=(np.arange(self.n) if self.index is None else self.index)[rows],
            X=self.X[rows],
            y=None if self.y is None else self.y.take(rows),
            sensitive={k: a.take(rows) for k, a in self.sensitive.items()},
            control={k: a.take(rows) for k, a in self.control.items()},
            weights=None if self.weights is None else self.weights[rows],
        )


def canonical_criterion(name: object) -> str:
    """The criterion's full name; aliases of fairlearn and the paper are accepted."""
    for canonical, aliases in CRITERIA.items():
        if name == canonical or name in aliases:
            return canonical
    allowed = "; ".join(
        f"{k!r}" + (f" (also {', '.join(map(repr, v))})" if v else "") for k, v in CRITERIA.items()
    )
    msg = f"criterion={name!r} is unknown. Allowed: {allowed}."
    raise ValueError(msg)


def _refuse(name: str, value: object, allowed: str) -> None:
    msg = f"{name}={value!r} is not allowed; give {allowed}."
    raise ValueError(msg)


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def _check_choice(est: Any, name: str, choices: tuple[str, ...]) -> None:
    value = getattr(est, name)
    if not isinstance(value, str) or value not in choices:
        _refuse(name, value, "one of " + ", ".join(map(repr, choices)))


def _check_count(est: Any, name: str, words: tuple[str, ...], low: int) -> None:
    value = getattr(est, name)
    ok_word = isinstance(value, str) and value in words
    ok_int = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= low
    if not (ok_word or ok_int):
        shown = "".join(f"{w!r}, " for w in words)
        _refuse(name, value, f"{shown}or an integer of at least {low}")


def _check_ridge(est: Any, name: str) -> None:
    value = getattr(est, name)
    ok = (isinstance(value, str) and value == "auto") or (
        _is_number(value) and np.isfinite(value) and value > 0
    )
    if not ok:
        _refuse(name, value, "'auto' or a positive number")


def check_parameters(est: Any) -> None:
    """Refuse every hyper-parameter that cannot be, before any work is done."""
    _check_kernel(est)
    canonical_criterion(est.criterion)
    if not _is_number(est.fairness) or not 0.0 <= est.fairness <= 1.0:
        _refuse("fairness", est.fairness, "a number from 0 (unconstrained) to 1 (fairest)")
    _check_choice(est, "dial", ("angle", "cosine", "correlation"))
    _check_choice(est, "dependence", ("mean", "correlation"))
    _check_choice(est, "subspace", ("model", "fair"))
    _check_choice(est, "method", ("optimal", "rkhs", "paper"))
    _check_choice(est, "missing_sensitive", ("raise", "omit"))
    _check_count(est, "n_slices", ("distinct",), 2)
    _check_count(est, "n_components", ("auto", "all"), 1)
    _check_count(est, "n_sensitive_directions", ("auto", "test", "all"), 1)
    _check_count(est, "n_predictive_directions", ("auto", "test"), 1)
    _check_ridge(est, "eta")
    _check_ridge(est, "alpha")
    if not isinstance(est.intersectional, bool | np.bool_):
        _refuse("intersectional", est.intersectional, "True or False")
    if isinstance(est.landmarks, str):
        _check_choice(est, "landmarks", ("stratified", "rpcholesky"))
    if est.method == "paper":
        if est.alpha != "auto":
            msg = (
                f"method='paper' has a least-squares head, so alpha={est.alpha!r} has no meaning. "
                f"Leave alpha='auto', or use method='rkhs' for a ridge head in the paper's geometry."
            )
            raise ValueError(msg)
        for name in ("n_sensitive_directions", "n_predictive_directions"):
            if getattr(est, name) == "test":
                _refuse(name, "test", "'auto' or an integer with method='paper'")
        if est.missing_sensitive != "raise":
            _refuse("missing_sensitive", est.missing_sensitive, "'raise' with method='paper'")


def _check_kernel(est: Any) -> None:
    kernel, gamma = est.kernel, est.gamma
    if not callable(kernel) and kernel not in kernel_names():
        _refuse(
            "kernel", kernel, "one of " + ", ".join(map(repr, kernel_names())) + ", or a callable"
        )
    if isinstance(gamma, str) and gamma == "auto":
        msg = (
            "gamma='auto' is refused: in scikit-learn it means 1/n_features, which is not a choice "
            "made from the data. Give 'cv' (default), 'median', 'scale' or a positive number."
        )
        raise ValueError(msg)
    if isinstance(gamma, str):
        _check_choice(est, "gamma", ("cv", "median", "scale"))
    elif not (_is_number(gamma) and np.isfinite(gamma) and gamma > 0):
        _refuse("gamma", gamma, "'cv', 'median', 'scale' or a positive number")
    elif est.feature_map is not None or kernel not in GAMMA_KERNELS:
        what = "feature_map" if est.feature_map is not None else f"kernel {kernel!r}"
        msg = (
            f"gamma={gamma!r} was given, but the {what} has no gamma. Leave gamma='cv' (it is then "
            f"ignored), or pass the kernel's own parameters in kernel_params."
        )
        raise ValueError(msg)
    params = est.kernel_params
    if params is not None and not isinstance(params, Mapping):
        _refuse("kernel_params", params, "a dict of the kernel's parameters, or None")
    if params and "gamma" in params:
        msg = "kernel_params holds 'gamma'; pass it as gamma= so that there is one place for it."
        raise ValueError(msg)
    if params and not callable(kernel):
        known = sorted(set(KERNEL_PARAMS.get(kernel, ())) - {"gamma"})
        unknown = sorted(set(params) - set(known))
        if unknown:
            msg = (
                f"kernel_params holds {unknown[0]!r}, which kernel {kernel!r} does not read; it "
                f"reads {', '.join(map(repr, known)) or 'nothing'}."
            )
            raise ValueError(msg)
    if est.feature_map is not None and not hasattr(est.feature_map, "transform"):
        _refuse("feature_map", est.feature_map, "a scikit-learn transformer, or None")


# --------------------------------------------------------------------------- frames and columns


def _refuse_twice(names: list[Any], what: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        msg = f"{what} the column {twice!r} twice; give each column its own name, once."
        raise ValueError(msg)


def _as_frame(obj: Any, role: str) -> nw.DataFrame[Any] | None:
    _refuse_twice(list(getattr(obj, "columns", ())), f"{role} has")
    out = nw.from_native(obj, eager_only=True, pass_through=True)
    return out if isinstance(out, nw.DataFrame) else None


def _is_missing(value: object) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _attribute(name: str, raw: Any, role: str) -> Attribute:
    """One clean column from whatever the user holds it in."""
    series = nw.from_native(raw, series_only=True, pass_through=True)
    declared = None
    if isinstance(series, nw.Series):
        if isinstance(series.dtype, nw.Categorical | nw.Enum):
            declared = "U"
        elif series.dtype.is_integer():
            declared = "i"
        raw = series.to_numpy()
    values = (
        np.ma.filled(raw.astype(object), None)
        if isinstance(raw, np.ma.MaskedArray)
        else np.asarray(raw)
    )
    missing = np.zeros(len(values), dtype=bool)
    if values.dtype.kind == "O":
        missing = np.array([_is_missing(v) for v in values], dtype=bool)
        present = np.array(values[~missing].tolist())
        if present.ndim != 1:
            msg = f"{role} column {name!r} holds sequences; give one value per row."
            raise ValueError(msg)
    else:
        present = values
    kind = declared or present.dtype.kind
    if present.dtype.kind not in "biufUS":
        msg = (
            f"{role} column {name!r} has dtype {present.dtype}; give text, booleans, integers or "
            f"floats (turn dates into numbers, e.g. years)."
        )
        raise ValueError(msg)
    if kind in "bUS":
        text = (
            np.array([str(v) for v in present.tolist()])
            if len(present)
            else np.empty(0, dtype="<U1")
        )
        filled = np.full(len(values), "", dtype=text.dtype if text.dtype.kind == "U" else "<U1")
        filled[~missing] = text
        return Attribute(name, filled, missing, "b" if kind == "b" else "U")
    numeric = np.zeros(len(values))
    numeric[~missing] = present
    nan = np.isnan(numeric)
    if np.isinf(numeric).any():
        msg = f"{role} column {name!r} holds infinity in {int(np.isinf(numeric).sum())} rows."
        raise ValueError(msg)
    numeric[nan] = 0.0
    return Attribute(name, numeric, missing | nan, "i" if kind in "iu" else "f")


def _named_columns(raw: Any, role: str, prefix: str) -> list[tuple[str, Any]]:
    frame = _as_frame(raw, role)
    if frame is not None:
        return [(str(name), frame[name].to_native()) for name in frame.columns]
    series = nw.from_native(raw, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return [(str(series.name) if series.name not in (None, "") else f"{prefix}_0", raw)]
    if isinstance(raw, Mapping):
        return [(str(k), np.asarray(v) if not hasattr(v, "dtype") else v) for k, v in raw.items()]
    if isinstance(raw, list | tuple):
        raw = np.array(raw, dtype=object)
    array = raw if isinstance(raw, np.ma.MaskedArray) else np.asarray(raw)
    if array.ndim == 1:
        return [(f"{prefix}_0", array)]
    if array.ndim == 2:
        return [(f"{prefix}_{j}", array[:, j]) for j in range(array.shape[1])]
    msg = f"{role} must be one column or a table of columns; got an array of shape {array.shape}."
    raise ValueError(msg)


def read_attributes(raw: Any, n: int, role: str, prefix: str) -> dict[str, Attribute]:
    """Clean columns of ``sensitive_features`` or ``control_features``, by name."""
    out: dict[str, Attribute] = {}
    for name, column in _named_columns(raw, role, prefix):
        attribute = _attribute(name, column, role)
        if len(attribute.values) != n:
            msg = f"{role} {name!r} has {len(attribute.values)} rows, X has {n}. Give one value per row of X."
            raise ValueError(msg)
        if name in out:
            msg = f"{role} has two columns named {name!r}; give each its own name."
            raise ValueError(msg)
        out[name] = attribute
    if not out:
        msg = f"{role} has no columns."
        raise ValueError(msg)
    return out


def _column_names(frame: nw.DataFrame[Any] | None, raw: Any, role: str) -> list[str] | None:
    """Names when ``raw`` names columns of X instead of holding values."""
    if isinstance(raw, str):
        names = [raw]
    elif isinstance(raw, list | tuple) and raw and all(isinstance(v, str) for v in raw):
        if frame is None or len(raw) == len(frame):
            return None  # values, one per row
        names = list(raw)
    else:
        return None
    if frame is None:
        msg = f"{role}={raw!r} names a column, but X is not a data frame. Give the values instead."
        raise ValueError(msg)
    unknown = [name for name in names if name not in frame.columns]
    if unknown:
        shown = ", ".join(map(repr, frame.columns[:8])) + (
            ", ..." if len(frame.columns) > 8 else ""
        )
        msg = (
            f"{role} names the column {unknown[0]!r}, which X does not have. Its columns: {shown}."
        )
        raise ValueError(msg)
    _refuse_twice(names, f"{role} names")
    return names


# --------------------------------------------------------------------------- X, y, weights


def _check_frame_dtypes(frame: nw.DataFrame[Any]) -> None:
    bad = [
        f"{name!r} ({dtype})"
        for name, dtype in frame.schema.items()
        if not (dtype.is_numeric() or dtype == nw.Boolean or dtype == nw.Object)
    ]
    if bad:
        msg = (
            f"X holds columns that are not numbers: {', '.join(bad[:5])}"
            f"{', ...' if len(bad) > 5 else ''}. Encode them first, e.g. "
            f"make_pipeline(fairspan.table_encoder(X), model)."
        )
        raise ValueError(msg)


def _column_label(est: Any, j: int) -> str:
    names = getattr(est, "feature_names_in_", None)
    return repr(str(names[j])) if names is not None else str(j)


def read_features(est: Any, X: Any, *, reset: bool) -> Array:
    """Numeric, finite, dense float64 X; columns that held S at fit are dropped if present."""
    frame = _as_frame(X, "X")
    if frame is not None:
        if not reset:
            known = set(getattr(est, "feature_names_in_", ()))
            extra = [
                c
                for c in getattr(est, "_sensitive_columns", ())
                if c in frame.columns and c not in known
            ]
            if extra:
                frame = frame.drop(extra)
                X = frame.to_native()
        _check_frame_dtypes(frame)
    try:
        X = validate_data(est, X, reset=reset, dtype=np.float64, ensure_all_finite=False, order="C")
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise ValueError(_text_message(est, X)) from error
    finite = np.isfinite(X)
    if not finite.all():
        j = int(np.flatnonzero(~finite.all(axis=0))[0])
        rows = np.flatnonzero(~finite[:, j])
        what = "NaN" if np.isnan(X[rows, j]).any() else "infinity"
        msg = (
            f"Input X contains {what} (NaN and infinity are not accepted): column "
            f"{_column_label(est, j)}, {len(rows)} rows, the first at row {rows[0]}. Impute first, "
            f"e.g. with fairspan.table_encoder, which adds indicators of what was missing."
        )
        raise ValueError(msg)
    return X


def _text_message(est: Any, X: Any) -> str:
    """The error for text in an array, or in an object column of a frame."""
    for j, column in enumerate(np.asarray(X, dtype=object).T):
        for value in column:
            try:
                float(value)
            except (TypeError, ValueError):
                return (
                    f"Column {_column_label(est, j)} of X holds text: {str(value)!r} is not a "
                    f"number. Encode it first, e.g. with fairspan.table_encoder."
                )
    return "X holds text. Encode it first, e.g. with fairspan.table_encoder."


def _read_target(y: Any) -> tuple[Attribute, np.ndarray | None]:
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        y = series.to_numpy()
    y = column_or_1d(y, warn=True)
    if y.dtype.kind in "fc" or (y.dtype.kind == "O" and len(y) and isinstance(y[0], float)):
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y", ensure_min_samples=0)
    attribute = _attribute("y", y, "target")
    if attribute.missing.any():
        msg = f"Input y contains NaN or None in {int(attribute.missing.sum())} rows. Drop those rows first."
        raise ValueError(msg)
    return attribute, np.unique(y) if len(y) else None


def _read_weights(sample_weight: Any, n: int) -> Array | None:
    if sample_weight is None:
        return None
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(n, float(sample_weight))
    weights = check_array(
        np.asarray(sample_weight), ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weights.ndim != 1:
        msg = "Sample weights must be 1D array or scalar"
        raise ValueError(msg)
    if weights.shape != (n,):
        msg = f"sample_weight.shape == {weights.shape}, expected {(n,)}!"
        raise ValueError(msg)
    if (weights < 0).any():
        negative = int((weights < 0).sum())
        msg = f"sample_weight holds {negative} negative values; weights are counts or precisions."
        raise ValueError(msg)
    if not (weights > 0).any():
        msg = "sample_weight is zero for every row; nothing is left to fit."
        raise ValueError(msg)
    return weights


def read_training_data(
    est: Any, X: Any, y: Any, sensitive_features: Any, control_features: Any, sample_weight: Any,
    *, reset: bool,
) -> Data:  # fmt: skip
    """Everything the user passed, as clean arrays; zero-weight rows are dropped (METHOD 0)."""
    criterion = canonical_criterion(est.criterion)
    if sensitive_features is None:
        raise ValueError(_MISSING_S)
    conditional = criterion == "conditional_statistical_parity"
    if conditional and control_features is None:
        msg = (
            "criterion='conditional_statistical_parity' needs control_features: the strata within "
            "which parity must hold."
        )
        raise ValueError(msg)
    if control_features is not None and not conditional:
        msg = (
            f"control_features was given, but criterion={est.criterion!r} does not use it. Pass "
            f"criterion='conditional_statistical_parity', or leave control_features out."
        )
        raise ValueError(msg)
    frame = _as_frame(X, "X")
    taken: list[str] = []
    parts: list[Any] = []
    for raw, role in (
        (sensitive_features, "sensitive_features"),
        (control_features, "control_features"),
    ):
        names = None if raw is None else _column_names(frame, raw, role)
        if names is not None:
            assert frame is not None
            taken += names
            raw = frame.select(names).to_native()
        parts.append(raw)
    if taken:
        assert frame is not None
        if set(frame.columns) <= set(taken):
            msg = f"X has no column left besides {', '.join(map(repr, taken))}; features are needed too."
            raise ValueError(msg)
        X = frame.drop([c for c in frame.columns if c in taken]).to_native()
    X = read_features(est, X, reset=reset)
    n = len(X)
    if est.kernel == "precomputed" and est.feature_map is None and n != X.shape[1]:
        msg = f"kernel='precomputed' needs a square matrix K(train, train); got shape {X.shape}."
        raise ValueError(msg)
    sensitive = read_attributes(parts[0], n, "sensitive_features", "sensitive_feature")
    control = (
        {}
        if parts[1] is None
        else read_attributes(parts[1], n, "control_features", "control_feature")
    )
    _check_missing(est, sensitive, control)
    target, classes = None, None
    if y is not None:
        target, classes = _read_target(y)
        if len(target.values) != n:
            msg = (
                f"Found input variables with inconsistent numbers of samples: y has "
                f"{len(target.values)} rows, X has {n}."
            )
            raise ValueError(msg)
    elif est.subspace != "fair" or criterion in ("equalized_odds", "equal_opportunity"):
        msg = (
            f"{type(est).__name__} requires y to be passed, but the target y is None. Only "
            f"subspace='fair' with a criterion that does not condition on y can do without it."
        )
        raise ValueError(msg)
    data = Data(
        X, target, classes, sensitive, control, _read_weights(sample_weight, n), tuple(taken)
    )
    if data.weights is not None and (data.weights == 0).any():
        data = data.take(data.weights > 0)
        if data.y is not None and y is not None:
            data = replace(
                data, classes=np.unique(column_or_1d(np.asarray(y))[_positive(sample_weight, n)])
            )
    return data


def _positive(sample_weight: Any, n: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(sample_weight, dtype=float), n) > 0


def _check_missing(
    est: Any, sensitive: dict[str, Attribute], control: dict[str, Attribute]
) -> None:
    for attribute in control.values():
        if attribute.missing.any():
            msg = (
                f"control_features {attribute.name!r} is missing in {int(attribute.missing.sum())} "
                f"rows; every row needs a stratum. Give those rows a category of their own."
            )
            raise ValueError(msg)
    if est.missing_sensitive == "omit":
        return
    for attribute in sensitive.values():
        if attribute.missing.any():
            msg = (
                f"sensitive_features {attribute.name!r} is missing (NaN or None) in "
                f"{int(attribute.missing.sum())} rows. Pass missing_sensitive='omit' to leave those "
                f"rows out of that attribute's constraint, give them a category of their own, or "
                f"drop them."
            )
            raise ValueError(msg)


def check_rows(est: Any, data: Data) -> None:
    """Warnings about X that a user wants before a long fit: S among the features, scales apart."""
    for attribute in data.sensitive.values():
        _, codes = np.unique(attribute.values, return_inverse=True)
        if attribute.missing.any() or len(data.X) < 3:
            continue
        numeric = attribute.values.dtype.kind == "f"
        if not numeric and codes.max(initial=0) != 1:
            continue
        s = attribute.values.astype(np.float64) if numeric else codes.astype(np.float64)
        s = s - s.mean()
        centred = data.X - data.X.mean(axis=0)
        norms = np.sqrt(np.einsum("ij,ij->j", centred, centred) * (s @ s))
        cosine = np.divide(np.abs(s @ centred), norms, out=np.zeros(len(norms)), where=norms > 0)
        for j in np.flatnonzero(cosine > 1.0 - 1e-12):
            warnings.warn(
                f"Column {_column_label(est, int(j))} of X is the protected attribute "
                f"{attribute.name!r} itself (up to scale). It stays, which makes an S-aware model: "
                f"prediction then needs S. Drop the column for an S-blind one.",
                DataWarning,
                stacklevel=4,
            )
    if est.feature_map is None and est.kernel in ("rbf", "laplacian"):
        # By range: a constant column may have a standard deviation of rounding, not of zero.
        spread = data.X.std(axis=0)[np.ptp(data.X, axis=0) > 0]
        if len(spread) and spread.max() > 100.0 * spread.min():
            warnings.warn(
                f"Columns of X have standard deviations from {spread.min():.3g} to "
                f"{spread.max():.3g}; the kernel sees only the largest. Standardise first, e.g. "
                f"make_pipeline(StandardScaler(), model) or fairspan.table_encoder.",
                DataWarning,
                stacklevel=4,
            )
