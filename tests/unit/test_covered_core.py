"""Laws of the core that a broken line would otherwise get away with."""

import numpy as np
import pytest
from tests.support.small import FIXED, table

from fairspan import FairRepresentation
from fairspan.method.heads import smallest_fairness


@pytest.mark.parametrize("step", [0.1, 0.3, 0.7])
def test_the_side_of_a_jump_that_keeps_the_limit_is_taken(step):
    """Where the correlation jumps over the limit, only one side of the jump keeps it."""

    def worst(fairness):
        return 1.0 if fairness < step else 0.0

    fairness, found = smallest_fairness(worst, 0.5)
    assert found == worst(fairness) == 0.0
    assert fairness == pytest.approx(step)


@pytest.mark.parametrize("cuts", [(), (30,), (1, 2), (20, 60)])
def test_blocks_keep_the_first_row_of_the_first(cuts):
    X, y, s = table()
    est = FairRepresentation(**FIXED, n_components=20, random_state=0)
    est.prepare(X, y, sensitive_features=s)
    for rows in np.split(np.arange(len(X)), cuts):
        est.partial_fit(X[rows], y[rows], sensitive_features=s[rows], solve=False)
    assert est.moments_.first_index == 0
    expected = est.pilot_.features.columns(X[:1])[0]
    np.testing.assert_allclose(est.moments_.first_row, expected, rtol=1e-12)


@pytest.mark.parametrize("cuts", [(1,), (33, 34, 70)])
def test_rows_without_weight_take_up_their_places(cuts):
    """Folds by place count every row given: wherever blocks are cut, a row's fold is the same."""
    X, y, s = table()
    weight = np.arange(len(X)) % 3.0

    def moments(cuts):
        # A fixed alpha would need no folds.
        est = FairRepresentation(gamma=0.5, eta=1e-3, n_components=20, random_state=0)
        est.prepare(X, y, sensitive_features=s, folds="position")
        for rows in np.split(np.arange(len(X)), cuts):
            est.partial_fit(
                X[rows],
                y[rows],
                sensitive_features=s[rows],
                sample_weight=weight[rows],
                solve=False,
            )
        return est.moments_

    whole, parts = moments(()), moments(cuts)
    assert whole.n_folds > 1
    np.testing.assert_array_equal(parts.rows, whole.rows)
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-12)
