"""Bounds for all functions of a space at once, from rows that were held out."""

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan.auditing.model_space import ASSUMPTIONS, _Block, held_out_bound
from fairspan.auditing.reading import Protected
from fairspan.method.subspaces import supremum

SEEDS = st.integers(0, 2**32 - 1)


def levels(codes, name="group"):
    labels = tuple(f"g{i}" for i in range(codes.max() + 1))
    return Protected(name, "categorical", codes.astype(np.intp), labels)


def rows(seed, d=3, r=3, n=300):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.repeat(np.arange(r), 30), rng.integers(0, r, n - 30 * r)])
    means = 0.5 * rng.normal(size=(r, d))
    Z = (means[codes] + rng.normal(size=(n, d))) @ rng.normal(size=(d, d)) + 5.0
    return Z, codes, rng.uniform(0.5, 3.0, n)


def one(Z, codes, weight=None, **options):
    weight = np.ones(len(Z)) if weight is None else weight
    (found,) = held_out_bound(Z, [levels(codes)], weight=weight, **options)
    return found


@given(SEEDS, st.integers(1, 4), st.integers(2, 5))
def test_supremum_is_the_canonical_correlation(seed, d, r):
    """Cosine of the smallest angle between the spans of Z and of the indicators, both centred."""
    Z, codes, weight = rows(seed, d, r)
    root = np.sqrt(weight)[:, None]
    indicators = (codes[:, None] == np.arange(1, r)).astype(float)
    centred = [root * (A - np.average(A, axis=0, weights=weight)) for A in (Z, indicators)]
    expected = np.cos(scipy.linalg.subspace_angles(*centred).min())
    found = one(Z, codes, weight)
    assert found.supremum == pytest.approx(expected, abs=1e-7)
    assert (found.n_rows, found.n_functions, found.n_codes) == (300, d, r)
    assert found.supremum <= found.bound <= 1.0


@given(SEEDS, st.integers(1, 4), st.integers(2, 5))
def test_supremum_is_that_of_the_certificate(seed, d, r):
    Z, codes, weight = rows(seed, d, r)
    share = weight / weight.sum()
    centred = Z - share @ Z
    mass = np.bincount(codes, share)
    means = np.stack([share[codes == i] @ centred[codes == i] / mass[i] for i in range(r)])
    expected, _ = supremum((centred.T * share) @ centred, (means * np.sqrt(mass)[:, None]).T)
    assert one(Z, codes, weight).supremum == pytest.approx(expected, abs=1e-9)


@given(SEEDS)
def test_one_function_and_two_levels_is_pearson(seed):
    Z, codes, _ = rows(seed, 1, 2)
    r, _ = scipy.stats.pearsonr(Z[:, 0], codes)
    assert one(Z, codes).supremum == pytest.approx(abs(r), abs=1e-10)


@given(SEEDS)
def test_one_function_is_the_root_of_eta_squared(seed):
    Z, codes, _ = rows(seed, 1, 4)
    F = scipy.stats.f_oneway(*(Z[codes == i, 0] for i in range(4))).statistic
    eta_squared = 3 * F / (3 * F + len(Z) - 4)
    assert one(Z, codes).supremum == pytest.approx(np.sqrt(eta_squared), abs=1e-10)


@given(SEEDS)
@settings(max_examples=25)
def test_weights_are_copies_in_the_supremum_and_not_in_the_bound(seed):
    Z, codes, _ = rows(seed)
    times = np.random.default_rng(seed).integers(1, 4, len(Z))
    at = np.repeat(np.arange(len(Z)), times)
    weighted, copied = one(Z, codes, times.astype(float)), one(Z[at], codes[at])
    assert weighted.supremum == pytest.approx(copied.supremum, abs=1e-9)
    assert weighted.bound > copied.bound  # copies pretend to be rows
    scaled = one(Z, codes, 7.0 * times)
    assert scaled.bound == pytest.approx(weighted.bound, abs=1e-6)


@given(SEEDS)
@settings(max_examples=20)
def test_only_the_space_matters_not_its_coordinates(seed):
    Z, codes, weight = rows(seed)
    rng = np.random.default_rng(seed)
    turned = Z @ (rng.normal(size=(3, 3)) + 3.0 * np.eye(3)) - 100.0
    wide = np.column_stack([Z, Z[:, 0] - 2.0 * Z[:, 2], np.full(len(Z), 3.0)])
    plain = one(Z, codes, weight)
    for other in (turned, wide):
        found = one(other, codes, weight)
        assert found.supremum == pytest.approx(plain.supremum, abs=1e-7)
        assert found.bound == pytest.approx(plain.bound, abs=1e-3)
        assert found.n_functions == 3


@pytest.mark.parametrize("n_clusters", [None, 150])
@given(seed=SEEDS)
@settings(max_examples=20)
def test_the_gradient_is_the_gradient(seed, n_clusters):
    Z, codes, weight = rows(seed)
    clusters = np.random.default_rng(seed).integers(0, n_clusters, len(Z)) if n_clusters else None
    block = _Block.of(Z, levels(codes), weight, "", 20, clusters)
    M = block._correlations()
    x = np.random.default_rng(seed).normal(size=sum(M.shape))
    expected = scipy.optimize.approx_fprime(x, lambda y: block._minus_limit(y, M, 2.0)[0], 1e-7)
    np.testing.assert_allclose(block._minus_limit(x, M, 2.0)[1], expected, atol=1e-5)


@given(SEEDS)
@settings(max_examples=10)
def test_no_pair_has_a_larger_limit(seed):
    """What the proof needs: the ascent finds the largest limit on Fisher's scale."""
    Z, codes, weight = rows(seed)
    found = one(Z, codes, weight)
    block = _Block.of(Z, levels(codes), weight, "", 30)
    M = block._correlations()
    factor = scipy.stats.norm.isf(0.05)
    pairs = np.random.default_rng(seed).normal(size=(500, sum(M.shape)))
    best = max(-block._minus_limit(x, M, factor)[0] for x in pairs)
    assert np.tanh(best) <= found.bound + 1e-6


def test_gaussian_pairs_get_fishers_limit():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 20000)
    Z = (0.2 * codes + rng.normal(size=20000))[:, None]
    found = one(Z, codes)
    expected = np.tanh(np.arctanh(found.supremum) + 1.645 / np.sqrt(20000))
    assert found.bound == pytest.approx(expected, abs=3e-4)


def test_more_rows_and_a_lower_level_tighten():
    Z, codes, _ = rows(0, n=4000)
    few, many = one(Z[:600], codes[:600], min_rows=2), one(Z, codes)
    assert few.bound - few.supremum > 1.5 * (many.bound - many.supremum)
    assert one(Z, codes, level=0.5).bound < one(Z, codes, level=0.99).bound


def test_every_block_costs_confidence():
    """Bonferroni: each bound of two is that of one at half the chance of error."""
    Z, codes, weight = rows(1)
    other = levels((np.arange(len(Z)) % 2), "other")
    both = held_out_bound(Z, [levels(codes), other], weight=weight)
    assert [b.attribute for b in both] == ["group", "other"]
    assert both[0].bound == pytest.approx(one(Z, codes, weight, level=0.975).bound, abs=1e-12)
    assert both[0].level == 0.95


def test_cells_are_apart_and_rows_outside_do_not_count():
    Z, codes, weight = rows(2, n=900)
    cells = np.arange(900) % 3
    found = held_out_bound(
        Z, [levels(codes)], cells=cells, cell_names=("no", "yes"), weight=weight, min_rows=5
    )
    assert [b.cell for b in found] == ["no", "yes"]
    for i, block in enumerate(found):
        mine = cells == i
        alone = one(Z[mine], codes[mine], weight[mine], level=0.975, min_rows=5)
        assert block.supremum == pytest.approx(alone.supremum, abs=1e-12)
        assert block.bound == pytest.approx(alone.bound, abs=1e-12)
        assert block.n_rows == 300


def test_slices_of_a_number():
    rng = np.random.default_rng(3)
    values = rng.normal(size=500)
    codes = np.searchsorted([-0.5, 0.5], values).astype(np.intp)
    Z = (values**2 + rng.normal(size=500))[:, None]
    attribute = Protected("age", "continuous", codes, ("low", "mid", "high"), values)
    (found,) = held_out_bound(Z, [attribute], weight=np.ones(500))
    assert found.supremum == pytest.approx(one(Z, codes).supremum, abs=1e-12)
    assert found.supremum > 0.3


def test_small_levels_are_left_out_and_named():
    Z, codes, weight = rows(4)
    more = np.concatenate([codes, np.full(10, 3)])
    rng = np.random.default_rng(4)
    wide = np.vstack([Z, 50.0 + rng.normal(size=(10, 3))])
    found = one(wide, more, np.concatenate([weight, np.ones(10)]))
    plain = one(Z, codes, weight)
    assert "g3" in found.note
    assert "g2" not in found.note
    assert (found.n_rows, found.n_codes) == (300, 3)
    assert found.bound == pytest.approx(plain.bound, abs=1e-12)


def test_blocks_without_an_answer_cost_nothing():
    Z, codes, weight = rows(5)
    alone = levels(np.zeros(len(Z), dtype=int), "alone")
    nothing, found = held_out_bound(Z, [alone, levels(codes)], weight=weight)
    assert np.isnan([nothing.supremum, nothing.bound]).all()
    assert "fewer than two levels" in nothing.note
    assert found.bound == pytest.approx(one(Z, codes, weight).bound, abs=1e-12)
    constant = one(np.full((300, 2), 7.0), codes)
    assert np.isnan(constant.bound)
    assert "no function varies" in constant.note


def test_an_empty_cell():
    Z, codes, weight = rows(6)
    cells = np.zeros(len(Z), dtype=np.intp)
    found = held_out_bound(
        Z, [levels(codes)], cells=cells, cell_names=("all", "none"), weight=weight
    )
    assert np.isfinite(found[0].bound)
    assert np.isnan(found[1].bound)
    assert found[1].n_rows == 0


def test_a_copy_of_the_codes_is_bounded_by_one():
    codes = np.arange(200) % 2
    found = one(codes[:, None].astype(float), codes)
    assert found.supremum == found.bound == 1.0


def test_many_functions_are_said_to_be_many():
    rng = np.random.default_rng(7)
    codes = rng.integers(0, 2, 300)
    found = one(rng.normal(size=(300, 60)), codes)
    assert "few rows" in found.note
    assert found.bound < 1.0
    assert one(rng.normal(size=(300, 1)), codes).note == ""


def test_assumptions_are_in_words():
    for said in ("no part in the fit", "independently", "means of groups", "approximate"):
        assert said in ASSUMPTIONS


def test_the_ascent_leaves_the_leading_pair_for_a_less_certain_one():
    """One function follows S a little; another spreads so much in a rare group that it may do so."""
    rng = np.random.default_rng(8)
    codes = (np.arange(1000) % 20 == 0).astype(int)
    Z = rng.normal(size=(1000, 2))
    Z[:, 1] *= np.where(codes == 1, 8.0, 1.0)
    Z -= np.where(codes[:, None] == 1, Z[codes == 1].mean(axis=0), Z[codes == 0].mean(axis=0))
    Z[:, 0] += 0.2 * codes
    sure, both = one(Z[:, :1], codes), one(Z, codes)
    assert both.supremum == pytest.approx(sure.supremum, abs=2e-3)
    assert both.bound > one(Z[:, 1:], codes).bound - 1e-6
    assert both.bound > sure.bound + 0.02


def test_uneven_weights_are_fewer_rows():
    rng = np.random.default_rng(9)
    codes = np.arange(2000) % 2
    Z = rng.normal(size=(2000, 1))
    even, uneven = one(Z, codes), one(Z, codes, np.where(rng.random(2000) < 0.1, 100.0, 1.0))
    assert uneven.bound - uneven.supremum > 2.0 * (even.bound - even.supremum)
