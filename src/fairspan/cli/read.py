"""Read DATA: a file, standard input, a query of a database, or a data set that fairspan knows by name."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fairspan import datasets
from fairspan.cli.common import print_status, split_commas
from fairspan.cli.read_options import InputOptions
from fairspan.datasets.dictionary import dictionary_of
from fairspan.encoding import is_number_label
from fairspan.report.recipe import query_lines, source_lines
from fairspan.tables.databases import database_table
from fairspan.tables.dictionary import ColumnWords
from fairspan.tables.files import STDIN, ReadOptions, TableFile, open_table
from fairspan.tables.result import ReadTable, text_columns

# Data sets by their name on the command line.
SETS: dict[str, Callable[..., Any]] = {
    "adult": datasets.fetch_adult,
    "compas": datasets.fetch_compas,
    "communities_crime": datasets.fetch_communities_crime,
    "nlsy79": datasets.fetch_nlsy79,
    "law_school": datasets.fetch_law_school,
    "loans": datasets.load_loans,
    "diabetes": datasets.load_diabetes,
}
# Data sets that are part of an installed package; no file is searched for.
OFFLINE = ("loans", "diabetes")
_READ_OPTIONS = re.compile(
    r"\b(sep|decimal|encoding|sheet|database|units)=(?:'((?:[^'\\]|\\.)*)')?"
)


@dataclass(kw_only=True)
class Input(InputOptions):
    """The options of DATA, checked, and the table that they describe."""

    @classmethod
    def of(cls, options: InputOptions) -> Input:
        """Check the options."""
        return cls(**vars(options))

    def __post_init__(self) -> None:
        if (self.sql is None) != (self.database is None):
            raise ValueError(
                "--sql QUERY and --database sqlite:///FILE (or duckdb:///FILE) go together; give both."
            )
        if self.sql is not None and self.data is not None:
            raise ValueError("DATA and --sql exclude each other; give one of them.")
        if self.sql is None and not (self.data or "").strip():
            raise ValueError(
                "DATA is missing: give a file (CSV, Excel, Parquet, Feather), - for standard input, the name "
                "of a data set, or --sql with --database."
            )
        if self.unit and self._is_set:
            raise ValueError(f"--unit is for files and queries, not for the data set {self.data}.")
        if self.given and (self.sql is not None or self._is_set):
            what = "a query" if self.sql is not None else f"the data set {self.data}"
            raise ValueError(f"--{next(iter(self.given))} is for files, not for {what}.")

    @property
    def given(self) -> dict[str, str]:
        """Options about a file that were given."""
        values = {name: getattr(self, name) for name in ("sep", "decimal", "encoding", "sheet")}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def units(self) -> dict[str, str] | None:
        """Signs by column, of ``--unit``."""
        out = {}
        for text in split_commas(self.unit) or ():
            name, sign, unit = text.rpartition("=")
            if not sign or not name or not unit:
                raise ValueError(
                    f"--unit {text!r} is not allowed; write NAME=%, NAME=€ or NAME=none."
                )
            out[name] = unit
        return out or None

    @property
    def name(self) -> str:
        """Name of the data in messages and reports."""
        if self.sql is not None:
            return f"query of {(self.database or '').partition(':///')[2]}"
        return "standard input" if self.data == STDIN else self.data or ""

    @property
    def files(self) -> dict[str, Path]:
        """Files that are read, by the words of the command line."""
        if self.database is not None:
            return {"--database": Path(self.database.partition(":///")[2])}
        return {"DATA": Path(self.data or "")}

    @property
    def file(self) -> Path | None:
        """The file that holds the rows; None for a data set or standard input."""
        (path,) = self.files.values()
        return path if self.data != STDIN and path.is_file() else None

    @property
    def _is_set(self) -> bool:
        return self.data in SETS and not Path(self.data or "").is_file()

    @cached_property
    def _file(self) -> TableFile:
        """The file; opened once, because standard input can be read only once."""
        data = self.data or ""
        path = Path(data)
        if data != STDIN and not path.exists() and not path.suffix:
            similar = difflib.get_close_matches(data, SETS, n=1)
            hint = f"Did you mean {similar[0]!r}?" if similar else f"Data sets: {', '.join(SETS)}."
            raise ValueError(f"{data} is neither a file nor the name of a data set. {hint}")
        return open_table(data, ReadOptions(**self.given, units=self.units))

    def read(self, text: Collection[str]) -> ReadTable:
        """Read the table; messages name options, not parameters."""
        try:
            if self.sql is not None:
                return database_table(self.database or "", self.sql, text, self.units)
            return self._file.read(text)
        except ValueError as error:
            raise ValueError(as_options(str(error))) from error

    def code(self, table: ReadTable | None, text: Collection[str]) -> str:
        """Python lines that read the same table."""
        if self.sql is not None:
            return query_lines(self.database or "", self.sql, text, self.units)
        options = {} if table is None else dict(table.options) | self.given
        return source_lines(self.data or "", text, options, self.units)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A table, and the roles of its columns if it is a known data set.

    Attributes
    ----------
    name : name of the data in messages.
    frame : the table.
    target, protected : columns of a known data set.
    code : Python lines that read it.
    written : function that returns columns of a text file as the file has them; None elsewhere.
    words : the dictionary of a known data set.
    """

    name: str
    frame: Any
    target: str | None = None
    protected: tuple[str, ...] = ()
    code: str = ""
    written: Callable[[Collection[str]], Any] | None = field(default=None, repr=False)
    words: Mapping[str, ColumnWords] = field(default_factory=dict, repr=False)


def read_data(given: Input, text: Collection[str] = (), *, quiet: bool = False) -> Source:
    """Read a file, a query or a known data set; of a file and a data set of one name, the file.

    Parameters
    ----------
    given : Input
    text : collection of str
        Columns of a text file to read as text.
    quiet : bool
        Print no status line.
    """
    if given._is_set:
        import pandas as pd  # imported late: `fairspan --help` does not need it

        bunch = load_set(given.name, given.data_home)
        frame, s, y = bunch.data, bunch.sensitive_features, bunch.target
        not_features = [name for name in s.columns if name not in frame.columns]
        frame = pd.concat([frame, s[not_features], y], axis=1).reset_index(drop=True)
        return Source(
            name=given.name,
            frame=frame,
            target=str(y.name),
            protected=tuple(s.columns),
            code=given.code(None, text),
            words=dictionary_of(given.name, frame.columns),
        )
    table = given.read(text)
    if not quiet:
        print_assumed(table, given)
    return Source(
        name=given.name,
        frame=table.frame,
        code=given.code(table, text),
        written=table.written,
    )


def print_assumed(table: ReadTable, given: Input) -> None:
    """Print one line about what was assumed, and one about a column that counts the rows."""
    if table.assumed:
        options = [f"--{name}" for name in table.options if name not in given.given]
        change = f" {' '.join(options)} changes it." if options else ""
        if len(options) > 1:
            change = f" {', '.join(options)} change it."
        print_status(f"{given.name} was read with: {table.assumed}.{change}")
    if table.counted:
        print_status("Left out the first column: it has no name and counts the rows.")


def as_options(text: str) -> str:
    """Replace parameters of `read_table` in a message by options, as ``--decimal ,``."""

    def option(match: re.Match[str]) -> str:
        value, name = match[2], match[1].removesuffix("s")
        if value is None:
            return f"--{name}"
        return f"--{name} {'tab' if value == chr(92) + 't' else shlex.quote(value)}"

    return _READ_OPTIONS.sub(option, text)


def load_set(name: str, data_home: Path | None) -> Any:
    """Load a data set by its name on the command line."""
    if name not in SETS:
        raise ValueError(f"Data set {name!r} is unknown. Known: {', '.join(SETS)}.")
    return SETS[name]() if name in OFFLINE else SETS[name](data_home=data_home)


def text_for(model: Any, target: str | None = None) -> list[str]:
    """Return the columns to read as text for a fitted model: features, and a target of text labels."""
    out = text_columns(model)
    labels = getattr(model, "classes_", None)
    # Labels "1" and "2" may be numbers that `--kind` turned into text.
    texts = [] if labels is None else [v for v in labels.tolist() if isinstance(v, str)]
    if target is not None and not all(map(is_number_label, texts)):
        out.append(target)
    return out
