"""Independence tests of an audit: their level, and what they find."""

import numpy as np
import pytest

from fairspan.auditing.independence import independence_test
from fairspan.auditing.scores import distance_correlation
from tests.statistical.auditing_dependence import (
    LEVEL_KINDS,
    PLANTED,
    attribute,
    level,
    power,
    weighted_level,
)

pytestmark = pytest.mark.slow

STATISTICS = ("hsic", "dcor")


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("kind", LEVEL_KINDS)
def test_permutations_keep_the_level(statistic, conditional, kind):
    # Exact by construction; 600 draws have a standard error of .009.
    rate = level(statistic, conditional, 100, 600, kind=kind, n_permutations=199)
    assert 0.025 <= rate <= 0.08


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("kind", LEVEL_KINDS)
@pytest.mark.parametrize(("n", "max_rows"), [(400, 200), (1200, 64)])  # 2 blocks, or 19
def test_blocks_keep_the_level(statistic, conditional, kind, n, max_rows):
    # A standard error is .009, and these are forty rates.
    assert 0.025 <= level(statistic, conditional, n, 600, kind=kind, max_rows=max_rows) <= 0.08


@pytest.mark.long
@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("kind", LEVEL_KINDS)
@pytest.mark.parametrize(("n", "max_rows"), [(400, 200), (1200, 64)])
def test_blocks_keep_the_level_of_one_percent(statistic, kind, n, max_rows):
    # A standard error is .003.
    rate = level(statistic, False, n, 1000, seed=1, kind=kind, alpha=0.01, max_rows=max_rows)
    assert 0.002 <= rate <= 0.02


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("n", [500, 2000])
@pytest.mark.parametrize("kind", ["two levels", "continuous"])
def test_without_y_a_dependence_through_y_is_found(statistic, n, kind):
    assert level(statistic, True, n, 30, kind=kind, test_given=False) == 1.0


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("n", [800, 5000])
def test_planted_dependence_is_found(statistic, conditional, what, n):
    strength = 1.5 if what == "two columns" else 0.5
    assert power(statistic, what, n, 20, strength=strength, conditional=conditional) >= 0.95


@pytest.mark.parametrize("statistic", STATISTICS)
def test_weights_that_undo_a_dependence_undo_the_rejections(statistic):
    with_weight, without = weighted_level(statistic, 400, 500)
    assert 0.025 <= with_weight <= 0.08
    assert without >= 0.99


# The package dcor compiles for seconds when it is imported, so what it says is asked here.


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("levels", [0, 2, 4])
def test_the_statistic_is_that_of_the_package_dcor(d, levels):
    dcor = pytest.importorskip("dcor")
    rng = np.random.default_rng(d)
    s = rng.integers(0, levels, 80) if levels else rng.normal(size=80)
    f = rng.normal(size=(80, d)) + 0.5 * s[:, None]
    weight = np.ones(80)
    found = independence_test(f, attribute(s), statistic="dcor", weight=weight, rng=rng)
    # Indicators of two levels are sqrt(2) apart, of one level 0.
    side = np.asarray(s[:, None] == np.arange(levels), dtype=float) if levels else s
    expected = dcor.u_distance_correlation_sqr((f - f.mean(axis=0)) / f.std(axis=0), side)
    assert found.statistic == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("n", [50, 3000])
@pytest.mark.parametrize("ties", [False, True])
def test_distance_correlation_is_that_of_the_package_dcor(n, ties):
    dcor = pytest.importorskip("dcor")
    rng = np.random.default_rng(n)
    s = rng.normal(size=n)
    f = s**2 + rng.normal(size=n)
    if ties:
        f, s = np.round(f), np.round(s)
    found = distance_correlation(f, s, np.ones(n))
    assert found == pytest.approx(dcor.distance_correlation(f, s), abs=1e-10)
