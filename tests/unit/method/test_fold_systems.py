"""Systems with the covariance without a fold: the same solutions by any way to them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.method.fold_systems import Eigenbasis, FoldSystems, NearbySystems, Spectrum
from fairspan.method.linalg import Tridiagonal

SEEDS = st.integers(0, 2**32 - 1)
ETAS = np.array([1e-6, 1e-3, 0.1, 10.0])


def covariances(n, size, seed):
    """Covariance of n rows whose spread falls off, and of the first four fifths of them."""
    rows = np.random.default_rng(seed).normal(size=(n, size)) * 0.8 ** np.arange(size)
    part = rows[: 4 * n // 5]
    return rows.T @ rows / n, part.T @ part / len(part)


def solutions(systems, B):
    rotated = systems.rotate(B)
    together = systems.rotate_back(systems.solve_all(rotated, ETAS))
    single = [systems.rotate_back(systems.solve_rotated(rotated, float(eta))) for eta in ETAS]
    np.testing.assert_allclose(together, np.concatenate(single, axis=1), atol=1e-9)
    return together


def dense(M, B):
    return np.concatenate([np.linalg.solve(M + eta * np.eye(len(M)), B) for eta in ETAS], axis=1)


@given(st.integers(1, 25), SEEDS)
def test_every_kind_of_systems_solves_as_a_dense_solver(size, seed):
    whole, part = covariances(60 * size, size, seed)
    B = part[:, :2]
    expected = dense(part, B)
    for systems in (
        Tridiagonal.of(part),
        Eigenbasis.of(part),
        NearbySystems(Eigenbasis.of(whole), part),
    ):
        np.testing.assert_allclose(solutions(systems, B), expected, atol=1e-8)


def test_a_near_covariance_needs_no_eigenvectors_of_its_own():
    whole, part = covariances(4000, 30, 0)
    systems = NearbySystems(Eigenbasis.of(whole), part)
    np.testing.assert_allclose(
        solutions(systems, part[:, :3]), dense(part, part[:, :3]), atol=1e-10
    )
    assert systems.own is None


def test_a_covariance_that_is_not_near_is_diagonalised():
    whole, part = covariances(4000, 30, 0)[0], covariances(200, 30, 1)[0][::-1, ::-1] * 1e6
    systems = NearbySystems(Eigenbasis.of(whole), part)
    B = np.eye(30)[:, :2]
    np.testing.assert_allclose(solutions(systems, B), dense(part, B), rtol=1e-7, atol=1e-12)
    assert systems.own is not None


def test_no_right_hand_sides():
    whole, part = covariances(400, 5, 0)
    systems = NearbySystems(Eigenbasis.of(whole), part)
    assert systems.solve_all(np.empty((5, 0)), ETAS).shape == (5, 0)


def test_systems_of_a_fold_are_made_once(monkeypatch):
    whole, part = covariances(400, 5, 0)
    systems = FoldSystems(Spectrum(whole), 400)
    assert systems.without(0, part) is systems.without(0, part)
    assert isinstance(systems.without(1, part), Tridiagonal)
    monkeypatch.setattr("fairspan.method.fold_systems._MOST_REDUCED", 4)
    assert systems.without(2, part) is not systems.without(2, part)


@given(st.integers(1, 20), SEEDS)
def test_eigenvalues_are_ascending_and_not_negative(size, seed):
    M = covariances(max(size // 2, 2), size, seed)[0]
    for spectrum in (Eigenbasis.of(M).eigenvalues(), Spectrum(M).values):
        assert (np.diff(spectrum) >= 0.0).all()
        assert spectrum[0] >= 0.0
        np.testing.assert_allclose(
            spectrum, np.maximum(np.linalg.eigvalsh(M), 0.0), atol=1e-12 * max(spectrum[-1], 1.0)
        )


@pytest.mark.parametrize("large", [True, False])
def test_on_a_device_all_rows_are_diagonalised_there(large, monkeypatch):
    torch = pytest.importorskip("torch")
    from fairspan.method import linalg

    whole, part = covariances(4000 if large else 200, 30, 0)
    monkeypatch.setattr(linalg, "_WORTH_SENDING", 10)
    expected = solutions(FoldSystems(Spectrum(whole), len(whole)).without(0, part), part[:, :2])
    token = linalg._device.set(torch.device("cpu"))
    try:
        systems = FoldSystems(Spectrum(whole), 4000 if large else 200)
        found = systems.without(0, part)
        assert isinstance(found, NearbySystems if large else Eigenbasis)
        np.testing.assert_allclose(solutions(found, part[:, :2]), expected, atol=1e-9)
        W = np.random.default_rng(1).normal(size=(30, 4))
        np.testing.assert_allclose(linalg.congruence(part, W), W.T @ part @ W, atol=1e-12)
    finally:
        linalg._device.reset(token)


def test_only_devices_that_are_fast_in_float64_are_used():
    pytest.importorskip("torch")
    from fairspan.method import linalg

    with linalg.accelerated("cpu"):
        assert not linalg.is_accelerated(10**4)
    with linalg.accelerated(None):
        assert not linalg.is_accelerated(10**4)
