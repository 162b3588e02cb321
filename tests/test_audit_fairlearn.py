"""An audit and fairlearn say the same about the same rows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge

from fairspan import audit

fairlearn = pytest.importorskip("fairlearn.metrics")

SEEDS = st.integers(0, 2**32 - 1)
QUICK: dict[str, Any] = {
    "parts": ["scores", "decisions"],
    "n_boot": 20,
    "random_state": 0,
    "min_rows": 1,
}
few = settings(max_examples=max(settings().max_examples // 5, 1))
RATES = ("selection_rate", "true_positive_rate", "false_positive_rate", "accuracy")


def rows(seed, n=240, weighted=False):
    rng = np.random.default_rng(seed)
    s = {"sex": rng.permutation(np.arange(n) % 2), "city": np.array(list("xyz"))[np.arange(n) % 3]}
    latent = rng.normal(size=n) + 0.5 * s["sex"]
    y = np.where(latent + rng.normal(size=n) > 0, "yes", "no")
    d = np.where(latent > 0.2, "yes", "no")
    w = rng.exponential(size=n) if weighted else None
    return latent, y, d, s, w, np.array(["old", "young"])[rng.integers(0, 2, n)]


@few
@given(SEEDS, st.booleans(), st.sampled_from(["yes", "no"]))
def test_gaps_are_fairlearns(seed, weighted, pos_label):
    f, y, d, s, w, _ = rows(seed, weighted=weighted)
    found = audit(
        f, y=y, decisions=d, sensitive_features=s, sample_weight=w, pos_label=pos_label, **QUICK
    )
    true, decided = (y == pos_label).astype(int), (d == pos_label).astype(int)
    crossed = np.array([f"{a} & {b}" for a, b in zip(s["sex"], s["city"], strict=True)])
    for name, groups in (*s.items(), ("sex x city", crossed)):
        for metric in (
            "demographic_parity_difference",
            "demographic_parity_ratio",
            "equalized_odds_difference",
            "equal_opportunity_difference",
        ):
            expected = getattr(fairlearn, metric)(
                true, decided, sensitive_features=groups, sample_weight=w
            )
            assert found.value(metric, name) == pytest.approx(expected, abs=1e-12), metric


@few
@given(SEEDS, st.booleans(), st.booleans())
def test_the_frame_of_an_audit_has_its_rates(seed, weighted, controlled):
    f, y, d, s, w, c = rows(seed, weighted=weighted)
    one = {"sex": s["sex"]}
    found = audit(
        f,
        y=y,
        decisions=d,
        sensitive_features=one,
        sample_weight=w,
        control_features={"age": c} if controlled else None,
        **QUICK,
    )
    frame = found.metric_frame()
    assert list(frame.by_group.columns) == list(RATES)
    for group in ("0", "1"):
        for metric in RATES:
            for age in ("old", "young") if controlled else ("",):
                where = f"age = {age}" if age else ""
                at = (where, group) if age else group
                assert frame.by_group.loc[at, metric] == pytest.approx(
                    found.value(metric, "sex", where, group), abs=1e-12
                )
    difference = frame.difference()["selection_rate"]
    for age in ("old", "young") if controlled else ():
        assert difference[f"age = {age}"] == pytest.approx(
            found.value("demographic_parity_difference", "sex", f"age = {age}")
        )
    if not controlled:
        assert difference == pytest.approx(found.value("demographic_parity_difference", "sex"))
        assert frame.overall["accuracy"] == pytest.approx(found.value("accuracy"))


@few
@given(SEEDS, st.booleans())
def test_several_attributes_are_crossed_as_in_the_audit(seed, weighted):
    f, y, d, s, w, _ = rows(seed, weighted=weighted)
    found = audit(f, y=y, decisions=d, sensitive_features=s, sample_weight=w, **QUICK)
    by_group = found.metric_frame().by_group
    assert list(by_group.index.names) == ["sex", "city"]
    for (sex, city), each in by_group.iterrows():
        for metric in RATES:
            assert each[metric] == pytest.approx(
                found.value(metric, "sex x city", group=f"{sex} & {city}"), abs=1e-12
            )


@few
@given(SEEDS, st.booleans())
def test_a_regression(seed, weighted):
    f, _, _, s, w, _ = rows(seed, weighted=weighted)
    y = f + np.random.default_rng(seed).normal(size=len(f))
    found = audit(f, y=y, sensitive_features={"sex": s["sex"]}, sample_weight=w, **QUICK)
    by_group = found.metric_frame().by_group
    for group in ("0", "1"):
        each = by_group.loc[group]
        one = {"attribute": "sex", "group": group}
        assert each["mean_prediction"] == pytest.approx(found.value("mean_prediction", **one))
        assert each["mean_squared_error"] == pytest.approx(
            found.value("root_mean_squared_error", **one) ** 2
        )


def test_other_metrics_alone_or_by_name():
    f, y, d, s, w, _ = rows(0, weighted=True)
    found = audit(f, y=y, decisions=d, sensitive_features=s, sample_weight=w, **QUICK)
    alone = found.metric_frame(fairlearn.selection_rate)
    named = found.metric_frame({"selected": fairlearn.selection_rate})
    assert alone.by_group.to_numpy() == pytest.approx(named.by_group["selected"].to_numpy())
    assert alone.overall == pytest.approx(np.average(d == "yes", weights=w))


def test_rows_of_weight_zero_are_not_in_the_frame():
    f, y, d, s, _, _ = rows(0)
    w = np.ones(len(f))
    w[s["sex"] == 1] = np.arange((s["sex"] == 1).sum()) % 2
    found = audit(
        f, y=y, decisions=d, sensitive_features={"sex": s["sex"]}, sample_weight=w, **QUICK
    )
    frame = found.metric_frame(fairlearn.selection_rate)
    assert frame.by_group["1"] == pytest.approx(found.value("selection_rate", "sex", group="1"))


def test_many_classes_have_their_accuracy():
    f, _, _, s, _, _ = rows(0)
    y = np.array(list("abc"))[np.searchsorted(np.quantile(f, [0.3, 0.6]), f)]
    d = np.roll(y, 1)
    found = audit(f, y=y, decisions=d, sensitive_features={"sex": s["sex"]}, **QUICK)
    by_group = found.metric_frame().by_group
    assert list(by_group.columns) == ["accuracy"]
    for group in ("0", "1"):
        assert by_group.loc[group, "accuracy"] == pytest.approx(
            found.value("accuracy", "sex", group=group)
        )


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_of_a_model(task):
    f, y, _, s, _, _ = rows(0)
    X = np.stack([f, np.arange(len(f)) % 7], axis=1)
    model, y = (LogisticRegression(), y) if task == "classes" else (Ridge(), f**2)
    found = audit(model.fit(X, y), X, y, sensitive_features={"sex": s["sex"]}, **QUICK)
    metric = "accuracy" if task == "classes" else "mean_prediction"
    by_group = found.metric_frame().by_group
    assert by_group.loc["1", metric] == pytest.approx(found.value(metric, "sex", group="1"))


@pytest.mark.parametrize(
    ("given", "message"),
    [({}, "needs y"), ({"y": np.arange(240) % 2}, "needs decisions")],
)
def test_what_a_frame_needs(given, message):
    f, _, _, s, _, _ = rows(0)
    found = audit(f, sensitive_features=s, **given, **QUICK)
    with pytest.raises(ValueError, match=message):
        found.metric_frame()
