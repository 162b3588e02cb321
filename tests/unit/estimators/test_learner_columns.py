"""Columns of learners: models of folds, and models of all rows."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from tests.support.shifted import table

from fairspan import FairClassifier, FairRegressor, fairness_path, load_model, save_model

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
