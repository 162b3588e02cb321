"""Fits on Spark: ``python -m tools.reach_spark`` (some minutes; ``make .venv-spark/.stamp`` and Java first).

*Equality*: 60,000 rows, of which 20,000 are the sample, on two executors in processes of their own; largest
differences from the stream of the same rows on one machine, for other numbers of partitions, and after an
executor was killed in the second pass. *Speed*: rows a second of whole fits from one Parquet file, of a warm
Spark session with one task at a time and of our own stream, in turn. A second is one of CPU time of all
processes, those of Java too: what one core would take, whatever else runs on the machine. *Memory*: growth
of the driver's peak with eight times the rows, in a session whose driver refuses results beyond 32 MB in all.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.core import make_data
from benchmarks.scale_stream import write_parquet
from tests.support.spark_data import SlowPartitions, kill_an_executor, spark_session

from fairspan import FairRidge
from tools.table import Measurement, at_least, at_most, show

ROOT = Path(__file__).parents[1]
NAMED: dict[str, Any] = {"target": "y", "sensitive_features": "s"}
EQUAL_ROWS, SPEED_ROWS, REPEATS = 60_000, 1_000_000, 3
RESULTS = "32m"


def model(**parameters: Any) -> FairRidge:
    """A model of 300 landmarks."""
    return FairRidge(**{"n_components": 300, "random_state": 0, "alpha": 1.0, **parameters})


# --------------------------------------------------------------------------- equality


def equality() -> Iterator[Measurement]:
    """Largest differences from one machine, relative to the largest prediction."""
    X, y, s = make_data(EQUAL_ROWS)
    names = [f"x{j}" for j in range(X.shape[1])]
    import pandas as pd

    frame = pd.DataFrame(X, columns=names).assign(s=np.where(s == 1, "a", "b"), y=y)
    whole = model().fit_stream(frame, **NAMED, folds="hash")
    expected = whole.predict(frame[names])

    def gaps(fitted: Any) -> tuple[float, float]:
        found = fitted.predict(frame[names])
        blocks = zip(
            fitted.certificate_.new_rows.blocks, whole.certificate_.new_rows.blocks, strict=True
        )
        certified = max(
            max(abs(a.correlation - b.correlation), abs(a.high - b.high)) for a, b in blocks
        )
        return float(np.abs(found - expected).max() / np.abs(expected).max()), float(certified)

    with tempfile.TemporaryDirectory() as folder, spark_session() as spark:
        rows = spark.createDataFrame(frame)
        for n in (1, 7, 50):
            predictions, certified = gaps(model().fit_stream(rows.repartition(n), **NAMED))
            yield at_most(f"Spark, {n} partitions: predictions", predictions, 1e-9)
            yield at_most(f"Spark, {n} partitions: certificate", certified, 1e-9)
        path, killed = Path(folder) / "begun", list[int]()
        slow = rows.repartition(8)
        slow = slow.mapInArrow(SlowPartitions(path, 0.5), slow.schema)
        thread = threading.Thread(target=kill_an_executor, args=(path, 8 + 3, killed))
        thread.start()
        predictions, certified = gaps(model().fit_stream(slow, **NAMED))
        thread.join()
        yield at_least("Spark: executors killed in the second pass", len(killed), 1)
        yield at_most("Spark, an executor killed: predictions", predictions, 1e-9)
        yield at_most("Spark, an executor killed: certificate", certified, 1e-9)
        written = whole.predict_stream(rows.repartition(5), keep=names[0]).collect()
        found = dict(tuple(row) for row in written)
        gap = max(
            abs(found[x] - p) for x, p in zip(frame[names[0]].tolist(), expected, strict=True)
        )
        yield at_most("Spark: predictions of predict_stream", gap, 1e-9)


# --------------------------------------------------------------------------- speed and memory


def cpu_seconds() -> float:
    """CPU time of this process and of all that it has started."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = status.read_text().rpartition(") ")
        except OSError:  # it has ended
            continue
        fields = tail.split(" ")
        pid = int(head.split(" ")[0])
        parents[pid], spent[pid] = int(fields[1]), sum(map(int, fields[11:15]))

    def ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return sum(spent[pid] for pid in spent if ours(pid)) / os.sysconf("SC_CLK_TCK")


def seconds_of(work: Callable[[], object]) -> float:
    """CPU seconds of some work."""
    before = cpu_seconds()
    work()
    return cpu_seconds() - before


def peak_mb(work: Callable[[], object]) -> float:
    """Peak memory of this process during some work, in MB."""
    Path("/proc/self/clear_refs").write_text("5")
    work()
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024.0


def speed() -> Iterator[Measurement]:
    """One core: rows a second of both, and the driver's memory."""
    with (
        tempfile.TemporaryDirectory() as folder,
        spark_session("local[1]", **{"spark.driver.maxResultSize": RESULTS}) as spark,
    ):
        few = str(write_parquet(Path(folder) / "few.parquet", SPEED_ROWS // 8))
        many = str(write_parquet(Path(folder) / "many.parquet", SPEED_ROWS))

        def there(path: str) -> object:
            return model().fit_stream(spark.read.parquet(path), **NAMED)

        def here() -> object:
            return model().fit_stream(many, **NAMED, folds="hash")

        there(few)
        here()
        peak_few, peak_many = (peak_mb(lambda path=path: there(path)) for path in (few, many))  # type: ignore[misc]
        times = [(seconds_of(lambda: there(many)), seconds_of(here)) for _ in range(REPEATS)]
        spark_time, own_time = (statistics.median(t) for t in zip(*times, strict=True))
        print(
            f"  {SPEED_ROWS:,} rows, CPU seconds of Spark and of our stream: "
            + ", ".join(f"{a:.1f} and {b:.1f}" for a, b in times)
            + f"; medians {SPEED_ROWS / spark_time:,.0f} and {SPEED_ROWS / own_time:,.0f} rows a second",
            file=sys.stderr,
            flush=True,
        )
        ratio = statistics.median(b / a for a, b in times)
        yield at_least("Spark, one core: rows a second, share of our own stream", ratio, 0.5)
        yield at_most("Spark: MB more in the driver for 8 x the rows", peak_many - peak_few, 32)


# --------------------------------------------------------------------------- the table


PARTS = {"equality": equality, "speed": speed}


def measurements() -> Iterator[Measurement]:
    """Rows of all parts, each measured in a process of the environment that has pyspark."""
    python = ROOT / ".venv-spark" / "bin" / "python"
    for part in PARTS:
        command = [str(python), "-m", "tools.reach_spark", "--part", part]
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        run = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | one_thread,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        for line in run.stdout.splitlines():
            if line.startswith("["):
                yield Measurement(*json.loads(line))


def main() -> int:
    """Print the table, or the rows of one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, help="print the rows of one part as JSON")
    part = parser.parse_args().part
    if part is None:
        return show(measurements())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for measurement in PARTS[part]():
            print(json.dumps(astuple(measurement)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
