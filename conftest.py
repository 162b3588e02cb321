"""Fixtures of the whole suite: a seeded generator, the command line, the shared folder."""

import gc
import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies

ROOT = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("FAIRSPAN_SHARED") or ROOT.parent / "shared")
# The checkout under test: `tools/regressions.py` sets another one.
CHECKOUT = Path(os.environ.get("FAIRSPAN_CHECKOUT") or ROOT)
ABSENT = "the shared folder is absent: put it next to the project or set FAIRSPAN_SHARED"

# No deadline: the first example pays for imports and caches, and machines differ.
settings.register_profile("ci", derandomize=True, max_examples=50, deadline=None)
settings.register_profile("wide", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile("ci")  # `--hypothesis-profile=wide` still wins: it is read later


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20200826)


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def call(monkeypatch, capsys):
    """The command `fairspan` in this process, with the errors of its `main`."""
    cli = pytest.importorskip("fairspan.cli")

    def run(*arguments) -> Done:
        monkeypatch.setattr(sys, "argv", ["fairspan", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        return Done(left.value.code or 0, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the repository under test."""
    return CHECKOUT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared folder. Asking for it gives a test the marker `shared`."""
    return SHARED


def pytest_collection_modifyitems(items):
    for item in items:
        if "shared" in getattr(item, "fixturenames", ()):
            item.add_marker("shared")


def pytest_collection_finish():
    # Hypothesis registers its generator with the first example, and old versions do not find their own
    # reference to it if that is frozen.
    settings(max_examples=1, database=None)(given(strategies.none())(lambda _: None))()
    # The garbage collector need not look at thousands of tests again: a full collection, which some
    # tests ask for, took half a second.
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item):
    # `random_state=None` draws from this generator: a test has the same numbers in every run.
    np.random.seed(20200826)  # noqa: NPY002
    for marker in item.iter_markers("regression"):  # read from the XML report
        item.user_properties.append(("regression", marker.args[0]))
    if item.get_closest_marker("shared") and not SHARED.is_dir():
        if os.environ.get("FAIRSPAN_REQUIRE_SHARED") == "1":
            pytest.fail(f"{ABSENT}, or unset FAIRSPAN_REQUIRE_SHARED", pytrace=False)
        pytest.skip(ABSENT)


def pytest_report_header():
    return "shared: found" if SHARED.is_dir() else "shared: absent"


def pytest_terminal_summary(terminalreporter):
    # At the end rather than after collection: under pytest-xdist only the workers collect.
    if not SHARED.is_dir():
        for kind, verb in (("skipped", "skip"), ("error", "fail")):
            # A file that skips as a whole has a CollectReport, which has no keywords.
            reports = terminalreporter.getreports(kind)
            if count := sum("shared" in getattr(r, "keywords", ()) for r in reports):
                terminalreporter.write_line(f"shared: absent, {count} tests {verb}")
