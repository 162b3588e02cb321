"""Sheets of Excel files: types, sheets, blanks, and what is refused."""

import datetime

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
openpyxl = pytest.importorskip("openpyxl")

from fairspan.tables.files import ReadOptions, open_table  # noqa: E402


def write(path, **sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def read(path, text=(), **options):
    return open_table(path, ReadOptions(**options)).read(text)


DAY = datetime.datetime(2020, 1, 31)


def test_types_are_those_of_the_cells(tmp_path):
    rows = [
        ["n", "x", "day", "who", "paid", "price", "gap"],
        [1, 1.5, DAY, "a", True, "$1,200.50", None],
    ]
    rows += [[2, None, DAY, "b", False, "$3", None], [None] * 7]
    frame = read(write(tmp_path / "t.xlsx", Data=rows)).frame
    assert len(frame) == 2
    assert frame["n"].tolist() == [1, 2]
    np.testing.assert_array_equal(frame["x"], [1.5, np.nan])
    assert frame["day"].dt.day.tolist() == [31, 31]
    assert frame["paid"].dtype == bool
    assert frame["price"].tolist() == [1200.5, 3.0]
    assert frame["gap"].isna().all()


def test_blank_rows_and_columns_around_the_table_are_no_data(tmp_path):
    rows = [
        [None, None, None],
        [None, "a", "b"],
        [None, 1, "x"],
        [None, None, None],
        [None, 2, "#N/A"],
    ]
    frame = read(write(tmp_path / "t.xlsx", Data=rows)).frame
    assert frame.columns.tolist() == ["a", "b"]
    assert frame["a"].tolist() == [1, 2]
    assert frame["b"].isna().tolist() == [False, True]


def test_words_without_a_value_and_mixed_columns(tmp_path):
    rows = [["n", "code"], [1, 1], ["n/a", "1A"], [2.5, 2.0]]
    found = read(write(tmp_path / "t.xlsx", Data=rows))
    np.testing.assert_array_equal(found.frame["n"], [1.0, np.nan, 2.5])
    assert found.frame["code"].tolist() == ["1", "1A", "2"]
    assert "text in 'code'" in found.assumed
    assert read(tmp_path / "t.xlsx", text=["n"]).frame["n"].tolist() == ["1", "n/a", "2.5"]


def test_the_first_sheet_with_values_is_taken_and_named(tmp_path):
    path = write(tmp_path / "t.xlsx", Empty=[], Data=[["a"], [1]], Other=[["b"], [2]])
    found = read(path)
    assert found.frame.columns.tolist() == ["a"]
    assert found.assumed == "sheet 'Data' of 2 sheets"
    assert dict(found.options) == {"sheet": "Data"}
    assert read(path, sheet="Other").frame.columns.tolist() == ["b"]
    assert read(path, sheet="Data").assumed == ""


@pytest.mark.parametrize(
    ("rows", "options", "says"),
    [
        ([["a", None], [1, 2]], {}, "its column B has values and no name"),
        ([["a", "a"], [1, 2]], {}, "it has two columns named 'a'"),
        ([["a"]], {}, "it has no rows"),
        ([["a"], [1]], {"sheet": "Date"}, r"sheet='Date' is not one of its sheets: 'Data'"),
        ([["a"], [1]], {"sep": ";"}, "sep= is for text files, and it is an Excel file"),
    ],
)
def test_what_cannot_be_a_table_is_refused(tmp_path, rows, options, says):
    path = write(tmp_path / "t.xlsx", Data=rows)
    with pytest.raises(ValueError, match=f"t.xlsx cannot be read: {says}"):
        read(path, **options)


def test_a_zip_file_is_no_workbook(tmp_path):
    path = tmp_path / "t.xlsx"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(ValueError, match="no Excel file that can be opened"):
        read(path)
