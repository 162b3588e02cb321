"""A real browser, reports to open in it, and reasons to skip where there is none."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.reports import EXAMPLES, Example

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# A quiet machine needs a tenth of it; one that runs other things, too, is slower.
PATIENCE_MS = 30_000


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Only where asked for by path, as `make test-browser` does: the suite needs no browser."""
    places = [
        Path(config.invocation_params.dir, arg.split("::")[0]).resolve() for arg in config.args
    ]
    return None if any(place == HERE or HERE in place.parents for place in places) else True


def _find_browser() -> str | None:
    wanted = os.environ.get("FAIRSPAN_BROWSER")
    return shutil.which(wanted) if wanted else next(filter(None, map(shutil.which, BROWSERS)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator:
    """Chromium, as the machine has it; nothing is downloaded."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is absent: pip install playwright"
    )
    path = _find_browser()
    if path is None:
        pytest.skip("no browser: install chromium or set FAIRSPAN_BROWSER")
    with api.sync_playwright() as started:
        found = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, which is run in the page but is no part of it."""
    path = Path(os.environ.get("FAIRSPAN_AXE") or ROOT / "build/axe-core/package/axe.min.js")
    if not path.is_file():
        reason = f"axe-core is absent at {path}: npm pack axe-core, or set FAIRSPAN_AXE"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def examples(browser, tmp_path_factory) -> dict[str, Example]:
    """Every example as a file, made once."""
    folder = tmp_path_factory.mktemp("reports")
    return {name: make(folder / f"{name}.html") for name, make in EXAMPLES.items()}


@pytest.fixture
def opened(browser, examples) -> Iterator:
    """Opens an example in a fresh page; whatever goes wrong on it fails the test."""
    contexts, troubles = [], []

    def open_page(
        name: str, *, width: int = 1280, hash: str = "", path: Path | None = None, **options
    ):
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        url = (path or examples[name].path).as_uri()
        page.on("pageerror", lambda e: troubles.append(f"error: {e}"))
        page.on("console", lambda m: troubles.append(f"{m.type}: {m.text}"))
        page.on("dialog", lambda d: (troubles.append(f"dialog: {d.message}"), d.dismiss()))
        page.on(
            "request", lambda r: r.url.split("#")[0] == url or troubles.append(f"request: {r.url}")
        )
        page.goto(url + hash)
        assert page.evaluate("window.fairspan !== undefined")
        # Charts out of sight are drawn after the others.
        page.evaluate("() => new Promise(r => requestAnimationFrame(() => setTimeout(r, 260)))")
        return page

    open_page.troubles = troubles
    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []
