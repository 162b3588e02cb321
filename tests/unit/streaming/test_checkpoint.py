"""The file of a checkpoint: whole or refused, and never half of one."""

import json
import os
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from fairspan import CheckpointError
from fairspan.streaming import Checkpoint
from fairspan.streaming import checkpoint as _checkpoint

HEADER = {"place": 3, "seed": None, "about": {"a": "1", "b": [1, 2]}}
ARRAYS = {"moments": np.arange(20.0).reshape(4, 5), "none": np.empty((0, 3)), "count": np.arange(3)}
# numpy.load leaves a file open that is no whole archive; see the test of that below.
UNCLOSED = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


@pytest.fixture
def file(tmp_path):
    checkpoint = Checkpoint(tmp_path / "fit.ckpt")
    checkpoint.save(HEADER, ARRAYS)
    return checkpoint


def is_whole(found):
    header, arrays = found
    same = all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)
    return header == HEADER and arrays.keys() == ARRAYS.keys() and same


def test_round_trip_and_nothing_else_in_the_folder(file):
    assert is_whole(file.load())
    assert [path.name for path in file.path.parent.iterdir()] == ["fit.ckpt"]


def test_no_file_is_no_checkpoint(tmp_path):
    assert Checkpoint(tmp_path / "new").load() is None


@UNCLOSED
def test_every_truncation_is_refused_and_named(file):
    whole = file.path.read_bytes()
    for length in (*range(0, len(whole), 5), len(whole) - 1):
        file.path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=re.escape(str(file.path))):
            file.load()


@UNCLOSED
def test_every_flipped_bit_is_refused_or_harmless(file):
    whole = file.path.read_bytes()
    for place in range(len(whole)):
        for bit in (0,) if place % 4 else (0, 5):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            file.path.write_bytes(damaged)
            with suppress(CheckpointError):
                assert is_whole(file.load())


def test_numbers_that_were_changed_in_a_whole_file_are_refused(file):
    with np.load(file.path) as found:
        inside = dict(found)
    inside["moments"] = inside["moments"] + 1.0
    with file.path.open("wb") as handle:
        np.savez(handle, **inside)
    with pytest.raises(CheckpointError, match="do not agree with its digest"):
        file.load()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files as Linux does")
@UNCLOSED
def test_a_damaged_file_is_closed(file):
    file.path.write_bytes(file.path.read_bytes()[:-5])
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(CheckpointError) as caught:
        file.load()
    assert len(os.listdir("/proc/self/fd")) == before
    del caught


def savez(file):
    np.savez(file, a=np.ones(3))


def npy(file):
    np.save(file, np.ones(3))


def other_kind(file):
    header = np.frombuffer(json.dumps({"kind": "other"}).encode(), dtype=np.uint8)
    np.savez(file, **{"header.json": header})


def no_json(file):
    np.savez(file, **{"header.json": np.zeros(3, dtype=np.uint8)})


FOREIGN = {
    "an npz": savez,
    "text": lambda file: file.write(b"hello\n"),
    "nothing": lambda _: None,
    "another kind": other_kind,
    "no JSON": no_json,
    "an npy": npy,
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused(kind, tmp_path):
    path = tmp_path / "fit.ckpt"
    with path.open("wb") as file:
        FOREIGN[kind](file)
    with pytest.raises(CheckpointError, match=r"not a fairspan checkpoint.*Give another path"):
        Checkpoint(path).load()


def test_a_later_format_is_refused(file, monkeypatch):
    monkeypatch.setattr(_checkpoint, "FORMAT", 2)
    file.save(HEADER, ARRAYS)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="has format 2, and this version reads format 1"):
        file.load()


def test_what_differs_is_said(file):
    header = file.load()[0]
    file.check({"about": {"a": "1", "b": (1, 2)}}, header)
    with pytest.raises(
        CheckpointError, match=r"its about differs \(b: \[1, 2\] there, \[1\] here\)"
    ):
        file.check({"about": {"a": "1", "b": [1]}}, header)
    with pytest.raises(CheckpointError, match=r"its place differs \(3 there, 4 here\)"):
        file.check({"place": 4}, header)


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_save_that_fails_leaves_the_old_file(file, monkeypatch, error):
    def broken(handle, **arrays):
        handle.write(b"half of it")
        raise error

    monkeypatch.setattr(np, "savez", broken)
    with pytest.raises(error):
        file.save({**HEADER, "place": 9}, ARRAYS)
    assert is_whole(file.load())
    assert [path.name for path in file.path.parent.iterdir()] == ["fit.ckpt"]


def test_a_folder_and_a_missing_folder_are_refused(tmp_path):
    with pytest.raises(ValueError, match="is a folder; give the name of a file"):
        Checkpoint(tmp_path)
    with pytest.raises(ValueError, match=r"the folder '.*absent' does not exist"):
        Checkpoint(tmp_path / "absent" / "fit.ckpt")


def test_a_checkpoint_that_may_not_be_read_is_the_systems_error(tmp_path, monkeypatch):
    """It may be whole: to call it damaged would invite to delete it."""
    file = Checkpoint(tmp_path / "pass.npz")
    file.save({"a": 1}, {"x": np.ones(3)})

    def locked(*_):
        raise PermissionError("not yours")

    monkeypatch.setattr("pathlib.Path.open", locked)
    with pytest.raises(PermissionError, match="not yours"):
        file.load()
