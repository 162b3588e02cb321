import numpy as np
import pytest

import fairspan
from fairspan.inputs.columns import read_attributes
from fairspan.inputs.probabilities import (
    gather_probabilities,
    group_names,
    has_probabilities,
    probability_columns,
    sensitive_probabilities,
)

pd = pytest.importorskip("pandas")


def gather(table, kind="probabilities"):
    columns = read_attributes(table, len(table), "sensitive_features", "sensitive_feature")
    return gather_probabilities(columns, kind)


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        (["race_white", "race_black"], ("race", ["white", "black"])),
        (["race_white", "race_white_hispanic"], ("race", ["white", "white_hispanic"])),
        (["p_race_x", "p_race_y"], ("p_race", ["x", "y"])),
        (["a", "b"], ("group", ["a", "b"])),
        (["race", "race_x"], ("group", ["race", "race_x"])),
        (["race_", "race_x"], ("group", ["race_", "race_x"])),
        (["_a", "_b"], ("group", ["_a", "_b"])),
        (["sensitive_feature_0", "sensitive_feature_1"], ("group", ["0", "1"])),
    ],
)
def test_names(columns, wanted):
    assert group_names(columns) == wanted


def test_one_table_is_one_attribute():
    (found,) = gather(np.array([[0.25, 0.75], [np.nan, np.nan], [1.0, 0.0]])).values()
    assert (found.name, found.groups) == ("group", ("0", "1"))
    np.testing.assert_array_equal(found.values, [[0.25, 0.75], [0, 0], [1, 0]])
    np.testing.assert_array_equal(found.missing, [False, True, False])


def test_a_dict_names_the_columns():
    table = pd.DataFrame(
        {"age": [20, 30], "race_a": [0.5, 1], "sex": ["f", "m"], "race_b": [0.5, 0]}
    )
    found = gather(table, {"race": "probabilities", "age": "continuous"})
    assert list(found) == ["age", "race", "sex"]
    assert found["race"].groups == ("a", "b")
    assert gather(table, {"age": "continuous"}).keys() == set(table)


def test_booleans_are_0_and_1():
    found = gather(pd.get_dummies(pd.Series(["a", "b"]), prefix="g"))["g"]
    np.testing.assert_array_equal(found.values, [[1, 0], [0, 1]])


def test_sums_within_the_tolerance_are_made_exact():
    (found,) = gather(pd.DataFrame({"g_a": [0.3333333], "g_b": [0.6666666]})).values()
    assert found.values.sum() == 1.0


@pytest.mark.parametrize(
    ("table", "kind", "says"),
    [
        ({"r_a": [0.5, 0.2], "r_b": [0.5, 0.7]}, "probabilities", "1 rows .* first is row 1"),
        ({"r_a": [-0.5, 0.2], "r_b": [1.5, 0.8]}, "probabilities", "outside of .* first is row 0"),
        ({"r_a": [np.nan, 0.2], "r_b": [0.5, 0.8]}, "probabilities", "some groups only.*row 0"),
        ({"r_a": ["x", "y"], "r_b": [0.5, 0.8]}, "probabilities", "'a' are text"),
        ({"r_a": [1.0, 0.5]}, "probabilities", "one column of probabilities"),
        ({"r_a": [1.0, 0.5]}, {"r": "probabilities"}, "one column of probabilities"),
        ({"r": [1.0, 0.5]}, {"r": "probabilities"}, "has a column 'r' itself"),
        ({"s_a": [1.0, 0.5]}, {"r": "probabilities"}, r"columns r_\*.*'s_a'"),
        ({"r_a": [1.0, 0.5]}, ["probabilities"], "a dict by name"),
    ],
)
def test_refused(table, kind, says):
    with pytest.raises(ValueError, match=says):
        gather(pd.DataFrame(table), kind)


def test_kinds():
    assert has_probabilities("probabilities")
    assert has_probabilities({"a": "probabilities"})
    assert has_probabilities(["auto", "probabilities"])
    assert not has_probabilities("auto")
    assert not has_probabilities({"probabilities": "auto"})
    assert not has_probabilities(np.array([1]))


def test_known_groups_join_probabilities():
    table = pd.DataFrame({"g_a": [0.3, np.nan, 0.5], "g_b": [0.7, np.nan, 0.5]}, index=[7, 8, 9])
    known = pd.Series(["a", None, "b"], index=[9, 7, 8])
    found = fairspan.sensitive_probabilities(known, table)
    wanted = pd.DataFrame({"g_a": [0.3, 0, 1], "g_b": [0.7, 1, 0]}, index=[7, 8, 9])
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)
    again = sensitive_probabilities(["g_a", None, None], table)
    assert again.iloc[0].tolist() == [1, 0]


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_the_type_of_the_table_stays(library):
    module = pytest.importorskip(library)
    columns = {"g_0": [0.3, 0.5], "g_1": [0.7, 0.5]}
    table = module.DataFrame(columns) if library == "polars" else module.table(columns)
    found = sensitive_probabilities([None, 1], table)
    assert type(found) is type(table)
    assert np.asarray(found["g_1"]).tolist() == [0.7, 1.0]


@pytest.mark.parametrize(
    ("known", "table", "says"),
    [
        (["a", None], np.eye(2), "must be a data frame"),
        (["c", None], pd.DataFrame(np.eye(2), columns=["g_a", "g_b"]), "group 'c'.*'a', 'b'"),
        (["a"], pd.DataFrame(np.eye(2), columns=["g_a", "g_b"]), "has 1 rows, probabilities has 2"),
    ],
)
def test_known_groups_that_do_not_fit(known, table, says):
    with pytest.raises(ValueError, match=says):
        sensitive_probabilities(known, table)


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("auto", {}),
        ("probabilities", {"g": ("g_a", "g_b_c", "g_b_d")}),
        ({"g": "probabilities"}, {"g": ("g_a", "g_b_c", "g_b_d")}),
        # The longest name that fits owns a column.
        (
            {"g": "probabilities", "g_b": "probabilities"},
            {"g": ("g_a",), "g_b": ("g_b_c", "g_b_d")},
        ),
    ],
)
def test_columns_of_probabilities_by_attribute(kind, found):
    assert probability_columns(kind, ["g_a", "g_b_c", "g_b_d"]) == found
