"""Columns that are no features, parts of dates, and groups of one row."""

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from fairspan.tables import columns  # noqa: E402
from fairspan.tables.columns import date_parts_of, join_single_rows, unlearnable, with_date_parts  # noqa: E402

RNG = np.random.default_rng(0)
N = 200


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("who", [f"u{i}" for i in range(N)], "identifiers"),
        ("row", RNG.permutation(N), "identifiers"),
        ("account", RNG.choice(10**6, N, replace=False) + 10**6, "identifiers"),
        ("customer_id", RNG.choice(10**5, N, replace=False), "identifiers"),
        ("customerID", RNG.choice(10**5, N, replace=False), "identifiers"),
        ("income", RNG.choice(10**5, N, replace=False), None),
        ("paid", RNG.choice(10**5, N, replace=False), None),
        ("age", RNG.integers(20, 60, N), None),
        ("score", RNG.normal(size=N), None),
        ("remark", [f"was late on day {i} again" for i in range(N)], "free text"),
        ("name", [f"n{i % 150}" for i in range(N)], "free text"),
        ("note", [f"the letter came back {i % 40}" for i in range(N)], "free text"),
        ("town", RNG.choice(["a", "b"], N), None),
        ("job", [f"j{i % 60}" for i in range(N)], None),
        ("kind", pd.Categorical([f"u{i}" for i in range(N)]), None),
        ("list", [[1]] * N, None),
    ],
)
def test_identifiers_and_free_text_are_no_features(name, values, reason):
    found = unlearnable(pd.DataFrame({name: values}), [name])
    assert found == ({} if reason is None else {name: reason})


def test_a_short_table_has_no_identifiers():
    assert unlearnable(pd.DataFrame({"who": ["a", "b", "c"]}), ["who"]) == {}


def test_parts_of_dates_are_made_again_by_their_names():
    table = pd.DataFrame({"since": pd.to_datetime(["2024-05-01", None]), "n": [1, 2]})
    found = with_date_parts(table, ["month", "weekday"])
    assert found["since (month)"].tolist()[0] == "May"
    assert found["since (weekday)"].isna().tolist() == [False, True]
    again = date_parts_of(
        table, ["n", "since (month)", "since (weekday)", "n (month)", "x (month)"]
    )
    pd.testing.assert_frame_equal(again, found)
    with pytest.raises(ValueError, match="parts='year' is not allowed"):
        with_date_parts(table, ["year"])
    with pytest.raises(ValueError, match="'n', which holds no dates"):
        with_date_parts(table, ["month"], ["n"])
    with pytest.raises(ValueError, match=r"has a column 'since \(month\)' already"):
        with_date_parts(found, ["month"])


def test_groups_of_one_row_join_the_group_other():
    table = pd.DataFrame({"g": ["a"] * 5 + ["b"] * 4 + ["c", "d", "e"], "n": range(12)})
    found, notes = join_single_rows(table, ["g"])
    assert found["g"].value_counts().to_dict() == {"a": 5, "b": 4, "other": 3}
    assert notes == ["'g': 3 groups of one row joined the group 'other': 'c', 'd', 'e'."]
    pd.testing.assert_frame_equal(join_single_rows(found, ["g"])[0], found)


def test_one_group_of_one_row_is_left_out_or_joins_others():
    table = pd.DataFrame({"g": ["a"] * 5 + ["b"] * 4 + ["c"]})
    found, notes = join_single_rows(table, ["g"])
    assert len(found) == 9
    assert "the only one of the group 'c' of 'g'" in notes[0]
    table = pd.DataFrame({"g": ["a"] * 5 + ["other"] * 4 + ["c"]})
    assert join_single_rows(table, ["g"])[0]["g"].value_counts()["other"] == 5


def test_numbers_that_join_become_labels():
    table = pd.DataFrame({"g": [1.0] * 3 + [2.0] * 3 + [3.0, 4.0]})
    assert join_single_rows(table, ["g"])[0]["g"].tolist()[::3] == ["1", "2", "other"]


def test_groups_that_leave_nothing_to_compare_are_refused():
    table = pd.DataFrame({"g": [str(i) for i in range(9)]})
    with pytest.raises(ValueError, match="'g' has a different value in nearly every row"):
        join_single_rows(table, ["g"])


def test_dates_and_numbers_in_other_forms_are_named_as_such():
    days = pd.date_range("2020-01-01", periods=60)
    frame = pd.DataFrame(
        {
            "german": days.strftime("%d.%m.%Y"),
            "digits": days.strftime("%Y%m%d").astype(int),
            "amount": [f"{'$' if i % 2 else '€'}{i}.5" for i in range(60)],
            "account": np.arange(60) + 20_209_000,  # no months
            "iban": [str(10**15 + i) for i in range(60)],
        }
    )
    other = columns.DATES
    assert columns.unlearnable(frame, frame.columns) == {
        "german": other,
        "digits": other,
        "amount": columns.NUMBERS,
        "account": "identifiers",
        "iban": "identifiers",
    }
