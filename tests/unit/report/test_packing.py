"""Positions are stored once where they are alike, and come back as they were."""

import json

from hypothesis import given
from hypothesis import strategies as st

from fairspan.report.packing import pack, unpack

leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=3)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=12,
)


def same(found, given):
    """Equal as JSON: 1, 1.0 and True differ, and so does the order of keys."""
    return json.dumps(found) == json.dumps(given)


@given(st.lists(values, min_size=1, max_size=5))
def test_values_come_back(given):
    assert same(unpack(pack(given), len(given)), given)


@given(values, st.lists(st.floats(0, 1), min_size=2, max_size=6), values)
def test_what_stays_is_stored_once(stays, moves, also):
    given = [{"stays": stays, "moves": [x, also], "n": 3} for x in moves]
    tree = pack(given)
    assert same(unpack(tree, len(given)), given)
    if len(set(map(repr, moves))) > 1:
        assert tree["d"]["stays"] == {"c": stays}
        assert same(tree["d"]["moves"]["l"][0], {"v": moves})


def test_equal_numbers_of_other_types_are_kept_apart():
    given = [{"a": 1, "b": 0}, {"a": True, "b": 0.0}, {"a": 1.0, "b": False}]
    assert same(unpack(pack(given), 3), given)


def test_lists_of_several_lengths_are_stored_whole():
    given = [{"a": [1]}, {"a": [1, 2]}]
    assert pack(given) == {"d": {"a": {"v": [[1], [1, 2]]}}}
