"""What happens to long fits: kill -9, a full disk, a file that goes bad, one row in a million."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fairspan import CheckpointError, RowError
from fairspan.streaming import fit as _stream_fit
from tests.support.stream_data import (
    NAMED,
    N,
    csv,
    digest,
    memmap,
    one_parquet,
    outputs,
    parquet_files,
    ridge,
    small_blocks,
    table,
)

parquet = pytest.importorskip("pyarrow.parquet")
ROOT = Path(__file__).resolve().parents[1]
ROWS = table()
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and limits of POSIX")


def fit(source, **given):
    with small_blocks():
        return ridge(alpha="auto").fit_stream(source, **NAMED, **given)


def start(call):
    """A new process that imports the tests' helpers."""
    script = f"from tests.support import stream_data as s\ns.{call}"
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def place_in(path):
    """Rows that a checkpoint is of; -1 if there is none yet."""
    if not path.exists():
        return -1
    with np.load(path) as file:
        return json.loads(file["header.json"].tobytes())["place"]


def wait_for(condition, process, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def assert_equal_fits(model, other):
    for name, value in vars(model.moments_).items():
        np.testing.assert_equal(value, getattr(other.moments_, name), err_msg=name)
    np.testing.assert_array_equal(outputs(model, ROWS), outputs(other, ROWS))
    assert model.alpha_ == other.alpha_


@POSIX
def test_killed_twice_and_resumed_it_is_the_fit_of_one_piece(tmp_path):
    source, path = parquet_files(ROWS, tmp_path), tmp_path / "fit.ckpt"
    for place in (1, 600):
        with start(f"slow_fit({str(source)!r}, {str(path)!r})") as process:
            wait_for(lambda place=place: place_in(path) >= place, process)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
    reached = place_in(path)
    assert 600 <= reached < N
    resumed = fit(source, checkpoint=path)
    assert place_in(path) == N
    assert_equal_fits(resumed, fit(source))


@POSIX
def test_a_full_disk_costs_the_checkpoint_and_not_the_fit(tmp_path):
    source, path = one_parquet(ROWS, tmp_path, 170), tmp_path / "fit.ckpt"
    with small_blocks() as patch:
        spoil_after_the_sample(patch, lambda: spoil(source, 4))
        good = source.read_bytes()
        with pytest.raises(OSError, match="row group 4"):
            ridge(alpha="auto").fit_stream(source, **NAMED, checkpoint=path)
    source.write_bytes(good)
    before, reached = path.read_bytes(), place_in(path)
    out = tmp_path / "out"
    out.mkdir()
    (out / "p.parquet").write_bytes(b"old")
    call = f"fit_on_a_full_disk({str(source)!r}, {str(path)!r}, {str(out / 'p.parquet')!r})"
    with start(call) as process:
        said, errors = process.communicate()
    assert process.returncode == 0, errors
    # numpy 2.0 leaves a zip file open, which says so when it is collected.
    noise = r"Exception ignored in: <function ZipFile.__del__.*?seek of closed file\n"
    assert "Traceback" not in re.sub(noise, "", errors, flags=re.DOTALL), errors
    found, warned, failed = json.loads(said)
    assert found == digest(outputs(fit(source), ROWS))
    assert len(warned) == 1
    assert str(path) in warned[0]
    assert f"the last one, of {reached} rows, is kept" in warned[0]
    assert path.read_bytes() == before
    assert failed.startswith("OSError")
    assert (out / "p.parquet").read_bytes() == b"old"
    left = {p.name for p in [*tmp_path.iterdir(), *out.iterdir()] if p.suffix != ".parquet"}
    assert left == {"fit.ckpt", "out"}


# --------------------------------------------------------------------------- files that go bad


def spoil(path, group):
    """Overwrite where the pages of a row group begin; a bad disk leaves the file's date as it is."""
    date = path.stat().st_mtime_ns
    where = parquet.ParquetFile(path).metadata.row_group(group).column(1)
    offset = where.dictionary_page_offset or where.data_page_offset
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\xff" * min(200, where.total_compressed_size))
    os.utime(path, ns=(date, date))


def spoil_after_the_sample(patch, action):
    whole = _stream_fit.take_moments

    def take(*args):
        action()
        return whole(*args)

    patch.setattr(_stream_fit, "take_moments", take)


def test_a_bad_row_group_is_named(tmp_path):
    source = one_parquet(ROWS, tmp_path, 300)
    spoil(source, 2)
    with pytest.raises(OSError, match="row group 2: rows from 600 on") as caught:
        fit(source)
    assert str(source) in str(caught.value)


def test_a_file_that_goes_bad_midway_costs_only_what_follows(tmp_path):
    source, path = one_parquet(ROWS, tmp_path, 300), tmp_path / "fit.ckpt"
    whole, good = fit(source), source.read_bytes()
    model = ridge(alpha="auto")
    with small_blocks() as patch:
        spoil_after_the_sample(patch, lambda: spoil(source, 3))
        with pytest.raises(OSError, match="row group 3"):
            model.fit_stream(source, **NAMED, checkpoint=path)
    assert not hasattr(model, "pilot_")
    assert place_in(path) == 768  # three blocks of 256; row 900 begins the bad group
    source.write_bytes(good)
    assert_equal_fits(fit(source, checkpoint=path), whole)


@pytest.mark.parametrize("rows", [N - 100, N + 100])
def test_a_file_that_changes_between_the_passes_is_named(rows, tmp_path):
    source = tmp_path / "rows.csv"
    ROWS.to_csv(source, index=False)
    with small_blocks() as patch:
        spoil_after_the_sample(patch, lambda: table(rows).to_csv(source, index=False))
        with pytest.raises(OSError, match="changed its size") as caught:
            ridge().fit_stream(source, **NAMED)
    assert str(source) in str(caught.value)


@pytest.mark.parametrize("rows", [N - 100, N + 100])
def test_a_parquet_file_that_changes_between_the_passes_is_named(rows, tmp_path):
    source = one_parquet(ROWS, tmp_path, 300)
    model = ridge()
    with small_blocks() as patch:
        spoil_after_the_sample(patch, lambda: one_parquet(table(rows), tmp_path, 300))
        with pytest.raises((OSError, ValueError), match=r"rows\.parquet"):
            model.fit_stream(source, **NAMED)
    assert not hasattr(model, "pilot_")


OLD = 10**18  # a time of the last change, in nanoseconds, long before any test


def feather(frame, folder):
    import pyarrow.feather

    pyarrow.feather.write_feather(frame, str(folder / "rows.feather"), compression="uncompressed")
    return folder / "rows.feather"


def plain_parquet(frame, folder):
    path = folder / "rows.parquet"
    frame.to_parquet(
        path,
        row_group_size=300,
        compression=None,
        column_encoding="PLAIN",
        use_dictionary=False,
        write_statistics=False,
    )
    return path


def written_again(path, frame, write):
    """Other rows in a file of the same size."""
    size = path.stat().st_size
    write(frame, path.parent)
    assert path.stat().st_size == size


FORMATS = {"CSV": csv, "Parquet": plain_parquet, "Feather": feather}
OTHER = ROWS.assign(y=ROWS["y"].to_numpy()[::-1], sex=1 - ROWS["sex"])
CHANGED = "changed its contents .* since it was opened"


@pytest.mark.regression("a file changed in place between the two passes is not noticed")
@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_is_written_again_between_the_passes_is_named(kind, tmp_path):
    write, model = FORMATS[kind], ridge()
    source = write(ROWS, tmp_path)
    os.utime(source, ns=(OLD, OLD))
    with small_blocks() as patch:
        spoil_after_the_sample(patch, lambda: written_again(source, OTHER, write))
        with pytest.raises(OSError, match=CHANGED) as caught:
            model.fit_stream(source, **NAMED)
    assert str(source) in str(caught.value)
    assert not hasattr(model, "pilot_")


@pytest.mark.regression("a file changed in place between the two passes is not noticed")
def test_a_memory_map_whose_file_is_written_again_is_named(tmp_path):
    rows = memmap(ROWS, tmp_path)
    os.utime(rows.filename, ns=(OLD, OLD))
    with small_blocks() as patch:
        spoil_after_the_sample(patch, lambda: written_again(rows.filename, OTHER, memmap))
        with pytest.raises(OSError, match=CHANGED):
            ridge().fit_stream(rows, target=4, sensitive_features=3)


@pytest.mark.regression("a file changed in place between the two passes is not noticed")
def test_a_file_that_changes_while_it_is_predicted_leaves_no_predictions(tmp_path, monkeypatch):
    from fairspan.streaming import predict as _stream_predict

    source = csv(ROWS, tmp_path)
    os.utime(source, ns=(OLD, OLD))
    model, columns = fit(source), _stream_predict._columns

    def slowly(*args):
        os.utime(source)
        return columns(*args)

    monkeypatch.setattr(_stream_predict, "_columns", slowly)
    monkeypatch.setattr(_stream_predict, "_BLOCK_ROWS", 100)
    monkeypatch.setattr("fairspan.streaming.arrow._READ_ROWS", 100)
    with pytest.raises(OSError, match=CHANGED):
        model.predict_stream(source, tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_checkpoint_of_a_file_that_was_written_again_is_refused(kind, tmp_path):
    """By its rows, so that a copy of the file, or a new date alone, is no hindrance."""
    write, path = FORMATS[kind], tmp_path / "fit.ckpt"
    source = write(ROWS, tmp_path)
    whole = fit(source, checkpoint=path)
    write(ROWS, tmp_path)
    os.utime(source, ns=(OLD, OLD))
    assert_equal_fits(fit(source, checkpoint=path), whole)
    written_again(source, OTHER, write)
    with pytest.raises(CheckpointError, match=r"the rows.* are others"):
        fit(source, checkpoint=path)


# --------------------------------------------------------------------------- one in a million

MILLION, BAD = 1_000_000, 765_432


def million(column="a"):
    """A million rows, one of them not a number; two features."""
    for start in range(0, MILLION, 50_000):
        frame = table(50_000, seed=start)[["a", "b", "sex", "y"]]
        if start <= BAD < start + 50_000:
            frame.loc[BAD - start, column] = np.nan
        yield frame


def test_one_row_of_a_million_is_named():
    with pytest.raises(RowError, match=r"Row 765432 of all") as caught:
        ridge(n_components=10).fit_stream(million, **NAMED)
    assert (caught.value.name, caught.value.row) == ("block 15", 15_432)


def test_one_row_of_a_million_in_a_file_is_named(tmp_path):
    import pyarrow

    path = tmp_path / "million.parquet"
    schema = pyarrow.Schema.from_pandas(next(million()))
    with parquet.ParquetWriter(path, schema) as file:
        for frame in million("y"):
            file.write_table(pyarrow.Table.from_pandas(frame, schema=schema), row_group_size=2**16)
    with pytest.raises(RowError, match="y contains NaN") as caught:
        ridge(n_components=10).fit_stream(path, **NAMED)
    assert (caught.value.name, caught.value.row) == (str(path), BAD)
