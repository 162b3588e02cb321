"""The documentation in a real browser, on a laptop and on a phone: from the disk, and in one piece."""

import pytest

from tests.support.docs_scripts import DOCS

HTML = DOCS / "_build/html"
WIDTHS = {"laptop": 1280, "phone": 390}
PATIENCE_MS = 20_000

# What sticks out of the window, unless it is in a box that scrolls. A box that merely hides the
# rest is no excuse: words would be cut off.
OVERFLOW = """() => {
  const width = document.documentElement.clientWidth;
  const scrolls = e => {
    for (; e && e !== document.body; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.visibility === 'hidden' || style.position === 'fixed') return true;
      if (['auto', 'scroll'].includes(style.overflowX) && e.scrollWidth > e.clientWidth
          && e.getBoundingClientRect().right <= width + 1
          && !e.matches('main, article, .bd-main, .bd-content')) return true;
    }
    return false;
  };
  const out = [...document.body.querySelectorAll('main *, header *, footer *')].filter(e => {
    const box = e.getBoundingClientRect();
    return box.width && box.left < width && box.right > width + 1 && !scrolls(e)
      && !e.closest('mjx-assistive-mml');  // for screen readers: clipped to nothing
  });
  if (document.documentElement.scrollWidth > width) out.push(document.documentElement);
  return out.slice(-3).map(e => e.tagName + '.' + e.className + ': ' + e.textContent.trim().slice(0, 60));
}"""
BROKEN = "() => [...document.images].filter(i => !i.naturalWidth).map(i => i.src)"
LOAD = "() => [...document.images].forEach(i => { i.loading = 'eager'; })"
UNDRAWN = """() => [...document.querySelectorAll('.math')]
  .filter(e => !e.querySelector('mjx-container')).map(e => e.textContent)"""
ERRORS = "() => [...document.querySelectorAll('mjx-merror')].map(e => e.textContent)"


def _names() -> list[str]:
    found = [p.relative_to(HTML) for p in HTML.rglob("*.html") if "_static" not in p.parts]
    return sorted(p.as_posix() for p in found)


@pytest.fixture(scope="module")
def pages():
    if not (HTML / "index.html").is_file():
        pytest.skip("the site is not built: make docs")
    return _names()


@pytest.mark.parametrize("width", WIDTHS.values(), ids=list(WIDTHS))
def test_pages_are_whole(browser, pages, width):
    """All pages in one window: no overflow, no broken picture, no error, nothing off the disk."""
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    troubles, name = [], ""
    root = HTML.resolve().as_uri()

    def note(text):
        troubles.append(f"{name}: {text}")

    page.on("pageerror", lambda e: note(f"error: {e}"))
    page.on("console", lambda m: m.type in ("error", "warning") and note(f"{m.type}: {m.text}"))
    page.on("requestfailed", lambda r: note(f"failed: {r.url}"))
    page.on(
        "request",
        lambda r: r.url.startswith((root, "data:", "blob:")) or note(f"request: {r.url}"),
    )
    for name in pages:
        page.goto(f"{root}/{name}")
        page.evaluate(LOAD)
        page.wait_for_function("() => [...document.images].every(i => i.complete)")
        if page.query_selector(".math"):
            page.wait_for_function(
                "() => window.MathJax && MathJax.startup && MathJax.startup.promise"
            )
            page.evaluate("() => MathJax.startup.promise")
            for text in (*page.evaluate(UNDRAWN), *page.evaluate(ERRORS)):
                note(f"mathematics: {text}")
        for text in page.evaluate(OVERFLOW):
            note(f"overflow: {text}")
        for text in page.evaluate(BROKEN):
            note(f"broken picture: {text}")
    context.close()
    assert not troubles, "\n".join(troubles)


def test_the_search_finds_a_name(browser, pages):
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{HTML.resolve().as_uri()}/search.html?q=table_encoder")
    page.wait_for_selector("#search-results li")
    assert "table_encoder" in page.inner_text("#search-results")
    page.close()
