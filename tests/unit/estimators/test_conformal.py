"""Coverage of conformal intervals and sets, overall and by group."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from fairspan import (
    FairClassifier,
    FairGPClassifier,
    FairGPRegressor,
    FairRegressor,
    FairRidge,
    FairRidgeClassifier,
    load_model,
    save_model,
)
from fairspan.estimators.conformal import Conformal
from fairspan.exceptions import DataWarning

FIXED = {"gamma": 0.2, "alpha": 1.0, "n_components": 30, "random_state": 0}


def rows(n, seed):
    rng = np.random.default_rng(seed)
    s = (rng.random(n) < 0.3).astype(int)
    X = rng.normal(size=(n, 3)) + s[:, None] * [0.8, 0.0, 0.0]
    noise = np.where(s == 1, 2.0, 0.5)  # one group is much harder to predict
    return X, X.sum(axis=1) + noise * rng.normal(size=n), s


def classes(y):
    return np.where(y > 0.5, "yes", "no")


@pytest.mark.parametrize("kind", [FairRidge, FairGPRegressor])
def test_intervals_cover_new_rows_overall_but_not_by_group(kind):
    X, y, s = rows(300, 0)
    model = kind(**FIXED).fit(X, y, sensitive_features=s)
    calibrated = model.conformalize(*rows(4000, 1)[:2])
    X, y, s = rows(20000, 2)
    low, high = calibrated.predict_interval(X, 0.9).T
    inside = (low <= y) & (y <= high)
    assert inside.mean() == pytest.approx(0.9, abs=0.02)
    assert inside[s == 1].mean() < 0.85 < 0.9 < inside[s == 0].mean()
    np.testing.assert_array_equal(calibrated.predict(X), model.predict(X))


@pytest.mark.parametrize("kind", [FairRidge, FairGPRegressor])
def test_intervals_by_group_cover_every_group(kind):
    X, y, s = rows(300, 0)
    model = kind(**FIXED).fit(X, y, sensitive_features=s)
    X, y, s = rows(6000, 1)
    calibrated = model.conformalize(X, y, sensitive_features=s)
    X, y, s = rows(20000, 2)
    low, high = calibrated.predict_interval(X, 0.8, sensitive_features=s).T
    for group in (0, 1):
        inside = (low <= y) & (y <= high)
        assert inside[s == group].mean() == pytest.approx(0.8, abs=0.025)


@pytest.mark.parametrize("kind", [FairRidgeClassifier, FairGPClassifier])
def test_sets_cover_every_group(kind):
    X, y, s = rows(400, 0)
    model = kind(**FIXED).fit(X, classes(y), sensitive_features=s)
    X, y, s = rows(6000, 1)
    calibrated = model.conformalize(X, classes(y), sensitive_features=s)
    X, y, s = rows(20000, 2)
    sets = calibrated.predict_set(X, 0.9, sensitive_features=s)
    assert sets.shape == (len(X), 2)
    hit = sets[np.arange(len(X)), (classes(y) == "yes").astype(int)]
    for group in (0, 1):
        assert hit[s == group].mean() == pytest.approx(0.9, abs=0.025)


def test_any_learner_is_calibrated_by_group():
    X, y, s = rows(400, 0)
    fresh, target, group = rows(1000, 1)
    new, outcome, other = rows(4000, 2)
    given = {"sensitive_features": group}
    regressor = FairRegressor(LinearRegression(), random_state=0).fit(X, y, sensitive_features=s)
    calibrated = regressor.conformalize(fresh, target, **given)
    intervals = calibrated.predict_interval(new, 0.8, sensitive_features=other)
    inside = (intervals[:, 0] <= outcome) & (outcome <= intervals[:, 1])
    logistic = FairClassifier(LogisticRegression(), random_state=0)
    logistic.fit(X, classes(y), sensitive_features=s)
    sets = logistic.conformalize(fresh, classes(target), **given).predict_set(
        new, 0.8, sensitive_features=other
    )
    position = np.searchsorted(logistic.classes_, classes(outcome))
    held = sets[np.arange(len(new)), position]
    for name in np.unique(other):
        assert abs(inside[other == name].mean() - 0.8) < 0.06
        assert abs(held[other == name].mean() - 0.8) < 0.06


def test_the_bound_is_the_order_statistic():
    one = Conformal(attributes=(), groups=("0",), scores=(np.arange(1.0, 20.0),))  # 19 rows
    assert one.radius(0.9)[0] == 18.0  # ceil(20 * 0.9)
    assert one.radius(0.5)[0] == 10.0
    assert one.radius(0.96)[0] == np.inf


def test_frames_are_matched_by_their_index():
    pd = pytest.importorskip("pandas")
    X, y, s = rows(300, 0)
    model = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    X, y, s = rows(200, 1)
    people = [f"person {i}" for i in range(200)]
    frame, target, group = (pd.DataFrame(X, people), pd.Series(y, people), pd.Series(s, people))
    order = np.random.default_rng(0).permutation(200)
    one = model.conformalize(X, y, sensitive_features=s)
    other = model.conformalize(
        frame, target.iloc[order], sensitive_features=group.iloc[order].rename("group")
    )
    for a, b in zip(
        one._fit_state.conformal.scores, other._fit_state.conformal.scores, strict=True
    ):
        np.testing.assert_allclose(a, b)


def test_a_move_along_the_dial_drops_the_calibration(tmp_path):
    X, y, s = rows(300, 0)
    model = FairRidge(**FIXED).fit(X, y, sensitive_features=s).conformalize(*rows(200, 1)[:2])
    with pytest.raises(ValueError, match="conformalize"):
        model.at(0.5).predict_interval(X)
    pytest.importorskip("skops")
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict_interval(X), model.predict_interval(X))


def test_training_rows_warn():
    X, y, s = rows(300, 0)
    model = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    with pytest.warns(DataWarning, match="training rows"):
        model.conformalize(X, y)


def test_a_group_with_too_few_rows_has_unbounded_intervals():
    X, y, s = rows(300, 0)
    model = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    X, y, s = rows(60, 1)
    group = np.where(np.arange(60) < 5, "few", "many")
    calibrated = model.conformalize(X, y, sensitive_features={"g": group})
    with pytest.warns(DataWarning, match="g=few.*at least 9"):
        out = calibrated.predict_interval(X, 0.9, sensitive_features={"g": group})
    assert np.isinf(out[group == "few"]).all()
    assert np.isfinite(out[group == "many"]).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"sensitive_features": None}, r"by group \(g\); pass sensitive_features="),
        ({"coverage": 1.5}, "coverage=1.5"),
        ({"sensitive_features": {"g": ["z"] * 50}}, "No calibration row has g=z"),
        ({"sensitive_features": {"h": ["a"] * 50}}, "calibrated with"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(change, text):
    X, y, s = rows(300, 0)
    model = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    X, y, _ = rows(50, 1)
    group = {"g": np.where(np.arange(50) % 2, "a", "b")}
    calibrated = model.conformalize(X, y, sensitive_features=group)
    with pytest.raises(ValueError, match=text):
        calibrated.predict_interval(X, **{"coverage": 0.8, "sensitive_features": group, **change})


def test_an_unknown_class_is_named():
    X, y, s = rows(300, 0)
    model = FairRidgeClassifier(**FIXED).fit(X, classes(y), sensitive_features=s)
    X, y, _ = rows(50, 1)
    with pytest.raises(ValueError, match="'maybe'"):
        model.conformalize(X, np.where(y > 1, "maybe", "no"))
