"""Meta-estimators and tools of scikit-learn: S goes with its rows, or there is an error."""

import numpy as np
import pytest
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - HalvingGridSearchCV needs it
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_validate,
    learning_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from fairspan import (
    FairClassifier,
    FairGPClassifier,
    FairPostprocessor,
    FairRepresentation,
    FairRidge,
    FairRidgeClassifier,
)
from fairspan.metrics import fairness_scorer, statistical_parity_correlation
from tests.support.witness import (
    FIXED,
    N_ROWS,
    SEEN,
    WitnessClassifier,
    WitnessRegressor,
    WitnessRepresentation,
    rows,
)

X, y, score, s = rows()
# The number of a row is part of X, so that a model of all rows may predict nothing else.
pytestmark = pytest.mark.filterwarnings("ignore:Nothing that predicts y is left")
THREE = KFold(3)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(autouse=True)
def seen():
    """Numbers of rows of the fits of a test."""
    SEEN.clear()
    return SEEN


def classifier(**params):
    return WitnessClassifier(**{**FIXED, **params}).set_fit_request(sensitive_features=True)


def regressor():
    return WitnessRegressor(**FIXED).set_fit_request(sensitive_features=True)


@pytest.fixture(params=["right", "shuffled"])
def given(request):
    """S as it belongs to the rows, and in another order, which every test must notice."""
    return s if request.param == "right" else s[np.random.default_rng(1).permutation(N_ROWS)]


def noticed(given, fit):
    """Fit; or the witness notices that S is that of other rows."""
    if given is s:
        return fit()
    with pytest.raises(AssertionError, match="S of other rows"):
        fit()
    return None


# name: how to make it, target, numbers of rows of its fits
ENSEMBLES = {
    "CalibratedClassifierCV": (
        lambda: CalibratedClassifierCV(classifier(), cv=THREE),
        y,
        3 * [160],
    ),
    "CalibratedClassifierCV, one model": (
        lambda: CalibratedClassifierCV(classifier(), cv=THREE, ensemble=False),
        y,
        [*3 * [160], 240],
    ),
    "VotingClassifier": (
        lambda: VotingClassifier([("a", classifier()), ("b", classifier(fairness=0.5))]),
        y,
        2 * [240],
    ),
    "VotingRegressor": (lambda: VotingRegressor([("a", regressor())]), score, [240]),
    "BaggingClassifier": (
        lambda: BaggingClassifier(classifier(), n_estimators=3, max_samples=0.5, random_state=0),
        y,
        3 * [120],
    ),
    "BaggingRegressor": (
        lambda: BaggingRegressor(regressor(), n_estimators=2, bootstrap=False, random_state=0),
        score,
        2 * [240],
    ),
    "StackingClassifier": (
        lambda: StackingClassifier(
            [("a", classifier()), ("b", classifier(fairness=0.0))],
            final_estimator=FairRidgeClassifier(**FIXED),
            cv=THREE,
        ),
        y,
        [*2 * [240], *6 * [160]],
    ),
    "StackingRegressor": (
        lambda: StackingRegressor(
            [("a", regressor())], final_estimator=FairRidge(**FIXED), cv=THREE
        ),
        score,
        [240, *3 * [160]],
    ),
    "TunedThresholdClassifierCV": (
        lambda: TunedThresholdClassifierCV(classifier(), cv=THREE),
        y,
        [*3 * [160], 240],
    ),
    "FixedThresholdClassifier": (lambda: FixedThresholdClassifier(classifier()), y, [240]),
    "OneVsRestClassifier": (
        lambda: OneVsRestClassifier(classifier()),
        np.arange(N_ROWS) % 3,
        3 * [240],
    ),
    "MultiOutputRegressor": (
        lambda: MultiOutputRegressor(regressor()),
        np.column_stack([score, -score]),
        2 * [240],
    ),
    "GridSearchCV": (
        lambda: GridSearchCV(classifier(), {"alpha": [0.1, 1.0]}, cv=THREE, error_score="raise"),
        y,
        [*6 * [160], 240],
    ),
    "RandomizedSearchCV": (
        lambda: RandomizedSearchCV(
            classifier(),
            {"alpha": [0.1, 1.0]},
            n_iter=1,
            cv=THREE,
            random_state=0,
            error_score="raise",
        ),
        y,
        [*3 * [160], 240],
    ),
    "TransformedTargetRegressor": (
        lambda: TransformedTargetRegressor(regressor(), func=np.sinh, inverse_func=np.arcsinh),
        score,
        [240],
    ),
    "HalvingGridSearchCV": (
        lambda: HalvingGridSearchCV(
            classifier(),
            {"alpha": [0.1, 1.0]},
            min_resources=120,
            cv=THREE,
            error_score="raise",
            random_state=0,
        ),
        y,
        [*6 * [80], 240],
    ),
    "pipeline": (
        lambda: make_pipeline(WitnessRepresentation(**FIXED), LogisticRegression()),
        y,
        [240],
    ),
}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_s_goes_with_its_rows(name, routing, given, seen):
    make, target, sizes = ENSEMBLES[name]
    model = noticed(given, lambda: make().fit(X, target, sensitive_features=given))
    if model is not None:
        assert sorted(seen) == sorted(sizes)
        assert np.asarray(model.predict(X)).shape == target.shape  # without S


@pytest.mark.parametrize("routed", [True, False])
def test_cross_validation_goes_with_its_rows(routed, given, seen):
    params = {"sensitive_features": given}
    with sklearn.config_context(enable_metadata_routing=routed):
        model = WitnessClassifier(**FIXED)
        calls = (
            lambda: cross_val_predict(model, X, y, cv=THREE, params=params),
            lambda: cross_validate(model, X, y, cv=THREE, params=params, error_score="raise"),
            lambda: learning_curve(
                model, X, y, cv=THREE, train_sizes=[1.0], params=params, error_score="raise"
            ),
        )
        for call in calls:
            noticed(given, call)
    assert seen == (9 * [160] if given is s else [])


def test_out_of_fold_predictions_are_those_of_the_folds(routing):
    model = FairRidge(**FIXED)
    found = cross_val_predict(model, X, score, cv=THREE, params={"sensitive_features": s})
    for train, test in THREE.split(X):
        fold = FairRidge(**FIXED).fit(X[train], score[train], sensitive_features=s[train])
        np.testing.assert_allclose(found[test], fold.predict(X[test]), rtol=1e-12)


def test_a_fair_final_estimator_makes_the_stack_fair(routing):
    """The members use S, and the final estimator removes what is left of it in their predictions."""
    members = [("a", classifier(fairness=0.0)), ("b", classifier(fairness=0.2))]
    correlation = {}
    for fairness in (0.0, 1.0):
        final = FairRidgeClassifier(**FIXED, removal="training_rows", fairness=fairness)
        stack = StackingClassifier(members, final_estimator=final, cv=THREE)
        stack.fit(X, y, sensitive_features=s)
        correlation[fairness] = statistical_parity_correlation(
            stack.decision_function(X), sensitive_features=s
        )
    assert correlation[1.0] < 0.2 * correlation[0.0]


def test_halving_ranks_by_a_fairness_scorer_of_the_same_rows(routing):
    scorer = fairness_scorer("statistical_parity_correlation")
    search = HalvingGridSearchCV(
        FairRidgeClassifier(**FIXED),
        {"fairness": [0.0, 1.0]},
        scoring=scorer,
        cv=THREE,
        min_resources=120,
        random_state=0,
        error_score="raise",
    ).fit(X[:, 1:], y, sensitive_features=s)
    assert search.best_params_ == {"fairness": 1.0}


@pytest.mark.slow
def test_processes_of_loky_give_the_same_folds(routing):
    given = {"cv": THREE, "params": {"sensitive_features": s}, "error_score": "raise"}
    here = cross_validate(classifier(), X, y, **given)["test_score"]
    there = cross_validate(classifier(), X, y, n_jobs=2, **given)["test_score"]
    np.testing.assert_array_equal(there, here)
    wrong = {**given, "params": {"sensitive_features": 1 - s}}
    with pytest.raises(AssertionError, match="S of other rows"):
        cross_validate(classifier(), X, y, n_jobs=2, **wrong)


def test_permutation_importance_takes_a_scorer_that_knows_s():
    """It changes the rows of X in place of their order, so S stays as it is."""
    model = FairRidge(**FIXED, fairness=0.0).fit(X[:, 1:], score, sensitive_features=s)

    def parity(est, X, y):
        return -statistical_parity_correlation(est.predict(X), sensitive_features=s)

    error = permutation_importance(model, X[:, 1:], score, n_repeats=3, random_state=0)
    unfair = permutation_importance(
        model, X[:, 1:], score, scoring=parity, n_repeats=3, random_state=0
    )
    assert error.importances_mean.argmax() == 0  # score is the first column and noise
    assert unfair.importances_mean.argmin() == 0  # without it the model would be fairer
    with pytest.raises(ValueError, match=r"120|240"):  # a sample of rows has another S
        permutation_importance(model, X[:, 1:], score, scoring=parity, max_samples=0.5)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_transformers_give_frames(library):
    frames = pytest.importorskip(library)
    model = FairRepresentation(**FIXED).fit(X, y, sensitive_features=s)
    plain = model.transform(X)
    frame = model.set_output(transform=library).transform(X)
    assert isinstance(frame, frames.DataFrame)
    assert list(frame.columns) == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    pipe = make_pipeline(StandardScaler(), FairRidge(**FIXED)).set_output(transform=library)
    table = frames.DataFrame({f"c{j}": X[:, j] for j in range(4)})
    pipe.fit(table, score, fairridge__sensitive_features=s)
    assert pipe.predict(table).shape == (N_ROWS,)
    assert pipe[-1].feature_names_in_.tolist() == ["c0", "c1", "c2", "c3"]


# --------------------------------------------------------------------------- what does not work


def test_a_final_estimator_without_s_is_an_error(routing):
    """scikit-learn hands what it was given to the final estimator as well."""
    stack = StackingClassifier([("a", classifier())], final_estimator=LogisticRegression(), cv=3)
    with pytest.raises(TypeError, match="sensitive_features"):
        stack.fit(X, y, sensitive_features=s)
    default = StackingRegressor([("a", regressor())], cv=3)
    with pytest.raises(TypeError, match="sensitive_features"):
        default.fit(X, score, sensitive_features=s)


def test_boosting_and_self_training_are_errors(routing):
    with pytest.raises(TypeError, match="sensitive_features"):
        AdaBoostClassifier(classifier()).fit(X, y, sensitive_features=s)
    labels = np.where(np.arange(N_ROWS) < 100, y, -1)
    with pytest.raises(ValueError, match="240 rows, X has 100"):
        SelfTrainingClassifier(FairGPClassifier(**FIXED)).fit(X, labels, sensitive_features=s)


def test_what_the_page_gives_instead_of_them_works():
    boosted = FairClassifier(AdaBoostClassifier(n_estimators=5, random_state=0), random_state=0)
    assert boosted.fit(X, y, sensitive_features=s).predict(X).shape == (N_ROWS,)
    labels = np.where(np.arange(N_ROWS) < 80, y, -1)
    trained = SelfTrainingClassifier(LogisticRegression()).fit(X[:120, 1:], labels[:120])
    fair = FairPostprocessor(trained, sensitive_estimator="linear", random_state=0)
    fair.fit(X[120:, 1:], y[120:], sensitive_features=s[120:])
    assert fair.predict(X[:120, 1:]).shape == (120,)


@pytest.mark.parametrize("name", ["VotingClassifier", "BaggingClassifier", "StackingClassifier"])
def test_without_routing_ensembles_refuse_s(name):
    voting = VotingClassifier([("a", WitnessClassifier(**FIXED))])
    bagging = BaggingClassifier(WitnessClassifier(**FIXED))
    stacking = StackingClassifier([("a", WitnessClassifier(**FIXED))])
    model = {type(m).__name__: m for m in (voting, bagging, stacking)}[name]
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        model.fit(X, y, sensitive_features=s)
    with pytest.raises((AssertionError, ValueError), match=r"S was not routed|sensitive_features"):
        model.fit(X, y)


def frames():
    pd = pytest.importorskip("pandas")
    index = [f"p{i}" for i in range(N_ROWS)]
    return pd.DataFrame(X, columns=list("nabc"), index=index), pd.Series(s, index=index, name="sex")


@pytest.mark.parametrize("name", ["BaggingClassifier", "OneVsRestClassifier", "VotingClassifier"])
def test_another_order_of_the_index_is_matched_or_refused(name, routing):
    """Some meta-estimators pass X on without its index: then S of other people could be used."""
    table, groups = frames()
    make, target, _ = ENSEMBLES[name]
    make().fit(table, target, sensitive_features=groups)
    model = {
        "BaggingClassifier": BaggingClassifier(FairRidgeClassifier(**FIXED), n_estimators=2),
        "OneVsRestClassifier": OneVsRestClassifier(FairRidgeClassifier(**FIXED)),
        "VotingClassifier": VotingClassifier([("a", FairRidgeClassifier(**FIXED))]),
    }[name]
    shuffled = groups.sample(frac=1.0, random_state=0)
    try:
        model.fit(table, target, sensitive_features=shuffled)
    except ValueError as error:
        message = str(error)
        assert name in message
        assert "sensitive_features.loc[X.index]" in message
    else:
        right = type(model)(**model.get_params(deep=False))
        right.fit(table, target, sensitive_features=groups)
        np.testing.assert_array_equal(model.predict(table), right.predict(table))
        assert name != "BaggingClassifier"
