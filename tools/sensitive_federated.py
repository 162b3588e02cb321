"""Federated fits and forgetting against fits of all rows: ``python -m tools.sensitive_federated``.

Prints ``name measured limit pass`` for 3, 10 and 100 sites, in float64 and in masked fixed point, and for
1 row, 100 rows and 10 % of the rows forgotten; differences are relative to the largest prediction. A site may
send twice the bytes that the covariances of its cells and folds have as matrices. ``--quick`` takes a tenth
of the rows. ``--out`` writes the table, with command and commit, to a CSV file.
"""

from __future__ import annotations

import argparse
import copy
import csv
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fairspan import FairRidge, FairRidgeClassifier, load_pilot
from tools import fuzz_bytes
from tools.promise_tables import RESULTS, commit_name
from tools.table import Measurement, at_least, at_most, show

N_ROWS, N_LANDMARKS = 50_000, 40
SITES = (3, 10, 100)
SAME, FORGOTTEN = 1e-10, 1e-9
_CASES = 1000  # damaged files of each kind
_SIZE = 2 * 8 * 5 * N_LANDMARKS**2
_SECONDS = 60.0


def people(n: int, seed: int) -> tuple[Any, Any, Any]:
    """Draw people with a group that shifts five features, and a target that is not linear in them."""
    rng = np.random.default_rng(seed)
    s = (rng.random(n) < 0.3).astype(int)
    X = rng.normal(size=(n, 5)) + 0.5 * s[:, None]
    y = X.sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(size=n)
    return X, y, np.where(s == 1, "b", "a")


def difference(a: Any, b: Any, X: Any) -> float:
    """Largest difference of two models' predictions, relative to the largest prediction."""
    name = "decision_function" if hasattr(a, "decision_function") else "predict"
    first, second = getattr(a, name)(X), getattr(b, name)(X)
    return float(np.abs(first - second).max() / np.abs(second).max())


def pilots(folder: Path) -> dict[str, tuple[Path, bool]]:
    """Pilots of a regression and of a classifier on made-up rows, and whether y has classes."""
    X, y, s = people(2000, seed=999)
    out = {}
    for cls in (FairRidge, FairRidgeClassifier):
        classes = cls is FairRidgeClassifier
        est = cls(landmarks=X[:N_LANDMARKS], gamma=0.1)
        est.prepare(X, y > 0 if classes else y, sensitive_features=s, folds="hash")
        out[cls.__name__] = (est.export_pilot(folder / f"{cls.__name__}.npz", public=True), classes)
    return out


def federated(n: int, folder: Path, n_sites: tuple[int, ...]) -> Iterator[Measurement]:
    """Merged models against pooled ones."""
    X, y, s = people(n, seed=1)
    new = people(2000, seed=2)[0]
    for name, (pilot, classes) in pilots(folder).items():
        target = y > 0 if classes else y
        pooled = load_pilot(pilot).partial_fit(X, target, sensitive_features=s)
        order = np.random.default_rng(3).permutation(n)
        shuffled = load_pilot(pilot).partial_fit(
            X[order], target[order], sensitive_features=s[order]
        )
        yield at_most(
            f"{name}: the same rows in another order", difference(shuffled, pooled, new), SAME
        )
        for k in n_sites:
            parts = np.array_split(order, k)
            sites = [f"site {i}" for i in range(k)]
            for masked in (False, True):
                began = time.perf_counter()
                files = []
                for site, rows in zip(sites, parts, strict=True):
                    est = load_pilot(pilot)
                    est.partial_fit(X[rows], target[rows], sensitive_features=s[rows], solve=False)
                    keys = {
                        o: f"{min(o, site)} and {max(o, site)} share this".encode() for o in sites
                    }
                    del keys[site]
                    path = folder / f"{site}.npz"
                    options: dict[str, Any] = {"mask_keys": keys} if masked else {"min_rows": 1}
                    files.append(est.export_moments(path, site=site, **options))
                at_sites = time.perf_counter() - began
                merged = type(pooled).from_moments(files, pilot=pilot)
                seconds = time.perf_counter() - began - at_sites
                row = f"{name}, {k} sites, {'masked' if masked else 'float64'}"
                yield at_most(
                    f"{row}: difference from pooled", difference(merged, pooled, new), SAME
                )
                sent = max(path.stat().st_size for path in files)
                yield at_most(f"{row}: bytes that a site sends", sent, _SIZE)
                yield at_most(f"{row}: seconds at a site, mean", at_sites / k, _SECONDS)
                yield at_most(f"{row}: seconds to merge", seconds, _SECONDS)


def forgetting(n: int, folder: Path) -> Iterator[Measurement]:
    """Models that forgot rows against models that never had them."""
    X, y, s = people(n, seed=4)
    new = people(2000, seed=5)[0]
    for name, (pilot, classes) in pilots(folder).items():
        target = y > 0 if classes else y
        full = load_pilot(pilot).partial_fit(X, target, sensitive_features=s)
        for label, size in (("1 row", 1), ("100 rows", 100), ("10 % of rows", n // 10)):
            gone = np.zeros(n, dtype=bool)
            gone[np.random.default_rng(size).choice(n, size, replace=False)] = True
            est = copy.deepcopy(full)
            began = time.perf_counter()
            est.forget(X[gone], target[gone], sensitive_features=s[gone])
            forget_s = time.perf_counter() - began
            rest = X[~gone], target[~gone], s[~gone]
            began = time.perf_counter()
            direct = load_pilot(pilot).partial_fit(*rest[:2], sensitive_features=rest[2])
            refit_s = time.perf_counter() - began
            row = f"{name}, {label} forgotten"
            yield at_most(
                f"{row}: difference from a refit", difference(est, direct, new), FORGOTTEN
            )
            yield at_most(f"{row}: seconds", forget_s, _SECONDS)
            yield at_most(f"{row}: seconds of the refit", refit_s, _SECONDS)


def hostile(cases: int) -> Iterator[Measurement]:
    """Damaged and lying files."""
    for name in fuzz_bytes.READERS:
        if name.startswith(("moments", "pilot")):
            tally = fuzz_bytes.fuzz(name, cases)
            yield at_most(f"fuzz, {name}: neither read rightly nor refused", len(tally.failures), 0)
            yield at_least(f"fuzz, {name}: refused", tally.refused, cases // 4)


def main() -> int:
    """Print the table, and write it if asked; non-zero if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows and cases")
    parser.add_argument(
        "--out", type=Path, help=f"CSV file, e.g. {RESULTS.name}/sensitive_federated.csv"
    )
    given = parser.parse_args()
    shrink = 10 if given.quick else 1
    rows: list[Measurement] = []

    def measured() -> Iterator[Measurement]:
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            for part in (
                federated(N_ROWS // shrink, folder, SITES[: 2 if given.quick else 3]),
                forgetting(N_ROWS // shrink, folder),
                hostile(_CASES // shrink),
            ):
                for row in part:
                    rows.append(row)
                    yield row

    missed = show(measured())
    if given.out is not None:
        command = "python -m tools.sensitive_federated" + (" --quick" if given.quick else "")
        commit = commit_name()
        with given.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["name", "measured", "limit", "pass", "commit", "command"])
            for row in rows:
                number = f"{row.measured:.6g}"
                writer.writerow([row.name, number, row.limit, row.passed, commit, command])
    return missed


if __name__ == "__main__":
    sys.exit(main())
