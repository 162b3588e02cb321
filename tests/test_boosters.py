"""Boosted trees of other libraries inside our learners: ``make test-boosters`` installs them."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from fairspan import (
    FairClassifier,
    FairnessPath,
    FairPostprocessor,
    FairPostprocessorRegressor,
    FairRegressor,
    load_model,
    save_model,
)

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")

SMALL = {
    "lightgbm": ("LGBM", {"n_estimators": 20, "num_leaves": 7, "n_jobs": 1, "verbose": -1}),
    "xgboost": ("XGB", {"n_estimators": 20, "max_depth": 3, "n_jobs": 1}),
    "catboost": (
        "CatBoost",
        {
            "iterations": 20,
            "depth": 3,
            "thread_count": 1,
            "verbose": 0,
            "allow_writing_files": False,
        },
    ),
}


@pytest.fixture(params=SMALL)
def booster(request):
    """Maker of a small classifier or regressor of one library."""
    library = pytest.importorskip(request.param, reason="installed by make test-boosters")
    prefix, params = SMALL[request.param]
    return lambda kind="Classifier": getattr(library, prefix + kind)(**params)


def table(n=600, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    values = rng.normal(size=(n, 3))
    values[:, :2] += 0.7 * s[:, None]
    town = np.where(values[:, 0] > 0.3, "north", np.where(values[:, 1] > 0, "south", "west"))
    X = pd.DataFrame(values, columns=["a", "b", "c"]).assign(town=town)
    X.loc[rng.random(n) < 0.1, "a"] = np.nan
    y = values.sum(axis=1) + rng.normal(size=n)
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    return X, y, s


def correlation(score, s):
    return abs(np.corrcoef(score, s)[0, 1])


def test_classes(booster):
    X, y, s = table(2000)
    Z, labels, groups = table(4000, seed=1)
    model = FairClassifier(booster()).fit(X, y, sensitive_features=s)
    free, fair = (model.at(t).decision_function(Z) for t in (0.0, 1.0))
    assert correlation(fair, groups) < 0.12 < 0.25 < correlation(free, groups)
    assert model.at(0.0).score(Z, labels) > 0.75
    learners = model.pilot_.features.transformer.learners
    assert all(learner.categories is not None for learner in learners)  # one code per category
    path = FairnessPath.from_estimator(model, Z, labels, sensitive_features=groups)
    assert path.table()["correlation"].iloc[-1] < 0.12


def test_three_classes_and_equal_decisions(booster):
    X, y, s = table(classes=3)
    model = FairClassifier(booster()).fit(X, y, sensitive_features=s)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    names = np.where(y == 0, "no", "yes")
    rule = FairClassifier(booster(), equalize="decisions").fit(X, names, sensitive_features=s)
    assert set(rule.predict(X)) <= {"no", "yes"}
    assert rule.certificate_.decisions is not None


def test_numbers_several_attributes_and_weights(booster):
    X, y, s = table(classes=0)
    S = pd.DataFrame({"group": np.where(s == 1, "x", "y"), "age": X["b"] + s})
    weight = np.where(X["c"] > 0, 3.0, 0.5)
    regressor = booster("Regressor")
    model = FairRegressor(regressor, sensitive_estimator=[booster(), regressor])
    model.fit(X, y, sensitive_features=S, sample_weight=weight)
    plain = clone(model).fit(X, y, sensitive_features=S)
    assert not np.allclose(model.predict(X), plain.predict(X))
    assert {block.attribute for block in model.certificate_.blocks} == {"group", "age"}
    stacked = FairRegressor([regressor, "kernel"]).fit(X, y, sensitive_features=s)
    assert stacked.stack_weights_.shape == (2,)


def test_two_fits_give_the_same_model(booster):
    X, y, s = table()
    one, two = (FairClassifier(booster()).fit(X, y, sensitive_features=s) for _ in range(2))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


def test_files(booster, tmp_path):
    pytest.importorskip("skops")
    X, y, s = table()
    model = FairClassifier(booster()).fit(X, y, sensitive_features=s)
    path = save_model(model, tmp_path / "model.skops")
    with pytest.raises(ValueError, match="which fairspan does not trust") as refused:
        load_model(path)
    # The error lists the types to pass.
    named = re.findall(r"'([\w.]+)'", str(refused.value).partition("pass trusted=")[2])
    loaded = load_model(path, trusted=named)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.at(0.3).predict(X), model.at(0.3).predict(X))


def test_frozen_models(booster):
    X, y, s = table(1200)
    Z, _, groups = table(4000, seed=1)
    numbers = ["b", "c"]
    black_box = booster().fit(X[numbers][:600], y[:600])
    model = FairPostprocessor(black_box, sensitive_estimator="kernel")
    model.fit(X[numbers][600:], y[600:], sensitive_features=s[600:])
    score = model.decision_function(Z[numbers])
    assert (
        correlation(score, groups)
        < 0.12
        < correlation(black_box.predict_proba(Z[numbers])[:, 1], groups)
    )
    with pytest.raises(NotFittedError, match="is not fitted"):
        FairPostprocessor(booster()).fit(X, y, sensitive_features=s)
    _, number, _ = table(1200, classes=0)
    regressor = booster("Regressor").fit(X[numbers][:600], number[:600])
    fair = FairPostprocessorRegressor(regressor, sensitive_estimator="kernel")
    fair.fit(X[numbers][600:], number[600:], sensitive_features=s[600:])
    assert correlation(fair.predict(Z[numbers]), groups) < 0.12
