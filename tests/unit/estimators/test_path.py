"""The path: its predictions, its numbers, and what is chosen by them."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, root_mean_squared_error
from sklearn.model_selection import KFold, ShuffleSplit

from fairspan import DataWarning, FairRepresentation
from fairspan.estimators import FairGPRegressor, FairRidge, FairRidgeClassifier
from fairspan.estimators.dial_predictor import move
from fairspan.estimators.path import FairnessPath, Selection, fairness_path
from fairspan.estimators.path_rows import set_aside
from fairspan.metrics import (
    by_attribute,
    correlation_noise,
    correlation_ratio,
    demographic_parity_difference,
    equal_opportunity_correlation,
    equalized_odds_correlation,
    equalized_odds_difference,
    ks_distance,
    statistical_parity_correlation,
)

# Nothing automatic: a fit takes milliseconds.
FIXED = {"gamma": 0.2, "eta": 1e-3, "alpha": 1.0}
N = 240


def make(target="numeric", n=N, seed=0):
    """X, y and two attributes: three groups and a continuous one."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 3)) + group[:, None] * [0.8, 0.4, 0.0]
    age = X[:, 1] + rng.normal(size=n)
    score = X[:, 0] + np.sin(X[:, 2]) + 0.5 * rng.normal(size=n)
    if target == "two":
        score = np.where(score > np.median(score), "yes", "no")
    elif target == "three":
        score = np.digitize(score, np.quantile(score, [0.3, 0.7]))
    return X, score, {"group": group, "age": age}


def binary(n=N, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 2)) + s[:, None] * [1.0, 0.3]
    return X, 0.2 * X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=n), s


def path_of(model, target="numeric", **options):
    X, y, s = make(target)
    fitted = model.fit(X, y, sensitive_features=s)
    new = make(target, seed=1)
    return FairnessPath.from_estimator(
        fitted, new[0], new[1], sensitive_features=new[2], **{"n_points": 9, **options}
    ), new


CASES = [
    (FairRidge(**FIXED), "numeric"),
    (FairRidge(**FIXED, subspace="fair"), "numeric"),
    (FairRidge(**FIXED, method="rkhs", n_predictive_directions=3), "numeric"),
    (FairRidgeClassifier(**FIXED), "two"),
    (FairRidgeClassifier(**FIXED), "three"),
    (
        FairRidgeClassifier(**FIXED, criterion="equalized_odds", subspace="fair", n_slices=5),
        "three",
    ),
    (FairGPRegressor(**FIXED), "numeric"),
    (FairGPRegressor(**FIXED, subspace="fair"), "numeric"),
    (FairGPRegressor(**FIXED, prior="ard", n_predictive_directions=2), "numeric"),
    (FairRepresentation(**FIXED), "two"),
    (FairRepresentation(**FIXED, subspace="fair"), "numeric"),
]


@pytest.mark.parametrize(("model", "target"), CASES)
def test_every_point_is_the_estimator_at_that_dial_value(model, target):
    path, (X, _, _) = path_of(clone(model), target)
    for i in (0, 3, 8):
        at = path.estimator.at(path.fairness[i], dial=path.estimator._native_dial)
        expected = at._outputs(X)
        scale = max(1.0, np.abs(expected).max())
        assert np.abs(path.outputs(i) - expected).max() <= 1e-12 * scale
        if hasattr(at, "predict"):
            found, expected = path.predictions(i), at.predict(X)
            assert (
                np.array_equal(found, expected) or np.abs(found - expected).max() <= 1e-12 * scale
            )
        assert path.certificate[i] == pytest.approx(at.certificate_.supremum, abs=1e-12)


# ------------------------------------------------------------------ the numbers


def test_numbers_of_a_regression_are_those_of_scikit_learn_and_of_our_metrics():
    path, (X, y, s) = path_of(FairRidge(**FIXED))
    assert path.error_name == "RMSE"
    for i in (0, 5, 8):
        f = path.estimator.at(path.fairness[i]).predict(X)
        assert path.error[i] == pytest.approx(root_mean_squared_error(y, f), abs=1e-12)
        for metric in ("statistical_parity_correlation", "correlation_ratio"):
            for name, value in by_attribute(metric, f, sensitive_features=s).items():
                assert path.curve(metric, name)[i] == pytest.approx(value, abs=1e-12)
        worst = statistical_parity_correlation(f, sensitive_features=s)
        assert path.curve()[i] == pytest.approx(worst, abs=1e-12)
    assert path.noise == pytest.approx(correlation_noise(N, N))


@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_of_a_classification(weighted):
    X, y, s = make("two")
    weight = np.random.default_rng(3).integers(0, 4, N).astype(float) if weighted else None
    model = FairRidgeClassifier(**FIXED).fit(X, y, sensitive_features=s)
    path = FairnessPath.from_estimator(
        model, X, y, sensitive_features=s, sample_weight=weight, n_points=3
    )
    for i in range(3):
        at = model.at(path.fairness[i])
        p, f = at.predict(X), at.decision_function(X)
        options = {"sensitive_features": s, "sample_weight": weight}
        error = 1.0 - accuracy_score(y, p, sample_weight=weight)
        assert path.error[i] == pytest.approx(error, abs=1e-12)
        for metric in (demographic_parity_difference, equalized_odds_difference):
            each = by_attribute(metric, y, p, pos_label="yes", **options)
            for name, value in each.items():
                assert path.curve(metric.__name__, name)[i] == pytest.approx(value, abs=1e-12)
        ratio = correlation_ratio(f, **options)
        assert path.curve("correlation_ratio")[i] == pytest.approx(ratio, abs=1e-12)


@pytest.mark.parametrize(
    ("criterion", "metric"),
    [
        ("equalized_odds", equalized_odds_correlation),
        ("equal_opportunity", equal_opportunity_correlation),
    ],
)
def test_correlation_is_the_criterions_own(criterion, metric):
    X, y, s = make("two")
    y = (y == "yes").astype(int)
    model = FairRidgeClassifier(**FIXED, criterion=criterion, pos_label=1)
    model.fit(X, y, sensitive_features=s)
    path = FairnessPath.from_estimator(model, X, y, sensitive_features=s, n_points=3)
    for i in range(3):
        f = model.at(path.fairness[i]).decision_function(X)
        assert path.curve()[i] == pytest.approx(metric(y, f, sensitive_features=s), abs=1e-12)
    smallest = min(np.bincount(y)) if criterion == "equalized_odds" else y.sum()
    assert path.noise == pytest.approx(correlation_noise(smallest, smallest))


def test_several_classes_take_the_worst_score():
    pytest.importorskip("pandas")
    path, (X, _, s) = path_of(FairRidgeClassifier(**FIXED), "three")
    f = path.estimator.at(path.fairness[2]).decision_function(X)
    expected = statistical_parity_correlation(f, sensitive_features=s)
    assert path.curve()[2] == pytest.approx(expected, abs=1e-12)
    assert not [name for name in path.table().columns if "parity_difference" in name]
    with pytest.raises(ValueError, match="two classes"):
        path.curve("demographic_parity_difference")


def test_strata_and_missing_values_of_s():
    pytest.importorskip("pandas")
    X, y, s = make()
    strata = (X[:, 2] > 0).astype(int)
    group = s["group"].astype(object)
    group[:20] = None
    model = FairRidge(
        **FIXED, criterion="conditional_statistical_parity", missing_sensitive="omit"
    ).fit(X, y, sensitive_features={"group": group}, control_features=strata)
    path = FairnessPath.from_estimator(
        model, X, y, sensitive_features={"group": group}, control_features=strata, n_points=3
    )
    f, known = model.at(0.5).predict(X), np.arange(N) >= 20
    each = [
        statistical_parity_correlation(
            f[known & (strata == c)], sensitive_features=s["group"][known & (strata == c)]
        )
        for c in (0, 1)
    ]
    assert path.curve()[1] == pytest.approx(max(each), abs=1e-12)
    columns = [name for name in path.table().columns if name.startswith("correlation[group |")]
    assert [path.table()[name][1] for name in columns] == pytest.approx(each, abs=1e-12)


def test_a_callable_sees_labels_predictions_and_attributes():
    path, (X, _, s) = path_of(FairRidgeClassifier(**FIXED), "two")
    p = path.estimator.at(path.fairness[4]).predict(X)

    def gap(y_true, prediction, groups):
        assert set(groups) == {"group", "age"}
        assert set(y_true) == {"yes", "no"}
        return np.mean(prediction[groups["group"] == 0] == "yes")

    assert path.curve(gap)[4] == np.mean(p[s["group"] == 0] == "yes")
    ours = path.curve(lambda _, f, s: ks_distance(f == "yes", sensitive_features=s), "group")
    decided = ks_distance(p == "yes", sensitive_features=s["group"])
    assert ours[4] == pytest.approx(decided)


# ------------------------------------------------------------------ past 1


def test_past_one_mirrors_a_single_direction():
    X, y, s = binary()
    model = FairRidge(**FIXED, removal="training_rows").fit(X, y, sensitive_features=s)
    path = FairnessPath.from_estimator(
        model, X, y, sensitive_features=s, n_points=5, max_fairness=2.0
    )
    assert model.angles_[0] < np.pi / 4
    signed = [np.corrcoef(path.predictions(i), s)[0, 1] for i in range(5)]
    assert signed[0] > 0.1
    assert signed[2] == pytest.approx(0.0, abs=1e-8)
    assert signed[3] < 0.0
    assert signed[4] < -0.1
    assert -signed[4] == pytest.approx(signed[0], rel=0.1)  # the ridge keeps it from being exact
    np.testing.assert_allclose(
        move(model, 2.0)._position.blend[:, 0], [1, -1] * model.at(0.0)._position.blend[:, 0]
    )
    assert path.error[4] > path.error[2] > path.error[0]


def test_past_a_right_angle_the_head_turns_round():
    """Where t * theta passes 90 degrees least squares prefers the opposite direction."""
    X, _, s = binary()
    y = X[:, 0] + 0.2 * np.random.default_rng(1).normal(size=N)
    model = FairRidge(**FIXED, removal="training_rows").fit(X, y, sensitive_features=s)
    turn = np.pi / 2 / model.angles_[0]
    assert 1.0 < turn < 2.0
    before, after = (move(model, t).predict(X) for t in (turn - 0.01, turn + 0.01))
    assert np.corrcoef(before, s)[0, 1] < 0.0 < np.corrcoef(after, s)[0, 1]
    assert np.ptp(move(model, turn).predict(X)) < 1e-8 * np.ptp(y)


def test_a_choice_past_one_predicts_shows_its_dial_and_refuses_to_be_fitted_again():
    X, y, s = binary()
    model = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    path = FairnessPath.from_estimator(
        model, X, y, sensitive_features=s, n_points=5, max_fairness=2.0
    )
    chosen = path.select(lambda _, f, s: np.corrcoef(f, s)[0, 1], at_most=-0.2, confidence=None)
    assert chosen.selection_.fairness > 1.0
    assert chosen.get_params()["fairness"] == chosen.selection_.fairness == chosen.fairness_
    i = list(path.fairness).index(chosen.fairness)
    np.testing.assert_allclose(chosen.predict(X), path.predictions(i), atol=1e-12)
    np.testing.assert_allclose(chosen.at(0.5).predict(X), model.at(0.5).predict(X), atol=1e-12)
    with pytest.raises(ValueError, match=r"fairness=.* is not allowed"):
        clone(chosen).fit(X, y, sensitive_features=s)
    assert model.fairness == 1.0


# ------------------------------------------------------------------ out of fold


def test_out_of_fold_predictions_never_saw_their_row():
    """y of one row moves all predictions but its own fold's."""
    X, y, s = make(n=120)
    model = FairRidge(**FIXED, removal="training_rows")
    cv = KFold(4)
    before = fairness_path(model, X, y, sensitive_features=s, cv=cv, n_points=3)
    moved = y.copy()
    moved[17] += 100.0
    after = fairness_path(model, X, moved, sensitive_features=s, cv=cv, n_points=3)
    own = next(test for _, test in cv.split(X) if 17 in test)
    changed = np.abs(after.predictions(1) - before.predictions(1)) > 1e-6
    assert not changed[own].any()
    assert changed[np.setdiff1d(np.arange(120), own)].mean() > 0.9


def test_out_of_fold_numbers_are_of_the_pooled_predictions():
    X, y, s = make("two", n=120)
    cv = KFold(3, shuffle=True, random_state=0)
    model = FairRidgeClassifier(**FIXED)
    path = fairness_path(model, X, y, sensitive_features=s, cv=cv, n_points=3)
    pooled = np.empty(120, dtype=y.dtype)
    for train, test in cv.split(X):
        fold = {name: values[train] for name, values in s.items()}
        fit = clone(model).fit(X[train], y[train], sensitive_features=fold).at(0.5)
        pooled[test] = fit.predict(X[test])
    assert np.array_equal(path.predictions(1), pooled)
    assert path.error[1] == pytest.approx(1.0 - accuracy_score(y, pooled))
    assert path.noise == pytest.approx(correlation_noise(120, 80))
    refit = clone(model).fit(X, y, sensitive_features=s)
    np.testing.assert_array_equal(path.select(max_error=1.0).classes_, refit.classes_)
    assert path.certificate[1] == pytest.approx(refit.at(0.5).certificate_.supremum)


def test_folds_are_balanced_over_y_and_s_and_repeat():
    X, y, s = make("two", n=100)
    order = np.argsort(y, kind="stable")  # sorted classes break plain folds
    X, y, s = X[order], y[order], {name: values[order] for name, values in s.items()}
    model = FairRidgeClassifier(**FIXED, removal="training_rows", random_state=0)
    first = fairness_path(model, X, y, sensitive_features=s, cv=5, n_points=3)
    again = fairness_path(model, X, y, sensitive_features=s, cv=5, n_points=3)
    for fold in first._predictions:
        assert abs(np.mean(y[fold.rows] == "yes") - 0.5) < 0.2
    assert np.array_equal(
        np.sort(np.concatenate([t.rows for t in first._predictions])), np.arange(100)
    )
    assert np.array_equal(first.outputs(2), again.outputs(2))


def test_folds_of_frames_names_lists_and_precomputed_kernels_agree():
    pd = pytest.importorskip("pandas")
    X, y, s = make(n=90)
    # A precomputed kernel allows removal on the training rows only.
    model = FairRidge(**FIXED, removal="training_rows")
    cv = KFold(3)  # folds by row keys depend on X, and a precomputed kernel is another X
    reference = fairness_path(model, X, y, sensitive_features=s["group"], cv=cv, n_points=3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(90)[::-1])
    column = pd.Series(s["group"], index=frame.index)
    named = frame.assign(group=column)
    gram = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    fixed = {name: value for name, value in FIXED.items() if name != "gamma"}
    for other, rows, sensitive in (
        (model, frame, column),
        (model, named, "group"),
        (model, named, ["group"]),
        (model, X.tolist(), s["group"].tolist()),
        (FairRidge(**fixed, kernel="precomputed"), gram, {"group": s["group"]}),
    ):
        path = fairness_path(other, rows, y, sensitive_features=sensitive, cv=cv, n_points=3)
        np.testing.assert_allclose(path.outputs(1), reference.outputs(1), atol=1e-8)
        np.testing.assert_allclose(path.error, reference.error, atol=1e-8)


def test_rows_of_weight_zero_do_not_exist():
    X, y, s = make(n=300)
    weight = np.ones(300)
    weight[::7] = 0.0
    keep = weight > 0
    some = {name: values[keep] for name, values in s.items()}
    model = FairRidge(**FIXED, n_slices=5)
    a = fairness_path(model, X, y, sensitive_features=s, sample_weight=weight, cv=3, n_points=3)
    b = fairness_path(model, X[keep], y[keep], sensitive_features=some, cv=3, n_points=3)
    np.testing.assert_allclose(a.outputs(1), b.outputs(1), atol=1e-9)
    np.testing.assert_allclose(a.curve(), b.curve(), atol=1e-9)
    fixed = {"sensitive_features": some, "cv": 3, "n_points": 3}
    c = fairness_path(model, X[keep], y[keep], sample_weight=1.0, **fixed)
    np.testing.assert_allclose(c.outputs(1), b.outputs(1), atol=1e-9)


def test_a_fold_without_a_class_gives_it_no_share():
    X, y, s = make("three", n=90)
    order = np.argsort(y, kind="stable")
    X, y, s = X[order], y[order], s["group"][order] > 0
    n_first = int((y == 0).sum())
    tests = (np.arange(n_first), np.arange(n_first, 90, 2), np.arange(n_first + 1, 90, 2))
    splits = [(np.delete(np.arange(90), rows), rows) for rows in tests]
    model = FairRidgeClassifier(**FIXED)
    path = fairness_path(model, X, y, sensitive_features=s, cv=splits, n_points=3)
    assert path.outputs(0).shape == (90, 3)
    assert np.all(path.outputs(0)[:n_first, 0] == 0.0)


# ------------------------------------------------------------------ rows set aside


@pytest.mark.parametrize("target", ["numeric", "two"])
def test_a_share_set_aside_is_never_fitted_on(target):
    """The model of the path is the fit on the other rows, and the path is about those set aside."""
    X, y, s = make(target, n=200)
    model = FairRidgeClassifier(**FIXED) if target == "two" else FairRidge(**FIXED)
    path = fairness_path(model, X, y, sensitive_features=s, n_points=3, holdout=0.3)
    assert (path.rows, path.in_sample) == ("held-out", False)
    train, held = set_aside(model, {"X": X, "y": y, "sensitive_features": s, **NO_MORE}, 0.3)
    assert (len(train["y"]), len(held["y"])) == (140, 60)
    assert len({tuple(row) for part in (train, held) for row in part["X"]}) == 200
    fitted = clone(model).fit(**train)
    expected = FairnessPath.from_estimator(fitted, **held, n_points=3)
    for i in range(3):
        np.testing.assert_allclose(path.outputs(i), expected.outputs(i), atol=1e-10)
    np.testing.assert_allclose(path.bounds("error").upper, expected.bounds("error").upper)
    chosen = path.select(max_error=np.inf)
    found, wanted = chosen._outputs(X), fitted.at(chosen.fairness)._outputs(X)
    np.testing.assert_allclose(found, wanted, atol=1e-10)


NO_MORE = {"control_features": None, "sample_weight": None}


def test_a_share_set_aside_is_balanced_and_repeats():
    X, y, s = make("two", n=400)
    given = {"X": X, "y": y, "sensitive_features": s["group"], **NO_MORE}
    model = FairRidgeClassifier(**FIXED)
    for share in (0.1, 0.3, 0.5):
        _, held = set_aside(model, given, share)
        assert len(held["y"]) == round(400 * share)
        for label in ("yes", "no"):
            for group in range(3):
                n = np.sum((y == label) & (s["group"] == group))
                found = np.sum((held["y"] == label) & (held["sensitive_features"] == group))
                assert abs(found - share * n) <= 1.0
    first, again = (set_aside(model, given, 0.3)[1]["X"] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    zero, other = (
        set_aside(clone(model).set_params(random_state=seed), given, 0.3)[1]["X"] for seed in (0, 1)
    )
    np.testing.assert_array_equal(first, zero)  # None counts as 0
    assert not np.array_equal(first, other)


def test_rows_are_set_aside_from_frames_weights_and_precomputed_kernels():
    pd = pytest.importorskip("pandas")
    X, y, s = make(n=90)
    weight = np.where(np.arange(90) < 10, 0.0, 1.0)
    model = FairRidge(**FIXED, removal="training_rows")
    options = {"n_points": 3, "holdout": 0.4, "sample_weight": weight}
    reference = fairness_path(model, X, y, sensitive_features=s["group"], **options)
    assert len(reference.outputs(0)) == 32  # of 80 rows with a weight
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(group=s["group"])
    gram = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    fixed = {name: value for name, value in FIXED.items() if name != "gamma"}
    for other, rows, sensitive in (
        (model, frame, "group"),
        (FairRidge(**fixed, kernel="precomputed"), gram, {"group": s["group"]}),
    ):
        path = fairness_path(other, rows, y, sensitive_features=sensitive, **options)
        np.testing.assert_allclose(path.outputs(1), reference.outputs(1), atol=1e-8)


@pytest.mark.parametrize("holdout", [0.0, 1.0, 30, "some", True, np.nan])
def test_a_share_is_a_number_between_0_and_1(holdout):
    X, y, s = make(n=60)
    with pytest.raises(ValueError, match=r"holdout=.* is not allowed; give a share of the rows"):
        fairness_path(FairRidge(**FIXED), X, y, sensitive_features=s, holdout=holdout)
    with pytest.raises(ValueError, match="leaves no rows"):
        fairness_path(FairRidge(**FIXED), X, y, sensitive_features=s, holdout=1e-6)


def test_progress_is_shown_on_request(capsys):
    X, y, s = make(n=120)
    for verbose in (0, 1):
        fairness_path(
            FairRidge(**FIXED, n_slices=4, verbose=verbose),
            X,
            y,
            sensitive_features=s,
            cv=2,
            n_points=3,
        )
        said = [line for line in capsys.readouterr().err.splitlines() if "folds" in line]
        expected = [f"[fairspan] folds of the path: {k} of 2" for k in (1, 2)] if verbose else []
        assert said == expected


# ------------------------------------------------------------------ choosing


def test_a_looser_bound_never_costs_more():
    path, (X, _, _) = path_of(FairRidge(**FIXED), n_points=41)
    value, last = path.curve(), np.inf
    for at_most in np.quantile(value, [0.05, 0.2, 0.5, 0.8, 1.0]):
        chosen = path.select(at_most=at_most, confidence=None)
        found = chosen.selection_
        assert found.met
        assert found.value <= at_most
        assert found.error == path.error[value <= at_most].min()
        assert found.error <= last
        last = found.error
        i = int(np.flatnonzero(path.fairness == found.fairness)[0])
        np.testing.assert_allclose(chosen.predict(X), path.predictions(i), atol=1e-12)
        assert chosen.get_params()["fairness"] == found.fairness


def test_a_larger_budget_is_never_less_fair():
    path, _ = path_of(FairRidgeClassifier(**FIXED), "two", n_points=41)
    last = np.inf
    for accuracy in np.quantile(1.0 - path.error, [1.0, 0.7, 0.4, 0.0]):
        found = path.select("correlation_ratio", min_accuracy=accuracy, confidence=None).selection_
        assert found.met
        assert found.bound_on == "accuracy"
        assert 1.0 - found.error >= accuracy - 1e-12
        assert found.value <= last
        last = found.value
        budget = path.select(
            "correlation_ratio", max_error=1.0 - accuracy + 1e-12, confidence=None
        ).selection_
        assert (budget.fairness, budget.value) == (found.fairness, found.value)


@pytest.mark.parametrize("metric", ["demographic_parity_difference", "equalized_odds_difference"])
def test_selection_by_decisions_and_by_attribute(metric):
    path, _ = path_of(FairRidgeClassifier(**FIXED), "two")
    bound = float(np.median(path.curve(metric, "group")))
    found = path.select(metric, at_most=bound, attribute="group", confidence=None).selection_
    assert isinstance(found, Selection)
    assert (found.metric, found.attribute) == (metric, "group")
    assert found.value <= bound


def test_a_bound_that_nothing_keeps_warns_and_gives_the_fairest():
    path, _ = path_of(FairRidge(**FIXED))
    with pytest.warns(DataWarning, match=r"No dial value has correlation <= -1"):
        found = path.select(at_most=-1.0, confidence=None).selection_
    assert not found.met
    assert found.value == path.curve().min()
    with pytest.warns(DataWarning, match=r"No dial value has error <= 0"):
        found = path.select(max_error=0.0, confidence=None).selection_
    assert not found.met
    assert found.error == path.error.min()


def test_a_selection_does_not_follow_to_another_place():
    path, _ = path_of(FairRidge(**FIXED))
    chosen = path.select(max_error=np.inf)
    assert not hasattr(chosen.at(0.5), "selection_")
    assert not hasattr(path.estimator, "selection_")
    assert hasattr(chosen, "selection_")


# ------------------------------------------------------------------ intervals, table, plot


def test_intervals_are_the_bootstrap_of_the_metric():
    path, (X, y, s) = path_of(FairRidgeClassifier(**FIXED), "two", n_points=3)
    rows = np.random.RandomState(5).randint(0, N, size=(20, N))
    at = path.estimator.at(0.5)
    p, f = at.predict(X), at.decision_function(X)
    group = s["group"]
    direct = {
        "error": [np.mean(y[r] != p[r]) for r in rows],
        "correlation": [
            statistical_parity_correlation(f[r], sensitive_features=group[r]) for r in rows
        ],
        "correlation_ratio": [correlation_ratio(f[r], sensitive_features=group[r]) for r in rows],
        "demographic_parity_difference": [
            demographic_parity_difference(y[r], p[r], sensitive_features=group[r], pos_label="yes")
            for r in rows
        ],
    }
    for metric, draws in direct.items():
        low, high = path.interval(metric, 0.8, 20, random_state=5, attribute="group")
        assert (low[1], high[1]) == pytest.approx(tuple(np.quantile(draws, [0.1, 0.9])), abs=1e-12)
    by_call = path.interval(lambda y, p, _: np.mean(y != p), 0.8, 20, random_state=5)
    np.testing.assert_allclose(by_call, path.interval("error", 0.8, 20, random_state=5))


def test_intervals_are_ordered_nested_and_repeat():
    path, _ = path_of(FairRidge(**FIXED), n_points=3)
    low, high = path.interval("error", 0.9, 100, random_state=0)
    inner_low, inner_high = path.interval("error", 0.5, 100, random_state=0)
    assert np.all((low <= inner_low) & (inner_low <= inner_high) & (inner_high <= high))
    assert np.all((low < path.error) & (path.error < high))
    np.testing.assert_array_equal(low, path.interval("error", 0.9, 100, random_state=0)[0])


def test_the_table_holds_the_curves():
    pytest.importorskip("pandas")
    path, _ = path_of(FairRidgeClassifier(**FIXED), "two", n_points=11)
    table = path.table()
    np.testing.assert_array_equal(table["fairness"], path.fairness)
    np.testing.assert_array_equal(table["error"], path.error)
    np.testing.assert_array_equal(table["certificate"], path.certificate)
    for metric in ("correlation", "correlation_ratio", "equalized_odds_difference"):
        for name in ("group", "age"):
            np.testing.assert_array_equal(table[f"{metric}[{name}]"], path.curve(metric, name))
    assert (table["noise"] == path.noise).all()
    assert not [name for name in table.columns if name.startswith("statistical")]
    assert list(path.table(3)["fairness"]) == [0.0, 0.5, 1.0]


def test_the_table_without_pandas(monkeypatch):
    pytest.importorskip("pandas")
    path, _ = path_of(FairRidge(**FIXED), n_points=3)
    frame = path.table()
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    assert path.table() == frame.to_dict("records")


def test_the_plot_shows_every_attribute():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    path, _ = path_of(FairRidge(**FIXED))
    _, ax = pyplot.subplots()
    display = path.plot(ax)
    assert display.ax_ is ax
    assert [line.get_label() for line in ax.get_lines()] == ["group", "age"]
    np.testing.assert_array_equal(ax.get_lines()[0].get_xdata(), path.curve("correlation", "group"))
    np.testing.assert_array_equal(ax.get_lines()[0].get_ydata(), path.error)
    assert ax.get_ylabel() == "RMSE on new rows (held-out)"
    assert ax.get_xlabel() == "correlation on new rows (held-out), 95 % each side"
    pyplot.close("all")


def test_crossed_attributes_have_a_curve_of_their_own():
    X, y, s = make("two")
    s = {"group": s["group"], "sex": (s["age"] > 0).astype(int)}
    model = FairRidgeClassifier(**FIXED, intersectional=True, removal="training_rows").fit(
        X, y, sensitive_features=s
    )
    path = FairnessPath.from_estimator(model, X, y, sensitive_features=s, n_points=3)
    assert path.attributes == ["group", "sex", "group x sex"]
    p = model.at(0.5).predict(X)
    gap = demographic_parity_difference(
        y, p, sensitive_features=s, pos_label="yes", intersectional=True
    )
    found = path.curve("demographic_parity_difference", "group x sex")[1]
    assert found == pytest.approx(gap)
    assert path.curve("correlation", "group x sex")[2] == pytest.approx(0.0, abs=1e-8)


# ------------------------------------------------------------------ errors


def test_errors_say_what_to_do():
    path, (X, y, s) = path_of(FairRidge(**FIXED), n_points=3)
    model = path.estimator
    with pytest.raises(NotFittedError):
        FairnessPath.from_estimator(FairRidge(), X, y, sensitive_features=s)
    with pytest.raises(TypeError, match="fairspan estimator"):
        fairness_path(object(), X, y, sensitive_features=s)
    with pytest.raises(ValueError, match=r"y has 239 rows, X has 240"):
        FairnessPath.from_estimator(model, X, y[1:], sensitive_features=s)
    with pytest.raises(ValueError, match="239 rows"):
        FairnessPath.from_estimator(model, X, y, sensitive_features=s["group"][1:])
    with pytest.raises(ValueError, match="needs y"):
        FairnessPath.from_estimator(model, X, None, sensitive_features=s)
    with pytest.raises(ValueError, match="fitted on numbers"):
        FairnessPath.from_estimator(model, X, np.full(N, "a"), sensitive_features=s)
    for options, match in (
        ({"n_points": 1}, "n_points=1"),
        ({"max_fairness": 2.5}, r"max_fairness=2\.5"),
        ({"max_fairness": 0}, "max_fairness=0"),
        ({"sample_weight": np.zeros(N)}, "zero for every row"),
    ):
        with pytest.raises(ValueError, match=match):
            FairnessPath.from_estimator(model, X, y, sensitive_features=s, **options)
    for metric, options, match in (
        ("ks", {"at_most": 0.1}, "metric='ks' is unknown"),
        ("correlation", {}, "exactly one bound"),
        ("correlation", {"at_most": 0.1, "max_error": 1.0}, "exactly one bound"),
        ("correlation", {"at_most": 0.1, "attribute": "sex"}, "attribute='sex' is unknown"),
        ("correlation", {"min_accuracy": 0.1}, "give max_error"),
        ("demographic_parity_difference", {"at_most": 0.1}, "this target has numbers"),
    ):
        with pytest.raises(ValueError, match=match):
            path.select(metric, **options)
    with pytest.raises(ValueError, match="level=2"):
        path.interval("error", 2)


def test_errors_of_folds_and_of_the_fair_subspace():
    X, y, s = make(n=60)
    with pytest.raises(ValueError, match="cv=1"):
        fairness_path(FairRidge(**FIXED), X, y, sensitive_features=s, cv=1)
    with pytest.raises(ValueError, match="exactly one test fold"):
        fairness_path(FairRidge(**FIXED), X, y, sensitive_features=s, cv=ShuffleSplit(2))
    with pytest.raises(ValueError, match="ends at fairness 1"):
        fairness_path(
            FairRidge(**FIXED, subspace="fair"), X, y, sensitive_features=s, max_fairness=1.2
        )


# Nothing automatic: a fit takes milliseconds.
SEEDED = {"gamma": 0.2, "eta": 1e-3, "alpha": 1.0, "random_state": 0}


N_SMALL = 160


def two_columns(n_classes=None, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, N_SMALL)
    X = rng.normal(size=(N_SMALL, 2)) + s[:, None] * [1.0, 0.3]
    y = 0.2 * X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=N_SMALL)
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    return X, y, s


@pytest.mark.parametrize("n_classes", [None, 2])
def test_folds_by_number_are_trained_on_all_other_rows(n_classes):
    X, y, s = two_columns(n_classes)
    model = FairRidgeClassifier(**SEEDED) if n_classes else FairRidge(**SEEDED)
    path = fairness_path(model, X, y, sensitive_features=s, cv=4, n_points=3)
    assert len(path._predictions) == 4
    for fold in path._predictions:
        train = np.setdiff1d(np.arange(N_SMALL), fold.rows)
        fit = clone(model).fit(X[train], y[train], sensitive_features=s[train]).at(0.5)
        np.testing.assert_allclose(path.predictions(1)[fold.rows], fit.predict(X[fold.rows]))


def test_resampled_rows_keep_their_weights():
    X, y, s = two_columns(2)
    weight = np.random.default_rng(1).exponential(size=N_SMALL)
    model = FairRidgeClassifier(**SEEDED).fit(X, y, sensitive_features=s)
    path = FairnessPath.from_estimator(
        model, X, y, sensitive_features=s, sample_weight=weight, n_points=3
    )
    wrong = model.at(0.5).predict(X) != y
    rows = np.random.RandomState(5).randint(0, N_SMALL, size=(20, N_SMALL))
    draws = [np.average(wrong[r], weights=weight[r]) for r in rows]
    low, high = path.interval("error", 0.8, 20, random_state=5)
    assert (low[1], high[1]) == pytest.approx(tuple(np.quantile(draws, [0.1, 0.9])), abs=1e-12)


@pytest.mark.parametrize("positive", [0, 1, 2])
def test_the_positive_of_several_classes_is_the_one_named(positive):
    X, y, s = two_columns(3)
    model = FairRidgeClassifier(**SEEDED, pos_label=positive).fit(X, y, sensitive_features=s)
    path = FairnessPath.from_estimator(model, X, y, sensitive_features=s, n_points=3)
    predicted = model.at(0.5).predict(X)
    for metric in (demographic_parity_difference, equalized_odds_difference):
        expected = metric(y, predicted, sensitive_features=s, pos_label=positive)
        assert path.curve(metric.__name__)[1] == pytest.approx(expected, abs=1e-12)
