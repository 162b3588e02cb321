"""K-TOpt: the eigenproblem as written, both ends of the dial, a head behind it."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from fairspan_lab.baselines import KTOpt
from fairspan_lab.baselines.ktopt import trade_off


def planted(n=400, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 4)) + 0.8 * s[:, None]
    y = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.3 * rng.normal(size=n)
    return X, y, s


X, Y, S = planted()


@given(st.integers(0, 10_000), st.floats(0.0, 0.99), st.integers(1, 3))
def test_the_small_problem_is_the_large_one(seed, tau, q):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(20, 8))
    cov, Ny, Ns = half.T @ half / 20, rng.normal(size=(8, q)), rng.normal(size=(8, 2))
    values, U = trade_off(cov, Ny, Ns, tau, 0.1)
    A = (1 - tau) * Ny @ Ny.T - tau * Ns @ Ns.T
    R = cov + 0.1 * np.eye(8)
    every = scipy.linalg.eigh(A, R, eigvals_only=True)[::-1]
    positive = every[every > 1e-9 * np.abs(every).max()]
    np.testing.assert_allclose(values, positive, rtol=1e-6, atol=1e-9 * np.abs(every).max())
    np.testing.assert_allclose(A @ U, R @ U * values, atol=1e-7 * np.abs(every).max())
    np.testing.assert_allclose(U.T @ R @ U, np.eye(len(values)), atol=1e-7)
    assert len(values) <= q


def test_at_zero_it_is_the_kernel_canonical_direction_of_y():
    """For one code of y that is kernel ridge regression of y, up to a scale."""
    model = KTOpt(0.0, ridge=0.01, n_landmarks="all").fit(X, Y, sensitive_features=S)
    psi = model.feature_map_.coordinates(X)
    psi = psi - psi.mean(axis=0)
    coef = np.linalg.solve(psi.T @ psi / 400 + 0.01 * np.eye(psi.shape[1]), psi.T @ Y)
    Z = model.transform(X)
    assert Z.shape == (400, 1)
    assert abs(np.corrcoef(Z[:, 0], psi @ coef)[0, 1]) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("target", ["continuous", "categorical"])
def test_near_one_no_covariance_with_s_is_left(target):
    y = Y if target == "continuous" else np.digitize(Y, [0.0, 1.5])
    codes = (S[:, None] == np.arange(3)).astype(float)
    left = []
    for tau in (0.0, 0.9, 1.0 - 1e-9):
        model = KTOpt(tau, target=target).fit(X, y, sensitive_features=S)
        Z = model.transform(X)
        left.append(np.abs(np.corrcoef(Z.T, codes.T)[: Z.shape[1], Z.shape[1] :]).max())
    assert left[0] > 0.3
    assert left[1] < left[0]
    assert left[2] < 1e-4


def test_components_are_at_most_the_codes_of_y():
    classes = np.digitize(Y, [-0.5, 0.5, 2.0])
    model = KTOpt(0.2).fit(X, classes, sensitive_features=S)
    assert model.components_.shape[0] == len(model.eigenvalues_) == 3
    assert (np.diff(model.eigenvalues_) <= 0).all()
    two = KTOpt(0.2, n_components=2).fit(X, classes, sensitive_features=S)
    np.testing.assert_allclose(two.transform(X), model.transform(X)[:, :2])
    assert list(two.get_feature_names_out()) == ["ktopt0", "ktopt1"]


def test_integers_are_classes_unless_they_are_said_to_be_numbers():
    counts = np.round(Y).astype(int)
    assert KTOpt(0.1).fit(X, counts, sensitive_features=S).components_.shape[0] > 1
    one = KTOpt(0.1, target="continuous").fit(X, counts, sensitive_features=S)
    assert one.components_.shape[0] == 1


def test_a_head_behind_it_is_fair_at_the_end_of_the_dial():
    model = make_pipeline(KTOpt(1.0 - 1e-9), Ridge())
    model.fit(X, Y, ktopt__sensitive_features=S)
    f = model.predict(X)
    assert np.ptp([f[j == S].mean() for j in range(3)]) < 1e-3
    assert np.corrcoef(f, Y)[0, 1] > 0.3


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="below 1"):
        KTOpt(1.0).fit(X, Y, sensitive_features=S)
    with pytest.raises(ValueError, match="one class only"):
        KTOpt().fit(X, np.ones(400, int), sensitive_features=S)
    with pytest.raises(ValueError, match="one value only"):
        KTOpt(target="continuous").fit(X, np.ones(400), sensitive_features=S)
