"""The built site: nothing leads nowhere, and nothing comes from elsewhere. `make test-docs` runs it."""

import os

import pytest

from tests.support.docs_scripts import DOCS, script

HTML = DOCS / "_build/html"
links = script("_links")


def _why_not() -> str | None:
    """Why there is no site to test, if there is none."""
    made = DOCS / "_build/external-links.txt"  # the last thing `make docs` writes
    if not (HTML / "index.html").is_file() or not made.is_file():
        return "the site is not built: make docs"
    sources = [path for kind in ("*.md", "api/*.md", "decisions/*.md") for path in DOCS.glob(kind)]
    if max(path.stat().st_mtime for path in sources) > made.stat().st_mtime:
        return "the site is older than its pages: make docs"
    return None


@pytest.fixture(scope="module")
def pages():
    why = _why_not()
    if why and os.environ.get("FAIRSPAN_REQUIRE_DOCS") == "1":
        pytest.fail(why, pytrace=False)
    if why:
        pytest.skip(why)
    return links.read(HTML)


def test_internal_links_and_anchors_resolve(pages):
    assert links.broken(HTML, pages) == []


def test_nothing_is_loaded_from_elsewhere(pages):
    assert links.foreign(HTML, pages) == []


def test_external_links_are_encrypted_and_listed(pages):
    found = links.external(pages)
    listed = (DOCS / "_build/external-links.txt").read_text().splitlines()
    assert found == listed
    assert [link for link in found if not link.startswith(("https://", "mailto:"))] == []


def test_every_page_is_there(pages):
    kinds = ("*.md", "api/*.md", "decisions/*.md", "frontier/*.md")
    expected = [HTML / p.relative_to(DOCS) for kind in kinds for p in DOCS.glob(kind)]
    assert [p for p in expected if p.with_suffix(".html") not in pages] == []


def test_mathematics_is_drawn_by_a_file_of_the_site(pages):
    script_of = HTML / "_static/mathjax/tex-mml-chtml.js"
    assert script_of.is_file()
    assert list((script_of.parent / "output/chtml/fonts/woff-v2").glob("*.woff"))
    loaded = [r for r in pages[HTML / "equations.html"].resources if "mathjax" in r]
    assert [link.split("?")[0] for link in loaded] == ["_static/mathjax/tex-mml-chtml.js"]


def test_pages_hold_no_path_of_this_machine(pages):
    root = str(DOCS.parent)
    assert [p.name for p in pages if root in p.read_text(encoding="utf-8")] == []


def test_pictures_have_words(pages):
    """Every picture of ours says what it shows; cards of the gallery and the logo have a title beside."""
    import re

    for path in pages:
        for tag in re.findall(r"<img [^>]*>", path.read_text(encoding="utf-8")):
            beside = any(w in tag for w in ("sphx-glr", "_thumb.", "logo__image"))
            assert beside or re.search(r'alt="[^"]+"', tag), (path.name, tag)


class TestTheReader:
    """On pages that are wrong, so that silence means something."""

    @pytest.fixture
    def site(self, tmp_path):
        (tmp_path / "a.html").write_text(
            '<link rel="stylesheet" href="https://x.org/s.css"><h1 id="top"></h1>'
            '<a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a>'
            '<a href="#top">4</a><a href="#none">5</a><a href="https://x.org/">6</a>'
            '<img src="no.png"><script src="//x.org/s.js"></script>'
        )
        (tmp_path / "b.html").write_text('<p id="there"></p><a href="a.html">back</a>')
        (tmp_path / "s.css").write_text("@import url('https://x.org/f.css');")
        return tmp_path

    def test_it_sees_what_is_broken(self, site):
        wrong = [line.split(" -> ")[1] for line in links.broken(site, links.read(site))]
        assert wrong == ["b.html#gone", "c.html", "#none", "no.png"]

    def test_it_sees_what_comes_from_elsewhere(self, site):
        found = [line.split(" -> ")[1] for line in links.foreign(site, links.read(site))]
        assert found == ["https://x.org/s.css", "//x.org/s.js", "https://x.org/f.css"]
        assert links.external(links.read(site)) == ["https://x.org/"]
