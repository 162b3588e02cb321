"""Laws of decision rules under limits on rates (METHOD 13)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairspan.method.decision_rule import gap_limits, rule_at, rule_path, solve_dual
from fairspan.method.rate_codes import Limit, rate_blocks
from tests.support.decisions import best_value, planted

SEEDS = st.integers(0, 2**16)
SHAPES = st.sampled_from([(2,), (3,), (2, 3)])
CRITERIA = st.sampled_from(["statistical_parity", "equal_opportunity", "equalized_odds"])


def path(problem):
    return rule_path(problem, gap_limits(problem, 6)).points


def same_rules(problem, other, rows=None):
    """Decisions, rates and errors of two paths agree, rows of the second in another order."""
    for a, b in zip(path(problem), path(other), strict=True):
        assert b.error == pytest.approx(a.error, abs=1e-9)
        assert (b.met, b.scale) == (a.met, pytest.approx(a.scale, abs=1e-6))
        decided, again = (
            point.rule.margin(of.probability, of.codes) for point, of in ((a, problem), (b, other))
        )
        expected = decided if rows is None else decided[rows]
        np.testing.assert_allclose(again, expected, atol=1e-7)


@given(seed=SEEDS, sizes=SHAPES, criterion=CRITERIA, limit=st.floats(0.0, 0.3))
@settings(max_examples=12)
def test_the_dual_agrees_with_a_linear_program(seed, sizes, criterion, limit):
    problem = planted(seed, n=150, sizes=sizes, criterion=criterion, min_rows=5)
    for kind, value in (("gap", limit), ("ratio", 1.0 - limit)):
        bound = Limit(kind=kind, value=value)
        assert solve_dual(problem, bound).value == pytest.approx(
            best_value(problem, bound), rel=1e-6
        )


@given(seed=SEEDS, sizes=SHAPES, criterion=CRITERIA)
@settings(max_examples=10)
def test_a_limit_of_one_is_the_unconstrained_rule(seed, sizes, criterion):
    problem = planted(seed, sizes=sizes, criterion=criterion)
    for limit in (Limit(value=1.0), Limit(kind="ratio", value=0.0)):
        assert not np.any(solve_dual(problem, limit).rule.code_coef)
        rule = rule_at(problem, limit).rule
        margin = rule.margin(problem.probability, problem.codes)
        np.testing.assert_allclose(margin, 2.0 * problem.probability - 1.0, atol=1e-12)


@given(seed=SEEDS)
@settings(max_examples=15)
def test_two_groups_can_have_equal_rates(seed):
    problem = planted(seed, n=500, sizes=(2,), noise=0.3)
    problem = replace(problem, weight=np.ones(500))
    blocks = rate_blocks({"a0": (problem.blocks[0].member, ["g0", "g1"])}, problem.y, np.ones(500))
    problem = replace(problem, blocks=blocks)
    point = rule_path(problem, [Limit(value=0.0)]).points[0]
    smaller = np.bincount(blocks[0].member).min()
    assert point.gap <= 2.0 / smaller


@given(seed=SEEDS, sizes=SHAPES, criterion=CRITERIA)
@example(seed=59664, sizes=(2, 3), criterion="statistical_parity")  # limits with the same decisions
@settings(max_examples=8)
def test_order_of_rows_does_not_matter(seed, sizes, criterion):
    problem = planted(seed, sizes=sizes, criterion=criterion)
    rows = np.random.default_rng(seed).permutation(len(problem.y))
    blocks = tuple(replace(block, member=block.member[rows]) for block in problem.blocks)
    other = replace(
        problem,
        probability=problem.probability[rows],
        codes=problem.codes[rows],
        y=problem.y[rows],
        weight=problem.weight[rows],
        blocks=blocks,
    )
    same_rules(problem, other, rows)


@given(seed=SEEDS, criterion=CRITERIA)
@settings(max_examples=8)
def test_names_of_groups_and_constants_of_codes_do_not_matter(seed, criterion):
    problem = planted(seed, sizes=(3,), criterion=criterion)
    rng = np.random.default_rng(seed)
    blocks, columns, start = [], [], 0
    for block in problem.blocks:
        order = rng.permutation(block.n_groups)
        member = np.where(block.member >= 0, np.argsort(order)[block.member], -1)
        names = tuple(f"renamed {block.groups[j]}" for j in order)
        blocks.append(replace(block, member=member, groups=names, share=block.share[order]))
        columns += (start + order).tolist()
        start += block.n_groups
    codes = problem.codes[:, columns] + rng.normal(size=len(columns))
    same_rules(problem, replace(problem, codes=codes, blocks=tuple(blocks)))


@given(seed=SEEDS)
@settings(max_examples=8)
def test_rate_codes_do_not_depend_on_the_columns_they_were_learnt_as(seed):
    # Rate codes are linear in any coding Z of the groups. A linear regression of Z T, mapped back
    # through T, predicts the same rate codes.
    problem = planted(seed, sizes=(3,))
    rng = np.random.default_rng(seed)
    X = np.column_stack([problem.codes + rng.normal(size=problem.codes.shape), np.ones(400)])
    true = problem.blocks[0].codes(problem.y)[:, :2]
    T = rng.normal(size=(2, 2)) + 3.0 * np.eye(2)
    whole = np.linalg.lstsq(true, problem.blocks[0].codes(problem.y), rcond=None)[0]

    def predicted(mix):
        coef = np.linalg.lstsq(X, true @ mix, rcond=None)[0]
        return replace(problem, codes=X @ coef @ np.linalg.solve(mix, whole))

    same_rules(predicted(np.eye(2)), predicted(T))


@given(seed=SEEDS, constant=st.floats(-2.0, 2.0))
@settings(max_examples=8)
def test_with_a_selection_rate_constants_of_the_score_do_not_matter(seed, constant):
    problem = planted(seed, n=300, selection_rate=0.3, sizes=(3,))
    other = replace(problem)
    vars(other)["utility"] = problem.utility + constant
    for limit in (Limit(value=0.05), Limit(kind="ratio", value=0.8)):
        one, two = (rule_at(p, limit) for p in (problem, other))
        np.testing.assert_allclose(two.rule.code_coef, one.rule.code_coef, atol=1e-7)
        assert two.rule.threshold == pytest.approx(one.rule.threshold + constant, abs=1e-7)
        assert (two.error, two.gap) == pytest.approx((one.error, one.gap), abs=1e-9)
        margin = one.rule.margin(problem.probability, problem.codes)
        selected = np.average(margin > 0.0, weights=problem.weight)
        assert 0.3 - 4.0 * problem.share.max() <= selected <= 0.3 + 1e-9


@given(seed=SEEDS)
@settings(max_examples=8)
def test_a_group_of_one_row_never_moves_the_rule(seed):
    problem = planted(seed, sizes=(2,))
    member = problem.blocks[0].member.copy()
    codes = problem.codes
    points = []
    for group in (-1, 2):  # missing, or in a group of its own
        member[0] = group
        blocks = rate_blocks({"a0": (member, ["g0", "g1", "g2"])}, problem.y, problem.weight)
        points.append(path(replace(problem, blocks=blocks)))
    for one, other in zip(*points, strict=True):
        np.testing.assert_array_equal(
            one.rule.margin(problem.probability, codes),
            other.rule.margin(problem.probability, codes),
        )


@given(seed=SEEDS)
@settings(max_examples=8)
def test_integer_weights_equal_repeated_rows(seed):
    problem = planted(seed, n=300, sizes=(3,))
    copies = np.random.default_rng(seed).integers(1, 4, 300)
    rows = np.repeat(np.arange(300), copies)
    pairs = []
    for index, weight in ((np.arange(300), copies.astype(float)), (rows, np.ones(len(rows)))):
        y, member = problem.y[index], problem.blocks[0].member[index]
        blocks = rate_blocks({"a0": (member, ["g0", "g1", "g2"])}, y, weight, min_rows=5)
        pairs.append(
            replace(
                problem,
                probability=problem.probability[index],
                codes=problem.codes[index],
                y=y,
                weight=weight,
                blocks=blocks,
            )
        )
    same_rules(*pairs, rows)


@given(seed=SEEDS, sizes=SHAPES)
@settings(max_examples=8)
def test_narrower_limits_cost_predicted_utility(seed, sizes):
    problem = planted(seed, sizes=sizes)
    values = [solve_dual(problem, limit).value for limit in gap_limits(problem, 6)]
    assert (np.diff(values) <= 1e-9).all()
