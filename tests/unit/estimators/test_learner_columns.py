"""Columns of learners: models of folds, and models of all rows."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from tests.support.shifted import table

from fairspan import (
    FairClassifier,
    FairRegressor,
    FairRidgeClassifier,
    fairness_path,
    load_model,
    save_model,
)

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
LOGISTIC = LogisticRegression()


@pytest.mark.parametrize("estimator", [LOGISTIC, [LOGISTIC, "kernel"]], ids=str)
def test_models_of_all_rows_predict_new_rows_only(estimator):
    X, y, s = table(400)
    Z, _, _ = table(50, seed=1)
    folds, again = (
        FairClassifier(estimator, refit=refit).fit(X, y, sensitive_features=s)
        for refit in (False, True)
    )
    # What is estimated on the folds is the same.
    for name in ("first", "last"):
        found = [getattr(model._solution.new_rows, name) for model in (folds, again)]
        np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(again.stack_weights_, folds.stack_weights_)
    np.testing.assert_array_equal(again._solution.basis, folds._solution.basis)
    of_y = again.pilot_.features.transformer.learners[0]
    whole = LogisticRegression().fit(X, y).predict_proba(Z) @ of_y.vectors
    np.testing.assert_allclose(of_y.average(Z), whole, atol=1e-12)
    scores = [np.ravel(model.decision_function(Z)) for model in (folds, again)]
    assert 0.0 < np.abs(np.subtract(*scores)).max() < 0.5


def test_files_keep_what_new_rows_need(tmp_path):
    pytest.importorskip("skops")
    X, y, s = table(400, classes=0)
    model = FairRegressor([Ridge(), "kernel"], refit=True).fit(X, y, sensitive_features=s)
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    learners = loaded.pilot_.features.transformer.learners
    assert (learners[0].models, len(learners[0].final)) == ((), 1)
    for fairness in (0.0, 0.4, 1.0):
        expected = model.at(fairness).predict(X)
        np.testing.assert_array_equal(loaded.at(fairness).predict(X), expected)
    assert len(model.pilot_.features.transformer.learners[0].models) == 5  # in memory, for paths


def test_paths_are_those_of_the_folds():
    X, y, s = table(400)
    paths = [
        fairness_path(FairClassifier(LOGISTIC, refit=refit), X, y, sensitive_features=s, n_points=5)
        for refit in (False, True)
    ]
    np.testing.assert_array_equal(paths[0].error, paths[1].error)


def test_refit_is_a_flag():
    X, y, s = table(100)
    with pytest.raises(ValueError, match="refit='yes' is not allowed; give True or False"):
        FairClassifier(LOGISTIC, refit="yes").fit(X, y, sensitive_features=s)


# ------------------------------------------------------------------ two readings of one input


def test_only_trees_read_ordinal_codes():
    """Codes of categories have no order, so a linear model inside an ensemble needs one-hot columns."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    s, c = rng.integers(0, 2, 600), rng.integers(0, 12, 600)
    X = pd.DataFrame(
        {"c": np.array([f"c{i:02d}" for i in range(12)])[c], "x": rng.normal(size=600) + s}
    )
    y = np.array([2.0, -2.0] * 6)[c] + rng.normal(size=600) > 0.0
    given = {"fairness": 0.0, "cv": 3, "sensitive_estimator": "linear"}
    for learner in (LogisticRegression(), BaggingClassifier(LogisticRegression(), n_estimators=3)):
        model = FairClassifier(learner, **given).fit(X, y, sensitive_features=s)
        assert model.score(X, y) > 0.9


def test_parameters_by_position_are_refused_for_encoded_frames():
    pd = pytest.importorskip("pandas")
    X, y, s = table(200)
    frame = pd.DataFrame(X, columns=list("abc")).assign(town=np.where(X[:, 0] > 0, "n", "s"))
    forest = RandomForestClassifier(5, monotonic_cst=[0, -1, 0, 0], random_state=0)
    with pytest.raises(
        ValueError, match="monotonic_cst of RandomForestClassifier names columns by"
    ):
        FairClassifier(forest).fit(frame, y, sensitive_features=s)
    FairClassifier(forest, cv=2).fit(np.c_[X, X[:, 0]], y, sensitive_features=s)


def test_rows_without_s_do_not_train_the_models_of_s():
    X, y, s = table(600)
    known = np.arange(600) % 3 > 0
    missing = np.where(known, s.astype(float), np.nan)
    given = {"cv": 3, "missing_sensitive": "omit", "random_state": 0}
    model = FairClassifier(LogisticRegression(), **given).fit(X, y, sensitive_features=missing)
    (_, of_s) = model.pilot_.features.transformer.learners
    assert all(len(models[0].classes_) == 2 for models in of_s.models)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_weights_does_not_matter(scale):
    X, y, s = table(300)
    w = 1.0 + (np.arange(300) % 2)
    one, other = (
        FairClassifier("boosting", cv=2, random_state=0).fit(
            X, y, sensitive_features=s, sample_weight=weight
        )
        for weight in (w, scale * w)
    )
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-6)


def test_rows_of_weight_zero_do_not_reach_the_encoder():
    pd = pytest.importorskip("pandas")
    X, y, s = table(300)
    frame = pd.DataFrame(X, columns=list("abc")).assign(town=np.where(X[:, 0] > 0, "n", "s"))
    w = np.ones(300)
    w[200:] = 0.0
    frame.loc[200:, "a"] = 1000.0
    for kind in (FairClassifier(LogisticRegression(), cv=2), FairRidgeClassifier(gamma=0.2)):
        all_rows = clone(kind).fit(frame, y, sensitive_features=s, sample_weight=w)
        few = clone(kind).fit(
            frame[:200], y[:200], sensitive_features=s[:200], sample_weight=w[:200]
        )
        np.testing.assert_allclose(
            all_rows.decision_function(frame[:50]), few.decision_function(frame[:50]), atol=1e-8
        )


def test_a_stack_of_scikit_learn_is_taken():
    X, y, s = table(200)
    stack = StackingClassifier([("a", LogisticRegression())], cv=2)
    model = FairClassifier(stack, cv=2, sensitive_estimator="linear", fairness=0.0)
    assert model.fit(X, y, sensitive_features=s).score(X, y) > 0.7
