"""Size of model files before and after, and equality of their predictions: ``python -m tools.model_sizes``.

Five models of the 1,974 loans are fitted and saved by the code of an earlier commit, taken from git, as
its command line did. The code of today reads each file, saves the model without moments, reads that file
and predicts. ``--write`` stores the numbers in ``benchmarks/results/model_sizes.csv``.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fairspan.persistence import load_model, save_model, untrusted_types
from tools.table import ROOT, Measurement, at_most, show

BEFORE = "6f22784"
RESULTS = ROOT / "benchmarks" / "results" / "model_sizes.csv"
# Largest file in megabytes: models of a kernel, and the same with variances or trees.
LIMITS = {
    "kernel scores": 4.0,
    "kernel decisions": 4.0,
    "GP": 16.0,
    "FairClassifier auto": 20.0,
    "FairRegressor": 20.0,
}
EQUAL = 1e-12

_FIT = """
import sys, warnings
import numpy as np
from fairspan import FairGPRegressor, save_model
from fairspan.datasets import load_loans
from fairspan.estimators.named import named_model

warnings.simplefilter("ignore")
name, folder = sys.argv[1:]
loans = load_loans()
X, y = loans.data, loans.target
if name in ("GP", "FairRegressor"):
    X, y = X.drop(columns="loanamt"), X["loanamt"]
model = {
    "kernel scores": lambda: named_model("kernel", numeric=False, equalize="scores"),
    "kernel decisions": lambda: named_model("kernel", numeric=False, equalize="decisions"),
    "GP": lambda: FairGPRegressor(random_state=0),
    "FairClassifier auto": lambda: named_model("auto", numeric=False),
    "FairRegressor": lambda: named_model("auto", numeric=True),
}[name]()
model.fit(X, y, sensitive_features=loans.sensitive_features)
save_model(model, f"{folder}/before.skops")
names = [n for n in ("predict", "predict_proba", "decision_function") if hasattr(model, n)]
out = {n: np.asarray(getattr(model, n)(X)) for n in names}
if name == "GP":
    out["std"] = model.predict(X, return_std=True)[1]
np.savez(f"{folder}/before.npz", **out)
X.to_pickle(f"{folder}/X.pkl")
"""


def measure(name: str, tree: Path) -> dict[str, Any]:
    """Sizes in bytes, the largest difference of predictions over their range, and seconds to load."""
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder:
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        env = {**os.environ, **threads, "PYTHONPATH": str(tree / "src")}
        subprocess.run([sys.executable, "-c", _FIT, name, folder], env=env, check=True, cwd=folder)
        before, after = Path(folder, "before.skops"), Path(folder, "after.skops")
        trusted = untrusted_types(before)
        save_model(load_model(before, trusted=trusted), after, keep_moments=False)
        start = time.perf_counter()
        model = load_model(after, trusted=trusted)
        seconds = time.perf_counter() - start
        X = pd.read_pickle(Path(folder, "X.pkl"))  # written a moment ago by this program
        difference = 0.0
        with np.load(Path(folder, "before.npz")) as numbers:
            for what, expected in numbers.items():
                is_std = what == "std"
                found = model.predict(X, return_std=True)[1] if is_std else getattr(model, what)(X)
                scale = max(float(np.abs(expected).max()), 1e-300)
                difference = max(difference, float(np.abs(found - expected).max()) / scale)
        return {
            "model": name,
            "before": before.stat().st_size,
            "after": after.stat().st_size,
            "difference": difference,
            "load_seconds": round(seconds, 3),
        }


def run() -> list[dict[str, Any]]:
    """Measure all models."""
    with tempfile.TemporaryDirectory() as tree:
        archive = subprocess.run(
            ["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as file:
            file.extractall(tree, filter="data")
        return [measure(name, Path(tree)) for name in LIMITS]


def rows(numbers: list[dict[str, Any]]) -> Iterator[Measurement]:
    """Sizes in megabytes and differences with their limits; load times have the old size beside them."""
    for one in numbers:
        name, before = one["model"], float(one["before"]) / 1e6
        size = float(one["after"]) / 1e6
        label = f"{name}: MB of the file ({before:.1f} before, loads in {float(one['load_seconds']):.2f} s)"
        yield at_most(label, size, LIMITS[name])
        yield at_most(f"{name}: difference of predictions", float(one["difference"]), EQUAL)


def stored() -> Iterator[Measurement]:
    """The same rows from the stored file."""
    with RESULTS.open(newline="", encoding="utf-8") as file:
        yield from rows(list(csv.DictReader(file)))


def main() -> int:
    """Print the table; exit code 1 on a miss."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help=f"store the numbers in {RESULTS.name}")
    write = parser.parse_args().write
    numbers = run()
    if write:
        with RESULTS.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(numbers[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(numbers)
    return show(rows(numbers))


if __name__ == "__main__":
    sys.exit(main())
