"""Gaussian mechanism on sums over rows: accountant against integrals, sensitivity against neighbours."""

from itertools import product

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from fairspan.method.features import TransformerMap
from fairspan.method.privacy import (
    SensitiveRows,
    composed_epsilon,
    gaussian_delta,
    gaussian_mu,
)

K, CELLS, SIZES = 2, 2, (2, 3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
def test_delta_is_the_distance_of_two_normal_distributions(epsilon, mu):
    near, far = scipy.stats.norm(mu), scipy.stats.norm(0.0)

    def excess(x):
        return max(near.pdf(x) - np.exp(epsilon) * far.pdf(x), 0.0)

    edge = mu / 2.0 + epsilon / mu  # where the densities have the ratio e^epsilon
    found, _ = scipy.integrate.quad(excess, edge, edge + 40.0, epsabs=1e-14)
    assert gaussian_delta(epsilon, mu) == pytest.approx(found, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta"), list(product([0.01, 0.5, 1.0, 20.0], [1e-9, 1e-6, 1e-2]))
)
def test_mu_is_the_largest_that_keeps_the_budget(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon, mu * (1.0 + 1e-6)) > delta
    assert composed_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-5)


def test_classical_calibration_is_no_better():
    # sigma = sqrt(2 log(1.25 / delta)) / epsilon is private for epsilon < 1 (Dwork and Roth, theorem A.1).
    for epsilon in (0.1, 0.5, 0.99):
        assert gaussian_mu(epsilon, 1e-6) > epsilon / np.sqrt(2.0 * np.log(1.25e6))


def test_composed_fits_cost_less_than_their_sum():
    mu = gaussian_mu(1.0, 1e-6)
    assert 2.0 < composed_epsilon(np.sqrt(4.0) * mu, 1e-6) < 4.0
    assert composed_epsilon(1e-9, 1e-6) == 0.0


def rows_of(codes, *, clusters=None, seed=0, mu=1.0, noise=False):
    rng = np.random.default_rng(seed)
    n = len(codes)
    X, weights = rng.normal(size=(n, 4)), rng.uniform(0.2, 3.0, n)
    X[0], weights[0] = 9.0, 4.0  # the row that adds most to every sum
    groups = rng.integers(0, (CELLS + 1) * K, n)
    groups[0] = 0
    rows = SensitiveRows(
        X,
        TransformerMap(None, 4),
        codes,
        sizes=SIZES,
        groups=groups,
        n_folds=K,
        n_cells=CELLS,
        weights=weights,
        clusters=clusters,
        mu=mu,
        rng=np.random.default_rng(1),
    )
    if not noise:
        rows._noise = lambda shape, _sd: np.zeros(shape)
    return rows


FUNCTIONS = np.random.default_rng(5).normal(size=(K, 4, 3))
CENTRES = np.random.default_rng(6).normal(size=((CELLS + 1) * K, 3))


def released(rows):
    """Every exact sum, over the standard deviation of its noise."""
    weights, sd = rows.weights(0.2)
    parts = [(weight / sd).ravel() for weight in weights]
    for functions, share in ((FUNCTIONS, 0.5), (FUNCTIONS[:1], 0.3)):
        found = rows.sums(functions, CENTRES, share)
        parts += [(sums / found.sd).ravel() for sums in found.sums]
    return np.concatenate(parts)


@pytest.mark.parametrize("clustered", [False, True])
def test_neighbours_differ_by_at_most_mu(clustered):
    n, mu = 24, 0.7
    rng = np.random.default_rng(2)
    codes = np.column_stack([rng.integers(0, size, n) for size in SIZES])
    clusters = np.arange(n) // 3 if clustered else None
    before = released(rows_of(codes, clusters=clusters, mu=mu))
    distances = []
    for unit in range(n // 3 if clustered else n):
        changed = clusters == unit if clustered else np.arange(n) == unit
        for level in product(*(range(size) for size in SIZES)):
            other = codes.copy()
            other[changed] = level
            after = released(rows_of(other, clusters=clusters, mu=mu))
            distances.append(float(np.linalg.norm(after - before)))
    assert max(distances) <= mu
    # One row changes by all of it; the lengths of the rows of a cluster are added up.
    assert max(distances) > (0.3 if clustered else 0.999) * mu


def test_sums_have_noise_of_the_size_they_name():
    codes = np.column_stack([np.arange(60) % size for size in SIZES])
    exact, noisy = (rows_of(codes, noise=noise) for noise in (False, True))
    off = []
    for _ in range(200):
        for rows in (exact, noisy):
            rows._left = 1.0
        pair = [rows.sums(FUNCTIONS, CENTRES, 0.5) for rows in (exact, noisy)]
        off.append((pair[1].sums[1] - pair[0].sums[1]) / pair[1].sd)
    # Three levels, less their mean: two thirds of the variance.
    assert np.var(off) == pytest.approx(2.0 / 3.0, rel=0.1)
    np.testing.assert_allclose(np.sum(off, axis=2), 0.0, atol=1e-9)


def test_the_budget_cannot_be_spent_twice():
    rows = rows_of(np.zeros((10, 2), dtype=int))
    rows.weights(0.6)
    with pytest.raises(AssertionError, match="more than the budget"):
        rows.sums(FUNCTIONS, CENTRES, 0.5)
