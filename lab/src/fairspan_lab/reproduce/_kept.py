"""What is run once, kept in a file, and not run again: shared by the figures and the frontier."""

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

__all__ = ["Kept", "Labelled", "kept_rows", "read_kept", "write_table", "write_whole"]

Row = dict[str, Any]

# All that our own names are made of: nothing that draws, links or computes where it is shown.
_PLAIN = re.compile(r"(?!.*\]\()[\w .,'()\[\]-]{0,200}")


class Kept(ABC):
    """One method on one split of one data set; a dataclass brings the fields."""

    quick: bool

    @property
    @abstractmethod
    def place(self) -> tuple[Any, ...]:
        """Its place among the rows of a table."""

    @abstractmethod
    def made_by(self) -> str:
        """What its rows depend on besides its own fields."""

    def file(self, folder: Path) -> Path:
        """Where its rows are kept."""
        text = json.dumps([self.made_by(), *vars(self).values()])
        return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"

    def keep(self, folder: Path, rows: list[Row], **more: Any) -> None:
        """Write its file."""
        made = {"made_by": self.made_by(), "cell": vars(self), "rows": rows, **more}
        write_whole(self.file(folder), json.dumps(made))


class Labelled:
    """How a method is shown, and what it needs; a dataclass brings the fields."""

    label: str
    reads_sensitive: bool
    needs: str | None

    @property
    def name(self) -> str:
        """The label, marked if S is read at prediction time."""
        return f"{self.label} †" if self.reads_sensitive else self.label

    @property
    def missing(self) -> str | None:
        """The package that it needs and that is not here."""
        here = self.needs is None or importlib.util.find_spec(self.needs) is not None
        return None if here else self.needs


def read_kept(path: Path, known: Callable[[Row], bool]) -> Row | None:
    """A kept cell; None where there is none, or only part of one, or one that is not known."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    whole = isinstance(kept, dict) and {"made_by", "cell", "rows"} <= set(kept)
    if not whole or not isinstance(kept["rows"], list) or not isinstance(kept["cell"], dict):
        return None
    if not all(map(_is_plain, [kept["cell"], *kept["rows"]])):
        return None
    return kept if known(kept["cell"]) else None


def _is_plain(row: Any) -> bool:
    """Names and numbers, as we write them: a file is no reason to show anything else."""
    if not isinstance(row, dict):
        return False
    texts = [*row, *(value for value in row.values() if isinstance(value, str))]
    flat = all(value is None or isinstance(value, str | int | float) for value in row.values())
    return flat and all(_PLAIN.fullmatch(text) for text in texts)


def kept_rows(
    folder: Path, make: Callable[..., Kept], known: Callable[[Row], bool], *, quick: bool
) -> list[Row]:
    """Rows of every cell in the folder that this version would compute alike, in order."""
    found = []
    for path in folder.glob("*.json"):
        kept = read_kept(path, known)
        if kept is not None and kept["cell"]["quick"] == quick:
            cell = make(**kept["cell"])
            if kept["made_by"] == cell.made_by():
                found.append((cell.place, kept["rows"]))
    found.sort(key=lambda one: one[0])
    return [row for _, rows in found for row in rows]


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Row], ending: str) -> Path:
    """Rows as CSV, in which no text is a formula to a spreadsheet."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=ending)
    writer.writerow(map(_no_formula, columns))
    writer.writerows([_no_formula(row.get(name, "")) for name in columns] for row in rows)
    write_whole(path, text.getvalue())
    return path


def _no_formula(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    flat = inert(value).strip()  # csv leaves a lone carriage return as it is, which ends a line
    return f"'{flat}" if is_formula(flat) else flat


def write_whole(path: Path, text: str) -> None:
    """Write a text file atomically, safe for several processes."""
    with atomic_write(path) as part, part.open("w", encoding="utf-8", newline="") as stream:
        stream.write(text)
