"""Time of imports and of ``fairspan --help``: ``python -m benchmarks.imports``.

Runs new processes in turn and prints the medians of the processor time that each took: the import of
one fair estimator beside one of scikit-learn, and the help of the command line beside that of an earlier
commit, taken from git. ``--write`` stores them in ``benchmarks/results/imports.csv``, which ``make
acceptance-files`` reads.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "imports.csv"
BEFORE = "6f22784"
_HELP = "import sys; sys.argv = ['fairspan', {arguments}]; from fairspan.cli import main; main()"
CODE = {
    "sklearn.linear_model.Ridge": "from sklearn.linear_model import Ridge",
    "fairspan.FairRidge": "from fairspan import FairRidge",
    "fairspan --help": _HELP.format(arguments="'--help'"),
    "usage error": _HELP.format(arguments="'fit', '--bogus'"),
}


def processor_seconds(code: str, tree: Path) -> float:
    """Processor time of a new process that runs a line of Python on a checkout."""
    paths = [str(tree / "src"), str(tree / "lab" / "src")]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    env = {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(repeats: int) -> dict[str, float]:
    """Median seconds by name; those of the earlier commit have " before" in their name."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", BEFORE, "src", "lab/src"], cwd=ROOT, capture_output=True, check=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as file:
            file.extractall(folder, filter="data")
        jobs = {name: (code, ROOT) for name, code in CODE.items()}
        jobs |= {
            f"{name} before": (code, Path(folder))
            for name, code in CODE.items()
            if "sk" not in name
        }
        for code, tree in jobs.values():  # writes the bytecode
            processor_seconds(code, tree)
        runs = [
            {name: processor_seconds(*job) for name, job in jobs.items()} for _ in range(repeats)
        ]
    return {name: round(median(run[name] for run in runs), 3) for name in jobs}


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=7, help="runs of each kind")
    parser.add_argument("--write", action="store_true", help=f"store the numbers in {RESULTS.name}")
    given = parser.parse_args()
    seconds = measure(given.repeats)
    for name, value in seconds.items():
        print(f"{name:<32} {value:.3f} s")
    if given.write:
        with RESULTS.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["name", "seconds"])
            writer.writerows(seconds.items())


if __name__ == "__main__":
    main()
