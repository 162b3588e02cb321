"""Decision rules: multipliers scaled so that the rates of real groups keep a limit."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.support.decisions import planted

from fairspan.method.decision_rule import decide as class_of
from fairspan.method.decision_rule import gap_limits, rule_at, rule_path, solve_dual
from fairspan.method.rate_codes import Limit, ratio, spread
from fairspan.method.rule_scale import SCALES, along_scales, at_every_change, threshold_for

CASES = {
    "parity": {"sizes": (3,)},
    "odds": {"criterion": "equalized_odds", "sizes": (2, 2)},
    "costs": {"cost": np.array([[0.0, 2.0], [1.0, 0.0]])},
    "selection": {"selection_rate": 0.3, "sizes": (2,)},
    "classes": {"classes": 3, "sizes": (2,)},
}


def decide(rule, problem):
    """Decisions of a rule, with margins of 0 up to rounding as no selection."""
    margin = rule.margin(problem.probability, problem.codes)
    return margin.argmax(axis=1) if margin.ndim > 1 else (margin > 1e-9).astype(int)


def outcome(rule, problem):
    """Error and rates by loops."""
    decisions, w = decide(rule, problem), problem.weight
    error = np.average(problem.costs[problem.y, decisions], weights=w)
    rates = []
    for block in problem.blocks:
        of_block = [
            [
                np.average(decisions[block.member == j] == k, weights=w[block.member == j])
                for k in range(problem.n_classes)
            ]
            for j in range(block.n_groups)
        ]
        rates.append(np.array(of_block) if problem.n_classes > 2 else np.array(of_block)[:, 1:])
    return error, rates


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["gap", "ratio"])
def test_the_scale_has_the_least_error_of_all_that_keep_the_limit(case, kind):
    problem = planted(1, n=600, **CASES[case])
    limit = Limit(kind=kind, value=0.06 if kind == "gap" else 0.8)
    solved = solve_dual(problem, limit).rule
    point = rule_path(problem, [limit]).points[0]
    best = np.inf
    for scale in SCALES:
        rule = replace(
            solved, code_coef=scale * solved.code_coef, base_coef=scale * solved.base_coef
        )
        if problem.selection_rate is not None:
            margin = replace(rule, threshold=0.0).margin(problem.probability, problem.codes)
            rule = replace(
                rule, threshold=threshold_for(margin, problem.share, problem.selection_rate)
            )
        elif scale == point.scale:
            # The rule itself and not only the grid.
            assert np.mean(decide(rule, problem) != decide(point.rule, problem)) == 0.0
        error, rates = outcome(rule, problem)
        worst = max(map(spread, rates)) if kind == "gap" else min(map(ratio, rates))
        if worst <= limit.value + 1e-12 if kind == "gap" else worst >= limit.value - 1e-12:
            best = min(best, error)
    assert point.met == np.isfinite(best)
    if point.met:
        assert point.error == pytest.approx(best, abs=1e-9)
    error, rates = outcome(point.rule, problem)
    assert point.error == pytest.approx(error, abs=1e-9)
    for own, expected in zip(point.rates, rates, strict=True):
        np.testing.assert_allclose(own.reshape(expected.shape), expected, atol=1e-9)
    assert point.gap == pytest.approx(max(map(spread, rates)), abs=1e-9)
    assert point.ratio == pytest.approx(min(map(ratio, rates)), abs=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_outcomes_at_every_change_are_those_of_single_rules(classes):
    problem = planted(2, n=200, sizes=(3,), classes=classes, min_rows=5)
    rule = solve_dual(problem, Limit(value=0.0)).rule
    outcomes = at_every_change(problem, rule)
    assert len(outcomes.scale) > 20
    # At the scale 1 several rows have equal margins, before it and after it none.
    on_grid = np.delete(along_scales(problem, rule).error, 50)
    assert set(np.round(on_grid, 9)) <= set(np.round(outcomes.error, 9))
    for i in range(0, len(outcomes.scale), 3):
        scaled = replace(rule, code_coef=outcomes.scale[i] * rule.code_coef)
        error, rates = outcome(scaled, problem)
        assert outcomes.error[i] == pytest.approx(error, abs=1e-9)
        np.testing.assert_allclose(outcomes.rates[0][i], rates[0], atol=1e-9)


def test_margins_of_zero_are_no_selection_at_any_scale():
    problem = planted(3, n=200, sizes=(2,))
    problem = replace(problem, probability=np.where(np.arange(200) < 100, 0.5, problem.probability))
    rule = solve_dual(problem, Limit(value=0.0)).rule
    for outcomes in (along_scales(problem, rule), at_every_change(problem, rule)):
        for i in range(0, len(outcomes.scale), 7):
            scaled = replace(rule, code_coef=outcomes.scale[i] * rule.code_coef)
            assert outcomes.error[i] == pytest.approx(outcome(scaled, problem)[0], abs=1e-9)


def test_a_limit_that_is_not_kept_is_reported_and_narrower_ones_help():
    problem = planted(4, n=2000, sizes=(3,))
    # Predictions of groups that are far too weak: predicted rates keep any limit.
    weak = replace(problem, codes=1e-3 * problem.codes)
    free = gap_limits(problem)[0].value
    limit = Limit(value=0.6 * free)
    assert solve_dual(weak, limit).rule.code_coef == pytest.approx(0.0)
    assert not rule_path(weak, [limit]).points[0].met
    found = rule_at(weak, limit)
    assert found.met
    assert found.gap <= limit.value
    path = rule_path(problem, gap_limits(problem))
    last = path.points[-1]
    assert not last.met
    assert last.gap == path.smallest.gap == min(point.gap for point in path.points)
    assert path.smallest.met
    assert path.smallest.limit.value == path.smallest.gap
    selected = np.average(problem.y, weights=problem.weight)
    assert path.constant_error == pytest.approx(min(selected, 1.0 - selected))
    assert all(point.met == (point.gap <= point.limit.value + 1e-12) for point in path.points)


def test_ratios_go_to_equal_rates_as_well():
    problem = planted(5, n=3000, sizes=(2,))
    found = rule_at(problem, Limit(kind="ratio", value=0.9))
    assert found.met
    assert found.ratio >= 0.9


def test_a_rule_that_decides_alike_says_so():
    problem = planted(6, n=500, sizes=(2,))
    rare = replace(problem, probability=0.3 * problem.probability)
    point = rule_path(rare, [Limit(value=1.0)]).points[0]
    assert point.alike == pytest.approx(1.0)
    assert point.is_constant
    assert not rule_path(problem, [Limit(value=1.0)]).points[0].is_constant


@pytest.mark.parametrize("weights", ["equal", "other"])
def test_the_threshold_selects_the_wanted_share(weights):
    rng = np.random.default_rng(0)
    for n in (1, 2, 50, 5000):
        margin = rng.standard_cauchy(n)
        w = np.ones(n) if weights == "equal" else rng.uniform(0.1, 2.0, n)
        for rate in (0.1, 0.5, 0.9):
            selected = w[margin > threshold_for(margin, w, rate)].sum() / w.sum()
            assert rate - w.max() / w.sum() - 1e-9 < selected <= rate + 1e-9
    assert threshold_for(np.ones(5), np.ones(5), 0.5) == 1.0


def test_what_does_not_fit_is_refused():
    problem = planted(0, n=100)
    with pytest.raises(ValueError, match="2 codes per row are needed"):
        replace(problem, codes=problem.codes[:, :1])
    with pytest.raises(ValueError, match=r"selection_rate=1\.5 is not allowed"):
        replace(problem, selection_rate=1.5)
    with pytest.raises(ValueError, match="for two classes"):
        planted(0, n=100, classes=3, selection_rate=0.2)


def test_without_groups_the_rule_is_unconstrained():
    problem = planted(0, n=100, sizes=())
    point = rule_at(problem, Limit(value=0.0))
    assert point.met
    margin = point.rule.margin(problem.probability, problem.codes)
    np.testing.assert_allclose(margin, 2.0 * problem.probability - 1.0, atol=1e-15)


def test_limits_are_compared_with_rates_without_the_noise_of_small_groups():
    """Formula of DerSimonian and Laird, written out for every scale and class."""
    for classes in (2, 3):
        problem = planted(4, n=2000, sizes=(3, 4), classes=classes)
        rows = tuple(
            np.bincount(b.member[b.member >= 0], minlength=b.n_groups) / 7.0 for b in problem.blocks
        )
        problem = replace(problem, group_rows=rows)
        rule = solve_dual(problem, Limit(value=0.05)).rule
        outcomes = along_scales(problem, rule, np.array([0.0, 0.7, 1.3]))
        codes = problem.codes - problem.share @ problem.codes
        for g, scale in enumerate(outcomes.scale):
            scaled = replace(rule, code_coef=scale * rule.code_coef)
            margin = scaled.margin(problem.probability, problem.codes)
            decided = (margin > 0.0) * 1 if classes == 2 else margin.argmax(axis=1)
            for k in range(1 if classes == 2 else 0, classes):
                start = 0
                for block, n, steady in zip(
                    problem.blocks, rows, outcomes.steady_rates, strict=True
                ):
                    part = codes[:, start : start + block.n_groups]
                    start += block.n_groups
                    chosen = (decided == k).astype(float)
                    rate = block.rates(chosen, problem.weight)
                    guess = (problem.share * chosen) @ part
                    share = block.share / block.share.sum()
                    guess = guess + share @ (rate - guess)
                    likely = np.clip(guess, 0.01, 0.99)
                    v = likely * (1.0 - likely) / n
                    weight = 1.0 / v
                    unit = weight.sum() - (weight**2).sum() / weight.sum()
                    between = (weight @ (rate - guess) ** 2 - (block.n_groups - 1)) / unit
                    between = max(between, 0.0)
                    wanted = np.clip(guess + between / (between + v) * (rate - guess), 0.0, 1.0)
                    np.testing.assert_allclose(
                        steady[g, :, k if classes > 2 else 0], wanted, atol=1e-12
                    )
    # A choice with these rates; the real ones are reported.
    point = rule_path(problem, gap_limits(problem)).points[-1]
    excess = Limit(value=0.0).excess(
        [r.reshape(len(r), -1) for r in point.steady_rates], problem.blocks
    )
    assert point.gap > excess > 0.0


def test_rates_of_two_groups_and_of_many_rows_have_no_noise():
    problem = planted(4, n=2000, sizes=(3,))
    exact = rule_path(problem, gap_limits(problem)).points[-1]
    assert exact.steady_rates[0] == pytest.approx(exact.rates[0], abs=0.0)
    sure = rule_path(replace(problem, group_rows=(np.full(3, 1e12),)), gap_limits(problem))
    assert sure.points[-1].gap == pytest.approx(exact.gap, abs=1e-5)
    two = planted(4, n=2000, sizes=(2,))
    points = [
        rule_path(replace(two, group_rows=n), gap_limits(two)).smallest.gap
        for n in (None, (np.full(2, 30.0),))
    ]
    assert points[0] == points[1]


def test_a_known_rule_replaces_one_that_does_not_keep_its_limit():
    problem = planted(5, n=400, sizes=(3,))
    path = rule_path(problem, gap_limits(problem, 11))
    limits = [Limit(value=0.5 * (a.limit.value + b.limit.value)) for a, b in pairwise(path.points)]
    alone, helped = (
        [rule_path(problem, [limit], known).points[0] for limit in limits]
        for known in ((), path.points)
    )
    assert sum(p.met for p in helped) > sum(p.met for p in alone)
    for limit, point in zip(limits, helped, strict=True):
        met = [p for p in path.points if p.gap <= limit.value]
        assert point.limit == limit
        assert point.met >= bool(met)
        assert point.gap <= limit.value or not point.met


@pytest.mark.parametrize(("sizes", "classes"), [((2,), 2), ((2, 3), 2), ((2,), 3)])
def test_rows_on_the_boundary_have_one_decision(sizes, classes):
    """The dual's multipliers put rows on the boundary, and rounding must not decide about them."""
    on_it = 0
    for seed in range(5):
        problem = planted(seed, sizes=sizes, classes=classes)
        rule = solve_dual(problem, Limit(kind="gap", value=0.05)).rule
        margin = rule.margin(problem.probability, problem.codes)
        if classes == 2:
            on_it += int((margin == 0.0).sum())
        else:
            on_it += int(((margin == margin.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum())
        decided, rng = outputs_to_classes(margin), np.random.default_rng(seed)
        for _ in range(5):
            p, codes = (
                v * (1.0 + 1e-14 * rng.normal(size=v.shape))
                for v in (problem.probability, problem.codes)
            )
            np.testing.assert_array_equal(outputs_to_classes(rule.margin(p, codes)), decided)
        found = along_scales(problem, rule, np.array([0.0, 1.0, 2.0]))
        for block, rates in zip(problem.blocks, found.rates, strict=True):
            chosen = (decided[:, None] == np.arange(classes))[:, classes == 2 :].astype(float)
            np.testing.assert_allclose(block.rates(chosen, problem.weight), rates[1], atol=1e-12)
    assert on_it >= 5


def outputs_to_classes(margin):
    return class_of(margin[:, None] if margin.ndim == 1 else margin)
