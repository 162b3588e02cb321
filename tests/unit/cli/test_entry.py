"""The command line: help, tracebacks on request, and errors of the program itself."""

import sys

import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")
pytest.importorskip("pandas")

from fairspan import cli
from fairspan.cli import entry


def test_nothing_asked_for_shows_the_help(call):
    done = call()
    assert done.code in (0, 2)  # click's own, which changed with 8.2
    assert "explore" in done.out + done.err
    assert "Error" not in done.err


def test_an_error_is_a_traceback_where_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fairspan", "data", "fetch", "iris"])
    monkeypatch.setenv("FAIRSPAN_DEBUG", "1")
    with pytest.raises(ValueError, match="'iris' is unknown"):
        cli.main()


def test_a_mistake_of_ours_is_not_dressed_up_as_the_users(monkeypatch):
    def broken(**_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(entry, "app", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main()
