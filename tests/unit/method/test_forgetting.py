"""Subtracted moments are those of the other rows; what is no subset is refused, and lost digits too."""

from dataclasses import fields, replace

import numpy as np
import pytest
from tests.support.strategies import gap
from tests.unit.method.test_moments import FOLDS, Rows, no_rows

from fairspan import IncompatibleMomentsError, NumericalError
from fairspan.method.accumulate import Accumulator
from fairspan.method.consistency import inconsistency
from fairspan.method.row_sketch import RowSketch


def of(rows, index, weights=True):
    """Moments of some rows, in one block."""
    accumulator = Accumulator(no_rows(rows.K.shape[1]))
    groups = rows.cell * FOLDS + rows.fold
    index = index[np.argsort(groups[index], kind="stable")]
    w = rows.w[index] if weights else None
    if len(index):
        values = rows.values[index]
        accumulator.add(rows.K[index].copy(), groups[index], rows.levels[index], values, w)
        log_weight = float(np.log(rows.w[index]).sum()) if weights else 0.0
        accumulator.note(log_weight, int(index[0]), rows.K[index[0]])
    return accumulator.finish()


def worst(a, b):
    """Largest relative difference of the sums; means of no rows are not compared."""
    out = 0.0
    for f in fields(a):
        x, y = getattr(a, f.name), getattr(b, f.name)
        if isinstance(x, np.ndarray) and f.name not in ("first_row", "rounding"):
            for prefix in ("level", "column"):
                if f.name.startswith(prefix):
                    empty = getattr(b, f"{prefix}_rows") == 0
                    x, y = x.copy(), y.copy()
                    x[empty] = y[empty] = 0.0
            if f.name == "mean":
                x[b.rows == 0] = y[b.rows == 0] = 0.0
            out = max(out, gap(x, y))
    return out


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n_forgotten", [0, 1, 13, 200, 399])
def test_the_rest_is_what_the_other_rows_give(seed, n_forgotten):
    rows = Rows(seed, n=400, offset=3.0)
    order = np.random.default_rng(seed).permutation(400)
    rest = of(rows, order) - of(rows, order[:n_forgotten])
    expected = of(rows, order[n_forgotten:])
    assert worst(rest, expected) < 1e-9
    assert rest.sum_log_weight == pytest.approx(expected.sum_log_weight, abs=1e-9)
    assert not rest.first_row.any()  # nothing of a row that may be gone


def test_groups_without_rows_are_exactly_empty():
    rows = Rows(0, n=60)
    everything = np.arange(60)
    rest = of(rows, everything) - of(rows, everything)
    for f in fields(rest):
        value = getattr(rest, f.name)
        if isinstance(value, np.ndarray) and f.name != "rounding":
            assert not value.any(), f.name


def test_other_rows_are_noticed():
    rows, other = Rows(0, n=60), Rows(1, n=60, offset=50.0)
    total = of(rows, np.arange(60), weights=False)
    with pytest.raises(ValueError, match="not all part of the fit"):
        total - of(other, np.arange(7), weights=False)
    with pytest.raises(ValueError, match="more to forget than were fitted"):
        of(rows, np.arange(10), weights=False) - of(rows, np.arange(60), weights=False)


def test_other_weights_are_noticed():
    rows = Rows(0, n=60)
    with pytest.raises(ValueError, match=r"other weights|not all part"):
        of(rows, np.arange(60)) - of(rows, np.arange(60), weights=False)


def test_another_pilot_is_refused():
    rows = Rows(0, n=60)
    total = of(rows, np.arange(60))
    with pytest.raises(IncompatibleMomentsError):
        total - replace(total, fingerprint="other")


def test_an_outlier_that_held_all_digits_is_refused():
    """The sums know 16 digits of the outlier, and so none of the other rows."""
    rows = Rows(0, n=60)
    rows.K[:10] *= 1e9
    with pytest.raises(NumericalError, match="digits of the rest"):
        of(rows, np.arange(60), weights=False) - of(rows, np.arange(10), weights=False)


def test_rounding_is_carried_and_diluted():
    """A window's rounding does not grow without bound over years of days."""
    rows = Rows(0, n=600)
    days = np.array_split(np.arange(600), 20)
    parts = [of(rows, day, weights=False) for day in days]
    total = sum(parts[1:], parts[0])
    for k in range(2000):
        total = (total - parts[k % 20]) + parts[k % 20]
    expected = of(rows, np.arange(600), weights=False)
    share = (total.rounding[:, 0] / np.einsum("gdd->g", expected.scatter)).max()
    assert 0.0 < share < 1e-10
    assert worst(total, expected) < share


def test_moments_of_rows_are_consistent():
    for seed in range(5):
        assert inconsistency(of(Rows(seed, n=50, offset=100.0), np.arange(50))) is None


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("mean", lambda a: np.where(a == a.max(), np.nan, a), "not finite"),
        ("weight", np.negative, "below zero"),
        ("level_weight", lambda a: 3.0 * a, "no rows have|more weight"),
        ("weight2", lambda a: 1e-3 * a, "no rows have"),
        ("rows", np.zeros_like, "without rows|more rows"),
        ("level_rows", lambda a: a + 7, "without weight|more rows|no rows have"),
        ("scatter", np.negative, "square allows|semidefinite"),
        ("scatter", lambda a: 0.5 * a, "semidefinite|square allows"),
        ("scatter", lambda a: a + np.triu(np.ones(a.shape[1:]), 1), "symmetric"),
        ("level_mean", lambda a: a + 5.0, "average to|semidefinite"),
        ("column_cross", lambda a: 100.0 * a, "square allows"),
        ("column_square", lambda a: 1e-6 * a, "square allows|semidefinite"),
    ],
)
def test_what_no_rows_give_is_named(name, change, why):
    moments = of(Rows(3, n=80), np.arange(80))
    changed = replace(moments, **{name: change(getattr(moments, name))})
    found = inconsistency(changed)
    assert found is not None
    assert any(part in found for part in why.split("|")), found


def test_a_sketch_forgets_rows():
    X = np.random.default_rng(0).normal(size=(300, 4))
    X[200:] = X[:100]  # copies
    full = RowSketch.empty("key").add(X)
    rest = full - RowSketch.empty("key").add(X[150:250])
    assert rest == RowSketch.empty("key").add(np.concatenate([X[:150], X[250:]]))
    with pytest.raises(ValueError, match="1 of the 1 rows"):
        rest - RowSketch.empty("key").add(X[160:161])
    with pytest.raises(ValueError, match="2 of the 3 rows"):
        full - RowSketch.empty("key").add(np.repeat(X[180:181], 3, axis=0))


def test_a_sampled_sketch_forgets_what_it_knows():
    X = np.random.default_rng(0).normal(size=(12_000, 2))
    full = RowSketch.empty("key").add(X)
    assert full.level > 0
    rest = full - RowSketch.empty("key").add(X[:6000])
    assert rest.share_of(X[6000:]) > 0.9
    assert rest.share_of(X[:6000]) is None
    with pytest.raises(ValueError, match="not part of the fit"):
        full - RowSketch.empty("key").add(X[:500] + 1.0)
