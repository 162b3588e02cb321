"""Dask collections: refused ones, parts of unknown length, checkpoints, lost workers."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("polars")

from tests.support.stream_data import FEATURES, ridge, table

from fairspan import CheckpointError
from fairspan.streaming import Rows
from fairspan.streaming import dask as _stream_dask

ROWS = table(300)
X, Y, S = ROWS[FEATURES], ROWS["y"], ROWS["sex"]


def test_dask_collections_that_cannot_be_streamed_are_refused():
    da = pytest.importorskip("dask.array")
    bag = pytest.importorskip("dask.bag")
    given = {"target": Y.to_numpy(), "sensitive_features": S.to_numpy()}
    for source in (bag.from_sequence([1, 2]), da.ones((3, 3, 3))):
        with pytest.raises(TypeError, match="a data frame, or a matrix"):
            ridge().fit_stream(source, **given)
    with pytest.raises(ValueError, match="rows, the features have 300"):
        ridge().fit_stream(da.from_array(X.to_numpy()), **{**given, "target": da.ones(299)})


def test_a_device_is_not_for_dask(monkeypatch):
    da = pytest.importorskip("dask.array")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())  # as if torch were there
    with pytest.raises(ValueError, match="device is not for Dask"):
        ridge().fit_stream(
            da.from_array(X.to_numpy()),
            target=Y.to_numpy(),
            sensitive_features=S.to_numpy(),
            device="cpu",
        )


def test_rows_of_parts_that_do_not_know_their_number_are_counted():
    class Part:
        def read(self):
            yield Rows(np.ones((3, 1)), None, None, None, None)
            yield Rows(np.ones((4, 1)), None, None, None, None)

    assert _stream_dask._n_rows(Part(), None) == 7
    assert _stream_dask._n_rows(Part(), {"frame": ROWS}) == 300


def a_source(counts):
    return SimpleNamespace(
        parts=[SimpleNamespace(n_rows=n) for n in counts],
        starts=lambda: np.r_[0, np.cumsum(counts)].tolist(),
    )


def test_a_checkpoint_inside_a_wave_is_of_other_parts(monkeypatch):
    source = a_source([10] * _stream_dask.WAVE)
    with pytest.raises(CheckpointError, match="ends at row 15, inside a wave"):
        list(_stream_dask._waves(source, 15, None, (), None))


@pytest.mark.parametrize(("n_lost", "survives"), [(1, True), (10**9, False)])
def test_a_wave_whose_workers_died_is_sent_again(monkeypatch, n_lost, survives):
    class CancelledError(Exception):
        pass

    calls = {"sent": 0, "computed": 0}

    def send(fixed, plan):
        calls["sent"] += 1
        return fixed

    def compute(*_):
        calls["computed"] += 1
        if calls["computed"] <= n_lost:
            raise CancelledError
        return "sum"

    monkeypatch.setattr(_stream_dask, "_share", send)
    monkeypatch.setattr(_stream_dask, "_compute", compute)
    waves = _stream_dask._waves(a_source([10]), 0, None, (), None)
    if survives:
        assert list(waves) == [(0, 10, "sum")]
        assert calls == {"sent": 2, "computed": 2}
    else:
        with pytest.raises(CancelledError):
            list(waves)
        assert calls["computed"] == _stream_dask._ATTEMPTS
