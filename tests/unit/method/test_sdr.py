"""Directions, their number and their ridge, against dense formulas on the rows."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.rows import FOLDS, Rows

from fairspan import NumericalWarning
from fairspan.method.linalg import Tridiagonal
from fairspan.method.moments import LevelStats
from fairspan.method.sdr import (
    CodeBlock,
    canonical_directions,
    column_block,
    gcv_ridge,
    kfold_errors,
    kfold_ridge,
    level_block,
    n_directions_by_test,
    paper_directions,
    ridge_grid,
    target_covariance,
    usable_levels,
    within_cov,
)

SEEDS = st.integers(0, 2**32 - 1)


# ---------------------------------------------------------------- codes


@pytest.mark.parametrize(
    ("rows", "groups"),
    [
        ([9, 9, 9], [[0], [1], [2]]),
        ([9, 2, 6], [[0], [1, 2]]),  # the smaller neighbour
        ([2, 9, 9], [[0, 1], [2]]),
        ([1, 1, 1, 9], [[0, 1, 2, 3]]),  # again and again until it is large enough
        ([4, 1, 9, 9], [[0, 1], [2], [3]]),
        ([9, 0, 9], [[0], [2]]),  # an empty slice is nobody's
    ],
)
def test_a_small_slice_joins_its_smaller_neighbour(rows, groups):
    assert usable_levels(rows, ordered=True, min_rows=5) == groups


def test_a_small_category_is_left_out():
    assert usable_levels([9, 4, 5, 0], ordered=False, min_rows=5) == [[0], [2]]


def test_a_level_without_weight_is_treated_as_one_without_rows():
    rows, weight = [9, 9, 9], [1.0, 1e-50, 1.0]
    assert usable_levels(rows, weight, ordered=False, min_rows=5) == [[0], [2]]
    assert usable_levels(rows, weight, ordered=True, min_rows=5) == [[0, 1], [2]]


@given(st.lists(st.floats(-9.9, 0.0), min_size=2, max_size=8))
def test_every_level_with_a_share_of_the_weight_keeps_a_direction(decades):
    weight = 10.0 ** np.array(decades)
    k = len(weight)
    usable = usable_levels([9] * k, weight.tolist(), ordered=False, min_rows=5)
    assume(len(usable) == k)
    stats = LevelStats(weight=weight, weight2=weight**2 / 9.0, rows=np.full(k, 9), mean=np.eye(k))
    block = level_block(stats, weight.sum(), ordered=False)
    assert (block.rank, block.left_out) == (k - 1, ())


@given(st.lists(st.integers(0, 12), min_size=1, max_size=8))
def test_no_row_of_a_sliced_attribute_is_lost(rows):
    groups = usable_levels(rows, ordered=True, min_rows=5)
    assert [h for group in groups for h in group] == [h for h, n in enumerate(rows) if n > 0]
    if len(groups) > 1:
        assert min(sum(rows[h] for h in group) for group in groups) >= 5


@given(SEEDS)
def test_a_level_block_is_the_covariance_with_whitened_indicators(seed):
    rows = Rows(seed)
    share, psi = rows.centred()
    pooled = rows.moments().pool()
    block = level_block(pooled.levels[0], pooled.weight, ordered=False)
    expected = psi.T @ (share[:, None] * rows.whitened_codes())
    # Whitened codes are defined up to a rotation.
    np.testing.assert_allclose(block.delta @ block.delta.T, expected @ expected.T, atol=1e-12)
    assert (block.rank, block.n_rows, block.left_out, block.merged) == (2, 60, (), 0)
    assert block.n_effective == pytest.approx(rows.w.sum() ** 2 / (rows.w @ rows.w))


@given(SEEDS)
def test_a_column_block_is_the_covariance_with_the_standardised_column(seed):
    rows = Rows(seed)
    share, psi = rows.centred()
    pooled = rows.moments().pool()
    block = column_block(pooled.columns[0], pooled.weight)
    v = rows.value - share @ rows.value
    expected = psi.T @ (share * v) / np.sqrt(share @ v**2)
    np.testing.assert_allclose(block.delta[:, 0], expected, atol=1e-12)


def test_a_block_on_part_of_the_cell_counts_for_that_part():
    pooled = Rows(0).moments().pool()
    whole = level_block(pooled.levels[0], pooled.weight, ordered=False)
    part = level_block(pooled.levels[0], 4.0 * pooled.weight, ordered=False)
    np.testing.assert_allclose(part.delta, whole.delta / 2.0)


def test_a_constant_column_and_a_single_level_are_no_block():
    rows = Rows(1)
    rows.value[:] = 7.0
    rows.group[:] = 1
    pooled = rows.moments().pool()
    assert column_block(pooled.columns[0], pooled.weight) is None
    assert level_block(pooled.levels[0], pooled.weight, ordered=False) is None


# ---------------------------------------------------------------- directions


@given(SEEDS, st.floats(-4.0, 1.0))
def test_canonical_directions_equal_the_dense_definition(seed, decades):
    rows, eta = Rows(seed), 10.0**decades
    pooled = rows.moments().pool()
    delta = level_block(pooled.levels[0], pooled.weight, ordered=False).delta
    found = canonical_directions(pooled.cov, delta, eta)
    root = scipy.linalg.sqrtm(np.linalg.inv(pooled.cov + eta * np.eye(6))).real
    singular = np.linalg.svd(root @ delta, compute_uv=False)
    np.testing.assert_allclose(found.lam, singular**2, rtol=1e-9)
    assert np.all((found.lam >= 0) & (found.lam < 1))
    W = found.functions
    np.testing.assert_allclose(W.T @ (pooled.cov + eta * np.eye(6)) @ W, np.eye(2), atol=1e-10)
    # W predicts the code combinations it is paired with.
    np.testing.assert_allclose(W.T @ delta @ found.codes, np.diag(np.sqrt(found.lam)), atol=1e-10)


def test_paper_directions_solve_the_papers_pencil():
    rows = Rows(2)
    pooled = rows.moments().pool()
    within = within_cov(pooled, pooled.levels[0])
    tau, W = paper_directions(pooled.cov, within, 1e-3, 2)
    assert tau[0] >= tau[1]
    np.testing.assert_allclose(pooled.cov @ W, (within + 1e-3 * np.eye(6)) @ W * tau, atol=1e-10)
    # lambda = 1 - 1/tau links the pencils when the total covariance carries the ridge; here both
    # order the same two group directions first.
    assert np.all(tau > 1.0)


def test_within_covariance_is_that_around_the_group_means():
    rows = Rows(3)
    share, _ = rows.centred()
    means = np.stack([share[rows.group == h] @ rows.psi[rows.group == h] for h in range(3)])
    means /= np.array([share[rows.group == h].sum() for h in range(3)])[:, None]
    inside = rows.psi - means[rows.group]
    pooled = rows.moments().pool()
    expected = inside.T @ (share[:, None] * inside)
    np.testing.assert_allclose(within_cov(pooled, pooled.levels[0]), expected, atol=1e-12)


# ---------------------------------------------------------------- number of directions


def dense_null(cov, delta, eta, n, k):
    """METHOD 4's statistic, and its null law a chi2_nu with every trace of a dense matrix."""
    root = scipy.linalg.sqrtm(np.linalg.inv(cov + eta * np.eye(len(cov)))).real
    U, singular, _ = np.linalg.svd(root @ delta)
    left = np.eye(len(cov)) - U[:, :k] @ U[:, :k].T
    rest = left @ root @ cov @ root @ left  # what of B is left to test
    d1, d2 = np.trace(rest), np.trace(rest @ rest)
    free, p = n - 1 - k, delta.shape[1] - k
    mean = n * p * d1 / free
    var = 2 * n**2 * p * (free - p) / ((free - 1) * free * (free + 2)) * (d2 - d1**2 / free)
    null = scipy.stats.chi2(2 * mean**2 / var, scale=var / (2 * mean))
    return n * (singular[k:] ** 2).sum(), null


def number_found(rows, eta, n, level):
    pooled = rows.moments().pool()
    delta = level_block(pooled.levels[0], pooled.weight, ordered=False).delta
    found = canonical_directions(pooled.cov, delta, eta)
    spectrum = Tridiagonal.of(pooled.cov).eigenvalues()
    return pooled.cov, delta, found, n_directions_by_test(found, pooled.cov, spectrum, n, level)


@given(SEEDS, st.floats(-3.0, 0.5))
def test_p_values_equal_the_dense_formulas(seed, decades):
    eta, n = 10.0**decades, 60.0
    # No p-value exceeds 2, so every k is rejected and every p-value comes back.
    cov, delta, _, (k, p_values) = number_found(Rows(seed), eta, n, level=2.0)
    assert k == 2
    nulls = [dense_null(cov, delta, eta, n, j) for j in range(2)]
    expected = [null.sf(statistic) for statistic, null in nulls]
    np.testing.assert_allclose(p_values, expected, rtol=1e-6, atol=1e-12)


@given(SEEDS, st.floats(-3.0, 0.5))
def test_directions_are_added_until_one_is_not_rejected(seed, decades):
    _, _, _, (_, every) = number_found(Rows(seed), 10.0**decades, 60.0, level=2.0)
    _, _, _, (k, p_values) = number_found(Rows(seed), 10.0**decades, 60.0, level=0.05)
    accepted = [j for j, p in enumerate(every) if p > 0.05]
    assert k == (accepted[0] if accepted else 2)
    assert p_values == every[: k + 1]


@given(SEEDS, st.floats(-3.0, 0.5))
def test_a_direction_that_counts_has_the_eigenvalue_the_bound_asks_for(seed, decades):
    eta, n, r = 10.0**decades, 60.0, 2
    cov, delta, found, (d, _) = number_found(Rows(seed), eta, n, level=0.05)
    assume(d > 0)
    _, null = dense_null(cov, delta, eta, n, d - 1)
    assert found.lam[d - 1] >= null.ppf(0.95) / (n * (r - d + 1)) * (1 - 1e-9)


def test_too_few_rows_to_test_keep_every_direction():
    _, _, _, (k, p_values) = number_found(Rows(9), 1e-2, 3.0, level=0.05)
    assert k == 2
    assert np.isnan(p_values).all()  # no p-value to show, and not a small one either


def test_where_no_ridge_leaves_freedom_the_largest_is_taken(rng):
    """Fewer effective rows than one direction needs: every score is infinite."""
    cov = np.eye(6)
    tri = Tridiagonal.of(cov)
    eta, edge = gcv_ridge(
        tri, tri.eigenvalues(), CodeBlock(delta=rng.normal(size=(6, 1)), n_effective=0.5, n_rows=2)
    )
    larger, _ = gcv_ridge(
        tri,
        tri.eigenvalues(),
        CodeBlock(delta=0.1 * np.eye(6)[:, :1], n_effective=500.0, n_rows=500),
    )
    assert edge
    assert eta >= larger


def test_the_grid_has_quarter_decades_of_the_trace():
    grid = ridge_grid(2.0)
    assert (len(grid), grid[0], grid[-1]) == (29, pytest.approx(2e-7), pytest.approx(2.0))
    np.testing.assert_allclose(np.diff(np.log10(grid)), 0.25)


@given(SEEDS)
def test_gcv_equals_brute_force_over_rows(seed):
    rows = Rows(seed, weighted=False)
    n, codes = len(rows.psi), rows.whitened_codes()
    _, psi = rows.centred()
    pooled = rows.moments().pool()
    block = level_block(pooled.levels[0], pooled.weight, ordered=False)
    tri = Tridiagonal.of(pooled.cov)
    eta, _ = gcv_ridge(tri, tri.eigenvalues(), block)
    scores = []
    grid = ridge_grid(np.trace(pooled.cov))
    for candidate in grid:
        hat = psi @ np.linalg.solve(psi.T @ psi + n * candidate * np.eye(6), psi.T) + 1.0 / n
        loss = ((codes - hat @ codes) ** 2).sum() / n
        scores.append(loss / (1.0 - np.trace(hat) / n) ** 2)
    assert eta == pytest.approx(grid[np.argmin(scores)], rel=1e-9)


def test_gcv_leaves_out_ridges_that_use_up_all_rows():
    rows = Rows(4, n=12, D=12, weighted=False)
    pooled = rows.moments().pool()
    block = level_block(pooled.levels[0], pooled.weight, ordered=False, min_rows=1)
    tri = Tridiagonal.of(pooled.cov)
    spectrum = tri.eigenvalues()
    eta, _ = gcv_ridge(tri, spectrum, block)
    assert 1.0 + (spectrum / (spectrum + eta)).sum() < 12


@pytest.mark.parametrize("noise", [True, False])
def test_gcv_says_when_it_stops_at_an_end(noise):
    rows = Rows(5, n=90, weighted=False)
    rng = np.random.default_rng(0)
    rows.psi = rng.normal(size=(90, 6)) if noise else rows.psi + 3.0 * (rows.group == 1)[:, None]
    pooled = rows.moments().pool()
    block = level_block(pooled.levels[0], pooled.weight, ordered=False)
    tri = Tridiagonal.of(pooled.cov)
    eta, edge = gcv_ridge(tri, tri.eigenvalues(), block)
    assert edge == (eta == pytest.approx(np.trace(pooled.cov)) or eta < 2e-7 * np.trace(pooled.cov))


@given(SEEDS, st.sampled_from(["levels", "columns"]))
def test_kfold_errors_equal_brute_force_over_rows(seed, kind):
    rows = Rows(seed)
    moments = rows.moments()
    grid = ridge_grid(np.trace(moments.pool().cov))[::4]
    onehot = (rows.group[:, None] == np.arange(3)).astype(float)
    Y = onehot if kind == "levels" else rows.value[:, None]
    expected = np.zeros(len(grid))
    for fold in range(FOLDS):
        train, test = rows.fold != fold, rows.fold == fold
        w = rows.w[train] / rows.w[train].sum()
        mean, y_mean = w @ rows.psi[train], w @ Y[train]
        psi, y = rows.psi[train] - mean, Y[train] - y_mean
        for i, eta in enumerate(grid):
            beta = np.linalg.solve(
                psi.T @ (w[:, None] * psi) + eta * np.eye(6), psi.T @ (w[:, None] * y)
            )
            error = Y[test] - y_mean - (rows.psi[test] - mean) @ beta
            expected[i] += (rows.w[test] @ error**2).sum()
    np.testing.assert_allclose(kfold_errors(moments, (kind, 0), grid), expected, rtol=1e-9)


def test_the_chosen_ridge_has_the_smallest_error():
    moments = Rows(6).moments()
    grid = ridge_grid(np.trace(moments.pool().cov))
    errors = kfold_errors(moments, ("columns", 0), grid)
    assert kfold_ridge(moments, ("columns", 0)) == pytest.approx(grid[np.argmin(errors)])


def test_an_end_of_the_grid_is_said():
    rows = Rows(7)
    rows.value = np.random.default_rng(1).normal(size=60)
    rows.psi = np.random.default_rng(2).normal(size=(60, 6))
    with pytest.warns(NumericalWarning, match="chose the largest ridge .* Pass `alpha`"):
        kfold_ridge(rows.moments(), ("columns", 0))


def test_covariance_with_the_target():
    rows = Rows(8)
    share, psi = rows.centred()
    pooled = rows.moments().pool()
    onehot = (rows.group[:, None] == np.arange(3)).astype(float)
    for stats, Y in ((pooled.levels[0], onehot), (pooled.columns[0], rows.value[:, None])):
        cross, mean, variance = target_covariance(pooled, stats)
        np.testing.assert_allclose(cross, psi.T @ (share[:, None] * Y), atol=1e-12)
        np.testing.assert_allclose(mean, share @ Y, atol=1e-12)
        np.testing.assert_allclose(variance, share @ (Y - share @ Y) ** 2, atol=1e-12)
