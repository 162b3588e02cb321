"""Separate limits against a convex solver and the conditions of optimality."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan.heads import multiple_correlation
from fairspan.limits import keep_limits


def problem(seed, m=6, ranks=(1, 2, 1), ridge=0.1):
    """A basis orthonormal in R = Sig + ridge, whitened codes that it can see."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, m))
    cov = A @ A.T
    cov *= (1.0 - ridge) / np.linalg.eigvalsh(cov)[-1]
    root = np.linalg.cholesky(cov)
    deltas = []
    for r in ranks:
        Q = np.linalg.qr(rng.normal(size=(m, r)))[0]
        deltas.append(root @ Q * rng.uniform(0.3, 0.9))
    g = rng.normal(size=m)
    return g, deltas, [cov] * len(ranks)


def correlations(w, deltas, covs):
    return np.array(
        [multiple_correlation(c, d, w[:, None]) for c, d in zip(covs, deltas, strict=True)]
    )


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3),
)
def test_every_limit_is_kept_and_met_where_it_binds(seed, limits):
    g, deltas, covs = problem(seed)
    found = keep_limits(g, deltas, covs, limits)
    reached = correlations(found.function, deltas, covs)
    np.testing.assert_allclose(found.correlations, reached, atol=1e-12)
    assert (reached <= np.array(limits) + 1e-8).all()
    assert (found.multipliers >= 0.0).all()
    binding = found.multipliers > 0.0
    # A limit within rounding of 0 may be met by 0 itself.
    np.testing.assert_allclose(reached[binding], np.array(limits)[binding], atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_function_is_the_convex_optimum(seed):
    """At the covariances that it has, no function within them is nearer to g."""
    cvxpy = pytest.importorskip("cvxpy")
    g, deltas, covs = problem(seed)
    found = keep_limits(g, deltas, covs, [0.1, 0.05, 0.2])
    w = cvxpy.Variable(len(g))
    within = [
        cvxpy.norm(d.T @ w) <= np.linalg.norm(d.T @ found.function)
        for d, mu in zip(deltas, found.multipliers, strict=True)
        if mu > 0.0
    ]
    assert within
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(w - g)), within).solve(
        solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    np.testing.assert_allclose(found.function, w.value, atol=1e-5)


def test_no_limit_is_the_unconstrained_function():
    g, deltas, covs = problem(0)
    found = keep_limits(g, deltas, covs, [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(found.function, g)
    assert not found.multipliers.any()


def test_limits_of_zero_are_the_projection():
    g, deltas, covs = problem(1)
    found = keep_limits(g, deltas, covs, [0.0, 0.0, 0.0])
    N = np.linalg.qr(np.concatenate(deltas, axis=1))[0]
    np.testing.assert_allclose(found.function, g - N @ (N.T @ g), atol=1e-12)
    assert found.correlations.max() < 1e-12


def test_a_slack_limit_costs_nothing():
    g, deltas, covs = problem(2)
    own = correlations(g, deltas, covs)
    found = keep_limits(g, deltas, covs, own + 1e-6)
    np.testing.assert_allclose(found.function, g)


def test_nothing_is_left():
    g, deltas, covs = problem(3, m=2, ranks=(2,))
    found = keep_limits(g, deltas, covs, [0.0])
    assert not found.function.any()
    np.testing.assert_array_equal(found.correlations, 0.0)


def test_looser_limits_are_nearer_to_g():
    g, deltas, covs = problem(4)
    away = [
        np.linalg.norm(keep_limits(g, deltas, covs, [v, v, v]).function - g)
        for v in (0.3, 0.2, 0.1, 0.05, 0.0)
    ]
    assert (np.diff(away) > 0.0).all()
