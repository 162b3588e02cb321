"""Pages that are made of the code are as the code is; every page is listed somewhere."""

import importlib
import re
from functools import reduce

import pytest

from tests.support.docs_scripts import DOCS, script

generate = script("_generate")
AGAIN = "run `python docs/_generate.py`"
TOCTREE = re.compile(r"```\{toctree\}\n(?::.*\n)*\n?((?:[^`:\n].*\n)*)```")


def test_the_command_line_page_is_current():
    pytest.importorskip("typer")
    assert generate.COMMAND_LINE.read_text("utf-8") == generate.command_line(), AGAIN


def test_the_command_line_page_has_every_command_and_option():
    typer = pytest.importorskip("typer")
    from fairspan.cli import app

    page = generate.COMMAND_LINE.read_text("utf-8")
    for name, command in generate._commands(typer.main.get_command(app), "fairspan"):
        section = page.split(f"## {name}\n")[1].split("\n## ")[0]
        options = {o for p in command.params if p.param_type_name == "option" for o in p.opts}
        assert {o for o in options - {"--help"} if f"`{o}`" not in section} == set()


def test_the_citations_are_current():
    page = generate.EQUATIONS.read_text("utf-8")
    assert page == generate.equations(page), AGAIN


def test_citations_are_read():
    text = (
        "(eq. rkhs-eig, Alg. 2 line 3); Algorithms 1 and 2; Theorem 1; METHOD 3 to 5 (METHOD 5-7)"
    )
    assert generate.cited(text) == {
        *("eq. rkhs-eig", "Theorem 1", "Alg. 1", "Alg. 2"),
        *(f"METHOD {n}" for n in (3, 4, 5, 6, 7)),
    }
    assert generate.cited("METHODS, method 4, (METHOD 7, 9)") == {"METHOD 7", "METHOD 9"}


def _no_citation_is_missed():
    """Words that look like a citation, wherever they are in the source."""
    loose = re.compile(r"\beqs?\.|\bAlg\.|Algorithms? \d|Theorem \d|\bMETHOD \d")
    for path in generate.SOURCE.rglob("*.py"):
        for line in path.read_text("utf-8").splitlines():
            if loose.search(line):
                yield path.name, line.strip(), generate.cited(line)


def test_no_citation_is_missed():
    assert [(name, line) for name, line, found in _no_citation_is_missed() if not found] == []


def test_sections_cited_exist():
    sections = re.findall(r"^## (\d+)\. ", (DOCS / "method.md").read_text("utf-8"), re.MULTILINE)
    cited = [c.split()[1] for c in generate.citations() if c.startswith("METHOD")]
    assert set(cited) <= set(sections)


def _tables() -> str:
    page = generate.EQUATIONS.read_text("utf-8")
    return page.split("## Equations")[1].split("## Where the source")[0]


def test_functions_named_in_the_map_exist():
    for name in set(re.findall(r"`(fairspan\.[\w.]+)`", _tables())):
        parts = name.split(".")
        known = max(
            i for i in range(1, len(parts) + 1) if _is_module(".".join(parts[:i]))
        )  # what follows the module are attributes
        module = importlib.import_module(".".join(parts[:known]))
        assert reduce(getattr, parts[known:], module) is not None, name


def test_the_map_of_the_code_names_what_exists():
    page = (DOCS / "code-map.md").read_text("utf-8")
    names = set(re.findall(r"`(fairspan(?:_lab)?(?:\.\w+)+)`", page))
    assert {n for n in names if not _exists(n)} == set()
    folders = {f"fairspan.{p.parent.name}" for p in generate.SOURCE.glob("*/__init__.py")}
    assert folders - names == set(), "give each package its line in the map"
    modules = re.findall(r"^\|.*\|(.*)\|$", page.split("modules of `fairspan.method`")[1], re.M)
    listed = {name for row in modules for name in re.findall(r"`(\w+)`", row)}
    written = {p.stem for p in (generate.SOURCE / "method").glob("*.py")} - {"__init__"}
    assert written - listed == set(), "give each module of fairspan.method its section in the map"


def _exists(name: str) -> bool:
    parts = name.split(".")
    known = max(i for i in range(1, len(parts) + 1) if _is_module(".".join(parts[:i])))
    module = importlib.import_module(".".join(parts[:known]))
    return reduce(lambda thing, part: getattr(thing, part, None), parts[known:], module) is not None


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_every_cited_equation_has_a_line():
    labels = set(re.findall(r"\| \(\d+\) `([\w-]+)`", _tables()))
    cited = {c.split()[1] for c in generate.citations() if c.startswith("eq.")}
    assert cited <= labels


def test_every_equation_of_the_paper_has_a_line(shared):
    tex = (shared / "paper/paper.tex").read_text("utf-8")
    kinds = {"eq": r"\(\d+\)", "prop": "Proposition 1", "thm": "Theorem 1", "alg": r"Algorithm \d"}
    for kind, label in re.findall(r"\\label\{(eq|prop|thm|alg):([\w-]+)\}", tex):
        assert re.search(rf"^\| {kinds[kind]} `{label}` \|", _tables(), re.MULTILINE), label
    order = re.findall(r"\\label\{eq:([\w-]+)\}", tex)
    numbered = re.findall(r"^\| \((\d+)\) `([\w-]+)`", _tables(), re.MULTILINE)
    assert numbered == [(str(i), label) for i, label in enumerate(order, start=1)]


def _listed(page) -> set[str]:
    return {name for block in TOCTREE.findall(page.read_text("utf-8")) for name in block.split()}


def test_every_page_is_in_one_list():
    """A page in no list is put at the guide's end; it deserves a place."""
    lists = [page for page in DOCS.glob("*.md") if _listed(page)]
    assert {"index.md", "guide.md", "theory.md", "evidence.md", "reference.md"} == {
        page.name for page in lists
    }
    names = [name for page in lists for name in _listed(page)]
    assert len(names) == len(set(names))
    written = {p.relative_to(DOCS).with_suffix("").as_posix() for p in DOCS.glob("*.md")}
    written |= {"frontier/frontier", "api/index", "decisions/README"}
    assert written - {"index"} - set(names) == set()


def test_every_decision_is_in_the_list_of_decisions():
    folder = DOCS / "decisions"
    linked = set(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text("utf-8")))
    assert linked == {page.name for page in folder.glob("0*.md")}


@pytest.mark.regression("the dependence left on new rows is called noise")
@pytest.mark.parametrize(
    ("page", "wrong", "right"),
    [
        ("docs/technical-note.md", "On others there is noise", "most of it is bias, not noise"),
        ("docs/limits.md", "several times the noise", "It is systematic, not chance"),
        ("docs/method.md", "Noise of a correlation is about", "is mostly bias, not chance"),
        ("docs/index.md", "near sampling noise", "mostly as a bias"),
        ("docs/leakage.md", "up to noise", "mostly as a bias"),
        ("README.md", "is sampling noise; race", "this is systematic"),
    ],
)
def test_what_is_left_on_new_rows_is_called_a_bias(checkout, page, wrong, right):
    text = " ".join((checkout / page).read_text("utf-8").split())  # lines may break anywhere
    assert wrong not in text
    assert right in text


def test_the_page_of_limits_says_what_is_promised_where(checkout):
    text = (checkout / "docs/limits.md").read_text("utf-8")
    promised = " ".join(text.split("## What is promised")[1].split("\n## ")[0].split())
    parts = promised.split("**")
    assert parts[1:6:2] == ["On new rows.", "On the training rows.", "With confidence."]
    assert "no dependence of the score on S is *expected*" in parts[2]
    assert 'With `removal="training_rows"` it is exactly zero there' in parts[4]
    assert "at(max_correlation=0.1, confidence=0.95)" in parts[6]


def test_the_readme_is_short(checkout):
    text = (checkout / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 110
    assert len(text.split()) <= 900
