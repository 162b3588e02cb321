"""The monotone link: what it recovers, and that it never moves a decision."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan.method import calibration
from fairspan.method.calibration import Link, fit_link
from fairspan.method.laplace import softmax

SEEDS = st.integers(0, 2**32 - 1)


def halves(f):
    """Latents of two classes whose log odds are f."""
    return np.stack([-f, f], axis=1) / 2.0


def draw(p, rng):
    """Labels with the probabilities in the rows of p."""
    return (rng.random(len(p))[:, None] > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)


def log_loss(p, codes):
    return -np.log(p[np.arange(len(p)), codes]).mean()


def any_link(rng, n_classes):
    knots = np.concatenate([np.zeros((n_classes, 1)), rng.exponential(size=(n_classes, 4))], axis=1)
    return Link(np.cumsum(knots, axis=1), rng.exponential(size=(n_classes, 5)) + 1e-3)


@settings(max_examples=20)
@given(SEEDS, st.integers(2, 5))
def test_decisions_stay_and_probabilities_are_probabilities(seed, n_classes):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(60, n_classes)) * rng.exponential(scale=5.0)
    for link in (any_link(rng, n_classes), fit_link(f, rng.integers(0, n_classes, 60), None)):
        p = link.probabilities(f)
        np.testing.assert_array_equal(p.argmax(axis=1), f.argmax(axis=1))
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
        assert (p >= 0.0).all()
        # The same latents up to a constant are the same model.
        np.testing.assert_allclose(link.probabilities(f + 3.0), p, atol=1e-12)


@settings(max_examples=20)
@given(SEEDS)
def test_two_classes_rise_with_the_log_odds(seed):
    rng = np.random.default_rng(seed)
    f = np.linspace(-12.0, 12.0, 400)
    fitted = fit_link(halves(rng.normal(size=80)), rng.integers(0, 2, 80), None)
    for link in (any_link(rng, 2), fitted):
        p = link.probabilities(halves(f))[:, 1]
        assert (np.diff(p) >= 0.0).all()
        inside = (p > 1e-12) & (p < 1.0 - 1e-12)
        assert (np.diff(p)[inside[1:] & inside[:-1]] > 0.0).all()
        assert link.probabilities(halves(np.zeros(1)))[0].tolist() == [0.5, 0.5]


@given(SEEDS, st.integers(3, 5))
def test_raising_a_latent_makes_its_class_more_probable(seed, n_classes):
    """While it stays below the largest: there it moves its own gap alone."""
    rng = np.random.default_rng(seed)
    link, f = any_link(rng, n_classes), rng.normal(size=(50, n_classes))
    f[:, 0] = f.max(axis=1) + 1.0
    higher = f.copy()
    higher[:, 1] += 0.5
    before, after = link.probabilities(f), link.probabilities(higher)
    assert (after[:, 1] > before[:, 1]).all()
    assert (after[:, [0, *range(2, n_classes)]] < before[:, [0, *range(2, n_classes)]]).all()


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_unit_slopes_are_softmax(n_classes):
    rng = np.random.default_rng(n_classes)
    f = 3.0 * rng.normal(size=(50, n_classes))
    link = any_link(rng, n_classes)
    unit = Link(link.knots, np.ones_like(link.slopes))
    np.testing.assert_allclose(unit.probabilities(f), softmax(f), atol=1e-14)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_calibrated_latents_stay_as_they_are(n_classes):
    rng = np.random.default_rng(0)
    f = 1.5 * rng.normal(size=(40_000, n_classes))
    link = fit_link(f, draw(softmax(f), rng), None)
    np.testing.assert_allclose(link.slopes, 1.0, atol=0.15 if n_classes == 2 else 0.25)
    np.testing.assert_allclose(link.probabilities(f[:500]), softmax(f[:500]), atol=0.02)


@pytest.mark.parametrize("factor", [0.3, 0.7, 2.0, 3.0])
def test_a_scale_of_the_log_odds_is_recovered(factor):
    rng = np.random.default_rng(1)
    f = 1.2 * rng.normal(size=20_000)
    link = fit_link(halves(f), draw(softmax(halves(factor * f)), rng), None)
    grid = np.linspace(-2.5, 2.5, 41)
    found, expected = (
        link.probabilities(halves(grid))[:, 1],
        softmax(halves(factor * grid))[:, 1],
    )
    np.testing.assert_allclose(found, expected, atol=0.03)


def test_different_slopes_on_the_two_sides_are_recovered():
    """Class 1 is surer of itself than class 0 is: no scale of the log odds can say that."""
    rng = np.random.default_rng(2)
    f = 1.2 * rng.normal(size=40_000)
    truth = np.where(f > 0.0, 2.0 * f, 0.4 * f)
    link = fit_link(halves(f), draw(softmax(halves(truth)), rng), None)
    above, below = link.slopes  # class 0 has a gap where f > 0
    np.testing.assert_allclose(above[:4], 2.0, atol=0.3)
    np.testing.assert_allclose(below[:4], 0.4, atol=0.15)


def test_a_bend_is_recovered():
    """Right near 0, too sure far out: what scores of training rows look like."""
    rng = np.random.default_rng(3)
    f = 3.0 * rng.normal(size=40_000)
    truth = np.sign(f) * (np.minimum(np.abs(f), 1.5) + 0.2 * np.maximum(np.abs(f) - 1.5, 0.0))
    link = fit_link(halves(f), draw(softmax(halves(truth)), rng), None)
    grid = np.linspace(-6.0, 6.0, 61)
    bent = np.sign(grid) * (
        np.minimum(np.abs(grid), 1.5) + 0.2 * np.maximum(np.abs(grid) - 1.5, 0.0)
    )
    found, expected = link.probabilities(halves(grid))[:, 1], softmax(halves(bent))[:, 1]
    np.testing.assert_allclose(found, expected, atol=0.04)
    assert (link.slopes[:, 0] > 0.7).all()
    assert (link.slopes[:, -1] < 0.4).all()


def test_classes_have_links_of_their_own():
    rng = np.random.default_rng(4)
    f = 1.5 * rng.normal(size=(30_000, 3))
    f[:, 0] += 1.0
    gaps = f.max(axis=1, keepdims=True) - f
    truth = -gaps * np.array([1.0, 2.0, 0.5])
    codes = draw(softmax(truth), rng)
    link = fit_link(f, codes, None)
    for slopes, expected in zip(link.slopes, (1.0, 2.0, 0.5), strict=True):
        np.testing.assert_allclose(slopes[:3], expected, rtol=0.2)
    assert log_loss(link.probabilities(f), codes) < log_loss(softmax(f), codes) - 0.01


def test_few_rows_hardly_move_the_link():
    f = halves(np.array([-1.0, 2.0, 0.5, -0.3]))
    link = fit_link(f, np.array([0, 1, 1, 0]), None)
    np.testing.assert_allclose(link.slopes, 1.0, atol=0.5)


def test_a_weight_is_a_number_of_copies():
    """But for the knots, which are quantiles of the rows: with copies of all rows those agree too."""
    rng = np.random.default_rng(5)
    f, codes = rng.normal(size=(300, 3)), rng.integers(0, 3, 300)
    weighted = fit_link(f, codes, np.full(300, 3.0))
    copies = fit_link(np.repeat(f, 3, axis=0), np.repeat(codes, 3), None)
    np.testing.assert_allclose(weighted.probabilities(f), copies.probabilities(f), atol=5e-3)
    one, none = fit_link(f, codes, np.ones(300)), fit_link(f, codes, None)
    np.testing.assert_array_equal(one.slopes, none.slopes)


def test_rows_of_no_weight_do_not_count():
    rng = np.random.default_rng(6)
    f, codes = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    w = np.repeat([1.0, 0.0], 150)
    other = codes.copy()
    other[150:] = 1 - other[150:]
    np.testing.assert_array_equal(fit_link(f, codes, w).slopes, fit_link(f, other, w).slopes)


@pytest.mark.parametrize("sure", [1.0, 50.0, 1e4, 1e8])
def test_separated_latents(sure):
    """All right, or all wrong: slopes stay positive and finite."""
    f = sure * np.linspace(-1.0, 1.0, 40)
    right = (f > 0).astype(int)
    for codes in (right, 1 - right):
        link = fit_link(halves(f), codes, None)
        assert np.isfinite(link.slopes).all()
        assert (link.slopes > 0.0).all()
        p = link.probabilities(halves(f))
        assert np.isfinite(p).all()
        np.testing.assert_array_equal(p.argmax(axis=1), right)
    assert p.max(axis=1).mean() < 0.9 or sure > 1e3  # all wrong: it learns to be unsure


@pytest.mark.parametrize("n_classes", [2, 3])
def test_constant_latents(n_classes):
    """Every gap is the same, some are zero: no segment to fit, no trouble."""
    f = np.tile(np.linspace(0.0, 1.0, n_classes), (30, 1))
    link = fit_link(f, np.arange(30) % n_classes, None)
    p = link.probabilities(f)
    assert np.isfinite(p).all()
    assert (p.argmax(axis=1) == n_classes - 1).all()
    flat = fit_link(np.zeros((30, n_classes)), np.arange(30) % n_classes, None)
    np.testing.assert_allclose(flat.probabilities(np.zeros((2, n_classes))), 1.0 / n_classes)
    np.testing.assert_array_equal(flat.slopes, 1.0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_fit_is_the_best_of_its_penalised_likelihood(n_classes):
    """Against its definition, at slopes around the fitted ones: no direction goes up."""
    rng = np.random.default_rng(7)
    f, codes = 2.0 * rng.normal(size=(400, n_classes)), rng.integers(0, n_classes, 400)
    w = rng.exponential(size=400)
    link = fit_link(f, codes, w)

    def objective(slopes):
        p = Link(link.knots, slopes).probabilities(f)
        fit = w @ np.log(p[np.arange(400), codes])
        pull = 0.5 * ((slopes - 1.0) ** 2).sum() + 5.0 * (np.diff(slopes, axis=1) ** 2).sum()
        return fit - pull

    best = objective(link.slopes)
    for step in 1e-2 * rng.normal(size=(40, *link.slopes.shape)):
        assert objective(np.maximum(link.slopes + step, 1e-3)) <= best + 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_two_classes_are_a_case_of_many(seed):
    """The shorter likelihood of two classes, ties and repeated gaps included, is the general one."""
    rng = np.random.default_rng(seed)
    f = halves(np.r_[0.0, rng.normal(size=59).round(1)])
    gaps = f.max(axis=1, keepdims=True) - f
    knots = np.stack([calibration._quantiles(gaps[:, k]) for k in range(2)])
    lengths = calibration._lengths(gaps, knots)
    codes, weight = rng.integers(0, 2, 60), rng.random(60)
    assert (gaps.sum(axis=1) == 0.0).any()
    short, general = (
        make(lengths, codes, weight)
        for make in (calibration._likelihood_of_two_classes, calibration._likelihood_of_classes)
    )
    slopes = rng.random((2, 5)) + 0.1
    for got, wanted in zip(short(slopes), general(slopes), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
