"""Mergeable histograms of score pairs."""

import numpy as np
import pytest
from tests.support.decisions import planted

from fairspan.method.decision_histogram import PairHistogram
from fairspan.method.decision_rule import rule_at
from fairspan.method.rate_codes import Limit


def of_rows(problem, rows=slice(None), bins=60, cell=None):
    p, c = problem.probability, problem.codes[:, 0] - problem.codes[:, 1]
    inner = np.arange(1, bins) / bins
    empty = PairHistogram.empty(
        "a0", ("g0", "g1"), (np.quantile(p, inner), np.quantile(c, inner)), cell
    )
    group = problem.blocks[0].member
    return empty.add(p[rows], c[rows], group[rows], problem.y[rows], problem.weight[rows])


@pytest.mark.parametrize("criterion", ["statistical_parity", "equal_opportunity"])
def test_real_rates_are_within_the_bound_of_those_of_the_histogram(criterion):
    cell = None if criterion == "statistical_parity" else 1
    for seed in range(3):
        problem = planted(seed, n=8000, criterion=criterion)
        # Groups outside the cell are known to the histogram, too.
        histogram, errors = of_rows(problem, cell=cell), []
        for limit in (1.0, 0.1, 0.02):
            point = rule_at(histogram.problem(), Limit(value=limit))
            codes = np.outer(problem.codes[:, 0] - problem.codes[:, 1], [0.5, -0.5])
            decisions = point.rule.margin(problem.probability, codes) > 0.0
            real = problem.blocks[0].rates(decisions.astype(float), problem.weight)
            bound = histogram.rate_error(point.rule)
            assert (np.abs(real - point.rates[0]) <= bound + 1e-9).all()
            errors.append(bound.max())
            best = rule_at(problem, Limit(value=limit))
            assert np.mean(decisions != problem.y) <= best.error + 0.03
        assert max(errors) < 0.1


def test_any_cut_into_blocks_gives_the_same_histogram():
    problem = planted(0, n=500)
    whole = of_rows(problem, bins=8)
    parts = [of_rows(problem, slice(a, a + 100), bins=8) for a in range(0, 500, 100)]
    merged = sum(parts[1:], parts[0])
    for name in ("weight", "rows", "sums", "low", "high", "squares"):
        np.testing.assert_allclose(getattr(merged, name), getattr(whole, name), atol=1e-9)
    with pytest.raises(ValueError, match="only if edges"):
        whole + of_rows(problem, bins=9)


def test_small_groups_are_counted_by_rows():
    problem = planted(0, n=500)
    histogram = of_rows(problem, bins=4)
    assert len(histogram.problem().blocks) == 1
    few = int(histogram.rows[:, :2].sum(axis=(0, 2)).min())
    assert len(histogram.problem(min_rows=few).blocks) == 1
    assert histogram.problem(min_rows=few + 1).blocks == ()
