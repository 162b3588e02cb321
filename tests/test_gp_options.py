"""The linear mean and the width by evidence of the fair Gaussian process."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from fairspan import FairGPRegressor, FairRidge
from tests.golden import oracle

FIXED = {"gamma": 0.4, "eta": 1e-3, "alpha": 0.05}


def rows(n=150, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.1] + s[:, None] * [0.6, 2.0, 0.0]
    y = 2.0 * X[:, 0] - 0.3 * X[:, 1] + np.sin(3.0 * X[:, 0]) + 0.2 * rng.normal(size=n)
    far = rng.normal(size=(40, 3)) * [5.0, 25.0, 0.5]
    return X, y, s, far


def fit(X, y, s, **params):
    return FairGPRegressor(**{**FIXED, **params}).fit(X, y, sensitive_features=s)


# ------------------------------------------------------------------ mean="linear"


def generalised_least_squares(X, y, new, ridge):
    """Kernel ridge with an unpenalised linear part: a flat prior on the slopes, by one dense system."""
    n = len(X)
    H, G = np.c_[np.ones(n), X], np.c_[np.ones(len(new)), new]
    A = rbf_kernel(X, gamma=FIXED["gamma"]) + ridge * np.eye(n)
    solved = np.linalg.solve(A, np.c_[H, y])
    slope = np.linalg.solve(H.T @ solved[:, :-1], H.T @ solved[:, -1])
    weights = np.linalg.solve(A, y - H @ slope)
    return G @ slope + rbf_kernel(new, X, gamma=FIXED["gamma"]) @ weights


def test_the_unfair_end_is_generalised_least_squares():
    X, y, s, far = rows()
    found = fit(X, y, s, mean="linear", fairness=0.0, removal="training_rows")
    expected = generalised_least_squares(X, y, X, FIXED["alpha"])
    assert np.abs(found.predict(X) - expected).max() < 1e-3 * y.std()
    expected = generalised_least_squares(X, y, far, FIXED["alpha"])
    # The prior is next to flat, not flat: a slope with ten times the kernel's standard deviation.
    assert np.abs(found.predict(far) - expected).max() < 2e-2 * expected.std()


def test_a_flat_mean_forgets_the_trend_far_away():
    X, y, s, far = rows()
    trend = 2.0 * far[:, 0] - 0.3 * far[:, 1]
    errors = {
        mean: np.sqrt(np.mean((fit(X, y, s, mean=mean, fairness=0.0).predict(far) - trend) ** 2))
        for mean in ("constant", "linear")
    }
    assert errors["linear"] < 0.3 * errors["constant"]


@pytest.mark.parametrize("subspace", ["model", "fair"])
def test_the_trend_is_made_fair_with_the_rest(subspace):
    X, y, s, _ = rows()
    found = fit(X, y, s, mean="linear", subspace=subspace, removal="training_rows")
    for path in (found.predict(X)[:, None], found.sample_y(X, 5), found.sample_y(X, 5, prior=True)):
        correlation = [abs(np.corrcoef(column, s)[0, 1]) for column in path.T]
        assert max(correlation) < 1e-8
    assert found.certificate_.supremum < 1e-8


def test_the_fair_end_is_the_constrained_ridge_of_the_summed_kernel():
    X, y, s, far = rows(n=90)
    found = fit(X, y, s, mean="linear", removal="training_rows")
    kernel = found.pilot_.features.kernel
    n = len(X)
    blocks = oracle.code_blocks([oracle.level_codes(s)], [np.ones(n, dtype=bool)])
    C = oracle.code_covectors(blocks, None, n)
    twin = oracle.constrained_kernel_ridge_kkt(kernel(X, X), y, C, FIXED["alpha"] / n)
    assert np.abs(found.predict(far) - twin.predict(kernel(far, X))).max() < 1e-6 * np.abs(y).max()


def test_landmarks_carry_the_whole_trend():
    X, y, s, far = rows(n=600)
    exact = fit(X, y, s, mean="linear", fairness=0.0)
    few = fit(X, y, s, mean="linear", fairness=0.0, n_components=60, random_state=0)
    trend = 2.0 * far[:, 0] - 0.3 * far[:, 1]
    assert np.corrcoef(few.predict(far), trend)[0, 1] > 0.99
    assert np.corrcoef(few.predict(far), exact.predict(far))[0, 1] > 0.99


def test_the_scale_of_a_column_does_not_matter_to_its_slope():
    X, y, s, _ = rows()
    found = fit(X, y, s, mean="linear").pilot_.features.kernel
    assert found.slope * X.std(axis=0) == pytest.approx(10.0)
    constant = fit(np.c_[X, np.ones(len(X))], y, s, mean="linear").pilot_.features.kernel
    assert constant.slope[-1] == 0.0


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"mean": "quadratic"}, "mean='quadratic' is not allowed; give 'constant' or 'linear'"),
        (
            {"mean": "linear", "kernel": "linear", "gamma": "cv"},
            "kernel='linear' it has no meaning",
        ),
    ],
)
def test_means_that_cannot_be(params, says):
    X, y, s, _ = rows(n=40)
    with pytest.raises(ValueError, match=says):
        fit(X, y, s, **params)


# ------------------------------------------------------------------ gamma="evidence"


def by_evidence(X, y, s, **params):
    return FairGPRegressor(gamma="evidence", fairness=0.0, random_state=0, **params).fit(
        X, y, sensitive_features=s
    )


@pytest.mark.parametrize("frequency", [0.5, 4.0])
def test_no_other_width_has_more_evidence(frequency):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    s = rng.integers(0, 2, 200)
    y = np.sin(frequency * X[:, 0]) + 0.3 * rng.normal(size=200)
    found = by_evidence(X, y, s)
    # All of F at fairness 0 is the plain Gaussian process, whose evidence is meant.
    values = {
        factor: FairGPRegressor(gamma=found.gamma_ * factor, fairness=0.0, subspace="fair")
        .fit(X, y, sensitive_features=s)
        .log_marginal_likelihood_value_
        for factor in (0.2, 0.5, 0.8, 1.0, 1.25, 2.0, 5.0)
    }
    # Noise and precision come from a grid, and the search is for a twentieth in the width.
    assert max(values.values()) < values[1.0] + 0.3
    assert min(values.values()) < values[1.0] - 1.0


def test_fast_functions_get_narrow_kernels():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    s = rng.integers(0, 2, 200)
    slow, fast = (
        by_evidence(X, np.sin(w * X[:, 0]) + 0.1 * rng.normal(size=200), s).gamma_
        for w in (0.5, 5.0)
    )
    assert fast > 3.0 * slow


def test_only_the_process_has_an_evidence():
    X, y, s, _ = rows(n=40)
    with pytest.raises(
        ValueError, match=r"gamma='evidence' is not allowed.*\(FairGPRegressor has it\)"
    ):
        FairRidge(gamma="evidence").fit(X, y, sensitive_features=s)


def test_a_kernel_without_a_width_has_none_by_evidence():
    X, y, s, _ = rows(n=40)
    with pytest.raises(ValueError, match="chooses a width, and the kernel 'poly' has none"):
        FairGPRegressor(kernel="poly", gamma="evidence").fit(X, y, sensitive_features=s)


def test_a_constant_column_has_no_trend():
    X, y, s, _ = rows(n=60)
    X = np.c_[X, np.full(60, 0.1)]
    found = fit(X, y, s, mean="linear")
    moved = X.copy()
    moved[:, -1] = 0.2
    assert np.abs(found.predict(moved) - found.predict(X)).max() < y.std()


def test_the_residual_is_that_of_the_kernel_without_its_trend():
    X, y, s, _ = rows(n=300)
    with_trend, without = (
        fit(X, y, s, mean=mean, n_components=20, random_state=0).approximation_residual_
        for mean in ("linear", "constant")
    )
    for attribute, groups in without.items():
        for group, share in groups.items():
            assert with_trend[attribute][group] > 0.5 * share
