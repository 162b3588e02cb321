"""The displays of a path draw its numbers, and prices as differences of errors."""

import warnings

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from matplotlib import pyplot
from tests.support.drawn import MOVED, line, texts, three_groups
from tests.unit.estimators.test_path import FIXED, binary, make, path_of

from fairspan import DataWarning, FairRepresentation
from fairspan.estimators import FairRidge, FairRidgeClassifier
from fairspan.estimators.path import FairnessPath, fairness_path
from fairspan.plotting import (
    GroupDistributionDisplay,
    PriceDisplay,
    TradeoffDisplay,
)


def test_a_tradeoff_draws_the_paths_numbers():
    path, _ = path_of(FairRidge(**FIXED))
    for metric in ("correlation", "correlation_ratio"):
        ax = TradeoffDisplay.from_path(path, metric).ax_
        for name in path.attributes:
            x, y = line(ax, name).get_data()
            assert np.array_equal(x, path.curve(metric, name))
            assert np.array_equal(y, path.error)
        words = "on new rows (held-out), 95 % each side"
        assert ax.get_xlabel() == f"{metric.replace('_', ' ')} {words}"
        assert ax.get_ylabel() == "RMSE on new rows (held-out)"
        assert words in [text.get_text() for text in ax.get_legend().get_texts()]
        measured = TradeoffDisplay.from_path(path, metric, confidence=None).ax_
        assert measured.get_xlabel() == f"held-out {metric.replace('_', ' ')}"
        assert len(measured.collections) == 0


def bands(ax):
    """Horizontal extent of every band at the largest error, and its label."""
    return [(one.get_paths()[0].vertices, one.get_label()) for one in ax.collections]


def test_bands_are_the_bounds_of_select_and_out_of_fold_says_so():
    X, y, s = make(n=160)
    path = fairness_path(FairRidge(**FIXED), X, y, sensitive_features=s, cv=2, n_points=5)
    ax = TradeoffDisplay.from_path(path).ax_
    words = "on new rows (out of fold), 95 %"
    assert ax.get_xlabel() == f"correlation {words}"
    assert ax.get_ylabel() == "RMSE on new rows (out of fold)"
    assert [label for _, label in bands(ax)] == [words, f"_{words}"]
    for name, (vertices, _) in zip(path.attributes, bands(ax), strict=True):
        bounds = path.bounds("correlation", name)
        np.testing.assert_array_equal(line(ax, name).get_xdata(), bounds.value)
        for i, error in enumerate(path.error):
            drawn = vertices[np.isclose(vertices[:, 1], error), 0]
            assert drawn.min() == pytest.approx(bounds.lower[i])
            assert drawn.max() == pytest.approx(bounds.upper[i])
    wide = TradeoffDisplay.from_path(path, confidence=0.99)
    assert (wide.high["group"] > path.bounds("correlation", "group").upper).all()
    assert "99 %" in wide.ax_.get_xlabel()


def test_ends_that_meet_have_one_text():
    t = [0.0, 0.5, 1.0]
    parity = {"near": [0.2, 0.3, 0.2001], "far": [0.4, 0.2, 0.1], "gone": [np.nan] * 3}
    shown = TradeoffDisplay(t, [0.1, 0.3, 0.1001], parity).plot()
    said = [(one.get_text(), one.get_color()) for one in shown.ax_.texts]
    near, far = (line(shown.ax_, name).get_color() for name in ("near", "far"))
    assert said[:3] == [("0 to 1", near), ("0", far), ("1", far)]
    shown.figure_.canvas.draw()


def test_on_axes_of_the_user():
    f, group = three_groups()
    figure, axes = pyplot.subplots(1, 3)
    for ax, display in zip(
        axes,
        (
            TradeoffDisplay([0, 1], [1, 2], {"s": [1, 0]}, noise=0.1),
            GroupDistributionDisplay(f, group, list("abc")),
            PriceDisplay([0, 1], [0, 1]),
        ),
        strict=True,
    ):
        assert display.plot(ax) is display
        assert (display.ax_, display.figure_) == (ax, figure)
        assert ax.get_xlabel()
    assert pyplot.get_fignums() == [figure.number]


@pytest.mark.parametrize(("model", "target"), MOVED)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_model_moved_by_hand_gives_the_curves_of_its_path(model, target, weighted):
    X, y, s = make(target)
    w = np.random.default_rng(5).integers(0, 3, len(y)).astype(float) if weighted else None
    model = type(model)(**model.get_params()).fit(X, y, sensitive_features=s)
    new = make(target, seed=1)
    options = {"sensitive_features": new[2], "sample_weight": w, "n_points": 5}
    path = FairnessPath.from_estimator(model, *new[:2], **options)
    ratio = "correlation_ratio" if target == "numeric" else "demographic_parity_difference"
    for metric in ("correlation", ratio if target != "three" else "correlation"):
        expected = TradeoffDisplay.from_path(path, metric)
        found = TradeoffDisplay.from_estimator(model, *new[:2], metric=metric, **options)
        assert np.allclose(found.fairness, expected.fairness)
        assert found.error == pytest.approx(expected.error, abs=1e-10)
        for name in path.attributes:
            assert found.parity[name] == pytest.approx(expected.parity[name], abs=1e-10)
        if expected.noise is not None:
            assert found.noise == pytest.approx(expected.noise)


def test_strata_are_cells_and_columns_may_be_named():
    pd = pytest.importorskip("pandas")
    X, y, s = make("two", 400)
    stratum = np.arange(400) % 2
    model = FairRidgeClassifier(**FIXED, criterion="conditional_statistical_parity")
    frame = pd.DataFrame(X, columns=list("abc")).assign(group=s["group"].astype(str), part=stratum)
    names = {"sensitive_features": "group", "control_features": "part"}
    model.fit(frame, y, **names)
    expected = TradeoffDisplay.from_path(
        FairnessPath.from_estimator(model, frame, y, **names, n_points=3), rows="in-sample"
    )
    found = TradeoffDisplay.from_estimator(model, frame, y, **names, n_points=3, rows="in-sample")
    assert found.parity["group"] == pytest.approx(expected.parity["group"], abs=1e-10)
    with pytest.raises(ValueError, match="needs control_features"):
        TradeoffDisplay.from_estimator(model, frame, y, sensitive_features="group", n_points=2)


def test_training_rows_are_not_called_held_out():
    X, y, s = binary()
    model = FairRidge(**FIXED, removal="training_rows").fit(X, y, sensitive_features=s)
    for make_display in (TradeoffDisplay.from_estimator, PriceDisplay.from_estimator):
        with pytest.warns(DataWarning, match="rows='in-sample'"):
            make_display(model, X, y, sensitive_features=s, n_points=3)
        shown = make_display(model, X, y, sensitive_features=s, n_points=3, rows="in-sample")
        assert "in-sample" in shown.ax_.get_ylabel()
    # No interval on new rows, also where the sketch of the rows says so and not the exact zero.
    model = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    with pytest.warns(DataWarning, match=r"some of them are training rows.*rows='in-sample'"):
        trade = TradeoffDisplay.from_estimator(model, X, y, sensitive_features=s, n_points=3)
    assert (trade.low, trade.high) == ({}, {})
    assert len(trade.ax_.collections) == 0
    assert "new rows" not in " ".join(texts(trade.figure_))
    options = {"n_points": 3, "rows": "in-sample", "at_most": 0.5, "n_boot": 2}
    price = PriceDisplay.from_estimator(model, X, y, sensitive_features=s, **options)
    assert price.upper is None
    assert any("as measured" in text for text in texts(price.figure_))


def test_what_cannot_be_moved_is_refused():
    X, y, s = binary()
    rep = FairRepresentation(**FIXED).fit(X, y, sensitive_features=s)
    with pytest.raises(TypeError, match="from_path"):
        TradeoffDisplay.from_estimator(rep, X, y, sensitive_features=s)
    model = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="n_points=1 "):
        TradeoffDisplay.from_estimator(model, X, y, sensitive_features=s, n_points=1)
    for metric, word in (("nonsense", "unknown"), ("demographic_parity_difference", "decisions")):
        with pytest.raises(ValueError, match=word):
            TradeoffDisplay.from_estimator(
                model, X, y, sensitive_features=s, n_points=2, metric=metric, rows="in-sample"
            )
    with pytest.raises(ValueError, match="attribute='t' is unknown"):
        PriceDisplay.from_estimator(
            model,
            X,
            y,
            sensitive_features=s,
            n_points=2,
            at_most=0.1,
            attribute="t",
            rows="in-sample",
        )


def test_a_metric_of_errors_and_rows_on_which_nothing_varies():
    X, y, s = make("two")
    model = FairRidgeClassifier(**FIXED, criterion="equal_opportunity", pos_label="yes")
    model.fit(X, y, sensitive_features=s["group"])
    new = make("two", seed=1)
    shown = PriceDisplay.from_estimator(
        model,
        *new[:2],
        sensitive_features=new[2]["group"],
        metric="error",
        at_most=1.0,
        n_points=3,
        n_boot=2,
    )
    assert np.array_equal(shown.parity - shown.parity[0], shown.price)
    # One group among the positives: their cell has no correlation to show, and no noise if empty.
    group = np.where(new[1] == "yes", 0, new[2]["group"])
    none = TradeoffDisplay.from_estimator(
        model, *new[:2], sensitive_features=group, n_points=2, rows="in-sample"
    )
    (values,) = none.parity.values()
    assert np.isnan(values).all()
    no = new[1] == "no"
    empty = TradeoffDisplay.from_estimator(
        model,
        new[0][no],
        new[1][no],
        sensitive_features=new[2]["group"][no],
        n_points=2,
        rows="in-sample",
    )
    assert np.isnan(empty.noise)


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


@pytest.mark.parametrize("max_fairness", [1.0, 1.5])
@pytest.mark.parametrize("confidence", [None, 0.8, 0.95])
@pytest.mark.parametrize("metric", ["correlation", "demographic_parity_difference", "error"])
@pytest.mark.parametrize("at_most", [0.3, 0.45])
def test_the_mark_is_at_the_place_that_select_takes(at_most, metric, confidence, max_fairness):
    path, _ = path_of(FairRidgeClassifier(**FIXED), "two", n_points=31, max_fairness=max_fairness)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        chosen = path.select(metric, at_most=at_most, confidence=confidence).selection_
    shown = PriceDisplay.from_path(
        path, metric, at_most=at_most, confidence=confidence, n_boot=2, random_state=0
    )
    assert shown.met_ == chosen.met
    (mark,) = [one for one in shown.ax_.get_lines() if one.get_marker() == "D"]
    assert mark.get_xdata()[0] == chosen.fairness
    assert mark.get_ydata()[0] == pytest.approx(chosen.error - path.error[0])
    shade = [one for one in shown.ax_.collections if "\u2264" in one.get_label()]
    assert len(shade) == chosen.met
    if confidence is None and chosen.met:
        assert shade[0].get_label().endswith("as measured")
    elif chosen.met:
        assert shade[0].get_label().endswith(f"on new rows, {100 * confidence:.0f} %")
        assert f"at most {chosen.upper:.3f}" in mark.get_label()


def test_a_bound_that_nothing_keeps():
    path, _ = path_of(FairRidgeClassifier(**FIXED), "two")
    for confidence, words in ((None, "none keeps 1e-06"), (0.95, "1e-06 cannot be promised")):
        with pytest.warns(DataWarning, match=r"No dial value|cannot be promised"):
            chosen = path.select("correlation", at_most=1e-6, confidence=confidence).selection_
        shown = PriceDisplay.from_path(
            path, at_most=1e-6, confidence=confidence, n_boot=2, random_state=0
        )
        assert shown.met_ is False
        assert shown.fairness[shown.chosen_] == chosen.fairness
        assert any(words in text for text in texts(shown.figure_))


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
