"""Figures and tables of the pages: ``python -m tools.docs_figures``.

Every picture, every measured table and every block of numbers in the README and in docs must name the
command that makes it, and the command must exist. What counts:

- a *picture* is an image or a figure of Markdown;
- a *table is measured* if a cell outside its first column has a number with a decimal point or an
  exponent, a percentage, a standard error, or is nothing but numbers. Code, mathematics and addresses
  of links do not count. A table of words that looks measured says so, with a reason, in a comment
  right above it: ``<!-- words: the sizes define the splits -->``. Such marks are listed;
- an *output* is a plain block with such numbers on two lines, unless it is what the Python block
  right above it prints (``tests/test_docs.py`` runs those) or part of a session of commands
  (``tests/test_docs_commands.py`` runs those).

A command is named *beside* an exhibit if it is in the same section, as code; or at the head of a page
that is all written by it ("Written by ..."). The gallery is not looked at: its pages are the scripts.

The cheap exhibits are computed again and compared with the page (:mod:`tools.docs_compare`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
MADE = ("_build", "gallery", "generated")  # folders of the build

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d[\d,]*)?\.\d+(?![.\d])|\d(?:\.\d+)?e[-+]?\d|\d ?%|±")
ONLY_NUMBERS = re.compile(r"(?=.*\d)(?:of|to|[\s\d.,;:/()<>=≤≥~+-])+")
NOT_WORDS = re.compile(r"`[^`]*`|\$[^$]+\$|\]\([^)]*\)|[*]+")
MARK = re.compile(r"<!-- words: (\S.*?) -->")
WRITTEN = re.compile(r"(?:Written by|Every number on this page is printed by)\s+`([^`]+)`")
FENCE = re.compile(r"^ *(`{3,}|~{3,}|:{3,})(.*)$")
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)[^)]*\)|<img [^>]*src=\"([^\"]+)\"")
DIRECTIVE = re.compile(r"\{(?:figure|image)\}\s+(\S+)")
# A picture of the README has its address in the repository, so that an index of packages shows it.
HOSTED = re.compile(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/main/(?=docs/)")

# Targets of make that produce no figure or table.
UPKEEP = {"help", "venv", "docs", "check", "format", "lock", "clean"}


@dataclass(frozen=True)
class Exhibit:
    """A picture, table or output on a page that a command produced.

    Attributes
    ----------
    page : str
        Path from the root of the project.
    line : int
        Its first line, counted from 1.
    kind : {"picture", "table", "output"}
    lines : tuple of str
        Address of a picture, rows of a table below its head, lines of an output.
    commands : tuple of str
        What is named beside it and exists.
    """

    page: str
    line: int
    kind: str
    lines: tuple[str, ...]
    commands: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}:{self.line} {self.kind} {self.lines[0].strip()[:60]}"


@dataclass(frozen=True)
class Marked:
    """A table that looks measured but is marked as words."""

    page: str
    line: int
    reason: str


# ------------------------------------------------------------------ commands


def _targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    named = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE)) - UPKEEP
    acceptance = (ROOT / "tools").glob("acceptance_*.py")
    return named | {f"acceptance-{path.stem.removeprefix('acceptance_')}" for path in acceptance}


def _cli() -> list[str]:
    page = (DOCS / "command-line.md").read_text("utf-8")  # a test compares it with the application
    return re.findall(r"^## (fairspan .+)$", page, re.MULTILINE)


def command(text: str) -> str | None:
    """The command in a piece of code, if it is one that exists; without variables and options of pip."""
    words = re.sub(r"^\$ ", "", text.strip()).split("  #")[0].split()
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    if not words:
        return None
    words[0] = re.sub(r"^\.venv[\w.-]*/bin/", "", words[0])
    line = " ".join(words)
    if re.fullmatch(r"python[\d.]*", words[0]) and len(words) > 1:
        if words[1] == "-m" and len(words) > 2:
            there = _module(words[2]) or (words[2] == "pytest" and _files(words[3:]))
        else:
            there = words[1].endswith(".py") and (ROOT / words[1]).is_file()
        return line if there else None
    known = (
        (words[0] == "make" and len(words) > 1 and words[1] in _targets())
        or (words[0] == "pytest" and _files(words[1:]))
        or any(f"{line} ".startswith(f"{one} ") for one in _cli())
    )
    return line if known else None


def _module(name: str) -> bool:
    path = ROOT / Path(*name.split("."))
    return name.startswith(("benchmarks.", "tests.", "tools.")) and (
        path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()
    )


def _files(words: list[str]) -> bool:
    named = [word.split("::")[0] for word in words if not word.startswith("-")]
    return bool(named) and all((ROOT / name).exists() for name in named)


# ------------------------------------------------------------------ pages


@dataclass
class _Block:
    """A run of lines of one kind: prose, a table, or what is between two fences."""

    line: int  # of the first, counted from 1
    kind: str  # "prose", "table", or the words after the fence, after a space
    lines: list[str]

    def code(self) -> list[str]:
        """Pieces that may be a command."""
        if self.kind in ("prose", "table"):
            return [" ".join(c.split()) for c in re.findall(r"`([^`]+)`", "\n".join(self.lines))]
        return [] if self.kind.strip().startswith(("python", "py", "{")) else self.lines


def _blocks(text: str) -> Iterator[_Block]:
    block = _Block(1, "prose", [])
    fence = ""
    for number, line in enumerate(text.splitlines(), start=1):
        found = FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                yield block
                fence, block = "", _Block(number + 1, "prose", [])
            else:
                block.lines.append(line)
            continue
        if found:
            yield block
            fence, block = found[1], _Block(number, " " + found[2].strip(), [])
            if block.kind.startswith((" {admonition}", " {note}", " {warning}")):
                fence, block = "", _Block(number, "prose", [])
            continue
        kind = "table" if line.startswith("|") else "prose"
        if kind != block.kind:
            yield block
            block = _Block(number, kind, [])
        block.lines.append(line)
    yield block


def _sections(text: str) -> Iterator[list[_Block]]:
    """Blocks from one heading to the next, of any level."""
    section: list[_Block] = []
    for block in _blocks(text):
        if block.kind != "prose":
            section.append(block)
            continue
        part = _Block(block.line, "prose", [])
        for number, line in enumerate(block.lines, start=block.line):
            if re.match(r"#{1,6} ", line):
                yield [*section, part]
                section, part = [], _Block(number, "prose", [])
            part.lines.append(line)
        section.append(part)
    yield section


def is_measured(rows: list[str]) -> bool:
    """Whether rows of a table (without its head) have measured numbers."""
    for row in rows:
        cells = re.split(r"(?<!\\)\|", row.strip().strip("|"))
        for cell in cells[1:]:
            words = NOT_WORDS.sub(" ", cell).strip()
            if NUMBER.search(words) or ONLY_NUMBERS.fullmatch(words):
                return True
    return False


def read(text: str, page: str) -> tuple[list[Exhibit], list[Marked]]:
    """Exhibits of a page, and tables marked as words."""
    lead = re.split(r"^## ", text, maxsplit=1, flags=re.MULTILINE)[0]
    whole = [c for c in map(command, WRITTEN.findall(lead)) if c]
    exhibits, marked = [], []
    for section in _sections(text):
        near = [c for block in section for piece in block.code() if (c := command(piece))]
        commands = tuple(dict.fromkeys([*near, *whole]))
        for i, block in enumerate(section):
            mark = MARK.search(_last_words(section, i))
            for number, kind, lines in _exhibits(section, i):
                if kind == "table" and mark:
                    marked.append(Marked(page, block.line, mark[1]))
                else:
                    exhibits.append(Exhibit(page, number, kind, lines, commands))
    return exhibits, marked


def _last_words(section: list[_Block], i: int) -> str:
    """The last line of prose right before a block."""
    lines = [line for line in section[i - 1].lines if line.strip()] if i else []
    return lines[-1] if lines and section[i - 1].kind == "prose" else ""


def _exhibits(section: list[_Block], i: int) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    block = section[i]
    if block.kind in ("prose", "table"):
        for number, line in enumerate(block.lines, start=block.line):
            for found in IMAGE.finditer(re.sub(r"`[^`]*`", "", line)):
                address = HOSTED.sub("", found[1] or found[2])
                yield number, "picture", (address,)
    if block.kind == "table":
        if is_measured(block.lines[2:]):
            yield block.line, "table", tuple(block.lines[2:])
    elif found := DIRECTIVE.match(block.kind.strip()):
        yield block.line, "picture", (found[1],)
    elif block.kind.strip() in ("", "text") and not _printed_above(section, i):
        lines = [line for line in block.lines if NUMBER.search(line)]
        if len(lines) > 1 and not block.lines[0].startswith("$ "):
            yield block.line, "output", tuple(block.lines)


def _printed_above(section: list[_Block], i: int) -> bool:
    """Whether a Python block is right above, with nothing but blank lines between."""
    before = [b for b in section[:i] if any(line.strip() for line in b.lines)]
    return bool(before) and before[-1].kind.strip() == "python"


def pages() -> list[Path]:
    """The README and everything written in docs."""
    found = [p for p in sorted(DOCS.rglob("*.md")) if not set(p.parts) & set(MADE)]
    return [ROOT / "README.md", *found]


def scan() -> tuple[list[Exhibit], list[Marked]]:
    """Exhibits of all pages, and tables marked as words."""
    exhibits: list[Exhibit] = []
    marked: list[Marked] = []
    for path in pages():
        some, words = read(path.read_text("utf-8"), path.relative_to(ROOT).as_posix())
        exhibits += some
        marked += words
    return exhibits, marked


def figures_without_command() -> list[str]:
    """Exhibits without a command in their section, as text."""
    return [str(one) for one in scan()[0] if not one.commands]


def recheck() -> list[tuple[str, bool]]:
    """Run the cheap commands; return each exhibit and whether the page agrees."""
    from tools.docs_compare import recheck as again

    return again()


def main() -> int:
    """List the exhibits; exit code 1 if a command is missing or an exhibit is stale."""
    exhibits, marked = scan()
    kinds = [one.kind for one in exhibits]
    print(*(f"{kinds.count(kind)} {kind}s" for kind in ("picture", "table", "output")), sep=", ")
    for one in marked:
        print(f"words: {one.page}:{one.line} {one.reason}")
    without = figures_without_command()
    for text in without:
        print(f"no command: {text}")
    if "--list" in sys.argv:
        for exhibit in exhibits:
            print(exhibit, "<-", "; ".join(exhibit.commands))
        return bool(without)
    stale = 0
    for name, same in recheck():
        stale += not same
        print(f"{'as on the page' if same else 'STALE':14}  {name}", flush=True)
    return bool(without or stale)


if __name__ == "__main__":
    sys.exit(main())
