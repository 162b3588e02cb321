"""Metric, principal pair, dial and blend, against textbook subspace angles; heads and their correlation."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from fairspan import NumericalWarning
from fairspan.method.subspaces import (
    Metric,
    PathMoments,
    accuracy_gap,
    blend,
    containment_gap,
    dial_angles,
    multiple_correlation,
    principal_pair,
    removed_basis,
    ridge_head,
    smallest_fairness,
    warn_lost_directions,
)

SEEDS = st.integers(0, 2**32 - 1)


def orthonormal(D, k, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(D, k)))[0]


def at_angle(theta):
    """F without one axis, and one predictive direction at an angle to F."""
    removed = np.eye(4)[:, :1]
    return removed, (np.sin(theta) * np.eye(4)[0] + np.cos(theta) * np.eye(4)[1])[:, None]


@given(SEEDS)
def test_the_metric_turns_the_geometry_into_the_euclidean_one(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(20, 5))
    cov, eta = rows.T @ rows / 20, 0.1
    metric, R = Metric.correlation(cov, eta), cov + eta * np.eye(5)
    w, N = rng.normal(size=(5, 2)), rng.normal(size=(5, 3))
    u, covectors = metric.functions(w), metric.covectors(N)
    np.testing.assert_allclose(u.T @ u, w.T @ R @ w)
    np.testing.assert_allclose(covectors.T @ u, N.T @ w)  # constraints read the same
    np.testing.assert_allclose(metric.back(u), w)
    np.testing.assert_allclose(metric.solve(N), np.linalg.solve(R, N))


def test_the_rkhs_metric_changes_nothing():
    w = np.arange(6.0).reshape(3, 2)
    metric = Metric.rkhs()
    for map_ in (metric.functions, metric.covectors, metric.back, metric.solve):
        np.testing.assert_array_equal(map_(w), w)


def test_the_union_of_covectors_has_no_direction_twice():
    N = orthonormal(6, 2, 0)
    basis = removed_basis(Metric.rkhs(), [N, 3.0 * N[:, :1], N @ [[1.0], [1.0]]])
    assert basis.shape == (6, 2)
    np.testing.assert_allclose(basis @ basis.T, N @ N.T, atol=1e-14)


@given(st.integers(1, 4), st.integers(1, 4), SEEDS)
def test_angles_are_those_between_g_and_f(q, d, seed):
    N, G = orthonormal(9, q, seed), np.random.default_rng(seed + 1).normal(size=(9, d))
    pair = principal_pair(N, G)
    F = scipy.linalg.null_space(N.T)
    expected = np.sort(scipy.linalg.subspace_angles(F, G))
    np.testing.assert_allclose(pair.angles, expected, atol=1e-7)
    np.testing.assert_allclose(pair.cosines, np.cos(pair.angles), atol=1e-12)
    assert np.all(np.diff(pair.cosines) <= 1e-14)


@given(st.integers(1, 4), st.integers(1, 4), SEEDS)
def test_the_pair_rebuilds_g_and_keeps_to_its_sides(q, d, seed):
    N, G = orthonormal(9, q, seed), orthonormal(9, d, seed + 1)
    pair = principal_pair(N, G)
    rebuilt = pair.fair * np.cos(pair.angles) + pair.removed * np.sin(pair.angles)
    np.testing.assert_allclose(rebuilt @ rebuilt.T, G @ G.T, atol=1e-12)
    np.testing.assert_allclose(N.T @ pair.fair, 0.0, atol=1e-12)
    np.testing.assert_allclose(N @ (N.T @ pair.removed), pair.removed, atol=1e-12)


@pytest.mark.parametrize("theta", [1e-9, 1e-5, 0.3, np.pi / 2 - 1e-5])
def test_small_and_large_angles_keep_their_digits(theta):
    pair = principal_pair(*at_angle(theta))
    assert pair.angles[0] == pytest.approx(theta, rel=1e-10)


def test_lengths_of_directions_do_not_decide_their_rank():
    G = orthonormal(6, 2, 1) * [1.0, 1e-14]
    assert len(principal_pair(np.eye(6)[:, :1], G).angles) == 2


def test_nothing_to_predict_is_an_empty_pair():
    pair = principal_pair(np.eye(4)[:, :1], np.zeros((4, 2)))
    assert pair.fair.shape == (4, 0)
    assert blend(pair, pair.angles).shape == (0, 0)
    assert containment_gap(pair.angles) == accuracy_gap(pair, pair.angles) == 0.0


def test_nothing_removed_leaves_g_fair_at_every_dial():
    G = orthonormal(5, 2, 2)
    pair = principal_pair(np.zeros((5, 0)), G)
    np.testing.assert_array_equal(pair.angles, 0.0)
    np.testing.assert_allclose(pair.fair @ pair.fair.T, G @ G.T, atol=1e-14)


def test_a_direction_that_is_fair_already_is_left_alone():
    pair = principal_pair(*at_angle(0.0))
    np.testing.assert_array_equal(pair.removed, 0.0)
    C = blend(pair, dial_angles(pair, 1.0, "angle"))
    np.testing.assert_allclose(np.abs((pair.fair @ C[:1])[:, 0]), [0, 1, 0, 0], atol=1e-15)


def test_a_direction_with_no_fair_part_is_in_the_model_only_while_nothing_is_asked():
    pair = principal_pair(*at_angle(np.pi / 2))
    assert not pair.has_fair_partner[0]
    unfair = dial_angles(pair, 0.0, "angle")
    np.testing.assert_array_equal(blend(pair, unfair), [[0.0], [1.0]])
    fairer = dial_angles(pair, 0.1, "angle")
    assert blend(pair, fairer).shape == (2, 0)
    with pytest.warns(NumericalWarning, match=r"1 of 1 .* predicts the mean of y"):
        warn_lost_directions(pair, fairer)


@given(st.integers(1, 3), st.integers(1, 3), SEEDS, st.floats(0.0, 1.0))
def test_the_blend_is_orthonormal_and_at_the_angles_asked_for(q, d, seed, fairness):
    N, G = orthonormal(8, q, seed), orthonormal(8, d, seed + 1)
    pair = principal_pair(N, G)
    angles = dial_angles(pair, fairness, "angle")
    E = np.concatenate([pair.fair, pair.removed], axis=1) @ blend(pair, angles)
    np.testing.assert_allclose(E.T @ E, np.eye(d), atol=1e-12)
    outside = np.linalg.svd(N.T @ E, compute_uv=False)
    assert containment_gap(angles) == pytest.approx(outside.max(), abs=1e-12)
    lost = np.linalg.norm(G - E @ (E.T @ G), 2)
    assert accuracy_gap(pair, angles) == pytest.approx(lost, abs=1e-12)


def test_dials_read_their_own_scale():
    pair = principal_pair(*at_angle(0.6))
    assert dial_angles(pair, 0.25, "angle")[0] == pytest.approx(0.45)
    assert dial_angles(pair, 2.0, "angle")[0] == pytest.approx(-0.6)  # a path mirrors G there
    assert dial_angles(pair, np.cos(0.2), "cosine")[0] == pytest.approx(0.2)
    assert dial_angles(pair, np.cos(0.9), "cosine")[0] == pytest.approx(0.6)  # fair enough already
    with pytest.raises(ValueError, match="unknown dial 'volume'"):
        dial_angles(pair, 0.5, "volume")


# --------------------------------------------------------------------------- heads


class Scores:
    """Rows of a few functions with an RKHS norm, two outputs and one code."""

    def __init__(self, seed, d=3, n=50):
        rng = np.random.default_rng(seed)
        self.F = rng.normal(size=(n, d))
        self.F -= self.F.mean(axis=0)
        self.Y = self.F @ rng.normal(size=(d, 2)) + rng.normal(size=(n, 2))
        self.Y -= self.Y.mean(axis=0)
        self.code = self.F[:, 0] + rng.normal(size=n)
        self.code = (self.code - self.code.mean()) / self.code.std()
        B = rng.normal(size=(d + 2, d))
        self.gram = B.T @ B
        self.n = n

    def path(self):
        cov = self.F.T @ self.F / self.n
        delta = self.F.T @ self.code[:, None] / self.n
        return PathMoments(
            gram=self.gram,
            cov=cov,
            cov_target=self.F.T @ self.Y / self.n,
            first=np.zeros(3),
            block_cov=(cov,),
            block_delta=(delta,),
        )

    def loss(self, beta, eta):
        residual = self.Y - self.F @ beta
        return (residual**2).sum() / self.n + eta * np.trace(beta.T @ self.gram @ beta)


@given(SEEDS, st.floats(-3.0, 1.0))
def test_the_head_minimises_the_penalised_loss(seed, decades):
    scores, eta = Scores(seed), 10.0**decades
    beta = ridge_head(scores.path(), np.eye(3), eta)
    best = scores.loss(beta, eta)
    rng = np.random.default_rng(seed)
    assert all(scores.loss(beta + 1e-3 * rng.normal(size=beta.shape), eta) > best for _ in range(5))


def test_no_ridge_is_least_squares():
    scores = Scores(0)
    expected = np.linalg.lstsq(scores.F, scores.Y, rcond=None)[0]
    np.testing.assert_allclose(ridge_head(scores.path(), np.eye(3), 0.0), expected)


def test_no_direction_left_gives_no_coefficient():
    assert ridge_head(Scores(0).path(), np.zeros((3, 0)), 0.1).shape == (0, 2)


@given(SEEDS)
def test_multiple_correlation_is_the_correlation_with_the_code(seed):
    scores = Scores(seed)
    path = scores.path()
    w = np.random.default_rng(seed).normal(size=(3, 2))
    found = multiple_correlation(path.block_cov[0], path.block_delta[0], w)
    expected = max(abs(np.corrcoef(f, scores.code)[0, 1]) for f in (scores.F @ w).T)
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_constant_function_has_no_correlation():
    assert multiple_correlation(np.eye(2), np.ones((2, 1)), np.zeros((2, 1))) == 0.0
    assert multiple_correlation(np.eye(2), np.ones((2, 1)), np.zeros((2, 0))) == 0.0


@given(st.floats(0.01, 0.99))
def test_a_falling_correlation_is_met_exactly(limit):
    place, reached = smallest_fairness(lambda f: 1.0 - f, limit)
    assert place == pytest.approx(1.0 - limit, abs=1e-12)
    assert reached <= limit


def test_the_limit_holds_from_there_to_the_fair_end():
    # A dip below the limit before a bump above it does not count.
    def bumpy(f):
        return 0.3 if 0.5 < f < 0.6 else 0.0

    place, _ = smallest_fairness(bumpy, 0.1)
    assert place == pytest.approx(0.6, abs=1e-9)


def test_a_limit_that_is_kept_everywhere_asks_for_nothing():
    assert smallest_fairness(lambda f: 0.2 * (1.0 - f), 0.5) == (0.0, 0.2)


def test_an_unreachable_limit_gives_the_fair_end_and_what_it_has():
    assert smallest_fairness(lambda f: 0.4 - 0.1 * f, 0.1) == (1.0, pytest.approx(0.3))


@pytest.mark.parametrize("step", [0.1, 0.3, 0.7])
def test_the_side_of_a_jump_that_keeps_the_limit_is_taken(step):
    """Where the correlation jumps over the limit, only one side of the jump keeps it."""

    def worst(fairness):
        return 1.0 if fairness < step else 0.0

    fairness, found = smallest_fairness(worst, 0.5)
    assert found == worst(fairness) == 0.0
    assert fairness == pytest.approx(step)
