"""A command with default threads and with one: ``python -m benchmarks.threads``.

Runs ``fairspan explore loans`` with one thread and with the default number, in turn, on the machine as it
is and beside a busy loop on each processor. Prints the medians of the seconds and their ratio; ``--write``
stores them in ``benchmarks/results/threads.csv``, which ``make acceptance-files`` reads.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).parent / "results" / "threads.csv"
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
COMMAND = [sys.executable, "-m", "fairspan", "explore", "loans"]


@contextmanager
def busy_loops(n: int):
    """Keep `n` processors busy with other processes."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def seconds(one_thread: bool) -> float:
    """Wall-clock time of the command in a new process."""
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    if one_thread:
        env |= dict.fromkeys(VARIABLES, "1")
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        subprocess.run(COMMAND, cwd=folder, env=env, check=True, capture_output=True)
        return time.perf_counter() - start


def measure(repeats: int) -> list[dict[str, Any]]:
    """Medians of interleaved runs, idle and busy."""
    out = []
    for state, n_loops in (("idle", 0), ("busy", os.cpu_count() or 1)):
        with busy_loops(n_loops):
            pairs = [(seconds(True), seconds(False)) for _ in range(repeats)]
        one, default = (median(column) for column in zip(*pairs, strict=True))
        out.append(
            {
                "machine": state,
                "one_thread_s": round(one, 2),
                "default_s": round(default, 2),
                "ratio": round(default / one, 3),
                "repeats": repeats,
                "processors": os.cpu_count(),
            }
        )
        print(
            f"{state:<5} one thread {one:6.1f} s   default {default:6.1f} s   ratio {default / one:.2f}"
        )
    return out


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, help="runs of each kind")
    parser.add_argument("--write", action="store_true", help=f"store the numbers in {RESULTS.name}")
    given = parser.parse_args()
    rows = measure(given.repeats)
    if given.write:
        with RESULTS.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
