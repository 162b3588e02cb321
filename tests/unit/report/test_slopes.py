"""Slopes along numeric attributes: least squares, the resamples of the report, and words for a step."""

from types import SimpleNamespace

import numpy as np
import pytest

from fairspan.metrics.groups import bootstrap_counts
from fairspan.report.slopes import Line, Step, choose_step, slope
from fairspan.tables.dictionary import ColumnWords


def held(weight, n_boot=50, level=0.9, counts=True):
    n = len(weight)
    drawn = bootstrap_counts(n, n_boot, np.random.default_rng(3)) if counts else None
    settings = SimpleNamespace(n_boot=n_boot, level=level)
    return SimpleNamespace(
        data=SimpleNamespace(weight=weight), settings=settings, counts=drawn, seed=5
    )


def line(values, cells=None, size=1.0):
    cells = np.zeros(len(values), dtype=np.intp) if cells is None else cells
    step = Step(size=size, words="")
    return Line(attribute="age", values=values - values.mean(), cells=cells, among="", step=step)


@pytest.mark.parametrize("seed", range(5))
def test_a_slope_is_that_of_weighted_least_squares_and_of_its_resamples(seed):
    rng = np.random.default_rng(seed)
    s, weight = 1e6 + rng.normal(size=80), rng.uniform(0.5, 2, 80)
    y = 0.3 * s + rng.normal(size=80)
    rows = held(weight)

    def fit(w):
        return np.polyfit(s - s.mean(), y, 1, w=np.sqrt(w))[0]

    found = slope(line(s, size=10.0), y, rows)
    assert found["value"] == pytest.approx(10 * fit(weight), rel=1e-6)
    draws = [10 * fit(weight * counts) for counts in rows.counts.T]
    assert [found["low"], found["high"]] == pytest.approx(
        np.quantile(draws, (0.05, 0.95)), rel=1e-5
    )


def test_weights_are_copies():
    rng = np.random.default_rng(0)
    s, y, copies = rng.normal(size=40), rng.normal(size=40), rng.integers(1, 4, 40)
    weighted = slope(line(s), y, held(copies.astype(float)))
    repeated = slope(line(np.repeat(s, copies)), np.repeat(y, copies), held(np.ones(copies.sum())))
    assert weighted["value"] == pytest.approx(repeated["value"], rel=1e-9)


def test_within_cells_a_difference_between_them_does_not_count():
    rng = np.random.default_rng(1)
    cells = rng.integers(0, 2, 300)
    s = 5.0 * cells + rng.normal(size=300)
    y = 20.0 * cells + 0.5 * s
    assert slope(line(s, cells), y, held(np.ones(300)))["value"] == pytest.approx(0.5, rel=1e-9)
    assert slope(line(s), y, held(np.ones(300)))["value"] > 2
    # Rows of no cell are left out.
    some = np.where(cells == 0, 0, -1)
    y[cells == 1] = 1e3
    assert slope(line(s, some), y, held(np.ones(300)))["value"] == pytest.approx(0.5, rel=1e-9)


def test_rows_too_many_for_stored_resamples_are_drawn_anew():
    rng = np.random.default_rng(2)
    s = rng.normal(size=100)
    y = s + rng.normal(size=100)
    stored, drawn = (slope(line(s), y, held(np.ones(100), 400, counts=c)) for c in (True, False))
    assert drawn["value"] == stored["value"]
    assert drawn["low"] == pytest.approx(stored["low"], abs=0.06)
    assert drawn["low"] < drawn["value"] < drawn["high"]


def test_a_constant_attribute_has_no_slope():
    found = slope(line(np.full(20, 3.0)), np.arange(20.0), held(np.ones(20)))
    assert all(np.isnan(x) for x in found.values())


@pytest.mark.parametrize(
    ("scale", "label", "size", "words"),
    [
        (14.0, "", 10.0, "age higher by 10"),
        (14.0, "Age (years)", 10.0, "10 years older"),
        (1.0, "age in years", 1.0, "1 year older"),
        (40_000, "income [EUR]", 10_000.0, "income higher by 10,000 EUR"),
        (0.06, "", 0.1, "age higher by 0.1"),
        (0.0, "", 1.0, "age higher by 1"),
        (14.0, "wage (years)", 10.0, "wage higher by 10 years"),
    ],
)
def test_a_step_is_a_power_of_ten_near_the_spread(scale, label, size, words):
    values = 45 + scale * np.random.default_rng(0).normal(size=2000)
    step = choose_step(values, "age", ColumnWords(label=label))
    assert step.size == size
    assert step.words == words
