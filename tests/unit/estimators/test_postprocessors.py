"""Postprocessors of frozen models: inputs, correction, dial, rules, paths, files and refusals."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from tests.support.hashed import hashed_groups
from tests.support.shifted import frame, table
from tests.test_estimator_checks import TINY, run_checks

from fairspan import (
    FairnessPath,
    FairPostprocessor,
    FairPostprocessorRegressor,
    audit,
    fairness_path,
    load_model,
    save_model,
)

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")
LOGISTIC = LogisticRegression()


def vendor(classes=2, seed=7):
    X, y, _ = table(500, seed=seed, classes=classes)
    return (LogisticRegression() if classes else LinearRegression()).fit(X, y)


def post(classes=2, model=None, **params):
    cls = FairPostprocessor if classes else FairPostprocessorRegressor
    params = {"sensitive_estimator": LOGISTIC, **params}
    return cls(vendor(classes) if model is None else model, **params)


# ------------------------------------------------------------------ the correction


@pytest.mark.parametrize("criterion", ["statistical_parity", "equal_opportunity", "equalized_odds"])
@pytest.mark.parametrize("sensitive", [LOGISTIC, [LOGISTIC, "kernel"]], ids=str)
def test_dependence_on_new_rows_falls(criterion, sensitive):
    X, y, s = table(2000)
    Z, labels, groups = table(20_000, seed=1)
    model = post(criterion=criterion, sensitive_estimator=sensitive)
    model.fit(X, y, sensitive_features=s)
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


def test_numbers_and_functions():
    X, y, s = table(1000, classes=0)
    Z, _, groups = table(20_000, seed=1, classes=0)
    black_box = vendor(0)
    model = post(0, black_box).fit(X, y, sensitive_features=s)
    assert FairPostprocessorRegressor(black_box).sensitive_estimator == "auto"
    function = post(0, black_box.predict).fit(X, y, sensitive_features=s)
    np.testing.assert_allclose(model.predict(Z), function.predict(Z))
    assert abs(np.corrcoef(model.predict(Z), groups)[0, 1]) < 0.1
    assert np.corrcoef(model.at(0.0).predict(Z), black_box.predict(Z))[0, 1] > 0.98


def test_the_prediction_is_the_score_minus_predictions_of_s():
    X, y, s = table(classes=0)
    black_box = vendor(0)
    model = post(0, black_box).fit(X, y, sensitive_features=s)
    learners = model.pilot_.features.transformer.learners
    assert len(learners) == 1  # of S; there is none of y
    predicted = [learner.average(X) for learner in learners]
    A = np.column_stack([black_box.predict(X), *predicted, np.ones(len(X))])
    for t in (0.0, 0.4, 1.0):
        f = model.at(t).predict(X)
        coef, *_ = np.linalg.lstsq(A, f, rcond=None)
        np.testing.assert_allclose(A @ coef, f, atol=1e-9)
        assert coef[0] > 0.5


def test_scores_out_of_fold_are_uncorrelated_with_s():
    X, y, s = table(classes=0)
    model = post(0).fit(X, y, sensitive_features=s)
    (block,) = model._solution.new_rows.blocks
    np.testing.assert_allclose(block.cov @ model._solution.new_rows.last, 0.0, atol=1e-10)
    path = fairness_path(model, X, y, sensitive_features=s)
    assert path.table()["correlation"].iloc[-1] < 0.02


@pytest.mark.parametrize("classes", [2, 3])
def test_labels_and_probabilities(classes):
    X, y, s = table(classes=classes)
    names = np.array(["low", "mid", "high"])
    black_box = LogisticRegression().fit(X, names[y])
    model = post(model=black_box).fit(X, names[y], sensitive_features=s)
    p = model.predict_proba(X)
    np.testing.assert_array_equal(model.classes_, black_box.classes_)
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    assert np.mean(model.at(0.0).predict(X) == black_box.predict(X)) > 0.9


def test_several_weighted_and_missing_attributes():
    X, y, s = table()
    S = pd.DataFrame({"s": np.where(s == 1, "a", "b"), "age": X[:, 1] + s})
    S.loc[:20, "s"] = None
    weight = np.where(X[:, 0] > 0, 2.0, 0.5)
    weight[-5:] = 0.0
    model = post(missing_sensitive="omit")
    model.fit(X, y, sensitive_features=S, sample_weight=weight)
    assert {block.attribute for block in model.certificate_.blocks} == {"s", "age"}
    plain = post(missing_sensitive="omit").fit(X, y, sensitive_features=S)
    assert not np.allclose(model.predict_proba(X), plain.predict_proba(X))


# ------------------------------------------------------------------ the rows that the model gets


class Watched:
    """A model without `fit` that keeps the rows that it was given."""

    def __init__(self, model):
        self.model, self.rows = model, []

    def predict_proba(self, X):
        self.rows.append(X)
        return self.model.predict_proba(X)


def test_the_model_gets_the_frame_of_the_user():
    X, y, s = frame(1000)
    steps = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["town"]),
        (SimpleImputer(), ["a", "b"]),
    )
    black_box = Watched(make_pipeline(steps, LOGISTIC).fit(X[:500], y[:500]))
    rows, labels, groups = X[500:], y[500:], s[500:]
    model = post(model=black_box)
    model.fit(rows.assign(s=groups), labels, sensitive_features="s")
    scores = model.decision_function(rows[:9])
    with_s = rows[:9].assign(s=groups[:9])[["s", "flag", "a", "b", "town"]]
    np.testing.assert_allclose(model.decision_function(with_s), scores)
    assert [list(given.columns) for given in black_box.rows] == [list(X.columns)] * 3
    pd.testing.assert_frame_equal(black_box.rows[0], rows)
    numbers = model.pilot_.features.transformer
    assert numbers.frozen.shape == (2, 1)


def test_numeric_frames_arrays_and_lists():
    X, y, s = table()
    names = ["a", "b", "c"]
    black_box = Watched(LogisticRegression().fit(pd.DataFrame(X, columns=names), y))
    model = post(model=black_box).fit(pd.DataFrame(X, columns=names), y, sensitive_features=s)
    model.predict(pd.DataFrame(X, columns=names))
    assert all(list(rows.columns) == names for rows in black_box.rows)
    black_box = Watched(vendor())
    model = post(model=black_box).fit(X.astype(np.float32), y, sensitive_features=s)
    model.predict(X[:3].tolist())
    assert [rows.dtype for rows in black_box.rows] == [np.float32, np.float64]


def test_rows_are_matched_by_their_index():
    X, y, s = table()
    X = pd.DataFrame(X, columns=list("abc"))
    order = np.random.default_rng(0).permutation(len(X))
    one = post(model=LOGISTIC.fit(X, y)).fit(X, pd.Series(y), sensitive_features=pd.Series(s))
    other = post(model=LOGISTIC).fit(
        X, pd.Series(y).iloc[order], sensitive_features=pd.Series(s).iloc[order]
    )
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


# ------------------------------------------------------------------ dial, rules, paths, files


def test_limits_rules_and_the_dial():
    X, y, s = table(2000)
    model = post(equalize="decisions").fit(X, y, sensitive_features=s)
    assert model.at(max_gap=0.1).certificate_.decisions.gap <= 0.1
    scores = model.at(1.0, equalize="scores")
    limited = scores.at(max_correlation=0.1)
    assert limited.certificate_.new_rows.correlation == pytest.approx(0.1, abs=1e-6)
    promised = scores.at(max_correlation=0.1, confidence=0.95)
    assert promised.certificate_.new_rows.high <= 0.1 + 1e-6


def test_paths_and_audits():
    X, y, s = table(800)
    Z, labels, groups = table(800, seed=1)
    model = post().fit(X, y, sensitive_features=s)
    path = FairnessPath.from_estimator(model, Z, labels, sensitive_features=groups)
    errors = [np.mean(model.at(t).predict(Z) != labels) for t in (0.0, 1.0)]
    np.testing.assert_allclose(path.table()["error"].iloc[[0, -1]], errors)
    assert model._fitted_share(model._read_new(X)) > 0.9
    assert audit(model, Z, labels, sensitive_features=groups, parts=["scores"]) is not None


def test_paths_with_folds_of_their_own():
    X, y, s = table(400)
    path = fairness_path(post(), X, y, sensitive_features=s, cv=KFold(3))
    assert path.table()["error"].iloc[0] < 0.3


def test_files(tmp_path):
    pytest.importorskip("skops")
    X, y, s = frame()
    numbers = X[["b", "flag"]]
    model = post(model=LogisticRegression().fit(numbers, y)).fit(numbers, y, sensitive_features=s)
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(loaded.predict_proba(numbers), model.predict_proba(numbers))
    np.testing.assert_array_equal(loaded.at(0.3).predict(numbers), model.at(0.3).predict(numbers))
    function = post(model=last_column).fit(numbers, y, sensitive_features=s)
    path = save_model(function, tmp_path / "function.skops")
    with pytest.raises(ValueError, match=r"last_column.*does not trust"):
        load_model(path)
    loaded = load_model(path, trusted=[f"{__name__}.last_column"])
    np.testing.assert_array_equal(loaded.predict(numbers), function.predict(numbers))
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(numbers), model.predict(numbers))


def last_column(X):
    return np.asarray(X)[:, -1].astype(float)


# ------------------------------------------------------------------ scikit-learn


def test_clones_and_searches_keep_the_model():
    X, y, s = table()
    black_box = vendor()
    before = pickle.dumps(black_box)
    model = post(model=black_box)
    assert clone(model).model is black_box
    assert not [name for name in model.get_params() if name.startswith("model__")]
    with pytest.raises(ValueError, match="model__C cannot be set: the model is frozen"):
        model.set_params(model__C=3.0)
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(model, {"sensitive_estimator__C": [0.1, 1.0]}, cv=2)
        search.fit(X, y, sensitive_features=s)
    assert search.best_estimator_.model is black_box
    assert pickle.dumps(black_box) == before


def sum_of_columns(X):
    return np.asarray(X, dtype=float).sum(axis=1)


class _Hashed:
    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        groups = hashed_groups(X) if sensitive_features is None else sensitive_features
        return super().fit(X, y, sensitive_features=groups, sample_weight=sample_weight)


class HashedFairPostprocessor(_Hashed, FairPostprocessor):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False  # one score has two classes
        tags.classifier_tags.poor_score = True  # of a function that has not seen y
        return tags


class HashedFairPostprocessorRegressor(_Hashed, FairPostprocessorRegressor):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


@TINY
@pytest.mark.parametrize("cls", [HashedFairPostprocessor, HashedFairPostprocessorRegressor])
def test_every_check_passes(cls):
    outcome = run_checks(cls(sum_of_columns, sensitive_estimator="kernel"))
    # Six rows, and two groups of 5 need 10.
    outcome.pop("check_classifier_data_not_an_array", None)
    # Three classes are refused in our own words.
    outcome.pop("check_classifier_not_supporting_multiclass", None)
    assert {name: error for name, error in outcome.items() if error is not None} == {}
    assert len(outcome) >= 45


# ------------------------------------------------------------------ refusals


def test_what_is_not_allowed():
    X, y, s = table(100)
    with pytest.raises(NotFittedError, match="LogisticRegression is not fitted"):
        post(model=LogisticRegression()).fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="sensitive_estimator=None is not allowed"):
        post(sensitive_estimator=None).fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="but y has the classes"):
        post(3).fit(X, y, sensitive_features=s)
    black_box = vendor()
    model = post(model=black_box).fit(X, y, sensitive_features=s)
    black_box.fit(X, table(100, classes=3)[1])  # the model was not frozen after all
    with pytest.raises(ValueError, match="3 scores per row, but gave 2 to the rows of the fit"):
        model.predict(X)
    frame = pd.DataFrame(X, columns=list("abc")).assign(s=s)
    reads_s = LogisticRegression().fit(frame, y)
    with pytest.raises(ValueError, match="reads the column 's'"):
        post(model=reads_s).fit(frame, y, sensitive_features="s")


def test_another_model_after_the_fit_is_noticed(tmp_path):
    X, y, s = table(200)
    one, other = LogisticRegression().fit(X, y), LogisticRegression().fit(X, 1 - y)
    model = FairPostprocessor(one, sensitive_estimator="linear", cv=2).fit(
        X, y, sensitive_features=s
    )
    for copied in (pickle.loads(pickle.dumps(model)), model):
        copied.at(0.5).predict(X)
    pytest.importorskip("skops")
    load_model(save_model(model, tmp_path / "model.skops")).at(0.5).predict(X)
    model.set_params(model=other)
    with pytest.raises(ValueError, match="model was changed after the fit"):
        model.at(1.0)


def test_a_model_that_is_no_estimator_of_scikit_learn():
    X, y, s = table(200)

    class Vendor:
        def fit(self, X, y):
            self.inner = LogisticRegression().fit(X, y)
            self.classes_ = self.inner.classes_
            return self

        def predict_proba(self, X):
            return self.inner.predict_proba(X)

    model = FairPostprocessor(Vendor().fit(X, y), sensitive_estimator="linear", cv=2)
    assert model.fit(X, y, sensitive_features=s).at(0.0).score(X, y) > 0.7
