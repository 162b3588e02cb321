"""S from a hash of each row, so that scikit-learn's checks, which know no S, can call ``fit(X, y)``."""

import hashlib

import numpy as np
import scipy.sparse

# The checks use as few as 10 rows and a group needs 5: this key splits all their tables well.
KEY = b"210658"


def hashed_groups(X):
    """0 or 1 for each row, from its values alone: order, subsets and copies do not matter."""
    try:
        rows = np.asarray(X.toarray() if scipy.sparse.issparse(X) else X)
        rows = rows.astype(np.float64) if rows.ndim == 2 and rows.dtype.kind != "c" else None
    except (TypeError, ValueError):
        rows = None
    if rows is None:  # text, complex, ...: fit must say what is wrong with X
        return np.zeros(1)
    # Rounded, because tables made by matrix products differ in their last digits by machine.
    rows = np.ascontiguousarray(np.round(rows, 6)) + 0.0
    digests = (hashlib.blake2b(row.tobytes(), key=KEY, digest_size=1).digest() for row in rows)
    return np.array([digest[0] & 1 for digest in digests], dtype=int)


class Hashed:
    """Put before an estimator's class: fills S in where none is given, and changes nothing else.

    The arguments are spelt out, because scikit-learn reads them from the signature.
    """

    def fit(self, X, y=None, *, sensitive_features=None, control_features=None, sample_weight=None):
        if sensitive_features is None:
            sensitive_features = hashed_groups(X)
        return super().fit(
            X,
            y,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
        )

    def partial_fit(
        self, X, y=None, *, sensitive_features=None, control_features=None, sample_weight=None,
        solve=True, **given,
    ):  # fmt: skip
        if sensitive_features is None:
            sensitive_features = hashed_groups(X)
        return super().partial_fit(
            X,
            y,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
            solve=solve,
            **given,
        )
