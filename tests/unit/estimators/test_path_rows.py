"""Rows of a path: learners are judged by the models that did not see a row."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, PredefinedSplit
from sklearn.tree import DecisionTreeClassifier
from tests.support.shifted import frame, table

from fairspan import FairClassifier, FairGPClassifier, FairnessPath, FairRegressor, fairness_path
from fairspan.estimators.dial_predictor import DialHeads
from fairspan.estimators.path_rows import of_own_folds, read_rows

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
LOGISTIC = LogisticRegression()


@pytest.mark.parametrize("cv", [4, KFold(4, shuffle=True)], ids=["number", "random splitter"])
def test_a_path_of_learners_is_out_of_fold(cv):
    """A tree repeats the labels of its training rows, so its error there is far too small."""
    X, y, s = table(600)
    model = FairClassifier(DecisionTreeClassifier(), cv=cv)
    path = fairness_path(model, X, y, sensitive_features=s)
    seen = FairnessPath.from_estimator(path.estimator, X, y, sensitive_features=s)
    Z, labels, groups = table(5000, seed=1)
    new = FairnessPath.from_estimator(path.estimator, Z, labels, sensitive_features=groups)
    assert seen.error[0] < 0.12 < 0.15 < new.error[0]
    assert path.error[0] > new.error[0] - 0.04


@pytest.mark.parametrize("estimator", [LOGISTIC, [LOGISTIC, "kernel"]], ids=str)
def test_scores_of_own_folds_are_those_that_the_removal_used(estimator):
    X, y, s = table(600)
    model = FairClassifier(estimator, cv=KFold(3)).fit(X, y, sensitive_features=s)
    data = read_rows(model, X, y, s, None, None)
    heads = DialHeads.along(model, np.array([0.0, 1.0]))
    fair = np.empty(len(X))
    for part in of_own_folds(model, data, heads):
        fair[part.rows] = part.at(slice(1, 2))[:, 0, 0]
    # Zero covariance out of fold at fairness 1, within the folds.
    fold = np.arange(len(X)) // 200
    within = [np.cov(fair[fold == k], s[fold == k])[0, 1] for k in range(3)]
    assert abs(np.mean(within)) < 1e-8


@pytest.mark.parametrize("options", [{"cv": 2}, {"holdout": 0.3}, {}], ids=str)
@pytest.mark.parametrize(
    "model", [FairClassifier(LOGISTIC), FairGPClassifier(gamma=0.5)], ids=lambda m: type(m).__name__
)
def test_paths_of_frames(model, options):
    X, y, s = frame(300)
    path = fairness_path(model, X.assign(s=s), y, sensitive_features="s", n_points=5, **options)
    assert path.estimator.text_features_ == ["town"]
    assert 0.0 < path.error[0] < 0.5


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_limits_are_selected_from_paths_of_learners(confidence):
    X, y, s = table(1000, classes=0)
    path = fairness_path(FairRegressor("kernel"), X, y, sensitive_features=s)
    chosen = path.select(at_most=0.2, confidence=confidence)
    assert chosen.selection_.met
    assert chosen.selection_.value <= 0.2
    assert 0.0 < chosen.fairness < 1.0
    np.testing.assert_array_equal(chosen.predict(X), path.estimator.at(chosen.fairness).predict(X))


def test_a_class_that_a_fold_has_not_seen_is_never_predicted_there():
    X, y, s = table(600, classes=3)
    y[:500][y[:500] == 2] = 0
    fold = np.repeat([0, 1], [500, 100])
    path = fairness_path(
        FairClassifier(LOGISTIC), X, y, sensitive_features=s, cv=PredefinedSplit(fold), n_points=3
    )
    assert np.isfinite(path.error).all()
    two = FairClassifier(LOGISTIC).fit(X[:500], y[:500], sensitive_features=s[:500])
    heads = DialHeads.along(two, path.fairness).for_classes(two, np.arange(3))
    scores = heads.outputs(np.zeros((1, heads.coef.shape[1])), slice(0, 3))[0]
    assert (scores[2] < -100.0 + scores[:2]).all()
