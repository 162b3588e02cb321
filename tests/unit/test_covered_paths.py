"""Laws of paths that a broken line would otherwise get away with."""

import numpy as np
import pytest
from sklearn.base import clone

from fairspan.estimators import FairRidge, FairRidgeClassifier
from fairspan.estimators.path import FairnessPath, fairness_path
from fairspan.metrics import demographic_parity_difference, equalized_odds_difference

# Nothing automatic: a fit takes milliseconds.
FIXED = {"gamma": 0.2, "eta": 1e-3, "alpha": 1.0, "random_state": 0}
N = 160


def make(n_classes=None, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, N)
    X = rng.normal(size=(N, 2)) + s[:, None] * [1.0, 0.3]
    y = 0.2 * X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=N)
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    return X, y, s


@pytest.mark.parametrize("n_classes", [None, 2])
def test_folds_by_number_are_trained_on_all_other_rows(n_classes):
    X, y, s = make(n_classes)
    model = FairRidgeClassifier(**FIXED) if n_classes else FairRidge(**FIXED)
    path = fairness_path(model, X, y, sensitive_features=s, cv=4, n_points=3)
    assert len(path._predictions) == 4
    for fold in path._predictions:
        train = np.setdiff1d(np.arange(N), fold.rows)
        fit = clone(model).fit(X[train], y[train], sensitive_features=s[train]).at(0.5)
        np.testing.assert_allclose(path.predictions(1)[fold.rows], fit.predict(X[fold.rows]))


def test_resampled_rows_keep_their_weights():
    X, y, s = make(2)
    weight = np.random.default_rng(1).exponential(size=N)
    model = FairRidgeClassifier(**FIXED).fit(X, y, sensitive_features=s)
    path = FairnessPath.from_estimator(
        model, X, y, sensitive_features=s, sample_weight=weight, n_points=3
    )
    wrong = model.at(0.5).predict(X) != y
    rows = np.random.RandomState(5).randint(0, N, size=(20, N))
    draws = [np.average(wrong[r], weights=weight[r]) for r in rows]
    low, high = path.interval("error", 0.8, 20, random_state=5)
    assert (low[1], high[1]) == pytest.approx(tuple(np.quantile(draws, [0.1, 0.9])), abs=1e-12)


@pytest.mark.parametrize("positive", [0, 1, 2])
def test_the_positive_of_several_classes_is_the_one_named(positive):
    X, y, s = make(3)
    model = FairRidgeClassifier(**FIXED, pos_label=positive).fit(X, y, sensitive_features=s)
    path = FairnessPath.from_estimator(model, X, y, sensitive_features=s, n_points=3)
    predicted = model.at(0.5).predict(X)
    for metric in (demographic_parity_difference, equalized_odds_difference):
        expected = metric(y, predicted, sensitive_features=s, pos_label=positive)
        assert path.curve(metric.__name__)[1] == pytest.approx(expected, abs=1e-12)
