"""Impact ratios, shortfalls, tests of rates, standardised differences and scoring rates, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from fairspan import metrics
from fairspan.metrics.impact import FISHER, Z_TEST, weighted_median


def decisions(*groups: tuple[str, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Decisions and groups of a table with rows (name, selected, people)."""
    y = np.concatenate([np.repeat([1, 0], [k, n - k]) for _, k, n in groups])
    return y, np.repeat([name for name, *_ in groups], [n for *_, n in groups])


# 80 men of whom 48 are selected, 40 women of whom 12 are: rates 60 % and 30 %.
MEN_WOMEN = decisions(("m", 48, 80), ("f", 12, 40))


def test_ratios_and_shortfalls_of_a_table_by_hand():
    y, s = MEN_WOMEN
    ratios = metrics.adverse_impact_ratios(y, sensitive_features={"sex": s})
    assert ratios == {"sex": {"f": pytest.approx(0.5), "m": 1.0}}
    shortfalls = metrics.selection_shortfalls(y, sensitive_features={"sex": s})
    assert shortfalls == {"sex": {"f": pytest.approx(12.0), "m": pytest.approx(0.0)}}


def test_the_example_of_the_uniform_guidelines():
    # Questions and answers 12: 60, 45, 48 and 51 of 100 give the ratios 75 %, 80 % and 85 %.
    y, s = decisions(("white", 60, 100), ("native", 45, 100), ("hispanic", 48, 100), ("b", 51, 100))
    (ratios,) = metrics.adverse_impact_ratios(y, sensitive_features=s).values()
    expected = {"white": 1.0, "native": 0.75, "hispanic": 0.8, "b": 0.85}
    assert ratios == {k: pytest.approx(v) for k, v in expected.items()}


def test_two_sided_tests_by_hand():
    y, s = MEN_WOMEN
    (tests,) = metrics.selection_tests(y, sensitive_features=s).values()
    assert list(tests) == ["f"]
    # All rates together are 60 / 120, so the standard error is sqrt(1/4 (1/80 + 1/40)).
    assert tests["f"].z == pytest.approx(-0.3 / np.sqrt(0.25 * (1 / 80 + 1 / 40)))
    assert tests["f"].p_value == pytest.approx(scipy.stats.fisher_exact([[12, 28], [48, 32]])[1])
    assert (tests["f"].reference, tests["f"].test) == ("m", FISHER)
    assert not tests["f"].flips_with_one
    assert tests["f"].ratio_with_one == pytest.approx((13 / 40) / (47 / 80))


def test_one_person_turns_a_small_difference_around():
    y, s = decisions(("m", 5, 10), ("f", 4, 10))  # 5 of 10 against 4 of 10
    (tests,) = metrics.selection_tests(y, sensitive_features=s).values()
    assert tests["f"].flips_with_one  # 4 of 10 against 5 of 10
    assert tests["f"].ratio_with_one == 1.0
    y, s = decisions(("m", 6, 10), ("f", 4, 10))
    (tests,) = metrics.selection_tests(y, sensitive_features=s).values()
    assert not tests["f"].flips_with_one  # 5 and 5 of 10 are equal, not turned around
    assert tests["f"].ratio_with_one == pytest.approx(1.0)


def test_tests_with_unequal_weights_use_effective_numbers():
    y, s = MEN_WOMEN
    w = np.where(y == 1, 1.0, 2.0)
    (tests,) = metrics.selection_tests(y, sensitive_features=s, sample_weight=w).values()
    assert tests["f"].test == Z_TEST
    n = {g: w[s == g].sum() ** 2 / (w[s == g] ** 2).sum() for g in "mf"}
    rate = {g: (w * y)[s == g].sum() / w[s == g].sum() for g in "mf"}
    pooled = sum(n[g] * rate[g] for g in "mf") / sum(n.values())
    z = (rate["f"] - rate["m"]) / np.sqrt(pooled * (1 - pooled) * sum(1 / n[g] for g in "mf"))
    assert tests["f"].z == pytest.approx(z)
    assert tests["f"].p_value == pytest.approx(2 * scipy.stats.norm.sf(abs(z)))
    doubled = metrics.selection_tests(y, sensitive_features=s, sample_weight=np.full(len(y), 2.0))
    assert doubled == metrics.selection_tests(y, sensitive_features=s)


def test_standardised_differences_are_cohens_d_of_two_groups():
    rng = np.random.default_rng(0)
    x, s = rng.normal(size=60), np.repeat(["a", "b"], [20, 40])
    x[s == "b"] += 1.0
    a, b = x[s == "a"], x[s == "b"]
    pooled = np.sqrt((19 * a.var(ddof=1) + 39 * b.var(ddof=1)) / 58)
    (d,) = metrics.standardized_mean_differences(x, sensitive_features=s).values()
    assert d == {"a": pytest.approx((a.mean() - b.mean()) / pooled), "b": 0.0}
    (d,) = metrics.standardized_mean_differences(x, sensitive_features=s, scale="all").values()
    assert d["a"] == pytest.approx((a.mean() - b.mean()) / x.std(ddof=1))
    constant = metrics.standardized_mean_differences(np.full(60, 0.1), sensitive_features=s)
    assert constant == {"sensitive_feature_0": {"a": 0.0, "b": 0.0}}


def test_scoring_rates_by_hand():
    # The median of 1 to 8 is 4.5: of a, one of four scores is above; of b, three.
    x, s = np.array([1, 2, 3, 5, 4, 6, 7, 8]), np.repeat(["a", "b"], 4)
    rates = metrics.scoring_rates(x, sensitive_features=s)
    assert rates == {"sensitive_feature_0": {"a": 0.25, "b": 0.75}}
    ratios = metrics.scoring_rate_ratios(x, sensitive_features=s)
    assert ratios == {"sensitive_feature_0": {"a": pytest.approx(1 / 3), "b": 1.0}}
    # A score equal to the median is not above it.
    tied = metrics.scoring_rates(np.array([1, 2, 2, 2]), sensitive_features=list("aabb"))
    assert tied == {"sensitive_feature_0": {"a": 0.0, "b": 0.0}}


def test_intersections_are_crossed():
    y, s = decisions(("a", 3, 4), ("b", 1, 4))
    t = np.tile(["x", "y"], 4)
    ratios = metrics.adverse_impact_ratios(
        y, sensitive_features={"s": s, "t": t}, intersectional=True
    )
    assert list(ratios) == ["s x t"]
    assert ratios["s x t"]["a & x"] == 1.0


def test_the_smallest_ratio_is_the_parity_ratio():
    y, s = decisions(("a", 7, 30), ("b", 11, 20), ("c", 3, 9))
    (ratios,) = metrics.adverse_impact_ratios(y, sensitive_features=s).values()
    parity = metrics.demographic_parity_ratio(y, y, sensitive_features=s)
    assert min(ratios.values()) == pytest.approx(parity)


def test_selection_rates_agree_with_fairlearn():
    fairlearn = pytest.importorskip("fairlearn.metrics")
    y, s = decisions(("a", 7, 30), ("b", 11, 20), ("c", 3, 9))
    (ratios,) = metrics.adverse_impact_ratios(y, sensitive_features=s).values()
    frame = fairlearn.MetricFrame(
        metrics=fairlearn.selection_rate, y_true=y, y_pred=y, sensitive_features=s
    )
    assert ratios == pytest.approx((frame.by_group / frame.by_group.max()).to_dict())


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=12))
def test_the_weighted_median_is_that_of_copies(pairs: list[tuple[int, int]]) -> None:
    values, weight = (np.array(part, dtype=float) for part in zip(*pairs, strict=True))
    assert weighted_median(values, weight) == np.median(np.repeat(values, weight.astype(int)))


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), min_size=2, max_size=30))
def test_weight_two_is_two_copies(rows: list[tuple[bool, str]]) -> None:
    y, s = (np.array(part) for part in zip(*rows, strict=True))
    if len(np.unique(s)) < 2:
        return
    w = np.arange(len(y)) % 2 + 1.0
    copies = np.repeat(np.arange(len(y)), w.astype(int))
    for metric in (
        metrics.adverse_impact_ratios,
        metrics.selection_shortfalls,
        metrics.scoring_rates,
    ):
        weighted = metric(y.astype(int), sensitive_features=s, sample_weight=w)
        copied = metric(y[copies].astype(int), sensitive_features=s[copies])
        for name, by_group in copied.items():
            assert weighted[name] == pytest.approx(by_group)


def test_nobody_selected_is_parity():
    ratios = metrics.adverse_impact_ratios([0, 0, 0, 0], sensitive_features=list("aabb"))
    assert ratios == {"sensitive_feature_0": {"a": 1.0, "b": 1.0}}
    (tests,) = metrics.selection_tests([0, 0, 0, 0], sensitive_features=list("aabb")).values()
    assert (tests["b"].p_value, tests["b"].z) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ((["yes", "no", "yes", "no"], {}), "name the favourable decision"),
        ((["yes", "no", "yes", "no"], {"pos_label": "y"}), "not among the labels"),
        (([0.2, 0.7, 0.4, 0.1], {}), "scores, not decisions"),
        (([1, 0, -1, 1], {}), "more than two"),
    ],
)
def test_decisions_that_cannot_be_read(given, match):
    y, options = given
    with pytest.raises(ValueError, match=match):
        metrics.adverse_impact_ratios(y, sensitive_features=list("aabb"), **options)


def test_scores_of_several_classes_are_refused():
    with pytest.raises(ValueError, match="one column"):
        metrics.scoring_rates(np.zeros((4, 2)), sensitive_features=list("aabb"))
