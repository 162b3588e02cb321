"""Kinds of columns, and labels."""

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pd = pytest.importorskip("pandas")

from tests.support.borrowers import people  # noqa: E402

from fairspan.cli import column_kinds  # noqa: E402


def test_kinds_change_the_columns_they_name():
    frame = people().assign(zip=np.arange(240) % 7, code=np.arange(240) % 2)
    roles = {"target": ["code"], "protected": ["sex"]}
    given = ["zip=categorical", "code=categorical,sex=categorical"]
    found, kinds = column_kinds.set_kinds(frame, column_kinds.read_kinds(frame, given), roles)
    assert isinstance(found["zip"].dtype, pd.CategoricalDtype)
    assert set(found["code"]) == {"0", "1"}
    assert found["sex"].equals(frame["sex"])
    assert (kinds.protected, kinds.target) == ({"sex": "categorical"}, "categorical")
    table = frame.copy()
    exec("\n".join(kinds.lines), {"table": table, "pd": pd})  # as the report shows them
    pd.testing.assert_frame_equal(table, found)


def test_the_first_text_among_numbers_is_shown():
    frame = people(4).assign(n=["1", "2.5", None, "many"])
    with pytest.raises(ValueError, match=r"'n', which holds no numbers: 'many'"):
        column_kinds.set_kinds(frame, {"n": "continuous"}, {"protected": []})
    frame = frame.assign(n=["1", "2.5", None, "4"])
    numbers, _ = column_kinds.set_kinds(frame, {"n": "continuous"}, {"protected": []})
    np.testing.assert_array_equal(numbers["n"], [1.0, 2.5, np.nan, 4.0])


@pytest.mark.parametrize(
    ("text", "labels", "label"),
    [
        ("true", [False, True], True),
        ("1", [0.0, 1.0], 1.0),
        ("1.0", [0, 1], 1),
        ("yes", ["no", "yes"], "yes"),
    ],
)
def test_a_label_is_found_as_it_is_in_the_table(text, labels, label):
    found = column_kinds.match_label(text, labels, "'y'")
    assert found == label
    assert type(found) is type(label)


@pytest.mark.parametrize("text", ["2", "maybe"])
def test_a_text_that_is_no_label_is_refused(text):
    with pytest.raises(ValueError, match=rf"--positive '{text}' is no label of 'y': 0, 1"):
        column_kinds.match_label(text, [0, 1], "'y'")
