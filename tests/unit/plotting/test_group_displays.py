"""What displays draw are the numbers they were given, and names from data are only names."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib import pyplot
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from tests.support.plotting_pictures import an_audit
from tests.unit.estimators.test_path import CASES, FIXED, binary, make, path_of

from fairspan import DataWarning, FairRepresentation, audit
from fairspan.auditing import Audit, AuditDisplay, Finding
from fairspan.estimators import FairGPRegressor, FairRidge, FairRidgeClassifier
from fairspan.estimators.dial_predictor import move
from fairspan.estimators.path import FairnessPath
from fairspan.metrics import correlation_ratio, ks_distance
from fairspan.plotting import (
    GroupDistributionDisplay,
    PriceDisplay,
    SubspaceAngleDisplay,
    TradeoffDisplay,
    plain_label,
)
from fairspan.plotting import angles as _angles
from fairspan.plotting.style import number

HOSTILE = (
    "$\\frac{1}{",
    "_hidden",
    "<script>alert(1)</script>",
    "a\nb",
    "\x1b[31mred",
    "\u202egnp",
)


@pytest.fixture(autouse=True)
def no_figures_left():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def line(ax, label):
    (found,) = [one for one in ax.get_lines() if one.get_label() == label]
    return found


def texts(figure):
    figure.canvas.draw()
    return [t.get_text() for t in figure.findobj(Text) if t.get_text()]


# ------------------------------------------------------------------ trade-off


def test_a_tradeoff_draws_the_paths_numbers():
    path, _ = path_of(FairRidge(**FIXED))
    for metric in ("correlation", "correlation_ratio"):
        ax = TradeoffDisplay.from_path(path, metric).ax_
        for name in path.attributes:
            x, y = line(ax, name).get_data()
            assert np.array_equal(x, path.curve(metric, name))
            assert np.array_equal(y, path.error)
        assert ax.get_xlabel() == f"held-out {metric.replace('_', ' ')}"
        assert ax.get_ylabel() == "held-out RMSE"


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


MOVED = [
    *[case for case in CASES if not isinstance(case[0], FairRepresentation)],
    (FairRidgeClassifier(**FIXED, criterion="equalized_odds"), "two"),
    (FairRidgeClassifier(**FIXED, criterion="equal_opportunity", pos_label="yes"), "two"),
    (FairRidge(**FIXED, dial="cosine"), "numeric"),
]


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
    found = TradeoffDisplay.from_estimator(
        model, frame, y, **names, n_points=3, rows="in-sample"
    )  # fmt: skip
    assert found.parity["group"] == pytest.approx(expected.parity["group"], abs=1e-10)
    with pytest.raises(ValueError, match="needs control_features"):
        TradeoffDisplay.from_estimator(model, frame, y, sensitive_features="group", n_points=2)


def test_training_rows_are_not_called_held_out():
    X, y, s = binary()
    model = FairRidge(**FIXED).fit(X, y, sensitive_features=s)
    for make_display in (TradeoffDisplay.from_estimator, PriceDisplay.from_estimator):
        with pytest.warns(DataWarning, match="rows='in-sample'"):
            make_display(model, X, y, sensitive_features=s, n_points=3)
        shown = make_display(model, X, y, sensitive_features=s, n_points=3, rows="in-sample")
        assert "in-sample" in shown.ax_.get_ylabel()


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
            model, X, y, sensitive_features=s, n_points=2, at_most=0.1, attribute="t",
            rows="in-sample",
        )  # fmt: skip


def test_a_metric_of_errors_and_rows_on_which_nothing_varies():
    X, y, s = make("two")
    model = FairRidgeClassifier(**FIXED, criterion="equal_opportunity", pos_label="yes")
    model.fit(X, y, sensitive_features=s["group"])
    new = make("two", seed=1)
    shown = PriceDisplay.from_estimator(
        model, *new[:2], sensitive_features=new[2]["group"], metric="error", at_most=1.0,
        n_points=3, n_boot=2,
    )  # fmt: skip
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
        model, new[0][no], new[1][no], sensitive_features=new[2]["group"][no], n_points=2,
        rows="in-sample",
    )  # fmt: skip
    assert np.isnan(empty.noise)


# ------------------------------------------------------------------ groups


def three_groups(n=90, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    return np.round(rng.normal(size=n) + 0.5 * group, 1), group


def test_distribution_functions_are_shares_of_rows():
    f, group = three_groups()
    shown = GroupDistributionDisplay.from_predictions(f, sensitive_features={"g": group})
    for g in range(3):
        mine = f[group == g]
        x, share = line(shown.ax_, f"{g} (n = {len(mine)})").get_data()
        assert share[0] == 0.0
        for at, value in zip(x[1:], share[1:], strict=True):
            assert value == pytest.approx(np.mean(mine <= at), abs=1e-12)
    assert shown.ks_ == ks_distance(f, sensitive_features=group)
    assert shown.ax_.get_legend().get_title().get_text() == f"g: KS = {shown.ks_:.3f}"
    bar = [one.get_ydata() for one in shown.ax_.get_lines() if one.get_marker() == "_"]
    assert np.ptp(bar[0]) == pytest.approx(shown.ks_, abs=1e-12)


def test_weight_k_is_k_copies():
    f, group = three_groups()
    w = np.arange(len(f)) % 4
    weighted = GroupDistributionDisplay.from_predictions(
        f, sensitive_features=group, sample_weight=w
    )
    copied = GroupDistributionDisplay.from_predictions(
        np.repeat(f, w), sensitive_features=np.repeat(group, w)
    )
    assert weighted.ks_ == pytest.approx(copied.ks_, abs=1e-12)
    for g in range(3):
        for a, b in zip(weighted.ecdf(g), copied.ecdf(g), strict=True):
            assert a == pytest.approx(b, abs=1e-12)


def test_densities_have_area_one_and_share_their_edges():
    f, group = three_groups()
    w = np.random.default_rng(1).random(len(f))
    shown = GroupDistributionDisplay.from_predictions(
        f, sensitive_features=group, sample_weight=w, kind="histogram"
    )
    steps = [one.get_data() for one in shown.ax_.patches]
    assert len(steps) == 3
    for g, (height, edges, _) in enumerate(steps):
        assert height @ np.diff(edges) == pytest.approx(1.0)
        assert np.array_equal(edges, steps[0][1])
        inside = (group == g) & (f >= edges[3]) & (f < edges[4])
        share = w[inside].sum() / w[group == g].sum()
        assert height[3] * (edges[4] - edges[3]) == pytest.approx(share)


def test_means_along_a_continuous_attribute():
    rng = np.random.default_rng(2)
    age = rng.normal(size=400)
    f = age**2 + rng.normal(size=400)
    shown = GroupDistributionDisplay.from_predictions(f, sensitive_features={"age": age}, n_bins=4)
    place, mean, half = shown.slice_means(0.9)
    for i in range(4):
        rows = shown.groups == i
        assert mean[i] == pytest.approx(f[rows].mean())
        assert place[i] == pytest.approx(age[rows].mean())
        assert half[i] == pytest.approx(1.6448536 * f[rows].std(ddof=1) / np.sqrt(rows.sum()))
    (drawn,) = shown.ax_.containers
    assert drawn.lines[0].get_ydata() == pytest.approx(mean)
    low, high = np.array([s[:, 1] for s in drawn.lines[2][0].get_segments()]).T
    assert (high - low) / 2 == pytest.approx(shown.slice_means(0.95)[2])
    ratio = correlation_ratio(f, sensitive_features=age, n_bins=4)
    assert f"ratio = {ratio:.3f}" in shown.ax_.get_legend().get_title().get_text()


def test_scores_of_any_model():
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsRegressor

    X, y, s = make("three")
    for model, name in (
        (LogisticRegression(), "score (decision function) of 2"),
        (GaussianNB(), "probability of 2"),
        (KNeighborsRegressor(), "prediction"),
    ):
        model.fit(X, y)
        options = {"sensitive_features": s, "attribute": "group"}
        if name != "prediction":
            with pytest.raises(ValueError, match="give pos_label"):
                GroupDistributionDisplay.from_estimator(model, X, **options)
            with pytest.raises(ValueError, match="not among the classes"):
                GroupDistributionDisplay.from_estimator(model, X, **options, pos_label=9)
            options["pos_label"] = 2
        shown = GroupDistributionDisplay.from_estimator(model, X, **options)
        assert shown.ax_.get_xlabel() == name
    expected = model.predict(X)
    assert np.array_equal(shown.scores, expected)
    rep = FairRepresentation(**FIXED).fit(X, y, sensitive_features=s)
    with pytest.raises(TypeError, match="from_predictions"):
        GroupDistributionDisplay.from_estimator(rep, X, sensitive_features=s)


def test_what_is_not_one_attribute_or_one_score_is_refused():
    f, group = three_groups()
    both = {"a": group, "b": group[::-1]}
    with pytest.raises(ValueError, match="one of 'a', 'b'"):
        GroupDistributionDisplay.from_predictions(f, sensitive_features=both)
    with pytest.raises(ValueError, match="attribute='c' is unknown"):
        GroupDistributionDisplay.from_predictions(f, sensitive_features=both, attribute="c")
    with pytest.raises(ValueError, match="2 columns"):
        GroupDistributionDisplay.from_predictions(np.c_[f, f], sensitive_features=group)
    with pytest.raises(ValueError, match="kind='pie'"):
        GroupDistributionDisplay.from_predictions(f, sensitive_features=group, kind="pie")
    shown = GroupDistributionDisplay.from_predictions(f, sensitive_features=group)
    with pytest.raises(ValueError, match="continuous"):
        shown.slice_means()


def test_many_groups_and_many_rows_stay_readable():
    f = np.random.default_rng(0).normal(size=6000)
    shown = GroupDistributionDisplay.from_predictions(
        f, sensitive_features=[str(i % 20) for i in range(6000)]
    )
    drawn = [one for one in shown.ax_.get_lines() if "n = " in one.get_label()]
    assert len(drawn) == 8
    assert len({(one.get_color(), str(one._dash_pattern)) for one in drawn}) == 8
    assert "12 smaller groups not drawn" in shown.ax_.get_legend().get_title().get_text()
    one = GroupDistributionDisplay.from_predictions(f, sensitive_features=np.arange(6000) % 2)
    x, share = one.ax_.get_lines()[0].get_data()
    assert len(x) == 2001
    mine = f[::2]
    assert share[700] == pytest.approx(np.mean(mine <= x[700]), abs=1e-12)


# ------------------------------------------------------------------ angles


def read_off(ax, label):
    """Angle of an arrow, from where its tip is drawn."""
    found = [one for one in ax.get_lines() if one.get_label().startswith(label)]
    return [float(np.arctan2(one.get_ydata()[1], one.get_xdata()[1])) for one in found]


ANGLED = [
    FairRidge(**FIXED, fairness=0.6),
    FairRidge(**FIXED, fairness=0.0, n_predictive_directions=2),
    FairRidge(**FIXED, fairness=1.0, n_predictive_directions=3),
    FairRidge(**FIXED, fairness=0.3, method="rkhs", n_predictive_directions=3),
    FairRidge(
        gamma=0.2, eta=1e-3, fairness=0.9, dial="cosine", method="paper", n_predictive_directions=2
    ),
    FairRidge(**FIXED, fairness=0.8, dial="correlation"),
    FairGPRegressor(**FIXED, fairness=0.5, subspace="fair"),
    FairRepresentation(**FIXED, fairness=0.5),
]


@pytest.mark.filterwarnings("ignore:A correlation of")
@pytest.mark.parametrize("model", ANGLED)
def test_angles_read_off_are_the_certificates(model):
    X, y, s = make()
    model = type(model)(**model.get_params()).fit(X, y, sensitive_features=s)
    shown = SubspaceAngleDisplay.from_estimator(model)
    certificate = model.certificate_
    order = np.argsort(-model.angles_, kind="stable")
    assert len(shown.axes_) == min(4, len(order))
    fans = list(zip(shown.axes_, order, strict=False))
    for ax, i in fans:
        assert read_off(ax, "F") == [0.0]
        assert read_off(ax, "G") == pytest.approx([model.angles_[i]], abs=1e-12)
        assert np.cos(read_off(ax, "G")[0]) == pytest.approx(certificate.cosines[i], abs=1e-9)
        assert read_off(ax, "M") == pytest.approx([certificate.angles[i]], abs=1e-12)
        feet = [one.get_xdata()[0] for one in ax.get_lines() if one.get_marker() == "|"]
        assert sorted(feet) == pytest.approx(
            sorted([np.cos(certificate.angles[i]), certificate.cosines[i]]), abs=1e-9
        )
        words = [t.get_text() for t in ax.texts]
        theta, a = np.degrees(model.angles_[i]), np.degrees(certificate.angles[i])
        assert f"$\\theta$ = {theta:.1f}°, cos {certificate.cosines[i]:.3f}" in words
        assert f"a = {a:.1f}°, cos {np.cos(certificate.angles[i]):.3f}" in words
    # The gaps are those of the fans: as angles, they can be read off too.
    drawn = [read_off(ax, "M")[0] for ax, _ in fans]
    away = [read_off(ax, "G")[0] - read_off(ax, "M")[0] for ax, _ in fans]
    if len(fans) == len(order):
        assert np.abs(np.sin(drawn)).max() == pytest.approx(certificate.containment_gap, abs=1e-9)
        assert np.abs(np.sin(away)).max() == pytest.approx(certificate.accuracy_gap, abs=1e-9)
    said = shown.figure_.get_suptitle()
    for name in ("containment_gap", "accuracy_gap"):
        value = getattr(certificate, name)
        shown_value = "0" if value < 1e-10 else f"{value:.3f}"
        assert f"{name.replace('_', ' ')} {shown_value}" in said
    assert ("RKHS" if model.method != "optimal" else "correlation geometry") in said


def test_past_the_fair_end_the_model_is_on_the_other_side():
    X, y, s = binary()
    model = move(FairRidge(**FIXED).fit(X, y, sensitive_features=s), 1.5)
    shown = SubspaceAngleDisplay.from_estimator(model)
    (a,) = read_off(shown.ax_, "M")
    assert a == pytest.approx(-0.5 * model.angles_[0])
    assert shown.ax_.get_ylim()[0] < np.sin(a)


def test_a_lost_direction_is_not_drawn():
    theta = np.array([0.3, np.pi / 2])
    from fairspan.plotting.angles import _with_lost

    angles = _with_lost(np.cos(theta), np.array([0.1]))
    assert angles[0] == 0.1
    assert np.isnan(angles[1])
    shown = SubspaceAngleDisplay(
        np.cos(theta), theta, angles, containment_gap=0.1, accuracy_gap=1.0, fairness=0.5
    ).plot()
    assert read_off(shown.axes_[0], "M") == []
    assert "M has no direction" in [t.get_text() for t in shown.axes_[0].texts]
    assert len(read_off(shown.axes_[1], "M")) == 1
    names = [t.get_text() for t in shown.figure_.legends[0].get_texts()]
    assert sum(name.startswith("M") for name in names) == 1


def test_a_model_off_the_planes_says_so():
    X, y, s = make()
    limits = FairRidge(**FIXED, dependence="correlation").fit(X, y, sensitive_features=s)
    at = limits.at(max_correlation={"group": 0.05, "age": 0.02})
    said = SubspaceAngleDisplay.from_estimator(at).figure_.get_suptitle()
    assert "outside the plane" in said
    rep = FairRepresentation(**FIXED, subspace="fair", fairness=0.5)
    rep.fit(X, y, sensitive_features=s)
    shown = SubspaceAngleDisplay.from_estimator(rep)
    assert f"{rep.certificate_.n_functions} functions" in shown.figure_.get_suptitle()
    assert shown.containment_gap == rep.certificate_.containment_gap


def test_fans_on_axes_of_the_user():
    X, y, s = make()
    model = FairRidge(**FIXED, n_predictive_directions=3).fit(X, y, sensitive_features=s)
    figure, axes = pyplot.subplots(1, 2)
    shown = SubspaceAngleDisplay.from_estimator(model, ax=axes)
    assert shown.figure_ is figure
    assert shown.axes_ == tuple(axes)
    assert not figure.legends
    SubspaceAngleDisplay.from_estimator(model, ax=axes[1], title="one")
    assert axes[1].get_title(loc="left") == "one"
    few = SubspaceAngleDisplay.from_estimator(model, max_pairs=1)
    assert f"{len(model.angles_) - 1} pairs of smaller angles" in few.figure_.get_suptitle()


def test_no_geometry_without_a_fit_or_a_direction():
    with pytest.raises(NotFittedError):
        SubspaceAngleDisplay.from_estimator(FairRidge())
    with pytest.raises(TypeError, match="its fairspan step"):
        SubspaceAngleDisplay.from_estimator(make_pipeline(FairRidge()))
    X, _, s = binary()
    rep = FairRepresentation(**FIXED, subspace="fair").fit(X, sensitive_features=s)
    with pytest.raises(ValueError, match="no predictive direction"):
        SubspaceAngleDisplay.from_estimator(rep)
    with pytest.raises(ValueError, match="one length"):
        SubspaceAngleDisplay([1.0], [], [], containment_gap=0, accuracy_gap=0, fairness=1)


# ------------------------------------------------------------------ price


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


# ------------------------------------------------------------------ audit


def drawn_intervals(ax):
    out = []
    for one in ax.containers:
        values, (bars,) = one.lines[0].get_xdata(), one.lines[2]
        ends = [segment[:, 0] for segment in bars.get_segments()]
        out += [(round(float(v), 9), *np.round(e, 9)) for v, e in zip(values, ends, strict=True)]
    return sorted(out)


def test_an_audits_numbers_are_drawn():
    found = an_audit()
    shown = AuditDisplay.from_audit(found)
    assert shown.ax_ is shown.axes_[0]
    for ax, section in zip(shown.axes_, ("scores", "attacks"), strict=True):
        expected = [(f.value, f.low, f.high) for f in found.select(section)]
        assert drawn_intervals(ax) == sorted(tuple(np.round(e, 9)) for e in expected)
    rates = AuditDisplay.from_audit(found, kind="rates")
    expected = [(f.value, f.low, f.high) for f in found.select("decisions")]
    assert drawn_intervals(rates.ax_) == sorted(tuple(np.round(e, 9)) for e in expected)
    assert [t.get_text() for t in rates.ax_.get_yticklabels()] == ["F", "M"]


def test_a_model_is_audited_and_drawn():
    X, y, s = make("two", 300)
    model = FairRidgeClassifier(**FIXED).fit(X, y, sensitive_features=s)
    new = make("two", 300, seed=1)
    options = {"parts": ["scores", "decisions"], "n_boot": 20, "random_state": 0}
    shown = AuditDisplay.from_estimator(
        model, *new[:2], sensitive_features=new[2], kind="rates", attribute="group", **options
    )
    expected = audit(model, *new[:2], sensitive_features=new[2], **options)
    assert shown.audit.findings == expected.findings
    assert shown.ax_.get_ylabel() == "group"
    with pytest.raises(ValueError, match="kind='x'"):
        shown.plot(kind="x")
    numbers = audit(X[:, 0], sensitive_features=s, parts=["scores"], n_boot=20, random_state=0)
    with pytest.raises(ValueError, match="no rates"):
        AuditDisplay.from_audit(numbers, kind="rates")


def test_one_attribute_of_an_audit_and_axes_of_the_user():
    found = an_audit()
    with pytest.raises(ValueError, match="known are sex, age"):
        AuditDisplay.from_audit(found, attribute="race")
    figure, (left, right) = pyplot.subplots(1, 2)
    gaps = AuditDisplay.from_audit(found, attribute="age", ax=left, title="ages")
    # One panel, so gaps alone; one attribute, so nothing to tell apart.
    assert (gaps.axes_, gaps.figure_) == ((left,), figure)
    expected = [(f.value, f.low, f.high) for f in found.select("scores", attribute="age")]
    assert drawn_intervals(left) == sorted(tuple(np.round(e, 9)) for e in expected)
    assert left.get_legend() is None
    assert left.get_title(loc="left") == "ages"
    rates = AuditDisplay(found).plot(right, kind="rates")
    assert rates.ax_ is right
    assert len(drawn_intervals(right)) == len(found.select("decisions"))
    assert figure.get_suptitle() == right.get_title(loc="left") == ""


def test_an_attribute_that_one_panel_lacks():
    found = an_audit()
    kept = [f for f in found.findings if f.section != "attacks" or f.attribute == "sex"]
    shown = AuditDisplay.from_audit(replace(found, findings=tuple(kept)), title="whose")
    panels = [[h.get_label() for h in ax.containers] for ax in shown.axes_]
    assert panels == [["sex", "age"], ["sex"]]
    assert [one.lines[0].get_color() for one in shown.axes_[1].containers] == ["#0072B2"]
    assert shown.figure_.get_suptitle() == "whose"


# ------------------------------------------------------------------ names and needs


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.filterwarnings("ignore:Glyph")
def test_names_from_data_are_inert(name):
    f, group = three_groups()
    labels = np.array([name, "b", "c"])[group]
    found = [
        Finding(section, metric, name, who, value=0.2, low=0.1, high=0.3, small=bool(who))
        for section, metric, who in (
            ("scores", "correlation_ratio", ""),
            ("decisions", "selection_rate", name),
            ("decisions", "accuracy", name),
        )
    ]
    audited = Audit(name, 90, 0.95, {name: {name: 90}}, tuple(found))
    displays = [
        AuditDisplay.from_audit(audited),
        AuditDisplay.from_audit(audited, kind="rates"),
        GroupDistributionDisplay.from_predictions(f, sensitive_features={name: labels}),
        GroupDistributionDisplay.from_predictions(
            f, sensitive_features={name: labels}, kind="histogram", score_name=name
        ),
        GroupDistributionDisplay.from_predictions(
            f, sensitive_features={name: f + np.arange(90)}, score_name=name
        ),
        PriceDisplay([0, 1], [0, 0.1], parity=[0.3, 0.1], at_most=0.2, parity_name=name).plot(),
        PriceDisplay([0, 1], [0, 0.1], parity=[0.3, 0.1], at_most=0.0, parity_name=name).plot(),
        TradeoffDisplay([0, 1], [0.1, 0.2], {name: [0.3, 0.1]}).plot(),
    ]
    for shown in displays:
        found = texts(shown.figure_)
        assert any(plain_label(name) in text for text in found)
        for text in found:
            assert text.count("$") == text.count(r"\$")
            assert all(c.isprintable() or c == "\n" for c in text)
            assert name not in text or "\n" not in name


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    f, group = three_groups()
    for call in (
        TradeoffDisplay([0, 1], [1, 2], {"s": [1, 0]}).plot,
        GroupDistributionDisplay(f, group, list("abc")).plot,
        PriceDisplay([0, 1], [0, 1]).plot,
        SubspaceAngleDisplay(
            [0.5], [1.0], [0.5], containment_gap=0, accuracy_gap=0, fairness=1
        ).plot,
        AuditDisplay(an_audit()).plot,
    ):
        with pytest.raises(ImportError, match=r"fairspan\[plot\]"):
            call()


def test_properties_of_lines_are_the_users():
    f, group = three_groups()
    path, _ = path_of(FairRidge(**FIXED))
    X, y, s = binary()
    model = FairRidge(**FIXED, fairness=0.4).fit(X, y, sensitive_features=s)
    # Both spellings of a property, as matplotlib has them.
    for look in ({"lw": 4.0, "c": "k"}, {"linewidth": 4.0, "color": "k"}):
        by_group = {"sensitive_features": group, "title": "t", **look}
        lines = [
            line(TradeoffDisplay.from_path(path, title="t", **look).ax_, "group"),
            line(PriceDisplay.from_path(path, n_boot=2, title="t", **look).ax_, "price"),
            GroupDistributionDisplay.from_predictions(f, **by_group).ax_.get_lines()[0],
            GroupDistributionDisplay.from_predictions(f, kind="histogram", **by_group).ax_.patches[0],
            GroupDistributionDisplay.from_predictions(
                f, **{**by_group, "sensitive_features": f + np.arange(90)}
            ).ax_.containers[0].lines[0],
            line(SubspaceAngleDisplay.from_estimator(model, **look).ax_, "M: model, fairness 0.4"),
            AuditDisplay.from_audit(an_audit(), **look).ax_.containers[0].lines[0],
        ]  # fmt: skip
        for one in lines:
            colour = one.get_edgecolor() if hasattr(one, "get_edgecolor") else one.get_color()
            assert to_rgb(colour) == (0.0, 0.0, 0.0)
            assert one.get_linewidth() == 4.0
    with pytest.raises(AttributeError, match="colour_of_nothing"):
        TradeoffDisplay.from_path(path, colour_of_nothing=1)


def test_numbers_on_pictures_are_short_and_hide_nothing():
    given = (0.0, 1e-12, 4e-4, -4e-4, 0.12345, -0.5, 12.3456, 12345.6)
    said = ("0", "0", "4e-4", "\u22124e-4", "0.123", "\u22120.500", "12.346", "1.235e+04")
    assert tuple(map(number, given)) == said


def test_displays_fit_a_paper():
    """On a new figure: from a column to a page wide."""
    f, group = three_groups()
    theta = np.linspace(0.1, 1.0, 6)
    for shown in (
        TradeoffDisplay([0, 1], [1, 2], {"s": [1, 0]}).plot(title="t"),
        GroupDistributionDisplay(f, group, list("abc")).plot(title="t"),
        PriceDisplay([0, 1], [0, 1]).plot(title="t"),
        *(
            SubspaceAngleDisplay(
                np.cos(theta[:d]), theta[:d], theta[:d] / 2, containment_gap=0, accuracy_gap=0,
                fairness=0.5,
            ).plot(title="t")
            for d in (1, 2, 6)
        ),
        AuditDisplay.from_audit(an_audit()),
    ):  # fmt: skip
        width, height = shown.figure_.get_size_inches()
        assert 3.39 <= width <= 7.0
        assert height <= 5.0
        figure = shown.figure_
        figure.canvas.draw()
        box = figure.get_tightbbox()
        assert box.x0 >= -0.02
        assert box.y0 >= -0.02
        assert box.x1 <= width + 0.02
        assert box.y1 <= height + 0.02


def test_directions_without_a_fair_part_need_no_word_about_planes():
    certificate = SimpleNamespace(limits=None)
    theta = np.array([0.3, 0.5])
    assert _angles._off_the_planes(certificate, theta, np.array([0.1, np.nan])) == ""
