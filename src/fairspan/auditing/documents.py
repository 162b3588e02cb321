"""A document as headings, paragraphs, lists and tables; written as Markdown or as a page of HTML.

Text may come from data: both writers escape it, so that it can add no lines, links, images or markup.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairspan import _html
from fairspan._system import inert

# Characters of a line or a cell: names from data may be of any length.
LONGEST = 2000
# Begins every line that only the people behind a model can write.
TO_FILL = "To fill in by the provider:"

# Characters of Markdown for lines, links, images, formulas and emphasis.
_ACTIVE = re.compile(r"([\\`*_\[\]!|~#$]|(?<=:)(?=//)|(?<=www)(?=\.))", re.I)
_LIST = re.compile(r"^(\d*)([-+.)])")
_STYLE = """body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color:CanvasText;background:Canvas;color-scheme:light dark}
h1,h2,h3{line-height:1.25;margin:1.6em 0 .4em} table{font-size:.9rem} .wide{overflow-x:auto}
.fill{border-left:.25rem solid #b35c00;padding:.1rem .6rem;margin:.4rem 0}
@media print{body{margin:0;max-width:none} h2,h3{break-after:avoid} tr,.fill{break-inside:avoid}}"""


def cell(text: str) -> str:
    """Escape text from data on one line of Markdown."""
    flat = " ".join(inert(text, LONGEST).split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _ACTIVE.sub(r"\\\1", flat)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, or nothing if there are no rows."""
    cells = [[cell(text) for text in row] for row in rows]
    if not cells:
        return ""
    lines = [[cell(text) for text in head], ["---"] * len(head), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def bullets(texts: Sequence[str]) -> str:
    """A list in Markdown."""
    # Escape text that begins like a list item: it would open a list inside this one.
    return "\n".join("- " + _LIST.sub(r"\1\\\2", cell(text)) for text in texts)


# ------------------------------------------------------------------ parts of a document


@dataclass(frozen=True)
class Heading:
    """A heading; 1 is the title of the document."""

    text: str
    level: int = 2

    def markdown(self) -> str:
        """As Markdown."""
        return "#" * self.level + " " + cell(self.text)

    def html(self) -> str:
        """As HTML."""
        return f"<h{self.level}>{_escaped(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph."""

    text: str

    def markdown(self) -> str:
        """As Markdown."""
        return _LIST.sub(r"\1\\\2", cell(self.text))

    def html(self) -> str:
        """As HTML."""
        return f"<p>{_escaped(self.text)}</p>"


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    texts: tuple[str, ...]

    def markdown(self) -> str:
        """As Markdown."""
        return bullets(self.texts)

    def html(self) -> str:
        """As HTML."""
        return f"<ul>{''.join(f'<li>{_escaped(text)}</li>' for text in self.texts)}</ul>"


@dataclass(frozen=True)
class ToFill:
    """Lines that only the people behind a model can write."""

    texts: tuple[str, ...]

    def markdown(self) -> str:
        """As Markdown."""
        return "\n".join(f"- **{TO_FILL}** {cell(text)}" for text in self.texts)

    def html(self) -> str:
        """As HTML."""
        lines = (
            f'<p class="fill"><strong>{TO_FILL}</strong> {_escaped(t)}</p>' for t in self.texts
        )
        return "".join(lines)


@dataclass(frozen=True)
class Table:
    """A table; its first column names the rows."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """As Markdown, with the caption in bold above it."""
        return f"**{cell(self.caption)}**\n\n{table(self.head, self.rows)}"

    def html(self) -> str:
        """As HTML; wide tables scroll, also by keyboard."""
        return f'<div class="wide" tabindex="0">{_html.table(self.caption, self.head, self.rows)}</div>'


Block = Heading | Paragraph | Bullets | ToFill | Table


def _shown(blocks: Iterable[Block]) -> list[Block]:
    """Parts that have content."""
    empty = (Bullets(()), ToFill(()))
    return [b for b in blocks if b not in empty and not (isinstance(b, Table) and not b.rows)]


def to_markdown(blocks: Iterable[Block]) -> str:
    """Write a document as Markdown."""
    return "\n\n".join(block.markdown() for block in _shown(blocks)) + "\n"


def to_fragment(blocks: Iterable[Block]) -> str:
    """Write a document as HTML for a notebook, without a page around it."""
    return "".join(block.html() for block in _shown(blocks))


def to_page(title: str, body: str) -> str:
    """Write a page of HTML without scripts; ``body`` is HTML."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_escaped(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def _escaped(text: str) -> str:
    return html.escape(" ".join(inert(text, LONGEST).split()))
