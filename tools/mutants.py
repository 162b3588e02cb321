"""Mutation testing: break the core in one place at a time and run the tests that should fail.

``python -m tools.mutants`` breaks a copy in every way of :mod:`tools.mutant_list` and runs the
few tests that are to notice it: killed if one of them fails, survived if all pass. Exit status 1 if any
survives, 2 if something could not be judged (the tests fail without a fault, or cannot be collected).
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode

from tools.mutant_list import MUTANTS, SOURCE, Mutant

ROOT = Path(__file__).resolve().parents[1]
# What tests read beside the source.
COPIED = (
    "src",
    "tests",
    "benchmarks",
    "lab",
    "tools",
    "conftest.py",
    "examples",
    "docs",
    "pyproject.toml",
    "README.md",
)
NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.pyc", ".hypothesis")
TIMEOUT_SECONDS = 300
# Slow to import and never broken: loaded once, before the fork.
WARM = (
    *("numpy", "scipy.optimize", "scipy.sparse", "scipy.stats", "sklearn.ensemble", "pandas"),
    *("sklearn.linear_model", "sklearn.compose", "sklearn.model_selection", "narwhals"),
)
FOREIGN = 70  # status of a child that imported another source than the copy's

# A failure is all that is asked for: hypothesis need not look for the smallest one.
PLUGIN = """
from hypothesis import Phase, settings

settings.register_profile(
    "mutants", derandomize=True, max_examples=50, deadline=None, database=None,
    phases=(Phase.explicit, Phase.generate),
)
"""
PYTEST = (
    *("-x", "-q", "--no-header", "-p", "no:cacheprovider"),
    *("-p", "mutant_plugin", "--hypothesis-profile=mutants"),
)


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant."""

    mutant: Mutant
    verdict: str  # killed, survived or error
    by: str  # the test that failed, or what went wrong
    seconds: float


class Copy:
    """A copy of the project, and a process in it that runs tests: a fresh child for every run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=NOT_COPIED)
            elif (ROOT / name).exists():
                shutil.copy2(ROOT / name, folder / name)
        (folder / "mutant_plugin.py").write_text(PLUGIN)
        # By their contents: by second and size, as usual, a fault of equal length would go unread.
        compileall.compile_dir(
            folder / "src", quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH
        )
        env = dict(os.environ)
        env |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        env |= {"PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        env.setdefault("FAIRSPAN_SHARED", str(ROOT.parent / "shared"))
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tools.mutants", "--serve"],
            cwd=folder,
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def test(self, tests: Sequence[str], timeout: float) -> tuple[int, str]:
        """Status of pytest, negative if it was killed, and what it said."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(timeout, *tests, file=self._server.stdin, flush=True)
        status = self._server.stdout.readline()
        if not status:
            raise RuntimeError("the process that runs the tests has ended")
        return int(status), (self.folder / "said.txt").read_text(errors="replace")

    def close(self) -> None:
        """End the process."""
        self._server.communicate()


def serve() -> None:
    """Run the tests of every line of the input, in a child; answer with its status."""
    for name in WARM:
        importlib.import_module(name)
    assert "fairspan" not in sys.modules
    for line in sys.stdin:
        timeout, *tests = line.split(" ")
        child = os.fork()
        if child == 0:
            os._exit(_run_tests([test.strip() for test in tests]))
        print(_wait(child, time.monotonic() + float(timeout)), flush=True)


def _run_tests(tests: list[str]) -> int:
    said = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    import pytest

    status = int(pytest.main([*PYTEST, *tests]))
    sys.stdout.flush()
    module = sys.modules.get("fairspan")
    here = Path.cwd().resolve()
    if module is None or not Path(str(module.__file__)).resolve().is_relative_to(here):
        return FOREIGN
    return status


def _wait(child: int, end: float) -> int:
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            end = float("inf")
        time.sleep(0.02)


def mutated(text: str, mutant: Mutant) -> str:
    """The source with its fault; refuses a mutant that no longer fits."""
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {text.count(mutant.old)} places in {mutant.file}, not 1")
    return text.replace(mutant.old, mutant.new)


def judge(copy: Copy, mutant: Mutant) -> Outcome:
    """Break the copy, run the tests, mend it again."""
    path, start = copy.folder / SOURCE / mutant.file, time.perf_counter()
    whole = path.read_text(encoding="utf-8")
    try:
        path.write_text(mutated(whole, mutant), encoding="utf-8")
        verdict, by = read_outcome(*copy.test(mutant.tests, TIMEOUT_SECONDS))
    except ValueError as error:
        verdict, by = "error", str(error)
    finally:
        path.write_text(whole, encoding="utf-8")
    return Outcome(mutant, verdict, by, time.perf_counter() - start)


def read_outcome(status: int, said: str) -> tuple[str, str]:
    """Pytest's status: 0 all passed, 1 some failed, anything else judged nothing."""
    lines = said.splitlines()
    failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    if status == 1 and failed and failed[0].startswith("FAILED "):
        return "killed", failed[0].removeprefix("FAILED ").split(" - ")[0].rpartition("::")[2]
    if status == 0:
        return "survived", ""
    if status == FOREIGN:
        return "error", "the tests imported another source than that of the copy"
    if status < 0:
        return "error", f"no answer in {TIMEOUT_SECONDS} s, or killed by signal {-status}"
    return "error", f"status {status}: {(failed or lines or ['no output'])[-1][:80]}"


def baseline(copy: Copy, mutants: Sequence[Mutant]) -> str:
    """Empty if all tests pass without a fault; else the end of what pytest said."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    status, said = copy.test(tests, 20 * TIMEOUT_SECONDS)
    return "" if status == 0 else f"{said[-3000:]}\nstatus {status}"


def judge_all(mutants: Sequence[Mutant], copies: Sequence[Copy]) -> list[Outcome]:
    """Every mutant, as many at a time as there are copies."""
    free: queue.Queue[Copy] = queue.Queue()
    for copy in copies:
        free.put(copy)

    def one(mutant: Mutant) -> Outcome:
        copy = free.get()
        try:
            outcome = judge(copy, mutant)
        finally:
            free.put(copy)
        print(line(outcome), flush=True)
        return outcome

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(one, mutants))


def line(outcome: Outcome) -> str:
    """One row of the table."""
    width = max(len(mutant.name) for mutant in MUTANTS)
    name = f"{outcome.mutant.name:<{width}}"
    return f"{outcome.verdict:<8}  {name}  {outcome.seconds:5.1f} s  {outcome.by}"


def read_part(text: str) -> tuple[int, int]:
    """Index of the first mutant of a share "K/N", and the step to the next one."""
    share = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if share is None or int(share[1]) > int(share[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no share; give K/N, e.g. 1/8 to 8/8")
    return int(share[1]) - 1, int(share[2])


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default 2)")
    parser.add_argument("--only", default="", help="mutants whose name or file holds this text")
    parser.add_argument(
        "--part", default="1/1", type=read_part, help="a share of them, e.g. 1/8, for several runs"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    parser.add_argument(
        "--no-baseline", action="store_true", help="do not run the tests without a fault first"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve()
        return 0
    first, step = options.part
    chosen = [m for m in MUTANTS if options.only in m.name or options.only in m.file][first::step]
    if options.list:
        print(*(f"{m.file}: {m.name}" for m in chosen), sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="fairspan-mutants-") as name:
        copies = [Copy(Path(name) / f"copy{i}") for i in range(max(options.jobs, 1))]
        try:
            if not options.no_baseline and (said := baseline(copies[0], chosen)):
                print(said, "The tests fail without any fault.", sep="\n")
                return 2
            outcomes = judge_all(chosen, copies)
        finally:
            for copy in copies:
                copy.close()
    count = {
        verdict: sum(outcome.verdict == verdict for outcome in outcomes)
        for verdict in ("killed", "survived", "error")
    }
    files = len({mutant.file for mutant in chosen})
    print(
        f"{len(outcomes)} mutants of {files} files: {count['killed']} killed, "
        f"{count['survived']} survived, {count['error']} errors"
    )
    if count["survived"]:
        return 1
    return 2 if count["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
