"""Choices on a path: metrics of the user, missing numbers, intervals."""

import warnings

import numpy as np
import pytest
from tests.support.few import FEW, rows

from fairspan import DataWarning, FairnessPath, FairRidge, FairRidgeClassifier
from fairspan.estimators.path_selection import choose


def test_a_metric_of_ones_own_gets_s_by_name_or_by_place():
    X, y, s = rows()
    model = FairRidge(**FEW).fit(X, y, sensitive_features=s)
    path = FairnessPath.from_estimator(model, X, y, sensitive_features=s, n_points=3)

    def gap(y_true, y_pred, groups):
        return abs(y_pred[groups == 1].mean() - y_pred[groups == 0].mean())

    def named(y_true, y_pred, *, sensitive_features):
        return gap(y_true, y_pred, sensitive_features)

    by_place, by_name = path.curve(gap), path.curve(named)
    np.testing.assert_array_equal(by_name, by_place)
    for k, fairness in enumerate(path.fairness):
        assert by_name[k] == pytest.approx(gap(y, model.at(fairness).predict(X), s))


def test_a_choice_needs_a_number_everywhere():
    value = np.array([0.1, np.nan, 0.3])
    with pytest.raises(ValueError, match="ks is not defined on these rows"):
        choose("ks", value, np.ones(3), "metric", 0.2)
    assert choose("ks", np.array([0.1, 0.2, 0.3]), np.array([3.0, 2.0, 1.0]), "metric", 0.2) == (
        1,
        True,
    )


def test_a_cell_that_no_row_judges_has_no_noise():
    """A stratum that only training rows have says nothing about new rows."""
    X, y, s = rows()
    labels = np.where(y > 1.5, "c", np.where(y > 0.0, "b", "a"))
    model = FairRidgeClassifier(**FEW, criterion="eo").fit(X, labels, sensitive_features=s)
    seen = labels != "c"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        path = FairnessPath.from_estimator(
            model, X[seen], labels[seen], sensitive_features=s[seen], n_points=3
        )
    assert np.isfinite(path.error).all()
    assert np.isfinite(path.noise)


def test_an_interval_within_classes_holds_its_curve():
    X, y, s = rows()
    labels = (y > 1.0).astype(int)
    model = FairRidgeClassifier(**FEW, criterion="eo").fit(X, labels, sensitive_features=s)
    path = FairnessPath.from_estimator(model, X, labels, sensitive_features=s, n_points=3)
    low, high = path.interval("correlation", 0.9, 40, random_state=0)
    assert (low <= high).all()
    assert low[0] <= path.curve("correlation")[0] <= high[0]
