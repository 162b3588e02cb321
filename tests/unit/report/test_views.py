"""What a report draws: distributions, calibration and means against their definitions."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from fairspan.auditing import Protected
from fairspan.metrics.groups import largest_ks
from fairspan.report.dial_points import FEWEST, count_groups, merge_small
from fairspan.report.views import (
    binned_means,
    calibration_points,
    confusion,
    distributions,
    rough,
)

ALL = np.ones(3, dtype=bool)


def groups(codes, values=None):
    labels = tuple("abcdefghijklmnopqrstuvwxyz"[: int(codes.max()) + 1])
    kind = "categorical" if values is None else "continuous"
    return Protected("s", kind, codes, labels, values)


def draw(seed, n=200, n_groups=3, ties=True):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n - n_groups)])
    score = rng.normal(size=n) + 0.5 * codes
    return (np.round(score, 1) if ties else score), codes, rng


@given(st.integers(0, 10_000), st.booleans())
def test_ks_is_the_largest_of_scipys_over_pairs(seed, ties):
    score, codes, _ = draw(seed, ties=ties)
    each = {
        pair: ks_2samp(*(score[codes == h] for h in pair)).statistic
        for pair in combinations(range(3), 2)
    }
    value, pair = largest_ks(score, codes, np.ones(len(score)), ALL)
    assert value == pytest.approx(max(each.values()), abs=1e-12)
    assert each[pair] == pytest.approx(value, abs=1e-12)


@given(st.integers(0, 10_000))
def test_a_weight_is_so_many_copies_in_ks_and_in_histograms(seed):
    score, codes, rng = draw(seed, 60)
    weight = rng.integers(1, 4, 60)
    many = np.repeat(np.arange(60), weight)
    one = largest_ks(score, codes, weight.astype(float), ALL)
    copies = largest_ks(score[many], codes[many], np.ones(len(many)), ALL)
    assert one[0] == pytest.approx(copies[0], abs=1e-12)
    options = {"shares": False, "min_rows": 1}
    a = distributions(score, groups(codes), weight.astype(float), **options)
    b = distributions(score[many], groups(codes[many]), np.ones(len(many)), **options)
    np.testing.assert_allclose(a["shares"], b["shares"], atol=1e-12)
    np.testing.assert_allclose(a["means"], b["means"], atol=1e-12)


def test_groups_that_are_alike_have_no_distance_and_small_ones_are_not_compared():
    score, codes = np.tile([0.1, 0.2, 0.3], 2), np.repeat([0, 1], 3)
    value, pair = largest_ks(score, codes, np.ones(6), np.ones(2, dtype=bool))
    assert (value, pair) == (0.0, (0, 1))
    value, pair = largest_ks(score, codes, np.ones(6), np.array([True, False]))
    assert np.isnan(value)
    assert pair == ()


def test_histograms_are_shares_of_a_group_over_the_range_of_probabilities():
    score, codes, _ = draw(1)
    p = 1.0 / (1.0 + np.exp(-score))
    found = distributions(p, groups(codes), np.ones(len(p)), shares=True, min_rows=1)
    assert found["edges"][0] == 0.0
    assert found["edges"][-1] == 1.0
    for h, shares in enumerate(found["shares"]):
        assert sum(shares) == pytest.approx(1.0, abs=0.02)  # three digits each
        assert found["means"][h] == pytest.approx(p[codes == h].mean())
        expected, _ = np.histogram(p[codes == h], found["edges"])
        np.testing.assert_allclose(shares, expected / (codes == h).sum(), atol=1e-3)


@pytest.mark.parametrize("score", [np.full(12, 0.5), np.tile([0.0, 1.0, 1.0, 0.0], 3)])
def test_constant_scores_and_scores_on_the_edges_have_a_bin(score):
    for shares in (True, False):
        found = distributions(
            score, groups(np.repeat([0, 1], 6)), np.ones(12), shares=shares, min_rows=1
        )
        assert all(sum(row) == pytest.approx(1.0) for row in found["shares"])


def test_calibration_points_are_means_and_add_up_to_the_group():
    rng = np.random.default_rng(0)
    n = 3000
    codes, said = rng.integers(0, 2, n), rng.random(n)
    came = (rng.random(n) < said).astype(float)
    weight = rng.integers(1, 4, n).astype(float)
    for h, points in enumerate(calibration_points(said, came, groups(codes), weight, 30)):
        assert len(points) == 10
        assert sum(p["n"] for p in points) == (codes == h).sum()
        assert all(abs(p["predicted"] - p["actual"]) < 0.12 for p in points)  # planted: calibrated
        lows = [p["predicted"] for p in points]
        assert lows == sorted(lows)
    first = said <= np.quantile(said, 0.1, weights=weight, method="inverted_cdf")
    mine = (codes == 0) & first
    point = calibration_points(said, came, groups(codes), weight, 30)[0][0]
    assert point["n"] == pytest.approx(mine.sum(), abs=1)
    assert point["actual"] == pytest.approx(np.average(came[mine], weights=weight[mine]), rel=0.05)


def test_calibration_of_a_small_group_has_no_points():
    codes = np.array([0] * 40 + [1] * 5)
    said = np.linspace(0, 1, 45)
    points = calibration_points(said, said, groups(codes), np.ones(45), 30)
    assert points[0]
    assert points[1] == []


def test_binned_means_are_means_with_the_interval_of_a_mean():
    rng = np.random.default_rng(0)
    s, score = rng.normal(size=400), rng.normal(size=400)
    codes = (s > 0).astype(np.intp)
    found = binned_means(score, groups(codes, s), np.ones(400), 0.95)
    for h, row in enumerate(found):
        mine = score[codes == h]
        half = 1.959964 * mine.std(ddof=1) / np.sqrt(len(mine))
        assert row["mean"] == pytest.approx(mine.mean())
        assert row["at"] == pytest.approx(s[codes == h].mean())
        assert (row["low"], row["high"]) == pytest.approx((mine.mean() - half, mine.mean() + half))
        assert row["n"] == len(mine)


def test_rows_that_weigh_next_to_nothing_give_a_mean_and_no_interval():
    one = groups(np.zeros(5, dtype=np.intp), np.arange(5.0))
    weight = np.array([1.0, 1e-300, 1e-300, 1e-300, 1e-300])
    (row,) = binned_means(np.array([3.0, 1.0, 2.0, 1.0, 2.0]), one, weight, 0.95)
    assert row["mean"] == 3.0
    assert np.isnan(row["low"])


def test_of_a_few_people_only_their_number_is_told():
    codes = np.repeat([0, 1, 2], [30, FEWEST, FEWEST - 1])
    score, weight = np.linspace(0, 1, len(codes)), np.ones(len(codes))
    found = distributions(score, groups(codes), weight, shares=True, min_rows=5)
    assert [mean is None for mean in found["means"]] == [False, False, True]
    assert [set(row) == {None} for row in found["shares"]] == [False, False, True]
    rows = binned_means(score, groups(codes, score), weight, 0.95)
    assert rows[2] == {"at": None, "mean": None, "low": None, "high": None, "n": FEWEST - 1}
    assert rows[1]["mean"] == pytest.approx(score[codes == 1].mean())
    assert count_groups(groups(codes)) == [30, FEWEST, FEWEST - 1]


def test_confusion_counts_people_and_who_moved():
    chosen = np.array([True, True, False, False, True])
    positive = np.array([True, False, True, False, True])
    before = np.array([False, True, True, False, True])
    found = confusion(chosen, positive, before, np.array([True, True, True, True, False]))
    assert found["confusion"] == {"tp": 1, "fp": 1, "tn": 1, "fn": 1}
    assert (found["now_chosen"], found["no_longer_chosen"]) == (1, 1)


@given(st.integers(0, 1000), st.integers(3, 10))
def test_merging_keeps_the_largest_groups_and_every_row(seed, most):
    rng = np.random.default_rng(seed)
    codes = rng.choice(20, 500, p=rng.dirichlet(np.ones(20)))
    one = Protected("s", "categorical", codes, tuple(f"g{i}" for i in range(20)))
    merged = merge_small(one, "m", most)
    assert len(merged.labels) == most
    count = np.bincount(codes, minlength=20)
    shown = [one.labels.index(label) for label in merged.labels[:-1]]
    assert count[shown].min() >= np.delete(count, shown).max()
    for h, old in enumerate(shown):
        np.testing.assert_array_equal(merged.codes == h, codes == old)
    assert (merged.codes == most - 1).sum() == np.delete(count, shown).sum()


def test_the_merged_group_has_a_name_of_its_own():
    labels = ("a", "b", "c", "all 3 others", "d")
    merged = merge_small(
        Protected("s", "categorical", np.array([0, 1, 2, 3, 3, 4]), labels), "m", 3
    )
    assert len(set(merged.labels)) == 3


def test_rough_numbers_have_few_digits():
    assert rough([0.123456, 123456.0], 3) == [0.123, 123000.0]


def test_a_slice_without_rows_has_no_mean():
    codes = np.repeat([0, 2], 5)
    one = Protected("s", "continuous", codes, ("a", "b", "c"), codes + np.tile(np.arange(5.0), 2))
    found = binned_means(np.arange(10.0), one, np.ones(10), 0.95)
    assert [row["mean"] for row in found] == pytest.approx([2.0, 7.0])
    assert sum(row["n"] for row in found) == 10
