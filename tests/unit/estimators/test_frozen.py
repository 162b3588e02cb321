"""Scores of a frozen model: which method is read, and what is refused."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from fairspan.estimators.frozen import FrozenScores

X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])


def first_column(rows):
    return rows[:, 0]


@pytest.mark.parametrize(
    ("model", "method", "width"),
    [
        (LogisticRegression().fit(X, THREE), "predict_proba", 3),
        (FrozenEstimator(LogisticRegression().fit(X, Y)), "predict_proba", 2),
        (make_pipeline(StandardScaler(), LinearSVC()).fit(X, Y), "decision_function", 1),
        (LinearSVC().fit(X, THREE), "decision_function", 3),
        (first_column, "__call__", 1),
        (LinearRegression().fit(X, Y).predict, "__call__", 1),
    ],
)
def test_methods(model, method, width):
    scores = FrozenScores.of(model, classes=True)
    assert scores.method == method
    columns = scores.columns(X)
    assert columns.shape == (60, width)
    if width == 3:
        np.testing.assert_allclose(columns.sum(axis=1), 1.0)
        np.testing.assert_array_equal(columns.argmax(axis=1), model.predict(X))


def test_classes_are_matched_by_label():
    names = np.array(["low", "middle", "high"])
    model = LogisticRegression().fit(X, names[THREE])
    scores, contrasts = FrozenScores.of(model, classes=True), np.arange(6.0).reshape(3, 2)
    found = scores.to_contrasts(3, names, contrasts)
    np.testing.assert_array_equal(found, contrasts[[2, 0, 1]])  # high, low, middle
    with pytest.raises(ValueError, match=r"but y has the classes \['high', 'low'\]"):
        scores.to_contrasts(3, names[[0, 2]], contrasts)
    with pytest.raises(ValueError, match="1 scores per row, but y has the classes"):
        FrozenScores.of(first_column, classes=True).to_contrasts(1, names, contrasts)
    with pytest.raises(ValueError, match="2 numbers per row; a regressor gives one"):
        FrozenScores.of(first_column, classes=False).to_contrasts(2, None, np.ones((1, 1)))


def test_a_single_score_rises_with_the_larger_label():
    contrasts = np.array([[-1.0], [1.0]])
    scores = FrozenScores.of(first_column, classes=True)
    assert scores.to_contrasts(1, np.array(["no", "yes"]), contrasts)[0, 0] > 0


@pytest.mark.parametrize(
    ("model", "classes", "text"),
    [
        (LinearRegression(), True, "Regressors go into FairPostprocessorRegressor"),
        (LogisticRegression(), False, "Classifiers go into FairPostprocessor"),
        (LogisticRegression, True, "a fitted model"),
        ("auto", True, "model='auto' is not allowed"),
        (None, False, "a function of X that returns scores"),
    ],
)
def test_what_is_not_a_model(model, classes, text):
    with pytest.raises(ValueError, match=text):
        FrozenScores.of(model, classes=classes)


def test_a_model_that_is_not_fitted():
    with pytest.raises(NotFittedError, match="LogisticRegression is not fitted"):
        FrozenScores.of(LogisticRegression(), classes=True)
    with pytest.raises(NotFittedError, match="Pipeline is not fitted"):
        FrozenScores.of(make_pipeline(StandardScaler(), LogisticRegression()), classes=True)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda rows: rows[:5, 0], "for 60 rows"),
        (lambda rows: np.full(len(rows), "yes"), "one number per row"),
        (lambda rows: np.full(len(rows), np.nan), "60 scores that are not finite"),
        (lambda rows: rows[:, :, None], "one number per row"),
    ],
)
def test_scores_that_cannot_be_used(function, text):
    with pytest.raises(ValueError, match=text):
        FrozenScores.of(function, classes=True).columns(X)
