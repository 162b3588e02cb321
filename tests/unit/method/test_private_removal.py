"""Choices that are made without S: the number of coordinates, and how much each is shrunk."""

import numpy as np
import pytest

from fairspan import FairRidge
from fairspan.estimators import private_fit
from fairspan.method import private_removal
from fairspan.method.privacy import SensitiveRows
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


def test_a_code_is_not_correlated_with_its_own_prediction_by_chance(monkeypatch):
    measured = []
    original = private_removal.remove_out_of_fold

    def spy(*args, **options):
        measured.append(options["measured"])
        return original(*args, **options)

    monkeypatch.setattr(private_removal, "remove_out_of_fold", spy)
    monkeypatch.setattr(SensitiveRows, "_noise", lambda _self, shape, _sd: np.zeros(shape))
    monkeypatch.setattr(private_fit, "_note_budget", lambda *_: None)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    y = X.sum(axis=1) + rng.normal(size=300)
    for _ in range(60):
        model = FairRidge("linear", alpha=1.0, epsilon_sensitive=50.0, sensitive_groups=[0, 1])
        model.fit(X, y, sensitive_features=rng.integers(0, 2, 300))
    # S does not depend on X. Without the correction the mean is the degrees of freedom over n.
    found = np.array([one.cross[0][0, 1] for one in measured])
    assert abs(found.mean()) < 3.0 * found.std() / np.sqrt(len(found))
