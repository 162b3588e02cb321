"""The component of a score that follows a protected attribute most."""

from itertools import combinations

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan.auditing import proxy as _proxy
from fairspan.auditing.proxy import _Case, proxy_component
from fairspan.auditing.reading import Protected

SEEDS = st.integers(0, 2**32 - 1)


def number(values):
    codes = np.searchsorted(np.quantile(values, [0.25, 0.5, 0.75]), values).astype(np.intp)
    return Protected("age", "continuous", codes, tuple("abcd"), values)


def levels(codes):
    labels = tuple(f"g{i}" for i in range(codes.max() + 1))
    return Protected("group", "categorical", codes.astype(np.intp), labels)


def search(Z, beta, protected, weight=None, seed=0, n_boot=5, **options):
    weight = np.ones(len(Z)) if weight is None else weight
    names = [f"z{i}" for i in range(Z.shape[1])]
    rng = np.random.default_rng(seed)
    return proxy_component(
        Z, beta, protected, names, weight=weight, rng=rng, n_boot=n_boot, **options
    )


def correlate(a, b, weight):
    a, b = a - np.average(a, weights=weight), b - np.average(b, weights=weight)
    bottom = np.sqrt(np.average(a**2, weights=weight) * np.average(b**2, weights=weight))
    return np.average(a * b, weights=weight) / bottom


def by_enumeration(A, s, weight):
    """The projection on a cone is the projection on the span of one of its faces."""
    root = np.sqrt(weight)[:, None]
    A = root * (A - np.average(A, axis=0, weights=weight))
    s = root[:, 0] * (s - np.average(s, weights=weight))
    best = 0.0
    for side in (1.0, -1.0):
        for size in range(1, A.shape[1] + 1):
            for face in combinations(range(A.shape[1]), size):
                c = np.linalg.lstsq(A[:, face], side * s)[0]
                if (c > 0.0).all():
                    part = A[:, face] @ c
                    best = max(best, part @ (side * s) / np.linalg.norm(part) / np.linalg.norm(s))
    return best


def small(seed, d=4, n=40):
    """Few rows, correlated coordinates, S that partly follows them."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)
    s = Z @ rng.normal(size=d) + 2.0 * rng.normal(size=n)
    return Z, rng.normal(size=d), s, rng.uniform(0.5, 3.0, n)


@given(SEEDS, st.integers(1, 4))
def test_equals_the_enumeration_of_all_faces(seed, d):
    Z, beta, s, weight = small(seed, d)
    found = search(Z, beta, number(s), weight)
    assert abs(found.correlation) == pytest.approx(by_enumeration(Z * beta, s, weight), abs=1e-10)


@given(SEEDS, st.integers(1, 4))
def test_the_numbers_are_those_of_the_component(seed, d):
    Z, beta, s, weight = small(seed, d)
    found = search(Z, beta, number(s), weight)
    c, f = found.coefficients, Z @ beta
    part = Z @ (c * beta)
    assert c.min() >= 0.0
    assert c.max() == pytest.approx(1.0)
    assert found.correlation == pytest.approx(correlate(part, s, weight), abs=1e-9)
    share = np.cov(part, aweights=weight) / np.cov(f, aweights=weight)
    assert found.variance_share == pytest.approx(share, rel=1e-6)
    size = c * np.abs(beta) * np.sqrt(np.average((Z - Z.mean(0)) ** 2, axis=0, weights=weight))
    assert set(found.names) == {f"z{i}" for i in np.flatnonzero(size)}
    assert size[int(found.names[0][1])] >= 0.8 * size.max()


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # SLSQP of older scipy
@settings(max_examples=15)
@given(SEEDS)
def test_no_component_of_a_fine_search_is_better(seed):
    Z, beta, s, weight = small(seed, d=3)
    found = abs(search(Z, beta, number(s), weight).correlation)
    grid = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 15)] * 3), axis=-1).reshape(-1, 3)[1:]
    share = weight / weight.sum()
    A, t = (Z - share @ Z) * beta, s - share @ s
    parts = A @ grid.T
    tops, bottoms = (share * t) @ parts, np.sqrt((share @ parts**2) * (share @ t**2))
    assert np.max(np.abs(tops) / bottoms) <= found + 1e-12
    for c in grid[np.argsort(-np.abs(tops) / bottoms)[:3]]:
        refined = scipy.optimize.minimize(
            lambda c: -abs(correlate(A @ c, t, weight)),
            np.maximum(c, 1e-3),
            bounds=[(1e-9, 1.0)] * 3,
            method="SLSQP",
        )
        assert -refined.fun <= found + 1e-9


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # SLSQP of older scipy
@given(SEEDS, st.floats(0.02, 0.9))
@settings(max_examples=25)
def test_the_best_component_of_a_share_is_the_best(seed, least):
    """Convex after all: no start of a local search, and no random c, finds a better one."""
    Z, beta, s, _ = small(seed, d=3)
    beta = beta * [1e-2, 1.0, 1.0]
    A = Z - Z.mean(axis=0)
    spread = np.linalg.norm(A, axis=0)
    s = s - s.mean()
    case = _Case(np.sign(beta) * A / spread, s / np.linalg.norm(s), np.abs(beta) * spread)
    plain = case.closest()
    if case.share(plain) >= least:
        return
    u, bound = case.closest_of_share(least)
    best = bound if u is None else case.cosine(u)
    if u is not None:
        assert case.share(u) == pytest.approx(least, rel=1e-6)
        assert (u >= 0.0).all()
        assert (u <= case.size * (1.0 + 1e-9)).all()
        assert best <= case.cosine(plain) + 1e-12
    rng = np.random.default_rng(seed)
    draws = case.size * rng.random((500, 3)) ** rng.choice([0.1, 1.0, 10.0], (500, 3))
    values = [case.cosine(draw) for draw in draws if case.share(draw) >= least]
    assert max(values, default=-1.0) <= best + 1e-9
    for draw in draws[:5]:
        local = scipy.optimize.minimize(
            lambda c: -case.cosine(c * case.size),
            draw / case.size,
            bounds=[(0.0, 1.0)] * 3,
            constraints={"type": "ineq", "fun": lambda c: case.share(c * case.size) - least},
            method="SLSQP",
        )
        c = local.x.clip(0.0, 1.0) * case.size
        if case.share(c) >= least * (1.0 - 1e-9):
            assert case.cosine(c) <= best + 1e-6


@given(SEEDS, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
@settings(max_examples=40)
def test_scales_do_not_matter_and_signs_mirror(seed, by_beta, by_s):
    Z, beta, s, weight = small(seed)
    plain = search(Z, beta, number(s), weight)
    scaled = search(Z, by_beta * beta, number(by_s * s), weight)
    mirrored = search(Z, beta, number(-s), weight)
    both = search(Z, -beta, number(-s), weight)
    for other, sign in ((scaled, 1.0), (mirrored, -1.0), (both, 1.0)):
        assert other.correlation == pytest.approx(sign * plain.correlation, abs=1e-9)
    np.testing.assert_allclose(scaled.coefficients, plain.coefficients, atol=1e-7)
    np.testing.assert_allclose(mirrored.coefficients, plain.coefficients, atol=1e-7)
    if np.abs(plain.correlation - mirrored.correlation) > 1e-6:
        assert np.sign(both.correlation) == np.sign(plain.correlation)


@given(SEEDS)
def test_weights_are_copies(seed):
    Z, beta, s, _ = small(seed)
    times = np.random.default_rng(seed).integers(1, 4, len(Z))
    weighted = search(Z, beta, number(s), times.astype(float))
    rows = np.repeat(np.arange(len(Z)), times)
    copied = search(Z[rows], beta, number(s[rows]))
    assert weighted.correlation == pytest.approx(copied.correlation, abs=1e-10)
    assert weighted.variance_share == pytest.approx(copied.variance_share, rel=1e-7)
    np.testing.assert_allclose(weighted.coefficients, copied.coefficients, atol=1e-7)


@given(SEEDS)
def test_no_less_than_the_score_itself(seed):
    Z, beta, s, weight = small(seed)
    whole = abs(correlate(Z @ beta, s, weight))
    assert abs(search(Z, beta, number(s), weight).correlation) >= whole - 1e-12


def masked(n=4000, seed=0):
    """Z0 follows S, Z1 follows it as much with the other sign: the sum does not."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    Z = np.column_stack([s + 0.5 * rng.normal(size=n), s + 0.5 * rng.normal(size=n)])
    return np.column_stack([Z, rng.normal(size=n)]), np.array([1.0, -1.0, 1.0]), s


def test_a_masked_proxy_is_found():
    Z, beta, s = masked(seed=1)
    found = search(Z, beta, levels(s), n_boot=100)
    assert abs(correlate(Z @ beta, s, np.ones(len(s)))) < 0.05
    truth = np.sqrt(0.5)  # sd of S is 0.5, of the noise too
    assert abs(found.correlation) == pytest.approx(truth, abs=0.03)
    assert found.level == ""
    assert found.names[0] in ("z0", "z1")
    assert not found.negligible
    assert found.material is None
    assert found.low < truth * np.sign(found.correlation) < found.high
    assert 0.02 < found.high - found.low < 0.06


def test_the_worst_level_and_output_count():
    rng = np.random.default_rng(1)
    s = rng.integers(0, 3, 900)
    Z = np.column_stack([rng.normal(size=900), (s == 2) + rng.normal(size=900)])
    found = search(Z, np.array([[1.0, 0.5], [0.0, -0.2]]), levels(s))
    assert (found.level, found.output) == ("g2", 1)
    assert found.correlation < -0.3
    assert found.names[0] == "z1"
    alone = search(Z, np.array([0.5, -0.2]), levels(s))
    assert alone.correlation == pytest.approx(found.correlation, abs=1e-12)


def test_a_negligible_proxy_does_not_hide_a_material_one():
    rng = np.random.default_rng(2)
    s = rng.integers(0, 2, 2000)
    Z = np.column_stack([s, s + 0.5 * rng.normal(size=2000), rng.normal(size=2000)])
    found = search(Z, np.array([1e-4, 1.0, 1.0]), levels(s))
    assert found.negligible
    assert found.correlation > 0.999
    assert found.names[0] == "z0"
    material = found.material
    assert material is not None
    assert not material.negligible
    assert 0.65 < material.correlation < 0.75
    assert material.names[0] == "z1"
    assert material.held_out == pytest.approx(material.correlation, abs=0.03)


def test_what_is_not_searched_is_said():
    """All that leans towards S is a hair of the score: larger components must add what does not."""
    rng = np.random.default_rng(3)
    s = rng.integers(0, 2, 500)
    centred = (s - s.mean())[:, None]
    noise = rng.normal(size=(500, 1))
    noise -= noise.mean() + centred * (centred[:, 0] @ noise[:, 0]) / (
        centred[:, 0] @ centred[:, 0]
    )
    Z = np.hstack([centred, noise])
    found = search(Z, np.array([0.05, 1.0]), levels(s), min_share=0.01)
    assert found.negligible
    assert "not searched" in found.note
    bound = float(found.note.split()[-1])
    c = np.array([1.0, 0.1])  # just above one percent
    assert correlate(Z @ (c * [0.05, 1.0]), s, np.ones(500)) <= bound + 1e-3


def test_held_out_correlation_is_not_of_the_rows_searched():
    """Nothing to find among 30 coordinates: the search finds something, new rows do not confirm it."""
    found, held_out = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        Z, s = rng.normal(size=(300, 30)), rng.integers(0, 2, 300)
        answer = search(Z, np.ones(30), levels(s), seed=seed)
        found.append(abs(answer.correlation))
        held_out.append(answer.held_out * np.sign(answer.correlation))
    assert np.mean(found) > 0.2
    assert abs(np.mean(held_out)) < 0.04


def test_coordinates_that_are_constant_equal_or_unused():
    Z, beta, s = masked(200)
    plain = search(Z, beta, levels(s))
    wide = np.column_stack([Z, np.full(200, 1e6), Z[:, 0], rng_column(200)])
    more = search(wide, np.array([*beta, 5.0, 1.0, 0.0]), levels(s))
    assert more.correlation == pytest.approx(plain.correlation, abs=1e-9)
    assert more.coefficients[3] == more.coefficients[5] == 0.0


def rng_column(n):
    return np.random.default_rng(9).normal(size=n)


def test_many_equal_coordinates_do_not_stop_the_search():
    rng = np.random.default_rng(4)
    base = rng.normal(size=(300, 5))
    Z = np.hstack([base] * 6) * (1.0 + 1e-9 * rng.normal(size=(300, 30)))
    s = base @ rng.normal(size=5) + rng.normal(size=300)
    beta = np.ones(30)
    expected = by_enumeration(base, s, np.ones(300))
    assert abs(search(Z, beta, number(s)).correlation) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("beta", "codes", "note"),
    [([0.0, 0.0], [0, 1], "score is constant"), ([1.0, 1.0], [1, 1], "one value")],
)
def test_nothing_to_search(beta, codes, note):
    Z = np.random.default_rng(0).normal(size=(40, 2))
    found = search(Z, np.array(beta), levels(np.resize(codes, 40)))
    assert np.isnan([found.correlation, found.variance_share, found.held_out, found.low]).all()
    assert note in found.note


def test_orthogonal_to_everything_is_zero():
    s = np.array([0, 0, 1, 1] * 10)
    z = np.array([0.0, 1.0, 0.0, 1.0] * 10)[:, None]
    found = search(z, np.array([2.0]), levels(s))
    assert abs(found.correlation) < 1e-12


def test_few_rows_have_no_held_out_correlation():
    rng = np.random.default_rng(0)
    found = search(rng.normal(size=(15, 2)), np.ones(2), levels(np.arange(15) % 2))
    assert np.isfinite(found.correlation)
    assert np.isnan(found.held_out)
    assert "too few rows" in found.note


def test_names_must_fit():
    with pytest.raises(ValueError, match="2 names were given for 3 coordinates"):
        proxy_component(
            np.zeros((4, 3)),
            np.ones(3),
            levels(np.array([0, 1, 0, 1])),
            ["a", "b"],
            weight=np.ones(4),
            rng=np.random.default_rng(0),
        )


@pytest.mark.parametrize("seed", range(5))
def test_a_coordinate_that_one_half_does_not_see(seed):
    """It is constant there up to rounding, which must not be taken for a direction."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, 200)
    Z = np.column_stack([s + rng.normal(size=200), np.arange(200) == 7, np.arange(200) == 9])
    found = search(Z, np.ones(3), levels(s), seed=seed)
    assert found.held_out == pytest.approx(found.correlation, abs=0.15)


def test_the_closest_component_does_not_depend_on_who_finds_it(monkeypatch, rng):
    A = rng.normal(size=(40, 5))
    s = A @ [1.0, 0.0, 2.0, 0.5, 0.0] + 0.1 * rng.normal(size=40)
    case = _proxy._Case(A, s / np.linalg.norm(s), np.ones(5))
    expected = case.closest()
    assert expected.max() == pytest.approx(1.0)

    def cycles(*_, **__):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr(scipy.optimize, "nnls", cycles)
    np.testing.assert_allclose(case.closest(), expected, atol=1e-8)
