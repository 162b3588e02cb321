"""Distance correlation, tests of independence and Holm's adjustment."""

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from tests.statistical.auditing_dependence import attribute

from fairspan.auditing import independence as _blocks
from fairspan.auditing.independence import (
    gamma_p_value,
    holm,
    independence_test,
    permutation_skew,
    permuted_sums,
    product,
    similarity,
    u_centred,
)
from fairspan.auditing.scores import distance_correlation

SEEDS = st.integers(0, 2**32 - 1)
STATISTICS = ("hsic", "dcor")


def run(f, s, *, weight=None, seed=0, **options):
    weight = np.ones(len(s)) if weight is None else weight
    rng = np.random.default_rng(seed)
    return independence_test(f, attribute(s), weight=weight, rng=rng, **options)


def draw(seed, n=30, d=1, levels=0):
    """f (n, d) and s, levels or numbers, somewhat dependent."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, levels, n) if levels else rng.normal(size=n)
    return rng.normal(size=(n, d)) + 0.5 * s[:, None], s


def spread(v):
    return (v - v.mean(axis=0)) / v.std(axis=0)


# ---- the statistic


@given(SEEDS, st.integers(4, 40), st.integers(1, 3))
def test_a_u_centred_matrix_has_no_diagonal_and_no_row_sums(seed, n, d):
    f, _ = draw(seed, n, d)
    for width in (0.0, 1.0):
        m = u_centred(similarity(f, width))
        assert np.allclose(m.sum(axis=0), 0.0, atol=1e-10)
        assert not np.diag(m).any()


def four_sums(k, h):
    """Unbiased HSIC by its definition: expectations over distinct rows replaced by averages."""
    n = len(k)
    pairs = np.mean([k[i, j] * h[i, j] for i, j in itertools.permutations(range(n), 2)])
    four = list(itertools.permutations(range(n), 4))
    apart = np.mean([k[i, j] * h[p, q] for i, j, p, q in four])
    three = itertools.permutations(range(n), 3)
    touching = np.mean([k[i, j] * h[i, q] for i, j, q in three])
    return pairs + apart - 2.0 * touching


@pytest.mark.parametrize("levels", [0, 3])
@pytest.mark.parametrize("width", [0.0, 0.8])
def test_the_product_is_the_unbiased_hsic_of_its_definition(levels, width):
    f, s = draw(3, n=9, levels=levels)
    k = similarity(f, width)
    h = similarity(s if levels else s[:, None], width)
    assert product(u_centred(k), u_centred(h)).fs == pytest.approx(four_sums(k, h), abs=1e-12)


@pytest.mark.parametrize("statistic", STATISTICS)
@given(seed=SEEDS, levels=st.sampled_from([0, 2, 5]))
def test_the_statistic_is_at_most_one_and_ignores_shift_and_scale(statistic, seed, levels):
    f, s = draw(seed, levels=levels)
    found = run(f, s, statistic=statistic, n_permutations=1)
    moved = run(3.0 - 40.0 * f, s, statistic=statistic, n_permutations=1)
    assert abs(found.statistic) <= 1.0 + 1e-12
    assert moved.statistic == pytest.approx(found.statistic, abs=1e-9)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_score_that_is_the_attribute_has_statistic_one(statistic):
    s = np.random.default_rng(0).normal(size=200)
    found = run(5.0 * s, s, statistic=statistic)
    assert found.statistic == pytest.approx(1.0)
    assert found.p_value == 1 / 500


# ---- what permutations do to it


@pytest.mark.parametrize("n", [4, 5, 6, 7])
@pytest.mark.parametrize("levels", [0, 2])
def test_moments_over_all_permutations_are_those_of_the_formulas(n, levels):
    f, s = draw(n, n=n, levels=levels)
    if levels:
        s[:4] = [0, 0, 1, 1]
    a = u_centred(similarity(f, 1.0))
    b = u_centred(similarity(s if levels else s[:, None], 0.0))
    orders = map(list, itertools.permutations(range(n)))
    values = np.array([np.vdot(a, b[p][:, p]) for p in orders]) / (n * (n - 3))
    found = product(a, b)
    assert values.mean() == pytest.approx(0.0, abs=1e-12)
    assert found.variance == pytest.approx(values.var(), rel=1e-8)
    assert permutation_skew(a, b) == pytest.approx(scipy.stats.skew(values), rel=1e-6, abs=1e-8)


@given(SEEDS, st.integers(4, 150), st.sampled_from([0, 2, 5, 40]))
def test_permuted_sums_are_sums_over_permuted_rows(seed, n, levels):
    f, s = draw(seed, n, levels=levels)
    rng = np.random.default_rng(seed)
    orders = np.stack([rng.permutation(n) for _ in range(3)])
    a = u_centred(similarity(f, 1.0))
    b = similarity(s if levels else s[:, None], 0.0)
    expected = [np.vdot(a, b[p][:, p]) for p in orders]
    found = permuted_sums(a, b, s if levels else None, orders)
    assert found == pytest.approx(expected, abs=1e-5 * n)


@pytest.mark.parametrize("levels", [0, 3])
def test_the_p_value_is_the_share_of_all_orders_when_many_are_drawn(levels):
    f, s = draw(6, n=6, levels=levels)
    if levels:
        s[:] = [0, 0, 1, 1, 2, 2]
    a = u_centred(similarity(spread(f), 0.0))
    b = u_centred(similarity(s if levels else spread(s[:, None]), 0.0))
    sums = np.array([np.vdot(a, b[p][:, p]) for p in map(list, itertools.permutations(range(6)))])
    share = np.mean(sums >= np.vdot(a, b) - 1e-9)
    p = run(f, s, statistic="dcor", n_permutations=8000).p_value
    assert p == pytest.approx(share, abs=0.025)


def test_strata_are_permuted_separately_and_weighted_by_their_rows():
    y = np.repeat([0, 1], [4, 6])
    f, s = (spread(v) for v in draw(31, n=10))  # equal weights would say .05, not .35
    null, observed = np.zeros(1), 0.0
    for k in (0, 1):
        a = u_centred(similarity(f[y == k], 0.0))
        b = u_centred(similarity(s[y == k, None], 0.0))
        orders = map(list, itertools.permutations(range(len(a))))
        sums = np.array([np.vdot(a, b[p][:, p]) for p in orders]) / (len(a) - 3)
        null = np.add.outer(null, sums).ravel()
        observed += np.vdot(a, b) / (len(a) - 3)
    share = np.mean(null >= observed - 1e-9)
    assert 0.05 < share < 0.95
    found = run(f, s, statistic="dcor", given=y, n_permutations=8000)
    assert found.p_value == pytest.approx(share, abs=0.025)


def test_strata_are_compared_only_inside_and_add_up_by_their_rows():
    parts = [draw(1, n=40), draw(2, n=25)]
    y = np.repeat([0, 1], [40, 25])
    f = np.concatenate([parts[0][0], parts[1][0] + 9.0])
    s = np.concatenate([parts[0][1], parts[1][1] - 5.0])
    f, s = spread(f), spread(s)
    found = run(f, s, statistic="dcor", given=y)
    fs, ff, ss = np.sum(
        [
            [sum(y == k) * v for v in (p.fs, p.ff, p.ss)]
            for k in (0, 1)
            for p in [
                product(
                    u_centred(similarity(f[y == k], 0.0)),
                    u_centred(similarity(s[y == k, None], 0.0)),
                )
            ]
        ],
        axis=0,
    )
    assert found.statistic == pytest.approx(fs / np.sqrt(ff * ss), rel=1e-9)
    assert found.n_blocks == 2


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("max_rows", [1000, 100])
def test_f_that_depends_on_s_through_y_only(statistic, max_rows):
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2, 900)
    f, s = rng.normal(size=900) + 2.0 * y, rng.normal(size=900) + y
    options = {"statistic": statistic, "max_rows": max_rows}
    assert run(f, s, **options).p_value < 0.01
    assert run(f, s, given=y, **options).p_value > 0.05


# ---- blocks


@pytest.mark.parametrize("skew", [0.0, 0.3, 1.0, 2.8])
def test_the_gamma_tail_is_pearsons_third(skew):
    for z in (-9.0, -1.0, 0.0, 1.6, 4.0):
        expected = scipy.stats.pearson3.sf(z, skew)
        assert gamma_p_value(z, skew) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("levels", [0, 3])
def test_blocks_and_permutations_agree(statistic, levels):
    f, s = draw(11, n=600, levels=levels)
    rng = np.random.default_rng(0)
    f = f * 0.15 + rng.normal(size=f.shape)
    whole = run(f, s, statistic=statistic)
    cut = run(f, s, statistic=statistic, max_rows=599)
    assert (whole.method, whole.n_blocks) == ("permutation", 1)
    assert (cut.method, cut.n_blocks, cut.n_rows) == ("blocks", 2, 600)
    assert cut.statistic == pytest.approx(whole.statistic, abs=0.01)


@pytest.mark.parametrize("levels", [0, 2])
def test_one_block_has_the_p_value_of_its_permutations(levels):
    f, s = draw(4, n=120, levels=levels)
    f = f * 0.3 + np.random.default_rng(1).normal(size=f.shape)
    rows = [np.arange(120)]
    rng = np.random.default_rng(0)
    side = s if levels else s[:, None]
    _, exact = _blocks.permutation_test(f, side, rows, "hsic", 4000, rng)
    _, gamma = _blocks.block_test(f, side, rows, "hsic", 1000, rng)
    assert 0.005 < exact < 0.5  # a case that tells them apart
    assert gamma == pytest.approx(exact, abs=0.02)


def test_blocks_stay_inside_strata_and_cover_all_rows():
    f, s = draw(8, n=700)
    y = np.repeat([0, 1, 2], [500, 197, 3])
    found = run(f, s, given=y, max_rows=100)
    assert (found.n_rows, found.n_blocks) == (697, 5 + 2)
    assert "1 strata" in found.note


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("max_rows", [1000, 100])
def test_dependence_without_correlation_is_found(statistic, max_rows):
    rng = np.random.default_rng(3)
    s = rng.normal(size=1000)
    group = rng.integers(0, 2, 1000)
    options = {"statistic": statistic, "max_rows": max_rows}
    assert run(s**2 + 0.5 * rng.normal(size=1000), s, **options).p_value < 0.01
    assert run(rng.normal(size=1000) * (1 + 3 * group), group, **options).p_value < 0.01


# ---- weights, seeds, bad cases


def test_weights_keep_rows_in_proportion_and_equal_ones_keep_all():
    f, s = draw(0, n=4000)
    weight = np.where(np.arange(4000) < 2000, 1.0, 3.0)
    assert run(f, s, weight=weight).n_rows == pytest.approx(2000 / 3 + 2000, abs=100)
    assert run(f, s, weight=np.full(4000, 7.0)) == run(f, s)


@pytest.mark.parametrize("max_rows", [1000, 100])
def test_the_same_seed_gives_the_same_result(max_rows):
    f, s = draw(0, n=300)
    weight = np.linspace(0.5, 1.0, 300)
    results = [run(f, s, weight=weight, max_rows=max_rows, seed=k) for k in (4, 4, 5)]
    assert results[0] == results[1] != results[2]


@pytest.mark.parametrize("max_rows", [1000, 20])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_nothing_to_test_is_nan_with_a_note(statistic, max_rows):
    f, s = draw(0, n=50)
    options = {"statistic": statistic, "max_rows": max_rows}
    constant = run(np.full(50, 0.1), s, **options)
    assert constant.statistic == 0.0
    one_level = run(f, np.zeros(50, dtype=int), **options)
    same = run(f, np.full(50, 0.3), **options)
    y = np.arange(50) % 2
    decided = run(f, y, given=y, **options)  # one level in each stratum
    crossed = run(np.where(y == 0, 1.0, f[:, 0]), np.where(y == 1, 2.0, s), given=y, **options)
    single = run(f, np.eye(50, dtype=int)[7], **options)  # one row against all others
    few = run(f, s, given=np.arange(50) // 3, **options)
    for found in (constant, one_level, same, decided, crossed, single, few):
        assert np.isnan(found.p_value)
        assert found.note
    assert np.isnan([one_level.statistic, same.statistic, decided.statistic]).all()
    assert few.n_rows == 0


def test_extreme_numbers_and_ties_make_no_warning():
    s = np.repeat([0, 1], 30)
    f = np.concatenate([np.full(57, 1e300), np.full(3, -1e300)])
    assert 0.0 < run(f, s).p_value <= 1.0
    ties = np.concatenate([np.zeros(55), np.ones(5)])
    assert run(ties, s).p_value < 0.2


def test_the_width_of_a_kernel_is_the_median_distance_of_rows_that_differ():
    values = np.concatenate([np.zeros(90), [1.0, 2.0, 4.0]])[:, None]
    gaps = [abs(a - b) for a, b in itertools.combinations(values[:, 0], 2) if a != b]
    assert _blocks._width(values, "hsic") == np.median(gaps)
    assert _blocks._width(np.zeros((9, 1)), "hsic") > 0.0


def test_an_unknown_statistic_is_an_error():
    with pytest.raises(ValueError, match="statistic must be"):
        run(*draw(0), statistic="corr")


# ---- distance correlation


def by_definition(f, s, weight):
    """V-statistic of all pairs, with weights."""
    p = weight / weight.sum()
    centred = []
    for v in (f.reshape(len(s), -1), s[:, None]):
        m = np.linalg.norm(v[:, None] - v, axis=2)
        centred.append(m - m @ p - (m @ p)[:, None] + p @ m @ p)
    a, b = centred
    ab, aa, bb = (p @ (u * v) @ p for u, v in ((a, b), (a, a), (b, b)))
    return np.sqrt(ab / np.sqrt(aa * bb))


@given(SEEDS, st.integers(2, 70), st.sampled_from([1, 3]), st.booleans(), st.booleans())
def test_distance_correlation_is_that_of_its_definition(seed, n, d, weighted, ties):
    f, s = draw(seed, n, d)
    if ties:
        f, s = np.round(f), np.round(s)
        f[0], s[0], f[1], s[1] = 0.0, 0.0, 1.0, 1.0
    f = f * np.array([1.0, 10.0, 0.1])[:d] + 4.0
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.1, 3.0, n) if weighted else np.ones(n)
    found = distance_correlation(f if d > 1 else f[:, 0], s, weight)
    assert found**2 == pytest.approx(by_definition(f, s, weight) ** 2, abs=1e-7)


@given(SEEDS, st.sampled_from([1, 2]))
def test_weight_k_is_k_copies(seed, d):
    f, s = draw(seed, n=25, d=d)
    copies = np.random.default_rng(seed).integers(1, 4, 25)
    rows = np.repeat(np.arange(25), copies)
    once = distance_correlation(f, s, copies.astype(float))
    repeated = distance_correlation(f[rows], s[rows], np.ones(len(rows)))
    assert once == pytest.approx(repeated, abs=1e-7)


def test_of_many_rows_with_several_columns_some_are_drawn_and_the_answer_is_close():
    f, s = draw(9, n=4000)
    ones = np.ones(4000)
    wide = np.repeat(f, 2, axis=1)  # distances times sqrt(2): the same correlation
    found = distance_correlation(wide, s, ones)
    assert found == distance_correlation(wide, s, ones)
    assert found != distance_correlation(wide, s, ones, np.random.default_rng(1))
    assert found == pytest.approx(distance_correlation(f, s, ones), abs=0.05)


def test_constants_have_no_distance_correlation():
    s = np.arange(20.0)
    ones = np.ones(20)
    assert distance_correlation(ones, s, ones) == 0.0
    assert np.isnan(distance_correlation(s, ones, ones))


# ---- Holm


def test_holm_by_hand():
    # Sorted .01 .02 .03 .04 times 4 3 2 1: .04 .06 .06 .04, then the running maximum.
    assert holm(np.array([0.03, 0.01, np.nan, 0.04, 0.02])) == pytest.approx(
        [0.06, 0.04, np.nan, 0.06, 0.06], nan_ok=True
    )
    assert holm(np.array([0.9, 0.8])) == pytest.approx([1.0, 1.0])
    assert np.isnan(holm(np.array([np.nan]))).all()
    assert len(holm(np.zeros(0))) == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.999))
def test_holm_rejects_what_the_step_down_procedure_rejects(p, alpha):
    p = np.array(p)
    adjusted = holm(p)
    rejected = set()
    for rank, i in enumerate(np.argsort(p, kind="stable")):
        if p[i] * (len(p) - rank) > alpha:
            break
        rejected.add(i)
    assert set(np.flatnonzero(adjusted <= alpha)) == rejected
    assert (adjusted >= p).all()


def test_the_skew_of_some_blocks_serves_for_all(monkeypatch, rng):
    f, s = rng.normal(size=(600, 1)), rng.normal(size=(600, 1))

    def test(blocks):
        monkeypatch.setattr(_blocks, "_SKEW_BLOCKS", blocks)
        strata = [np.arange(600)]
        return _blocks.block_test(f, s, strata, "hsic", 40, np.random.default_rng(0))

    (products, p), (same, q) = test(10**6), test(2)
    assert len(products) >= 10
    assert products == same
    assert p == pytest.approx(q, abs=0.05)
    assert 0.01 < q < 0.99
