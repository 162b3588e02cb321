"""Run every test marked ``regression`` against version 0.1.0 and against this checkout.

``python -m tools.regressions`` prints one row per defect: how many of its tests fail with the
library of 0.1.0, how many pass now, and the names of the tests. A test proves a repair only if it fails
before it, so a test that already passed is a miss. The tests that run against 0.1.0 are those of commit
``TESTS``, the last one before modules moved to packages; later tests cannot import 0.1.0.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The last commit of version 0.1.0, and the last with tests for its layout of modules.
BEFORE = "df597bd262510830d3ea7f2e1e9d7c21f52bb6bf"
TESTS = "4d34597837f9376687e71e61d75b221f164d6674"


@dataclass
class Outcome:
    """What one test did in one version: whether it passed, and the first line of its error."""

    passed: bool
    error: str = ""


@dataclass
class Defect:
    """The tests of one defect, by test id, before the repair and now."""

    before: dict[str, Outcome] = field(default_factory=dict)
    now: dict[str, Outcome] = field(default_factory=dict)

    @property
    def repaired(self) -> bool:
        """Every test failed before and passes now."""
        return (
            len(self.before) > 0
            and len(self.now) >= len(self.before)
            and not any(test.passed for test in self.before.values())
            and all(test.passed for test in self.now.values())
        )


def run_tests(tests: Path, checkout: Path, report: Path, options: list[str]) -> None:
    """Run the marked tests of one checkout with the library and files of another."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = str(checkout / "src")
    environment["FAIRSPAN_CHECKOUT"] = str(checkout)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "regression", "-p", "no:cacheprovider"]
    command += ["--no-header", "--tb=line", f"--junit-xml={report}", *options]
    done = subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1):  # 1: some tests failed
        sys.exit(f"pytest failed for {checkout}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def read_outcomes(report: Path) -> dict[str, dict[str, Outcome]]:
    """Outcomes by defect and test, from pytest's XML report."""
    outcomes: dict[str, dict[str, Outcome]] = defaultdict(dict)
    for case in ElementTree.parse(report).iter("testcase"):
        test = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        failure = next((e for e in case if e.tag in ("failure", "error", "skipped")), None)
        error = "" if failure is None else (failure.get("message") or "").splitlines()[0]
        for item in case.iter("property"):
            if item.get("name") == "regression":
                outcomes[item.get("value", "")][test] = Outcome(failure is None, error)
    return outcomes


def main() -> int:
    """Print the table; exit code 1 if any defect is not repaired."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--errors", action="store_true", help="print each test's error before")
    parser.add_argument("options", nargs="*", help="further options of pytest, after --")
    arguments = parser.parse_args()
    defects: dict[str, Defect] = defaultdict(Defect)
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "-C", str(ROOT), "worktree"]
        old = {name: Path(folder) / name for name in ("library", "tests")}
        for name, commit in (("library", BEFORE), ("tests", TESTS)):
            subprocess.run([*git, "add", "-q", "--detach", str(old[name]), commit], check=True)
        try:
            runs = (("before", old["tests"], old["library"]), ("now", ROOT, ROOT))
            for name, tests, library in runs:
                report = Path(folder) / f"{name}.xml"
                run_tests(tests, library, report, arguments.options)
                for defect, outcomes in read_outcomes(report).items():
                    getattr(defects[defect], name).update(outcomes)
        finally:
            for path in old.values():
                subprocess.run([*git, "remove", "--force", str(path)], check=True)
    print(f"{'defect':70s}  {'before':>12s}  {'now':>12s}  pass  tests")
    for name, defect in sorted(defects.items()):
        failed = sum(not test.passed for test in defect.before.values())
        passed = sum(test.passed for test in defect.now.values())
        tests = sorted({test.split("[")[0] for test in defect.now})
        print(
            f"{name:70s}  {failed:3d}/{len(defect.before)} failed  {passed:3d}/{len(defect.now)} passed"
            f"  {'pass' if defect.repaired else 'MISS'}  {', '.join(tests)}"
        )
        if arguments.errors:
            for test, outcome in defect.before.items():
                print(f"    {test}: {outcome.error or 'passed'}")
    misses = sum(not defect.repaired for defect in defects.values())
    print(f"{len(defects)} defects, {misses} not repaired")
    return int(misses > 0 or not defects)


if __name__ == "__main__":
    sys.exit(main())
