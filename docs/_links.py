"""Links of the built site: `python docs/_links.py docs/_build/html`.

Lists the external ones beside the site (external-links.txt); nothing is fetched. Exits with 1 and a
list where an internal link or a resource goes nowhere, or a page loads something from elsewhere.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes by which a browser fetches something, without being asked to by a click.
_LOADS = {
    "audio": ("src",), "embed": ("src",), "iframe": ("src",), "img": ("src", "srcset"),
    "input": ("src",), "object": ("data",), "script": ("src",), "source": ("src", "srcset"),
    "track": ("src",), "video": ("src", "poster"), "image": ("href", "xlink:href"),
}  # fmt: skip
# Kinds of <link> that are addresses for readers or robots, not files to load.
_NOT_LOADED = {"canonical", "next", "prev", "index", "author", "search", "help", "license"}


@dataclass
class Page:
    """What one page has, and what it points to."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        self.page.ids |= {has[name] for name in ("id", "name") if has.get(name)}
        if tag == "a" and "href" in has:
            self.page.links.append(has["href"])
        if tag == "link" and not set(has.get("rel", "").split()) & _NOT_LOADED:
            self.page.resources.append(has.get("href", ""))
        for name in _LOADS.get(tag, ()):
            if has.get(name):
                self.page.resources += [p.split()[0] for p in has[name].split(",") if p.split()]
        self.page.resources += re.findall(r"url\(['\"]?([^'\")]+)", has.get("style", ""))


def read(html: Path) -> dict[Path, Page]:
    """Every page of the site."""
    found = {}
    for path in sorted(html.rglob("*.html")):
        if "_static" not in path.relative_to(html).parts:
            reader = _Reader()
            reader.feed(path.read_text(encoding="utf-8"))
            found[path] = reader.page
    return found


def is_external(link: str) -> bool:
    """A link with a scheme or a host of its own."""
    parts = urlsplit(link)
    return bool(parts.scheme or parts.netloc)


def external(pages: dict[Path, Page]) -> list[str]:
    """Addresses elsewhere that a reader may click on."""
    return sorted({link for page in pages.values() for link in page.links if is_external(link)})


def broken(html: Path, pages: dict[Path, Page]) -> list[str]:
    """Internal links whose file or anchor is not there, as `page -> link`."""
    found = []
    for path, page in pages.items():
        for link in (*page.links, *page.resources):
            if is_external(link) or link in ("", "#"):
                continue
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            anchored = not parts.fragment or target not in pages
            if not target.is_file() or not (
                anchored or unquote(parts.fragment) in pages[target].ids
            ):
                found.append(f"{path.relative_to(html)} -> {link}")
    return found


def foreign(html: Path, pages: dict[Path, Page]) -> list[str]:
    """What a browser would load from elsewhere, as `file -> address`; pages and style sheets."""
    found = [
        f"{path.relative_to(html)} -> {link}"
        for path, page in pages.items()
        for link in page.resources
        if is_external(link) and not link.startswith("data:")
    ]
    for path in sorted(html.rglob("*.css")):
        text = path.read_text(encoding="utf-8", errors="replace")
        loads = re.findall(r"(?:url\(|@import\s+)['\"]?((?:https?:)?//[^'\")\s]+)", text)
        found += [f"{path.relative_to(html)} -> {link}" for link in loads]
    return found


if __name__ == "__main__":
    site = Path(sys.argv[1]).resolve()
    every = read(site)
    out = site.parent / "external-links.txt"
    out.write_text("".join(f"{link}\n" for link in external(every)), encoding="utf-8")
    wrong = [f"broken: {line}" for line in broken(site, every)]
    wrong += [f"from elsewhere: {line}" for line in foreign(site, every)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(every)} pages; {len(external(every))} external links, listed in {out.name}")
    sys.exit(bool(wrong))
