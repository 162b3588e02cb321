"""The standard GP: its likelihood, its posterior, its mean function."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LinearRegression

from fairspan_lab.baselines import StandardGP, StandardGPClassifier
from fairspan_lab.baselines.standard_gp import Basis, profile_likelihood

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(90, 2))
Y = 2.0 + X @ [1.5, -1.0] + np.sin(3 * X[:, 0]) + 0.2 * RNG.normal(size=90)
NEW = RNG.uniform(-3, 3, size=(20, 2))
MEANS = ("linear", "constant", "zero")


def covariance(model, A, B):
    distances = ((A[:, None] - B) ** 2).sum(axis=2)
    return model.signal_variance_ * np.exp(-0.5 * distances / model.length_scale_**2)


def basis(mean, A):
    return Basis.learn(mean, X)(A)


@given(st.sampled_from(MEANS), st.floats(-2, 2), st.floats(-3, 6))
def test_gradient(mean, log_length, log_ratio):
    distances, H = ((X[:, None] - X) ** 2).sum(axis=2), basis(mean, X)
    theta = np.array([log_length, log_ratio])

    def value(theta):
        return profile_likelihood(theta, distances, H, Y, 0.0)[0]

    step = 1e-5 * np.eye(2)
    numeric = [(value(theta + e) - value(theta - e)) / 2e-5 for e in step]
    gradient = profile_likelihood(theta, distances, H, Y, 0.0)[1]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mean", MEANS)
def test_the_value_is_the_density_of_y(mean):
    model = StandardGP(mean, n_restarts=0).fit(X, Y)
    cov = covariance(model, X, X) + model.noise_ * np.eye(len(X))
    centre = model.intercept_ + X @ model.coef_
    density = multivariate_normal(centre, cov).logpdf(Y)
    assert model.log_marginal_likelihood_value_ == pytest.approx(density, abs=1e-6)


@pytest.mark.parametrize("mean", MEANS)
def test_the_fit_is_an_optimum(mean):
    model = StandardGP(mean, n_restarts=0).fit(X, Y)
    best = model.log_marginal_likelihood_value_
    H = basis(mean, X)
    for scale in (0.9, 1.1):
        for length, signal, noise in (
            (scale, 1.0, 1.0),
            (1.0, scale, 1.0),
            (1.0, 1.0, scale),
        ):
            cov = signal * model.signal_variance_ * np.exp(
                -0.5 * ((X[:, None] - X) ** 2).sum(axis=2) / (length * model.length_scale_) ** 2
            ) + noise * model.noise_ * np.eye(len(X))
            inverse = np.linalg.inv(cov)
            beta = np.linalg.lstsq(H.T @ inverse @ H, H.T @ inverse @ Y, rcond=None)[0]
            density = multivariate_normal(H @ beta, cov).logpdf(Y)
            assert density < best + 1e-6


@pytest.mark.parametrize("mean", MEANS)
def test_the_posterior_is_that_of_a_wide_prior_on_the_mean(mean):
    """Generalised least squares is the limit of a Gaussian prior on b."""
    model = StandardGP(mean, n_restarts=0).fit(X, Y)
    wide = 1e6
    H, H_new = basis(mean, X), basis(mean, NEW)
    cov = covariance(model, X, X) + wide * H @ H.T + model.noise_ * np.eye(len(X))
    cross = covariance(model, NEW, X) + wide * H_new @ H.T
    expected = cross @ np.linalg.solve(cov, Y)
    prior = model.signal_variance_ + wide * (H_new**2).sum(axis=1) + model.noise_
    variance = prior - np.einsum("ij,ji->i", cross, np.linalg.solve(cov, cross.T))
    found, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-2)
    assert np.array_equal(model.predict(NEW), found)


def test_zero_mean_is_scikit_learn():
    model = StandardGP("zero", n_restarts=0).fit(X, Y)
    kernel = ConstantKernel(model.signal_variance_) * RBF(model.length_scale_) + WhiteKernel(
        model.noise_
    )
    twin = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(X, Y)
    mean, std = twin.predict(NEW, return_std=True)
    found = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(found[0], mean, atol=1e-7)
    np.testing.assert_allclose(found[1], std, rtol=1e-6)
    value = twin.log_marginal_likelihood(twin.kernel_.theta)
    assert model.log_marginal_likelihood_value_ == pytest.approx(value, abs=1e-6)


def test_a_linear_target_is_left_to_the_mean():
    target = 1.0 + X @ [2.0, -3.0] + 0.1 * RNG.normal(size=90)
    model = StandardGP(random_state=0).fit(X, target)
    line = LinearRegression().fit(X, target)
    far = 100.0 * NEW  # where f has nothing to say
    np.testing.assert_allclose(model.predict(far), line.predict(far), rtol=0.05, atol=2.0)
    assert StandardGP("zero", random_state=0).fit(X, target).predict(1e4 * NEW) == pytest.approx(0)


@pytest.mark.parametrize("mean", MEANS)
def test_collinear_features_and_constant_targets(mean):
    wide = np.c_[X, X[:, 0], np.ones(90)]
    model = StandardGP(mean, n_restarts=0).fit(wide, Y)
    tripled = StandardGP(mean, n_restarts=0).fit(wide, 3 * Y)
    np.testing.assert_allclose(tripled.predict(wide), 3 * model.predict(wide), rtol=0.01, atol=0.01)
    flat, std = StandardGP(mean, n_restarts=0).fit(X, np.full(90, 4.0)).predict(X, return_std=True)
    np.testing.assert_allclose(flat, 4.0, atol=1e-3)
    assert np.isfinite(std).all()


def test_restarts_never_lower_the_likelihood():
    values = [
        StandardGP(n_restarts=k, random_state=0).fit(X, Y).log_marginal_likelihood_value_
        for k in (0, 1, 4)
    ]
    assert values == sorted(values)


def test_hyper_parameters_on_a_subset_and_the_posterior_on_all_rows():
    model = StandardGP(n_restarts=0, max_hyper_rows=40, random_state=0).fit(X, Y)
    assert model.n_hyper_rows_ == 40
    whole = StandardGP(n_restarts=0, max_hyper_rows=None).fit(X, Y)
    assert whole.n_hyper_rows_ == 90
    assert model.length_scale_ != whole.length_scale_
    again = StandardGP(n_restarts=0, max_hyper_rows=40, random_state=0).fit(X, Y)
    assert np.array_equal(again.predict(NEW), model.predict(NEW))
    # All rows: residuals as small as the noise where a subset's posterior would not see half of them.
    assert np.std(model.predict(X) - Y) < 1.2 * np.sqrt(model.noise_)


def test_the_classifier_regresses_on_signs():
    labels = np.where(np.median(Y) < Y, "high", "low")
    model = StandardGPClassifier(n_restarts=0).fit(X, labels)
    twin = StandardGP(n_restarts=0).fit(X, np.where(labels == "low", 1.0, -1.0))
    assert np.array_equal(model.decision_function(NEW), twin.predict(NEW))
    assert list(model.classes_) == ["high", "low"]
    assert model.score(X, labels) > 0.9
