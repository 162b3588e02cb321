"""Scorers: every metric is one, asks the right method, and is routed."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.unit.metrics.test_scores import ON_DECISIONS, ON_SCORES, ON_SCORES_AND_TARGET

from fairspan import metrics
from fairspan.metrics import (
    by_attribute,
    demographic_parity_difference,
    equal_opportunity_difference,
    equalized_odds_correlation,
    fairness_scorer,
    scorers,
    statistical_parity_correlation,
)

NAMES = sorted(f.__name__ for f in ON_SCORES + ON_SCORES_AND_TARGET + ON_DECISIONS)


@pytest.fixture
def toy(rng):
    n = 240
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 4)) + np.c_[2.0 * s, np.zeros((n, 3))]
    y = (X[:, 0] + X[:, 1] + rng.normal(size=n) > 1.0).astype(int)
    return X, y, s


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_every_metric_is_a_scorer():
    assert sorted(scorers._METRICS) == NAMES
    assert set(NAMES) < set(metrics.__all__)
    with pytest.raises(ValueError, match=r"metric='parity' is unknown\. Known names: ") as error:
        fairness_scorer("parity")
    assert all(name in str(error.value) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "model", [LogisticRegression(), KNeighborsClassifier(), DecisionTreeClassifier(max_depth=2)]
)
def test_scorer_asks_the_right_method_and_signs(name, model, toy, routing):
    X, y, s = toy
    model = make_pipeline(StandardScaler(), clone(model)).fit(X, y)
    score = getattr(model, "decision_function", lambda X: model.predict_proba(X)[:, 1])
    f = score(X)
    metric = getattr(metrics, name)
    if metric in ON_SCORES:
        value = metric(f, sensitive_features=s)
    else:
        value = metric(y, model.predict(X) if metric in ON_DECISIONS else f, sensitive_features=s)
    sign = 1 if name == "demographic_parity_ratio" else -1
    for scorer in (fairness_scorer(name), fairness_scorer(metric)):
        restored = pickle.loads(pickle.dumps(clone(scorer, safe=False)))
        assert restored(model, X, y, sensitive_features=s) == pytest.approx(sign * value)
        assert name in repr(scorer)


def test_scorer_on_a_regressor_and_on_many_classes(toy, routing):
    X, y, s = toy
    model = LinearRegression().fit(X, y + 0.5)
    for metric in ON_SCORES:
        found = fairness_scorer(metric)(model, X, y, sensitive_features=s)
        assert found == -metric(model.predict(X), sensitive_features=s)
    three = y + (X[:, 2] > 0)
    model = LogisticRegression().fit(X, three)
    found = fairness_scorer("equalized_odds_correlation")(model, X, three, sensitive_features=s)
    expected = equalized_odds_correlation(three, model.decision_function(X), sensitive_features=s)
    assert found == -expected


def test_scorer_with_text_labels_and_other_response(toy, routing):
    X, y, s = toy
    text = np.array(["no", "yes"])[y]
    model = LogisticRegression().fit(X, text)
    scorer = fairness_scorer("equal_opportunity_difference", pos_label="no")
    expected = equal_opportunity_difference(
        text, model.predict(X), sensitive_features=s, pos_label="no"
    )
    assert scorer(model, X, text, sensitive_features=s) == -expected
    scorer = fairness_scorer("statistical_parity_correlation", response_method="predict_proba")
    expected = statistical_parity_correlation(model.predict_proba(X)[:, 1], sensitive_features=s)
    assert scorer(model, X, text, sensitive_features=s) == pytest.approx(-expected)


def test_scorer_in_grid_search_and_cross_validate(toy, routing):
    """Only the scorer knows S; the pipeline never sees it."""
    X, y, s = toy
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    scoring = {
        "accuracy": "accuracy",
        "parity": fairness_scorer("demographic_parity_difference"),
        "correlation": fairness_scorer("statistical_parity_correlation"),
    }
    search = GridSearchCV(
        pipeline,
        {"logisticregression__C": [1e-4, 1.0]},
        scoring=scoring,
        refit="parity",
        cv=3,
        error_score="raise",
    ).fit(X, y, sensitive_features=s)
    result = search.cv_results_
    assert search.best_index_ == np.argmax(result["mean_test_parity"])
    assert result["mean_test_parity"][0] > result["mean_test_parity"][1]  # C = 1e-4: one class
    assert np.all(np.abs(result["mean_test_correlation"]) <= 1)
    scores = cross_validate(
        pipeline,
        X,
        y,
        scoring=scoring,
        cv=[(np.arange(120), np.arange(120, 240))],
        params={"sensitive_features": s},
        error_score="raise",
    )
    fitted = clone(pipeline).fit(X[:120], y[:120])
    expected = demographic_parity_difference(
        y[120:], fitted.predict(X[120:]), sensitive_features=s[120:]
    )
    assert scores["test_parity"] == [-expected]


def test_scorer_slices_frames(toy, routing):
    pd = pytest.importorskip("pandas")
    X, y, s = toy
    frame = pd.DataFrame({"sex": np.array(["F", "M"])[s], "age": X[:, 3]})
    scores = cross_validate(
        LogisticRegression(),
        X,
        y,
        scoring=fairness_scorer("correlation_ratio", n_bins=4, intersectional=True),
        params={"sensitive_features": frame},
        error_score="raise",
    )
    assert np.all((scores["test_score"] >= -1) & (scores["test_score"] < 0))


def test_weights_are_never_ignored_silently(toy, routing):
    X, y, s = toy
    w = 1.0 + y + s
    model = LogisticRegression().set_fit_request(sample_weight=True)
    options = {"cv": [(np.arange(120), np.arange(120, 240))], "error_score": "raise"}
    params = {"sensitive_features": s, "sample_weight": w}
    scorer = fairness_scorer("demographic_parity_difference")
    with pytest.raises(ValueError, match="sample_weight"):
        cross_validate(model, X, y, scoring=scorer, params=params, **options)
    scorer = scorer.set_score_request(sensitive_features=True, sample_weight=True)
    found = cross_validate(model, X, y, scoring=scorer, params=params, **options)["test_score"]
    fitted = LogisticRegression().fit(X[:120], y[:120], sample_weight=w[:120])
    expected = demographic_parity_difference(
        y[120:], fitted.predict(X[120:]), sensitive_features=s[120:], sample_weight=w[120:]
    )
    assert found == [-expected]


def smallest_group(y_true, y_pred, *, sensitive_features, at_least=0):
    return max(at_least, np.unique(sensitive_features, return_counts=True)[1].min())


def test_scorer_of_a_callable(toy, routing):
    X, y, s = toy
    model = LogisticRegression().fit(X, y)
    count = np.bincount(s).min()
    scorer = fairness_scorer(smallest_group, greater_is_better=True)
    assert scorer(model, X, y, sensitive_features=s) == count
    scorer = fairness_scorer(smallest_group, at_least=1000)
    assert scorer(model, X, y, sensitive_features=s) == -1000
    assert by_attribute(smallest_group, y, y, sensitive_features={"s": s}) == {"s": count}


def test_scorer_refuses_what_it_cannot_use():
    with pytest.raises(ValueError, match="ks_distance has no argument 'bins'"):
        fairness_scorer("ks_distance", bins=3)
    with pytest.raises(ValueError, match="sensitive_features belongs to the call"):
        fairness_scorer("ks_distance", sensitive_features=[0, 1])


def test_scorer_needs_no_routing_to_be_made():
    assert not sklearn.get_config()["enable_metadata_routing"]
    fairness_scorer("ks_distance")
    assert not sklearn.get_config()["enable_metadata_routing"]
