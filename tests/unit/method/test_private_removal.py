"""Choices that are made without S: the number of coordinates, and how much each is shrunk."""

import numpy as np
import pytest

from fairspan.method.private_removal import n_coordinates, wiener

VARIANCE = 0.5 * 0.7 ** np.arange(30.0)


def test_more_noise_leaves_fewer_coordinates_and_at_least_one():
    found = [n_coordinates(VARIANCE, noise) for noise in (1e-7, 1e-4, 1e-2, 10.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] == 30
    assert found[-1] == 1


@pytest.mark.parametrize("noise", [1e-6, 1e-4])
def test_the_factor_has_the_least_squared_error(noise):
    rng = np.random.default_rng(0)
    variance, n = VARIANCE[:6], 500.0
    tau = 0.1 / variance.sum()
    signal = variance * np.sqrt(tau) * rng.normal(size=(40_000, 6))
    seen = signal + rng.normal(size=signal.shape) * np.sqrt(variance / n + noise)
    best = (signal * seen).mean(axis=0) / (seen**2).mean(axis=0)
    np.testing.assert_allclose(wiener(variance, np.array([noise]), n)[0], best, atol=0.02)
