"""Generate pages from the code: ``python docs/_generate.py``.

The command line reference is generated from the typer application; the map from equations to code
lists where the source cites the paper and the method. `tests/test_docs_pages.py` fails if a page is
out of date.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src/fairspan"
COMMAND_LINE = DOCS / "command-line.md"
EQUATIONS = DOCS / "equations.md"

# ------------------------------------------------------------------ command line

_HEAD = """# Command line

Install the extra `cli` (`pip install ".[cli]"` in a checkout). `--help` after a command prints its
options. An error that you can correct is one line, with exit status 2; set the environment variable
`FAIRSPAN_DEBUG` to see the traceback.

Written by `python docs/_generate.py`; do not edit.
"""


def command_line() -> str:
    """Return the page of all commands."""
    import typer

    from fairspan.cli import app
    from fairspan.cli.help import EXAMPLES

    parts = [_HEAD]
    for name, command in _commands(typer.main.get_command(app), "fairspan"):
        examples = EXAMPLES.get(name.removeprefix("fairspan "), ())
        shown = "\nFor example:\n\n```\n" + "\n".join(examples) + "\n```\n" if examples else ""
        parts.append(
            f"## {name}\n\n{_as_markdown(command.help)}\n\n{_usage(name, command)}{shown}"
            f"{_table(command)}"
        )
    return "\n".join(parts)


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for sub, inner in command.commands.items():
            yield from _commands(inner, f"{name} {sub}")
    else:
        yield name, command


def _usage(name: str, command: Any) -> str:
    words = [name]
    for p in command.params:
        if p.param_type_name == "argument":
            word = (p.metavar or p.name).upper()
            words.append(word if p.required else f"[{word}]")
        elif p.required:
            words.append(f"{p.opts[0]} {_value(p)}")
    return f"```\n{' '.join(words)} [OPTIONS]\n```\n"


def _table(command: Any) -> str:
    rows = [_row(p) for p in command.params if p.name != "help"]
    if not rows:
        return ""
    return "\n".join(["", "| option | meaning | default |", "|---|---|---|", *rows, ""])


def _row(p: Any) -> str:
    if p.param_type_name == "argument":
        names = f"`{p.name.upper()}`"
    else:
        names = ", ".join(f"`{opt}`" for opt in (*p.opts, *p.secondary_opts))
        names += f" `{_value(p)}`" if _value(p) else ""
    more = " May be given several times." if p.multiple and "repeat" not in (p.help or "") else ""
    default = "required" if p.required else _default(p)
    return f"| {names} | {_as_markdown(p.help)}{more} | {default} |".replace("|  |", "| |")


def _value(p: Any) -> str:
    """Placeholder for the value of an option; its type is stored differently by version of typer."""
    descriptor = getattr(p, "type_descriptor", None)
    name = p.type.name if descriptor is None else str(descriptor.annotation)
    kinds = {"int": "NUMBER", "float": "NUMBER", "path": "PATH", "bool": ""}
    return next((word for kind, word in kinds.items() if kind in name.lower()), "TEXT")


def _default(p: Any) -> str:
    value = p.default
    if value is None or value is False or callable(value) or "UNSET" in repr(value).upper():
        return ""
    return f"`{value}`"


def _as_markdown(text: str | None) -> str:
    """Help text as one line of Markdown, with options and variables as code."""
    line = " ".join((text or "").split()).replace("|", "\\|")
    return re.sub(r"(?<![\w`])(--[a-z][a-z-]*|\$[A-Z_]+|- (?=is |likewise))", _as_code, line)


def _as_code(found: re.Match[str]) -> str:
    return f"`{found[0].strip()}`" + " " * found[0].endswith(" ")


# ------------------------------------------------------------------ equations

# What counts as a citation, and how it is written in the table.
CITATIONS = re.compile(
    r"eq\. (?P<eq>[a-z]+-[a-z]+)"
    r"|(?:Alg\.|Algorithms?) (?P<alg>\d(?: and \d)?)"
    r"|Theorem (?P<thm>\d)"
    r"|METHOD (?P<method>\d+(?:(?: to |-|, )\d+)*)"
)
BEGIN, END = "<!-- citations: begin -->", "<!-- citations: end -->"


def cited(text: str) -> set[str]:
    """Return the citations in a text: `eq. rkhs-eig`, `Alg. 1`, `Theorem 1`, `METHOD 4`."""
    found = set()
    for m in CITATIONS.finditer(text):
        if m["eq"]:
            found.add(f"eq. {m['eq']}")
        elif m["alg"]:
            found |= {f"Alg. {n}" for n in m["alg"].split(" and ")}
        elif m["thm"]:
            found.add(f"Theorem {m['thm']}")
        else:
            for piece in m["method"].split(", "):
                ends = [int(n) for n in re.split(r" to |-", piece)]
                found |= {f"METHOD {n}" for n in range(ends[0], ends[-1] + 1)}
    return found


def citations() -> dict[str, list[tuple[str, str]]]:
    """Map every citation to the places that make it: module, and function or class."""
    places: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        module = ".".join(("fairspan", *path.relative_to(SOURCE).with_suffix("").parts))
        module = module.removesuffix(".__init__")
        spans = list(_spans(ast.parse(text)))
        for number, line in enumerate(text.splitlines(), start=1):
            for citation in cited(line):
                inside = [name for first, last, name in spans if first <= number <= last]
                place = (module, inside[-1] if inside else "")
                if place not in places.setdefault(citation, []):
                    places[citation].append(place)
    return dict(sorted(places.items(), key=lambda item: _order(item[0])))


def _spans(tree: ast.AST, prefix: str = "") -> Iterator[tuple[int, int, str]]:
    """Yield first line, last line and name of functions and classes, outer before inner."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = prefix + node.name
            yield node.lineno, node.end_lineno or node.lineno, name
            yield from _spans(node, f"{name}.")
        else:
            yield from _spans(node, prefix)


def _order(citation: str) -> tuple[int, int, str]:
    kind, _, rest = citation.partition(" ")
    rank = ("eq.", "Theorem", "Alg.", "METHOD").index(kind)
    return rank, int(rest) if rest.isdigit() else 0, rest


def citation_table() -> str:
    """Return the table of citations."""
    rows = ["| cited | in |", "|---|---|"]
    for citation, places in citations().items():
        names = [f"`{module}{'.' + name if name else ''}`" for module, name in places]
        rows.append(f"| {citation} | {', '.join(names)} |")
    return "\n".join(rows)


def equations(page: str) -> str:
    """Return the page with the current table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{citation_table()}\n\n{END}{after}"


if __name__ == "__main__":
    made = {COMMAND_LINE: command_line(), EQUATIONS: equations(EQUATIONS.read_text("utf-8"))}
    stale = [p for p, text in made.items() if not p.exists() or p.read_text("utf-8") != text]
    for page in stale:
        page.write_text(made[page], encoding="utf-8")
    print("written:" if stale else "all current", *(page.name for page in stale), file=sys.stderr)
