"""Coverage of prediction intervals by group, and cautions about heavy tails in small groups."""

import json

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairspan import FairGPRegressor, FairRidge, audit
from fairspan.auditing import Protected, held_out_bound
from tests.support.expected import expected_warnings

FIXED = {"gamma": 0.05, "random_state": 0}
QUICK = {"parts": ["decisions"], "n_boot": 50, "n_permutations": 19}
NAME = "interval_coverage"


def people(n, seed):
    """A minority of 20 % whose y varies three times as much: S-blind intervals are too short for it."""
    rng = np.random.default_rng(seed)
    s = np.where(rng.random(n) < 0.2, "few", "most")
    X = rng.normal(size=(n, 3)) + 0.3 * (s == "few")[:, None]
    return X, X.sum(axis=1) + rng.normal(size=n) * np.where(s == "few", 3.0, 1.0), s


X, Y, S = people(150, 0)
X_CAL, Y_CAL, S_CAL = people(3000, 1)
X_NEW, Y_NEW, S_NEW = people(1000, 2)


@pytest.fixture(scope="module")
def process():
    with expected_warnings():
        return FairGPRegressor(**FIXED).fit(X, Y, sensitive_features={"group": S})


def audited(model, **options):
    return audit(model, X_NEW, Y_NEW, sensitive_features={"group": S_NEW}, **{**QUICK, **options})


def test_coverage_is_the_share_of_rows_inside_their_interval(process):
    mean, std = process.predict(X_NEW, return_std=True)
    inside = np.abs(Y_NEW - mean) <= 1.6448536 * std
    result = audited(process)
    assert result.value(NAME) == pytest.approx(inside.mean())
    for group in ("few", "most"):
        (found,) = result.select("decisions", metric=NAME, group=group)
        assert found.value == pytest.approx(inside[group == S_NEW].mean())
        assert found.low < found.value < found.high
    gap = result.value(f"{NAME}_difference", "group")
    assert gap == pytest.approx(abs(inside[S_NEW == "few"].mean() - inside[S_NEW == "most"].mean()))


def test_a_group_that_is_covered_too_seldom_is_named_in_every_format(process):
    result = audited(process)
    (text,) = [text for text in result.warnings if "90 % intervals" in text]
    assert "few 0." in text
    assert "most" not in text.partition("Intervals")[0]
    assert "conformalize(X, y, sensitive_features=)" in text
    value = f"{result.value(NAME, 'group', group='few'):.3f}"
    assert f"90% intervals contain y: few {value}" in repr(result)
    assert "interval coverage" in result.to_markdown()
    assert value in result.to_markdown()
    assert "group = few" in result._repr_html_()
    lines = json.loads(result.to_json())["findings"]
    assert {"few", "most"} <= {line["group"] for line in lines if line["metric"] == NAME}


def test_calibration_by_group_covers_every_group(process):
    by_group = process.conformalize(X_CAL, Y_CAL, sensitive_features={"group": S_CAL})
    result = audited(by_group)
    rates = [f for f in result.select(metric=NAME, attribute="group") if f.group]
    assert len(rates) == 2
    assert all(abs(f.value - 0.9) < 0.04 for f in rates)
    assert not [text for text in result.warnings if "90 % intervals" in text]


def test_intervals_of_a_calibrated_ridge_in_a_pipeline():
    scaler = StandardScaler().fit(X)
    with expected_warnings():
        ridge = FairRidge(**FIXED).fit(scaler.transform(X), Y, sensitive_features={"group": S})
    assert not audited(make_pipeline(scaler, ridge)).select(metric=NAME)  # not calibrated
    calibrated = ridge.conformalize(scaler.transform(X_CAL), Y_CAL)
    low, high = calibrated.predict_interval(scaler.transform(X_NEW)).T
    result = audited(make_pipeline(scaler, calibrated))
    assert result.value(NAME) == pytest.approx(((low <= Y_NEW) & (high >= Y_NEW)).mean())
    assert abs(result.value(NAME) - 0.9) < 0.05


def test_other_models_and_parts_have_no_coverage(process):
    assert not audited(Ridge().fit(X, Y)).select(metric=NAME)
    assert not audited(process, parts=["scores"]).select(metric=NAME)
    assert not audit(
        process, X_NEW, sensitive_features={"group": S_NEW}, parts=["scores"], n_boot=20
    ).select(metric=NAME)


def test_groups_of_the_calibration_that_are_not_given_are_named(process):
    by_group = process.conformalize(X_CAL, Y_CAL, sensitive_features={"group": S_CAL})
    with pytest.warns(UserWarning, match="calibrated by 'group', which is not among"):
        result = audit(by_group, X_NEW, Y_NEW, sensitive_features={"other": S_NEW}, **QUICK)
    assert not result.select(metric=NAME)


def test_coverage_is_drawn(process):
    pytest.importorskip("matplotlib").use("agg")
    display = audited(process).plot().__class__.from_audit(audited(process), kind="rates")
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["few", "most"]
    assert display.ax_.get_xlabel() == "share inside 90 % intervals"


def caution(values, n_small, n=4000):
    s = np.append(np.zeros(n - n_small, dtype=np.intp), np.ones(n_small, dtype=np.intp))
    attribute = Protected("s", "categorical", s, ("most", "rare"))
    (found,) = held_out_bound(values[:, None], [attribute], weight=np.ones(n))
    assert (found.caution in found.note) or not found.caution
    return found.caution


def test_a_bound_about_few_rows_with_heavy_tails_has_a_caution():
    rng = np.random.default_rng(0)
    heavy, light = np.exp(rng.normal(size=4000)), rng.normal(size=4000)
    assert caution(heavy, 40) == (
        "heavy tails in few rows of rare: the bound may hold less often than stated"
    )
    assert not caution(light, 40)
    assert not caution(heavy, 2000)
    assert not caution(np.zeros(4000), 40)
    s = np.append(np.repeat("most", 3960), np.repeat("rare", 40))
    result = audit(
        heavy, representation=heavy, sensitive_features={"s": s}, parts=["certificate"], n_boot=20
    )
    assert any(text.startswith("s: heavy tails in few rows of rare") for text in result.warnings)
    assert "heavy tails" in result.to_markdown()
