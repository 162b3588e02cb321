import numpy as np
import pytest

from fairspan.method.moments import LevelStats
from fairspan.method.probabilities import (
    ProbabilityCoder,
    combine,
    expected_rows,
    group_codes,
    group_weights,
    most_likely,
    sizes_of,
)
from fairspan.method.problem import Attribute, GroupProbabilities


def dirichlet(n=300, groups=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(groups), n), rng.uniform(0.5, 2.0, n), rng.normal(size=(n, 2))


def stats_of(p, weight, psi):
    mass = weight @ p
    return LevelStats(
        weight=mass,
        weight2=weight**2 @ p,
        rows=np.full(p.shape[1], len(p)),
        mean=(p * weight[:, None]).T @ psi / mass[:, None],
        pairs=(p * weight[:, None]).T @ p,
    )


def test_codes_have_the_covariances_of_the_true_groups():
    p, weight, psi = dirichlet()
    codes = group_codes(stats_of(p, weight, psi), range(3))
    share = weight @ p / weight.sum()
    # The codes of known groups are whitened.
    second = (codes.true_codes * share[:, None]).T @ codes.true_codes
    np.testing.assert_allclose(second, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(share @ codes.true_codes, 0.0, atol=1e-12)
    # Cov(f, codes of rows) = sum_j share_j E[f | j] (code of j), with the means by regression on p.
    means = np.linalg.solve((p * weight[:, None]).T @ p, (p * weight[:, None]).T @ psi)
    wanted = (codes.true_codes * share[:, None]).T @ means
    of_rows = p @ codes.whitening
    found = (of_rows * weight[:, None]).T @ psi / weight.sum()
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    variance = (of_rows * weight[:, None]).T @ of_rows / weight.sum()
    np.testing.assert_allclose(variance, np.diag(1.0 / codes.information), atol=1e-12)
    assert (codes.information < 1.0).all()
    assert not codes.confused


def test_groups_that_are_never_told_apart_are_named():
    p, weight, psi = dirichlet(groups=2)
    halves = np.column_stack([p[:, 0], p[:, 1] * 0.4, p[:, 1] * 0.6])
    codes = group_codes(stats_of(halves, weight, psi), range(3))
    assert codes.whitening.shape == (3, 1)
    assert codes.confused == (1, 2)


def test_group_weights_are_means_over_the_rows_of_known_groups():
    code = np.arange(10) % 2
    weight = np.linspace(1, 2, 10)
    q = group_weights(np.eye(2)[code], weight)
    f = np.arange(10.0)
    for j in (0, 1):
        wanted = np.average(f[code == j], weights=weight[code == j])
        np.testing.assert_allclose((weight * q[:, j]) @ f, wanted, rtol=1e-12)


def test_group_weights_add_up_to_1():
    p, weight, _ = dirichlet()
    np.testing.assert_allclose(weight @ group_weights(p, weight), 1.0, rtol=1e-10)
    with pytest.raises(np.linalg.LinAlgError):
        group_weights(np.full((5, 2), 0.5), np.ones(5))


def test_expected_rows_are_sums_of_probabilities():
    p, _, psi = dirichlet()
    ones = np.ones(len(p))
    np.testing.assert_allclose(expected_rows(stats_of(p, ones, psi)), p.sum(axis=0), rtol=1e-9)
    size, weight = sizes_of(np.vstack([p, [np.nan] * 3]), None)
    np.testing.assert_allclose([size, weight], [p.sum(axis=0)] * 2, rtol=1e-9)


def test_a_known_group_has_probability_1():
    p = np.array([[0.2, 0.8], [np.nan, np.nan], [0.5, 0.5]])
    found = combine(np.array([0, -1, 1]), p)
    np.testing.assert_array_equal(found, [[1, 0], [np.nan, np.nan], [0, 1]])
    np.testing.assert_array_equal(most_likely(found), [0, -1, 1])


def test_a_coder_takes_its_own_groups_in_any_order():
    coder = ProbabilityCoder("race", ("a", "b"))

    def given(*groups):
        values, gaps = np.array([[0.2, 0.8], [0.0, 0.0]]), np.array([False, True])
        return {"race": GroupProbabilities("race", values, gaps, "f", groups)}

    found = coder.probabilities(given("b", "a"))
    np.testing.assert_array_equal(found, [[0.8, 0.2], [np.nan, np.nan]])
    np.testing.assert_array_equal(coder.codes(given("b", "a")), [0, -1])
    with pytest.raises(ValueError, match="prepared with a, b"):
        coder.probabilities(given("a", "c"))
    known = Attribute("race", np.array(["a", "b"]), np.zeros(2, bool), "U")
    with pytest.raises(ValueError, match="sensitive_probabilities"):
        coder.probabilities({"race": known})
