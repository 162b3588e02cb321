"""Compare figures and tables of the pages with newly computed ones: ``python -m tools.docs_figures``.

This covers what takes seconds: :data:`CHEAP` lists the commands with their costs, about a minute of
CPU time in total. Pages and figures of measurements that took hours are written again from the
committed results, which finds stale pages but not wrong measurements; ``make acceptance-%`` repeats
the measurements. Needs the extras `plot`, `data` and `cli`.

Numbers may differ by one and a half units of the last digit shown, since processors round
differently. Pictures may differ by :data:`ALIKE` of 255 in the root mean square.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.docs_figures import DOCS, ROOT, Exhibit, read

Found = Iterator[tuple[str, bool]]
ALIKE = 4.0
DIGITS = re.compile(r"(?<![\w.])-?(?:\d[\d,]*)?(?:\.\d+|\d)(?:e[+-]\d+)?")


@dataclass(frozen=True)
class Check:
    """Exhibits that one command makes.

    Attributes
    ----------
    command : str
        As the pages name it.
    seconds : float
        CPU time, about, of one core.
    run : callable
        Takes an empty folder; gives what was compared, and whether it is as on the page.
    """

    command: str
    seconds: float
    run: Callable[[Path], Found]


def recheck() -> list[tuple[str, bool]]:
    """Run the cheap commands; return each exhibit and whether the page agrees."""
    found: list[tuple[str, bool]] = []
    for check in CHEAP:
        with tempfile.TemporaryDirectory() as folder:
            found += [(f"{what} ({check.command})", ok) for what, ok in check.run(Path(folder))]
    return found


# ------------------------------------------------------------------ comparing


def same_line(found: str, shown: str) -> bool:
    """Whether two lines have the same words, and numbers equal up to the last digit shown."""
    if DIGITS.sub("#", found) != DIGITS.sub("#", shown):
        return False
    pairs = zip(DIGITS.findall(found), DIGITS.findall(shown), strict=True)
    return all(a == b or _near(a, b) for a, b in pairs)


def _near(a: str, b: str) -> bool:
    mantissa, _, exponent = b.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    x, y = (float(text.replace(",", "")) for text in (a, b))
    return abs(x - y) <= 1.5 * unit


def same_rows(printed: Iterable[str], shown: Iterable[str]) -> bool:
    """Whether every row of a table on a page is printed; there must be rows."""
    lines = [_tidy(line) for line in printed if line.startswith("|")]
    wanted = [_tidy(row) for row in shown]
    return bool(wanted) and all(any(same_line(line, row) for line in lines) for row in wanted)


def _tidy(row: str) -> str:
    return "|".join(cell.strip() for cell in row.strip().strip("|").split("|"))


def is_copy(row: str, source: Iterable[str]) -> bool:
    """Whether a row has, in order, cells of the rows of a source with the same first cell.

    A cell may leave out what a source has in brackets or after a sign: `0.5` of `0.5 ± 0.1`.
    """
    first, *cells = _tidy(row).split("|")
    rows = [_tidy(line).split("|") for line in source if line.startswith("|")]
    there = iter([cell for head, *rest in rows if head == first for cell in rest])
    wanted = [cell for cell in cells if cell]
    return bool(wanted) and all(
        any(cell == full or full.startswith(f"{cell} ") for full in there) for cell in wanted
    )


def same_picture(found: Path, shown: Path) -> bool:
    """Whether two pictures have the same size and nearly the same colours."""
    from matplotlib.image import imread

    a, b = (imread(path)[..., :3].astype(float) for path in (found, shown))
    return a.shape == b.shape and math.sqrt(((a - b) ** 2).mean()) * 255 <= ALIKE


def _made_by(page: Path, command: str) -> list[Exhibit]:
    """Tables of a page with this command in their section."""
    exhibits, _ = read(page.read_text("utf-8"), page.relative_to(ROOT).as_posix())
    return [e for e in exhibits if e.kind == "table" and any(c == command for c in e.commands)]


def _printed(*words: str) -> list[str]:
    """Lines that a Python command prints with one thread; none if it fails."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    return [] if done.returncode else done.stdout.splitlines()


# ------------------------------------------------------------------ commands


def _generated(_folder: Path) -> Found:
    """Tables of options and citations, generated from the code."""
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "_generate.py")
    assert spec is not None
    assert spec.loader is not None
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    yield "docs/command-line.md", pages.COMMAND_LINE.read_text("utf-8") == pages.command_line()
    text = pages.EQUATIONS.read_text("utf-8")
    yield "docs/equations.md", text == pages.equations(text)


def _data_sets(_folder: Path) -> Found:
    """Rows and columns of the data sets that come with a package."""
    from fairspan import datasets

    page = (DOCS / "datasets.md").read_text("utf-8")
    for name in ("load_loans", "load_diabetes"):
        rows, columns = getattr(datasets, name)().data.shape
        line = rf"^\| `{name}` \| \w+ \| {rows} \| {columns} \|"
        yield f"docs/datasets.md: {name}", bool(re.search(line, page, re.MULTILINE))


def _scale(folder: Path) -> Found:
    """Page and picture of time and memory, from the committed measurements."""
    from benchmarks import scale

    table = scale.Table.read(scale.RESULTS)
    yield "docs/scaling-tables.md", scale.page(table) == scale.PAGE.read_text("utf-8")
    scale.draw(table, folder / "growth.png")
    yield "docs/figures/scale-growth.png", same_picture(folder / "growth.png", scale.FIGURE)


def _frontier(_folder: Path) -> Found:
    """Page of the frontier, from the committed tables; its pictures need `make frontier`."""
    from fairspan_lab.frontier._page import markdown
    from fairspan_lab.frontier._tables import read_tables

    shown = (DOCS / "frontier" / "frontier.md").read_text("utf-8")
    tables, _ = read_tables(DOCS / "frontier")
    written = markdown(tables, re.findall(r"^!\[.*\]\((.*)\)$", shown, re.MULTILINE), quick=False)
    yield "docs/frontier/frontier.md", _same_text(written, shown)


def _price(_folder: Path) -> Found:
    """The short table of prices, from the committed tables."""
    lines = _printed("-m", "tools.price_page")
    page = DOCS / "choosing-the-dial.md"
    for table in _made_by(page, "python -m tools.price_page"):
        yield f"{table.page}:{table.line}", same_rows(lines, table.lines)


def _copies(_folder: Path) -> Found:
    """Tables of the benchmarks page, which are copies from other pages."""
    names = ("choosing-the-dial.md", "frontier/frontier.md", "scaling-tables.md", "leakage.md")
    sources = [(DOCS / name).read_text("utf-8").splitlines() for name in names]
    page = DOCS / "benchmarks.md"
    exhibits, _ = read(page.read_text("utf-8"), page.relative_to(ROOT).as_posix())
    for table in (one for one in exhibits if one.kind == "table"):
        ok = any(all(is_copy(row, source) for row in table.lines) for source in sources)
        yield f"{table.page}:{table.line}", ok


def _note(_folder: Path) -> Found:
    """Blocks of the technical note that need no downloaded data."""
    from tools.technical_note.__main__ import CHEAP as NAMES

    page = (DOCS / "technical-note.md").read_text("utf-8")
    parts = "\n".join(_printed("-m", "tools.technical_note", *NAMES))
    for name in NAMES:
        there = re.search(rf"<!-- technical_note {name} -->\n(.*?)<!-- end -->", page, re.DOTALL)
        made = re.search(rf"^{name}\n\n(.*?)(?=^\w+\n\n|\Z)", parts, re.DOTALL | re.MULTILINE)
        ok = _same_text(made[1], there[1]) if there and made else False
        yield f"docs/technical-note.md: {name}", ok


def _same_text(found: str, shown: str) -> bool:
    pair = [[_tidy(line) for line in text.splitlines() if line.strip()] for text in (found, shown)]
    return len(pair[0]) == len(pair[1]) > 0 and all(map(same_line, *pair))


def _audit(folder: Path) -> Found:
    """The picture of an audit."""
    _printed("examples/audit.py", str(folder))
    shown = DOCS / "figures/audit.png"
    yield "docs/figures/audit.png", same_picture(folder / "audit.png", shown)


# Costs in seconds, measured on one core of a small machine.
CHEAP = (
    Check("python docs/_generate.py", 1, _generated),
    Check("pytest tests/unit/datasets/test_offline.py", 1, _data_sets),
    Check("python -m benchmarks.scale page", 2, _scale),
    Check("python -m tools.price_page", 2, _price),
    Check("python -m tools.docs_figures", 1, _copies),
    Check("python examples/audit.py", 10, _audit),
    Check("fairspan bench frontier", 2, _frontier),
    Check("python -m tools.technical_note", 20, _note),
)
