"""Files as people have them: ``python -m tools.ugly_files`` prints ``file  assumed  outcome`` for each.

Every file is generated, and gives a page or one line with a remedy. ``make acceptance-files`` counts.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

_TRACEBACK = "Traceback"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A file, the options after it, and what must be printed.

    Attributes
    ----------
    name : name of the file; with a blank, the words after it describe it.
    make : function that writes the file.
    options : options beside ``--target repaid --protected sex``.
    page : whether a page is expected; otherwise one line with a remedy.
    says : texts that must be printed.
    target, protected : columns.
    """

    name: str
    make: Callable[[Path], None]
    options: tuple[str, ...] = ()
    page: bool = True
    says: tuple[str, ...] = ()
    target: str = "repaid"
    protected: str = "sex"

    @property
    def file(self) -> str:
        """Name of the file without the words about it."""
        return self.name.partition(" ")[0]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a case gave.

    Attributes
    ----------
    assumed : what the command said that it assumed.
    outcome : "page", or the line of the error.
    passed : whether it is what was expected.
    seconds : wall time.
    """

    assumed: str
    outcome: str
    passed: bool
    seconds: float


def people(n: int = 240, seed: int = 0) -> pd.DataFrame:
    """A table of borrowers."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    income = (2000 + 800 * rng.normal(size=n) + 300 * (sex == "m")).round(2)
    return pd.DataFrame(
        {
            "sex": sex,
            "income": income,
            "debt": rng.gamma(2.0, 3.0, n).round(3),
            "town": rng.choice(["Köln", "Bonn", "Aachen"], n),
            "repaid": np.where(income + 700 * rng.normal(size=n) > 2000, "Ja", "Nein"),
        }
    )


def _comma(values: Any, digits: int = 2, thousands: str = "") -> list[str]:
    """Write numbers with decimal commas."""
    texts = (f"{value:,.{digits}f}" for value in values)
    return [t.replace(",", "\0").replace(".", ",").replace("\0", thousands) for t in texts]


def _csv(change: Callable[[pd.DataFrame], pd.DataFrame] = lambda t: t, **options: Any) -> Any:
    """Return a function that writes people as CSV."""

    def write(path: Path) -> None:
        change(people()).to_csv(path, index=False, **options)

    return write


def _raw(content: bytes) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(content)


def _table_bytes() -> bytes:
    return people().to_csv(index=False).encode()


def _german(table: pd.DataFrame) -> pd.DataFrame:
    income = _comma(table["income"], thousands=".")
    return table.assign(income=income, debt=_comma(table["debt"], 3))


def _text_columns(table: pd.DataFrame) -> pd.DataFrame:
    n = len(table)
    words = np.random.default_rng(1).choice(["paid", "late", "wrote", "called", "moved"], (n, 5))
    return table.assign(
        customer_id=np.random.default_rng(2).permutation(n) + 10_000,
        email=[f"p{i}@example.org" for i in range(n)],
        remark=[" ".join(row) + f" {i}" for i, row in enumerate(words)],
    )


def _workbook(path: Path, *, first: bool = True) -> None:
    with pd.ExcelWriter(path, engine="openpyxl") as book:
        if not first:
            pd.DataFrame({"note": ["the table is on the next sheet"]}).to_excel(
                book, sheet_name="About"
            )
        dates = pd.date_range("2020-01-01", periods=240, freq="D")
        people().assign(since=dates).to_excel(book, sheet_name="Data", index=False)


def _parquet(path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.Table.from_pandas(people())
    amounts = pyarrow.array(people()["income"].round(2)).cast(pyarrow.decimal128(12, 2))
    table = table.append_column("amount", amounts)
    dates = pyarrow.array(pd.date_range("2020-01-01", periods=240).date)
    parquet.write_table(table.append_column("since", dates), path)


def _sqlite(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        table = people().assign(since="2020-01-31")
        table.loc[::2, "since"] = "2021-06-30"
        table.to_sql("people", connection, index=False)


def _duckdb(path: Path) -> None:
    import duckdb

    with contextlib.closing(duckdb.connect(str(path))) as connection:
        frame = people()
        connection.register("frame", frame)
        connection.execute(
            "CREATE TABLE people AS SELECT *, income::DECIMAL(12, 2) AS amount FROM frame"
        )


def _dates(table: pd.DataFrame) -> pd.DataFrame:
    days = pd.date_range("2019-11-03", periods=len(table), freq="9h")
    return table.assign(since=days.date, seen=days.strftime("%Y-%m-%dT%H:%M:%SZ"))


def _dictionary(path: Path) -> None:
    _csv()(path)
    text = "name,label,description,kind\nsex,Gender of the applicant,,\nincome,Monthly income,In euros,\n"
    path.with_name("columns.csv").write_text(text, encoding="utf-8")


def _races(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(race=np.random.default_rng(3).integers(1, 6, len(table)).astype(float))


def _single_groups(table: pd.DataFrame) -> pd.DataFrame:
    table.loc[0, "sex"], table.loc[1, "sex"], table.loc[2, "sex"] = "x", "unknown", "none given"
    return table


def _zips(table: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    return table.assign(zip=rng.choice(["01067", "01069", "10115", "80331"], len(table)))


def _wide(table: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    more = pd.DataFrame(rng.normal(size=(len(table), 195)).round(3))
    return pd.concat([table, more.add_prefix("x")], axis=1)


def _thousands(table: pd.DataFrame) -> pd.DataFrame:
    """Whole numbers with thousands separators, beside no number that shows what "," means."""
    income = [f"{value:,.0f}" for value in table["income"] + 1000]
    return table.assign(income=income)[["sex", "income", "repaid"]]


def _three(table: pd.DataFrame) -> pd.DataFrame:
    grades = np.select([table["income"] > 2500, table["income"] > 1500], ["A", "B"], "C")
    return table.drop(columns="repaid").assign(grade=grades)


def _percentages(path: Path) -> None:
    """A sheet with numbers that are shown as percentages."""
    share = np.random.default_rng(7).uniform(0.0, 0.4, 240).round(3)
    with pd.ExcelWriter(path, engine="openpyxl") as book:
        people().assign(share=share).to_excel(book, sheet_name="Data", index=False)
        for row in book.sheets["Data"].iter_rows(min_row=2, min_col=6, max_col=6):
            row[0].number_format = "0.0%"


def _other_dates(table: pd.DataFrame) -> pd.DataFrame:
    """Dates as in Germany, as digits, and with a day that MySQL writes for none."""
    days = pd.date_range("2020-01-01", periods=len(table))
    iso = days.strftime("%Y-%m-%d").where(np.arange(len(table)) > 0, "0000-00-00")
    return table.assign(paid=days.strftime("%d.%m.%Y"), seen=days.strftime("%Y%m%d"), since=iso)


def _trailing(table: pd.DataFrame) -> pd.DataFrame:
    """Minus signs after the number, as SAP writes them."""
    return table.assign(debt=[f"{value:.2f}-" for value in table["debt"]])


def _placeholders(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(income=table["income"].astype(object).where(table.index % 9 > 0, "?"))


_RAGGED = _table_bytes().replace(b"\n", b"\nf,1,2\n", 5).replace(b"f,1,2\nf,1,2\n", b"f,1,2\n")
_QUERY = ("--sql", "SELECT * FROM people")

CASES = (
    Case(name="semicolon.csv", make=_csv(sep=";"), says=("semicolons between fields",)),
    Case(
        name="german.csv ; and decimal commas",
        make=_csv(_german, sep=";"),
        says=("semicolons between fields, decimal commas",),
    ),
    Case(name="tabs.tsv", make=_csv(sep="\t")),
    Case(name="tabs.csv", make=_csv(sep="\t"), says=("tabs between fields",)),
    Case(name="pipes.txt", make=_csv(sep="|"), says=("'|' between fields",)),
    Case(
        name="latin.csv cp1252",
        make=_csv(encoding="cp1252"),
        says=("encoding cp1252 (as in 'Köln')",),
    ),
    Case(name="wide.csv UTF-16", make=_csv(encoding="utf-16"), says=("encoding utf-16-le",)),
    Case(name="windows.csv BOM and CRLF", make=_csv(encoding="utf-8-sig", lineterminator="\r\n")),
    Case(
        name="excel.csv a line sep=;",
        make=_raw(b"sep=;\n" + people().to_csv(index=False, sep=";").encode()),
        says=("semicolons",),
    ),
    Case(name="book.xlsx", make=_workbook),
    Case(
        name="sheets.xlsx two sheets",
        make=lambda path: _workbook(path, first=False),
        options=("--sheet", "Data"),
    ),
    Case(
        name="sheets2.xlsx a sheet that is not there",
        make=_workbook,
        options=("--sheet", "Date"),
        page=False,
        says=("--sheet Date is not one of its sheets: 'Data'",),
    ),
    Case(name="people.parquet decimal128, dates", make=_parquet),
    Case(name="people.feather", make=lambda path: people().to_feather(path)),
    Case(name="people.csv.gz", make=_csv()),
    Case(name="- standard input", make=_csv(_german, sep=";"), says=("standard input was read",)),
    Case(
        name="people.db SQLite",
        make=_sqlite,
        options=(*_QUERY, "--database", "sqlite:///people.db"),
    ),
    Case(
        name="people.duckdb DuckDB",
        make=_duckdb,
        options=(*_QUERY, "--database", "duckdb:///people.duckdb"),
    ),
    Case(
        name="drop.db a query that writes",
        make=_sqlite,
        options=("--sql", "DROP TABLE people", "--database", "sqlite:///drop.db"),
        page=False,
        says=("give a SELECT",),
    ),
    Case(
        name="signs.csv currency and percent",
        make=_csv(lambda t: t.assign(income=[f"${v:,.2f}" for v in t["income"]], share="12 %")),
        says=("numbers without their signs in income ($), share (%)",),
    ),
    Case(
        name="dates.csv dates and timestamps",
        make=_csv(_dates),
        options=("--date-parts", "weekday"),
    ),
    Case(
        name="texts.csv identifiers and free text",
        make=_csv(_text_columns),
        says=("look like identifiers: 'customer_id', 'email'", "free text: 'remark'", "--keep"),
    ),
    Case(
        name="copies.csv constant, copy of the target",
        make=_csv(lambda t: t.assign(bank="one", paid=t["repaid"] == "Ja")),
        says=("without information: 'bank'", "gives away the target"),
    ),
    Case(name="classes.csv three classes", make=_csv(_three), target="grade"),
    Case(name="short.csv 60 rows", make=lambda path: people(60).to_csv(path, index=False)),
    Case(name="columns200.csv 200 columns", make=_csv(_wide)),
    Case(name="long.csv 100,000 rows", make=lambda path: people(100_000).to_csv(path, index=False)),
    Case(name="ragged.csv", make=_raw(_RAGGED), page=False, says=("line 2 has 3 fields",)),
    Case(name="empty.csv", make=_raw(b""), page=False, says=("it is empty",)),
    Case(name="head.csv header alone", make=_raw(b"sex,repaid,a\n"), page=False, says=("no rows",)),
    Case(
        name="page.csv a web page",
        make=_raw(b"<!DOCTYPE html>\n<html></html>"),
        page=False,
        says=("it is a web page",),
    ),
    Case(
        name="cut.csv.gz cut off",
        make=_raw(gzip.compress(_table_bytes())[:-200]),
        page=False,
        says=("compression (.gz) is damaged",),
    ),
    Case(
        name="thousands.csv 1,234 alone",
        make=_csv(_thousands),
        page=False,
        says=("--decimal . if",),
    ),
    Case(
        name="broken.csv damaged UTF-8",
        make=_raw(_table_bytes().replace("Köln".encode(), b"K\xffln", 1)),
        page=False,
        says=("UTF-8 with damaged bytes, first in line", "--encoding cp1252"),
    ),
    Case(
        name="labels.csv classes 01 and 02",
        make=_csv(lambda t: t.assign(repaid=np.where(t["repaid"] == "Ja", "01", "02"))),
        says=("'02'",),
    ),
    Case(
        name="zips.csv protected ZIP codes",
        make=_csv(_zips),
        protected="zip",
        says=("'zip' is read as text", "4 groups", "--kind"),
    ),
    Case(
        name="codes.csv float race codes",
        make=_csv(_races),
        protected="race",
        says=("--kind race=categorical",),
    ),
    Case(
        name="ages.csv age with 8 values",
        make=_csv(lambda t: t.assign(age=np.random.default_rng(6).integers(20, 28, len(t)))),
        protected="age",
        says=("age (8 groups: ", "--kind"),
    ),
    Case(
        name="rare.csv groups of one row",
        make=_csv(_single_groups),
        says=("3 groups of one row joined the group 'other'",),
    ),
    Case(
        name="gaps.csv '?' among numbers",
        make=_csv(_placeholders),
        says=("missing values in income ('?')",),
    ),
    Case(
        name="shares.xlsx shown as percentages",
        make=_percentages,
        says=("percentages as shown, 12 for 12 %, in 'share'",),
    ),
    Case(
        name="days.csv dates in other forms",
        make=_csv(_other_dates),
        says=(
            "dates in another form than 2024-05-31: 'paid', 'seen'",
            "missing values in since ('0000-00-00')",
        ),
    ),
    Case(
        name="sap.csv minus after the number",
        make=_csv(_trailing),
    ),
    Case(
        name="report.csv lines above the header",
        make=_raw(b"Report 2024\n\n" + _table_bytes()),
        page=False,
        says=("Remove the lines above the names of the columns",),
    ),
    Case(
        name="words.csv with a dictionary",
        make=_dictionary,
        options=("--dictionary", "columns.csv"),
        says=("Gender of the applicant",),
    ),
)


class _ReadOnlyError(Exception):
    """Raised in place of a fit, if only the reading is of interest."""


def run(case: Case, *, light: bool = False) -> Outcome:
    """Run ``fairspan explore`` on a case in the working folder.

    Parameters
    ----------
    case : the case.
    light : stop before the fit; a page counts as made if the table was read.
    """
    from fairspan import report
    from fairspan.cli import main

    file = "stdin.csv" if case.file == "-" else case.file
    case.make(Path(file))
    from_database = "--database" in case.options
    command = ["fairspan", "explore", *([] if from_database else [case.file])]
    command += ["--target", case.target, "--protected", case.protected, *case.options]
    command += ["--model", "ridge-classifier", "--points", "3", "--parts", "scores"]
    out, err, code = io.StringIO(), io.StringIO(), 0
    Path("report.html").unlink(missing_ok=True)
    began = time.perf_counter()

    def stop(*_: Any, **__: Any) -> None:
        raise _ReadOnlyError

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(sys, "argv", command))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        if case.file == "-":
            stdin = io.TextIOWrapper(io.BytesIO(Path(file).read_bytes()))
            stack.enter_context(mock.patch.object(sys, "stdin", stdin))
        if light:
            stack.enter_context(mock.patch.object(report, "explore", stop))
        try:
            main()
        except SystemExit as error:
            code = int(error.code or 0)
        except _ReadOnlyError:
            code = 0
        except Exception as error:  # a traceback, which no file may give
            code = 1
            err.write(f"{_TRACEBACK} {type(error).__name__}: {error}")
    seconds = time.perf_counter() - began
    text = " ".join((out.getvalue() + " " + err.getvalue()).split())
    return _judge(case, code, err.getvalue(), text, seconds, light=light)


def _judge(case: Case, code: int, err: str, text: str, seconds: float, *, light: bool) -> Outcome:
    """Compare what was printed and written with what was expected."""
    found = re.search(r"was read with: (.*?)\.(?: --|$|\n)", err)
    assumed = found[1] if found else ""
    page = Path("report.html")
    made = code == 0 and (light or (page.is_file() and page.stat().st_size > 100_000))
    # The number of groups, labels and give-aways are printed after the fit.
    says = [s for s in case.says if not (light and s in _AFTER_FIT)]
    said = all(s in text or (made and not light and s in page.read_text("utf-8")) for s in says)
    line = err.strip().splitlines()[-1] if err.strip() else ""
    one_line = code == 2 and len(err.strip().splitlines()) == 1 and line.startswith("Error: ")
    right = made if case.page else one_line
    outcome = "page" if made else line
    return Outcome(
        assumed=assumed,
        outcome=outcome,
        passed=right and said and _TRACEBACK not in text,
        seconds=seconds,
    )


_AFTER_FIT = ("4 groups", "age (8 groups: ", "gives away the target", "Gender of the applicant")
_AFTER_FIT += ("--kind", "--kind race=categorical")


def outcomes(cases: tuple[Case, ...] = CASES) -> Iterator[tuple[Case, Outcome]]:
    """Run every case in a new folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for case in cases:
                yield case, run(case)
        finally:
            os.chdir(before)


def main() -> int:
    """Print the table and the counts; exit code 1 if a case is not as expected."""
    print(f"{'file':<42} {'assumed':<52} outcome")
    pages = lines = failed = 0
    for case, outcome in outcomes():
        pages += outcome.passed and case.page
        lines += outcome.passed and not case.page
        failed += not outcome.passed
        mark = "" if outcome.passed else "MISS "
        print(f"{case.name:<42} {outcome.assumed[:52]:<52} {mark}{outcome.outcome}", flush=True)
    print(
        f"{len(CASES)} files: {pages} pages, {lines} lines with a remedy, {failed} not as expected"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
