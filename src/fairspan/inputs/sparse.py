"""Sparse rows as users pass them: SciPy matrices and arrays, and frames with sparse columns of pandas."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from fairspan.method.problem import FitConfig
from fairspan.method.sparse_rows import SparseRows

__all__ = ["dense_columns", "has_sparse_columns", "is_sparse_input", "read_sparse", "takes_sparse"]


def has_sparse_columns(X: Any) -> bool:
    """Whether this is a frame of pandas with a sparse column."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(X, pandas.DataFrame):
        return False
    return any(isinstance(dtype, pandas.SparseDtype) for dtype in X.dtypes)


def is_sparse_input(X: Any) -> bool:
    """Whether rows are sparse: a SciPy matrix or array, or a frame with a sparse column."""
    return scipy.sparse.issparse(X) or has_sparse_columns(X)


def dense_columns(X: Any) -> Any:
    """A frame of pandas with its sparse columns as dense ones."""
    import pandas as pd  # X is a frame of pandas

    out = X.copy(deep=False)
    for name, dtype in X.dtypes.items():
        if isinstance(dtype, pd.SparseDtype):
            out[name] = X[name].sparse.to_dense()
    return out


def takes_sparse(parameters: Any) -> bool:
    """Whether an estimator, or a record of its parameters, takes sparse rows.

    It does if its features are the columns of X, or those of a transformer that takes sparse rows.
    """
    if not getattr(parameters, "_takes_sparse", True):
        return False
    feature_map = getattr(parameters, "feature_map", None)
    if feature_map is not None:
        return not isinstance(feature_map, type) and bool(get_tags(feature_map).input_tags.sparse)
    return isinstance(parameters.kernel, str) and parameters.kernel == "linear"


def read_sparse(est: object, X: Any, config: FitConfig | None, *, reset: bool) -> SparseRows:
    """X as sparse rows of float64; raise if the estimator does not take them.

    The names of the columns are recorded on ``est``, or compared with those of the fit. Whether the
    numbers are finite is checked by the caller.
    """
    if config is None or not takes_sparse(config) or not getattr(est, "_takes_sparse", True):
        raise TypeError(_refusal(est, X, config))
    return SparseRows.of(
        validate_data(
            est,
            _of_frame(X) if has_sparse_columns(X) else X,
            reset=reset,
            accept_sparse="csr",
            dtype=np.float64,
            ensure_all_finite=False,
        )
    )


def _refusal(est: object, X: Any, config: FitConfig | None) -> str:
    name, (n, p) = type(est).__name__, X.shape
    to_array = "X.toarray()" if scipy.sparse.issparse(X) else "X.sparse.to_dense()"
    if not getattr(est, "_takes_sparse", True):
        what = f"{name} does not take"
        other = "It changes vectors into others that have no zeros"
    elif config is None or not hasattr(est, "feature_map"):
        what = f"{name} does not take"
        other = "FairRidge and FairRidgeClassifier take it with kernel='linear'"
    else:
        parameter = "kernel" if config.feature_map is None else "feature_map"
        value = config.kernel if config.feature_map is None else type(config.feature_map).__name__
        what = f"{name} with {parameter}={value!r} does not take"
        other = "It takes it with kernel='linear', or with a feature_map such as TruncatedSVD(300)"
    return (
        f"Sparse X was given, of shape ({n:,}, {p:,}), which {what}. {other}. Or give a dense array, "
        f"{to_array}, of {8 * n * p / 2**20:,.1f} MiB."
    )


def _of_frame(X: Any) -> Any:
    """A frame whose columns are all sparse numbers, filled with zeros."""
    import pandas as pd  # X is a frame of pandas

    other = [
        f"{name!r} ({dtype})"
        for name, dtype in X.dtypes.items()
        if not pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
    ]
    if other:
        raise TypeError(
            f"X has sparse columns, and columns that are not numbers: {', '.join(other[:5])}. Encode "
            f"these first, e.g. with OneHotEncoder, or make the sparse columns dense, e.g. "
            f"X[name].sparse.to_dense(), so that the table is encoded as a whole."
        )
    return X.astype(pd.SparseDtype(np.float64, 0.0))
