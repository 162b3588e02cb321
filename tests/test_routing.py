"""S through Pipeline, GridSearchCV and cross_validate: routed, or by step name with routing off."""

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from fairspan import FairRepresentation
from fairspan.metrics import demographic_parity_difference, fairness_scorer
from tests.support.small import FIXED, table

X, y, s = table(200)


def pipeline(representation=None):
    return Pipeline(
        [
            ("scale", StandardScaler()),
            ("fair", representation or FairRepresentation(random_state=0, **FIXED)),
            ("model", LogisticRegression()),
        ]
    )


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def by_hand(**params):
    """The same pipeline without any routing: the reference."""
    scaled = StandardScaler().fit_transform(X)
    fair = FairRepresentation(random_state=0, **{**FIXED, **params})
    scores = fair.fit(scaled, y, sensitive_features=s).transform(scaled)
    return LogisticRegression().fit(scores, y).predict_proba(scores)


def test_pipeline_with_routing(routing):
    model = pipeline().fit(X, y, sensitive_features=s)
    np.testing.assert_allclose(model.predict_proba(X), by_hand(), rtol=1e-9)


def test_pipeline_without_routing():
    model = pipeline().fit(X, y, fair__sensitive_features=s)
    np.testing.assert_allclose(model.predict_proba(X), by_hand(), rtol=1e-9)


def test_fit_transform_takes_s(routing):
    fair = FairRepresentation(**FIXED)
    scores = fair.fit_transform(X, y, sensitive_features=s)
    np.testing.assert_array_equal(scores, fair.transform(X))


def test_fit_transform_takes_s_without_routing():
    fair = FairRepresentation(**FIXED)
    np.testing.assert_array_equal(fair.fit_transform(X, y, sensitive_features=s), fair.transform(X))


def test_grid_search_over_the_dial_with_a_fairness_scorer(routing):
    search = GridSearchCV(
        pipeline(),
        {"fair__fairness": [0.0, 0.5, 1.0]},
        scoring={
            "parity": fairness_scorer("demographic_parity_difference"),
            "accuracy": "accuracy",
        },
        refit="parity",
        cv=3,
        error_score="raise",
    ).fit(X, y, sensitive_features=s)
    parity = search.cv_results_["mean_test_parity"]
    assert parity[0] < parity[1:].min()
    assert search.best_params_ == {"fair__fairness": [0.0, 0.5, 1.0][parity.argmax()]}
    best = demographic_parity_difference(y, search.predict(X), sensitive_features=s)
    plain = pipeline().set_params(fair__fairness=0.0).fit(X, y, sensitive_features=s)
    assert best < demographic_parity_difference(y, plain.predict(X), sensitive_features=s)


def test_cross_validate_of_a_grid_search(routing):
    scorer = fairness_scorer("statistical_parity_correlation")
    fair = pipeline().set_params(fair__removal="training_rows")
    search = GridSearchCV(fair, {"fair__fairness": [0.0, 1.0]}, scoring=scorer, cv=3)
    result = cross_validate(
        search,
        X,
        y,
        params={"sensitive_features": s},
        scoring={"parity": scorer, "accuracy": "accuracy"},
        cv=3,
        return_estimator=True,
        error_score="raise",
    )
    assert [e.best_params_["fair__fairness"] for e in result["estimator"]] == [1.0] * 3
    assert (result["test_parity"] > -0.5).all()
    assert (result["test_accuracy"] > 0.5).all()


def test_cross_validate_without_routing():
    result = cross_validate(
        pipeline(), X, y, params={"fair__sensitive_features": s}, cv=3, error_score="raise"
    )
    assert (result["test_score"] > 0.5).all()


def test_folds_get_their_own_rows_of_s(routing):
    """S with one value per row: a fold that got other rows of it would fit something else."""
    order = np.arange(200.0)
    model = FairRepresentation(**FIXED)
    cv = [(np.arange(0, 150), np.arange(150, 200))]
    result = cross_validate(
        pipeline(model),
        X,
        y,
        params={"sensitive_features": order},
        cv=cv,
        return_estimator=True,
        error_score="raise",
    )
    fair = result["estimator"][0]["fair"]
    assert fair.pilot_.coders[0].table.max() < 150


def test_control_features_are_routed_too(routing):
    model = pipeline(FairRepresentation(criterion="conditional_statistical_parity", **FIXED))
    strata = np.where(X[:, 2] > 0, "high", "low")
    model.fit(X, y, sensitive_features=s, control_features=strata)
    assert model["fair"].cells_ == ["control_feature_0=high", "control_feature_0=low"]


def test_weights_need_a_request_and_reach_the_fit(routing):
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    with pytest.raises(Exception, match="sample_weight"):
        pipeline().fit(X, y, sensitive_features=s, sample_weight=weight)
    model = pipeline(FairRepresentation(**FIXED).set_fit_request(sample_weight=True))
    model["scale"].set_fit_request(sample_weight=False)
    model["model"].set_fit_request(sample_weight=False)
    model.fit(X, y, sensitive_features=s, sample_weight=weight)
    assert model["fair"].moments_.pool().weight == weight.sum()
    assert model["fair"].moments_.n_rows == (weight > 0).sum()


def test_the_request_can_be_renamed(routing):
    model = FairRepresentation(**FIXED).set_fit_request(sensitive_features="sex")
    fitted = pipeline(model).fit(X, y, sex=s)
    np.testing.assert_allclose(fitted.predict_proba(X), by_hand(), rtol=1e-9)


def test_s_is_requested_by_fit_alone():
    request = FairRepresentation().get_metadata_routing()
    for method in ("fit", "partial_fit"):
        wanted = getattr(request, method).requests
        assert wanted["sensitive_features"] is True
        assert wanted["control_features"] is True
        assert wanted["sample_weight"] is None
    assert "sensitive_features" not in request.transform.requests
