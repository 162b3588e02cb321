"""Measure which lines and branches of the library the suite runs: ``python -m tools.coverage_gaps``.

The measurement joins the suite of ``make test`` in this environment with the tests that need torch or
fairlearn, in the environments that have them. A line or branch that no test runs needs a reason in
``tools/uncovered.toml`` or as ``# pragma: no cover - reason``. The exit status is 1 if too little is
run, a reason is missing, or the source has changed since the measurement; 2 if a test fails.

``--reuse`` reads the last measurement again; ``--add TESTS`` runs some more tests and adds to it.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coverage
from coverage.exceptions import CoverageWarning

from tools.table import Measurement, at_least, at_most, show

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (ROOT / "src" / "fairspan", ROOT / "lab" / "src" / "fairspan_lab")
REASONS = ROOT / "tools" / "uncovered.toml"
FOLDER = ROOT / "build" / "coverage"
SHAPES = "shapes.json"
CONFIG = ROOT / "pyproject.toml"
# Other environments, and the tests that need the packages installed there.
OTHER_ENVIRONMENTS = {
    ".venv-torch": ("test_torch*.py", "unit/device/test_*.py"),
    ".venv-bench": ("test_frontier.py", "test_audit_fairlearn.py"),
}
# This test fills the disk of a process, so coverage could not write its file there.
DESELECTED = ("tests/test_stream_kill.py::test_a_full_disk_costs_the_checkpoint_and_not_the_fit",)
LIMIT = 95.0
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
PYTEST = ("-q", "-n", "2", "-p", "no:cacheprovider")


class SuiteError(RuntimeError):
    """Some tests failed, so there is no measurement."""


@dataclass(frozen=True)
class File:
    """Coverage of one file; a branch is a pair of lines, and an exit has a target below 1."""

    name: str  # from the root of the repository
    n_lines: int
    n_branches: int
    missing_lines: tuple[int, ...]
    missing_branches: tuple[tuple[int, int], ...]

    @property
    def percent(self) -> float:
        """Share of lines and branches together."""
        return percent(*self.counts)

    @property
    def counts(self) -> tuple[int, int]:
        """Lines and branches, and how many of them were not run."""
        missing = len(self.missing_lines) + len(self.missing_branches)
        return self.n_lines + self.n_branches, missing

    @property
    def gaps(self) -> tuple[int, ...]:
        """Lines that did not run, and those that were not left in every direction."""
        return tuple(sorted({*self.missing_lines, *(start for start, _ in self.missing_branches)}))


@dataclass(frozen=True)
class Coverage:
    """Percentages for the library, and the gaps."""

    line: float
    branch: float
    both: float
    missing: dict[str, tuple[int, ...]]
    unexplained: dict[str, tuple[int, ...]]
    stale: tuple[str, ...]  # files that changed since, or reasons for lines that are gone
    files: tuple[File, ...]


@dataclass(frozen=True)
class Reason:
    """Reason why no test runs a statement and everything inside it."""

    file: str
    text: str
    reason: str


def percent(whole: int, missing: int) -> float:
    """Percentage that was run; 100 for an empty file."""
    return 100.0 * (whole - missing) / whole if whole else 100.0


def measure(*, reuse: bool = False, add: Sequence[str] = ()) -> Coverage:
    """Run the suite, or read the result of an earlier run."""
    if not reuse and not add:
        shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    if add:
        run_tests(sys.executable, add)
    elif not reuse:
        run_suite()
    if not reuse:
        combine()
    if not (FOLDER / ".coverage").exists():
        raise FileNotFoundError("There is no measurement yet. Run `make coverage` first.")
    return judge(tuple(read_files()), read_reasons(), changed_files())


def run_suite() -> None:
    """Run the tests in all environments; a failure ends the measurement."""
    pythons = {name: ROOT / name / "bin" / "python" for name in OTHER_ENVIRONMENTS}
    if absent := [name for name, python in pythons.items() if not python.exists()]:
        raise FileNotFoundError(
            f"{absent[0]} does not exist. Run `make coverage`, which creates it."
        )
    (FOLDER / SHAPES).write_text(json.dumps(shapes()))
    run_tests(sys.executable, [f"--deselect={test}" for test in DESELECTED])
    for name, patterns in OTHER_ENVIRONMENTS.items():
        folders = (ROOT / "tests", ROOT / "lab" / "tests")
        tests = [path for f in folders for pattern in patterns for path in f.glob(pattern)]
        run_tests(str(pythons[name]), sorted(map(str, tests)))


def run_tests(python: str, tests: Sequence[str]) -> None:
    """Run pytest under coverage; every process that is not killed writes a file of its own."""
    env = os.environ | ONE_THREAD | {"COVERAGE_FILE": str(FOLDER / ".coverage")}
    command = [python, "-m", "coverage", "run", "-m", "pytest", *PYTEST, *tests]
    done = subprocess.run(command, cwd=ROOT, env=env, check=False)
    if done.returncode:
        raise SuiteError(f"pytest ended with status {done.returncode}, so there is no measurement.")


def combine() -> None:
    """Join the files of all processes and environments with the earlier measurement."""
    if (before := FOLDER / ".coverage").exists():
        before.rename(FOLDER / ".coverage.before")
    found = coverage.Coverage(data_file=str(before), config_file=str(CONFIG))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # files of processes that tests killed
        found.combine([str(path) for path in FOLDER.glob(".coverage.*")], strict=True)
    found.save()
    for path in FOLDER.glob(".coverage.*"):
        path.unlink()


def shapes() -> dict[str, str]:
    """Hash of each file's statements and their lines; comments do not count."""
    return {
        path.relative_to(ROOT).as_posix(): hashlib.sha256(
            ast.dump(ast.parse(path.read_bytes()), include_attributes=True).encode()
        ).hexdigest()
        for source in SOURCES
        for path in sorted(source.rglob("*.py"))
    }


def changed_files() -> Iterator[str]:
    """Files that changed since the measurement."""
    before = json.loads((FOLDER / SHAPES).read_text())
    for name, shape in shapes().items():
        if before.get(name) != shape:
            yield f"{name} has changed since the measurement"


def read_files() -> Iterator[File]:
    """Coverage of every file of the library."""
    found = coverage.Coverage(data_file=str(FOLDER / ".coverage"), config_file=str(CONFIG))
    found.load()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        found.json_report(outfile=str(path))
        report = json.loads(path.read_text())
    for name, entry in report["files"].items():
        yield read_file((ROOT / name).relative_to(ROOT).as_posix(), entry)


def read_file(name: str, entry: Mapping[str, Any]) -> File:
    """Read one file's entry of coverage's JSON report."""
    summary = entry["summary"]
    return File(
        name,
        summary["num_statements"],
        summary["num_branches"],
        tuple(entry["missing_lines"]),
        tuple((start, end) for start, end in entry["missing_branches"]),
    )


def read_reasons() -> tuple[Reason, ...]:
    """Read the statements that are left out on purpose."""
    rows = tomllib.loads(REASONS.read_text(encoding="utf-8"))["uncovered"]
    return tuple(Reason(row["file"], text, row["reason"]) for row in rows for text in row["texts"])


def explained(source: str, texts: Sequence[str]) -> tuple[set[int], set[str]]:
    """Lines of the statements that begin with one of the texts, and the texts that were found."""
    lines = source.splitlines()
    inside: set[int] = set()
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            first = first_line(node)
            if (text := lines[first - 1].strip()) in texts:
                inside.update(range(first, last_line(node) + 1))
                found.add(text)
    return inside, found


def first_line(node: ast.AST) -> int:
    """Line of a statement; a case is where its pattern is."""
    return node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno  # type: ignore[attr-defined]


def last_line(node: ast.AST) -> int:
    """Last line of a statement and all that is inside it."""
    last = node.body[-1] if isinstance(node, ast.match_case) else node
    return int(last.end_lineno)  # type: ignore[attr-defined]


def unexplained(file: File, inside: set[int]) -> tuple[int, ...]:
    """Gaps without a reason. A jump that would lead to an explained line has that line's reason."""
    absent = set(file.missing_lines)
    lines = absent - inside
    jumps = {
        start
        for start, end in file.missing_branches
        if start not in absent and start not in inside and not (end in absent and end in inside)
    }
    return tuple(sorted(lines | jumps))


def judge(files: tuple[File, ...], reasons: Sequence[Reason], stale: Iterator[str]) -> Coverage:
    """Percentages, gaps, and gaps without a reason."""
    open_gaps: dict[str, tuple[int, ...]] = {}
    old = list(stale)
    for file in files:
        texts = [reason.text for reason in reasons if reason.file == file.name]
        inside, found = explained((ROOT / file.name).read_text(encoding="utf-8"), texts)
        old += [f"{file.name} has no statement {text!r}" for text in texts if text not in found]
        if gaps := unexplained(file, inside):
            open_gaps[file.name] = gaps
    old += [
        f"{reason.file} does not exist"
        for reason in reasons
        if reason.file not in {file.name for file in files}
    ]
    n_lines, n_branches = sum(f.n_lines for f in files), sum(f.n_branches for f in files)
    no_lines = sum(len(f.missing_lines) for f in files)
    no_branches = sum(len(f.missing_branches) for f in files)
    return Coverage(
        line=percent(n_lines, no_lines),
        branch=percent(n_branches, no_branches),
        both=percent(n_lines + n_branches, no_lines + no_branches),
        missing={file.name: file.gaps for file in files if file.gaps},
        unexplained=open_gaps,
        stale=tuple(old),
        files=files,
    )


def measurements(found: Coverage) -> Iterator[Measurement]:
    """Compare the percentages and gaps with their limits."""
    yield at_least("coverage.lines, %", found.line, LIMIT)
    yield at_least("coverage.branches, %", found.branch, LIMIT)
    yield at_least("coverage.both, %", found.both, LIMIT)
    yield at_most("coverage.gaps without a reason", sum(map(len, found.unexplained.values())), 0)
    yield at_most("coverage.files or reasons out of date", len(found.stale), 0)


def describe(found: Coverage, n_worst: int) -> Iterator[str]:
    """The worst files, then every gap without a reason with its text."""
    yield f"{'file':<44} {'lines':>11} {'branches':>11} {'percent':>8}"
    for file in sorted(found.files, key=lambda f: f.percent)[:n_worst]:
        lines = f"{file.n_lines - len(file.missing_lines)}/{file.n_lines}"
        branches = f"{file.n_branches - len(file.missing_branches)}/{file.n_branches}"
        yield f"{file.name:<44} {lines:>11} {branches:>11} {file.percent:>8.1f}"
    for name, gaps in found.unexplained.items():
        text = (ROOT / name).read_text(encoding="utf-8").splitlines()
        for gap in gaps:
            yield f"no reason: {name}:{gap}: {text[gap - 1].strip()}"
    for line in found.stale:
        yield f"out of date: {line}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.coverage_gaps", description=__doc__)
    parser.add_argument("--reuse", action="store_true", help="read the last measurement again")
    parser.add_argument("--add", nargs="+", default=[], metavar="TESTS", help="run these as well")
    parser.add_argument("--worst", type=int, default=15, help="files to print (default 15)")
    options = parser.parse_args(arguments)
    try:
        found = measure(reuse=options.reuse, add=options.add)
    except (FileNotFoundError, SuiteError) as error:
        print(error, file=sys.stderr)
        return 2
    print(*describe(found, options.worst), sep="\n")
    return show(measurements(found))


if __name__ == "__main__":
    sys.exit(main())
