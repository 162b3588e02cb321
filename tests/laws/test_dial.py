"""The dial: another place on the path is another fit, without a pass over the data (METHOD 7)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws import raw
from tests.support.strategies import at, gap, make_problem, predict, problems

# One path and two, from the same moments: they differ by nothing but the order of operations.
TOL = 1e-10
# The stated tolerance on a correlation.
CORRELATION_TOL = 1e-9
DIALS = st.sampled_from(["angle", "cosine", "correlation"])
SUBSPACES = st.sampled_from([{"subspace": "model"}, {"subspace": "fair"}])
LIMITS = st.sampled_from([0.0, 0.01, 0.05, 0.2, 0.6, 1.0])


@given(problems(), SUBSPACES, DIALS, st.sampled_from([0.0, 0.3, 0.8, 0.95, 1.0]))
def test_at_equals_a_fresh_fit(problem, subspace, dial, fairness):
    moved = at(problem.fit(**subspace), fairness, dial=dial)
    fresh = problem.fit(**subspace, fairness=fairness, dial=dial)
    rows = np.concatenate([problem.X, problem.new])
    assert gap(moved.transform(rows), fresh.transform(rows)) <= TOL
    assert gap(moved.kernel_(rows), fresh.kernel_(rows)) <= TOL
    assert gap(predict(moved, rows), predict(fresh, rows)) <= TOL
    assert moved.get_params() == fresh.get_params()
    assert moved.fairness_ == pytest.approx(fresh.fairness_, abs=TOL)
    suprema = [[b.supremum for b in est.certificate_.blocks] for est in (moved, fresh)]
    assert float(np.max(np.abs(np.subtract(*suprema)))) <= TOL


@given(problems(alpha="auto", eta="auto"), SUBSPACES, DIALS)
def test_at_never_mutates(problem, subspace, dial):
    est = problem.fit(**subspace)
    state = dict(vars(est))
    before = est.transform(problem.new)
    other = at(est, 0.4, dial=dial)
    assert vars(est) == state
    assert all(vars(est)[name] is value for name, value in state.items())
    np.testing.assert_array_equal(est.transform(problem.new), before)
    assert (other.fairness, other.dial, est.fairness, est.dial) == (0.4, dial, 1.0, "auto")


def score_correlation(problem, est):
    """Largest multiple correlation of the fitted score, in any cell, with any attribute."""
    problem = raw.positive_weight(problem)
    outputs = predict(est, problem.X).T
    return max(block.correlation(f) for block in raw.blocks(problem) for f in outputs)


@given(problems(missing=(False, True)), LIMITS)
def test_a_limit_on_the_correlation_is_kept_on_the_raw_rows_and_used_up(problem, limit):
    est = at(problem.fit(), max_correlation=limit)
    found = score_correlation(problem, est)
    assert found - limit <= CORRELATION_TOL
    if 0.0 < est.fairness_ < 1.0:
        assert abs(found - limit) <= CORRELATION_TOL


@given(problems(missing=(False, True), max_attributes=2), LIMITS)
def test_the_limit_is_kept_on_fair_components_too(problem, limit):
    est = at(problem.fit(subspace="fair", n_predictive_directions=4), max_correlation=limit)
    found = score_correlation(problem, est)
    assert found - limit <= CORRELATION_TOL
    if 0.0 < est.fairness_ < 1.0:
        # Every place on this dial costs an eigendecomposition, so it is bisected to 1e-6 only.
        assert limit - found <= 1e-4


@given(problems(), LIMITS)
def test_every_fairer_model_keeps_the_limit_as_well(problem, limit):
    est = problem.fit()
    start = at(est, max_correlation=limit).fairness_
    for fairness in np.linspace(start, 1.0, 6):
        fairer = at(est, float(fairness), dial="angle")
        assert fairer.certificate_.score - limit <= CORRELATION_TOL


@given(problems(), SUBSPACES, LIMITS)
def test_fairness_is_the_place_on_the_angle_scale(problem, subspace, limit):
    est = problem.fit(**subspace)
    by_limit = at(est, max_correlation=limit)
    by_angle = at(est, by_limit.fairness_, dial="angle")
    assert gap(by_limit.transform(problem.new), by_angle.transform(problem.new)) <= TOL


@given(problems(tasks=("regression",)), st.floats(0.0, 1.0))
def test_the_cosine_dial_closes_the_angle_to_epsilon_at_most(problem, epsilon):
    est = at(problem.fit(), epsilon, dial="cosine")
    angle = min(float(est.angles_[0]), float(np.arccos(epsilon)))
    assert est.certificate_.containment_gap == pytest.approx(np.sin(angle), abs=TOL)


def test_an_unreachable_limit_is_said_and_gives_the_fairest_model():
    problem = make_problem(seed=1, n=100, kinds=("text",))
    est = problem.fit(n_sensitive_directions=1)
    fairest = est.certificate_.score
    assert fairest > 1e-3
    with pytest.warns(UserWarning, match=r"cannot be reached: the fairest model of"):
        limited = est.at(max_correlation=fairest / 2)
    assert limited.fairness_ == 1.0
    assert limited.certificate_.score == pytest.approx(fairest, rel=1e-12)
