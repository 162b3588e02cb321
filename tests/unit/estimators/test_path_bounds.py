"""Upper confidence bounds on new rows: known values, their order, and how often they hold."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from fairspan import FairRidgeClassifier, fairness_path
from fairspan.estimators.path_bounds import Limits, confidence_limits
from fairspan.estimators.path_selection import Group, Levels
from fairspan.method.decision_certificate import wilson

Z = 1.959963984540054
DECISIONS = "demographic_parity_difference"
ODDS = "equalized_odds_difference"
CORRELATIONS = ("correlation", "statistical_parity_correlation", "correlation_ratio")


def evaluator(target, *, numbers=False, weight=None, cells=None, **groups):
    """The parts of a PathEvaluator that bounds read."""
    n = len(target)
    codes = {name: np.asarray(values, dtype=np.intp) for name, values in groups.items()}
    cells = np.zeros(n, dtype=np.intp) if cells is None else cells
    return SimpleNamespace(
        n=n,
        weight=np.ones(n) if weight is None else np.asarray(weight, dtype=float),
        target=np.asarray(target),
        classes=None if numbers else np.array([0, 1]),
        positive=None if numbers else 1,
        attributes=list(codes),
        levels={name: Levels(c, int(c.max()) + 1, None) for name, c in codes.items()},
        cells=cells,
        cell_names=[str(c) for c in np.unique(cells)],
        check_attribute=lambda *_: None,
        scores_of=lambda outputs: [outputs[:, -1]],
    )


def likely(p, target=None):
    """The same for two groups that are known as probabilities, p of the second."""
    of = evaluator(np.zeros(len(p)) if target is None else target, group=p > 0.5)
    P = np.column_stack([1.0 - p, p])
    of.levels = {"group": Levels((p > 0.5).astype(np.intp), 2, None, ("a", "b"), P)}
    return of


def decisions(chosen):
    """Outputs of two classes that decide as given, at one dial value."""
    chosen = np.asarray(chosen, dtype=float)
    return np.stack([1.0 - chosen, chosen], axis=1)[:, :, None]


def numbers(values):
    return np.asarray(values, dtype=float)[:, None, None]


def limits(of, metric, outputs, confidence=0.95, *, attribute=None, independent=False):
    found = confidence_limits(
        of,
        metric,
        outputs,
        attribute=attribute,
        confidence=confidence,
        one_sided=independent,
    )
    assert found.lower.shape == found.upper.shape == (outputs.shape[2],)
    assert (found.lower <= found.upper).all()
    return found


def bound(*args, **options):
    return float(limits(*args, **options).upper[0])


def two_groups(a, n_a, b, n_b):
    """Decisions and groups with a of n_a and b of n_b favourable decisions."""
    chosen = np.repeat([1, 0, 1, 0], [a, n_a - a, b, n_b - b])
    return chosen, np.repeat([0, 1], [n_a, n_b])


# ------------------------------------------------------------------ known values


@pytest.mark.parametrize(
    ("count", "n", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_has_the_published_values(count, n, low, high):
    """Newcombe, Statistics in Medicine 17 (1998) 857-872, table I."""
    found = wilson(np.array(count / n), n, Z)
    assert [float(v) for v in found] == pytest.approx([low, high], abs=5e-5)


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((5, 56, 0, 29), -0.0381, 0.1926),
        ((0, 10, 0, 20), -0.1611, 0.2775),
    ],
)
def test_gaps_of_two_groups_have_newcombes_published_limits(counts, low, high):
    """Newcombe, Statistics in Medicine 17 (1998) 873-890, table II, method 10.

    The bound of the absolute gap is the larger of the limits of both differences.
    """
    chosen, group = two_groups(*counts)
    found = bound(evaluator(chosen, group=group), DECISIONS, decisions(chosen))
    assert found == pytest.approx(max(high, -low), abs=6e-5)


def test_the_bound_of_an_error_rate_is_wilsons():
    wrong, _ = two_groups(15, 148, 0, 0)
    target = np.zeros(148)
    found = bound(evaluator(target, group=np.zeros(148)), "error", decisions(wrong))
    assert found == pytest.approx(0.1605, abs=5e-5)


def test_the_bound_of_a_root_mean_square_by_hand():
    values = np.random.default_rng(0).normal(size=50)
    of = evaluator(np.zeros(50), numbers=True, group=np.arange(50) % 2)
    squares = values**2
    expected = np.sqrt(squares.mean() + Z * squares.std() / np.sqrt(50))
    assert bound(of, "error", numbers(values)) == pytest.approx(expected)


def test_equalized_odds_compare_the_groups_among_each_label():
    favourable, group = two_groups(56, 70, 48, 80)
    other, group_other = two_groups(5, 56, 0, 29)
    chosen, group = np.concatenate([favourable, other]), np.concatenate([group, group_other])
    label = np.repeat([1, 0], [150, 85])
    of = evaluator(label, group=group)
    found = confidence_limits(
        of, ODDS, decisions(chosen), attribute=None, confidence=0.95, one_sided=False
    )
    assert found.group.n_rows == 29
    assert found.group.name == "group = group 2 with an unfavourable label"
    # Both labels are tested, so each has half of the error probability.
    alone = [
        bound(evaluator(chosen[part], group=group[part]), DECISIONS, decisions(chosen[part]), 0.975)
        for part in (label == 1, label == 0)
    ]
    assert found.upper[0] == pytest.approx(max(alone))
    assert found.upper[0] > 0.3339


def test_a_group_without_rows_allows_no_promise():
    chosen, group = two_groups(5, 10, 5, 10)
    found = confidence_limits(
        evaluator(chosen, group=2 * group),
        DECISIONS,
        decisions(chosen),
        attribute=None,
        confidence=0.95,
        one_sided=True,
    )
    assert found.upper.tolist() == [1.0]
    assert (found.group.name, found.group.n_rows) == ("group = group 2", 0)


def test_a_correlation_by_hand():
    """For two variables: ``|r| + z sqrt(E[influence^2] / n)``."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 200)
    f = rng.normal(size=200) + 0.5 * group
    c, g = ((v - v.mean()) / v.std() for v in (group, f))
    r = np.mean(c * g)
    influence = c * g - r / 2.0 * (c**2 + g**2)
    expected = abs(r) + Z * np.sqrt(np.mean(influence**2) / 200)
    of = evaluator(f, numbers=True, group=group)
    for metric in ("correlation", "statistical_parity_correlation"):
        assert bound(of, metric, numbers(f)) == pytest.approx(expected)
    ratio = abs(r) + np.sqrt(scipy.stats.chi2.ppf(0.95, 1) / 200)
    assert bound(of, "correlation_ratio", numbers(f)) == pytest.approx(ratio)
    assert bound(of, "correlation", numbers(-3.0 * f)) == pytest.approx(expected)


def test_a_constant_score_has_a_correlation_of_zero():
    of = evaluator(np.arange(30.0), numbers=True, group=np.arange(30) % 2)
    assert bound(of, "correlation", numbers(np.ones(30))) == 0.0


def test_cells_of_a_criterion_are_bounded_apart():
    rng = np.random.default_rng(0)
    cells, group = rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    f = rng.normal(size=400) + np.where(cells == 1, 0.8, -0.8) * group
    of = evaluator(f, numbers=True, cells=cells, group=group)
    within = [
        bound(
            evaluator(f[cells == c], numbers=True, group=group[cells == c]),
            "correlation",
            numbers(f[cells == c]),
            0.975,
        )
        for c in (0, 1)
    ]
    assert bound(of, "correlation", numbers(f)) == pytest.approx(max(within))
    assert bound(of, "statistical_parity_correlation", numbers(f)) < 0.2 < min(within)


def test_several_attributes_share_the_error_probability():
    chosen, group = two_groups(56, 70, 48, 80)
    other = np.arange(150) % 2
    both = evaluator(chosen, group=group, other=other)
    alone = evaluator(chosen, group=group)
    outputs = decisions(chosen)
    for metric in (DECISIONS, *CORRELATIONS):
        joint = bound(both, metric, outputs)
        assert joint == pytest.approx(bound(alone, metric, outputs, 0.975))
        assert joint > bound(alone, metric, outputs)
        named = bound(both, metric, outputs, attribute="group")
        assert named == pytest.approx(bound(alone, metric, outputs))
        assert bound(both, metric, outputs, attribute="other") < named


def test_equal_weights_are_no_weights_and_others_count_fewer_rows():
    chosen, group = two_groups(56, 70, 48, 80)
    outputs, uneven = decisions(chosen), np.where(np.arange(150) % 2, 1.9, 0.1)
    for metric in (DECISIONS, "error", *CORRELATIONS):
        plain = bound(evaluator(np.zeros(150), group=group), metric, outputs)
        equal = evaluator(np.zeros(150), weight=np.full(150, 7.0), group=group)
        assert bound(equal, metric, outputs) == pytest.approx(plain)
        assert bound(evaluator(np.zeros(150), weight=uneven, group=group), metric, outputs) > plain


@pytest.mark.parametrize("counts", [(56, 70, 48, 80), (9, 10, 3, 10), (5, 56, 0, 29)])
def test_the_lower_limit_of_a_gap_is_newcombes(counts):
    """Of the difference in the direction of the larger rate, and at least 0."""
    chosen, group = two_groups(*counts)
    found = limits(evaluator(chosen, group=group), DECISIONS, decisions(chosen))
    published = {70: 0.0524, 10: 0.1705, 56: -0.0381}[counts[1]]
    assert found.lower[0] == pytest.approx(max(published, 0.0), abs=6e-5)


def test_lower_limits_mirror_the_upper_ones():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 400)
    f = rng.normal(size=400) + group
    of = evaluator(f, numbers=True, group=group)
    r = abs(np.corrcoef(f, group)[0, 1])
    for metric in CORRELATIONS:
        found = limits(of, metric, numbers(f))
        assert found.lower[0] == pytest.approx(2.0 * r - found.upper[0])
    squares = limits(evaluator(np.zeros(400), numbers=True, group=group), "error", numbers(f))
    assert squares.lower[0] ** 2 + squares.upper[0] ** 2 == pytest.approx(2.0 * np.mean(f**2))
    wrong, _ = two_groups(15, 148, 0, 0)
    rate = limits(evaluator(np.zeros(148), group=np.zeros(148)), "error", decisions(wrong))
    assert rate.lower[0] == pytest.approx(0.0624, abs=5e-5)
    flat = limits(of, "correlation", numbers(rng.normal(size=400)))
    assert flat.lower[0] == 0.0


def test_a_scale_of_scores_does_not_matter():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 200)
    f = rng.normal(size=200) + group
    of = evaluator(f, numbers=True, group=group)
    for metric in CORRELATIONS:
        plain = bound(of, metric, numbers(f))
        for scale in (1e-15, 1e15):
            assert bound(of, metric, numbers(scale * f)) == pytest.approx(plain)


# ------------------------------------------------------------------ order


@pytest.mark.parametrize("metric", [DECISIONS, ODDS, "error", *CORRELATIONS])
def test_bounds_grow_with_the_confidence_and_shrink_with_rows_of_their_own(metric):
    rng = np.random.default_rng(1)
    group, label = rng.integers(0, 3, 300), rng.integers(0, 2, 300)
    chosen = rng.random(300) < 0.4 + 0.1 * group
    of, outputs = evaluator(label, group=group), decisions(chosen)
    found = [bound(of, metric, outputs, confidence) for confidence in (0.8, 0.9, 0.95, 0.99)]
    assert np.all(np.diff(found) > 0.0)
    for confidence, two_sided in zip((0.8, 0.9, 0.95, 0.99), found, strict=True):
        assert bound(of, metric, outputs, confidence, independent=True) < two_sided
    # One-sided at 95 % is two-sided at 90 %.
    assert bound(of, metric, outputs, 0.95, independent=True) == pytest.approx(found[1])


def test_bounds_of_consecutive_dial_values_are_joined():
    group = Group(name="sex = F", n_rows=7)
    upper = [np.array([0.1, 0.2]), np.array([0.3])]
    joined = Limits.joined([Limits(part / 2.0, part, group) for part in upper])
    assert joined.upper.tolist() == [0.1, 0.2, 0.3]
    assert joined.lower.tolist() == [0.05, 0.1, 0.15]
    assert joined.group == group


# ------------------------------------------------------------------ coverage


N_DRAWS = 400
RATES = {(0, 0): 0.3, (0, 1): 0.6, (1, 0): 0.2, (1, 1): 0.4}  # favourable, by group and label
SHIFT = 0.4


def population():
    """Values that the bounds should cover."""
    gap_odds = max(abs(RATES[0, k] - RATES[1, k]) for k in (0, 1))
    gap = abs(np.mean([RATES[0, k] - RATES[1, k] for k in (0, 1)]))
    correlation = (SHIFT / 2.0) / np.sqrt(1.0 + SHIFT**2 / 4.0)
    error = np.mean([RATES[g, 0] for g in (0, 1)] + [1.0 - RATES[g, 1] for g in (0, 1)])
    return {
        DECISIONS: gap,
        ODDS: gap_odds,
        "error": error,
        "correlation": correlation,
        "correlation_ratio": correlation,
    }


@pytest.mark.parametrize("metric", population())
def test_a_bound_holds_in_about_95_percent_of_draws(metric):
    truth, held = population()[metric], 0
    rng = np.random.default_rng(0)
    for _ in range(N_DRAWS):
        group, label = rng.integers(0, 2, (2, 300))
        rate = np.array([[RATES[g, k] for k in (0, 1)] for g in (0, 1)])[group, label]
        outputs = decisions(rng.random(300) < rate)
        if metric.startswith("correlation"):
            outputs = numbers(rng.normal(size=300) + SHIFT * group)
        held += bound(evaluator(label, group=group), metric, outputs, independent=True) >= truth
    # Three standard errors of a share of 95 % in 400 draws are 3.3 %.
    assert held / N_DRAWS >= 0.917
    if metric not in (ODDS, "correlation_ratio"):  # these are cautious
        assert held / N_DRAWS <= 0.983


def misses(draw, metric, truth, n_draws):
    """Shares of draws with a lower limit above the truth, and with an upper limit below it."""
    out = np.zeros(2)
    for seed in range(n_draws):
        found = limits(*draw(np.random.default_rng(seed), metric), independent=True)
        out += [found.lower[0] > truth, found.upper[0] < truth]
    return out / n_draws


@pytest.mark.parametrize(
    ("rates", "beta"),
    [((0.4, 0.6), (2.0, 2.0)), ((0.3, 0.5), (2.0, 5.0)), ((0.5, 0.02), (1.0, 6.0))],
)
def test_limits_of_gaps_hold_for_groups_known_as_probabilities(rates, beta):
    """Rates of such groups have correlated errors; as if they had not, 9 to 18 % are missed."""

    def draw(rng, metric):
        p = rng.beta(*beta, 1000)
        chosen = rng.random(1000) < np.array(rates)[(rng.random(1000) < p).astype(int)]
        return likely(p), metric, decisions(chosen)

    found = misses(draw, DECISIONS, abs(rates[0] - rates[1]), 600)
    # 5 %, with three standard errors of a share in 600 draws.
    assert found.max() <= 0.077


@pytest.mark.parametrize("known", [True, False])
def test_limits_of_ratios_hold_for_a_small_group_with_wide_scores(known):
    """A radius with variance 1 in every group misses 20 %."""
    share, shift, wide, n = 0.05, 0.5, 3.0, 3000
    variance = share * wide**2 + 1.0 - share + share * (1.0 - share) * shift**2
    truth = shift * np.sqrt(share * (1.0 - share) / variance)

    def draw(rng, metric):
        p = rng.beta(0.1, 1.9, n)
        group = rng.random(n) < (share if known else p)
        scores = numbers(np.where(group, shift + wide * rng.normal(size=n), rng.normal(size=n)))
        of = evaluator(np.zeros(n), numbers=True, group=group) if known else likely(p)
        return of, metric, scores

    found = misses(draw, "correlation_ratio", truth, 300)
    assert found.max() <= 0.088


def test_ratios_of_two_groups_have_the_limits_of_correlations_or_wider():
    rng = np.random.default_rng(0)
    for wide in (1.0, 3.0):
        group = (rng.random(400) < 0.1).astype(int)
        f = rng.normal(size=400) * np.where(group, wide, 1.0) + 0.3 * group
        of = evaluator(f, numbers=True, group=group)
        r = np.corrcoef(f, group)[0, 1]
        plain = r + np.sqrt(scipy.stats.chi2.ppf(0.95, 1) / 400)
        found = [bound(of, metric, numbers(f)) for metric in ("correlation", "correlation_ratio")]
        assert found[1] == pytest.approx(max(found[0], plain))
        assert (found[0] > plain + 0.02) == (wide > 1.0)


def test_bounds_of_decision_rules_are_those_of_the_certificate():
    """Out of fold the rules of the folds decide, so rates have more variance than those of one rule."""
    rng = np.random.default_rng(0)
    s = (rng.random(400) < 0.3).astype(int)
    X = rng.normal(size=(400, 5)) + 0.5 * s[:, None]
    y = (X.sum(axis=1) + rng.normal(size=400) > 0.5).astype(int)
    model = FairRidgeClassifier(equalize="decisions", n_components=100, random_state=0)
    path = fairness_path(model, X, y, sensitive_features=s, n_points=3)
    assert path.estimator._fit_state.decisions.rate_spread > 1.0
    rates = [path.estimator.at(fairness).certificate_.decisions for fairness in path.fairness]
    bounds = path.bounds(DECISIONS)
    np.testing.assert_allclose(bounds.upper, [rate.gap_high for rate in rates], atol=1e-9)
    np.testing.assert_allclose(bounds.value, [rate.gap for rate in rates], atol=1e-9)
