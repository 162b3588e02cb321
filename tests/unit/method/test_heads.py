"""The ridge head and the correlation dial, from moments of the path."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.method.heads import PathMoments, multiple_correlation, ridge_head, smallest_fairness

SEEDS = st.integers(0, 2**32 - 1)


class Scores:
    """Rows of a few functions with an RKHS norm, two outputs and one code."""

    def __init__(self, seed, d=3, n=50):
        rng = np.random.default_rng(seed)
        self.F = rng.normal(size=(n, d))
        self.F -= self.F.mean(axis=0)
        self.Y = self.F @ rng.normal(size=(d, 2)) + rng.normal(size=(n, 2))
        self.Y -= self.Y.mean(axis=0)
        self.code = self.F[:, 0] + rng.normal(size=n)
        self.code = (self.code - self.code.mean()) / self.code.std()
        B = rng.normal(size=(d + 2, d))
        self.gram = B.T @ B
        self.n = n

    def path(self):
        cov = self.F.T @ self.F / self.n
        delta = self.F.T @ self.code[:, None] / self.n
        return PathMoments(
            gram=self.gram,
            cov=cov,
            cov_target=self.F.T @ self.Y / self.n,
            first=np.zeros(3),
            block_cov=(cov,),
            block_delta=(delta,),
        )

    def loss(self, beta, eta):
        residual = self.Y - self.F @ beta
        return (residual**2).sum() / self.n + eta * np.trace(beta.T @ self.gram @ beta)


@given(SEEDS, st.floats(-3.0, 1.0))
def test_the_head_minimises_the_penalised_loss(seed, decades):
    scores, eta = Scores(seed), 10.0**decades
    beta = ridge_head(scores.path(), np.eye(3), eta)
    best = scores.loss(beta, eta)
    rng = np.random.default_rng(seed)
    assert all(scores.loss(beta + 1e-3 * rng.normal(size=beta.shape), eta) > best for _ in range(5))


def test_no_ridge_is_least_squares():
    scores = Scores(0)
    expected = np.linalg.lstsq(scores.F, scores.Y, rcond=None)[0]
    np.testing.assert_allclose(ridge_head(scores.path(), np.eye(3), 0.0), expected)


def test_no_direction_left_gives_no_coefficient():
    assert ridge_head(Scores(0).path(), np.zeros((3, 0)), 0.1).shape == (0, 2)


@given(SEEDS)
def test_multiple_correlation_is_the_correlation_with_the_code(seed):
    scores = Scores(seed)
    path = scores.path()
    w = np.random.default_rng(seed).normal(size=(3, 2))
    found = multiple_correlation(path.block_cov[0], path.block_delta[0], w)
    expected = max(abs(np.corrcoef(f, scores.code)[0, 1]) for f in (scores.F @ w).T)
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_constant_function_has_no_correlation():
    assert multiple_correlation(np.eye(2), np.ones((2, 1)), np.zeros((2, 1))) == 0.0
    assert multiple_correlation(np.eye(2), np.ones((2, 1)), np.zeros((2, 0))) == 0.0


@given(st.floats(0.01, 0.99))
def test_a_falling_correlation_is_met_exactly(limit):
    place, reached = smallest_fairness(lambda f: 1.0 - f, limit)
    assert place == pytest.approx(1.0 - limit, abs=1e-12)
    assert reached <= limit


def test_the_limit_holds_from_there_to_the_fair_end():
    # A dip below the limit before a bump above it does not count.
    def bumpy(f):
        return 0.3 if 0.5 < f < 0.6 else 0.0

    place, _ = smallest_fairness(bumpy, 0.1)
    assert place == pytest.approx(0.6, abs=1e-9)


def test_a_limit_that_is_kept_everywhere_asks_for_nothing():
    assert smallest_fairness(lambda f: 0.2 * (1.0 - f), 0.5) == (0.0, 0.2)


def test_an_unreachable_limit_gives_the_fair_end_and_what_it_has():
    assert smallest_fairness(lambda f: 0.4 - 0.1 * f, 0.1) == (1.0, pytest.approx(0.3))


@pytest.mark.parametrize("step", [0.1, 0.3, 0.7])
def test_the_side_of_a_jump_that_keeps_the_limit_is_taken(step):
    """Where the correlation jumps over the limit, only one side of the jump keeps it."""

    def worst(fairness):
        return 1.0 if fairness < step else 0.0

    fairness, found = smallest_fairness(worst, 0.5)
    assert found == worst(fairness) == 0.0
    assert fairness == pytest.approx(step)
