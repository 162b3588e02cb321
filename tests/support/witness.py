"""Estimators that notice if a row gets the protected attribute of another row.

The first column of X is the number of a row, and its group is :func:`group_of` that number. So a
meta-estimator that does not split S together with the rows fails inside ``fit``.
"""

import numpy as np

from fairspan import FairRepresentation, FairRidge, FairRidgeClassifier

# Nothing automatic: a fit takes a few milliseconds.
FIXED = {"kernel": "linear", "alpha": 1.0, "eta": 1e-3}
N_ROWS = 240
_GROUPS = np.random.default_rng(5).integers(0, 2, N_ROWS)
SEEN = []  # number of rows of every fit in this process


def group_of(numbers):
    return _GROUPS[np.round(np.asarray(numbers, dtype=float)).astype(int)]


def rows(n=N_ROWS, seed=0):
    """X with the number of each row, classes, numbers to predict, and S."""
    rng = np.random.default_rng(seed)
    number, s = np.arange(n), group_of(np.arange(n))
    X = np.column_stack([number, rng.normal(size=(n, 3)) + 0.7 * s[:, None]])
    score = X[:, 1] + rng.normal(size=n)
    return X, (score > 0.35).astype(int), score, s


class _Witness:
    def fit(
        self,
        X,
        y=None,
        *,
        sensitive_features=None,
        control_features=None,
        sample_weight=None,
        groups=None,
    ):
        table = np.asarray(X)
        assert sensitive_features is not None, "S was not routed"
        given = np.asarray(sensitive_features)
        assert np.array_equal(given, group_of(table[:, 0])), "S of other rows"
        SEEN.append(len(table))
        return super().fit(
            X,
            y,
            sensitive_features=sensitive_features,
            control_features=control_features,
            sample_weight=sample_weight,
            groups=groups,
        )


class WitnessClassifier(_Witness, FairRidgeClassifier):
    pass


class WitnessRegressor(_Witness, FairRidge):
    pass


class WitnessRepresentation(_Witness, FairRepresentation):
    pass
