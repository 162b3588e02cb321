"""Where the model space lies between G and F: projectors built by brute force (METHOD 5 to 8)."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.space import brute_force_space, largest_stray, norm, projector
from tests.support.strategies import at, problems

# Projectors through roots of a covariance whose eigenvalues go down to 1e-13 of the largest.
TOL = 1e-8
GRID = np.linspace(0.0, 1.0, 9)
SPACES = problems(weights=("none", "positive"), missing=(False, True))


@given(SPACES)
def test_fairness_zero_spans_g(problem):
    est = problem.fit(fairness=0.0)
    space = brute_force_space(problem, est)
    assert norm(space.model(est) - space.predictive) <= TOL


@given(SPACES)
def test_fairness_one_lies_in_f(problem):
    est = problem.fit(fairness=1.0)
    space = brute_force_space(problem, est)
    model = space.model(est)
    assert norm(model - space.fair @ model) <= TOL


@given(SPACES, st.sampled_from(["angle", "cosine", "correlation"]), st.floats(0.0, 1.0))
def test_gaps_equal_their_closed_forms(problem, dial, fairness):
    est = at(problem.fit(), fairness, dial=dial)
    space = brute_force_space(problem, est)
    model, certificate = space.model(est), est.certificate_
    outside = norm(model - space.fair @ model)
    lost = norm(space.predictive - model @ space.predictive)
    assert abs(certificate.containment_gap - outside) <= TOL
    assert abs(certificate.accuracy_gap - lost) <= TOL


@given(SPACES, st.sampled_from(["angle", "cosine", "correlation"]))
def test_gaps_are_monotone_in_the_dial(problem, dial):
    est = problem.fit()
    found = [at(est, t, dial=dial).certificate_ for t in GRID]
    # Zero to rounding at either end.
    assert np.all(np.diff([c.containment_gap for c in found]) <= 1e-9)
    assert np.all(np.diff([c.accuracy_gap for c in found]) >= -1e-9)


@given(SPACES, st.floats(0.0, 1.0))
def test_every_model_lies_between_g_and_its_fair_projection(problem, fairness):
    est = at(problem.fit(), fairness)
    space = brute_force_space(problem, est)
    model = space.model(est)
    between = projector(np.concatenate([space.predictive, space.fair @ space.predictive], axis=1))
    assert norm(model - between @ model) <= TOL


@given(SPACES, st.integers(0, 2**32 - 1))
def test_no_member_strays_further_from_its_fair_projection_than_the_bound(problem, seed):
    est = at(problem.fit(), 0.5)
    rows = np.concatenate([problem.X, problem.new])
    stray, bound = largest_stray(problem, est, rows, seed), est.deviation_bound(rows)
    assert np.all(stray <= bound * (1.0 + TOL) + 1e-12)
