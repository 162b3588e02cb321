"""Folded feature maps: the same scores from fewer numbers, and all of psi on demand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.method.features import LandmarkMap
from fairspan.method.folded import Folding, pack_triangle, unpack_triangle
from fairspan.method.kernels import Kernel

RBF = Kernel("rbf", {"gamma": 0.5})


@pytest.fixture
def features():
    Z = np.random.default_rng(0).normal(size=(40, 3))
    return LandmarkMap.build(RBF, Z, None, exact=False)


@given(st.integers(0, 2**32 - 1))
def test_scores_points_and_psi_stay_the_same(seed):
    rng = np.random.default_rng(seed)
    features = LandmarkMap.build(RBF, rng.normal(size=(40, 3)), None, exact=False)
    D, X = features.rank, rng.normal(size=(20, 3))
    basis, folds, mean = rng.normal(size=(D, 3)), rng.normal(size=(2, D, 4)), rng.normal(size=D)
    folding = Folding(features, [basis, folds, basis])
    assert folding.size == 3 + 2 * 4
    folded = folding.features(mean)
    for k in range(2):
        np.testing.assert_array_equal(
            folded.scores(X, folding.functions(basis)), features.scores(X, basis)
        )
        np.testing.assert_allclose(
            folded.scores(X, folding.functions(folds)[k]), features.scores(X, folds[k]), rtol=1e-9
        )
    inner = folding.functions(folds).swapaxes(1, 2) @ folding.points(mean)
    np.testing.assert_allclose(inner, folds.swapaxes(1, 2) @ mean, rtol=1e-9, atol=1e-9)
    whole, expected = folded.centred(X), features.coordinates(X) - mean
    np.testing.assert_allclose(whole @ whole.T, expected @ expected.T, rtol=1e-6, atol=1e-6)
    assert folded.rank == features.rank
    np.testing.assert_allclose(folded.residual(X), features.residual(X), atol=1e-8)


def test_moments_are_refused_and_zero_functions_fill_up(features):
    basis = np.ones((features.rank, 2))
    folding = Folding(features, [basis], least=5)
    assert folding.size == 5
    with pytest.raises(ValueError, match="saved without"):
        _ = folding.features().pending


def test_only_maps_whose_rounding_stays_are_folded(features):
    exact = LandmarkMap.build(RBF, features.landmarks, None, exact=True)
    assert Folding.suits(features)
    assert not Folding.suits(exact)
    assert not Folding.suits(Folding(features, [np.ones((features.rank, 1))]).features())
    assert not Folding(features, [np.ones((features.rank, features.rank))]).saves_memory


def test_a_triangle_is_packed_and_other_matrices_are_not():
    lower = np.tril(np.random.default_rng(0).normal(size=(7, 7)))
    packed = pack_triangle(lower)
    assert packed.shape == (28,)
    np.testing.assert_array_equal(unpack_triangle(packed), lower)
    assert pack_triangle(lower.T) is None
    with pytest.raises(ValueError, match="not those of a triangle"):
        unpack_triangle(np.zeros(5))
