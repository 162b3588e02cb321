"""Laplace's approximation on scores, against models that are written out in full and minimised."""

import warnings

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from fairspan import NumericalWarning
from fairspan.method.laplace import (
    ScoreBlock,
    _Factor,
    class_curvature,
    fit_laplace,
    moderate,
    softmax,
)

SEEDS = st.integers(0, 2**32 - 1)
CLASSES = st.integers(2, 4)
TOL = 1e-8


class Rows:
    """Scores, labels of a softmax model, a prior precision, perhaps weights."""

    def __init__(self, seed, n=60, d=2, n_classes=2, *, weighted=False):
        rng = np.random.default_rng(seed)
        self.K, self.d = n_classes, d
        self.scores = rng.normal(size=(n, d)) * rng.exponential(size=d)
        latents = self.scores @ rng.normal(size=(d, n_classes)) + 0.5 * rng.normal(size=n_classes)
        noise = rng.gumbel(size=(n, n_classes))
        self.codes = np.argmax(latents + noise, axis=1)
        self.codes[:n_classes] = np.arange(n_classes)  # every class is there
        self.w = rng.exponential(size=n) + 0.1 if weighted else None
        A = rng.normal(size=(d, d + 2))
        self.precision = A @ A.T + 0.1 * np.eye(d)
        self.new = rng.normal(size=(9, d))

    @property
    def weight(self):
        return np.ones(len(self.codes)) if self.w is None else self.w

    @property
    def onehot(self):
        return np.eye(self.K)[self.codes]

    def blocks(self, cuts=()):
        parts = np.split(np.arange(len(self.codes)), sorted(cuts))
        return [
            ScoreBlock.of(
                self.scores[p], self.codes[p], None if self.w is None else self.w[p], self.K
            )
            for p in parts
        ]

    def fit(self, cuts=(), start=None):
        start = np.zeros((1 + self.d, self.K - 1)) if start is None else start
        blocks = self.blocks(cuts)
        return fit_laplace(lambda: iter(blocks), self.precision, start)


def latents(found, scores):
    """K latents that sum to zero."""
    free = found.intercept + scores @ found.coef
    out = np.concatenate([np.zeros((len(scores), 1)), free], axis=1)
    return out - out.mean(axis=1, keepdims=True)


# --------------------------------------------------------------------------- two oracles


def design(scores):
    return np.concatenate([np.ones((len(scores), 1)), scores], axis=1)


def logistic_oracle(rows):
    """Two classes: ``P(1) = 1/(1 + exp(-f))``, f = b0 + scores b, b ~ N(0, 2 P^-1), by Newton.

    The contrast of two independent functions of precision P has precision P/2.
    """
    A, y, w = design(rows.scores), (rows.codes == 1).astype(float), rows.weight
    penalty = np.zeros((rows.d + 1, rows.d + 1))
    penalty[1:, 1:] = rows.precision / 2.0
    b = np.zeros(rows.d + 1)
    for _ in range(100):
        p = 1.0 / (1.0 + np.exp(-A @ b))
        hessian = (A * (w * p * (1.0 - p))[:, None]).T @ A + penalty
        step = np.linalg.solve(hessian, A.T @ (w * (y - p)) - penalty @ b)
        b = b + step / max(1.0, np.abs(A @ step).max() / 2.0)  # no leaps
        if np.abs(A @ step).max() < 1e-13:
            break
    return b, np.linalg.inv(hessian)


def symmetric_loss(theta, rows):
    """Minus the log posterior of K functions, each with its own prior; the intercepts sum to zero.

    Gradient and Hessian as well, all from the textbook. Adding one number to every intercept changes
    nothing; a penalty on their sum settles which.
    """
    K, m = rows.K, rows.d + 1
    A, w, Y = design(rows.scores), rows.weight, rows.onehot
    B = theta.reshape(m, K)
    F = A @ B
    top = F.max(axis=1, keepdims=True)
    p = np.exp(F - top)
    total = p.sum(axis=1, keepdims=True)
    p = p / total
    logs = (F - top - np.log(total))[np.arange(len(F)), rows.codes]
    penalty = np.zeros((m, m))
    penalty[1:, 1:] = rows.precision
    value = -w @ logs + 0.5 * np.sum(B * (penalty @ B)) + 0.5 * B[0].sum() ** 2
    gradient = A.T @ (w[:, None] * (p - Y)) + penalty @ B
    gradient[0] += B[0].sum()
    hessian = np.zeros((m, K, m, K))
    for k in range(K):
        for j in range(K):
            bend = w * (p[:, k] * (k == j) - p[:, k] * p[:, j])
            hessian[:, k, :, j] = (A * bend[:, None]).T @ A + (k == j) * penalty
            hessian[0, k, 0, j] += 1.0
    return value, gradient.ravel(), hessian.reshape(m * K, m * K)


def symmetric_oracle(rows):
    """(1 + d, K) intercepts and coefficients, by scipy."""
    start = np.zeros((rows.d + 1) * rows.K)
    found = scipy.optimize.minimize(
        lambda t: symmetric_loss(t, rows)[0],
        start,
        jac=lambda t: symmetric_loss(t, rows)[1],
        hess=lambda t: symmetric_loss(t, rows)[2],
        method="trust-exact",
        options={"gtol": 1e-6},
    )
    polished = scipy.optimize.root(
        lambda t: symmetric_loss(t, rows)[1],
        found.x,
        jac=lambda t: symmetric_loss(t, rows)[2],
        options={"xtol": 1e-14},
    )
    assert np.abs(polished.fun).max() < 1e-8
    return polished.x.reshape(rows.d + 1, rows.K)


@given(SEEDS, st.integers(0, 5), st.booleans())
def test_two_classes_are_logistic_regression_with_half_the_precision(seed, d, weighted):
    rows = Rows(seed, d=d, weighted=weighted)
    found = rows.fit()
    b, cov = logistic_oracle(rows)
    assert found.n_classes == 2
    np.testing.assert_allclose(found.intercept, b[:1], atol=TOL)
    np.testing.assert_allclose(found.coef[:, 0], b[1:], atol=TOL)
    np.testing.assert_allclose(found.cov, cov, rtol=1e-4, atol=1e-6)


@given(SEEDS, CLASSES, st.integers(0, 4), st.booleans())
def test_more_classes_are_softmax_with_one_prior_each(seed, n_classes, d, weighted):
    rows = Rows(seed, n=80, d=d, n_classes=n_classes, weighted=weighted)
    found = rows.fit()
    B = symmetric_oracle(rows)
    B = B - B.mean(axis=1, keepdims=True)
    expected = design(rows.new) @ B
    np.testing.assert_allclose(latents(found, rows.new), expected, atol=TOL)


@given(SEEDS, CLASSES, st.booleans(), st.lists(st.integers(0, 60), max_size=5))
def test_any_partition_gives_the_same(seed, n_classes, weighted, cuts):
    rows = Rows(seed, n_classes=n_classes, weighted=weighted)
    whole, parts = rows.fit(), rows.fit(cuts)
    np.testing.assert_allclose(parts.coef, whole.coef, atol=1e-10)
    np.testing.assert_allclose(parts.intercept, whole.intercept, atol=1e-10)
    np.testing.assert_allclose(parts.cov, whole.cov, rtol=1e-8, atol=1e-12)
    assert parts.log_evidence == pytest.approx(whole.log_evidence, abs=1e-9)


@given(SEEDS, CLASSES)
def test_the_start_does_not_matter(seed, n_classes):
    rows = Rows(seed, n_classes=n_classes)
    start = 3.0 * np.random.default_rng(seed).normal(size=(3, n_classes - 1))
    far, near = rows.fit(start=start), rows.fit()
    np.testing.assert_allclose(far.coef, near.coef, atol=TOL)
    np.testing.assert_allclose(far.intercept, near.intercept, atol=TOL)
    at_the_mode = rows.fit(start=np.concatenate([near.intercept[None], near.coef]))
    assert at_the_mode.n_steps == 0


@given(SEEDS, CLASSES)
def test_a_weight_is_a_number_of_copies(seed, n_classes):
    weighted, copies = Rows(seed, n_classes=n_classes), Rows(seed, n_classes=n_classes)
    w = np.random.default_rng(seed).integers(0, 4, len(weighted.codes))
    w[:n_classes] += 1
    weighted.w = w.astype(float)
    copies.scores, copies.codes = copies.scores.repeat(w, axis=0), copies.codes.repeat(w)
    one, other = weighted.fit(), copies.fit()
    np.testing.assert_allclose(one.coef, other.coef, atol=TOL)
    np.testing.assert_allclose(one.intercept, other.intercept, atol=TOL)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-9)


@given(SEEDS, CLASSES)
def test_classes_may_be_numbered_in_any_order(seed, n_classes):
    """Class 0 is held at zero, and yet is no different from the others."""
    rows = Rows(seed, n_classes=n_classes)
    order = np.random.default_rng(seed).permutation(n_classes)
    renamed = Rows(seed, n_classes=n_classes)
    renamed.codes = order[rows.codes]
    one, other = rows.fit(), renamed.fit()
    ours = latents(one, rows.new)
    np.testing.assert_allclose(latents(other, rows.new)[:, order], ours, atol=TOL)
    np.testing.assert_allclose(other.variance(rows.new), one.variance(rows.new), rtol=1e-4)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-4)


@given(SEEDS, CLASSES)
def test_the_basis_of_the_functions_does_not_matter(seed, n_classes):
    rows = Rows(seed, d=3, n_classes=n_classes)
    T = np.random.default_rng(seed).normal(size=(3, 3)) + 2.0 * np.eye(3)
    other = Rows(seed, d=3, n_classes=n_classes)
    other.scores, other.precision = rows.scores @ T, T.T @ rows.precision @ T
    one, two = rows.fit(), other.fit()
    np.testing.assert_allclose(latents(two, rows.new @ T), latents(one, rows.new), atol=1e-7)
    np.testing.assert_allclose(two.variance(rows.new @ T), one.variance(rows.new), rtol=1e-4)
    assert two.log_evidence == pytest.approx(one.log_evidence, abs=1e-4)


# --------------------------------------------------------------------------- curvature


def free_log_posterior(theta, rows):
    """Of the K - 1 free latents (intercept_1, coef_1, intercept_2, ...), straight from its definition.

    Integrating the common part of K independent priors out leaves ``I - 11'/K`` between classes.
    """
    K = rows.K
    B = np.concatenate([np.zeros((rows.d + 1, 1)), theta.reshape(K - 1, rows.d + 1).T], axis=1)
    F = design(rows.scores) @ B
    logs = F[np.arange(len(F)), rows.codes] - np.log(np.exp(F).sum(axis=1))
    slopes = B[1:] - B[1:].mean(axis=1, keepdims=True)
    return rows.weight @ logs - 0.5 * np.sum(slopes * (rows.precision @ slopes))


def hessian(function, at, step=1e-3):
    """Second differences."""
    n = len(at)
    out = np.empty((n, n))
    eye = step * np.eye(n)
    for i in range(n):
        for j in range(n):
            corners = [
                function(at + a * eye[i] + b * eye[j]) * a * b for a in (1, -1) for b in (1, -1)
            ]
            out[i, j] = sum(corners) / (4.0 * step**2)
    return out


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_the_covariance_is_the_inverse_of_the_curvature(n_classes, weighted):
    rows = Rows(7, n_classes=n_classes, weighted=weighted)
    found = rows.fit()
    mode = np.concatenate([found.intercept[None], found.coef]).T.ravel()
    curvature = -hessian(lambda t: free_log_posterior(t, rows), mode)
    np.testing.assert_allclose(found.cov, np.linalg.inv(curvature), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_variances_are_of_a_class_against_the_mean_of_the_others(n_classes):
    rows = Rows(8, n_classes=n_classes)
    found = rows.fit()
    rng = np.random.default_rng(0)
    mode = np.concatenate([found.intercept[None], found.coef]).T.ravel()
    drawn = rng.multivariate_normal(mode, found.cov, size=100_000).reshape(-1, n_classes - 1, 3)
    free = np.einsum("tki,ni->tnk", drawn, design(rows.new))
    full = np.concatenate([np.zeros((*free.shape[:2], 1)), free], axis=2)
    others = (full.sum(axis=2, keepdims=True) - full) / (n_classes - 1)
    sampled = (full - others).var(axis=0).mean(axis=1)
    np.testing.assert_allclose(found.variance(rows.new), sampled, rtol=0.03)


# --------------------------------------------------------------------------- evidence


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("d", [0, 1, 3])
def test_the_evidence_of_two_classes_by_its_formula(seed, d):
    """``log p(y|mode) + log N(mode; 0, 2 P^-1) + (1+d)/2 log 2 pi - log det(H)/2``, flat in b0."""
    rows = Rows(seed, d=d, weighted=seed > 1)
    b, cov = logistic_oracle(rows)
    f = design(rows.scores) @ b
    value = rows.weight @ (rows.codes * f - np.logaddexp(0.0, f))
    if d:
        half = rows.precision / 2.0
        value += 0.5 * np.linalg.slogdet(half / (2.0 * np.pi))[1] - 0.5 * b[1:] @ half @ b[1:]
    value += 0.5 * (1 + d) * np.log(2.0 * np.pi) + 0.5 * np.linalg.slogdet(cov)[1]
    assert rows.fit().log_evidence == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_evidence_of_two_classes_by_quadrature(seed):
    """What Laplace approximates; its error is that of a few terms of order 1/n."""
    rows = Rows(seed, n=150, d=1)
    found = rows.fit()
    mode = np.array([found.intercept[0], found.coef[0, 0]])
    top = free_log_posterior(mode, rows)
    root = np.linalg.cholesky(found.cov)

    def density(v, u):
        return np.exp(free_log_posterior(mode + root @ [u, v], rows) - top)

    mass, _ = scipy.integrate.dblquad(density, -7, 7, -7, 7, epsabs=1e-4, epsrel=1e-4)
    half = float(rows.precision[0, 0]) / 2.0
    exact = top + np.log(mass * np.linalg.det(root)) + 0.5 * np.log(half / (2.0 * np.pi))
    assert found.log_evidence == pytest.approx(exact, abs=0.05)
    assert found.log_evidence != pytest.approx(exact, abs=1e-6)  # it is an approximation


@pytest.mark.parametrize("n_classes", [3, 4])
def test_the_evidence_of_more_classes_by_its_formula(n_classes):
    """K priors with the common part integrated out: precision ``(I - 11'/K) (x) P``."""
    rows = Rows(11, n_classes=n_classes)
    found = rows.fit()
    mode = np.concatenate([found.intercept[None], found.coef]).T.ravel()
    coupling = np.eye(n_classes - 1) - 1.0 / n_classes
    log_prior = np.linalg.slogdet(np.kron(coupling, rows.precision) / (2.0 * np.pi))[1]
    value = free_log_posterior(mode, rows) + 0.5 * log_prior
    value += 0.5 * len(mode) * np.log(2.0 * np.pi) + 0.5 * np.linalg.slogdet(found.cov)[1]
    assert found.log_evidence == pytest.approx(value, abs=1e-5)


# --------------------------------------------------------------------------- the prior's scale


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.1, 0.9], [0.2, 0.3, 0.5], [0.25] * 4])
def test_class_curvature_is_the_mean_curvature_of_contrasts(shares):
    """Of the softmax likelihood at constant latents, over a basis of contrasts."""
    p = np.array(shares)
    bend = np.diag(p) - np.outer(p, p)
    contrasts = np.linalg.eigh(np.eye(len(p)) - 1.0 / len(p))[1][:, 1:]
    expected = np.trace(contrasts.T @ bend @ contrasts) / (len(p) - 1)
    assert class_curvature(p) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_small_scores_make_it_ridge_regression(n_classes):
    """Why the prior is alpha times the curvature: where effects are small the slopes agree."""
    rng = np.random.default_rng(0)
    rows = Rows(1, n=300, d=1, n_classes=n_classes)
    rows.codes = rng.permutation(np.arange(300) % n_classes)
    rows.scores = rng.normal(size=(300, 1))
    rows.scores -= rows.scores.mean()
    alpha, curvature = 50.0, class_curvature(np.full(n_classes, 1.0 / n_classes))
    rows.precision = np.array([[alpha * curvature]])
    ridge = rows.scores.T @ rows.onehot / (rows.scores.T @ rows.scores + alpha)
    slope = latents(rows.fit(), np.ones((1, 1))) - latents(rows.fit(), np.zeros((1, 1)))
    np.testing.assert_allclose(slope * curvature, ridge, rtol=0.1, atol=2e-3)


# --------------------------------------------------------------------------- hard cases


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("precision", [1.0, 1e-3, 1e-9, 0.0])
def test_separated_classes_stay_finite(n_classes, precision):
    rows = Rows(0, n=90, d=1, n_classes=n_classes)
    rows.scores = np.sort(rows.scores, axis=0)
    rows.codes = np.arange(90) * n_classes // 90
    rows.precision = np.full((1, 1), precision)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        found = rows.fit()
    assert np.isfinite(found.coef).all()
    assert np.isfinite(found.intercept).all()
    assert np.isfinite(found.cov).all()
    assert (found.variance(rows.new) >= 0.0).all()
    if precision == 0.0:
        return  # no prior, no evidence
    assert np.isfinite(found.log_evidence)
    if precision < 1.0:
        right = latents(found, rows.scores).argmax(axis=1) == rows.codes
        assert right.mean() > 0.9


def test_a_mode_that_is_not_reached_is_said(monkeypatch):
    monkeypatch.setattr("fairspan.method.laplace._MAX_STEPS", 1)
    with pytest.warns(NumericalWarning, match="after 1 steps .* nearly separated.*larger `alpha`"):
        found = Rows(0).fit(start=np.full((3, 1), 20.0))
    assert np.isfinite(found.coef).all()


@pytest.mark.parametrize("start", [0.0, 30.0, -30.0])
def test_steps_that_overshoot_are_shortened(start):
    """Far from the mode the likelihood is flat and a full step leaps."""
    rows = Rows(4)
    found = rows.fit(start=np.full((3, 1), start))
    b, _ = logistic_oracle(rows)
    np.testing.assert_allclose(found.coef[:, 0], b[1:], atol=TOL)


def test_scores_of_very_different_length_cost_no_digits():
    rows = Rows(5, d=2)
    plain = rows.fit()
    scale = np.array([1e-7, 1e6])
    rows.scores, rows.precision = rows.scores * scale, rows.precision * np.outer(scale, scale)
    found = rows.fit()
    np.testing.assert_allclose(found.coef * scale[:, None], plain.coef, atol=1e-7)
    assert found.n_steps == plain.n_steps


def test_no_scores_give_the_class_shares():
    rows = Rows(6, d=0, n_classes=3, weighted=True)
    shares = rows.weight @ rows.onehot / rows.weight.sum()
    found = rows.fit()
    np.testing.assert_allclose(softmax(latents(found, np.zeros((1, 0))))[0], shares, atol=1e-10)


# --------------------------------------------------------------------------- to probabilities


@given(SEEDS, CLASSES)
def test_softmax_and_moderation_keep_the_order_of_classes(seed, n_classes):
    rng = np.random.default_rng(seed)
    f = 10.0 * rng.normal(size=(20, n_classes))
    shrunk = moderate(f, rng.exponential(size=20) * 10.0)
    np.testing.assert_array_equal(np.argsort(shrunk, axis=1), np.argsort(f, axis=1))
    assert (np.abs(shrunk) <= np.abs(f)).all()
    np.testing.assert_array_equal(moderate(f, np.zeros(20)), f)
    p = softmax(f)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.log(p[:, 1] / p[:, 0]), f[:, 1] - f[:, 0], atol=1e-9)


def test_softmax_of_huge_latents():
    p = softmax(np.array([[1e5, 0.0], [-1e5, 1e5], [1e5, 1e5]]))
    np.testing.assert_array_equal(p, [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])


@pytest.mark.parametrize("mean", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("variance", [0.1, 1.0, 10.0])
def test_moderation_averages_the_logistic_over_a_gaussian(mean, variance):
    z, w = np.polynomial.hermite_e.hermegauss(80)
    exact = w @ (1.0 / (1.0 + np.exp(-(mean + np.sqrt(variance) * z)))) / w.sum()
    halves = np.array([[-mean / 2.0, mean / 2.0]])
    assert softmax(moderate(halves, np.array([variance])))[0, 1] == pytest.approx(exact, abs=0.02)


def test_a_curvature_without_full_rank_is_solved_as_far_as_it_goes(rng):
    """Separated classes leave directions without curvature; the others have their answer."""
    A = rng.normal(size=(5, 3))
    curvature, right = A @ A.T, A @ rng.normal(size=3)
    found = _Factor(curvature).solve(right)
    np.testing.assert_allclose(curvature @ found, right, atol=1e-8 * np.abs(right).max())
    whole = curvature + np.diag(np.geomspace(1e-3, 1e6, 5))
    np.testing.assert_allclose(
        _Factor(whole).solve(right), scipy.linalg.solve(whole, right), rtol=1e-6
    )
