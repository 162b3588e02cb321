r"""Time of a fit that removes dependence on new rows, beside one that removes it on the training rows.

    python -m benchmarks.new_rows                        (50,000 and 200,000 rows, one BLAS thread)
    PYTHONPATH=src:. python -m benchmarks.new_rows --device cuda --rows 10000000

Both kinds are fitted in turns; seconds are medians of processor time. On a device the fit has a fixed alpha,
and a path of 100 dial values follows; the time is that of the clock. Rows go to
benchmarks/results/promise_times.csv, and replace those of the same size and place;
``make acceptance-promise`` compares them with their limits.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tools.promise_tables import RESULTS, commit_name

from fairspan import FairRidge
from fairspan.estimators.dial_predictor import DialHeads

KINDS = ("training_rows", "new_rows")
COLUMNS = 1000


def rows(n: int, device: str | None) -> tuple[Any, Any, Any]:
    """Rows of 20 features, all of which depend on S a little."""
    if device is None:
        rng = np.random.default_rng(0)
        s = (rng.random(n) < 0.3).astype(int)
        X = rng.normal(size=(n, 20)) + 0.3 * s[:, None]
        return X, X[:, :10].sum(axis=1) + rng.normal(size=n), s
    import torch

    torch.manual_seed(0)
    group = (torch.rand(n, device=device) < 0.3).to(torch.int64)
    features = torch.randn(n, 20, device=device) + 0.3 * group[:, None].float()
    return features, features[:, :10].sum(dim=1) + torch.randn(n, device=device), group


def times(n: int, repeats: int, device: str | None) -> dict[str, list[float]]:
    """Seconds of every fit, in turns; the first fit of each kind is not counted."""
    X, y, s = rows(n, device)
    clock: Callable[[], float] = time.process_time if device is None else time.perf_counter
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for repeat in range(repeats + 1):
        for kind in KINDS:
            alpha: Any = "auto" if device is None else 1.0
            gamma: Any = "cv" if device is None else 0.02
            model = FairRidge(
                removal=kind, n_components=COLUMNS, alpha=alpha, gamma=gamma, random_state=0
            )
            start = clock()
            model.fit(X, y, sensitive_features=s)
            if device is not None:
                DialHeads.along(model, np.linspace(0.0, 1.0, 100))
            if repeat:
                found[kind].append(clock() - start)
    return found


def place(device: str | None) -> str:
    """Processor, or the name of the device."""
    if device is None:
        return "processor"
    import torch

    return f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[50_000, 200_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, default=RESULTS / "promise_times.csv")
    parser.add_argument("--commit", help="where the code is no git repository")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    where, done = place(options.device), {}
    if options.out.exists():
        with options.out.open(newline="", encoding="utf-8") as file:
            done = {row["name"]: row for row in csv.DictReader(file)}
    for n in options.rows:
        found = times(n, options.repeats, options.device)
        old, new = (float(np.median(found[kind])) for kind in KINDS)
        name = f"{n:,} rows, {COLUMNS} columns, {where}"
        done[name] = {
            "name": name,
            "training_rows": f"{old:.3f}",
            "new_rows": f"{new:.3f}",
            "ratio": f"{new / old:.4f}",
            "draws": str(options.repeats),
            "commit": options.commit or commit_name(),
            "command": "python -m benchmarks.new_rows " + " ".join(_options(sys.argv[1:])),
        }
        print(f"{name}: training rows {old:.2f} s, new rows {new:.2f} s, ratio {new / old:.3f}")
        with options.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(done[name]))
            writer.writeheader()
            writer.writerows(done.values())


def _options(arguments: list[str]) -> Iterator[str]:
    """Arguments without those about files and commits."""
    words = iter(arguments)
    for word in words:
        if word in ("--out", "--commit"):
            next(words)
        else:
            yield word


if __name__ == "__main__":
    main()
