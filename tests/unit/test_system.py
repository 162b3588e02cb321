"""The machine as each operating system reports it, plain types for JSON, and progress."""

import ctypes
import io
import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from fairspan import FairRidge
from fairspan._system import row_progress, track

GIB = 2**30


@pytest.fixture
def system():
    return pytest.importorskip("fairspan._system")


@pytest.fixture
def no_container(monkeypatch, system):
    monkeypatch.setattr(system, "_CONTAINER_LIMITS", ())


@pytest.mark.regression("every fit fails on Windows (os.sysconf)")
def test_a_fit_does_not_need_sysconf(monkeypatch, rng):
    monkeypatch.delattr(os, "sysconf", raising=False)
    X = rng.normal(size=(60, 2))
    model = FairRidge(gamma=1.0, alpha=0.1).fit(
        X, X[:, 0], sensitive_features=rng.integers(0, 2, 60)
    )
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("error", [OSError, ValueError])
def test_memory_is_unknown_where_sysconf_fails(monkeypatch, system, no_container, error):
    def sysconf(name):
        raise error(name)

    monkeypatch.setattr(os, "sysconf", sysconf, raising=False)
    assert system.memory_bytes() is None


def test_a_limit_of_the_container_counts_if_it_is_smaller(monkeypatch, system, tmp_path):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(system, "_CONTAINER_LIMITS", (str(tmp_path / "absent"), str(limit)))
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": GIB}.get)
    for text, expected in (("max\n", 4096 * GIB), (f"{2 * GIB}\n", 2 * GIB), ("", 4096 * GIB)):
        limit.write_text(text, encoding="ascii")
        assert system.memory_bytes() == expected


def test_windows_reports_its_memory_through_its_own_call(monkeypatch, system, no_container):
    def fill(reference):
        status = reference._obj
        assert status.length == ctypes.sizeof(status) == 64  # as the Windows API requires
        status.total_physical = 8 * GIB
        return 1

    kernel = SimpleNamespace(GlobalMemoryStatusEx=fill)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    assert system.memory_bytes() == 8 * GIB
    kernel.GlobalMemoryStatusEx = lambda _: 0
    assert system.memory_bytes() is None


def test_this_machine_reports_its_memory(system):
    assert system.memory_bytes() > GIB // 4


def test_json_safe_gives_plain_types_and_none_for_what_json_cannot_write(system):
    value = {1: np.array([1.5, np.nan]), "b": (np.float64("inf"), np.int64(3), True, "\x1b", None)}
    plain = {"1": [1.5, None], "b": [None, 3, True, "\x1b", None]}
    assert system.json_safe(value) == plain
    assert json.loads(json.dumps(system.json_safe(value), allow_nan=False)) == plain


def test_json_safe_rounds_and_escapes_on_request(system):
    value = {"\u202e": [1.23456, 2.0, 1e20, np.float32(0.5)], "n": 12345678}
    found = system.json_safe(value, digits=3, escape=True)
    assert found == {"\\u202e": [1.23, 2, 1e20, 0.5], "n": 12345678}
    assert type(found["\\u202e"][1]) is int


def absent(monkeypatch, *names):
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_rows_are_a_bar_on_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with row_progress("moments [bold]b[/]", 1000, verbose=1, done=250) as count_rows:
        count_rows(750)
    shown = terminal.getvalue()
    assert "[fairspan] moments [bold]b[/] " in shown  # brackets are no markup
    assert "1,000 rows" in shown
    assert "rows/s" in shown


def test_rows_are_lines_without_rich(monkeypatch, capsys):
    absent(monkeypatch, "rich", "rich.progress")
    with row_progress("moments", 10, verbose=1) as count_rows:
        count_rows(10)
    assert capsys.readouterr().err.startswith("[fairspan] moments: 10 of 10 rows")


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
    last = terminal.getvalue().rsplit("\r", 1)[1]
    assert last.startswith("[fairspan] rows [########################] 3/3, 0 s left")
    assert last.endswith("\n")


def test_rows_and_steps_have_one_style_of_bar(monkeypatch, capsys):
    from fairspan._system import row_progress, track

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with row_progress("moments", 200, verbose=1) as count:
        count(100)
        count(100)
    rows = capsys.readouterr().err
    list(track(range(2), 2, "folds", verbose=1))
    steps = capsys.readouterr().err
    assert rows.startswith("\r[fairspan] moments [########################] 200 of 200 rows, ")
    assert "\r[fairspan] folds [########################] 2/2, 0 s left" in steps
    assert rows.endswith("\n")
    assert steps.endswith("\n")


def test_rows_without_a_terminal_or_a_total_are_lines(monkeypatch, capsys):
    from fairspan import _system

    monkeypatch.setattr(_system, "_LINE_SECONDS", 0.0)
    with _system.row_progress("sample", None, verbose=1) as count:
        count(10)
    assert capsys.readouterr().err.startswith("[fairspan] sample: 10 rows, ")
    with _system.row_progress("sample", 10) as count:
        count(10)
    assert capsys.readouterr().err == ""
