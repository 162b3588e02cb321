"""Queries: types, files that stay as they are, and refusals without a database's own words."""

import decimal
import sqlite3
from contextlib import closing

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from fairspan.tables import read_database, read_sql  # noqa: E402

ROWS = [("f", 1, 1.5, "2020-01-31", "01"), ("m", None, 2.5, "2021-06-30", "02")]
COLUMNS = ["sex", "n", "x", "since", "code"]


def check(frame):
    assert frame.columns.tolist() == COLUMNS
    np.testing.assert_array_equal(frame["n"], [1.0, np.nan])
    assert frame["since"].dt.month.tolist() == [1, 6]
    assert frame["code"].tolist() == ["01", "02"]
    assert frame["x"].tolist() == [1.5, 2.5]


@pytest.fixture
def sqlite(tmp_path):
    path = tmp_path / "people.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE people (sex TEXT, n INTEGER, x REAL, since TEXT, code TEXT)"
        )
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", ROWS)
        connection.commit()
    return path


@pytest.fixture
def duck(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "people.duckdb"
    with closing(duckdb.connect(str(path))) as connection:
        connection.execute(
            "CREATE TABLE people (sex TEXT, n INTEGER, x DECIMAL(12, 2), since DATE, code TEXT)"
        )
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", ROWS)
    return path


def test_an_sqlite_file_is_read(sqlite):
    check(read_database(f"sqlite:///{sqlite}", "SELECT * FROM people"))
    with closing(sqlite3.connect(sqlite)) as connection:
        check(read_sql("SELECT * FROM people", connection))


def test_a_duckdb_file_is_read(duck):
    check(read_database(f"duckdb:///{duck}", "SELECT * FROM people"))


def test_adbc_gives_the_same(sqlite):
    adbc = pytest.importorskip("adbc_driver_sqlite.dbapi")
    pytest.importorskip("pyarrow")
    with adbc.connect(str(sqlite)) as connection:
        check(read_sql("SELECT * FROM people", connection))


WRITES = [
    "DROP TABLE people",
    "DELETE FROM people",
    "CREATE TABLE other (a INTEGER)",
    "INSERT INTO people SELECT * FROM people",
]


@pytest.mark.parametrize("query", [*WRITES, "ATTACH 'new.db' AS other", "PRAGMA user_version = 3"])
def test_an_sqlite_file_is_never_changed(sqlite, query, monkeypatch):
    monkeypatch.chdir(sqlite.parent)
    before = sqlite.read_bytes()
    with pytest.raises(ValueError, match="read-only here: give a SELECT"):
        read_database(f"sqlite:///{sqlite}", query)
    assert sqlite.read_bytes() == before
    assert [path.name for path in sqlite.parent.iterdir()] == ["people.db"]


@pytest.mark.parametrize(
    "query", [*WRITES, "COPY people TO 'new.csv'", "SELECT * FROM 'people.csv'"]
)
def test_a_duckdb_file_is_never_changed(duck, query, monkeypatch):
    monkeypatch.chdir(duck.parent)
    (duck.parent / "people.csv").write_text("a\n1\n")
    before = duck.read_bytes()
    with pytest.raises(ValueError, match=r"The query (cannot|would)"):
        read_database(f"duckdb:///{duck}", query)
    assert duck.read_bytes() == before
    assert sorted(path.name for path in duck.parent.iterdir()) == ["people.csv", "people.duckdb"]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT * FROM nobody", r"cannot be run \(no such table: nobody\)\. Correct its tables"),
        ("SELEC", "cannot be run"),
        (
            "SELECT sex, n AS sex FROM people",
            "two columns named 'sex'; give each its own name with AS",
        ),
        ("SELECT * FROM people WHERE n > 5", "gives no rows"),
        (" ", "The query is empty"),
    ],
)
def test_a_query_that_gives_no_table_is_refused(sqlite, query, says):
    with pytest.raises(ValueError, match=says):
        read_database(f"sqlite:///{sqlite}", query)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://host/db", "read_sql"),
        ("sqlite:///nothing.db", "nothing.db does not exist"),
        ("sqlite:///.", "is a folder"),
        ("sqlite:///note.txt", "is no SQLite database"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(url, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.txt").write_text("hello")
    with pytest.raises(ValueError, match=says):
        read_database(url, "SELECT 1 AS a")


def test_objects_of_a_driver_become_numbers_and_dates():
    class Cursor:
        description = (("amount",), ("flag",), ("empty",))

        def execute(self, query):
            assert query == "SELECT"

        def fetchall(self):
            return [(decimal.Decimal("1.25"), True, None), (None, False, None)]

        def close(self):
            pass

    class Connection:
        cursor = Cursor

    frame = read_sql("SELECT", Connection())
    np.testing.assert_array_equal(frame["amount"], [1.25, np.nan])
    assert frame["flag"].dtype == bool
    assert frame["empty"].isna().all()
    with pytest.raises(TypeError, match="must be a DB-API or ADBC connection"):
        read_sql("SELECT 1", "people.db")
