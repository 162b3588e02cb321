"""What every rival promises as a scikit-learn estimator, and about S."""

import importlib.util
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from tests.support.hashed import hashed_groups
from tests.support.small import table
from tests.test_docstrings import documented

from fairspan_lab import baselines
from fairspan_lab.baselines import (
    FERM,
    NCFR,
    BarycentreRegression,
    FairPCA,
    HSICRidge,
    HSICRidgeClassifier,
    KTOpt,
    LinearFERM,
    LinearPost,
    PenalisedBoosting,
    PenalisedBoostingClassifier,
    StandardGP,
    StandardGPClassifier,
)

# LAFTR and the networks need torch and have tests of their own.
MODELS = {
    "LinearFERM": LinearFERM(),
    "LinearFERM authors": LinearFERM(reduction="authors"),
    "FERM": FERM(),
    "FERM tolerance": FERM(tolerance=0.05),
    "NCFR": NCFR(0.1),
    "NCFR both": NCFR(0.1, penalty="both"),
    "NCFR rff": NCFR(0.1, features="rff", random_state=0),
    "NCFR kernel": NCFR(0.1, features="kernel", gamma=0.1),
    "StandardGP": StandardGP(n_restarts=0, random_state=0),
    "StandardGPClassifier": StandardGPClassifier(n_restarts=0, random_state=0),
    "HSICRidge": HSICRidge(),
    "HSICRidge rbf": HSICRidge(sensitive_map="rbf"),
    "HSICRidgeClassifier": HSICRidgeClassifier(),
    "FairPCA": FairPCA(2),
    "FairPCA kernel": FairPCA(2, kernel="rbf"),
    "FairPCA opportunity": FairPCA(2, criterion="equal_opportunity"),
    "LinearPost": LinearPost(0.1, estimator=LogisticRegression(), random_state=0),
    "LinearPost odds": LinearPost(
        0.1, criterion="equalized_odds", estimator=LogisticRegression(max_iter=1000), random_state=0
    ),
    "BarycentreRegression": BarycentreRegression(estimator=LinearRegression(), random_state=0),
    "KTOpt": KTOpt(0.5),
}
if importlib.util.find_spec("lightgbm"):
    few = {"max_trees": 20, "min_samples_leaf": 2, "random_state": 0}
    MODELS["PenalisedBoosting"] = PenalisedBoosting(0.1, **few)
    MODELS["PenalisedBoostingClassifier"] = PenalisedBoostingClassifier(0.1, **few)
CLASSES = {type(model).__name__: type(model) for model in MODELS.values()}
X, LABELS, GROUPS = table()
NUMBERS = X @ [1.0, -1.0, 0.5] + np.sin(2 * X[:, 0])


def target(model):
    return NUMBERS if is_regressor(model) else LABELS


def fitted(model):
    return clone(model).fit(X, target(model), sensitive_features=GROUPS)


def output(model, rows=X, groups=GROUPS):
    """The real-valued output of a fitted model."""
    if hasattr(model, "transform"):
        return model.transform(rows)
    if hasattr(model, "decision_function"):
        return model.decision_function(rows)
    if model.reads_sensitive_at_predict:
        return model.predict(rows, sensitive_features=groups)
    return model.predict(rows)


every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@every_model
def test_fit_leaves_parameters_and_data_alone(model):
    rows, y, s = X.copy(), target(model).copy(), GROUPS.copy()
    found = clone(model)
    before = found.get_params()
    assert found.fit(rows, y, sensitive_features=s) is found
    assert found.get_params() == before
    assert np.array_equal(rows, X)
    assert np.array_equal(y, target(model))
    assert np.array_equal(s, GROUPS)


@every_model
def test_a_fit_repeats_and_forgets_the_one_before(model):
    first = output(fitted(model))
    again = clone(model).fit(X[::-1] + 1.0, target(model)[::-1], sensitive_features=GROUPS[::-1])
    again.fit(X, target(model), sensitive_features=GROUPS)
    assert np.array_equal(output(again), first)
    assert np.array_equal(output(pickle.loads(pickle.dumps(again))), first)


@every_model
def test_rows_are_predicted_one_by_one(model):
    model = fitted(model)
    parts = [output(model, X[i : i + 1], GROUPS[i : i + 1]) for i in range(5)]
    np.testing.assert_allclose(np.concatenate(parts), output(model)[:5], rtol=1e-9, atol=1e-9)


@every_model
def test_an_unfitted_model_says_so(model):
    with pytest.raises(NotFittedError):
        output(clone(model))


@every_model
def test_fit_needs_the_protected_attribute(model):
    if isinstance(model, StandardGP | StandardGPClassifier):
        alone = output(clone(model).fit(X, target(model)))
        assert np.array_equal(alone, output(fitted(model)))
        return
    with pytest.raises(ValueError, match="sensitive_features` was not given"):
        clone(model).fit(X, target(model))
    with pytest.raises(ValueError, match="missing"):
        clone(model).fit(X, target(model), sensitive_features=np.where(GROUPS == 1, np.nan, GROUPS))
    with pytest.raises(ValueError, match="one value only"):
        clone(model).fit(X, target(model), sensitive_features=np.zeros(len(X)))


def test_of_these_rivals_two_read_the_protected_attribute_again():
    reads = {name for name, cls in CLASSES.items() if cls.reads_sensitive_at_predict}
    assert reads == {"NCFR", "BarycentreRegression"}


@every_model
def test_the_protected_attribute_comes_in_any_form(model):
    pd = pytest.importorskip("pandas")
    words = np.where(GROUPS == 1, "woman", "man")
    expected = output(fitted(model))
    forms = (words, words[:, None], list(words), pd.Series(words, name="sex"), {"sex": words})
    for form in (*forms, pd.DataFrame({"sex": pd.Categorical(words)})):
        found = clone(model).fit(X, target(model), sensitive_features=form)
        got = output(found, X, form)
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-7)


@every_model
def test_column_names_instead_of_values_are_refused(model):
    pd = pytest.importorskip("pandas")
    if isinstance(model, StandardGP | StandardGPClassifier):
        return
    frame = pd.DataFrame(X, columns=["a", "b", "sex"])
    with pytest.raises(ValueError, match="names columns of X"):
        clone(model).fit(frame, target(model), sensitive_features="sex")


@pytest.mark.parametrize(
    "model", [m for m in MODELS.values() if is_classifier(m)], ids=lambda m: str(m)
)
@pytest.mark.parametrize("names", [("no", "yes"), (False, True), (3, 7)])
def test_any_two_labels(model, names):
    y = np.array(names)[LABELS]
    found = clone(model).fit(X, y, sensitive_features=GROUPS)
    scores = found.decision_function(X)
    assert list(found.classes_) == list(names)
    assert np.array_equal(found.predict(X), np.array(names)[(scores > 0).astype(int)])
    assert np.mean(found.predict(X) == y) > 0.6
    np.testing.assert_allclose(scores, output(fitted(model)))


@pytest.mark.parametrize(
    "model", [m for m in MODELS.values() if is_classifier(m)], ids=lambda m: str(m)
)
def test_two_classes_are_needed(model):
    with pytest.raises(ValueError, match="Only binary classification"):
        clone(model).fit(X, np.arange(len(X)) % 3, sensitive_features=GROUPS)
    with pytest.raises(ValueError, match="one class only"):
        clone(model).fit(X, np.ones(len(X)), sensitive_features=GROUPS)


WRONG = [
    (LinearFERM, "C", 0.0),
    (LinearFERM, "reduction", "argmax"),
    (LinearFERM, "pos_label", "maybe"),
    (FERM, "C", "large"),
    (FERM, "kernel", "gauss"),
    (FERM, "gamma", "auto"),
    (FERM, "tolerance", -1.0),
    (FERM, "solver", "cvxopt"),
    (NCFR, "eta", 1.5),
    (NCFR, "ridge", -1.0),
    (NCFR, "penalty", "none"),
    (NCFR, "features", "fourier"),
    (NCFR, "gamma", 0.0),
    (NCFR, "expansion", 0),
    (NCFR, "standardise", True),
    (StandardGP, "mean", "const"),
    (StandardGP, "n_restarts", -1),
    (StandardGP, "max_hyper_rows", 0.5),
    (HSICRidge, "mu", -1.0),
    (HSICRidge, "alpha", 0.0),
    (HSICRidge, "n_landmarks", "many"),
    (HSICRidge, "sensitive_map", "identity"),
    (HSICRidge, "n_sensitive_landmarks", 0),
    (FairPCA, "n_components", 0),
    (FairPCA, "n_landmarks", 0),
    (FairPCA, "criterion", "equalized_odds"),
    (LinearPost, "tolerance", -1.0),
    (LinearPost, "holdout", 0.0),
    (LinearPost, "criterion", "conditional_statistical_parity"),
    (BarycentreRegression, "share", 1.5),
    (BarycentreRegression, "n_slices", 1),
    (BarycentreRegression, "holdout", 1.0),
    (KTOpt, "tau", -0.5),
    (KTOpt, "n_components", 0),
    (KTOpt, "target", "numbers"),
    (KTOpt, "ridge", 0.0),
    (KTOpt, "n_landmarks", "many"),
    (PenalisedBoosting, "mu", -1.0),
    (PenalisedBoosting, "criterion", "equalized_odds"),
    (PenalisedBoosting, "max_trees", 0),
    (PenalisedBoosting, "learning_rate", 0.0),
    (PenalisedBoosting, "n_leaves", 1),
    (PenalisedBoosting, "min_samples_leaf", 0),
    (PenalisedBoosting, "validation", 0.9),
    (PenalisedBoostingClassifier, "mu", "large"),
    (PenalisedBoostingClassifier, "pos_label", "maybe"),
]


@pytest.mark.parametrize(("cls", "name", "value"), WRONG)
def test_a_wrong_parameter_is_named_with_what_is_allowed(cls, name, value):
    model = cls(**{name: value})
    with pytest.raises(ValueError, match=rf"^{name}={value!r} is not allowed; give "):
        model.fit(X, target(model), sensitive_features=GROUPS)


def test_parameters_that_do_not_go_together():
    with pytest.raises(ValueError, match=r"ridge=0.0 is not allowed; give a finite number above 0"):
        NCFR(ridge=0.0, features="kernel").fit(X, NUMBERS, sensitive_features=GROUPS)
    with pytest.raises(ValueError, match="solver='authors' has tolerance 0 only"):
        FERM(solver="authors", tolerance=0.1).fit(X, LABELS, sensitive_features=GROUPS)
    with pytest.raises(ValueError, match="too many for indicators"):
        HSICRidge(sensitive_map="one-hot").fit(X, NUMBERS, sensitive_features=X[:, 0])
    with pytest.raises(ValueError, match="only 2 directions"):
        FairPCA(3).fit(X, sensitive_features=GROUPS)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_documents_exactly_its_constructor(name):
    parameters = [p for p in inspect.signature(CLASSES[name]).parameters if p != "self"]
    assert documented(CLASSES[name].__doc__, "Parameters") == parameters
    assert "Limits:" in CLASSES[name].__doc__


@every_model
def test_fitted_attributes_are_documented_and_exist(model):
    found = fitted(model)
    held = {n for n in vars(found) if n.endswith("_") and not n.startswith("_")}
    assert held - {"n_features_in_"} == set(documented(type(model).__doc__, "Attributes"))


# --------------------------------------------------------------------------- scikit-learn around


def test_routing_reaches_fit_in_a_search_over_a_pipeline():
    grids = {
        "FERM": ({"model__C": [0.1, 1.0]}, LABELS),
        "HSICRidge": ({"model__mu": [0.0, 1.0]}, NUMBERS),
    }
    with sklearn.config_context(enable_metadata_routing=True):
        for name, (grid, y) in grids.items():
            steps = [("scale", StandardScaler()), ("model", clone(MODELS[name]))]
            search = GridSearchCV(Pipeline(steps), grid, cv=3)
            search.fit(X, y, sensitive_features=GROUPS)
            assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_routing_reaches_predict_and_score_of_ncfr():
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(NCFR(), {"eta": [0.0, 0.5]}, cv=3)
        search.fit(X, NUMBERS, sensitive_features=GROUPS)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        model = make_pipeline(StandardScaler(), NCFR(0.1))
        model.fit(X, NUMBERS, sensitive_features=GROUPS)
        assert model.predict(X, sensitive_features=GROUPS).shape == (len(X),)


def test_folds_slice_the_protected_attribute():
    # Row order must not matter: with S matched to the wrong rows it would.
    order = np.random.default_rng(0).permutation(len(X))
    folds = [(np.arange(40), np.arange(40, 80)), (np.arange(40, 80), np.arange(40))]
    moved = [(np.argsort(order)[train], np.argsort(order)[test]) for train, test in folds]
    with sklearn.config_context(enable_metadata_routing=True):
        scores = cross_val_score(
            LinearFERM(), X, LABELS, params={"sensitive_features": GROUPS}, cv=folds
        )
        again = cross_val_score(
            LinearFERM(),
            X[order],
            LABELS[order],
            params={"sensitive_features": GROUPS[order]},
            cv=moved,
        )
    np.testing.assert_allclose(again, scores)


@pytest.mark.parametrize("head", [Ridge(), RidgeClassifier()])
def test_a_head_behind_fair_pca(head):
    model = make_pipeline(FairPCA(2), head)
    y = target(head)
    model.fit(X, y, fairpca__sensitive_features=GROUPS)
    scores = model.predict(X) if is_regressor(head) else model.decision_function(X)
    assert abs(np.corrcoef(scores, GROUPS)[0, 1]) < 1e-10
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(FairPCA(2), clone(head)).fit(X, y, sensitive_features=GROUPS)
    assert np.array_equal(routed.predict(X), model.predict(X))


def test_ncfr_says_that_it_needs_s_to_predict():
    model = fitted(NCFR(0.1))
    with pytest.raises(ValueError, match="reads the protected attributes when it predicts"):
        model.predict(X)
    with pytest.raises(ValueError, match="reads the protected attributes when it predicts"):
        model.score(X, NUMBERS)
    assert model.score(X, NUMBERS, sensitive_features=GROUPS) > 0.5


def test_ncfr_wants_the_same_attributes_again():
    names = {"sex": GROUPS, "age": X[:, 1]}
    model = NCFR(0.1).fit(X, NUMBERS, sensitive_features=names)
    expected = model.predict(X, sensitive_features=names)
    swapped = {"age": X[:, 1], "sex": GROUPS}
    assert np.array_equal(model.predict(X, sensitive_features=swapped), expected)
    by_position = np.c_[GROUPS, X[:, 1]]
    assert np.array_equal(model.predict(X, sensitive_features=by_position), expected)
    with pytest.raises(ValueError, match="fit had 'sex', 'age'"):
        model.predict(X, sensitive_features={"sex": GROUPS})


# --------------------------------------------------------------------------- scikit-learn's checks


def hashed(cls):
    """The class with S filled in from the values of X, for checks that know nothing of S."""

    class Hashed(cls):
        def fit(self, X, y=None, *, sensitive_features=None):
            given = hashed_groups(X) if sensitive_features is None else sensitive_features
            return super().fit(X, y, sensitive_features=given)

    class HashedPredict(Hashed):
        def predict(self, X, *, sensitive_features=None):
            given = hashed_groups(X) if sensitive_features is None else sensitive_features
            return super().predict(X, sensitive_features=given)

        def score(self, X, y, sample_weight=None, *, sensitive_features=None):
            given = hashed_groups(X) if sensitive_features is None else sensitive_features
            return super().score(X, y, sample_weight, sensitive_features=given)

    return HashedPredict if cls.reads_sensitive_at_predict else Hashed


for _name, _cls in CLASSES.items():  # as names of this module they can be pickled
    globals()[f"Hashed{_name}"] = _made = hashed(_cls)
    _made.__name__ = _made.__qualname__ = f"Hashed{_name}"
# Without equal opportunity for FairPCA: as a transformer it is checked with three classes.
CHECKED = sorted(set(MODELS) - {"FairPCA opportunity", "LinearPost odds"})


@pytest.mark.parametrize("name", CHECKED)
def test_the_checks_of_scikit_learn_pass(name):
    pytest.importorskip("pandas")  # one of them skips itself without
    troubled, count = {}, 0
    params = MODELS[name].get_params(deep=False)
    if "n_components" in params:
        params["n_components"] = 1
    estimator = globals()[f"Hashed{type(MODELS[name]).__name__}"](**params)
    for instance, check in estimator_checks.estimator_checks_generator(estimator):
        title = check.func.__name__
        if title == "check_array_api_input":  # SciPy reads its switch once, when it is imported
            continue
        count += 1
        try:
            check(instance)
        except Exception as error:
            troubled[title] = error
    assert not troubled
    assert count >= 40


# --------------------------------------------------------------------------- imports


def test_import_loads_neither_torch_nor_a_solver():
    code = (
        "import sys, sklearn.svm, sklearn.pipeline; before = set(sys.modules);"  # it loads some
        "import fairspan_lab.baselines as b; loaded = set(sys.modules) - before;"
        "print(sorted({'torch', 'cvxpy', 'lightgbm', 'pandas'} & loaded), 'LAFTR' in dir(b))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "True"]


def test_names():
    eager = set(baselines.__all__) - set(baselines._LAZY)
    assert eager == set(CLASSES) | {"PenalisedBoosting", "PenalisedBoostingClassifier"}
    eager &= set(CLASSES)  # those need lightgbm
    assert all(getattr(baselines, name) is CLASSES[name] for name in eager)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = baselines.Nothing


def test_the_solver_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(ImportError, match="needs cvxpy: pip install cvxpy clarabel"):
        FERM(solver="authors").fit(X, LABELS, sensitive_features=GROUPS)
