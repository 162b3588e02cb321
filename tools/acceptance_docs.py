"""Limits on the documentation: the site, its gallery, the commands of its pages, its figures."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

from tools import docs_figures
from tools.table import ROOT, Measurement, at_least, at_most, suite

SITE = ROOT / "docs" / "_build" / "html"
EXAMPLES = ROOT / "examples" / "gallery"
DISPLAYS = [
    "tests/unit/plotting",
    "tests/unit/auditing/test_plot.py",
    "tests/test_plotting_images.py",
]
# Pages of a newcomer's first hour: the quickstart and three pages of the guide.
HOUR = ("quickstart", "explorer", "choosing-the-dial", "audit")


def measurements() -> Iterator[Measurement]:
    """All rows; a quarter of an hour on two cores."""
    yield from site_rows()
    yield from gallery_rows()
    snippets = ["tests/test_docs.py", "-m", ""]
    yield from suite("every snippet runs and prints what its page says", snippets, 40)
    names = ["tests/test_docstrings.py", "tests/test_docs_pages.py"]
    yield from suite("docstrings against signatures, every name once", names, 200)
    yield from hour_rows()
    yield from suite("displays, by image and by law", DISPLAYS, 20)
    yield from suite("notebooks: what objects show", ["tests/unit/test_html.py"], 5)
    yield from suite("technical note: claims measured again", ["tests/test_technical_note.py"], 10)
    yield from figure_rows()


def site_rows() -> Iterator[Measurement]:
    """`make docs`, in which a warning is an error, then links, anchors and resources."""
    run = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        print(run.stdout[-2000:], run.stderr[-2000:])
    yield at_most("make docs, warnings are errors: exit status", run.returncode, 0)
    yield at_least("pages", sum(1 for _ in SITE.rglob("*.html")), 50)
    yield from suite("links, anchors, resources of the site", ["tests/test_docs_site.py"], 5)
    yield from browser("laptop and phone: overflow, pictures, console")


def browser(name: str) -> Iterator[Measurement]:
    """The built site in Chromium, with the environment that drives it."""
    python = ROOT / ".venv-browser" / "bin" / "python"
    run = subprocess.run(
        [str(python), "-m", "pytest", "-q", "tests/browser/test_docs_pages.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    passed = re.search(r"(\d+) passed", run.stdout)
    yield at_most(f"{name}: tests failed", run.returncode, 0)
    yield at_least(f"{name}: tests passed", int(passed[1]) if passed else 0, 3)


def gallery_rows() -> Iterator[Measurement]:
    """Examples that the build executed, with their figures, and the tests of their statements."""
    shown = 0
    for example in sorted(EXAMPLES.glob("plot_*.py")):
        page = SITE / "gallery" / f"{example.stem}.html"
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        executed = "sphx-glr-script-out" in text and f"sphx_glr_{example.stem}_001" in text
        question = re.search(r"<h1>(.*?)<a", text)
        print(
            f"    {'executed' if executed else 'NOT'}: {question[1] if question else example.stem}"
        )
        shown += executed
    yield at_least("examples executed, with figures and output", shown, 8)
    yield from suite("what the examples say is so", ["tests/test_gallery.py", "-m", ""], 8)


def hour_rows() -> Iterator[Measurement]:
    """Run all commands of the pages as written, in a new environment."""
    pages = " or ".join(HOUR)
    tests = "tests/test_docs_commands.py"
    yield from suite("a stranger's hour, page by page", [tests, "-k", pages, "-m", "not long"], 2)
    new = [f"{tests}::test_commands_run_in_a_new_environment", "-m", "long"]
    yield from suite("a stranger's hour, in a new environment", new, 1)


def figure_rows() -> Iterator[Measurement]:
    """Every figure and table has a command; the cheap ones are computed again."""
    exhibits, _ = docs_figures.scan()
    yield at_least("figures and measured tables in the docs", len(exhibits), 20)
    without = docs_figures.figures_without_command()
    for line in without:
        print(f"    {line}")
    yield at_most("of these without a command beside them", len(without), 0)
    again = docs_figures.recheck()
    for name, same in again:
        print(f"    {'same' if same else 'DIFFERENT'}: {name}")
    yield at_least("made again", len(again), 5)
    yield at_most("made again and different", sum(not same for _, same in again), 0)
