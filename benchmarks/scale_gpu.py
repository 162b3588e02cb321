"""Ten and a hundred million rows on one GPU: speed of the moments relative to matrix products.

    PYTHONPATH=src:. python -m benchmarks.scale_gpu --rows 10000000 --log benchmarks/results/scale-h200.txt
    python -m benchmarks.scale_gpu --rows 20000 --columns 200      (a minute's worth on a processor)

Times are of a warm device and end when it has nothing left to do.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tools.table import Measurement, at_least, at_most

from fairspan import FairRidge
from fairspan.device.passes import DevicePass
from fairspan.method import torch_columns as _device
from fairspan.streaming import fit

P, ALPHA, ETA, SEED = 50, 1.0, 1e-3, 0
GAMMA = 1.0 / (2 * P)
PATH = np.linspace(0.0, 1.0, 100)
FIXED = {"gamma": GAMMA, "alpha": ALPHA, "eta": ETA, "random_state": SEED}
SAMPLE_ROWS, SAME_ROWS, STREAM_ROWS = 20_000, 100_000, 2**22
NARROW = 256

Rows = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def make_rows(n: int, device: torch.device, seed: int = 0) -> Rows:
    """Like :func:`benchmarks.core.make_data`, made on the device: X, y and a binary S."""
    draw = torch.Generator(device).manual_seed(seed)
    s = torch.randint(0, 2, (n,), generator=draw, device=device)
    X = torch.randn((n, P), generator=draw, dtype=torch.float64, device=device)
    X[:, :2] += 0.7 * s[:, None]
    noise = torch.randn(n, generator=draw, dtype=torch.float64, device=device)
    y = X[:, 0] + torch.sin(2.0 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.5 * noise
    return X, y, s


class Machine:
    """A device with timing functions."""

    def __init__(self, name: str) -> None:
        self.device = torch.device(name)
        self.is_gpu = self.device.type == "cuda"

    def wait(self) -> None:
        """Wait until the device is idle."""
        if self.is_gpu:
            torch.cuda.synchronize(self.device)

    def seconds(self, function: Callable[[], Any]) -> tuple[float, Any]:
        """Wall time of a call, and its result."""
        self.wait()
        start = time.perf_counter()
        out = function()
        self.wait()
        return time.perf_counter() - start, out

    def best(self, function: Callable[[], Any], repeats: int) -> float:
        """Shortest of several times."""
        return min(self.seconds(function)[0] for _ in range(repeats))

    def free(self) -> None:
        """Free the memory that torch caches."""
        if self.is_gpu:
            torch.cuda.empty_cache()

    def __str__(self) -> str:
        name = torch.cuda.get_device_name(self.device) if self.is_gpu else "processor"
        return f"{name}, torch {torch.__version__}, {torch.get_num_threads()} host threads"


def gemm_rate(machine: Machine, D: int) -> float:
    """FLOP/s of float64 products: the larger of a tall one and a square one."""
    tall = (131_072, D) if machine.is_gpu else (4096, D)
    side = 8192 if machine.is_gpu else 1024
    rates = []
    for name, (n, d) in (("tall", tall), ("square", (side, side))):
        A = torch.randn((n, d), dtype=torch.float64, device=machine.device)
        took = machine.best(lambda A=A: A.T @ A, 5)
        rates.append(2.0 * n * d * d / took)
        print(f"float64 product, {name} {n} x {d}: {rates[-1] / 1e12:.3g} TFLOP/s")
    return max(rates)


def panel_rates(machine: Machine, D: int) -> None:
    """Print the speed of the Gram matrix for several numbers of panels, and the number in use."""
    width = _device.padded_width(D)
    n = _device.block_rows(machine.device, width)
    Z = torch.randn((n, width), dtype=torch.float64, device=machine.device)
    out = torch.zeros((width, width), dtype=torch.float64, device=machine.device)
    ours = _device._PANELS
    try:
        for panels in (1, 2, 4, 8):
            if width % panels == 0:
                _device._PANELS = panels
                took = machine.best(lambda: _device.add_gram(Z, out, width), 5)
                rate = 2.0 * n * width * width / took
                print(
                    f"Z'Z, {n} x {width}, {panels} panels: {rate / 1e12:.3g} TFLOP/s of the whole product"
                    + (" (in use)" if panels == ours else "")
                )
    finally:
        _device._PANELS = ours


def take_moments(machine: Machine, rows: Rows, D: int, **params: Any) -> float:
    """Seconds of the pass over resident rows, with a pilot from the first of them."""
    X, y, s = rows
    est = FairRidge(n_components=D, **params, removal="training_rows")
    few = slice(0, min(len(X), SAMPLE_ROWS))
    est.prepare(X[few], y[few], sensitive_features=s[few], folds="position")
    data = est._read(X, y, s, None, None, reset=False)

    def run() -> None:
        one = DevicePass(est.pilot_, est.pilot_.empty_moments(), machine.device)
        one.add(data, est.pilot_.counter())

    machine.seconds(run)
    took = machine.best(run, 2)
    machine.free()
    return took


def whole_fit(machine: Machine, rows: Rows, D: int, **params: Any) -> tuple[float, FairRidge]:
    """Seconds of a fit and a path of 100 models, by phase."""
    X, y, s = rows
    parts: dict[str, float] = {}
    names = {"_read": "read", "_prepare": "pilot", "_absorb": "moments", "_solve": "solve"}
    # A fit works on a copy of the estimator, so the methods are timed in a subclass.
    timed = {n: _timed(machine, getattr(FairRidge, n), label, parts) for n, label in names.items()}
    model = type("FairRidge", (FairRidge,), timed)(n_components=D, **params)
    fit, _ = machine.seconds(lambda: model.fit(X, y, sensitive_features=s))
    parts["path"], _ = machine.seconds(lambda: [model.at(fairness) for fairness in PATH])
    parts["sample"] = fit - sum(parts[label] for label in names.values())
    print("  " + ", ".join(f"{label} {took:.3f} s" for label, took in parts.items()))
    return fit + parts["path"], model


def _timed(
    machine: Machine, function: Callable[..., Any], label: str, parts: dict[str, float]
) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        took, out = machine.seconds(lambda: function(*args, **kwargs))
        parts[label] = parts.get(label, 0.0) + took
        return out

    return run


def difference(machine: Machine, rows: Rows, D: int) -> float:
    """Largest relative difference of predictions, device against arrays, with one pilot."""
    X, y, s = (v[: min(len(v), SAME_ROWS)] for v in rows)
    here = [v.cpu().numpy() for v in (X, y, s)]
    few = slice(0, SAMPLE_ROWS)
    there = FairRidge(n_components=D, **FIXED, removal="training_rows")
    there.prepare(here[0][few], here[1][few], sensitive_features=here[2][few])
    arrays = copy.deepcopy(there)
    there.partial_fit(X, y, sensitive_features=s)
    arrays.partial_fit(here[0], here[1], sensitive_features=here[2])
    new = make_rows(10_000, machine.device, seed=2)[0]
    a, b = arrays.predict(new.cpu().numpy()), there.predict(new)
    return float(np.abs(a - b).max() / np.abs(a).max())


def streamed(machine: Machine, n: int, D: int) -> float:
    """Seconds to generate and stream rows that do not fit in memory, including the final model."""
    size = min(STREAM_ROWS, n)
    est = FairRidge(n_components=D, **FIXED, removal="training_rows")

    def made() -> Iterator[Rows]:
        for i, start in enumerate(range(0, n, size)):
            yield make_rows(min(size, n - start), machine.device, seed=100 + i)

    took, _ = machine.seconds(lambda: est.fit_stream(made()))
    assert est.moments_.n_rows == n
    return took


def from_host(machine: Machine, rows: Rows, D: int) -> tuple[float, float]:
    """Rows a second from host memory, and difference from rows on the device.

    Counted are both passes over the rows, which read, check, move and add them up; not the landmarks and
    the solution, which take as long for any number of rows.
    """
    X, y, s = (v.cpu().numpy() for v in rows)
    host, there = (FairRidge(n_components=D, **FIXED, removal="training_rows") for _ in range(2))
    parts: dict[str, float] = {}
    names = {"_take_sample": "sample", "_prepare": "pilot", "take_moments": "moments"}
    before = {name: getattr(fit, name) for name in names}
    try:
        for name, label in names.items():
            setattr(fit, name, _timed(machine, before[name], label, parts))
        whole, _ = machine.seconds(
            lambda: host.fit_stream(X, target=y, sensitive_features=s, device=machine.device)
        )
    finally:
        for name, function in before.items():
            setattr(fit, name, function)
    took = parts["sample"] + parts["moments"]
    print("  " + ", ".join(f"{k} {v:.3f} s" for k, v in parts.items()) + f", all {whole:.3f} s")
    there.fit_stream(rows[0], target=rows[1], sensitive_features=rows[2])
    new = make_rows(10_000, machine.device, seed=2)[0]
    a, b = host.predict(new), there.predict(new)
    return len(X) / took, float(np.abs(a - b).max() / np.abs(a).max())


def measurements(machine: Machine, n: int, n_stream: int, D: int) -> Iterator[Measurement]:
    """Limits for this machine; further numbers are printed as information."""
    print(machine)
    print(f"{n:,} rows of {P} features, D={D}, float64")
    small = make_rows(min(n, 30_000), machine.device)
    whole_fit(machine, small, min(D, 256), **FIXED)  # warm: libraries, first allocations
    rate = gemm_rate(machine, D)
    panel_rates(machine, D)
    machine.free()
    rows = make_rows(n, machine.device, seed=1)
    work = 2.0 * n * D * D
    took = one_group = take_moments(machine, rows, D, **FIXED)
    yield at_most(f"moments of {n:,} rows, D={D}: seconds", took, 3.0)
    yield at_least("  as a share of the rate of products (2 n D^2)", work / took / rate, 0.60)
    folds = take_moments(machine, rows, D, **{**FIXED, "alpha": "auto"})
    print(f"with 5 folds: {folds:.3f} s, share {work / folds / rate:.3f}")
    took, model = whole_fit(machine, rows, D, **FIXED)
    yield at_most("fit and 100-point path, all fixed: seconds", took, 4.0)
    print(f"smallest eigenvalue {model.smallest_eigenvalue_:.3g} of the largest")
    took, model = whole_fit(machine, rows, D, random_state=SEED)
    print(f"gamma {model.gamma_:.4g}, alpha {model.alpha_:.4g}")
    yield at_most("everything automatic: seconds", took, 3.0)
    predict, _ = machine.seconds(partial(model.predict, rows[0]))
    print(f"predictions of {n:,} rows: {predict:.3f} s")
    yield at_most(
        "device against arrays, 100k rows: difference", difference(machine, rows, D), 1e-8
    )
    narrow = min(D, NARROW)
    rate, gap = from_host(machine, rows, narrow)
    yield at_least(f"rows a second from host memory, D={narrow}, millions", rate / 1e6, 5.0)
    yield at_most("rows from host memory against rows on the device: difference", gap, 1e-8)
    rate, _ = from_host(machine, rows, D)
    print(f"from host memory, D={D}: {rate:,.0f} rows/s")
    yield at_most(f"  time over that of resident rows, D={D}", n / rate / one_group, 1.3)
    del rows
    machine.free()
    took = streamed(machine, n_stream, D)
    yield at_most(f"{n_stream:,} rows made in blocks, fixed: seconds", took, 40.0)


class _Both(io.TextIOBase):
    """Write printed text to the screen and to a file."""

    def __init__(self, *targets: Any) -> None:
        self._targets = targets

    def write(self, text: str) -> int:
        for target in self._targets:
            target.write(text)
            target.flush()
        return len(text)


def main() -> int:
    """Print the table; exit code 1 on a miss."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--stream-rows", type=int, help="ten times as many if not given")
    parser.add_argument("--columns", type=int, default=2048, help="D, number of landmarks")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--log", type=Path)
    args = parser.parse_args()
    missed = 0
    with contextlib.ExitStack() as stack:
        if args.log is not None:
            args.log.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(args.log.open("w", encoding="utf-8"))
            stack.enter_context(contextlib.redirect_stdout(_Both(sys.stdout, file)))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        n_stream = args.stream_rows or 10 * args.rows
        began = time.perf_counter()
        print(f"$ python -m benchmarks.scale_gpu {' '.join(sys.argv[1:])}")
        found = []
        for row in measurements(Machine(args.device), args.rows, n_stream, args.columns):
            found.append(row)
            print(row.line())
            missed += not row.passed
        print(f"all of it: {time.perf_counter() - began:.0f} s\n")
        for row in found:
            print(row.line())
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
