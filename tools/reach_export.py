"""Files of `fairspan.export` against their models: ``nice .venv/bin/python -m tools.reach_export``.

*Equality*: five models of three data sets, each fitted on 1,500 people with text columns and gaps. ONNX and
npz files predict 2,000 other people, some of them with unknown categories and missing values. The difference
is relative to the largest number, at least 1; labels must be equal. *Speed*: labels, probabilities and scores
of 100,000 people (5,000 for learners) by onnxruntime, in blocks of 1,000 and from the same data frame, and
by `predict` alone; CPU time of one thread, medians of interleaved ratios. The npz reader is measured on a
tenth of them. *Sizes* are those of the files of Adult.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fairspan import (
    FairClassifier,
    FairGPClassifier,
    FairRepresentation,
    FairRidgeClassifier,
    datasets,
    export,
)
from fairspan.deployment import read_npz_model
from fairspan.deployment.checking import check_npz, check_onnx, onnx_feed
from fairspan.deployment.models import write_program
from fairspan.deployment.onnx_graph import output_names
from tools.calibration import data_home
from tools.table import Measurement, at_least, at_most, show

TRAINING, HELD_OUT = 1_500, 2_000
SCORED, SCORED_LEARNERS = 100_000, 5_000
BLOCK, REPEATS = 1_000, 3
SINGLE, DOUBLE, NPZ = 1e-5, 1e-9, 1e-9
MEGABYTES = 1.0
MEGABYTES_LEARNERS = 10.0

MODELS: dict[str, Any] = {
    "least squares": FairRidgeClassifier(random_state=0),
    "Laplacian, decisions": FairRidgeClassifier("laplacian", equalize="decisions", random_state=0),
    "log odds": FairGPClassifier(random_state=0),
    "representation": FairRepresentation(n_components=200, random_state=0),
    "learners": FairClassifier("auto", random_state=0),
}
SETS: dict[str, Callable[[], Any]] = {
    "Adult": lambda: datasets.fetch_adult(data_home=data_home()),
    "COMPAS": lambda: datasets.fetch_compas(data_home=data_home()),
    "loans": datasets.load_loans,
}


def measurements() -> Iterator[Measurement]:
    """Rows of the table."""
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(),
        threadpool_limits(1),
    ):
        warnings.simplefilter("ignore")
        for set_name, load in SETS.items():
            table = load()
            rng = np.random.default_rng(0)
            order = rng.permutation(len(table.data))
            # Of loans there are fewer people.
            size = min(TRAINING, len(order) // 2)
            train, rest = order[:size], order[size : size + HELD_OUT]
            X, y, s = table.data, table.target, table.sensitive_features
            for name, model in MODELS.items():
                model.fit(
                    X.iloc[train], y.iloc[train], sensitive_features=s.iloc[train].iloc[:, :1]
                )
                new = _with_gaps(X.iloc[rest].reset_index(drop=True), rng)
                yield from _equality(f"{set_name}, {name}", model, new, Path(folder))
                if set_name == "Adult":
                    yield from _sizes(f"{set_name}, {name}", model, Path(folder))
                    yield from _speed(f"{set_name}, {name}", model, X, Path(folder))


def _with_gaps(X: Any, rng: np.random.Generator) -> Any:
    """Some cells of text are unknown categories, and some of all cells are missing."""
    X = X.copy()
    for name in X.columns:
        text = X[name].dtype.kind not in "iufb"
        X[name] = X[name].astype(object) if text else X[name].astype(float)
        if text:
            X.loc[rng.random(len(X)) < 0.02, name] = "a category of nobody"
        X.loc[rng.random(len(X)) < 0.02, name] = None if text else np.nan
    return X


def _equality(name: str, model: Any, new: Any, folder: Path) -> Iterator[Measurement]:
    """Largest differences on these rows; a label that differs raises."""
    program = write_program(model)
    path = folder / "model.onnx"
    for dtype, limit in (("float64", DOUBLE), ("float32", SINGLE)):
        export(model, path, dtype=dtype)
        found = check_onnx(model, program, path, output_names(program), new, dtype)
        assert found is not None
        assert found.largest is not None
        yield at_most(f"ONNX {dtype}, {name}", found.largest, limit)
    export(model, folder / "model.npz")
    largest = check_npz(model, folder / "model.npz", new).largest
    assert largest is not None
    yield at_most(f"npz, {name}", largest, NPZ)


def _sizes(name: str, model: Any, folder: Path) -> Iterator[Measurement]:
    limit = MEGABYTES_LEARNERS if isinstance(model, FairClassifier) else MEGABYTES
    for kind in ("onnx", "npz"):
        size = (folder / f"model.{kind}").stat().st_size / 1e6
        yield at_most(f"megabytes of {kind}, {name}", size, limit)


def _speed(name: str, model: Any, X: Any, folder: Path) -> Iterator[Measurement]:
    """CPU time of the model's own prediction divided by that of the file."""
    import onnxruntime

    learners = isinstance(model, FairClassifier)
    n = SCORED_LEARNERS if learners else SCORED
    rng = np.random.default_rng(1)
    rows = X.iloc[rng.integers(0, len(X), n)].reset_index(drop=True)
    program = write_program(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    own = model.transform if isinstance(model, FairRepresentation) else model.predict
    reader = read_npz_model.load(folder / "model.npz")
    few = rows.iloc[: n // 10]

    def by_onnx() -> None:
        for start in range(0, n, BLOCK):
            feed = onnx_feed(program, rows.iloc[start : start + BLOCK], "float32")
            session.run(None, feed)

    ratios, of_npz = [], []
    for _ in range(1 if learners else REPEATS):
        ratios.append(_cpu(lambda: own(rows)) / _cpu(by_onnx))
        of_npz.append(_cpu(lambda: own(few)) / _cpu(lambda: reader(few)))
    yield at_least(f"{n:,} rows, predict / ONNX, {name}", statistics.median(ratios), 0.5)
    yield at_least(f"{n // 10:,} rows, predict / npz, {name}", statistics.median(of_npz), 0.05)


def _cpu(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    raise SystemExit(show(measurements()))
