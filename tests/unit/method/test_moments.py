"""Moments against their definitions, row by row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan import IncompatibleMomentsError
from fairspan.method.accumulate import Accumulator
from fairspan.method.moments import Moments, kish

CELLS, FOLDS, SIZES = 2, 3, (3, 2)


def no_rows(n_columns, fingerprint="pilot"):
    return Moments.empty(
        fingerprint,
        n_cells=CELLS,
        n_folds=FOLDS,
        level_sizes=SIZES,
        n_numeric=2,
        n_columns=n_columns,
    )


class Rows:
    """Random rows with two coded variables, two numeric ones, gaps and weights."""

    def __init__(self, seed, n=40, D=4, offset=0.0):
        rng = np.random.default_rng(seed)
        self.K = rng.normal(size=(n, D)) + offset
        self.cell = rng.integers(0, CELLS, n)
        self.fold = rng.integers(0, FOLDS, n)
        self.levels = np.stack([rng.integers(-1, size, n) for size in SIZES], axis=1)
        self.values = rng.normal(size=(n, 2))
        self.values[rng.random(n) < 0.2, 0] = np.nan
        self.w = rng.exponential(size=n) + 0.1

    def moments(self, rows=None, weights=True):
        """Moments of some rows, through the accumulator, in two blocks."""
        rows = np.arange(len(self.K)) if rows is None else rows
        groups = self.cell * FOLDS + self.fold
        accumulator = Accumulator(no_rows(self.K.shape[1]))
        for part in np.array_split(rows, 2):
            part = part[np.argsort(groups[part], kind="stable")]
            w = self.w[part] if weights else None
            accumulator.add(
                self.K[part].copy(), groups[part], self.levels[part], self.values[part], w
            )
        log_weight = float(np.log(self.w[rows]).sum()) if weights else 0.0
        accumulator.note(log_weight, int(rows[0]), self.K[rows[0]])
        return accumulator.finish()


def check_pool(rows, chosen, pooled):
    """Compare pooled moments with sums over the chosen rows."""
    K, w = rows.K[chosen], rows.w[chosen]
    mean = w @ K / w.sum()
    scatter = (K - mean).T @ (w[:, None] * (K - mean))
    assert pooled.rows == chosen.sum()
    np.testing.assert_allclose(pooled.weight, w.sum())
    np.testing.assert_allclose(kish(pooled.weight, pooled.weight2), w.sum() ** 2 / (w @ w))
    np.testing.assert_allclose(pooled.mean, mean, atol=1e-12)
    np.testing.assert_allclose(pooled.cov, scatter / w.sum(), atol=1e-12)
    for j, stats in enumerate(pooled.levels):
        for h in range(SIZES[j]):
            at = chosen & (rows.levels[:, j] == h)
            assert stats.rows[h] == at.sum()
            np.testing.assert_allclose(stats.weight[h], rows.w[at].sum(), atol=1e-12)
            np.testing.assert_allclose(stats.weight2[h], (rows.w[at] ** 2).sum(), atol=1e-12)
            if at.any():
                expected = rows.w[at] @ rows.K[at] / rows.w[at].sum()
                np.testing.assert_allclose(stats.mean[h], expected, atol=1e-12)
    for v, stats in enumerate(pooled.columns):
        at = chosen & np.isfinite(rows.values[:, v])
        value, w, K = rows.values[at, v], rows.w[at], rows.K[at]
        value = value - w @ value / w.sum()
        assert stats.rows == at.sum()
        np.testing.assert_allclose(stats.mean, w @ rows.values[at, v] / w.sum(), atol=1e-12)
        np.testing.assert_allclose(stats.square, w @ value**2, atol=1e-11)
        np.testing.assert_allclose(stats.cross, (w * value) @ K, atol=1e-11)


@given(st.integers(0, 2**32 - 1))
def test_pooled_moments_equal_sums_over_rows(seed):
    rows = Rows(seed)
    moments = rows.moments()
    check_pool(rows, np.ones(len(rows.K), bool), moments.pool())
    for cell in range(CELLS):
        check_pool(rows, rows.cell == cell, moments.pool(cell=cell))
    mask = np.array([True, False, True])
    check_pool(rows, mask[rows.fold], moments.pool(folds=mask))
    check_pool(rows, (rows.cell == 1) & mask[rows.fold], moments.pool(cell=1, folds=mask))


def test_no_weights_are_weights_of_one():
    rows = Rows(0)
    rows.w = np.ones(len(rows.K))
    a, b = rows.moments().pool(), rows.moments(weights=False).pool()
    np.testing.assert_allclose(a.scatter, b.scatter, rtol=1e-13)
    assert (a.weight, a.rows) == (b.weight, b.rows)


def test_a_large_offset_costs_no_digits():
    near, far = Rows(1), Rows(1, offset=1e6)
    expected, found = near.moments().pool(), far.moments().pool()
    # Plain sums of squares would be off by 1e-4 here.
    np.testing.assert_allclose(found.cov, expected.cov, atol=1e-9)
    np.testing.assert_allclose(found.columns[0].cross, expected.columns[0].cross, atol=1e-8)


def test_addition_is_that_of_the_rows():
    rows = Rows(2)
    half = np.arange(40) < 17
    both = rows.moments(np.flatnonzero(half)) + rows.moments(np.flatnonzero(~half))
    check_pool(rows, np.ones(40, bool), both.pool())
    assert both.first_index == 0
    np.testing.assert_array_equal(both.first_row, rows.K[0])


def test_the_lower_first_row_wins_on_either_side():
    rows = Rows(3)
    early, late = rows.moments(np.arange(20)), rows.moments(np.arange(20, 40))
    for merged in (early + late, late + early):
        assert merged.first_index == 0
        np.testing.assert_array_equal(merged.first_row, rows.K[0])


def test_bringing_groups_together_keeps_the_rows():
    rows = Rows(7)
    moments = rows.moments()
    every = np.ones(40, bool)
    check_pool(rows, every, moments.over_cells().pool())
    check_pool(rows, every, moments.over_folds().pool())
    mask = np.array([True, False, True])
    check_pool(rows, mask[rows.fold], moments.over_cells().pool(folds=mask))
    check_pool(rows, rows.cell == 1, moments.over_folds().pool(cell=1))
    for part in (moments.over_cells(), moments.over_folds()):
        assert part.sum_log_weight == pytest.approx(np.log(rows.w).sum())


def test_projection_is_that_of_the_rows():
    rows = Rows(4)
    basis = np.random.default_rng(0).normal(size=(4, 2))
    found = rows.moments().project(basis)
    rows.K = rows.K @ basis
    check_pool(rows, np.ones(40, bool), found.pool())
    np.testing.assert_allclose(found.first_row, rows.K[0])


def test_another_pilot_is_refused():
    rows = Rows(5)
    other = no_rows(4, "another")
    with pytest.raises(IncompatibleMomentsError, match="Call `prepare` once"):
        rows.moments() + other


def test_only_moments_add():
    with pytest.raises(TypeError):
        Rows(6).moments() + 1


def test_the_memory_estimate_is_the_memory():
    moments = Moments.empty(
        "pilot", n_cells=2, n_folds=5, level_sizes=(10, 3), n_numeric=2, n_columns=200
    )
    actual = sum(a.nbytes for a in vars(moments).values() if isinstance(a, np.ndarray))
    estimate = Moments.bytes_needed(n_cells=2, n_folds=5, n_levels=13, n_numeric=2, n_columns=200)
    assert estimate == pytest.approx(actual, rel=0.01)


def test_effective_size():
    assert kish(10.0, 10.0) == 10.0  # ten rows of weight one
    assert kish(10.0, 50.0) == 2.0  # two of five
    assert kish(0.0, 0.0) == 0.0


@pytest.mark.parametrize("n_blocks", [1, 3, 13])
def test_any_cut_into_blocks_gives_the_same_moments(n_blocks):
    rows, whole = Rows(8, n=60), None
    rows.values[:25, 1] = np.nan  # a variable that the first blocks know nothing of
    rows.values[:, 1] += 1e6  # and that has to be taken about its own mean all the same
    groups = rows.cell * FOLDS + rows.fold
    for parts in ([np.arange(60)], np.array_split(np.arange(60), n_blocks)):
        accumulator = Accumulator(no_rows(4))
        for part in parts:
            part = part[np.argsort(groups[part], kind="stable")]
            columns = accumulator.buffer(len(part))[:, :4]  # written in place, as the pass does
            columns[...] = rows.K[part]
            accumulator.add(
                columns, groups[part], rows.levels[part], rows.values[part], rows.w[part]
            )
        found = accumulator.finish().pool()
        whole = whole or found
    np.testing.assert_allclose(found.scatter, whole.scatter, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.columns[1].cross, whole.columns[1].cross, atol=1e-8)
    np.testing.assert_allclose(found.columns[1].square, whole.columns[1].square, rtol=1e-8)
    np.testing.assert_allclose(found.levels[0].mean, whole.levels[0].mean, atol=1e-12)


def test_finished_moments_go_on_where_they_were():
    rows = Rows(9)
    first, rest = np.arange(20), np.arange(20, 40)
    groups = rows.cell * FOLDS + rows.fold

    def add(accumulator, part):
        part = part[np.argsort(groups[part], kind="stable")]
        accumulator.add(rows.K[part], groups[part], rows.levels[part], rows.values[part], None)
        accumulator.settle()

    straight = Accumulator(no_rows(4))
    add(straight, first)
    resumed = Accumulator(straight.finish())  # what a checkpoint holds
    for one in (straight, resumed):
        add(one, rest)
    for name in ("scatter", "mean", "level_mean", "column_cross", "column_square", "level_weight2"):
        a, b = getattr(straight.finish(), name), getattr(resumed.finish(), name)
        np.testing.assert_array_equal(a, b, err_msg=name)
