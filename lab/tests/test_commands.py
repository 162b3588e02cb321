"""The commands that fairspan-lab adds: `fairspan reproduce` and `fairspan bench frontier`."""

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("typer")

from rich.console import Console

import fairspan_lab.reproduce
from fairspan_lab import commands
from fairspan_lab import frontier as frontier_module
from fairspan_lab.frontier._problems import PROBLEMS

INSTALL = "pip install -e . -e lab"


def test_names_in_the_help_are_those_of_the_methods():
    assert tuple(fairspan_lab.reproduce.METHODS) == commands.METHOD_NAMES
    assert tuple(frontier_module.METHODS) == commands.FRONTIER_METHODS
    assert tuple(source.key for source in PROBLEMS.values()) == commands.FRONTIER_SETS


@pytest.mark.parametrize("command", ["reproduce", "bench"])
def test_without_the_lab_a_command_says_how_to_install_it(command):
    code = (
        "import importlib.metadata as metadata, sys\n"
        "metadata.entry_points = lambda **_: ()\n"
        f"sys.argv = ['fairspan', {command!r}, 'frontier', '--quick']\n"
        "from fairspan.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert f"`fairspan {command}` is part of fairspan-lab" in done.stderr
    assert INSTALL in done.stderr


@pytest.mark.parametrize(
    "statement",
    ["import fairspan.baselines", "from fairspan import baselines",
     "from fairspan.baselines import NCFR"],
)  # fmt: skip
def test_without_the_lab_the_baselines_say_how_to_install_it(statement):
    code = f"import sys\nsys.modules['fairspan_lab'] = None\nimport fairspan\n{statement}\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "ImportError: fairspan.baselines is part of fairspan-lab" in done.stderr
    assert INSTALL in done.stderr


def test_the_baselines_are_those_of_the_lab():
    import fairspan.baselines
    import fairspan_lab.baselines

    assert fairspan.baselines.FERM is fairspan_lab.baselines.FERM
    assert "NCFR" in dir(fairspan.baselines)
    assert not hasattr(fairspan.baselines, "nothing")


def test_a_reproduction_names_its_files(call, monkeypatch):
    files = [Path("a/results.csv"), Path("a/page.md")]
    monkeypatch.setattr(fairspan_lab.reproduce, "reproduce", lambda *_, **__: files)
    assert call("reproduce").out.split() == [str(file) for file in files]
    found = json.loads(call("reproduce", "--json", "-").out)
    assert found == {"files": [str(file) for file in files], "failures": []}


def test_cells_that_fail_are_named_and_the_rest_is_kept(call, monkeypatch):
    def fails(*_, **__):
        raise frontier_module.FailedCellsError(["adult: [no] memory"], 2, [Path("frontier.csv")])

    monkeypatch.setattr(frontier_module, "frontier", fails)
    done = call("bench", "frontier", "--json", "-")
    assert done.code == 1
    assert json.loads(done.out) == {"files": ["frontier.csv"], "failures": ["adult: [no] memory"]}
    assert "Failed: adult: [no] memory" in done.err
    plain = call("bench", "frontier")
    assert (plain.code, plain.out) == (1, "frontier.csv\n")


def test_a_finished_frontier_names_its_files(call, monkeypatch):
    asked = []

    def runs(data, methods, *_, say, **__):
        asked.append((data, methods))
        say("[bold]hello[/]")
        return [Path("frontier.csv")]

    monkeypatch.setattr(frontier_module, "frontier", runs)
    done = call("bench", "frontier", "--data", "adult,compas", "--methods", "gp")
    assert (done.code, done.out) == (0, "frontier.csv\n")
    assert "[bold]hello[/]" in done.err
    assert asked == [(["adult", "compas"], ["gp"])]


@pytest.mark.parametrize("terminal", [True, False])
def test_the_cell_at_work_is_named_on_a_terminal_only(monkeypatch, terminal):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100)
    monkeypatch.setattr(commands, "_errors", console)
    cells = [SimpleNamespace(title=f"Adult [red]{i}[/]") for i in range(3)]
    assert list(commands._track(cells)) == cells
    assert ("Adult [red]2[/]" in stream.getvalue()) == terminal  # text, no markup
