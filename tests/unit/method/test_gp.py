"""Evidence and posterior of the Gaussian process from d x d statistics, against n x n algebra."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel

from fairspan.method.gp import (
    Evidence,
    ard_prior,
    evidence_noise,
    evidence_ridge,
    log_evidence,
    posterior,
)

SEEDS = st.integers(0, 2**32 - 1)


def differences(function, theta, step=1e-5):
    """Gradient by central differences."""
    steps = step * np.eye(len(theta))
    return np.array([function(theta + h) - function(theta - h) for h in steps]) / (2.0 * step)


class Scores:
    """Centred scores of n rows, a target with an offset, a prior covariance, perhaps weights."""

    def __init__(self, seed, n=25, d=3, *, weighted=False, diagonal=False):
        rng = np.random.default_rng(seed)
        self.n, self.d = n, d
        self.w = rng.exponential(size=n) + 0.2 if weighted else np.ones(n)
        self.T = float(self.w.sum())
        Pi = rng.normal(size=(n, d))
        self.Pi = Pi - self.w @ Pi / self.T
        self.y = 5.0 + self.Pi @ rng.normal(size=d) + 0.5 * rng.normal(size=n) / np.sqrt(self.w)
        A = rng.normal(size=(d, d + 2))
        self.prior = (
            np.diag(rng.exponential(size=d) + 0.1) if diagonal else A @ A.T + 0.1 * np.eye(d)
        )
        self.precision = np.linalg.inv(self.prior)
        self.noise = float(rng.exponential() + 0.1)
        self.new = rng.normal(size=(7, d))

    @property
    def mean(self):
        return float(self.w @ self.y / self.T)

    @property
    def stats(self):
        r = self.y - self.mean
        weighted = self.w[:, None] * self.Pi
        return Evidence(
            gram=weighted.T @ self.Pi,
            cross=weighted.T @ r,
            square=float(self.w @ r**2),
            n=self.n,
            weight=self.T,
            sum_log_weight=float(np.log(self.w).sum()),
        )

    def contrasts(self):
        """(n, n-1) orthonormal, without the constant: the flat intercept projected out exactly."""
        return scipy.linalg.null_space(np.ones((1, self.n)))

    def covariance(self):
        return self.Pi @ self.prior @ self.Pi.T + self.noise * np.diag(1.0 / self.w)

    def dense_evidence(self):
        """Density of the contrasts, which do not see the intercept.

        The constant has the orthonormal coordinate sqrt(n) b0, hence 1/sqrt(n) for a flat b0.
        """
        Z = self.contrasts()
        V, r = Z.T @ self.covariance() @ Z, Z.T @ self.y
        log_det = np.linalg.slogdet(2.0 * np.pi * V)[1]
        return -0.5 * (log_det + r @ np.linalg.solve(V, r)) - 0.5 * np.log(self.n)


@given(SEEDS, st.booleans(), st.booleans())
def test_the_evidence_is_that_of_the_contrasts(seed, weighted, diagonal):
    scores = Scores(seed, weighted=weighted, diagonal=diagonal)
    value, _ = log_evidence(scores.stats, scores.precision, scores.noise)
    assert value == pytest.approx(scores.dense_evidence(), rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_evidence_is_the_limit_of_a_wide_prior_on_the_intercept(weighted):
    """With b0 ~ N(0, c) the evidence tends to the flat one over sqrt(2 pi c)."""
    scores = Scores(1, weighted=weighted)
    c = 1e8
    V = scores.covariance() + c
    dense = -0.5 * (np.linalg.slogdet(2.0 * np.pi * V)[1] + scores.y @ np.linalg.solve(V, scores.y))
    value, _ = log_evidence(scores.stats, scores.precision, scores.noise)
    assert value == pytest.approx(dense + 0.5 * np.log(2.0 * np.pi * c), abs=1e-4)


@given(SEEDS, st.booleans())
def test_the_posterior_is_that_of_a_dense_process(seed, weighted):
    """Universal kriging: generalised least squares for b0, then the conditional distribution."""
    scores = Scores(seed, weighted=weighted)
    found = posterior(scores.stats, scores.precision, scores.noise)
    V, one = scores.covariance(), np.ones(scores.n)
    solved = np.linalg.solve(V, np.c_[one, scores.y, scores.Pi @ scores.prior @ scores.new.T])
    b0 = one @ solved[:, 1] / (one @ solved[:, 0])
    cross = scores.new @ scores.prior @ scores.Pi.T
    mean = b0 + cross @ (solved[:, 1] - b0 * solved[:, 0])
    gap = 1.0 - cross @ solved[:, 0]
    cov = scores.new @ scores.prior @ scores.new.T - cross @ solved[:, 2:]
    cov += np.outer(gap, gap) / (one @ solved[:, 0])
    assert b0 == pytest.approx(scores.mean, rel=1e-9)
    np.testing.assert_allclose(scores.mean + scores.new @ found.mean, mean, atol=1e-8)
    ours = scores.new @ found.cov @ scores.new.T + scores.noise / scores.T
    np.testing.assert_allclose(ours, cov, atol=1e-8)


class FiniteRank(Kernel):
    """``k(x, z) = x'A z``: the process f(x) = x'b with b ~ N(0, A), as scikit-learn sees it."""

    def __init__(self, A):
        self.A = A

    def __call__(self, X, Y=None):
        return X @ self.A @ (X if Y is None else Y).T

    def diag(self, X):
        return np.einsum("ij,jk,ik->i", X, self.A, X)

    def is_stationary(self):
        return False

    hyperparameters = ()


@given(SEEDS)
def test_the_posterior_is_that_of_scikit_learn(seed):
    """On centred scores and y the flat intercept has nothing left to say but 1/n of variance."""
    scores = Scores(seed)
    gpr = GaussianProcessRegressor(FiniteRank(scores.prior), alpha=scores.noise, optimizer=None)
    gpr.fit(scores.Pi, scores.y - scores.mean)
    mean, cov = gpr.predict(scores.new, return_cov=True)
    found = posterior(scores.stats, scores.precision, scores.noise)
    np.testing.assert_allclose(scores.new @ found.mean, mean, atol=1e-8)
    np.testing.assert_allclose(scores.new @ found.cov @ scores.new.T, cov, atol=1e-8)
    # Its evidence has one more observation: the mean of y, known to be 0 with variance s2/n.
    mine, _ = log_evidence(scores.stats, scores.precision, scores.noise)
    known = -0.5 * np.log(2.0 * np.pi * scores.noise / scores.n)
    assert mine + known == pytest.approx(gpr.log_marginal_likelihood_value_, rel=1e-9, abs=1e-8)


@given(SEEDS, st.booleans())
def test_gradients_are_finite_differences(seed, weighted):
    scores = Scores(seed, weighted=weighted, diagonal=True)
    theta = np.log(np.append(np.diag(scores.precision), scores.noise))

    def value(theta):
        return log_evidence(scores.stats, np.diag(np.exp(theta[:-1])), float(np.exp(theta[-1])))[0]

    _, slope = log_evidence(scores.stats, scores.precision, scores.noise, gradient=True)
    np.testing.assert_allclose(slope, differences(value, theta), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_diagonal_prior_has_no_slope_and_beats_its_start(seed):
    scores = Scores(seed, n=60, diagonal=True)
    start = np.ones(scores.d)
    before, _ = log_evidence(scores.stats, np.diag(start), scores.noise)
    precision, noise = ard_prior(scores.stats, start, scores.noise)
    after, slope = log_evidence(scores.stats, np.diag(precision), noise, gradient=True)
    assert after > before
    np.testing.assert_allclose(slope, 0.0, atol=1e-2)


def test_a_direction_that_is_not_needed_is_switched_off():
    rng = np.random.default_rng(0)
    Pi = rng.normal(size=(200, 3))
    Pi = np.linalg.qr(Pi - Pi.mean(axis=0))[0] * np.sqrt(200)
    y = 2.0 * Pi[:, 0] + 0.1 * Pi[:, 2]  # the last column serves as noise, the second does nothing
    stats = Evidence(
        gram=200.0 * np.eye(2),
        cross=Pi[:, :2].T @ y,
        square=float(y @ y),
        n=200,
        weight=200.0,
        sum_log_weight=0.0,
    )
    precision, noise = ard_prior(stats, np.ones(2), 0.1)
    # Held far closer to zero than the rows could hold it.
    assert precision[1] > 100.0 * stats.gram[1, 1] / noise
    assert precision[0] < 1.0
    assert noise == pytest.approx(0.01, rel=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_the_noise_under_a_given_prior_is_at_its_best(seed):
    scores = Scores(seed, n=60)
    noise = evidence_noise(scores.stats, scores.precision, 3.0)
    here = log_evidence(scores.stats, scores.precision, noise)[0]
    for factor in (0.97, 1.03):
        assert log_evidence(scores.stats, scores.precision, factor * noise)[0] < here


@given(SEEDS, st.booleans())
def test_the_evidence_ridge_is_the_best_of_its_grid(seed, weighted):
    """Against the evidence itself, the prior being isotropic and the noise at its closed form."""
    scores = Scores(seed, n=40, d=4, weighted=weighted)
    stats, T = scores.stats, scores.T
    found = evidence_ridge(
        stats.gram / T, stats.cross[:, None] / T, np.array([stats.square / T]), scores.n, T
    )

    def best(eta):
        fitted = stats.cross @ np.linalg.solve(stats.gram + T * eta * np.eye(4), stats.cross)
        s2 = (stats.square - fitted) / (scores.n - 1)
        return log_evidence(stats, T * eta / s2 * np.eye(4), s2)[0], s2

    eta = found.eta
    here, s2 = best(eta)
    assert found.noise == pytest.approx([s2], rel=1e-9)
    # The grid is coarser than the curve's top; a few grid steps away it must be worse.
    assert all(best(eta * factor)[0] <= here + 1e-9 for factor in (1e-2, 1e2))


def test_a_target_without_any_noise_keeps_the_ridge_finite():
    scores = Scores(3)
    y = scores.Pi @ [1.0, -1.0, 2.0]
    n = float(scores.n)
    found = evidence_ridge(
        scores.Pi.T @ scores.Pi / n,
        (scores.Pi.T @ y / n)[:, None],
        np.array([y @ y / n]),
        scores.n,
        n,
    )
    assert found.at_end
    assert found.eta > 0.0
    assert found.noise[0] > 0.0
