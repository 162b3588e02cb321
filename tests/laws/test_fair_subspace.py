"""``subspace="fair"``: all of F, as features and as a kernel (METHOD 9)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from tests.laws import raw
from tests.laws.space import brute_force_space, largest_stray, norm
from tests.support.expected import expected_warnings
from tests.support.strategies import at, gap, make_problem, problems

# The stated tolerance on covariances, relative to the scale of the function.
TOL = 1e-9
# Projectors and kernels of rows, relative to their largest entry.
MATRIX_TOL = 1e-8
SEEDS = st.integers(0, 2**32 - 1)


def fair(**options):
    return problems(subspace="fair", max_attributes=2, weights=("none", "positive"), **options)


@given(fair(missing=(False, True)), SEEDS)
def test_every_linear_model_on_the_components_has_no_covariance_with_s(problem, seed):
    scores = problem.fit().transform(problem.X)
    draws = np.random.default_rng(seed).normal(size=(scores.shape[1], 10))
    functions = np.concatenate([scores, scores @ draws], axis=1).T
    worst = max(block.correlation(f) for block in raw.blocks(problem) for f in functions)
    assert worst <= TOL


@given(fair(criteria=("sp", "conditional_statistical_parity")))
def test_without_y_the_components_are_the_same(problem):
    with expected_warnings():
        blind = problem.estimator().fit(**{**problem.arguments(), "y": None})
    assert gap(blind.transform(problem.new), problem.fit().transform(problem.new)) <= MATRIX_TOL


@given(fair(missing=(False, True)), st.sampled_from([0.0, 0.4, 1.0]))
def test_the_fair_kernel_is_positive_semidefinite(problem, fairness):
    K = at(problem.fit(), fairness).kernel_(np.concatenate([problem.X, problem.new]))
    values = np.linalg.eigvalsh((K + K.T) / 2)
    assert gap(K, K.T) <= 1e-14
    assert -values[0] / values[-1] <= 1e-12


@given(fair(), st.sampled_from([0.4, 1.0]))
def test_with_all_components_the_kernel_is_the_gram_matrix_of_the_features(problem, fairness):
    est = problem.fit()
    everything = est.n_components_ - (est.n_removed_ if fairness == 1.0 else 0)
    full = everything_kept(problem, fairness, everything)
    rows = problem.X
    features = full.transform(rows)
    assert gap(features @ features.T, full.kernel_(rows)) <= MATRIX_TOL


def everything_kept(problem, fairness, size):
    """As many components as rounding leaves (variances below 1e-12 of the first are not offered)."""
    try:
        return problem.fit(fairness=fairness, n_predictive_directions=size)
    except ValueError as error:
        offered = int(str(error).split("more than the ")[1].split()[0])
        return problem.fit(fairness=fairness, n_predictive_directions=offered)


@given(fair())
def test_functions_of_the_fair_kernel_have_no_covariance_with_s(problem):
    K = problem.fit().kernel_(problem.X, problem.new)
    assert max(block.correlation(f) for block in raw.blocks(problem) for f in K.T) <= TOL


@given(fair(), st.sampled_from([0.0, 0.3, 0.8, 1.0]), st.sampled_from([2, 4]))
def test_gaps_equal_their_closed_forms(problem, fairness, size):
    est = problem.fit(fairness=fairness, n_predictive_directions=size)
    space = brute_force_space(problem, est)
    model, certificate = space.model(est), est.certificate_
    outside = norm(model - space.fair @ model)
    lost = norm(space.predictive - model @ space.predictive)
    assert abs(certificate.containment_gap - outside) <= MATRIX_TOL
    assert abs(certificate.accuracy_gap - lost) <= MATRIX_TOL


@given(fair(), st.sampled_from([0.3, 0.8]), SEEDS)
def test_no_member_strays_further_from_its_fair_projection_than_the_bound(problem, fairness, seed):
    est = problem.fit(fairness=fairness, n_predictive_directions=4)
    rows = np.concatenate([problem.X, problem.new])
    stray, bound = largest_stray(problem, est, rows, seed), est.deviation_bound(rows)
    assert np.all(stray <= bound * (1.0 + MATRIX_TOL) + 1e-12)


@pytest.mark.parametrize("kind", ["binary", "text"])
def test_s_could_be_predicted_before_and_cannot_after(kind):
    """Concept erasure: the best linear classifier is a constant, in sample, exactly (as in LEACE)."""
    problem = make_problem(seed=4, n=200, p=2, kinds=(kind,))
    s = problem.sensitive["s0"]
    shift = 2.0 * np.stack([s == np.unique(s)[0], s == np.unique(s)[-1]], axis=1)
    problem = replace(problem, X=problem.X + shift)
    est = problem.fit(subspace="fair", n_predictive_directions=10, gamma=0.3)
    before = est.pilot_.features.coordinates(problem.X)[:, :10]
    before = (before - before.mean(axis=0)) / before.std(axis=0)
    after = est.transform(problem.X)
    after = after / after.std(axis=0)
    share = np.unique(s, return_counts=True)[1].max() / len(s)
    classifier = LogisticRegression(C=1e6, max_iter=2000, tol=1e-10)
    assert classifier.fit(before, s).score(before, s) > share + 0.2
    blind = classifier.fit(after, s)
    # Equal group means: the likelihood has its maximum at zero coefficients, the same for all rows.
    assert float(np.abs(blind.coef_).max()) <= 1e-5
    assert float(np.ptp(blind.predict_proba(after), axis=0).max()) <= 1e-5
