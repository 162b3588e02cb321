"""Separate limits against a convex solver and the conditions of optimality."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairspan import limits as limits_module
from fairspan.heads import multiple_correlation
from fairspan.limits import keep_limits

# Limits that one multiplier after the other does not find: they run in circles.
CIRCLES = (2151, [0.0625, 0.4375, 0.0625])


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
@example(*CIRCLES)
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


def test_limits_that_can_be_met_are_met_where_multipliers_run_in_circles():
    seed, limits = CIRCLES
    g, deltas, covs = problem(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = keep_limits(g, deltas, covs, limits)
    assert np.isfinite(found.multipliers).all()  # no block is removed
    # The conditions of optimality, at the covariances that it has.
    weighed = sum(mu * d @ d.T for mu, d in zip(found.multipliers, deltas, strict=True))
    np.testing.assert_allclose(found.function + weighed @ found.function, g, atol=1e-10)
    gaps = np.array(limits) - correlations(found.function, deltas, covs)
    assert gaps.min() > -1e-9
    np.testing.assert_allclose(gaps * found.multipliers, 0.0, atol=1e-7)
    assert (found.multipliers > 0.0).sum() == 2


@pytest.mark.parametrize(("seed", "shared"), [(0, True), (1, True), (0, False)])
def test_both_ways_to_the_multipliers_agree(seed, shared, monkeypatch):
    """The length sought by itself gives what one multiplier after the other gives."""
    g, deltas, covs = problem(seed)
    if not shared:
        covs = [one + 0.1 * (b + 1) * np.diag(np.arange(6.0)) for b, one in enumerate(covs)]
    own = correlations(g, deltas, covs)
    first = keep_limits(g, deltas, covs, 0.6 * own)
    asked = []
    search = limits_module._at_own_length

    def counted(*given):
        asked.append(given)
        return search(*given)

    monkeypatch.setattr(limits_module, "_at_own_length", counted)
    monkeypatch.setattr(limits_module, "_TOL", -1.0)  # never exact enough
    second = keep_limits(g, deltas, covs, 0.6 * own)
    assert asked
    np.testing.assert_allclose(second.function, first.function, atol=1e-6)
    np.testing.assert_allclose(second.multipliers, first.multipliers, rtol=1e-5)


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


def test_the_smallest_multiplier_stays_in_its_range():
    low, high = np.exp(limits_module._LOG_RANGE)
    assert limits_module._smallest(lambda _: 0.0, 1.0) == 0.0
    assert limits_module._smallest(lambda v: 1.0 if v == 0.0 else -1.0, 0.0) == low
    assert limits_module._smallest(lambda _: 1.0, 0.0) == high
    for last in (0.0, 2.0, 1e4):
        assert limits_module._smallest(lambda v: 3.0 - v, last) == pytest.approx(3.0)


def test_a_function_without_length_in_a_cell_has_none_to_seek():
    def never(*_):
        raise AssertionError("sought")

    start, delta = np.ones(2), np.ones((2, 1))
    found = limits_module._at_own_length(start, [0], [delta], [np.zeros((2, 2))], [0.1], never)
    assert found[0] is start
