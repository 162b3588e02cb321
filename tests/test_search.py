"""Searches over fairness: a score that does not see groups is warned of, once per search."""

import warnings

import numpy as np
import pytest
import sklearn
from scipy.stats import uniform
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    RandomizedSearchCV,
    cross_validate,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from fairspan import FairRepresentation, FairRidge, FairRidgeClassifier, FairspanWarning
from fairspan.metrics import fairness_scorer
from tests.support.small import FIXED, table

defect = pytest.mark.regression(
    "GridSearchCV over fairness with accuracy always picks the unfair end"
)
X, Y, S = table(120)
GRID = {"fairness": [0.0, 0.5, 1.0]}
ROWS = {"X": X, "y": Y, "sensitive_features": S}


def ridge():
    return FairRidgeClassifier(**FIXED, n_components=10, random_state=0)


def told(search, **rows):
    """What a search says about fairness."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        search.fit(**(rows or ROWS))
    texts = [str(one.message) for one in seen if issubclass(one.category, FairspanWarning)]
    return [text for text in texts if "does not measure fairness" in text], seen


SEARCHES = {
    "grid": GridSearchCV(ridge(), GRID, cv=2),
    "named": GridSearchCV(ridge(), GRID, cv=2, scoring="accuracy"),
    "scorer": GridSearchCV(ridge(), GRID, cv=2, scoring=make_scorer(accuracy_score)),
    "several": GridSearchCV(ridge(), GRID, cv=2, scoring=["accuracy", "f1"], refit="f1"),
    "by name": GridSearchCV(ridge(), GRID, cv=2, scoring={"a": "accuracy"}, refit="a"),
    "two grids": GridSearchCV(ridge(), [{"fairness": [0.0]}, {"fairness": [1.0]}], cv=2),
    "processes": GridSearchCV(ridge(), GRID, cv=2, n_jobs=2),
    "random": RandomizedSearchCV(ridge(), GRID, n_iter=2, cv=2, random_state=0),
    "distribution": RandomizedSearchCV(
        ridge(), {"fairness": uniform()}, n_iter=2, cv=2, random_state=0
    ),
    "halving": HalvingGridSearchCV(ridge(), GRID, cv=2, random_state=0),
    "halving at random": HalvingRandomSearchCV(
        ridge(), GRID, cv=2, n_candidates=3, min_resources=40, random_state=0
    ),
}


@pytest.mark.parametrize("search", SEARCHES)
@defect
def test_a_search_by_accuracy_is_warned_of_once(search):
    texts, _ = told(SEARCHES[search])
    assert len(texts) == 1
    (text,) = texts
    assert "fairspan.metrics.fairness_scorer" in text
    assert f"chose fairness={SEARCHES[search].best_params_['fairness']!r}" in text


@pytest.mark.parametrize("last", [ridge(), FairRepresentation(**FIXED, random_state=0)])
@defect
def test_a_step_of_a_pipeline_is_warned_of(last):
    steps = [("scale", StandardScaler()), ("fair", last)]
    if isinstance(last, FairRepresentation):
        steps.append(("model", LogisticRegression()))
    search = GridSearchCV(Pipeline(steps), {"fair__fairness": [0.0, 1.0]}, cv=2)
    texts, seen = told(search, X=X, y=Y, fair__sensitive_features=S)
    assert ["GridSearchCV chose fair__fairness=" in text for text in texts] == [True]
    assert seen[-1].filename == __file__  # the line of the caller


@defect
def test_a_search_of_a_regression_is_warned_of():
    model = FairRidge(**FIXED, n_components=10, random_state=0)
    texts, _ = told(GridSearchCV(model, GRID, cv=2), X=X, y=X[:, 0], sensitive_features=S)
    assert ["by the default score" in text for text in texts] == [True]


def fairest(estimator, X, y):
    """A scorer of the user's."""
    return estimator.score(X, y) + estimator.fairness


def accurate(results):
    """A rule of the user's for the choice."""
    return int(np.argmax(results["mean_test_accuracy"]))


@pytest.mark.parametrize(
    "search",
    [
        GridSearchCV(ridge(), {"alpha": [0.1, 1.0]}, cv=2),
        GridSearchCV(ridge(), {"alpha": [0.1, 1.0], "fairness": [1.0]}, cv=2),
        GridSearchCV(ridge(), GRID, cv=2, scoring=fairest),
        GridSearchCV(ridge(), GRID, cv=2, scoring=["accuracy"], refit=accurate),
        GridSearchCV(ridge(), GRID, cv=2, scoring="accuracy", refit=False),
    ],
    ids=["no fairness", "one value", "a function", "a rule", "no refit"],
)
def test_searches_that_need_no_warning(search):
    assert told(search)[0] == []


def test_the_scorer_that_the_warning_names_is_not_warned_of():
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = fairness_scorer("demographic_parity_difference")
        search = GridSearchCV(ridge(), GRID, cv=2, scoring=scorer)
        assert told(search)[0] == []


def test_the_same_search_twice_warns_once_each():
    search = GridSearchCV(ridge(), GRID, cv=2)
    assert len(told(search)[0]) == len(told(search)[0]) == 1


def test_no_search_no_warning():
    ridge().set_params(fairness=0.5).fit(**ROWS).set_params(fairness=0.1).score(X, Y)
    cross_validate(ridge(), X, Y, params={"sensitive_features": S}, cv=2)
