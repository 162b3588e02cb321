"""Tables of measurements: ``name  measured  limit  pass``."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Measurement:
    """A measured number, its limit, and whether the number keeps the limit."""

    name: str
    measured: float
    limit: str
    passed: bool
    explanation: str = ""  # why a number may miss its limit

    def line(self) -> str:
        """``name  measured  limit  pass``, aligned."""
        verdict = "pass" if self.passed else "MISS"
        if self.explanation:
            verdict = f"(explained) {self.explanation}"
        measured = str(self.measured) if isinstance(self.measured, int) else f"{self.measured:.4g}"
        return f"{self.name:<64} {measured:>11}  {self.limit:<12} {verdict}"


def at_most(name: str, measured: float, limit: float) -> Measurement:
    """Compare a number with an upper limit."""
    return Measurement(name, measured, f"<= {limit:g}", bool(measured <= limit))


def at_least(name: str, measured: float, limit: float) -> Measurement:
    """Compare a number with a lower limit."""
    return Measurement(name, measured, f">= {limit:g}", bool(measured >= limit))


def between(name: str, measured: float, low: float, high: float) -> Measurement:
    """Compare a number with a lower and an upper limit."""
    return Measurement(name, measured, f"{low:g} to {high:g}", bool(low <= measured <= high))


def show(measurements: Iterable[Measurement]) -> int:
    """Print the table; return 1 if any limit is missed."""
    missed = 0
    for measurement in measurements:
        print(measurement.line(), flush=True)
        missed += not measurement.passed
    return int(missed > 0)


def suite(name: str, arguments: list[str], at_least_passed: int) -> Iterator[Measurement]:
    """Run a part of the test suite; two rows: no test failed, and enough tests ran."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "-p",
        "no:cacheprovider",
        *arguments,
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    last = run.stdout.strip().splitlines()[-1] if run.stdout.strip() else ""
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", last)}
    failed = counts.get("failed", 0) + counts.get("error", 0) + (run.returncode not in (0, 1))
    yield at_most(f"{name}: tests failed", failed, 0)
    yield at_least(f"{name}: tests passed", counts.get("passed", 0), at_least_passed)
