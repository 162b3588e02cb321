"""Files of every kind: what they are read as, what was assumed, and one clear line where they cannot be."""

import io
import lzma
import sys

import pytest

pd = pytest.importorskip("pandas")

from tests.support.borrowers import people  # noqa: E402

from fairspan.exceptions import DataWarning  # noqa: E402
from fairspan.tables import files  # noqa: E402


def test_a_column_that_counts_the_rows_is_left_out_and_another_is_not(tmp_path):
    people(5).to_csv(tmp_path / "a.csv")
    found = files.open_table(tmp_path / "a.csv").read()
    pd.testing.assert_frame_equal(found.frame, people(5))
    assert found.counted
    people(5).iloc[::-1].to_csv(tmp_path / "b.csv")
    found = files.open_table(tmp_path / "b.csv").read()
    assert found.frame.shape == (5, 6)
    assert not found.counted


def test_a_package_that_is_absent_is_named(tmp_path, monkeypatch):
    path = tmp_path / "a.csv.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ImportError, match=r'a\.csv\.zst cannot be read: .*"fairspan\[stream\]"'):
        files.read_table(path)


def test_what_has_no_room_in_memory_is_refused_before_it_is_there(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    frame = people(2000)
    path = tmp_path / "a.csv.xz"
    path.write_bytes(lzma.compress(frame.to_csv(index=False).encode()))
    frame.to_parquet(tmp_path / "a.parquet")
    size = 8 * 2000 * 5
    monkeypatch.setattr(files, "memory_bytes", lambda: 2 * size - 1)
    for file in (path, tmp_path / "a.parquet"):
        with pytest.raises(ValueError, match=r"does not fit in memory\. In Python, fit_stream"):
            files.read_table(file)
    monkeypatch.setattr(files, "memory_bytes", lambda: 2**30)
    for file in (path, tmp_path / "a.parquet"):
        pd.testing.assert_frame_equal(files.read_table(file), frame)


KINDS = {
    "t.csv": lambda t, p: t.to_csv(p, index=False),
    "t.csv.gz": lambda t, p: t.to_csv(p, index=False),
    "t.tsv": lambda t, p: t.to_csv(p, index=False, sep="\t"),
    "t.parquet": lambda t, p: t.to_parquet(p),
    "t.feather": lambda t, p: t.to_feather(p),
    "t.xlsx": lambda t, p: t.to_excel(p, index=False),
}
PACKAGES = {"t.parquet": "pyarrow", "t.feather": "pyarrow", "t.xlsx": "openpyxl"}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file_gives_the_same_table(name, tmp_path, monkeypatch):
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name])
    path = tmp_path / name
    KINDS[name](people(50), path)
    found = files.open_table(path).read()
    pd.testing.assert_frame_equal(found.frame, people(50))
    assert found.assumed == ""
    # Standard input has no name; the content decides.
    stdin = io.TextIOWrapper(io.BytesIO(path.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    pd.testing.assert_frame_equal(files.open_table("-").read().frame, people(50))
    renamed = tmp_path / "renamed.csv"
    renamed.write_bytes(path.read_bytes())
    pd.testing.assert_frame_equal(files.open_table(renamed).read().frame, people(50))


def test_a_guess_warns_in_python_and_options_silence_it(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1,5;x\n2,5;y\n", encoding="utf-8")
    with pytest.warns(DataWarning, match=r"semicolons.*decimal commas\. Pass sep=';', decimal=','"):
        guessed = files.read_table(path)
    pd.testing.assert_frame_equal(files.read_table(path, sep=";", decimal=","), guessed)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("t.xls", b"", "is of no known kind"),
        ("t.csv", b"\xd0\xcf\x11\xe0", r"an old Excel \(\.xls\): save it as \.xlsx"),
        ("t.csv", b"SQLite format 3\0", "give a query"),
        ("t.csv", b"%PDF-1.7", "it is a PDF"),
        ("t.csv", b"  <HTML><body>", "it is a web page"),
        ("t.parquet", b"a,b\n1,2\n", "no Parquet file although it is named .parquet"),
        ("t.parquet", b"PAR1 cut", "it is damaged, or no Parquet file"),
        ("t.feather", b"ARROW1 cut", "it is damaged, or no Feather file"),
        ("t.csv.gz", b"\x1f\x8b cut", r"its compression \(\.gz\) is damaged"),
    ],
)
def test_what_is_no_table_is_refused_with_a_remedy(tmp_path, name, content, says):
    if name.endswith((".parquet", ".feather")):
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=says) as caught:
        files.read_table(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"decimal": ";"}, "decimal=';' is not allowed"),
        ({"sep": ",", "decimal": ","}, "are both ','"),
        ({"sheet": "Data"}, "sheet= is for Excel files"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, options, says):
    path = tmp_path / "t.csv"
    people(5).to_csv(path, index=False)
    with pytest.raises(ValueError, match=says):
        files.read_table(path, **options)
