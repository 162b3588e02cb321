"""Limits on scale: partitions of the rows, speed, memory, a GPU, killed processes."""

from __future__ import annotations

import copy
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import scale_speed, scale_stream
from benchmarks.core import make_data

from fairspan import FairRidge
from fairspan.streaming import Sample, blocks, open_source
from tools.table import Measurement, at_most, suite

N = 30_000
LOG = Path(__file__).parents[1] / "benchmarks" / "results" / "scale-h200.txt"


def measurements() -> Iterator[Measurement]:
    """All rows, cheap ones first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from partition_rows(alpha=1.0)
        for row in partition_rows(alpha="auto"):  # raised by a tiny ridge: see docs/scaling.md
            print(f"  alpha='auto', {row.name}: {row.measured:.2g} (information)", flush=True)
    streams = [f"tests/test_stream{name}.py" for name in ("s", "_sources", "_inputs")]
    yield from suite("streams, checkpoints", streams, 200)
    yield from suite("kill tests", ["-m", "", "tests/test_stream_kill.py"], 6)
    yield from suite("Dask, a worker killed", ["tests/test_stream_dask.py"], 5)
    yield from scale_speed.measurements()
    yield from scale_stream.measurements()
    yield from gpu_rows()


# ------------------------------------------------------------------ any partition


def _table() -> tuple[Any, list[str]]:
    import pandas as pd

    X, y, s = make_data(N)
    names = [f"x{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    return frame.assign(s=np.where(s == 1, "a", "b"), y=y), names


def _work(task: tuple[Any, Any, int]) -> Any:
    prepared, block, start = task
    names = [name for name in block.columns if name.startswith("x")]
    return copy.deepcopy(prepared).partial_fit(
        block[names], block["y"], sensitive_features=block[["s"]], start=start, solve=False
    )


def _merged(prepared: Any, frame: Any) -> Any:
    """The documented recipe: prepare once, fit copies in a process pool, merge."""
    tasks = [(prepared, frame.iloc[a : a + 7001], a) for a in range(0, len(frame), 7001)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        first, *others = pool.map(_work, tasks)
    for other in others:
        first.merge(other, solve=False)
    return first.solve()


def partition_rows(alpha: Any) -> Iterator[Measurement]:
    """Largest difference of predictions from those of one pass in memory, relative."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    frame, names = _table()
    named: dict[str, Any] = {"target": "y", "sensitive_features": "s"}

    def model() -> FairRidge:
        return FairRidge(n_components=300, alpha=alpha, random_state=0, removal="training_rows")

    with tempfile.TemporaryDirectory() as folder:
        pattern, one = _files(frame, Path(folder))
        sample = _sample(pattern, model())
        prepared = model().prepare(
            sample.X, sample.y, sensitive_features=sample.sensitive, folds="position"
        )
        memory = copy.deepcopy(prepared).partial_fit(
            frame[names], frame["y"], sensitive_features=frame[["s"]]
        )
        expected = memory.predict(frame[names])

        def gap(fitted: Any) -> float:
            found = fitted.predict(frame[names])
            return float(np.abs(found - expected).max() / np.abs(expected).max())

        ways: dict[str, Callable[[], Any]] = {
            "7 Parquet files in row groups": lambda: model().fit_stream(pattern, **named),
            "1 CSV file": lambda: model().fit_stream(one, **named),
            "blocks of 777 rows": lambda: model().fit_stream(
                [frame.iloc[a : a + 777] for a in range(0, N, 777)], **named
            ),
            "9 Dask partitions, threads": lambda: model().fit_stream(
                dd.from_pandas(frame, npartitions=9), **named
            ),
            "workers in a process pool, merged": lambda: _merged(prepared, frame),
        }
        for way, fit in ways.items():
            yield at_most(f"any partition: {way}", gap(fit()), 1e-9)
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            fitted = model().fit_stream(pattern, client=client, **named)
        yield at_most("any partition: files on a Dask cluster", gap(fitted), 1e-9)


def _files(frame: Any, folder: Path) -> tuple[str, str]:
    for part, rows in enumerate(np.array_split(np.arange(len(frame)), 7)):
        frame.iloc[rows].to_parquet(folder / f"part-{part}.parquet", row_group_size=1500)
    frame.to_csv(folder / "all.csv", index=False)
    return str(folder / "*.parquet"), str(folder / "all.csv")


def _sample(pattern: str, est: FairRidge) -> Any:
    """The rows that the streams freeze everything on."""
    from fairspan.estimators.stream_methods import _FitAdapter
    from fairspan.streaming.sample import SAMPLE_ROWS, SamplePass

    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    sample_pass = SamplePass(_FitAdapter(est), Sample(SAMPLE_ROWS, seed), "auto", digest=False)
    for offset, rows in blocks(open_source(pattern, "y", "s").parts, 2**16):
        sample_pass.add(offset, rows)
    return sample_pass.sample.rows()


# ------------------------------------------------------------------ a GPU


def gpu_rows() -> Iterator[Measurement]:
    """Rows of the committed log, which begins with the machine and the command."""
    lines = LOG.read_text(encoding="utf-8").splitlines()
    print(f"(from {LOG.relative_to(LOG.parents[2])}: {lines[0]}; {lines[1]})")
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("all of it:")) + 1 :]
    for line in filter(None, map(str.rstrip, table)):
        found = re.fullmatch(r"(.+?)\s{2,}(\S+)\s+([<>]= \S+)\s+(pass|MISS)", line)
        assert found is not None, line
        name, measured, limit, verdict = found.groups()
        yield Measurement(f"H200: {name.strip()}", float(measured), limit, verdict == "pass")
