"""Learners: inputs, criteria, frames, limits, rules, paths, files and refusals."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, ShuffleSplit, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from tests.support.hashed import hashed_groups
from tests.support.shifted import frame, table
from tests.test_estimator_checks import TINY, run_checks

from fairspan import (
    FairClassifier,
    FairnessPath,
    FairRegressor,
    audit,
    fairness_path,
    load_model,
    save_model,
)
from fairspan.metrics import fairness_scorer
from fairspan.plotting import (
    GroupDistributionDisplay,
    PriceDisplay,
    SubspaceAngleDisplay,
    TradeoffDisplay,
)

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
LOGISTIC = LogisticRegression()


# ------------------------------------------------------------------ what is fitted


CRITERIA = ("statistical_parity", "equal_opportunity", "equalized_odds")
LEARNERS = (LOGISTIC, [LOGISTIC, "kernel"], "boosting")


@pytest.mark.parametrize(
    ("estimator", "criterion"),
    [
        # A criterion has the same cells for every learner, and trees take the longest.
        pytest.param(learner, name, marks=[pytest.mark.slow] if boosted and i else [])
        for learner in LEARNERS
        for boosted in [learner == "boosting"]
        for i, name in enumerate(CRITERIA)
    ],
    ids=str,
)
def test_dependence_on_new_rows_falls(criterion, estimator):
    X, y, s = table(2000)
    Z, labels, groups = table(20_000, seed=1)
    model = FairClassifier(estimator, criterion=criterion).fit(X, y, sensitive_features=s)
    cells = {
        "statistical_parity": [labels >= 0],
        "equal_opportunity": [labels == 1],
        "equalized_odds": [labels == 0, labels == 1],
    }[criterion]
    for cell in cells:
        free, fair = (
            np.corrcoef(model.at(t).decision_function(Z)[cell], groups[cell])[0, 1] for t in (0, 1)
        )
        assert abs(fair) < 0.12 < 0.2 < free
    assert model.certificate_.new_rows is not None


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_and_decisions_agree(classes):
    X, y, s = table(classes=classes)
    model = FairClassifier([LOGISTIC, "kernel"]).fit(X, y, sensitive_features=s)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    assert model.decision_function(X).shape == ((len(X),) if classes == 2 else (len(X), 3))
    assert model.stack_weights_.shape == (2,)
    assert model.at(0.0).score(X, y) > 1.4 / classes


def test_another_learner_for_s_and_a_continuous_s():
    X, y, s = table(classes=0)
    age = s + 0.5 * np.random.default_rng(2).normal(size=len(s))
    S = pd.DataFrame({"s": s, "age": age})
    model = FairRegressor(Ridge(), sensitive_estimator=[LOGISTIC, LinearRegression()])
    model.fit(X, y, sensitive_features=S)
    assert abs(np.corrcoef(model.predict(X), s)[0, 1]) < 0.2
    value = FairRegressor(Ridge(), dependence="correlation").fit(X, y, sensitive_features=age)
    assert abs(np.corrcoef(value.predict(X), age)[0, 1]) < 0.1
    with pytest.raises(ValueError, match="LogisticRegression is a classifier and cannot predict"):
        FairClassifier(LOGISTIC, dependence="correlation").fit(
            X, (y > 0).astype(int), sensitive_features=age
        )


def test_missing_s():
    X, y, s = table()
    text = np.where(s == 1, "a", "b").astype(object)
    text[:40] = None
    model = FairClassifier(LOGISTIC, missing_sensitive="omit").fit(X, y, sensitive_features=text)
    assert model.certificate_.blocks[0].n_rows == 460
    with pytest.raises(ValueError, match="is missing"):
        FairClassifier(LOGISTIC).fit(X, y, sensitive_features=text)


def test_weights_reach_the_learners():
    X, y, s = table()
    weight = np.where(X[:, 0] > 0, 3.0, 0.5)
    plain = FairClassifier(LOGISTIC).fit(X, y, sensitive_features=s)
    weighted = FairClassifier(LOGISTIC).fit(X, y, sensitive_features=s, sample_weight=weight)
    assert not np.allclose(plain.decision_function(X), weighted.decision_function(X))
    with pytest.raises(ValueError, match=r"KNeighborsClassifier\.fit does not take it"):
        FairClassifier(KNeighborsClassifier()).fit(X, y, sensitive_features=s, sample_weight=weight)


def test_groups_and_splitters():
    X, y, s = table()
    groups = np.arange(len(X)) // 5
    model = FairClassifier(LOGISTIC).fit(X, y, sensitive_features=s, groups=groups)
    assert model.pilot_.cluster_share == 0.2
    split = FairClassifier(LOGISTIC, cv=GroupKFold(4))
    split.fit(X, y, sensitive_features=s, groups=groups)
    assert split._solution.new_rows.n_folds == 4
    with pytest.raises(ValueError, match="every row into exactly one test fold"):
        FairClassifier(LOGISTIC, cv=ShuffleSplit(5)).fit(X, y, sensitive_features=s)
    for cv in (1, True, "five"):
        with pytest.raises(ValueError, match="cv="):
            FairClassifier(LOGISTIC, cv=cv).fit(X, y, sensitive_features=s)


def test_two_fits_and_two_processes_give_the_same_model():
    X, y, s = table()
    forest = RandomForestClassifier(20)
    one, two = (FairClassifier(forest, n_jobs=n).fit(X, y, sensitive_features=s) for n in (None, 2))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


# ------------------------------------------------------------------ frames


@pytest.mark.parametrize("estimator", ["auto", LOGISTIC], ids=str)
def test_frames_go_straight_in(estimator):
    X, y, s = frame()
    model = FairClassifier(estimator).fit(X.assign(s=s), y, sensitive_features="s")
    scores = model.decision_function(X.assign(s=s)[:9])
    np.testing.assert_allclose(scores, model.decision_function(X[:9]), atol=1e-9)
    trees = [learner.categories for learner in model.pilot_.features.transformer.learners[:1]]
    assert (trees[0] is not None) == (estimator == "auto")
    assert model.text_features_ == ["town"]
    with pytest.raises(ValueError, match="needs a data frame"):
        model.predict(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="not numbers"):
        FairClassifier(estimator, encoder=None).fit(X, y, sensitive_features=s)


def test_trees_read_one_code_per_category():
    X, y, s = frame()
    model = FairClassifier("boosting").fit(X, y, sensitive_features=s)
    boosted = model.pilot_.features.transformer.learners[0]
    codes = boosted.categories.ordinal(model.encoder_.transform(X))
    names = model.encoder_.get_feature_names_out().tolist()
    assert codes.shape[1] == len([n for n in names if not n.startswith("town=")]) + 1
    assert len(np.unique(codes[:, -1])) == X["town"].nunique()
    assert boosted.models[0][0].is_categorical_.tolist() == [False] * (codes.shape[1] - 1) + [True]


# ------------------------------------------------------------------ dial, rules, paths, files


def test_limits_and_the_dial():
    X, y, s = table(2000)
    model = FairClassifier(LOGISTIC).fit(X, y, sensitive_features=s)
    limited = model.at(max_correlation=0.1)
    assert limited.certificate_.new_rows.correlation == pytest.approx(0.1, abs=1e-6)
    promised = model.at(max_correlation=0.1, confidence=0.95)
    assert promised.fairness > limited._position.fairness
    assert promised.certificate_.new_rows.high <= 0.1 + 1e-6
    for dial in ("angle", "share", "correlation"):
        assert model.at(0.5, dial=dial).certificate_.dial == dial


def test_equal_decisions():
    X, y, s = table(2000)
    Z, _, groups = table(20_000, seed=1)
    model = FairClassifier([LOGISTIC, "kernel"], equalize="decisions")
    model.fit(X, y, sensitive_features=s)
    free, fair = (
        abs(np.diff([model.at(t).predict(Z)[groups == g].mean() for g in (0, 1)])[0])
        for t in (0, 1)
    )
    assert fair < 0.08 < 0.3 < free
    gap = model.at(max_gap=0.1).certificate_.decisions.gap
    assert gap <= 0.1
    assert model.at(1.0, equalize="scores").certificate_.new_rows.correlation < 0.01


def test_paths():
    X, y, s = table(800)
    Z, labels, groups = table(800, seed=1)
    model = FairClassifier(LOGISTIC).fit(X, y, sensitive_features=s)
    path = FairnessPath.from_estimator(model, Z, labels, sensitive_features=groups)
    errors = [np.mean(model.at(t).predict(Z) != labels) for t in (0.0, 1.0)]
    np.testing.assert_allclose(path.table()["error"].iloc[[0, -1]], errors)


@pytest.mark.parametrize("cv", [5, KFold(5)], ids=str)
def test_paths_of_training_rows_are_out_of_fold(cv):
    X, y, s = table(300)
    learned_by_heart = RandomForestClassifier(10)
    path = fairness_path(FairClassifier(learned_by_heart, cv=cv), X, y, sensitive_features=s)
    assert path.table()["error"].iloc[0] > 0.15


def test_files(tmp_path):
    pytest.importorskip("skops.io")
    X, y, s = frame()
    model = FairClassifier([LOGISTIC, "kernel"]).fit(X, y, sensitive_features=s)
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(loaded.at(0.3).predict(X), model.at(0.3).predict(X))
    assert str(loaded.certificate_) == str(model.certificate_)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(X), model.predict(X))


@pytest.mark.slow
def test_files_of_boosted_trees(tmp_path):
    skops = pytest.importorskip("skops.io")
    X, y, s = frame()
    boosted = FairClassifier("boosting").fit(X, y, sensitive_features=s)
    path = save_model(boosted, tmp_path / "boosted.skops")
    names = skops.get_untrusted_types(file=path)
    assert "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor" in names
    with pytest.raises(ValueError, match="does not trust"):
        load_model(path)
    loaded = load_model(path, trusted=names)
    np.testing.assert_array_equal(loaded.predict(X), boosted.predict(X))


# ------------------------------------------------------------------ scikit-learn


def test_routing_and_searches():
    X, y, s = table()
    with sklearn.config_context(enable_metadata_routing=True):
        params = {"sensitive_features": s}
        found = cross_validate(FairClassifier(LOGISTIC), X, y, params=params, cv=2)
        assert len(found["test_score"]) == 2
        grid = {"estimator__C": [0.1, 1.0]}
        search = GridSearchCV(FairClassifier(LOGISTIC), grid, cv=2)
        assert search.fit(X, y, sensitive_features=s).best_params_


def test_searches_over_learners_inside_pipelines():
    X, y, s = table(300)
    steps = Pipeline([("scale", StandardScaler()), ("model", FairClassifier(LOGISTIC))])
    forest = RandomForestClassifier(5)
    grid = {"model__estimator": [LOGISTIC, forest, [forest, "kernel"]], "model__cv": [3]}
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = fairness_scorer("statistical_parity_correlation")
        search = GridSearchCV(steps, grid, cv=2, scoring=scorer)
        search.fit(X, y, sensitive_features=s, groups=np.arange(300) // 2)
    best = search.best_estimator_["model"]
    assert best.pilot_.cluster_share == 0.5
    assert best._solution.new_rows.n_folds == 3


def test_parameters_are_copied_and_set():
    model = FairClassifier([LOGISTIC, "kernel"], sensitive_estimator=LogisticRegression(C=2.0))
    again = clone(model).set_params(sensitive_estimator__C=3.0, fairness=0.5)
    assert again.estimator[0] is not LOGISTIC
    assert (again.sensitive_estimator.C, model.sensitive_estimator.C) == (3.0, 2.0)
    X, y, s = table(200)
    again.fit(X, y, sensitive_features=s).set_params(sensitive_estimator__C=1.0)
    with pytest.raises(ValueError, match="sensitive_estimator was changed after the fit"):
        again.at(0.2)


@pytest.mark.parametrize("model", [FairClassifier(LOGISTIC), FairRegressor(Ridge())], ids=str)
def test_audits_and_displays(model):
    pytest.importorskip("matplotlib").use("Agg")
    X, y, s = table(400)
    Z, labels, groups = table(400, seed=1)
    fitted = clone(model).fit(X, y, sensitive_features=s)
    given = {"sensitive_features": groups}
    found = audit(fitted, Z, labels, **given, attackers=["linear"], n_boot=20)
    assert found.select("scores")
    assert found.select("attacks")
    own = audit(fitted, X, y, sensitive_features=s, parts=["scores"], n_boot=20)
    assert "100% of these rows" in str(own)
    for display in (PriceDisplay, TradeoffDisplay):
        display.from_estimator(fitted, Z, labels, **given)
    GroupDistributionDisplay.from_estimator(fitted, Z, **given)
    SubspaceAngleDisplay.from_estimator(fitted)


class HashedFairClassifier(FairClassifier):
    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        groups = hashed_groups(X) if sensitive_features is None else sensitive_features
        return super().fit(X, y, sensitive_features=groups, sample_weight=sample_weight)


class HashedFairRegressor(FairRegressor):
    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        groups = hashed_groups(X) if sensitive_features is None else sensitive_features
        return super().fit(X, y, sensitive_features=groups, sample_weight=sample_weight)


@TINY
@pytest.mark.parametrize("cls", [HashedFairClassifier, HashedFairRegressor])
@pytest.mark.parametrize("learner", [pytest.param("auto", marks=pytest.mark.slow), "kernel"])
def test_every_check_passes(cls, learner):
    outcome = run_checks(cls(learner))
    # Six rows, and two groups of 5 need 10.
    outcome.pop("check_classifier_data_not_an_array", None)
    assert {name: error for name, error in outcome.items() if error is not None} == {}
    assert len(outcome) >= 48


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"estimator": "forest"}, "estimator='forest' is not allowed"),
        ({"estimator": Ridge()}, "a classifier of scikit-learn"),
        ({"estimator": []}, "at least one learner"),
        ({"estimator": ["auto", "kernel"]}, "'auto' alone"),
        ({"estimator": LogisticRegression}, "a scikit-learn estimator"),
        ({"estimator": LinearSVC()}, "has no predict_proba"),
        ({"encoder": "onehot"}, "encoder='onehot' is not allowed"),
        ({"fairness": 2.0}, "fairness=2.0 is not allowed"),
    ],
)
def test_what_is_not_allowed(params, text):
    X, y, s = table(100)
    with pytest.raises(ValueError, match=text):
        FairClassifier(**params).fit(X, y, sensitive_features=s)


def test_there_are_no_blocks_of_rows():
    assert not hasattr(FairClassifier(), "partial_fit")
    with pytest.raises(AttributeError, match="learns from all rows at once"):
        FairRegressor().fit_stream  # noqa: B018
