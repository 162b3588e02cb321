"""Random and hostile input for everything public, many times: ``make fuzz``.

    python -m tools.fuzz [--cases 20000] [--seed 0] [--only NAME]

A case is one generated input. It is *answered* when what comes back keeps the laws of tests/fuzz,
*refused* when an error of ours says why, a *failure* otherwise. Exit status 1 on any failure.
"""

from __future__ import annotations

import argparse
import time
import warnings

from tests.fuzz.check import TALLY, EntryPoint, run
from tests.fuzz.test_fuzz_estimators import ENTRY_POINTS as ESTIMATORS
from tests.fuzz.test_fuzz_functions import ENTRY_POINTS as FUNCTIONS

POINTS: list[EntryPoint] = [*ESTIMATORS, *FUNCTIONS]


def main() -> int:
    """Run, print the table, say what failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="inputs in all (default 20000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="entry points whose name holds this text")
    parser.add_argument("--quiet", action="store_true", help="the table alone")
    asked = parser.parse_args()
    points = [point for point in POINTS if asked.only in point.name]
    share = sum(point.share for point in points)
    width = max(len(point.name) for point in points)
    print(
        f"{'entry point':{width}}  {'cases':>6}  {'refused':>7}  {'answered':>8}  {'failures':>8}  s"
    )
    began = time.process_time()
    for point in points:
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # hypothesis's own; those of a case are recorded
            cases = max(1, -int(-asked.cases * point.share // share))
            run(point, cases, first=asked.seed + POINTS.index(point), keep_going=True)
        _show(point.name, width, time.process_time() - start)
    print(_line("total", width, *(sum(c.values()) for c in _counts()), time.process_time() - began))
    print(f"{TALLY.calls} calls of the library in {time.process_time() - began:.0f} s of CPU time")
    if not asked.quiet:
        for message, recipe in TALLY.failures.values():
            print(f"\n{message}\n    {recipe}")
    return int(bool(TALLY.failures))


def _counts() -> list[dict[str, int]]:
    return [TALLY.cases, TALLY.refused, TALLY.answered, TALLY.failed]


def _show(name: str, width: int, seconds: float) -> None:
    print(_line(name, width, *(counter[name] for counter in _counts()), seconds), flush=True)


def _line(
    name: str, width: int, cases: int, refused: int, answered: int, failed: int, seconds: float
) -> str:
    return f"{name:{width}}  {cases:6d}  {refused:7d}  {answered:8d}  {failed:8d}  {seconds:.0f}"


if __name__ == "__main__":
    raise SystemExit(main())
