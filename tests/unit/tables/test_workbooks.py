"""Sheets of Excel files: types, sheets, blanks, and what is refused."""

import datetime

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
openpyxl = pytest.importorskip("openpyxl")

from fairspan.inputs.units import units_of  # noqa: E402
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


def formatted(path, formats, rows):
    """Write rows below a header of the formats' numbers; a format of None is Excel's own."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append([f"x{j}" for j in range(len(formats))])
    for row in rows:
        sheet.append(row)
    for row in sheet.iter_rows(min_row=2):
        for cell, number_format in zip(row, formats, strict=True):
            if number_format is not None:
                cell.number_format = number_format
    book.save(path)
    return path


def test_percentages_are_read_as_they_are_shown(tmp_path):
    formats = ["0%", "0.0 %", None, '#,##0.00 "€"', "[$€-407] 0", "[$-409]0.0", "[Red]0.0"]
    rows = [[0.07, 0.285, 0.12, 5.5, 6, 7.0, 8.0], [None, 0, "n/a", 5, 6, 7.0, 8.0]]
    found = read(formatted(tmp_path / "t.xlsx", formats, rows))
    frame = found.frame
    np.testing.assert_array_equal(frame["x0"], [7.0, np.nan])
    assert frame["x1"].tolist() == [28.5, 0.0]
    np.testing.assert_array_equal(frame["x2"], [0.12, np.nan])
    assert units_of(frame) == {"x0": "%", "x1": "%", "x3": "€", "x4": "€"}
    assert found.assumed == "percentages as shown, 12 for 12 %, in 'x0', 'x1'"


def test_columns_of_text_keep_what_the_cells_hold(tmp_path):
    path = formatted(tmp_path / "t.xlsx", ["0%"], [[0.07]])
    found = read(path, text=["x0"])
    assert found.frame["x0"].tolist() == ["0.07"]
    assert (found.assumed, units_of(found.frame)) == ("", {})


def test_several_signs_in_a_column_are_named(tmp_path):
    path = formatted(tmp_path / "t.xlsx", [None], [[0.07], [5]])
    book = openpyxl.load_workbook(path)
    book.active["A2"].number_format, book.active["A3"].number_format = "0%", '0 "€"'
    book.save(path)
    found = read(path)
    assert found.frame["x0"].tolist() == [0.07, 5]
    assert found.assumed == "numbers with several signs in 'x0' (%, €)"
