"""Documents: both writers keep text from data as text."""

from __future__ import annotations

from html.parser import HTMLParser

from fairspan.auditing.documents import (
    TO_FILL,
    Bullets,
    Heading,
    Paragraph,
    Table,
    ToFill,
    to_fragment,
    to_markdown,
    to_page,
)

EVIL = "a | b\n# <script>alert(1)</script> [x](javascript:y) *z* http://example.org"
PARTS = (
    Heading(EVIL),
    Paragraph(EVIL),
    Bullets((EVIL, "- one")),
    ToFill((EVIL,)),
    Table(EVIL, ("name", EVIL), ((EVIL, EVIL),)),
)


class Tags(HTMLParser):
    """Names of tags in the order of the page, and whether each one is closed."""

    void = ("meta",)

    def __init__(self) -> None:
        super().__init__()
        self.names, self.open = [], []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002 - the signature of the parser
        self.names.append(tag)
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_data_adds_no_markup_to_markdown():
    text = to_markdown(PARTS)
    lines = text.splitlines()
    assert sum(line.startswith("#") for line in lines) == 1
    assert "<script" not in text
    assert "](" not in text.replace("\\]", "")
    assert "http://" not in text
    assert "- \\- one" in lines
    assert f"- **{TO_FILL}** " in text
    # Every line of the table has the same number of bars that are not escaped.
    bars = {line.replace("\\|", "").count("|") for line in lines if line.startswith("| ")}
    assert bars == {3}


def test_data_adds_no_markup_to_html():
    tags = Tags()
    tags.feed(to_page(EVIL, to_fragment(PARTS)))
    assert tags.open == []
    assert "script" not in tags.names
    assert "a" not in tags.names
    assert tags.names.count("h2") == 1


def test_empty_parts_are_left_out():
    assert to_markdown([Bullets(()), ToFill(()), Table("x", ("a",), ()), Paragraph("b")]) == "b\n"
