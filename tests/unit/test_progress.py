"""A bar on a terminal, a few lines elsewhere, nothing unless asked."""

import sys

import pytest

from fairspan._system import track


class Terminal:
    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_nothing_is_said_unless_asked(capsys):
    assert list(track(range(5), 5, "rows")) == [0, 1, 2, 3, 4]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("total", [1, 3, 5, 1000])
def test_a_few_lines_where_there_is_no_terminal(capsys, total):
    assert list(track(range(total), total, "rows", verbose=1)) == list(range(total))
    lines = capsys.readouterr().err.splitlines()
    assert 1 <= len(lines) <= 5
    assert lines[-1] == f"[fairspan] rows: {total:,} of {total:,}"


def test_a_bar_that_ends_full_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert sum(1 for _ in track(iter("abc"), 3, "rows", verbose=1)) == 3
    last = terminal.text.rsplit("\r", 1)[1]
    assert last.startswith("[fairspan] rows [########################] 3/3, 0 s left")
    assert last.endswith("\n")
