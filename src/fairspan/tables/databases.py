"""Read the result of a SQL query, through a connection or from an SQLite or DuckDB file.

A file is opened read-only: SQLite may only select, DuckDB also reads no other file.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from fairspan._system import first_line
from fairspan.exceptions import DataWarning, warn_user
from fairspan.tables.result import ReadTable, keep_units
from fairspan.tables.typed import column_of, from_arrow, tidy

_SCHEMES = ("sqlite:///", "duckdb:///")
_KNOWN = "sqlite:///FILE or duckdb:///FILE"


def read_sql(
    query: str,
    connection: Any,
    *,
    text: Collection[str] = (),
    units: Mapping[str, str] | None = None,
) -> Any:
    """Read the result of a query through any DB-API or ADBC connection.

    Parameters
    ----------
    query : str
        A SQL query whose result has one row per person.
    connection : DB-API 2.0 or ADBC connection
        For example of `sqlite3`, `duckdb`, `psycopg` or `adbc_driver_sqlite.dbapi`. It stays open.
    text : collection of str, optional
        Columns of text that stay text, whatever their values look like.
    units : dict of str to str, optional
        Signs of columns, as of :func:`read_table`.

    Returns
    -------
    pandas.DataFrame
        Decimals are floats. ISO dates as text are dates, because SQLite has no type for them. Texts such
        as "12 %" are numbers; a warning names their columns.

    Raises
    ------
    ValueError
        The database refuses the query, or the result has no rows or repeated column names.

    Examples
    --------
    >>> import sqlite3
    >>> from fairspan.tables import read_sql
    >>> connection = sqlite3.connect(":memory:")
    >>> read_sql("SELECT 1 AS age, '2024-05-01' AS since", connection).dtypes.astype(str).tolist()
    ['int64', 'datetime64[us]']
    """
    return _told(_query(query, connection, text, units))


def _told(table: ReadTable) -> Any:
    """Return the table; warn of what was assumed."""
    if table.assumed:
        msg = f"The query was read with: {table.assumed}. text= keeps columns as text."
        warn_user(msg, DataWarning)
    return table.frame


def _query(
    query: str, connection: Any, text: Collection[str], units: Mapping[str, str] | None
) -> ReadTable:
    cursor_of = getattr(connection, "cursor", None)
    if not callable(cursor_of):
        raise TypeError(
            f"connection must be a DB-API or ADBC connection, which has a method cursor(); got "
            f"{type(connection).__name__}. Of SQLAlchemy, give engine.raw_connection()."
        )
    _check_query(query)
    try:
        cursor = cursor_of()
        try:
            cursor.execute(query)
            frame = _fetch(cursor)
        finally:
            cursor.close()
    except _OwnError as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # each database has its own classes
        raise ValueError(_refusal(error)) from error
    return _checked(frame, text, units)


def _refusal(error: Exception) -> str:
    """Describe an error of a database: what to change in the query, and its reason."""
    reason = first_line(error)
    if re.search("not authorized|read-only|readonly|attached database", reason, re.I):
        return "The query would change the database, which is read-only here: give a SELECT."
    reason = re.sub(r"^\w+ Error: ", "", reason).rstrip(".")
    return f"The query cannot be run ({reason}). Correct its tables, columns or syntax."


class _OwnError(Exception):
    """An error in our words, which is not about the database."""


def read_database(
    url: str,
    query: str,
    *,
    text: Collection[str] = (),
    units: Mapping[str, str] | None = None,
) -> Any:
    """Read the result of a query of an SQLite or DuckDB file, which is opened read-only.

    Parameters
    ----------
    url : str
        ``sqlite:///file.db`` or ``duckdb:///file.db``; an absolute path has four slashes.
    query : str
        A SQL query whose result has one row per person.
    text : collection of str, optional
        Columns of text that stay text, whatever their values look like.
    units : dict of str to str, optional
        Signs of columns, as of :func:`read_table`.

    Returns
    -------
    pandas.DataFrame
        As of :func:`read_sql`.

    Raises
    ------
    ValueError
        The address, the file or the query cannot be used.
    """
    return _told(database_table(url, query, text, units))


def database_table(
    url: str, query: str, text: Collection[str], units: Mapping[str, str] | None
) -> ReadTable:
    """Read a query as :func:`read_database` does, and return what was assumed."""
    scheme = next((known for known in _SCHEMES if url.startswith(known)), None)
    if scheme is None:
        raise ValueError(
            f"database={url!r} is not allowed; give {_KNOWN}. For another database, open a connection in "
            f"Python: fairspan.tables.read_sql(query, connection)."
        )
    path = Path(url.removeprefix(scheme))
    if not path.is_file():
        reason = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise ValueError(f"database={url!r}: {path} {reason}; give {_KNOWN}.")
    _check_query(query)
    opened: Callable[[Path], Any] = {"sqlite:///": _sqlite, "duckdb:///": _duckdb}[scheme]
    with closing(opened(path)) as connection:
        return _query(query, connection, text, units)


def _check_query(query: str) -> None:
    if not query.strip():
        raise ValueError("The query is empty; give SQL such as SELECT * FROM people.")


def _sqlite(path: Path) -> Any:
    import sqlite3

    with path.open("rb") as file:
        start = file.read(16)
    if start != b"SQLite format 3\0":
        raise ValueError(f"{path} is no SQLite database; give {_KNOWN}.")
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    allowed = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
    allowed.add(sqlite3.SQLITE_RECURSIVE)
    # ATTACH would open other files, which mode=ro does not protect.
    connection.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY
    )
    return connection


def _duckdb(path: Path) -> Any:
    try:
        duckdb = importlib.import_module("duckdb")
    except ImportError as error:
        raise ImportError(f"{path} needs DuckDB to be read: pip install duckdb") from error
    try:
        settings = {"enable_external_access": "false"}
        return duckdb.connect(str(path), read_only=True, config=settings)
    except Exception as error:  # a class of its own
        raise ValueError(f"{path} cannot be opened by DuckDB: {first_line(error)}") from error


def _fetch(cursor: Any) -> Any:
    """Return the result of a cursor as a data frame; Arrow where the driver has it."""
    import pandas as pd

    if hasattr(cursor, "fetch_arrow_table") and _has_pyarrow():  # of ADBC
        return from_arrow(cursor.fetch_arrow_table())
    if cursor.description is None:
        raise _OwnError("The query gives no table; give one that begins with SELECT.")
    names = [str(column[0]) for column in cursor.description]
    values = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
    frame = pd.DataFrame({j: column_of(list(column)) for j, column in enumerate(values)})
    frame.columns = pd.Index(names, dtype=object)
    return frame


def _has_pyarrow() -> bool:
    try:
        importlib.import_module("pyarrow")
    except ImportError:
        return False
    return True


def _checked(frame: Any, text: Collection[str], units: Mapping[str, str] | None) -> ReadTable:
    if frame.columns.has_duplicates:
        twice = frame.columns[frame.columns.duplicated()][0]
        msg = f"The query has two columns named {twice!r}; give each its own name with AS."
        raise ValueError(msg)
    if frame.empty:
        raise ValueError("The query gives no rows.")
    frame, converted = tidy(frame, text=text)
    keep_units(frame, converted.units, units)
    return ReadTable(frame=frame, assumed=", ".join(converted.words))
