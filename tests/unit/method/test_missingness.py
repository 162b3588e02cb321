"""The test whether X predicts which rows have S."""

import numpy as np
import pytest

from fairspan import FairRidge
from fairspan.method.missingness import _null_strengths

pytestmark = pytest.mark.filterwarnings("ignore::fairspan.exceptions.FairspanWarning")


def test_drawn_strengths_are_those_of_regressions_on_rows():
    """Codes that do not depend on X, on normal rows: the same quantiles as the closed draws."""
    rng = np.random.default_rng(0)
    n, scale, eta, K = 1000, np.array([3.0, 1.0, 0.3, 0.1]), 0.2, 5
    folds = np.arange(n) % K
    strengths = []
    for _ in range(400):
        X, c = rng.normal(size=(n, 4)) * scale, rng.choice([-1.0, 1.0], n)
        b = np.zeros(n)
        for k in range(K):
            train, test = folds != k, folds == k
            cov = X[train].T @ X[train] / train.sum() + eta * np.eye(4)
            b[test] = X[test] @ np.linalg.solve(cov, X[train].T @ c[train] / train.sum())
        strengths.append(b @ c / np.sqrt(b @ b))
    drawn = _null_strengths(np.diag(scale**2), np.full(K, 1.0 / K), eta)
    np.testing.assert_allclose(
        np.quantile(strengths, [0.5, 0.8, 0.9]), np.quantile(drawn, [0.5, 0.8, 0.9]), atol=0.3
    )
    assert 1.6 < np.quantile(drawn, 0.95) < 2.8


def fit(share, slope, seed, n=200):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    odds = share / (1.0 - share) * np.exp(slope * X[:, 1])
    known = rng.random(n) < odds / (1.0 + odds)
    S = np.where(known, np.where(X[:, 0] > 0, "f", "m").astype(object), None)
    est = FairRidge(
        missing_sensitive="omit",
        gamma=0.1,
        n_components=12,
        removal="training_rows",
        random_state=0,
    )
    est.fit(X, X.sum(axis=1) + rng.normal(size=n), sensitive_features={"s": S})
    (found,) = est.certificate_.missing
    return found


def test_the_test_keeps_its_level_and_finds_dependence():
    p = [fit(0.5, 0.0, seed).p_value for seed in range(40)]
    assert np.mean(np.array(p) < 0.05) <= 0.175  # 2 expected; 8 or more: .001
    assert np.mean(p) == pytest.approx(0.5, abs=0.15)
    found = fit(0.5, 1.5, 0)
    assert found.depends_on_x
    assert found.p_value == pytest.approx(1 / 2001)
    assert found.correlation > 0.3
