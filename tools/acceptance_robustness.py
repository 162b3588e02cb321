"""Limits on robustness: fuzzing, mutants, faults, hostile files, versions, coverage."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress

from tests.robust import hostile_files, test_faults

from tools import coverage_gaps, fuzz_bytes, mutants, versions
from tools.table import ROOT, Measurement, at_least, at_most, suite

FUZZ_CASES, BYTE_CASES = 20_000, 1_000
SKLEARNS = ("1.6", "1.7", "1.8", "1.9")
LOWEST = ".venv-min"


def measurements() -> Iterator[Measurement]:
    """All rows; an hour on two cores, mostly for coverage and the lowest versions."""
    yield from fuzz_rows()
    yield from mutant_rows()
    yield from fault_rows()
    yield from hostile_rows()
    numerics = ["tests/robust_numerics"]
    yield from suite("precision, extremes, threads, processes, upgrades", numerics, 100)
    yield from version_rows()
    yield from coverage_gaps.measurements(coverage_gaps.measure())


def fuzz_rows() -> Iterator[Measurement]:
    """Fuzz in a separate process, since hypothesis and the tally have global state."""
    run = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", "--cases", str(FUZZ_CASES)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    total = next(line for line in run.stdout.splitlines() if line.startswith("total"))
    cases, refused, answered, failures = map(int, total.split()[1:5])
    yield at_least("fuzz: inputs of the public surface", cases, FUZZ_CASES)
    yield at_least("fuzz: of these answered rightly", answered, 1)
    yield at_least("fuzz: of these refused in our words", refused, 1)
    yield at_most("fuzz: failures", failures, 0)
    for name in fuzz_bytes.READERS:
        tally = fuzz_bytes.fuzz(name, BYTE_CASES)
        yield at_most(f"bytes, {name}: failures of {tally.cases}", len(tally.failures), 0)


def mutant_rows() -> Iterator[Measurement]:
    """Break the core in many ways, one at a time."""
    run = subprocess.run(
        [sys.executable, "-m", "tools.mutants"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    killed = sum(line.startswith("killed") for line in run.stdout.splitlines())
    yield at_least("mutants of the core", len(mutants.MUTANTS), 40)
    yield at_least("mutants killed", killed, len(mutants.MUTANTS))


def fault_rows() -> Iterator[Measurement]:
    """One row for every fault."""
    good, bad = test_faults.survived()
    for name in (*good, *bad):
        yield at_least(f"fault survived: {name}", float(name in good), 1)


def hostile_rows() -> Iterator[Measurement]:
    """One row per reader; print the files that were rejected and those that were not."""
    refused: dict[str, list[str]] = {}
    for one in hostile_files.HOSTILE:
        refused.setdefault(one.reader, [])
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            message, ran, _ = hostile_files.run(one)
            if message and not ran:
                refused[one.reader].append(one.name)
    for reader, names in refused.items():
        every = [one.name for one in hostile_files.HOSTILE if one.reader == reader]
        yield at_least(f"hostile files refused: {reader}", len(names), len(every))
        print(f"    {'; '.join(names)}")
        for name in sorted(set(every) - set(names)):
            print(f"    NOT refused: {name}")


def version_rows() -> Iterator[Measurement]:
    """Routing and estimator checks under each scikit-learn; all tests under the lowest versions."""
    for version in SKLEARNS:
        python = str(ROOT / f".venv-sklearn-{version}" / "bin" / "python")
        found = [versions.run_suite(python, one) for one in versions.SUITES]
        print(f"    {found[0].versions}")
        name = f"scikit-learn {version}: {sum(one.passed for one in found)} tests; failed"
        yield at_most(name, sum(one.failed for one in found), 0)
    python = str(ROOT / LOWEST / "bin" / "python")
    one = versions.run_suite(python, "tests", "-n", "2")
    print(f"    {one.versions}")
    yield at_most(f"lowest versions: {one.passed} tests; failed", one.failed, 0)
    yield at_least("lowest versions: tests passed", one.passed, 5000)
