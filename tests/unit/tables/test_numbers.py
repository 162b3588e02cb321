"""Numbers and dates as text: what each convention reads, and where neither decides."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pd = pytest.importorskip("pandas")

from fairspan.tables.numbers import convert_texts, number_texts  # noqa: E402


def convert(*values, **options):
    return convert_texts({"a": pd.Series(list(values), dtype=object, name="a")}, **options)


def read(*values, **options):
    found = convert(*values, **options).columns.get("a")
    return None if found is None else found.tolist()


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["1,5", "2,25"], [1.5, 2.25]),
        (["1.5", "2.25"], [1.5, 2.25]),
        (["1.234,5", "7"], [1234.5, 7.0]),
        (["1,234.5", "7"], [1234.5, 7.0]),
        (["1,234,567", "7"], [1234567, 7]),
        (["1.234.567", "7"], [1234567, 7]),
        (["0,123", "0,5"], [0.123, 0.5]),
        (["12,3456", "1,234"], [12.3456, 1.234]),
        (["1 234", "12\u00a0345"], [1234, 12345]),
        (["1'234.50", "2.00"], [1234.5, 2.0]),
        (["$1,234.50", "$2"], [1234.5, 2.0]),
        (["1,5 €", "2,25 €"], [1.5, 2.25]),
        (["EUR 1,5", "EUR 2,25"], [1.5, 2.25]),
        (["12 %", "5%"], [12, 5]),
        (["($5.50)", "-$1", "\u22122.5", "+3"], None),
        (["(5.50)", "-1", "\u22122.5", "+3"], [-5.5, -1.0, -2.5, 3.0]),
        (["1.5e3", "2.5E-1"], [1500.0, 0.25]),
        (["$5", "€5"], None),
        (["12%", "0.12"], None),
        (["01", "1,5"], None),
        (["1,23,456", "1"], None),
        (["1.2.3", "1"], None),
        (["5 years", "6"], None),
        (["?", "-"], None),
    ],
)
def test_a_column_of_numbers_is_read_by_all_of_its_values(texts, numbers):
    assert read(*texts) == numbers


def test_words_without_a_value_are_missing_among_numbers():
    found = convert("1,5", "?", "n/a", None)
    np.testing.assert_array_equal(found.columns["a"], [1.5, np.nan, np.nan, np.nan])
    assert found.placeholders == {"a": ("?", "n/a")}


@pytest.mark.parametrize("texts", [["1,234", "5,678"], ["1.234", "56"]])
def test_three_digits_after_a_mark_need_a_decision(texts):
    mark = "," if "," in texts[0] else "."
    other = {",": ".", ".": ","}[mark]
    with pytest.raises(ValueError, match=r"the column 'a' holds .* Pass decimal='\.'"):
        read(*texts)
    whole = [float(t.replace(mark, "")) for t in texts]
    parts = [float(t.replace(mark, ".")) for t in texts]
    assert read(*texts, decimal=other) == whole == read(*texts, elsewhere=[other])
    assert read(*texts, decimal=mark) == parts == read(*texts, elsewhere=[mark])
    assert read(*texts, usual=mark) == parts
    with pytest.raises(ValueError, match="do not decide"):
        read(*texts, usual=other)
    with pytest.raises(ValueError, match="do not decide"):
        read(*texts, elsewhere=[",", "."])


def test_another_column_decides():
    columns = {"a": pd.Series(["1.234", "5.678"]), "b": pd.Series(["0,5", "1,25"])}
    assert convert_texts(columns).columns["a"].tolist() == [1234, 5678]


def test_a_mark_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"holds '2\.55', which is no number with decimal=','"):
        read("2.55", "1.5", decimal=",")


def test_typed_sources_keep_digits_as_text():
    assert read("1,5", "2,5", only_with_unit=True) is None
    assert read("1,5 €", "2,5 €", only_with_unit=True) == [1.5, 2.5]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=1, max_size=20),
    st.sampled_from([(",", "."), (".", ","), ("", "."), ("", ","), (" ", ","), ("'", ".")]),
)
def test_what_a_spreadsheet_writes_is_read_back(values, marks):
    thousands, decimal = marks
    texts = [
        f"{v:,.2f}".replace(",", "T").replace(".", decimal).replace("T", thousands) for v in values
    ]
    assert read(*texts) == [float(v) for v in values]


@pytest.mark.parametrize(
    ("texts", "dates"),
    [
        (["2020-01-31", "2021-12-01"], ["2020-01-31", "2021-12-01"]),
        (
            ["2020-01-31T10:30", "2021-12-01 23:59:59.25"],
            ["2020-01-31T10:30", "2021-12-01T23:59:59.25"],
        ),
        (["2020-01-31T01:00+02:00", "2020-01-31 01:00Z"], ["2020-01-30T23:00", "2020-01-31T01:00"]),
        (["0001-01-01", "9999-12-31"], ["0001-01-01", "9999-12-31"]),
        (["2020-01-31", "unknown"], ["2020-01-31", "NaT"]),
        (["2020-02-30"], None),
        (["2020-01-31T10:00", "2020-01-31T10:00Z"], None),
        (["31.01.2020"], None),
        (["20200131"], [20200131]),
    ],
)
def test_iso_dates_are_dates_and_nothing_else_is(texts, dates):
    found = convert(*texts).columns.get("a")
    if dates is None:
        assert found is None
    elif isinstance(dates[0], int):
        assert found.tolist() == dates
    else:
        expected = np.array(dates, dtype="datetime64[us]")
        np.testing.assert_array_equal(found.to_numpy().astype("datetime64[us]"), expected)


def test_a_minus_may_come_after_the_number():
    column = pd.Series(["1.5-", "2", "3,000.25-"])
    assert convert_texts({"x": column}).columns["x"].tolist() == [-1.5, 2.0, -3000.25]
    assert number_texts(["-1-", "2"]) is None


def test_words_among_dates_are_named():
    column = pd.Series(["2020-01-31", "?", "0000-00-00"])
    found = convert_texts({"x": column})
    assert found.columns["x"].isna().tolist() == [False, True, True]
    assert found.words == ["missing values in x ('?', '0000-00-00')"]
