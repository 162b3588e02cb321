"""HSIC-penalised ridge: its two ends, and that the dial turns one way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import KernelCenterer
from tests.support.small import table

from fairspan_lab.baselines import HSICRidge, HSICRidgeClassifier
from fairspan_lab.baselines.hsic import penalised_ridge

X, LABELS, GROUPS = table(100)
RNG = np.random.default_rng(0)
Y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * RNG.normal(size=100)
AGE = X[:, 2] + 0.5 * X[:, 0]
BOTH = {"sex": np.where(GROUPS == 1, "w", "m"), "age": AGE}


def fit(mu, sensitive=GROUPS, **params):
    return HSICRidge(mu, **{"gamma": 0.5, **params}).fit(X, Y, sensitive_features=sensitive)


@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_no_penalty_is_centred_kernel_ridge(alpha):
    model = fit(0.0, alpha=alpha, n_landmarks="all")
    centre = KernelCenterer().fit(rbf_kernel(X, gamma=0.5))
    new = X[:10] + 0.3
    twin = KernelRidge(alpha=alpha, kernel="precomputed")
    twin.fit(centre.transform(rbf_kernel(X, gamma=0.5)), Y - Y.mean())
    expected = Y.mean() + twin.predict(centre.transform(rbf_kernel(new, X, gamma=0.5)))
    np.testing.assert_allclose(model.predict(new), expected, atol=1e-8)


def test_no_penalty_with_a_linear_kernel_is_ridge():
    model = fit(0.0, kernel="linear", gamma="scale", alpha=2.0)
    np.testing.assert_allclose(model.predict(X), Ridge(2.0).fit(X, Y).predict(X), atol=1e-10)


@pytest.mark.parametrize("sensitive_map", ["auto", "linear", "one-hot", "rbf"])
def test_an_endless_penalty_leaves_no_covariance(sensitive_map):
    def worst(mu):
        scores = fit(mu, sensitive_map=sensitive_map).predict(X)
        return abs(np.corrcoef(scores, GROUPS)[0, 1])

    assert worst(0.0) > 0.1
    assert worst(1e12) < 1e-7
    assert fit(1e12, sensitive_map=sensitive_map).dependence_ < 1e-15


def test_several_attributes_at_once():
    scores = fit(1e12, BOTH).predict(X)
    for column in (GROUPS, AGE):
        assert abs(np.corrcoef(scores, column)[0, 1]) < 1e-6


@given(
    st.integers(0, 100),
    st.sampled_from(["linear", "one-hot", "rbf"]),
    st.lists(st.floats(-3, 6), min_size=2, max_size=4),
)
def test_the_dial_turns_one_way(seed, sensitive_map, exponents):
    rng = np.random.default_rng(seed)
    rows, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    s = (rows[:, 0] + rng.normal(size=40) > 0).astype(int)
    fits = [
        HSICRidge(10**e, gamma=0.5, sensitive_map=sensitive_map).fit(rows, y, sensitive_features=s)
        for e in sorted(exponents)
    ]
    left = np.array([model.dependence_ for model in fits])
    assert np.all(np.diff(left) <= 1e-9 * left[0] + 1e-15)
    # What it minimises besides the penalty can only grow.
    cost = [np.mean((y - m.predict(rows)) ** 2) + m.alpha / 40 * m.coef_ @ m.coef_ for m in fits]
    assert np.all(np.diff(cost) >= -1e-9)


@given(st.integers(0, 1000), st.floats(-4, 3))
def test_the_solution_is_that_of_the_normal_equations(seed, log_mu):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 6))
    cov, cross, C = root @ root.T, rng.normal(size=6), rng.normal(size=(6, 3))
    C[:, 2] = C[:, 0]  # one-hot columns are dependent
    mu = 10.0**log_mu
    expected = np.linalg.solve(cov + 0.1 * np.eye(6) + mu * C @ C.T, cross)
    np.testing.assert_allclose(
        penalised_ridge(cov, cross, C, 0.1, mu), expected, rtol=1e-6, atol=1e-9
    )


def test_the_rbf_map_sees_what_the_linear_one_does_not():
    s = X[:, 2]
    y = s**2 + 0.1 * RNG.normal(size=100)  # a function of s without much covariance with it

    def left(sensitive_map):
        model = HSICRidge(1e9, gamma=0.5, sensitive_map=sensitive_map, alpha=0.1)
        scores = model.fit(X, y, sensitive_features=s).predict(X)
        return abs(np.corrcoef(scores, (s - s.mean()) ** 2)[0, 1])

    assert left("linear") > 0.3
    assert left("rbf") < 0.02


def test_units_of_a_numeric_attribute_do_not_matter():
    one = fit(2.0, AGE).predict(X)
    np.testing.assert_allclose(fit(2.0, 1000 * AGE + 3).predict(X), one, atol=1e-8)


def test_landmarks():
    exact, few = fit(5.0, n_landmarks="all"), fit(5.0, n_landmarks=60, random_state=0)
    assert len(few.coef_) == 60 < len(exact.coef_)
    assert np.corrcoef(exact.predict(X), few.predict(X))[0, 1] > 0.99
    assert np.array_equal(fit(5.0, n_landmarks=60, random_state=0).predict(X), few.predict(X))
    order = RNG.permutation(100)
    shuffled = HSICRidge(5.0, gamma=0.5).fit(X[order], Y[order], sensitive_features=GROUPS[order])
    np.testing.assert_allclose(shuffled.predict(X), fit(5.0).predict(X), atol=1e-8)


def test_the_classifier_regresses_on_signs():
    model = HSICRidgeClassifier(3.0, gamma=0.5).fit(X, LABELS, sensitive_features=GROUPS)
    twin = HSICRidge(3.0, gamma=0.5).fit(X, 2.0 * LABELS - 1, sensitive_features=GROUPS)
    assert np.array_equal(model.decision_function(X), twin.predict(X))
    fair = HSICRidgeClassifier(1e12, gamma=0.5).fit(X, LABELS, sensitive_features=GROUPS)
    assert abs(np.corrcoef(fair.decision_function(X), GROUPS)[0, 1]) < 1e-7
