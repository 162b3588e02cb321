"""``name  measured  limit  pass``: the one form in which a measured promise is printed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """One line of a table of bars."""

    name: str
    measured: float
    limit: str
    passed: bool

    def line(self) -> str:
        """``name  measured  limit  pass``, aligned."""
        verdict = "pass" if self.passed else "MISS"
        return f"{self.name:<64} {self.measured:>11.4g}  {self.limit:<12} {verdict}"


def at_most(name: str, measured: float, limit: float) -> Bar:
    """A bar that the measured number must not exceed."""
    return Bar(name, measured, f"<= {limit:g}", bool(measured <= limit))


def at_least(name: str, measured: float, limit: float) -> Bar:
    """A bar that the measured number must reach."""
    return Bar(name, measured, f">= {limit:g}", bool(measured >= limit))


def between(name: str, measured: float, low: float, high: float) -> Bar:
    """A bar with two sides."""
    return Bar(name, measured, f"{low:g} to {high:g}", bool(low <= measured <= high))


def show(bars: Iterable[Bar]) -> int:
    """Print the table; 1 if any bar is missed."""
    missed = 0
    for bar in bars:
        print(bar.line(), flush=True)
        missed += not bar.passed
    return int(missed > 0)
