"""Print the blocks of the technical note; exit code 1 if a claim is missed, 2 on an unknown name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from tools.technical_note._page import PAGE, claim_rows, put

CHEAP = (
    "symmetric",
    "leak",
    "cells",
    "optimum",
    "several",
    "price",
    "decision",
    "attributes",
    "gaps",
    "certificate",
    "bound",
    "dial",
    "defects",
)
REAL = ("splits", "ridges")  # these read data that are not part of the library


def text(name: str) -> str:
    """The table of a block, then its claims."""
    module = importlib.import_module(f"tools.technical_note.{name}")
    return "\n".join([*module.table(), "", *claim_rows(module.claims())])


def main(arguments: Sequence[str]) -> int:
    """Print the named blocks, or all that need no data; ``--write`` puts them on the page."""
    write = "--write" in arguments
    names = [a for a in arguments if a != "--write"] or list(CHEAP)
    if unknown := [name for name in names if name not in CHEAP + REAL]:
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(CHEAP + REAL)}", file=sys.stderr)
        return 2
    missed = False
    for name in names:
        found = text(name)
        missed |= "| MISS |" in found
        print(f"{name}\n\n{found}\n", flush=True)
        if write:
            PAGE.write_text(put(name, found, PAGE.read_text("utf-8")), "utf-8")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
