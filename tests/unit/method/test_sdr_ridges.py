"""The automatic ridges, against brute force over the rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.rows import FOLDS, Rows

from fairspan import NumericalWarning
from fairspan.method.linalg import Tridiagonal
from fairspan.method.sdr import (
    gcv_ridge,
    kfold_errors,
    kfold_ridge,
    level_block,
    ridge_grid,
    target_covariance,
)

SEEDS = st.integers(0, 2**32 - 1)


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
