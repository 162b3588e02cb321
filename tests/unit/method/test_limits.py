"""Separate limits: limits are kept, and the dual bound proves that no function is nearer."""

import warnings

import numpy as np
import pytest
import scipy.optimize
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairspan.exceptions import NumericalWarning
from fairspan.method.limits import keep_limits
from fairspan.method.subspaces import multiple_correlation

# Setting one multiplier after the other does not converge for this seed and these limits.
NO_CONVERGENCE = (2151, [0.0625, 0.4375, 0.0625])
# Problems with a gap: the bound is below the error of the best function within the limits.
GAPS = [(88, [0.3, 0.3, 0.3]), (184, [0.3, 0.3, 0.3]), (81, [0.5, 0.2, 0.1])]


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


def no_ridge(seed, m=6, ranks=(1, 2, 1)):
    """The same without a ridge penalty: Sig is R, the identity."""
    rng = np.random.default_rng(seed)
    deltas = [np.linalg.qr(rng.normal(size=(m, r)))[0] * rng.uniform(0.3, 1.0) for r in ranks]
    return rng.normal(size=m), deltas, [np.eye(m)] * len(ranks)


def correlations(w, deltas, covs):
    return np.array(
        [multiple_correlation(c, d, w[:, None]) for c, d in zip(covs, deltas, strict=True)]
    )


def error(w, g):
    """Squared distance to g at the best scale, as a share of |g|^2."""
    return 1.0 - (g @ w) ** 2 / max(w @ w, 1e-300) / (g @ g)


def dual_bound(found, g, deltas, covs, limits):
    """What the multipliers prove: no function within the limits has a lower error."""
    removed = np.isinf(found.multipliers)
    Z = np.eye(len(g))
    if removed.any():
        codes = np.concatenate([d for d, zero in zip(deltas, removed, strict=True) if zero], axis=1)
        Z = np.linalg.svd(codes)[0][:, np.linalg.matrix_rank(codes) :]
    H = np.eye(len(g))
    for mu, d, c, v in zip(found.multipliers, deltas, covs, limits, strict=True):
        H = H + (mu if np.isfinite(mu) else 0.0) * (d @ d.T - v**2 * c)
    H = Z.T @ H @ Z
    assert np.linalg.eigvalsh(H)[0] > 0.0
    return 1.0 - (Z.T @ g) @ np.linalg.solve(H, Z.T @ g) / (g @ g)


def limits_on_covariances(g, deltas, covs, limits):
    """The multipliers of limits on covariances, each at the standard deviation of the function."""

    def function(mu):
        weighed = sum(x * d @ d.T for x, d in zip(mu, deltas, strict=True))
        return np.linalg.solve(np.eye(len(g)) + weighed, g)

    def excess(x, b, mu):
        w = function([*mu[:b], x, *mu[b + 1 :]])
        return multiple_correlation(covs[b], deltas[b], w[:, None]) - limits[b]

    mu = np.zeros(len(deltas))
    for _ in range(50):
        for b in range(len(deltas)):
            crossed = excess(1e8, b, mu) < 0.0 < excess(0.0, b, mu)
            mu[b] = scipy.optimize.brentq(excess, 0.0, 1e8, (b, mu)) if crossed else 0.0
    return function(mu)


def other_optima(g, deltas, covs, limits, starts):
    """Errors of the functions within the limits that a general optimiser finds."""
    Q = np.stack([d @ d.T / v**2 - c for d, c, v in zip(deltas, covs, limits, strict=True)])
    within = {"type": "ineq", "fun": lambda w: -(Q @ w @ w), "jac": lambda w: -2.0 * (Q @ w)}
    found = [
        scipy.optimize.minimize(
            lambda w: (w - g) @ (w - g),
            start,
            constraints=[within],
            method="SLSQP",
            jac=lambda w: 2.0 * (w - g),
            options={"ftol": 1e-12, "maxiter": 300},
        ).x
        for start in starts
    ]
    return [error(w, g) for w in found if (Q @ w @ w).max() <= 1e-9 * (w @ w)]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3),
    st.booleans(),
)
@example(*NO_CONVERGENCE, True)
@example(*GAPS[0], True)
def test_limits_are_kept_and_the_gap_is_honest(seed, limits, one_cell):
    g, deltas, covs = problem(seed)
    if not one_cell:
        covs = [c + 0.1 * (b + 1) * np.diag(np.arange(6.0) / 6.0) for b, c in enumerate(covs)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = keep_limits(g, deltas, covs, limits)
    reached = correlations(found.function, deltas, covs)
    np.testing.assert_allclose(found.correlations, reached, atol=1e-12)
    assert (reached <= np.array(limits) + 1e-9).all()
    assert (found.multipliers >= 0.0).all()
    bound = dual_bound(found, g, deltas, covs, limits)
    assert error(found.function, g) - bound == pytest.approx(found.gap, abs=2e-9)
    assert [w.category for w in caught] == [NumericalWarning] * (found.gap > 1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.floats(1e-3, 1.0), min_size=3, max_size=3))
def test_without_a_ridge_the_gap_is_always_zero(seed, limits):
    g, deltas, covs = no_ridge(seed)
    found = keep_limits(g, deltas, covs, limits)
    assert found.gap <= 1e-9
    bound = dual_bound(found, g, deltas, covs, limits)
    assert error(found.function, g) == pytest.approx(bound, abs=1e-9)
    # It is then also the optimum for limits on covariances, at the standard deviation that it has.
    binding = found.multipliers > 0.0
    np.testing.assert_allclose(
        found.correlations[binding], np.array(limits)[binding], rtol=0, atol=1e-9
    )


@pytest.mark.filterwarnings("ignore:The limits on correlations are kept")
@pytest.mark.parametrize("seed", range(20))
def test_it_is_never_worse_than_limits_on_covariances(seed):
    g, deltas, covs = problem(seed)
    limits = np.random.default_rng(seed).uniform(0.05, 0.5, 3)
    found = keep_limits(g, deltas, covs, limits)
    other = limits_on_covariances(g, deltas, covs, limits)
    if (correlations(other, deltas, covs) <= limits + 1e-9).all():
        assert error(found.function, g) <= error(other, g) + 1e-8


@pytest.mark.parametrize("seed", range(5))
def test_no_optimiser_finds_a_nearer_function(seed):
    g, deltas, covs = problem(seed)
    limits = [0.1, 0.05, 0.2]
    found = keep_limits(g, deltas, covs, limits)
    starts = [g, found.function, *np.random.default_rng(seed).normal(size=(5, 6))]
    others = other_optima(g, deltas, covs, limits, starts)
    assert others
    assert error(found.function, g) <= min(others) + 1e-8


@pytest.mark.parametrize(("seed", "limits"), GAPS)
def test_with_a_gap_the_limits_are_kept_and_a_warning_says_so(seed, limits):
    g, deltas, covs = problem(seed)
    with pytest.warns(NumericalWarning, match=r"another model within them could be more accurate"):
        found = keep_limits(g, deltas, covs, limits)
    assert found.gap > 1e-3
    assert (found.correlations <= np.array(limits) + 1e-9).all()
    others = other_optima(g, deltas, covs, limits, np.random.default_rng(seed).normal(size=(20, 6)))
    assert error(found.function, g) <= min(others) + 1e-8


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("limit", [0.3, 0.1, 0.01])
def test_one_limit_is_theorem_5(seed, limit):
    """One code: the multiplier by bisection, as in the technical note."""
    g, deltas, covs = problem(seed, ranks=(1,))
    found = keep_limits(g, deltas, covs, [limit])
    Q = deltas[0] @ deltas[0].T - limit**2 * covs[0]
    largest = -1.0 / np.linalg.eigvalsh(Q)[0]

    def excess(nu):
        w = np.linalg.solve(np.eye(len(g)) + nu * Q, g)
        return w @ Q @ w

    nu = 0.0
    if g @ Q @ g > 0.0:
        nu = scipy.optimize.brentq(excess, 0.0, largest * (1.0 - 1e-12), xtol=1e-15)
    w = np.linalg.solve(np.eye(len(g)) + nu * Q, g)
    np.testing.assert_allclose(found.function, w, atol=1e-6 * np.linalg.norm(g))
    assert found.multipliers[0] == pytest.approx(nu, rel=1e-6)


def test_one_limit_in_a_plane_is_the_point_of_the_line_that_meets_it():
    """With one code and two functions, the limit alone decides the direction."""
    u, n = np.eye(2)
    g = 0.6 * u + 0.8 * n
    found = keep_limits(g, [0.9 * n[:, None]], [np.eye(2)], [0.18])
    w = found.function / np.linalg.norm(found.function)
    np.testing.assert_allclose(w, [np.sqrt(1.0 - 0.2**2), 0.2], atol=1e-12)
    assert found.gap <= 1e-9


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


def test_only_the_zero_function_keeps_the_limits():
    """All functions are functions of the codes, with correlations above the limit."""
    g, deltas, covs = no_ridge(0, m=2, ranks=(2,))
    found = keep_limits(g, deltas, covs, [0.1])
    assert not found.function.any()
    assert found.gap == 0.0


def test_a_function_that_does_not_vary_in_a_cell_has_no_limit_there():
    found = keep_limits(np.ones(2), [np.zeros((2, 1))], [np.zeros((2, 2))], [0.1])
    np.testing.assert_array_equal(found.function, np.ones(2))


def test_the_same_attribute_twice_changes_nothing():
    g, deltas, covs = problem(5)
    once = keep_limits(g, deltas, covs, [0.1, 0.2, 0.3])
    twice = keep_limits(g, deltas + deltas, covs + covs, [0.1, 0.2, 0.3] * 2)
    np.testing.assert_allclose(twice.function, once.function, atol=1e-9)


def test_looser_limits_are_nearer_to_g():
    g, deltas, covs = problem(4)
    away = [
        error(keep_limits(g, deltas, covs, [v, v, v]).function, g)
        for v in (0.3, 0.2, 0.1, 0.05, 0.0)
    ]
    assert (np.diff(away) > 0.0).all()
