"""Read the arguments of ``fit`` and ``predict``: check them and return clean arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import narwhals as nw
import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import column_or_1d, validate_data

from fairspan._system import refuse_bytes
from fairspan.exceptions import DataWarning, NumericalWarning, warn_user
from fairspan.inputs.columns import (
    LARGEST,
    align_rows,
    as_array,
    as_frame,
    as_series,
    column_names,
    is_categorical,
    named_columns_of,
    read_attribute,
    read_attributes,
    refuse_dates,
    refuse_large,
    refuse_sparse,
    unmasked,
    without_tensors,
)
from fairspan.inputs.probabilities import gather_probabilities, has_probabilities
from fairspan.inputs.sparse import has_sparse_columns, is_sparse_input, read_sparse
from fairspan.inputs.tensors import (
    all_finite,
    bring_home,
    read_tensor,
    read_tensor_attributes,
    read_tensor_target,
)
from fairspan.inputs.units import compare_units
from fairspan.inputs.weights import read_groups, read_weights
from fairspan.method.codes import MAX_INTEGER_CATEGORIES
from fairspan.method.linalg import Array, home_of, is_tensor, to_numpy
from fairspan.method.problem import Attribute, ClassLabels, Data, FitConfig, GroupProbabilities
from fairspan.method.sparse_rows import column_ranges, is_sparse

# Means this many standard deviations from 0 leave a linear function half of its digits.
_FAR_LINEAR = 1e8
_MISSING_S = """\
fit needs the protected attributes: `sensitive_features` was not given. Three ways to pass it:
  1. directly:   model.fit(X, y, sensitive_features=s)        (an array, a frame, or column names of X)
  2. routed:     sklearn.set_config(enable_metadata_routing=True); \
cross_validate(model, X, y, params={"sensitive_features": s})
  3. by step:    pipeline.fit(X, y, stepname__sensitive_features=s)   (routing off)
An unfair model is never fitted silently; for one, ask for fairness=0."""


@dataclass(frozen=True, kw_only=True)
class ColumnSchema:
    """Columns of the table of a fit, beyond what scikit-learn records on an estimator."""

    sensitive_columns: tuple[str, ...] = ()  # columns of X that held S or control features
    column_numbers: tuple[str, ...] | None = None  # names of columns, if they are numbers
    encoder: Any = None  # fitted transformer of the table, of `fit` or `fit_stream`
    text_features: tuple[str, ...] | None = None  # columns that held text, if there is an encoder
    frozen: RowScores | None = None  # scores that are appended to the clean columns
    n_scores: int = 0  # columns that they have
    column_types: tuple[tuple[str, str], ...] = ()  # of features that were read from CSV files
    units: tuple[tuple[str, str], ...] | None = None  # signs of features; None if they are unknown


class RowScores(Protocol):
    """A model that gives scores to rows as the user passed them."""

    def columns(self, X: Any) -> Array:
        """Scores, (n, columns)."""


class FeatureReader(Protocol):
    """An estimator on which scikit-learn records the columns of X."""

    _schema: ColumnSchema


def _check_frame_dtypes(frame: nw.DataFrame[Any], protected: frozenset[str]) -> None:
    bad = [
        f"{name!r} ({dtype})"
        for name, dtype in frame.schema.items()
        if not (dtype.is_numeric() or dtype == nw.Boolean or dtype == nw.Object)
    ]
    inside = [name for name in frame.columns if name in protected]
    if bad and inside:
        raise ValueError(
            f"X holds text, and its column {inside[0]!r} has the name of a protected attribute. Pass "
            f"sensitive_features={inside!r} to take it out of X, or drop it; then encode the rest, e.g. "
            f"with fairspan.table_encoder."
        )
    if bad:
        raise ValueError(
            f"X holds columns that are not numbers: {', '.join(bad[:5])}"
            f"{', ...' if len(bad) > 5 else ''}. Encode them first, e.g. "
            f"make_pipeline(fairspan.table_encoder(X), model), or let `fit` or `fit_stream` do it "
            f"(encoder='auto')."
        )


def _column_label(est: FeatureReader, j: int) -> str:
    """Name of column j of the kernel's input; j itself if the columns have no names."""
    encoder = est._schema.encoder
    names = getattr(est, "feature_names_in_", None) if encoder is None else None
    if hasattr(encoder, "get_feature_names_out"):  # one column of the table may become several
        names = encoder.get_feature_names_out()
    return repr(str(names[j])) if names is not None and j < len(names) else str(j)


def read_features(
    est: FeatureReader,
    X: Any,
    *,
    reset: bool,
    protected: frozenset[str] = frozenset(),
    config: FitConfig | None = None,
) -> Array:
    """X as finite, dense float64; columns that held S in the fit are dropped if present.

    ``reset`` records the columns on ``est``, as in scikit-learn; otherwise X must have the same ones.
    ``config`` is needed for tensors. Scores of a frozen model come after the columns of X.
    """
    compare_units(est, X, reset=reset)
    frozen = est._schema.frozen
    if frozen is None:
        return _read_columns(est, X, reset=reset, protected=protected, config=config)
    X = to_numpy(X) if is_tensor(X) else X
    clean = _read_columns(est, X, reset=reset, protected=protected, config=config)
    scores = frozen.columns(_as_given(est, X, clean))
    if reset:
        est._schema = replace(est._schema, n_scores=scores.shape[1])
    elif scores.shape[1] != est._schema.n_scores:
        raise ValueError(
            f"The model gives {scores.shape[1]} scores per row, but gave {est._schema.n_scores} to the "
            f"rows of the fit. Fit again if the model has changed."
        )
    return np.concatenate([clean, scores], axis=1)


def _as_given(est: FeatureReader, X: Any, clean: Array) -> Any:
    """X in the type that the user passed, with the columns of the fit."""
    frame = as_frame(X, "X")
    if frame is None:
        return X if hasattr(X, "dtype") else clean
    names = getattr(est, "feature_names_in_", None)
    return frame.to_native() if names is None else frame.select(names.tolist()).to_native()


def _read_columns(
    est: FeatureReader,
    X: Any,
    *,
    reset: bool,
    protected: frozenset[str],
    config: FitConfig | None,
) -> Array:
    if est._schema.encoder is not None:
        return _encode(est, X, reset=reset)
    if is_tensor(X):
        assert config is not None
        tensor: Array = read_tensor(est, X, config, reset=reset)
        if not all_finite(tensor, LARGEST):
            _check_finite(est, to_numpy(tensor))  # raises with the column and row
        return tensor
    X = unmasked(X)
    frame = as_frame(X, "X")
    if frame is not None:
        if not reset:
            known = set(getattr(est, "feature_names_in_", ()))
            given = est._schema.sensitive_columns
            extra = [name for name in given if name in frame.columns and name not in known]
            if extra:
                frame = frame.drop(extra)
                X = frame.to_native()
        if not frame.columns:
            raise ValueError("X is a frame without columns; a minimum of 1 feature(s) is required.")
        if has_sparse_columns(X):
            _check_column_numbers(est, frame.columns, reset=reset)
            return _read_sparse(est, X, config, reset=reset)
        _check_frame_dtypes(frame, protected)
        _check_column_numbers(est, frame.columns, reset=reset)
        for name, dtype in frame.schema.items():
            if dtype == nw.Object:
                refuse_bytes(frame[name].to_numpy(), f"Column {name!r} of X")
    elif is_sparse_input(X):
        return _read_sparse(est, X, config, reset=reset)
    elif hasattr(X, "dtype"):
        refuse_bytes(X, "X")
        refuse_dates(X, "X")
    try:
        checked: Array = validate_data(
            est, X, reset=reset, dtype=np.float64, ensure_all_finite=False, order="C"
        )
    except ValueError as error:
        if "could not convert string" in str(error):
            raise ValueError(_text_message(est, X)) from error
        if "setting an array element" in str(error):
            raise ValueError(
                "X holds sequences, or rows of several lengths; give one number per row and column."
            ) from error
        raise
    _check_finite(est, checked)
    return checked


def _read_sparse(est: FeatureReader, X: Any, config: FitConfig | None, *, reset: bool) -> Array:
    rows = read_sparse(est, X, config, reset=reset)
    for bad, refuse in (
        (~np.isfinite(rows.values), _refuse_not_finite),
        (np.abs(rows.values) > LARGEST, _refuse_size),
    ):
        if bad.any():
            j = int(rows.columns[bad].min())
            refuse(est, j, rows.take_columns(np.array([j]))[:, 0])
    return rows  # type: ignore[return-value]  # most steps of a fit treat it as they treat an array


def _check_column_numbers(est: FeatureReader, names: list[Any], *, reset: bool) -> None:
    """Compare column names that are numbers with those of the fit; scikit-learn compares only text."""
    named = bool(names) and not any(isinstance(name, str) for name in names)
    numbers = tuple(str(name) for name in names) if named else None
    if reset:
        est._schema = replace(est._schema, column_numbers=numbers)
        return
    fitted = est._schema.column_numbers
    if numbers is not None and fitted is not None and fitted != numbers:
        raise ValueError(
            f"X has the columns {names[:8]!r}, but the model was fitted with the columns "
            f"[{', '.join(fitted[:8])}]. Give the same columns in the same order, or values without names "
            f"(X.to_numpy()) to go by position."
        )


def _check_finite(est: FeatureReader, X: Array) -> None:
    finite = np.isfinite(X)
    if finite.all():
        _check_size(est, X)
        return
    j = int(np.flatnonzero(~finite.all(axis=0))[0])
    _refuse_not_finite(est, j, X[:, j])


def _refuse_not_finite(est: FeatureReader, j: int, column: Array) -> None:
    rows = np.flatnonzero(~np.isfinite(column))
    what = "NaN" if np.isnan(column).any() else "infinity"
    # A caller that gives one row names it in its own message.
    where = "" if len(column) == 1 else f", {len(rows)} rows, the first at row {rows[0]}"
    raise ValueError(
        f"Input X contains {what} (NaN and infinity are not accepted): column "
        f"{_column_label(est, j)}{where}. Impute first, e.g. with fairspan.table_encoder, which adds "
        f"indicators of what was missing."
    )


def _check_size(est: FeatureReader, X: Array) -> None:
    if X.min(initial=0.0) >= -LARGEST and X.max(initial=0.0) <= LARGEST:
        return
    j = int(np.flatnonzero((np.abs(X) > LARGEST).any(axis=0))[0])
    _refuse_size(est, j, X[:, j])


def _refuse_size(est: FeatureReader, j: int, column: Array) -> None:
    raise ValueError(
        f"Column {_column_label(est, j)} of X holds {np.abs(column).max():.3g}, whose square is beyond "
        f"the range of float64; numbers up to {LARGEST:g} are taken. Rescale, e.g. with "
        f"fairspan.table_encoder, or mark what stands for a missing value as missing."
    )


def _encode(est: FeatureReader, X: Any, *, reset: bool) -> Array:
    """Transform a table with the encoder of the fit."""
    encoder = est._schema.encoder
    frame = as_frame(X, "X")
    if frame is None:
        raise ValueError(
            f"{type(est).__name__} was fitted on a table with an encoder, so it needs a data frame with "
            f"the same columns; got {type(X).__name__}."
        )
    if reset:
        columns = {"feature_names_in_": np.array(frame.columns, dtype=object)}
        vars(est).update(columns, n_features_in_=len(frame.columns))
    names = vars(est)["feature_names_in_"].tolist()
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise ValueError(f"X has no column {missing[0]!r}, which the model was fitted with.")
    out = np.asarray(encoder.transform(frame.select(names).to_native()), dtype=np.float64)
    if out.ndim != 2 or not np.isfinite(out).all():
        raise ValueError(
            f"encoder {type(encoder).__name__} gave an array of shape {out.shape} (all finite: "
            f"{bool(np.isfinite(out).all())}); a finite matrix of numbers is needed."
        )
    return np.ascontiguousarray(out)


def _text_message(est: FeatureReader, X: Any) -> str:
    """The error for text in an array, or in an object column of a frame."""
    table = np.asarray(X, dtype=object)
    for j, column in enumerate(table.T if table.ndim == 2 else ()):
        for value in column:
            try:
                float(value)
            except (TypeError, ValueError):
                return (
                    f"Column {_column_label(est, j)} of X holds text: {str(value)!r} is not a "
                    f"number. Encode it first, e.g. with fairspan.table_encoder."
                )
    return "X holds text. Encode it first, e.g. with fairspan.table_encoder."


def _read_target(y: Any, home: Any, *, numbers: bool) -> tuple[Attribute, ClassLabels | None]:
    if is_tensor(y):
        return read_tensor_target(y, home, numbers=numbers)
    declared = is_categorical(y)
    series = as_series(y)
    if series is not None:
        y = series.to_numpy()
    y = one_column(y)
    if y.dtype.kind in "fc" or (y.dtype.kind == "O" and len(y) and isinstance(y[0], float)):
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y", ensure_min_samples=0)
    attribute = read_attribute("y", y, "target")
    if declared:  # numbers that are names of classes; the values keep their order
        attribute = replace(attribute, dtype_kind="U")
    _check_magnitude(attribute, "y")
    if attribute.missing.any():
        msg = f"Input y contains NaN or None in {int(attribute.missing.sum())} rows. Drop those rows first."
        raise ValueError(msg)
    labels = ClassLabels.of(attribute, y) if len(y) else None
    return attribute if home is None else bring_home(attribute, home), labels


def _check_magnitude(attribute: Attribute, what: str) -> None:
    values = attribute.values
    if values.dtype.kind == "f" and len(values) and np.abs(values).max() > LARGEST:
        refuse_large(what, float(np.abs(values).max()))


def one_column(y: Any) -> np.ndarray:
    """The target as an array, None in the gaps of a masked one."""
    try:
        array = as_array(y)
    except ValueError as error:
        raise ValueError("y holds sequences of several lengths; give one value per row.") from error
    refuse_bytes(array, "y")
    return np.asarray(column_or_1d(array, warn=True))


def read_training_data(
    est: FeatureReader,
    config: FitConfig,
    X: Any,
    y: Any,
    sensitive_features: Any,
    control_features: Any,
    sample_weight: Any,
    *,
    reset: bool,
    groups: Any = None,
    make_schema: Callable[[Any], ColumnSchema] | None = None,
) -> Data:
    """Read the arguments of ``fit`` as clean arrays; rows of weight zero are dropped (METHOD 0).

    ``make_schema`` may fit an encoder to the features.
    """
    criterion = config.criterion_name
    if sensitive_features is None:
        raise ValueError(_MISSING_S)
    refuse_sparse(
        y=y,
        sensitive_features=sensitive_features,
        control_features=control_features,
        sample_weight=sample_weight,
        groups=groups,
    )
    conditional = criterion == "conditional_statistical_parity"
    if conditional and control_features is None:
        raise ValueError(
            "criterion='conditional_statistical_parity' needs control_features: the strata within "
            "which parity must hold."
        )
    if control_features is not None and not conditional:
        raise ValueError(
            f"control_features was given, but criterion={config.criterion!r} does not use it. Pass "
            f"criterion='conditional_statistical_parity', or leave control_features out."
        )
    frame = as_frame(X, "X")
    taken: list[str] = []
    parts: list[Any] = []
    for raw, role in (
        (sensitive_features, "sensitive_features"),
        (control_features, "control_features"),
        (groups, "groups"),
    ):
        names = None if raw is None else named_columns_of(frame, raw, role)
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
    X, y, *parts, groups, sample_weight = align_rows(
        X=X,
        y=y,
        sensitive_features=parts[0],
        control_features=parts[1],
        groups=parts[2],
        sample_weight=sample_weight,
    ).values()
    if make_schema is not None:
        est._schema = make_schema(_with_weight(X, sample_weight))
    X = read_features(est, X, reset=reset, protected=column_names(parts[0]), config=config)
    n, home = len(X), home_of(X)
    if home is None:
        parts, y = [without_tensors(raw) for raw in parts], to_numpy(y)
        sample_weight = to_numpy(sample_weight)
    if config.kernel == "precomputed" and config.feature_map is None and n != X.shape[1]:
        msg = f"kernel='precomputed' needs a square matrix K(train, train); got shape {X.shape}."
        raise ValueError(msg)
    if home is not None and has_probabilities(config.sensitive_kind):
        raise ValueError(
            "sensitive_kind='probabilities' does not take X as a torch tensor. Give arrays, e.g. "
            "X.cpu().numpy()."
        )
    sensitive = _read_attributes(parts[0], n, "sensitive_feature", home)
    sensitive = gather_probabilities(sensitive, config.sensitive_kind)
    control = {} if parts[1] is None else _read_attributes(parts[1], n, "control_feature", home)
    _check_missing(config, sensitive, control)
    target, classes = None, None
    if y is not None:
        target, classes = _read_target(y, home, numbers=config.target_kind == "continuous")
        if len(target.values) != n:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: y has "
                f"{len(target.values)} rows, X has {n}."
            )
    elif (
        config.subspace != "fair"
        or criterion in ("equalized_odds", "equal_opportunity")
        or config.target_kind is not None
    ):
        raise ValueError(
            f"{config.estimator} requires y to be passed, but the target y is None. Only "
            f"FairRepresentation with subspace='fair' and a criterion that does not condition on y "
            f"can do without it."
        )
    if sample_weight is not None:
        sample_weight = read_weights(sample_weight, n, home, block=not reset)
    data = Data(
        X=X,
        y=target,
        classes=classes,
        sensitive=sensitive,
        control=control,
        weights=sample_weight,
        clusters=None if groups is None else read_groups(without_tensors(groups), n),
        sensitive_columns=tuple(taken),
    )
    if data.weights is not None and (data.weights == 0).any():
        data = replace(data.take(data.weights > 0), given=n)
    return data


def _read_attributes(raw: Any, n: int, prefix: str, home: Any) -> dict[str, Attribute]:
    if home is None:
        out = read_attributes(raw, n, f"{prefix}s", prefix)
        for attribute in out.values():
            _check_magnitude(attribute, f"{prefix}s {attribute.name!r}")
        return out
    return read_tensor_attributes(raw, n, f"{prefix}s", prefix, home)


def _with_weight(X: Any, sample_weight: Any) -> Any:
    """Rows of a frame whose weight is not 0, for an encoder; weights are checked later."""
    frame = None if sample_weight is None else as_frame(X, "X")
    if frame is None:
        return X
    weight = np.asarray(to_numpy(sample_weight))
    if weight.shape != (len(frame),) or weight.dtype.kind not in "fiub" or not (weight == 0).any():
        return X
    return frame.filter((weight != 0).tolist()).to_native()


def _check_missing(
    config: FitConfig, sensitive: dict[str, Attribute], control: dict[str, Attribute]
) -> None:
    for attribute in control.values():
        if attribute.missing.any():
            raise ValueError(
                f"control_features {attribute.name!r} is missing in {int(attribute.missing.sum())} "
                f"rows; every row needs a stratum. Give those rows a category of their own."
            )
    if config.missing_sensitive == "omit":
        return
    for attribute in sensitive.values():
        if attribute.missing.any():
            raise ValueError(
                f"sensitive_features {attribute.name!r} is missing (NaN or None) in "
                f"{int(attribute.missing.sum())} rows. Pass missing_sensitive='omit' to leave those "
                f"rows out of that attribute's constraint, give them a category of their own, or "
                f"drop them."
            )


def check_rows(est: FeatureReader, config: FitConfig, data: Data) -> None:
    """Check X before a long fit: columns that repeat S, very different scales, tiny numbers."""
    widest = column_ranges(data.X).max(initial=0.0)
    if 0.0 < widest < 1.0 / LARGEST and config.kernel != "precomputed":
        raise ValueError(
            f"X varies by {widest:.3g} at most, and squares of such numbers are 0 in float64. Rescale, "
            f"e.g. with fairspan.table_encoder."
        )
    _warn_sensitive_columns(est, data)
    if config.feature_map is None and config.kernel in ("rbf", "laplacian"):
        # By range: a constant column may have a standard deviation of rounding, not of zero.
        spread = data.X.std(axis=0)[column_ranges(data.X) > 0]
        if len(spread) and spread.max() > 100.0 * spread.min():
            warn_user(
                f"Columns of X have standard deviations from {spread.min():.3g} to "
                f"{spread.max():.3g}; the kernel sees only the largest. Standardise first, e.g. "
                f"make_pipeline(StandardScaler(), model) or fairspan.table_encoder.",
                DataWarning,
            )
    if config.feature_map is None and config.kernel in ("linear", "poly", "polynomial", "sigmoid"):
        _warn_far_from_origin(data, linear=config.kernel == "linear")


def _warn_far_from_origin(data: Data, *, linear: bool) -> None:
    """Kernels of inner products see the origin: far from it all rows look alike."""
    spread = data.X.std(axis=0)
    varies = column_ranges(data.X) > 0
    far = float((np.abs(data.X.mean(axis=0))[varies] / spread[varies]).max(initial=0.0))
    where = f"A column of X lies {far:.2g} standard deviations from 0"
    remedy = "Standardise first, e.g. make_pipeline(StandardScaler(), model)."
    if linear and far > _FAR_LINEAR:
        # A linear function takes the offset out again, at the price of the digits that it took.
        left = far * np.finfo(np.float64).eps
        warn_user(
            f"{where}: rounding alone leaves predictions a correlation of up to about {left:.0e} with "
            f"the protected attributes. {remedy}",
            NumericalWarning,
        )
    elif not linear and far > 1e3:
        warn_user(
            f"{where}, where this kernel can hardly tell its values apart. {remedy}", DataWarning
        )


def _warn_sensitive_columns(est: FeatureReader, data: Data) -> None:
    """Columns of X that are a protected attribute, or the indicator of one of its levels."""
    for attribute in data.sensitive.values():
        # Only rows with S can show whether a column of X repeats it.
        known = ~attribute.missing
        X, values = (
            (data.X, attribute.values) if known.all() else (data.X[known], attribute.values[known])
        )
        if len(X) < 3:
            continue
        if isinstance(attribute, GroupProbabilities):
            columns = list(values.astype(np.float64).T)
        else:
            distinct, codes = np.unique(values, return_inverse=True)
            columns = [values.astype(np.float64)] if values.dtype.kind == "f" else []
            if len(distinct) <= MAX_INTEGER_CATEGORIES:
                columns += [(codes == h).astype(np.float64) for h in range(len(distinct))]
        S = np.stack(columns, axis=1) if columns else np.zeros((len(X), 0))
        S -= S.mean(axis=0)
        near = np.arange(X.shape[1])
        if is_sparse(X):
            rows: Any = X
            near = rows.nearly_parallel(S)
            X = rows.take_columns(near)
        centred = X - X.mean(axis=0)
        norms = np.sqrt(np.einsum("ij,ij->j", centred, centred))
        scale = np.outer(np.sqrt(np.einsum("ij,ij->j", S, S)), norms)
        cosine = np.divide(np.abs(S.T @ centred), scale, out=np.zeros(scale.shape), where=scale > 0)
        found = near[np.flatnonzero((cosine > 1.0 - 1e-12).any(axis=0))]
        if len(found):
            names = ", ".join(_column_label(est, int(j)) for j in found[:5])
            warn_user(
                f"X holds the protected attribute {attribute.name!r} itself, or the indicator of a "
                f"level of it (up to scale): column {names}. It stays, which makes an S-aware model: "
                f"prediction then needs S. Drop the column for an S-blind one.",
                DataWarning,
            )
