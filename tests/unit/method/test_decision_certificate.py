"""Intervals of the rates of a decision rule, and bounds of gaps and ratios."""

import itertools
import json

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from fairspan.method.decision_certificate import JudgedGroups, certify_rule, wilson
from fairspan.method.decision_rule import DecisionRule, RulePoint
from fairspan.method.rate_codes import Limit, RateBlock, rate_blocks

NO_RULE = DecisionRule(
    costs=1.0 - np.eye(2),
    code_mean=np.zeros(0),
    cells=(),
    cell_mean=np.zeros(0),
    code_coef=np.zeros(0),
    base_coef=np.zeros(1),
)


def counted(rates, limit, met=True):
    """A rule with these rates."""
    return RulePoint(
        limit=limit,
        rule=NO_RULE,
        scale=1.0,
        error=0.2,
        rates=tuple(map(np.asarray, rates)),
        gap=0.0,
        ratio=1.0,
        met=met,
        alike=0.5,
    )


def groups(sizes, attribute="group", cell=None, effective=None):
    names = tuple("abcdef"[: len(sizes)])
    share = np.array(sizes) / sum(sizes)
    return JudgedGroups(
        block=RateBlock(
            attribute=attribute,
            cell=cell,
            groups=names,
            member=np.zeros(0, dtype=np.intp),
            share=share,
            cell_share=1.0,
        ),
        n_rows=np.array(sizes),
        n_effective=np.array(sizes if effective is None else effective, dtype=float),
    )


def certify(judged, rates, limit=None, confidence=0.95, classes=("no", "yes")):
    point = counted(rates, limit or Limit(value=0.1))
    return certify_rule(judged, point, confidence, classes=classes, free_error=0.15)


def wilson_limits(rate, n, z):
    """Rates p at which |rate - p| = z sqrt(p (1 - p) / n), found by bisection."""

    def beyond(p):
        return abs(rate - p) - z * np.sqrt(p * (1.0 - p) / n)

    low = 0.0 if rate == 0.0 else scipy.optimize.brentq(beyond, 1e-12, rate - 1e-7)
    high = 1.0 if rate == 1.0 else scipy.optimize.brentq(beyond, rate + 1e-7, 1.0 - 1e-12)
    return low, high


# ------------------------------------------------------------------ formulas


@pytest.mark.parametrize("rate", [0.0, 0.03, 0.4, 1.0])
@pytest.mark.parametrize("n", [10, 33.3, 1000])
def test_wilson_inverts_the_score_test(rate, n):
    found = wilson(np.array([rate]), n, 1.96)
    np.testing.assert_allclose(np.ravel(found), wilson_limits(rate, n, 1.96), atol=1e-9)


def test_newcombe_of_a_published_example():
    """Newcombe 1998, table II, method 10: 56/70 - 48/80 has the limits .0524 and .3339."""
    found = certify([groups([70, 80])], [[56 / 70, 48 / 80]])
    assert found.gap == pytest.approx(0.2)
    assert found.gap_high == pytest.approx(0.3339, abs=5e-5)
    assert not found.kept


def test_the_ratio_bound_is_the_ratio_at_which_the_difference_has_the_bound_0():
    """Limits of a - R b, from those of a and of b, include 0 exactly for ratios R from the bound on."""
    n = np.array([150, 210])
    rates = np.array([0.3, 0.45])
    found = certify([groups(n)], [rates])
    z = scipy.stats.norm.ppf(0.975)
    low_a, high_b = wilson_limits(rates[0], n[0], z)[0], wilson_limits(rates[1], n[1], z)[1]

    def upper_at(R):
        lowest = -np.hypot(rates[0] - low_a, R * (high_b - rates[1]))
        return rates[0] - R * rates[1] + lowest

    bound = scipy.optimize.brentq(upper_at, 1e-9, rates[0] / rates[1])
    assert found.ratio == pytest.approx(0.3 / 0.45)
    assert found.ratio_low == pytest.approx(bound, abs=1e-9)
    assert certify([groups(n)], [rates], Limit(kind="ratio", value=bound - 1e-6)).kept
    assert not certify([groups(n)], [rates], Limit(kind="ratio", value=bound + 1e-6)).kept


@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.0, 0.5), (1.0, 1.0), (0.02, 1.0)])
def test_bounds_at_the_ends_are_numbers_in_0_to_1(rates):
    found = certify([groups([40, 60])], [rates])
    assert 0.0 <= found.ratio_low <= found.ratio <= 1.0
    assert 0.0 <= found.gap <= found.gap_high <= 1.0
    json.dumps(found.to_dict(), allow_nan=False)


def test_bounds_are_joint_over_pairs_classes_and_attributes():
    """The quantile is that of the level divided by the number of comparisons."""
    sizes, rates = [300, 200, 100], np.array([[0.2, 0.5, 0.3], [0.25, 0.45, 0.3], [0.3, 0.4, 0.3]])
    other = np.array([[0.2, 0.5, 0.3], [0.2, 0.5, 0.3]])
    judged = [groups(sizes, "race"), groups([300, 300], "sex")]
    found = certify(judged, [rates, other], classes=("x", "y", "z"))
    z = scipy.stats.norm.ppf(1.0 - 0.05 / (3 * (3 + 1)) / 2.0)
    worst = []
    for column, n in [(c, sizes) for c in rates.T] + [(c, [300, 300]) for c in other.T]:
        limits = [wilson_limits(p, m, z) for p, m in zip(column, n, strict=True)]
        for a, b in itertools.permutations(range(len(n)), 2):
            up, down = limits[a][1] - column[a], column[b] - limits[b][0]
            worst.append(column[a] - column[b] + np.sqrt(up**2 + down**2))
    assert found.gap_high == pytest.approx(max(worst), abs=1e-9)
    assert found.gap == pytest.approx(0.1)
    assert len(found.rates) == 3 * 3 + 3 * 2
    assert {r.decision for r in found.rates} == {"x", "y", "z"}
    assert found.smallest == "race=c"
    assert found.smallest_rows == 100


def test_limits_by_attribute_judge_their_own_groups():
    judged = [groups([5000, 5000], "race"), groups([5000, 5000], "sex")]
    rates = [(0.3, 0.31), (0.3, 0.5)]
    assert certify(judged, rates, Limit(value={"race": 0.05})).kept
    assert not certify(judged, rates, Limit(value={"race": 0.05, "sex": 0.05})).kept
    assert not certify(judged, rates, Limit(value=0.05)).kept


def test_more_confidence_and_fewer_rows_give_wider_bounds():
    few, many = (certify([groups([n, n])], [(0.3, 0.35)]) for n in (100, 10_000))
    assert few.gap_high > many.gap_high > 0.05
    assert few.ratio_low < many.ratio_low < 0.3 / 0.35
    sure = certify([groups([100, 100])], [(0.3, 0.35)], confidence=0.99)
    assert sure.gap_high > few.gap_high


def test_weights_and_clusters_lower_the_number_of_rows():
    rng = np.random.default_rng(0)
    s, weight = rng.integers(0, 2, 400), rng.gamma(1.0, size=400)
    (block,) = rate_blocks({"g": (s, ["a", "b"])}, np.zeros(400, dtype=int), weight)
    judged = JudgedGroups.of(block, weight, cluster_share=0.5)
    for j in range(2):
        w = weight[s == j]
        assert judged.n_rows[j] == len(w)
        assert judged.n_effective[j] == pytest.approx(0.5 * w.sum() ** 2 / (w**2).sum())
    assert len(judged.block.member) == 0
    equal = JudgedGroups.of(block, np.full(400, 3.0))
    np.testing.assert_allclose(equal.n_effective, equal.n_rows)


# ------------------------------------------------------------------ words


def test_verdicts_and_words():
    few = certify([groups([50, 150])], [(0.3, 0.35)], Limit(value=0.1))
    assert few.verdict == "not provable with these rows"
    first, second, *_ = str(few).splitlines()
    assert f"differ by at most {few.gap_high:.3f} (95 %)" in first  # not the gap of 50 rows
    assert "Smallest group: group=a (50 rows)" in second
    many = certify([groups([50_000, 50_000], cell=1)], [(0.3, 0.35)], Limit(value=0.1))
    assert many.verdict == "kept"
    assert "differ by 0.050, at most" in str(many)
    assert "group=a in yes: yes for 0.300" in str(many)
    missed = certify_rule(
        [groups([500, 500])],
        counted([(0.2, 0.5)], Limit(value=0.1), met=False),
        0.95,
        classes=("no", "yes"),
        free_error=0.1,
    )
    assert missed.verdict == "not kept"
    # A rule was chosen without the noise of 40 rows, but their rate as counted is beyond the limit.
    noisy = certify([groups([5_000, 3_000, 40])], [(0.3, 0.31, 0.42)], Limit(value=0.05))
    assert noisy.met
    assert not noisy.counted_met
    assert noisy.verdict == "not provable with these rows"
    assert few.counted_met
    assert many.counted_met
    assert not missed.counted_met


# ------------------------------------------------------------------ coverage


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "true"),
    [
        ([100, 100], [0.3, 0.3]),
        ([60, 500], [0.1, 0.15]),
        ([80, 200, 400], [0.3, 0.35, 0.4]),
        ([60, 60, 60, 60], [0.5, 0.5, 0.5, 0.5]),
    ],
)
def test_bounds_cover_the_true_gap_and_ratio(sizes, true):
    """2,000 draws; the standard error of a coverage of .95 is .005."""
    rng = np.random.default_rng(1)
    gap, ratio = max(true) - min(true), min(true) / max(true)
    draws = rng.binomial(sizes, true, size=(2000, len(sizes))) / np.array(sizes)
    found = [certify([groups(sizes)], [rates]) for rates in draws]
    assert np.mean([f.gap_high >= gap for f in found]) > 0.94
    assert np.mean([f.ratio_low <= ratio for f in found]) > 0.94
