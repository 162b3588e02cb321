"""Tables that experiments write: numbers stay numbers, and no text is a formula."""

import csv

from fairspan_lab.cells import write_table


def test_negative_numbers_are_numbers_and_formulas_are_text(tmp_path):
    cells = ["-0.00424", -0.5, "-1e-05", "=cmd()", "-1+1", "@x", "+7", "+", "-"]
    rows = [{"a": cell} for cell in cells]
    path = write_table(tmp_path / "t.csv", ["a"], rows, "\n")
    with path.open(newline="") as file:
        read = [row["a"] for row in csv.DictReader(file)]
    assert read == ["-0.00424", "-0.5", "-1e-05", "'=cmd()", "'-1+1", "'@x", "+7", "+", "-"]
