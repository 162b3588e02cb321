"""Displays of groups draw the distributions and means of the rows."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from tests.support.drawn import line, three_groups
from tests.unit.estimators.test_path import FIXED, make

from fairspan import FairRepresentation
from fairspan.metrics import correlation_ratio, ks_distance
from fairspan.plotting import (
    GroupDistributionDisplay,
)

# ------------------------------------------------------------------ trade-off


# ------------------------------------------------------------------ groups


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


# ------------------------------------------------------------------ price


# ------------------------------------------------------------------ audit


# ------------------------------------------------------------------ names and needs
