"""Results of experiments in files: cells that are computed once, and CSV tables."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from fairspan._system import atomic_write, inert, is_formula

__all__ = ["MethodLabel", "StoredCell", "read_cell", "stored_rows", "write_table", "write_text"]

Row = dict[str, Any]

# Characters of our own names; they exclude markup, links and formulas.
_PLAIN = re.compile(r"(?!.*\]\()[\w .,'()\[\]-]{0,200}")


class StoredCell(ABC):
    """One method on one split of one data set; subclasses are dataclasses with the fields."""

    quick: bool

    @property
    @abstractmethod
    def order(self) -> tuple[Any, ...]:
        """Sort key among the rows of a table."""

    @abstractmethod
    def made_by(self) -> str:
        """Text that names everything its rows depend on besides its fields."""

    def file(self, folder: Path) -> Path:
        """Path of the file with its rows."""
        text = json.dumps([self.made_by(), *vars(self).values()])
        return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"

    def store(self, folder: Path, rows: list[Row], **more: Any) -> None:
        """Write its rows to its file."""
        content = {"made_by": self.made_by(), "cell": vars(self), "rows": rows, **more}
        write_text(self.file(folder), json.dumps(content))


class MethodLabel:
    """Label and requirements of a method; subclasses are dataclasses with the fields."""

    label: str
    reads_sensitive: bool
    needs: str | None

    @property
    def name(self) -> str:
        """The label, with a dagger if the method reads S at prediction time."""
        return f"{self.label} †" if self.reads_sensitive else self.label

    @property
    def missing(self) -> str | None:
        """The required package if it is not installed, else None."""
        installed = self.needs is None or importlib.util.find_spec(self.needs) is not None
        return None if installed else self.needs


def read_cell(path: Path, known: Callable[[Row], bool]) -> Row | None:
    """Read a cell; None if the file is missing, incomplete or of an unknown cell."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    complete = isinstance(content, dict) and {"made_by", "cell", "rows"} <= set(content)
    if (
        not complete
        or not isinstance(content["rows"], list)
        or not isinstance(content["cell"], dict)
    ):
        return None
    if not all(map(_is_plain, [content["cell"], *content["rows"]])):
        return None
    return content if known(content["cell"]) else None


def _is_plain(row: Any) -> bool:
    """Whether a row holds only names and numbers as we write them, since it will be displayed."""
    if not isinstance(row, dict):
        return False
    texts = [*row, *(value for value in row.values() if isinstance(value, str))]
    flat = all(value is None or isinstance(value, str | int | float) for value in row.values())
    return flat and all(_PLAIN.fullmatch(text) for text in texts)


def stored_rows(
    folder: Path, make: Callable[..., StoredCell], known: Callable[[Row], bool], *, quick: bool
) -> list[Row]:
    """Sorted rows of every cell in the folder that has the version of this code."""
    cells = []
    for path in folder.glob("*.json"):
        content = read_cell(path, known)
        if content is not None and content["cell"]["quick"] == quick:
            cell = make(**content["cell"])
            if content["made_by"] == cell.made_by():
                cells.append((cell.order, content["rows"]))
    cells.sort(key=lambda pair: pair[0])
    return [row for _, rows in cells for row in rows]


def write_table(
    path: Path, columns: Sequence[str], rows: Iterable[Row], ending: str, *, note: str = ""
) -> Path:
    """Write rows as CSV in which a spreadsheet finds no formula; `note` is a first ``#`` line."""
    text = io.StringIO(newline="")
    if note:
        text.write(f"# {note}{ending}")
    writer = csv.writer(text, lineterminator=ending)
    writer.writerow(map(_no_formula, columns))
    writer.writerows([_no_formula(row.get(name, "")) for name in columns] for row in rows)
    write_text(path, text.getvalue())
    return path


def _no_formula(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    flat = inert(value).strip()  # csv would leave a lone carriage return, which ends a line
    return f"'{flat}" if is_formula(flat) else flat


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as part, part.open("w", encoding="utf-8", newline="") as stream:
        stream.write(text)
