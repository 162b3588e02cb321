"""Dictionaries of columns: labels, descriptions and kinds, and what is refused."""

import pytest

pytest.importorskip("pandas")

from fairspan.tables import read_dictionary
from fairspan.tables.dictionary import ColumnWords, check_labels


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_a_dictionary_is_read(tmp_path):
    lines = ["Name,Label,Description,Kind", 'age,Age,"In years, at the application",number']
    text = "\n".join([*lines, "zip,,,code", "id,,,id", "01,,,", ""])
    found = read_dictionary(write(tmp_path / "c.csv", text))
    assert found == {
        "age": ColumnWords(
            label="Age", description="In years, at the application", kind="continuous"
        ),
        "zip": ColumnWords(kind="categorical"),
        "id": ColumnWords(kind="identifier"),
        "01": ColumnWords(),
    }
    assert list(read_dictionary(write(tmp_path / "n.csv", "name\nage\n"))) == ["age"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("column,label\na,b\n", "is no dictionary of columns: it has 'column', 'label'"),
        (
            "name,kind\na,date\n",
            "gives the column 'a' the kind 'date'; give categorical, continuous",
        ),
        ("name,kind\na,\na,\n", "has the column 'a' twice"),
        ("name,label\na,x\nb,x\n", "gives 'a' and 'b' the same label 'x'"),
        ("name,label\n,x\n", "names no column"),
    ],
)
def test_a_dictionary_that_contradicts_itself_is_refused(tmp_path, text, says):
    with pytest.raises(ValueError, match=says):
        read_dictionary(write(tmp_path / "c.csv", text))


def test_a_label_is_not_the_name_of_another_column():
    check_labels({"a": ColumnWords(label="a")}, ["a", "b"], "c.csv")
    with pytest.raises(ValueError, match="gives 'a' the label 'b', which is the name of another"):
        check_labels({"a": ColumnWords(label="b")}, ["a", "b"], "c.csv")
