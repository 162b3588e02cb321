"""In-sample Cov_c(f, codes) is zero in every cell, measured on the raw rows (METHOD 5)."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.laws import raw
from tests.support.strategies import at, make_problem, problems

# The stated tolerance: a covariance is zero to 1e-9 of its scale (codes have unit variance).
TOL = 1e-9
ETAS = st.sampled_from([1e-8, 1e-3, 10.0, "auto"])


def correlations(problem, scores):
    """Multiple correlation of every column of the scores with the codes of every block."""
    problem = raw.positive_weight(problem)
    return [block.correlation(f) for block in raw.blocks(problem) for f in scores.T]


def worst_correlation(problem, est):
    found = correlations(problem, est.transform(raw.positive_weight(problem).X))
    assert len(found) > 0
    return max(found)


@given(problems(), ETAS)
def test_all_directions_leave_no_covariance_at_any_eta(problem, eta):
    assert worst_correlation(problem, problem.fit(eta=eta)) <= TOL


@given(problems(missing=(True,)))
def test_rows_without_s_are_left_out_and_the_others_have_no_covariance(problem):
    assert worst_correlation(problem, problem.fit()) <= TOL


@given(problems(kinds=("binary", "slices"), missing=(False, True), intersectional=True, n_slices=2))
def test_crossed_groups_have_no_covariance(problem):
    assert worst_correlation(problem, problem.fit()) <= TOL


@given(problems(), st.sampled_from(["auto", 3.0]))
def test_the_law_does_not_depend_on_how_well_y_is_predicted(problem, alpha):
    assert worst_correlation(problem, problem.fit(alpha=alpha)) <= TOL


@given(problems(criteria=("conditional_statistical_parity",)), st.integers(0, 2**32 - 1))
def test_several_control_features_cross_into_strata(problem, seed):
    rng = np.random.default_rng(seed)
    problem.control["urban"] = rng.permutation(np.arange(problem.n) % 2).astype(bool)
    assert worst_correlation(problem, problem.fit()) <= TOL


@given(
    problems(tasks=("regression",), kinds=("text", "integer", "slices"), max_attributes=2),
    st.sampled_from([1, 2, "test"]),
    # Not smaller: all eigenvalues would be 1 to rounding, and no order among them.
    st.sampled_from([1e-4, 1e-2, 10.0, "auto"]),
)
def test_fewer_directions_leave_no_covariance_with_the_kept_combinations(problem, wanted, eta):
    est = problem.fit(n_sensitive_directions=wanted, eta=eta)
    problem = raw.positive_weight(problem)
    scores = est.transform(problem.X)
    reports = [report for report in est.blocks_ if report.constrained]
    blocks = list(raw.blocks(problem))
    assert len(blocks) == len(reports)
    psi = est.pilot_.features.coordinates(problem.X)
    for block, report in zip(blocks, reports, strict=True):
        assert report.n_directions <= report.rank
        kept = kept_combinations(block, psi, report)
        f = scores[block.used, 0]
        w = block.w[block.used] / block.w[block.used].sum()
        covariance = kept.T @ (w * (f - w @ f))
        worst = np.max(np.abs(covariance), initial=0.0) / block.deviation(scores[:, 0])
        assert float(worst) <= TOL


def kept_combinations(block, psi, report):
    """Whitened codes of a block, turned to the directions that its regression on psi finds first.

    Kernel ridge regression of the whitened codes, from the rows: its fitted values at eta give the
    singular value decomposition of METHOD 4 as an eigenproblem of codes' hat matrix.
    """
    rows = np.flatnonzero(block.used)
    codes, w = block.codes()[rows], block.w[rows] / block.w[rows].sum()
    centred = codes - w @ codes
    values, vectors = np.linalg.eigh(centred.T @ (w[:, None] * centred))
    keep = values > 1e-10 * values[-1]
    white = centred @ vectors[:, keep] / np.sqrt(values[keep])
    cell, share = np.flatnonzero(block.cell), block.w[block.cell] / block.w[block.cell].sum()
    spread = psi[cell] - share @ psi[cell]
    cov = spread.T @ (share[:, None] * spread)
    cross = psi[rows].T @ (w[:, None] * white)
    ridge = cross.T @ np.linalg.solve(cov + report.eta * np.eye(len(cov)), cross)
    found, directions = np.linalg.eigh((ridge + ridge.T) / 2)
    factor = block.w[rows].sum() / block.w[block.cell].sum()
    np.testing.assert_allclose(found[::-1] * factor, report.eigenvalues, rtol=1e-5, atol=1e-9)
    k = report.n_directions
    if 0 < k < len(found):  # equal eigenvalues: which combination comes first is anybody's choice
        assume(found[::-1][k - 1] - found[::-1][k] > 1e-4)
    return white @ directions[:, ::-1][:, :k]


@pytest.mark.parametrize("fairness", [0.5, 1.0])
def test_the_zero_is_not_an_accident_of_the_data(fairness):
    problem = make_problem(seed=5, n=100, kinds=("text", "slices"), criterion="eo", task="binary")
    est = problem.fit()
    assert worst_correlation(problem, at(est, 0.0)) > 0.2
    if fairness < 1.0:
        assert worst_correlation(problem, at(est, fairness)) > 0.05


def three_groups():
    """Group 0 high on one bump of X, group 1 on another: no single contrast of the three is both."""
    rng = np.random.default_rng(0)
    group = np.arange(150) % 3
    X = rng.normal(size=(150, 2))
    X[:, 0] += 1.5 * (group == 0)
    X[:, 1] += 1.5 * (group == 1)
    y = X[:, 0] - 0.7 * X[:, 1] + 0.1 * rng.normal(size=150)
    problem = make_problem(seed=0, n=150, kinds=("text",))
    problem.X[:], problem.y[:] = X, y
    problem.sensitive["s0"][:] = np.array(["north", "south", "east"])[group]
    return problem


def test_three_groups_need_two_directions():
    problem = three_groups()
    one, two = (problem.fit(n_sensitive_directions=m) for m in (1, 2))
    assert worst_correlation(problem, one) > 0.1
    assert worst_correlation(problem, two) <= TOL
    assert (one.n_removed_, two.n_removed_) == (1, 2)
    # The certificate reads all codes, so it tells.
    assert one.certificate_.score == pytest.approx(worst_correlation(problem, one), rel=1e-8)


def test_uncorrelated_is_not_independent():
    problem = make_problem(seed=2, n=120, p=1, kinds=("slices",), params={"n_slices": 6})
    age = problem.sensitive["s0"]
    problem.X[:, 0] = age**2 - 1.0
    problem.y[:] = age**2 + 0.1 * problem.y
    column = problem.fit(dependence="correlation", gamma=1.0)
    slices = problem.fit(gamma=1.0)
    assert abs(np.corrcoef(column.transform(problem.X)[:, 0], age)[0, 1]) <= TOL
    assert worst_correlation(problem, column) > 0.5
    assert worst_correlation(problem, slices) <= TOL
