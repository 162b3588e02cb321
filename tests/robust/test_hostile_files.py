"""Files that mean harm are refused, in words, in little memory, and run nothing."""

import ast
import io
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from importlib.metadata import version
from pathlib import Path

import narwhals as nw
import numpy as np
import pytest

pytest.importorskip("skops")
pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from fairspan import DataWarning, FairRidge, load_model, save_model
from fairspan import _system as _files
from fairspan.streaming import Checkpoint, open_source
from fairspan.tables import files as _reading
from tests.robust import hostile_files as hostile
from tests.support.small import FIXED, table

ROOT = Path(__file__).resolve().parents[2]
MOST_MEMORY, MOST_SECONDS = 48 * 2**20, 120.0
# What numpy or scikit-learn say about a foreign object inside a file is not for users to act on.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def unprintable(text):
    return {c for c in text if not c.isprintable()}


@pytest.mark.parametrize("name", hostile.NAMES)
def test_a_hostile_file_is_refused_in_words_and_runs_nothing(name):
    one = hostile.HOSTILE[hostile.NAMES.index(name)]
    start = time.monotonic()
    message, ran, most = hostile.run(one)
    assert message is not None, "it was read"
    assert not ran, "code in it was run"
    assert most < MOST_MEMORY
    assert time.monotonic() - start < MOST_SECONDS
    assert len(message) < 1000
    assert not unprintable(message)
    assert hostile.WHY.get(name, "") in message


def test_there_are_many_of_them_with_names_of_their_own():
    assert len(set(hostile.NAMES)) == len(hostile.NAMES) >= 100
    assert {one.reader for one in hostile.HOSTILE} == set(hostile.READERS)
    assert set(hostile.WHY) <= set(hostile.NAMES)


def test_the_files_they_are_made_of_are_good(tmp_path):
    """Else they were refused for what they are not made for."""
    (tmp_path / "model").write_bytes(hostile.model_bytes())
    assert isinstance(load_model(tmp_path / "model"), FairRidge)
    repacked = hostile.archive_of(hostile.parts_of(hostile.model_bytes()))
    (tmp_path / "model").write_bytes(repacked)
    assert isinstance(load_model(tmp_path / "model"), FairRidge)
    (tmp_path / "model").write_bytes(hostile.with_schema(dict))
    assert isinstance(load_model(tmp_path / "model"), FairRidge)
    repacked = hostile.archive_of(hostile.parts_of(hostile.checkpoint_bytes()))
    (tmp_path / "fit").write_bytes(repacked)
    assert Checkpoint(tmp_path / "fit").load()[0] == {"place": 3}
    for kind in ("csv", "parquet", "feather"):
        path = tmp_path / f"rows.{kind}"
        path.write_bytes(hostile.table_bytes(kind))
        hostile.read_stream(path)
    hostile.read_command_line(tmp_path / "rows.csv")
    hostile.read_command_line(tmp_path / "rows.parquet")


@pytest.mark.parametrize("share", np.linspace(0.0, 0.999, 23))
@pytest.mark.parametrize("kind", ["model", "checkpoint"])
def test_every_cut_is_refused(kind, share, tmp_path):
    whole = {"model": hostile.model_bytes, "checkpoint": hostile.checkpoint_bytes}[kind]()
    path = tmp_path / "file"
    path.write_bytes(whole[: int(share * len(whole))])
    read, allowed = hostile.READERS[kind]
    with pytest.raises(allowed, match="damaged"):
        read(path)


# ------------------------------------------------------------------ what runs code is not there

UNPICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml"}
# Spark: what executors of a job send each other, never a file.
WITHIN_A_JOB = {"spark.py": {"pickle"}}


def calls(tree):
    """Names that a file calls, with their module where it is written, and their keywords."""
    for one in ast.walk(tree):
        if isinstance(one, ast.Call):
            yield ast.unparse(one.func), {k.arg: ast.unparse(k.value) for k in one.keywords}


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda p: p.name)
def test_the_library_never_unpickles_or_evaluates(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    modules = set()
    for one in ast.walk(tree):
        if isinstance(one, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in one.names}
        elif isinstance(one, ast.ImportFrom) and one.module:
            modules.add(one.module.partition(".")[0])
    assert not modules & (UNPICKLES - WITHIN_A_JOB.get(path.name, set()))
    for name, keywords in calls(tree):
        last = name.rpartition(".")[2]
        assert last not in ("eval", "exec", "read_pickle", "unpickle") or "self." in name, name
        assert name not in ("os.system", "compile", "__import__"), name
        assert keywords.get("allow_pickle", "False") == "False", name
        assert keywords.get("shell", "False") == "False", name
        if name in ("np.load", "numpy.load", "np.memmap"):
            assert keywords.get("allow_pickle") == "False", f"{name} without allow_pickle=False"
    assert not re.search(r"allow_pickle\s*=\s*True", text)


# ------------------------------------------------------------------ what we save, we load

NODE_WORDS = ["__id__", "__loader__", "__class__", "file", "content", "schema.json", "numpy"]


@pytest.mark.parametrize("word", NODE_WORDS)
def test_names_that_mean_something_to_the_format_are_only_names(word, tmp_path):
    X, y, s = table()
    levels = np.where(s, word, "other")
    model = FairRidge(**FIXED, n_components=8)
    model.fit(X, y.astype(float), sensitive_features={word: levels})
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert list(loaded.sensitive_kinds_) == [word]


def test_what_could_not_be_loaded_again_is_not_saved(tmp_path):
    from scipy.sparse import eye_array

    X, y, s = table()
    model = FairRidge(**FIXED, n_components=8).fit(X, y.astype(float), sensitive_features=s)
    model.beside_ = eye_array(3).tocsr()  # skops keeps it as a compressed file of its own
    if tuple(map(int, version("skops").split(".")[:2])) < (0, 14):
        pytest.skip("this skops keeps it as an object of scipy's, which is refused when loaded")
    with pytest.raises(ValueError, match=r"cannot be saved: in its file, its part .* not an array"):
        save_model(model, tmp_path / "model.skops")
    assert list(tmp_path.iterdir()) == []


def test_memory_that_is_short_is_not_called_damage(tmp_path, monkeypatch):
    import skops.io

    def short(*args, **kwargs):
        raise MemoryError

    path = tmp_path / "model.skops"
    path.write_bytes(hostile.model_bytes())
    for name in ("load", "get_untrusted_types"):
        with monkeypatch.context() as patch:
            patch.setattr(skops.io, name, short)
            with pytest.raises(MemoryError):
                load_model(path)


def test_an_archive_is_not_unpacked_to_be_refused(monkeypatch, tmp_path):
    """Only the directory and the heads of arrays are read."""
    read = []
    real = zipfile.ZipExtFile.read

    def counted(self, n=-1):
        found = real(self, n)
        read.append(len(found))
        return found

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    big = hostile.archive_of({"a.npy": hostile.npy(np.zeros(10**6)), "b": bytes(10**6)})
    _files.check_archive(io.BytesIO(big))
    assert sum(read) < 10_000


def test_a_laughing_schema_of_any_kind_is_refused_at_once():
    from fairspan.persistence import _check_schema

    def laugh(depth, number):
        inner = hostile.text_node("ha", 1)
        for k in range(depth):
            inner = hostile.list_node([inner, {"__id__": number(inner["__id__"])}], 2 + k)
        return inner

    start = time.monotonic()
    for number in (int, float, lambda n: n == 1 or n, str):
        with pytest.raises(ValueError, match=r"schema\.json"):
            _check_schema(laugh(30, number))
    assert time.monotonic() - start < 1.0
    _check_schema(json.loads(hostile.parts_of(hostile.model_bytes())["schema.json"]))


# ------------------------------------------------------------------ large, but never in memory

ROWS = 5_000_000


def constant_parquet(path):
    import pyarrow
    from pyarrow import parquet

    zeros = pyarrow.array(np.zeros(2**20))
    one = pyarrow.table(dict.fromkeys("abcsy", zeros))
    with parquet.ParquetWriter(path, one.schema) as file:
        for _ in range(ROWS // 2**20):
            file.write_table(one)


def read_all(path):
    """In a process of its own: print rows, and by how many bytes memory grew."""
    import resource  # not on Windows

    source = open_source(path, target="y", sensitive="s")
    first = next(source.parts[0].read())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    n = sum(len(rows) for part in source.parts for rows in part.read())
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([n, len(first), 1024 * (after - before)]))


@pytest.mark.skipif(sys.platform == "win32", reason="memory is measured as POSIX does")
@pytest.mark.parametrize("kind", ["csv.gz", "parquet"])
def test_a_small_file_of_many_rows_is_read_in_little_memory(kind, tmp_path):
    path = tmp_path / f"zeros.{kind}"
    if kind == "parquet":
        constant_parquet(path)
    else:
        size = 10 * ROWS
        path.write_bytes(hostile.bomb_bytes(kind.rpartition(".")[2], size))
    text = f"from tests.robust.test_hostile_files import read_all; read_all({str(path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    n, first, grown = json.loads(done.stdout)
    assert n > 4_000_000
    assert first <= 2**16
    unpacked = 5 * 8 * n
    assert path.stat().st_size < unpacked / 100
    assert grown < min(unpacked / 2, 200 * 2**20)


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_the_command_line_stops_where_memory_would_end(kind, tmp_path, monkeypatch):
    path = tmp_path / f"zeros.csv.{kind}"
    path.write_bytes(hostile.bomb_bytes(kind, 2**23))
    assert path.stat().st_size < 2**17
    monkeypatch.setattr(_reading, "memory_bytes", lambda: 2**23)
    with pytest.raises(ValueError, match=r"does not fit in memory\. In Python, fit_stream"):
        hostile.read_command_line(path)
    path.write_bytes(hostile.bomb_bytes(kind, 2**20))
    monkeypatch.undo()
    assert len(_reading.read_table(path)) == 2**20 // 10


def test_many_columns_are_columns(tmp_path, monkeypatch):
    """Thousands of features: the right answer, and splitting a block by role is not quadratic."""
    n, d = 40, 2_000
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).round(3)
    s = np.arange(n) % 2
    lines = [",".join([*(f"c{k}" for k in range(d)), "s", "y"])]
    lines += [",".join(map(str, [*row, k, row[0]])) for row, k in zip(X, s, strict=True)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    model = FairRidge(
        gamma=1e-4, eta=1e-3, alpha=1.0, n_components=10, random_state=0, removal="training_rows"
    )
    model.fit_stream(path, target="y", sensitive_features="s")
    assert model.n_features_in_ == d
    beside = FairRidge(**model.get_params()).fit(X, X[:, 0], sensitive_features=s)
    import pandas as pd

    new = pd.DataFrame(X[:5], columns=lines[0].split(",")[:d])
    np.testing.assert_allclose(model.predict(new), beside.predict(X[:5]), atol=1e-6)
    asked = []
    real = nw.DataFrame.columns.fget
    monkeypatch.setattr(
        nw.DataFrame, "columns", property(lambda self: asked.append(1) or real(self))
    )
    source = open_source(path, target="y", sensitive="s")
    assert sum(len(rows) for rows in source.parts[0].read()) == n
    assert len(asked) < 100


def test_text_that_is_not_utf8_is_an_error(tmp_path):
    text = hostile.table_bytes("csv").replace(b",1,", b",\xff\xfe,")
    path = tmp_path / "rows.csv"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=r"rows\.csv: the column 's' is not UTF-8"):
        FairRidge(**FIXED, n_components=8).fit_stream(path, **hostile.NAMED)
    with pytest.warns(
        DataWarning, match=r"encoding cp1252 \(as in '\xff\xfe'\)\. Pass encoding='cp1252'"
    ):
        _reading.read_table(path)


def test_a_name_as_long_as_a_file_system_allows(tmp_path):
    path = tmp_path / ("x" * 250)
    path.write_bytes(hostile.model_bytes())
    model = load_model(path)
    save_model(model, path)
    wide = tmp_path / ("ä" * 120)
    save_model(model, wide)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([path.name, wide.name])


SPOILED_HEADERS = {"place": "x", "fingerprint": None, "data": 3, "sum_log_weight": "x"}


def test_a_checkpoint_with_a_right_digest_and_wrong_contents_is_refused(tmp_path):
    """Whoever changes numbers can write the digest anew: shapes and kinds are looked at, too."""
    from fairspan import CheckpointError
    from tests.robust.test_faults import ridge, streamed

    file = Checkpoint(tmp_path / "fit.ckpt")
    streamed(ridge(), checkpoint=file.path)
    header, arrays = file.load()
    cases = [({**header, key: value}, arrays) for key, value in SPOILED_HEADERS.items()]
    for name in arrays:
        cases.append((header, {key: arrays[key] for key in arrays if key != name}))
        cases.append((header, {**arrays, name: np.zeros(3)}))
        cases.append((header, {**arrays, name: np.full(arrays[name].shape, np.nan)}))
    for spoiled in cases:
        file.save(*spoiled)
        with pytest.raises(CheckpointError):
            streamed(ridge(), checkpoint=file.path)
