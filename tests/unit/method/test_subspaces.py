"""Metric, principal pair, dial and blend, against textbook subspace angles."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from fairspan import NumericalWarning
from fairspan.method.subspaces import (
    Metric,
    accuracy_gap,
    blend,
    containment_gap,
    dial_angles,
    principal_pair,
    removed_basis,
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
