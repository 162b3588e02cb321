"""Time of FairEraser on many long vectors, relative to the product that it needs.

    python -m benchmarks.eraser --rows 20000                                  (a minute on a processor)
    python -m benchmarks.eraser --device cuda --log benchmarks/results/eraser-h200.txt

Rows are float32 vectors of ``--columns`` numbers, made and kept where they are used: arrays on the
processor, or with ``--device`` tensors. The fit takes moments in ten folds, solves six times and so has the
certificate. Its pass is compared with the Gram matrix of the same rows in float64.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tools.table import Measurement, at_most

from fairspan import FairEraser

_SAME_ROWS = 20_000
_BLOCK = 65_536


def make_rows(n: int, d: int, device: str | None) -> tuple[Any, Any, Any]:
    """Vectors whose first tenth of the numbers depends on a binary S, S, and a target."""
    if device is None:
        rng = np.random.default_rng(0)
        s = rng.integers(0, 2, n)
        X = rng.standard_normal((n, d), dtype=np.float32)
        X[:, : d // 10] += 0.3 * s[:, None].astype(np.float32)
        return X, s, X[:, 0] + X[:, -1]
    import torch

    draw = torch.Generator(device).manual_seed(0)
    s = torch.randint(0, 2, (n,), generator=draw, device=device)
    X = torch.randn((n, d), generator=draw, device=device)
    X[:, : d // 10] += 0.3 * s[:, None]
    return X, s, X[:, 0] + X[:, -1]


def seconds(function: Callable[[], Any], device: str | None) -> tuple[float, Any]:
    """Wall time of a call that ends when the device is idle, and its result."""

    def wait() -> None:
        if device is not None and device.startswith("cuda"):
            import torch

            torch.cuda.synchronize(device)

    wait()
    start = time.perf_counter()
    out = function()
    wait()
    return time.perf_counter() - start, out


def gram(X: Any) -> None:
    """Sum ``x x'`` over all rows in float64, block by block."""
    total = None
    for start in range(0, len(X), _BLOCK):
        block = X[start : start + _BLOCK]
        block = block.astype(np.float64) if isinstance(block, np.ndarray) else block.double()
        product = block.T @ block
        total = product if total is None else total + product


def measure(n: int, d: int, device: str | None) -> list[Measurement]:
    """Print times of the parts, and return the rows of the table."""
    X, s, y = make_rows(n, d, device)
    seconds(lambda: gram(X[:_BLOCK]), device)  # warm
    product, _ = seconds(lambda: gram(X), device)
    print(f"{n:,} x {d}, Gram matrix in float64: {product:.2f} s")
    out = []
    for name, params in (
        ("means", {}),
        ("means, target kept", {"keep_target": True}),
        ("covariances, 50 directions", {"order": 2, "n_directions": 50}),
    ):
        eraser = FairEraser(**params)
        fit, _ = seconds(lambda e=eraser: e.fit(X, y, sensitive_features=s), device)
        solve, _ = seconds(lambda e=eraser: e.solve(), device)
        moved, _ = seconds(lambda e=eraser: e.transform(X), device)
        print(
            f"{name}: fit {fit:.2f} s (of which solving {solve:.2f} s), transform {moved:.2f} s, "
            f"{n / (fit - solve):,.0f} rows/s into the moments"
        )
        out.append(at_most(f"{name}: fit, in Gram matrices", (fit - solve) / product, 10.0))
    few = slice(0, min(n, _SAME_ROWS))
    ours = FairEraser().fit(X[few], sensitive_features=s[few]).transform(X[few])
    as_arrays = [part if device is None else part.cpu().numpy() for part in (X[few], s[few], ours)]
    expected = FairEraser().fit(as_arrays[0], sensitive_features=as_arrays[1])
    gap = float(np.abs(as_arrays[2] - expected.transform(as_arrays[0])).max())
    # Vectors are float32, so that results differ in their last digits.
    out.append(at_most(f"difference from arrays, {len(as_arrays[0]):,} rows", gap, 1e-4))
    return out


class _Both(io.TextIOBase):
    """Standard output and a log."""

    def __init__(self, *streams: Any) -> None:
        self._streams = streams

    def write(self, text: str) -> int:
        for stream in self._streams:
            stream.write(text)
            stream.flush()
        return len(text)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=768)
    parser.add_argument(
        "--device", help="torch device, e.g. cuda; arrays on the processor if not given"
    )
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        if options.log is not None:
            log = stack.enter_context(options.log.open("w", encoding="utf-8"))
            stack.enter_context(contextlib.redirect_stdout(_Both(sys.stdout, log)))
        print(f"$ python -m benchmarks.eraser {' '.join(sys.argv[1:])}")
        if options.device is not None:
            import torch

            gpu = options.device.startswith("cuda")
            name = torch.cuda.get_device_name(options.device) if gpu else options.device
            print(f"{name}, torch {torch.__version__}")
        table = measure(options.rows, options.columns, options.device)
        for row in table:
            print(row.line())
    return int(not all(row.passed for row in table))


if __name__ == "__main__":
    sys.exit(main())
