"""Speed of this checkout relative to an earlier commit: import, fit, audit and report.

    python -m benchmarks.refactoring                           (long)
    python -m benchmarks.refactoring --before COMMIT --runs 15

Both versions run the same calls on the same data, in turns, each time in a fresh process with one BLAS
thread. Times are CPU seconds, so that a busy machine changes little. Every row is a ratio of medians,
after / before, with a 90 % bootstrap interval over the runs. It passes if the ratio is at most 1.05, or
if the interval contains 1, which means that no difference was found.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from tools.table import ROOT, Measurement, show

BEFORE = "4d34597"  # the last commit before modules moved to packages
RESULTS = ROOT / "benchmarks" / "results" / "refactoring.csv"
LIMIT = 1.05
N_BOOTSTRAP = 2000
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
Seconds = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Rows of the fit, its landmarks, and rows of the audit and of the report."""

    rows: int = 50_000
    landmarks: int = 1000
    audit_rows: int = 20_000
    report_rows: int = 20_000


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Medians of one call in both versions, and their ratio with its 90 % interval."""

    name: str
    before: str
    after: str
    runs: int
    seconds_before: float
    seconds_after: float
    ratio: float
    low: float
    high: float

    @property
    def row(self) -> Measurement:
        """Row of the table of measurements."""
        passed = self.ratio <= LIMIT or self.low <= 1.0 <= self.high
        name = f"{self.name}, after / before ({self.low:.3f} to {self.high:.3f})"
        return Measurement(name, self.ratio, f"<= {LIMIT:g}", passed)


# --- in the process of one version --------------------------------------------------------------


def time_calls(sizes: Sizes) -> Seconds:
    """CPU seconds of each call; only names that both versions have are used."""
    warnings.simplefilter("ignore")
    seconds: Seconds = {}

    @contextmanager
    def clock(name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        seconds[name] = time.process_time() - start

    with clock("import fairspan"):
        import fairspan
    from benchmarks.explorer import make_people  # after the clock: it imports fairspan
    from fairspan.report import explore

    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, sizes.rows)
    X = rng.normal(size=(sizes.rows, 20)) + 0.7 * s[:, None] * (np.arange(20) < 2)
    y = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.5 * rng.normal(size=sizes.rows)
    model = fairspan.FairRidge(n_components=sizes.landmarks, random_state=0)
    with clock(f"fit, {sizes.rows:,} rows, D={sizes.landmarks}"):
        model.fit(X, y, sensitive_features=s)
    some = slice(0, sizes.audit_rows)
    with clock(f"audit, {sizes.audit_rows:,} rows"):
        fairspan.audit(model, X[some], y[some], sensitive_features=s[some], random_state=0)
    people = make_people(sizes.report_rows)
    with clock(f"explore, {sizes.report_rows:,} rows"), tempfile.TemporaryDirectory() as folder:
        report = explore(
            people, target="repaid", sensitive_features=["region", "sex"], pos_label="yes"
        )
        report.to_html(Path(folder) / "report.html")
    assert fairspan.__file__ is not None
    if not Path(fairspan.__file__).is_relative_to(os.environ["PYTHONPATH"]):
        raise RuntimeError(f"{fairspan.__file__} was imported instead of the version to be timed.")
    return seconds


def run_version(checkout: Path, sizes: Sizes) -> Seconds:
    """Time the calls with the library of a checkout, in a fresh process."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, "-m", "benchmarks.refactoring", "--time", json.dumps(asdict(sizes))]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    seconds: Seconds = json.loads(done.stdout.splitlines()[-1])
    return seconds


# --- both versions ------------------------------------------------------------------------------


def compare(before: str, runs: int, sizes: Sizes) -> list[Comparison]:
    """Run both versions in turns and compare every call.

    Parameters
    ----------
    before : str
        Commit to compare with.
    runs : int
        Runs of each version that count. One more comes first and fills the caches of bytecode.
    sizes : Sizes
    """
    times: dict[str, list[Seconds]] = {"before": [], "after": []}
    with worktree(before) as old:
        checkouts = {"before": old, "after": ROOT}
        for run in range(runs + 1):
            # The order alternates, so that a drift of the machine favours neither version.
            for version in sorted(checkouts, reverse=run % 2 == 0):
                seconds = run_version(checkouts[version], sizes)
                if run > 0:
                    times[version].append(seconds)
            print(f"run {run} of {runs}", file=sys.stderr)
    commits = {"before": commit_name(before), "after": commit_name("HEAD")}
    out = []
    for name in times["before"][0]:
        a, b = (np.array([each[name] for each in times[v]]) for v in ("before", "after"))
        low, high = ratio_interval(a, b)
        medians = float(np.median(a)), float(np.median(b))
        out.append(
            Comparison(
                name=name,
                **commits,
                runs=runs,
                seconds_before=medians[0],
                seconds_after=medians[1],
                ratio=medians[1] / medians[0],
                low=low,
                high=high,
            )
        )
    return out


def ratio_interval(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """90 % bootstrap interval of median(after) / median(before); runs are resampled in pairs."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(before), (N_BOOTSTRAP, len(before)))
    ratios = np.median(after[chosen], axis=1) / np.median(before[chosen], axis=1)
    low, high = np.quantile(ratios, [0.05, 0.95])
    return float(low), float(high)


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """Check a commit out into a temporary folder, and remove it afterwards."""
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "before"
        subprocess.run([*git, "add", "-q", "--detach", str(path), commit], check=True)
        try:
            yield path
        finally:
            subprocess.run([*git, "remove", "--force", str(path)], check=True)


def commit_name(commit: str) -> str:
    """Short hash of a commit, with "+" if it is HEAD and tracked files were changed since."""
    git = ["git", "-C", str(ROOT)]

    def output(*arguments: str) -> str:
        done = subprocess.run([*git, *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    changed = commit == "HEAD" and output("status", "--porcelain", "--untracked-files=no")
    return output("rev-parse", "--short", commit) + ("+" if changed else "")


def write_csv(comparisons: Sequence[Comparison], path: Path) -> None:
    """Write one line per call."""
    with path.open("w", encoding="utf-8", newline="") as file:
        names = [field.name for field in fields(Comparison)]
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        for comparison in comparisons:
            values = asdict(comparison)
            writer.writerow(
                {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in values.items()}
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and write the CSV file; exit code 1 on a miss."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.refactoring", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--before", default=BEFORE, help=f"commit to compare with ({BEFORE})")
    parser.add_argument("--runs", type=int, default=15, help="runs of each version (15)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="CSV file to write")
    for field in fields(Sizes):
        option = f"--{field.name.replace('_', '-')}"
        parser.add_argument(option, type=int, default=field.default, help=f"({field.default})")
    parser.add_argument("--time", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.time:
        print(json.dumps(time_calls(Sizes(**json.loads(options.time)))))
        return 0
    if options.runs < 1:
        parser.error("--runs: give at least 1")
    sizes = Sizes(**{field.name: getattr(options, field.name) for field in fields(Sizes)})
    comparisons = compare(options.before, options.runs, sizes)
    write_csv(comparisons, options.out)
    print("CPU seconds, ratio of medians (90 % interval); also passes if the interval contains 1")
    return show(comparison.row for comparison in comparisons)


if __name__ == "__main__":
    sys.exit(main())
