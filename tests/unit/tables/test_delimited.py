"""CSV in any dialect: separator, encoding and decimal mark are guessed from the whole file or refused."""

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from fairspan.tables.delimited import LEADING_ZEROS, describe, read_delimited  # noqa: E402

TEXT = "name{s}n{s}x\nKöln{s}1{s}a\nBonn{s}2{s}b\n"


def read(content, text=(), **options):
    content = content.encode() if isinstance(content, str) else content
    source = read_delimited(content, **options)
    frame, converted = source.frame(text)
    return frame, describe(source, converted, options)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le", "utf-16-be"]
)
@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_dialect_gives_one_table(sep, encoding, end):
    expected, _ = read(TEXT.format(s=","))
    content = TEXT.format(s=sep).replace("\n", end).encode(encoding)
    found, assumed = read(content)
    pd.testing.assert_frame_equal(found, expected)
    usual = sep == "," and encoding in ("utf-8", "utf-8-sig")
    assert (assumed == []) == usual
    assert read(content, sep=sep, encoding=encoding)[1] == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it is empty"),
        (b"\xef\xbb\xbf \n", "it is empty"),
        (b"a,a\n1,2\n", "two columns named 'a'"),
        (b"a,b\n1\n", "line 2 has 1 field and the header 2"),
        (b'a,b\n1,2\n"3,4\n5,6\n', "quotes of a field that ends in line 4 are not closed"),
        (b"a,b;c\n1,2;3\n", "may be separated by commas or ';'"),
        ("aä,b\nö,1\nü,2\n".encode() + b"\xff,3\n", "UTF-8 with damaged bytes, first in line 4"),
        (b"a,b\n\0,1\n", "NUL characters"),
    ],
)
def test_a_file_that_can_be_read_in_two_ways_is_refused(content, says):
    if says.startswith("may be"):
        content = content.replace(b"a,b;c\n1,2;3\n", b"a|b;c\n1|2;3\n")
        says = "may be separated by ';' or '|'"
    with pytest.raises(ValueError, match=says):
        read(content)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"encoding": "utf-7000"}, "encoding='utf-7000' is unknown"),
        ({"encoding": "ascii"}, r"not in the encoding ascii\. Pass encoding='utf-8'"),
        ({"sep": ";;"}, "give one character"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        read(TEXT.format(s=","), **options)


def test_decimal_commas_of_one_column_decide_for_the_others():
    content = "a;b;c\n1.234;0,5;2\n5.678;1,5;3\n"
    frame, assumed = read(content)
    assert frame["a"].tolist() == [1234, 5678]
    assert frame["b"].tolist() == [0.5, 1.5]
    assert assumed == ["semicolons between fields", "decimal commas"]
    with pytest.raises(ValueError, match=r"'1\.234', where '\.' may separate thousands"):
        read("a;c\n1.234;2\n5.678;3\n")
    assert read("a;c\n1.234;2\n5.678;3\n", decimal=".")[0]["a"].tolist() == [1.234, 5.678]
    assert read("a;c\n1.234;2\n5.67;3\n")[0]["a"].tolist() == [1.234, 5.67]
    assert read("a,c\n1.234,2\n5.678,3\n")[0]["a"].tolist() == [1.234, 5.678]


def test_codes_stay_as_they_are_written():
    frame, _ = read("a,b\n01,1\n02,\n")
    assert frame.attrs[LEADING_ZEROS] == {"a": "01"}
    assert read("a,b\n01,1\n02,\n", text=["a", "b"])[0]["a"].tolist() == ["01", "02"]
    source = read_delimited(b"a,b\n01,1.0\n02,\n")
    assert source.written(["b", "a"])["b"].fillna("gap").tolist() == ["1.0", "gap"]


def test_a_line_that_names_the_separator_is_no_row():
    frame, _ = read("sep=;\na;b\n1;2\n")
    assert frame.columns.tolist() == ["a", "b"]
    assert len(frame) == 1


@pytest.mark.parametrize("above", ["Report\n\n", "# a remark\n", "Report;of 2024\nMay;\n"])
def test_lines_above_the_header_are_named(above):
    sep = ";" if ";" in above else ","
    text = above + f"a{sep}b{sep}c\n" + f"1{sep}2{sep}3\n" * 30
    line = 1 + above.count("\n")
    with pytest.raises(ValueError, match=rf"31 lines have 3 .*first line {line}. Remove the lines"):
        read_delimited(text.encode())


def test_numbers_keep_their_last_digit(rng):
    """Another last digit is another hash of a row, and so another fold."""
    numbers = rng.normal(40.0, 12.0, 500)
    text = "a\n" + "\n".join(map(repr, numbers.tolist())) + "\n"
    frame, _ = read(text)
    np.testing.assert_array_equal(frame["a"].to_numpy(), numbers)
