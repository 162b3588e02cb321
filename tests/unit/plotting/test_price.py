"""The display of the price draws differences of errors."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from tests.support.drawn import MOVED, line, texts
from tests.unit.estimators.test_path import FIXED, make, path_of

from fairspan import DataWarning
from fairspan.estimators import FairRidge, FairRidgeClassifier
from fairspan.estimators.path import FairnessPath
from fairspan.plotting import (
    PriceDisplay,
)


@pytest.mark.parametrize("target", ["numeric", "two"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_price_is_a_difference_of_errors_on_the_same_rows(target, weighted):
    model = FairRidge(**FIXED) if target == "numeric" else FairRidgeClassifier(**FIXED)
    w = np.random.default_rng(4).integers(1, 4, 240).astype(float) if weighted else np.ones(240)
    path, (_, y, _) = path_of(model, target, sample_weight=w if weighted else None)
    shown = PriceDisplay.from_path(path, level=0.8, n_boot=40, random_state=3)
    assert np.array_equal(line(shown.ax_, "price").get_ydata(), path.error - path.error[0])
    assert shown.low[0] == shown.high[0] == 0.0

    def error(i, rows):
        p, t, v = path.predictions(i)[rows], np.asarray(y)[rows], w[rows]
        loss = (p - t) ** 2 if target == "numeric" else (p != t).astype(float)
        mean = np.average(loss, weights=v)
        return np.sqrt(mean) if target == "numeric" else mean

    resamples = np.random.RandomState(3).randint(0, 240, size=(40, 240))
    for i in (3, 8):
        draws = [error(i, rows) - error(0, rows) for rows in resamples]
        low, high = np.quantile(draws, (0.1, 0.9))
        assert shown.low[i] == pytest.approx(low, abs=1e-12)
        assert shown.high[i] == pytest.approx(high, abs=1e-12)
    band = shown.ax_.collections[-1].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(max(shown.high.max(), 0.0))
    assert band.min() == pytest.approx(shown.low.min())


@pytest.mark.parametrize("at_most", [0.25, 0.4])
def test_the_mark_is_at_the_place_that_select_takes(at_most):
    path, _ = path_of(FairRidgeClassifier(**FIXED), "two", n_points=41)
    chosen = path.select("correlation", at_most=at_most).selection_
    shown = PriceDisplay.from_path(path, at_most=at_most, n_boot=2, random_state=0)
    assert shown.met_
    (mark,) = [one for one in shown.ax_.get_lines() if one.get_marker() == "D"]
    assert mark.get_xdata()[0] == chosen.fairness
    assert mark.get_ydata()[0] == pytest.approx(chosen.error - path.error[0])
    shade = [one for one in shown.ax_.collections if "\u2264" in one.get_label()]
    assert len(shade) == 1


def test_a_bound_that_nothing_keeps():
    path, _ = path_of(FairRidgeClassifier(**FIXED), "two")
    with pytest.warns(DataWarning, match="No dial value"):
        chosen = path.select("correlation", at_most=1e-6).selection_
    shown = PriceDisplay.from_path(path, at_most=1e-6, n_boot=2, random_state=0)
    assert shown.met_ is False
    assert shown.fairness[shown.chosen_] == chosen.fairness
    assert any("none keeps 1e-06" in text for text in texts(shown.figure_))


def test_a_price_by_another_metric_and_for_one_attribute():
    path, _ = path_of(FairRidgeClassifier(**FIXED), "two")

    def gap(y_true, y_pred, sensitive_features):
        del y_true
        yes = np.asarray(y_pred) == "yes"
        groups = np.unique(sensitive_features)
        return float(np.ptp([yes[sensitive_features == g].mean() for g in groups]))

    shown = PriceDisplay.from_path(path, gap, at_most=0.4, attribute="group", n_boot=2)
    assert shown.parity == pytest.approx(path.curve("demographic_parity_difference", "group"))
    assert shown.parity_name == "gap"


@pytest.mark.parametrize(("model", "target"), MOVED[3:5])
def test_a_price_by_hand_is_that_of_the_path(model, target):
    X, y, s = make(target)
    model = type(model)(**model.get_params()).fit(X, y, sensitive_features=s)
    new = make(target, seed=1)
    w = np.random.default_rng(5).integers(0, 3, len(y)).astype(float)
    options = {"sensitive_features": new[2], "sample_weight": w, "n_points": 5}
    price = {"at_most": 0.3, "n_boot": 30, "random_state": 0}
    path = FairnessPath.from_estimator(model, *new[:2], **options)
    expected = PriceDisplay.from_path(path, **price)
    found = PriceDisplay.from_estimator(model, *new[:2], **options, **price)
    for name in ("price", "low", "high", "parity"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=1e-10)
    assert found.chosen_ == expected.chosen_


def test_bad_prices():
    path, _ = path_of(FairRidge(**FIXED))
    for bad in ({"level": 1.0}, {"n_boot": 0}):
        with pytest.raises(ValueError, match="level="):
            PriceDisplay.from_path(path, **bad)
    with pytest.raises(ValueError, match="give `parity`"):
        PriceDisplay([0, 1], [0, 0.1], at_most=0.1)
    with pytest.raises(ValueError, match="not defined"):
        PriceDisplay([0, 1], [0, 0.1], parity=[0.1, np.nan], at_most=0.1)
    path.fairness = path.fairness + 0.1
    with pytest.raises(ValueError, match="no point at fairness 0"):
        PriceDisplay.from_path(path)
