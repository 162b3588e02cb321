"""Streaming from Parquet: peak memory, and growth of the moments pass.

    python -m benchmarks.scale_stream            (a million rows: some minutes)
    python -m benchmarks.scale_stream --quick    (a tenth of it)

Every measurement is a process of its own, so that its peak is its own; CPU time, one BLAS thread.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tools.table import Measurement, at_most, between, show

from benchmarks.core import P, make_data

ROWS, COMPONENTS = 1_000_000, 1000
_GROUP_ROWS = 2**17

_CHILD = """
import json, re, sys, time
import numpy as np
from threadpoolctl import threadpool_limits
from fairspan import FairRidge
from fairspan.streaming import fit as _stream_fit

spent = {}
inner = _stream_fit.take_moments

def timed(*args):
    start = time.process_time()
    out = inner(*args)
    spent["moments"] = time.process_time() - start
    return out

_stream_fit.take_moments = timed
with threadpool_limits(1):
    start = time.process_time()
    model = FairRidge(n_components=%d, random_state=0, removal="training_rows").fit_stream(
        sys.argv[1], target="y", sensitive_features="s"
    )
    spent["all"] = time.process_time() - start
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
print(json.dumps({**spent, "peak_mib": peak / 1024, "rows": model.n_samples_seen_}))
"""


def write_parquet(path: Path, n: int) -> Path:
    """Rows of ``benchmarks.core.make_data``, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for seed, start in enumerate(range(0, n, _GROUP_ROWS)):
        X, y, s = make_data(min(_GROUP_ROWS, n - start), seed=seed)
        columns = {f"x{j}": X[:, j] for j in range(P)}
        table = pa.table({**columns, "s": np.where(s == 1, "a", "b"), "y": y})
        writer = pq.ParquetWriter(path, table.schema) if writer is None else writer
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return path


def measure(path: Path, components: int = COMPONENTS) -> dict[str, float]:
    """CPU seconds of the moments pass and of the fit, and the process's peak memory."""
    child = [sys.executable, "-c", _CHILD % components, str(path)]
    out = subprocess.run(child, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(out.stdout.splitlines()[-1])
    return found


def measurements(rows: int = ROWS, components: int = COMPONENTS) -> Iterator[Measurement]:
    """Peak memory at all the rows; time there over the time at half of them."""
    with tempfile.TemporaryDirectory() as folder:
        files = {
            part: write_parquet(Path(folder) / f"{part}.parquet", n)
            for part, n in (("whole", rows), ("half", rows // 2))
        }
        # Alternate and take the faster of two runs, since other processes can only add time.
        found = [
            {part: measure(file, components) for part, file in files.items()} for _ in range(2)
        ]
    whole, half = (min((one[p] for one in found), key=lambda m: m["moments"]) for p in files)
    label = f"Parquet, {rows:,} x {P}, D={components}"
    yield at_most(f"{label}: peak memory, MB", whole["peak_mib"] * 2**20 / 1e6, 1000)
    growth = whole["moments"] / half["moments"]
    yield between(f"{label}: CPU of the moments pass over half's", growth, 1.9, 2.1)
    both = f"{whole['moments']:.1f} and {half['moments']:.1f}"
    print(f"  CPU seconds: moments {both}, all {whole['all']:.1f}")


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    return show(measurements(ROWS // 10, 300) if quick else measurements())


if __name__ == "__main__":
    sys.exit(main())
