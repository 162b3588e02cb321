"""Feature coordinates: landmarks, rank cuts, transformers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.kernel_approximation import RBFSampler

from fairspan.method.features import (
    LandmarkMap,
    TransformerMap,
    group_means,
    pivoted_cholesky_landmarks,
    stratified_landmarks,
)
from fairspan.method.kernels import Kernel

SEEDS = st.integers(0, 2**32 - 1)
RBF = Kernel("rbf", {"gamma": 0.5})


def rows(n=30, p=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p))


@given(SEEDS, st.integers(1, 4))
def test_psi_reproduces_the_kernel_on_its_landmarks(seed, p):
    X = rows(25, p, seed)
    features = LandmarkMap.build(RBF, X, None, exact=True)
    psi = features.coordinates(X)
    np.testing.assert_allclose(psi @ psi.T, RBF(X, X), atol=1e-10)
    np.testing.assert_allclose(features.residual(X), 0.0, atol=1e-10)


def test_directions_below_the_cut_are_dropped_and_counted():
    X = rows(20)
    twins = np.concatenate([X, X + 1e-7])
    features = LandmarkMap.build(RBF, twins, None, exact=False)
    values = np.linalg.eigvalsh(RBF(twins, twins))
    kept = values > 1e-8 * values[-1]
    assert features.rank == kept.sum() == 20
    assert features.dropped_mass <= 1e-8
    assert LandmarkMap.build(RBF, X, None, exact=False).dropped_mass == 0.0


def test_exact_maps_whiten_first_and_nystrom_maps_later():
    X, Z = rows(), rows(10, seed=2)
    exact = LandmarkMap.build(RBF, Z, None, exact=True)
    later = LandmarkMap.build(RBF, Z, None, exact=False)
    assert exact.pending is None
    np.testing.assert_allclose(exact.columns(X), later.columns(X) @ later.pending, atol=1e-12)
    np.testing.assert_array_equal(later.columns(X), RBF(X, Z))
    directions = np.random.default_rng(0).normal(size=(later.rank, 2))
    np.testing.assert_allclose(
        later.scores(X, directions), later.coordinates(X) @ directions, atol=1e-12
    )


@given(SEEDS, st.integers(1, 7))
def test_a_tiny_block_has_the_columns_it_has_in_a_large_one(seed, size):
    X = rows(40, 1, seed)
    features = LandmarkMap.build(Kernel("rbf", {"gamma": 20.0}), X, None, exact=True)
    whole = features.columns(X)
    # Whitening raises rounding of the kernel by up to 1e6 here; the blocks must not add any.
    np.testing.assert_allclose(features.columns(X[:size]), whole[:size], rtol=0, atol=1e-12)


def test_a_kernel_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="'sigmoid' is not positive semidefinite"):
        LandmarkMap.build(
            Kernel("sigmoid", {"gamma": 1.0, "coef0": -1.0}), rows(), None, exact=True
        )
    with pytest.raises(ValueError, match=r"'lost' returned 900 values that are not finite"):
        LandmarkMap.build(
            Kernel("lost", function=lambda X, Z: np.full((len(X), len(Z)), np.nan)),
            rows(),
            None,
            exact=True,
        )


@given(SEEDS)
def test_rows_far_from_every_landmark_are_not_seen(seed):
    features = LandmarkMap.build(RBF, rows(20, 3, seed), None, exact=False)
    residual = features.residual(np.concatenate([rows(20, 3, seed), rows(5, 3, seed) + 50.0]))
    np.testing.assert_allclose(residual[:20], 0.0, atol=1e-6)
    np.testing.assert_allclose(residual[20:], 1.0)


def test_every_stratum_gets_an_equal_share_of_landmarks():
    strata = np.array([0] * 900 + [1] * 95 + [2] * 5)
    chosen = stratified_landmarks(strata, 60)
    counts = np.bincount(strata[chosen])
    assert counts[2] == 5  # all there are; the rest in turn to the others
    assert abs(int(counts[0]) - int(counts[1])) <= 1
    assert len(np.unique(chosen)) == 60


def test_pivoted_cholesky_stops_when_the_rest_is_spanned():
    X = np.repeat(rows(6), 5, axis=0)
    chosen = pivoted_cholesky_landmarks(RBF, X, 20, np.random.default_rng(0))
    assert len(np.unique(X[chosen], axis=0)) == len(chosen) == 6


def test_a_transformer_is_a_feature_map():
    X = rows()
    sampler = RBFSampler(n_components=7, random_state=0).fit(X)
    features = TransformerMap(sampler, 7)
    np.testing.assert_array_equal(features.columns(X), sampler.transform(X))
    W = np.ones((7, 2))
    np.testing.assert_allclose(features.scores(X, W), features.columns(X) @ W)
    np.testing.assert_array_equal(features.residual(X), 0.0)


def test_the_linear_kernel_leaves_x_as_it_is_and_copies_it():
    X = rows()
    columns = TransformerMap(None, 3).columns(X)
    np.testing.assert_array_equal(columns, X)
    assert not np.shares_memory(columns, X)  # moments overwrite what they are given


def test_a_transformer_that_changes_its_width_is_refused():
    sampler = RBFSampler(n_components=7, random_state=0).fit(rows())
    with pytest.raises(ValueError, match=r"RBFSampler gave an array of shape \(30, 7\)"):
        TransformerMap(sampler, 8).columns(rows())


def test_means_per_group_leave_out_missing_codes():
    found = group_means(np.array([1.0, 3.0, 5.0]), {"s": np.array([0, 0, -1])}, {"s": ("a", "b")})
    assert found == {"s": {"a": 2.0}}


def test_landmarks_are_not_drawn_twice_where_rounding_leaves_a_rest(rng):
    """Copies of a row are spanned by it: what is left of them is rounding, and is no landmark."""
    X = np.repeat(rng.normal(size=(6, 2)), 20, axis=0) + 1e-8 * rng.normal(size=(120, 2))
    chosen = pivoted_cholesky_landmarks(Kernel("rbf", {"gamma": 1.0}), X, 60, rng)
    assert len(chosen) == len(set(chosen.tolist()))
    assert {i // 20 for i in chosen.tolist()} == set(range(6))


def test_a_precomputed_kernel_has_no_diagonal_of_new_rows():
    features = LandmarkMap.build(
        Kernel("precomputed"), np.arange(3.0)[:, None], np.eye(3), exact=True
    )
    with pytest.raises(ValueError, match="not part of a precomputed kernel"):
        features.residual(np.ones((2, 3)))
