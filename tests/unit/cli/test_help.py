"""Help of every command: examples, no types of Python, and nothing imported that it does not need."""

import re
import subprocess
import sys

import pytest

pytest.importorskip("typer")
import typer

from fairspan.cli import app, common
from fairspan.cli.help import EXAMPLES

OWN = ("explore", "fit", "predict", "audit", "data list", "data fetch")


def commands():
    def walk(command, name):
        if hasattr(command, "commands"):
            for sub, inner in command.commands.items():
                yield from walk(inner, f"{name} {sub}".strip())
        else:
            yield name, command

    return dict(walk(typer.main.get_command(app), ""))


@pytest.mark.parametrize("name", OWN)
def test_help_has_two_examples_and_no_types_of_python(call, name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = call(*name.split(), "--help").out
    assert not re.search(r"<\w+(\[|>)|\b(INTEGER|FLOAT|BOOLEAN|PATH)\b", text)
    for example in EXAMPLES[name]:
        assert example in " ".join(text.split())


@pytest.mark.parametrize("name", OWN)
def test_examples_use_options_that_exist(name):
    known = {option for p in commands()[name].params for option in p.opts}
    for example in EXAMPLES[name]:
        assert example.startswith(f"fairspan {name} ") or example == f"fairspan {name}"
        assert set(re.findall(r"--[a-z-]+", example)) <= known


def test_texts_of_the_help_are_those_of_the_library():
    from fairspan.auditing import SECTIONS
    from fairspan.inputs.config import PARAMETERS

    assert SECTIONS[1:] == common.PARTS
    assert {n: PARAMETERS[n].sentence for n in common.SENTENCES} == common.SENTENCES


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["fit", "--bogus"]])
def test_help_and_usage_errors_import_no_library_of_numerics(arguments):
    code = (
        f"import sys; sys.argv = ['fairspan', *{arguments}]\nfrom fairspan.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('sklearn', 'scipy', 'pandas', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("command", "option", "kind"),
    [("explore", "--out", ".html"), ("fit", "--out", ".skops"), ("predict", "--out", ".csv")],
)
def test_a_file_of_another_kind_is_refused_with_the_kinds_that_work(call, command, option, kind):
    more = ("--model", "m.skops") if command == "predict" else ()
    done = call(command, "people.csv", *more, option, "x.pdf")
    assert done.code == 2
    said = " ".join(done.err.split())
    assert f"{option} x.pdf: .pdf files are not written; give a name that ends in {kind}" in said


def test_the_shell_can_complete(call):
    assert "--install-completion" in call("--help").out
