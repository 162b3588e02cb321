"""Attributes become codes, criteria become cells."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.raw import quantile_slices

from fairspan.method.codes import (
    Cells,
    Coder,
    CrossedCoder,
    _row_keys,
    code_slices,
    infer_kind,
    slice_edges,
)
from fairspan.method.problem import Attribute

NUMBERS = st.lists(st.integers(-9, 9).map(float), min_size=1, max_size=60)


def attribute(values, kind=None, missing=None, name="s"):
    array = np.asarray(values)
    kind = kind or array.dtype.kind
    clean = array.astype(float) if kind in "if" else array.astype(str)
    gaps = np.zeros(len(array), bool) if missing is None else np.asarray(missing)
    return Attribute(name, clean, gaps, kind)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (["a", "b", "c"] * 20, "U", "categorical"),
        ([True, False], "b", "categorical"),
        ([0.5, 1.5] * 9, "f", "categorical"),
        (list(range(20)), "i", "categorical"),
        (list(range(21)), "i", "continuous"),
        ([0.1, 0.2, 0.3], "f", "continuous"),
    ],
)
def test_kind_follows_the_stated_rule(values, kind, expected):
    assert infer_kind(attribute(values, kind)) == expected


def test_missing_values_do_not_count_towards_the_kind():
    assert infer_kind(attribute([0.1, 0.2, 0.3], "f", [False, False, True])) == "categorical"


@pytest.mark.parametrize(
    ("values", "n_slices", "edges"),
    [
        ([1, 2, 3, 4], 4, [2, 3, 4]),  # one slice per value
        ([1, 2, 3, 4], None, [2, 3, 4]),
        ([1, 2, 3, 4, 5, 6, 7, 8], 4, [2, 4, 6]),  # quantiles: the value at i/4 opens a slice
        ([1, 1, 1, 1, 1, 2, 3], 2, [2]),  # the median is the smallest value: the rest is a slice
        ([1, 2, 2, 2, 2, 2, 2, 3, 4, 5], 4, [2, 3]),  # equal quantiles are one edge
        ([7, 7, 7], 3, []),
    ],
)
def test_edges_of_small_examples(values, n_slices, edges):
    assert slice_edges(np.array(values, float), n_slices).tolist() == edges


@given(NUMBERS, st.integers(2, 6))
def test_slices_equal_the_definition(values, n_slices):
    v = np.array(values)
    slices = code_slices(v, slice_edges(v, n_slices))
    np.testing.assert_array_equal(slices, quantile_slices(v, n_slices, np.ones(len(v))))
    assert len(np.unique(slices)) == slices.max() + 1  # none empty


@given(
    st.lists(st.integers(-9, 9).map(float), min_size=12, max_size=40), st.data(), st.integers(2, 5)
)
def test_edges_with_integer_weights_are_those_of_copies(values, data, n_slices):
    v = np.array(values)
    w = np.array(data.draw(st.lists(st.integers(1, 4), min_size=len(v), max_size=len(v))))
    np.testing.assert_array_equal(
        slice_edges(v, n_slices, w.astype(float)), slice_edges(np.repeat(v, w), n_slices)
    )


def test_categories_are_sorted_and_missing_is_minus_one():
    s = attribute(["b", "a", "", "b"], missing=[False, False, True, False])
    coder = Coder.learn(s, "categorical", 10)
    assert coder.labels == ("a", "b")
    assert coder.codes({"s": s}).tolist() == [1, 0, -1, 1]


def test_slices_are_frozen_and_cover_every_later_value():
    coder = Coder.learn(attribute([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), "continuous", 3)
    assert coder.n_levels == 3
    assert coder.labels == ("< 2", "[2, 4)", ">= 4")
    later = attribute([-9.0, 2.0, 3.9, 4.0, 99.0])
    assert coder.codes({"s": later}).tolist() == [0, 1, 1, 2, 2]


def test_a_column_is_nan_where_missing():
    s = attribute([1.0, 2.0, 0.0], missing=[False, False, True])
    coder = Coder.learn(s, "continuous", 3)
    np.testing.assert_array_equal(coder.column({"s": s}), [1.0, 2.0, np.nan])


@pytest.mark.parametrize(("later", "named"), [(["a", "z"], "z"), ([1.5, 2.0], "1.5")])
def test_an_unseen_category_is_an_error_that_names_it(later, named):
    coder = Coder.learn(attribute(["a", "b"]), "categorical", 10)
    with pytest.raises(ValueError, match=rf"'s' has a category .*'{named}'.* Known: 'a', 'b'"):
        coder.codes({"s": attribute(later)})


def test_a_block_where_everything_is_missing_is_no_unseen_category():
    coder = Coder.learn(attribute(["a", "b"]), "categorical", 10)
    assert coder.codes({"s": attribute([0.0, 0.0], missing=[True, True])}).tolist() == [-1, -1]


def test_text_cannot_be_continuous():
    with pytest.raises(ValueError, match="'s' holds text"):
        Coder.learn(attribute(["a", "b"]), "continuous", 10)


@pytest.fixture
def crossed():
    table = {"a": attribute([0, 0, 1, 1], name="a"), "b": attribute([0, 1, 0, 0], name="b")}
    parts = [Coder.learn(column, "categorical", 10) for column in table.values()]
    return CrossedCoder.learn(parts, table), table


def test_crossing_keeps_the_combinations_seen(crossed):
    coder, table = crossed
    assert coder.name == "a x b"
    assert coder.labels == ("0 & 0", "0 & 1", "1 & 0")
    assert coder.codes(table).tolist() == [0, 1, 2, 2]


def test_a_combination_with_a_missing_part_is_missing(crossed):
    coder, table = crossed
    gaps = np.array([False, True, False, False])
    holed = {**table, "b": attribute([0, 0, 0, 0], name="b", missing=gaps)}
    assert coder.codes(holed).tolist() == [0, -1, 2, 2]


def test_an_unseen_combination_is_an_error_that_names_it(crossed):
    coder, table = crossed
    with pytest.raises(ValueError, match="'a x b' has the combination '1 & 1'"):
        coder.codes({**table, "b": attribute([1, 1, 1, 1], name="b")})


@pytest.mark.parametrize(
    ("cells", "expected", "n_groups"),
    [
        (Cells("all", ("all rows",)), [0, 0, 0, 0], 1),
        (Cells("target", ("y=0", "y=1", "y=2")), [0, 1, 2, 1], 3),
        (Cells("class", ("y=1",), positive=1), [1, 0, 1, 0], 2),  # the others are "rest"
    ],
    ids=["statistical parity", "equalized odds", "equal opportunity"],
)
def test_cells_of_each_criterion(cells, expected, n_groups):
    assert cells.assign(np.array([0, 1, 2, 1]), {}, 4).tolist() == expected
    assert cells.n_groups == n_groups


def test_strata_of_control_features_are_cells(crossed):
    coder, table = crossed
    cells = Cells("strata", coder.labels, strata=coder)
    assert cells.assign(None, table, 4).tolist() == [0, 1, 2, 2]
    assert cells.n_constrained == cells.n_groups == 3


def test_cells_tell_any_number_of_combinations_apart(rng):
    rows, step = rng.integers(0, 3, (60, 4)), 2**20
    known = np.unique(rows[:50], axis=0)
    keys, found = _row_keys(known, rows)
    far, far_found = _row_keys(known * step, rows * step)
    assert (np.diff(keys) > 0).all()
    assert (np.diff(far) > 0).all()
    for k in range(len(rows)):
        np.testing.assert_array_equal(found[k] == keys, far_found[k] == far)


def test_slices_have_names():
    assert Coder("age", "continuous", np.array([])).labels == ("all values",)
    assert Coder("age", "continuous", np.array([3.0, 5.0])).labels == ("< 3", "[3, 5)", ">= 5")
