"""A table to stream from, the ways to hand it over, and workers that a new process can import."""

import hashlib
import itertools
import json
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils import check_random_state

from fairspan import FairRidge
from fairspan.streaming import Rows, Sample
from fairspan.streaming import fit as _stream_fit
from fairspan.streaming.sample import variables_of

FEATURES = ["a", "b", "c"]
NAMED = {"target": "y", "sensitive_features": "sex"}
FIXED = {"gamma": 0.3, "alpha": 1.0, "eta": 1e-3, "n_components": 30, "random_state": 0}
N = 1200
BLOCK, SAMPLE = 256, 400


def table(n=N, seed=0):
    """Three features, two groups, a number to predict."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) + s[:, None] * [1.0, 0.5, 0.0]
    y = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.3 * rng.normal(size=n)
    return pd.DataFrame({**dict(zip(FEATURES, X.T, strict=True)), "sex": s, "y": y})


def labelled(n=N, seed=0):
    """The same with two classes, of text."""
    frame = table(n, seed)
    return frame.assign(y=np.where(frame["y"] > 0.3, "yes", "no"))


def arrays(frame):
    """X, y, S of a table."""
    return tuple(frame[names].to_numpy() for names in (FEATURES, "y", "sex"))


def cut(frame, cuts):
    """Consecutive pieces of a table."""
    edges = [0, *sorted(cuts), len(frame)]
    return [frame.iloc[a:b] for a, b in itertools.pairwise(edges)]


def ridge(**params):
    return FairRidge(**{**FIXED, **params})


def outputs(est, frame):
    """Scores and the head's output for the features of a table."""
    X = frame[[name for name in frame.columns if name in est.feature_names_in_]]
    return est.predict(X) if not hasattr(est, "decision_function") else est.decision_function(X)


@contextmanager
def small_blocks(block=BLOCK, sample=SAMPLE):
    """Blocks and samples small enough that a thousand rows have several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_stream_fit, "block_rows", lambda _n_features, **_: block)
        patch.setattr(_stream_fit, "SAMPLE_ROWS", sample)
        yield patch


def in_memory(est, X, y, S, control=None, weight=None):
    """What a stream promises to equal: frozen on the sample, then all rows at once."""
    est = clone(est)
    seed = int(check_random_state(est.random_state).randint(2**31 - 1))
    size = max(_stream_fit.SAMPLE_ROWS, 4 * est.n_components)
    sample = Sample(size, seed, crossed=est.intersectional)
    data = clone(est)._read(X, y, S, control, weight, reset=True)
    rows = Rows(X, y, S, control, weight)
    sample.add(0, rows, variables_of(data), data.index)
    est.prepare(**sample.rows().by_argument, folds="position")
    return est.partial_fit(**rows.by_argument)


# --------------------------------------------------------------------------- ways to hand it over


def parquet_files(frame, folder, n_files=3, row_group_size=170):
    for i, piece in enumerate(cut(frame, range(500, len(frame), len(frame) // n_files))):
        piece.to_parquet(folder / f"part{i}.parquet", row_group_size=row_group_size)
    return folder


def one_parquet(frame, folder, row_group_size=None):
    path = folder / "rows.parquet"
    frame.to_parquet(path, row_group_size=row_group_size)
    return path


def csv(frame, folder, name="rows.csv"):
    frame.to_csv(folder / name, index=False)
    return folder / name


def dataset(frame, folder):
    import pyarrow.dataset

    return pyarrow.dataset.dataset(str(parquet_files(frame, folder)), format="parquet")


def arrow(frame, folder):
    import pyarrow

    return pyarrow.Table.from_pandas(frame)


def polars_frames(frame, folder):
    import polars

    return [polars.from_pandas(piece) for piece in cut(frame, [100, 700])]


def record_batches(frame, folder):
    import pyarrow.parquet

    path = one_parquet(frame, folder)
    return lambda: pyarrow.parquet.ParquetFile(path).iter_batches(190)


def generator(frame, folder):
    return lambda: (piece for piece in cut(frame, [1, 300, 301, 900]))


def memmap(frame, folder):
    values = frame[[*FEATURES, "sex", "y"]].to_numpy(dtype=np.float64)
    out = np.memmap(folder / "rows.bin", dtype=np.float64, mode="w+", shape=values.shape)
    out[:] = values
    out.flush()
    return np.memmap(folder / "rows.bin", dtype=np.float64, mode="r", shape=values.shape)


NAMED_SOURCES = {
    "one frame": lambda frame, _: frame,
    "frames": lambda frame, _: cut(frame, [7, 600, 601]),
    "frames, some empty": lambda frame, _: cut(frame, [0, 400, 400, len(frame)]),
    "Parquet file": one_parquet,
    "Parquet row groups": lambda frame, folder: one_parquet(frame, folder, 170),
    "Parquet folder": parquet_files,
    "Parquet pattern": lambda frame, folder: str(parquet_files(frame, folder) / "part*.parquet"),
    "Parquet list": lambda frame, folder: sorted(parquet_files(frame, folder).iterdir()),
    "CSV": csv,
    "CSV, compressed": lambda frame, folder: csv(frame, folder, "rows.csv.gz"),
    "Arrow dataset": dataset,
    "Arrow table": arrow,
    "Arrow tables": lambda frame, folder: [arrow(piece, folder) for piece in cut(frame, [500])],
    "Arrow record batches": record_batches,
    "polars frames": polars_frames,
    "function of a generator": generator,
}


def triples(frame, folder):
    return [arrays(piece) for piece in cut(frame, [300, 1000])], {}


def dicts(frame, folder):
    roles = ("X", "y", "sensitive_features")
    return [dict(zip(roles, arrays(piece), strict=True)) for piece in cut(frame, [11])], {}


def memmap_columns(frame, folder):
    return memmap(frame, folder), {"target": 4, "sensitive_features": 3}


def memmap_list(frame, folder):
    given = {"target": 4, "sensitive_features": [3], "features": [0, 1, 2]}
    return memmap(frame, folder), given


def memmap_beside(frame, folder):
    _, y, S = arrays(frame)
    return memmap(frame, folder), {"target": y, "sensitive_features": S, "features": [0, 1, 2]}


def array_and_frame(frame, folder):
    X, y, _ = arrays(frame)
    return X, {"target": y, "sensitive_features": frame[["sex"]]}


NAMELESS_SOURCES = {
    "(X, y, S) blocks": triples,
    "dict blocks": dicts,
    "memmap, columns": memmap_columns,
    "memmap, lists of columns": memmap_list,
    "memmap, arrays": memmap_beside,
    "array, frame of S": array_and_frame,
}


# --------------------------------------------------------------------------- other processes


def moments_of_block(est, frame, start):
    """A worker: the moments of one block, in a copy of the prepared estimator."""
    X, y, S = arrays(frame)
    return est.partial_fit(X, y, sensitive_features=S, start=start, solve=False)


def digest(values):
    """What a process can print of an array."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def slow_fit(source, checkpoint, pause=0.3):
    """A fit that waits after every block, to be killed; it prints a digest if it is not."""
    from fairspan.streaming.checkpoint import SavedPass

    def save(self, moments, position):
        self.save(moments, position)
        time.sleep(pause)

    with small_blocks() as patch:
        patch.setattr(SavedPass, "save_if_due", save)
        model = ridge(alpha="auto").fit_stream(source, **NAMED, checkpoint=checkpoint)
    print(digest(outputs(model, table())))


def fit_on_a_full_disk(source, checkpoint, destination):
    """Fit, then predict, where no file can be longer than 4 KiB; print what came of it."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    with small_blocks(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = ridge(alpha="auto").fit_stream(source, **NAMED, checkpoint=checkpoint)
    try:
        model.predict_stream(source, destination)
    except OSError as error:
        failed = f"{type(error).__name__}: {error}"
    else:
        failed = "no error"
    found = [str(one.message) for one in said]
    print(json.dumps([digest(outputs(model, table())), found, failed]))


def slow_down(marker, pause):
    """On a Dask worker: take the moments slowly, and say so by a file."""
    from fairspan.streaming import engines as _engines

    whole = _engines.moments_of
    if hasattr(whole, "quick"):
        whole = whole.quick

    def slow(*args):
        Path(marker).touch()
        time.sleep(pause)
        return whole(*args)

    slow.quick = whole
    _engines.moments_of = slow


def speed_up():
    """Undo it."""
    from fairspan.streaming import engines as _engines

    _engines.moments_of = getattr(_engines.moments_of, "quick", _engines.moments_of)
